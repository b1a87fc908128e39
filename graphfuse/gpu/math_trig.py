"""Reduction of angles on NVIDIA GPUs, in 32- or 64-bit words; the polynomials are `vecmath_trig`'s.

|x| = m 2^e, m an integer. Of 2/pi three words count, from the bit on that 2^e makes worth 2: their product with m
modulo three words is the angle in quarter turns, two bits of it before the point, and too small by less than m units
of the last place: 2^-70 for f32, 2^-137 for f64 (M. Payne, R. Hanek, 1983).
"""

from __future__ import annotations

import math
from typing import Final

from graphfuse.codegen.kernel import float_text
from graphfuse.codegen.vecmath_emit import INTEGER_OF, Value
from graphfuse.codegen.vecmath_format import format_of, round_to_bits
from graphfuse.codegen.vecmath_tables import F64_PARTS, TWO_OVER_PI
from graphfuse.gpu.math_emit import GpuCode

_FRACTION_BITS: Final = 1200
"""Of `TWO_OVER_PI`."""


def _table(name: str, word: int, count: int) -> str:
    """Words of 2/pi from the point on, after one of zeros so that no window starts before the table."""
    digits = TWO_OVER_PI << word * count >> _FRACTION_BITS
    words = [digits >> word * (count - i) & (1 << word) - 1 for i in range(count + 1)]
    return f"""\
@{name} = internal addrspace(4) constant [{count + 1} x i{word}] [{", ".join(f"i{word} {w}" for w in words)}]
"""


def _window(name: str, word: int, exponent_bias: int) -> str:
    """The three words that start one bit before the exponent's place, `%w2` first; needs `%field`."""
    size, log = f"i{word}", word.bit_length() - 1
    lines = [
        f"%start = add i32 %field, {word - 2 - exponent_bias}",
        f"%word = lshr i32 %start, {log}",
        f"%bit32 = and i32 %start, {word - 1}",
        "%bit = zext i32 %bit32 to i64" if word == 64 else "%bit = add i32 %bit32, 0",
    ]
    for i in range(4):
        lines.append(f"%n{i} = add i32 %word, {i}")
        lines.append(f"%at{i} = getelementptr {size}, ptr addrspace(4) @{name}, i32 %n{i}")
        lines.append(f"%t{i} = load {size}, ptr addrspace(4) %at{i}")
    lines += [
        f"%w{2 - i} = call {size} @llvm.fshl.{size}({size} %t{i}, {size} %t{i + 1}, {size} %bit)" for i in range(3)
    ]
    return "\n  ".join(lines)


_HALF_PI_LOW: Final = F64_PARTS["pi_half"][1]

_REDUCE_F32: Final = f"""\
{_table("gf.two_over_pi.i32", 32, 7)}
define internal {{ float, i32 }} @gf.reduce_angle.f32(float %x) alwaysinline nounwind willreturn memory(none) {{
  %bits = bitcast float %x to i32
  %shifted = lshr i32 %bits, 23
  %field = and i32 %shifted, 255
  %fraction = and i32 %bits, {(1 << 23) - 1}
  %m = or i32 %fraction, {1 << 23}
  {_window("gf.two_over_pi.i32", 32, 150)}
  %m64 = zext i32 %m to i64
  %w1_64 = zext i32 %w1 to i64
  %w0_64 = zext i32 %w0 to i64
  %low = mul nuw i64 %m64, %w0_64
  %low_carry = lshr i64 %low, 32
  %middle_product = mul nuw i64 %m64, %w1_64
  %middle = add nuw i64 %middle_product, %low_carry
  %carry_64 = lshr i64 %middle, 32
  %carry = trunc i64 %carry_64 to i32
  %high_product = mul i32 %m, %w2
  %high = add i32 %high_product, %carry
  %high_64 = zext i32 %high to i64
  %high_turns = shl i64 %high_64, 34
  %below = and i64 %middle, {(1 << 32) - 1}
  %low_turns = shl i64 %below, 2
  %rest = or disjoint i64 %high_turns, %low_turns
  %turns = sitofp i64 %rest to double
  %radians = fmul double %turns, {float_text(math.pi / 2 * 2.0**-64)}
  %r_size = fptrunc double %radians to float
  %nearest = add i32 %high, {1 << 29}
  %quadrant = lshr i32 %nearest, 30
"""
_REDUCE_F64: Final = f"""\
{_table("gf.two_over_pi.i64", 64, 19)}
define internal {{ double, i64 }} @gf.reduce_angle.f64(double %x) alwaysinline nounwind willreturn memory(none) {{
  %bits = bitcast double %x to i64
  %shifted = lshr i64 %bits, 52
  %field_64 = trunc i64 %shifted to i32
  %field = and i32 %field_64, 2047
  %fraction = and i64 %bits, {(1 << 52) - 1}
  %m = or i64 %fraction, {1 << 52}
  {_window("gf.two_over_pi.i64", 64, 1075)}
  %low_carry = call i64 @llvm.nvvm.mulhi.ull(i64 %m, i64 %w0)
  %middle_product = mul i64 %m, %w1
  %middle = add i64 %middle_product, %low_carry
  %is_carry = icmp ult i64 %middle, %low_carry
  %carry = zext i1 %is_carry to i64
  %middle_carry = call i64 @llvm.nvvm.mulhi.ull(i64 %m, i64 %w1)
  %high_product = mul i64 %m, %w2
  %high_sum = add i64 %high_product, %middle_carry
  %high = add i64 %high_sum, %carry
  %high_turns = shl i64 %high, 2
  %moved = lshr i64 %middle, 62
  %rest = or disjoint i64 %high_turns, %moved
  %upper_bits = and i64 %rest, -2048
  %upper = sitofp i64 %upper_bits to double
  %middle_turns = shl i64 %middle, 2
  %lower_top = shl i64 %rest, 53
  %lower_rest = lshr i64 %middle_turns, 11
  %lower_bits = or disjoint i64 %lower_top, %lower_rest
  %lower = uitofp i64 %lower_bits to double
  %lower_scaled = fmul double %lower, {float_text(2.0**-53)}
  %lower_radians = fmul double %lower_scaled, {float_text(math.pi / 2 * 2.0**-64)}
  %tail = call double @llvm.fma.f64(double %upper, double {float_text(_HALF_PI_LOW * 2.0**-64)}, double %lower_radians)
  %r_size = call double @llvm.fma.f64(double %upper, double {float_text(math.pi / 2 * 2.0**-64)}, double %tail)
  %nearest = add i64 %high, {1 << 61}
  %quadrant = lshr i64 %nearest, 62
"""


def _signed(elem: str, pair: str, field: int) -> str:
    """The end of both: the angle of -x is minus that of x; infinities and NaN have none."""
    float_, integer = {"f32": ("float", "i32"), "f64": ("double", "i64")}[elem]
    return f"""\
  %is_negative = icmp slt {integer} %bits, 0
  %r_negated = fneg {float_} %r_size
  %r_signed = select i1 %is_negative, {float_} %r_negated, {float_} %r_size
  %is_finite = icmp ne i32 %field, {field}
  %r = select i1 %is_finite, {float_} %r_signed, {float_} {float_text(math.nan)}
  %q_negated = sub {integer} 0, %quadrant
  %q = select i1 %is_negative, {integer} %q_negated, {integer} %quadrant
  %with_r = insertvalue {pair} poison, {float_} %r, 0
  %result = insertvalue {pair} %with_r, {integer} %q, 1
  ret {pair} %result
}}
"""


_PAIR: Final = {"f32": "{ float, i32 }", "f64": "{ double, i64 }"}
_TEXTS: Final = {
    "f32": ("declare i32 @llvm.fshl.i32(i32, i32, i32)", _REDUCE_F32 + _signed("f32", _PAIR["f32"], 255)),
    "f64": (
        "declare i64 @llvm.fshl.i64(i64, i64, i64)",
        "declare i64 @llvm.nvvm.mulhi.ull(i64, i64)",
        "declare double @llvm.fma.f64(double, double, double)",
        _REDUCE_F64 + _signed("f64", _PAIR["f64"], 2047),
    ),
}


def reduce_angle(c: GpuCode, x: Value, *, any_size: bool) -> tuple[Value, Value]:
    """x = q pi/2 + r: return r and q modulo 4 (in the low bits).

    Three parts of pi/2 by FMA up to `trig_top`, words of 2/pi beyond; `any_size` says that x may be beyond.
    """
    fmt = format_of(x)
    n, fast_q = round_to_bits(c, x, fmt.parts["two_over_pi"][0], 0)
    fast_r = x
    for part in fmt.parts["pi_half"][:3]:
        fast_r = c.fma(n, -part, fast_r)
    if not any_size:
        return fast_r, fast_q
    c.declarations |= dict.fromkeys(_TEXTS[x.elem])
    beyond = ~(x.abs() <= fmt.trig_top)
    pair, type_ = c.name(), _PAIR[x.elem]
    c.lines += [f"  br {beyond.typed}, label %slow, label %reduced", "slow:"]
    c.lines.append(f"  {pair} = call {type_} @gf.reduce_angle.{x.elem}({x.typed})")
    slow_r = c.emit(x.elem, f"extractvalue {type_} {pair}, 0")
    slow_q = c.emit(INTEGER_OF[x.elem], f"extractvalue {type_} {pair}, 1")
    c.lines += ["  br label %reduced", "reduced:"]
    merged = [
        c.emit(slow.elem, f"phi {c.type(slow.elem)} [ {fast.ref}, %entry ], [ {slow.ref}, %slow ]")
        for fast, slow in ((fast_r, slow_r), (fast_q, slow_q))
    ]
    return merged[0], merged[1]
