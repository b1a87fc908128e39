"""Undoes outlining: every region's body takes the place of the region, which gives plain graph IR again.

`inline_regions(outline(f))` computes what f computes. Artifacts are rebuilt for another machine this way: constant
folding turns packed weights back into the originals.
"""

from __future__ import annotations

from graphfuse.dialects import graph
from graphfuse.ir.core import Func, Op
from graphfuse.ir.remake import Remaker


def inline_regions(func: Func) -> Func:
    """A function without `graph.region` ops."""
    return _Inliner(func).run()


class _Inliner(Remaker):
    def op(self, op: Op) -> None:
        if op.kind is not graph.region:
            self.copy(op)
            return
        # the body stands in the region's place, so that its parameters are the operands
        self.values.update(zip(op.body.params.values, map(self.new, op.operands), strict=True))
        for inside in op.body.ops[:-1]:
            self.op(inside)
        self.values.update(zip(op.results, map(self.new, op.body.terminator.operands), strict=True))
