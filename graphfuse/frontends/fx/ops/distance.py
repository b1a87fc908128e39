"""Norms of vectors, distances between rows, and their gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from graphfuse.dialects import graph
from graphfuse.frontends.emit import Emitter, elem_of, shape_of
from graphfuse.frontends.fx.lowering import Call, Number, lowers, wide_elem
from graphfuse.frontends.fx.ops.banded import static
from graphfuse.ir.core import Value

aten = torch.ops.aten
MOST_ROWS = 128
"""Of more rows the places of all pairs are too many to keep."""


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


# distances


@lowers(aten._cdist_forward.default)
def cdist(c: Call, x1: Value, x2: Value, p: Number, compute_mode: int | None) -> Value:
    """Norms of all differences between the rows of two tensors."""
    gap = c.e.map(graph.sub, c.e.unsqueeze(x1, -2), c.e.unsqueeze(x2, -3))
    return vector_norm(c.e, gap, c.number(p), (len(shape_of(gap)) - 1,))


def _slope(e: Emitter, gap: Value, norm: Value, p: float) -> Value:
    """The derivative of a norm by each difference; 0 where all are, or the difference is."""
    size, norm = e(graph.abs_, gap), e.broadcast(norm, shape_of(gap))
    sign = e(graph.sign, gap)
    if p == 1:
        return sign
    if math.isinf(p):
        return e.select(e(graph.eq, size, norm), sign, 0.0)
    if p == 2:
        return e.select(e.map(graph.eq, norm, 0.0), 0.0, e(graph.div, gap, norm))
    ratio = e.map(graph.pow_, e(graph.div, size, norm), p - 1)
    is_zero = e(graph.or_, e.map(graph.eq, norm, 0.0), e.map(graph.eq, gap, 0.0))
    return e.select(is_zero, 0.0, e(graph.mul, sign, ratio))


@lowers(aten._cdist_backward.default)
def cdist_backward(c: Call, grad: Value, x1: Value, x2: Value, p: Number, cdist: Value) -> Value:
    e, power = c.e, c.number(p)
    c.want(power != 2, "the gradient of Euclid's distance is faster in torch")
    if power == 0:
        return e.full(c.shape, c.elem, 0.0)
    gap = e.map(graph.sub, e.unsqueeze(x1, -2), e.unsqueeze(x2, -3))
    slope = _slope(e, gap, e.unsqueeze(cdist, -1), power)
    return e.reduce(e.map(graph.mul, slope, e.unsqueeze(grad, -1)), "sum", [len(c.shape) - 1], keepdims=False)


# pairs of rows of one tensor


def _pairs(c: Call, rows: int) -> tuple[np.ndarray, np.ndarray]:
    c.want(rows <= MOST_ROWS, f"distances of {rows} rows")
    first, second = np.triu_indices(rows, 1)
    return first.astype(np.int64), second.astype(np.int64)


@lowers(aten._pdist_forward.default)
def pdist(c: Call, self: Value, p: Number = 2) -> Value:
    (rows,) = static(c, shape_of(self)[:1])
    if rows == 1:
        return c.e.full(c.shape, c.elem, 0.0)
    first, second = (c.e(graph.take, self, c.e.constant(i), axis=0) for i in _pairs(c, rows))
    return vector_norm(c.e, c.e(graph.sub, first, second), c.number(p), (1,))


@lowers(aten._pdist_backward.default)
def pdist_backward(c: Call, grad: Value, self: Value, p: Number, pdist: Value) -> Value:
    """As for all pairs of rows, each pair read where it is kept; a row and itself have no distance."""
    e, power = c.e, c.number(p)
    (rows,) = static(c, c.shape[:1])
    if power == 0 or rows == 1:
        return e.full(c.shape, c.elem, 0.0)
    first, second = _pairs(c, rows)
    place = np.zeros((rows, rows), np.int64)
    place[first, second] = place[second, first] = np.arange(len(first))
    at = e.constant(place.reshape(-1))
    weight, norm = (e.reshape(e(graph.take, x, at, axis=0), (rows, rows, 1)) for x in (grad, pdist))
    gap = e.map(graph.sub, e.unsqueeze(self, 1), e.unsqueeze(self, 0))
    is_pair = e.constant(~np.eye(rows, dtype=bool)[:, :, None])
    terms = e.map(graph.mul, _slope(e, gap, norm, power), weight)
    return e.reduce(e.select(is_pair, terms, 0.0), "sum", [1], keepdims=False)
