"""Elementwise ops: vector by vector, floats narrower than f32 computed in f32 and rounded once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from graphfuse.codegen import convert, vecmath
from graphfuse.codegen.integers import INTEGER, Emit, plain
from graphfuse.codegen.kernel import (
    Kernel,
    PointerValue,
    constant,
    element_type,
    literal,
    lowers,
    operand,
    register_type,
    suffix,
    vector_type,
    width_of,
)
from graphfuse.codegen.vecmath_emit import VectorFunction
from graphfuse.dialects import block
from graphfuse.errors import UnsupportedError
from graphfuse.ir.core import Op, attr_number, attr_scalar
from graphfuse.ir.types import F32, F64, Ptr, Scalar
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


def call(kernel: Kernel, fn: VectorFunction, xs: Sequence[Reg]) -> Reg:
    """A function that this module defines on first use."""
    for text in (*fn.declarations, fn.definition):
        kernel.text.module.entity(text)
    return kernel.text.emit(xs[0].type, f"call {xs[0].type} @{fn.symbol}({', '.join(map(str, xs))})")


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


def _rsqrt(kernel: Kernel, elem: Scalar, xs: Sequence[Reg]) -> Reg:
    """Two roundings."""
    root = kernel.intrinsic("sqrt", xs[0].type, xs[0])
    return kernel.binary("fdiv", operand(1.0, root.type), root)


def _floordiv(kernel: Kernel, elem: Scalar, xs: Sequence[Reg]) -> Reg:
    return kernel.intrinsic("floor", xs[0].type, kernel.binary("fdiv", *xs))


def _truncmod(kernel: Kernel, elem: Scalar, xs: Sequence[Reg]) -> Reg:
    """C's fmod, exact; f32 in f64."""
    type_ = xs[0].type
    width = width_of(type_)
    any_ratio = elem == F64
    for text in _fmod_texts(width, kernel.helpers, any_ratio=any_ratio):
        kernel.text.module.entity(text)
    wide = [kernel.convert("fpext", x, "double") for x in xs]
    out = kernel.text.emit(wide[0].type, f"call {wide[0].type} @{_fmod_name(width, any_ratio)}({wide[0]}, {wide[1]})")
    return kernel.convert("fptrunc", out, element_type(type_))


def _floormod(kernel: Kernel, elem: Scalar, xs: Sequence[Reg]) -> Reg:
    """Python's %: fmod, plus the divisor where the signs differ; zeros take the divisor's sign."""
    b = xs[1]
    rest = _truncmod(kernel, elem, xs)
    is_zero = kernel.compare("fcmp oeq", rest, 0.0)
    differ = kernel.binary("xor", kernel.compare("fcmp olt", rest, 0.0), kernel.compare("fcmp olt", b, 0.0))
    moved = kernel.choose(differ, kernel.binary("fadd", rest, b), rest)
    return kernel.choose(is_zero, kernel.intrinsic("copysign", b.type, 0.0, b), moved)


def _fmod_name(width: int, any_ratio: bool) -> str:
    return f"gf.fmod.v{width}{'.any' if any_ratio else ''}"


def _fmod_texts(width: int, attribute: str, *, any_ratio: bool) -> list[str]:
    """r = |a|; while r >= |b| take off q |b|, q the leading 26 bits of r / |b|, never too large: each step is exact.

    With `any_ratio` r / |b| may overflow, as it does not for f32 numbers: then multiples of 2^600 |b| are taken off.
    """
    v, m, i = (vector_type(e, width) for e in ("double", "i1", "i64"))
    name = suffix(v)

    def c(value: float, type_: str = v) -> str:
        return operand(value, type_).text

    any_left = f"call i1 @llvm.vector.reduce.or.v{width}i1({m} %more)" if width > 1 else "or i1 %more, false"
    declarations = [
        f"declare {v} @llvm.{fn}.{name}({', '.join([v] * n)})"
        for fn, n in (("fabs", 1), ("trunc", 1), ("fma", 3), ("copysign", 2))
    ]
    if width > 1:
        declarations.append(f"declare i1 @llvm.vector.reduce.or.v{width}i1({m})")
    divisor, scaling = ("%m2", _fmod_scaling(v, m, c)) if any_ratio else ("%m", "")
    definition = f"""\
define internal {v} @{_fmod_name(width, any_ratio)}({v} %a, {v} %b) nounwind {attribute} {{
entry:
  %r0 = call {v} @llvm.fabs.{name}({v} %a)
  %m = call {v} @llvm.fabs.{name}({v} %b)
  %finite = fcmp olt {v} %r0, {c(float("inf"))}
  %positive = fcmp ogt {v} %m, {c(0.0)}
  %valid = and {m} %finite, %positive
  br label %loop
loop:
  %r = phi {v} [ %r0, %entry ], [ %next, %step ]
  %large = fcmp oge {v} %r, %m
  %more = and {m} %large, %valid
  %any = {any_left}
  br i1 %any, label %step, label %done
step:
{scaling}
  %ratio = fdiv {v} %r, {divisor}
  %q0 = fmul {v} %ratio, {c(1 - 2**-52)}
  %bits = bitcast {v} %q0 to {i}
  %kept = and {i} %bits, {c(-(1 << 27), i)}
  %leading = bitcast {i} %kept to {v}
  %whole = call {v} @llvm.trunc.{name}({v} %q0)
  %is_long = fcmp oge {v} %q0, {c(2.0**26)}
  %q1 = select {m} %is_long, {v} %leading, {v} %whole
  %some = fcmp oge {v} %q1, {c(1.0)}
  %q = select {m} %some, {v} %q1, {v} {c(1.0)}
  %minus = fneg {v} %q
  %less = call {v} @llvm.fma.{name}({v} %minus, {v} {divisor}, {v} %r)
  %next = select {m} %more, {v} %less, {v} %r
  br label %loop
done:
  %signed = call {v} @llvm.copysign.{name}({v} %r, {v} %a)
  %unordered = fcmp uno {v} %a, %b
  %bad_a = xor {m} %finite, {constant("true", "i1", width).text}
  %bad_b = xor {m} %positive, {constant("true", "i1", width).text}
  %bad0 = or {m} %bad_a, %bad_b
  %bad = or {m} %bad0, %unordered
  %out = select {m} %bad, {v} {c(float("nan"))}, {v} %signed
  ret {v} %out
}}
"""
    return [*declarations, definition]


def _fmod_scaling(v: str, m: str, c: Callable[[float], str]) -> str:
    """`%m2` = 2^600k |b|, k the least of 0, 1 and 2 that makes r / m2 less than 2^900."""
    lines: list[str] = []
    for before, after in (("%m", "%m1"), ("%m1", "%m2")):
        lines += [
            f"  {after}.limit = fmul {v} {before}, {c(2.0**900)}",
            f"  {after}.far = fcmp oge {v} %r, {after}.limit",
            f"  {after}.grown = fmul {v} {before}, {c(2.0**600)}",
            f"  {after} = select {m} {after}.far, {v} {after}.grown, {v} {before}",
        ]
    return "\n".join(lines)


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
}  # fmt: skip


@lowers(*block.ELEMENTWISE.values())
def lower_elementwise(kernel: Kernel, op: Op) -> None:
    """One of the shared functions."""
    name = op.kind.name.removeprefix("block.")
    tiles = [kernel.registers(v) for v in op.operands]
    elem, rows = tiles[0].elem, zip(*(t.vectors for t in tiles), strict=True)
    if op.attrs.get("nsw") and elem.bits >= 8:
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
    kernel.set(op, [kernel.choose(*xs) for xs in zip(condition.vectors, a.vectors, b.vectors, strict=True)])


@lowers(block.cast)
def lower_cast(kernel: Kernel, op: Op) -> None:
    """See `convert`."""
    tile, to = kernel.registers(op.operands[0]), attr_scalar(op, "to")
    saturate = bool(op.attrs.get("saturate", False))
    kernel.set(op, convert.cast_all(kernel, tile.vectors, tile.elem, to, saturate=saturate))
    if tile.elem.is_integer and to.name == "i64":
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
