"""Built-in functions of numbers, element by element."""

from __future__ import annotations

import functools
from collections.abc import Callable

from graphfuse.frontends.tc import ast
from graphfuse.frontends.tc import typed as t
from graphfuse.frontends.tc.check_base import bound
from graphfuse.frontends.tc.check_expr import ExprChecker
from graphfuse.frontends.tc.convert import broadcast, to_elem
from graphfuse.frontends.tc.types import BOOL, FLOAT, INT, UINT, Arith, common, promoted, with_shape

Handler = Callable[[ExprChecker, ast.Call, str, list[t.Expr]], t.Expr]

# names of C's maths library to functions of the block dialect; each also exists with C's suffix f
_FLOAT_FUNCTIONS = {
    name: name
    for name in (
        "exp", "exp2", "expm1", "log", "log2", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "asin", "acos", "atan",
        "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "floor", "ceil", "trunc", "sigmoid", "atan2", "pow",
        "isnan", "isinf", "fma",
    )
} | {"rint": "round", "nearbyint": "round", "fabs": "abs", "fmin": "minnum", "fmax": "maxnum"}  # fmt: skip
_ARITY = {"atan2": 2, "pow": 2, "fmin": 2, "fmax": 2, "fma": 3}
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


def _float_function(c: ExprChecker, node: ast.Call, name: str, args: list[t.Expr]) -> t.Expr:
    op = FLOAT_FUNCTIONS[name]
    args, elem = same_numbers(c, node, name, args)
    if not elem.is_float:
        args = [to_elem(x, FLOAT) for x in args]
        elem = FLOAT
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


def _cdiv(c: ExprChecker, node: ast.Call, name: str, args: list[t.Expr]) -> t.Expr:
    operands, elem = same_numbers(c, node, name, args)
    if elem.is_float:
        c.fail("arguments", f"{name}: expected integers, found {args[0].type} and {args[1].type}", node)
    a, b = operands

    def quotient(divisor: t.Expr) -> t.Expr:
        above = c.binary("-", c.binary("+", a, divisor, node), t.Const(node.at, INT, 1), node)
        return c.binary("/", above, divisor, node)

    return quotient(b) if isinstance(b, t.Const) else bound(b, node.at, quotient)


NUMBER_FUNCTIONS: dict[str, tuple[Handler, int, int]] = {
    **{name: (_float_function, n, n) for name in FLOAT_FUNCTIONS for n in [_ARITY.get(name.removesuffix("f"), 1)]},
    **{name: (_int_function, n, n) for name, op in _INT_FUNCTIONS.items() for n in [2 if op == "mulhi" else 1]},
    **dict.fromkeys(("min", "max"), (_extreme, 2, 2)),
    "abs": (_abs, 1, 1), "cdiv": (_cdiv, 2, 2),
}  # fmt: skip
"""What checks each function, and how many arguments it takes at least and at most."""
