"""Built-in functions of whole tiles: they scan, move, order and count elements along an axis."""

from __future__ import annotations

from collections.abc import Callable

from graphfuse.frontends.tc import ast
from graphfuse.frontends.tc import typed as t
from graphfuse.frontends.tc.check_expr import ExprChecker
from graphfuse.frontends.tc.convert import to_elem
from graphfuse.frontends.tc.types import BOOL, FLOAT, promoted, with_shape

_SCANS = {"cumsum": "sum", "cumprod": "prod", "cummax": "max", "cummin": "min"}


def _with_word(c: ExprChecker, node: ast.Call, word: str) -> tuple[list[ast.Expr], bool]:
    """The arguments of a call without the word that may end them, and whether it does; a declared name is a value."""
    nodes = list(node.args)
    last = nodes[-1] if len(nodes) > 1 else None
    is_there = isinstance(last, ast.Name) and last.text == word and c.scopes.find(word) is None
    return (nodes[:-1] if is_there else nodes), is_there


def _tile(c: ExprChecker, node: ast.Expr, what: str) -> t.Expr:
    """A value that must be a tile of numbers; `what` names it."""
    x = c.value(node)
    c.number(x, node, what)
    if not x.shape:
        c.fail("arguments", f"{what}: expected a tile, found {x.type}", node)
    return x


def _axis(c: ExprChecker, node: ast.Expr | None, name: str, x: t.Expr, at: ast.Call) -> int:
    """The axis that a call names; of one that names none the only one."""
    rank = len(x.shape)
    if node is None:
        if rank > 1:
            c.fail("arguments", f"{name}: expected an axis for a tile of rank {rank}", at)
        return 0
    axis = c.constant(node, f"axis of {name}")
    if not 0 <= axis < rank:
        c.fail("arguments", f"axis of {name}: expected 0 to {rank - 1}, found {axis}", node)
    return axis


def _scan(c: ExprChecker, node: ast.Call, name: str) -> t.Expr:
    """`cumsum(x[, axis][, reverse])` and its kin."""
    nodes, reverse = _with_word(c, node, "reverse")
    c.arity(node, name, 1 + reverse, 2 + reverse)
    x = c.value(nodes[0])
    elem = c.number(x, nodes[0], f"argument 0 of {name}")
    if not x.shape:
        c.fail("arguments", f"{name}: expected a tile, found {x.type}", node)
    axis = _axis(c, nodes[1] if len(nodes) == 2 else None, name, x, node)
    # as reductions: halves are summed in float, integers as operands of + are
    inner = FLOAT if elem.is_float and elem.bits < 32 else elem
    if name in ("cumsum", "cumprod") or elem == BOOL:
        inner = promoted(inner)
    out = t.Scan(node.at, with_shape(inner, x.shape), to_elem(x, inner), axis, _SCANS[name], reverse)
    return to_elem(out, elem) if elem.is_float else out


TILE_FUNCTIONS: dict[str, Callable[[ExprChecker, ast.Call, str], t.Expr]] = {
    **dict.fromkeys(_SCANS, _scan),
}  # fmt: skip
"""What checks a call of each function by its name: arguments may be words, functions and constants."""
