"""Linear maps along one axis whose matrix is known and has few numbers in a row, side by side.

Adaptive pooling over windows of different sizes, the gradient of padding with the edge, resampling with a filter: each
element of the result is a sum of a few neighbours, each read where it lies.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from graphfuse.dialects import graph
from graphfuse.frontends.emit import elem_of, shape_of
from graphfuse.frontends.fx.lowering import Arguments, Call, lowers, wide_elem
from graphfuse.frontends.host_values import Array
from graphfuse.ir.core import Value
from graphfuse.ir.dense import numpy_dtype
from graphfuse.symbolic import Dim

aten = torch.ops.aten
MOST_NEIGHBOURS = 32
"""Each is written out; of more, torch makes the sum."""


def along(c: Call, x: Value, axis: int, matrix: Array) -> Value:
    """`matrix` [m, n] applied along an axis of n elements. Where it is 0 nothing is read, not even infinity."""
    e, rank = c.e, len(shape_of(x))
    used = matrix != 0
    first, last = used.argmax(axis=1), matrix.shape[1] - used[:, ::-1].argmax(axis=1)
    width = int((last - first)[used.any(axis=1)].max(initial=0))
    if width == 0:
        return e.full(tuple(len(matrix) if i == axis else d for i, d in enumerate(shape_of(x))), elem_of(x), 0.0)
    c.want(width <= MOST_NEIGHBOURS, f"sums of {width} neighbours, one by one")
    line = tuple(len(matrix) if i == axis else 1 for i in range(rank))
    terms: list[Value] = []
    for tap in range(width):
        at = np.minimum(first + tap, matrix.shape[1] - 1)
        weight = np.where(first + tap < matrix.shape[1], matrix[np.arange(len(matrix)), at], 0)
        term = e(graph.take, x, e.constant(at.astype(np.int64)), axis=axis)
        if not (weight == 1)[weight != 0].all():
            factor = e.constant(weight.astype(numpy_dtype(elem_of(x))).reshape(line))
            term = e.map(graph.mul, term, factor)
        terms.append(term if weight.all() else e.select(e.constant((weight != 0).reshape(line)), term, 0.0))
    return e.fold(graph.add, terms)


def static(c: Call, sizes: Sequence[Dim]) -> tuple[int, ...]:
    """Sizes that are known."""
    c.want(all(isinstance(d, int) and d > 0 for d in sizes), "sizes that are not known")
    return tuple(d for d in sizes if isinstance(d, int))


# adaptive windows


def windows(size: int, count: int) -> Array:
    """Row o has a 1 where the o-th of `count` adaptive windows covers an element, as torch divides them."""
    at, window = np.arange(size), np.arange(count)[:, None]
    return ((at >= window * size // count) & (at < -(-(window + 1) * size // count))).astype(np.float64)


def mean_of_windows(c: Call, x: Value, result: Sequence[Dim]) -> Value:
    """Means over adaptive windows of the last dims."""
    lead = len(shape_of(x)) - len(result)
    for i, (size, count) in enumerate(zip(static(c, shape_of(x)[lead:]), static(c, result), strict=True)):
        x = along(c, x, lead + i, windows(size, count))
    return c.e.map(graph.div, x, _counts(c, x, shape_of(x)[lead:], c.args["self"].shape[lead:]))


def mean_of_windows_backward(c: Call, grad: Value, rank: int) -> Value:
    """The gradient of that: each element adds what the windows that cover it were given."""
    lead = len(shape_of(grad)) - rank
    result, spatial = static(c, shape_of(grad)[lead:]), static(c, c.shape[lead:])
    grad = c.e.map(graph.div, grad, _counts(c, grad, result, spatial))
    for i, (size, count) in enumerate(zip(spatial, result, strict=True)):
        grad = along(c, grad, lead + i, windows(size, count).T)
    return grad


def _counts(c: Call, like: Value, result: Sequence[Any], spatial: Sequence[Any]) -> Value:
    """How many elements each window has."""
    per_dim = [windows(int(n), int(m)).sum(axis=1) for n, m in zip(spatial, result, strict=True)]
    counts = functools.reduce(np.multiply.outer, per_dim)
    return c.e.constant(counts.astype(numpy_dtype(elem_of(like))))


# padding with the edge


@lowers(
    aten.replication_pad1d_backward.default, aten.replication_pad2d_backward.default,
    aten.replication_pad3d_backward.default,
)  # fmt: skip
def replication_pad_backward(c: Call, grad_output: Value, self: Value, padding: Sequence[int]) -> Value:
    c.want(all(isinstance(p, int) for p in padding), "its padding is a size that may change")
    grad, lead = c.e.cast(grad_output, wide_elem(c.elem)), len(c.shape) - len(padding) // 2
    for i, size in enumerate(static(c, c.shape[lead:])):
        pair = len(padding) // 2 - 1 - i
        low, high = padding[2 * pair : 2 * pair + 2]
        if low >= 0 and high >= 0 and size > 1:
            grad = _folded(c, grad, lead + i, low, high)
        elif low or high:
            source = np.clip(np.arange(-low, size + high), 0, size - 1)
            grad = along(c, grad, lead + i, (np.arange(size)[:, None] == source).astype(np.float64))
    return c.rounded(grad)


def _folded(c: Call, x: Value, axis: int, low: int, high: int) -> Value:
    """The ends of an axis, each summed into the element that they repeat."""
    e, size = c.e, shape_of(x)[axis] - low - high
    first, last = e.slice(x, axis, 0, low + 1), e.slice(x, axis, low + size - 1, high + 1)
    first = e.reduce(first, "sum", (axis,)) if low else first
    last = e.reduce(last, "sum", (axis,)) if high else last
    middle = [e.slice(x, axis, low + 1, size - 2)] if size != 2 else []
    return e.concat([first, *middle, last], axis) if low or high else x


# resampling with a triangle as wide as the step


def triangles(size: int, count: int, align_corners: bool, scale: float | None) -> Array:
    """The weights of antialiased bilinear resampling from `size` elements to `count`, as torch has them."""
    if align_corners:
        step = (size - 1) / (count - 1) if count > 1 else 0.0
    else:
        step = 1 / scale if scale is not None and scale > 0 else size / count
    reach = max(step, 1.0)
    out = np.zeros((count, size))
    for o in range(count):
        center = step * (o + 0.5)
        low, high = max(int(center - reach + 0.5), 0), min(int(center + reach + 0.5), size)
        at = np.arange(low, high)
        weight = np.maximum(1 - np.abs((at - center + 0.5) / reach), 0)
        out[o, low:high] = weight / weight.sum() if weight.sum() else 0
    return out


@dataclass(frozen=True, slots=True)
class Resampling(Arguments):
    """How an image is resampled; the scales of rows and columns may follow from the sizes."""

    align_corners: bool
    scales_h: float | None = None
    scales_w: float | None = None

    def matrices(self, c: Call, spatial: Sequence[Dim], result: Sequence[Dim]) -> list[Array]:
        """From rows to rows, and from columns to columns."""
        known = zip(static(c, spatial), static(c, result), (self.scales_h, self.scales_w), strict=True)
        return [triangles(n, m, self.align_corners, scale) for n, m, scale in known]


@lowers(aten._upsample_bilinear2d_aa.default)
def upsample_bilinear2d_aa(c: Call, self: Value, output_size: Sequence[Dim], how: Resampling) -> Value:
    return _resampled(c, self, how.matrices(c, shape_of(self)[2:], c.shape[2:]))


@lowers(aten._upsample_bilinear2d_aa_backward.default)
def upsample_bilinear2d_aa_backward(
    c: Call, grad_output: Value, output_size: Sequence[Dim], input_size: Sequence[Dim], how: Resampling
) -> Value:
    matrices = how.matrices(c, c.shape[2:], shape_of(grad_output)[2:])
    return _resampled(c, grad_output, [m.T for m in matrices])


def _resampled(c: Call, x: Value, matrices: Sequence[Array]) -> Value:
    c.want(c.elem.is_float, "images of integers are resampled in integers")
    c.want(math.prod(static(c, c.shape)) > 0, "it has no elements")
    x = c.e.cast(x, wide_elem(c.elem))
    for axis, matrix in enumerate(matrices, 2):
        x = along(c, x, axis, matrix)
    return c.rounded(x)
