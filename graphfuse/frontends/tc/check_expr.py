"""Types of expressions: choices, and the loads, stores and assignments that they mask; casts and subscripts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NoReturn

from graphfuse.frontends.tc import ast
from graphfuse.frontends.tc import typed as t
from graphfuse.frontends.tc.check_base import Checker, bound, read_of
from graphfuse.frontends.tc.check_subscripts import check_subscript
from graphfuse.frontends.tc.convert import bitcast_const, broadcast, cast, converted, to_elem
from graphfuse.frontends.tc.diagnostics import Located, Note
from graphfuse.frontends.tc.types import (
    BOOL,
    INT,
    VOID,
    Arith,
    Pointer,
    Type,
    Void,
    broadcast_shapes,
    broadcasts_to,
    elem_of,
    with_shape,
)


class ExprChecker(Checker):
    """Checks any expression: conditional ones, casts, subscripts, and all that reads or writes memory or variables."""

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
        to = self.type_of(node.to.specifiers, node.to)
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

    # choices

    def _ternary(self, node: ast.Ternary) -> t.Expr:
        value = self.value(node.condition)
        condition = self.boolean(value, node.condition)
        if isinstance(condition, t.Const):
            chosen = (node.then or node.condition) if condition.value else node.other
            return self.value(chosen)
        temp = t.Variable("", condition.type, node.at, initialised=True)
        bound = None
        if node.then is None:
            bound = t.Variable("", value.type, node.at, initialised=True)
            then: t.Expr = read_of(bound, node.at)
            condition = self.boolean(read_of(bound, node.at), node.condition)
        else:
            with self.guarded(temp, holds=True):
                then = self.value(node.then)
        with self.guarded(temp, holds=False):
            other = self.value(node.other)
        then, other = self.arms(then, other, node, "?:")
        shape = self.joint_shape(node, "condition of '?:': ", condition, then)
        then, other = broadcast(then, shape), broadcast(other, shape)
        select = t.Select(node.at, then.type, broadcast(read_of(temp, node.at), shape), then, other)
        out = t.Let(node.at, select.type, temp, condition, select)
        return out if bound is None else t.Let(node.at, select.type, bound, value, out)

    def arms(self, then: t.Expr, other: t.Expr, node: ast.Expr, op: str) -> tuple[t.Expr, t.Expr]:
        """Both arms of a choice as one type."""
        a, b = then.elem, other.elem
        what = f"arms of {op!r} of types {then.type} and {other.type}: "
        with self.conversions("broadcast", node, what):
            shape = broadcast_shapes(then.shape, other.shape)
            if isinstance(a, Arith) and isinstance(b, Arith):
                elem = a if a == b else self.common(then, other)
                then, other = to_elem(then, elem), to_elem(other, elem)
            elif a != b:
                other = to_elem(other, a)
        return broadcast(then, shape), broadcast(other, shape)

    def mask(self, pointer: t.Expr, explicit: t.Expr | None, at: ast.Expr) -> t.Expr | None:
        """The mask of an access: what is written, and the conditions around it."""
        shape = pointer.shape
        mask = explicit
        for temp, holds in self.guards:
            given, guard = temp.shape, read_of(temp, at.at)
            guard = guard if holds else self.negated(guard, at.at)
            if broadcasts_to(given, shape):
                guard = broadcast(guard, shape)
            elif shape:
                message = f"this access of shape {list(shape)} is not masked by the condition of shape {list(given)}"
                self.report.warning("unmasked", message, at)
                continue
            else:
                for axis in reversed(range(len(given))):
                    guard = t.Reduce(at.at, with_shape(BOOL, given[:axis]), guard, axis, "any")
            mask = guard if mask is None else t.Binary(at.at, guard.type, "&", mask, guard)
        return mask

    # memory and assignment

    def pointer(self, node: ast.Expr, op: str, at: Located) -> t.Expr:
        """A value through which `op` reads or writes."""
        x = self.value(node)
        elem = x.elem
        if not isinstance(elem, Pointer) or isinstance(elem.to, Void):
            self.fail("dereference", f"operand of {op!r}: expected a pointer, found {x.type}", at)
        return x

    def explicit_mask(self, node: ast.Expr | None, pointer: t.Expr, op: str = "*?") -> t.Expr | None:
        """The mask that is written for an access through pointers."""
        if node is None:
            return None
        mask = self.value(node)
        if mask.elem != BOOL:
            self.fail("mask", f"mask of {op!r}: expected bool, found {mask.type}", node)
        if not broadcasts_to(mask.shape, pointer.shape):
            misfit = f"cannot broadcast {mask.type} to {list(pointer.shape)}"
            self.fail("mask", f"mask of {op!r} for {pointer.type}: {misfit}", node)
        return broadcast(mask, pointer.shape)

    def _load(self, node: ast.Expr, operand: ast.Expr, mask: ast.Expr | None) -> t.Expr:
        op = "*" if mask is None else "*?"
        pointer = self.pointer(operand, op, node)
        return self.load(pointer, self.explicit_mask(mask, pointer), node)

    def load(self, pointer: t.Expr, mask: t.Expr | None, node: ast.Expr, cache: str = "") -> t.Expr:
        """Read through checked pointers. Of a table it is one pointer: those of a tile begin in one array."""
        if pointer.shape and _is_table(pointer.type):
            what = f"expected {pointer.elem}, as pointers are read one by one, found {pointer.type}"
            self.fail("dereference", f"a load through a table of pointers: {what}", node)
        return t.Load(node.at, _pointed_at(pointer), pointer, self.mask(pointer, mask, node), cache)

    def _subscript(self, node: ast.Subscript) -> t.Expr:
        """`table[i]` is `*(table + i)`; all else rearranges a tile."""
        if isinstance(node.operand, ast.Name) and node.operand.text == "atomic_add":
            self.undefined(node.operand)
        x = self.value(node.operand)
        if not _is_table(x.type):
            return check_subscript(self, x, node)
        index = node.items[0].axis if len(node.items) == 1 and node.items[0].kind == "index" else None
        if index is None or isinstance(index, ast.Slice):
            self.fail("subscript", f"operand of '[]': expected one index into {x.type}", node)
        place = self.value(index)
        if not isinstance(place.elem, Arith) or place.elem.is_float:
            self.fail("subscript", f"index: expected an integer, found {place.type}", node.items[0])
        return self.load(self.binary("+", x, place, node), None, node)

    def _masked(self, node: ast.MaskedDeref) -> t.Expr:
        return self._load(node, node.operand, node.mask)

    def _assign(self, node: ast.Assign) -> t.Expr:
        target = node.target
        if isinstance(target, ast.Name):
            variable = self._variable(target, node)
            if node.op:
                old = self.expr(target)
                value = self.binary(node.op, old, self.value(node.value), node)
            else:
                value = self.value(node.value)
            return self.assign(variable, value, node)
        if isinstance(target, ast.MaskedDeref):
            return self._store(node, target.operand, target.mask, "*?")
        if isinstance(target, ast.Unary) and target.op == "*":
            return self._store(node, target.operand, None, "*")
        return self._no_lvalue(target, node.at.text)

    def _no_lvalue(self, target: ast.Expr, op: str) -> NoReturn:
        found = "a value"
        if isinstance(target, ast.Subscript):
            if isinstance(target.operand, ast.Name) and self.scopes.find(target.operand.text) is None:
                self.undefined(target.operand)
            found = "a part of a tile, which is assigned whole"
            symbol = self.scopes.find(target.operand.text) if isinstance(target.operand, ast.Name) else None
            if isinstance(symbol, t.Variable) and isinstance(symbol.type, Pointer):
                found = "an element of a table, which is only read" if _is_table(symbol.type) else "a value"
        elif isinstance(target, ast.Name):
            found = f"{target.text!r}, which is no variable"
        self.fail("lvalue", f"left operand of {op!r}: expected a variable or '*pointer', found {found}", target)

    def _variable(self, target: ast.Name, node: ast.Expr) -> t.Variable:
        symbol = self.scopes.find(target.text)
        if symbol is None and target.text not in self.builtin_names():
            self.undefined(target)
        if not isinstance(symbol, t.Variable):
            self._no_lvalue(target, node.at.text)
        if symbol.const:
            note = Note("declared here", symbol.at.span)
            self.fail("const", f"{target.text!r} is const: it cannot be assigned", target, [note])
        return symbol

    def assign(self, variable: t.Variable, value: t.Expr, node: ast.Expr) -> t.Expr:
        """Set a variable to a checked value; under a condition, only where it holds."""
        with self.conversions("assignment", node, f"{variable.name or 'result'}: "):
            value = converted(value, variable.type)
        for temp, holds in self.guards:
            if not broadcasts_to(temp.shape, variable.shape):
                message = f"{variable.name!r} of type {variable.type} is assigned under a condition of type {temp.type}"
                self.fail("assignment", message, node)
            condition = broadcast(read_of(temp, node.at), variable.shape)
            old = t.Read(node.at, variable.type, variable)
            arms = (value, old) if holds else (old, value)
            value = t.Select(node.at, variable.type, condition, *arms)
        variable.initialised = True
        if isinstance(variable.elem, Pointer):
            variable.sources.update(roots(value))
        return t.Assign(node.at, variable.type, variable, value)

    def _store(self, node: ast.Assign, operand: ast.Expr, mask_node: ast.Expr | None, op: str) -> t.Expr:
        pointer = self.pointer(operand, op, node.target)
        self.writable(pointer, operand)
        mask = self.explicit_mask(mask_node, pointer)
        if not node.op:
            return self.store(pointer, mask, self.value(node.value), node)

        def change(where: t.Expr, mask: t.Expr | None) -> t.Expr:
            value = self.binary(node.op, self.load(where, mask, node.target), self.value(node.value), node)
            return self.store(where, mask, value, node)

        if mask is None:
            return bound(pointer, node.at, lambda where: change(where, None))
        return bound(pointer, node.at, lambda where: bound(mask, node.at, lambda m: change(where, m)))

    def writable(self, pointer: t.Expr, node: ast.Expr) -> None:
        """Refuse stores to const memory; a promise of `__readonly` is dropped with a warning."""
        elem = pointer.elem
        assert isinstance(elem, Pointer)
        if _is_table(elem):
            what = "expected a pointer to numbers, as tables of pointers are only read"
            self.fail("const", f"store: {what}, found {pointer.type}", node)
        if elem.const or elem.bank:
            what = "the constant bank" if elem.bank else "const memory"
            self.fail("const", f"store: expected a pointer to writable memory, found {pointer.type} into {what}", node)
        reached: set[t.Variable] = set()
        work = roots(pointer)
        while work:
            root = work.pop()
            if root in reached:
                continue
            reached.add(root)
            work += root.sources
            if "readonly" in root.attributes:
                message = f"{root.name!r} is __readonly, and stored through: the promise is dropped"
                self.report.warning("readonly", message, node, [Note("declared here", root.at.span)])
                root.attributes = {k: v for k, v in root.attributes.items() if k != "readonly"}

    def store(self, pointer: t.Expr, mask: t.Expr | None, value: t.Expr, node: ast.Expr, cache: str = "") -> t.Expr:
        """Write through checked pointers."""
        with self.conversions("assignment", node, f"store through {pointer.type}: "):
            value = converted(value, _pointed_at(pointer))
        return t.Store(node.at, value.type, pointer, self.mask(pointer, mask, node), value, cache)

    def effect(self, node: ast.Expr) -> t.Expr:
        """Check an expression whose value nobody reads."""
        if isinstance(node, ast.Postfix):
            return self._step(node, node.operand, node.op[0], post=False)
        return self.expr(node)

    def _postfix(self, node: ast.Postfix) -> t.Expr:
        return self._step(node, node.operand, node.op[0], post=True)

    def _step(self, node: ast.Unary | ast.Postfix, target: ast.Expr, op: str, *, post: bool) -> t.Expr:
        one = t.Const(node.at, INT, 1)
        if isinstance(target, ast.Name):
            variable = self._variable(target, node)
            old = self.expr(target)
            if not post:
                return self.assign(variable, self.binary(op, old, one, node), node)

            def assigned(old: t.Expr) -> t.Expr:
                assign = self.assign(variable, self.binary(op, old, one, node), node)
                return t.Sequence(node.at, old.type, assign, old)

            return bound(old, node.at, assigned)
        if not isinstance(target, ast.Unary) or target.op != "*":
            self._no_lvalue(target, node.op)
        pointer = self.pointer(target.operand, "*", target)
        self.writable(pointer, target)

        def stored(where: t.Expr, old: t.Expr) -> t.Expr:
            store = self.store(where, None, self.binary(op, old, one, node), node)
            return t.Sequence(node.at, old.type, store, old) if post else store

        at = node.at
        return bound(pointer, at, lambda where: bound(self.load(where, None, target), at, lambda x: stored(where, x)))

    # calls

    @abstractmethod
    def call(self, node: ast.Call) -> t.Expr:
        """Check a call."""

    def arity(self, node: ast.Call, name: str, low: int, high: int | None = None) -> None:
        """Check the number of arguments."""
        high = low if high is None else high
        n = len(node.args)
        if not low <= n <= high:
            want = str(low) if low == high else f"{low} to {high}"
            self.fail("arguments", f"{name}: expected {want} argument{'s' * (want != '1')}, found {n}", node)

    _CHECKS: ClassVar[dict[type, Callable[[Any, Any], t.Expr]]] = {
        ast.Name: Checker._name, ast.Int: Checker._int, ast.Float: Checker._float,
        ast.String: Checker._string, ast.Unary: _unary, ast.Postfix: _postfix,
        ast.MaskedDeref: _masked, ast.Binary: Checker._binary, ast.Ternary: _ternary,
        ast.Assign: _assign, ast.Call: lambda self, node: self.call(node),
        ast.Subscript: _subscript, ast.Cast: _cast, ast.SizeOf: Checker._sizeof,
        ast.Generic: Checker._generic, ast.InitList: Checker._init_list,
    }  # fmt: skip


def _pointed_at(pointer: t.Expr) -> Type:
    """The type of what checked pointers point at."""
    elem = pointer.elem
    assert isinstance(elem, Pointer)
    assert not isinstance(elem.to, Void)
    return with_shape(elem.to, pointer.shape)


def _is_table(of: Type) -> bool:
    """Whether pointers lie in memory there."""
    elem = elem_of(of)
    return isinstance(elem, Pointer) and isinstance(elem.to, Pointer)


def roots(pointer: t.Expr) -> list[t.Variable]:
    """The variables whose memory a pointer may point into."""
    found: list[t.Variable] = []
    work: list[t.Expr] = [pointer]
    while work:
        match work.pop():
            case t.Read(variable=v):
                found.append(v)
            case t.PointerAdd(pointer=p):
                work.append(p)
            case t.Select(then=a, other=b):
                work += [a, b]
            case t.Let(body=x) | t.Sequence(second=x) | t.Assign(value=x) | t.Moved(x=x) | t.PointerCast(x=x):
                work.append(x)
            case _:
                pass
    return found
