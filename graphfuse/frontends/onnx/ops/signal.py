"""Signal processing: DFT, STFT, mel weights."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from graphfuse.dialects import graph
from graphfuse.frontends.emit import Emitter, shape_of, tensor
from graphfuse.frontends.host_values import Host, host
from graphfuse.frontends.onnx.node import Node, elem_from_onnx, onnx_op, scalar_constant
from graphfuse.frontends.onnx.ops.fourier import LARGEST_RADIX, dft_of, is_fast
from graphfuse.frontends.onnx.ops.movement import FARTHEST
from graphfuse.ir.core import Value
from graphfuse.ir.types import I64, Scalar
from graphfuse.symbolic import floordiv

MOST_MATRIX = 8192
"""The longest transform that is a product with a matrix."""
MOST_FAST = 1 << 20
"""The longest of all: its factors are constants, about three times as long."""
MOST_WEIGHTS = 1 << 24
"""Of mel bands, computed one by one: as many as a table may have."""


def checked_length(node: Node, length: object) -> int:
    """A transform's length, if it is a number that a fast transform or a product is good for."""
    most = MOST_FAST if isinstance(length, int) and 0 < length <= MOST_FAST and is_fast(length) else MOST_MATRIX
    if not isinstance(length, int) or not 0 < length <= most:
        raise node.unsupported(
            f"the transform's length must be a number from 1 to {MOST_MATRIX}, or to {MOST_FAST} of prime factors "
            f"up to {LARGEST_RADIX}, got {length}"
        )
    return length


@onnx_op("DFT")
def dft(e: Emitter, node: Node, x: Value) -> Value:
    """The discrete Fourier transform along one axis; the last dim holds real and imaginary parts."""
    rank = tensor(x).rank
    given = int(scalar_constant(node, 2, "the axis")) if node.has(2) else node.attr_int("axis", -2)
    axis = node.axis(given, rank)
    inverse, onesided = bool(node.attr_int("inverse", 0)), bool(node.attr_int("onesided", 0))
    n = shape_of(x)[axis]
    if not isinstance(n, int):
        raise node.unknown_dim(f"the transformed axis must have a static size, got {n}")
    given = int(scalar_constant(node, 1, "the length")) if node.has(1) else 2 * (n - 1) if inverse and onesided else n
    length = checked_length(node, given)
    if inverse and onesided:
        e.require("equal", shape_of(x)[-1], 2, "parts of a complex number")
    out = dft_of(e, e.move_axis(x, axis, rank - 2), length, inverse=inverse, onesided=onesided)
    return e.move_axis(out, rank - 2, axis)


@onnx_op("STFT")
def stft(e: Emitter, node: Node) -> Value:
    """Transforms of overlapping frames, each multiplied by a window."""
    x, step = node.value(e, 0), int(scalar_constant(node, 1, "the step"))
    if step < 1:
        raise node.error(f"the step: expected at least 1, found {step}")
    step = min(step, FARTHEST)
    if tensor(x).rank == 2:
        x = e.unsqueeze(x, -1)
    window = node.optional(e, 2)
    if node.has(3):
        length = checked_length(node, int(scalar_constant(node, 3, "the frame length")))
    elif window is not None:
        length = checked_length(node, shape_of(window)[0])
    else:
        length = checked_length(node, shape_of(x)[1])
    onesided = bool(node.attr_int("onesided", 1))
    if onesided:
        e.require("equal", shape_of(x)[2], 1, "parts of a number, of which one side is made")
    frames = floordiv(shape_of(x)[1] - length, step) + 1
    at = e.map(graph.mul, e.iota((frames, length), 0, I64), step)
    at = e.map(graph.add, at, e.iota((frames, length), 1, I64))
    framed = e(graph.take, x, at, axis=1)
    if window is not None:
        framed = e.map(graph.mul, framed, e.unsqueeze(window, -1))
    return dft_of(e, framed, length, inverse=False, onesided=onesided)


@onnx_op("MelWeightMatrix")
def mel_weight_matrix(_: Emitter, node: Node) -> Host:
    """Triangles that gather spectrum bins into mel bands, as [bins, bands]."""
    names = ("the number of bands", "the DFT length", "the sample rate", "the lower edge", "the upper edge")
    bands, length, rate, low, high = (scalar_constant(node, i, name) for i, name in enumerate(names))
    bins, bands = int(length) // 2 + 1, int(bands)
    if bins * bands > MOST_WEIGHTS:
        raise node.unsupported(f"expected up to {MOST_WEIGHTS} weights, found {bins} bins of {bands} bands")

    def mel(hertz: float) -> float:
        return 2595 * np.log10(1 + hertz / 700)

    edges = mel(low) + np.arange(bands + 2) * ((mel(high) - mel(low)) / (bands + 2))
    hertz = 700 * (10 ** (edges / 2595) - 1)
    at = ((int(length) + 1) * hertz // rate).astype(np.int64)
    out = np.zeros((bins, bands))
    for i in range(bands):
        left, centre, right = at[i : i + 3]
        if centre == left:
            out[centre, i] = 1.0
        for j in range(left, centre + 1 if centre > left else left):
            out[j, i] = (j - left) / (centre - left)
        for j in range(centre, right):
            out[j, i] = (right - j) / (right - centre)
    elem: Scalar = elem_from_onnx(node.attr_int("output_datatype", TensorProto.FLOAT), node.loc)
    return host(out, elem)
