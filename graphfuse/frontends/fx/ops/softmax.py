"""Relatives of softmax as compositions that fusion recognises, and the gradient of choosing a class.

Softmax, its logarithm and other losses torch decomposes well: so a training step keeps two numbers of a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from graphfuse.dialects import graph
from graphfuse.frontends.compositions import softmax_of
from graphfuse.frontends.emit import elem_of, shape_of
from graphfuse.frontends.fx.lowering import Call, lowers, wide_elem
from graphfuse.ir.core import Value

aten = torch.ops.aten
MEAN = 1
"""`reduction` as torch's operators number it: none, mean, sum."""


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
