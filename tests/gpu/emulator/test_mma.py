"""Matrix instructions against numpy, with fragments written down from the ISA's tables, one element at a time."""

import numpy as np
import pytest

from graphfuse.gpu.emulator import EmulatorError
from tests.gpu.emulator.operands import KINDS, matrix
from tests.gpu.emulator.ptx import entry, launch

RNG = np.random.default_rng(6)


def a_element(lane, i, k, bits):
    """Row and column of a_i, from the figures of PTX ISA "Matrix Fragments for mma.m16n8k*"."""
    group, thread, per = lane >> 2, lane % 4, 32 // bits
    register, part = divmod(i, per)
    row = group if register % 2 == 0 else group + 8
    return row, thread * per + part + (0 if register < 2 else k // 2)


def b_element(lane, i, k, bits):
    group, thread, per = lane >> 2, lane % 4, 32 // bits
    register, part = divmod(i, per)
    return thread * per + part + (0 if register < 1 else k // 2), group


def c_element(lane, i):
    group, thread = lane >> 2, lane % 4
    return (group if i < 2 else group + 8), thread * 2 + (i & 1)


CASES = [
    ("m16n8k16", "f32", "f16", "f16"),
    ("m16n8k8", "f32", "f16", "f16"),
    ("m16n8k16", "f16", "f16", "f16"),
    ("m16n8k16", "f32", "bf16", "bf16"),
    ("m16n8k8", "f32", "bf16", "bf16"),
    ("m16n8k8", "f32", "tf32", "tf32"),
    ("m16n8k4", "f32", "tf32", "tf32"),
    ("m16n8k32", "s32", "s8", "s8"),
    ("m16n8k32", "s32", "u8", "s8"),
    ("m16n8k16", "s32", "u8", "u8"),
    ("m16n8k32", "f32", "e4m3", "e4m3"),
    ("m16n8k32", "f32", "e5m2", "e4m3"),
]


@pytest.mark.parametrize(("shape", "to", "of_a", "of_b"), CASES)
def test_mma(shape, to, of_a, of_b):
    k, bits = int(shape.split("k")[1]), 8 * KINDS[of_a].itemsize
    a, b = matrix(RNG, (16, k), of_a), matrix(RNG, (k, 8), of_b)
    c_type = {"f32": np.dtype("f4"), "f16": np.dtype("f2"), "s32": np.dtype("i4")}[to]
    c = RNG.integers(-9, 9, (16, 8)).astype(c_type)
    elements_a, elements_b = 16 * k // 32, 8 * k // 32
    regs_a = np.array([[a[a_element(t, i, k, bits)] for i in range(elements_a)] for t in range(32)], a.dtype).view(
        np.uint32
    )
    regs_b = np.array([[b[b_element(t, i, k, bits)] for i in range(elements_b)] for t in range(32)], b.dtype).view(
        np.uint32
    )
    regs_c = np.array([[c[c_element(t, i)] for i in range(4)] for t in range(32)], c_type).view(np.uint32)
    na, nb, nc = regs_a.shape[1], regs_b.shape[1], regs_c.shape[1]
    out = np.zeros((32, nc), np.uint32)

    def regs(start, n):
        return [f"%r{start + i}" for i in range(n)]

    lines = []
    for p, (start, n) in enumerate(((10, na), (20, nb), (30, nc))):
        lines.append(f"mad.wide.u32 %d1, %t, {4 * n}, %p{p};")
        lines += [f"ld.global.b32 {r}, [%d1+{4 * i}];" for i, r in enumerate(regs(start, n))]
    vector = lambda start, n: "{" + ", ".join(regs(start, n)) + "}"  # noqa: E731
    lines.append(
        f"mma.sync.aligned.{shape}.row.col.{to}.{of_a}.{of_b}.{to} "
        f"{vector(40, nc)}, {vector(10, na)}, {vector(20, nb)}, {vector(30, nc)};"
    )
    lines.append(f"mad.wide.u32 %d1, %t, {4 * nc}, %p3;")
    lines += [f"st.global.b32 [%d1+{4 * i}], {r};" for i, r in enumerate(regs(40, nc))]
    report = launch(entry("\n".join(lines), ["p0", "p1", "p2", "p3"]), [regs_a, regs_b, regs_c, out])
    wide = np.int64 if to == "s32" else np.float32
    want = a.astype(wide) @ b.astype(wide) + c.astype(wide)
    got = out.view(c_type)
    for t in range(32):
        for i in range(4):
            assert got[t, i] == want[c_element(t, i)]
    assert sum(report.flops.values()) == 2 * 16 * 8 * k


def test_tf32_drops_the_low_bits():
    one = np.float32(1.0).view(np.uint32) | np.uint32(0x1FFF)
    body = (
        """
    mov.b32 %r1, """
        + str(one)
        + """; mov.b32 %r2, 0f3F800000; mov.f32 %f1, 0f00000000;
    mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32
        {%f1,%f2,%f3,%f4}, {%r1,%r1,%r1,%r1}, {%r2,%r2}, {%f1,%f1,%f1,%f1};
    mad.wide.u32 %d1, %t, 4, %p0; st.global.f32 [%d1], %f2;
    """
    )
    out = np.zeros(32, np.float32)
    launch(entry(body, ["p0"]), [out])
    assert (out == 8.0).all()


def test_integer_saturation():
    text = """mov.b32 %r5, 0x7f7f7f7f; mov.b32 %r6, 0x7ffffffe;
    mma.sync.aligned.m16n8k32.row.col{}.s32.s8.s8.s32
        {{%r1,%r2,%r3,%r4}}, {{%r5,%r5,%r5,%r5}}, {{%r5,%r5}}, {{%r6,%r6,%r6,%r6}};
    mad.wide.u32 %d1, %t, 4, %p0; st.global.b32 [%d1], %r1;"""
    for saturates, want in ((".satfinite", (1 << 31) - 1), ("", 32 * 127 * 127 - 5 - (1 << 31) + 4)):
        out = np.zeros(32, np.int32)
        body = text.format(saturates)
        launch(entry(body, ["p0"]), [out])
        assert (out == (want if saturates else np.int64(0x7FFFFFFE + 32 * 127 * 127).astype(np.int32))).all()


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_ldmatrix_stmatrix(count, transposed):
    """Load matrices row by row, store them elsewhere; the fragment is checked element by element."""
    a = RNG.integers(0, 1 << 16, (count, 8, 8), np.uint16)
    fragments, back = np.zeros((32, count), np.uint32), np.zeros_like(a)
    regs = "{" + ", ".join(f"%r{10 + q}" for q in range(count)) + "}"
    trans = ".trans" if transposed else ""
    body = f"""
    mov.b32 %r1, s;
    setp.lt.u32 %q1, %t, {8 * count};
    shl.b32 %r2, %t, 4; add.s32 %r2, %r2, %r1;
    mad.wide.u32 %d1, %t, 16, %p0;
    @%q1 ld.global.v4.b32 {{%r3, %r4, %r5, %r6}}, [%d1];
    @%q1 st.shared.v4.b32 [%r2], {{%r3, %r4, %r5, %r6}};
    bar.warp.sync -1;
    ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {regs}, [%r2];
    bar.warp.sync -1;
    stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [%r2+512], {regs};
    bar.warp.sync -1;
    @%q1 ld.shared.v4.b32 {{%r3, %r4, %r5, %r6}}, [%r2+512];
    mad.wide.u32 %d1, %t, 16, %p2;
    @%q1 st.global.v4.b32 [%d1], {{%r3, %r4, %r5, %r6}};
    mad.wide.u32 %d1, %t, {4 * count}, %p1;
    """ + "\n".join(f"st.global.b32 [%d1+{4 * q}], %r{10 + q};" for q in range(count))
    report = launch(entry(body, ["p0", "p1", "p2"], "\t.shared .align 16 .b8 s[1024];\n"), [a, fragments, back])
    assert (back == a).all()
    halves = fragments.view(np.uint16).reshape(32, count, 2)
    for lane in range(32):
        for q in range(count):
            for e in range(2):
                row, column = lane // 4, 2 * (lane % 4) + e
                assert halves[lane, q, e] == (a[q, column, row] if transposed else a[q, row, column])
    assert not report.conflicts


def test_ldmatrix_of_unswizzled_rows_conflicts():
    body = """
    mov.b32 %r1, s; shl.b32 %r2, %t, 7; add.s32 %r2, %r2, %r1;
    st.shared.v4.b32 [%r2], {%t, %t, %t, %t};
    bar.warp.sync -1;
    ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r3, %r4, %r5, %r6}, [%r2];
    """
    report = launch(entry(body, [], "\t.shared .align 16 .b8 s[4096];\n"), [])
    (conflict,) = [c for c in report.conflicts if "ldmatrix" in c.text]
    assert (conflict.cost, conflict.ideal) == (32, 4)


def test_movmatrix():
    a = RNG.integers(0, 1 << 16, (8, 8), np.uint16)
    out = np.zeros_like(a)
    body = """
    mad.wide.u32 %d1, %t, 4, %p0; ld.global.b32 %r1, [%d1];
    movmatrix.sync.aligned.m8n8.trans.b16 %r2, %r1;
    mad.wide.u32 %d1, %t, 4, %p1; st.global.b32 [%d1], %r2;
    """
    launch(entry(body, ["p0", "p1"]), [a, out])
    assert (out == a.T).all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2}, {%r1,%r2}, {%f1,%f2};",
            "4, 2, 2, 2 registers: expected 4, 4, 2, 4",
        ),
        (
            "mma.sync.aligned.m16n8k64.row.col.f32.f16.f16.f32 {%f1,%f2}, {%r1,%r2}, {%r1,%r2}, {%f1,%f2};",
            "not a shape of these types",
        ),
        ("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2}, [%r3];", "2 registers: expected 4"),
        ("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%r3], {%r1};", "1 registers: expected 2"),
        ("ldmatrix.sync.aligned.m8n16.x1.shared.b8x16 {%r1}, [%r3];", "unknown modifier '.m8n16'"),
    ],
)
def test_malformed(text, message):
    with pytest.raises(EmulatorError) as e:
        launch(entry("\t" + text, []), [])
    assert message in e.value.message
