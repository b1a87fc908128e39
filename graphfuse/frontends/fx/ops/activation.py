"""Activations and their gradients."""

from __future__ import annotations

import math

import torch

from graphfuse.dialects import graph
from graphfuse.dialects.graph import ELEMENTWISE
from graphfuse.frontends.compositions import gelu_of, silu_of
from graphfuse.frontends.emit import elem_of
from graphfuse.frontends.fx.lowering import Call, Number, lowers
from graphfuse.ir.core import Value

aten = torch.ops.aten
SQRT_HALF, SQRT_2_OVER_PI, CUBIC = math.sqrt(0.5), math.sqrt(2 / math.pi), 0.044715


@lowers(aten.relu.default)
def relu(c: Call, self: Value) -> Value:
    return c.e.map(graph.max_, self, 0)


@lowers(aten.threshold_backward.default)
def threshold_backward(c: Call, grad_output: Value, self: Value, threshold: Number) -> Value:
    return c.e.select(c.e.map(graph.le, self, threshold), 0.0, grad_output)


@lowers(aten.hardtanh.default)
def hardtanh(c: Call, self: Value, min_val: Number = -1, max_val: Number = 1) -> Value:
    return c.e.map(graph.min_, c.e.map(graph.max_, self, min_val), max_val)


@lowers(aten.hardtanh_backward.default)
def hardtanh_backward(c: Call, grad_output: Value, self: Value, min_val: Number, max_val: Number) -> Value:
    e = c.e
    outside = e(graph.or_, e.map(graph.le, self, min_val), e.map(graph.ge, self, max_val))
    return e.select(outside, 0.0, grad_output)


@lowers(aten.leaky_relu.default)
def leaky_relu(c: Call, self: Value, negative_slope: Number = 0.01) -> Value:
    x = c.wide(self)
    return c.rounded(c.e.select(c.e.map(graph.gt, x, 0.0), x, c.e.map(graph.mul, x, negative_slope)))


@lowers(aten.leaky_relu_backward.default)
def leaky_relu_backward(
    c: Call, grad_output: Value, self: Value, negative_slope: Number, self_is_result: bool
) -> Value:
    grad, x = c.wide(grad_output), c.wide(self)
    return c.rounded(c.e.select(c.e.map(graph.gt, x, 0.0), grad, c.e.map(graph.mul, grad, negative_slope)))


@lowers(aten.elu.default)
def elu(c: Call, self: Value, alpha: Number = 1, scale: Number = 1, input_scale: Number = 1) -> Value:
    e, x = c.e, c.wide(self)
    most = c.number(alpha) * c.number(scale)
    below = e.map(graph.mul, e(ELEMENTWISE["expm1"], e.map(graph.mul, x, input_scale)), most)
    return c.rounded(e.select(e.map(graph.gt, x, 0.0), e.map(graph.mul, x, scale), below))


@lowers(aten.elu_backward.default)
def elu_backward(
    c: Call, grad_output: Value, alpha: Number, scale: Number, input_scale: Number, is_result: bool,
    self_or_result: Value,
) -> Value:  # fmt: skip
    e, grad, x = c.e, c.wide(grad_output), c.wide(self_or_result)
    a, s, i = c.number(alpha), c.number(scale), c.number(input_scale)
    if is_result:
        slope = e.map(graph.mul, e.map(graph.add, x, a * s), i)
    else:
        slope = e.map(graph.mul, e(graph.exp, e.map(graph.mul, x, i)), i * a * s)
    slope = e.select(e.map(graph.gt, x, 0.0), s, slope)
    return c.rounded(e(graph.mul, grad, slope))


@lowers(aten.gelu.default)
def gelu(c: Call, self: Value, approximate: str = "none") -> Value:
    return c.rounded(gelu_of(c.e, c.wide(self), by_tanh=approximate == "tanh"))


@lowers(aten.gelu_backward.default)
def gelu_backward(c: Call, grad_output: Value, self: Value, approximate: str = "none") -> Value:
    e, grad, x = c.e, c.wide(grad_output), c.wide(self)
    square = e(graph.mul, x, x)
    if approximate == "tanh":
        inner = e.map(graph.mul, e(graph.add, x, e.map(graph.mul, e(graph.mul, square, x), CUBIC)), SQRT_2_OVER_PI)
        t = e(graph.tanh, inner)
        left = e.map(graph.mul, e.map(graph.add, t, 1.0), 0.5)
        slope = e.map(graph.mul, e.map(graph.add, e.map(graph.mul, square, 3 * CUBIC), 1.0), SQRT_2_OVER_PI)
        sech = e.map(graph.sub, e.full(c.shape, elem_of(x), 1.0), e(graph.mul, t, t))
        right = e(graph.mul, e(graph.mul, e.map(graph.mul, x, 0.5), sech), slope)
    else:
        left = e.map(graph.mul, e.map(graph.add, e(graph.erf, e.map(graph.mul, x, SQRT_HALF)), 1.0), 0.5)
        density = e.map(graph.mul, e(graph.exp, e.map(graph.mul, square, -0.5)), 1 / math.sqrt(2 * math.pi))
        right = e(graph.mul, x, density)
    return c.rounded(e(graph.mul, grad, e(graph.add, left, right)))


@lowers(aten.silu.default)
def silu(c: Call, self: Value) -> Value:
    return c.rounded(silu_of(c.e, c.wide(self)))


@lowers(aten.silu_backward.default)
def silu_backward(c: Call, grad_output: Value, self: Value) -> Value:
    e, grad, x = c.e, c.wide(grad_output), c.wide(self)
    gate = e(graph.sigmoid, x)
    rest = e.map(graph.sub, e.full(c.shape, elem_of(x), 1.0), gate)
    slope = e(graph.mul, gate, e.map(graph.add, e(graph.mul, x, rest), 1.0))
    return c.rounded(e(graph.mul, grad, slope))


@lowers(aten.sigmoid_backward.default)
def sigmoid_backward(c: Call, grad_output: Value, output: Value) -> Value:
    e, grad, y = c.e, c.wide(grad_output), c.wide(output)
    return c.rounded(e(graph.mul, grad, e(graph.mul, y, e.map(graph.sub, e.full(c.shape, elem_of(y), 1.0), y))))


@lowers(aten.tanh_backward.default)
def tanh_backward(c: Call, grad_output: Value, output: Value) -> Value:
    e, grad, y = c.e, c.wide(grad_output), c.wide(output)
    return c.rounded(e(graph.mul, grad, e.map(graph.sub, e.full(c.shape, elem_of(y), 1.0), e(graph.mul, y, y))))


@lowers(aten.softplus.default)
def softplus(c: Call, self: Value, beta: Number = 1, threshold: Number = 20) -> Value:
    e, x = c.e, c.wide(self)
    scaled = e.map(graph.mul, x, beta)
    soft = e.map(graph.div, e(ELEMENTWISE["log1p"], e(graph.exp, scaled)), beta)
    return c.rounded(e.select(e.map(graph.gt, scaled, threshold), x, soft))


@lowers(aten.hardsigmoid.default)
def hardsigmoid(c: Call, self: Value) -> Value:
    return c.rounded(_gate(c, c.wide(self)))


@lowers(aten.hardswish.default)
def hardswish(c: Call, self: Value) -> Value:
    e, x = c.e, c.wide(self)
    clipped = e.map(graph.min_, e.map(graph.max_, e.map(graph.add, x, 3.0), 0.0), 6.0)
    return c.rounded(e.map(graph.div, e(graph.mul, x, clipped), 6.0))


def _gate(c: Call, x: Value) -> Value:
    e = c.e
    return e.map(graph.div, e.map(graph.min_, e.map(graph.max_, e.map(graph.add, x, 3.0), 0.0), 6.0), 6.0)


@lowers(aten.hardsigmoid_backward.default)
def hardsigmoid_backward(c: Call, grad_output: Value, self: Value) -> Value:
    e, grad, x = c.e, c.wide(grad_output), c.wide(self)
    inside = e(graph.and_, e.map(graph.gt, x, -3.0), e.map(graph.lt, x, 3.0))
    return c.rounded(e.select(inside, e.map(graph.div, grad, 6.0), 0.0))


@lowers(aten.hardswish_backward.default)
def hardswish_backward(c: Call, grad_output: Value, self: Value) -> Value:
    e, grad, x = c.e, c.wide(grad_output), c.wide(self)
    middle = e(graph.mul, grad, e.map(graph.add, e.map(graph.div, x, 3.0), 0.5))
    above = e.select(e.map(graph.ge, x, 3.0), grad, middle)
    return c.rounded(e.select(e.map(graph.le, x, -3.0), 0.0, above))
