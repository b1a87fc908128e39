"""Built-in functions of whole tiles: they scan, move, order and count elements along an axis."""

from __future__ import annotations

from collections.abc import Callable

from graphfuse.frontends.tc import ast
from graphfuse.frontends.tc import typed as t
from graphfuse.frontends.tc.check_base import bound
from graphfuse.frontends.tc.check_expr import ExprChecker
from graphfuse.frontends.tc.convert import broadcast, reshape, to_elem, to_shape
from graphfuse.frontends.tc.folds import Fold
from graphfuse.frontends.tc.types import BOOL, FLOAT, INT, MAX_ELEMENTS, Tile, promoted, with_dim, with_shape

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


def _flip(c: ExprChecker, node: ast.Call, name: str) -> t.Expr:
    c.arity(node, name, 1, 2)
    x = _tile(c, node.args[0], f"argument 0 of {name}")
    axis = _axis(c, node.args[1] if len(node.args) == 2 else None, name, x, node)
    return t.Take(node.at, x.type, x, axis, x.shape[axis] - 1, -1)


def _cat(c: ExprChecker, node: ast.Call, name: str) -> t.Expr:
    c.arity(node, name, 2, 3)
    a, b = _alike(c, node, name)
    axis = _axis(c, node.args[2] if len(node.args) == 3 else None, name, a, node)
    if len(a.shape) != len(b.shape) or with_dim(a.shape, axis, 1) != with_dim(b.shape, axis, 1):
        c.fail(
            "arguments", f"{name}: expected tiles of one shape but for axis {axis}, found {a.type} and {b.type}", node
        )
    return _catenated(a, b, axis, node)


def _join(c: ExprChecker, node: ast.Call, name: str) -> t.Expr:
    """`join` along a new last axis of two, `interleave` along the last one."""
    c.arity(node, name, 2)
    a, b = _alike(c, node, name)
    shape = c.joint_shape(node, f"arguments of {name}: ", a, b)
    pairs = [reshape(broadcast(x, shape), (*shape, 1)) for x in (a, b)]
    out = _catenated(pairs[0], pairs[1], len(shape), node)
    if name == "join":
        return out
    with c.conversions("arguments", node, f"{name}: "):
        return to_shape(out, (*shape[:-1], 2 * shape[-1]))


def _alike(c: ExprChecker, node: ast.Call, name: str) -> list[t.Expr]:
    """The first two arguments as tiles of one type of numbers."""
    a, b = (_tile(c, arg, f"argument {i} of {name}") for i, arg in enumerate(node.args[:2]))
    elem = a.elem if a.elem == b.elem else c.common(a, b)
    return [to_elem(a, elem), to_elem(b, elem)]


def _catenated(a: t.Expr, b: t.Expr, axis: int, node: ast.Call) -> t.Expr:
    assert isinstance(a.type, Tile)
    return t.Cat(node.at, Tile(with_dim(a.shape, axis, a.shape[axis] + b.shape[axis]), a.type.elem), a, b, axis)


def _gather(c: ExprChecker, node: ast.Call, name: str) -> t.Expr:
    c.arity(node, name, 2, 3)
    x, index = (_tile(c, arg, f"argument {i} of {name}") for i, arg in enumerate(node.args[:2]))
    axis = _axis(c, node.args[2] if len(node.args) == 3 else None, name, x, node)
    elem = c.number(index, node.args[1], f"argument 1 of {name}")
    if elem.is_float or elem == BOOL:
        c.fail("arguments", f"argument 1 of {name}: expected integers, found {index.type}", node.args[1])
    if len(x.shape) != len(index.shape) or with_dim(x.shape, axis, 1) != with_dim(index.shape, axis, 1):
        message = f"{name}: expected tiles of one shape but for axis {axis}, found {x.type} and {index.type}"
        c.fail("arguments", message, node)
    assert isinstance(x.type, Tile)
    return t.Gather(node.at, Tile(with_dim(x.shape, axis, index.shape[axis]), x.type.elem), x, index, axis)


def _sort(c: ExprChecker, node: ast.Call, name: str) -> t.Expr:
    """`sort(x[, axis][, descending])`; `argsort` gives places."""
    nodes, descending = _with_word(c, node, "descending")
    c.arity(node, name, 1 + descending, 2 + descending)
    x = _tile(c, nodes[0], f"argument 0 of {name}")
    axis = _axis(c, nodes[1] if len(nodes) == 2 else None, name, x, node)
    return _ordered(x, axis, x.shape[axis], node, descending=descending, places=name == "argsort")


def _topk(c: ExprChecker, node: ast.Call, name: str) -> t.Expr:
    """`topk(x, k[, axis])`: the largest, in falling order; `argtopk` gives places."""
    c.arity(node, name, 2, 3)
    x = _tile(c, node.args[0], f"argument 0 of {name}")
    axis = _axis(c, node.args[2] if len(node.args) == 3 else None, name, x, node)
    count = c.constant(node.args[1], f"argument 1 of {name}")
    if not 0 < count <= x.shape[axis]:
        c.fail("arguments", f"argument 1 of {name}: expected 1 to {x.shape[axis]}, found {count}", node.args[1])
    return _ordered(x, axis, count, node, descending=True, places=name == "argtopk")


def _ordered(x: t.Expr, axis: int, count: int, node: ast.Call, *, descending: bool, places: bool) -> t.Expr:
    assert isinstance(x.type, Tile)
    out = Tile(with_dim(x.shape, axis, count), INT if places else x.type.elem)
    return t.Sort(node.at, out, x, axis, descending, places)


def _histogram(c: ExprChecker, node: ast.Call, name: str) -> t.Expr:
    c.arity(node, name, 2)
    x = _tile(c, node.args[0], f"argument 0 of {name}")
    elem = c.number(x, node.args[0], f"argument 0 of {name}")
    if elem.is_float:
        c.fail("arguments", f"argument 0 of {name}: expected integers, found {x.type}", node.args[0])
    bins = c.constant(node.args[1], f"argument 1 of {name}")
    if not 0 < bins <= MAX_ELEMENTS:
        c.fail("arguments", f"argument 1 of {name}: expected 1 to {MAX_ELEMENTS} bins, found {bins}", node.args[1])
    return t.Histogram(node.at, Tile((bins,), INT), to_elem(x, INT) if elem == BOOL else x)


def _softmax(c: ExprChecker, node: ast.Call, name: str) -> t.Expr:
    """`softmax(x[, axis])`: exp(x - m) / sum(exp(x - m)), m the largest along the axis; halves in `float`."""
    c.arity(node, name, 1, 2)
    x = _tile(c, node.args[0], f"argument 0 of {name}")
    axis = _axis(c, node.args[1] if len(node.args) == 2 else None, name, x, node)
    elem = c.number(x, node.args[0], f"argument 0 of {name}")
    inner = elem if elem.is_float and elem.bits >= 32 else FLOAT
    tile = with_shape(inner, x.shape)
    rest = (*x.shape[:axis], *x.shape[axis + 1 :])

    def along(x: t.Expr, kind: str) -> t.Expr:
        reduced = t.Reduce(node.at, with_shape(inner, rest), x, axis, kind)
        return broadcast(reshape(reduced, (*rest[:axis], 1, *rest[axis:])) if rest else reduced, x.shape)

    def exponentials(x: t.Expr) -> t.Expr:
        return t.Function(node.at, tile, "exp", (t.Binary(node.at, tile, "-", x, along(x, "maxnum")),))

    out = bound(
        bound(to_elem(x, inner), node.at, exponentials),
        node.at,
        lambda e: t.Binary(node.at, tile, "/", e, along(e, "sum")),
    )
    return to_elem(out, elem) if elem.is_float else out


def _fold(c: ExprChecker, node: ast.Call, name: str) -> t.Expr:
    """`reduce(x, axis, f)`, `scan(x, axis, f[, reverse])`."""
    nodes, reverse = _with_word(c, node, "reverse") if name == "scan" else (list(node.args), False)
    c.arity(node, name, 3 + reverse)
    x = _tile(c, nodes[0], f"argument 0 of {name}")
    axis = _axis(c, nodes[1], name, x, node)
    function = c.function_named(nodes[2])
    if function is None:
        c.fail("arguments", f"argument 2 of {name}: expected the name of a function of the source", nodes[2])
    fold = Fold(c, function, name, node)
    return fold.reduced(x, axis) if name == "reduce" else fold.scanned(x, axis, reverse=reverse)


TILE_FUNCTIONS: dict[str, Callable[[ExprChecker, ast.Call, str], t.Expr]] = {
    **dict.fromkeys(_SCANS, _scan), "softmax": _softmax,
    **dict.fromkeys(("join", "interleave"), _join),
    **dict.fromkeys(("sort", "argsort"), _sort),
    **dict.fromkeys(("topk", "argtopk"), _topk),
    **dict.fromkeys(("reduce", "scan"), _fold),
    "flip": _flip, "cat": _cat, "gather": _gather, "histogram": _histogram,
}  # fmt: skip
"""What checks a call of each function by its name: arguments may be words, functions and constants."""
