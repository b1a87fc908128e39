"""Sampling and scattering of images at computed positions: GridSample, AffineGrid, Col2Im, MaxUnpool."""

from __future__ import annotations

import itertools

import numpy as np

from graphfuse.dialects import graph
from graphfuse.frontends.emit import Emitter, elem_of, shape_of, tensor
from graphfuse.frontends.onnx.node import Node, onnx_op
from graphfuse.frontends.onnx.ops.conv import window_attributes
from graphfuse.frontends.onnx.ops.pool import positions, window_rows
from graphfuse.frontends.onnx.ops.resize import weight_of
from graphfuse.frontends.terms import Term, absolute, floor, maximum, minimum, nearest, where
from graphfuse.ir.core import Value
from graphfuse.ir.types import I64
from graphfuse.symbolic import Dim, product

Tap = tuple[Value, Value | None, Value | None]
"""An index; the weight of what is there; and, where it may not, whether it lies inside."""


@onnx_op("GridSample")
def grid_sample(e: Emitter, node: Node, x: Value, grid: Value) -> Value:
    """Interpolate x [N, C, spatial] at the normalised coordinates of a grid [N, out, dims] (last spatial dim first)."""
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(m := node.attr_str("mode", "linear"), m)
    padding, aligned = node.attr_str("padding_mode", "zeros"), bool(node.attr_int("align_corners", 0))
    if mode not in ("linear", "nearest", "cubic") or padding not in ("zeros", "border", "reflection"):
        raise node.error(f"unknown mode {mode} or padding_mode {padding}")
    batch, channels, *spatial = shape_of(x)
    dims = len(spatial)
    out = shape_of(grid)[1:-1]
    points = product(out)
    grid = e.reshape(e.cast(grid, elem_of(e.wide(grid))), (batch, points, dims))
    taps: list[list[Tap]] = []
    for i, size in enumerate(spatial):
        at = e.squeeze(e.slice(grid, 2, dims - 1 - i, 1), 2)
        taps.append(_taps(e, at, size, mode, padding, aligned=aligned))
    flat = e.reshape(x, (batch, channels, product(spatial)))

    def tap(combination: tuple[Tap, ...]) -> Value:
        index = e.flat_index([at for at, _, _ in combination], spatial)
        picked = e(graph.take_along, flat, e.broadcast(e.unsqueeze(index, 1), (batch, channels, points)), axis=2)
        for _, weight, _ in combination:
            picked = e.map(graph.mul, picked, e.cast(e.unsqueeze(weight, 1), elem_of(x))) if weight else picked
        for _, _, inside in combination:
            picked = e.select(e.unsqueeze(inside, 1), picked, 0) if inside else picked
        return picked

    return e.reshape(e.fold(graph.add, map(tap, itertools.product(*taps))), (batch, channels, *out))


@onnx_op("AffineGrid")
def affine_grid(e: Emitter, node: Node) -> Value:
    """theta [N, dims, dims + 1] times the positions (last spatial dim first) and 1 of a grid: [N, spatial, dims].

    The standard's own body is wrong for N = 1: it squeezes that dim away.
    """
    count, _, *spatial = node.dims(1, "the size")
    dims = len(spatial)
    theta = e.equalled(node.value(e, 0), (count, dims, dims + 1), "theta")
    elem, theta = elem_of(theta), e.wide(theta)
    wide = elem_of(theta)
    *columns, total = (e.unsqueeze(e.squeeze(e.slice(theta, 2, j, 1), 2), *range(1, dims + 1)) for j in range(dims + 1))
    for axis, column in zip(reversed(range(dims)), columns, strict=True):
        length = Term(e, e.full((), wide, spatial[axis]))
        if node.attr_int("align_corners", 0):
            step, start = 2.0 / maximum(length - 1.0, 1.0), -1.0
        else:
            step = 2.0 / length
            start = step * 0.5 - 1.0
        at = Term(e, e.cast(e.iota((spatial[axis], *(1,) * (dims - axis)), 0), wide))
        total = (Term(e, total) + Term(e, column) * (at * step + start)).value
    return e.cast(total, elem)


def _taps(e: Emitter, at: Value, size: Dim, mode: str, padding: str, *, aligned: bool) -> list[Tap]:
    """For one dim: indices, weights and (for zero padding) whether the index is inside, per neighbour."""
    length = Term(e, e.full((), elem_of(at), size))
    half = (Term(e, at) + 1.0) * 0.5  # 0..1
    if aligned:
        position, low, high = half * (length - 1.0), 0.0, length - 1.0
    else:
        position, low, high = half * length - 0.5, -0.5, length - 0.5
    last = length - 1.0

    def padded(p: Term) -> Term:
        if padding == "border":
            return minimum(maximum(p, 0.0), last)
        return _reflected(p, low, high) if padding == "reflection" else p

    if mode == "nearest":
        neighbours: list[tuple[Term, Term | None]] = [(nearest(position), None)]
    else:
        # as in torch, a cubic's border is around its neighbours; elsewhere it is the same for neighbours and position
        position = position if (mode, padding) == ("cubic", "border") else padded(position)
        base = floor(position)
        fraction = position - base
        steps = range(2) if mode == "linear" else range(-1, 3)
        neighbours = [(base + float(s), weight_of(absolute(fraction - float(s)), s, mode)) for s in steps]
    out: list[Tap] = []
    for where_, weight in neighbours:
        inside = ((where_ >= 0.0) & (where_ <= last)).value if padding == "zeros" else None
        # what is still outside (NaN, or zero padding) must not index out of bounds
        safe = minimum(maximum(padded(where_), 0.0), last)
        out.append((safe.cast(I64).value, weight and weight.value, inside))
    return out


def _reflected(p: Term, low: float, high: Term) -> Term:
    """Fold a position back into low..high, as often as it takes."""
    span = maximum(high - low, 1e-6)
    distance = absolute(p - low)
    folds = floor(distance / span)
    rest = distance - folds * span
    odd = folds.map(graph.floormod, 2.0).map(graph.ne, 0.0)
    return where(odd, high - rest, rest + low)


@onnx_op("Col2Im")
def col2im(e: Emitter, node: Node, x: Value) -> Value:
    """Add the columns of blocks [N, C * block, positions] where they overlap in an image."""
    image, block = node.ints(1, "the image shape"), node.ints(2, "the block shape")
    n = len(image)
    strides, dilation, pads = window_attributes(node, n, block)
    counts = [
        (d + pads[i] + pads[n + i] - dilation[i] * (block[i] - 1) - 1) // strides[i] + 1 for i, d in enumerate(image)
    ]
    node.check_table("the columns", *block, *counts)
    rows = [window_rows(*dim) for dim in zip(counts, block, strides, dilation, pads[:n], strict=True)]
    index, inside = positions([row.T for row in rows], image)
    batch, columns, _ = shape_of(x)
    taps = int(np.prod(block))
    channels = product((columns,)) // taps
    values = e.reshape(x, (batch, channels, index.size))
    if not inside.all():
        values = e.select(e.constant(inside.reshape(-1)), values, 0)
    zeros = e.full((batch, channels, int(np.prod(image))), elem_of(x), 0.0)
    where = e.broadcast(e.constant(index.reshape(-1)), shape_of(values))
    return e.reshape(e(graph.scatter_along, zeros, where, values, axis=2, kind="add"), (batch, channels, *image))


@onnx_op("MaxUnpool")
def max_unpool(e: Emitter, node: Node, x: Value) -> Value:
    """Put pooled values back at the positions they came from, zeros elsewhere."""
    size = node.attr_ints("kernel_shape")
    n = len(size)
    strides, _, pads = window_attributes(node, n)
    batch, channels, *spatial = shape_of(x)
    inner = [(d - 1) * strides[i] + size[i] - pads[i] - pads[n + i] for i, d in enumerate(spatial)]
    natural = (batch, channels, *inner)
    zeros = e.full((product(natural),), elem_of(x), 0.0)
    index = node.index(e, 1, product(natural), from_end=False)
    x = e.broadcast(x, shape_of(index))
    out = e(graph.scatter_along, zeros, e.flatten(index), e.flatten(x), axis=0)
    out = e.reshape(out, natural)
    if not node.has(2):
        return out
    high = tuple(want - d for want, d in zip(node.dims(2, "the output shape"), natural, strict=True))
    return e(graph.pad, out, low=(0,) * tensor(out).rank, high=high, value=0.0)
