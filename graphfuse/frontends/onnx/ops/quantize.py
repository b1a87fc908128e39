"""Quantisation to and from narrow types, with scales per tensor, per axis or per block."""

from __future__ import annotations

import numpy as np

from graphfuse.dialects import graph
from graphfuse.dialects.graph import ELEMENTWISE
from graphfuse.frontends.compositions import biased
from graphfuse.frontends.emit import Emitter, elem_of, shape_of, tensor
from graphfuse.frontends.onnx.node import Node, elem_from_onnx, onnx_op
from graphfuse.frontends.onnx.ops.contract import centred, matmul_of, per_axis
from graphfuse.frontends.onnx.ops.conv import conv_of
from graphfuse.interp.elementwise import integer_range
from graphfuse.ir.core import Value
from graphfuse.ir.types import F32, F64, I32, U8, Scalar


def _spread(e: Emitter, node: Node, v: Value, like: Value) -> Value:
    """A scale or zero point with the rank of the tensor: per tensor, per axis, or repeated per block."""
    shape = shape_of(like)
    if shape_of(v) in ((), (1,)):
        return e.reshape(v, ())
    axis = node.axis(node.attr_int("axis", 1), len(shape))
    block = node.attr_int("block_size", 0)
    if tensor(v).rank == 1 and not block:
        return e.spread(e.along(v, axis, len(shape)), shape)
    return e.equalled(e.slice(e.repeat(v, axis, block), axis, 0, shape[axis]), shape, "the blocks")


def quantize_of(e: Emitter, x: Value, scale: Value, zero: Value | None, to: Scalar) -> Value:
    """saturate(round(x / scale) + zero); float targets are not rounded first."""
    y = e.map(graph.div, x, e.cast(scale, elem_of(x)))
    if not to.is_integer:
        return e.cast(y, to, saturate=True)
    y = e.wide(y)
    y = e.map(ELEMENTWISE["round"], y)
    if zero is not None:
        y = e.map(graph.add, y, e.cast(zero, elem_of(y)))
    low, high = integer_range(to)
    return e.cast(e.map(graph.min_, e.map(graph.max_, y, float(low)), float(high)), to)


def _paired(e: Emitter, node: Node) -> Node:
    """The node: zero points that are no single one are of the scale's shape."""
    many = node.has(2) and node.type(2).rank == node.type(1).rank > 0
    return node.fitted(e, {2: ("the zero points", node.type(1).shape)}) if many else node


@onnx_op("QuantizeLinear")
def quantize_linear(e: Emitter, node: Node) -> Value:
    """Divide by the scale, round half to even, add the zero point, saturate."""
    node = _paired(e, node)
    x = node.value(e, 0)
    if node.has(2):
        to = node.type(2).elem
    elif dtype := node.attr_int("output_dtype", 0):
        to = elem_from_onnx(dtype, node.loc)
    else:
        to = U8
    if elem_of(x) == I32:
        x = e.cast(x, F32)
    scale = _spread(e, node, node.value(e, 1), x)
    precision = node.attr_int("precision", 0)
    if precision:
        x = e.cast(x, elem_from_onnx(precision, node.loc))
    elif elem_of(x).bits < 32:
        x = e.cast(x, F32)
    zero = node.optional(e, 2)
    return quantize_of(e, x, scale, None if zero is None else _spread(e, node, zero, x), to)


@onnx_op("DequantizeLinear")
def dequantize_linear(e: Emitter, node: Node) -> Value:
    """(x - zero) * scale, in the scale's type."""
    node = _paired(e, node)
    x = node.value(e, 0)
    scale = _spread(e, node, node.value(e, 1), x)
    dtype = node.attr_int("output_dtype", 0)
    to = elem_from_onnx(dtype, node.loc) if dtype else elem_of(scale)
    return e.cast(dequantize_of(e, node, x, scale, node.optional(e, 2)), to)


def dequantize_of(e: Emitter, node: Node, x: Value, scale: Value, zero: Value | None) -> Value:
    """(x - zero) * scale in f32; `zero` may be None."""
    wide = I32 if elem_of(x).is_integer else F32
    y = e.cast(x, wide)
    if zero is not None:
        y = e.map(graph.sub, y, e.cast(_spread(e, node, zero, x), wide))
    return e.map(graph.mul, e.cast(y, F32), e.wide(scale))


@onnx_op("DynamicQuantizeLinear")
def dynamic_quantize_linear(e: Emitter, node: Node, x: Value) -> tuple[Value, Value, Value]:
    """Quantise to u8 over the tensor's own range, which always includes 0; the scale of zeros alone is 1."""
    axes = tuple(range(tensor(x).rank))
    low = e.map(graph.min_, e.reduce(x, "min", axes, keepdims=False), 0.0)
    high = e.map(graph.max_, e.reduce(x, "max", axes, keepdims=False), 0.0)
    # a GPU's quotients of f32 are an ulp off, which halves that are to be rounded show
    extent = e.cast(e.map(graph.sub, high, low), F64)
    step = e.select(e.map(graph.eq, extent, 0.0), 1.0, e.map(graph.div, extent, 255.0))
    scale = e.cast(step, elem_of(x))
    start = e.map(graph.div, e.map(graph.neg, low), scale)
    clipped = e.map(graph.min_, e.map(graph.max_, start, 0.0), 255.0)
    zero = e.cast(e.map(ELEMENTWISE["round"], clipped), U8)
    return quantize_of(e, x, scale, zero, U8), scale, zero


# operators on quantised tensors: compute exactly in i32, then requantise


def _requantize(e: Emitter, acc: Value, scale: Value, out_scale: Value, zero: Value) -> Value:
    acc, scale = e.cast(acc, F32), e.cast(scale, F32)
    real = e.map(graph.mul, acc, e.map(graph.div, scale, e.cast(e.reshape(out_scale, ()), F32)))
    one = e.constant(np.ones((), dtype=np.float32))
    return quantize_of(e, real, one, e.reshape(zero, ()), elem_of(zero))


@onnx_op("QLinearMatMul")
def qlinear_matmul(e: Emitter, node: Node, *inputs: Value) -> Value:
    """The product of two quantised tensors, quantised."""
    a, sa, za, b, sb, zb, sy, zy = inputs
    acc = matmul_of(e, centred(e, a, za, -2), centred(e, b, zb, -1))
    sa, sb = per_axis(e, sa, -2, tensor(a).rank), per_axis(e, sb, -1, tensor(b).rank)
    return _requantize(e, acc, e.map(graph.mul, e.cast(sa, F32), e.cast(sb, F32)), sy, zy)


@onnx_op("QLinearConv")
def qlinear_conv(e: Emitter, node: Node, *inputs: Value) -> Value:
    """The convolution of quantised tensors, quantised."""
    x, sx, zx, w, sw, zw, sy, zy, *bias = inputs
    acc = biased(e, conv_of(e, node, centred(e, x, zx, 1), centred(e, w, zw, 0)), *bias, axis=1)
    if tensor(sw).rank == 1:
        channels = (shape_of(acc)[1], *(1,) * (tensor(x).rank - 2))
        sw = e.reshape(e.spread(sw, channels[:1]), channels)
    return _requantize(e, acc, e.map(graph.mul, e.reshape(sx, ()), sw), sy, zy)
