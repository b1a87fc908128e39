"""Multiplies a vector by a matrix that is an input, row by row as it lies: a product would copy it to panels first.

    %y = graph.contract(%x, %w) {spec = "mk,nk->mn"} : tensor<1x1000xf32>       // x: 1 x 4096, w: 1000 x 4096

becomes

    %v = graph.broadcast(%x) {shape = [1000, 4096]} : tensor<1000x4096xf32>
    %p = graph.mul(%v, %w) : tensor<1000x4096xf32>
    %y = graph.reshape(graph.reduce(%p) {axes = [1], kind = "sum"}) : tensor<1x1000xf32>

So is a vector for each of several matrices. Matrices that are known are laid out in panels when the model is compiled,
and stay products.

Requires: contractions have taken in permutes. Ensures: the same values but for the order of sums. Cost: one sweep.
"""

from __future__ import annotations

from graphfuse.dialects import graph
from graphfuse.fusion.simplify.fold_constants import cast_to
from graphfuse.fusion.simplify.simplify_movement import broadcasted, permuted, reshaped
from graphfuse.ir.core import Func, Op, Value, tensor_of
from graphfuse.ir.passes import passing
from graphfuse.ir.rewrite import Replacement, rule, sweep
from graphfuse.ir.types import BF16, F16, F32

SHORTEST = 64
"""Elements of a row that are worth a sum of their own (`population --device cpu --family batched,attention`)."""
SHORTEST_OF_BF16 = 256
"""Of numbers that processors multiply and add by instructions of their own."""


@rule(graph.contract)
def vector_by_rows(op: Op) -> Replacement | None:
    """contract(x, w) = reduce(x * w) over the rows of w, for one vector x or one for each of several matrices."""
    lhs, rhs, out = graph.parse_spec(str(op.attrs["spec"]))
    for x, w, few, many in ((*op.operands, lhs, rhs), (*reversed(op.operands), rhs, lhs)):
        xt, wt, t = map(tensor_of, (x, w, op.result))
        dims = dict(zip(few + many, (*xt.shape, *wt.shape), strict=True))
        along, depth = many[-1:], wt.shape[-1] if many else 0
        shortest = SHORTEST_OF_BF16 if wt.elem == BF16 else SHORTEST
        if not isinstance(depth, int) or depth < shortest or along in out or along not in few:
            continue
        shared = [c for c in few if c in many]
        if [c for c in out if c in many] != list(many[:-1]) or any(dims[c] != 1 for c in few if c not in many):
            continue
        if not all(e.is_float for e in (xt.elem, wt.elem, t.elem)) or not _is_input(w):
            continue
        wide = F32 if t.elem in (F16, BF16) else t.elem
        vectors = reshaped(cast_to(x, wide), tuple(dims[c] for c in shared))
        vectors = permuted(vectors, tuple(sorted(range(len(shared)), key=lambda i: many.index(shared[i]))))
        rows = reshaped(vectors, tuple(dims[c] if c in few else 1 for c in many))
        products = graph.mul(broadcasted(rows, wt.shape), cast_to(w, wide))
        sums = graph.reduce(products, axes=(len(many) - 1,), kind="sum", loc=op.loc)
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
