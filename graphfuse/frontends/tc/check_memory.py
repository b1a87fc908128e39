"""Choices, and what they guard: loads, stores and assignments, with the masks that they get."""

from __future__ import annotations

from typing import NoReturn

from graphfuse.frontends.tc import ast
from graphfuse.frontends.tc import typed as t
from graphfuse.frontends.tc.check_base import read_of
from graphfuse.frontends.tc.check_operators import OperatorChecker
from graphfuse.frontends.tc.convert import broadcast, converted, to_elem
from graphfuse.frontends.tc.diagnostics import Located, Note
from graphfuse.frontends.tc.types import (
    BOOL,
    INT,
    Arith,
    Pointer,
    ShapeError,
    Type,
    Void,
    broadcast_shapes,
    broadcasts_to,
    with_shape,
)


class MemoryChecker(OperatorChecker):
    """Checks conditional expressions, and all that reads or writes memory or variables."""

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
            given = temp.shape
            if not broadcasts_to(given, shape):
                if not shape:
                    guard: t.Expr = read_of(temp, at.at)
                    guard = guard if holds else self.negated(guard, at.at)
                    for axis in reversed(range(len(given))):
                        guard = t.Reduce(at.at, with_shape(BOOL, given[:axis]), guard, axis, "any")
                else:
                    message = (
                        f"this access of shape {list(shape)} is not masked by the condition of shape {list(given)}"
                    )
                    self.report.warning("unmasked", message, at)
                    continue
            else:
                read: t.Expr = read_of(temp, at.at)
                guard = broadcast(read if holds else self.negated(read, at.at), shape)
            mask = guard if mask is None else t.Binary(at.at, guard.type, "&", mask, guard)
        return mask

    # memory and assignment

    def _pointer(self, node: ast.Expr, op: str, at: Located) -> t.Expr:
        x = self.value(node)
        elem = x.elem
        if not isinstance(elem, Pointer) or isinstance(elem.to, Void):
            self.fail("dereference", f"operand of {op!r}: expected a pointer, found {x.type}", at)
        return x

    def _explicit_mask(self, node: ast.Expr | None, pointer: t.Expr) -> t.Expr | None:
        if node is None:
            return None
        mask = self.value(node)
        if mask.elem != BOOL:
            self.fail("mask", f"mask of '*?': expected bool, found {mask.type}", node)
        with self.conversions("mask", node, f"mask of '*?' for {pointer.type}: "):
            if not broadcasts_to(mask.shape, pointer.shape):
                raise ShapeError(f"cannot broadcast {mask.type} to {list(pointer.shape)}")
        return broadcast(mask, pointer.shape)

    def _load(self, node: ast.Expr, operand: ast.Expr, mask: ast.Expr | None) -> t.Expr:
        op = "*" if mask is None else "*?"
        pointer = self._pointer(operand, op, node)
        return self.load(pointer, self._explicit_mask(mask, pointer), node)

    def load(self, pointer: t.Expr, mask: t.Expr | None, node: ast.Expr) -> t.Expr:
        """Read through checked pointers."""
        return t.Load(node.at, _pointed_at(pointer), pointer, self.mask(pointer, mask, node))

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
            found = "a part of a tile, which is assigned whole"
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
        pointer = self._pointer(operand, op, node.target)
        self.writable(pointer, operand)
        mask = self._explicit_mask(mask_node, pointer)
        if not node.op:
            return self.store(pointer, mask, self.value(node.value), node)
        temp = t.Variable("", pointer.type, node.at, initialised=True)
        again = read_of(temp, node.at)
        mask_temp = None
        if mask is not None:
            mask_temp = t.Variable("", mask.type, node.at, initialised=True)
        mask_read = None if mask_temp is None else read_of(mask_temp, node.at)
        value = self.binary(node.op, self.load(again, mask_read, node.target), self.value(node.value), node)
        store = self.store(again, mask_read, value, node)
        if mask_temp is not None and mask is not None:
            store = t.Let(node.at, store.type, mask_temp, mask, store)
        return t.Let(node.at, store.type, temp, pointer, store)

    def writable(self, pointer: t.Expr, node: ast.Expr) -> None:
        """Refuse stores to const memory; a promise of `__readonly` is dropped with a warning."""
        elem = pointer.elem
        assert isinstance(elem, Pointer)
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

    def store(self, pointer: t.Expr, mask: t.Expr | None, value: t.Expr, node: ast.Expr) -> t.Expr:
        """Write through checked pointers."""
        with self.conversions("assignment", node, f"store through {pointer.type}: "):
            value = converted(value, _pointed_at(pointer))
        return t.Store(node.at, value.type, pointer, self.mask(pointer, mask, node), value)

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
            temp = t.Variable("", variable.type, node.at, initialised=True)
            assign = self.assign(variable, self.binary(op, read_of(temp, node.at), one, node), node)
            body = t.Sequence(node.at, variable.type, assign, read_of(temp, node.at))
            return t.Let(node.at, variable.type, temp, old, body)
        if not isinstance(target, ast.Unary) or target.op != "*":
            self._no_lvalue(target, node.op)
        pointer = self._pointer(target.operand, "*", target)
        self.writable(pointer, target)
        where = t.Variable("", pointer.type, node.at, initialised=True)
        old = self.load(read_of(where, node.at), None, target)
        temp = t.Variable("", old.type, node.at, initialised=True)
        value = self.binary(op, read_of(temp, node.at), one, node)
        store = self.store(read_of(where, node.at), None, value, node)
        body = t.Sequence(node.at, old.type, store, read_of(temp, node.at)) if post else store
        return t.Let(node.at, old.type, where, pointer, t.Let(node.at, old.type, temp, old, body))


def _pointed_at(pointer: t.Expr) -> Type:
    """The type of what checked pointers point at."""
    elem = pointer.elem
    assert isinstance(elem, Pointer)
    assert isinstance(elem.to, Arith)
    return with_shape(elem.to, pointer.shape)


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
            case t.Let(body=x) | t.Sequence(second=x) | t.Assign(value=x):
                work.append(x)
            case t.Splat(x=x) | t.Broadcast(x=x) | t.Reshape(x=x) | t.Transpose(x=x) | t.PointerCast(x=x):
                work.append(x)
            case _:
                pass
    return found
