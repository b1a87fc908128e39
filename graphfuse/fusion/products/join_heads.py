"""Makes rows of one attention of query heads that share their keys, where queries are few: keys are then read once.

    %k4 = graph.broadcast(graph.reshape(%k) : tensor<1x2x1x900x64xf16>) {shape = [1, 2, 4, 900, 64]}
    %k8 = graph.reshape(%k4) {shape = [1, 8, 900, 64]} : tensor<1x8x900x64xf16>
    %s = graph.contract(%q, %k8) {spec = "bhqd,bhkd->bhqk"} : tensor<1x8x1x900xf32>

becomes

    %q4 = graph.reshape(%q) {shape = [1, 2, 4, 64]} : tensor<1x2x4x64xf16>
    %s = graph.contract(%q4, %k) {spec = "bhqd,bhkd->bhqk"} : tensor<1x2x4x900xf32>

and likewise its product with the values; what lies between the two is made again under that shape.

Requires: own_masks. Ensures: the same values. Cost: one walk for each attention.
"""

from __future__ import annotations

from dataclasses import replace

from graphfuse.dialects import graph
from graphfuse.fusion.products.attention_again import FEW, Between, Factors, made_again
from graphfuse.fusion.regions.attention import Attention
from graphfuse.fusion.simplify.patterns import made_by, operand_of
from graphfuse.fusion.simplify.simplify_movement import permuted, reshaped
from graphfuse.ir.core import Func, Value, remade, tensor_of
from graphfuse.ir.passes import passing
from graphfuse.symbolic import Dim, exact_div


@passing("graph")
def join_heads(func: Func) -> Func:
    """Attentions of the function's body with the query heads of a head of keys as rows of one tile."""
    return made_again(func, _joined)


def _joined(found: Attention) -> Value | None:
    old = Factors.of(found)
    new = _of_rows(old)
    if new is None:
        return None
    spec = f"{new.of_queries},{new.of_keys}->{new.of_scores}"
    scores = remade(found.scores, new.queries, new.keys, spec=spec).result
    seen = Between(found, scores, new.shape, lambda v: reshaped(v, (*new.shape[:-1], tensor_of(v).shape[-1])))
    spec = f"{new.of_scores},{new.of_values}->{new.made}"
    made = remade(found.output, seen.value(old.probabilities), new.values, spec=spec).result
    made = reshaped(made, (*old.shape[:-1], tensor_of(made).shape[-1]))
    return permuted(made, tuple(old.made.index(c) for c in old.of_result))


def _of_rows(old: Factors) -> Factors | None:
    """The factors with the heads before the queries as rows; None where queries are many, or keys are not shared."""
    head, (heads, rows) = old.row - 1, old.shape[old.row - 1 : old.row + 1] if old.row else (1, 1)
    letter = old.of_scores[head]
    if old.row == 0 or letter not in old.of_queries or rows not in range(1, FEW):
        return None
    keys, shared = _once(old.keys, old.of_keys.find(letter), heads)
    values, same = _once(old.values, old.of_values.find(letter), heads)
    if shared in (0, 1) or shared != same:
        return None
    if (kept := exact_div(heads, shared)) is None:
        return None
    shape = (*old.shape[:head], kept, rows * shared, *old.shape[old.row + 1 :])
    order = sorted(range(len(old.of_queries)), key=lambda i: (old.of_scores + old.of_queries).index(old.of_queries[i]))
    labels = "".join(old.of_queries[i] for i in order)
    sizes = {**dict(zip(old.of_queries, tensor_of(old.queries).shape, strict=True))}
    sizes |= {letter: kept, old.of_scores[old.row]: rows * shared}
    queries = reshaped(permuted(old.queries, tuple(order)), tuple(sizes[c] for c in labels))
    return replace(old, queries=queries, keys=keys, values=values, of_queries=labels, shape=shape)


def _once(x: Value, axis: int, count: Dim) -> tuple[Value, Dim]:
    """`x` without repetitions along an axis, and how many of each there were: `count`, where there is no axis."""
    if axis < 0:
        return x, count
    spread = made_by(x, graph.broadcast) or made_by(operand_of(x, graph.reshape) or x, graph.broadcast)
    if spread is None:
        return x, 1
    (inner,), wide, shape = spread.operands, tensor_of(spread.result).shape, tensor_of(x).shape
    before, behind = shape[:axis], shape[axis + 1 :]
    is_split = len(wide) == len(shape) + 1
    kept, times = wide[axis : axis + 2] if is_split else (1, count)
    repeated, once = ((kept, times), (kept, 1)) if is_split else ((count,), (1,))
    given = (*(1 for _ in wide[tensor_of(inner).rank :]), *tensor_of(inner).shape)
    if wide != (*before, *repeated, *behind) or given != (*before, *once, *behind):
        return x, 1
    return reshaped(inner, (*before, kept, *behind)), times
