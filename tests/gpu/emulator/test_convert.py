"""cvt and mov against numpy, ml_dtypes and, for rounding, `floats.quantise` (tested on its own)."""

import ml_dtypes
import numpy as np
import pytest

from graphfuse.gpu.emulator import floats
from tests.gpu.emulator.ptx import apply, entry, launch

RNG = np.random.default_rng(2)
BF16 = np.dtype(ml_dtypes.bfloat16)
E4M3 = np.dtype(ml_dtypes.float8_e4m3fn)
E5M2 = np.dtype(ml_dtypes.float8_e5m2)


def f32(n=64):
    x = (RNG.standard_normal(n) * 10.0 ** RNG.integers(-6, 6, n)).astype(np.float32)
    x[:8] = [0.0, -0.0, 0.5, 1.5, 2.5, -2.5, 1e30, -1e30]
    return x


@pytest.mark.parametrize("to", ["s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"])
@pytest.mark.parametrize("of", ["s32", "u32", "s64", "u16", "s8"])
def test_integers(to, of):
    def dtype(name):
        return np.dtype(name[0].replace("s", "i") + str(int(name[1:]) // 8))

    a = RNG.integers(0, 1 << 64, 64, np.uint64).astype(f"u{dtype(of).itemsize}").view(dtype(of))
    # the destination register is as wide as the emulated type or wider, never narrower
    carrier = dtype(to) if dtype(to).itemsize > 1 else np.dtype(f"{dtype(to).kind}2")
    got = apply(f"cvt.{to}.{of} {{d}}, {{0}};", [a], carrier)
    assert (got == a.astype(dtype(to)).astype(carrier)).all()
    limits, have = np.iinfo(dtype(to)), np.iinfo(dtype(of))
    if limits.min <= have.min and have.max <= limits.max:
        return  # .sat is for what may not fit
    got = apply(f"cvt.sat.{to}.{of} {{d}}, {{0}};", [a], carrier)
    assert got.tolist() == [min(max(int(x), limits.min), limits.max) for x in a]


@pytest.mark.parametrize(
    ("mode", "function"), [("rni", np.rint), ("rzi", np.trunc), ("rmi", np.floor), ("rpi", np.ceil)]
)
@pytest.mark.parametrize("to", ["s32", "u32", "s64", "s16"])
def test_float_to_integer(mode, function, to):
    a = f32()
    a[8:11] = [np.nan, np.inf, -np.inf]
    dtype = np.dtype(to[0].replace("s", "i") + str(int(to[1:]) // 8))
    got = apply(f"cvt.{mode}.{to}.f32 {{d}}, {{0}};", [a], dtype)
    limits = np.iinfo(dtype)
    for x, y in zip(a.tolist(), got.tolist(), strict=True):
        nan = limits.min if dtype.itemsize == 8 else 0
        want = nan if np.isnan(x) else limits.max if x == np.inf else limits.min if x == -np.inf else int(function(x))
        assert y == min(max(want, limits.min), limits.max)


def test_integer_to_float():
    a = RNG.integers(-(1 << 31), 1 << 31, 64).astype(np.int32)
    b = RNG.integers(-(1 << 63), (1 << 63) - 1, 64)
    assert (apply("cvt.rn.f32.s32 {d}, {0};", [a], np.float32) == a.astype(np.float32)).all()
    assert (apply("cvt.rn.f32.s64 {d}, {0};", [b], np.float32) == b.astype(np.float32)).all()
    assert (apply("cvt.rn.f64.u32 {d}, {0};", [a.view(np.uint32)], np.float64) == a.view(np.uint32)).all()
    want = floats.quantise(a.astype(np.float64), floats.FORMATS["f32"], "rz")
    assert (apply("cvt.rz.f32.s32 {d}, {0};", [a], np.float32) == want).all()
    small = RNG.integers(-2048, 2048, 64).astype(np.int32)
    assert (apply("cvt.rn.f16.s32 {d}, {0};", [small], np.uint16).view(np.float16) == small).all()


@pytest.mark.parametrize(
    ("mode", "function"), [("rni", np.rint), ("rzi", np.trunc), ("rmi", np.floor), ("rpi", np.ceil)]
)
def test_float_to_integral_float(mode, function):
    a = f32()
    assert (apply(f"cvt.{mode}.f32.f32 {{d}}, {{0}};", [a], np.float32) == function(a)).all()


@pytest.mark.parametrize("mode", ["rn", "rz"])
@pytest.mark.parametrize(("kind", "dtype"), [("f16", np.dtype("f2")), ("bf16", BF16)])
def test_f32_to_half(kind, dtype, mode):
    a = f32()
    got = apply(f"cvt.{mode}.{kind}.f32 {{d}}, {{0}};", [a], np.uint16).view(dtype)
    want = floats.quantise(a.astype(np.float64), floats.FORMATS[kind], mode)
    assert (got.astype(np.float64) == want).all()
    if mode == "rn":
        with np.errstate(over="ignore"):
            assert (got == a.astype(dtype)).all()
        low, high = a, np.roll(a, 7)
        pair = apply(f"cvt.rn.{kind}x2.f32 {{d}}, {{1}}, {{0}};", [low, high], np.uint32).view(dtype).reshape(-1, 2)
        with np.errstate(over="ignore"):
            assert (pair[:, 0] == low.astype(dtype)).all()
            assert (pair[:, 1] == high.astype(dtype)).all()
        relu = apply(f"cvt.rn.relu.{kind}.f32 {{d}}, {{0}};", [a], np.uint16).view(dtype)
        with np.errstate(over="ignore"):
            assert (relu == np.maximum(a, 0).astype(dtype)).all()
    assert (apply(f"cvt.f32.{kind} {{d}}, {{0}};", [got.view(np.uint16)], np.float32) == got.astype(np.float32)).all()


def test_f64():
    a = RNG.standard_normal(64)
    assert (apply("cvt.rn.f32.f64 {d}, {0};", [a], np.float32) == a.astype(np.float32)).all()
    b = a.astype(np.float32)
    assert (apply("cvt.f64.f32 {d}, {0};", [b], np.float64) == b).all()


def test_tf32():
    a = f32()
    got = apply("cvt.rna.tf32.f32 {d}, {0};", [a], np.float32)
    assert (got == floats.quantise(a.astype(np.float64), floats.FORMATS["tf32"], "rna")).all()
    assert (got.view(np.uint32) & 0x1FFF == 0).all()


@pytest.mark.parametrize(("kind", "dtype", "largest"), [("e4m3", E4M3, 448.0), ("e5m2", E5M2, 57344.0)])
def test_fp8(kind, dtype, largest):
    low, high = f32(), np.roll(f32(), 9)
    low[20] = np.nan
    got = (
        apply(f"cvt.rn.satfinite.{kind}x2.f32 {{d}}, {{1}}, {{0}};", [low, high], np.uint16).view(dtype).reshape(-1, 2)
    )
    with np.errstate(invalid="ignore"):
        want = np.clip(np.stack([low, high], 1), -largest, largest).astype(dtype)
    assert np.array_equal(got.astype(np.float32), want.astype(np.float32), equal_nan=True)
    halves = np.clip(np.stack([low, high], 1), -60000, 60000).astype(np.float16).reshape(-1).view(np.uint32)
    got = apply(f"cvt.rn.satfinite.{kind}x2.f16x2 {{d}}, {{0}};", [halves], np.uint16).view(dtype)
    with np.errstate(invalid="ignore"):
        want = np.clip(halves.view(np.float16).astype(np.float32), -largest, largest).astype(dtype)
    assert np.array_equal(got.astype(np.float32), want.astype(np.float32), equal_nan=True)
    every = np.arange(256, dtype=np.uint8).view(np.uint16)
    back = apply(f"cvt.rn.f16x2.{kind}x2 {{d}}, {{0}};", [every], np.uint32).view(np.float16)
    assert np.array_equal(back, every.view(dtype).astype(np.float16), equal_nan=True)


def test_mov_packs_and_unpacks():
    a, b = RNG.integers(0, 1 << 32, (2, 64), np.uint32)
    both = apply("mov.b64 {d}, {{0}, {1}};".replace("{{", "{ {").replace("}}", "} }"), [a, b], np.uint64)
    assert (both == (b.astype(np.uint64) << np.uint64(32) | a)).all()
    low, high = apply("mov.b64 { {d0}, {d1} }, {0};", [both], np.uint32, outs=2)
    assert (low == a).all()
    assert (high == b).all()
    (half,) = [apply("mov.b32 { %h1, %h2 }, {0};\n\tmov.b32 {d}, { %h2, %h1 };", [a], np.uint32)]
    assert (half == (a << 16 | a >> 16)).all()


def test_special_registers():
    body = """
    mov.u32 %r1, %ctaid.y; mov.u32 %r2, %nctaid.x; mad.lo.u32 %r1, %r1, %r2, %c;
    mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.y; mov.u32 %r5, %ntid.y; mul.lo.u32 %r6, %r3, %r5;
    mad.lo.u32 %r7, %r4, %r3, %t;
    mad.lo.u32 %r8, %r1, %r6, %r7;
    mov.u32 %r9, %laneid; mov.u32 %r10, %lanemask_lt; mov.u32 %r11, %warpid; mov.u32 %r12, WARP_SZ;
    mad.wide.u32 %d1, %r8, 16, %p0;
    st.global.v4.u32 [%d1], {%r9, %r10, %r11, %r12};
    """
    out = np.zeros((6 * 40, 4), np.uint32)
    from graphfuse.gpu.emulator import Emulator

    Emulator(entry(body, ["p0"])).launch("k", (3, 2), (20, 2), [out])
    thread = np.arange(240) % 40
    assert (out[:, 0] == thread % 32).all()
    assert (out[:, 1] == (1 << thread % 32) - 1).all()
    assert (out[:, 2] == thread // 32).all()
    assert (out[:, 3] == 32).all()


def test_literals():
    out = np.zeros(8, np.uint64)
    body = """
    mov.f32 %f1, 0f3FC00000; mov.b32 %r1, 0x10; mov.s32 %r2, -1; mov.f64 %e1, 0d3FF8000000000000;
    add.f32 %f1, %f1, 1.0; cvt.u64.u32 %d2, %r2; mov.b64 %d3, %e1; cvt.rn.f32.s32 %f2, 5;
    mov.b32 %r3, %f1; mov.b32 %r4, %f2; mov.b64 %d1, {%r3, %r4};
    st.global.u64 [%p0], %d1; st.global.u64 [%p0+8], %d2; st.global.u64 [%p0+16], %d3; st.global.s64 [%p0+24], -2;
    """
    launch(entry(body, ["p0"]), [out], block=1)
    assert out[0].reshape(1).view(np.float32).tolist() == [2.5, 5.0]
    assert out[1:4].tolist() == [0xFFFFFFFF, 0x3FF8000000000000, (1 << 64) - 2]
