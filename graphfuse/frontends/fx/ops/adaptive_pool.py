"""Adaptive pooling: windows of one size where the sizes divide, else `banded` sums and searches."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np
import torch

from graphfuse.dialects import graph
from graphfuse.dialects.elementwise import neutral
from graphfuse.frontends.emit import elem_of, shape_of
from graphfuse.frontends.fx.lowering import Call, Results, lowers, wide_elem
from graphfuse.frontends.fx.ops.banded import mean_of_windows, mean_of_windows_backward, static, windows
from graphfuse.frontends.fx.ops.pool import MOST_TAPS, Pooling, is_better, max_pool, max_pool_backward
from graphfuse.frontends.host_values import Array
from graphfuse.ir.core import Value
from graphfuse.symbolic import Dim

aten = torch.ops.aten


def _dividing(spatial: Sequence[Dim], result: Sequence[Dim]) -> tuple[int, ...] | None:
    """The size of all windows, if the sizes are known and divide."""
    out: list[int] = []
    for a, b in zip(spatial, result, strict=True):
        if not (isinstance(a, int) and isinstance(b, int) and b and a % b == 0):
            return None
        out.append(a // b)
    return tuple(out)


def _filled(c: Call, dims: Sequence[Dim]) -> None:
    """Refuse windows of nothing, as eager torch does."""
    for d in dims:
        c.e.require("at_most", 1, d, "a pooled dim")


# mean


@lowers(aten._adaptive_avg_pool2d.default, aten._adaptive_avg_pool3d.default)
def adaptive_avg_pool(c: Call, self: Value, output_size: Sequence[Dim]) -> Value:
    e, rank, shape = c.e, len(output_size), shape_of(self)
    _filled(c, shape[-rank:])
    x = c.wide(self)
    if all(d == 1 for d in c.shape[-rank:]):
        return c.rounded(e.mean(x, range(len(shape) - rank, len(shape))))
    lead = shape[:-rank]
    if (size := _dividing(shape[-rank:], c.shape[-rank:])) is None:
        return c.rounded(mean_of_windows(c, self, c.shape[-rank:]))
    split = e.reshape(x, (*lead, *(d for pair in zip(c.shape[-rank:], size, strict=True) for d in pair)))
    return c.rounded(e.mean(split, [len(lead) + 2 * i + 1 for i in range(rank)], keepdims=False))


@lowers(aten._adaptive_avg_pool2d_backward.default, rank=2)
@lowers(aten._adaptive_avg_pool3d_backward.default, rank=3)
def adaptive_avg_pool_backward(c: Call, grad_output: Value, self: Value, *, rank: int) -> Value:
    e, result = c.e, shape_of(grad_output)
    grad, lead = e.cast(grad_output, wide_elem(c.elem)), len(result) - rank
    if all(d == 1 for d in result[-rank:]):
        count = math.prod(c.shape[-rank:], start=1)
        return e.broadcast(c.rounded(e.divide(grad, count)), c.shape)
    if (size := _dividing(c.shape[-rank:], result[-rank:])) is None:
        return c.rounded(mean_of_windows_backward(c, grad_output, rank))
    grad = e.divide(grad, math.prod(size))
    for i, k in enumerate(size):
        grad = e.repeat(grad, lead + i, k)
    return c.rounded(grad)


# maximum


@lowers(aten.adaptive_max_pool2d.default, aten.adaptive_max_pool3d.default)
def adaptive_max_pool(c: Call, self: Value, output_size: Sequence[Dim]) -> Results:
    rank = len(output_size)
    spatial, result = shape_of(self)[-rank:], c.shape[-rank:]
    _filled(c, shape_of(self)[1:])
    if (size := _dividing(spatial, result)) is not None:
        return max_pool(c, self, Pooling(size), rank=rank)
    e, lead = c.e, len(c.shape) - rank
    sizes, counts = static(c, spatial), static(c, result)
    best, found = e.full(c.shape, c.elem, neutral("max", c.elem)), None
    for places, has in _taps(c, [windows(n, m) for n, m in zip(sizes, counts, strict=True)]):
        flat = np.ravel_multi_index(np.meshgrid(*places, indexing="ij"), sizes)
        place = e.broadcast(e.constant(flat.astype(np.int64)), c.shape)
        found, seen = place if found is None else found, self
        for axis, at in enumerate(places, lead):
            seen = e(graph.take, seen, e.constant(at.astype(np.int64)), axis=axis)
        better = e.map(graph.and_, is_better(c, seen, best), e.constant(has))
        best, found = e(graph.select, better, seen, best), e(graph.select, better, place, found)
    return best, found


@lowers(aten.adaptive_max_pool2d_backward.default, rank=2)
@lowers(aten.adaptive_max_pool3d_backward.default, rank=3)
def adaptive_max_pool_backward(c: Call, grad_output: Value, self: Value, indices: Value, *, rank: int) -> Value:
    """The gradient of each window, added to the element that was its maximum."""
    e, lead = c.e, len(c.shape) - rank
    spatial, result = c.shape[lead:], shape_of(grad_output)[lead:]
    if (size := _dividing(spatial, result)) is not None:
        return max_pool_backward(c, grad_output, self, Pooling(size), indices, rank=rank)
    plane, count = math.prod(static(c, spatial)), math.prod(static(c, result))
    grad = e.reshape(e.cast(grad_output, wide_elem(c.elem)), (*c.shape[:lead], count))
    at = e.reshape(indices, (*c.shape[:lead], count))
    zeros = e.full((*c.shape[:lead], plane), elem_of(grad), 0.0)
    out = e(graph.scatter_along, zeros, at, grad, axis=lead, kind="add")
    return c.rounded(e.reshape(out, c.shape))


def _taps(c: Call, matrices: Sequence[Array]) -> Iterator[tuple[tuple[Array, ...], Array]]:
    """One element of each window after the other: where along each dim, and whether the window has it.

    Rows of a matrix of 0 and 1 are the windows along one dim.
    """
    first, count = [m.argmax(axis=1) for m in matrices], [m.sum(axis=1) for m in matrices]
    most = [int(n.max()) for n in count]
    c.want(math.prod(most) <= MOST_TAPS, f"a window of {math.prod(most)} taps: torch finds its maximum's position")
    for steps in itertools.product(*map(range, most)):
        at = [np.minimum(f + k, m.shape[1] - 1) for f, k, m in zip(first, steps, matrices, strict=True)]
        has = [k < n for k, n in zip(steps, count, strict=True)]
        yield tuple(at), functools.reduce(np.logical_and.outer, has)
