"""Pooling over windows: max, average, Lp, and local response normalisation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from graphfuse.dialects import graph
from graphfuse.frontends.emit import Emitter, Shape, elem_of, shape_of, tensor
from graphfuse.frontends.host_values import Array, greater, lesser
from graphfuse.frontends.onnx.node import Node, onnx_op
from graphfuse.frontends.onnx.ops.conv import window_of
from graphfuse.frontends.onnx.ops.reduce import lp_norm
from graphfuse.frontends.windows import Window
from graphfuse.interp.elementwise import integer_range
from graphfuse.ir.core import Value
from graphfuse.ir.types import F32
from graphfuse.symbolic import Dim, ceildiv, static


def _pool_window(e: Emitter, node: Node, spatial: Shape) -> tuple[Window, tuple[Dim, ...]]:
    """The window with its right padding as ceil_mode wants it, and how much ceil_mode added to it."""
    window = window_of(e, node, node.attr_ints("kernel_shape"), spatial)
    if not node.attr_int("ceil_mode", 0) or node.attr_str("auto_pad", "NOTSET").startswith("SAME"):
        return window, (0,) * len(spatial)
    sides = zip(spatial, window.low, window.high, window.strides, window.extents, strict=True)
    added = tuple(_ceil_padding(e, *side) for side in sides)
    high = tuple(hi + more for hi, more in zip(window.high, added, strict=True))
    return replace(window, high=high), added


def _ceil_padding(e: Emitter, d: Dim, low: Dim, high: Dim, stride: int, extent: int) -> Dim:
    """Extra right padding that turns the floor of the output size into its ceiling.

    A last window that would start in the right padding is left out.
    """
    low, high = static(low), static(high)  # explicit pads are numbers
    if not isinstance(d, int) and high + stride <= extent:
        return stride - 1  # no window starts in the padding; a surplus that fills no window changes nothing
    count = ceildiv(d + low + high - extent, stride) + 1
    count = lesser(count, ceildiv(d + low, stride), e.ranges)
    return greater((count - 1) * stride + extent - (d + low + high), 0, e.ranges)


def _reduce_window(e: Emitter, x: Value, window: Window, kind: str) -> Value:
    elem = elem_of(x)
    least = float("-inf") if elem.is_float else integer_range(elem)[0]
    x, window = window.with_static_padding(e, x, 0.0 if kind == "sum" else least)
    return window.reduce(e, x, kind)


@onnx_op("MaxPool")
def max_pool(e: Emitter, node: Node, x: Value) -> tuple[Value, Value | None]:
    """The maximum of each window; the second output, its index in the flattened input."""
    window, _ = _pool_window(e, node, shape_of(x)[2:])
    out = _reduce_window(e, x, window, "max")
    return out, _max_indices(e, node, x, window) if node.wants(1) else None


def _max_indices(e: Emitter, node: Node, x: Value, window: Window) -> Value:
    """Positions of the maxima: gather each window into one dim, find the first extreme, map it back."""
    shape = shape_of(x)
    if not elem_of(x).is_float:
        raise node.unsupported(f"indices of a maximum need a float input, got {x.type}")
    if not tensor(x).is_static:
        raise node.unknown_dim("indices of a maximum need a static input")
    sizes = [static(d) for d in shape[2:]]
    rows: list[Array] = []
    for d, k, s, dl, lo, hi in zip(
        sizes, window.size, window.strides, window.dilation, window.low, window.high, strict=True
    ):
        lo, hi = static(lo), static(hi)  # as dims are
        count = static(graph.window_size(d, k, s, lo, hi, dl))
        node.check_table("the windows", count, k)
        rows.append(window_rows(count, k, s, dl, lo))
    outs = [row.shape[0] for row in rows]
    node.check_table("the windows", *outs, *window.size)
    index, valid = positions(rows, sizes)  # padding is a position that cannot win
    stored, _ = positions(rows, sizes, column_major=bool(node.attr_int("storage_order", 0)))
    cells, count = int(np.prod(outs)), int(np.prod(window.size))
    flat = e.reshape(x, (shape[0], shape[1], int(np.prod(sizes))))
    taken = e(graph.take, flat, e.constant(index.reshape(cells, count)), axis=2)
    taken = e.select(e.constant(valid.reshape(cells, count)), taken, float("-inf"))
    best = e(graph.arg_reduce, taken, axis=3, kind="max", keepdims=True)
    places = e.broadcast(e.constant(stored.reshape(cells, count)), shape_of(taken))
    found = e.squeeze(e(graph.take_along, places, best, axis=3), 3)
    planes = e.iota((shape[0], shape[1], cells), 0)
    planes = e.map(graph.mul, planes, e.full((), elem_of(planes), shape[1]))
    planes = e.map(graph.add, planes, e.iota((shape[0], shape[1], cells), 1))
    found = e.map(graph.add, found, e.map(graph.mul, planes, e.full((), elem_of(planes), int(np.prod(sizes)))))
    return e.reshape(found, (shape[0], shape[1], *outs))


def window_rows(count: int, size: int, stride: int, dilation: int, low: int) -> Array:
    """The positions that each of `count` windows covers along one dim, as [count, size]."""
    return np.arange(count)[:, None] * stride + np.arange(size) * dilation - low


def positions(rows: Sequence[Array], sizes: Sequence[int], *, column_major: bool = False) -> tuple[Array, Array]:
    """Positions [a, b] along each dim as those in the flattened dims [a0, a1, .., b0, b1, ..], and which are inside."""
    n = len(rows)
    ats = [row.reshape([row.shape[j // n] if j % n == i else 1 for j in range(2 * n)]) for i, row in enumerate(rows)]
    clipped = np.broadcast_arrays(*(np.clip(at, 0, max(d - 1, 0)) for at, d in zip(ats, sizes, strict=True)))
    within: list[Array] = [(at >= 0) & (at < d) for at, d in zip(ats, sizes, strict=True)]
    inside = np.all(np.broadcast_arrays(*within), axis=0)
    dims, order = tuple(max(d, 1) for d in sizes), "F" if column_major else "C"
    return np.ravel_multi_index(tuple(clipped), dims, order=order).astype(np.int64), np.asarray(inside)


@onnx_op("AveragePool")
def average_pool(e: Emitter, node: Node, x: Value) -> Value:
    """The mean of each window; padding counts if count_include_pad says so, ceil_mode's extra never does."""
    spatial = shape_of(x)[2:]
    window, added = _pool_window(e, node, spatial)
    total = _reduce_window(e, e.wide(x), window, "sum")
    whole, counts = 1, list[Value]()
    include = bool(node.attr_int("count_include_pad", 0))
    for i, d in enumerate(spatial):
        count = _axis_count(e, node, d, window, i, added[i], include)
        if isinstance(count, int):
            whole *= count
        else:
            counts.append(e.reshape(count, (shape_of(count)[0], *(1,) * (len(spatial) - 1 - i))))
    if counts:
        divisor = e.fold(graph.mul, counts)
        divisor = e.map(graph.mul, divisor, float(whole)) if whole != 1 else divisor
        return e.cast(e.map(graph.div, total, e.cast(divisor, elem_of(total))), elem_of(x))
    return e.cast(e.map(graph.div, total, float(whole)), elem_of(x))


def _axis_count(e: Emitter, node: Node, d: Dim, window: Window, i: int, added: Dim, include: bool) -> int | Value:
    """How many positions of one dim each window counts: a number if the same for all, else a vector."""
    size, stride, dilation = window.size[i], window.strides[i], window.dilation[i]
    low, high = window.low[i], window.high[i]
    # the padding that counts, and the one that does not
    length, low, high = (d + low + high - added, 0, added) if include else (d, low, high)
    if (low, high) == (0, 0):
        return size
    if isinstance(length, int) and isinstance(low, int) and isinstance(high, int):
        n = static(graph.window_size(length, size, stride, low, high, dilation))
        node.check_table("the windows", n, size)
        at = window_rows(n, size, stride, dilation, low)
        counts = ((at >= 0) & (at < length)).sum(axis=1)
        if (counts == counts[:1]).all() and n:
            return int(counts[0])
        return e.constant(counts.astype(np.float32))
    ones = e.full((length,), F32, 1.0)
    return _reduce_window(e, ones, Window((size,), (stride,), (dilation,), (low,), (high,)), "sum")


@onnx_op("LpPool")
def lp_pool(e: Emitter, node: Node, x: Value) -> Value:
    """The Lp norm of each window."""
    p = node.attr_int("p", 2)
    window, _ = _pool_window(e, node, shape_of(x)[2:])
    return e.cast(lp_norm(e, e.wide(x), p, lambda v: _reduce_window(e, v, window, "sum")), elem_of(x))


@onnx_op("LRN")
def lrn(e: Emitter, node: Node, x: Value) -> Value:
    """x / (bias + alpha / size * sum of squares over neighbouring channels) ** beta."""
    size = node.attr_int("size")
    wide = e.wide(x)
    none = (0,) * (tensor(x).rank - 2)
    one = tuple(d + 1 for d in none)
    window = Window((size, *one), (1, *one), (1, *one), ((size - 1) // 2, *none), (size // 2, *none))
    total = window.reduce(e, e.map(graph.mul, wide, wide), "sum")
    scaled = e.map(graph.mul, total, node.attr_float("alpha", 0.0001) / size)
    base = e.map(graph.add, scaled, node.attr_float("bias", 1.0))
    return e.cast(e.map(graph.div, wide, e.map(graph.pow_, base, node.attr_float("beta", 0.75))), elem_of(x))
