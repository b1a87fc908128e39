"""Built-in functions of memory: loads and stores with hints, atomics with orders and scopes, which are words."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from graphfuse.dialects.block import LOAD_CACHES, STORE_CACHES
from graphfuse.dialects.effects import ORDERS, SCOPES
from graphfuse.frontends.tc import ast
from graphfuse.frontends.tc import typed as t
from graphfuse.frontends.tc.check_expr import ExprChecker
from graphfuse.frontends.tc.convert import broadcast, to_elem
from graphfuse.frontends.tc.types import BOOL, Arith, Pointer, Void, with_shape

_CHANGES = ("add", "sub", "and", "or", "xor", "min", "max", "cas")
_ATOMICS = {f"atomic_{kind}": kind for kind in _CHANGES} | {"atomic_xchg": "exchange", "f32_atomic_add": "add"}
_OLD_ATOMIC = re.compile(r"atomic_add_(float|half|double|int)_\d+x\d+\Z")


def plain_name(name: str) -> str:
    """The name of a function that an old spelling stands for."""
    return "atomic_add" if _OLD_ATOMIC.match(name) else name


def _words(c: ExprChecker, node: ast.Call, *known: Sequence[str]) -> tuple[list[ast.Expr], list[str]]:
    """The arguments of a call without the words that end them, and those: one at most of each kind.

    Names that the source declares are values.
    """
    nodes, found = list(node.args), [""] * len(known)
    while nodes and isinstance(last := nodes[-1], ast.Name) and c.scopes.find(last.text) is None:
        kind = next((i for i, words in enumerate(known) if last.text in words), None)
        if kind is None:
            break
        if found[kind]:
            c.fail("arguments", f"expected one of {', '.join(known[kind])}, found two", last)
        found[kind] = last.text
        nodes.pop()
    return nodes, found


def _counted(c: ExprChecker, node: ast.Call, name: str, nodes: Sequence[ast.Expr], least: int) -> None:
    """Check the number of arguments but for words: a mask is one more."""
    if not least <= len(nodes) <= least + 1:
        c.fail("arguments", f"{name}: expected {least} to {least + 1} arguments, found {len(nodes)}", node)


def _load(c: ExprChecker, node: ast.Call, name: str) -> t.Expr:
    """`load(pointers[, mask][, cache])`."""
    nodes, (cache,) = _words(c, node, LOAD_CACHES)
    _counted(c, node, name, nodes, 1)
    pointer = c.pointer(nodes[0], name, nodes[0])
    return c.load(pointer, c.explicit_mask(nodes[1] if nodes[1:] else None, pointer, name), node, cache)


def _store(c: ExprChecker, node: ast.Call, name: str) -> t.Expr:
    """`store(pointers, values[, mask][, cache])`."""
    nodes, (cache,) = _words(c, node, STORE_CACHES)
    _counted(c, node, name, nodes, 2)
    pointer = c.pointer(nodes[0], name, nodes[0])
    c.writable(pointer, nodes[0])
    mask = c.explicit_mask(nodes[2] if nodes[2:] else None, pointer, name)
    return c.store(pointer, mask, c.value(nodes[1]), node, cache)


def _atomic(c: ExprChecker, node: ast.Call, name: str) -> t.Expr:
    """`atomic_add(pointers, values[, mask][, order][, scope])` and its kin; `cas` takes two values."""
    kind = _ATOMICS[plain_name(name)]
    split = 2 if kind == "cas" else 1
    nodes, (order, scope) = _words(c, node, ORDERS, SCOPES)
    _counted(c, node, name, nodes, 1 + split)
    pointer, *rest = (c.value(n) for n in nodes)
    values, masks = rest[:split], rest[split:]
    elem = pointer.elem
    if not isinstance(elem, Pointer) or isinstance(elem.to, Void):
        c.fail("arguments", f"argument 0 of {name}: expected a pointer, found {pointer.type}", nodes[0])
    c.writable(pointer, nodes[0])
    assert isinstance(elem.to, Arith), "what is written is a number"
    if elem.to.bits < 16:
        c.fail("arguments", f"{name}: expected elements of 16, 32 or 64 bits, found {elem.to}", nodes[0])
    if kind in ("and", "or", "xor") and elem.to.is_float:
        c.fail("arguments", f"{name}: expected a pointer to integers, found {pointer.type}", nodes[0])
    shape = c.joint_shape(node, f"arguments of {name}: ", pointer, *values, *masks)
    with c.conversions("broadcast", node, f"arguments of {name}: "):
        pointer = broadcast(pointer, shape)
        values = [broadcast(to_elem(x, elem.to), shape) for x in values]
    mask = None
    if masks:
        if masks[0].elem != BOOL and not isinstance(masks[0], t.Const):
            c.fail("mask", f"mask of {name}: expected bool, found {masks[0].type}", nodes[-1])
        mask = broadcast(to_elem(masks[0], BOOL), shape)
    # a scalar one may be a lock: it orders what is around it
    order = order or ("relaxed" if shape else "acq_rel")
    if shape and order != "relaxed":
        c.fail("arguments", f"{name}: expected relaxed for a tile, whose elements are in no order, found {order}", node)
    mask = c.mask(pointer, mask, node)
    return t.Atomic(node.at, with_shape(elem.to, shape), kind, pointer, mask, tuple(values), order, scope or "gpu")


MEMORY_FUNCTIONS: dict[str, Callable[[ExprChecker, ast.Call, str], t.Expr]] = {
    "load": _load, "store": _store, **dict.fromkeys(_ATOMICS, _atomic),
}  # fmt: skip
"""What checks a call of each function by its name: the last arguments may be words."""
