"""Conversions between elements on one vector.

Rounding to nearest even throughout. What the processor has no instruction for (f16 before F16C, bf16, float8)
is integer arithmetic on the bits, so no library is called and no instruction flushes denormals.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphfuse.codegen import small_floats
from graphfuse.codegen.integers import wrap
from graphfuse.codegen.kernel import Kernel, element_type, integer, register_type, suffix, vector_type, width_of
from graphfuse.ir.types import BF16, F16, F32, F64, I32, I64, Scalar
from graphfuse.llvm.module import Reg

_PLAIN = frozenset({"f16", "bf16", "f32", "f64"})


def cast(kernel: Kernel, x: Reg, source: Scalar, to: Scalar, *, saturate: bool = False) -> Reg:
    """`block.cast` of one vector."""
    if source == to:
        return x
    if source.is_float and to.is_float:
        return float_to_float(kernel, x, source, to, saturate=saturate)
    if source.is_float:
        return _from_float(kernel, x, source, to, saturate=saturate)
    if to.is_float:
        return _integer_to_float(kernel, x, source, to, saturate=saturate)
    if to.name == "bool":
        return kernel.compare("icmp ne", x, 0)
    if saturate and source.is_integer:
        x = _clamp(kernel, x, source, to)
    return wrap(kernel, resize(kernel, x, source, to), to)


def cast_all(kernel: Kernel, xs: Sequence[Reg], source: Scalar, to: Scalar, *, saturate: bool = False) -> list[Reg]:
    """`block.cast` of a tile's registers, which a target may convert in pairs."""
    if source.name in _PLAIN and is_float8(to) and source != F64:
        wide = [float_to_float(kernel, x, source, F32) for x in xs]
        if (out := kernel.to_float8(wide, to, saturate=saturate)) is not None:
            return out
    if is_float8(source) and to.is_float and source != to and (wide := kernel.from_float8(xs, source)) is not None:
        return [float_to_float(kernel, x, F32, to, saturate=saturate) for x in wide]
    if (source, to) == (BF16, F32) and kernel.instructions.bfloats and len(xs) % 2 == 0:
        pairs = zip(xs[::2], xs[1::2], strict=True)
        return [x for low, high in pairs for x in _bf16_pair_to_f32(kernel, low, high)]
    return [cast(kernel, x, source, to, saturate=saturate) for x in xs]


def is_float8(elem: Scalar) -> bool:
    """The formats that processors convert, if any."""
    return elem.name in ("f8e4m3", "f8e5m2")


def resize(kernel: Kernel, x: Reg, source: Scalar, to: Scalar) -> Reg:
    """An integer's register to another width."""
    have, want = element_type(x.type), register_type(to)
    if int(have[1:]) > int(want[1:]):
        return kernel.convert("trunc", x, want)
    return kernel.convert("sext" if source.is_signed else "zext", x, want)


def _clamp(kernel: Kernel, x: Reg, source: Scalar, to: Scalar) -> Reg:
    (low, high), (s_low, s_high) = to.limits, source.limits
    sign = "s" if source.is_signed else "u"
    if low > s_low:
        x = kernel.intrinsic(f"{sign}max", x.type, x, low)
    if high < s_high:
        x = kernel.intrinsic(f"{sign}min", x.type, x, high)
    return x


# float to float


def float_to_float(kernel: Kernel, x: Reg, source: Scalar, to: Scalar, *, saturate: bool = False) -> Reg:
    """Any float to any other, rounded once."""
    if source == to:
        return x
    if source.name not in _PLAIN:
        return float_to_float(kernel, _widened(kernel, x, source), F32, to, saturate=saturate)
    if to.name not in _PLAIN:
        if source == F64:
            x = _round_to_odd(kernel, x)
        elif source != F32:
            x = float_to_float(kernel, x, source, F32)
        return _narrowed(kernel, x, to, saturate=saturate)
    if source.bits == 16:
        x = _half_to_f32(kernel, x) if source == F16 else _bf16_to_f32(kernel, x)
        return x if to == F32 else float_to_float(kernel, x, F32, to)
    if to.bits == 16:
        if source == F64:  # to bf16 in two roundings, as ml_dtypes does
            x = _round_to_odd(kernel, x) if to == F16 else kernel.convert("fptrunc", x, "float")
        return _f32_to_half(kernel, x) if to == F16 else _f32_to_bf16(kernel, x)
    return kernel.convert("fpext" if to.bits > source.bits else "fptrunc", x, register_type(to))


def _widened(kernel: Kernel, x: Reg, source: Scalar) -> Reg:
    """A float of up to 8 bits as f32."""
    if is_float8(source) and (out := kernel.from_float8([x], source)) is not None:
        return out[0]
    return small_floats.to_f32(kernel, x, source)


def _narrowed(kernel: Kernel, x: Reg, to: Scalar, *, saturate: bool) -> Reg:
    """An f32 as a float of up to 8 bits."""
    if is_float8(to) and (out := kernel.to_float8([x], to, saturate=saturate)) is not None:
        return out[0]
    return small_floats.from_f32(kernel, x, to, saturate=saturate)


def _round_to_odd(kernel: Kernel, x: Reg) -> Reg:
    """f64 to f32 such that a second rounding to a narrower float is as good as one.

    Truncated toward zero, and the last bit set if anything was cut off.
    """
    near = kernel.convert("fptrunc", x, "float")
    back = kernel.convert("fpext", near, "double")
    inexact = kernel.compare("fcmp one", back, x)
    above = kernel.compare("fcmp ogt", *(kernel.intrinsic("fabs", x.type, v) for v in (back, x)))
    bits = kernel.convert("bitcast", near, "i32")
    down = kernel.binary("sub", bits, kernel.convert("zext", above, "i32"))
    odd = kernel.binary("or", down, kernel.convert("zext", inexact, "i32"))
    return kernel.convert("bitcast", odd, "float")


def _half_to_f32(kernel: Kernel, x: Reg) -> Reg:
    if kernel.instructions.halves:
        return kernel.convert("fpext", kernel.convert("bitcast", x, "half"), "float")
    return small_floats.to_f32(kernel, x, F16)


def _f32_to_half(kernel: Kernel, x: Reg) -> Reg:
    if kernel.instructions.halves:
        return kernel.convert("bitcast", kernel.convert("fptrunc", x, "half"), "i16")
    return small_floats.from_f32(kernel, x, F16)


def _bf16_to_f32(kernel: Kernel, x: Reg) -> Reg:
    if kernel.instructions.bfloats:
        return kernel.convert("fpext", kernel.convert("bitcast", x, "bfloat"), "float")
    wide = kernel.convert("zext", x, "i32")
    return kernel.convert("bitcast", kernel.binary("shl", wide, 16), "float")


def _bf16_pair_to_f32(kernel: Kernel, low: Reg, high: Reg) -> tuple[Reg, Reg]:
    """One instruction each where they lie in one word, as after packed arithmetic."""
    word = kernel.recast(kernel.joined([kernel.convert("bitcast", x, "i16") for x in (low, high)]), "i32")
    bits = kernel.binary("shl", word, 16), kernel.binary("and", word, -1 << 16)
    first, second = (kernel.convert("bitcast", b, "float") for b in bits)
    return first, second


def _f32_to_bf16(kernel: Kernel, x: Reg) -> Reg:
    """Add half of the last kept bit, less one unless it is odd; NaN keeps a bit."""
    if kernel.instructions.bfloats:
        return kernel.convert("bitcast", kernel.convert("fptrunc", x, "bfloat"), "i16")
    bits = kernel.convert("bitcast", x, "i32")
    odd = kernel.binary("and", kernel.binary("lshr", bits, 16), 1)
    rounded = kernel.binary("add", kernel.binary("add", bits, odd), 0x7FFF)
    quiet = kernel.binary("or", bits, 0x400000)
    bits = kernel.choose(kernel.compare("fcmp uno", x, x), quiet, rounded)
    return kernel.convert("trunc", kernel.binary("lshr", bits, 16), "i16")


# integers


def _integer_to_float(kernel: Kernel, x: Reg, source: Scalar, to: Scalar, *, saturate: bool) -> Reg:
    """Through f32, or f64 if that is inexact; i64 to a narrow float rounds to odd on the way."""
    into = "sitofp" if source.is_signed else "uitofp"
    if to == F16 and source.bits > 16 and kernel.instructions.halves_of_integers:
        return kernel.convert("bitcast", kernel.convert(into, x, "half"), "i16")
    wide = to if to in (F32, F64) else F64 if source.bits > 16 else F32
    if source.bits == 64 and wide != to:
        x = _shorten(kernel, x, source)
    out = kernel.convert(into, x, register_type(wide))
    return float_to_float(kernel, out, wide, to, saturate=saturate)


def _shorten(kernel: Kernel, x: Reg, source: Scalar) -> Reg:
    """Clear the low bits of a 64-bit integer that f64 cannot hold, folding them into a sticky one."""
    low = kernel.binary("and", x, 0x7FF)
    high = kernel.binary("and", x, -0x800)
    sticky = kernel.compare("icmp ne", low, 0)
    marked = kernel.binary("or", high, kernel.choose(sticky, integer(0x800, x.type), 0))
    size = kernel.binary("xor", x, kernel.binary("ashr", x, 63)) if source.is_signed else x
    return kernel.choose(kernel.compare("icmp ult", size, 1 << 53), x, marked)


def _from_float(kernel: Kernel, x: Reg, source: Scalar, to: Scalar, *, saturate: bool) -> Reg:
    """Truncate toward zero, through i32 or i64 as the processor's conversion does, then wrap."""
    if source.bits < 32:
        x, source = float_to_float(kernel, x, source, F32), F32
    if to.name == "bool":
        return kernel.compare("fcmp une", x, 0.0)
    if saturate:
        wide = to if to.bits >= 8 else Scalar("i32")
        out = _saturating(kernel, x, wide)
        return out if to.bits >= 8 else wrap(kernel, resize(kernel, _clamp(kernel, out, wide, to), wide, to), to)
    if to.name == "u64":
        return _to_u64(kernel, x)
    wide = I64 if to.bits > 32 or to.name == "u32" else I32
    return wrap(kernel, resize(kernel, _hardware(kernel, x, wide), wide, to), to)


def _saturating(kernel: Kernel, x: Reg, to: Scalar) -> Reg:
    name = "fptosi" if to.is_signed else "fptoui"
    type_ = vector_type(register_type(to), width_of(x.type))
    return kernel.intrinsic(f"{name}.sat", type_, x, overload=f"{suffix(type_)}.{suffix(x.type)}")


def _hardware(kernel: Kernel, x: Reg, to: Scalar) -> Reg:
    """cvttps2dq and its kin: what does not fit becomes the least value.

    LLVM calls that case poison, so it is selected away; on x86 the select is redundant but cheap.
    """
    if to == I32 and element_type(x.type) == "float" and (out := kernel.truncated(x)) is not None:
        return out
    edge = 1 << (to.bits - 1)
    above = kernel.compare("fcmp ult", x, edge)
    # one compare: below the range the saturating conversion gives the least value already
    whole = _saturating(kernel, x, to)
    nan = kernel.compare("fcmp ord", x, x)
    return kernel.choose(kernel.binary("and", above, nan), whole, -edge)


def _to_u64(kernel: Kernel, x: Reg) -> Reg:
    """The upper half of u64 too; elsewhere as i64."""
    edge = 1 << 63
    upper = kernel.binary("and", kernel.compare("fcmp oge", x, edge), kernel.compare("fcmp olt", x, 2 * edge))
    high = kernel.binary("xor", _hardware(kernel, kernel.binary("fsub", x, edge), I64), -edge)
    return kernel.choose(upper, high, _hardware(kernel, x, I64))
