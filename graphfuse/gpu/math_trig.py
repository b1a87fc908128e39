"""Reduction of angles on NVIDIA GPUs, in 32- or 64-bit words; the polynomials are `vecmath_trig`'s.

|x| = m 2^e, m an integer. Of 2/pi three words count, from the bit on that 2^e makes worth 2: their product with m
modulo three words is the angle in quarter turns, two bits of it before the point, and too small by less than m units
of the last place: 2^-70 for f32, 2^-137 for f64 (M. Payne, R. Hanek, 1983).
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Final

from graphfuse.codegen import vecmath_trig
from graphfuse.codegen.vecmath_emit import Value
from graphfuse.codegen.vecmath_format import format_of
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


_TABLES: Final = {word: _table(f"gf.two_over_pi.i{word}", word, count) for word, count in ((32, 7), (64, 19))}


def _window(c: GpuCode, field: Value, word: int, exponent_bias: int) -> tuple[Value, Value, Value]:
    """The three words that start one bit before the exponent's place, the uppermost first."""
    elem, name = f"i{word}", f"gf.two_over_pi.i{word}"
    c.declarations[_TABLES[word]] = None
    start = field + (word - 2 - exponent_bias)
    first, bit = start >> word.bit_length() - 1, start & word - 1
    bit = c.cast("zext", bit, "i64") if word == 64 else bit
    loaded: list[Value] = []
    for i in range(4):
        at = c.emit("ptr addrspace(4)", f"getelementptr {elem}, ptr addrspace(4) @{name}, {(first + i).typed}")
        loaded.append(c.emit(elem, f"load {elem}, {at.typed}"))
    w2, w1, w0 = (c.intrinsic("fshl", upper, lower, bit) for upper, lower in pairwise(loaded))
    return w2, w1, w0


def _slow_f32(c: GpuCode, bits: Value) -> tuple[Value, Value, Value]:
    """|r| and q of |x|, and the field of its exponent."""
    field = (bits >> 23) & 255
    m = (bits & (1 << 23) - 1) | 1 << 23
    w2, w1, w0 = _window(c, field, 32, 150)
    m64, w1_64, w0_64 = (c.cast("zext", v, "i64") for v in (m, w1, w0))
    low_carry = c.binary("mul nuw", m64, w0_64) >> 32
    middle = c.binary("add nuw", c.binary("mul nuw", m64, w1_64), low_carry)
    carry = c.cast("trunc", middle >> 32, "i32")
    high = m * w2 + carry
    turns = c.binary("or disjoint", c.cast("zext", high, "i64") << 34, (middle & (1 << 32) - 1) << 2)
    radians = c.cast("sitofp", turns, "f64") * (math.pi / 2 * 2.0**-64)
    r = c.cast("fptrunc", radians, "f32")
    return r, (high + (1 << 29)) >> 30, field


def _slow_f64(c: GpuCode, bits: Value) -> tuple[Value, Value, Value]:
    """As `_slow_f32`."""
    field = c.cast("trunc", bits >> 52, "i32") & 2047
    m = (bits & (1 << 52) - 1) | 1 << 52
    w2, w1, w0 = _window(c, field, 64, 1075)
    low_carry = c.upper_half(m, w0)
    middle = m * w1 + low_carry
    carry = c.cast("zext", c.emit("i1", f"icmp ult {middle.typed}, {low_carry.ref}"), "i64")
    middle_carry = c.upper_half(m, w1)
    high = m * w2 + middle_carry + carry
    rest = c.binary("or disjoint", high << 2, middle >> 62)
    upper = c.cast("sitofp", rest & -2048, "f64")
    middle_turns = middle << 2
    lower = c.cast("uitofp", c.binary("or disjoint", rest << 53, middle_turns >> 11), "f64")
    lower_radians = lower * 2.0**-53 * (math.pi / 2 * 2.0**-64)
    tail = c.fma(upper, F64_PARTS["pi_half"][1] * 2.0**-64, lower_radians)
    r = c.fma(upper, math.pi / 2 * 2.0**-64, tail)
    return r, (high + (1 << 61)) >> 62, field


def reduce_angle(c: GpuCode, x: Value, *, any_size: bool) -> tuple[Value, Value]:
    """x = q pi/2 + r: return r and q modulo 4 (in the low bits).

    Three parts of pi/2 by FMA up to `trig_top`, words of 2/pi beyond; `any_size` says that x may be beyond.
    """
    fast_r, fast_q = vecmath_trig.reduce_fast(c, x)
    if not any_size:
        return fast_r, fast_q
    beyond = ~(x.abs() <= format_of(x).trig_top)
    c.lines += [f"  br {beyond.typed}, label %slow, label %reduced", "slow:"]
    bits = x.bits()
    size, quadrant, field = (_slow_f32 if x.elem == "f32" else _slow_f64)(c, bits)
    # the angle of -x is minus that of x; infinities and NaN have none
    is_negative = bits < 0
    signed = c.select(is_negative, -size, size)
    slow_r = c.select(c.compare("ne", field, 2 * format_of(x).bias + 1), signed, math.nan)
    slow_q = c.select(is_negative, 0 - quadrant, quadrant)
    return vecmath_trig.reduced(c, (fast_r, slow_r), (fast_q, slow_q))
