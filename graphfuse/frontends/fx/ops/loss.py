"""The gradient of choosing a class, and norms of vectors. torch decomposes the other losses well."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from graphfuse.dialects import graph
from graphfuse.frontends.emit import Emitter, elem_of, shape_of
from graphfuse.frontends.fx.lowering import Call, Number, lowers, wide_elem
from graphfuse.ir.core import Value

aten = torch.ops.aten
MEAN = 1
"""`reduction` as torch's operators number it: none, mean, sum."""


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


@lowers(aten.linalg_vector_norm.default)
def linalg_vector_norm(
    c: Call, self: Value, ord: Number = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> Value:
    axes = c.axes(dim, len(shape_of(self)))
    return c.rounded(vector_norm(c.e, c.e.cast(self, wide_elem(c.elem)), c.number(ord), axes, keepdims=keepdim))


def vector_norm(e: Emitter, x: Value, p: float, axes: Sequence[int], *, keepdims: bool = False) -> Value:
    """The p-norm along axes."""
    size = e(graph.abs_, x)
    if math.isinf(p):
        return e.reduce(size, "max" if p > 0 else "min", axes, keepdims=keepdims)
    if p == 0:
        return e.reduce(e.cast(e.map(graph.ne, x, 0.0), elem_of(x)), "sum", axes, keepdims=keepdims)
    if p == 1:
        return e.reduce(size, "sum", axes, keepdims=keepdims)
    powers = e(graph.mul, x, x) if p == 2 else e.map(graph.pow_, size, p)
    total = e.reduce(powers, "sum", axes, keepdims=keepdims)
    return e(graph.sqrt, total) if p == 2 else e.map(graph.pow_, total, 1 / p)
