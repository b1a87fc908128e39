"""Tensors out of nothing: numbers, ranges, triangles."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily

from graphfuse.dialects import graph
from graphfuse.frontends.emit import shape_of
from graphfuse.frontends.fx.lowering import Call, Number, Operand, fills_memory, lowers
from graphfuse.ir.core import OpDef, Value
from graphfuse.ir.types import F32, F64, I64
from graphfuse.symbolic import Dim

aten, prims = torch.ops.aten, torch.ops.prims


@lowers(
    aten.full.default, aten.full_like.default, aten.new_full.default, aten.scalar_tensor.default, aten.fill.Scalar,
    aten.fill.Tensor,
)  # fmt: skip
def full(c: Call, **given: Any) -> Value:
    value: Operand = next(given[k] for k in ("fill_value", "value", "s") if k in given)
    return c.e.broadcast(c.value(value, None, c.shape), c.shape)


@lowers(aten.zeros.default, aten.zeros_like.default, aten.new_zeros.default, number=0)
@lowers(aten._efficientzerotensor.default, number=0)
@lowers(aten.ones.default, aten.ones_like.default, aten.new_ones.default, number=1)
def zeros(c: Call, *, number: int, **_: Any) -> Value:
    return c.e.full(c.shape, c.elem, number)


@lowers(
    aten.empty.memory_format, aten.empty_like.default, aten.empty_permuted.default, aten.empty_strided.default,
    aten.new_empty.default, aten.new_empty_strided.default,
)  # fmt: skip
def empty(c: Call, **_: Any) -> Value:
    return c.e.full(c.shape, c.elem, _uninitialised(c.result.dtype))


def _uninitialised(dtype: torch.dtype) -> float:
    """What memory of no contents holds: 0, or what torch fills it with where algorithms must be deterministic."""
    if not (torch.are_deterministic_algorithms_enabled() and fills_memory()):
        return 0
    return math.nan if dtype.is_floating_point else dtype == torch.bool or torch.iinfo(dtype).max


@lowers(aten.arange.start_step, aten.arange.start, aten.arange.default)
def arange(c: Call, start: Number = 0, end: Number = 0, step: Number = 1, **_: Any) -> Value:
    e = c.e
    if not c.elem.is_float:
        out = e.iota(c.shape, 0, I64)
        out = out if step == 1 else e(graph.mul, out, e.full(c.shape, I64, step))
        out = out if start == 0 else e(graph.add, out, e.full(c.shape, I64, start))
        return e.cast(out, c.elem)
    # on the CPU torch computes f32 in f64
    is_wide = c.elem == F64 or (c.elem == F32 and c.result.device.type == "cpu")
    elem = F64 if is_wide else F32
    scaled = e(graph.mul, e.cast(e.iota(c.shape, 0, I64), elem), e.full(c.shape, elem, step))
    return c.rounded(e(graph.add, scaled, e.full(c.shape, elem, start)))


@lowers(prims.iota.default)
def iota(c: Call, length: Dim, start: Dim, step: Dim, **_: Any) -> Value:
    return arange(c, start=start, step=step)


@lowers(aten.tril.default, side=graph.le)
@lowers(aten.triu.default, side=graph.ge)
def tril(c: Call, self: Value, diagonal: Dim = 0, *, side: OpDef) -> Value:
    e, shape = c.e, shape_of(self)
    rank = len(shape)
    rows, columns = e.iota(shape, rank - 2, I64), e.iota(shape, rank - 1, I64)
    kept = e(side, columns, e(graph.add, rows, e.full(shape, I64, diagonal)))
    return e(graph.select, kept, self, c.zeros(self))


@lowers(aten.eye.default, aten.eye.m)
def eye(c: Call, **_: Any) -> Value:
    e = c.e
    return e.cast(e(graph.eq, e.iota(c.shape, 0, I64), e.iota(c.shape, 1, I64)), c.elem)


@lowers(aten.tril_indices.default, made=torch.tril_indices)
@lowers(aten.triu_indices.default, made=torch.triu_indices)
def tril_indices(c: Call, row: int, col: int, offset: int = 0, *, made: Any, **_: Any) -> Value:
    with unset_fake_temporarily():
        return c.e.constant(made(row, col, offset, dtype=c.result.dtype).numpy())
