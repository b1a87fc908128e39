"""Sampling and scattering of images at computed positions: GridSample, AffineGrid, Col2Im, MaxUnpool."""

from __future__ import annotations

import functools
import itertools

import numpy as np

from graphfuse.dialects import graph
from graphfuse.dialects.graph import ELEMENTWISE
from graphfuse.frontends.emit import Emitter, elem_of, shape_of, tensor
from graphfuse.frontends.onnx.node import Node, onnx_op
from graphfuse.ir.core import Value
from graphfuse.ir.types import I64
from graphfuse.symbolic import Dim, product


@onnx_op("GridSample")
def grid_sample(e: Emitter, node: Node) -> Value:
    """Interpolate x [N, C, spatial] at the normalised coordinates of a grid [N, out, dims] (last spatial dim first)."""
    x, grid = node.value(e, 0), node.value(e, 1)
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(m := node.attr_str("mode", "linear"), m)
    padding, aligned = node.attr_str("padding_mode", "zeros"), bool(node.attr_int("align_corners", 0))
    if mode not in ("linear", "nearest", "cubic") or padding not in ("zeros", "border", "reflection"):
        raise node.error(f"unknown mode {mode} or padding_mode {padding}")
    batch, channels, *spatial = shape_of(x)
    dims = len(spatial)
    out = shape_of(grid)[1:-1]
    points = product(out)
    grid = e.reshape(e.cast(grid, elem_of(e.wide(grid))), (batch, points, dims))
    taps: list[list[tuple[Value, Value | None, Value | None]]] = []
    for i, size in enumerate(spatial):
        at = e.squeeze(e.slice(grid, 2, dims - 1 - i, 1), 2)
        taps.append(_taps(e, at, size, mode, padding, aligned=aligned))
    flat = e.reshape(x, (batch, channels, product(spatial)))
    total: Value | None = None
    for combination in itertools.product(*taps):
        index = functools.reduce(
            lambda acc, s: e.map(graph.add, e.map(graph.mul, acc, e.full((), I64, s[1])), s[0]),
            zip((t[0] for t in combination[1:]), spatial[1:], strict=True),
            combination[0][0],
        )
        picked = e(graph.take_along, flat, e.broadcast(e.unsqueeze(index, 1), (batch, channels, points)), axis=2)
        for _, weight, _ in combination:
            picked = e.map(graph.mul, picked, e.cast(e.unsqueeze(weight, 1), elem_of(x))) if weight else picked
        for _, _, inside in combination:
            picked = e.select(e.unsqueeze(inside, 1), picked, 0) if inside else picked
        total = picked if total is None else e.map(graph.add, total, picked)
    assert total is not None
    return e.reshape(total, (batch, channels, *out))


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
        length = e.full((), wide, spatial[axis])
        if node.attr_int("align_corners", 0):
            last = e.map(graph.max_, e.map(graph.sub, length, 1.0), 1.0)
            step, start = e.map(graph.div, 2.0, last), -1.0
        else:
            step = e.map(graph.div, 2.0, length)
            start = e.map(graph.sub, e.map(graph.mul, step, 0.5), 1.0)
        at = e.cast(e.iota((spatial[axis], *(1,) * (dims - axis)), 0), wide)
        total = e.map(graph.add, total, e.map(graph.mul, column, e.map(graph.add, e.map(graph.mul, at, step), start)))
    return e.cast(total, elem)


def _taps(
    e: Emitter, at: Value, size: Dim, mode: str, padding: str, *, aligned: bool
) -> list[tuple[Value, Value | None, Value | None]]:
    """For one dim: indices, weights and (for zero padding) whether the index is inside, per neighbour."""
    elem = elem_of(at)
    length = e.full((), elem, size)
    half = e.map(graph.mul, e.map(graph.add, at, 1.0), 0.5)  # 0..1
    if aligned:
        position = e.map(graph.mul, half, e.map(graph.sub, length, 1.0))
        low, high = 0.0, e.map(graph.sub, length, 1.0)
    else:
        position = e.map(graph.sub, e.map(graph.mul, half, length), 0.5)
        low, high = -0.5, e.map(graph.sub, length, 0.5)
    last = e.map(graph.sub, length, 1.0)

    def padded(p: Value) -> Value:
        if padding == "border":
            return e.map(graph.min_, e.map(graph.max_, p, 0.0), last)
        if padding == "reflection":
            return _reflected(e, p, low, high)
        return p

    if mode == "nearest":
        neighbours = [(e.map(ELEMENTWISE["round"], position), None)]
    else:
        # as in torch, a cubic's border is around its neighbours; elsewhere it is the same for neighbours and position
        position = position if (mode, padding) == ("cubic", "border") else padded(position)
        base = e.map(ELEMENTWISE["floor"], position)
        fraction = e.map(graph.sub, position, base)
        steps = range(2) if mode == "linear" else range(-1, 3)
        neighbours = [(e.map(graph.add, base, float(s)), _weight(e, fraction, s, mode)) for s in steps]
    out: list[tuple[Value, Value | None, Value | None]] = []
    for where, weight in neighbours:
        inside = None
        if padding == "zeros":
            inside = e.map(graph.and_, e.map(graph.ge, where, 0.0), e.map(graph.le, where, last))
        # what is still outside (NaN, or zero padding) must not index out of bounds
        safe = e.map(graph.min_, e.map(graph.max_, padded(where), 0.0), last)
        out.append((e.cast(safe, I64), weight, inside))
    return out


def _weight(e: Emitter, fraction: Value, step: int, mode: str) -> Value:
    distance = e.map(graph.abs_, e.map(graph.sub, fraction, float(step)))
    if mode == "linear":
        return e.map(graph.neg, e.map(graph.sub, distance, 1.0))
    a = -0.75  # Keys' kernel by Horner's rule: two near neighbours, two far ones
    first, *rest = (a + 2, -(a + 3), 0.0, 1.0) if step in (0, 1) else (a, -5 * a, 8 * a, -4 * a)
    out = e.map(graph.mul, distance, first)
    for i, c in enumerate(rest):
        out = e.map(graph.add, out, c)
        out = e.map(graph.mul, out, distance) if i < len(rest) - 1 else out
    return out


def _reflected(e: Emitter, p: Value, low: float, high: Value) -> Value:
    """Fold a position back into low..high, as often as it takes."""
    span = e.map(graph.sub, high, low)
    span = e.map(graph.max_, span, 1e-6)
    distance = e.map(graph.abs_, e.map(graph.sub, p, low))
    folds = e.map(ELEMENTWISE["floor"], e.map(graph.div, distance, span))
    rest = e.map(graph.sub, distance, e.map(graph.mul, folds, span))
    odd = e.map(graph.ne, e.map(graph.floormod, folds, 2.0), 0.0)
    return e.select(odd, e.map(graph.sub, high, rest), e.map(graph.add, rest, low))


@onnx_op("Col2Im")
def col2im(e: Emitter, node: Node) -> Value:
    """Add the columns of blocks [N, C * block, positions] where they overlap in an image."""
    x = node.value(e, 0)
    image, block = node.ints(1, "the image shape"), node.ints(2, "the block shape")
    n = len(image)
    strides, dilation = node.attr_ints("strides", (1,) * n), node.attr_ints("dilations", (1,) * n)
    pads = node.attr_ints("pads", (0,) * (2 * n))
    if not len(block) == len(strides) == len(dilation) == n or len(pads) != 2 * n:
        raise node.error(f"window attributes do not fit {n} spatial dims")
    counts = [
        (d + pads[i] + pads[n + i] - dilation[i] * (block[i] - 1) - 1) // strides[i] + 1 for i, d in enumerate(image)
    ]
    node.check_table("the columns", *block, *counts)
    index = np.zeros((*block, *counts), dtype=np.int64)
    inside = np.ones(index.shape, dtype=bool)
    for i, d in enumerate(image):
        at = np.arange(block[i])[:, None] * dilation[i] + np.arange(counts[i]) * strides[i] - pads[i]
        at = at.reshape([block[i] if j == i else counts[i] if j == n + i else 1 for j in range(2 * n)])
        inside = inside & (at >= 0) & (at < d)
        index = index * d + np.clip(at, 0, d - 1)
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
def max_unpool(e: Emitter, node: Node) -> Value:
    """Put pooled values back at the positions they came from, zeros elsewhere."""
    x = node.value(e, 0)
    size = node.attr_ints("kernel_shape")
    n = len(size)
    strides, pads = node.attr_ints("strides", (1,) * n), node.attr_ints("pads", (0,) * (2 * n))
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
