"""Softmax and its relatives, forward and backward, as compositions that fusion recognises."""

from __future__ import annotations

from typing import Any

import torch

from graphfuse.dialects import graph
from graphfuse.frontends.compositions import log_softmax_of, softmax_of
from graphfuse.frontends.emit import elem_of, shape_of
from graphfuse.frontends.fx.lowering import Call, lowers, wide_elem
from graphfuse.ir.core import Value

aten, prims = torch.ops.aten, torch.ops.prims


@lowers(aten._softmax.default)
def softmax(c: Call, self: Value, dim: int, half_to_float: bool) -> Value:
    x = c.e.cast(self, wide_elem(c.elem))
    if not c.shape:
        return c.rounded(c.e(graph.div, c.e(graph.exp, c.e(graph.sub, x, x)), c.e.full((), elem_of(x), 1.0)))
    return c.rounded(softmax_of(c.e, x, dim % len(c.shape)))


@lowers(aten._safe_softmax.default)
def safe_softmax(c: Call, self: Value, dim: int, dtype: Any = None) -> Value:
    c.want(bool(c.shape), "softmax of a scalar")
    e, axis = c.e, dim % len(c.shape)
    x = e.cast(self, wide_elem(c.elem))
    is_masked = e.reduce(e.map(graph.eq, x, float("-inf")), "all", [axis])
    return c.rounded(e.select(is_masked, 0.0, softmax_of(e, x, axis)))


@lowers(aten._log_softmax.default)
def log_softmax(c: Call, self: Value, dim: int, half_to_float: bool) -> Value:
    x = c.e.cast(self, wide_elem(c.elem))
    if not c.shape:
        return c.rounded(c.e(graph.sub, x, x))
    return c.rounded(log_softmax_of(c.e, x, dim % len(c.shape)))


@lowers(aten.logsumexp.default)
def logsumexp(c: Call, self: Value, dim: Any, keepdim: bool = False) -> Value:
    e = c.e
    axes = c.axes(dim, len(shape_of(self)))
    x = e.cast(self, wide_elem(c.elem))
    if not axes:
        return c.rounded(x)
    high = e.reduce(x, "max", axes)
    high = e.select(e(graph.isinf, high), 0.0, high)
    total = e.reduce(e(graph.exp, e.map(graph.sub, x, high)), "sum", axes)
    return c.rounded(e.reshape(e(graph.add, e(graph.log, total), high), c.shape))


@lowers(aten._softmax_backward_data.default)
def softmax_backward(c: Call, grad_output: Value, output: Value, dim: int, input_dtype: Any) -> Value:
    c.want(elem_of(grad_output) == elem_of(output) and elem_of(output).is_float, "its operands' types differ")
    e, wide = c.e, wide_elem(elem_of(grad_output))
    grad, y = e.cast(grad_output, wide), e.cast(output, wide)
    product = e(graph.mul, grad, y)
    total = e.reduce(product, "sum", [dim % len(c.shape)]) if c.shape else product
    return c.rounded(e.map(graph.sub, product, e.map(graph.mul, y, total)))


@lowers(aten._log_softmax_backward_data.default)
def log_softmax_backward(c: Call, grad_output: Value, output: Value, dim: int, input_dtype: Any) -> Value:
    c.want(elem_of(grad_output) == elem_of(output) and elem_of(output).is_float, "its operands' types differ")
    e, wide = c.e, wide_elem(elem_of(grad_output))
    grad, y = e.cast(grad_output, wide), e.cast(output, wide)
    total = e.reduce(grad, "sum", [dim % len(c.shape)]) if c.shape else grad
    return c.rounded(e.map(graph.sub, grad, e.map(graph.mul, e(graph.exp, y), total)))
