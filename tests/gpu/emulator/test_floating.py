"""Floating-point arithmetic against exact rational arithmetic."""

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from graphfuse.gpu.emulator import floats
from graphfuse.gpu.emulator.types import TYPES
from tests.gpu.emulator.ptx import apply

RNG = np.random.default_rng(1)
BF16 = np.dtype(ml_dtypes.bfloat16)
DTYPES = {"f16": np.dtype("f2"), "bf16": BF16, "f32": np.dtype("f4"), "f64": np.dtype("f8")}


def values(kind, n=96):
    """Numbers of many sizes, subnormals, zeros, infinities and NaN."""
    dtype = DTYPES[kind]
    x = RNG.integers(0, 1 << 8 * dtype.itemsize, n, f"u{dtype.itemsize}").view(dtype)
    x[: n // 2] = RNG.standard_normal(n // 2).astype(dtype)
    x[:8] = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 3.0]).astype(dtype)
    return x


def exact(x):
    x = float(x)  # numpy warns of a signalling NaN
    return Fraction(x) if math.isfinite(x) else None


def rounded(x, kind, mode, sign=0):
    """A rational rounded to a format by brute force on integers."""
    f = floats.FORMATS[kind]
    if x == 0:
        return -0.0 if sign else 0.0
    e = 0
    while abs(x) >= Fraction(2) ** (e + 1):
        e += 1
    while abs(x) < Fraction(2) ** e:
        e -= 1
    step = Fraction(2) ** (max(e, f.min_exponent) - f.precision + 1)
    q, r = divmod(abs(x) / step, 1)
    q = int(q)
    up = {
        "rn": r > Fraction(1, 2) or (r == Fraction(1, 2) and q & 1),
        "rz": False,
        "rm": x < 0 and r > 0,
        "rp": x > 0 and r > 0,
        "rna": r >= Fraction(1, 2),
    }[mode]
    result = (q + bool(up)) * step
    largest = Fraction(f.largest)
    if result > largest:
        stays = mode == "rz" or (mode == "rm" and x > 0) or (mode == "rp" and x < 0)
        result = largest if stays else None
    if result is None:
        return np.inf if x > 0 else -np.inf
    return float(result) * (1 if x > 0 else -1)


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp", "rna"])
@pytest.mark.parametrize("kind", ["f16", "bf16", "tf32", "f32", "e5m2", "e4m3"])
def test_quantise(kind, mode):
    f = floats.FORMATS[kind]
    x = np.concatenate(
        [
            RNG.standard_normal(200),
            np.ldexp(RNG.standard_normal(200), RNG.integers(f.min_exponent - f.precision - 2, f.min_exponent + 3, 200)),
            np.array(
                [f.largest, -f.largest, f.largest * (1 + 2.0 ** -(f.precision + 1)), f.largest * 1.01, f.largest * 4]
            ),
            (RNG.integers(1, 1 << 10, 50) + 0.5) * 2.0**-3,
        ]
    )
    with np.errstate(all="ignore"):
        got = floats.quantise(x, f, mode)
    want = [rounded(Fraction(v), kind, mode) for v in x.tolist()]
    assert got.tolist() == want


@pytest.mark.parametrize("kind", ["f16", "bf16", "e5m2"])
def test_narrow_is_what_ml_dtypes_does(kind):
    x = RNG.integers(0, 1 << 32, 20000, np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        got, want = floats.narrow(x.astype(np.float64), kind), x.astype(TYPES[kind].dtype)
    same = (got.view(f"u{got.dtype.itemsize}") == want.view(f"u{got.dtype.itemsize}")) | (
        np.isnan(got) & np.isnan(want)
    )
    assert same.all()


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("op", ["add", "sub", "mul", "fma", "div", "rcp", "sqrt"])
def test_f32_rounds_once(op, mode):
    a, b, c = values("f32"), np.roll(values("f32"), 5), np.roll(values("f32"), 11)
    a[60:80] = RNG.standard_normal(20).astype(np.float32) * np.float32(1e-38)
    b[60:70] = np.float32(0.3)
    inputs = {"fma": [a, b, c], "rcp": [a], "sqrt": [np.abs(a)]}.get(op, [a, b])
    text = f"{op}.{mode}.f32 {{d}}, " + ", ".join(f"{{{i}}}" for i in range(len(inputs))) + ";"
    got = apply(text, inputs, np.float32)
    for i, result in enumerate(got):
        xs = [exact(x[i]) for x in inputs]
        if None in xs or (op == "rcp" and not xs[0]) or (op == "div" and not xs[1]):
            continue
        if op == "sqrt":
            want = np.float32(np.sqrt(np.float64(inputs[0][i])))
            if mode != "rn" or xs[0] == 0:
                continue
        else:
            value = {
                "add": lambda a, b: a + b,
                "sub": lambda a, b: a - b,
                "mul": lambda a, b: a * b,
                "fma": lambda a, b, c: a * b + c,
                "div": lambda a, b: a / b,
                "rcp": lambda a: 1 / a,
            }[op](*xs)
            if value == 0:
                assert result == 0
                continue
            want = np.float32(rounded(value, "f32", mode))
        assert result == want, (i, [x[i] for x in inputs], result, want)


def test_fma_that_one_double_rounding_gets_wrong():
    """a * b is just above half way between two f32; adding c in float64 first would lose that."""
    a = b = np.full(32, 1 + 2.0**-12, np.float32)
    c = np.full(32, 2.0**-60, np.float32)
    want = np.float32(rounded(exact(a[0]) * exact(b[0]) + exact(c[0]), "f32", "rn"))
    assert (apply("fma.rn.f32 {d}, {0}, {1}, {2};", [a, b, c], np.float32) == want).all()
    naive = (a.astype(np.float64) * b + c).astype(np.float32)
    assert (naive != want).all()


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("op", ["add", "sub", "mul", "fma"])
def test_halves_round_once(kind, op):
    a, b, c = values(kind), np.roll(values(kind), 5), np.roll(values(kind), 11)
    inputs = [a, b, c] if op == "fma" else [a, b]
    text = f"{op}.rn.{kind} {{d}}, " + ", ".join(f"{{{i}}}" for i in range(len(inputs))) + ";"
    got = apply(text, [x.view(np.uint16) for x in inputs], np.uint16).view(DTYPES[kind])
    for i, result in enumerate(got):
        xs = [exact(x[i]) for x in inputs]
        if None in xs:
            continue
        value = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b}.get(
            op, lambda a, b, c: a * b + c
        )(*xs)
        want = 0.0 if value == 0 else rounded(value, kind, "rn")
        assert float(result) == want


@pytest.mark.parametrize("kind", ["f16x2", "bf16x2"])
def test_pairs(kind):
    part = DTYPES[kind[:-2]]
    a, b, c = (RNG.standard_normal(64).astype(part) for _ in range(3))
    words = [x.view(np.uint32) for x in (a, b, c)]
    wide = [x.astype(np.float64) for x in (a, b, c)]
    run = lambda text, n: apply(text, words[:n], np.uint32).view(part)  # noqa: E731
    assert (
        run(f"fma.rn.{kind} {{d}}, {{0}}, {{1}}, {{2}};", 3) == floats.narrow(wide[0] * wide[1] + wide[2], kind[:-2])
    ).all()
    assert (run(f"add.rn.{kind} {{d}}, {{0}}, {{1}};", 2) == (wide[0] + wide[1]).astype(np.float32).astype(part)).all()
    assert (run(f"max.{kind} {{d}}, {{0}}, {{1}};", 2) == np.maximum(a, b)).all()
    assert (run(f"neg.{kind} {{d}}, {{0}};", 1) == -a).all()
    assert (
        run(f"fma.rn.relu.{kind} {{d}}, {{0}}, {{1}}, {{2}};", 3)
        == np.maximum(floats.narrow(wide[0] * wide[1] + wide[2], kind[:-2]), part.type(0))
    ).all()


@pytest.mark.parametrize("kind", ["f32", "f16", "bf16", "f64"])
@pytest.mark.parametrize("op", ["min", "max"])
@pytest.mark.parametrize("nan", ["", ".NaN"])
def test_min_max(kind, op, nan):
    if kind == "f64" and nan:
        pytest.skip("no such instruction")
    dtype = DTYPES[kind]
    v = np.array([0.0, -0.0, 1.0, -2.0, np.inf, -np.inf, np.nan, 0.5]).astype(dtype)
    a, b = np.repeat(v, 8), np.tile(v, 8)
    size = dtype.itemsize
    got = apply(f"{op}{nan}.{kind} {{d}}, {{0}}, {{1}};", [x.view(f"u{size}") for x in (a, b)], f"u{size}").view(dtype)
    for x, y, z in zip(a.tolist(), b.tolist(), got.tolist(), strict=True):
        x, y, z = float(x), float(y), float(z)
        if np.isnan(x) or np.isnan(y):
            both = np.isnan(x) and np.isnan(y)
            want = np.nan if nan or both else y if np.isnan(x) else x
        else:
            want = sorted((x, y), key=lambda f: (f, not np.signbit(f)))[0 if op == "min" else 1]
        assert np.array_equal([z], [want], equal_nan=True)
        assert np.isnan(z) or np.signbit(z) == np.signbit(want)


def test_signs():
    a = np.nan_to_num(values("f32"))
    assert (apply("neg.f32 {d}, {0};", [a], np.uint32) == a.view(np.uint32) ^ 0x80000000).all()
    assert (apply("abs.f32 {d}, {0};", [a], np.uint32) == a.view(np.uint32) & 0x7FFFFFFF).all()
    b = np.roll(a, 3)
    got = apply("copysign.f32 {d}, {0}, {1};", [a, b], np.float32)
    assert np.array_equal(got, np.copysign(b, a), equal_nan=True)


@pytest.mark.parametrize(("kind", "want"), [("f32", 0x7FFFFFFF), ("f16", 0x7FFF), ("bf16", 0x7FFF)])
def test_one_nan(kind, want):
    """As an H200 makes it."""
    size = DTYPES[kind].itemsize
    a = np.array([np.nan, -np.nan, np.inf, 0] * 8).astype(DTYPES[kind]).view(f"u{size}")
    for text in (
        "add.{} {{d}}, {{0}}, {{0}};",
        "neg.{} {{d}}, {{0}};",
        "min.NaN.{} {{d}}, {{0}}, {{0}};",
        "fma.rn.{} {{d}}, {{0}}, {{0}}, {{0}};",
    ):
        got = apply(text.format(kind), [a], f"u{size}")
        assert got[:2].tolist() == [want, want]
    got = apply(f"sub.{kind} {{d}}, {{0}}, {{0}};", [a], f"u{size}")
    assert got[:4].tolist() == [want, want, want, 0]


def test_flush_and_saturate():
    tiny = np.float32(1e-40)
    a = np.array([tiny, -tiny, 1.5, -0.5] * 8, np.float32)
    got = apply("add.ftz.f32 {d}, {0}, {0};", [a], np.float32)
    assert got[:4].tolist() == [0.0, 0.0, 3.0, -1.0]
    assert np.signbit(got[1])
    assert apply("mul.rn.f32 {d}, {0}, {0};", [a], np.float32)[2] == 2.25
    sat = apply("fma.rn.sat.f32 {d}, {0}, {0}, {0};", [np.array([np.nan, 3, -0.5, 0.25] * 8, np.float32)], np.float32)
    assert sat[:4].tolist() == [0.0, 1.0, 0.0, 0.3125]


@pytest.mark.parametrize(
    ("text", "function"),
    [
        ("ex2.approx.f32", np.exp2),
        ("ex2.approx.ftz.f32", np.exp2),
        ("tanh.approx.f32", np.tanh),
        ("sin.approx.f32", np.sin),
        ("cos.approx.f32", np.cos),
        ("lg2.approx.f32", lambda x: np.log2(np.abs(x))),
        ("rcp.approx.ftz.f32", lambda x: 1 / x),
        ("rsqrt.approx.f32", lambda x: 1 / np.sqrt(np.abs(x))),
        ("sqrt.approx.f32", lambda x: np.sqrt(np.abs(x))),
    ],
)
def test_functions(text, function):
    a = RNG.standard_normal(64).astype(np.float32)
    if any(name in text for name in ("lg2", "sqrt")):
        a = np.abs(a)
    got = apply(f"{text} {{d}}, {{0}};", [a], np.float32)
    assert (got == function(a.astype(np.float64)).astype(np.float32)).all()


def test_function_edges():
    a = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -1.0] + [1.0] * 26, np.float32)
    assert np.array_equal(
        apply("ex2.approx.f32 {d}, {0};", [a], np.float32)[:5], [1, 1, np.inf, 0, np.nan], equal_nan=True
    )
    assert np.array_equal(apply("rcp.approx.f32 {d}, {0};", [a], np.float32)[:4], [np.inf, -np.inf, 0, -0.0])
    assert np.array_equal(apply("lg2.approx.f32 {d}, {0};", [a], np.float32)[[0, 5]], [-np.inf, np.nan], equal_nan=True)
    assert np.isinf(apply("rsqrt.approx.f32 {d}, {0};", [a], np.float32)[0])


def test_packed_functions():
    a = RNG.standard_normal(64).astype(np.float16)
    got = apply("tanh.approx.f16x2 {d}, {0};", [a.view(np.uint32)], np.uint32).view(np.float16)
    assert (got == np.tanh(a.astype(np.float64)).astype(np.float16)).all()
    b = RNG.standard_normal(64).astype(BF16)
    got = apply("ex2.approx.ftz.bf16x2 {d}, {0};", [b.view(np.uint32)], np.uint32).view(BF16)
    assert (got == np.exp2(b.astype(np.float64)).astype(np.float32).astype(BF16)).all()


def test_doubles():
    a, b = RNG.standard_normal((2, 64))
    c = -(a * b)
    assert (apply("mul.rn.f64 {d}, {0}, {1};", [a, b], np.float64) == a * b).all()
    assert (apply("div.rn.f64 {d}, {0}, {1};", [a, b], np.float64) == a / b).all()
    got = apply("fma.rn.f64 {d}, {0}, {1}, {2};", [a, b, c], np.float64)
    want = [float(Fraction(x) * Fraction(y) + Fraction(z)) for x, y, z in zip(a, b, c, strict=True)]
    assert got.tolist() == want


def test_testp():
    a = np.array([0.0, 1.0, np.inf, np.nan, 1e-40] + [2.0] * 27, np.float32)
    for name, want in {
        "finite": [1, 1, 0, 0, 1],
        "infinite": [0, 0, 1, 0, 0],
        "number": [1, 1, 1, 0, 1],
        "notanumber": [0, 0, 0, 1, 0],
        "normal": [1, 1, 0, 0, 0],  # zero is normal, says the ISA
        "subnormal": [0, 0, 0, 0, 1],
    }.items():
        assert apply(f"testp.{name}.f32 {{d}}, {{0}};", [a], np.bool_)[:5].tolist() == [bool(w) for w in want]
