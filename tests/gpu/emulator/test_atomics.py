"""atom and red: every operation and type, with many lanes at one address."""

import ml_dtypes
import numpy as np
import pytest

from tests.gpu.emulator.ptx import entry, launch

RNG = np.random.default_rng(5)
BF16 = np.dtype(ml_dtypes.bfloat16)


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize("op", ["add", "min", "max", "and", "or", "xor"])
@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64"])
def test_red(op, kind, space):
    dtype = np.dtype(kind[0].replace("s", "i") + str(int(kind[1:]) // 8))
    a = RNG.integers(0, 1 << 64, 96, np.uint64).astype(f"u{dtype.itemsize}").view(dtype)
    start = a[:1].copy()
    size, kind = dtype.itemsize, kind if op in ("add", "min", "max") else f"b{kind[1:]}"
    kind = kind.replace("s64", "u64") if op == "add" else kind
    reg = "%r1" if size == 4 else "%d3"
    body = f"""
    mad.wide.u32 %d1, %t, {size}, %p0; ld.global.b{8 * size} {reg}, [%d1];
    """
    if space == "global":
        body += f"red.relaxed.gpu.global.{op}.{kind} [%p1], {reg};"
    else:
        tmp = "%r2" if size == 4 else "%d4"
        body += f"""
        ld.global.b{8 * size} {tmp}, [%p1];
        setp.eq.u32 %q1, %t, 0; @%q1 st.shared.b{8 * size} [s], {tmp}; bar.sync 0;
        red.shared.{op}.{kind} [s], {reg}; bar.sync 0;
        ld.shared.b{8 * size} {tmp}, [s]; @%q1 st.global.b{8 * size} [%p1], {tmp};
        """
    launch(entry(body, ["p0", "p1"], "\t.shared .align 8 .b8 s[8];\n"), [a, start], block=96)
    function = {
        "add": np.add,
        "min": np.minimum,
        "max": np.maximum,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
    }
    assert start[0] == function[op].reduce(np.append(a, a[0]), dtype=dtype)


def test_atom_returns_what_was_there():
    out, counter = np.zeros(96, np.uint32), np.zeros(1, np.uint32)
    body = (
        "\tatom.acq_rel.gpu.global.add.u32 %r1, [%p1], 2;\n\tmad.wide.u32 %d1, %t, 4, %p0;\n\tst.global.u32 [%d1], %r1;"
    )
    launch(entry(body, ["p0", "p1"]), [out, counter], block=96)
    assert sorted(out.tolist()) == list(range(0, 192, 2))
    assert out.tolist() != sorted(out.tolist())
    assert counter[0] == 192


def test_inc_dec_exch_cas():
    out, cell = np.zeros(32, np.uint32), np.zeros(4, np.uint32)
    body = """
    atom.global.inc.u32 %r1, [%p1], 4;
    atom.global.dec.u32 %r2, [%p1+4], 4;
    atom.global.exch.b32 %r3, [%p1+8], %t;
    atom.global.cas.b32 %r4, [%p1+12], 0, 77;
    setp.eq.u32 %q1, %r4, 0; selp.u32 %r5, 1, 0, %q1;
    mad.wide.u32 %d1, %t, 4, %p0; st.global.u32 [%d1], %r5;
    """
    launch(entry(body, ["p0", "p1"]), [out, cell])
    assert cell[0] == 32 % 5
    assert cell[1] == -32 % 5
    assert cell[2] < 32
    assert cell[3] == 77
    assert out.sum() == 1


def test_spin_lock_free_maximum_by_cas():
    """A loop that retries until its compare-and-swap succeeds; lanes leave it one by one."""
    a, cell = RNG.standard_normal(64).astype(np.float32), np.zeros(1, np.float32)
    body = """
    mad.wide.u32 %d1, %t, 4, %p0; ld.global.f32 %f1, [%d1];
    ld.global.b32 %r1, [%p1];
L:
    mov.b32 %f2, %r1; max.f32 %f3, %f1, %f2; mov.b32 %r2, %f3; mov.b32 %r3, %r1;
    atom.global.cas.b32 %r1, [%p1], %r3, %r2;
    setp.ne.b32 %q1, %r1, %r3;
    @%q1 bra L;
    """
    launch(entry(body, ["p0", "p1"]), [a, cell], block=64)
    assert cell[0] == a.max()


@pytest.mark.parametrize(
    ("text", "dtype", "width"),
    [
        ("red.global.add.f32 [%d2], %r1;", np.dtype("f4"), 1),
        ("red.relaxed.gpu.global.add.v2.f32 [%d2], {%r1, %r2};", np.dtype("f4"), 2),
        ("red.relaxed.gpu.global.add.v4.f32 [%d2], {%r1, %r2, %r3, %r4};", np.dtype("f4"), 4),
        ("red.global.add.noftz.f16x2 [%d2], %r1;", np.dtype("f2"), 1),
        ("red.global.add.noftz.bf16x2 [%d2], %r1;", BF16, 1),
        ("red.relaxed.gpu.global.add.noftz.v4.bf16x2 [%d2], {%r1, %r2, %r3, %r4};", BF16, 4),
    ],
)
def test_float_additions(text, dtype, width):
    a = RNG.integers(-8, 8, (64, 4 * width // dtype.itemsize)).astype(dtype)
    total = np.zeros((16, a.shape[1]), dtype)
    regs = "{%r1, %r2, %r3, %r4}" if width == 4 else "{%r1, %r2}" if width == 2 else "%r1"
    body = f"""
    mad.wide.u32 %d1, %t, {4 * width}, %p0; ld.global{f".v{width}" if width > 1 else ""}.b32 {regs}, [%d1];
    and.b32 %r9, %t, 15; mad.wide.u32 %d2, %r9, {4 * width}, %p1;
    {text}
    """
    launch(entry(body, ["p0", "p1"]), [a, total], block=64)
    assert (total == a.reshape(4, 16, -1).astype(np.float32).sum(0).astype(dtype)).all()


def test_atom_vector_and_f64():
    a, total, old = RNG.integers(0, 9, 64).astype(np.float64), np.zeros(1), np.zeros(64)
    body = """
    mad.wide.u32 %d1, %t, 8, %p0; ld.global.b64 %d3, [%d1];
    atom.global.add.f64 %d4, [%p1], %d3;
    mad.wide.u32 %d1, %t, 8, %p2; st.global.b64 [%d1], %d4;
    """
    launch(entry(body, ["p0", "p1", "p2"]), [a, total, old], block=64)
    assert total[0] == a.sum()
    assert old.max() < a.sum()
    assert old.min() == 0


def test_shared_histogram_is_no_race():
    a, out = RNG.integers(0, 8, 128, np.uint32), np.zeros(8, np.uint32)
    body = """
    mov.b32 %r5, s; setp.lt.u32 %q1, %t, 8; shl.b32 %r1, %t, 2; add.s32 %r1, %r1, %r5;
    @%q1 st.shared.u32 [%r1], 0; bar.sync 0;
    mad.wide.u32 %d1, %t, 4, %p0; ld.global.u32 %r2, [%d1]; shl.b32 %r2, %r2, 2; add.s32 %r2, %r2, %r5;
    atom.shared.add.u32 %r3, [%r2], 1; bar.sync 0;
    @%q1 ld.shared.u32 %r4, [%r1]; mad.wide.u32 %d2, %t, 4, %p1; @%q1 st.global.u32 [%d2], %r4;
    """
    launch(entry(body, ["p0", "p1"], "\t.shared .align 4 .b8 s[32];\n"), [a, out], block=128)
    assert (out == np.bincount(a, minlength=8)).all()
