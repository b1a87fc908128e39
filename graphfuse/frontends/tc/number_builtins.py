"""Built-in functions of numbers, element by element."""

from __future__ import annotations

import functools
from collections.abc import Callable

from graphfuse.frontends.tc import ast
from graphfuse.frontends.tc import typed as t
from graphfuse.frontends.tc.check_base import bound
from graphfuse.frontends.tc.check_expr import ExprChecker
from graphfuse.frontends.tc.convert import broadcast, fill, to_elem
from graphfuse.frontends.tc.types import (
    BF16,
    BOOL,
    DOUBLE,
    FLOAT,
    HALF,
    INT,
    UINT,
    ULONG,
    USHORT,
    Arith,
    common,
    promoted,
    with_shape,
)

Handler = Callable[[ExprChecker, ast.Call, str, list[t.Expr]], t.Expr]

# names of C's maths library to functions of the block dialect; each also exists with C's suffix f
_FLOAT_FUNCTIONS = {
    name: name
    for name in (
        "exp", "exp2", "expm1", "log", "log2", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "asin", "acos", "atan",
        "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "floor", "ceil", "trunc", "sigmoid", "atan2", "pow",
        "isnan", "isinf", "fma", "log10", "exp10", "cbrt", "hypot", "erfc", "erfinv", "lgamma", "copysign", "div_rn",
    )
} | {
    "rint": "round", "nearbyint": "round", "fabs": "abs", "fmin": "minnum", "fmax": "maxnum", "fmod": "truncmod",
}  # fmt: skip
_ARITY = dict.fromkeys(("atan2", "pow", "fmin", "fmax", "hypot", "copysign", "fmod", "div_rn"), 2) | {"fma": 3}
FLOAT_FUNCTIONS = _FLOAT_FUNCTIONS | {f"{name}f": op for name, op in _FLOAT_FUNCTIONS.items()}
_INT_FUNCTIONS = {"mulhi": "mulhi", "umulhi": "mulhi", "popcount": "popcount", "popc": "popcount", "clz": "clz"}


def same_numbers(c: ExprChecker, node: ast.Call, name: str, args: list[t.Expr]) -> tuple[list[t.Expr], Arith]:
    """Arguments as numbers of one type and shape, as an operator's operands."""
    given = enumerate(zip(args, node.args, strict=True))
    elems = [c.number(x, arg, f"argument {i} of {name}") for i, (x, arg) in given]
    # literals without a suffix take the type of the others, if that is a floating type
    firm = [e for x, e in zip(args, elems, strict=True) if not (isinstance(x, t.Const) and x.weak)]
    elem = functools.reduce(common, firm or [FLOAT])
    if len(firm) < len(args) and not elem.is_float:
        elem = FLOAT
    shape = c.joint_shape(node, f"arguments of {name}: ", *args)
    elem = promoted(elem)
    return [broadcast(to_elem(x, elem), shape) for x in args], elem


def _same_floats(c: ExprChecker, node: ast.Call, name: str, args: list[t.Expr]) -> tuple[list[t.Expr], Arith]:
    """As `same_numbers`; integers as floats."""
    args, elem = same_numbers(c, node, name, args)
    return (args, elem) if elem.is_float else ([to_elem(x, FLOAT) for x in args], FLOAT)


def _float_function(c: ExprChecker, node: ast.Call, name: str, args: list[t.Expr]) -> t.Expr:
    op = FLOAT_FUNCTIONS[name]
    args, elem = _same_floats(c, node, name, args)
    out = BOOL if op in ("isnan", "isinf") else elem
    return t.Function(node.at, with_shape(out, args[0].shape), op, tuple(args))


def _int_function(c: ExprChecker, node: ast.Call, name: str, args: list[t.Expr]) -> t.Expr:
    op = _INT_FUNCTIONS[name]
    args, elem = same_numbers(c, node, name, args)
    if elem.is_float:
        c.fail("arguments", f"{name}: expected integers, found {args[0].type}", node)
    if name == "umulhi":
        elem = UINT if elem.bits == 32 else elem
        args = [to_elem(x, elem) for x in args]
    return t.Function(node.at, with_shape(elem, args[0].shape), op, tuple(args))


def _abs(c: ExprChecker, node: ast.Call, name: str, args: list[t.Expr]) -> t.Expr:
    args, elem = same_numbers(c, node, name, args)
    if not elem.is_float and not elem.signed:
        return args[0]
    return t.Function(node.at, args[0].type, "abs", tuple(args))


def _extreme(c: ExprChecker, node: ast.Call, name: str, args: list[t.Expr]) -> t.Expr:
    if all(isinstance(x, t.Const) for x in args):
        a, b = (x for x in args if isinstance(x, t.Const))
        smaller = a.value < b.value
        chosen = a if smaller == (name == "min") else b
        return to_elem(chosen, c.common(a, b)) if not (a.weak and b.weak) else chosen
    args, elem = same_numbers(c, node, name, args)
    op = f"{name}num" if elem.is_float else name
    return t.Function(node.at, args[0].type, op, tuple(args))


def _clamp(c: ExprChecker, node: ast.Call, name: str, args: list[t.Expr]) -> t.Expr:
    """min(max(x, low), high); NaN stays."""
    (x, low, high), _ = same_numbers(c, node, name, args)
    return t.Function(node.at, x.type, "min", (t.Function(node.at, x.type, "max", (x, low)), high))


def _round(c: ExprChecker, node: ast.Call, name: str, args: list[t.Expr]) -> t.Expr:
    """To the nearest whole number, halves away from zero: trunc(x + the largest number below 1/2, with the sign of x).

    Halves as `float`, so that no sum is rounded later than here.
    """
    (x,), elem = _same_floats(c, node, name, args)
    wide = FLOAT if elem.bits < 32 else elem
    below_half = 0.5 - 2.0 ** (-54 if wide == DOUBLE else -25)

    def rounded(x: t.Expr) -> t.Expr:
        half = t.Function(node.at, x.type, "copysign", (fill(t.Const(node.at, wide, below_half), x.shape), x))
        return t.Function(node.at, x.type, "trunc", (t.Binary(node.at, x.type, "+", x, half),))

    return to_elem(bound(to_elem(x, wide), node.at, rounded), elem)


_BITS = {16: USHORT, 32: UINT, 64: ULONG}
_LEAST = {HALF: 2.0**-24, BF16: 2.0**-133, FLOAT: 2.0**-149, DOUBLE: 2.0**-1074}
"""The least positive numbers."""


def _nextafter(c: ExprChecker, node: ast.Call, name: str, args: list[t.Expr]) -> t.Expr:
    """The bits of floats of one sign are in the order of their sizes; b where a = b, NaN beside NaN."""
    (a, b), elem = _same_floats(c, node, name, args)
    shape, bits = a.shape, with_shape(_BITS[elem.bits], a.shape)

    def binary(op: str, left: t.Expr, right: t.Expr) -> t.Expr:
        of = with_shape(BOOL, shape) if op in ("<", "==", "!=") else left.type
        return t.Binary(node.at, of, op, left, right)

    def const(of: Arith, number: float) -> t.Expr:
        return fill(t.Const(node.at, of, number), shape)

    def select(condition: t.Expr, then: t.Expr, other: t.Expr) -> t.Expr:
        return t.Select(node.at, then.type, condition, then, other)

    def next_of(a: t.Expr, b: t.Expr) -> t.Expr:
        zero = const(elem, 0.0)
        grows = binary("==", binary("<", a, b), binary("<", zero, a))
        step = select(grows, const(_BITS[elem.bits], 1), const(_BITS[elem.bits], 2**elem.bits - 1))
        moved = t.Bitcast(node.at, a.type, binary("+", t.Bitcast(node.at, bits, a), step))
        least = t.Function(node.at, a.type, "copysign", (const(elem, _LEAST[elem]), b))
        out = select(binary("==", a, b), b, select(binary("==", a, zero), least, moved))
        number = binary("&", binary("==", a, a), binary("==", b, b))
        return select(number, out, binary("+", a, b))

    return bound(a, node.at, lambda a: bound(b, node.at, lambda b: next_of(a, b)))


def _cdiv(c: ExprChecker, node: ast.Call, name: str, args: list[t.Expr]) -> t.Expr:
    operands, elem = same_numbers(c, node, name, args)
    if elem.is_float:
        c.fail("arguments", f"{name}: expected integers, found {args[0].type} and {args[1].type}", node)
    a, b = operands

    def quotient(divisor: t.Expr) -> t.Expr:
        above = c.binary("-", c.binary("+", a, divisor, node), t.Const(node.at, INT, 1), node)
        return c.binary("/", above, divisor, node)

    return quotient(b) if isinstance(b, t.Const) else bound(b, node.at, quotient)


def _random(c: ExprChecker, node: ast.Call, name: str, args: list[t.Expr]) -> t.Expr:
    """`philox(seed, offset[, word[, subsequence]])`, `rand(seed, offset[, subsequence])`, `randn` as `rand`."""
    word = 0
    nodes = list(node.args)
    if name == "philox" and len(nodes) > 2:
        word = c.constant(nodes[2], "word of philox")
        if not 0 <= word <= 3:
            c.fail("arguments", f"word of philox: expected 0 to 3, found {word}", nodes[2])
        del nodes[2], args[2]
    values: list[t.Expr] = []
    for i, (x, arg) in enumerate(zip(args, nodes, strict=True)):
        elem = c.number(x, arg, f"argument {i} of {name}")
        if elem.is_float:
            c.fail("arguments", f"{name}: expected integers, found {x.type}", arg)
        values.append(to_elem(x, promoted(elem)))
    shape = c.joint_shape(node, f"arguments of {name}: ", *values)
    # scalar seeds stay so: one key for all elements
    seed, offset, *rest = (x if i == 0 and not x.shape else broadcast(x, shape) for i, x in enumerate(values))
    out = with_shape(UINT if name == "philox" else FLOAT, shape)
    return t.Random(node.at, out, name, word, seed, offset, rest[0] if rest else None)


NUMBER_FUNCTIONS: dict[str, tuple[Handler, int, int]] = {
    **{name: (_float_function, n, n) for name in FLOAT_FUNCTIONS for n in [_ARITY.get(name.removesuffix("f"), 1)]},
    **{name: (_int_function, n, n) for name, op in _INT_FUNCTIONS.items() for n in [2 if op == "mulhi" else 1]},
    **dict.fromkeys(("min", "max"), (_extreme, 2, 2)),
    **dict.fromkeys(("round", "roundf"), (_round, 1, 1)),
    **dict.fromkeys(("nextafter", "nextafterf"), (_nextafter, 2, 2)),
    "philox": (_random, 2, 4), **dict.fromkeys(("rand", "randn"), (_random, 2, 3)),
    "abs": (_abs, 1, 1), "clamp": (_clamp, 3, 3), "cdiv": (_cdiv, 2, 2),
}  # fmt: skip
"""What checks each function, and how many arguments it takes at least and at most."""
