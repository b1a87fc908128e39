"""Contractions of one value with several constant weights become one: query, key and value; gate and up.

    %q = graph.contract(%x, %wq) {spec = "bsh,ho->bso"} : tensor<2x16x64xf32>
    %k = graph.contract(%x, %wk) {spec = "bsh,ho->bso"} : tensor<2x16x64xf32>

becomes

    %w = graph.constant() {value = dense<64x128xf32, ...>} : tensor<64x128xf32>
    %m = graph.contract(%x, %w) {spec = "bsh,ho->bso"} : tensor<2x16x128xf32>
    %q = graph.slice(%m) {..., sizes = [2, 16, 64], starts = [0, 0, 0]} : tensor<2x16x64xf32>
    %k = graph.slice(%m) {..., sizes = [2, 16, 64], starts = [0, 0, 64]} : tensor<2x16x64xf32>

Requires: simplify_movement (specs name the same form) and constant weights. Ensures: a bias add that is the only
reader of each member is merged too. Declines where a member has an elementwise epilogue of its own, which it
would lose: only epilogues that join (gate and up) are left to a later kernel; and where a member is returned, as it
would have to be copied. Cost: one sweep.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from graphfuse.dialects import graph
from graphfuse.fusion.regions.legality import standard_spec
from graphfuse.fusion.simplify.fold_constants import Array, aligned, array_of, constant
from graphfuse.fusion.simplify.simplify_movement import sliced
from graphfuse.ir.core import Block, Func, Op, Trait, Value, remade, tensor_of
from graphfuse.ir.passes import passing
from graphfuse.ir.rewrite import Replacement, dead_code, readers, rebuild
from graphfuse.symbolic import static

MAX_COLUMNS = 1 << 16
"""Columns of merged weights; beyond this each contraction is large enough by itself."""
MAX_EPILOGUE_OPS = 64
"""How far is looked behind a product; no model's has more, and each merge looks again."""

Readers = dict[Value, list[Op]]


@dataclass
class Group:
    """Contractions to merge; `ends` are the ops that slices replace: the contractions, or their bias adds."""

    members: list[Op]
    ends: list[Op]
    biases: list[Array] | None
    merged: Value | None = field(default=None)


def _free_axis(op: Op) -> int | None:
    """The axis of the weights that is the result's last dim, if it is their only dim of its own."""
    lhs, rhs, out = graph.parse_spec(str(op.attrs["spec"]))
    free = [c for c in rhs if c not in lhs]
    return rhs.index(free[0]) if len(free) == 1 and out.endswith(free[0]) else None


def find_groups(func: Func) -> list[Group]:
    """The groups of contractions that are worth merging."""
    read_by = readers(func)
    found: list[Group] = []
    for block in _blocks(func.body):
        by_operand: dict[object, list[Op]] = defaultdict(list)
        for op in block.ops:
            if op.kind is graph.contract and array_of(op.operands[1]) is not None and _free_axis(op) is not None:
                elems = op.attrs.get("elem"), tensor_of(op.operands[1]).elem
                key = (op.operands[0], standard_spec(str(op.attrs["spec"])), elems, _rest_of_shape(op))
                by_operand[key].append(op)
        groups = (_group(members, read_by) for members in by_operand.values() if len(members) > 1)
        found += [g for g in groups if g is not None]
    return found


def _blocks(block: Block) -> list[Block]:
    return [block, *(inner for op in block.ops for body in op.bodies for inner in _blocks(body))]


def _rest_of_shape(op: Op) -> tuple[object, ...]:
    axis = _free_axis(op)
    return tuple(d for i, d in enumerate(tensor_of(op.operands[1]).shape) if i != axis)


def _group(members: list[Op], read_by: Readers) -> Group | None:
    columns = sum(static(tensor_of(m.result).shape[-1]) for m in members)  # a constant's dim
    if columns > MAX_COLUMNS:
        return None
    biased = [_bias(m, read_by) for m in members]
    ends, biases = list(members), None
    if all(b is not None for b in biased):
        ends = [b[0] for b in biased if b is not None]
        biases = [b[1] for b in biased if b is not None]
    if any(_is_returned(end.result, read_by) for end in ends):
        return None
    epilogues = [epilogue_of(end.result, read_by) for end in ends]
    if any(e and not all(e & other for other in epilogues) for e in epilogues):
        return None
    return Group(members, ends, biases)


def _is_returned(v: Value, read_by: Readers) -> bool:
    """Whether a block returns `v`, perhaps in another shape: a slice of more would have to be copied."""
    return any(
        op.has(Trait.TERMINATOR) or (op.kind is graph.reshape and _is_returned(op.result, read_by))
        for op in read_by.get(v, ())
    )


def _bias(op: Op, read_by: Readers) -> tuple[Op, Array] | None:
    """The add of a constant row that is the only reader of `op`, and that row."""
    if len(read_by.get(op.result, ())) != 1:
        return None
    (reader,) = read_by[op.result]
    if reader.kind is not graph.add or reader.operands[0] != op.result:
        return None
    row = aligned(reader.operands[1])
    if row is None or any(d != 1 for d in row.shape[:-1]):
        return None
    n = static(tensor_of(op.result).shape[-1])
    return reader, np.broadcast_to(row.reshape(-1), (n,))


def epilogue_of(v: Value, read_by: Readers) -> set[Op]:
    """The elementwise ops that read `v`, directly or through each other."""
    out: set[Op] = set()
    todo = [v]
    while todo and len(out) < MAX_EPILOGUE_OPS:
        for op in read_by.get(todo.pop(), ()):
            if op.has(Trait.ELEMENTWISE) and op not in out:
                out.add(op)
                todo.append(op.result)
    return out


def _merge(group: Group, x: Value) -> Value:
    """The contraction with all weights, and all biases."""
    first = group.members[0]
    axis = _free_axis(first)
    assert axis is not None
    weights = [array_of(m.operands[1]) for m in group.members]
    joined = np.concatenate([w for w in weights if w is not None], axis)
    merged = remade(first, x, constant(joined, first))
    if group.biases is None:
        return merged.result
    bias = constant(np.concatenate(group.biases), first)
    row = graph.broadcast(bias, shape=tensor_of(merged.result).shape, loc=first.loc)
    return graph.add(merged, row, loc=first.loc).result


@passing("graph")
def merge_contractions(func: Func) -> Func:
    """Merge contractions of one value with constant weights."""
    groups = find_groups(func)
    role: dict[Op, tuple[Group, int]] = {end: (g, i) for g in groups for i, end in enumerate(g.ends)}
    starts = {m: g for g in groups for m in g.members[:1]}

    def visit(old: Op, new: Op) -> Replacement | None:
        if old in starts:
            group = starts[old]
            group.merged = _merge(group, new.operands[0])
        if old not in role:
            return None
        group, i = role[old]
        assert group.merged is not None
        widths = [static(tensor_of(m.result).shape[-1]) for m in group.members]
        part = sliced(group.merged, tensor_of(group.merged).rank - 1, sum(widths[:i]), widths[i])
        assert part.op is not None
        return part.op

    return dead_code(rebuild(func, visit_pair=visit)) if groups else func
