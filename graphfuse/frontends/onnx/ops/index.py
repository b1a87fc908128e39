"""Data-dependent indexing: gathers, scatters, and reversal by length."""

from __future__ import annotations

import numpy as np

from graphfuse.dialects import graph
from graphfuse.frontends.emit import Emitter, Shape, shape_of, tensor
from graphfuse.frontends.host_values import Array, Host, distinct
from graphfuse.frontends.onnx.node import Node, onnx_op
from graphfuse.ir.core import Value
from graphfuse.ir.types import I64
from graphfuse.symbolic import Dim, Expr

_REDUCTIONS = {"none": "set", "add": "add", "mul": "mul", "max": "max", "min": "min"}


@onnx_op("Gather")
def gather(e: Emitter, node: Node, x: Value) -> Value:
    """Whole slices along an axis; one known index is a slice."""
    axis = node.axis(node.attr_int("axis", 0), tensor(x).rank)
    at = node.input(1)
    if isinstance(at, Host) and at.array.size == 1:
        start = at.array.reshape(-1)[0]
        start = start if isinstance(start, Expr) else int(start)
        size = shape_of(x)[axis]
        if isinstance(start, int) and isinstance(size, int) and not -size <= start < size:
            raise node.error(f"index {start} is outside a dim of {size}")
        if isinstance(start, int) and start < 0:
            start = start + size
        picked = e.slice(x, axis, start, 1)
        shape = shape_of(x)
        return e.reshape(picked, (*shape[:axis], *at.array.shape, *shape[axis + 1 :]))
    return e(graph.take, x, node.index(e, 1, shape_of(x)[axis]), axis=axis)


@onnx_op("GatherElements")
def gather_elements(e: Emitter, node: Node, x: Value) -> Value:
    """One index per element."""
    axis = node.axis(node.attr_int("axis", 0), tensor(x).rank)
    return e(graph.take_along, x, node.index(e, 1, shape_of(x)[axis]), axis=axis)


@onnx_op("GatherND")
def gather_nd(e: Emitter, node: Node, x: Value, at: Value) -> Value:
    """The last dim of the indices is a (partial) index."""
    batch_dims = node.attr_int("batch_dims", 0)
    return e(graph.gather_nd, x, _places(e, node, at, shape_of(x)[batch_dims:]), batch_dims=batch_dims)


def _places(e: Emitter, node: Node, at: Value, shape: Shape) -> Value:
    """Input 1, whose last dim holds indices into the first dims of `shape`."""
    at = e.indices(at)
    depth = shape_of(at)[-1]
    for i, size in enumerate(shape[: depth if isinstance(depth, int) else None]):
        node.watched.watch(e.slice(at, -1, i, 1), size, from_end=True, operand=node.name(1))
    return at


def _kind(node: Node) -> str:
    reduction = node.attr_str("reduction", "none")
    if reduction not in _REDUCTIONS:
        raise node.error(f"reduction must be one of {', '.join(_REDUCTIONS)}, got {reduction}")
    return _REDUCTIONS[reduction]


@onnx_op("ScatterElements", "Scatter")
def scatter_elements(e: Emitter, node: Node, x: Value) -> Value:
    """A copy with elements replaced or combined, one index per element."""
    axis = node.axis(node.attr_int("axis", 0), tensor(x).rank)
    at, updates = node.index(e, 1, shape_of(x)[axis]), node.value(e, 2)
    updates = e.equalled(updates, shape_of(at), "the updates")
    return e(graph.scatter_along, x, at, updates, axis=axis, kind=_kind(node))


@onnx_op("ScatterND")
def scatter_nd(e: Emitter, node: Node, x: Value, at: Value, updates: Value) -> Value:
    """A copy with slices replaced or combined."""
    at = _places(e, node, at, shape_of(x))
    depth = shape_of(at)[-1]
    if isinstance(depth, int):
        updates = e.equalled(updates, (*shape_of(at)[:-1], *shape_of(x)[depth:]), "the updates")
    return e(graph.scatter_nd, x, at, updates, kind=_kind(node))


def written_from(e: Emitter, value: Value, within: tuple[Dim, Dim], start: Value, capacity: Dim) -> Value:
    """Where a state is written from, which is behind its end for a value that is an error: then nothing is."""
    low, high = (e.full((), I64, bound) for bound in within)
    fits = e.map(graph.and_, e.map(graph.ge, value, low), e.map(graph.le, value, high))
    return e.select(fits, start, e.full((), I64, capacity))


@onnx_op("TensorScatter")
def tensor_scatter(e: Emitter, node: Node, past: Value, update: Value) -> Value:
    """Write an update into a cache along one axis, from a position given per batch; circular mode wraps."""
    rank = tensor(past).rank
    axis = node.axis(node.attr_int("axis", -2), rank)
    capacity = shape_of(past)[axis]
    shape = tuple(shape_of(update)[i] if i == axis else d for i, d in enumerate(shape_of(past)))
    update = e.equalled(update, shape, "the update")
    e.require("at_most", shape[axis], capacity, "steps of the update")
    at = e.iota(shape, axis)
    circular = node.attr_str("mode", "linear") == "circular"
    if node.has(2):
        start = node.value(e, 2) if circular else node.within(e, 2, 0, capacity - shape[axis], "positions")
        start = e.reshape(e.cast(start, I64), (shape_of(start)[0], *(1,) * (rank - 1)))
        if node.is_state(0, 0) and not circular:
            start = written_from(e, start, (0, capacity - shape[axis]), start, capacity)
        at = e.map(graph.add, at, start)
    if circular:
        at = e.map(graph.floormod, at, e.full((), I64, capacity))
    return e(graph.scatter_along, past, at, update, axis=axis)


def reverse_by_length(e: Emitter, x: Value, lengths: Value, *, time_axis: int, batch_axis: int) -> Value:
    """Reverse the first `lengths[b]` steps of each sample; the rest stays."""
    shape = shape_of(x)
    thin: tuple[Dim, ...] = tuple(d if i in (time_axis, batch_axis) else 1 for i, d in enumerate(shape))
    step = e.iota(thin, time_axis)
    length = e.along(e.cast(lengths, I64), batch_axis, len(shape))
    mirrored = e.map(graph.sub, e.map(graph.sub, length, 1), step)
    at = e.select(e.map(graph.lt, step, length), mirrored, step)
    return e(graph.take_along, x, e.broadcast(at, shape), axis=time_axis)


@onnx_op("ReverseSequence")
def reverse_sequence(e: Emitter, node: Node) -> Value:
    """Reverse each sample's own length."""
    x, axes = node.value(e, 0), (node.attr_int("time_axis", 0), node.attr_int("batch_axis", 1))
    time_axis, batch_axis = node.axes(axes, tensor(x).rank)
    lengths = node.within(e, 1, 0, shape_of(x)[time_axis], "lengths")
    return reverse_by_length(e, x, lengths, time_axis=time_axis, batch_axis=batch_axis)


def _data(node: Node, i: int, what: str) -> Array:
    """Input `i`, known at compile time; data that is not is no reason to compile for its values."""
    if node.known(i) is None:
        raise node.unsupported(f"{what} decides a shape, and is not known at compile time")
    return node.constant(i, what)


@onnx_op("Compress")
def compress(e: Emitter, node: Node, x: Value) -> Value:
    """The slices that a condition known at compile time keeps."""
    kept = np.nonzero(_data(node, 1, "the condition"))[0].astype(np.int64)
    if "axis" not in node.attributes:
        return e(graph.take, e.flatten(x), e.constant(kept), axis=0)
    return e(graph.take, x, e.constant(kept), axis=node.axis(node.attr_int("axis"), tensor(x).rank))


@onnx_op("NonZero")
def nonzero(_: Emitter, node: Node) -> Host:
    """The indices of elements that are not 0, of a tensor known at compile time."""
    array = np.atleast_1d(_data(node, 0, "the tensor"))
    return Host(np.array(np.nonzero(array), dtype=np.int64), I64)


@onnx_op("Unique")
def unique(_: Emitter, node: Node) -> tuple[Host, ...]:
    """Distinct elements or slices of a tensor known at compile time, sorted or in order of appearance."""
    array = _data(node, 0, "the tensor")
    axis = node.axis(node.attr_int("axis"), array.ndim) if "axis" in node.attributes else None
    values, *rest = distinct(array, axis, in_order=not node.attr_int("sorted", 1))
    return (Host(values, node.type(0).elem), *(Host(v, I64) for v in rest))
