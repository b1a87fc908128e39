"""Loads, stores, state spaces, and what is refused."""

import numpy as np
import pytest

from graphfuse.gpu.emulator import Buffer, Emulator, EmulatorError
from tests.gpu.emulator.ptx import HEAD, entry, launch, line_of

RNG = np.random.default_rng(3)


@pytest.mark.parametrize("kind", ["b8", "u8", "s8", "b16", "s16", "b32", "f32", "b64", "f64"])
@pytest.mark.parametrize("vector", [1, 2, 4])
def test_global_copies(kind, vector):
    size = int(kind[1:]) // 8
    if size * vector > 16:
        pytest.skip("32 bytes are for sm_100")
    a = RNG.integers(0, 256, 32 * size * vector, np.uint8)
    b = np.zeros_like(a)
    names = [f"{'%h' if size < 4 else '%r' if size == 4 else '%d'}{10 + k}" for k in range(vector)]
    v, regs = (f".v{vector}", "{" + ", ".join(names) + "}") if vector > 1 else ("", names[0])
    body = f"""
    mul.wide.u32 %d1, %t, {size * vector}; add.s64 %d2, %p0, %d1; add.s64 %d3, %p1, %d1;
    ld.global{v}.{kind} {regs}, [%d2];
    st.global{v}.b{8 * size} [%d3], {regs};
    """
    report = launch(entry(body, ["p0", "p1"]), [a, Buffer(b, initialised=False)])
    assert (a == b).all()
    assert not report.uncoalesced


def test_narrow_loads_extend():
    a = np.arange(200, 232).astype(np.uint8)
    out = np.zeros((32, 2), np.int32)
    body = """
    cvt.u64.u32 %d1, %t; add.s64 %d2, %p0, %d1;
    ld.global.s8 %r1, [%d2]; ld.global.u8 %r2, [%d2];
    mad.wide.u32 %d3, %t, 8, %p1; st.global.v2.b32 [%d3], {%r1, %r2};
    """
    launch(entry(body, ["p0", "p1"]), [a, out])
    assert (out[:, 0] == a.view(np.int8)).all()
    assert (out[:, 1] == a).all()


def test_cache_hints_are_parsed():
    a, b = np.arange(128, dtype=np.uint32), np.zeros(128, np.uint32)
    body = """
    mul.wide.u32 %d1, %t, 16; add.s64 %d2, %p0, %d1; add.s64 %d3, %p1, %d1;
    createpolicy.fractional.L2::evict_first.b64 %d4, 1.0;
    ld.global.nc.L1::no_allocate.L2::128B.v4.b32 {%r1, %r2, %r3, %r4}, [%d2];
    ld.global.L1::evict_first.L2::cache_hint.v4.b32 {%r1, %r2, %r3, %r4}, [%d2], %d4;
    prefetch.global.L2 [%d2];
    st.global.cs.v4.b32 [%d3], {%r1, %r2, %r3, %r4};
    """
    launch(entry(body, ["p0", "p1"]), [a, b])
    assert (a == b).all()


def test_state_spaces():
    module = """
    .const .align 4 .f32 c[2] = {0f3F800000, 0f40000000};
    .global .align 4 .u32 g[4] = {5, 6};
    """
    decls = "\t.shared .align 4 .b8 s[128];\n\t.local .align 8 .b8 depot[16];\n\t.reg .b64 %SP, %SPL;\n"
    body = """
    mov.u64 %SPL, depot; cvta.local.u64 %SP, %SPL;
    st.local.u32 [%SPL+8], %t;
    ld.u32 %r1, [%SP+8];                       // generic to local
    shl.b32 %r2, %t, 2; mov.b32 %r3, s; add.s32 %r3, %r3, %r2;
    st.shared.u32 [%r3], %r1;
    cvt.u64.u32 %d1, %r3; cvta.shared.u64 %d1, %d1; ld.u32 %r4, [%d1];   // generic to shared
    isspacep.shared %q1, %d1; isspacep.local %q2, %SP; isspacep.global %q3, %p0;
    and.pred %q1, %q1, %q2; and.pred %q1, %q1, %q3; selp.u32 %r8, 1, 0, %q1;
    ld.const.f32 %f1, [c+4]; ld.global.u32 %r5, [g]; ld.global.u32 %r9, [g+8];
    mov.u64 %d2, g; cvta.global.u64 %d2, %d2; ld.u32 %r6, [%d2+4];
    cvt.rzi.u32.f32 %r7, %f1;
    mad.wide.u32 %d3, %t, 32, %p0; cvta.to.global.u64 %d3, %d3;
    st.global.v4.u32 [%d3], {%r4, %r5, %r6, %r7}; st.global.v2.u32 [%d3+16], {%r8, %r9};
    """
    out = np.zeros((32, 8), np.uint32)
    launch(entry(body, ["p0"], decls, module), [out])
    assert (out[:, 0] == np.arange(32)).all()
    assert (out[:, 1:6] == [5, 6, 2, 1, 0]).all()


def test_param_kinds():
    ptx = (
        HEAD
        + """
.visible .entry k(
    .param .u64 out, .param .f32 f, .param .u16 h, .param .u32 u, .param .f64 e, .param .align 8 .b8 s[16]
)
{
    .reg .b64 %d<4>; .reg .f32 %f<2>; .reg .b16 %h<2>; .reg .b32 %r<3>;
    ld.param.u64 %d1, [out]; ld.param.f32 %f1, [f]; ld.param.u16 %h1, [h]; ld.param.u32 %r1, [u];
    ld.param.b64 %d2, [e]; ld.param.v2.b32 {%r1, %r2}, [s+8];
    st.global.f32 [%d1], %f1; st.global.u16 [%d1+4], %h1; st.global.u64 [%d1+8], %d2;
    st.global.v2.u32 [%d1+16], {%r1, %r2};
    ret;
}
"""
    )
    out = np.zeros(24, np.uint8)
    with pytest.raises(EmulatorError, match="a float64 number for 's', which has 16 bytes"):
        Emulator(ptx).launch("k", (1,), (1,), [out, 1.5, 7, 9, 0.25, np.float64(1)])
    text = ptx.replace(".align 8 .b8 s[16]", ".u64 s").replace("[s+8]", "[s]")
    Emulator(text).launch("k", (1,), (1,), [out, 1.5, 7, 9, 0.25, (2 << 32) + 1])
    assert out[:4].view(np.float32) == 1.5
    assert out[4:6].view(np.uint16) == 7
    assert out[8:16].view(np.float64) == 0.25
    assert out[16:].view(np.uint32).tolist() == [1, 2]


def refused(body, args, *, at, nth=0, params=("p0",), decls="", **kw):
    ptx = entry(body, list(params), decls)
    with pytest.raises(EmulatorError) as e:
        launch(ptx, args, **kw)
    assert e.value.loc
    assert (e.value.loc.file, e.value.loc.line) == ("t.ptx", line_of(ptx, at, nth))
    return e.value.message


def test_out_of_bounds():
    a = np.zeros(31, np.float32)
    body = "\tmad.wide.u32 %d1, %t, 4, %p0;\n\tst.global.f32 [%d1], 0f00000000;"
    message = refused(body, [Buffer(a, name="a")], at="st.global")
    assert (
        message == "st.global.f32: out of bounds: element 31 of a (31 elements), 4 bytes: CTA (0, 0, 0) warp 0 lane 31"
    )
    message = refused("\tld.global.f32 %f1, [%p0+-4];", [a], at="ld.global")
    assert message.startswith(
        "ld.global.f32: out of bounds: element -1 of p0 (31 elements), 4 bytes: CTA (0, 0, 0) warp 0"
    )
    message = refused("\tld.global.f32 %f1, [64];", [a], at="ld.global")
    assert "is near no buffer" in message


def test_out_of_bounds_in_other_spaces():
    decls = "\t.shared .align 4 .b8 s[64];\n\t.local .align 4 .b8 l[8];\n"
    shared = "\tshl.b32 %r1, %t, 2;\n\tmov.b32 %r2, s;\n\tadd.s32 %r1, %r1, %r2;\n\tst.shared.b32 [%r1], %t;"
    message = refused(shared, [], at="st.shared", params=(), decls=decls)
    assert message == (
        "st.shared.b32: out of bounds: shared address 0x440 + 4 bytes: shared memory is 0x400 to 0x440: "
        "CTA (0, 0, 0) warp 0 lane 16"
    )
    message = refused("\tst.local.b32 [l+16], %t;", [], at="st.local", params=(), decls=decls)
    assert message.startswith("st.local.b32: out of bounds: local address 16 + 4 bytes of 16: CTA (0, 0, 0)")


def test_misaligned():
    a = np.zeros(256, np.float32)
    body = "\tmad.wide.u32 %d1, %t, 16, %p0;\n\tld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%d1+4];"
    message = refused(body, [a], at="ld.global")
    assert "ld.global.v4.f32: misaligned address 0x7f" in message
    assert message.endswith("expected a multiple of 16: CTA (0, 0, 0) warp 0 lane 0")


def test_uninitialised():
    a = np.zeros(64, np.float32)
    half = """
    mad.wide.u32 %d1, %t, 4, %p0;
    st.global.f32 [%d1], 0f00000000;
    ld.global.f32 %f1, [%d1+64];
    """
    message = refused(half, [Buffer(a, initialised=False, name="y")], at="ld.global")
    who = "element 32 of y (64 elements): CTA (0, 0, 0) warp 0 lane 16"
    assert message == f"ld.global.f32: read of uninitialised global memory: {who}"
    decls = "\t.shared .align 4 .b8 s[256];\n\t.local .align 4 .b8 l[8];\n"
    message = refused("\tld.shared.b32 %r1, [s+8];", [], at="ld.shared", params=(), decls=decls)
    assert (
        message == "ld.shared.b32: read of uninitialised shared memory at shared byte 0x408 (s + 8): "
        "CTA (0, 0, 0) warp 0 lane 0"
    )
    message = refused("\tld.local.b32 %r1, [l];", [], at="ld.local", params=(), decls=decls)
    assert message == "ld.local.b32: read of uninitialised local memory: CTA (0, 0, 0) warp 0 lane 0"


def test_read_only():
    module = ".const .align 4 .u32 c[2];\n"
    ptx = entry("\tmov.u64 %d1, c;\n\tst.global.u32 [%d1], 1;", [], "", module)
    with pytest.raises(EmulatorError, match=r"write to read-only memory \(c\), 4 bytes") as e:
        launch(ptx, [])
    assert e.value.loc
    assert e.value.loc.line == line_of(ptx, "st.global")


def test_launch_errors():
    ptx = entry("", ["p0"], directives=".maxntid 64")
    a = np.zeros((4, 4), np.float32)
    for args, kw, message in (
        ([], {}, "kernel 'k': 0 arguments: expected 1"),
        ([a.T], {}, "argument 'p0' is not contiguous"),
        (["x"], {}, "kernel 'k': argument 'p0' is a str: expected an array, a Buffer, a TensorMap or a number"),
        ([a], {"block": 128}, "kernel 'k': 128 threads: .maxntid says 64"),
        ([a], {"grid": 0}, "kernel 'k': grid (0, 1, 1), block (32, 1, 1): expected positive sizes"),
        ([a], {"grid": 3, "cluster": (2,)}, "kernel 'k': grid (3, 1, 1) is no multiple of cluster (2, 1, 1)"),
    ):
        with pytest.raises(EmulatorError) as e:
            launch(ptx, args, **kw)
        assert e.value.message == message
    with pytest.raises(EmulatorError, match="no kernel 'j': have k"):
        Emulator(ptx).launch("j", (1,), (1,), [])
    with pytest.raises(EmulatorError, match=r"block \(32, 1, 1\): .reqntid says \(64, 1, 1\)"):
        launch(ptx.replace(".maxntid 64", ".reqntid 64, 1, 1"), [a])
    with pytest.raises(EmulatorError, match="2048 threads in a CTA: at most 1024"):
        launch(entry(""), [], block=2048)


def test_the_same_array_twice_is_one_buffer():
    a = np.zeros(32, np.uint32)
    body = """
    mul.wide.u32 %d1, %t, 4; add.s64 %d2, %p0, %d1; add.s64 %d3, %p1, %d1;
    st.global.u32 [%d2], %t; ld.global.u32 %r1, [%d3]; add.u32 %r1, %r1, 1; st.global.u32 [%d3], %r1;
    """
    launch(entry(body, ["p0", "p1"]), [a, a])
    assert (a == np.arange(1, 33)).all()


def test_sectors_and_bank_conflicts():
    a = np.zeros(32 * 64, np.float32)
    strided = "\tmad.wide.u32 %d1, %t, 256, %p0;\n\tst.global.f32 [%d1], 0f00000000;"
    (entry_,) = launch(entry(strided, ["p0"]), [a]).uncoalesced
    assert (entry_.requests, entry_.cost, entry_.ideal, entry_.per_request) == (1, 32, 4, 32.0)
    decls = "\t.shared .align 16 .b8 s[8192];\n"
    for stride, width, cost, ideal in (
        (4, 1, 1, 1),
        (8, 1, 2, 1),
        (128, 1, 32, 1),
        (132, 1, 1, 1),
        (16, 4, 4, 4),
        (32, 4, 8, 4),
        (8, 2, 2, 2),
    ):
        regs = "{" + ", ".join(["%t"] * width) + "}" if width > 1 else "%t"
        v = f".v{width}" if width > 1 else ""
        body = f"\tmov.b32 %r2, s;\n\tmad.lo.u32 %r1, %t, {stride}, %r2;\n\tst.shared{v}.b32 [%r1], {regs};"
        (found,) = launch(entry(body, [], decls), []).traffic
        assert (found.cost, found.ideal) == (cost, ideal), (stride, width)
    body = "\tmov.b32 %r2, s;\n\tst.shared.b32 [%r2], 1;\n\tbar.warp.sync -1;\n\tld.shared.b32 %r1, [s];"
    assert launch(entry(body, [], decls), []).conflicts == []
