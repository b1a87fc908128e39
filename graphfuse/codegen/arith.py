"""Elementwise ops: vector by vector, floats narrower than f32 computed in f32 and rounded once."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

from graphfuse.codegen import convert, vecmath
from graphfuse.codegen.integers import INTEGER, Emit, plain
from graphfuse.codegen.kernel import (
    Kernel,
    PointerValue,
    call,
    constant,
    element_type,
    literal,
    lowers,
    operand,
    register_type,
    vector_type,
    width_of,
)
from graphfuse.codegen.narrow import narrowed, note_bounds
from graphfuse.codegen.vecmath_emit import Code, Value, VectorFunction
from graphfuse.dialects import block
from graphfuse.errors import UnsupportedError
from graphfuse.ir.core import Op, attr_number, attr_scalar
from graphfuse.ir.types import BOOL, F32, F64, I32, Ptr, Scalar
from graphfuse.llvm.module import Reg

_PREDICATES = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}


def elementwise(kernel: Kernel, name: str, elem: Scalar, operands: Sequence[Reg]) -> Reg:
    """The shared function `name` on one vector of each operand."""
    if not elem.is_float:
        return INTEGER[name](kernel, elem, operands)
    if (own := kernel.functions.get(name)) and (out := own(kernel, elem, operands)) is not None:
        return out
    wide = compute_elem(elem)
    out = _float(kernel, name, wide, [convert.float_to_float(kernel, x, elem, wide) for x in operands])
    is_bool = element_type(out.type) == "i1"
    return out if is_bool else convert.float_to_float(kernel, out, wide, elem)


def compute_elem(elem: Scalar) -> Scalar:
    """What arithmetic on `elem` is done in."""
    return F32 if elem.is_float and elem.bits < 32 else elem


def _float(kernel: Kernel, name: str, elem: Scalar, xs: Sequence[Reg]) -> Reg:
    if name in _PREDICATES:
        return kernel.compare(f"fcmp {_PREDICATES[name]}", *xs)
    if name in FLOAT:
        return FLOAT[name](kernel, elem, xs)
    if name in vecmath.FUNCTIONS:
        return call_vecmath(kernel, name, elem, xs)
    raise UnsupportedError(f"{name} on {elem} cannot be compiled for {kernel.target}")


def call_vecmath(kernel: Kernel, name: str, elem: Scalar, xs: Sequence[Reg]) -> Reg:
    """A function of `codegen.vecmath`, defined in this module on first use."""
    return call(kernel, vecmath.define(name, elem.name, width_of(xs[0].type)), xs)


def _intrinsic(name: str) -> Emit:
    return lambda k, _, xs: k.intrinsic(name, xs[0].type, *xs)


def is_plain_constant(x: Reg) -> bool:
    """Whether it is a float constant other than NaN."""
    if x.text == "zeroinitializer":
        return True
    if x.text.startswith("%"):
        return False
    digits = x.text.removeprefix("splat (").rpartition(" ")[2].rstrip(")")
    if not digits.startswith("0x") or digits[2] in "HR":
        return False
    bits = int(digits, 16)
    return bits & 0x7FFFFFFFFFFFFFFF <= 0x7FF0000000000000


def extreme(kernel: Kernel, name: str, a: Reg, b: Reg) -> Reg:
    """NaN-propagating max or min: one instruction when one side is a constant, three on x86 otherwise.

    x86's `maxps(x, y)` is `x > y ? x : y`, which gives y when either is NaN.
    """
    if kernel.instructions.extremes:
        return kernel.intrinsic("maximum" if name == "max" else "minimum", a.type, a, b)
    if is_plain_constant(b):
        a, b = b, a
    predicate = "fcmp ogt" if name == "max" else "fcmp olt"
    larger = kernel.choose(kernel.compare(predicate, a, b), a, b)
    if is_plain_constant(a):
        return larger
    return kernel.choose(kernel.compare("fcmp uno", a, a), a, larger)


def _extreme(name: str) -> Emit:
    return lambda k, _, xs: extreme(k, name, *xs)


def _neg(kernel: Kernel, elem: Scalar, xs: Sequence[Reg]) -> Reg:
    return kernel.text.emit(xs[0].type, f"fneg {xs[0]}")


def _sign(kernel: Kernel, elem: Scalar, xs: Sequence[Reg]) -> Reg:
    """1 with the sign of x where x is not 0; else x, which keeps NaN."""
    x = xs[0]
    one = kernel.intrinsic("copysign", x.type, 1.0, x)
    return kernel.choose(kernel.compare("fcmp one", x, 0.0), one, x)


def _isnan(kernel: Kernel, elem: Scalar, xs: Sequence[Reg]) -> Reg:
    return kernel.compare("fcmp uno", xs[0], xs[0])


def _isinf(kernel: Kernel, elem: Scalar, xs: Sequence[Reg]) -> Reg:
    size = kernel.intrinsic("fabs", xs[0].type, xs[0])
    return kernel.compare("fcmp oeq", size, float("inf"))


def _logaddexp(kernel: Kernel, elem: Scalar, xs: Sequence[Reg]) -> Reg:
    """The larger, and what the other adds to it; infinities have no distance."""
    low, high = (extreme(kernel, name, *xs) for name in ("min", "max"))
    gap = kernel.choose(kernel.compare("fcmp oeq", low, high), 0.0, kernel.binary("fsub", low, high))
    ratio = elementwise(kernel, "exp", elem, [gap])
    return kernel.binary("fadd", high, elementwise(kernel, "log1p", elem, [ratio]))


def _rsqrt(kernel: Kernel, elem: Scalar, xs: Sequence[Reg]) -> Reg:
    """Two roundings."""
    root = kernel.intrinsic("sqrt", xs[0].type, xs[0])
    return kernel.binary("fdiv", operand(1.0, root.type), root)


def _floordiv(kernel: Kernel, elem: Scalar, xs: Sequence[Reg]) -> Reg:
    return kernel.intrinsic("floor", xs[0].type, kernel.binary("fdiv", *xs))


def _truncmod(kernel: Kernel, elem: Scalar, xs: Sequence[Reg]) -> Reg:
    """C's fmod, exact; f32 in f64."""
    type_ = xs[0].type
    remainder = _fmod(width_of(type_), kernel.helpers, any_ratio=elem == F64)
    out = call(kernel, remainder, [kernel.convert("fpext", x, "double") for x in xs])
    return kernel.convert("fptrunc", out, element_type(type_))


def _floormod(kernel: Kernel, elem: Scalar, xs: Sequence[Reg]) -> Reg:
    """Python's %: fmod, plus the divisor where the signs differ; zeros take the divisor's sign."""
    b = xs[1]
    rest = _truncmod(kernel, elem, xs)
    is_zero = kernel.compare("fcmp oeq", rest, 0.0)
    differ = kernel.binary("xor", kernel.compare("fcmp olt", rest, 0.0), kernel.compare("fcmp olt", b, 0.0))
    moved = kernel.choose(differ, kernel.binary("fadd", rest, b), rest)
    return kernel.choose(is_zero, kernel.intrinsic("copysign", b.type, 0.0, b), moved)


@functools.cache
def _fmod(lanes: int, attribute: str, *, any_ratio: bool) -> VectorFunction:
    """r = |a|; while r >= |b| take off q |b|, q the leading 26 bits of r / |b|, never too large: each step is exact.

    With `any_ratio` r / |b| may overflow, as it does not for f32 numbers: then multiples of 2^600 |b| are taken off.
    """
    c = Code(f"gf.fmod.v{lanes}{'.any' if any_ratio else ''}", "f64", lanes)
    a, b = (Value(c, f"%{name}", "f64") for name in "ab")
    size, divisor = a.abs(), b.abs()
    finite, positive = size < math.inf, divisor > 0.0
    valid = finite & positive

    def step(more: Value, r: Value) -> list[Value]:
        scaled = divisor  # times 2^600k, k the least of 0, 1 and 2 that makes the ratio less than 2^900
        for _ in range(2 if any_ratio else 0):
            scaled = c.select(r >= scaled * 2.0**900, scaled * 2.0**600, scaled)
        ratio = r / scaled * (1 - 2**-52)
        leading, whole = (ratio.bits() & -(1 << 27)).as_float(), ratio.trunc()
        q = c.select(ratio >= 2.0**26, leading, whole)
        return [c.select(more, c.fma(-c.select(q >= 1.0, q, 1.0), scaled, r), r)]

    (r,) = c.repeat([size], lambda r: (r >= divisor) & valid, step)
    signed, unordered = r.with_sign_of(a), a.is_not(a) | b.is_not(b)
    out = c.select(~finite | ~positive | unordered, math.nan, signed)
    return c.function(("a", "b"), out, f"{attribute} nounwind")


def _atan2(kernel: Kernel, elem: Scalar, xs: Sequence[Reg]) -> Reg:
    """atan(y / x) for |y| <= |x|, else its complement, moved to the quadrant; in f64, as the ratio rounds once more."""
    type_ = xs[0].type
    y, x = (kernel.convert("fpext", v, "double") for v in xs)
    ay, ax = (kernel.intrinsic("fabs", v.type, v) for v in (y, x))
    steep = kernel.compare("fcmp ogt", ay, ax)
    top, bottom = kernel.choose(steep, ax, ay), kernel.choose(steep, ay, ax)
    equal = kernel.compare("fcmp oeq", top, bottom)  # 0 / 0 and inf / inf
    ratio = kernel.choose(equal, 1.0, kernel.binary("fdiv", top, bottom))
    both_zero = kernel.compare("fcmp oeq", bottom, 0.0)
    ratio = kernel.choose(both_zero, 0.0, ratio)
    angle = call_vecmath(kernel, "atan", F64, [ratio])
    angle = kernel.choose(steep, kernel.binary("fsub", operand(math.pi / 2, y.type), angle), angle)
    bits = vector_type("i64", width_of(y.type))
    sign = kernel.compare("icmp slt", kernel.text.emit(bits, f"bitcast {x} to {bits}"), 0)
    angle = kernel.choose(sign, kernel.binary("fsub", operand(math.pi, y.type), angle), angle)
    angle = kernel.intrinsic("copysign", y.type, angle, y)
    unordered = kernel.compare("fcmp uno", y, x)
    angle = kernel.choose(unordered, kernel.binary("fadd", y, x), angle)
    return kernel.convert("fptrunc", angle, element_type(type_))


FLOAT: dict[str, Emit] = {
    "add": plain("fadd"), "sub": plain("fsub"), "mul": plain("fmul"), "div": plain("fdiv"),
    "floordiv": _floordiv, "floormod": _floormod, "truncmod": _truncmod, "max": _extreme("max"), "min": _extreme("min"),
    "neg": _neg, "abs": _intrinsic("fabs"), "sign": _sign, "sqrt": _intrinsic("sqrt"),
    "floor": _intrinsic("floor"), "ceil": _intrinsic("ceil"), "trunc": _intrinsic("trunc"),
    "round": _intrinsic("roundeven"), "isnan": _isnan, "isinf": _isinf, "atan2": _atan2,
    "maxnum": _intrinsic("maxnum"), "minnum": _intrinsic("minnum"), "rsqrt": _rsqrt,
    "logaddexp": _logaddexp, "div_rn": plain("fdiv"), "copysign": _intrinsic("copysign"),
}  # fmt: skip


@lowers(*block.ELEMENTWISE.values())
def lower_elementwise(kernel: Kernel, op: Op) -> None:
    """One of the shared functions."""
    name = op.kind.name.removeprefix("block.")
    tiles = [kernel.registers(v) for v in op.operands]
    elem, rows = tiles[0].elem, zip(*(t.vectors for t in tiles), strict=True)
    note_bounds(kernel, op, name)
    if (short := narrowed(kernel, op, op.operands)) is not None:
        made = [
            kernel.binary(f"{name} nsw", *xs) if name in ("add", "sub", "mul") else elementwise(kernel, name, I32, xs)
            for xs in zip(*short, strict=True)
        ]
        kernel.set(op, [x if element_type(x.type) == "i1" else kernel.convert("sext", x, "i64") for x in made])
    elif op.attrs.get("nsw") and elem.bits >= 8:
        kernel.set(op, [kernel.binary(f"{name} nsw", *xs) for xs in rows])
    else:
        kernel.set(op, [elementwise(kernel, name, elem, xs) for xs in rows])


@lowers(block.assume)
def lower_assume(kernel: Kernel, op: Op) -> None:
    """Nothing: what it promises is read from the op."""
    kernel.values[op.result] = kernel.values[op.operands[0]]
    kernel.bound_alike(op)


@lowers(block.fma)
def lower_fma(kernel: Kernel, op: Op) -> None:
    """One rounding, also of narrow floats: their product is exact in f32's double."""
    tiles = [kernel.registers(v) for v in op.operands]
    elem = tiles[0].elem
    own = kernel.functions.get("fma")
    out: list[Reg] = []
    for xs in zip(*(t.vectors for t in tiles), strict=True):
        if own is not None and (native := own(kernel, elem, xs)) is not None:
            out.append(native)
            continue
        wide = F64 if elem.bits < 32 else elem
        fused = kernel.intrinsic(
            "fma", vector_type(register_type(wide), width_of(xs[0].type)),
            *(convert.float_to_float(kernel, x, elem, wide) for x in xs),
        )  # fmt: skip
        out.append(convert.float_to_float(kernel, fused, wide, elem))
    kernel.set(op, out)


@lowers(block.select)
def lower_select(kernel: Kernel, op: Op) -> None:
    """LLVM's select; where a chosen pointer points is known if both do so."""
    if isinstance(op.types[0], Ptr):
        yes, no = (kernel.pointer(v) for v in op.operands[1:])
        if yes.reg.type != no.reg.type:
            raise UnsupportedError(f"{op.kind}: only one pointer is to memory of the program's own", op.loc)
        chosen = kernel.choose(kernel.scalar(op.operands[0]), yes.reg, no.reg)
        kernel.values[op.result] = PointerValue(chosen, yes.root if yes.root == no.root else "")
        return
    condition, a, b = (kernel.registers(v) for v in op.operands)
    known = [kernel.bounds[v] for v in op.operands[1:] if v in kernel.bounds]
    if len(known) == 2:
        kernel.bounds[op.result] = min(low for low, _ in known), max(high for _, high in known)
    if (short := narrowed(kernel, op, op.operands[1:])) is not None:
        chosen = (kernel.choose(*xs) for xs in zip(condition.vectors, *short, strict=True))
        kernel.set(op, [kernel.convert("sext", x, "i64") for x in chosen])
        return
    kernel.set(op, [kernel.choose(*xs) for xs in zip(condition.vectors, a.vectors, b.vectors, strict=True)])


@lowers(block.cast)
def lower_cast(kernel: Kernel, op: Op) -> None:
    """See `convert`."""
    tile, to = kernel.registers(op.operands[0]), attr_scalar(op, "to")
    saturate = bool(op.attrs.get("saturate", False))
    kernel.set(op, convert.cast_all(kernel, tile.vectors, tile.elem, to, saturate=saturate))
    if tile.elem == BOOL and to.name == "i64":
        kernel.bounds[op.result] = (0, 1)
    elif tile.elem.is_integer and to.name == "i64":
        kernel.bound_alike(op)


@lowers(block.bitcast)
def lower_bitcast(kernel: Kernel, op: Op) -> None:
    """LLVM's bitcast; bools are bytes."""
    tile, to = kernel.registers(op.operands[0]), attr_scalar(op, "to")
    out: list[Reg] = []
    for x in tile.vectors:
        bits = kernel.convert("zext", x, "i8") if tile.elem.name == "bool" else x
        if to.name == "bool":
            out.append(kernel.compare("icmp ne", bits, 0))
        else:
            out.append(kernel.convert("bitcast", bits, register_type(to)))
    kernel.set(op, out)


@lowers(block.const)
def lower_const(kernel: Kernel, op: Op) -> None:
    """Splatted constants."""
    elem, value = attr_scalar(op, "elem"), attr_number(op, "value")
    text = literal(value, elem)
    kernel.set(op, [constant(text, register_type(elem), w) for _, w in kernel.type_parts(op.types[0])])
    if elem.name == "i64":
        kernel.bounds[op.result] = (int(value), int(value))
