"""Data-dependent indexing: gathers, scatters, selections.

Indices that torch counts from the end are counted so by graph ops too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from graphfuse.dialects import graph
from graphfuse.frontends.emit import elem_of, shape_of
from graphfuse.frontends.fx.lowering import Call, Number, Operand, lowers
from graphfuse.ir.core import Value
from graphfuse.ir.types import BOOL, I64
from graphfuse.symbolic import Dim

aten = torch.ops.aten
MOST_SELECTED = 64
"""Selections take time for each line and each element that is kept; longer ones are torch's."""
KINDS = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min", "add": "add", "multiply": "mul"}


@lowers(aten.embedding.default)
def embedding(c: Call, weight: Value, indices: Value, **_: Any) -> Value:
    return c.e(graph.take, weight, c.e.indices(indices), axis=0)


@lowers(aten.embedding_dense_backward.default)
def embedding_dense_backward(
    c: Call, grad_output: Value, indices: Value, num_weights: Dim, padding_idx: int, scale_grad_by_freq: bool
) -> Value:
    c.want(not scale_grad_by_freq, "it scales by how often an index occurs")
    e = c.e
    at, width = e.flatten(e.indices(indices)), c.shape[1]
    updates = e.reshape(grad_output, (shape_of(at)[0], width))
    if padding_idx >= 0:
        is_padding = e.reshape(e.map(graph.eq, at, padding_idx), (shape_of(at)[0], 1))
        updates = e.select(is_padding, 0.0, updates)
    return _combined(c, e.full(c.shape, c.elem, 0), e.unsqueeze(at, -1), updates, "add")


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


@lowers(aten.scatter.src, aten.scatter.value)
def scatter(c: Call, self: Value, dim: int, index: Value, src: Operand = 0, value: Operand = 0) -> Value:
    return _scattered(c, self, dim, index, src if isinstance(src, Value) else value, "set")


@lowers(aten.scatter_add.default)
def scatter_add(c: Call, self: Value, dim: int, index: Value, src: Value) -> Value:
    return _scattered(c, self, dim, index, src, "add")


@lowers(aten.scatter.reduce, aten.scatter.value_reduce)
def scatter_with(
    c: Call, self: Value, dim: int, index: Value, src: Operand = 0, value: Operand = 0, reduce: str = ""
) -> Value:
    return _scattered(c, self, dim, index, src if isinstance(src, Value) else value, KINDS[reduce])


@lowers(aten.scatter_reduce.two)
def scatter_reduce(
    c: Call, self: Value, dim: int, index: Value, src: Value, reduce: str, include_self: bool = True
) -> Value:
    c.want(include_self, "it leaves out what was there")
    c.want(reduce in KINDS, f"no kernel scatters by {reduce}")
    return _scattered(c, self, dim, index, src, KINDS[reduce])


def _scattered(c: Call, x: Value, dim: int, index: Value, src: Operand, kind: str) -> Value:
    e = c.e
    if not shape_of(x):
        x, index = e.reshape(x, (1,)), e.reshape(index, (1,))
        src = e.reshape(src, (1,)) if isinstance(src, Value) else src
    if not shape_of(index):
        index = e.reshape(index, (1,))
        src = e.reshape(src, (1,)) if isinstance(src, Value) else src
    _want_sums(c, kind)
    updates = e.broadcast(c.value(src, None, shape_of(index)), shape_of(index)) if not isinstance(src, Value) else src
    for axis, size in enumerate(shape_of(index)):  # torch reads only as much of src as there are indices
        updates = e.slice(updates, axis, 0, size)
    at = e.indices(index)
    out = e(graph.scatter_along, x, at, updates, axis=dim % len(shape_of(x)), kind=kind)
    return e.reshape(out, c.shape)


def _want_sums(c: Call, kind: str) -> None:
    c.want(kind == "set" or c.elem != BOOL, "sums of bool")
    c.want(kind == "set" or not c.elem.is_float or c.elem.bits >= 32, "halves would be rounded at every update")


def _combined(c: Call, x: Value, at: Value, updates: Value, kind: str) -> Value:
    _want_sums(c, kind)
    return c.e(graph.scatter_nd, x, at, updates, kind=kind)


# by several indices


@lowers(aten.index.Tensor, aten._unsafe_index.Tensor)
def index(c: Call, self: Value, indices: Sequence[Value | None]) -> Value:
    e = c.e
    places = _places(c, indices)
    if len(places) == 1:
        (axis,) = places
        return e(graph.take, self, integers(c, indices[axis]), axis=axis)
    shape, at = _joined(c, [indices[i] for i in places])
    rest = [i for i in range(len(shape_of(self))) if i not in places]
    got = e(graph.gather_nd, e.permute(self, [*places, *rest]), at)
    lead = len(shape)
    before = sum(i < places[0] for i in rest) if _adjacent(places) else 0
    # what was in front of the indexed dims goes there again
    order = [*range(lead, lead + before), *range(lead), *range(lead + before, lead + len(rest))]
    return e.permute(got, order)


@lowers(aten.index_put.default, aten._unsafe_index_put.default)
def index_put(c: Call, self: Value, indices: Sequence[Value | None], values: Value, accumulate: bool = False) -> Value:
    e = c.e
    if (masked := _masked(c, self, indices, values, accumulate)) is not None:
        return masked
    places = _places(c, indices)
    shape, at = _joined(c, [indices[i] for i in places])
    rest = [i for i in range(len(shape_of(self))) if i not in places]
    before = [i for i in rest if i < places[0]] if _adjacent(places) else []
    after = rest[len(before) :]
    sizes = [shape_of(self)[i] for i in before], [shape_of(self)[i] for i in after]
    updates = e.broadcast(c.value(values), (*sizes[0], *shape, *sizes[1]))
    lead = len(before)
    updates = e.permute(
        updates,
        [*range(lead, lead + len(shape)), *range(lead), *range(lead + len(shape), lead + len(shape) + len(after))],
    )
    order = [*places, *rest]
    out = _combined(c, e.permute(self, order), at, updates, "add" if accumulate else "set")
    return e.permute(out, [order.index(i) for i in range(len(order))])


def _masked(c: Call, x: Value, indices: Sequence[Value | None], values: Value, accumulate: bool) -> Value | None:
    """`x[mask] = number` is a selection."""
    given = [i for i in indices if i is not None]
    if len(given) != 1 or indices[0] is None or elem_of(given[0]) != BOOL or accumulate:
        return None
    c.want(all(d == 1 for d in shape_of(values)), "its indices are a mask, and there are several values")
    e, (mask,) = c.e, given
    mask = e.reshape(mask, (*shape_of(mask), *(1,) * (len(shape_of(x)) - len(shape_of(mask)))))
    number = e.reshape(c.value(values), ())
    return e(graph.select, e.broadcast(mask, c.shape), e.broadcast(number, c.shape), x)


def _places(c: Call, indices: Sequence[Value | None]) -> list[int]:
    places = [i for i, x in enumerate(indices) if x is not None]
    c.want(bool(places), "it has no index")
    return places


def _adjacent(places: Sequence[int]) -> bool:
    return list(places) == list(range(places[0], places[-1] + 1))


def _joined(c: Call, indices: Sequence[Any]) -> tuple[tuple[Dim, ...], Value]:
    """The shape the indices broadcast to, and all of them as one tensor whose last dim is a place."""
    e = c.e
    parts = [e.cast(integers(c, i), I64) for i in indices]
    shape = e.broadcast_shape(*(shape_of(p) for p in parts))
    return shape, e.concat([e.unsqueeze(e.broadcast(p, shape), -1) for p in parts], len(shape))


# along one dim


@lowers(aten.index_add.default)
def index_add(c: Call, self: Value, dim: int, index: Value, source: Value, alpha: Number = 1) -> Value:
    update = source if alpha == 1 else c.e.map(graph.mul, source, alpha)
    return _by_rows(c, self, dim, index, update, "add")


@lowers(aten.index_copy.default)
def index_copy(c: Call, self: Value, dim: int, index: Value, source: Value) -> Value:
    return _by_rows(c, self, dim, index, source, "set")


@lowers(aten.index_fill.int_Scalar, aten.index_fill.int_Tensor)
def index_fill(c: Call, self: Value, dim: int, index: Value, value: Operand) -> Value:
    rank = len(shape_of(self))
    c.want(rank > 0, "it fills a scalar")
    shape = tuple(shape_of(c.e.flatten(index))[0] if i == dim % rank else d for i, d in enumerate(shape_of(self)))
    return _by_rows(c, self, dim, index, c.e.broadcast(c.value(value, None, shape), shape), "set")


def _by_rows(c: Call, x: Value, dim: int, index: Value, source: Value, kind: str) -> Value:
    e, rank = c.e, len(shape_of(x))
    if rank == 0:
        x, source, rank = e.reshape(x, (1,)), e.reshape(source, (1,)), 1
    dim %= rank
    at = e.unsqueeze(e.flatten(integers(c, index)), -1)
    if len(shape_of(source)) < rank:
        source = e.reshape(source, tuple(shape_of(at)[0] if i == dim else d for i, d in enumerate(shape_of(x))))
    out = _combined(c, e.move_axis(x, dim, 0), at, e.move_axis(source, dim, 0), kind)
    return e.reshape(e.move_axis(out, 0, dim), c.shape)


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
