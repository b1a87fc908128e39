"""Activations and their gradients."""

from __future__ import annotations

import math

import torch

from graphfuse.dialects import graph
from graphfuse.dialects.graph import ELEMENTWISE
from graphfuse.frontends.compositions import gelu_of, silu_of
from graphfuse.frontends.fx.lowering import Call, Number, formula, lowers
from graphfuse.frontends.terms import Term, erf, exp, log1p, maximum, minimum, where
from graphfuse.ir.core import Value

aten = torch.ops.aten
SQRT_HALF, SQRT_2_OVER_PI, CUBIC = math.sqrt(0.5), math.sqrt(2 / math.pi), 0.044715


# these round nothing: halves stay halves


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


# and these are computed in what is wide


@formula(aten.leaky_relu.default)
def leaky_relu(x: Term, negative_slope: float = 0.01) -> Term:
    return where(x > 0.0, x, x * negative_slope)


@formula(aten.leaky_relu_backward.default)
def leaky_relu_backward(grad: Term, x: Term, negative_slope: float, self_is_result: bool) -> Term:
    return where(x > 0.0, grad, grad * negative_slope)


@lowers(aten.elu.default)
def elu(c: Call, self: Value, alpha: Number = 1, scale: Number = 1, input_scale: Number = 1) -> Value:
    a, s, i = c.number(alpha), c.number(scale), c.number(input_scale)
    x = c.term(self)
    return c.rounded(where(x > 0.0, x * s, (x * i).map(ELEMENTWISE["expm1"]) * (a * s)).value)


@lowers(aten.elu_backward.default)
def elu_backward(
    c: Call, grad_output: Value, alpha: Number, scale: Number, input_scale: Number, is_result: bool,
    self_or_result: Value,
) -> Value:  # fmt: skip
    grad, x = c.term(grad_output), c.term(self_or_result)
    a, s, i = c.number(alpha), c.number(scale), c.number(input_scale)
    slope = (x + a * s) * i if is_result else exp(x * i) * (i * a * s)
    return c.rounded((grad * where(x > 0.0, s, slope)).value)


@formula(aten.gelu.default)
def gelu(x: Term, approximate: str = "none") -> Term:
    return Term(x.e, gelu_of(x.e, x.value, by_tanh=approximate == "tanh"))


@formula(aten.gelu_backward.default)
def gelu_backward(grad: Term, x: Term, approximate: str = "none") -> Term:
    square = x * x
    if approximate == "tanh":
        t = ((x + square * x * CUBIC) * SQRT_2_OVER_PI).map(graph.tanh)
        left = (t + 1.0) * 0.5
        slope = (square * (3 * CUBIC) + 1.0) * SQRT_2_OVER_PI
        right = x * 0.5 * (1.0 - t * t) * slope
    else:
        left = (erf(x * SQRT_HALF) + 1.0) * 0.5
        right = x * (exp(square * -0.5) * (1 / math.sqrt(2 * math.pi)))
    return grad * (left + right)


@formula(aten.silu.default)
def silu(x: Term) -> Term:
    return Term(x.e, silu_of(x.e, x.value))


@formula(aten.silu_backward.default)
def silu_backward(grad: Term, x: Term) -> Term:
    gate = x.map(graph.sigmoid)
    return grad * (gate * (x * (1.0 - gate) + 1.0))


@formula(aten.sigmoid_backward.default)
def sigmoid_backward(grad: Term, y: Term) -> Term:
    return grad * (y * (1.0 - y))


@formula(aten.tanh_backward.default)
def tanh_backward(grad: Term, y: Term) -> Term:
    return grad * (1.0 - y * y)


@formula(aten.softplus.default)
def softplus(x: Term, beta: float = 1, threshold: float = 20) -> Term:
    scaled = x * beta
    return where(scaled > threshold, x, log1p(exp(scaled)) / beta)


def _clipped(x: Term) -> Term:
    return minimum(maximum(x + 3.0, 0.0), 6.0)


@formula(aten.hardsigmoid.default)
def hardsigmoid(x: Term) -> Term:
    return _clipped(x) / 6.0


@formula(aten.hardswish.default)
def hardswish(x: Term) -> Term:
    return x * _clipped(x) / 6.0


@formula(aten.hardsigmoid_backward.default)
def hardsigmoid_backward(grad: Term, x: Term) -> Term:
    return where((x > -3.0) & (x < 3.0), grad / 6.0, 0.0)


@formula(aten.hardswish_backward.default)
def hardswish_backward(grad: Term, x: Term) -> Term:
    above = where(x >= 3.0, grad, grad * (x / 3.0 + 0.5))
    return where(x <= -3.0, 0.0, above)
