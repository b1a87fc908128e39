"""Subscripts: `newaxis`, reductions, transpositions, parts of tiles and single elements."""

from __future__ import annotations

from graphfuse.frontends.tc import ast
from graphfuse.frontends.tc import typed as t
from graphfuse.frontends.tc.check_base import Checker
from graphfuse.frontends.tc.convert import broadcast, fill, reshape, to_elem
from graphfuse.frontends.tc.diagnostics import FixIt, Note
from graphfuse.frontends.tc.folds import Fold
from graphfuse.frontends.tc.scope import Scopes
from graphfuse.frontends.tc.tokens import Token
from graphfuse.frontends.tc.types import (
    BOOL,
    CHAR,
    FLOAT,
    INT,
    LONG,
    SHORT,
    Arith,
    Element,
    Pointer,
    Tile,
    promoted,
    with_dim,
    with_shape,
)

SUBSCRIPT_WORDS = (":", "newaxis", "+", "max", "min", "argmax", "argmin")
_REDUCTIONS = {"+": "sum", "*": "prod"}
_BITWISE = {"&": "and", "|": "or", "xor": "xor"}
_KEPT = (":", "slice")
_BITS = {t.bits: t for t in (CHAR, SHORT, INT, LONG)}


def check_subscript(c: Checker, x: t.Expr, node: ast.Subscript) -> t.Expr:
    """`x[items]`, an item for each axis and `newaxis` anywhere; `x` is the checked operand."""
    if not isinstance(x.type, Tile):
        notes = [Note("an element in memory is *(pointer + index)")] if isinstance(x.type, Pointer) else []
        c.fail("subscript", f"operand of '[]': expected a tile, found {x.type}", node, notes)
    for i, item in enumerate(node.items):
        if item.kind == "index":
            _check_name(c, i, item)
    if any(item.kind == "^" for item in node.items):
        return _permuted(c, x, node)
    consumed = sum(item.kind != "newaxis" for item in node.items)
    rank = len(x.type.shape)
    if consumed != rank:
        expected = f"':', a reduction or an index for each of {rank} axes of {x.type}"
        c.fail("subscript", f"subscript: expected {expected}, found {consumed}", node)
    return _taken(c, x, node)


def _check_name(c: Checker, i: int, item: ast.SubscriptItem) -> None:
    """A name that means nothing was to be a word of subscripts."""
    inner = item.axis
    if not isinstance(inner, ast.Name) or c.scopes.find(inner.text) is not None:
        return
    near = Scopes(c.report).near(inner.text, SUBSCRIPT_WORDS)
    if near:
        expected = f"subscript item {i}: expected ':', 'newaxis', a reduction or an index"
        fix = [FixIt(inner.span, near)]
        c.fail("subscript", f"{expected}, found {inner.text!r}; did you mean {near!r}?", item, (), fix)
    if inner.text.isupper():
        c.undefined(inner, " (a subscript item)")


def _permuted(c: Checker, x: t.Expr, node: ast.Subscript) -> t.Expr:
    rank = len(x.shape)
    axes: list[int] = []
    for item in node.items:
        if item.kind != "^" or item.axis is None or isinstance(item.axis, ast.Slice):
            c.fail("subscript", f"transposition: expected '^axis' for every axis, found {item.kind!r}", item)
        axis = c.constant(item.axis, "axis of '^'")
        if not 0 <= axis < rank:
            c.fail("subscript", f"axis of '^': expected 0 to {rank - 1}, found {axis}", item)
        axes.append(axis)
    if sorted(axes) != list(range(rank)):
        message = f"transposition: expected every axis of {x.type} once, found {axes}"
        c.fail("subscript", message, node)
    return c.transposed(x, tuple(axes), node.at)


def _taken(c: Checker, x: t.Expr, node: ast.Subscript) -> t.Expr:
    """Slices, then what takes axes away from the last to the first, then new ones."""
    given = [(axis, item) for axis, item in enumerate(i for i in node.items if i.kind != "newaxis")]
    gone = [(axis, item) for axis, item in given if item.kind not in _KEPT]
    reductions = [item for _, item in gone if item.kind != "index"]
    if len(reductions) > 1 and any(item.kind.startswith("arg") for item in reductions):
        c.fail("subscript", "argmax and argmin: expected no other reduction beside them", node)
    for axis, item in given:
        if isinstance(item.axis, ast.Slice):
            x = _slice(c, x, axis, item, item.axis)
    original = x.elem
    for axis, item in reversed(gone):
        x = _away(c, x, axis, item)
    if reductions and not reductions[0].kind.startswith("arg") and isinstance(original, Arith):
        x = to_elem(x, original) if original.is_float else x
    kept = iter(x.shape)
    shape = [next(kept) if i.kind in _KEPT else 1 for i in node.items if i.kind in (*_KEPT, "newaxis")]
    return reshape(x, tuple(shape)) if x.shape or shape == [] else fill(x, tuple(shape))


def _away(c: Checker, x: t.Expr, axis: int, item: ast.SubscriptItem) -> t.Expr:
    """An axis less."""
    if item.kind != "index":
        return _reduce(c, x, axis, item)
    assert item.axis is not None
    assert not isinstance(item.axis, ast.Slice)
    function = c.function_named(item.axis)
    if function is None:
        return _element(c, x, axis, item, item.axis)
    c.number(x, item, f"operand of reduction {function.name!r}")
    return Fold(c, function, f"reduction by {function.name!r}", item.axis).reduced(x, axis)


# parts


def _slice(c: Checker, x: t.Expr, axis: int, item: ast.SubscriptItem, ends: ast.Slice) -> t.Expr:
    n = x.shape[axis]
    start = 0 if ends.start is None else c.constant(ends.start, "start of a slice")
    end = n if ends.end is None else c.constant(ends.end, "end of a slice")
    if not 0 <= start < end <= n:
        c.fail("subscript", f"slice: expected a start below an end in 0 to {n}, found {start}:{end}", item)
    return _part(x, axis, start, end - start, item.at)


def _part(x: t.Expr, axis: int, start: int, count: int, at: Token) -> t.Expr:
    tile = x.type
    assert isinstance(tile, Tile)
    out = Tile(with_dim(x.shape, axis, count), tile.elem)
    return x if out == tile else t.Take(at, out, x, axis, start)


def _element(c: Checker, x: t.Expr, axis: int, item: ast.SubscriptItem, at: ast.Expr) -> t.Expr:
    """The element at an index; 0 where there is none."""
    index = c.value(at)
    elem = index.elem
    if not isinstance(elem, Arith) or elem.is_float or elem == BOOL:
        c.fail("subscript", f"index: expected an integer, found {index.type}", item)
    if index.shape:
        hint = "gather(x, index, axis) takes a tile of them"
        c.fail("subscript", f"index: expected a scalar, found {index.type}: {hint}", item)
    n = x.shape[axis]
    shape = x.shape[:axis] + x.shape[axis + 1 :]
    if isinstance(index, t.Const):
        if not 0 <= index.value < n:
            c.fail("subscript", f"index: expected 0 to {n - 1}, found {index.value}", item)
        return reshape(_part(x, axis, int(index.value), 1, item.at), shape)
    return _chosen(c, x, axis, index, item)


def _chosen(c: Checker, x: t.Expr, axis: int, index: t.Expr, item: ast.SubscriptItem) -> t.Expr:
    """The bits of what is at a place, and 0 elsewhere, combined."""
    elem, at = c.number(x, item, "operand of '[]'"), item.at
    shape = x.shape
    bits = elem if elem.kind != "float" else _BITS[elem.bits]
    held = x if bits == elem else t.Bitcast(at, with_shape(bits, shape), x)
    only = tuple(n if d == axis else 1 for d, n in enumerate(shape))
    place = LONG if c.number(index, item, "index").bits == LONG.bits else INT
    along = reshape(t.Range(at, Tile((shape[axis],), place), 0, shape[axis]), only)
    here = t.Binary(at, Tile(only, BOOL), "==", along, broadcast(to_elem(index, place), only))
    none = fill(t.Const(at, bits, 0), shape)
    kept = t.Select(at, held.type, broadcast(here, shape), held, none)
    out = _combined(kept, axis, "any" if bits == BOOL else "or", bits, at)
    return out if bits == elem else t.Bitcast(at, with_shape(elem, out.shape), out)


# reductions


def _reduce(c: Checker, x: t.Expr, axis: int, item: ast.SubscriptItem) -> t.Expr:
    elem = c.number(x, item, f"operand of reduction {item.at.text!r}")
    if item.kind == "-":
        c.fail("subscript", "reduction by '-' depends on the order: expected '+', 'max' or 'min'", item)
    if item.kind in _BITWISE:
        return _bits(c, x, axis, item, elem)
    kind = _REDUCTIONS.get(item.kind, item.kind)
    if kind in ("sum", "prod"):
        # halves are summed in float, integers as operands of + are
        elem = FLOAT if elem.is_float and elem.bits < 32 else promoted(elem)
        x = to_elem(x, elem)
    elif elem == BOOL:
        if kind.startswith("arg"):
            x, elem = to_elem(x, INT), INT
        else:
            kind = {"max": "any", "min": "all"}[kind]
    elif elem.is_float:
        if elem.bits == 8:
            x, elem = to_elem(x, FLOAT), FLOAT
        kind = {"max": "maxnum", "min": "minnum"}.get(kind, kind)
    return _combined(x, axis, kind, INT if kind.startswith("arg") else elem, item.at)


def _bits(c: Checker, x: t.Expr, axis: int, item: ast.SubscriptItem, elem: Arith) -> t.Expr:
    kind = _BITWISE[item.kind]
    if elem.is_float:
        c.fail("operands", f"operand of reduction {item.at.text!r}: expected integers, found {x.type}", item)
    if elem != BOOL:
        elem = promoted(elem)
        return _combined(to_elem(x, elem), axis, kind, elem, item.at)
    if kind == "xor":
        return to_elem(_combined(to_elem(x, INT), axis, kind, INT, item.at), BOOL)
    return _combined(x, axis, {"or": "any", "and": "all"}[kind], BOOL, item.at)


def _combined(x: t.Expr, axis: int, kind: str, elem: Element, at: Token) -> t.Expr:
    """A reduction of checked elements."""
    return t.Reduce(at, with_shape(elem, x.shape[:axis] + x.shape[axis + 1 :]), x, axis, kind)
