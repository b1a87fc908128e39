"""Pooling over windows, and its gradients.

The gradient of a window at an element is a sum over the windows that cover it, of which there are a few: each is read
from the result, repeated by the stride and shifted (`_covering`). Nothing is scattered.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from graphfuse.dialects import graph
from graphfuse.dialects.elementwise import neutral
from graphfuse.frontends.emit import elem_of, shape_of
from graphfuse.frontends.fx.lowering import Arguments, Call, Results, lowers, wide_elem
from graphfuse.frontends.fx.ops.conv import spread_over, with_ends
from graphfuse.frontends.windows import Window
from graphfuse.ir.core import Value
from graphfuse.ir.types import I32, I64, Scalar
from graphfuse.symbolic import Dim, floordiv

aten = torch.ops.aten

MOST_TAPS = 49
"""Larger windows leave the search for a maximum's position to torch: each tap is written out."""


@dataclass(frozen=True, slots=True)
class Pooling(Arguments):
    """What an operator says of its window: numbers are of all dims, and no stride is the window's size."""

    kernel_size: Any
    stride: Any = ()
    padding: Any = 0
    dilation: Any = 1
    ceil_mode: bool = False

    def window(self, c: Call, spatial: Sequence[Dim], result: Sequence[Dim]) -> Window:
        """The window that moves over these dims and gives those."""
        given = (self.kernel_size, self.stride or self.kernel_size, self.padding, self.dilation)
        fields = [spread_over(v if isinstance(v, (list, tuple)) else [v], len(spatial)) for v in given]
        c.want(all(isinstance(v, int) for vs in fields for v in vs), "a window, stride or padding is no number")
        high: list[int] = []
        for have, want, k, s, p, d in zip(spatial, result, *fields, strict=True):
            if self.ceil_mode:
                c.want(isinstance(have, int) and isinstance(want, int), "ceil_mode over a size that is not known")
            short = (want - 1) * s + (k - 1) * d + 1 - have - p
            high.append(max(p, short) if isinstance(short, int) else p)
        size, stride, padding, dilation = fields
        return Window(size, stride, dilation, padding, tuple(high))


def _reduced(c: Call, x: Value, kind: str, w: Window, size: Sequence[Dim]) -> Value:
    """The windows of the last dims combined, cut to `size`."""
    out = w.reduce(c.e, x, kind)
    for i, d in enumerate(size):
        out = c.e.slice(out, i - w.rank, 0, d)
    return out


def _positions(c: Call, shape: Sequence[Dim], axis: int, elem: Scalar, scale: int = 1, offset: Dim = 0) -> Value:
    """index * scale + offset along an axis, one elsewhere."""
    e, axis = c.e, axis % len(shape)
    out = e.iota(tuple(d if i == axis else 1 for i, d in enumerate(shape)), axis, elem)
    out = out if scale == 1 else e.map(graph.mul, out, scale)
    return out if offset == 0 else e(graph.add, out, e.full(shape_of(out), elem, offset))


# maximum


@lowers(aten.max_pool2d_with_indices.default, rank=2)
@lowers(aten.max_pool3d_with_indices.default, rank=3)
def max_pool(c: Call, self: Value, how: Pooling, *, rank: int) -> Results:
    """Maxima of the windows of the last dims, and their positions."""
    spatial, result = shape_of(self)[-rank:], c.shape[-rank:]
    w = how.window(c, spatial, result)
    if c.wanted[1]:
        return _maxima_and_positions(c, self, w, spatial)
    return _reduced(c, self, "max", w, result), None


def _maxima_and_positions(c: Call, x: Value, w: Window, spatial: Sequence[Dim]) -> tuple[Value, Value]:
    """Each window's first maximum or last NaN and its position in the plane, by looking at one tap after another."""
    taps = math.prod(w.size)
    c.want(taps <= MOST_TAPS, f"a window of {taps} taps: torch finds its maximum's position")
    e, lead, shape = c.e, len(c.shape) - w.rank, c.shape
    least = neutral("max", c.elem)
    padded = with_ends(c, x, w.low, w.high, least)
    first = [_positions(c, shape, lead + i, I32, s, -p) for i, (s, p) in enumerate(zip(w.strides, w.low, strict=True))]
    base = e.flat_index(first, spatial)
    # relative to the window's first position, which may be in the padding
    best, found = e.full(shape, c.elem, least), e.map(graph.sub, e.flat_index(_inside(c, first, w), spatial), base)
    found = e.broadcast(found, shape)
    for tap in itertools.product(*map(range, w.size)):
        seen, offset = padded, 0
        for i, (k, d, s) in enumerate(zip(tap, w.dilation, w.strides, strict=True)):
            seen = e.slice(seen, lead + i, k * d, shape[lead + i], s)
            offset = offset * spatial[i] + k * d
        better = is_better(c, seen, best)
        best = e(graph.select, better, seen, best)
        found = e(graph.select, better, e.full(shape, I32, offset), found)
    return best, e.cast(e.map(graph.add, found, base), I64)


def is_better(c: Call, seen: Value, best: Value) -> Value:
    """Whether elements take the place of the largest so far: NaN does."""
    better = c.e(graph.gt, seen, best)
    return c.e(graph.or_, better, c.e(graph.isnan, seen)) if c.elem.is_float else better


def _inside(c: Call, first: Sequence[Value], w: Window) -> list[Value]:
    """The first position of each window that is not in the padding in front."""
    e, out = c.e, list[Value]()
    for at, p, d in zip(first, w.low, w.dilation, strict=True):
        if d == 1 or p == 0:
            out.append(e.map(graph.max_, at, 0) if p else at)
        else:
            out.append(e.select(e.map(graph.lt, at, 0), e.map(graph.floormod, at, d), at))
    return out


@lowers(aten.max_pool2d_with_indices_backward.default, rank=2)
@lowers(aten.max_pool3d_with_indices_backward.default, rank=3)
def max_pool_backward(c: Call, grad_output: Value, self: Value, how: Pooling, indices: Value, *, rank: int) -> Value:
    """The gradients of the windows whose maximum an element is."""
    e, spatial = c.e, c.shape[-rank:]
    w = how.window(c, spatial, shape_of(grad_output)[-rank:])
    here = e.flat_index([_positions(c, c.shape, i - rank, I32) for i in range(rank)], spatial)
    here = e.broadcast(here, c.shape)
    grad = _with_windows(c, e.cast(grad_output, wide_elem(c.elem)), 0.0, w)
    index = _with_windows(c, e.cast(indices, I32), -1, w)
    terms = [
        e.select(e(graph.eq, _covering(c, index, w, shift), here), _covering(c, grad, w, shift), 0.0)
        for shift in _shifts(c, w)
    ]
    return c.rounded(e.fold(graph.add, terms))


# windows that cover an element: o covers o * stride - padding and what follows, so those that cover i are
# (i + padding) // stride and the ones before it


def _most_before(w: Window) -> tuple[int, ...]:
    """How far before (i + padding) // stride a window may begin that covers i, at most, along each dim."""
    return tuple(-(-k // s) - 1 for k, s in zip(w.size, w.strides, strict=True))


def _shifts(c: Call, w: Window) -> Iterator[tuple[int, ...]]:
    """Every combination of how far before a window begins."""
    c.want(all(d == 1 for d in w.dilation), "a dilated window")
    most = _most_before(w)
    c.want(math.prod(b + 1 for b in most) <= MOST_TAPS, "an element is covered by very many windows")
    return itertools.product(*(range(b + 1) for b in most))


def _with_windows(c: Call, x: Value, outside: float, w: Window) -> Value:
    """What is known of each window, with `outside` for windows in front and behind that do not exist."""
    lead, low, high = len(c.shape) - w.rank, _most_before(w), list[int]()
    for i, s in enumerate(w.strides):
        missing = _last(c, w, i) - shape_of(x)[lead + i]
        high.append(max(0, missing) if isinstance(missing, int) else w.size[i] // s + 2)
    return with_ends(c, x, low, high, outside)


def _last(c: Call, w: Window, i: int) -> Dim:
    """One more than (i + padding) // stride of the last element along a dim."""
    return floordiv(c.shape[len(c.shape) - w.rank + i] - 1 + w.low[i], w.strides[i]) + 1


def _covering(c: Call, x: Value, w: Window, shift: Sequence[int]) -> Value:
    """Per element of the operand, what x (with ends) has for the window of that shift."""
    lead = len(c.shape) - w.rank
    for i, (before, most) in enumerate(zip(shift, _most_before(w), strict=True)):
        x = c.e.slice(x, lead + i, most - before, _last(c, w, i))
        x = c.e.slice(c.e.repeat(x, lead + i, w.strides[i]), lead + i, w.low[i], c.shape[lead + i])
    return x


# mean


@dataclass(frozen=True, slots=True)
class Counting(Arguments):
    """What a sum over a window is divided by: a number, or how many elements there are, with or without padding."""

    count_include_pad: bool = True
    divisor_override: int | None = None

    def divisor(self, c: Call, w: Window, spatial: Sequence[Dim], sums: Value) -> float | Value:
        """How many elements count in each window: a number where all are alike."""
        if self.divisor_override is not None:
            return float(self.divisor_override)
        counts = [self._count(c, w, i, spatial[i], sums) for i in range(w.rank)]
        numbers = math.prod(n for n in counts if isinstance(n, int))
        varying = [v for v in counts if isinstance(v, Value)]
        if not varying:
            return float(numbers)
        out = c.e.fold(graph.mul, varying)
        return c.e.map(graph.mul, out, float(numbers)) if numbers != 1 else out

    def _count(self, c: Call, w: Window, i: int, size: Dim, sums: Value) -> int | Value:
        """How many elements of one dim count; padding does if it is included, but not what lies behind it."""
        e, k, padding, high = c.e, w.size[i], w.low[i], w.high[i]
        if (padding == 0 and high == 0) or (self.count_include_pad and high == padding):
            return k
        first = _positions(c, shape_of(sums)[-w.rank :], i, I64, w.strides[i], -padding)
        past = e.map(graph.add, first, k)
        low, end = (-padding, size + padding) if self.count_include_pad else (0, size)
        last = e.map(graph.min_, past, e.full((), I64, end))
        return e.cast(e.map(graph.sub, last, e.map(graph.max_, first, low)), elem_of(sums))


@lowers(aten.avg_pool2d.default, rank=2)
@lowers(aten.avg_pool3d.default, rank=3)
def avg_pool(c: Call, self: Value, how: Pooling, counting: Counting, *, rank: int) -> Value:
    spatial, result = shape_of(self)[-rank:], c.shape[-rank:]
    w = how.window(c, spatial, result)
    total = _reduced(c, c.e.cast(self, wide_elem(c.elem)), "sum", w, result)
    return c.rounded(c.e.map(graph.div, total, counting.divisor(c, w, spatial, total)))


@lowers(aten.avg_pool2d_backward.default, rank=2)
@lowers(aten.avg_pool3d_backward.default, rank=3)
def avg_pool_backward(
    c: Call, grad_output: Value, self: Value, how: Pooling, counting: Counting, *, rank: int
) -> Value:
    """The gradients of the windows that cover an element, each divided by how many elements counted."""
    e, spatial = c.e, c.shape[-rank:]
    w = how.window(c, spatial, shape_of(grad_output)[-rank:])
    grad = e.cast(grad_output, wide_elem(c.elem))
    grad = _with_windows(c, e.map(graph.div, grad, counting.divisor(c, w, spatial, grad)), 0.0, w)
    terms: list[Value] = []
    for shift in _shifts(c, w):
        term = _covering(c, grad, w, shift)
        for i, before in enumerate(shift):
            if w.size[i] % w.strides[i]:  # the earliest window covers only the first of the elements
                at = _positions(c, c.shape, i - rank, I32, 1, w.low[i])
                into = e.map(graph.add, e.map(graph.floormod, at, w.strides[i]), before * w.strides[i])
                term = e.select(e.map(graph.lt, into, w.size[i]), term, 0.0)
        terms.append(term)
    return c.rounded(e.fold(graph.add, terms))
