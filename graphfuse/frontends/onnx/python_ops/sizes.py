"""Movement by sizes that only a run knows: how long a slice is, what shape is asked for, how many are largest."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from graphfuse.frontends.host_values import Array, onnx_slice
from graphfuse.frontends.onnx.node import one_of
from graphfuse.frontends.onnx.python_ops.call import Call, by_value, on_strings


@by_value("Range")
def range_(c: Call) -> Any:
    """From a start by steps to before a limit."""
    start, limit, delta = (c.number(i) for i in range(3))
    if delta == 0:
        raise c.error("delta must not be 0")
    whole = isinstance(start, int)  # which floats need not be able to count
    count = max(-((start - limit) // delta) if whole else int(np.ceil((limit - start) / delta)), 0)
    c.fitting((count,), 8)
    return (start + np.arange(count) * delta).astype(c.array(0).dtype)


@by_value("Slice")
@on_strings("Slice")
def slice_(c: Call) -> Any:
    """Every so many elements along some axes; bounds beyond the ends are the ends."""
    x = c.array(0)
    starts, ends = c.ints(1), c.ints(2)
    axes = c.ints(3) if c.has(3) else list(range(len(starts)))
    steps = c.ints(4) if c.has(4) else [1] * len(starts)
    index = [slice(None)] * x.ndim
    for start, end, at, step in zip(starts, ends, c.axes(axes, x.ndim), steps, strict=True):
        index[at] = onnx_slice(start, end, step, x.shape[at])
    return np.ascontiguousarray(x[tuple(index)]) if index else x


@by_value("Split")
@on_strings("Split")
def split(c: Call) -> tuple[Array, ...]:
    """Pieces of given lengths along an axis, or equal ones of which the last are shorter where they must be."""
    x = c.array(0)
    axis = c.axis(int(c.get("axis", 0)), x.ndim)
    size, chunk = x.shape[axis], -(-x.shape[axis] // c.outputs)
    sizes = c.ints(1) if c.has(1) else [min(chunk, max(size - chunk * i, 0)) for i in range(c.outputs)]
    if sum(sizes) != x.shape[axis] or min(sizes, default=0) < 0:
        raise c.error(f"split: expected lengths with the sum {x.shape[axis]}, found {sizes}")
    return tuple(np.split(x, np.cumsum(sizes)[:-1], axis))


@by_value("ConstantOfShape")
def constant_of_shape(c: Call) -> Any:
    """One value everywhere."""
    value = c.get("value", np.zeros(1, np.float32))
    return np.full(c.fitting(c.ints(0), value.itemsize), value.reshape(-1)[0], value.dtype)


@by_value("Tile")
@on_strings("Tile")
def tile(c: Call) -> Any:
    """Repeated along each dim."""
    x, repeats = c.array(0), c.ints(1)
    c.fitting((x.size, *repeats), x.itemsize)
    return np.tile(x, repeats)


@by_value("TopK")
def top_k(c: Call) -> tuple[Array, Array]:
    """The largest or smallest along an axis and where they are; of equal ones, the first."""
    x, k = c.array(0), int(c.number(1))
    axis = c.axis(int(c.get("axis", -1)), x.ndim)
    if not 0 <= k <= x.shape[axis]:
        raise c.error(f"k: expected 0..{x.shape[axis]}, found {k}")
    order = np.argsort(x, axis, kind="stable")
    if c.get("largest", 1):  # a stable order of the reversed elements, reversed
        order = np.flip(x.shape[axis] - 1 - np.argsort(np.flip(x, axis), axis, kind="stable"), axis)
    order = np.take(order, np.arange(k), axis)
    return np.take_along_axis(x, order, axis), order.astype(np.int64)


@by_value("Pad")
def pad(c: Call) -> Any:
    """More elements before and after; fewer where a count is negative."""
    x, counts = c.array(0), c.ints(1)
    axes = c.axes(c.ints(3), x.ndim) if c.has(3) else range(x.ndim)
    before, after = [0] * x.ndim, [0] * x.ndim
    for i, axis in enumerate(axes):
        before[axis], after[axis] = counts[i], counts[i + len(axes)]
    for b, a, d in zip(before, after, x.shape, strict=True):
        if (cut := max(-b, 0) + max(-a, 0)) > d:
            raise c.error(f"pads: expected to cut off up to {d} of {d} elements, found {cut}")
    x = x[tuple(slice(max(-b, 0), d - max(-a, 0)) for b, a, d in zip(before, after, x.shape, strict=True))]
    widths = [(max(b, 0), max(a, 0)) for b, a in zip(before, after, strict=True)]
    c.fitting([b + d + a for (b, a), d in zip(widths, x.shape, strict=True)], x.itemsize)
    mode = one_of("mode", c.get("mode", "constant"), ("constant", "edge", "reflect", "wrap"), c.error)
    if mode == "constant":
        return np.pad(x, widths, constant_values=c.number(2, 0))
    return np.pad(x, widths, mode=cast("Any", mode))


@by_value("Trilu")
def trilu(c: Call) -> Any:
    """The upper or lower triangle of matrices, from the k-th diagonal."""
    x, k = c.array(0), int(c.number(1, 0))
    k = min(max(k, -x.shape[-2]), x.shape[-1])  # beyond the corners there is no other diagonal
    return np.triu(x, k) if c.get("upper", 1) else np.tril(x, k)


@by_value("OneHot")
def one_hot(c: Call) -> Any:
    """A new axis of as many elements as there are classes: one value where the index says, another elsewhere."""
    at, depth, values = c.array(0), int(c.number(1)), c.array(2).reshape(-1)
    if depth < 0:
        raise c.error(f"depth: expected at least 0, found {depth}")
    if values.size != 2:
        raise c.error(f"off and on: expected 2 elements, found {values.size}")
    axis = c.axis(int(c.get("axis", -1)), at.ndim + 1)
    # an index counts from the end if it is negative; one that is out of range has no place
    index = at.astype(np.int64)
    index = np.where(index < 0, index + depth, index)
    c.fitting((at.size, depth), values.itemsize)
    hit = np.expand_dims(index, axis) == np.arange(depth).reshape([-1 if i == axis else 1 for i in range(at.ndim + 1)])
    return np.asarray(np.where(hit, values[1], values[0]), values.dtype)


@by_value("CumSum")
def cumsum(c: Call) -> Any:
    """Sums of all up to each element along an axis, `exclusive` without it, `reverse` from the end."""
    x = c.array(0)
    axis = c.axis(int(c.number(1)), x.ndim)
    x = np.flip(x, axis) if c.get("reverse", 0) else x
    if c.get("exclusive", 0):  # not by subtraction, which infinities do not survive
        none = np.zeros((*x.shape[:axis], min(1, x.shape[axis]), *x.shape[axis + 1 :]), x.dtype)
        x = np.concatenate([none, x], axis).take(range(x.shape[axis]), axis)
    sums = np.cumsum(x, axis, dtype=x.dtype)
    return np.flip(sums, axis) if c.get("reverse", 0) else sums
