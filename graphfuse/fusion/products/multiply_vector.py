"""Multiplies a vector by a matrix that is an input, row by row as it lies: a product would copy it to panels first.

    %y = graph.contract(%x, %w) {spec = "mk,nk->mn"} : tensor<1x1000xf32>       // x: 1 x 4096, w: 1000 x 4096

becomes

    %v = graph.broadcast(%x) {shape = [1000, 4096]} : tensor<1000x4096xf32>
    %p = graph.mul(%v, %w) : tensor<1000x4096xf32>
    %y = graph.reshape(graph.reduce(%p) {axes = [1], kind = "sum"}) : tensor<1x1000xf32>

Matrices that are known are laid out in panels when the model is compiled, and stay products.

Requires: contractions have taken in permutes. Ensures: the same values but for the order of sums. Cost: one sweep.
"""

from __future__ import annotations

from graphfuse.dialects import graph
from graphfuse.fusion.simplify.fold_constants import cast_to
from graphfuse.fusion.simplify.simplify_movement import broadcasted, reshaped
from graphfuse.ir.core import Func, Op, Value, tensor_of
from graphfuse.ir.passes import passing
from graphfuse.ir.rewrite import Replacement, rule, sweep
from graphfuse.ir.types import BF16, F16, F32
from graphfuse.symbolic import product

SHORTEST = 256
"""Elements of a row that are worth a sum of their own."""


@rule(graph.contract)
def vector_by_rows(op: Op) -> Replacement | None:
    """contract(x, w) = reduce(x * w) over the rows of w."""
    lhs, rhs, out = graph.parse_spec(str(op.attrs["spec"]))
    for x, w, few, many in ((*op.operands, lhs, rhs), (*reversed(op.operands), rhs, lhs)):
        (xt, wt), t, k = map(tensor_of, (x, w)), tensor_of(op.result), many[-1:]
        depth = wt.shape[-1] if k else 0
        kept = [c for c in out if c in many]
        if not isinstance(depth, int) or depth < SHORTEST or k in out or k not in few or kept != list(many[:-1]):
            continue
        if product(xt.shape) != depth or not all(e.is_float for e in (xt.elem, wt.elem, t.elem)) or not _is_input(w):
            continue
        wide = F32 if t.elem in (F16, BF16) else t.elem
        row = reshaped(cast_to(x, wide), (*(1 for _ in kept), depth))
        products = graph.mul(broadcasted(row, wt.shape), cast_to(w, wide))
        sums = graph.reduce(products, axes=(len(kept),), kind="sum", loc=op.loc)
        return reshaped(cast_to(sums.result, t.elem), t.shape)
    return None


def _is_input(w: Value) -> bool:
    while w.op is not None and w.op.kind is graph.reshape:
        (w,) = w.op.operands
    return w.op is None


@passing("graph")
def multiply_vector(func: Func) -> Func:
    """Make products of a vector and rows of an input sums of rows."""
    return sweep(func, vector_by_rows)[0]
