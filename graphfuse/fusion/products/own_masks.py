"""Gives every attention masks of its own that are cheaper to compute than to read.

    %m = graph.and(%causal, %padding) : tensor<4x1x512x512xbool>     // a constant, and 4 x 512 bools, both broadcast
    %n = graph.select(%m, %zero, %none) : tensor<4x1x512x512xf32>    // read by the attention of every layer

is made again for each attention that reads it, from the vector and, where the constant is a triangle or a band, from
indices: `le(key, query)`. The kernel then knows which keys a query does not see at all. Of a mask that comes from a
matrix in memory, what makes it twice as large or larger is made again: its copies for every head, f32 of halves.

Requires: nothing runs after it that finds equal values or folds constants. Ensures: the same values. Cost: one walk for
each attention.
"""

from __future__ import annotations

import math

import numpy as np

from graphfuse.dialects import graph
from graphfuse.fusion.regions.attention import CHEAP, Attention, find_attention
from graphfuse.fusion.regions.dataflow import Dataflow
from graphfuse.fusion.simplify.fold_constants import Array, array_of
from graphfuse.ir.core import Func, Op, Trait, Value, remade, tensor_of
from graphfuse.ir.passes import passing
from graphfuse.ir.rewrite import Replacement, dead_code, rebuild
from graphfuse.ir.types import I64, Tensor
from graphfuse.symbolic import Dim, Ranges, is_at_most

MOST_OPS = 8
"""Elementwise ops that are made again."""


@passing("graph")
def own_masks(func: Func) -> Func:
    """Copies of cheap masks for every attention of the function's body."""
    found = find_attention(Dataflow(func.body))
    if not found:
        return func
    owner = {op: a for a in found for op in a.between}
    inside = {op.result for a in found for op in (a.scores, *a.between)}

    def visit(old: Op, new: Op) -> Replacement | None:
        attention = owner.get(old)
        if attention is None or not old.has(Trait.ELEMENTWISE):
            return None
        plane = _plane(attention)
        operands = [
            now if before in inside else _copied(now, plane, func.ranges)
            for before, now in zip(old.operands, new.operands, strict=True)
        ]
        return None if tuple(operands) == new.operands else remade(new, *operands)

    return dead_code(rebuild(func, visit_pair=visit))


def _plane(attention: Attention) -> tuple[Dim, ...]:
    return tensor_of(attention.scores.result).shape[-2:]


def _copied(value: Value, plane: tuple[Dim, ...], ranges: Ranges) -> Value:
    """The value made of new ops; itself if that would read as much as it is."""
    copy = _Copy(plane, ranges)
    new, _ = copy.value(value)
    return new if copy.count <= MOST_OPS else value


class _Copy:
    """One mask: `plane` is the extent of queries and keys."""

    def __init__(self, plane: tuple[Dim, ...], ranges: Ranges) -> None:
        self.plane, self.ranges = plane, ranges
        self.count = 0
        self._made: dict[Value, tuple[Value, Dim]] = {}

    def value(self, v: Value) -> tuple[Value, Dim]:
        """`v` again, or itself, and the bytes of matrices that are read for it."""
        if v not in self._made:
            made = self._make(v)
            is_worth_it = made is not None and is_at_most(2 * made[1], tensor_of(v).nbytes, self.ranges)
            self._made[v] = made if made is not None and is_worth_it else (v, tensor_of(v).nbytes)
        return self._made[v]

    def _make(self, v: Value) -> tuple[Value, Dim] | None:
        op = v.op
        if op is not None and op.kind in (graph.full, graph.iota):
            return v, 0
        if op is not None and op.has(Trait.MOVEMENT) and len(op.operands) == 1 and op.kind is not graph.pad:
            inner, read = self.value(op.operands[0])
            return op.kind.build([inner], op.attrs, loc=op.loc).result, read
        if not self._is_large(v):
            return v, 0
        array = array_of(v)
        if array is not None:
            found = by_indices(array, v.type)
            return None if found is None else (found, 0)
        if op is None or op.kind not in CHEAP:
            return None
        self.count += 1
        operands = [self.value(o) for o in op.operands]
        read: Dim = sum((n for _, n in operands), 0)
        return op.kind.build([o for o, _ in operands], op.attrs, loc=op.loc).result, read

    def _is_large(self, v: Value) -> bool:
        """Whether it differs from query to query and from key to key."""
        shape = tensor_of(v).shape
        return len(shape) >= 2 and shape[-2:] == self.plane


def by_indices(array: Array, type_: object) -> Value | None:
    """A matrix of bools, or of 0 and one other number, as comparisons of its row and column; None if it is no band."""
    assert isinstance(type_, Tensor)
    if array.ndim < 2 or math.prod(array.shape[:-2]) != 1 or array.size == 0:
        return None
    matrix = array.reshape(array.shape[-2:])
    other: float | None = None
    if matrix.dtype != np.bool_:
        numbers = np.unique(matrix[matrix != 0])
        if len(numbers) != 1 or np.isnan(numbers[0]):
            return None
        other, matrix = float(numbers[0]), matrix == 0
    rows, columns = np.nonzero(matrix)
    if len(rows) == 0:
        return None
    ahead = columns - rows
    low, high = int(ahead.min()), int(ahead.max())
    i, j = np.ogrid[: matrix.shape[0], : matrix.shape[1]]
    if not np.array_equal(matrix, (j - i >= low) & (j - i <= high)):
        return None
    shape = tuple(array.shape)
    row, column = (graph.iota(shape=shape, elem=I64, axis=axis).result for axis in (len(shape) - 2, len(shape) - 1))
    tests: list[Value] = []
    for kind, by, edge in ((graph.le, high, matrix.shape[1] - 1), (graph.ge, low, 1 - matrix.shape[0])):
        if by == edge:  # no pair is beyond it
            continue
        moved = row if by == 0 else graph.add(row, graph.full(value=by, shape=shape, elem=I64)).result
        tests.append(kind(column, moved).result)
    seen = graph.full(value=True, shape=shape, elem=type_.elem).result if not tests and other is None else None
    if tests:
        seen = tests[0] if len(tests) == 1 else graph.and_(*tests).result
    if other is None or seen is None:
        return seen
    zero, none = (graph.full(value=x, shape=shape, elem=type_.elem) for x in (0.0, other))
    return graph.select(seen, zero, none).result
