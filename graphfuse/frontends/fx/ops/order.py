"""Elements of lines by their rank: the k-th, the median; and the most frequent one.

Every element of a line is compared with every other, which is faster than sorting while lines are short.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from graphfuse.dialects import graph
from graphfuse.frontends.emit import elem_of, shape_of
from graphfuse.frontends.fx.lowering import Call, lowers
from graphfuse.ir.core import Value
from graphfuse.ir.types import BOOL, I32
from graphfuse.symbolic import static

aten = torch.ops.aten
LONGEST = 32
"""Longer lines are torch's, which sorts them."""


class _Line:
    """Pairs of elements along the last dim, [..., i, j]."""

    def __init__(self, c: Call, x: Value, axis: int) -> None:
        self.c, self.e = c, c.e
        size = shape_of(x)[axis]
        c.want(isinstance(size, int) and 0 < size <= LONGEST, f"lines of more than {LONGEST} elements, or of none")
        c.want(elem_of(x) != BOOL, "an order of bool")
        self.size, self.x, self.axis = static(size), c.e.move_axis(x, axis, -1), len(shape_of(x)) - 1
        pairs = (*shape_of(self.x), size)
        self.here = c.e.broadcast(c.e.unsqueeze(self.x, -1), pairs)
        self.other = c.e.broadcast(c.e.unsqueeze(self.x, -2), pairs)

    def count(self, condition: Value) -> Value:
        """For how many j it holds."""
        return self.e.reduce(self.e.cast(condition, I32), "sum", (len(shape_of(condition)) - 1,), keepdims=False)

    def ranks(self) -> Value:
        """How many elements come before each: smaller ones, equal ones further in front; NaN is behind all."""
        e, pairs = self.e, shape_of(self.here)
        before, equal = e(graph.lt, self.other, self.here), e(graph.eq, self.other, self.here)
        if elem_of(self.x).is_float:
            here, other = e(graph.isnan, self.here), e(graph.isnan, self.other)
            before = e(graph.or_, before, e(graph.and_, here, e(graph.not_, other)))
            equal = e(graph.or_, equal, e(graph.and_, here, other))
        rank = len(pairs)
        in_front = e(graph.lt, e.iota(pairs, rank - 1, I32), e.iota(pairs, rank - 2, I32))
        return self.count(e(graph.or_, before, e(graph.and_, equal, in_front)))

    def first(self, chosen: Value) -> Sequence[Value]:
        """The first element of each line that is chosen, and where it is."""
        e, axis = self.e, self.axis
        place = e.reduce(e.select(chosen, e.iota(shape_of(self.x), axis), self.size - 1), "min", (axis,))
        found = e(graph.take_along, self.x, place, axis=axis)
        return [e.reshape(v, self.c.shape) for v in (found, place)]


@lowers(aten.kthvalue.default)
def kthvalue(c: Call, self: Value, k: int, axis: int, keepdim: bool = False) -> Sequence[Value]:
    c.want(isinstance(k, int), "which one is known only when it runs")
    line = _Line(c, self, axis)
    return line.first(c.e.map(graph.eq, line.ranks(), k - 1))


@lowers(aten.median.dim, ignores_nan=False)
@lowers(aten.nanmedian.dim, ignores_nan=True)
def median_dim(c: Call, self: Value, axis: int, keepdim: bool = False, *, ignores_nan: bool) -> Sequence[Value]:
    """The lower of two in the middle, and where it is. NaN wins unless it is ignored."""
    e, line = c.e, _Line(c, self, axis)
    if not elem_of(self).is_float:
        return line.first(e.map(graph.eq, line.ranks(), (line.size - 1) // 2))
    is_number = e.cast(e(graph.not_, e(graph.isnan, line.x)), I32)
    numbers = e.reduce(is_number, "sum", (line.axis,))
    middle = e.map(graph.max_, e.map(graph.floordiv_, e.map(graph.sub, numbers, 1), 2), 0)
    if not ignores_nan:  # the first NaN
        middle = e.select(e.map(graph.lt, numbers, line.size), numbers, middle)
    return line.first(e.map(graph.eq, line.ranks(), middle))


@lowers(aten.median.default, ignores_nan=False)
@lowers(aten.nanmedian.default, ignores_nan=True)
def median(c: Call, self: Value, *, ignores_nan: bool) -> Value:
    return median_dim(c, c.e.flatten(self), 0, ignores_nan=ignores_nan)[0]


@lowers(aten.mode.default)
def mode(c: Call, self: Value, axis: int, keepdim: bool = False) -> Sequence[Value]:
    """The most frequent element, of several the smallest, and where it is last."""
    e, line = c.e, _Line(c, self, axis)
    axis = line.axis
    counts = line.count(e(graph.eq, line.other, line.here))
    is_most = e.map(graph.eq, counts, e.reduce(counts, "max", (axis,)))
    ranks = e.select(is_most, line.ranks(), line.size)
    smallest = e.map(graph.eq, ranks, e.reduce(ranks, "min", (axis,)))
    found, _ = line.first(smallest)
    equal = e.map(graph.eq, line.x, e.reshape(found, (*shape_of(line.x)[:-1], 1)))
    last = e.reduce(e.select(equal, e.iota(shape_of(line.x), axis), 0), "max", (axis,))
    return found, e.reshape(last, c.shape)
