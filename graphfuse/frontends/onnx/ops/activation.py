"""Activation functions, softmax and its relatives: compositions that fusion recognises by structure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from graphfuse.dialects import graph
from graphfuse.frontends.compositions import gelu_of, log_softmax_of, softmax_of
from graphfuse.frontends.emit import Emitter, elem_of, shape_of, tensor
from graphfuse.frontends.onnx.node import CHANNEL_SLOPES, FLATTENED, Node, onnx_op
from graphfuse.ir.core import OpDef, Value
from graphfuse.ir.types import F16, F32, F64
from graphfuse.symbolic import bounds

MOST_F16 = 65504
"""The largest number that f16 has."""


def _negative_branch(e: Emitter, x: Value, negative: Value) -> Value:
    """x where it is not negative (or NaN), else `negative`."""
    return e.select(e.map(graph.lt, x, 0.0), negative, x)


@onnx_op("PRelu")
def prelu(e: Emitter, node: Node, x: Value, slope: Value) -> Value:
    """x, or slope * x below 0."""
    if node.attr_int(CHANNEL_SLOPES, 0) and tensor(slope).elements != 1:
        slope = e.reshape(slope, (tensor(slope).elements, *(1,) * (tensor(x).rank - 2)))
    return _negative_branch(e, x, e.map(graph.mul, x, e.spread(slope, shape_of(x))))


def elu_of(e: Emitter, x: Value, alpha: float) -> Value:
    """x, or alpha * (exp(x) - 1) below 0."""
    expm1 = e.map(graph.ELEMENTWISE["expm1"], e.map(graph.min_, x, 0.0))
    return _negative_branch(e, x, e.map(graph.mul, expm1, alpha) if alpha != 1.0 else expm1)


@onnx_op("Selu")
def selu(e: Emitter, node: Node, x: Value) -> Value:
    """gamma * elu(x)."""
    alpha = node.attr_float("alpha", 1.67326319217681884765625)
    gamma = node.attr_float("gamma", 1.05070102214813232421875)
    return e.map(graph.mul, elu_of(e, x, alpha), gamma)


@onnx_op("Celu")
def celu(e: Emitter, node: Node, x: Value) -> Value:
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1))."""
    alpha = node.attr_float("alpha", 1.0)
    inner = e.map(graph.ELEMENTWISE["expm1"], e.map(graph.div, e.map(graph.min_, x, 0.0), alpha))
    return _negative_branch(e, x, e.map(graph.mul, inner, alpha))


@onnx_op("ThresholdedRelu")
def thresholded_relu(e: Emitter, node: Node, x: Value) -> Value:
    """x above alpha, else 0."""
    return e.select(e.map(graph.gt, e.wide(x), node.attr_float("alpha", 1.0)), x, 0.0)


def clamp(e: Emitter, x: Value, low: float, high: float) -> Value:
    """min(max(x, low), high)."""
    return e.map(graph.min_, e.map(graph.max_, x, low), high)


def hard_sigmoid_of(e: Emitter, x: Value, alpha: float, beta: float) -> Value:
    """clamp(alpha * x + beta, 0, 1)."""
    return clamp(e, _affine(e, x, alpha, beta), 0.0, 1.0)


@onnx_op("HardSigmoid")
def hard_sigmoid(e: Emitter, node: Node, x: Value) -> Value:
    """clamp(alpha * x + beta, 0, 1), of halves in f32."""
    y = hard_sigmoid_of(e, e.wide(x), node.attr_float("alpha", 0.2), node.attr_float("beta", 0.5))
    return e.cast(y, elem_of(x))


@onnx_op("HardSwish")
def hard_swish(e: Emitter, node: Node, x: Value) -> Value:
    """x * clamp(x / 6 + 0.5, 0, 1), of halves in f32; 1 / 6 is the standard's, an f32."""
    wide = e.wide(x)
    return e.cast(e.map(graph.mul, wide, hard_sigmoid_of(e, wide, float(np.float32(1 / 6)), 0.5)), elem_of(x))


def softplus_of(e: Emitter, x: Value) -> Value:
    """log(1 + exp(x)), as max(x, 0) + log1p(exp(-|x|)) so that nothing overflows."""
    small = e.map(graph.exp, e.map(graph.neg, e.map(graph.abs_, x)))
    return e.map(graph.add, e.map(graph.max_, x, 0.0), e.map(graph.ELEMENTWISE["log1p"], small))


def softsign_of(e: Emitter, x: Value) -> Value:
    """x / (1 + |x|)."""
    return e.map(graph.div, x, e.map(graph.add, e.map(graph.abs_, x), 1.0))


@onnx_op("Mish")
def mish(e: Emitter, node: Node, x: Value) -> Value:
    """x * tanh(softplus(x))."""
    return e.map(graph.mul, x, e.map(graph.tanh, softplus_of(e, x)))


@onnx_op("Swish")
def swish(e: Emitter, node: Node, x: Value) -> Value:
    """x * sigmoid(alpha * x)."""
    alpha = node.attr_float("alpha", 1.0)
    return e.map(graph.mul, x, e.map(graph.sigmoid, x if alpha == 1.0 else e.map(graph.mul, x, alpha)))


@onnx_op("Gelu")
def gelu(e: Emitter, node: Node, x: Value) -> Value:
    """x * Phi(x), by the error function or its tanh approximation."""
    return gelu_of(e, x, by_tanh=node.attr_choice("approximate", "none", "tanh") == "tanh")


@onnx_op("Shrink")
def shrink(e: Emitter, node: Node, x: Value) -> Value:
    """x + bias below -lambd, x - bias above lambd, else 0; of halves in f32, as lambd is."""
    bias, lambd = node.attr_float("bias", 0.0), node.attr_float("lambd", 0.5)
    elem = elem_of(x)
    wide = e.wide(x) if elem.is_float else e.cast(x, F64)
    high = e.select(e.map(graph.gt, wide, lambd), e.map(graph.sub, wide, bias), 0.0)
    low = e.map(graph.lt, wide, -lambd)
    return e.cast(e.select(low, e.map(graph.add, wide, bias), high), elem)


# by the names that recurrent operators and fused ones have for them


def _of_one(kind: OpDef, *numbers: float) -> Callable[[Emitter, Value], Value]:
    return lambda e, x: e.map(kind, x, *numbers)


def _affine(e: Emitter, x: Value, alpha: float, beta: float) -> Value:
    return e.map(graph.add, e.map(graph.mul, x, alpha), beta)


def _leaky_relu(e: Emitter, x: Value, alpha: float) -> Value:
    return _negative_branch(e, x, e.map(graph.mul, x, alpha))


def above(kind: OpDef) -> Callable[[Emitter, Value, float], Value]:
    """x where it compares so with alpha, else 0."""
    return lambda e, x, alpha: e.select(e.map(kind, x, alpha), x, 0.0)


def _scaled_tanh(e: Emitter, x: Value, alpha: float, beta: float) -> Value:
    return e.map(graph.mul, e.map(graph.tanh, e.map(graph.mul, x, beta)), alpha)


Function: TypeAlias = "tuple[Callable[..., Value], tuple[float, ...]]"
FUNCTIONS: dict[str, Function] = {
    "sigmoid": (_of_one(graph.sigmoid), ()),
    "tanh": (_of_one(graph.tanh), ()),
    "relu": (_of_one(graph.max_, 0.0), ()),
    "affine": (_affine, (1.0, 0.0)),
    "leakyrelu": (_leaky_relu, (0.01,)),
    "thresholdedrelu": (above(graph.ge), (1.0,)),
    "scaledtanh": (_scaled_tanh, (1.0, 1.0)),
    "hardsigmoid": (hard_sigmoid_of, (0.2, 0.5)),
    "elu": (elu_of, (1.0,)),
    "softsign": (softsign_of, ()),
    "softplus": (softplus_of, ()),
}
"""With what their parameters are where they are left out, alpha first."""


@onnx_op("Relu", "LeakyRelu", "Elu", "Softplus", "Softsign")
def by_name(e: Emitter, node: Node, x: Value) -> Value:
    """A function of that name."""
    function, defaults = FUNCTIONS[node.op.lower()]
    numbers = [node.attr_float(name, number) for name, number in zip(("alpha", "beta"), defaults, strict=False)]
    return function(e, x, *numbers)


# softmax


def softmax_in_element(e: Emitter, x: Value, axis: int) -> Value:
    """The standard's Softmax: every step in the element of `x`, which is why Attention has a `softmax_precision`.

    Rows of f16 that may have more elements than f16 can count are rounded once instead: their sum need not fit.
    """
    if elem_of(x) == F16 and bounds(shape_of(x)[axis], e.ranges)[1] > MOST_F16:
        return e.cast(softmax_of(e, e.cast(x, F32), axis), F16)
    return softmax_of(e, x, axis)


@onnx_op("Softmax", "LogSoftmax")
def softmax(e: Emitter, node: Node, x: Value) -> Value:
    """Softmax along one axis; before opset 13, over all dims from the axis on."""

    def of(x: Value, axis: int) -> Value:
        if node.op == "Softmax":
            return softmax_in_element(e, x, axis)
        return e.cast(log_softmax_of(e, e.wide(x), axis), elem_of(x))

    rank = tensor(x).rank
    if rank == 0:
        return e.reshape(of(e.reshape(x, (1,)), 0), ())
    if node.opset >= 13:
        return of(x, node.axis(node.attr_int("axis", -1), rank))
    axis = node.axis(node.attr_int("axis", 1), rank)
    return e.reshape(of(e.as_matrix(x, axis), 1), shape_of(x))


@onnx_op("Hardmax")
def hardmax(e: Emitter, node: Node, x: Value) -> Value:
    """1 at the first maximum along an axis, 0 elsewhere."""
    if node.attr_int(FLATTENED, 0):
        axis = node.attr_int("axis", 1) % max(tensor(x).rank, 1)
        return e.reshape(_hardmax(e, e.as_matrix(x, axis), 1), shape_of(x))
    return _hardmax(e, x, node.axis(node.attr_int("axis", -1), tensor(x).rank))


def _hardmax(e: Emitter, x: Value, axis: int) -> Value:
    first = e(graph.arg_reduce, x, axis=axis, kind="max", keepdims=True)
    return e.cast(e.map(graph.eq, e.iota(shape_of(x), axis), first), elem_of(x))
