"""Scatters into copies of parameters that stay as they are: a kernel copies faster than a GPU's driver.

    %y = graph.scatter_nd(%x, %i, %u) : tensor<65536x96xf16>                      // x: a parameter

becomes

    %c = graph.pad(%x) {high = [0, 0], low = [0, 0], value = 0.0} : tensor<65536x96xf16>
    %y = graph.scatter_nd(%c, %i, %u) : tensor<65536x96xf16>

where a pad of nothing is the copy. What may be written over (`shared` of the function) is left alone.

Requires: nothing that drops pads of nothing runs afterwards. Cost: one sweep.
"""

from __future__ import annotations

from graphfuse.dialects import graph
from graphfuse.fusion.regions.dataflow import is_in_place
from graphfuse.fusion.regions.plan import shared_pairs
from graphfuse.ir.core import Func, Op, remade, tensor_of
from graphfuse.ir.passes import passing
from graphfuse.ir.rewrite import Replacement, rebuild


@passing("graph")
def copy_scattered(func: Func) -> Func:
    """Copy the parameters that scatters of the function's body begin with."""
    kept = set(func.params) - {func.params[number] for _, number in shared_pairs(func)}

    def visit(old: Op, new: Op) -> Replacement | None:
        if not is_in_place(old) or old.operands[0] not in kept:
            return None
        x, *others = new.operands
        nothing = (0,) * tensor_of(x).rank
        return remade(new, graph.pad(x, low=nothing, high=nothing, value=0, loc=new.loc), *others)

    return rebuild(func, visit_pair=visit)
