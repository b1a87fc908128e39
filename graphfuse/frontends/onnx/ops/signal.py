"""Signal processing as products with constant matrices: DFT, STFT, mel weights."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from graphfuse.dialects import graph
from graphfuse.frontends.emit import Emitter, elem_of, shape_of, tensor
from graphfuse.frontends.host_values import Array, Host, host
from graphfuse.frontends.onnx.node import Node, elem_from_onnx, onnx_op, scalar_constant
from graphfuse.ir.core import Value
from graphfuse.ir.types import I64, Scalar
from graphfuse.symbolic import floordiv

MAX_LENGTH = 8192
MOST_WEIGHTS = 1 << 24
"""A matrix of this size squared is the largest that is worth a product instead of a fast transform."""


def _bases(rows: int, columns: int, length: int) -> tuple[Array, Array]:
    """cos and sin of 2 pi k n / length, as [rows, columns]."""
    angle = 2 * np.pi * ((np.arange(rows)[:, None] * np.arange(columns)) % length) / length
    return np.cos(angle), np.sin(angle)


def _product(e: Emitter, x: Value, matrix: Array) -> Value:
    """x [.., n] times matrix [k, n] along the last dim."""
    lead = "abcdefgh"[: tensor(x).rank - 1]
    return e.contract(x, e.cast(e.constant(matrix), elem_of(x)), f"{lead}n,kn->{lead}k")


def _parts(e: Emitter, x: Value) -> tuple[Value, Value | None]:
    """Real and imaginary part of [.., 1] or [.., 2]."""
    real = e.squeeze(e.slice(x, -1, 0, 1), -1)
    return real, (e.squeeze(e.slice(x, -1, 1, 1), -1) if shape_of(x)[-1] == 2 else None)


def dft_of(e: Emitter, x: Value, length: int, *, inverse: bool, onesided: bool) -> Value:
    """The transform of x [.., n, 1 or 2] along n, as [.., k, 2] (or [.., k, 1] for a one-sided inverse)."""
    real, imaginary = _parts(e, x)
    n = shape_of(real)[-1]
    assert isinstance(n, int), "the caller checked"
    if inverse and onesided:
        return _real_inverse(e, real, imaginary, length)
    rows = length // 2 + 1 if onesided else length
    cos, sin = _bases(rows, min(n, length), length)
    scale = 1 / length if inverse else 1.0
    real = e.slice(real, -1, 0, min(n, length))
    sign = 1.0 if inverse else -1.0
    out_real, out_imaginary = _product(e, real, cos * scale), _product(e, real, sin * (sign * scale))
    if imaginary is not None:
        imaginary = e.slice(imaginary, -1, 0, min(n, length))
        out_real = e.map(graph.sub, out_real, _product(e, imaginary, sin * (sign * scale)))
        out_imaginary = e.map(graph.add, out_imaginary, _product(e, imaginary, cos * scale))
    return e.concat([e.unsqueeze(out_real, -1), e.unsqueeze(out_imaginary, -1)], tensor(out_real).rank)


def _real_inverse(e: Emitter, real: Value, imaginary: Value | None, length: int) -> Value:
    """The real signal whose non-negative frequencies are given; the others are their conjugates."""
    n = shape_of(real)[-1]
    assert isinstance(n, int), "the caller checked"
    bins = min(n, length // 2 + 1)
    cos, sin = _bases(length, bins, length)
    weight = np.where((np.arange(bins) == 0) | (2 * np.arange(bins) == length), 1.0, 2.0) / length
    out = _product(e, e.slice(real, -1, 0, bins), cos * weight)
    if imaginary is not None:
        out = e.map(graph.sub, out, _product(e, e.slice(imaginary, -1, 0, bins), sin * weight))
    return e.unsqueeze(out, -1)


def checked_length(node: Node, length: object) -> int:
    """A transform's length, if it is a number that a product is good for."""
    if not isinstance(length, int) or length > MAX_LENGTH:
        raise node.unsupported(f"the transform's length must be a number up to {MAX_LENGTH}, got {length}")
    return length


@onnx_op("DFT")
def dft(e: Emitter, node: Node) -> Value:
    """The discrete Fourier transform along one axis; the last dim holds real and imaginary parts."""
    x = node.value(e, 0)
    rank = tensor(x).rank
    given = int(scalar_constant(node, 2, "the axis")) if node.has(2) else node.attr_int("axis", -2)
    axis = node.axis(given, rank)
    inverse, onesided = bool(node.attr_int("inverse", 0)), bool(node.attr_int("onesided", 0))
    n = checked_length(node, shape_of(x)[axis])
    length = 2 * (n - 1) if inverse and onesided else n
    if node.has(1):
        length = checked_length(node, int(scalar_constant(node, 1, "the length")))
    out = dft_of(e, e.move_axis(x, axis, rank - 2), length, inverse=inverse, onesided=onesided)
    return e.move_axis(out, rank - 2, axis)


@onnx_op("STFT")
def stft(e: Emitter, node: Node) -> Value:
    """Transforms of overlapping frames, each multiplied by a window."""
    x, step = node.value(e, 0), int(scalar_constant(node, 1, "the step"))
    if step < 1:
        raise node.error(f"the step: expected at least 1, found {step}")
    if tensor(x).rank == 2:
        x = e.unsqueeze(x, -1)
    window = node.optional(e, 2)
    if node.has(3):
        length = checked_length(node, int(scalar_constant(node, 3, "the frame length")))
    elif window is not None:
        length = checked_length(node, shape_of(window)[0])
    else:
        length = checked_length(node, shape_of(x)[1])
    frames = floordiv(shape_of(x)[1] - length, step) + 1
    at = e.map(graph.mul, e.iota((frames, length), 0, I64), step)
    at = e.map(graph.add, at, e.iota((frames, length), 1, I64))
    framed = e(graph.take, x, at, axis=1)
    if window is not None:
        framed = e.map(graph.mul, framed, e.unsqueeze(window, -1))
    return dft_of(e, framed, length, inverse=False, onesided=bool(node.attr_int("onesided", 1)))


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
