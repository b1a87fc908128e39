"""Take out of loops what is the same every time round.

    for %i: { %s = splat(%n); %y = add(%x, %s) }    becomes    %s = splat(%n); for %i: { %y = add(%x, %s) }

Only what has no effect and cannot fail, and so may also be computed if the loop does not run.
"""

from __future__ import annotations

from graphfuse.dialects import control
from graphfuse.ir.core import Block, Func, Op, Trait, Value, defined_in
from graphfuse.ir.passes import passing
from graphfuse.ir.remake import Remaker

LOOPS = (control.for_, control.while_)


@passing("kernel")
def hoist_invariants(func: Func) -> Func:
    """Move pure ops whose operands come from outside of a loop in front of it."""
    return _Hoister(func).run() if any(op.kind in LOOPS for op in func.walk()) else func


class _Hoister(Remaker):
    def op(self, op: Op) -> None:
        if op in self.done:
            return
        if op.kind in LOOPS:
            inside = {v for body in op.bodies for v in defined_in(body)}
            for body in op.bodies:
                self._take(body, inside)
        self.copy(op)

    def __init__(self, func: Func) -> None:
        super().__init__(func)
        self.done: set[Op] = set()

    def _take(self, body: Block, inside: set[Value]) -> None:
        """Place what a body, and the bodies in it, compute from outside values only."""
        for op in body.ops:
            if op.has(Trait.PURE) and not op.bodies and inside.isdisjoint(op.operands):
                if op not in self.done:
                    self.copy(op)
                    self.done.add(op)
                inside.difference_update(op.results)
            for inner in op.bodies:
                self._take(inner, inside)
