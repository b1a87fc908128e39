"""Convolutions, and the window arithmetic that pooling shares: auto_pad, strides, dilations."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from graphfuse.dialects import graph
from graphfuse.frontends.emit import Emitter, Shape, elem_of, shape_of, tensor
from graphfuse.frontends.host_values import greater
from graphfuse.frontends.onnx.node import Node, one_of, onnx_op
from graphfuse.frontends.onnx.ops.contract import centred
from graphfuse.frontends.windows import Window
from graphfuse.ir.core import Value, made_of
from graphfuse.ir.dense import Dense
from graphfuse.symbolic import Dim, ceildiv, floordiv, static


def window_attributes(
    node: Node, rank: int, *others: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Strides, dilations and pads of a window over so many dims, of each of which `others` have a number, too."""
    strides, dilations = node.attr_ints("strides", (1,) * rank), node.attr_ints("dilations", (1,) * rank)
    pads = node.attr_ints("pads", (0,) * (2 * rank))
    if len(pads) != 2 * rank or any(len(numbers) != rank for numbers in (strides, dilations, *others)):
        raise node.error(f"window attributes do not fit {rank} spatial dims")
    return strides, dilations, pads


def window_of(e: Emitter, node: Node, size: tuple[int, ...], spatial: Shape) -> Window:
    """Read strides, dilations and padding of a node whose window is `size` over dims `spatial`."""
    n = len(spatial)
    strides, dilation, pads = window_attributes(node, n, size)
    if min((*strides, *dilation, *size), default=1) < 1:
        raise node.error("window, strides and dilations must be positive")
    window = Window(size, strides, dilation, pads[:n], pads[n:])
    auto = node.attr_str("auto_pad", "NOTSET") or "NOTSET"
    if auto == "NOTSET":
        return window
    if auto == "VALID":
        return replace(window, low=(0,) * n, high=(0,) * n)
    one_of("auto_pad", auto, ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"), node.error)
    totals = [
        greater((ceildiv(d, s) - 1) * s + extent - d, 0, e.ranges) if s > 1 else extent - 1
        for d, s, extent in zip(spatial, strides, window.extents, strict=True)
    ]
    low, high = _halved(totals, auto)
    return replace(window, low=low, high=high)


def _halved(totals: Sequence[Dim], auto: str) -> tuple[Shape, Shape]:
    """Padding at both ends, of so much in all: SAME_UPPER has what is left over at the end, anything else in front."""
    small, big = tuple(t // 2 for t in totals), tuple(t - t // 2 for t in totals)
    return (small, big) if auto == "SAME_UPPER" else (big, small)


def _kernel_size(node: Node, weight: Shape) -> tuple[int, ...]:
    size = weight[2:]
    if not all(isinstance(k, int) for k in size):
        raise node.unknown_dim("the kernel must have a static size")
    numbers = tuple(int(k) for k in size if isinstance(k, int))
    if (given := node.attr_ints("kernel_shape", numbers)) != numbers:
        raise node.error(f"kernel_shape is {given}, the weight has {numbers}")
    return numbers


def _with_bias(e: Emitter, x: Value, bias: Value | None) -> Value:
    if bias is None:
        return x
    e.require("equal", tensor(bias).elements, shape_of(x)[1], "elements of the bias")
    return e.map(graph.add, x, e.reshape(bias, (shape_of(bias)[0], *(1,) * (tensor(x).rank - 2))))


def _check_ranks(node: Node, x: Value, w: Value) -> None:
    if tensor(x).rank < 3 or tensor(x).rank != tensor(w).rank:
        raise node.error(f"input and weight must have the same rank of at least 3, got {x.type} and {w.type}")


def conv_of(e: Emitter, node: Node, x: Value, w: Value) -> Value:
    """Convolve with the attributes of `node`, without bias."""
    (outputs, *rest), groups = shape_of(w), node.attr_int("group", 1)
    if not isinstance(outputs, int) and groups > 1:  # a product is known to be divided
        w = e.equalled(w, (groups * floordiv(outputs, groups), *rest), "the weight")
    window = window_of(e, node, _kernel_size(node, shape_of(w)), shape_of(x)[2:])
    x, window = window.with_static_padding(e, x, 0.0)
    return window.convolve(e, x, w, groups)


@onnx_op("Conv")
def conv(e: Emitter, node: Node, x: Value, w: Value) -> Value:
    """Convolution with optional bias."""
    _check_ranks(node, x, w)
    return _with_bias(e, conv_of(e, node, x, w), node.optional(e, 2))


@onnx_op("ConvInteger")
def conv_integer(
    e: Emitter, node: Node, x: Value, w: Value, zero_x: Value | None = None, zero_w: Value | None = None
) -> Value:
    """Convolution of 8-bit tensors less their zero points, in i32; padding counts as the zero point."""
    _check_ranks(node, x, w)
    return conv_of(e, node, centred(e, x, zero_x, 1), centred(e, w, zero_w, 0))


MOST_PHASES = 4096
"""Of a transposed convolution, which becomes a convolution for each position between two of its inputs."""


@onnx_op("ConvTranspose")
def conv_transpose(e: Emitter, node: Node, x: Value, w: Value) -> Value:
    """The adjoint of a convolution: a convolution of the spread-out input with the mirrored weight."""
    _check_ranks(node, x, w)
    size = _kernel_size(node, shape_of(w))
    n = len(size)
    groups = node.attr_int("group", 1)
    extra = node.attr_ints("output_padding", (0,) * n) or (0,) * n
    strides, dilation, pads = window_attributes(node, n, extra)
    if min((*strides, *dilation)) < 1 or math.prod(strides) > MOST_PHASES:
        raise node.too_large(f"strides: expected 1 and more, a product of up to {MOST_PHASES}, found {strides}")
    window = Window(size, strides, dilation, (0,) * n, (0,) * n)
    low, high = _transposed_padding(node, shape_of(x)[2:], window, extra, pads)
    window = replace(window, low=low, high=high)
    channels, per_group = shape_of(w)[:2]
    if not isinstance(channels, int) or not isinstance(per_group, int) or channels % groups:
        raise node.unfit(f"{channels} channels do not divide into {groups} groups", channels, per_group)
    transposed = window.spread if _is_finite(w) else functools.partial(_overlapped, window)
    return _with_bias(e, transposed(e, x, w, groups, extra), node.optional(e, 2))


def _is_finite(w: Value) -> bool:
    """Whether a weight is made of finite constants, so that it may be multiplied by zeros that are no inputs."""
    for v in made_of(w):
        if v.op is None or v.op.bodies:
            return False
        value = v.op.attrs.get("value")
        if isinstance(value, Dense) and not np.isfinite(value.array.astype(np.float64, copy=False)).all():
            return False
    return True


def _overlapped(window: Window, e: Emitter, x: Value, w: Value, groups: int, extra: tuple[int, ...]) -> Value:
    """A transposed convolution as it is defined, without a product that no input takes part in.

    Every input's windows [n, c, S...] x [c, o, K...] are added where they overlap, and the padding is cut off.
    """
    n, channels, *spatial = shape_of(x)
    _, out, *size = shape_of(w)
    s, k = "hijlmp"[: len(spatial)], "qrstuv"[: len(spatial)]
    x = e.reshape(e.wide(x), (n, groups, channels // groups, *spatial))
    elem, w = elem_of(w), e.reshape(e.wide(w), (groups, channels // groups, out, *size))
    y = e.contract(x, w, f"ngc{s},gco{k}->ngo{k}{s}")
    at = 2 + len(spatial)  # the dim under work, once its taps, the first ones left, are gone
    sides = zip(window.strides, window.dilation, window.low, window.high, extra, strict=True)
    for i, (u, d, low, high, more) in enumerate(sides):
        taps, low, high = static(size[i]), static(low), static(high)
        parts = (_placed(e, e.squeeze(e.slice(y, 3, t, 1), 3), at, u, t * d, (taps - 1 - t) * d) for t in range(taps))
        total, surplus = e.fold(graph.add, parts), u - 1 + high - more
        wide = e.pad(total, at, max(-low, 0), max(-surplus, 0))
        y = e.slice(wide, at, max(low, 0), shape_of(wide)[at] - max(low, 0) - max(surplus, 0))
    return e.cast(e.reshape(y, (n, groups * out, *shape_of(y)[3:])), elem)


def _placed(e: Emitter, x: Value, axis: int, stride: int, before: int, after: int) -> Value:
    """Elements of an axis `stride` apart, between zeros."""
    shape = shape_of(x)
    x = e.pad(e.unsqueeze(x, axis + 1), axis + 1, 0, stride - 1)
    x = e.reshape(x, (*shape[:axis], shape[axis] * stride, *shape[axis + 1 :]))
    return e.pad(x, axis, before, after)


def _transposed_padding(
    node: Node, spatial: Shape, window: Window, extra: tuple[int, ...], pads: tuple[int, ...]
) -> tuple[Shape, Shape]:
    """What ConvTranspose cuts off at both ends (negative: adds)."""
    n = window.rank
    auto = node.attr_str("auto_pad", "NOTSET") or "NOTSET"
    wanted = node.attr_ints("output_shape", ())
    if not wanted and auto == "NOTSET":
        return pads[:n], pads[n:]
    if not wanted and auto == "VALID":
        return (0,) * n, (0,) * n
    totals: list[int] = []
    for i in range(n):
        d = spatial[i]
        target = wanted[len(wanted) - n + i] if wanted else d * window.strides[i]
        total = window.strides[i] * (d - 1) + extra[i] + window.extents[i] - target
        if not isinstance(total, int):
            raise node.unknown_dim("output_shape needs static spatial dims")
        totals.append(total if wanted else max(total, 0))
    return _halved(totals, auto)
