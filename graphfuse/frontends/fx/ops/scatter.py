"""Data-dependent writing: scatters, by index, by place and by mask.

Halves are added and multiplied in f32, and rounded once. Where several updates meet, the last one wins, or all are
combined: on a GPU in no order, as torch does, unless algorithms are to be deterministic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from graphfuse.dialects import graph
from graphfuse.dialects.elementwise import neutral
from graphfuse.frontends.emit import elem_of, shape_of
from graphfuse.frontends.fx.lowering import Call, Number, Operand, lowers, wide_elem
from graphfuse.frontends.fx.ops.index import joined, places_of
from graphfuse.frontends.fx.ops.movement import fits_view, strided_places
from graphfuse.frontends.fx.ops.through_views import written_along
from graphfuse.ir.core import Attr, Value
from graphfuse.ir.types import BOOL, I64, U8, Scalar
from graphfuse.symbolic import Dim, product

aten = torch.ops.aten
Write = Callable[[Call, Value, int, Value, Operand, str], Value]
"""What writes updates along an axis where indices say, and how they are combined with what is there."""
KINDS = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min", "add": "add", "multiply": "mul", "mean": "add"}


@lowers(aten.scatter.src, aten.scatter.value, aten.scatter.reduce, aten.scatter.value_reduce)
@lowers(aten.scatter_add.default, reduce="add")
def scatter(
    c: Call, self: Value, axis: int, index: Value, src: Operand = 0, value: Operand = 0, reduce: str = ""
) -> Value:
    written = src if isinstance(src, Value) else value
    return c.rounded(_scattered(c, self, axis, index, written, KINDS[reduce] if reduce else "set"))


def scatter_reduce(
    c: Call, self: Value, axis: int, index: Value, reduce: str, include_self: bool = True, *, write: Write, **src: Value
) -> Value:
    """Combine by sum, prod, mean, amax or amin; without what was there, elements that are met begin anew."""
    e, kind = c.e, KINDS[reduce]
    elem = _combining(c.elem, kind)
    c.want(c.elem != BOOL, "reductions of bool")
    out, (updates,) = e.cast(self, elem), (e.cast(x, elem) for x in src.values())
    if not include_self:
        out = write(c, out, axis, index, neutral({"add": "sum", "mul": "prod"}.get(kind, kind), elem), "set")
    out = write(c, out, axis, index, updates, kind)
    if reduce == "mean":
        ones = e.full(shape_of(self), elem, 1)
        if not include_self:
            ones = write(c, ones, axis, index, 0, "set")
        count = write(c, ones, axis, index, 1, "add")
        out = e(graph.div if elem.is_float else graph.floordiv_, out, count)
    return e.cast(out, c.elem)


def _scattered(c: Call, x: Value, axis: int, index: Value, src: Operand, kind: str) -> Value:
    """`src` written along one dim, where `index` says."""
    e, updates = c.e, c.value(src, elem_of(x), shape_of(index))
    for i, size in enumerate(shape_of(index)):  # torch reads only as much of src as there are indices
        updates = e.slice(updates, i, 0, size)
    return _combined(c, x, c.indices(index, shape_of(x)[axis]), updates, kind, axis)


def _combining(elem: Scalar, kind: str) -> Scalar:
    """The element that updates are combined in: the largest of halves is one of them."""
    if elem == BOOL:
        return U8
    return elem if kind in ("max", "min") else wide_elem(elem)


def _of_bool(kind: str, elem: Scalar) -> tuple[str, Scalar]:
    """A kind of scatter, and the element it is done in: sums of bool are `or`, products `and`."""
    if kind == "set":
        return kind, elem
    kind = {"add": "max", "mul": "min"}.get(kind, kind) if elem == BOOL else kind
    return kind, _combining(elem, kind)


@lowers(aten.index_put.default, trusted=False)
@lowers(aten._unsafe_index_put.default, trusted=True)
def index_put(
    c: Call, self: Value, indices: Sequence[Value | None], values: Value, accumulate: bool = False, *, trusted: bool
) -> Value:
    e = c.e
    if (masked := _masked(c, self, indices, values, accumulate)) is not None:
        return masked
    places, rest, lead = places_of(c, self, indices)
    shape, at = joined(c, self, indices, trusted=trusted)
    sizes, kind = [shape_of(self)[i] for i in rest], "add" if accumulate else "set"
    updates = e.broadcast(c.value(values), (*sizes[:lead], *shape, *sizes[lead:]))
    if len(places) == 1:
        updates = e.reshape(updates, (*sizes[:lead], product(shape), *sizes[lead:]))
        return c.rounded(_along(c, self, lead, e.flatten(at), updates, kind))
    after = range(lead + len(shape), len(shape) + len(rest))
    updates = e.permute(updates, [*range(lead, lead + len(shape)), *range(lead), *after])
    return c.rounded(_combined(c, self, _filled(c, self, places, shape, at), updates, kind))


def _filled(c: Call, x: Value, places: Sequence[int], shape: Sequence[Dim], at: Value) -> Value:
    """Indices of some dims, with every index of the dims between them and in front."""
    e, free = c.e, [i for i in range(places[-1]) if i not in places]
    if not free:
        return at
    whole = (*shape, *(shape_of(x)[i] for i in free))
    spread = e.reshape(at, (*shape, *(1,) * len(free), len(places)))
    parts: list[Value] = []
    for i in range(places[-1] + 1):
        if i in free:
            parts.append(e(graph.iota, shape=(*whole, 1), elem=I64, axis=len(shape) + free.index(i)))
        else:
            part = e.slice(spread, len(whole), places.index(i), 1)
            parts.append(e.broadcast(part, (*whole, 1)))
    return e.concat(parts, len(whole))


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


# along one dim


@lowers(aten.index_add.default)
def index_add(c: Call, self: Value, axis: int, index: Value, source: Value, alpha: Number = 1) -> Value:
    elem = _combining(c.elem, "add")
    scaled = source if alpha == 1 else c.e(graph.mul, c.e.cast(source, elem), c.value(alpha, elem, shape_of(source)))
    return c.rounded(_by_rows(c, self, axis, index, scaled, "add"))


@lowers(aten.index_copy.default)
def index_copy(c: Call, self: Value, axis: int, index: Value, source: Value) -> Value:
    return _by_rows(c, self, axis, index, source, "set")


@lowers(aten.index_fill.int_Scalar, aten.index_fill.int_Tensor)
def index_fill(c: Call, self: Value, axis: int, index: Value, value: Operand) -> Value:
    shape = _of_rows(self, axis, index)
    return _by_rows(c, self, axis, index, c.e.broadcast(c.value(value, None, shape), shape), "set", from_end=True)


def _of_rows(x: Value, axis: int, index: Value) -> tuple[Dim, ...]:
    """The shape of what has as much along one axis as there are indices."""
    return tuple(shape_of(index)[0] if i == axis else d for i, d in enumerate(shape_of(x)))


def _by_rows(c: Call, x: Value, axis: int, index: Value, src: Operand, kind: str, *, from_end: bool = False) -> Value:
    e, at = c.e, c.indices(index, shape_of(x)[axis], from_end=from_end)
    if not isinstance(src, Value):
        src = c.value(src, elem_of(x), _of_rows(x, axis, index))
    elif len(shape_of(src)) < len(shape_of(x)):
        src = e.reshape(src, _of_rows(x, axis, index))
    return _along(c, x, axis, at, src, kind)


def _along(c: Call, x: Value, axis: int, at: Value, src: Value, kind: str) -> Value:
    """Slices of `src` along one dim, each where its index says; sums of halves are wide."""
    kind, elem = _of_bool(kind, elem_of(x))
    return written_along(c.e, c.e.cast(x, elem), axis, at, c.e.cast(src, elem), kind=kind, **_order())


def _order() -> dict[str, Attr]:
    return {"ordered": True} if torch.are_deterministic_algorithms_enabled() else {}


lowers(aten.scatter_reduce.two, write=_scattered)(scatter_reduce)
lowers(aten.index_reduce.default, write=_by_rows)(scatter_reduce)


def _combined(c: Call, x: Value, at: Value, updates: Value, kind: str, axis: int | None = None) -> Value:
    """Slices written at places, or elements at those along an axis; sums of halves are wide."""
    kind, elem = _of_bool(kind, elem_of(x))
    op, attrs = (graph.scatter_nd, {}) if axis is None else (graph.scatter_along, {"axis": axis})
    return c.e(op, c.e.cast(x, elem), at, c.e.cast(updates, elem), kind=kind, **attrs, **_order())


# into the elements as they lie in memory


@lowers(aten.put.default)
def put(c: Call, self: Value, index: Value, source: Value, accumulate: bool = False) -> Value:
    flat = c.e.flatten(self)
    at = c.e.unsqueeze(c.e.flatten(c.indices(index, shape_of(flat)[0], from_end=True)), -1)
    out = _combined(c, flat, at, c.e.flatten(source), "add" if accumulate else "set")
    return c.rounded(c.e.reshape(out, c.shape))


@lowers(aten.as_strided_scatter.default)
def as_strided_scatter(
    c: Call, self: Value, src: Value, size: Sequence[Dim], stride: Sequence[Dim], storage_offset: Dim | None = None
) -> Value:
    fits_view(c, src, aten.as_strided.default)
    at = strided_places(c, size, stride, storage_offset)
    out = _combined(c, c.e.flatten(self), c.e.unsqueeze(at, -1), c.e.flatten(src), "set")
    return c.e.reshape(out, c.shape)


@lowers(aten.masked_scatter.default)
def masked_scatter(c: Call, self: Value, mask: Value, source: Value) -> Value:
    """Where the mask holds, the elements of `source` one after the other."""
    e, flat = c.e, c.e.flatten(source)
    chosen = e.broadcast(c.truth(mask), c.shape)
    place = e(graph.cumulate, e.cast(e.flatten(chosen), I64), axis=0, kind="sum")
    place = e.map(graph.max_, e.map(graph.sub, place, 1), 0)
    c.want(shape_of(flat) != (0,) and shape_of(place) != (0,), "it has no elements")
    c.watched.watch(e.select(e.flatten(chosen), place, 0), shape_of(flat)[0], from_end=False)
    taken = e.reshape(e(graph.take, flat, place, axis=0), c.shape)
    return e(graph.select, chosen, taken, e.broadcast(self, c.shape))


@lowers(aten.embedding_dense_backward.default)
def embedding_dense_backward(
    c: Call, grad_output: Value, indices: Value, num_weights: Dim, padding_idx: int, scale_grad_by_freq: bool
) -> Value:
    c.want(not scale_grad_by_freq, "it scales by how often an index occurs")
    e = c.e
    # the forward has looked at them
    at, width = e.flatten(c.indices(indices, num_weights, trusted=True)), c.shape[1]
    updates = e.reshape(grad_output, (shape_of(at)[0], width))
    if padding_idx >= 0:
        is_padding = e.reshape(e.map(graph.eq, at, padding_idx), (shape_of(at)[0], 1))
        updates = e.select(is_padding, 0.0, updates)
    return c.rounded(_combined(c, e.full(c.shape, c.elem, 0), e.unsqueeze(at, -1), updates, "add"))


@lowers(aten.max_unpool2d.default, aten.max_unpool3d.default)
def max_unpool(
    c: Call, self: Value, indices: Value, output_size: Sequence[Dim], stride: Operand = 0, padding: Operand = 0
) -> Value:
    """Each element at the place of its image that it was the largest at; 0 elsewhere."""
    del stride, padding  # which torch has put into the size
    e, outer = c.e, shape_of(self)[: -len(output_size)]
    size, count = product(output_size), product(shape_of(self)[len(outer) :])
    x, at = (e.reshape(v, (*outer, count)) for v in (self, indices))
    out = _scattered(c, e.full((*outer, size), c.elem, 0), len(outer), at, x, "set")
    return e.reshape(out, (*outer, *output_size))
