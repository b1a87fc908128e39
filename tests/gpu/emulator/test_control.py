"""Branches, divergence, barriers, and shared-memory races."""

import numpy as np
import pytest

from graphfuse.gpu.emulator import EmulatorError
from graphfuse.gpu.emulator.flow import reconvergence
from graphfuse.gpu.emulator.parse import parse
from tests.gpu.emulator.ptx import entry, launch, line_of

STORE = "\tmad.lo.u32 %r100, %c, 64, %t;\n\tmad.wide.u32 %d1, %r100, 4, %p0;\n\tst.global.u32 [%d1], %r1;"


def run(body, *, grid=1, block=64, decls="", seed=0, params=("p0",)):
    out = np.zeros(grid * 64, np.uint32)
    launch(entry(body + "\n" + STORE, list(params), decls), [out], grid=grid, block=block, seed=seed)
    return out


def test_divergent_branches():
    body = """
    mov.u32 %r1, 0;
    and.b32 %r2, %t, 1;
    setp.eq.u32 %q1, %r2, 0;
    @%q1 bra EVEN;
    setp.gt.u32 %q2, %t, 40;
    @%q2 bra BIG;
    mov.u32 %r1, 1;
    bra JOIN;
BIG:
    mov.u32 %r1, 2;
    bra JOIN;
EVEN:
    mov.u32 %r1, 3;
JOIN:
    activemask.b32 %r3;
    setp.eq.u32 %q3, %r3, -1;
    @!%q3 add.u32 %r1, %r1, 100;
    """
    t = np.arange(64)
    assert (run(body) == np.where(t % 2 == 0, 3, np.where(t > 40, 2, 1))).all()


def test_loops_with_different_trip_counts():
    """Collatz steps: each lane leaves the loop on its own; behind it the warp is whole."""
    body = """
    add.u32 %r2, %t, 1; mov.u32 %r1, 0;
LOOP:
    setp.eq.u32 %q1, %r2, 1;
    @%q1 bra DONE;
    and.b32 %r3, %r2, 1;
    setp.eq.u32 %q2, %r3, 0;
    @%q2 bra HALVE;
    mad.lo.u32 %r2, %r2, 3, 1;
    bra NEXT;
HALVE:
    shr.u32 %r2, %r2, 1;
NEXT:
    add.u32 %r1, %r1, 1;
    bra LOOP;
DONE:
    activemask.b32 %r4;
    setp.ne.u32 %q3, %r4, -1;
    @%q3 trap;
    """

    def steps(n):
        return 0 if n == 1 else 1 + steps(n // 2 if n % 2 == 0 else 3 * n + 1)

    for seed in range(3):
        assert run(body, seed=seed).tolist() == [steps(n) for n in range(1, 65)]


def test_lanes_that_leave():
    body = """
    mov.u32 %r1, 7;
    setp.lt.u32 %q1, %t, 10;
    @%q1 ret;
    setp.gt.u32 %q2, %t, 50;
    @%q2 exit;
    """
    t = np.arange(64)
    assert (run(body) == np.where((t >= 10) & (t <= 50), 7, 0)).all()


def test_partial_warps():
    out = np.zeros(64, np.uint32)
    body = "\tactivemask.b32 %r1;\n" + STORE
    launch(entry(body, ["p0"]), [out], block=40)
    assert (out[:32] == 0xFFFFFFFF).all()
    assert (out[32:40] == 0xFF).all()
    assert (out[40:] == 0).all()


def test_indexed_branch():
    body = """
    rem.u32 %r2, %t, 3;
LIST: .branchtargets A, B, C;
    brx.idx %r2, LIST;
A:  mov.u32 %r1, 10; bra END;
B:  mov.u32 %r1, 11; bra END;
C:  mov.u32 %r1, 12;
END:
    """
    assert (run(body) == 10 + np.arange(64) % 3).all()
    with pytest.raises(EmulatorError, match=r"brx.idx: index 3: the list has 3 labels: CTA \(0, 0, 0\) warp 0 lane 3"):
        run(body.replace("rem.u32 %r2, %t, 3", "mov.u32 %r2, %t"))


def test_reconvergence_is_the_post_dominator():
    ptx = entry("""
    setp.eq.u32 %q1, %t, 0;
    @%q1 bra A;
    mov.u32 %r1, 1;
    @%q1 ret;
A:  mov.u32 %r1, 2;
    @%q1 bra B;
    bra C;
B:  mov.u32 %r1, 3;
C:  mov.u32 %r1, 4;
    """)
    kernel = parse(ptx).kernels["k"]
    found = reconvergence(kernel)
    branches = [pc for pc, i in enumerate(kernel.code) if i.name == "bra"]
    # through `@%q1 ret` the first one's sides may never meet
    assert [found[pc] for pc in branches] == [-1, kernel.labels["C"], kernel.labels["C"]]


def test_trap():
    with pytest.raises(EmulatorError, match=r"trap: the kernel trapped: CTA \(1, 0, 0\) warp 0 lane 5"):
        run("\tsetp.eq.u32 %q1, %t, 5;\n\tsetp.eq.and.u32 %q1, %c, 1, %q1;\n\t@%q1 trap;\n\tmov.u32 %r1, 0;", grid=2)


# barriers

SHARED = "\t.shared .align 4 .b8 s[256];\n"
EXCHANGE = """
    shl.b32 %r2, %t, 2; mov.b32 %r3, s; add.s32 %r2, %r2, %r3;
    st.shared.u32 [%r2], %t;
    bar.sync 0;
    xor.b32 %r4, %t, 32; shl.b32 %r4, %r4, 2; add.s32 %r4, %r4, %r3;
    ld.shared.u32 %r1, [%r4];
"""


@pytest.mark.parametrize(
    "form", ["bar.sync 0", "bar.sync 3, 64", "barrier.cta.sync.aligned 1", "barrier.sync.aligned 2, 64"]
)
def test_barriers_order_shared_memory(form):
    for seed in range(3):
        out = run(EXCHANGE.replace("bar.sync 0", form), decls=SHARED, grid=3, seed=seed)
        assert (out.reshape(3, 64) == np.arange(64) ^ 32).all()


def test_missing_barrier_is_a_race():
    ptx = entry(EXCHANGE.replace("    bar.sync 0;\n", "") + STORE, ["p0"], SHARED)
    messages = set()
    for seed in range(8):
        with pytest.raises(EmulatorError) as e:
            launch(ptx, [np.zeros(64, np.uint32)], block=64, seed=seed)
        assert e.value.loc
        messages.add((e.value.message, e.value.loc.line))
    store, load = line_of(ptx, "st.shared"), line_of(ptx, "ld.shared")
    want = "ld.shared.u32: race: read of shared byte 0x480 (s + 128) is not ordered after its write by warp 1 "
    assert (f"{want}(line {store}): CTA (0, 0, 0) warp 0 lane 0", load) in messages


def test_missing_barrier_before_reuse_is_a_race():
    body = EXCHANGE + "\tst.shared.u32 [%r2], %r1;\n"
    ptx = entry(body, [], SHARED)
    with pytest.raises(
        EmulatorError, match=r"race: write of shared byte 0x\w+ \(s \+ \d+\) is not ordered after its read by warp \d"
    ) as e:
        launch(ptx, [], block=64)
    assert e.value.loc
    assert e.value.loc.line == line_of(ptx, "st.shared", 1)


def test_two_warps_write_one_place():
    ptx = entry("\tshr.u32 %r1, %t, 5; st.shared.u32 [s], %r1;", [], SHARED)
    with pytest.raises(
        EmulatorError,
        match=r"race: (two warps write|write of|lanes that .* different values to) shared byte 0x400 \(s \+ 0\)",
    ) as e:
        launch(ptx, [], block=64)
    assert e.value.loc
    assert e.value.loc.line == line_of(ptx, "st.shared")


def test_two_warps_write_the_same():
    """At once, or one after the other: a note."""
    for seed in range(5):
        (note,) = launch(entry("\tst.shared.u32 [s], 1;", [], SHARED), [], block=64, seed=seed).notes
        assert "shared byte 0x400" in note.message
        assert note.message.endswith(": both write the same")


def test_lanes_write_different_values_to_one_place():
    ptx = entry("\tst.shared.u32 [s], %t;", [], SHARED)
    with pytest.raises(
        EmulatorError, match=r"race: lanes that store at once write different values to shared byte 0x400"
    ):
        launch(ptx, [])


def test_lanes_need_warp_sync():
    body = """
    shl.b32 %r2, %t, 2; mov.b32 %r3, s; add.s32 %r2, %r2, %r3;
    st.shared.u32 [%r2], %t;
    bar.warp.sync 0xffffffff;
    xor.b32 %r4, %t, 1; shl.b32 %r4, %r4, 2; add.s32 %r4, %r4, %r3;
    ld.shared.u32 %r1, [%r4];
    """
    assert (run(body, decls=SHARED) == np.arange(64) ^ 1).all()
    ptx = entry(body.replace("bar.warp.sync 0xffffffff;", "") + STORE, ["p0"], SHARED)
    with pytest.raises(EmulatorError) as e:
        launch(ptx, [np.zeros(64, np.uint32)])
    assert e.value.message == (
        "ld.shared.u32: race: read of shared byte 0x404 (s + 4), which lane 1 of the same warp wrote "
        f"(line {line_of(ptx, 'st.shared')}), with no bar.warp.sync between: CTA (0, 0, 0) warp 0 lane 0"
    )
    assert e.value.loc
    assert e.value.loc.line == line_of(ptx, "ld.shared")


def test_neighbouring_bytes_are_no_race():
    body = """
    mov.b32 %r3, s; add.s32 %r2, %t, %r3;
    st.shared.u8 [%r2], %t;
    bar.sync 0;
    ld.shared.u8 %r1, [s+63];
    """
    assert (run(body, decls=SHARED) == 63).all()


def test_arrive_and_sync():
    """Producer and consumer by a named barrier: the producer does not wait."""
    body = """
    mov.u32 %r1, 0;
    setp.ge.u32 %q1, %t, 32;
    @%q1 bra CONSUMER;
    st.shared.u32 [s], 42;
    bar.arrive 1, 64;
    bra END;
CONSUMER:
    bar.sync 1, 64;
    ld.shared.u32 %r1, [s];
END:
    """
    for seed in range(4):
        assert (run(body, decls=SHARED, seed=seed)[32:] == 42).all()


def test_barrier_reduction():
    body = """
    setp.lt.u32 %q1, %t, 10;
    bar.red.popc.u32 %r1, 0, %q1;
    bar.red.or.pred %q2, 0, %q1;
    bar.red.and.pred %q3, 0, %q1;
    selp.u32 %r2, 100, 0, %q2; selp.u32 %r3, 1000, 0, %q3;
    add.u32 %r1, %r1, %r2; add.u32 %r1, %r1, %r3;
    """
    assert (run(body) == 110).all()


def test_ended_warps_do_not_hold_a_barrier_up():
    body = """
    mov.u32 %r1, 1;
    setp.lt.u32 %q1, %t, 32;
    @%q1 ret;
    bar.sync 0;
    """
    assert run(body)[32:].tolist() == [1] * 32


def test_deadlock():
    ptx = entry("\tsetp.lt.u32 %q1, %t, 32;\n\t@%q1 bra A;\n\tbar.sync 1, 64;\nA:\n\tbar.sync 2, 64;", [])
    with pytest.raises(EmulatorError) as e:
        launch(ptx, [], block=64)
    first, second = line_of(ptx, "bar.sync 1"), line_of(ptx, "bar.sync 2")
    assert e.value.message == (
        f"bar.sync: deadlock: CTA (0, 0, 0) warp 0 at line {second}: barrier 2, 32 of 64 threads came; "
        f"CTA (0, 0, 0) warp 1 at line {first}: barrier 1, 32 of 64 threads came"
    )


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "setp.lt.u32 %q1, %t, 5;\n\t@%q1 bra A;\n\tbar.sync 0;\nA:",
            "in divergent code: lane 0, 1, 2, 3 of the warp is elsewhere",
        ),
        ("bar.sync 16;", "barrier 16: expected 0 to 15"),
        ("bar.sync 1, 33;", "barrier of 33 threads: expected a multiple of 32 up to 96"),
        ("bar.sync 1, 128;", "barrier of 128 threads: expected a multiple of 32 up to 96"),
        ("setp.lt.u32 %q1, %t, 32;\n\tselp.u32 %r1, 64, 96, %q1;\n\tbar.sync 1, %r1;", "threads here, "),
        ("setmaxnreg.inc.sync.aligned.u32 33;", "33 registers: expected a multiple of 8 from 24 to 256"),
    ],
)
def test_barrier_errors(body, message):
    ptx = entry("\t" + body, [])
    for seed in range(3):
        with pytest.raises(EmulatorError) as e:
            launch(ptx, [], block=96, seed=seed)
        assert message in e.value.message


def test_endless_loop():
    ptx = entry("\tmov.u32 %r1, 0;\nL:\n\tadd.u32 %r1, %r1, 1;\n\tbra L;", [])
    with pytest.raises(
        EmulatorError,
        match=r"went round the loop that begins at line \d+ \d+ times, and it has not ended: CTA \(0, 0, 0\) warp 0",
    ):
        launch(ptx, [], most_turns=500)


def test_spinning_on_global_memory():
    """One CTA waits for another's flag: both are resident, both make progress."""
    body = """
    setp.eq.u32 %q1, %c, 0;
    @%q1 bra PRODUCER;
SPIN:
    ld.acquire.gpu.global.u32 %r2, [%p0+1024];
    setp.eq.u32 %q2, %r2, 0;
    @%q2 bra SPIN;
    ld.global.u32 %r1, [%p0+1028];
    bra END;
PRODUCER:
    setp.ne.u32 %q3, %t, 0;
    @%q3 bra END;
    st.global.u32 [%p0+1028], 9;
    fence.acq_rel.gpu;
    st.release.gpu.global.u32 [%p0+1024], 1;
END:
    """
    for seed in range(3):
        out = np.zeros(300, np.uint32)
        launch(entry(body + STORE, ["p0"]), [out], grid=2, seed=seed)
        assert (out[64:96] == 9).all()


def test_no_effect():
    body = """
    nanosleep.u32 100; griddepcontrol.wait; griddepcontrol.launch_dependents; membar.gl; fence.sc.sys;
    setmaxnreg.dec.sync.aligned.u32 40; mov.u64 %d5, %clock64; mov.u32 %r1, 5;
    """
    assert (run(body) == 5).all()
