"""Operators that only say where elements are: views, copies of views, joining and repeating."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from graphfuse.constraints import decided
from graphfuse.dialects import graph
from graphfuse.frontends.emit import shape_of
from graphfuse.frontends.fx.lowering import Call, Number, lowers
from graphfuse.frontends.fx.ops.through_views import written_along, written_through
from graphfuse.frontends.fx.sizes import dense_order, dims_of
from graphfuse.ir.core import Value
from graphfuse.ir.types import BOOL, I64
from graphfuse.symbolic import Dim, bounds

aten, prims = torch.ops.aten, torch.ops.prims


@lowers(
    aten.view.default, aten._unsafe_view.default, aten.view_copy.default, aten.unsqueeze.default, aten.squeeze.dims,
    aten.squeeze.dim, aten.squeeze.default, aten.squeeze_copy.dims, aten.unsqueeze_copy.default,
)  # fmt: skip
def same_elements(c: Call, self: Value, *_: Any, **__: Any) -> Value:
    return c.e.reshape(self, c.shape)


@lowers(aten._reshape_alias.default)
def reshape_alias(c: Call, self: Value, size: Sequence[Dim], stride: Sequence[Dim]) -> Value:
    c.want(dense_order(c.shape, stride) == tuple(range(len(c.shape))), "strides are not those of its dims")
    return c.e.reshape(self, c.shape)


@lowers(
    aten.alias.default, aten.alias_copy.default, prims.view_of.default, aten.clone.default, aten.detach.default,
    aten.lift_fresh_copy.default, aten.lift_fresh.default,
)  # fmt: skip
def alias(c: Call, **given: Any) -> Value:
    return next(iter(given.values()))


@lowers(aten.permute.default, aten.permute_copy.default)
def permute(c: Call, self: Value, dims: Sequence[int]) -> Value:
    rank = len(shape_of(self))
    return c.e.permute(self, [d % rank for d in dims])


@lowers(aten.transpose.int, aten.transpose_copy.int)
@lowers(aten.t.default, dim0=0, dim1=-1)
def transpose(c: Call, self: Value, dim0: int, dim1: int) -> Value:
    rank = len(shape_of(self))
    if rank == 0:
        return self
    perm = list(range(rank))
    perm[dim0], perm[dim1] = perm[dim1 % rank], perm[dim0 % rank]
    return c.e.permute(self, perm)


@lowers(aten.expand.default, aten.expand_copy.default)
def expand(c: Call, self: Value, size: Sequence[Any], implicit: bool = False) -> Value:
    return c.e.broadcast(self, c.shape)


@lowers(prims.broadcast_in_dim.default)
def broadcast_in_dim(c: Call, a: Value, shape: Sequence[Any], broadcast_dimensions: Sequence[int]) -> Value:
    sizes: list[Dim] = [1] * len(c.shape)
    for d, size in zip(broadcast_dimensions, shape_of(a), strict=True):
        sizes[d] = size
    return c.e.broadcast(c.e.reshape(a, sizes), c.shape)


@lowers(aten.slice.Tensor, aten.slice_copy.Tensor, aten.narrow_copy.default)
def slice_(c: Call, self: Value, axis: int, start: Dim | None = None, step: int = 1, **_: Any) -> Value:
    """Up to where, the result's size says."""
    c.want(isinstance(step, int), "the step of a slice is no number")
    return c.e.slice(self, axis, _start(c, start or 0, shape_of(self)[axis]), c.shape[axis], step)


def _start(c: Call, start: Dim, size: Dim) -> Dim:
    """Where a slice begins: from the end where negative, within the dim."""
    low, high = bounds(start, c.e.ranges)
    if high < 0:
        start = start + size
        low, _ = bounds(start, c.e.ranges)
        if low < 0 and isinstance(start, int):
            return 0
    elif low < 0:
        c.want(False, f"a slice begins at {start}, which may count from the end")
    _, past = bounds(start - size, c.e.ranges)
    if past <= 0:
        return start
    if isinstance(start, int) and isinstance(size, int):
        return size
    c.want(False, f"a slice begins at {start} of {size}, which may be past the end")
    return start


@lowers(aten.select.int, aten.select_copy.int)
def select(c: Call, self: Value, axis: int, index: Dim) -> Value:
    return c.e.reshape(c.e.slice(self, axis, _from_start(c, index, shape_of(self)[axis]), 1), c.shape)


def _from_start(c: Call, index: Dim, size: Dim) -> Dim:
    """An index that may count from the end, which is known of it."""
    low, high = bounds(index, c.e.ranges)
    c.want(high < 0 or low >= 0, f"the index {index} may count from the end")
    return index + size if high < 0 else index


@lowers(aten.split_with_sizes.default, aten.split_with_sizes_copy.default)
@lowers(aten.split.Tensor, aten.split_copy.Tensor)
def split(c: Call, self: Value, axis: int, **_: Any) -> Sequence[Value]:
    """Into as much as the results' sizes say."""
    return c.e.split(self, [t.shape[axis] for t in c.outs if t], axis)


@lowers(aten.unbind.int, aten.unbind_copy.int)
def unbind(c: Call, self: Value, axis: int) -> Sequence[Value]:
    return [c.e.reshape(p, c.shape) for p in c.e.split(self, [1] * len(c.outs), axis)]


@lowers(aten.cat.default, prims.cat.default)
def cat(c: Call, tensors: Sequence[Value], dim: int = 0) -> Value:
    # torch lets empty tensors of one dim stand among others
    kept = [c.value(t) for t in tensors if shape_of(t) != (0,) or len(c.shape) == 1]
    return c.e.concat(kept, dim % len(c.shape)) if kept else c.e.full(c.shape, c.elem, 0)


@lowers(aten.stack.default)
def stack(c: Call, tensors: Sequence[Value], dim: int = 0) -> Value:
    dim %= len(c.shape)
    return c.e.concat([c.e.unsqueeze(c.value(t), dim) for t in tensors], dim)


@lowers(aten.repeat.default)
def repeat(c: Call, self: Value, repeats: Sequence[Dim]) -> Value:
    shape = (1,) * (len(repeats) - len(shape_of(self))) + shape_of(self)
    between = [x for d in shape for x in (1, d)]
    to = [x for r, d in zip(repeats, shape, strict=True) for x in (r, d)]
    return c.e.reshape(c.e.broadcast(c.e.reshape(self, between), to), c.shape)


@lowers(aten.flip.default, prims.rev.default)
def flip(c: Call, dims: Sequence[int], **given: Value) -> Value:
    (x,) = given.values()
    axes = c.axes(dims, len(c.shape)) if dims else ()
    return c.e(graph.flip, x, axes=axes) if axes else x


@lowers(aten.roll.default)
def roll(c: Call, self: Value, shifts: Sequence[int], dims: Sequence[int] = ()) -> Value:
    c.want(all(isinstance(s, int) for s in shifts), "the shifts are no numbers")
    x = self if dims else c.e.flatten(self)
    for shift, dim in zip(shifts, dims or (0,), strict=True):
        size = shape_of(x)[dim]
        c.want(isinstance(size, int), "it rolls a dim whose size is not known")
        if size:
            first = -shift % size
            x = c.e.concat(
                [c.e.slice(x, dim, first, size - first), c.e.slice(x, dim, 0, first)], dim % len(shape_of(x))
            )
    return c.e.reshape(x, c.shape)


@lowers(aten.constant_pad_nd.default)
def constant_pad_nd(c: Call, self: Value, pad: Sequence[Dim], value: Number = 0) -> Value:
    sizes = [p for p in pad if isinstance(p, int)]
    c.want(len(sizes) == len(pad), "the padding is no number")
    # from the last dim to the first, in front of it and behind; negative ones cut
    zeros = [0] * (len(c.shape) - len(pad) // 2)
    low, high = [*zeros, *sizes[-2::-2]], [*zeros, *sizes[::-2]]
    x = self
    for axis, (lo, hi) in enumerate(zip(low, high, strict=True)):
        cut_low, cut_high = max(0, -lo), max(0, -hi)
        x = c.e.slice(x, axis, cut_low, shape_of(x)[axis] - cut_low - cut_high)
    low, high = [max(0, p) for p in low], [max(0, p) for p in high]
    if not any((*low, *high)):
        return x
    filling = c.value(value).op
    assert filling is not None
    return c.e(graph.pad, x, low=tuple(low), high=tuple(high), value=filling.attrs["value"])


@lowers(aten.diagonal.default, aten.diagonal_copy.default)
def diagonal(c: Call, self: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    e, x = c.e, c.e.permute(self, _matrix_last(self, dim1, dim2))
    *outer, rows, columns = shape_of(x)
    count = c.shape[-1]
    c.want(isinstance(rows, int) and isinstance(columns, int), "the diagonal of a matrix whose size is not known")
    x = e.slice(x, -1, max(offset, 0), count) if offset >= 0 else e.slice(x, -1, 0, count)
    x = e.slice(x, -2, max(-offset, 0), count)
    if count == 0:
        return e.full(c.shape, c.elem, 0)
    # element i * (count + 1) of the flat square, as the first column of rows one longer
    flat = e.reshape(x, (*outer, count * count))
    padded = e.pad(flat, -1, 0, count, False if c.elem == BOOL else 0)
    return e.reshape(e.slice(e.reshape(padded, (*outer, count, count + 1)), -1, 0, 1), c.shape)


def _matrix_last(x: Value, dim1: int, dim2: int) -> list[int]:
    """An order of dims in which two are the last."""
    rank = len(shape_of(x))
    last = [dim1 % rank, dim2 % rank]
    return [i for i in range(rank) if i not in last] + last


@lowers(aten.slice_scatter.default)
def slice_scatter(
    c: Call, self: Value, src: Value, axis: int, start: Dim | None = None, end: Dim | None = None, step: int = 1
) -> Value:
    fits_view(c, src, aten.slice.Tensor)
    return _written(c, self, src, axis, _start(c, start or 0, c.shape[axis]), step)


def fits_view(c: Call, src: Value, view: Any) -> None:
    """Decline unless `src` has the sizes of the view that it is written to, which fake tensors do not ask for."""
    given = dict(c.args)
    del given["src"]
    with (of := given.pop("self")).fake_mode:
        sizes = dims_of(view(of, **given).shape)
    fits = len(sizes) == len(shape_of(src)) and all(
        decided("equal", a, b, c.e.ranges) for a, b in zip(sizes, shape_of(src), strict=True)
    )
    c.want(fits, "what it writes may not have the view's sizes")


def _written(c: Call, self: Value, src: Value, dim: int, begin: Dim, step: int = 1) -> Value:
    """`src` in the place of elements along `dim`."""
    e, size, count = c.e, c.shape[dim], shape_of(src)[dim]
    if c.in_place and count != 0:
        if step == 1 and (made := written_through(e, self, src, dim, begin)) is not None:
            return made
        at = e.map(graph.add, e.map(graph.mul, e.iota((count,), 0), step), begin)
        return written_along(e, self, dim, at, c.value(src))
    if step != 1 and count != 0:
        line = tuple(d if i == dim else 1 for i, d in enumerate(c.shape))
        past = e(graph.sub, e.iota(line, dim), e.full(line, I64, begin))
        place = e(graph.floordiv_, past, e.full(line, I64, step))
        is_met = e(graph.and_, e.map(graph.eq, e.map(graph.floormod, past, step), 0),
                   e(graph.and_, e.map(graph.ge, place, 0), e(graph.lt, place, e.full(line, I64, count))))  # fmt: skip
        at = e.flatten(e.select(is_met, place, 0))
        return e.select(is_met, e(graph.take, c.value(src), at, axis=dim), self)
    before = c.e.slice(self, dim, 0, begin)
    after = c.e.slice(self, dim, begin + count, size - begin - count)
    parts = [p for p in (before, c.value(src), after) if shape_of(p)[dim] != 0]
    return c.e.reshape(c.e.concat(parts, dim), c.shape) if parts else self


@lowers(aten.select_scatter.default)
def select_scatter(c: Call, self: Value, src: Value, dim: int, index: Dim) -> Value:
    fits_view(c, src, aten.select.int)
    dim %= len(c.shape)
    return _written(c, self, c.e.unsqueeze(src, dim), dim, _from_start(c, index, c.shape[dim]))


@lowers(aten.as_strided.default, aten.as_strided_copy.default)
def as_strided(
    c: Call, self: Value, size: Sequence[Dim], stride: Sequence[Dim], storage_offset: Dim | None = None
) -> Value:
    at = strided_places(c, size, stride, storage_offset)
    return c.e.reshape(c.e(graph.take, c.e.flatten(self), at, axis=0), c.shape)


def strided_places(c: Call, size: Sequence[Dim], stride: Sequence[Dim], storage_offset: Dim | None) -> Value:
    """Where the elements of a strided view are in the flat tensor `self`: one dim of indices."""
    e, fake = c.e, c.args["self"]
    c.want(dense_order(dims_of(fake.shape), dims_of(fake.stride())) == tuple(range(fake.dim())), "its tensor has gaps")
    c.want(fake.storage_offset() == 0, "it looks at memory in front of a tensor")
    shape, last = tuple(size), (storage_offset or 0) + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    c.want(isinstance(last, int) and isinstance(fake.numel(), int), "its sizes are not known")
    c.want(last < fake.numel(), "it looks past the end of a tensor")
    at = e.full(shape, I64, storage_offset or 0)
    for axis, step in enumerate(stride):
        if shape[axis] != 1 and step != 0:
            at = e(graph.add, at, e(graph.mul, e.iota(shape, axis), e.full(shape, I64, step)))
    return e.flatten(at)


@lowers(aten.unfold.default, "aten.unfold_copy.default")
def unfold(c: Call, self: Value, dimension: int, size: int, step: int) -> Value:
    """Windows along a dim, which become the last one."""
    e, rank = c.e, len(shape_of(self))
    if rank == 0:
        return e.reshape(self, c.shape)
    axis = dimension % rank
    windows = (c.shape[axis], c.shape[-1])
    at = e(graph.add, e(graph.mul, e.iota(windows, 0), e.full(windows, I64, step)), e.iota(windows, 1))
    return e.move_axis(e(graph.take, self, at, axis=axis), axis + 1, rank)


@lowers(aten.diagonal_scatter.default)
def diagonal_scatter(c: Call, self: Value, src: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    """`src` on a diagonal: spread over all rows, then chosen where rows and columns meet."""
    fits_view(c, src, aten.diagonal.default)
    e, rank, order = c.e, len(c.shape), _matrix_last(self, dim1, dim2)
    x = e.permute(self, order)
    shape = shape_of(x)
    first, count = max(-offset, 0), shape_of(src)[-1]
    spread = e.pad(c.value(src), -1, first, shape[-2] - count - first, False if c.elem == BOOL else 0)
    rows, columns = e.iota(shape, rank - 2), e.iota(shape, rank - 1)
    is_met = e(graph.eq, columns, e(graph.add, rows, e.full(shape, I64, offset)))
    out = e(graph.select, is_met, e.broadcast(e.unsqueeze(spread, -1), shape), x)
    return e.permute(out, [order.index(i) for i in range(rank)])
