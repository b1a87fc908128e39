"""Exponentials and logarithms as vector code, and what they are made of; naming and wrapping them is `vecmath`'s."""

import struct
from typing import Final

from graphfuse.codegen.vecmath_emit import Code, Value
from graphfuse.codegen.vecmath_format import format_of, odd_poly, round_to_bits

_INF: Final = float("inf")
_NAN: Final = float("nan")


# --- powers of two and the exponential family ---------------------------------------------------


def reduce_exp(c: Code, x: Value, offset: int) -> tuple[Value, Value, Value]:
    """x = n ln 2 + r: return r, n and n + offset as in `round_to_bits` (Cody and Waite)."""
    ln2, ln2_low = format_of(x).parts["ln2"]
    n, bits = round_to_bits(c, x, format_of(x).parts["log2e"][0], offset)
    return c.fma(n, -ln2_low, c.fma(n, -ln2, x)), n, bits


def scaled(p: Value, bits: Value) -> Value:
    """p * 2^n for normal results; bits hold n + bias. By product, so that nan stays nan."""
    return p * (bits << format_of(p).fraction_bits).as_float()


def scaled_wide(c: Code, p: Value, bits: Value, none: Value | None = None) -> Value:
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


def exp_poly(c: Code, r: Value, name: str = "exp") -> Value:
    """exp(r) for reduced r; `name` is the polynomial's."""
    return c.poly(r, (1.0, 1.0, *format_of(r).table[name]))


def exp_less_one(c: Code, r: Value) -> Value:
    """exp(r) - 1 for reduced r."""
    square = r * r
    return c.fma(square, c.paired_poly(r, square, format_of(r).table["exp"]), r)


def exp_wide(c: Code, x: Value, offset: int = 0, *, none: Value | None = None) -> Value:
    """exp(x) * 2^offset for x already clamped; 0 where there is `none` of it."""
    r, _, bits = reduce_exp(c, x, 2 * format_of(x).bias + offset)
    half, other = _halves(bits, x)
    return c.fma(exp_less_one(c, r), half, half) * _but(c, none, other)


def parts_of_exp_of_minus(c: Code, x: Value, low: Value | None = None) -> tuple[Value, Value]:
    """e and s with exp(-x - low) 2^lift = (1 + e) s, s a power of 2; x as below, and `low` little beside it."""
    fmt = format_of(x)
    ln2, ln2_low = fmt.parts["ln2"]
    n, bits = round_to_bits(c, x, -fmt.parts["log2e"][0], fmt.bias + lift(x))
    r = c.fma(n, -ln2_low, c.fma(n, -ln2, -x))
    return exp_less_one(c, r if low is None else r - low), (bits << fmt.fraction_bits).as_float()


def exp_of_minus(c: Code, x: Value) -> Value:
    """exp(-x) 2^lift for x >= 0 and already clamped, which is never subnormal."""
    e, scale = parts_of_exp_of_minus(c, x)
    return c.fma(e, scale, scale)


def lift(x: Value) -> int:
    """A power of two that makes every subnormal number normal."""
    return format_of(x).fraction_bits + 1


def exp(c: Code, x: Value) -> Value:
    """Exp: 2^n p(r), with a clamp that already rounds to 0 and to infinity."""
    low, high = format_of(x).exp_range
    return exp_wide(c, c.at_most(c.at_least(x, low), high), none=x < low)


def exp2(c: Code, x: Value) -> Value:
    """Exp2: 2^n (1 + r p(r)), r = x - n exact."""
    fmt = format_of(x)
    low, high = fmt.exp2_range
    inside = c.at_most(c.at_least(x, low), high)
    n, bits = round_to_bits(c, inside, 1.0, 2 * fmt.bias)
    return scaled_wide(c, c.poly(inside - n, (1.0, *fmt.table["exp2"])), bits, none=x < low)


def expm1(c: Code, x: Value) -> Value:
    """Expm1: 2^n q + (2^n - 1), q = r + r^2 p(r), at half scale as 2^n may overflow."""
    fmt = format_of(x)
    ln2, ln2_low = fmt.parts["ln2"]
    clamped = c.at_most(c.at_least(x, fmt.minus_one), fmt.exp_range[1])
    r, n, bits = reduce_exp(c, clamped, fmt.bias - 1)
    # the low part of the reduction joins last: r alone would carry its rounding into the sum
    high = c.fma(n, -ln2, clamped)
    q = high + c.fma(n, -ln2_low, r * r * c.poly(r, fmt.table["exp"]))
    half = (bits << fmt.fraction_bits).as_float()
    scaled = c.fma(half, q, half - 0.5) * 2.0
    # n = 0 apart: halving would lose the last bit of a subnormal
    return c.select(n.is_(0.0), q, scaled).with_sign_of(x)


def sigmoid(c: Code, x: Value) -> Value:
    """Sigmoid: (x < 0 ? e : 1) / (1 + e), e = exp(-|x|)."""
    unit = 2.0 ** lift(x)
    e = exp_of_minus(c, c.at_most(x.abs(), -format_of(x).exp_range[0]))
    numerator = c.select(x < 0.0, e * (1 / unit), 1.0)
    # as n - n e / (1 + e): for small e the rounding of 1 + e then hardly matters
    return c.fma(-numerator, e / (e + unit), numerator)


def tanh(c: Code, x: Value) -> Value:
    """Tanh: x + x^3 p(x^2) below 0.625, else 1 - 2 / (exp(2x) + 1) (Cephes)."""
    fmt = format_of(x)
    a = c.at_most(x.abs(), fmt.tanh_top)
    r, _, bits = reduce_exp(c, a + a, fmt.bias)
    e = scaled(exp_poly(c, r, "exp_short"), bits)
    large = 1.0 - 2.0 / (e + 1.0)
    return c.select(a < 0.625, odd_poly(c, a, "tanh"), large).with_sign_of(x)


def _half_exp(c: Code, a: Value) -> tuple[Value, Value]:
    """exp(a) / 2 and exp(-a) / 2, for a >= 0; no overflow before the sum of them does."""
    grown = exp_wide(c, c.at_most(a, format_of(a).exp_range[1] + 1.0), -1)
    return grown, 0.25 / grown


def sinh(c: Code, x: Value) -> Value:
    """Sinh: x + x^3 p(x^2) below 1, else the difference of exponentials."""
    a = x.abs()
    grown, shrunk = _half_exp(c, a)
    return c.select(a < 1.0, odd_poly(c, a, "sinh"), grown - shrunk).with_sign_of(x)


def cosh(c: Code, x: Value) -> Value:
    """Cosh: the sum of exponentials."""
    grown, shrunk = _half_exp(c, x.abs())
    return grown + shrunk


# --- the logarithm family -----------------------------------------------------------------------


def _hex_bits(number: float, elem: str) -> int:
    code = {"f32": ("<f", "<i"), "f64": ("<d", "<q")}[elem]
    return struct.unpack(code[1], struct.pack(code[0], number))[0]


def split(c: Code, x: Value) -> tuple[Value, Value, Value]:
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


def split_any(c: Code, x: Value) -> tuple[Value, Value]:
    """As `split` for subnormal x too: return k and m - 1."""
    tiny = x < format_of(x).smallest_normal
    _, k, m = split(c, c.select(tiny, x * 2.0 ** lift(x), x))
    return k - c.select(tiny, float(lift(x)), 0.0), m - 1.0


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


def log(c: Code, x: Value) -> Value:
    """The natural logarithm: k ln 2 and that of m."""
    return _log_specials(c, x, _log_sum(c, *split_any(c, x)), 0.0)


def log2(c: Code, x: Value) -> Value:
    """The logarithm to base 2: k and that of m, whose factor has two parts."""
    k, f = split_any(c, x)
    log2e, log2e_low = format_of(x).parts["log2e"]
    tail = c.fma(_log_tail(c, f), log2e, f * log2e_low)
    return _log_specials(c, x, k + c.fma(f, log2e, tail), 0.0)


def log10(c: Code, x: Value) -> Value:
    """The logarithm to base 10: those of 2^k and of m, the factors of both in two parts."""
    k, f = split_any(c, x)
    parts = format_of(x).parts
    (log10e, log10e_low), (log10_2, log10_2_low) = parts["log10e"], parts["log10_2"]
    tail = c.fma(k, log10_2_low, c.fma(_log_tail(c, f), log10e, f * log10e_low))
    return _log_specials(c, x, c.fma(k, log10_2, c.fma(f, log10e, tail)), 0.0)


def log1p(c: Code, x: Value) -> Value:
    """Log1p: 1 + x = 2^k (1 + f), where f = 2^-k x + (2^-k - 1) is rounded once."""
    fmt = format_of(x)
    biased, k, m = split(c, x + 1.0)
    scale = ((2 * fmt.bias - biased) << fmt.fraction_bits).as_float()
    # 2^-k leaves the normal range for large x, and there 1 + x = x anyway
    f = c.select(x < 2.0 ** (fmt.fraction_bits + 2), c.fma(x, scale, scale - 1.0), m - 1.0)
    return _log_specials(c, x, _log_sum(c, k, f), -1.0).with_sign_of(x)


def asinh(c: Code, x: Value) -> Value:
    """Asinh: log1p(a + a^2 / (1 + sqrt(1 + a^2))); log(a) + ln 2 for large a."""
    fmt = format_of(x)
    a = x.abs()
    large = a > 2.0 ** (fmt.fraction_bits // 2 + 3)
    square = a * a
    inner = a + square / ((square + 1.0).sqrt() + 1.0)
    log = log1p(c, c.select(large, a - 1.0, inner))
    return (log + c.select(large, fmt.parts["ln2"][0], 0.0)).with_sign_of(x)


def acosh(c: Code, x: Value) -> Value:
    """Acosh: log1p(t + sqrt(2 t + t^2)), t = x - 1; log(x) + ln 2 for large x."""
    fmt = format_of(x)
    large = x > 2.0 ** (fmt.fraction_bits // 2 + 3)
    t = x - 1.0
    log = log1p(c, c.select(large, t, t + c.fma(t, t, t + t).sqrt()))
    return c.select(x < 1.0, _NAN, log + c.select(large, fmt.parts["ln2"][0], 0.0))


def atanh(c: Code, x: Value) -> Value:
    """Atanh: log1p(2 a / (1 - a)) / 2."""
    a = x.abs()
    return (log1p(c, (a + a) / (1.0 - a)) * 0.5).with_sign_of(x)
