"""Bilinear samples at positions that data decides: RoiAlign and DeformConv."""

from __future__ import annotations

import itertools

import numpy as np

from graphfuse.dialects import graph
from graphfuse.dialects.graph import ELEMENTWISE
from graphfuse.frontends.compositions import biased
from graphfuse.frontends.emit import Emitter, elem_of, shape_of, tensor
from graphfuse.frontends.onnx.node import Node, onnx_op
from graphfuse.frontends.terms import Term, floor, maximum, minimum, where
from graphfuse.ir.core import Value
from graphfuse.ir.types import I64
from graphfuse.symbolic import Dim, product

Tap = tuple[Value, Value]
"""An index, and the weight of what is there."""


# RoiAlign


@onnx_op("RoiAlign")
def roi_align(e: Emitter, node: Node) -> Value:
    """The mean or largest of samples on a grid in each bin of a region."""
    x, rois = node.value(e, 0), e.wide(node.value(e, 1))
    batch = e.cast(node.index(e, 2, shape_of(x)[0], from_end=False), I64)
    mode, samples = node.attr_str("mode", "avg"), node.attr_int("sampling_ratio", 0)
    transform = node.attr_str("coordinate_transformation_mode", "half_pixel")
    if mode not in ("avg", "max") or transform not in ("half_pixel", "output_half_pixel"):
        raise node.error(f"unknown mode {mode} or coordinate_transformation_mode {transform}")
    if samples < 1:
        raise node.unsupported("sampling_ratio 0 takes as many samples as the data says")
    n, channels, *spatial = shape_of(x)
    rank, elem = len(spatial), elem_of(x)
    (count, width) = shape_of(rois)
    if rank != 2 or width != 4:
        raise node.error(f"expected images and regions of four numbers, got {node.type(0)} and {node.type(1)}")
    bins = (node.attr_int("output_height", 1), node.attr_int("output_width", 1))
    for side in bins:
        node.check_table("the samples", side, samples)
    exact = transform == "half_pixel"
    corners = e.map(graph.mul, rois, node.attr_float("spatial_scale", 1.0))
    corners = e.map(graph.sub, corners, 0.5) if exact else corners
    taps: list[list[Tap]] = []
    for axis in (0, 1):  # height, then width: a region is x1, y1, x2, y2
        start, end = (e.slice(corners, 1, at, 1) for at in (1 - axis, 3 - axis))
        length = e.map(graph.sub, end, start)
        length = length if exact else e.map(graph.max_, length, 1.0)
        grid = (np.arange(bins[axis] * samples) + 0.5) / samples / bins[axis]
        steps = e.cast(e.constant(grid.astype(np.float64)), elem_of(length))
        at = e.map(graph.add, start, e.map(graph.mul, length, steps))
        shape = (count, bins[axis] * samples, 1) if axis == 0 else (count, 1, bins[axis] * samples)
        taps.append([(e.reshape(i, shape), e.reshape(w, shape)) for i, w in _inside_taps(e, at, spatial[axis])])
    pixels = e.reshape(e.permute(x, (0, 2, 3, 1)), (n * product(spatial), channels))
    image = e.reshape(batch, (count, 1, 1))
    terms: list[Value] = []
    for combination in itertools.product(*taps):
        index = e.flat_index([image, *(i for i, _ in combination)], [n, *spatial])
        weight = e.unsqueeze(e.cast(e.fold(graph.mul, [w for _, w in combination]), elem), -1)
        terms.append(e.map(graph.mul, e(graph.take, pixels, index, axis=0), weight))
    # of the largest, the four corners of a sample are candidates of their own
    join = graph.add if mode == "avg" else graph.max_
    sampled = e.reshape(e.fold(join, terms), (count, bins[0], samples, bins[1], samples, channels))
    reduced = (
        e.mean(sampled, (2, 4), keepdims=False) if mode == "avg" else e.reduce(sampled, "max", (2, 4), keepdims=False)
    )
    return e.permute(reduced, (0, 3, 1, 2))


def _inside_taps(e: Emitter, x: Value, size: Dim) -> list[Tap]:
    """The two neighbours of a position that is moved inside; nothing where it is more than one outside."""
    length = Term(e, e.full((), elem_of(x), size))
    last, at = length - 1.0, Term(e, x)
    near = (at >= -1.0) & (at <= length)
    at = minimum(maximum(at, 0.0), last)
    low = floor(at)
    high = minimum(low + 1.0, last)
    above = at - low
    below = -above + 1.0
    return [(i.cast(I64).value, where(near, w, 0.0).value) for i, w in ((low, below), (high, above))]


@onnx_op("MaxRoiPool")
def max_roi_pool(e: Emitter, node: Node) -> Value:
    """The largest element of each bin of a region, whose edges are whole pixels; 0 in a bin without any."""
    x, rois = node.value(e, 0), e.wide(node.value(e, 1))
    rows, columns = node.attr_ints("pooled_shape")
    (count, width) = shape_of(rois)
    if tensor(x).rank != 4 or width != 5:
        raise node.error(f"expected images and regions of five numbers, got {node.type(0)} and {node.type(1)}")
    _, channels, *spatial = shape_of(x)
    image = e.cast(e.squeeze(e.slice(rois, 1, 0, 1), 1), I64)
    node.watched.watch(image, shape_of(x)[0], from_end=False, operand=node.name(1))
    corners = e.map(graph.mul, e.slice(rois, 1, 1, 4), node.attr_float("spatial_scale", 1.0))
    # halves away from zero: they are not below it
    corners = e.map(ELEMENTWISE["floor"], e.map(graph.add, corners, 0.5))
    out = e(graph.take, x, image, axis=0)
    lowest = float("-inf")
    for axis, bins in ((0, rows), (1, columns)):  # rows of pixels, then columns: a region is x1, y1, x2, y2
        start, end = (e.slice(corners, 1, at, 1) for at in (1 - axis, 3 - axis))
        length = e.map(graph.max_, e.map(graph.add, e.map(graph.sub, end, start), 1.0), 1.0)
        side = e.map(graph.div, length, float(bins))
        at = e.iota((count, bins), 1, elem_of(rois))
        low = e.map(graph.add, e.map(ELEMENTWISE["floor"], e.map(graph.mul, at, side)), start)
        after = e.map(graph.mul, e.map(graph.add, at, 1.0), side)
        high = e.map(graph.add, e.map(ELEMENTWISE["ceil"], after), start)
        pixel = e.iota((count, bins, spatial[axis]), 2, elem_of(rois))
        from_low, to_high = e.map(graph.ge, pixel, e.unsqueeze(low, 2)), e.map(graph.lt, pixel, e.unsqueeze(high, 2))
        inside = e.map(graph.and_, from_low, to_high)
        # the spatial axis that is left is last (rows: [n, c, 1, h, w]), so that each step is one reduction
        inside = e.reshape(inside, (count, 1, *(1,) * axis, bins, spatial[axis], *(1,) * (1 - axis)))
        out = e.reduce(e.select(inside, e.unsqueeze(out, 2 + axis), lowest), "max", (3 + axis,), keepdims=False)
    assert shape_of(out)[1] == channels
    return e.select(e.map(graph.eq, out, lowest), 0.0, out)


# DeformConv


@onnx_op("DeformConv")
def deform_conv(e: Emitter, node: Node, x: Value, w: Value) -> Value:
    """A convolution whose window's elements are moved by offsets, and weighted by a mask."""
    (n, channels, *spatial), (outputs, _, *window) = shape_of(x), shape_of(w)
    rank = len(spatial)
    kernel = tuple(d for d in window if isinstance(d, int))
    groups, moved = node.attr_int("group", 1), node.attr_int("offset_group", 1)
    strides, dilations = node.attr_ints("strides", (1,) * rank), node.attr_ints("dilations", (1,) * rank)
    pads = node.attr_ints("pads", (0,) * (2 * rank))
    if len(kernel) != rank or not len(strides) == len(dilations) == len(pads) // 2 == rank:
        raise node.error(f"window attributes do not fit {rank} spatial dims of static weights")
    ends = zip(spatial, kernel, strides, pads[:rank], pads[rank:], dilations, strict=True)
    out = tuple(graph.window_size(*d) for d in ends)
    share, depth = _parts(node, channels, moved), _parts(node, channels, groups)
    taps_of_window, points, wide = product(kernel), product(out), elem_of(e.wide(x))
    node = node.fitted(e, {
        1: ("the weights", (outputs, depth, *kernel)),
        2: ("the offsets", (n, moved * taps_of_window * rank, *out)),
        3: ("the bias", (outputs,)),
        4: ("the mask", (n, moved * taps_of_window, *out)),
    })  # fmt: skip
    w, offset = node.value(e, 1), node.value(e, 2)
    shifts = e.reshape(e.cast(offset, wide), (n, moved, *kernel, rank, *out))
    axes: list[list[Tap]] = []
    for i in range(rank):
        at = e.squeeze(e.slice(shifts, 2 + rank, i, 1), 2 + rank)
        inner = e.map(graph.mul, e.iota((*kernel, *(1,) * rank), i, wide), float(dilations[i]))
        outer = e.map(graph.mul, e.iota((*(1,) * rank, *out), rank + i, wide), float(strides[i]))
        outer = e.map(graph.sub, outer, float(pads[i]))
        at = e.map(graph.add, at, e.map(graph.add, inner, outer))
        axes.append(_zero_padded_taps(e, e.reshape(at, (n, moved, taps_of_window * points)), spatial[i]))
    flat = e.reshape(x, (n, moved, share, product(spatial)))

    def tap(combination: tuple[Tap, ...]) -> Value:
        index = e.unsqueeze(e.flat_index([i for i, _ in combination], spatial), 2)
        index = e.broadcast(index, (n, moved, share, taps_of_window * points))
        weight = e.unsqueeze(e.cast(e.fold(graph.mul, [v for _, v in combination]), elem_of(x)), 2)
        return e.map(graph.mul, e(graph.take_along, flat, index, axis=3), weight)

    sampled = e.fold(graph.add, map(tap, itertools.product(*axes)))
    if (mask := node.optional(e, 4)) is not None:
        sampled = e.map(graph.mul, sampled, e.reshape(mask, (n, moved, 1, taps_of_window * points)))
    columns = e.reshape(sampled, (n, groups, depth * taps_of_window, points))
    weights = e.reshape(w, (groups, _parts(node, outputs, groups), depth * taps_of_window))
    y = e.reshape(e.contract(weights, columns, "gok,ngkp->ngop"), (n, outputs, *out))
    return biased(e, y, node.optional(e, 3), axis=1)


def _parts(node: Node, channels: Dim, groups: int) -> int:
    if not isinstance(channels, int) or channels % groups:
        raise node.error(f"{channels} channels cannot be in {groups} groups")
    return channels // groups


def _zero_padded_taps(e: Emitter, x: Value, size: Dim) -> list[Tap]:
    """The two neighbours of a position; those outside have no weight."""
    at = Term(e, x)
    low = floor(at)
    above = at - low
    below = -above + 1.0
    last = Term(e, e.full((), elem_of(x), size)) - 1.0
    out: list[Tap] = []
    for place, weight in ((low, below), (low + 1.0, above)):
        inside = (place >= 0.0) & (place <= last)
        safe = minimum(maximum(place, 0.0), last)  # NaN, too, indexes something
        out.append((safe.cast(I64).value, where(inside, weight, 0.0).value))
    return out
