"""Lays known matrices of products that may have one row along what is summed: a GPU's blocks walk over such rows.

    %y = graph.contract(%x, %w) {spec = "mk,kn->mn"}         // %w constant, m in 1..512

becomes, with the constant turned when the model is compiled,

    %y = graph.contract(%x, %v) {spec = "mk,nk->mn"}

Products of many rows take tiles of either kind. Declines: matrices that something else reads, of integers, or whose
rows would be no whole vectors of 16 bytes. Cost: one sweep, and a copy of each such matrix.
"""

from __future__ import annotations

import numpy as np

from graphfuse.dialects import graph
from graphfuse.fusion.simplify.fold_constants import array_of, constant
from graphfuse.ir.core import Func, Op, Value, remade, tensor_of
from graphfuse.ir.rewrite import rebuild, use_counts
from graphfuse.symbolic import Ranges, bounds, product


def turned_weights(func: Func, ranges: Ranges, vector_bytes: int) -> Func:
    """Turn the matrices of products whose number of rows may be one, and whose rows will be whole vectors."""
    uses = use_counts(func)

    def visit(op: Op) -> Value | None:
        if op.kind is not graph.contract:
            return None
        x, w = op.operands
        lhs, rhs, out = graph.parse_spec(str(op.attrs["spec"]))
        t, known = tensor_of(w), array_of(w)
        if known is None or len(rhs) != 2 or uses[w] != 1 or not t.elem.is_float:
            return None
        k, n = rhs
        if k in out or k not in lhs or n not in out or n in lhs or known.shape[0] * t.elem.bytes % vector_bytes:
            return None
        rows = product([d for c, d in zip(out, tensor_of(op.result).shape, strict=True) if c != n])
        if bounds(rows, ranges)[0] > 1:
            return None
        turned = constant(np.ascontiguousarray(known.T), w.op)
        return remade(op, x, turned, spec=f"{lhs},{n}{k}->{out}").result

    return rebuild(func, visit, uses=uses)
