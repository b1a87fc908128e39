"""Marks scatters of which one kernel makes all of the result, where that takes less time than to change it in place.

    %y = graph.scatter_along(%x, %i, %u) {axis = 0, kind = "add"} : tensor<3182x4039xf32>

becomes

    %y = graph.scatter_along(%x, %i, %u) {axis = 0, kind = "add", whole = true} : tensor<3182x4039xf32>

What it begins with need not be in memory then, nor its result: casts from and to halves are part of the kernel. What
may be written over (`shared` of the function) is left alone, and slices, which atomics reach by whole sectors.

Cost: one sweep.
"""

from __future__ import annotations

from collections.abc import Callable

from graphfuse.dialects import graph
from graphfuse.fusion.precision.few_updates import has_rows
from graphfuse.fusion.regions.plan import shared_pairs
from graphfuse.ir.core import Func, Op, remade
from graphfuse.ir.rewrite import Replacement, rebuild


def mark_whole(func: Func, pays: Callable[[Op], bool]) -> Func:
    """Make scatters whole where that pays."""
    written = {func.params[number] for _, number in shared_pairs(func)}

    def visit(old: Op, new: Op) -> Replacement | None:
        if old.kind is not graph.scatter_along or old.operands[0] in written or has_rows(new) or not pays(new):
            return None
        return remade(new, *new.operands, whole=True)

    return rebuild(func, visit_pair=visit)
