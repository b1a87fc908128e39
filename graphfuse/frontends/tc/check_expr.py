"""Types of expressions: the tree as written to the typed tree, with conversions, broadcasts and masks written out."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NoReturn

from graphfuse.frontends.tc import ast
from graphfuse.frontends.tc import typed as t
from graphfuse.frontends.tc.check_memory import MemoryChecker
from graphfuse.frontends.tc.convert import bitcast_const, cast, fill, reshape, to_elem
from graphfuse.frontends.tc.diagnostics import FixIt, Note
from graphfuse.frontends.tc.scope import Scopes
from graphfuse.frontends.tc.types import (
    BOOL,
    FLOAT,
    INT,
    VOID,
    Arith,
    Pointer,
    Tile,
    Type,
    Void,
    elem_of,
    promoted,
    with_shape,
)

SUBSCRIPT_WORDS = (":", "newaxis", "+", "max", "min", "argmax", "argmin")


class ExprChecker(MemoryChecker):
    """Checks any expression: casts and subscripts besides."""

    def _unary(self, node: ast.Unary) -> t.Expr:
        match node.op:
            case "*":
                return self._load(node, node.operand, None)
            case "++" | "--":
                return self._step(node, node.operand, node.op[0], post=False)
            case "&":
                return self._address(node)
            case "^":
                return self._transpose(node)
            case "!":
                return self.negated(self.boolean(self.value(node.operand), node), node.at)
            case _:
                return self._sign(node)

    # conversions

    def _cast(self, node: ast.Cast) -> t.Expr:
        to = self.type_of(node.to)
        x = self.expr(node.operand)
        if to == VOID and not node.bitcast:
            return t.Sequence(node.at, VOID, x, t.Const(node.at, VOID, 0))
        if isinstance(x.type, Void) or to == VOID:
            self.fail("void", f"cast: expected a value, found {x.type} as {to}", node)
        if not node.bitcast:
            with self.conversions("cast", node, f"cast of {x.type} to {to}: "):
                return cast(x, to)
        return self._bitcast(node, x, to)

    def _bitcast(self, node: ast.Cast, x: t.Expr, to: Type) -> t.Expr:
        old, new = x.elem, elem_of(to)
        if not isinstance(old, Arith) or not isinstance(new, Arith):
            self.fail("cast", f"bitcast: expected numbers, found {x.type} as {to}", node)
        if old.bits != new.bits:
            message = f"bitcast: expected types of one width, found {old} of {old.bits} bits and {new} of {new.bits}"
            self.fail("cast", message, node)
        if isinstance(x, t.Const) and (folded := bitcast_const(x, new)) is not None:
            x = folded
        else:
            x = t.Bitcast(node.at, with_shape(new, x.shape), x)
        with self.conversions("cast", node, f"bitcast to {to}: "):
            return cast(x, to)

    # subscripts

    def _subscript(self, node: ast.Subscript) -> t.Expr:
        if isinstance(node.operand, ast.Name) and node.operand.text == "atomic_add":
            self.undefined(node.operand)
        x = self.value(node.operand)
        if not isinstance(x.type, Tile):
            notes = [Note("an element in memory is *(pointer + index)")] if isinstance(x.type, Pointer) else []
            self.fail("subscript", f"operand of '[]': expected a tile, found {x.type}", node, notes)
        for i, item in enumerate(node.items):
            if item.kind == "index":
                self._index_item(i, item)
        if any(item.kind == "^" for item in node.items):
            return self._permuted(x, node)
        consumed = sum(item.kind != "newaxis" for item in node.items)
        rank = len(x.type.shape)
        if consumed != rank:
            message = f"subscript: expected ':' or a reduction for each of {rank} axes of {x.type}, found {consumed}"
            self.fail("subscript", message, node)
        return self._reduced(x, node)

    def _index_item(self, i: int, item: ast.SubscriptItem) -> NoReturn:
        expected = f"subscript item {i}: expected ':', 'newaxis' or a reduction"
        inner = item.axis
        if isinstance(inner, ast.Name) and self.scopes.find(inner.text) is None:
            near = Scopes(self.report).near(inner.text, SUBSCRIPT_WORDS)
            if near:
                fix = [FixIt(inner.span, near)]
                self.fail("subscript", f"{expected}, found {inner.text!r}; did you mean {near!r}?", item, None, fix)
            if inner.text.isupper():
                self.undefined(inner, " (a subscript item)")
        self.fail("subscript", f"{expected}, found an index: parts of tiles cannot be taken", item)

    def _permuted(self, x: t.Expr, node: ast.Subscript) -> t.Expr:
        rank = len(x.shape)
        axes: list[int] = []
        for item in node.items:
            if item.kind != "^" or item.axis is None:
                self.fail("subscript", f"transposition: expected '^axis' for every axis, found {item.kind!r}", item)
            axis = self.constant(item.axis, "axis of '^'")
            if not 0 <= axis < rank:
                self.fail("subscript", f"axis of '^': expected 0 to {rank - 1}, found {axis}", item)
            axes.append(axis)
        if sorted(axes) != list(range(rank)):
            message = f"transposition: expected every axis of {x.type} once, found {axes}"
            self.fail("subscript", message, node)
        return self.transposed(x, tuple(axes), node.at)

    def _reduced(self, x: t.Expr, node: ast.Subscript) -> t.Expr:
        reductions = [(axis, item) for axis, item in enumerate(i for i in node.items if i.kind != "newaxis")
                      if item.kind != ":"]  # fmt: skip
        if len(reductions) > 1 and any(item.kind.startswith("arg") for _, item in reductions):
            self.fail("subscript", "argmax and argmin: expected no other reduction beside them", node)
        original = x.elem
        for axis, item in reversed(reductions):
            x = self._reduce(x, axis, item)
        if reductions and not reductions[0][1].kind.startswith("arg") and isinstance(original, Arith):
            x = to_elem(x, original) if original.is_float else x
        shape: list[int] = []
        kept = iter(x.shape)
        shape += [next(kept) if i.kind == ":" else 1 for i in node.items if i.kind in (":", "newaxis")]
        return reshape(x, tuple(shape)) if x.shape or shape == [] else fill(x, tuple(shape))

    def _reduce(self, x: t.Expr, axis: int, item: ast.SubscriptItem) -> t.Expr:
        elem = self.number(x, item, f"operand of reduction {item.kind!r}")
        if item.kind == "-":
            self.fail("subscript", "reduction by '-' depends on the order: expected '+', 'max' or 'min'", item)
        kind = {"+": "sum"}.get(item.kind, item.kind)
        if kind == "sum":
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
        shape = x.shape
        out = INT if kind.startswith("arg") else elem
        return t.Reduce(item.at, with_shape(out, shape[:axis] + shape[axis + 1 :]), x, axis, kind)

    # calls

    @abstractmethod
    def call(self, node: ast.Call) -> t.Expr:
        """Check a call."""

    _CHECKS: ClassVar[dict[type, Callable[[Any, Any], t.Expr]]] = {
        ast.Name: MemoryChecker._name, ast.Int: MemoryChecker._int, ast.Float: MemoryChecker._float,
        ast.String: MemoryChecker._string, ast.Unary: _unary, ast.Postfix: MemoryChecker._postfix,
        ast.MaskedDeref: MemoryChecker._masked, ast.Binary: MemoryChecker._binary, ast.Ternary: MemoryChecker._ternary,
        ast.Assign: MemoryChecker._assign, ast.Call: lambda self, node: self.call(node),
        ast.Subscript: _subscript, ast.Cast: _cast, ast.SizeOf: MemoryChecker._sizeof,
        ast.Generic: MemoryChecker._generic, ast.InitList: MemoryChecker._init_list,
    }  # fmt: skip
