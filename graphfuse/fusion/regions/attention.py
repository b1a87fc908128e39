"""Finds attention by structure: a softmax over the columns of one contraction, contracted again.

    scores = contract(q, k); p = any row-wise softmax of pointwise(scores); out = contract(p, v)

Nothing between the two contractions may be read elsewhere, and every op there must be elementwise, a reduction of
the key dim, or a broadcast. What the pointwise part does (scale, masks, guards against empty rows) does not matter.
On a GPU elementwise ops come along that nothing else reads the results of, masks mostly, and what is reduced may be
read elsewhere: it is stored beside the result.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from graphfuse.dialects import graph
from graphfuse.fusion.regions.dataflow import Dataflow
from graphfuse.ir.core import Op, Trait, Value, dims_of, made_of, tensor_of
from graphfuse.ir.types import Tensor

CHEAP = frozenset({
    graph.select, graph.cast,
    *(graph.ELEMENTWISE[n] for n in ("add", "sub", "mul", "neg", "and", "or", "not")),
    *(graph.ELEMENTWISE[n] for n in ("lt", "le", "gt", "ge", "eq", "ne")),
})  # fmt: skip
"""Ops that may be computed once for each query, key and head instead of being read."""


@dataclass(frozen=True)
class Attention:
    """The ops of one attention, in no particular order; `reads` are the other values the pointwise part needs."""

    scores: Op
    output: Op
    between: frozenset[Op]


def find_attention(flow: Dataflow, *, on_gpu: bool = False) -> list[Attention]:
    """All attentions of a block, as far as the machine has a schedule for them; they do not overlap."""
    out: list[Attention] = []
    taken: set[Op] = set()
    order = {op: i for i, op in enumerate(flow.block.ops)}
    for op in flow.block.ops:
        if op.kind is graph.contract and (found := _match(flow, op, order, stores_rows=on_gpu)) is not None:
            if on_gpu:
                found = _with_masks(flow, found)
            ops = {found.scores, found.output, *found.between}
            if ops.isdisjoint(taken):
                taken |= ops
                out.append(found)
    return out


def _match(flow: Dataflow, output: Op, order: dict[Op, int], *, stores_rows: bool) -> Attention | None:
    if not tensor_of(output.result).elem.is_float:
        return None
    for i, probabilities in enumerate(output.operands):
        between = _between(flow, probabilities, output, order, stores_rows=stores_rows)
        if between is None:
            continue
        scores = next(op for op in between if op.kind is graph.contract)
        inner = frozenset(between - {scores})
        if _is_row_softmax(scores, inner) and _contracts_keys(output, i, scores):
            return Attention(scores, output, inner)
    return None


def _with_masks(flow: Dataflow, found: Attention) -> Attention:
    """The attention with the cheap ops that only it reads the results of."""
    ops = {found.scores, found.output, *found.between}
    stack = [v for op in found.between for v in op.operands]
    while stack:
        for source, _ in flow.sources(stack.pop()):
            op = source.op
            if op is None or op in ops or op.kind not in CHEAP or not ops.issuperset(flow.readers(source)):
                continue
            ops.add(op)
            stack += op.operands
    return replace(found, between=frozenset(ops - {found.scores, found.output}))


def _between(flow: Dataflow, value: Value, output: Op, order: dict[Op, int], *, stores_rows: bool) -> set[Op] | None:
    """The ops from exactly one contraction to `value`, used nowhere else; None when there is no such set."""
    if (before := _one_contraction(value)) is None:
        return None
    contraction, found = before
    # only what lies on a path from the contraction matters; the rest are ordinary operands
    reached: set[Op] = {contraction}
    for op in sorted(found, key=lambda o: order.get(o, -1)):
        if any(v.op in reached for v in op.operands):
            reached.add(op)
    if value.op not in reached:
        return None
    group = {*reached, output}
    shown = [op for op in reached for r in op.results if not group.issuperset(flow.uses.get(r, ()))]
    if shown and (not stores_rows or any(op.kind is not graph.reduce for op in shown) or _is_cyclic(group)):
        return None
    return reached


def _is_cyclic(group: set[Op]) -> bool:
    """Whether ops of a group read what others make of its results."""
    read = {v for op in group for v in op.operands if v.op not in group}
    return any(made.op in group for v in read for made in made_of(v))


def _one_contraction(value: Value) -> tuple[Op, set[Op]] | None:
    """The only contraction that `value` is computed from without another before it, and all that is in between."""
    shape = value.type.shape if isinstance(value.type, Tensor) else ()
    found: set[Op] = set()
    contraction: Op | None = None
    stack = [value]
    while stack:
        op = stack.pop().op
        if op is None or op in found:
            continue
        if op.kind is graph.contract:
            if contraction not in (None, op) or tensor_of(op.result).shape != shape:
                return None
            contraction = op
            found.add(op)
            continue
        if op.kind is graph.reduce or op.has(Trait.ELEMENTWISE) or op.kind in (graph.broadcast, graph.full, graph.iota):
            found.add(op)
            stack += op.operands
    return None if contraction is None else (contraction, found)


def _is_row_softmax(scores: Op, inner: frozenset[Op]) -> bool:
    """Whether the inner ops reduce the last dim by a sum of exponentials, keep shapes, and do nothing else."""
    shape = tensor_of(scores.result).shape
    rank = len(shape)
    sums = exps = 0
    for op in inner:
        if op.kind is graph.reduce:
            if dims_of(op.attrs["axes"]) != (rank - 1,) or not op.attrs.get("keepdims", False):
                return False
            sums += op.attrs["kind"] == "sum"
        elif tensor_of(op.results[0]).shape not in (shape, (*shape[:-1], 1)):
            return False
        exps += op.kind is graph.exp
    return sums == 1 and exps >= 1


def _contracts_keys(output: Op, operand: int, scores: Op) -> bool:
    """Whether the second contraction sums exactly the last dim of the scores."""
    labels = graph.parse_spec(str(output.attrs["spec"]))
    mine, other, out = labels[operand], labels[1 - operand], labels[2]
    summed = {c for c in mine + other if c not in out}
    depth = [c for c in other if c not in mine]
    lhs, rhs, rows = graph.parse_spec(str(scores.attrs["spec"]))
    queries, keys = (lhs, rhs) if rows[-1] in rhs else (rhs, lhs)
    query = [i for i, c in enumerate(rows[:-1]) if c in queries and c not in keys]
    return (
        summed == {mine[-1]}
        and mine[-1] in other
        and depth == [out[-1]]  # one value-depth dim, innermost in the result: the lanes
        and set(mine[:-1]) <= set(out)
        and rows[-1] not in queries
        and len(query) > 0  # many queries share their keys and values: the rows of a tile
        and mine[query[-1]] not in other
    )
