"""Vector mathematics as LLVM IR: owns the algorithms and their accuracy.

It does not own angles (`vecmath_trig`), exponentials and logarithms (`vecmath_exp`), special functions
and roots (`vecmath_special`), coefficients (`vecmath_tables`), the text (`vecmath_emit`) or any instruction set:
the code is branch free FMA arithmetic that LLVM lowers for the target at hand. Only sin, cos and
tan branch, to a slow reduction, when a lane is large.

`ULP` is the largest error in units in the last place, tests/codegen/test_vecmath.py holds it. Special
values are those of C99 annex F (nan, infinities, signed zeros, subnormal arguments and results).

Sources: W. Cody, W. Waite, Software Manual for the Elementary Functions, 1980 (reductions);
S. Moshier, Cephes (ranges of asin, atan, tanh); Sun fdlibm (log by s = f / (2 + f));
N. Shibata, F. Petrogalli, SLEEF: a portable vectorized library of C standard mathematical
functions, 2020 (branch free pow in double-double); M. Payne, R. Hanek, Radian reduction for
trigonometric functions, 1983.
"""

from collections.abc import Callable
from functools import cache
from typing import Final

from graphfuse.codegen import vecmath_exp, vecmath_special, vecmath_trig
from graphfuse.codegen.vecmath_emit import Code, Value, VectorFunction
from graphfuse.codegen.vecmath_format import FORMATS, format_of, round_to_bits
from graphfuse.codegen.vecmath_tables import F32

_INF: Final = float("inf")
_NAN: Final = float("nan")


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
    _, k, m = vecmath_exp.split(c, a)
    f = m - 1.0
    log = _log_ends(c, a, c.fma(f, c.poly(f, F32["pow_log"]), k))
    power = c.cast("fpext", y, "f64") * log
    # rounds to 0 and to infinity in f32
    power = c.at_most(c.at_least(power, -160.0), 130.0)
    n, bits = round_to_bits(c, power, 1.0, fmt.bias)
    size = vecmath_exp.scaled(c.poly(power - n, (1.0, *F32["pow_exp2"])), bits)
    return _pow_specials(c, x, y, c.cast("fptrunc", size, "f32"))


def _log_double(c: Code, a: Value) -> tuple[Value, Value]:
    """log(a) as an unevaluated sum, to about 2^-68 (SLEEF's logk)."""
    fmt = format_of(a)
    k, f = vecmath_exp.split_any(c, a)
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
    r, _, bits = vecmath_exp.reduce_exp(c, power, 2 * format_of(x).bias)
    return _pow_specials(c, x, y, vecmath_exp.scaled_wide(c, vecmath_exp.exp_poly(c, r + power_low), bits))


def _pow(c: Code, x: Value, y: Value) -> Value:
    """Pow: see `_pow_f32` and `_pow_f64`."""
    return _pow_f32(c, x, y) if x.elem == "f32" else _pow_f64(c, x, y)


# --- interface ----------------------------------------------------------------------------------

BODIES: Final[dict[str, Callable[[Code, Value], Value]]] = {
    "exp": vecmath_exp.exp, "exp2": vecmath_exp.exp2, "expm1": vecmath_exp.expm1, "log": vecmath_exp.log,
    "log2": vecmath_exp.log2, "log1p": vecmath_exp.log1p, "tanh": vecmath_exp.tanh, "erf": vecmath_special.erf,
    "sigmoid": vecmath_exp.sigmoid, "sin": vecmath_trig.sin, "cos": vecmath_trig.cos, "tan": vecmath_trig.tan,
    "asin": vecmath_trig.asin, "acos": vecmath_trig.acos, "atan": vecmath_trig.atan, "sinh": vecmath_exp.sinh,
    "cosh": vecmath_exp.cosh, "asinh": vecmath_exp.asinh, "acosh": vecmath_exp.acosh, "atanh": vecmath_exp.atanh,
    "log10": vecmath_exp.log10, "exp10": vecmath_special.exp10, "cbrt": vecmath_special.cbrt,
    "erfc": vecmath_special.erfc, "erfinv": vecmath_special.erfinv, "lgamma": vecmath_special.lgamma,
}  # fmt: skip
"""Functions of one argument."""

BINARY: Final[dict[str, Callable[[Code, Value, Value], Value]]] = {"pow": _pow, "hypot": vecmath_special.hypot}
"""Functions of two arguments."""

FUNCTIONS: Final = (*BODIES, *BINARY)

# name -> largest error in ulp (f32, f64); 0.5 would be correctly rounded. That of lgamma in f64 is for x > 0: below 0,
# where it has zeros, it is the difference of two numbers, and within 4 ulp of the larger, lgamma(1 - x) mostly
ULP: Final[dict[str, tuple[float, float]]] = {
    "exp": (1.0, 1.0), "exp2": (1.0, 1.0), "log": (1.0, 1.0), "log2": (1.1, 1.1), "log1p": (2.0, 2.0),
    "expm1": (2.0, 2.0), "tanh": (2.0, 2.0), "erf": (1.5, 3.0), "sigmoid": (2.0, 2.0), "sin": (2.0, 2.5),
    "cos": (2.0, 2.5), "tan": (4.0, 4.0), "asin": (2.5, 2.5), "acos": (1.5, 1.5), "atan": (2.0, 2.0),
    "sinh": (2.0, 2.0), "cosh": (2.0, 2.0), "asinh": (2.5, 2.5), "acosh": (2.5, 2.5), "atanh": (2.5, 2.5),
    "log10": (1.1, 1.1), "exp10": (1.5, 1.5), "cbrt": (0.6, 0.6), "hypot": (1.0, 1.0), "erfc": (3.5, 2.0),
    "erfinv": (2.5, 3.0), "lgamma": (0.6, 2.5), "pow": (1.0, 1.5),
}  # fmt: skip


@cache
def define(fn: str, elem: str, lanes: int) -> VectorFunction:
    """Return the function `fn` on `lanes` elements `elem` (f32 or f64); 1 is a scalar."""
    assert fn in FUNCTIONS, f"no such function: {fn}"
    assert elem in FORMATS, f"no vector maths on {elem}"
    code = Code(f"gf.{fn}.v{lanes}{elem}", elem, lanes)
    x = Value(code, "%x", elem)
    if fn in BINARY:
        return code.function(("x", "y"), BINARY[fn](code, x, Value(code, "%y", elem)))
    return code.function(("x",), BODIES[fn](code, x))
