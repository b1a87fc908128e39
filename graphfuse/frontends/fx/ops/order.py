"""Elements of lines by their rank: the k-th, the median; and the most frequent one.

On a CPU every element of a short line is compared with every other. On a GPU lines are sorted, and where they are too
long for that, an element is found digit by digit: elements are counted by their next digit, of those that begin as it
does.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from graphfuse.dialects import graph
from graphfuse.dialects.graph import ELEMENTWISE
from graphfuse.frontends.emit import elem_of, shape_of
from graphfuse.frontends.fx.lowering import Call, lowers
from graphfuse.frontends.fx.ops.index import sorted_at_once
from graphfuse.ir.core import Value
from graphfuse.ir.types import BOOL, I32, I64, Scalar
from graphfuse.symbolic import product, static

aten = torch.ops.aten
LONGEST = 32
"""Elements of a line that are compared with each other."""
DIGIT = 8
"""Bits of a digit."""
MOST_COUNTS = 8192
"""Of all lines together: so many fit into the memory of a block of threads."""


class _Line:
    """Pairs of elements along the last dim, [..., i, j]."""

    def __init__(self, c: Call, x: Value, axis: int) -> None:
        self.c, self.e = c, c.e
        size = shape_of(x)[axis]
        most = LONGEST if c.on_cpu else 1 << 30
        c.want(isinstance(size, int) and 0 < size <= most, f"lines of more than {most} elements, or of none")
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

    def at(self, rank: Value | int) -> Sequence[Value]:
        """The element of each line before which there are so many, and where it is."""
        c, e, axis = self.c, self.e, self.axis
        if c.on_cpu:
            return self.first(e.map(graph.eq, self.ranks(), rank))
        if self.size > sorted_at_once(elem_of(self.x)):
            return self.first(_Digits(c, self.x).equal(rank))
        end = rank + 1 if isinstance(rank, int) else self.size
        found = e.op(graph.topk, self.x, k=end, axis=axis, largest=False).results
        if isinstance(rank, int):
            return [e.reshape(e.slice(v, axis, rank, 1), c.shape) for v in found]
        rank = e.cast(rank, I64)
        return [e.reshape(e(graph.take_along, v, rank, axis=axis), c.shape) for v in found]

    def first(self, chosen: Value) -> Sequence[Value]:
        """The first element of each line that is chosen, and where it is."""
        e, axis = self.e, self.axis
        place = e.reduce(e.select(chosen, e.iota(shape_of(self.x), axis), self.size - 1), "min", (axis,))
        found = e(graph.take_along, self.x, place, axis=axis)
        return [e.reshape(v, self.c.shape) for v in (found, place)]


class _Digits:
    """Elements of lines as integers in their order, digit by digit."""

    def __init__(self, c: Call, x: Value) -> None:
        self.e, elem = c.e, elem_of(x)
        *outer, self.size = shape_of(x)
        self.shape, self.lines = shape_of(x), static(product(outer)) if all(isinstance(d, int) for d in outer) else 0
        fits = 0 < self.lines << DIGIT <= MOST_COUNTS
        most = f"{MOST_COUNTS >> DIGIT} lines of more than {sorted_at_once(elem)} elements"
        c.want(fits, f"more than {most}, or it is not known how many")
        self.bits = elem.bits
        self.keys = c.e.reshape(self._ordered(x), (self.lines, self.size))

    def equal(self, rank: Value | int) -> Value:
        """Where elements equal the one before which there are so many in each line."""
        e, elem = self.e, elem_of(self.keys)
        lines = (self.lines, 1)
        rank = e.full(lines, I32, rank) if isinstance(rank, int) else e.cast(e.reshape(rank, lines), I32)
        digits = 1 << DIGIT
        start = e.full((self.lines * digits,), I32, 0)
        offset = e.map(graph.mul, e.iota((self.lines, self.size), 0), digits)
        prefix: Value | None = None
        for low in reversed(range(0, self.bits, DIGIT)):
            digit = self._do("and", self._do("shr", self.keys, low), digits - 1)
            begins = e.full(shape_of(digit), BOOL, True) if prefix is None else self._begins(prefix, low + DIGIT)
            place = e.unsqueeze(e.map(graph.add, offset, e.cast(digit, I64)), -1)
            counts = e.reshape(e(graph.scatter_nd, start, place, e.cast(begins, I32), kind="add"), (self.lines, digits))
            upto = e(graph.cumulate, counts, axis=1, kind="sum")
            is_before = e.map(graph.le, upto, rank)
            before = e.reduce(e.select(is_before, upto, 0), "max", (1,))
            digit = e.cast(e.reduce(e.cast(is_before, I32), "sum", (1,)), elem)
            rank = e.map(graph.sub, rank, before)
            prefix = digit if prefix is None else self._do("or", self._do("shl", prefix, DIGIT), digit)
        assert prefix is not None
        return e.reshape(self._begins(prefix, 0), self.shape)

    def _begins(self, prefix: Value, low: int) -> Value:
        """Whether what is above some bits is a prefix."""
        above = self._do("shr", self.keys, low) if low else self.keys
        if low or self.bits < elem_of(self.keys).bits:
            above = self._do("and", above, (1 << self.bits - low) - 1)
        return self.e.map(graph.eq, above, prefix)

    def _do(self, name: str, x: Value, y: Value | int) -> Value:
        return self.e.map(ELEMENTWISE[name], x, y)

    def _ordered(self, x: Value) -> Value:
        """Integers of as many bits, the least 0 if they were unsigned; equal zeros, and NaN behind all."""
        e, elem = self.e, elem_of(x)
        wide = I64 if elem.bits == 64 else I32
        middle = 1 << self.bits - 1
        if not elem.is_float:
            key = e.cast(x, wide)
            return self._turned(key, middle) if elem.is_signed else key
        key = e.cast(e(graph.bitcast, x, to=Scalar(f"i{elem.bits}")), wide)
        falling = e.select(e.map(graph.eq, key, -middle), 0, self._do("xor", key, middle - 1))
        key = e.select(e.map(graph.lt, key, 0), falling, key)
        return self._turned(e.select(e(graph.isnan, x), middle - 1, key), middle)

    def _turned(self, key: Value, middle: int) -> Value:
        """Signed as unsigned."""
        return self._do("xor", key, -middle) if self.bits == elem_of(key).bits else self._do("add", key, middle)


@lowers(aten.kthvalue.default)
def kthvalue(c: Call, self: Value, k: int, axis: int, keepdim: bool = False) -> Sequence[Value]:
    c.want(isinstance(k, int), "which one is known only when it runs")
    return _Line(c, self, axis).at(k - 1)


@lowers(aten.median.dim, ignores_nan=False)
@lowers(aten.nanmedian.dim, ignores_nan=True)
def median_dim(c: Call, self: Value, axis: int, keepdim: bool = False, *, ignores_nan: bool) -> Sequence[Value]:
    """The lower of two in the middle, and where it is. NaN wins unless it is ignored."""
    e, line = c.e, _Line(c, self, axis)
    if not elem_of(self).is_float:
        return line.at((line.size - 1) // 2)
    is_number = e.cast(e(graph.not_, e(graph.isnan, line.x)), I32)
    numbers = e.reduce(is_number, "sum", (line.axis,))
    middle = e.map(graph.max_, e.map(graph.floordiv_, e.map(graph.sub, numbers, 1), 2), 0)
    if not ignores_nan:  # the first NaN
        middle = e.select(e.map(graph.lt, numbers, line.size), numbers, middle)
    return line.at(middle)


@lowers(aten.median.default, ignores_nan=False)
@lowers(aten.nanmedian.default, ignores_nan=True)
def median(c: Call, self: Value, *, ignores_nan: bool) -> Value:
    return median_dim(c, c.e.flatten(self), 0, ignores_nan=ignores_nan)[0]


@lowers(aten.mode.default)
def mode(c: Call, self: Value, axis: int, keepdim: bool = False) -> Sequence[Value]:
    """The most frequent element, of several the smallest, and where it is last."""
    e, line = c.e, _Line(c, self, axis)
    c.want(line.size <= LONGEST, f"lines of more than {LONGEST} elements")
    axis = line.axis
    counts = line.count(e(graph.eq, line.other, line.here))
    is_most = e.map(graph.eq, counts, e.reduce(counts, "max", (axis,)))
    ranks = e.select(is_most, line.ranks(), line.size)
    smallest = e.map(graph.eq, ranks, e.reduce(ranks, "min", (axis,)))
    found, _ = line.first(smallest)
    equal = e.map(graph.eq, line.x, e.reshape(found, (*shape_of(line.x)[:-1], 1)))
    last = e.reduce(e.select(equal, e.iota(shape_of(line.x), axis), 0), "max", (axis,))
    return found, e.reshape(last, c.shape)
