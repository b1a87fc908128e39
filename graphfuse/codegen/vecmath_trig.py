"""Trigonometric functions and their inverses as vector code; owns the reduction of angles.

The functions take and return values; naming and wrapping them is `vecmath`'s.
"""

from typing import Final

from graphfuse.codegen.vecmath_emit import INTEGER_OF, Code, Operand, Value
from graphfuse.codegen.vecmath_format import format_of, odd_poly, round_to_bits
from graphfuse.codegen.vecmath_tables import TWO_OVER_PI

_TWO_OVER_PI_BITS: Final = 1200
"""Of the fraction: an f64's exponent moves the point by 1024, and 64 bits and guards must be left behind it."""
_TWO_OVER_PI_BYTES: Final = TWO_OVER_PI.to_bytes(_TWO_OVER_PI_BITS // 8 + 32, "little")

# x = m 2^e, m an integer. Of 2/pi * 2^e only the bits from weight 2 down to weight 2^-190 matter:
# higher ones give multiples of 4 quarter turns. They are a window of the table; the product with
# m modulo 2^192 is the angle in units of 2^-190 quarter turns, too small by less than 2^-137.
# Lanes of |x| < 2^-8 give nonsense that the caller does not select.
_REDUCE_SLOW: Final = f"""\
@gf.two_over_pi = internal constant [{len(_TWO_OVER_PI_BYTES)} x i8] \
[{", ".join(f"i8 {byte}" for byte in _TWO_OVER_PI_BYTES)}]

define internal {{ double, i64 }} @gf.reduce_slow(double %x) noinline nounwind willreturn \
memory(none) {{
  %bits = bitcast double %x to i64
  %field_wide = lshr i64 %bits, 52
  %field = and i64 %field_wide, 2047
  %fraction = and i64 %bits, 4503599627370495
  %m = or i64 %fraction, 4503599627370496
  %e_any = sub i64 %field, 1075
  %e_low = icmp slt i64 %e_any, -60
  %e_high_or_ok = icmp sgt i64 %e_any, 971
  %e_1 = select i1 %e_low, i64 -60, i64 %e_any
  %e = select i1 %e_high_or_ok, i64 971, i64 %e_1
  %drop = sub i64 {_TWO_OVER_PI_BITS - 190}, %e
  %byte = lshr i64 %drop, 3
  %bit = and i64 %drop, 7
  %at = getelementptr i8, ptr @gf.two_over_pi, i64 %byte
  %loaded = load i256, ptr %at, align 1
  %bit_wide = zext i64 %bit to i256
  %window_wide = lshr i256 %loaded, %bit_wide
  %window = trunc i256 %window_wide to i192
  %m_wide = zext i64 %m to i192
  %angle = mul i192 %window, %m_wide
  %half = shl i192 1, 189
  %rounded = add i192 %angle, %half
  %quadrant_wide = lshr i192 %rounded, 190
  %quadrant = trunc i192 %quadrant_wide to i64
  %rest = shl i192 %angle, 2
  %is_below = icmp slt i192 %rest, 0
  %rest_negated = sub i192 0, %rest
  %size = select i1 %is_below, i192 %rest_negated, i192 %rest
  %zeros_wide = call i192 @llvm.ctlz.i192(i192 %size, i1 false)
  %normal = shl i192 %size, %zeros_wide
  %top_wide = lshr i192 %normal, 128
  %top = trunc i192 %top_wide to i64
  %top_float = uitofp i64 %top to double
  %zeros = trunc i192 %zeros_wide to i64
  %scale_field = sub i64 {1023 - 64}, %zeros
  %scale_bits = shl i64 %scale_field, 52
  %scale = bitcast i64 %scale_bits to double
  %turns = fmul double %top_float, %scale
  %r_size = fmul double %turns, 0x3FF921FB54442D18
  %is_negative = icmp slt i64 %bits, 0
  %flip = xor i1 %is_below, %is_negative
  %r_negated = fneg double %r_size
  %r_finite = select i1 %flip, double %r_negated, double %r_size
  %is_finite = icmp ne i64 %field, 2047
  %r = select i1 %is_finite, double %r_finite, double 0x7FF8000000000000
  %q_negated = sub i64 0, %quadrant
  %q = select i1 %is_negative, i64 %q_negated, i64 %quadrant
  %with_r = insertvalue {{ double, i64 }} poison, double %r, 0
  %result = insertvalue {{ double, i64 }} %with_r, i64 %q, 1
  ret {{ double, i64 }} %result
}}
"""
_CTLZ: Final = "declare i192 @llvm.ctlz.i192(i192, i1)"


def _slow_lane(c: Code, x: str, lane: int, results: tuple[str, str]) -> tuple[str, str]:
    """Reduce one lane of x and put it into the vectors `results`; return their new names."""
    integer, scalar = INTEGER_OF[c.elem], Code("", c.elem, 1).type(c.elem)
    lines, names = c.lines, [c.name() for _ in range(7)]
    one, wide, pair, r, r_out, q, q_out = names
    if c.lanes == 1:
        one = x
    else:
        lines.append(f"  {one} = extractelement {c.type(c.elem)} {x}, i32 {lane}")
    if c.elem == "f32":
        lines.append(f"  {wide} = fpext float {one} to double")
    else:
        wide = one
    lines.append(f"  {pair} = call {{ double, i64 }} @gf.reduce_slow(double {wide})")
    lines.append(f"  {r} = extractvalue {{ double, i64 }} {pair}, 0")
    lines.append(f"  {q} = extractvalue {{ double, i64 }} {pair}, 1")
    if c.elem == "f32":
        lines.append(f"  {r_out} = fptrunc double {r} to float")
        lines.append(f"  {q_out} = trunc i64 {q} to i32")
    else:
        r_out, q_out = r, q
    if c.lanes == 1:
        return r_out, q_out
    new_r, new_q = c.name(), c.name()
    lines.append(f"  {new_r} = insertelement {c.type(c.elem)} {results[0]}, {scalar} {r_out}, i32 {lane}")
    lines.append(f"  {new_q} = insertelement {c.type(integer)} {results[1]}, {integer} {q_out}, i32 {lane}")
    return new_r, new_q


def _reduce_trig(c: Code, x: Value) -> tuple[Value, Value]:
    """x = q pi/2 + r: return r and q modulo 4 (in the low bits).

    Three parts of pi/2 by FMA up to `trig_top`: there n times the first part cancels exactly. A
    call per lane beyond (Payne and Hanek), if any lane is beyond.
    """
    fmt = format_of(x)
    n, fast_q = round_to_bits(c, x, fmt.parts["two_over_pi"][0], 0)
    fast_r = x
    for part in fmt.parts["pi_half"][:3]:
        fast_r = c.fma(n, -part, fast_r)
    beyond = x.abs() > fmt.trig_top
    any_beyond = beyond.ref
    if c.lanes > 1:
        any_beyond = c.name()
        reduce_or = f"@llvm.vector.reduce.or.v{c.lanes}i1"
        c.declarations[f"declare i1 {reduce_or}(<{c.lanes} x i1>)"] = None
        c.lines.append(f"  {any_beyond} = call i1 {reduce_or}({beyond.typed})")
    for declaration in (_CTLZ, _REDUCE_SLOW):
        c.declarations[declaration] = None
    c.lines += [f"  br i1 {any_beyond}, label %slow, label %reduced", "slow:"]
    pair = ("poison", "poison")
    for lane in range(c.lanes):
        pair = _slow_lane(c, x.ref, lane, pair)
    slow_r = c.select(beyond, Value(c, pair[0], x.elem), fast_r)
    slow_q = c.select(beyond, Value(c, pair[1], fast_q.elem), fast_q)
    c.lines += ["  br label %reduced", "reduced:"]
    merged = [
        c.emit(slow.elem, f"phi {c.type(slow.elem)} [ {fast.ref}, %entry ], [ {slow.ref}, %slow ]")
        for fast, slow in ((fast_r, slow_r), (fast_q, slow_q))
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
