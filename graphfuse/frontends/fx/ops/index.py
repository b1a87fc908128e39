"""Data-dependent reading: gathers and selections.

Indices that torch counts from the end are counted so by graph ops too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from graphfuse.dialects import graph
from graphfuse.frontends.emit import elem_of, shape_of
from graphfuse.frontends.fx.lowering import Call, lowers
from graphfuse.ir.core import Value
from graphfuse.ir.types import BOOL, I64, Scalar
from graphfuse.symbolic import Dim

aten = torch.ops.aten
MOST_SELECTED = 64
"""On a CPU; with more torch, which sorts, is faster."""
MOST_KEPT, SORTED_BYTES = 2048, 64 << 10
"""On a GPU a block of threads keeps so many elements of any line in order, or a line of so many bytes of keys."""


@lowers(aten.embedding.default)
def embedding(c: Call, weight: Value, indices: Value, **_: Any) -> Value:
    return c.e(graph.take, weight, c.indices(indices, shape_of(weight)[0]), axis=0)


@lowers(aten.index_select.default)
def index_select(c: Call, self: Value, axis: int, index: Value) -> Value:
    return c.e(graph.take, self, c.indices(index, shape_of(self)[axis]), axis=axis)


@lowers(aten.take.default)
def take(c: Call, self: Value, index: Value) -> Value:
    flat = c.e.flatten(self)
    return c.e(graph.take, flat, c.indices(index, shape_of(flat)[0], from_end=True), axis=0)


@lowers(aten.gather.default)
def gather(c: Call, self: Value, axis: int, index: Value, sparse_grad: bool = False) -> Value:
    return c.e(graph.take_along, self, c.indices(index, shape_of(self)[axis]), axis=axis)


# by several indices


@lowers(aten.index.Tensor, trusted=False)
@lowers(aten._unsafe_index.Tensor, trusted=True)
def index(c: Call, self: Value, indices: Sequence[Value | None], *, trusted: bool) -> Value:
    e = c.e
    places, rest, before = places_of(c, self, indices)
    if len(places) == 1:
        (axis,), (at,) = places, [i for i in indices if i is not None]
        at = c.indices(at, shape_of(self)[axis], from_end=True, trusted=trusted)
        return e(graph.take, self, at, axis=axis)
    shape, at = joined(c, self, indices, trusted=trusted)
    got = e(graph.gather_nd, e.permute(self, [*places, *rest]), at)
    lead = len(shape)
    # what was in front of the indexed dims goes there again
    order = [*range(lead, lead + before), *range(lead), *range(lead + before, lead + len(rest))]
    return e.permute(got, order)


def places_of(c: Call, x: Value, indices: Sequence[Value | None]) -> tuple[list[int], list[int], int]:
    """The dims of x that have an index, the others, and how many of those stay in front."""
    places = [i for i, index in enumerate(indices) if index is not None]
    c.want(bool(places), "it has no index")
    rest = [i for i in range(len(shape_of(x))) if i not in places]
    are_adjacent = places == list(range(places[0], places[-1] + 1))
    return places, rest, sum(i < places[0] for i in rest) if are_adjacent else 0


def joined(c: Call, x: Value, indices: Sequence[Value | None], *, trusted: bool) -> tuple[tuple[Dim, ...], Value]:
    """The shape that indices into x broadcast to, and all of them as one tensor whose last dim is a place."""
    e, given = c.e, zip(indices, shape_of(x), strict=False)
    parts = [e.cast(c.indices(i, size, from_end=True, trusted=trusted), I64) for i, size in given if i is not None]
    shape = e.broadcast_shape(*(shape_of(p) for p in parts))
    return shape, e.concat([e.unsqueeze(e.broadcast(p, shape), -1) for p in parts], len(shape))


# selections


def sorted_at_once(elem: Scalar) -> int:
    """Elements of a line that a GPU's block of threads sorts: as many as it holds with their places."""
    return SORTED_BYTES // max(4, 2 * elem.bytes)


@lowers(aten.topk.default)
def topk(c: Call, self: Value, k: Dim, axis: int, largest: bool = True, sorted: bool = True) -> Sequence[Value]:
    size = shape_of(self)[axis]
    most = MOST_SELECTED
    if not c.on_cpu:
        held = sorted_at_once(elem_of(self))
        most = held if isinstance(size, int) and size <= held else MOST_KEPT
    c.want(isinstance(k, int) and k <= most, f"it selects more than {most} elements of a line")
    c.want(elem_of(self) != BOOL, "a selection of bool")
    return c.e.op(graph.topk, self, k=k, axis=axis, largest=largest).results


@lowers(aten.sort.default, aten.sort.stable)
def sort(c: Call, self: Value, axis: int, descending: bool = False, stable: Any = None) -> Sequence[Value]:
    return topk(c, self, shape_of(self)[axis], axis, descending)
