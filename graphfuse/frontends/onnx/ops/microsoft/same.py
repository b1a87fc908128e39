"""Operators that mean what ONNX's of the same name mean, or nearly so, as do transforms of real signals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from graphfuse.dialects import graph
from graphfuse.frontends.emit import Emitter, shape_of, tensor
from graphfuse.frontends.host_values import host
from graphfuse.frontends.onnx.node import MICROSOFT, Node, onnx_op, scalar_constant
from graphfuse.frontends.onnx.ops import activation, index, movement, normalize, quantize, sample, source
from graphfuse.frontends.onnx.ops.fourier import dft_of
from graphfuse.frontends.onnx.ops.signal import checked_length
from graphfuse.ir.core import Value
from graphfuse.symbolic import floordiv

onnx_op("Gelu", domain=MICROSOFT)(activation.gelu)
onnx_op("GatherND", domain=MICROSOFT)(index.gather_nd)
onnx_op("GridSample", domain=MICROSOFT)(sample.grid_sample)
onnx_op("LayerNormalization", domain=MICROSOFT)(normalize.layer_normalization)
onnx_op("Pad", domain=MICROSOFT)(movement.pad)
onnx_op("QuantizeLinear", domain=MICROSOFT)(quantize.quantize_linear)
onnx_op("DequantizeLinear", domain=MICROSOFT)(quantize.dequantize_linear)
onnx_op("Trilu", domain=MICROSOFT)(source.trilu)


@onnx_op("Range", domain=MICROSOFT)
def range_(e: Emitter, node: Node) -> Value:
    """start, start + delta, ... before limit; delta is 1 where it is left out."""
    if node.has(2):
        return source.range_(e, node)
    one = host(np.array(1, dtype=object), node.type(0).elem)
    return source.range_(e, replace(node, inputs=(*node.inputs[:2], one)))


@onnx_op("ExpandDims", domain=MICROSOFT)
def expand_dims(e: Emitter, node: Node, x: Value) -> Value:
    """A dim of 1 at an axis of the result."""
    axis = node.axis(int(scalar_constant(node, 1, "the axis")), tensor(x).rank + 1)
    return e.unsqueeze(x, axis)


@onnx_op("UnfoldTensor", domain=MICROSOFT)
def unfold_tensor(e: Emitter, node: Node, x: Value) -> Value:
    """All slices of `size` along a dim, `step` apart, as a new last dim."""
    axis = node.axis(node.attr_int("dim", -1), tensor(x).rank)
    size, step, length = node.attr_int("size"), node.attr_int("step", 1), shape_of(x)[axis]
    if size < 1 or step < 1 or (isinstance(length, int) and size > length):
        raise node.error(f"expected slices that fit a dim of {length}, got {size}, {step} apart")
    e.require("at_most", size, length, "size of a slice")
    shape = (floordiv(length - size, step) + 1, size)
    at = e.map(graph.add, e.map(graph.mul, e.iota(shape, 0), step), e.iota(shape, 1))
    return e.move_axis(e(graph.take, x, at, axis=axis), axis + 1, tensor(x).rank)


# Fourier transforms of real signals along the last dim


_ONLY = {"onesided": 1, "normalized": 0, "signal_ndim": 1}


def _check(node: Node) -> None:
    found = {name: node.attr_int(name, default) for name, default in _ONLY.items()}
    if found != _ONLY:
        raise node.unsupported(f"attributes must be {_ONLY}, got {found}")


@onnx_op("Rfft", domain=MICROSOFT)
def rfft(e: Emitter, node: Node, x: Value) -> Value:
    """The non-negative frequencies of real [.., n], as [.., n / 2 + 1, 2]."""
    _check(node)
    length = checked_length(node, shape_of(x)[-1])
    return dft_of(e, e.unsqueeze(x, -1), length, inverse=False, onesided=True)


@onnx_op("Irfft", domain=MICROSOFT)
def irfft(e: Emitter, node: Node, x: Value) -> Value:
    """The real signal [.., 2 (k - 1)] of frequencies [.., k, 2]."""
    _check(node)
    if tensor(x).rank < 2 or shape_of(x)[-1] != 2:
        raise node.error(f"the last dim must hold two parts, got {x.type}")
    bins = shape_of(x)[-2]
    length = checked_length(node, 2 * (bins - 1))
    return e.squeeze(dft_of(e, x, length, inverse=True, onesided=True), -1)
