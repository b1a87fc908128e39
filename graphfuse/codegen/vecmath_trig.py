"""Trigonometric functions and their inverses as vector code; owns the reduction of angles.

The functions take and return values; naming and wrapping them is `vecmath`'s.
"""

import math
from functools import cache
from typing import Final

from graphfuse.codegen.vecmath_emit import INLINED, Code, Operand, Value
from graphfuse.codegen.vecmath_format import format_of, odd_poly, round_to_bits
from graphfuse.codegen.vecmath_tables import TWO_OVER_PI

_TWO_OVER_PI_BITS: Final = 1200
"""Of the fraction: an f64's exponent moves the point by 1024, and 64 bits and guards must be left behind it."""
_TWO_OVER_PI_BYTES: Final = TWO_OVER_PI.to_bytes(_TWO_OVER_PI_BITS // 8 + 32, "little")


# x = m 2^e, m an integer. Of 2/pi * 2^e only the bits from weight 2 down to weight 2^-190 matter:
# higher ones give multiples of 4 quarter turns. They are a window of the table; the product with
# m modulo 2^192 is the angle in units of 2^-190 quarter turns, too small by less than 2^-137.
# Lanes of |x| < 2^-8 give nonsense that the caller does not select.
@cache
def _reduce_slow() -> tuple[str, ...]:
    """The texts of `gf.reduce_slow` and what it needs."""
    c = Code("gf.reduce_slow", "f64", 1)
    bits = Value(c, "%x", "f64").bits()
    field = (bits >> 52) & 2047
    m = (bits & 2**52 - 1) | 2**52
    e = field - 1075
    is_low, is_high = e < -60, e > 971
    e = c.select(is_high, 971, c.select(is_low, -60, e))
    drop = (_TWO_OVER_PI_BITS - 190) - e
    at = c.emit("ptr", f"getelementptr i8, ptr @gf.two_over_pi, {(drop >> 3).typed}")
    loaded = c.emit("i256", f"load i256, {at.typed}, align 1")
    window = c.cast("trunc", c.binary("lshr", loaded, c.cast("zext", drop & 7, "i256")), "i192")
    angle = window * c.cast("zext", m, "i192")
    quadrant = c.cast("trunc", (angle + (1 << 189)) >> 190, "i64")
    rest = angle << 2
    is_below = rest < 0
    size = c.select(is_below, 0 - rest, rest)
    zeros = c.emit("i192", f"call i192 @llvm.ctlz.i192({size.typed}, i1 false)")
    top = c.cast("uitofp", c.cast("trunc", c.binary("shl", size, zeros) >> 128, "i64"), "f64")
    scale = (((1023 - 64) - c.cast("trunc", zeros, "i64")) << 52).as_float()
    r = top * scale * (math.pi / 2)
    is_negative = bits < 0
    r = c.select(is_below ^ is_negative, -r, r)
    r = c.select(c.compare("ne", field, 2047), r, math.nan)
    q = c.select(is_negative, 0 - quadrant, quadrant)
    pair = c.emit("{ double, i64 }", f"insertvalue {{ double, i64 }} poison, {r.typed}, 0")
    pair = c.emit(pair.elem, f"insertvalue {pair.typed}, {q.typed}, 1")
    table = ", ".join(f"i8 {byte}" for byte in _TWO_OVER_PI_BYTES)
    constant = f"@gf.two_over_pi = internal constant [{len(_TWO_OVER_PI_BYTES)} x i8] [{table}]\n"
    return (
        "declare i192 @llvm.ctlz.i192(i192, i1)",
        constant,
        c.definition(("x",), pair, INLINED.replace("alwaysinline", "noinline")),
    )


def _slow_lane(c: Code, x: Value, lane: int, results: list[Value]) -> list[Value]:
    """Reduce one lane of x and put it into the vectors `results`; return these."""
    s = c.scalars
    one = s.emit(c.elem, f"extractelement {x.typed}, i32 {lane}") if c.lanes > 1 else x
    wide = s.cast("fpext", one, "f64") if c.elem == "f32" else one
    pair = s.emit("{ double, i64 }", f"call {{ double, i64 }} @gf.reduce_slow({wide.typed})")
    r, q = (s.emit(elem, f"extractvalue {pair.typed}, {i}") for i, elem in enumerate(("f64", "i64")))
    if c.elem == "f32":
        r, q = s.cast("fptrunc", r, "f32"), s.cast("trunc", q, "i32")
    if c.lanes == 1:
        return [r, q]
    pairs = zip(results, (r, q), strict=True)
    return [c.emit(new.elem, f"insertelement {old.typed}, {new.typed}, i32 {lane}") for old, new in pairs]


def _reduce_trig(c: Code, x: Value) -> tuple[Value, Value]:
    """x = q pi/2 + r: return r and q modulo 4 (in the low bits).

    Three parts of pi/2 by FMA up to `trig_top`: there n times the first part cancels exactly. A
    call per lane beyond (Payne and Hanek), if any lane is beyond.
    """
    fast_r, fast_q = reduce_fast(c, x)
    beyond = x.abs() > format_of(x).trig_top
    c.declarations |= dict.fromkeys(_reduce_slow())
    c.branch(beyond, "slow", "reduced")
    pair = [Value(c, "poison", v.elem) for v in (fast_r, fast_q)]
    for lane in range(c.lanes):
        pair = _slow_lane(c, x, lane, pair)
    slow_r, slow_q = (c.select(beyond, slow, fast) for slow, fast in zip(pair, (fast_r, fast_q), strict=True))
    return reduced(c, (fast_r, slow_r), (fast_q, slow_q))


def reduce_fast(c: Code, x: Value) -> tuple[Value, Value]:
    """x = q pi/2 + r by three parts of pi/2, up to `trig_top`: r and q."""
    parts = format_of(x).parts
    n, q = round_to_bits(c, x, parts["two_over_pi"][0], 0)
    r = x
    for part in parts["pi_half"][:3]:
        r = c.fma(n, -part, r)
    return r, q


def reduced(c: Code, r: tuple[Value, Value], q: tuple[Value, Value]) -> tuple[Value, Value]:
    """The end of the block `slow`: r and q of the entry, or those made there."""
    c.start("reduced")
    merged = [
        c.emit(slow.elem, f"phi {c.type(slow.elem)} [ {fast.ref}, %entry ], [ {slow.ref}, %slow ]")
        for fast, slow in (r, q)
    ]
    return merged[0], merged[1]


def _sin_cos_poly(c: Code, r: Value) -> tuple[Value, Value]:
    """sin(r) and cos(r), |r| <= pi/4."""
    square = r * r
    table = format_of(r).table
    cos = c.fma(square * square, c.poly(square, table["cos"]), c.fma(square, -0.5, 1.0))
    return odd_poly(c, r, "sin"), cos


def _flipped(x: Value, bit: Value) -> Value:
    """x with its sign flipped where the integers `bit`, moved to the sign's place, say so."""
    return (x.bits() ^ bit).as_float()


def _sine_at(c: Code, r: Value, q: Value) -> Value:
    """sin(q pi/2 + r)."""
    sin, cos = _sin_cos_poly(c, r)
    sign = (q & 2) << (format_of(r).sign_shift - 1)
    return _flipped(c.select((q & 1).is_(1), cos, sin), sign)


def sin_of(c: Code, x: Value, r: Value, q: Value) -> Value:
    """sin(x), x = q pi/2 + r: by quadrants."""
    return c.select(x.is_(0.0), x, _sine_at(c, r, q))


def cos_of(c: Code, x: Value, r: Value, q: Value) -> Value:
    """cos(x), x = q pi/2 + r: sin one quadrant on."""
    return _sine_at(c, r, q + 1)


def tan_of(c: Code, x: Value, r: Value, q: Value) -> Value:
    """tan(x), x = q pi/2 + r: sin / cos, or -cos / sin in odd quadrants."""
    sin, cos = _sin_cos_poly(c, r)
    odd = (q & 1).is_(1)
    ratio = c.select(odd, cos, sin) / c.select(odd, sin, cos)
    return c.select(x.is_(0.0), x, _flipped(ratio, q << format_of(x).sign_shift))


def sin(c: Code, x: Value) -> Value:
    """Sin: see `sin_of`."""
    return sin_of(c, x, *_reduce_trig(c, x))


def cos(c: Code, x: Value) -> Value:
    """Cos: see `cos_of`."""
    return cos_of(c, x, *_reduce_trig(c, x))


def tan(c: Code, x: Value) -> Value:
    """Tan: see `tan_of`."""
    return tan_of(c, x, *_reduce_trig(c, x))


def _asin_parts(c: Code, a: Value) -> tuple[Value, Value]:
    """Return a <= 1/2, and asin(a) where so, else asin(sqrt((1 - a) / 2))."""
    small = a <= 0.5
    square = c.select(small, a * a, c.fma(a, -0.5, 0.5))
    root = c.select(small, a, square.sqrt())
    return small, c.fma(root * square, c.poly(square, format_of(a).table["asin"]), root)


def asin(c: Code, x: Value) -> Value:
    """The arcsine is a + a^3 p(a^2) up to 1/2, else pi/2 less twice that of sqrt((1 - a) / 2)."""
    half_pi, half_pi_low = format_of(x).parts["pi_half"][:2]
    small, p = _asin_parts(c, x.abs())
    return c.select(small, p, c.fma(p, -2.0, half_pi_low) + half_pi).with_sign_of(x)


def acos(c: Code, x: Value) -> Value:
    """Acos: pi/2 - asin(x) up to 1/2, else 2 asin(sqrt((1 - a) / 2)) or pi less that."""
    half_pi, half_pi_low = format_of(x).parts["pi_half"][:2]
    small, p = _asin_parts(c, x.abs())
    middle = half_pi - (p.with_sign_of(x) - half_pi_low)
    twice = p + p
    return c.select(small, middle, c.select(x < 0.0, 2 * half_pi - (twice - 2 * half_pi_low), twice))


def atan(c: Code, x: Value) -> Value:
    """Atan: t + t^3 p(t^2) plus 0, pi/4 or pi/2, t = a, (a - 1) / (a + 1) or -1 / a (Cephes)."""
    parts = format_of(x).parts
    half_pi, half_pi_low = parts["pi_half"][:2]
    a = x.abs()
    middle, large = a > parts["tan_pi_8"][0], a > parts["tan_3pi_8"][0]

    def pick(small: Operand, mid: Operand, big: Operand) -> Value:
        return c.select(large, big, c.select(middle, mid, small))

    t = pick(a, a - 1.0, -1.0) / pick(c.constant(1.0, x.elem), a + 1.0, a)
    square = t * t
    low = pick(c.constant(0.0, x.elem), half_pi_low / 2, half_pi_low)
    tail = c.fma(t * square, c.poly(square, format_of(x).table["atan"]), low)
    base = pick(c.constant(0.0, x.elem), half_pi / 2, half_pi)
    return (base + (t + tail)).with_sign_of(x)
