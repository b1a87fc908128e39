"""Places in sorted lines, and what is counted or moved by place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from graphfuse.dialects import graph
from graphfuse.dialects.graph import ELEMENTWISE
from graphfuse.frontends.emit import elem_of, shape_of
from graphfuse.frontends.fx.lowering import Call, Operand, lowers
from graphfuse.ir.core import Value
from graphfuse.ir.types import BOOL, F32, F64, I64
from graphfuse.symbolic import Dim

aten = torch.ops.aten
MOST_ASKED = 128
"""Of more elements torch sorts them all, which is faster."""


@lowers(aten.bucketize.Tensor, aten.bucketize.Scalar)
def bucketize(c: Call, self: Operand, boundaries: Value, out_int32: bool = False, right: bool = False) -> Value:
    return searchsorted(c, boundaries, self, out_int32, right)


@lowers(aten.searchsorted.Tensor, aten.searchsorted.Scalar)
def searchsorted(
    c: Call, sorted_sequence: Value, self: Operand, out_int32: bool = False, right: bool = False,
    side: str | None = None, sorter: Value | None = None,
) -> Value:  # fmt: skip
    """How many elements of a line are before a number, by halves: as many steps as the length has bits."""
    e, line = c.e, sorted_sequence
    right = side == "right" if side is not None else right
    values = c.value(self, c.common(line, self), c.shape)
    line = e.cast(line, elem_of(values))
    rank, size = len(shape_of(line)), shape_of(line)[-1]
    c.want(isinstance(size, int), "the length of the sorted line is not known")
    assert isinstance(size, int)
    if sorter is not None:
        c.want(elem_of(sorter) == I64, "its sorter is not of i64")
        line = e(graph.take_along, line, e.cast(sorter, I64), axis=rank - 1)
    c.want(elem_of(line) != BOOL, "it searches bool")
    place = e.full(c.shape, I64, 0)
    for step in reversed(range(size.bit_length())):
        ahead = e.map(graph.add, place, 1 << step)
        at = e.map(graph.min_, e.map(graph.sub, ahead, 1), size - 1)
        seen = e(graph.take, line, at, axis=0) if rank == 1 else e(graph.take_along, line, at, axis=rank - 1)
        # NaN is behind all
        is_before = e(graph.not_, e(graph.gt if right else graph.ge, seen, values))
        is_before = e(graph.and_, is_before, e.map(graph.le, ahead, size))
        place = e(graph.select, is_before, ahead, place)
    return e.cast(place, c.elem)


@lowers(aten.isin.Tensor_Tensor)
def isin(c: Call, elements: Value, test_elements: Value, assume_unique: bool = False, invert: bool = False) -> Value:
    """Each element is compared with all that are asked for, which are few."""
    e, asked = c.e, c.e.flatten(test_elements)
    count = shape_of(asked)[0]
    c.want(isinstance(count, int) and count <= MOST_ASKED, f"it looks for more than {MOST_ASKED} elements")
    elem = c.common(elements, asked)
    equal = e.map(graph.eq, e.unsqueeze(e.cast(elements, elem), -1), e.cast(asked, elem))
    found = e.reduce(equal, "any", (len(c.shape),), keepdims=False)
    return e(graph.not_, found) if invert else found


@lowers(aten.histc.default)
def histc(c: Call, self: Value, bins: int = 100, min: Any = 0, max: Any = 0) -> Value:
    """How many elements are in each of so many equal parts of a range."""
    e = c.e
    c.want(c.elem in (F32, F64), "counts of halves and integers")
    c.want(isinstance(bins, int) and shape_of(e.flatten(self)) != (0,), "it has no elements, or the bins are no number")
    x, low, high = e.flatten(self), c.number(min), c.number(max)
    c.want(low != high, "its range is that of the elements: torch raises where that is not finite")
    inside = e(graph.and_, e.map(graph.ge, x, low), e.map(graph.le, x, high))
    part = e.map(graph.div, e.map(graph.mul, e.map(graph.sub, x, low), float(bins)), high - low)
    place = e.map(graph.min_, e.cast(e(ELEMENTWISE["trunc"], e.select(inside, part, 0.0)), I64), bins - 1)
    ones = e.cast(inside, c.elem)
    return e(graph.scatter_nd, e.full(c.shape, c.elem, 0.0), e.unsqueeze(place, -1), ones, kind="add")


# elements that a mask chooses, one after the other


def _compacted(c: Call, values: Value, chosen: Value, size: Dim, rest: float) -> Value:
    """The first `size` of the chosen elements of a line, then `rest`."""
    e, lines = c.e, shape_of(values)
    place = e.map(graph.sub, e(graph.cumulate, e.cast(chosen, I64), axis=0, kind="sum"), 1)
    end = e.full(lines, I64, size)
    place = e(graph.select, e(graph.and_, chosen, e(graph.lt, place, end)), place, end)
    # what is not wanted is written behind the end
    out = e.full((size + 1,), elem_of(values), rest)
    out = e(graph.scatter_nd, out, e.unsqueeze(place, -1), values, kind="set")
    return e.slice(out, 0, 0, size)


@lowers(aten.masked_scatter_backward.default)
def masked_scatter_backward(c: Call, grad_output: Value, mask: Value, sizes: Sequence[Dim]) -> Value:
    e, shape = c.e, shape_of(grad_output)
    c.want(0 not in shape, "it has no elements")
    chosen = e.flatten(e.broadcast(c.truth(mask), shape))
    return e.reshape(_compacted(c, e.flatten(grad_output), chosen, math.prod(c.shape, start=1), 0.0), c.shape)


@lowers(aten.nonzero_static.default)
def nonzero_static(c: Call, self: Value, size: Dim, fill_value: int = -1) -> Value:
    e, shape = c.e, shape_of(self)
    if not shape or 0 in shape:
        return e.full(c.shape, I64, fill_value)
    chosen = e.flatten(c.truth(self))
    found = _compacted(c, e.iota(shape_of(chosen), 0), chosen, size, -1)
    columns: list[Value] = []
    rest = found
    for d in reversed(shape):
        extent = e.full(shape_of(rest), I64, d)
        columns.append(e.select(e.map(graph.lt, found, 0), fill_value, e(graph.floormod, rest, extent)))
        rest = e(graph.floordiv_, rest, extent)
    return e.concat([e.unsqueeze(x, -1) for x in reversed(columns)], 1)
