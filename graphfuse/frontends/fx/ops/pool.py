"""Pooling over windows, and its gradients.

The gradient of a window at an element is a sum over the windows that cover it, of which there are a few: each is read
from the result, repeated by the stride and shifted (`_covering`). Nothing is scattered.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from graphfuse.dialects import graph
from graphfuse.frontends.emit import elem_of, shape_of
from graphfuse.frontends.fx.lowering import Call, Results, lowers
from graphfuse.frontends.fx.ops.arithmetic import wide_elem
from graphfuse.frontends.fx.ops.conv import spread_over
from graphfuse.ir.core import Value
from graphfuse.ir.types import I32, I64, Scalar
from graphfuse.symbolic import Dim, floordiv

aten = torch.ops.aten

MOST_TAPS = 49
"""Larger windows leave the search for a maximum's position to torch: each tap is written out."""


@dataclass(frozen=True, slots=True)
class Window:
    """How a window moves over the last dims of x; `high` is the padding behind, as far as the last window reaches."""

    size: tuple[int, ...]
    strides: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    high: tuple[int, ...]

    @property
    def rank(self) -> int:
        """How many dims it moves over."""
        return len(self.size)

    @property
    def taps(self) -> int:
        """How many elements it sees."""
        return math.prod(self.size)


def window_of(
    c: Call, rank: int, spatial: Sequence[Dim], result: Sequence[Dim], size: Any, stride: Any, padding: Any = 0,
    dilation: Any = 1, ceil_mode: bool = False,
) -> Window:  # fmt: skip
    """The window that an operator's arguments say."""
    fields = sizes, strides, low, steps = tuple(
        spread_over(v if isinstance(v, (list, tuple)) else [v], rank) for v in (size, stride or size, padding, dilation)
    )
    c.want(all(isinstance(v, int) for values in fields for v in values), "a window, stride or padding is no number")
    high: list[int] = []
    for have, want, k, s, p, d in zip(spatial, result, *fields, strict=True):
        if ceil_mode:
            c.want(isinstance(have, int) and isinstance(want, int), "ceil_mode over a size that is not known")
        short = (want - 1) * s + (k - 1) * d + 1 - have - p
        high.append(max(p, short) if isinstance(short, int) else p)
    return Window(sizes, strides, low, steps, tuple(high))


def _reduced(c: Call, x: Value, kind: str, w: Window, size: Sequence[Dim]) -> Value:
    """The windows of the last dims combined, cut to `size`."""
    e, lead = c.e, len(shape_of(x)) - w.rank
    ones, zeros = (1,) * lead, (0,) * lead
    out = e(
        graph.reduce_window, x, kind=kind, window=ones + w.size, strides=ones + w.strides, low=zeros + w.padding,
        high=zeros + w.high, dilation=ones + w.dilation,
    )  # fmt: skip
    for i, d in enumerate(size):
        out = e.slice(out, lead + i, 0, d)
    return out


def _positions(c: Call, shape: Sequence[Dim], axis: int, elem: Scalar, scale: int = 1, offset: Dim = 0) -> Value:
    """index * scale + offset along an axis, one elsewhere."""
    e, axis = c.e, axis % len(shape)
    out = e.iota(tuple(d if i == axis else 1 for i, d in enumerate(shape)), axis, elem)
    out = out if scale == 1 else e.map(graph.mul, out, scale)
    return out if offset == 0 else e(graph.add, out, e.full(shape_of(out), elem, offset))


def _flat(c: Call, positions: Sequence[Value], sizes: Sequence[Dim]) -> Value:
    """Positions along dims as one position in row-major order."""
    e, out = c.e, positions[0]
    for at, size in zip(positions[1:], sizes[1:], strict=True):
        out = e.map(graph.add, e.map(graph.mul, out, e.full((), elem_of(out), size)), at)
    return out


# maximum


@lowers(aten.max_pool2d_with_indices.default)
def max_pool2d(
    c: Call, self: Value, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False,
) -> Results:  # fmt: skip
    return max_pool(c, self, 2, kernel_size, stride, padding, dilation, ceil_mode)


@lowers(aten.max_pool3d_with_indices.default)
def max_pool3d(
    c: Call, self: Value, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False,
) -> Results:  # fmt: skip
    return max_pool(c, self, 3, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool(
    c: Call, x: Value, rank: int, size: Any, stride: Any, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> Results:
    """Maxima of the windows of the last dims, and their positions."""
    spatial, result = shape_of(x)[-rank:], c.shape[-rank:]
    w = window_of(c, rank, spatial, result, size, stride, padding, dilation, ceil_mode)
    out = _reduced(c, x, "max", w, result)
    return out, _positions_of_maxima(c, x, w, spatial) if c.wanted[1] else None


def _positions_of_maxima(c: Call, x: Value, w: Window, spatial: Sequence[Dim]) -> Value:
    """The position in the plane of each window's first maximum or last NaN, by looking at one tap after another."""
    c.want(w.taps <= MOST_TAPS, f"a window of {w.taps} taps: torch finds its maximum's position")
    e, lead, shape = c.e, len(c.shape) - w.rank, c.shape
    least: Any = float("-inf") if c.elem.is_float else -(1 << (c.elem.bits - 1)) if c.elem.is_signed else 0
    zeros = (0,) * lead
    padded = x
    if any((*w.padding, *w.high)):
        padded = e(graph.pad, x, low=zeros + w.padding, high=zeros + w.high, value=least)
    first = [
        _positions(c, shape, lead + i, I32, s, -p) for i, (s, p) in enumerate(zip(w.strides, w.padding, strict=True))
    ]
    base = _flat(c, first, spatial)
    # relative to the window's first position, which may be in the padding
    best, found = e.full(shape, c.elem, least), e.map(graph.sub, _flat(c, _inside(c, first, w), spatial), base)
    found = e.broadcast(found, shape)
    for tap in itertools.product(*map(range, w.size)):
        seen, offset = padded, 0
        for i, (k, d, s) in enumerate(zip(tap, w.dilation, w.strides, strict=True)):
            seen = e.slice(seen, lead + i, k * d, shape[lead + i], s)
            offset = offset * spatial[i] + k * d
        better = e(graph.gt, seen, best)
        if c.elem.is_float:
            better = e(graph.or_, better, e(graph.isnan, seen))
        best = e(graph.select, better, seen, best)
        found = e(graph.select, better, e.full(shape, I32, offset), found)
    return e.cast(e.map(graph.add, found, base), I64)


def _inside(c: Call, first: Sequence[Value], w: Window) -> list[Value]:
    """The first position of each window that is not in the padding in front."""
    e, out = c.e, list[Value]()
    for at, p, d in zip(first, w.padding, w.dilation, strict=True):
        if d == 1 or p == 0:
            out.append(e.map(graph.max_, at, 0) if p else at)
        else:
            out.append(e.select(e.map(graph.lt, at, 0), e.map(graph.floormod, at, d), at))
    return out


@lowers(aten.max_pool2d_with_indices_backward.default)
def max_pool2d_backward(
    c: Call, grad_output: Value, self: Value, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
    ceil_mode: bool, indices: Value,
) -> Value:  # fmt: skip
    spatial, result = shape_of(self)[-2:], shape_of(grad_output)[-2:]
    w = window_of(c, 2, spatial, result, kernel_size, stride, padding, dilation, ceil_mode)
    return max_pool_backward(c, grad_output, indices, w)


@lowers(aten.max_pool3d_with_indices_backward.default)
def max_pool3d_backward(
    c: Call, grad_output: Value, self: Value, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
    ceil_mode: bool, indices: Value,
) -> Value:  # fmt: skip
    spatial, result = shape_of(self)[-3:], shape_of(grad_output)[-3:]
    w = window_of(c, 3, spatial, result, kernel_size, stride, padding, dilation, ceil_mode)
    return max_pool_backward(c, grad_output, indices, w)


def max_pool_backward(c: Call, grad: Value, indices: Value, w: Window) -> Value:
    """The gradients of the windows whose maximum an element is."""
    e, spatial = c.e, c.shape[-w.rank :]
    here = _flat(c, [_positions(c, c.shape, i - w.rank, I32) for i in range(w.rank)], spatial)
    here = e.broadcast(here, c.shape)
    grad = _with_ends(c, e.cast(grad, wide_elem(c.elem)), 0.0, w)
    index = _with_ends(c, e.cast(indices, I32), -1, w)
    terms = [
        e.select(e(graph.eq, _covering(c, index, w, shift), here), _covering(c, grad, w, shift), 0.0)
        for shift in _shifts(c, w)
    ]
    return c.rounded(functools.reduce(lambda a, b: e(graph.add, a, b), terms))


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


def _with_ends(c: Call, x: Value, outside: float, w: Window) -> Value:
    """What is known of each window, with `outside` for windows in front and behind that do not exist."""
    lead, low, high = len(c.shape) - w.rank, _most_before(w), list[int]()
    for i, s in enumerate(w.strides):
        missing = _last(c, w, i) - shape_of(x)[lead + i]
        high.append(max(0, missing) if isinstance(missing, int) else w.size[i] // s + 2)
    if not any((*low, *high)):
        return x
    zeros = (0,) * lead
    return c.e(graph.pad, x, low=zeros + low, high=zeros + tuple(high), value=outside)


def _last(c: Call, w: Window, i: int) -> Dim:
    """One more than (i + padding) // stride of the last element along a dim."""
    return floordiv(c.shape[len(c.shape) - w.rank + i] - 1 + w.padding[i], w.strides[i]) + 1


def _covering(c: Call, x: Value, w: Window, shift: Sequence[int]) -> Value:
    """Per element of the operand, what x (with ends) has for the window of that shift."""
    lead = len(c.shape) - w.rank
    for i, (before, most) in enumerate(zip(shift, _most_before(w), strict=True)):
        x = c.e.slice(x, lead + i, most - before, _last(c, w, i))
        x = c.e.slice(repeated(c, x, lead + i, w.strides[i]), lead + i, w.padding[i], c.shape[lead + i])
    return x


def repeated(c: Call, x: Value, axis: int, times: int) -> Value:
    """Each element of an axis several times in a row."""
    shape = shape_of(x)
    if times == 1:
        return x
    wide = c.e.broadcast(c.e.unsqueeze(x, axis + 1), (*shape[: axis + 1], times, *shape[axis + 1 :]))
    return c.e.reshape(wide, tuple(d * times if a == axis else d for a, d in enumerate(shape)))


# mean


@lowers(aten.avg_pool2d.default)
def avg_pool2d(
    c: Call, self: Value, kernel_size: Any, stride: Any = (), padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> Value:  # fmt: skip
    return _avg_pool(c, self, 2, (kernel_size, stride, padding, 1, ceil_mode), count_include_pad, divisor_override)


@lowers(aten.avg_pool3d.default)
def avg_pool3d(
    c: Call, self: Value, kernel_size: Any, stride: Any = (), padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> Value:  # fmt: skip
    return _avg_pool(c, self, 3, (kernel_size, stride, padding, 1, ceil_mode), count_include_pad, divisor_override)


def _avg_pool(c: Call, x: Value, rank: int, how: Any, include: bool, override: int | None) -> Value:
    spatial, result = shape_of(x)[-rank:], c.shape[-rank:]
    w = window_of(c, rank, spatial, result, *how)
    total = _reduced(c, c.e.cast(x, wide_elem(c.elem)), "sum", w, result)
    return c.rounded(c.e.map(graph.div, total, _divisor(c, w, spatial, result, elem_of(total), include, override)))


def _divisor(
    c: Call, w: Window, spatial: Sequence[Dim], result: Sequence[Dim], elem: Scalar, include: bool, override: int | None
) -> float | Value:
    """How many elements count in each window: a number where all are alike."""
    if override is not None:
        return float(override)
    counts = [_count(c, w, i, spatial[i], result, elem, include) for i in range(w.rank)]
    numbers = math.prod(n for n in counts if isinstance(n, int))
    varying = [v for v in counts if isinstance(v, Value)]
    if not varying:
        return float(numbers)
    out = functools.reduce(lambda a, b: c.e.map(graph.mul, a, b), varying)
    return c.e.map(graph.mul, out, float(numbers)) if numbers != 1 else out


def _count(c: Call, w: Window, i: int, size: Dim, result: Sequence[Dim], elem: Scalar, include: bool) -> int | Value:
    """How many elements of one dim count; padding does if it is `include`d, but not what lies behind it."""
    e, k, padding, high = c.e, w.size[i], w.padding[i], w.high[i]
    if (padding == 0 and high == 0) or (include and high == padding):
        return k
    first = _positions(c, result, i, I64, w.strides[i], -padding)
    past = e.map(graph.add, first, k)
    low, end = (-padding, size + padding) if include else (0, size)
    last = e.map(graph.min_, past, e.full((), I64, end))
    inside = e.map(graph.sub, last, e.map(graph.max_, first, low))
    return e.cast(inside, elem)


@lowers(aten.avg_pool2d_backward.default)
def avg_pool2d_backward(
    c: Call, grad_output: Value, self: Value, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool,
    count_include_pad: bool, divisor_override: int | None,
) -> Value:  # fmt: skip
    how = (kernel_size, stride, padding, 1, ceil_mode)
    return _avg_pool_backward(c, grad_output, 2, how, count_include_pad, divisor_override)


@lowers(aten.avg_pool3d_backward.default)
def avg_pool3d_backward(
    c: Call, grad_output: Value, self: Value, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool,
    count_include_pad: bool, divisor_override: int | None,
) -> Value:  # fmt: skip
    how = (kernel_size, stride, padding, 1, ceil_mode)
    return _avg_pool_backward(c, grad_output, 3, how, count_include_pad, divisor_override)


def _avg_pool_backward(c: Call, grad: Value, rank: int, how: Any, include: bool, override: int | None) -> Value:
    """The gradients of the windows that cover an element, each divided by how many elements counted."""
    e, spatial, result = c.e, c.shape[-rank:], shape_of(grad)[-rank:]
    w = window_of(c, rank, spatial, result, *how)
    grad = e.cast(grad, wide_elem(c.elem))
    grad = e.map(graph.div, grad, _divisor(c, w, spatial, result, elem_of(grad), include, override))
    grad = _with_ends(c, grad, 0.0, w)
    terms: list[Value] = []
    for shift in _shifts(c, w):
        term = _covering(c, grad, w, shift)
        for i, before in enumerate(shift):
            if w.size[i] % w.strides[i]:  # the earliest window covers only the first of the elements
                at = _positions(c, c.shape, i - rank, I32, 1, w.padding[i])
                into = e.map(graph.add, e.map(graph.floormod, at, w.strides[i]), before * w.strides[i])
                term = e.select(e.map(graph.lt, into, w.size[i]), term, 0.0)
        terms.append(term)
    return c.rounded(functools.reduce(lambda a, b: e(graph.add, a, b), terms))
