"""The shared elementwise functions in numpy: one table for both interpreters.

Floats narrower than f32 are computed in f32 and rounded once; transcendental functions are computed in
f64 and rounded once, so the specification is accurate to about half an ulp and, but for the last bits of
f64 itself, the same on every processor. This module knows arrays and
scalar types; it knows no IR.
"""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false
# numpy's stubs leave most results partly unknown

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from graphfuse.dialects.elementwise import FUNCTIONS, MACHINE_FUNCTIONS
from graphfuse.ir.dense import numpy_dtype, scalar_of
from graphfuse.ir.types import Scalar

Array: TypeAlias = Any
"""A numpy array; numpy's own types say too little to be worth threading through."""

F32_BITS = 32
"""Floats of fewer are computed in f32, as on machines."""
TO_BOOL = frozenset(f.name for f in (*FUNCTIONS, *MACHINE_FUNCTIONS) if f.to_bool)


def apply(name: str, *operands: Array) -> Array:
    """The function `name` of the shared table on arrays of one element type, rounded to that type."""
    dtype = operands[0].dtype
    elem = elem_of(dtype)
    if elem.is_float:
        if name in TRANSCENDENTAL:
            out = _one_nan(TRANSCENDENTAL[name](*(_one_nan(x.astype(np.float64, copy=False)) for x in operands)))
        else:
            out = FLOAT[name](*(x.astype(compute_dtype(dtype), copy=False) for x in operands))
    elif elem.is_integer and elem.bits < 8:
        out = INTEGER[name](*(x.astype(np.int64) for x in operands))
        return np.asarray(out) if name in TO_BOOL else wrap(np.asarray(out), elem)
    else:
        out = INTEGER[name](*operands)
    return np.asarray(out).astype(np.bool_ if name in TO_BOOL else dtype, copy=False)


def _one_nan(x: Array) -> Array:
    """NaN without sign and payload.

    Numpy's libraries for one processor and another differ by the sign that they give it, and by what they make of a
    signalling one: `pow(x, 0)` is 1 or NaN.
    """
    return np.where(np.isnan(x), np.nan, x)


def elem_of(dtype: np.dtype[Any]) -> Scalar:
    """The scalar type an array of `dtype` stores."""
    elem = scalar_of(dtype)
    assert elem is not None, f"no scalar type for {dtype}"
    return elem


def compute_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """What sums and products of `dtype` are accumulated in: f32 for narrower floats, itself otherwise."""
    elem = elem_of(dtype)
    return np.dtype(np.float32) if elem.is_float and elem.bits < F32_BITS else np.dtype(dtype)


def wrap(x: Array, elem: Scalar) -> Array:
    """Integers modulo two to the width of `elem`."""
    if elem.bits >= 8:
        return x.astype(numpy_dtype(elem), copy=False)
    size = 1 << elem.bits
    half = size >> 1 if elem.is_signed else 0
    return (((x.astype(np.int64) + half) & (size - 1)) - half).astype(np.int8).astype(numpy_dtype(elem))


# casts


def cast(x: Array, to: Scalar, *, saturate: bool = False) -> Array:
    """`graph.cast`. Floats outside the target go through i32 for targets up to i32, else through i64.

    The way through a wide integer is the hardware's: NaN and anything outside it become its least value, and the
    narrow result is its low bits. u64 also takes its upper half.
    """
    source = elem_of(x.dtype)
    if source == to:
        return x
    if to.name == "bool":
        return np.asarray(x.astype(compute_dtype(x.dtype), copy=False) != 0)
    if to.is_float:
        return _to_float(x, to, saturate=saturate)
    if source.is_float:
        return _float_to_integer(x.astype(np.float64), to, saturate=saturate)
    if saturate and source.is_integer:
        low, high = integer_range(to)
        s_low, s_high = integer_range(source)
        wide = x.astype(np.uint64 if source.name == "u64" else np.int64)
        x = np.clip(wide, max(low, s_low), min(high, s_high))
    return wrap(np.asarray(x), to)


def _to_float(x: Array, to: Scalar, *, saturate: bool) -> Array:
    if elem_of(x.dtype).bits <= 8:  # of two such types numpy knows no cast
        x = x.astype(np.float32)
    dtype = numpy_dtype(to)
    if saturate and to.bits <= 8:
        x = x.astype(np.float64)
        top = _largest(to)
        x = np.where(np.isnan(x), x, np.clip(x, -top, top))
    return np.asarray(x).astype(dtype)


def _largest(elem: Scalar) -> float:
    """The largest finite value of a narrow float: an exhaustive look at its bit patterns."""
    patterns = np.arange(1 << elem.bits, dtype=np.uint8).view(numpy_dtype(elem)).astype(np.float64)
    return float(np.max(patterns[np.isfinite(patterns)]))


def _float_to_integer(x: Array, to: Scalar, *, saturate: bool) -> Array:
    whole = np.trunc(x)
    if saturate:
        low, high = integer_range(to)
        whole = np.where(np.isnan(whole), 0.0, whole)
        inside = _float_to_integer(np.clip(whole, low, _below(high)), to, saturate=False)
        return np.where(whole >= float(high), literal(high, to), inside)
    if to.name == "u64":
        upper = (whole >= 2.0**63) & (whole < 2.0**64)
        offset = np.where(upper, whole - 2.0**63, 0.0).astype(np.int64).astype(np.uint64)
        return np.where(upper, offset + np.uint64(1 << 63), _hardware(whole, 64).astype(np.uint64))
    return wrap(_hardware(whole, 64 if to.bits > F32_BITS or to.name == "u32" else 32), to)


def _hardware(whole: Array, bits: int) -> Array:
    """cvttsd2si: NaN and values outside a signed integer of `bits` become its least value."""
    edge = 2.0 ** (bits - 1)
    inside = (whole >= -edge) & (whole < edge)
    return np.where(inside, np.where(inside, whole, 0).astype(np.int64), np.int64(-(1 << (bits - 1))))


def _below(high: int) -> float:
    """The largest f64 that does not exceed `high`."""
    x = float(high)
    return x if int(x) <= high else float(np.nextafter(x, 0))


def integer_range(elem: Scalar) -> tuple[int, int]:
    """The least and the greatest value of an integer type."""
    if elem.is_signed:
        return -(1 << (elem.bits - 1)), (1 << (elem.bits - 1)) - 1
    return 0, (1 << elem.bits) - 1


def bitcast(x: Array, to: Scalar) -> Array:
    """Reinterpret the bits of each element."""
    return np.ascontiguousarray(x).view(numpy_dtype(to)).reshape(x.shape)


def literal(value: Any, elem: Scalar) -> Array:
    """A Python number as a 0-d array of `elem`; integers wrap."""
    if elem.is_float:
        return np.asarray(float(value)).astype(numpy_dtype(elem))
    if elem.name == "bool":
        return np.asarray(bool(value))
    whole = int(value) & ((1 << 64) - 1)
    return wrap(np.asarray(whole, np.uint64).view(np.int64), elem).reshape(())


def extreme(elem: Scalar, sign: int) -> Array:
    """Infinity of that sign, or the extreme of a type without: with -1 the identity of max, with 1 that of min."""
    if elem.is_integer:
        low, high = integer_range(elem)
        return literal(high if sign > 0 else low, elem)
    if elem.name == "bool":
        return np.asarray(sign > 0)
    infinity = np.asarray(sign * np.inf).astype(numpy_dtype(elem))
    if np.isinf(infinity.astype(np.float64)):
        return infinity
    least = 0.0 if elem.name == "f8e8m0" else -_largest(elem)
    return np.asarray(_largest(elem) if sign > 0 else least).astype(numpy_dtype(elem))


# fused multiply-add


def fma(a: Array, b: Array, c: Array) -> Array:
    """a * b + c with one rounding (Boldo and Melquiond: an error-free product, sums rounded to odd)."""
    dtype = a.dtype
    x, y, z = (v.astype(np.float64) for v in (a, b, c))
    product = x * y
    plain = product + z
    if dtype == np.float64:
        low = _product_error(x, y, product)
        t_high, t_low = _two_sum(z, low)
        v_high, v_low = _two_sum(product, t_high)
        exact = v_high + _add_to_odd(t_low, v_low)
    else:
        exact = _add_to_odd(product, z)
    return np.asarray(np.where(np.isfinite(exact), exact, plain)).astype(dtype)


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def _product_error(a: Array, b: Array, product: Array) -> Array:
    a_high, b_high = (v * 134217729.0 - (v * 134217729.0 - v) for v in (a, b))
    a_low, b_low = a - a_high, b - b_high
    return ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _add_to_odd(a: Array, b: Array) -> Array:
    """a + b in f64, rounded to the neighbour with an odd last bit unless exact."""
    s, error = _two_sum(a, b)
    s = np.asarray(s)
    even = (s.view(np.int64) & 1) == 0
    toward = np.where(error > 0, np.inf, -np.inf)
    inexact = (error != 0) & np.isfinite(error)
    return np.where(inexact & even, np.nextafter(s, toward), s)


# floats


def erf(x: Array) -> Array:
    """The error function in f64, below one ulp (W. J. Cody's rational forms as in fdlibm's s_erf.c)."""
    x = np.asarray(x)
    a = np.abs(x)
    out = np.where(np.isnan(x), x, np.sign(x))
    small = a < 0.84375
    v = x[small]
    out[small] = v + v * _ratio(v * v, "near_0")
    middle = (a >= 0.84375) & (a < 1.25)
    out[middle] = np.sign(x[middle]) * (8.45062911510467529297e-01 + _ratio(a[middle] - 1.0, "near_1"))
    for low, high, form in ((1.25, 1 / 0.35, "tail"), (1 / 0.35, 6.0, "far_tail")):
        tail = (a >= low) & (a < high)
        v = a[tail]
        out[tail] = np.sign(x[tail]) * (1.0 - np.exp(-v * v - 0.5625 + _ratio(1.0 / (v * v), form)) / v)
    return out


def _ratio(x: Array, form: str) -> Array:
    p, q = _ERF[form]
    return _horner(x, p) / _horner(x, q)


def _horner(x: Array, coefficients: tuple[float, ...]) -> Array:
    out = np.full_like(x, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        out = out * x + c
    return out


_ERF: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "near_0": (  # pp, qq: |x| < 0.84375
        (1.28379167095512558561e-01, -3.25042107247001499370e-01, -2.84817495755985104766e-02,
         -5.77027029648944159157e-03, -2.37630166566501626084e-05),
        (1.0, 3.97917223959155352819e-01, 6.50222499887672944485e-02, 5.08130628187576562776e-03,
         1.32494738004321644526e-04, -3.96022827877536812320e-06),
    ),
    "near_1": (  # pa, qa: |x| < 1.25
        (-2.36211856075265944077e-03, 4.14856118683748331666e-01, -3.72207876035701323847e-01,
         3.18346619901161753674e-01, -1.10894694282396677476e-01, 3.54783043256182359371e-02,
         -2.16637559486879084300e-03),
        (1.0, 1.06420880400844228286e-01, 5.40397917702171048937e-01, 7.18286544141962662868e-02,
         1.26171219808761642112e-01, 1.36370839120290507362e-02, 1.19844998467991074170e-02),
    ),
    "tail": (  # ra, sa: |x| < 1 / 0.35
        (-9.86494403484714822705e-03, -6.93858572707181764372e-01, -1.05586262253232909814e01,
         -6.23753324503260060396e01, -1.62396669462573470355e02, -1.84605092906711035994e02, -8.12874355063065934246e01,
         -9.81432934416914548592e00),
        (1.0, 1.96512716674392571292e01, 1.37657754143519042600e02, 4.34565877475229228821e02,
         6.45387271733267880336e02, 4.29008140027567833386e02, 1.08635005541779435134e02, 6.57024977031928170135e00,
         -6.04244152148580987438e-02),
    ),
    "far_tail": (  # rb, sb: |x| < 6
        (-9.86494292470009928597e-03, -7.99283237680523006574e-01, -1.77579549177547519889e01,
         -1.60636384855821916062e02, -6.37566443368389627722e02, -1.02509513161107724954e03,
         -4.83519191608651397019e02),
        (1.0, 3.03380607434824582924e01, 3.25792512996573918826e02, 1.53672958608443695994e03,
         3.19985821950859553908e03, 2.55305040643316442583e03, 4.74528541206955367215e02, -2.24409524465858183362e01),
    ),
}  # fmt: skip
"""Numerators and denominators, lowest order first, with their names and ranges in s_erf.c."""


def _sigmoid(x: Array) -> Array:
    return 1.0 / (1.0 + np.exp(-x))


def _erfinv(x: float) -> float:
    """By quantiles of the normal distribution, which are accurate away from its middle; there one of Newton's steps."""
    size = abs(x)
    if not size < 1:
        return math.copysign(math.inf, x) if size == 1 else math.nan
    y = -_NORMAL.inv_cdf((1 - size) / 2) / math.sqrt(2)
    if size < 0.5:
        y -= (math.erf(y) - size) * math.exp(y * y) * math.sqrt(math.pi) / 2
    return math.copysign(y, x)


def _lgamma(x: float) -> float:
    try:
        return math.lgamma(x)
    except (ValueError, OverflowError):  # a pole, or too large
        return math.inf


def _each(function: Callable[[float], float]) -> Callable[[Array], Array]:
    """A function of Python's numbers on arrays."""
    return np.vectorize(function, otypes=[np.float64])


_NORMAL = statistics.NormalDist()


TRANSCENDENTAL: dict[str, Callable[..., Array]] = {
    "pow": np.power, "atan2": np.arctan2, "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log,
    "log2": np.log2, "log1p": np.log1p, "tanh": np.tanh, "erf": erf, "sigmoid": _sigmoid, "sin": np.sin,
    "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh,
    "cosh": np.cosh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "rsqrt": lambda x: 1.0 / np.sqrt(x), "logaddexp": np.logaddexp,
    "exp10": lambda x: np.power(10.0, x), "log10": np.log10, "cbrt": np.cbrt, "hypot": np.hypot,
    "erfc": _each(math.erfc), "erfinv": _each(_erfinv), "lgamma": _each(_lgamma),
}  # fmt: skip
"""Computed in f64 whatever the element."""

COMPARISONS: dict[str, Callable[..., Array]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip

FLOAT: dict[str, Callable[..., Array]] = COMPARISONS | {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide,
    "floordiv": lambda a, b: np.floor(a / b), "floormod": np.mod, "truncmod": np.fmod,
    "max": np.maximum, "min": np.minimum, "neg": np.negative, "abs": np.abs, "sign": np.sign, "sqrt": np.sqrt,
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.rint, "isnan": np.isnan, "isinf": np.isinf,
    "maxnum": np.fmax, "minnum": np.fmin, "div_rn": np.divide, "copysign": np.copysign,
}  # fmt: skip
"""Exact or correctly rounded functions of floats; computed in f32 at least."""


# integers


def _truncdiv(a: Array, b: Array) -> Array:
    quotient = np.floor_divide(a, b)  # numpy's x // 0 is 0 already
    short = (np.fmod(a, b) != 0) & ((a < 0) != (b < 0))
    return np.where(short, quotient + np.ones_like(quotient), quotient)


def _power(a: Array, b: Array) -> Array:
    """Square and multiply, wrapping; 1 / a**n truncated for negative exponents (0 for a = 0)."""
    negative = b < 0
    left = np.where(negative, np.zeros_like(b), b)
    out, square = np.ones_like(a), a
    while np.any(left):
        out = np.where((left & 1) != 0, out * square, out)
        square = square * square
        left = left >> 1
    if np.any(negative):
        odd = np.where((b & 1) != 0, a, np.ones_like(a))
        out = np.where(negative, np.where((a == 1) | (a == -1), odd, np.zeros_like(a)), out)
    return out


def _shifted(shift: Callable[..., Array], a: Array, b: Array, beyond: Array) -> Array:
    """`beyond` is what is left when all bits are shifted out."""
    far = (b < 0) | (b >= a.dtype.itemsize * 8)
    return np.where(far, beyond, shift(a, np.where(far, np.zeros_like(b), b)))


def _shift_left(a: Array, b: Array) -> Array:
    return _shifted(np.left_shift, a, b, np.zeros_like(a))


def _shift_right(a: Array, b: Array) -> Array:
    return _shifted(np.right_shift, a, b, np.where(a < 0, ~np.zeros_like(a), np.zeros_like(a)))


def _upper_half(a: Array, b: Array) -> Array:
    bits = 8 * a.dtype.itemsize
    exact = a.astype(object) * b.astype(object)
    return np.asarray(np.asarray(exact, object) >> bits, object).astype(a.dtype)


def _bits(x: Array) -> Array:
    """The bits of integers, the lowest last."""
    raw = np.ascontiguousarray(x).reshape(-1)
    raw = raw.view(np.dtype(f"u{raw.dtype.itemsize}")).astype(raw.dtype.newbyteorder(">").str.replace("i", "u"))
    return np.unpackbits(raw.view(np.uint8)).reshape(*x.shape, 8 * x.dtype.itemsize)


def _leading_zeros(x: Array) -> Array:
    bits = _bits(x)
    return np.where(bits.any(-1), bits.argmax(-1), bits.shape[-1]).astype(x.dtype)


INTEGER: dict[str, Callable[..., Array]] = COMPARISONS | {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "floordiv": np.floor_divide, "truncdiv": _truncdiv,
    "floormod": np.mod, "truncmod": np.fmod, "pow": _power, "max": np.maximum, "min": np.minimum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "shl": _shift_left, "shr": _shift_right,
    "neg": np.negative, "abs": np.abs, "sign": np.sign, "not": np.invert,
    "mulhi": _upper_half, "popcount": lambda x: _bits(x).sum(-1).astype(x.dtype), "clz": _leading_zeros,
}  # fmt: skip
"""Functions of integers and bools; numpy wraps."""
