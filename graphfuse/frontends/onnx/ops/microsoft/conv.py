"""Convolutions with a fused sum and activation, and windows over tensors whose channels come last."""

from __future__ import annotations

from dataclasses import replace

from graphfuse.dialects import graph
from graphfuse.frontends.emit import Emitter, shape_of, tensor
from graphfuse.frontends.onnx.node import MICROSOFT, Node, onnx_op
from graphfuse.frontends.onnx.ops.conv import conv, conv_transpose
from graphfuse.frontends.onnx.ops.microsoft.activation import activated
from graphfuse.frontends.onnx.ops.pool import max_pool
from graphfuse.ir.core import Value


def channels_second(e: Emitter, x: Value) -> Value:
    """[N, spatial.., C] as [N, C, spatial..]."""
    return e.move_axis(x, tensor(x).rank - 1, 1)


def channels_last(e: Emitter, x: Value) -> Value:
    """[N, C, spatial..] as [N, spatial.., C]."""
    return e.move_axis(x, 1, tensor(x).rank - 1)


@onnx_op("FusedConv", "NhwcConv", "NhwcFusedConv", domain=MICROSOFT)
def fused_conv(e: Emitter, node: Node, x: Value, w: Value) -> Value:
    """An activation of the convolution [+ a fourth input]; by name, with channels last in all but the weight."""
    last, other = node.op.startswith("Nhwc"), node.optional(e, 3)
    if other is not None and last:
        other = channels_second(e, other)
    y = conv(e, node, channels_second(e, x) if last else x, w)
    if other is not None:
        y = e.map(graph.add, y, e.equalled(other, shape_of(y), "what is added"))
    y = activated(e, node, y, [float(p) for p in node.attributes.get("activation_params", ())])
    return channels_last(e, y) if last else y


@onnx_op("NhwcMaxPool", domain=MICROSOFT)
def nhwc_max_pool(e: Emitter, node: Node, x: Value) -> Value:
    """The maximum of each window, channels last."""
    y, _ = max_pool(e, node, channels_second(e, x))
    return channels_last(e, y)


@onnx_op("ConvTransposeWithDynamicPads", domain=MICROSOFT)
def conv_transpose_with_pads(e: Emitter, node: Node, x: Value, w: Value) -> Value:
    """The adjoint of a convolution whose padding is an input, known at compile time."""
    pads = {"pads": node.ints(2, "the pads")} if node.has(2) else {}
    inputs = (*node.inputs[:2], *node.inputs[3:4])
    return conv_transpose(e, replace(node, inputs=inputs, attributes=node.attributes | pads), x, w)
