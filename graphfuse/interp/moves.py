"""What the ops of `dialects/moves.py` compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphfuse.dialects import moves
from graphfuse.interp.arrays import along
from graphfuse.interp.memory import Array, Context, attr
from graphfuse.ir.core import Op, OpDef


def _take(_: Context, op: Op, x: Array) -> Array:
    start, count, step = attr(op, "start"), attr(op, "count"), attr(op, "step", 1)
    return x.take(start + step * np.arange(count), attr(op, "axis"))


def _cat(_: Context, op: Op, a: Array, b: Array) -> Array:
    return np.concatenate([a, b], attr(op, "axis"))


def _gather(_: Context, op: Op, x: Array, index: Array) -> Array:
    axis = attr(op, "axis")
    inside = (index >= 0) & (index < x.shape[axis])
    found = np.take_along_axis(x, np.where(inside, index, 0).astype(np.int64), axis)
    return np.where(inside, found, np.zeros((), x.dtype))


def _histogram(_: Context, op: Op, x: Array) -> Array:
    bins = attr(op, "bins")
    return np.bincount(x[(x >= 0) & (x < bins)].astype(np.int64), minlength=bins).astype(np.int32)


def _sort(_: Context, op: Op, *keys: Array) -> tuple[Array, ...]:
    axis, count = attr(op, "axis"), attr(op, "count")
    order = np.lexsort(keys[::-1], axis)[along(axis, slice(count))]
    sorted_ = (np.take_along_axis(x, order, axis) for x in keys)
    return tuple(np.flip(x, axis) if attr(op, "falling") else x for x in sorted_)


SEMANTICS: dict[OpDef, Callable[..., Any]] = {
    moves.take: _take,
    moves.cat: _cat,
    moves.gather: _gather,
    moves.histogram: _histogram,
    moves.sort: _sort,
}
