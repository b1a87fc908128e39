"""Makes products over one element multiplications: they become part of the kernels around them.

    %f = graph.contract(%w, %t) {spec = "dk,sk->sd"} : tensor<16x64xf32>        // w: 64 x 1, t: 16 x 1

becomes

    %a = graph.broadcast(graph.reshape(%w) {shape = [64]}) {shape = [16, 64]} : tensor<16x64xf32>
    %b = graph.broadcast(%t) {shape = [16, 64]} : tensor<16x64xf32>
    %f = graph.mul(%a, %b) : tensor<16x64xf32>

as of rotary embeddings, whose angles are frequencies times positions.

Requires: contractions have taken in permutes. Ensures: the same values but for the sign of a zero, which a sum that
begins with 0 loses: `strict` does without. Cost: one sweep.
"""

from __future__ import annotations

from graphfuse.dialects import graph
from graphfuse.fusion.simplify.fold_constants import cast_to
from graphfuse.fusion.simplify.simplify_movement import broadcasted, permuted, reshaped
from graphfuse.ir.core import Func, Op, Value, tensor_of
from graphfuse.ir.passes import passing
from graphfuse.ir.rewrite import Replacement, rule, sweep
from graphfuse.ir.types import BOOL


@rule(graph.contract)
def outer_product(op: Op) -> Replacement | None:
    """contract(x, y) = x * y where the dims that are summed have size 1."""
    t, (lhs, rhs, out) = tensor_of(op.result), graph.parse_spec(str(op.attrs["spec"]))
    dims = dict(zip(lhs + rhs, (d for v in op.operands for d in tensor_of(v).shape), strict=True))
    if t.elem == BOOL or any(dims[c] != 1 for c in dims if c not in out):
        return None

    def spread(x: Value, labels: str) -> Value:
        order = sorted(range(len(labels)), key=lambda i: out.find(labels[i]))
        kept = reshaped(permuted(x, tuple(order)), tuple(dims[c] if c in labels else 1 for c in out))
        return broadcasted(cast_to(kept, t.elem), t.shape)

    return graph.mul(*(spread(x, labels) for x, labels in zip(op.operands, (lhs, rhs), strict=True)), loc=op.loc)


@passing("graph")
def outer_products(func: Func) -> Func:
    """Multiply elements where a product sums over one."""
    return sweep(func, outer_product)[0]
