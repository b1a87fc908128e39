"""Vector mathematics as LLVM IR: owns the algorithms and their accuracy.

It does not own angles (`vecmath_trig`), coefficients (`vecmath_tables`), the text
(`vecmath_emit`) or any instruction set:
the code is branch free FMA arithmetic that LLVM lowers for the target at hand. Only sin, cos and
tan branch, to a slow reduction, when a lane is large.

`ULP` is the largest error in units in the last place, tests/codegen/test_vecmath.py holds it. Special
values are those of C99 annex F (nan, infinities, signed zeros, subnormal arguments and results).

Sources: W. Cody, W. Waite, Software Manual for the Elementary Functions, 1980 (reductions);
S. Moshier, Cephes (ranges of asin, atan, tanh); Sun fdlibm (log by s = f / (2 + f));
N. Shibata, F. Petrogalli, SLEEF: a portable vectorized library of C standard mathematical
functions, 2020 (branch free pow in double-double); M. Payne, R. Hanek, Radian reduction for
trigonometric functions, 1983; N. Juffa's erff (1 - exp of a polynomial).
"""

import struct
from collections.abc import Callable
from functools import cache
from typing import Final

from graphfuse.codegen import vecmath_trig
from graphfuse.codegen.vecmath_emit import Code, Value, VectorFunction
from graphfuse.codegen.vecmath_format import FORMATS, format_of, odd_poly, round_to_bits
from graphfuse.codegen.vecmath_tables import F32

_INF: Final = float("inf")
_NAN: Final = float("nan")


# --- powers of two and the exponential family ---------------------------------------------------


def _reduce_exp(c: Code, x: Value, offset: int) -> tuple[Value, Value, Value]:
    """x = n ln 2 + r: return r, n and n + offset as in `round_to_bits` (Cody and Waite)."""
    ln2, ln2_low = format_of(x).parts["ln2"]
    n, bits = round_to_bits(c, x, format_of(x).parts["log2e"][0], offset)
    return c.fma(n, -ln2_low, c.fma(n, -ln2, x)), n, bits


def _scaled(p: Value, bits: Value) -> Value:
    """p * 2^n for normal results; bits hold n + bias. By product, so that nan stays nan."""
    return p * (bits << format_of(p).fraction_bits).as_float()


def _scaled_wide(c: Code, p: Value, bits: Value, none: Value | None = None) -> Value:
    """p * 2^n, results may be subnormal or overflow, and are 0 where there is `none`; bits hold n + 2 bias."""
    half, other = _halves(bits, p)
    return p * half * _but(c, none, other)


def _but(c: Code, none: Value | None, scale: Value) -> Value:
    """A factor that is 0 where there is `none` of the result.

    A product that underflows takes processors a hundred times as long, and masks are made of -1e30.
    """
    return scale if none is None else c.select(none, 0.0, scale)


def _halves(bits: Value, like: Value) -> tuple[Value, Value]:
    """2^(n // 2) and 2^(n - n // 2); bits hold n + 2 bias."""
    shift = format_of(like).fraction_bits
    half = (bits >> 1) << shift
    other = (bits << shift) - half
    return half.as_float(), other.as_float()


def _exp_poly(c: Code, r: Value, name: str = "exp") -> Value:
    return c.poly(r, (1.0, 1.0, *format_of(r).table[name]))


def _exp_less_one(c: Code, r: Value) -> Value:
    """exp(r) - 1 for reduced r."""
    square = r * r
    return c.fma(square, c.paired_poly(r, square, format_of(r).table["exp"]), r)


def _exp_wide(c: Code, x: Value, offset: int = 0, *, none: Value | None = None) -> Value:
    """exp(x) * 2^offset for x already clamped; 0 where there is `none` of it."""
    r, _, bits = _reduce_exp(c, x, 2 * format_of(x).bias + offset)
    half, other = _halves(bits, x)
    return c.fma(_exp_less_one(c, r), half, half) * _but(c, none, other)


def _exp_of_minus(c: Code, x: Value) -> Value:
    """exp(-x) 2^lift for x >= 0 and already clamped, which is never subnormal."""
    fmt = format_of(x)
    lift = _lift(x)
    ln2, ln2_low = fmt.parts["ln2"]
    n, bits = round_to_bits(c, x, -fmt.parts["log2e"][0], fmt.bias + lift)
    r = c.fma(n, -ln2_low, c.fma(n, -ln2, -x))
    scale = (bits << fmt.fraction_bits).as_float()
    return c.fma(_exp_less_one(c, r), scale, scale)


def _lift(x: Value) -> int:
    """A power of two that makes every subnormal number normal."""
    return format_of(x).fraction_bits + 1


def _exp(c: Code, x: Value) -> Value:
    """Exp: 2^n p(r), with a clamp that already rounds to 0 and to infinity."""
    low, high = format_of(x).exp_range
    return _exp_wide(c, c.at_most(c.at_least(x, low), high), none=x < low)


def _exp2(c: Code, x: Value) -> Value:
    """Exp2: 2^n (1 + r p(r)), r = x - n exact."""
    fmt = format_of(x)
    low, high = fmt.exp2_range
    inside = c.at_most(c.at_least(x, low), high)
    n, bits = round_to_bits(c, inside, 1.0, 2 * fmt.bias)
    return _scaled_wide(c, c.poly(inside - n, (1.0, *fmt.table["exp2"])), bits, none=x < low)


def _expm1(c: Code, x: Value) -> Value:
    """Expm1: 2^n q + (2^n - 1), q = r + r^2 p(r), at half scale as 2^n may overflow."""
    fmt = format_of(x)
    ln2, ln2_low = fmt.parts["ln2"]
    clamped = c.at_most(c.at_least(x, fmt.minus_one), fmt.exp_range[1])
    r, n, bits = _reduce_exp(c, clamped, fmt.bias - 1)
    # the low part of the reduction joins last: r alone would carry its rounding into the sum
    high = c.fma(n, -ln2, clamped)
    q = high + c.fma(n, -ln2_low, r * r * c.poly(r, fmt.table["exp"]))
    half = (bits << fmt.fraction_bits).as_float()
    scaled = c.fma(half, q, half - 0.5) * 2.0
    # n = 0 apart: halving would lose the last bit of a subnormal
    return c.select(n.is_(0.0), q, scaled).with_sign_of(x)


def _sigmoid(c: Code, x: Value) -> Value:
    """Sigmoid: (x < 0 ? e : 1) / (1 + e), e = exp(-|x|)."""
    unit = 2.0 ** _lift(x)
    e = _exp_of_minus(c, c.at_most(x.abs(), -format_of(x).exp_range[0]))
    numerator = c.select(x < 0.0, e * (1 / unit), 1.0)
    # as n - n e / (1 + e): for small e the rounding of 1 + e then hardly matters
    return c.fma(-numerator, e / (e + unit), numerator)


def _tanh(c: Code, x: Value) -> Value:
    """Tanh: x + x^3 p(x^2) below 0.625, else 1 - 2 / (exp(2x) + 1) (Cephes)."""
    fmt = format_of(x)
    a = c.at_most(x.abs(), fmt.tanh_top)
    r, _, bits = _reduce_exp(c, a + a, fmt.bias)
    e = _scaled(_exp_poly(c, r, "exp_short"), bits)
    large = 1.0 - 2.0 / (e + 1.0)
    return c.select(a < 0.625, odd_poly(c, a, "tanh"), large).with_sign_of(x)


def _half_exp(c: Code, a: Value) -> tuple[Value, Value]:
    """exp(a) / 2 and exp(-a) / 2, for a >= 0; no overflow before the sum of them does."""
    grown = _exp_wide(c, c.at_most(a, format_of(a).exp_range[1] + 1.0), -1)
    return grown, 0.25 / grown


def _sinh(c: Code, x: Value) -> Value:
    """Sinh: x + x^3 p(x^2) below 1, else the difference of exponentials."""
    a = x.abs()
    grown, shrunk = _half_exp(c, a)
    return c.select(a < 1.0, odd_poly(c, a, "sinh"), grown - shrunk).with_sign_of(x)


def _cosh(c: Code, x: Value) -> Value:
    """Cosh: the sum of exponentials."""
    grown, shrunk = _half_exp(c, x.abs())
    return grown + shrunk


# --- the logarithm family -----------------------------------------------------------------------


def _hex_bits(number: float, elem: str) -> int:
    code = {"f32": ("<f", "<i"), "f64": ("<d", "<q")}[elem]
    return struct.unpack(code[1], struct.pack(code[0], number))[0]


def _split(c: Code, x: Value) -> tuple[Value, Value, Value]:
    """x = 2^k m, sqrt(1/2) <= m < sqrt(2), x normal: return k + bias (integers), k and m."""
    fmt = format_of(x)
    root = _hex_bits(fmt.parts["sqrt_half"][0], x.elem)
    # adding 1 - sqrt(1/2) moves the carry into the exponent to where m passes sqrt(2)
    moved = x.bits() + (_hex_bits(1.0, x.elem) - root)
    biased = moved >> fmt.fraction_bits
    magic = fmt.magic - fmt.bias
    k = (biased + _hex_bits(magic, x.elem)).as_float() - fmt.magic
    m = ((moved & (2**fmt.fraction_bits - 1)) + root).as_float()
    return biased, k, m


def _split_any(c: Code, x: Value) -> tuple[Value, Value]:
    """As `_split` for subnormal x too: return k and m - 1."""
    fmt = format_of(x)
    lift = fmt.fraction_bits + 1
    tiny = x < fmt.smallest_normal
    _, k, m = _split(c, c.select(tiny, x * 2.0**lift, x))
    return k - c.select(tiny, float(lift), 0.0), m - 1.0


def _log_tail(c: Code, f: Value) -> Value:
    """log(1 + f) - f."""
    table = format_of(f).table["log"]
    square = f * f
    if f.elem == "f32":
        return square * c.fma(f, c.poly(f, table), -0.5)
    s = f / (f + 2.0)
    z = s * s
    half_square = square * 0.5
    # fdlibm: f - (f^2/2 - s (f^2/2 + R)), R the odd series less its first term, over s
    return s * c.fma(z, c.poly(z, table), half_square) - half_square


def _log_sum(c: Code, k: Value, f: Value) -> Value:
    """k ln 2 + log(1 + f)."""
    ln2, ln2_low = format_of(f).parts["ln2"]
    return c.fma(k, ln2, f + c.fma(k, ln2_low, _log_tail(c, f)))


def _log_specials(c: Code, x: Value, result: Value, pole: float) -> Value:
    """Result inside (pole, inf); -inf at the pole, nan below, x itself for inf and nan."""
    outside = c.select(x.is_(pole), -_INF, c.select(x < pole, _NAN, x))
    return c.select((x > pole) & (x < _INF), result, outside)


def _log(c: Code, x: Value) -> Value:
    """Log: k ln 2 + log(m)."""
    return _log_specials(c, x, _log_sum(c, *_split_any(c, x)), 0.0)


def _log2(c: Code, x: Value) -> Value:
    """Log2: k + log(m) log2(e), the product in two parts."""
    k, f = _split_any(c, x)
    log2e, log2e_low = format_of(x).parts["log2e"]
    tail = c.fma(_log_tail(c, f), log2e, f * log2e_low)
    return _log_specials(c, x, k + c.fma(f, log2e, tail), 0.0)


def _log1p(c: Code, x: Value) -> Value:
    """Log1p: 1 + x = 2^k (1 + f), where f = 2^-k x + (2^-k - 1) is rounded once."""
    fmt = format_of(x)
    biased, k, m = _split(c, x + 1.0)
    scale = ((2 * fmt.bias - biased) << fmt.fraction_bits).as_float()
    # 2^-k leaves the normal range for large x, and there 1 + x = x anyway
    f = c.select(x < 2.0 ** (fmt.fraction_bits + 2), c.fma(x, scale, scale - 1.0), m - 1.0)
    return _log_specials(c, x, _log_sum(c, k, f), -1.0).with_sign_of(x)


def _asinh(c: Code, x: Value) -> Value:
    """Asinh: log1p(a + a^2 / (1 + sqrt(1 + a^2))); log(a) + ln 2 for large a."""
    fmt = format_of(x)
    a = x.abs()
    large = a > 2.0 ** (fmt.fraction_bits // 2 + 3)
    square = a * a
    inner = a + square / ((square + 1.0).sqrt() + 1.0)
    log = _log1p(c, c.select(large, a - 1.0, inner))
    return (log + c.select(large, fmt.parts["ln2"][0], 0.0)).with_sign_of(x)


def _acosh(c: Code, x: Value) -> Value:
    """Acosh: log1p(t + sqrt(2 t + t^2)), t = x - 1; log(x) + ln 2 for large x."""
    fmt = format_of(x)
    large = x > 2.0 ** (fmt.fraction_bits // 2 + 3)
    t = x - 1.0
    log = _log1p(c, c.select(large, t, t + c.fma(t, t, t + t).sqrt()))
    return c.select(x < 1.0, _NAN, log + c.select(large, fmt.parts["ln2"][0], 0.0))


def _atanh(c: Code, x: Value) -> Value:
    """Atanh: log1p(2 a / (1 - a)) / 2."""
    a = x.abs()
    return (_log1p(c, (a + a) / (1.0 - a)) * 0.5).with_sign_of(x)


# --- erf ----------------------------------------------------------------------------------------


def _erf(c: Code, x: Value) -> Value:
    """Erf: x + x p(x^2) for small x, else 1 - 2^q(x) (after Juffa)."""
    fmt = format_of(x)
    a = c.at_most(x.abs(), fmt.erf_top)
    power = c.poly(a - fmt.erf_middle if fmt.erf_middle else a, fmt.table["erfc_log2"])
    n, bits = round_to_bits(c, power, 1.0, fmt.bias)
    large = 1.0 - _scaled(c.poly(power - n, (1.0, *fmt.table["exp2"])), bits)
    small = c.fma(a, c.poly(a * a, fmt.table["erf"]), a)
    return c.select(a < fmt.erf_split, small, large).with_sign_of(x)


# --- pow ----------------------------------------------------------------------------------------


def _pow_specials(c: Code, x: Value, y: Value, size: Value) -> Value:
    """Give |x|^y the sign of x^y, and the values that logarithms do not (C99 F.9.4.4)."""
    whole = y.trunc().is_(y)
    half = y * 0.5
    odd = whole & half.trunc().is_not(half)
    signed = c.select(odd, size.with_sign_of(x), size)
    undefined = (x < 0.0) & (x > -_INF) & ~whole & y.is_(y)
    unit = x.abs().is_(1.0) & y.abs().is_(_INF)
    one = y.is_(0.0) | x.is_(1.0) | unit
    return c.select(one, 1.0, c.select(undefined, _NAN, signed))


def _log_ends(c: Code, a: Value, log: Value) -> Value:
    """log(a) for a >= 0 with the values at 0, inf and nan."""
    ended = c.select(a < _INF, log, a)
    return c.select(a.is_(0.0), -_INF, ended)


def _pow_f32(c: Code, x: Value, y: Value) -> Value:
    """Pow, f32: 2^(y log2|x|) in f64, where no subnormal of f32 is one and 2^-33 suffices."""
    fmt = FORMATS["f64"]
    a = c.cast("fpext", x.abs(), "f64")
    _, k, m = _split(c, a)
    f = m - 1.0
    log = _log_ends(c, a, c.fma(f, c.poly(f, F32["pow_log"]), k))
    power = c.cast("fpext", y, "f64") * log
    # rounds to 0 and to infinity in f32
    power = c.at_most(c.at_least(power, -160.0), 130.0)
    n, bits = round_to_bits(c, power, 1.0, fmt.bias)
    size = _scaled(c.poly(power - n, (1.0, *F32["pow_exp2"])), bits)
    return _pow_specials(c, x, y, c.cast("fptrunc", size, "f32"))


def _log_double(c: Code, a: Value) -> tuple[Value, Value]:
    """log(a) as an unevaluated sum, to about 2^-68 (SLEEF's logk)."""
    fmt = format_of(a)
    k, f = _split_any(c, a)
    # s = f / (2 + f) = atanh argument, as s + s_low
    d = f + 2.0
    d_low = f - (d - 2.0)
    s = f / d
    s_low = (c.fma(-s, d, f) - s * d_low) / d
    z = s * s
    z_low = c.fma(s, s, -z) + (s + s) * s_low
    cube = s * z
    cube_low = c.fma(s, z, -cube) + c.fma(s, z_low, s_low * z)
    # third = 2/3 s^3
    two_thirds, two_thirds_low = fmt.parts["two_thirds"]
    third = cube * two_thirds
    third_low = c.fma(cube, two_thirds, -third) + c.fma(cube_low, two_thirds, cube * two_thirds_low)
    rest = cube * z * c.poly(z, fmt.table["pow_log"])
    # k ln2 + 2 s + third + rest, largest first, each addition keeping what it rounds off
    ln2, ln2_low = fmt.parts["ln2"]
    base = k * ln2
    base_low = c.fma(k, ln2, -base) + k * ln2_low
    high, low = base, base_low + (s_low + s_low) + third_low + rest
    for term in (s + s, third):
        total = high + term
        # two-sum in full: with k = 0 the term is the larger
        part = total - high
        low = low + ((high - (total - part)) + (term - part))
        high = total
    total = high + low
    return total, low - (total - high)


def _pow_f64(c: Code, x: Value, y: Value) -> Value:
    """Pow, f64: exp(y log|x|), the logarithm and the product in double-double."""
    low, high = format_of(x).exp_range
    a = x.abs()
    log, log_low = _log_double(c, a)
    log = _log_ends(c, a, log)
    power = y * log
    power_low = c.fma(y, log, -power) + y * log_low
    # infinite parts make the low one nan, and a large one is clamped anyway
    power_low = c.select(power.abs() < 1e3, power_low, 0.0)
    power = c.at_most(c.at_least(power, low), high)
    r, _, bits = _reduce_exp(c, power, 2 * format_of(x).bias)
    return _pow_specials(c, x, y, _scaled_wide(c, _exp_poly(c, r + power_low), bits))


def _pow(c: Code, x: Value, y: Value) -> Value:
    """Pow: see `_pow_f32` and `_pow_f64`."""
    return _pow_f32(c, x, y) if x.elem == "f32" else _pow_f64(c, x, y)


# --- interface ----------------------------------------------------------------------------------

BODIES: Final[dict[str, Callable[[Code, Value], Value]]] = {
    "exp": _exp, "exp2": _exp2, "log": _log, "log2": _log2, "log1p": _log1p, "expm1": _expm1, "tanh": _tanh,
    "erf": _erf, "sigmoid": _sigmoid, "sin": vecmath_trig.sin, "cos": vecmath_trig.cos, "tan": vecmath_trig.tan,
    "asin": vecmath_trig.asin, "acos": vecmath_trig.acos, "atan": vecmath_trig.atan, "sinh": _sinh, "cosh": _cosh,
    "asinh": _asinh, "acosh": _acosh, "atanh": _atanh,
}  # fmt: skip
"""Functions of one argument."""

FUNCTIONS: Final = (*BODIES, "pow")

# name -> largest error in ulp (f32, f64); 0.5 would be correctly rounded
ULP: Final[dict[str, tuple[float, float]]] = {
    "exp": (1.0, 1.0), "exp2": (1.0, 1.0), "log": (1.0, 1.0), "log2": (1.1, 1.1), "log1p": (2.0, 2.0),
    "expm1": (2.0, 2.0), "tanh": (2.0, 2.0), "erf": (1.5, 3.0), "sigmoid": (2.0, 2.0), "sin": (2.0, 2.5),
    "cos": (2.0, 2.5), "tan": (4.0, 4.0), "asin": (2.5, 2.5), "acos": (1.5, 1.5), "atan": (2.0, 2.0),
    "sinh": (2.0, 2.0), "cosh": (2.0, 2.0), "asinh": (2.5, 2.5), "acosh": (2.5, 2.5), "atanh": (2.5, 2.5),
    "pow": (1.0, 1.5),
}  # fmt: skip


@cache
def define(fn: str, elem: str, lanes: int) -> VectorFunction:
    """Return the function `fn` on `lanes` elements `elem` (f32 or f64); 1 is a scalar."""
    assert fn in FUNCTIONS, f"no such function: {fn}"
    assert elem in FORMATS, f"no vector maths on {elem}"
    code = Code(f"gf.{fn}.v{lanes}{elem}", elem, lanes)
    x = Value(code, "%x", elem)
    if fn == "pow":
        return code.function(("x", "y"), _pow(code, x, Value(code, "%y", elem)))
    return code.function(("x",), BODIES[fn](code, x))
