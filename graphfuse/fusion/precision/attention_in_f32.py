"""Attention of halves in f32: on a GPU what lies between the two products is rounded once, for the second.

    %a = graph.mul(%q, %c) : tensor<8x512x64xf16>                              // %c: 0.25, of the keys, too
    %s = graph.contract(%a, %b) {spec = "bqd,bkd->bqk"} : tensor<8x512x512xf16>
    %m = graph.reduce(%s) {axes = [2], keepdims = true, kind = "max"} : tensor<8x512x1xf16>
    ...
    %p = graph.div(%e, %t) : tensor<8x512x512xf16>

becomes

    %s = graph.contract(%q, %k) {elem = f32, spec = "bqd,bkd->bqk"} : tensor<8x512x512xf32>
    %z = graph.mul(%s, 0.0625) : tensor<8x512x512xf32>
    ...
    %p = graph.cast(%d) {to = f16} : tensor<8x512x512xf16>

The kernel has scores in f32 anyway, as sums. Its one walk over the keys scales what it has summed whenever it meets a
larger score, so roundings that it made on the way would not be those of the ops either (docs/numerics.md).

Requires: what moves operands has run, as for `find_attention`. Ensures: attentions found before are found again.
Cost: one sweep.
"""

from __future__ import annotations

from graphfuse.dialects import graph
from graphfuse.fusion.precision.lower_precision import scaled_product, unscaled
from graphfuse.fusion.regions.attention import find_attention
from graphfuse.fusion.regions.dataflow import Dataflow
from graphfuse.fusion.simplify.fold_constants import full, splat_of
from graphfuse.fusion.simplify.patterns import made_by, operand_of
from graphfuse.ir.core import Func, Op, Value, remade, tensor_of
from graphfuse.ir.passes import passing
from graphfuse.ir.rewrite import Replacement, dead_code, rebuild
from graphfuse.ir.types import BF16, F16, F32

_HALVES = (F16, BF16)


@passing("graph")
def attention_in_f32(func: Func) -> Func:
    """Compute scores and softmax of every attention of halves in f32."""
    found = find_attention(Dataflow(func.body))
    scores = {a.scores for a in found}
    between = {op for a in found for op in a.between}

    def visit(old: Op, new: Op) -> Replacement | None:
        if old in scores and tensor_of(old.result).elem in _HALVES:
            return graph.cast(_product(new), to=tensor_of(old.result).elem, loc=new.loc)
        if old not in between or all(tensor_of(v).elem not in _HALVES for v in old.operands):
            return None
        operands = [_wide(v) if tensor_of(v).elem in _HALVES else v for v in new.operands]
        made = remade(new, *operands)
        elem = tensor_of(old.result).elem
        return graph.cast(made, to=elem, loc=new.loc) if elem in _HALVES and old.kind is not graph.cast else made

    return dead_code(rebuild(func, visit_pair=visit))


def _product(op: Op) -> Op:
    """The contraction in f32, numbers that scale its operands applied to its result."""
    (a, by_a), (b, by_b) = (unscaled(v) for v in op.operands)
    return scaled_product(op, (a, b), by_a * by_b)


def _wide(value: Value) -> Value:
    """A half in f32, as it was before it was rounded if it was."""
    if (number := splat_of(value)) is not None:
        return full(tensor_of(value).shape, F32, number)
    if (x := operand_of(value, graph.cast)) is not None and tensor_of(x).elem == F32:
        return x
    if (op := made_by(value, graph.broadcast)) is not None:
        return remade(op, _wide(op.operands[0])).result
    return graph.cast(value, to=F32).result
