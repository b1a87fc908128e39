"""Operators on quantised tensors: what they stand for on floats, between a dequantisation and a quantisation.

Products stay integers until they are scaled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from graphfuse.dialects import graph
from graphfuse.frontends.compositions import biased, softmax_of
from graphfuse.frontends.emit import Emitter, elem_of, shape_of, tensor
from graphfuse.frontends.onnx.node import MICROSOFT, Node, onnx_op
from graphfuse.frontends.onnx.ops.activation import FUNCTIONS
from graphfuse.frontends.onnx.ops.contract import centred, matmul_of
from graphfuse.frontends.onnx.ops.microsoft.conv import channels_last, channels_second
from graphfuse.frontends.onnx.ops.pool import average_pool
from graphfuse.frontends.onnx.ops.quantize import dequantize_of, dynamic_quantize_linear, qlinear_conv, quantize_of
from graphfuse.frontends.onnx.ops.recurrent import lstm
from graphfuse.ir.core import Value
from graphfuse.ir.types import F32, I32
from graphfuse.symbolic import product


def _real(e: Emitter, node: Node, i: int) -> Value:
    """Inputs `i`, `i + 1` and `i + 2` (a tensor, its scale, its zero point if any) as floats."""
    return dequantize_of(e, node, node.value(e, i), node.value(e, i + 1), node.optional(e, i + 2))


def _quantized(e: Emitter, node: Node, y: Value, i: int, like: int) -> Value:
    """Floats in the scale and zero point (if any) of inputs `i` and `i + 1`, with the element of input `like`."""
    zero = node.optional(e, i + 1)
    scale = e.reshape(node.value(e, i), ())
    return quantize_of(e, y, scale, None if zero is None else e.reshape(zero, ()), node.type(like).elem)


# element by element


@onnx_op("QLinearAdd", "QLinearMul", domain=MICROSOFT)
def qlinear_binary(e: Emitter, node: Node) -> Value:
    """The sum or product of two quantised tensors."""
    kind = graph.add if node.op == "QLinearAdd" else graph.mul
    return _quantized(e, node, e.map(kind, _real(e, node, 0), _real(e, node, 3)), 6, 0)


def _unary(name: str, function: Callable[[Emitter, Node, Value], Value]) -> None:
    def handler(e: Emitter, node: Node) -> Value:
        return _quantized(e, node, function(e, node, _real(e, node, 0)), 3, 0)

    onnx_op(name, domain=MICROSOFT)(handler)


def _softmax(e: Emitter, node: Node, x: Value) -> Value:
    """Softmax along one axis; as of an opset before 13, over all dims from the axis on."""
    axis = node.axis(node.attr_int("axis", -1), tensor(x).rank)
    if node.attr_int("opset") >= 13:
        return softmax_of(e, x, axis)
    shape = shape_of(x)
    return e.reshape(softmax_of(e, e.reshape(x, (*shape[:axis], product(shape[axis:]))), axis), shape)


def _mean(e: Emitter, node: Node, x: Value) -> Value:
    axes = node.axes(node.attr_ints("axes"), tensor(x).rank)
    return e.mean(x, axes, keepdims=bool(node.attr_int("keepdims", 1)))


def _average_pool(e: Emitter, node: Node, x: Value) -> Value:
    last = bool(node.attr_int("channels_last", 0))
    y = average_pool(e, node, channels_second(e, x) if last else x)
    return channels_last(e, y) if last else y


def _global_average_pool(e: Emitter, node: Node, x: Value) -> Value:
    rank = tensor(x).rank
    return e.mean(x, list(range(1, rank - 1) if node.attr_int("channels_last", 0) else range(2, rank)))


_unary("QLinearSigmoid", lambda e, _, x: e.map(graph.sigmoid, x))
_unary("QLinearLeakyRelu", lambda e, node, x: FUNCTIONS["leakyrelu"][0](e, x, node.attr_float("alpha", 0.01)))
_unary("QLinearSoftmax", _softmax)
_unary("QLinearReduceMean", _mean)
_unary("QLinearAveragePool", _average_pool)
_unary("QLinearGlobalAveragePool", _global_average_pool)


@onnx_op("QLinearConcat", domain=MICROSOFT)
def qlinear_concat(e: Emitter, node: Node) -> Value:
    """Quantised tensors, each with its scale and zero point, joined in one scale and zero point."""
    count, rest = divmod(len(node.inputs) - 2, 3)
    if rest or count < 1:
        raise node.error(f"expected tensors with a scale and a zero point each, got {len(node.inputs) - 2} inputs")
    parts = [_quantized(e, node, _real(e, node, i), 0, 1) for i in range(2, len(node.inputs), 3)]
    return e.concat(parts, node.axis(node.attr_int("axis"), tensor(parts[0]).rank))


@onnx_op("QLinearWhere", domain=MICROSOFT)
def qlinear_where(e: Emitter, node: Node) -> Value:
    """Elements of one or the other quantised tensor, in the result's scale."""
    x, y = _quantized(e, node, _real(e, node, 1), 7, 1), _quantized(e, node, _real(e, node, 4), 7, 1)
    return e.select(node.value(e, 0), x, y)


# products


def _paired(e: Emitter, node: Node, pairs: dict[int, int]) -> Node:
    """The node: a vector of zero points is as long as that of the scales, where there is one of each."""
    both = {z: s for z, s in pairs.items() if node.has(z) and node.type(z).rank == node.type(s).rank == 1}
    return node.fitted(e, {z: ("the zero points", node.type(s).shape) for z, s in both.items()})


def _flat(e: Emitter, v: Value) -> Value:
    """A vector of one element as a scalar."""
    return e.reshape(v, ()) if tensor(v).elements == 1 else v


@onnx_op("QGemm", domain=MICROSOFT)
def qgemm(e: Emitter, node: Node) -> Value:
    """alpha * A' B' + C of quantised matrices; floats where the result has no scale."""
    across = bool(node.attr_int("transB", 0))
    node = _paired(e, node, {2: 1, 5: 4})
    a = centred(e, node.value(e, 0), node.optional(e, 2), -1)
    b = centred(e, node.value(e, 3), node.optional(e, 5), -2 if across else -1)
    spec = f"{'km' if node.attr_int('transA', 0) else 'mk'},{'nk' if across else 'kn'}->mn"
    acc = e.contract(a, b, spec)
    if (bias := node.optional(e, 6)) is not None:
        acc = e.map(graph.add, acc, e.spread(bias, shape_of(acc)))
    scale = e.map(graph.mul, _flat(e, node.value(e, 1)), _flat(e, node.value(e, 4)))
    if (alpha := node.attr_float("alpha", 1.0)) != 1.0:
        scale = e.map(graph.mul, scale, alpha)
    y = e.map(graph.mul, e.cast(acc, F32), e.spread(scale, shape_of(acc)))
    return _quantized(e, node, y, 7, 0) if node.has(7) else y


def _scaled_product(e: Emitter, a: Value, scale: Value, b: Value, bias: Value | None) -> Value:
    """a b in i32, times a scale, plus a bias."""
    y = e.cast(matmul_of(e, a, b), F32)
    y = e.cast(e.map(graph.mul, y, e.spread(_flat(e, scale), shape_of(y))), elem_of(scale))
    return biased(e, y, bias)


@onnx_op("MatMulIntegerToFloat", domain=MICROSOFT)
def matmul_integer_to_float(e: Emitter, node: Node) -> Value:
    """The product of quantised matrices, as floats [+ bias]."""
    a, b = (centred(e, node.value(e, i), node.optional(e, 4 + i), -1) for i in (0, 1))
    scale = e.map(graph.mul, _flat(e, node.value(e, 2)), _flat(e, node.value(e, 3)))
    return _scaled_product(e, a, scale, b, node.optional(e, 6))


@onnx_op("DynamicQuantizeMatMul", domain=MICROSOFT)
def dynamic_quantize_matmul(
    e: Emitter, node: Node, a: Value, b: Value, scale_b: Value, zero_b: Value | None = None, bias: Value | None = None
) -> Value:
    """The product of floats, quantised over their own range, and a quantised matrix, as floats [+ bias]."""
    a, scale, zero = dynamic_quantize_linear(e, node, a)
    a, b = centred(e, a, zero, -1), centred(e, b, zero_b, -1)
    return _scaled_product(e, a, e.map(graph.mul, scale, _flat(e, scale_b)), b, bias)


@onnx_op("QLinearConv", domain=MICROSOFT)
def channels_last_qlinear_conv(e: Emitter, node: Node, x: Value, *others: Value) -> Value:
    """The convolution of quantised tensors, channels last where an attribute says so."""
    if not node.attr_int("channels_last", 0):
        return qlinear_conv(e, node, x, *others)
    return channels_last(e, qlinear_conv(e, node, channels_second(e, x), *others))


@onnx_op("DynamicQuantizeLSTM", domain=MICROSOFT)
def dynamic_quantize_lstm(e: Emitter, node: Node) -> tuple[Value, ...]:
    """An LSTM of quantised weights [directions, inputs, gates]. Inputs and states stay floats: nothing is rounded."""

    def weights(i: int, scales: int) -> Value:
        q = node.value(e, i)
        directions = shape_of(q)[0]

        def spread(v: Value) -> Value:
            return e.reshape(v, (directions, 1, 1) if tensor(v).rank == 1 else (directions, 1, shape_of(v)[1]))

        whole = e.map(graph.sub, e.cast(q, I32), e.cast(spread(node.value(e, scales + 1)), I32))
        w = e.map(graph.mul, e.cast(whole, F32), spread(node.value(e, scales)))
        return e.permute(w, (0, 2, 1))

    inputs = (node.input(0), weights(1, 8), weights(2, 10), *node.inputs[3:8])
    return lstm(e, replace(node, inputs=inputs))
