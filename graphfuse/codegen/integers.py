"""Elementwise functions of integers and bools on one vector: nothing traps, everything wraps."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from graphfuse.codegen.kernel import Kernel, call, constant, element_type, integer, suffix, vector_type, width_of
from graphfuse.codegen.vecmath_emit import Code, Value, VectorFunction
from graphfuse.ir.types import Scalar
from graphfuse.llvm.module import Reg

Emit = Callable[[Kernel, Scalar, Sequence[Reg]], Reg]


def wrap(kernel: Kernel, x: Reg, elem: Scalar) -> Reg:
    """The value modulo the width of a type narrower than its register."""
    if elem.bits >= 8:
        return x
    if not elem.is_signed:
        return kernel.binary("and", x, (1 << elem.bits) - 1)
    shift = 8 - elem.bits
    return kernel.binary("ashr", kernel.binary("shl", x, shift), shift)


def _wrapped(name: str) -> Emit:
    return lambda k, elem, xs: wrap(k, k.binary(name, *xs), elem)


def plain(name: str) -> Emit:
    """An instruction on two operands."""
    return lambda k, _, xs: k.binary(name, *xs)


def _compared(signed: str, unsigned: str) -> Emit:
    return lambda k, elem, xs: k.compare(f"icmp {signed if elem.is_signed else unsigned}", *xs)


def _extreme(name: str) -> Emit:
    return lambda k, elem, xs: k.intrinsic(("s" if elem.is_signed else "u") + name, xs[0].type, *xs)


def _divide(kernel: Kernel, elem: Scalar, a: Reg, b: Reg) -> tuple[Reg, Reg]:
    """Quotient and remainder toward zero; both 0 for b = 0, and the least value / -1 wraps."""
    is_zero = kernel.compare("icmp eq", b, 0)
    if not elem.is_signed:
        safe = kernel.choose(is_zero, 1, b)
        quotient, rest = kernel.binary("udiv", a, safe), kernel.binary("urem", a, safe)
        return kernel.choose(is_zero, 0, quotient), kernel.choose(is_zero, 0, rest)
    is_minus = kernel.compare("icmp eq", b, -1)
    safe = kernel.choose(kernel.binary("or", is_zero, is_minus), 1, b)
    quotient, rest = kernel.binary("sdiv", a, safe), kernel.binary("srem", a, safe)
    quotient = kernel.choose(is_minus, _negated(kernel, a), quotient)
    # the remainder by the stand-in 1 is 0 already
    return kernel.choose(is_zero, 0, quotient), rest


def _known_divisor(b: Reg) -> int | None:
    """The value of a constant positive divisor."""
    text = b.text.removeprefix("splat (").rstrip(")").rpartition(" ")[2]
    return int(text) if text.isdigit() and int(text) > 0 else None


def _truncdiv(kernel: Kernel, elem: Scalar, xs: Sequence[Reg]) -> Reg:
    if _known_divisor(xs[1]):
        return kernel.binary("sdiv" if elem.is_signed else "udiv", *xs)
    return wrap(kernel, _divide(kernel, elem, *xs)[0], elem)


def _truncmod(kernel: Kernel, elem: Scalar, xs: Sequence[Reg]) -> Reg:
    if _known_divisor(xs[1]):
        return kernel.binary("srem" if elem.is_signed else "urem", *xs)
    return _divide(kernel, elem, *xs)[1]


def _off_floor(kernel: Kernel, rest: Reg, b: Reg) -> Reg:
    """Whether truncation went above the floor: a remainder of the other sign than b."""
    inexact = kernel.compare("icmp ne", rest, 0)
    differ = kernel.compare("icmp slt", kernel.binary("xor", rest, b), 0)
    return kernel.binary("and", inexact, differ)


def _floordiv(kernel: Kernel, elem: Scalar, xs: Sequence[Reg]) -> Reg:
    if not elem.is_signed:
        return _truncdiv(kernel, elem, xs)
    known = _known_divisor(xs[1])
    if known and known & (known - 1) == 0:
        return kernel.binary("ashr", xs[0], known.bit_length() - 1)
    quotient, rest = _divide(kernel, elem, *xs)
    lower = kernel.binary("sub", quotient, 1)
    return wrap(kernel, kernel.choose(_off_floor(kernel, rest, xs[1]), lower, quotient), elem)


def _floormod(kernel: Kernel, elem: Scalar, xs: Sequence[Reg]) -> Reg:
    if not elem.is_signed:
        return _truncmod(kernel, elem, xs)
    known = _known_divisor(xs[1])
    if known and known & (known - 1) == 0:
        return kernel.binary("and", xs[0], known - 1)
    _, rest = _divide(kernel, elem, *xs)
    return kernel.choose(_off_floor(kernel, rest, xs[1]), kernel.binary("add", rest, xs[1]), rest)


def _safe_count(kernel: Kernel, elem: Scalar, count: Reg) -> Reg:
    """What a shift may be given, where LLVM would cut the count to 32 bits."""
    if kernel.instructions.whole_counts or elem.bits < 64:
        return count
    return kernel.binary("and", count, 63)


def _shl(kernel: Kernel, elem: Scalar, xs: Sequence[Reg]) -> Reg:
    near = kernel.compare("icmp ult", xs[1], max(8, elem.bits))
    count = _safe_count(kernel, elem, xs[1])
    return wrap(kernel, kernel.choose(near, kernel.binary("shl", xs[0], count), 0), elem)


def _shr(kernel: Kernel, elem: Scalar, xs: Sequence[Reg]) -> Reg:
    width = max(8, elem.bits)
    near = kernel.compare("icmp ult", xs[1], width)
    if elem.is_signed:
        return kernel.binary("ashr", xs[0], kernel.choose(near, xs[1], width - 1))
    count = _safe_count(kernel, elem, xs[1])
    return kernel.choose(near, kernel.binary("lshr", xs[0], count), 0)


def _neg(kernel: Kernel, elem: Scalar, xs: Sequence[Reg]) -> Reg:
    return wrap(kernel, _negated(kernel, xs[0]), elem)


def _negated(kernel: Kernel, x: Reg) -> Reg:
    return kernel.binary("sub", integer(0, x.type), x)


def _abs(kernel: Kernel, elem: Scalar, xs: Sequence[Reg]) -> Reg:
    return wrap(kernel, _total("abs", kernel, xs[0]), elem) if elem.is_signed else xs[0]


def _total(name: str, kernel: Kernel, x: Reg) -> Reg:
    """An intrinsic that may be told to leave some results undefined, and is not."""
    return kernel.call(x.type, f"@llvm.{name}.{suffix(x.type)}", (x, Reg("false", "i1")))


def _sign(kernel: Kernel, elem: Scalar, xs: Sequence[Reg]) -> Reg:
    x = xs[0]
    some = kernel.convert("zext", kernel.compare("icmp ne", x, 0), element_type(x.type))
    if not elem.is_signed:
        return some
    return kernel.binary("or", kernel.binary("ashr", x, 8 * max(1, elem.bytes) - 1), some)


def _not(kernel: Kernel, elem: Scalar, xs: Sequence[Reg]) -> Reg:
    x = xs[0]
    if elem.name == "bool":
        return kernel.binary("xor", x, constant("true", "i1", width_of(x.type)))
    return wrap(kernel, kernel.binary("xor", x, -1), elem)


def _mulhi(kernel: Kernel, elem: Scalar, xs: Sequence[Reg]) -> Reg:
    """In twice the width, which LLVM knows as one instruction where there is one."""
    type_ = xs[0].type
    wide = vector_type(f"i{2 * elem.bits}", width_of(type_))
    a, b = (kernel.convert("sext" if elem.is_signed else "zext", x, element_type(wide)) for x in xs)
    high = kernel.binary("lshr", kernel.binary("mul", a, b), elem.bits)
    return kernel.convert("trunc", high, element_type(type_))


def _pow(kernel: Kernel, elem: Scalar, xs: Sequence[Reg]) -> Reg:
    """Negative exponents are 0 but for bases 1 and -1."""
    type_ = xs[0].type
    power = _power(element_type(type_), width_of(type_), kernel.helpers, signed=elem.is_signed)
    return wrap(kernel, call(kernel, power, xs), elem)


@functools.cache
def _power(elem: str, lanes: int, attribute: str, *, signed: bool) -> VectorFunction:
    """Square and multiply in a loop."""
    code = Code(f"gf.pow.{elem}.v{lanes}.{'s' if signed else 'u'}", elem, lanes)
    a, b = (Value(code, f"%{name}", elem) for name in "ab")
    negative = b < 0 if signed else code.constant(0, "i1")
    first = code.select(negative, code.constant(0, elem), b)

    def step(_: Value, left: Value, out: Value, square: Value) -> list[Value]:
        changed = code.select((left & 1).is_not(0), out * square, out), square * square
        return [left >> 1, *changed]

    _, out, _ = code.repeat([first, code.constant(1, elem), a], lambda left: left.is_not(0), step)
    is_unit = a.is_(1) | a.is_(-1)
    inverse = code.select(is_unit, code.select((b & 1).is_not(0), a, 1), 0)
    return code.function(("a", "b"), code.select(negative, inverse, out), f"{attribute} nounwind")


INTEGER: dict[str, Emit] = {
    "add": _wrapped("add"), "sub": _wrapped("sub"), "mul": _wrapped("mul"),
    "floordiv": _floordiv, "truncdiv": _truncdiv, "floormod": _floormod, "truncmod": _truncmod, "pow": _pow,
    "max": _extreme("max"), "min": _extreme("min"),
    "and": plain("and"), "or": plain("or"), "xor": plain("xor"), "shl": _shl, "shr": _shr,
    "eq": _compared("eq", "eq"), "ne": _compared("ne", "ne"), "lt": _compared("slt", "ult"),
    "le": _compared("sle", "ule"), "gt": _compared("sgt", "ugt"), "ge": _compared("sge", "uge"),
    "neg": _neg, "abs": _abs, "sign": _sign, "not": _not,
    "mulhi": _mulhi, "popcount": lambda k, _, xs: k.intrinsic("ctpop", xs[0].type, *xs),
    "clz": lambda k, _, xs: _total("ctlz", k, xs[0]),
}  # fmt: skip
"""By name, as `elementwise.FUNCTIONS`."""
