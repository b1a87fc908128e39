"""cp.async, mbarriers and bulk copies: values, and every wait or fence left out."""

import ml_dtypes
import numpy as np
import pytest

from graphfuse.gpu.emulator import Buffer, EmulatorError, TensorMap
from graphfuse.gpu.emulator.tensormap import swizzled
from tests.gpu.emulator.ptx import HEAD, entry, launch, line_of

RNG = np.random.default_rng(7)
SHARED = "\t.shared .align 1024 .b8 s[8192];\n"


def fails(ptx, args, text, *, nth=0, seeds=3, **kw):
    """Every seed finds it, at the nth line with `text`."""
    messages = set()
    for seed in range(seeds):
        with pytest.raises(EmulatorError) as e:
            launch(ptx, args, seed=seed, **kw)
        assert e.value.loc
        assert e.value.loc.line == line_of(ptx, text, nth), str(e.value)
        messages.add(e.value.message)
    return "\n".join(sorted(messages))


# cp.async

COPY = """
    mov.b32 %r1, s; shl.b32 %r2, %t, 4; add.s32 %r1, %r1, %r2;
    mad.wide.u32 %d1, %t, 16, %p0;
    cp.async.cg.shared.global [%r1], [%d1], 16;
    cp.async.commit_group;
    cp.async.ca.shared.global.L2::128B [%r1+2048], [%d1+2048], 16, 4;
    cp.async.commit_group;
    cp.async.wait_group 0;
    bar.sync 0;
    mov.b32 %r3, s; xor.b32 %r4, %r2, 1040; add.s32 %r3, %r3, %r4;
    ld.shared.v4.b32 {%r5, %r6, %r7, %r8}, [%r3];
    ld.shared.v4.b32 {%r9, %r10, %r11, %r12}, [%r3+2048];
    mad.wide.u32 %d2, %t, 32, %p1;
    st.global.v4.b32 [%d2], {%r5, %r6, %r7, %r8};
    st.global.v4.b32 [%d2+16], {%r9, %r10, %r11, %r12};
"""


def copy_args():
    return [np.arange(1024, dtype=np.uint32), np.zeros((128, 8), np.uint32)]


def test_cp_async():
    for seed in range(3):
        a, out = copy_args()
        report = launch(entry(COPY, ["p0", "p1"], SHARED), [a, out], block=128, seed=seed)
        other = np.arange(128) ^ 65
        assert (out[:, :4] == a[:512].reshape(-1, 4)[other]).all()
        assert (out[:, 4] == a[512:].reshape(-1, 4)[other, 0]).all()
        assert (out[:, 5:] == 0).all()
        assert not report.notes


def test_missing_wait_is_seen():
    ptx = entry(COPY.replace("cp.async.wait_group 0", "cp.async.wait_group 1"), ["p0", "p1"], SHARED)
    message = fails(ptx, copy_args(), "ld.shared.v4.b32 {%r9", block=128)
    line = line_of(ptx, "cp.async.ca")
    assert f"while cp.async.ca.shared.global.L2::128B (line {line}) is still in flight" in message
    ptx = entry(COPY.replace("    cp.async.wait_group 0;\n", ""), ["p0", "p1"], SHARED)
    fails(ptx, copy_args(), "ld.shared.v4.b32 {%r5", block=128)


def test_wait_before_barrier():
    """The other thread's copies are visible behind a barrier only."""
    ptx = entry(COPY.replace("    bar.sync 0;\n", ""), ["p0", "p1"], SHARED)
    found = fails(ptx, copy_args(), "ld.shared.v4.b32 {%r5", block=128, seeds=6)
    assert "race: read of shared byte" in found or "still in flight" in found or "uninitialised" in found


def test_copy_into_what_is_still_read():
    body = COPY + "\tcp.async.cg.shared.global [%r1], [%d1], 16;\n\tcp.async.wait_all;\n"
    ptx = entry(body, ["p0", "p1"], SHARED)
    messages: list[str] = []
    for seed in range(6):
        with pytest.raises(EmulatorError) as e:
            launch(ptx, copy_args(), block=128, seed=seed)
        messages.append(e.value.message)
    assert any(m.startswith("cp.async.cg") and "is not ordered after its read by warp" in m for m in messages)


def test_copies_never_waited_for():
    ptx = entry(COPY + "\tbar.sync 0;\n\tcp.async.cg.shared.global [%r1], [%d1], 16;\n", ["p0", "p1"], SHARED)
    report = launch(ptx, copy_args(), block=128)
    (note,) = report.notes
    assert note.code
    assert note.code.line == line_of(ptx, "cp.async.cg", 1)
    assert "cp.async never waited for: CTA (0, 0, 0) warp " in note.message


def test_predicated_copies_and_zero_fill():
    a, out = np.arange(128, dtype=np.uint32), np.zeros(32, np.uint32)
    body = """
    mov.b32 %r1, s; shl.b32 %r2, %t, 2; add.s32 %r1, %r1, %r2;
    mad.wide.u32 %d1, %t, 4, %p0;
    setp.lt.u32 %q1, %t, 20; selp.b32 %r3, 4, 0, %q1;
    mad.wide.u32 %d1, %t, 4, %p0;
    @!%q1 mov.b64 %d1, 0;                        // what takes nothing may have any address
    cp.async.ca.shared.global [%r1], [%d1], 4, %r3;
    cp.async.wait_all;
    ld.shared.b32 %r4, [%r1];
    mad.wide.u32 %d2, %t, 4, %p1; st.global.b32 [%d2], %r4;
    """
    launch(entry(body, ["p0", "p1"], SHARED), [a, out])
    assert (out == np.where(np.arange(32) < 20, np.arange(32), 0)).all()


def test_a_lane_reads_no_more_than_its_source_size():
    """The others' are larger; the last bytes of a tensor are fewer than an instruction's."""
    a, out = np.arange(126, dtype=np.uint32), np.zeros(128, np.uint32)
    body = """
    mov.b32 %r1, s; shl.b32 %r2, %t, 4; add.s32 %r1, %r1, %r2;
    mad.wide.u32 %d1, %t, 16, %p0;
    setp.lt.u32 %q1, %t, 31; selp.b32 %r3, 16, 8, %q1;
    cp.async.cg.shared.global [%r1], [%d1], 16, %r3;
    cp.async.wait_all;
    ld.shared.v4.b32 {%r4, %r5, %r6, %r7}, [%r1];
    mad.wide.u32 %d2, %t, 16, %p1; st.global.v4.b32 [%d2], {%r4, %r5, %r6, %r7};
    """
    launch(entry(body, ["p0", "p1"], SHARED), [a, out])
    assert (out[:126] == a).all()
    assert not out[126:].any()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cp.async.cg.shared.global [%r1], [%p0], 8;", "8 bytes: expected 16"),
        ("cp.async.ca.shared.global [%r1], [%p0+4], 16;", "misaligned global address"),
        ("cp.async.ca.shared.global [%r1+8], [%p0], 16;", "misaligned shared address"),
        (
            "cp.async.ca.shared.global [%r1], [%p0+4096], 4;",
            "out of bounds: element 1024 of p0 (1024 elements), 4 bytes",
        ),
    ],
)
def test_cp_async_errors(text, message):
    ptx = entry("\tmov.b32 %r1, s;\n\t" + text, ["p0"], SHARED)
    with pytest.raises(EmulatorError) as e:
        launch(ptx, [np.zeros(1024, np.uint32)])
    assert message in e.value.message


# mbarriers

ARRIVE = """
    mov.b32 %r1, s;
    setp.eq.u32 %q1, %t, 0;
    @%q1 mbarrier.init.shared::cta.b64 [%r1], 32;
    bar.sync 0;
    setp.ge.u32 %q2, %t, 32;
    shl.b32 %r2, %t, 2; add.s32 %r2, %r2, %r1;
    @%q2 bra CONSUMER;
    st.shared.u32 [%r2+64], %t;
    mbarrier.arrive.shared::cta.b64 %d1, [%r1];
    bra END;
CONSUMER:
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %q3, [%r1], 0;
    @!%q3 bra WAIT;
    ld.shared.u32 %r3, [%r2+-64];
    mad.wide.u32 %d2, %t, 4, %p0; st.global.u32 [%d2], %r3;
END:
"""


def test_mbarrier_orders():
    for seed in range(4):
        out = np.zeros(64, np.uint32)
        launch(entry(ARRIVE, ["p0"], SHARED), [out], block=64, seed=seed)
        assert (out[32:] == np.arange(32)).all()


def test_test_wait_and_state():
    body = """
    mov.b32 %r1, s; setp.eq.u32 %q1, %t, 0;
    @%q1 mbarrier.init.shared.b64 [%r1], 64;
    bar.sync 0;
    mov.u32 %r5, 0;
AGAIN:
    mbarrier.arrive.shared.b64 %d1, [%r1];
WAIT:
    mbarrier.test_wait.shared.b64 %q3, [%r1], %d1;
    @!%q3 bra WAIT;
    add.u32 %r5, %r5, 1; setp.lt.u32 %q4, %r5, 5;
    @%q4 bra AGAIN;
    bar.sync 0;
    @%q1 mbarrier.inval.shared.b64 [%r1];
    mad.wide.u32 %d2, %t, 4, %p0; st.global.u32 [%d2], %r5;
    """
    out = np.zeros(64, np.uint32)
    launch(entry(body, ["p0"], SHARED), [out], block=64)
    assert (out == 5).all()


def test_mbarrier_deadlock():
    ptx = entry(ARRIVE.replace("[%r1], 32;", "[%r1], 33;"), ["p0"], SHARED)
    line = line_of(ptx, "try_wait")
    message = fails(ptx, [np.zeros(64, np.uint32)], "try_wait", block=64)
    assert message == (
        f"mbarrier.try_wait.parity.shared::cta.b64: deadlock: CTA (0, 0, 0) warp 1 at line {line}: "
        "the mbarrier at shared byte 0x400 (s + 0), phase 0: 1 of 33 arrivals and 0 bytes missing"
    )


def test_mbarrier_rules():
    out = [np.zeros(64, np.uint32)]
    ptx = entry(
        ARRIVE.replace("[%r1], 32;", "[%r1], 16;").replace(
            "mbarrier.arrive.shared::cta.b64 %d1, [%r1];", "mbarrier.arrive.shared::cta.b64 %d1, [%r1], 1;"
        ),
        ["p0"],
        SHARED,
    )
    assert "too many arrivals on the mbarrier at 0x400" in fails(ptx, out, "mbarrier.arrive", block=64)
    ptx = entry(ARRIVE.replace("    @%q1 mbarrier.init.shared::cta.b64 [%r1], 32;\n", ""), ["p0"], SHARED)
    with pytest.raises(EmulatorError, match=r"no mbarrier was initialised at shared byte 0x400 \(s \+ 0\)"):
        launch(ptx, out, block=64)
    ptx = entry(ARRIVE.replace("    bar.sync 0;\n", ""), ["p0"], SHARED)
    with pytest.raises(
        EmulatorError,
        match=r"no mbarrier was initialised|race: read of shared byte 0x400 \(s \+ 0\) is not ordered after",
    ):
        launch(ptx, out, block=64)
    ptx = entry(
        ARRIVE.replace("parity.shared::cta.b64 %q3, [%r1], 0;", "parity.shared::cta.b64 %q3, [%r1], 1;"), ["p0"], SHARED
    )
    with pytest.raises(EmulatorError, match=r"read of uninitialised|race: read of shared byte|deadlock"):
        launch(ptx, out, block=64)
    ptx = entry("\tmov.b32 %r1, s;\n\tmbarrier.init.shared.b64 [%r1+4], 1;", [], SHARED)
    assert "misaligned mbarrier: expected a multiple of 8" in fails(ptx, [], "mbarrier.init")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mbarrier.init.shared.b64 [%r1], 0;", "count 0: expected 1 to 1048575"),
        (
            "@%q1 mbarrier.init.shared.b64 [%r1], 1; @%q1 mbarrier.init.shared.b64 [%r1], 1;",
            "initialised again without",
        ),
        ("mbarrier.arrive.expect_tx.shared.b64 _, [%r1];", "expected a number of bytes"),
        ("mbarrier.pending_count.b64 %r2, %d1;", "not emulated"),
        ("mbarrier.nothing.b64 [%r1];", "unknown modifier '.nothing'"),
        ("cp.async.bulk.commit_groups;", "expected .bulk_group or .mbarrier::complete_tx::bytes|unknown modifier"),
        ("red.global.b32 [%d1], %r1;", "expected an operation"),
        ("atom.global.cas.b32 %r2, [%d1], %r1;", "too few operands"),
    ],
)
def test_malformed(text, message):
    with pytest.raises(EmulatorError, match=message):
        launch(entry("\tmov.b32 %r1, s; setp.eq.u32 %q1, %t, 0;\n\t" + text, [], SHARED), [])


def test_cp_async_arrives():
    """cp.async.mbarrier.arrive.noinc: consumers wait on the mbarrier, never on the group."""
    body = """
    mov.b32 %r1, s; setp.eq.u32 %q1, %t, 0;
    @%q1 mbarrier.init.shared.b64 [%r1], 32;
    bar.sync 0;
    shl.b32 %r2, %t, 4; add.s32 %r2, %r2, %r1;
    mad.wide.u32 %d1, %t, 16, %p0;
    setp.ge.u32 %q2, %t, 32;
    @%q2 bra CONSUMER;
    cp.async.cg.shared.global [%r2+1024], [%d1], 16;
    cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r1];
    bra END;
CONSUMER:
    mbarrier.try_wait.parity.shared::cta.b64 %q3, [%r1], 0;
    @!%q3 bra CONSUMER;
    ld.shared.b32 %r3, [%r2+512];
    mad.wide.u32 %d2, %t, 4, %p1; st.global.u32 [%d2], %r3;
END:
    """
    for seed in range(3):
        a, out = np.arange(128, dtype=np.uint32), np.zeros(64, np.uint32)
        launch(entry(body, ["p0", "p1"], SHARED), [a, out], block=64, seed=seed)
        assert (out[32:] == a[::4]).all()


# bulk copies

BULK = """
    mov.b32 %r1, s; setp.eq.u32 %q1, %t, 0;
    @!%q1 bra READY;
    mbarrier.init.shared::cta.b64 [%r1], 1;
    fence.mbarrier_init.release.cluster;
READY:
    bar.sync 0;
    @!%q1 bra WAIT;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 1024;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1+1024], [%p0], 1024, [%r1];
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %q3, [%r1], 0;
    @!%q3 bra WAIT;
    shl.b32 %r2, %t, 3; add.s32 %r2, %r2, %r1;
    ld.shared.v2.u32 {%r3, %r4}, [%r2+1024];
    add.u32 %r3, %r3, 1; add.u32 %r4, %r4, 1;
    st.shared.v2.u32 [%r2+1024], {%r3, %r4};
    fence.proxy.async.shared::cta;
    bar.sync 0;
    @!%q1 bra END;
    cp.async.bulk.global.shared::cta.bulk_group [%p1], [%r1+1024], 1024;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group.read 0;
END:
"""


def bulk_args():
    return [np.arange(256, dtype=np.uint32), np.zeros(256, np.uint32)]


def test_bulk_copies():
    for seed in range(4):
        a, b = bulk_args()
        report = launch(entry(BULK, ["p0", "p1"], SHARED), [a, Buffer(b, initialised=False)], block=128, seed=seed)
        assert (b == a + 1).all()
        assert report.bulk_bytes == 2048


@pytest.mark.parametrize(
    ("old", "new", "at", "message"),
    [
        ("    fence.proxy.async.shared::cta;\n", "", "cp.async.bulk.global", "with no fence.proxy.async since"),
        ("    cp.async.bulk.wait_group.read 0;\n", "", "cp.async.bulk.global", "expected cp.async.bulk.wait_group"),
        ("    cp.async.bulk.commit_group;\n", "", "cp.async.bulk.global", "expected cp.async.bulk.wait_group"),
        ("_, [%r1], 1024;", "_, [%r1], 1040;", "try_wait", "deadlock"),
        ("    fence.mbarrier_init.release.cluster;\n", "", "cp.async.bulk.shared", "with no fence.mbarrier_init"),
        (
            "    @!%q3 bra WAIT;\n",
            "",
            "ld.shared",
            "is still in flight|is not ordered after its write by a bulk copy on the mbarrier at 0x400",
        ),
        ("[%p0], 1024,", "[%p0], 1032,", "cp.async.bulk.shared", "expected multiples of 16"),
        ("[%p0], 1024,", "[%p0+16], 1024,", "cp.async.bulk.shared", "out of bounds: element 4 of p0"),
        ("[%r1+1024], [%p0]", "[%r1+8000], [%p0]", "cp.async.bulk.shared", "misaligned shared address|out of bounds"),
        (
            "[%r1+1024], [%p0]",
            "[%r1+7680], [%p0]",
            "cp.async.bulk.shared",
            "out of bounds: 1024 bytes at shared address 0x2200",
        ),
    ],
)
def test_bulk_mistakes(old, new, at, message):
    import re

    assert old in BULK
    ptx = entry(BULK.replace(old, new, 1), ["p0", "p1"], SHARED)
    found = fails(ptx, bulk_args(), at, block=128, seeds=4)
    assert re.search(message, found)


def test_fence_by_one_thread_covers_only_what_it_knows():
    """The issuing thread may fence for all behind the barrier, which orders their writes; before it, not."""
    late = BULK.replace(
        "    fence.proxy.async.shared::cta;\n    bar.sync 0;\n    @!%q1 bra END;\n",
        "    bar.sync 0;\n    @!%q1 bra END;\n    fence.proxy.async.shared::cta;\n",
    )
    assert late != BULK
    a, b = bulk_args()
    launch(entry(late, ["p0", "p1"], SHARED), [a, b], block=128)
    assert (b == a + 1).all()
    early = BULK.replace(
        "    fence.proxy.async.shared::cta;\n    bar.sync 0;\n",
        "    @%q1 fence.proxy.async.shared::cta;\n    bar.sync 0;\n",
    )
    ptx = entry(early, ["p0", "p1"], SHARED)
    assert "with no fence.proxy.async since" in fails(ptx, bulk_args(), "cp.async.bulk.global", block=128)


def test_ending_with_a_copy_in_flight():
    ptx = entry(BULK.split("WAIT:")[0] + "WAIT:\n", ["p0", "p1"], SHARED)
    found = set()
    for seed in range(12):
        try:
            launch(ptx, bulk_args(), block=128, seed=seed)
        except EmulatorError as e:
            found.add(e.message)
    assert any(
        "the CTA ends with cp.async.bulk.shared::cluster" in m and "still in flight to its shared memory" in m
        for m in found
    )


def test_bulk_reduction():
    a, b = np.arange(256, dtype=np.float32), np.ones(256, np.float32)
    body = BULK.replace("add.u32 %r3, %r3, 1; add.u32 %r4, %r4, 1;", "").replace(
        "cp.async.bulk.global.shared::cta.bulk_group [%p1]",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%p1]",
    )
    launch(entry(body, ["p0", "p1"], SHARED), [a, b], block=128)
    assert (b == a + 1).all()


# tensor copies


def tensor_kernel(rank, nbytes, coordinates, store=None, reduce="", dump=0):
    at = "{" + ", ".join(map(str, coordinates)) + "}"
    to = "{" + ", ".join(map(str, store or coordinates)) + "}"
    name = (
        f"cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.{reduce}.tile"
        if reduce
        else f"cp.async.bulk.tensor.{rank}d.global.shared::cta.tile"
    )
    return f"""{HEAD}
.visible .entry k(.param .align 64 .b8 src[128], .param .align 64 .b8 dst[128], .param .u64 raw)
{{
    .reg .pred %q<4>; .reg .b32 %r<9>, %t; .reg .b64 %d<9>;
    .shared .align 1024 .b8 s[33792];
    mov.u32 %t, %tid.x; mov.b32 %r1, s; add.s32 %r2, %r1, 32768; setp.eq.u32 %q1, %t, 0;
    mov.b64 %d1, src; cvta.param.u64 %d1, %d1; mov.b64 %d2, dst; cvta.param.u64 %d2, %d2; ld.param.u64 %d3, [raw];
    shl.b32 %r3, %t, 4; mov.b32 %r5, 0;
ZERO:
    add.s32 %r4, %r1, %r3; st.shared.v4.b32 [%r4], {{%r5, %r5, %r5, %r5}};
    add.u32 %r3, %r3, 512; setp.lt.u32 %q3, %r3, {dump or nbytes};
    @%q3 bra ZERO;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    @!%q1 bra WAIT0;
    mbarrier.init.shared::cta.b64 [%r2], 1;
    fence.mbarrier_init.release.cluster;
    prefetch.tensormap [%d1];
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], {nbytes};
    cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], [%d1, {at}], [%r2];
WAIT0:
    bar.sync 0;
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %q2, [%r2], 0;
    @!%q2 bra WAIT;
    // the box as it lies in shared memory
    shl.b32 %r3, %t, 4;
LOOP:
    setp.ge.u32 %q3, %r3, {dump or nbytes};
    @%q3 bra STORE;
    add.s32 %r4, %r1, %r3; ld.shared.v4.b32 {{%r5, %r6, %r7, %r8}}, [%r4];
    cvt.u64.u32 %d4, %r3; add.s64 %d4, %d4, %d3; st.global.v4.b32 [%d4], {{%r5, %r6, %r7, %r8}};
    add.u32 %r3, %r3, 512;
    bra LOOP;
STORE:
    @!%q1 bra END;
    {name}.bulk_group [%d2, {to}], [%r1];
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
END:
    ret;
}}
"""


@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
@pytest.mark.parametrize(
    ("dtype", "shape", "box", "at"),
    [
        ("u1", (300,), (64,), (32,)),
        ("u2", (40, 96), (16, 24), (24, 8)),
        ("f4", (40, 24), (8, 33), (-4, -5)),
        ("f4", (40, 24), (8, 33), (20, 30)),
        ("f8", (5, 6, 8), (4, 5, 3), (2, 3, 4)),
        ("u2", (3, 4, 6, 16), (8, 3, 2, 3), (8, 2, -1, 1)),
        ("u2", (3, 2, 4, 6, 16), (8, 3, 2, 2, 2), (8, 1, 3, 0, 2)),
    ],
)
def test_tensor_copies(dtype, shape, box, at, swizzle):
    a = RNG.integers(1, 100, shape).astype(dtype)
    elem = a.itemsize
    if swizzle and box[0] * elem > swizzle:
        box = (swizzle // elem, *box[1:])
    nbytes = int(np.prod(box)) * elem
    pitch = swizzle or box[0] * elem
    dump = int(np.prod(box[1:])) * pitch
    to = tuple(max(x, 0) for x in at)
    raw, back = np.zeros(dump, np.uint8), np.zeros_like(a)
    launch(
        tensor_kernel(len(shape), nbytes, at, to, dump=dump),
        [TensorMap(a, box, swizzle), TensorMap(back, box, swizzle), raw],
    )
    pads = [n + 8 for n in box[::-1]]
    padded = np.zeros([s + 2 * p for s, p in zip(shape, pads, strict=True)], a.dtype)
    whole = tuple(slice(p, p + s) for s, p in zip(shape, pads, strict=True))
    padded[whole] = a
    source, target = (
        tuple(slice(p + x, p + x + n) for x, n, p in zip(start[::-1], box[::-1], pads, strict=True))
        for start in (at, to)
    )
    want = padded[source]
    row, column = np.divmod(np.arange(nbytes // elem), box[0])
    place = swizzled(row * pitch + column * elem, swizzle)
    got = raw[place[:, None] + np.arange(elem)].view(a.dtype).reshape(want.shape)
    assert (got == want).all()
    written = np.zeros_like(padded)
    written[target] = want
    assert (back == written[whole]).all()


def test_tensor_fill_and_reduction():
    a = np.ones((8, 8), np.float32)
    raw, total = np.zeros(512, np.uint8), np.full((8, 16), 2, np.float32)
    launch(
        tensor_kernel(2, 512, (4, 0), (8, 0), "add"),
        [TensorMap(a, (8, 16), fill_nan=True), TensorMap(total, (8, 16)), raw],
    )
    box = raw.view(np.float32).reshape(16, 8)
    assert (box[:8, :4] == 1).all()
    assert np.isnan(box[8:]).all()
    assert np.isnan(box[:, 4:]).all()
    assert (total[:, :8] == 2).all()
    assert (total[:, 8:12] == 3).all()
    assert np.isnan(total[:, 12:]).all()


def test_bf16_reduction():
    bf16 = np.dtype(ml_dtypes.bfloat16)
    a, total, raw = np.full((8, 8), 1.5).astype(bf16), np.full((8, 8), 2).astype(bf16), np.zeros(128, np.uint8)
    launch(tensor_kernel(2, 128, (0, 0), None, "add"), [TensorMap(a, (8, 8)), TensorMap(total, (8, 8)), raw])
    assert (total.astype(np.float32) == 3.5).all()


def test_tensor_map_rules():
    a = np.zeros((16, 64), np.float32)
    for make, message in (
        (lambda: TensorMap(a, (64,)), "2 dims, 1 box sizes, 1 strides: expected 1 to 5 dims"),
        (lambda: TensorMap(a, (512, 1)), "box (512, 1): expected sizes from 1 to 256"),
        (lambda: TensorMap(a, (32, 4), 48), "swizzle 48: expected one of (0, 32, 64, 128)"),
        (lambda: TensorMap(a, (3, 4)), "the inner box has 12 bytes: expected a multiple of 16"),
        (lambda: TensorMap(a, (64, 4), 128), "the inner box has 256 bytes: a 128B swizzle spans less"),
        (lambda: TensorMap(np.zeros((4, 3), np.float32), (4, 1)), "stride 12: expected a multiple of 16 bytes, "),
        (
            lambda: TensorMap(a, (4, 4), dims=(4, 4), strides=(-16,)),
            "tensor map: stride -16: expected a multiple of 16 bytes, from 0 to 2^40",
        ),
        (
            lambda: TensorMap(a[:, ::2], (4, 1), strides=(256,), dims=(32, 16)),
            "tensor map: the array is not contiguous",
        ),
    ):
        with pytest.raises(EmulatorError) as e:
            make()
        assert message in e.value.message
    raw = np.zeros(512, np.uint8)
    text = tensor_kernel(3, 512, (0, 0, 0))
    with pytest.raises(EmulatorError, match="the tensor map has 2 dims: expected 3"):
        launch(text, [TensorMap(a, (8, 16)), TensorMap(a, (8, 16)), raw])
    for at, to, message in (
        ((2, 0), (0, 0), "innermost coordinate 2 is 8 bytes: expected a multiple of 16"),
        ((0, 0), (0, -1), "store to coordinates (0, -1): expected none below 0"),
    ):
        with pytest.raises(EmulatorError) as e:
            launch(tensor_kernel(2, 512, at, to), [TensorMap(a, (8, 16)), TensorMap(a, (8, 16)), raw])
        assert message in e.value.message
    text = tensor_kernel(2, 512, (0, 0)).replace("[%d1, {0, 0}]", "[%d3, {0, 0}]")
    with pytest.raises(EmulatorError, match="no tensor map at address 0x7f"):
        launch(text, [TensorMap(a, (8, 16)), TensorMap(a, (8, 16)), raw])
    text = tensor_kernel(2, 512, (0, 0)).replace("bytes [%r1],", "bytes [%r1+64],")
    with pytest.raises(EmulatorError, match="misaligned shared address 0x440: expected a multiple of 128"):
        launch(text, [TensorMap(a, (8, 16)), TensorMap(a, (8, 16)), raw])


# clusters

CLUSTER = """
    mov.b32 %r1, s; setp.eq.u32 %q1, %t, 0;
    mov.u32 %r2, %cluster_ctarank; mov.u32 %r3, %cluster_nctarank;
    mad.lo.u32 %r4, %r2, 100, %t;
    shl.b32 %r5, %t, 2; add.s32 %r5, %r5, %r1;
    st.shared.u32 [%r5], %r4;
    barrier.cluster.arrive.release.aligned;
    barrier.cluster.wait.acquire.aligned;
    add.u32 %r6, %r2, 1; rem.u32 %r6, %r6, %r3;
    mapa.shared::cluster.u32 %r7, %r5, %r6;
    ld.shared::cluster.u32 %r8, [%r7];
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    mad.lo.u32 %r9, %c, 32, %t; mad.wide.u32 %d1, %r9, 4, %p0; st.global.u32 [%d1], %r8;
"""


def test_distributed_shared_memory():
    for seed in range(3):
        out = np.zeros((8, 32), np.uint32)
        launch(entry(CLUSTER, ["p0"], SHARED), [out], grid=8, cluster=(4,), seed=seed)
        assert (out == (np.arange(8) + 1)[:, None] % 4 * 100 + np.arange(32)).all()


def test_cluster_barrier_orders_lanes():
    body = """
    mov.b32 %r1, s; shl.b32 %r2, %t, 2; add.s32 %r3, %r1, %r2; st.shared.u32 [%r3], %t;
    barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;
    xor.b32 %r2, %r2, 4; add.s32 %r3, %r1, %r2; ld.shared.u32 %r4, [%r3];
    mad.wide.u32 %d1, %t, 4, %p0; st.global.u32 [%d1], %r4;
    """
    for seed in range(4):
        out = np.zeros(64, np.uint32)
        launch(entry(body, ["p0"], SHARED), [out], block=64, seed=seed)
        assert (out == np.arange(64) ^ 1).all()


def test_cluster_mistakes():
    out = np.zeros((4, 32), np.uint32)
    late = entry(
        CLUSTER.replace("    barrier.cluster.arrive.aligned;\n    barrier.cluster.wait.aligned;\n", ""), ["p0"], SHARED
    )
    with pytest.raises(EmulatorError, match=r"access to the shared memory of CTA rank \d, which has ended") as e:
        for seed in range(20):
            launch(late, [out], grid=4, cluster=(4,), seed=seed)
    assert e.value.loc
    assert e.value.loc.line == line_of(late, "ld.shared::cluster")
    early = entry(
        CLUSTER.replace("    barrier.cluster.arrive.release.aligned;\n    barrier.cluster.wait.acquire.aligned;\n", ""),
        ["p0"],
        SHARED,
    )
    found = fails(early, [out], "ld.shared::cluster", grid=4, cluster=(4,))
    assert "race: read of" in found or "read of uninitialised shared memory" in found
    with pytest.raises(EmulatorError, match="CTA rank 1 in a cluster of 1"):
        launch(entry(CLUSTER.replace("rem.u32 %r6, %r6, %r3;", ""), ["p0"], SHARED), [out], grid=4)


MULTICAST = """
    mov.b32 %r1, s; setp.eq.u32 %q1, %t, 0; mov.u32 %r2, %cluster_ctarank; setp.eq.and.u32 %q2, %r2, 0, %q1;
    @!%q1 bra READY;
    mbarrier.init.shared::cta.b64 [%r1], 1;
    fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 128;
READY:
    barrier.cluster.arrive.release.aligned;
    barrier.cluster.wait.acquire.aligned;
    mov.b16 %h1, 3;
    @%q2 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
        [%r1+128], [%p0], 128, [%r1], %h1;
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %q3, [%r1], 0;
    @!%q3 bra WAIT;
    shl.b32 %r5, %t, 2; add.s32 %r5, %r5, %r1; ld.shared.u32 %r8, [%r5+128];
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    mad.lo.u32 %r9, %c, 32, %t; mad.wide.u32 %d1, %r9, 4, %p1; st.global.u32 [%d1], %r8;
"""


def test_multicast():
    for seed in range(3):
        a, out = np.arange(32, dtype=np.uint32), np.zeros((4, 32), np.uint32)
        launch(entry(MULTICAST, ["p0", "p1"], SHARED), [a, out], grid=4, cluster=(2,), seed=seed)
        assert (out == a).all()
    with pytest.raises(EmulatorError, match="multicast mask 0x7 in a cluster of 2"):
        launch(entry(MULTICAST.replace("%h1, 3;", "%h1, 7;"), ["p0", "p1"], SHARED), [a, out], grid=4, cluster=(2,))


def test_st_async_and_remote_arrival():
    """Every CTA sends a number to CTA 0, which waits for their bytes; then arrives at the others' second mbarrier."""
    body = """
    mov.b32 %r1, s; setp.eq.u32 %q1, %t, 0; mov.u32 %r2, %cluster_ctarank; setp.eq.u32 %q2, %r2, 0;
    @!%q1 bra READY;
    mbarrier.init.shared::cta.b64 [%r1], 1; mbarrier.init.shared::cta.b64 [%r1+8], 1;
    fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 16;
READY:
    barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;
    shl.b32 %r3, %r2, 2; add.s32 %r3, %r3, %r1; add.s32 %r3, %r3, 64;
    mapa.shared::cluster.u32 %r4, %r3, 0; mapa.shared::cluster.u32 %r5, %r1, 0;
    add.u32 %r6, %r2, 50;
    @%q1 st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r4], %r6, [%r5];
    @!%q2 bra OTHERS;
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %q3, [%r1], 0;
    @!%q3 bra WAIT;
    ld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [%r1+64];
    @%q1 st.global.v4.u32 [%p0], {%r10, %r11, %r12, %r13};
    setp.ge.u32 %q4, %t, 4;
    add.s32 %r7, %r1, 8; and.b32 %r8, %t, 3; mapa.shared::cluster.u32 %r7, %r7, %r8;
    @!%q4 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r7];
OTHERS:
    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %q3, [%r1+8], 0;
    @!%q3 bra OTHERS;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    """
    for seed in range(3):
        out = np.zeros(4, np.uint32)
        launch(entry(body, ["p0"], SHARED), [out], grid=4, cluster=(4,), seed=seed)
        assert out.tolist() == [50, 51, 52, 53]
