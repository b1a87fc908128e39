"""Reductions and running sums. Halves are summed in f32, integers and bool in i64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from graphfuse.dialects import graph
from graphfuse.frontends.emit import elem_of, shape_of
from graphfuse.frontends.fx.lowering import Call, Number, lowers, wide_elem
from graphfuse.ir.core import Value
from graphfuse.ir.types import BOOL, F32, U8
from graphfuse.symbolic import Dim, bounds, product

aten, prims = torch.ops.aten, torch.ops.prims
Dims = Sequence[int] | int | None


def rank_of(x: Value) -> int:
    """How many dims a tensor has."""
    return len(shape_of(x))


def count_of(x: Value, axes: Sequence[int]) -> Dim:
    """How many elements are combined into one."""
    return product(shape_of(x)[a] for a in axes)


@lowers(aten.sum.default, aten.sum.dim_IntList, prims.sum.default, kind="sum")
@lowers(aten.prod.default, aten.prod.dim_int, kind="prod")
def sum_(c: Call, dim: Dims = None, keepdim: bool = False, *, kind: str, **given: Any) -> Value:
    x: Value = given["self" if "self" in given else "inp"]
    axes = c.axes(dim if dim is not None else given.get("dims"), rank_of(x))
    return c.rounded(c.e.reduce(c.e.cast(x, wide_elem(c.elem)), kind, axes, keepdims=keepdim))


@lowers(aten.mean.default, aten.mean.dim)
def mean(c: Call, self: Value, dim: Dims = None, keepdim: bool = False, dtype: Any = None) -> Value:
    axes = c.axes(dim, rank_of(self))
    return c.rounded(c.e.mean(c.e.cast(self, wide_elem(c.elem)), axes, keepdims=keepdim))


def _want_some(c: Call, x: Value, axes: Sequence[int]) -> None:
    """Decline where there may be no element: it has none that is the largest, which torch says."""
    c.want(all(bounds(shape_of(x)[a], c.e.ranges)[0] > 0 for a in axes) or 0 in c.shape, "there may be no element")


def extreme(c: Call, x: Value, kind: str, axes: Sequence[int], *, keepdims: bool) -> Value:
    """The largest or smallest along axes; of bool: any or all."""
    _want_some(c, x, axes)
    if elem_of(x) == BOOL:
        kind = {"max": "any", "min": "all"}[kind]
    return c.e.reduce(x, kind, axes, keepdims=keepdims)


@lowers(aten.amax.default, aten.max.default, kind="max")
@lowers(aten.amin.default, aten.min.default, kind="min")
def amax(c: Call, self: Value, dim: Dims = None, keepdim: bool = False, *, kind: str) -> Value:
    return extreme(c, self, kind, c.axes(dim, rank_of(self)), keepdims=keepdim)


@lowers(aten.max.dim, kind="max")
@lowers(aten.min.dim, kind="min")
def max_dim(c: Call, self: Value, axis: int, keepdim: bool = False, *, kind: str) -> Sequence[Value]:
    number = c.e.cast(self, F32) if elem_of(self) == BOOL else self
    index = c.e(graph.arg_reduce, number, axis=axis, kind=kind, keepdims=keepdim)
    return extreme(c, self, kind, (axis,), keepdims=keepdim), index


@lowers(aten.argmax.default, kind="max")
@lowers(aten.argmin.default, kind="min")
def argmax(c: Call, self: Value, dim: int | None = None, keepdim: bool = False, *, kind: str) -> Value:
    x, axis = (self, dim % rank_of(self)) if dim is not None and shape_of(self) else (c.e.flatten(self), 0)
    _want_some(c, x, (axis,))
    found = c.e(graph.arg_reduce, x, axis=axis, kind=kind, keepdims=keepdim and dim is not None)
    return c.e.reshape(found, c.shape)


@lowers(aten.any.default, aten.any.dim, aten.any.dims, kind="any")
@lowers(aten.all.default, aten.all.dim, aten.all.dims, kind="all")
def any_(c: Call, self: Value, dim: Dims = None, keepdim: bool = False, *, kind: str) -> Value:
    axes = () if isinstance(dim, list) and not dim else c.axes(dim, rank_of(self))
    return c.e.cast(c.e.reduce(c.truth(self), kind, axes, keepdims=keepdim), c.elem)


@lowers(aten.std.correction)
def std(c: Call, self: Value, dim: Dims = None, correction: Number | None = None, keepdim: bool = False) -> Value:
    return c.rounded(c.e(graph.sqrt, _moments(c, self, dim, correction, keepdim)[0]))


@lowers(aten.var.correction, aten.var_mean.correction)
def var_mean(
    c: Call, self: Value, dim: Dims = None, correction: Number | None = None, keepdim: bool = False
) -> Sequence[Value]:
    return [c.rounded(v) for v in _moments(c, self, dim, correction, keepdim)[: len(c.outs)]]


def _moments(c: Call, x: Value, dim: Dims, correction: Number | None, keepdim: bool) -> tuple[Value, Value]:
    """Variance and mean, wide."""
    e, axes = c.e, c.axes(dim, rank_of(x))
    wide = e.cast(x, wide_elem(c.elem))
    center = e.mean(wide, axes)
    distance = e.map(graph.sub, wide, center)
    squares = e.reduce(e(graph.mul, distance, distance), "sum", axes, keepdims=keepdim)
    count, by = count_of(x, axes), c.number(1 if correction is None else correction)
    if isinstance(count, int):
        variance = e.map(graph.div, squares, max(count - by, 0.0))
    else:
        c.want(by.is_integer(), "the correction is no integer")
        variance = e(graph.div, squares, e.full(shape_of(squares), elem_of(squares), count - int(by)))
    return variance, center if keepdim else e.reshape(center, shape_of(squares))


@lowers(aten.cumsum.default, kind="sum")
@lowers(aten.cumprod.default, kind="prod")
@lowers(aten.logcumsumexp.default, kind="logaddexp")
def cumsum(c: Call, self: Value, axis: int, dtype: Any = None, *, kind: str) -> Value:
    """Each is rounded once: what is carried is wide."""
    return c.e(graph.cumulate, c.e.cast(self, c.elem), axis=axis, kind=kind)


@lowers(aten.cummax.default, kind="max")
@lowers(aten.cummin.default, kind="min")
def cummax(c: Call, self: Value, axis: int, *, kind: str) -> Sequence[Value]:
    """The extreme so far, and where it was met last: the last place that holds what was the extreme there."""
    e, number = c.e, c.e.cast(self, U8) if elem_of(self) == BOOL else self
    running = e(graph.cumulate, number, axis=axis, kind=kind)
    is_met = e(graph.eq, number, running)
    if elem_of(self).is_float:
        is_met = e(graph.or_, is_met, e(graph.isnan, number))
    place = e.select(is_met, e.iota(shape_of(self), axis), 0)
    return e.cast(running, elem_of(self)), e(graph.cumulate, place, axis=axis, kind="max")
