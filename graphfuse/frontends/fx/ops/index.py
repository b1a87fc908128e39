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
from graphfuse.ir.types import BOOL, I64
from graphfuse.symbolic import Dim

aten = torch.ops.aten
MOST_SELECTED = 64
"""Selections take time for each line and each element that is kept; longer ones are torch's."""


@lowers(aten.embedding.default)
def embedding(c: Call, weight: Value, indices: Value, **_: Any) -> Value:
    return c.e(graph.take, weight, c.e.indices(indices), axis=0)


@lowers(aten.index_select.default)
def index_select(c: Call, self: Value, dim: int, index: Value) -> Value:
    if not shape_of(self):
        return self
    at = integers(c, index)
    taken = c.e(graph.take, self, c.e.flatten(at), axis=dim % len(shape_of(self)))
    return c.e.reshape(taken, c.shape)


@lowers(aten.take.default)
def take(c: Call, self: Value, index: Value) -> Value:
    return c.e(graph.take, c.e.flatten(self), integers(c, index), axis=0)


def integers(c: Call, x: Value) -> Value:
    """Indices as i32 or i64; masks are none."""
    c.want(elem_of(x).is_integer and elem_of(x).bits > 8, "its indices are a mask")
    return c.e.indices(x)


@lowers(aten.gather.default)
def gather(c: Call, self: Value, dim: int, index: Value, sparse_grad: bool = False) -> Value:
    e = c.e
    if not shape_of(self) or not shape_of(index):
        return e.reshape(e(graph.take, e.flatten(self), e.flatten(e.indices(index)), axis=0), c.shape)
    return e(graph.take_along, self, e.indices(index), axis=dim % len(shape_of(self)))


# by several indices


@lowers(aten.index.Tensor, aten._unsafe_index.Tensor)
def index(c: Call, self: Value, indices: Sequence[Value | None]) -> Value:
    e = c.e
    places = places_of(c, indices)
    if len(places) == 1:
        (axis,) = places
        return e(graph.take, self, integers(c, indices[axis]), axis=axis)
    shape, at = joined(c, [indices[i] for i in places])
    rest = [i for i in range(len(shape_of(self))) if i not in places]
    got = e(graph.gather_nd, e.permute(self, [*places, *rest]), at)
    lead = len(shape)
    before = sum(i < places[0] for i in rest) if adjacent(places) else 0
    # what was in front of the indexed dims goes there again
    order = [*range(lead, lead + before), *range(lead), *range(lead + before, lead + len(rest))]
    return e.permute(got, order)


def places_of(c: Call, indices: Sequence[Value | None]) -> list[int]:
    """The dims that have an index."""
    places = [i for i, x in enumerate(indices) if x is not None]
    c.want(bool(places), "it has no index")
    return places


def adjacent(places: Sequence[int]) -> bool:
    """Whether dims follow one another."""
    return list(places) == list(range(places[0], places[-1] + 1))


def joined(c: Call, indices: Sequence[Any]) -> tuple[tuple[Dim, ...], Value]:
    """The shape the indices broadcast to, and all of them as one tensor whose last dim is a place."""
    e = c.e
    parts = [e.cast(integers(c, i), I64) for i in indices]
    shape = e.broadcast_shape(*(shape_of(p) for p in parts))
    return shape, e.concat([e.unsqueeze(e.broadcast(p, shape), -1) for p in parts], len(shape))


# selections


@lowers(aten.topk.default)
def topk(c: Call, self: Value, k: Dim, dim: int = -1, largest: bool = True, sorted: bool = True) -> Sequence[Value]:
    return _selected(c, self, k, dim, largest)


@lowers(aten.sort.default)
def sort(c: Call, self: Value, dim: int = -1, descending: bool = False) -> Sequence[Value]:
    return _selected(c, self, shape_of(self)[dim] if shape_of(self) else 1, dim, descending)


@lowers(aten.sort.stable)
def sort_stable(c: Call, self: Value, stable: Any = None, dim: int = -1, descending: bool = False) -> Sequence[Value]:
    return sort(c, self, dim, descending)


def _selected(c: Call, x: Value, k: Dim, dim: int, largest: bool) -> Sequence[Value]:
    c.want(isinstance(k, int) and k <= MOST_SELECTED, f"it selects more than {MOST_SELECTED} elements of a line")
    c.want(elem_of(x) != BOOL, "a selection of bool")
    if not shape_of(x):
        return x, c.e.full((), I64, 0)
    rank = len(shape_of(x))
    op = c.e.op(graph.topk, x, k=k, axis=dim % rank, largest=largest)
    return op.results
