"""Special functions, powers of ten and roots as vector code; naming and wrapping them is `vecmath`'s.

Sources: M. Shepherd, J. Laframboise, Chebyshev approximation of (1 + 2x) exp(x^2) erfc x, 1981; M. Giles,
Approximating the erfinv function, 2011; Sun fdlibm (ranges of lgamma, first guess of cbrt); W. Kahan (cbrt by
the bits of the exponent, hypot by scaling); N. Juffa's erff (1 - exp of a polynomial).
"""

import math
from dataclasses import replace
from typing import Final

from graphfuse.codegen import vecmath_exp
from graphfuse.codegen.vecmath_emit import Code, Operand, Value
from graphfuse.codegen.vecmath_format import format_of, round_to_bits

_INF: Final = float("inf")
_NAN: Final = float("nan")
_TWO_OVER_ROOT_PI: Final = 2 / math.sqrt(math.pi)
_ERFC_TOP: Final = {"f32": 10.1, "f64": 27.25}
"""erfc is less than half of the least number, 0, from here on."""


def exp10(c: Code, x: Value) -> Value:
    """10^x = 2^n e^(r ln 10), x = n log10(2) + r by two parts."""
    fmt = format_of(x)
    low, high = (bound * fmt.parts["log10_2"][0] for bound in fmt.exp2_range)
    inside = c.at_most(c.at_least(x, low), high)
    n, bits = round_to_bits(c, inside, fmt.parts["log2_10"][0], 2 * fmt.bias)
    log10_2, log10_2_low = fmt.parts["log10_2"]
    r = c.fma(n, -log10_2_low, c.fma(n, -log10_2, inside))
    ln10, ln10_low = fmt.parts["ln10"]
    power = r * ln10
    power_low = c.fma(r, ln10_low, c.fma(r, ln10, -power))
    grown = vecmath_exp.exp_less_one(c, power) + power_low
    return vecmath_exp.scaled_wide(c, grown + 1.0, bits, none=x < low)


def cbrt(c: Code, x: Value) -> Value:
    """A third of the bits as a first guess, Halley's steps, and one of Newton's with an exact remainder.

    The guess has 5 bits (fdlibm); each of Halley's steps triples them, Newton's doubles them.
    """
    size = x.abs()
    # by powers of 8 to where nothing is subnormal and no sum overflows
    lift = {"f32": 24, "f64": 54}[x.elem]
    small = size < 1.0
    a = size * c.select(small, 2.0**lift, 2.0**-lift)
    t = _third_of_bits(a)
    for _ in range({"f32": 1, "f64": 2}[x.elem]):
        cube = t * t * t
        t = t * ((cube + (a + a)) / (cube + cube + a))
    square = t * t
    remainder = c.fma(-square, t, a) - c.fma(t, t, -square) * t
    root = (t + remainder / (square * 3.0)) * c.select(small, 2.0 ** (-lift // 3), 2.0 ** (lift // 3))
    return c.select((size > 0.0) & (size < _INF), root, size).with_sign_of(x)


def _third_of_bits(a: Value) -> Value:
    """2^(e / 3) (1 + about f / 3) for a = 2^e (1 + f), from the bits of a as an integer."""
    fmt = format_of(a)
    bits = a.bits()
    # the upper word divided by 3: 2^32 / 3 times it, rounded up, does that for words of 31 bits
    upper = a.code.cast("zext", bits, "i64") if a.elem == "f32" else bits >> 32
    third = (upper * 0x55555556) >> 32
    third = a.code.cast("trunc", third, "i32") if a.elem == "f32" else third << 32
    # two thirds of the exponent's bias, less what makes the error as large on both sides (fdlibm)
    bias = round((2 / 3 * fmt.bias - 0.03306235651) * 2.0**fmt.fraction_bits)
    return (third + bias).as_float()


def hypot(c: Code, x: Value, y: Value) -> Value:
    """sqrt(x^2 + y^2), scaled by a power of 2 where a square may leave the normal range; inf beside NaN."""
    fmt = format_of(x)
    a, b = x.abs(), y.abs()
    larger = c.select(a > b, a, b)
    # a number that counts beside the larger one is no smaller by more than the fraction, so has a normal square
    half = fmt.bias // 2
    is_large, is_small = larger > 2.0 ** (half - 2), larger < 2.0 ** (fmt.fraction_bits + 2 - half)
    # takes the least and the largest number between the two
    step = {"f32": 100, "f64": 700}[x.elem]

    def by_size(large: float, small: float) -> Value:
        return c.select(is_large, large, c.select(is_small, small, c.constant(1.0, x.elem)))

    scale = by_size(2.0**-step, 2.0**step)
    a, b = a * scale, b * scale
    root = c.fma(a, a, b * b).sqrt() * by_size(2.0**step, 2.0**-step)
    return c.select(x.abs().is_(_INF) | y.abs().is_(_INF), _INF, root)


# --- the error function, its complement and its inverse -----------------------------------------


def erf(c: Code, x: Value) -> Value:
    """x + x p(x^2) for small x, else 1 - 2^q(x) (after Juffa)."""
    fmt = format_of(x)
    a = c.at_most(x.abs(), fmt.erf_top)
    power = c.poly(a - fmt.erf_middle if fmt.erf_middle else a, fmt.table["erfc_log2"])
    n, bits = round_to_bits(c, power, 1.0, fmt.bias)
    large = 1.0 - vecmath_exp.scaled(c.poly(power - n, (1.0, *fmt.table["exp2"])), bits)
    return c.select(a < fmt.erf_split, _erf_near_0(c, a), large).with_sign_of(x)


def _erf_near_0(c: Code, x: Value) -> Value:
    return c.fma(x, c.poly(x * x, format_of(x).table["erf"]), x)


def erfc(c: Code, x: Value) -> Value:
    """1 - erf(x) below 1/2, exp(-a^2) P((a - 4) / (a + 4)) / (1 + 2 a) beyond, and 2 less that for negative x."""
    size = x.abs()
    scaled = _lifted_erfc(c, c.at_most(size, _ERFC_TOP[x.elem]))
    tail = scaled * 2.0 ** -vecmath_exp.lift(x)
    tail = c.select(x < 0.0, 2.0 - tail, tail)
    return c.select(size < 0.5, 1.0 - _erf_near_0(c, x), tail)


def _lifted_erfc(c: Code, a: Value) -> Value:
    """erfc(a) 2^lift, which is never subnormal, for a from 0 to where erfc is 0."""
    inverse = 1.0 / (a + 4.0)
    q = (a - 4.0) * inverse
    # less what its rounding leaves of a - 4 = q (a + 4)
    q = c.fma(inverse, c.fma(-q, a, c.fma(q + 1.0, -4.0, a)), q)
    square = a * a
    e, scale = vecmath_exp.parts_of_exp_of_minus(c, square, c.fma(a, a, -square))
    series = c.poly(q, format_of(a).table["erfc"])
    divisor = c.fma(a, 2.0, 1.0)
    ratio = series / divisor
    ratio_low = c.fma(-ratio, divisor, series) / divisor
    return (ratio + c.fma(ratio, e, ratio_low)) * scale


def erfinv(c: Code, x: Value) -> Value:
    """x P(w), w = -log(1 - x^2), or x P(sqrt(w)) (Giles); in f64 that is a guess."""
    table = format_of(x).table
    w = -vecmath_exp.log(c, c.fma(-x, x, 1.0))
    middle = c.poly(w - 2.5, table["erfinv"])
    tail = c.poly(w.sqrt() - 3.0, table["erfinv_tail"])
    y = x.abs() * c.select(w < 5.0, middle, tail)
    if x.elem == "f64":
        y = _halley(c, x.abs(), y)
    ended = c.select(x.abs().is_(1.0), _INF, y)
    return ended.with_sign_of(x)


def _halley(c: Code, x: Value, y: Value) -> Value:
    """A better y with erf(y) = x: u = (erf(y) - x) / erf'(y), y - u / (1 + u y)."""
    size = c.at_most(y, 6.0)  # 1 - 2^-53 is the erf of 5.9
    tail = _lifted_erfc(c, size) * 2.0 ** -vecmath_exp.lift(x)
    # 1 - x is exact where it is used
    error = c.select(x < 0.5, _erf_near_0(c, size) - x, (1.0 - x) - tail)
    slope = vecmath_exp.exp(c, -(size * size)) * _TWO_OVER_ROOT_PI
    u = error / slope
    return y - u / c.fma(u, y, 1.0)


# --- the gamma function -------------------------------------------------------------------------


def lgamma(c: Code, x: Value) -> Value:
    """log |gamma(x)|, always in f64: for negative x it has zeros that f32 could not come near to."""
    if x.elem == "f64":
        return _reflected(c, x)
    return c.cast("fptrunc", _reflected(replace(c, elem="f64"), c.cast("fpext", x, "f64")), "f32")


def _reflected(c: Code, x: Value) -> Value:
    """|gamma(x) gamma(1 - x)| = pi / |sin(pi x)| for x < 0; `sin_pi` is divided by pi."""
    negative = x < 0.0
    positive = _lgamma_of_positive(c, c.select(negative, 1.0 - x, x))
    fraction = (x - c.intrinsic("roundeven", x)).abs()
    sine = fraction * c.poly(fraction * fraction, format_of(x).table["sin_pi"])
    below = -vecmath_exp.log(c, sine) - positive
    # at poles both terms may be infinite
    pole = fraction.is_(0.0) | x.is_(-_INF)
    return c.select(negative, c.select(pole, _INF, below), positive)


def _lgamma_of_positive(c: Code, x: Value) -> Value:
    """Polynomials on [1, 2) and [2, 3), to which products of x, x - 1, ... lead; Stirling's series from 8 on."""
    table = format_of(x).table

    def by_range(below_1: Operand, below_2: Operand, below_8: Operand, beyond: Operand) -> Value:
        upper = c.select(x < 8.0, below_8, beyond)
        return c.select(x < 2.0, c.select(x < 1.0, below_1, below_2), upper)

    factors = c.constant(1.0, x.elem)
    for k in range(1, 6):  # x - 5 is the last from 7 on
        factors = c.select(x >= k + 2.0, factors * (x - float(k)), factors)
    log = vecmath_exp.log(c, by_range(x, c.constant(1.0, x.elem), factors, x))
    u = by_range(x, x - 1.0, x - x.trunc(), c.constant(0.0, x.elem))
    low = u * (u - 1.0) * c.poly(u - 0.5, table["lgamma_low"]) + 0.0  # 0 at 1, not -0
    middle = c.fma(u, c.poly(u - 0.5, table["lgamma_middle"]), log)
    z = 1.0 / x
    head = (x - 0.5) * (log - 1.0)
    series = head + c.fma(z, c.poly(z * z, table["stirling"]), (math.log(2 * math.pi) - 1) / 2)
    return by_range(low - log, low, middle, series)
