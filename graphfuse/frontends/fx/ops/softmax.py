"""Softmax and its relatives, forward and backward, as compositions that fusion recognises.

Of losses the gradient of choosing a class: torch decomposes the others well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from graphfuse.dialects import graph
from graphfuse.frontends.compositions import log_softmax_of, softmax_of
from graphfuse.frontends.emit import Emitter, elem_of, shape_of
from graphfuse.frontends.fx.lowering import Call, lowers, wide_elem
from graphfuse.ir.core import Value

aten = torch.ops.aten
MEAN = 1
"""`reduction` as torch's operators number it: none, mean, sum."""


@lowers(aten._softmax.default, of=softmax_of)
@lowers(aten._log_softmax.default, of=log_softmax_of)
def softmax(
    c: Call, self: Value, axis: int, half_to_float: bool, *, of: Callable[[Emitter, Value, int], Value]
) -> Value:
    return c.rounded(of(c.e, c.e.cast(self, wide_elem(c.elem)), axis))


@lowers(aten._safe_softmax.default)
def safe_softmax(c: Call, self: Value, axis: int, dtype: Any = None) -> Value:
    e, x = c.e, c.e.cast(self, wide_elem(c.elem))
    is_masked = e.reduce(e.map(graph.eq, x, float("-inf")), "all", [axis])
    return c.rounded(e.select(is_masked, 0.0, softmax_of(e, x, axis)))


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


@lowers(aten._softmax_backward_data.default, is_log=False)
@lowers(aten._log_softmax_backward_data.default, is_log=True)
def softmax_backward(c: Call, grad_output: Value, output: Value, axis: int, input_dtype: Any, *, is_log: bool) -> Value:
    c.want(elem_of(grad_output) == elem_of(output) and elem_of(output).is_float, "its operands' types differ")
    e, wide = c.e, wide_elem(elem_of(grad_output))
    grad, y = e.cast(grad_output, wide), e.cast(output, wide)
    slope, weights = (grad, e(graph.exp, y)) if is_log else (e(graph.mul, grad, y), y)
    return c.rounded(e.map(graph.sub, slope, e.map(graph.mul, weights, e.reduce(slope, "sum", [axis]))))


@lowers(aten.nll_loss_backward.default, aten.nll_loss2d_backward.default)
def nll_loss_backward(
    c: Call, grad_output: Value, self: Value, target: Value, weight: Value | None, reduction: int, ignore_index: int,
    total_weight: Value,
) -> Value:  # fmt: skip
    """Minus the gradient where the class is the target's: compared with every class, nothing is scattered."""
    e, wide, shape = c.e, wide_elem(c.elem), c.shape
    axis = 0 if len(shape) == 1 else 1
    grad = e.cast(grad_output, wide)
    if reduction == MEAN:
        grad = e(graph.div, grad, e.cast(total_weight, wide))
    if shape_of(grad):
        grad = e.unsqueeze(grad, axis)
    target = e.unsqueeze(target, axis)
    mask = e(graph.and_, e.map(graph.eq, target, e.iota(_one_long(shape, axis), axis, elem_of(target))),
             e.broadcast(e.map(graph.ne, target, ignore_index), shape))  # fmt: skip
    slope = e(graph.neg, grad)
    if weight is not None:
        slope = e.map(graph.mul, slope, e.reshape(e.cast(weight, wide), _one_long(shape, axis)))
    return c.rounded(e.select(mask, e.broadcast(slope, shape), 0.0))


def _one_long(shape: Sequence[Any], axis: int) -> tuple[Any, ...]:
    """1 for every dim but one."""
    return tuple(d if i == axis else 1 for i, d in enumerate(shape))
