"""Narrow floats by integer arithmetic on their bits, for processors without instructions for them."""

from __future__ import annotations

from typing import NamedTuple

from graphfuse.codegen.kernel import Kernel, integer
from graphfuse.ir.types import Scalar
from graphfuse.llvm.module import Reg


class Format(NamedTuple):
    """`top` is the pattern of the largest finite value; `overflow` what larger ones round to."""

    exponent: int
    fraction: int
    bias: int
    top: int
    overflow: int
    nan: int
    signed: bool = True
    signed_zero: bool = True


FORMATS = {
    "f16": Format(5, 10, 15, 0x7BFF, 0x7C00, 0x7E00),
    "f8e4m3": Format(4, 3, 7, 0x7E, 0x7F, 0x7F),
    "f8e5m2": Format(5, 2, 15, 0x7B, 0x7C, 0x7E),
    "f8e4m3fnuz": Format(4, 3, 8, 0x7F, 0x80, 0x80, signed_zero=False),
    "f8e5m2fnuz": Format(5, 2, 16, 0x7F, 0x80, 0x80, signed_zero=False),
    "f4e2m1": Format(2, 1, 1, 0x7, 0x7, 0x8),  # NaN becomes a zero of the other sign, as ml_dtypes has it
}


def to_f32(kernel: Kernel, x: Reg, elem: Scalar) -> Reg:
    """Shift the fields into place and scale by a power of two, which also makes denormals right."""
    bits = kernel.convert("zext", x, "i32")
    if elem.name == "f8e8m0":
        return _from_e8m0(kernel, bits)
    f = FORMATS[elem.name]
    size_mask = (1 << (f.exponent + f.fraction)) - 1
    size = kernel.binary("and", bits, size_mask)
    shifted = kernel.convert("bitcast", kernel.binary("shl", size, 23 - f.fraction), "float")
    value = kernel.convert("bitcast", kernel.binary("fmul", shifted, 2.0 ** (127 - f.bias)), "i32")
    sign = kernel.binary("shl", kernel.binary("and", bits, size_mask + 1), 31 - f.exponent - f.fraction)
    if f.signed_zero and f.overflow != f.top and f.overflow != f.nan:  # it has infinities
        inf = kernel.binary("or", value, 0x7F800000)
        value = kernel.choose(kernel.compare("icmp uge", size, f.overflow), inf, value)
        nan = kernel.binary("or", value, 0x7FC00000)
        value = kernel.choose(kernel.compare("icmp ugt", size, f.overflow), nan, value)
    elif f.signed_zero and f.overflow == f.nan:
        value = kernel.choose(kernel.compare("icmp eq", size, f.nan), 0x7FC00000, value)
    value = kernel.binary("or", value, sign)
    if not f.signed_zero:
        value = kernel.choose(kernel.compare("icmp eq", bits, f.nan), 0x7FC00000, value)
    return kernel.convert("bitcast", value, "float")


def _from_e8m0(kernel: Kernel, bits: Reg) -> Reg:
    """A power of two: the exponent field alone; 0 is the denormal 2^-127, 255 is NaN."""
    value = kernel.binary("shl", bits, 23)
    value = kernel.choose(kernel.compare("icmp eq", bits, 0), 0x400000, value)
    value = kernel.choose(kernel.compare("icmp eq", bits, 255), 0x7FC00000, value)
    return kernel.convert("bitcast", value, "float")


def from_f32(kernel: Kernel, x: Reg, elem: Scalar, *, saturate: bool = False) -> Reg:
    """Round to nearest even on the bits: normals by a carry into the kept field, denormals by an f32 addition."""
    bits = kernel.convert("bitcast", x, "i32")
    narrow = "i16" if elem.bits == 16 else "i8"
    if elem.name == "f8e8m0":
        return _to_e8m0(kernel, x, bits, narrow, saturate=saturate)
    f = FORMATS[elem.name]
    cut = 23 - f.fraction
    size = kernel.binary("and", bits, 0x7FFFFFFF)
    odd = kernel.binary("and", kernel.binary("lshr", size, cut), 1)
    rounded = kernel.binary("add", kernel.binary("add", size, odd), (1 << (cut - 1)) - 1)
    normal = kernel.binary("sub", kernel.binary("lshr", rounded, cut), (127 - f.bias) << f.fraction)
    # an addend whose last bit is the least denormal: the sum's low bits are the rounded result
    magic_bits = (127 + 1 - f.bias + 23 - f.fraction) << 23
    magic = 2.0 ** (1 - f.bias + 23 - f.fraction)
    total = kernel.binary("fadd", kernel.convert("bitcast", size, "float"), magic)
    denormal = kernel.binary("sub", kernel.convert("bitcast", total, "i32"), magic_bits)
    is_small = kernel.compare("icmp ult", size, (128 - f.bias) << 23)
    out = kernel.choose(is_small, denormal, normal)
    inf = 0x7F800000
    too_large = kernel.compare("icmp sgt", out, f.top)
    too_large = kernel.binary("or", too_large, kernel.compare("icmp uge", size, inf))
    sign_at = f.exponent + f.fraction
    sign = kernel.binary("lshr", kernel.binary("and", bits, -(1 << 31)), 31 - sign_at)
    signed = kernel.binary("or", out, sign)
    if not f.signed_zero:
        signed = kernel.choose(kernel.compare("icmp eq", out, 0), out, signed)
    largest = f.top if saturate else f.overflow
    is_signed = f.signed_zero or largest == f.top
    out = kernel.choose(too_large, kernel.binary("or", sign, largest) if is_signed else largest, signed)
    nan = kernel.binary("xor", sign, f.nan) if f.signed_zero else f.nan
    out = kernel.choose(kernel.compare("icmp ugt", size, inf), nan, out)
    return kernel.convert("trunc", out, narrow)


def _to_e8m0(kernel: Kernel, x: Reg, bits: Reg, narrow: str, *, saturate: bool) -> Reg:
    """The exponent of the nearest power of two, ties upward; negative numbers, zero and NaN are NaN (255)."""
    t = bits.type
    is_tiny = kernel.compare("icmp ult", bits, 0x800000)  # 2^-127 has a field of its own below
    half_up = kernel.choose(is_tiny, integer(0x200000, t), 0x400000)
    out = kernel.binary("lshr", kernel.binary("add", bits, half_up), 23)
    if saturate:
        out = kernel.intrinsic("umin", t, out, 254)
    out = kernel.choose(kernel.compare("fcmp ule", x, 0.0), 255, out)
    return kernel.convert("trunc", out, narrow)
