"""Tests of pointers that are known to be null, or known not to be, are decided: `if (p)` is the branch that is taken.

    %a = address(%p); %zero = const(0); %c = ne(%a, %zero)
    %y = if(%c) do () { %b = load(%p, %o); yield(%b) } do () { yield(%x) }

becomes `%b = load(%p, %o)`, or nothing where %p is null. So a kernel is compiled once for callers that pass an optional
array and once for those that do not. What then still reads or writes through a null pointer is found by `reached`.
"""

from __future__ import annotations

from collections.abc import Mapping

from graphfuse.dialects import block, control
from graphfuse.dialects.pointers import accesses
from graphfuse.ir.core import Func, Op, Value, attr_number
from graphfuse.ir.remake import Remaker
from graphfuse.ir.rewrite import dead_code
from graphfuse.ir.types import Tile

_EQUAL, _DIFFERENT, _NOT = (block.ELEMENTWISE[n] for n in ("eq", "ne", "not"))
_SPREAD = (block.splat, block.broadcast, block.reshape, block.trans)


def decide_nulls(func: Func, null: Mapping[str, bool]) -> Func:
    """The function for parameters of which `null` says whether they are."""
    if not any(op.kind is block.address for op in func.walk()):
        return func
    return dead_code(_Decider(func, null).run())


def reached(func: Func, null: frozenset[str]) -> tuple[str, Op] | None:
    """A parameter in `null` that the function may read or write through, and the first op that does."""
    found = ((op, sorted(null & names)) for op, names in accesses(func)) if null else ()
    return next(((names[0], op) for op, names in found if names), None)


class _Decider(Remaker):
    def __init__(self, func: Func, null: Mapping[str, bool]) -> None:
        super().__init__(func)
        self.null = {v: null[v.hint] for v in func.params if v.hint in null}
        self.known: dict[Value, bool] = {}
        """Conditions, and tiles of them that are all the same, by the old value."""

    def op(self, op: Op) -> None:
        if op.kind is control.if_ and op.operands[0] in self.known:
            self._taken(op, self.known[op.operands[0]])
        elif op.kind is block.select and op.operands[0] in self.known:
            self.values[op.result] = self.new(op.operands[1 if self.known[op.operands[0]] else 2])
        elif op.kind is block.load and self.known.get(op.operands[-1]) is False:
            self._constant(op, attr_number(op, "other"))
        elif op.kind is block.store and self.known.get(op.operands[-1]) is False:
            pass
        elif op.kind in (block.and_, block.or_) and any(v in self.known for v in op.operands):
            self._joined(op)
        elif (truth := self._truth(op)) is not None:
            self._decided(op, truth)
        else:
            self.copy(op)

    def _truth(self, op: Op) -> bool | None:
        """What a test gives, if that is known."""
        if op.kind in (_EQUAL, _DIFFERENT):
            a, b = (v.op for v in op.operands)
            if b is not None and b.kind is block.address:
                a, b = b, a
            if a is None or b is None or a.kind is not block.address or b.kind is not block.const:
                return None
            pointer = a.operands[0]
            while pointer.op is not None and pointer.op.kind is block.pointer_cast:
                pointer = pointer.op.operands[0]
            is_null = self.null.get(pointer) if b.attrs["value"] == 0 else None
            return None if is_null is None else is_null == (op.kind is _EQUAL)
        if op.kind in _SPREAD:
            return self.known.get(op.operands[0])
        truth = self.known.get(op.operands[0]) if op.kind is _NOT else None
        return None if truth is None else not truth

    def _joined(self, op: Op) -> None:
        """`and` and `or`: what is known decides, or leaves the other."""
        decides = op.kind is block.or_
        if any(self.known.get(v) is decides for v in op.operands):
            self._decided(op, decides)
            return
        left = [v for v in op.operands if v not in self.known]
        if left:
            self.values[op.result] = self.new(left[0])
        else:
            self._decided(op, not decides)

    def _decided(self, op: Op, truth: bool) -> None:
        self.known[op.result] = truth
        self._constant(op, truth)

    def _constant(self, op: Op, value: bool | float) -> None:
        type_ = op.types[0]
        self.builder.loc = op.loc
        one = self.builder(block.const, value=value, elem=block.elem_of(type_))
        self.values[op.result] = self.builder(block.splat, one, shape=type_.shape) if isinstance(type_, Tile) else one

    def _taken(self, op: Op, truth: bool) -> None:
        """The ops of one body in place of the branch."""
        if not truth and len(op.bodies) < 2:
            return
        body = op.bodies[0 if truth else 1]
        for inner in body.ops[:-1]:
            self.op(inner)
        self.values.update(zip(op.results, map(self.new, body.terminator.operands), strict=True))
