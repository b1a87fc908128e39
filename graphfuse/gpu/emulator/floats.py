"""Floating-point arithmetic to the letter: every rounding mode, narrow formats, fused multiply-add.

Values travel as float64, which holds every narrower format and every product of two f32 exactly. What does not
fit is rounded to odd first, so that the second rounding, to the narrow format, is as good as one (Boldo and Melquiond).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graphfuse.gpu.emulator.types import TYPES, Array, Unary


@dataclass(frozen=True, slots=True)
class Format:
    """A binary format: bits of the significand with the leading one, smallest and largest exponent, largest value."""

    precision: int
    min_exponent: int
    largest: float
    has_infinity: bool = True


FORMATS = {
    "f16": Format(11, -14, 65504.0),
    "bf16": Format(8, -126, float(np.float32(3.3895314e38))),
    "tf32": Format(11, -126, float(np.ldexp(2.0 - 2.0**-10, 127))),
    "f32": Format(24, -126, float(np.finfo(np.float32).max)),
    "e4m3": Format(4, -6, 448.0, has_infinity=False),
    "e5m2": Format(3, -14, 57344.0),
}


ROUNDING: dict[str, Unary] = {
    "rn": np.rint,
    "rz": np.trunc,
    "rm": np.floor,
    "rp": np.ceil,
    "rna": lambda x: np.trunc(x + np.copysign(0.5, x)),  # to nearest, ties away from zero
}
"""To an integer, by what instructions call it."""


def quantise(x: Array, to: Format, mode: str = "rn") -> Array:
    """Float64 values rounded to the nearest of a format by `mode`; overflow as that mode has it (no saturation)."""
    _, exponent = np.frexp(x)
    step = np.maximum(exponent - 1, to.min_exponent) - (to.precision - 1)
    scaled = np.ldexp(x, -step)
    result = np.ldexp(ROUNDING[mode](scaled), step)
    result = np.where(np.isfinite(x), np.copysign(result, x), x)
    over = np.isfinite(x) & (np.abs(result) > to.largest)
    if not over.any():
        return result
    down = (mode == "rz") | ((mode == "rm") & (x > 0)) | ((mode == "rp") & (x < 0))
    return np.where(over, np.copysign(np.where(down, to.largest, np.inf), x), result)


def narrow(x: Array, to: str, mode: str = "rn", *, saturate: bool = False) -> Array:
    """Float64 values as numbers of the type `to`, rounded once."""
    dtype = TYPES[to].dtype
    if to == "f64":
        return x
    if to == "f32" and mode == "rn":
        return canonical(x.astype(np.float32), to)
    to_format = FORMATS[to]
    result = quantise(x, to_format, mode)
    if saturate:
        result = np.where(np.isnan(result), result, np.clip(result, -to_format.largest, to_format.largest))
    elif not to_format.has_infinity:
        result = np.where(np.isinf(result), np.nan, result)
    # exact from here on: through f32, which ml_dtypes narrows without a second rounding
    return canonical(result.astype(np.float32).astype(dtype), to)


NAN_BITS = {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF, "tf32": 0x7FFFFFFF, "e4m3": 0x7F, "e5m2": 0x7F}
"""The NaN that the machine makes, whatever went in (seen on an H200); f64 keeps what numpy makes."""


def canonical(x: Array, kind: str = "") -> Array:
    """Every NaN as the machine has it; without a name the kind follows from the array."""
    kind = kind or _NAMES.get(x.dtype, "")
    if kind not in NAN_BITS or not (nan := np.isnan(x)).any():
        return x
    bits = np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}")
    return np.where(nan, bits.dtype.type(NAN_BITS[kind]), bits).view(x.dtype)


_NAMES = {TYPES[name].dtype: name for name in ("f16", "bf16", "f32", "e4m3", "e5m2")}


def relu(x: Array) -> Array:
    """Negative numbers, -0 too, become +0; NaN stays."""
    return np.where((x > 0) | np.isnan(x), x, x.dtype.type(0))


def saturated(x: Array) -> Array:
    """`.sat`: numbers clipped to [0, 1], NaN becomes 0."""
    zero, one = x.dtype.type(0), x.dtype.type(1)
    return np.where(np.isnan(x), zero, np.clip(x, zero, one))


def flush(x: Array) -> Array:
    """`.ftz`: subnormal f32 numbers become zeros of their sign."""
    tiny = np.abs(x) < np.float32(2.0**-126)
    return np.where(tiny, np.copysign(np.float32(0), x), x) if tiny.any() else x


def add_odd(a: Array, b: Array) -> Array:
    """a + b in float64, rounded to odd."""
    total = a + b
    back = total - a
    error = (a - (total - back)) + (b - back)
    return _to_odd(total, error)


def fma_odd(a: Array, b: Array, c: Array) -> Array:
    """a * b + c of numbers with at most 26 bits each way, rounded to odd: the product is exact."""
    return add_odd(a * b, c)


def _to_odd(total: Array, error: Array) -> Array:
    bits = np.ascontiguousarray(total).view(np.int64)
    fix = (error != 0) & ((bits & 1) == 0) & np.isfinite(total)
    if not fix.any():
        return total
    away = (error > 0) == (total > 0)
    return np.where(fix, bits + np.where(away, 1, -1), bits).view(np.float64)


_HALF_WAY = np.int64(1 << 28)
_LOW = np.int64((1 << 29) - 1)
_SMALLEST_NORMAL = 2.0**-126
"""Of f32: sums below are rounded at another bit."""


def fma_f32(a: Array, b: Array, c: Array) -> Array:
    """fma.rn.f32. One float64 sum decides it unless that sum is half way between two f32, or subnormal."""
    product = a.astype(np.float64) * b
    total = product + c
    bits = total.view(np.int64)
    if ((bits & _LOW) == _HALF_WAY).any() or (np.abs(total) < _SMALLEST_NORMAL).any():
        total = add_odd(product, np.broadcast_to(c, product.shape).astype(np.float64))
    return total.astype(np.float32)


def fma_f64(a: Array, b: Array, c: Array) -> Array:
    """a * b + c in float64 with the product's error carried (Dekker): within one unit in the last place."""
    product = a * b
    a_high, b_high = _upper_half(a), _upper_half(b)
    a_low, b_low = a - a_high, b - b_high
    error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    total = product + c
    back = total - product
    error = error + ((product - (total - back)) + (c - back))
    return np.where(np.isfinite(error), total + error, total)


def _upper_half(x: Array) -> Array:
    """The upper half of the significand, rounded so that the rest has no more bits (Dekker, Veltkamp)."""
    scale = np.where(np.abs(x) > 2.0**990, 2.0**-64, 1.0)  # the product below may not overflow
    scaled = x * scale
    split = scaled * 134217729.0
    return (split - (split - scaled)) / scale
