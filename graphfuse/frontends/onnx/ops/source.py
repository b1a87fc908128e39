"""Tensors out of nothing or out of shapes: constants, ranges, shapes, masks, windows of signal processing."""

from __future__ import annotations

import math

import numpy as np
from onnx import TensorProto

from graphfuse.dialects import graph
from graphfuse.frontends.emit import Emitter, elem_of, shape_of, tensor
from graphfuse.frontends.host_values import TRACKED_ELEMENTS, Array, Host, Ratio, Tracked, greater, host, to_ratio
from graphfuse.frontends.onnx.load import tensor_array
from graphfuse.frontends.onnx.node import Node, elem_from_onnx, onnx_op, scalar_constant
from graphfuse.frontends.onnx.ops.movement import FARTHEST
from graphfuse.ir.core import Value
from graphfuse.ir.types import BOOL, F32, I64, Scalar
from graphfuse.symbolic import Dim, Expr, ceildiv, product


def _tensor_attr(node: Node, name: str) -> Array:
    return tensor_array(node.attributes[name], node.loc.file, None)


@onnx_op("Constant")
def constant(_: Emitter, node: Node) -> Host:
    """A tensor from one of the value attributes."""
    a = node.attributes
    if "value" in a:
        return Host(_tensor_attr(node, "value"), elem_from_onnx(a["value"].data_type, node.loc))
    for name, dtype, elem in (("value_float", np.float32, F32), ("value_int", np.int64, I64)):
        if name in a:
            return Host(np.array(a[name], dtype=dtype), elem)
        if f"{name}s" in a:
            return Host(np.array(list(a[f"{name}s"]), dtype=dtype), elem)
    raise node.unsupported(f"attribute {', '.join(sorted(a)) or 'value'} is not supported")


@onnx_op("ConstantOfShape")
def constant_of_shape(e: Emitter, node: Node) -> Tracked:
    """A tensor of one number."""
    shape = node.shape(0, "the shape")
    value: bool | float = 0.0
    elem = F32
    if "value" in node.attributes:
        elem = elem_from_onnx(node.attributes["value"].data_type, node.loc)
        value = _tensor_attr(node, "value").reshape(-1)[0].item()
    count = product(shape)
    if isinstance(count, int) and count <= TRACKED_ELEMENTS and not elem.is_float:
        return host(np.full([d for d in shape if isinstance(d, int)], value, dtype=object), elem)
    return e.full(shape, elem, value)


@onnx_op("Shape")
def shape(_: Emitter, node: Node) -> Host:
    """The dims from `start` to `end`."""
    dims = list(node.type(0).shape)
    start, end = node.attr_int("start", 0), node.attributes.get("end")
    return host(np.array(dims[start : None if end is None else int(end)], dtype=object), I64)


@onnx_op("Size")
def size(_: Emitter, node: Node) -> Host:
    """How many elements there are."""
    return host(np.array(node.type(0).elements, dtype=object), I64)


@onnx_op("Range")
def range_(e: Emitter, node: Node) -> Value:
    """start, start + delta, ... before limit: iota * delta + start."""
    elem = node.type(0).elem
    start, limit, delta = (_range_bound(node, i, what) for i, what in enumerate(("start", "limit", "delta")))
    if isinstance(delta, Expr) or delta == 0:
        raise node.unsupported(f"delta must be a number other than 0, got {delta}")
    count: Dim
    if isinstance(start, float) or isinstance(limit, float) or isinstance(delta, float):
        if isinstance(start, Expr) or isinstance(limit, Expr):
            raise node.unsupported("a symbolic range must count by integers")
        steps = (float(limit) - float(start)) / delta
        if not math.isfinite(steps):
            raise node.too_large(f"from {start:g} to {limit:g} by {delta:g} is too large a range")
        count = max(0, math.ceil(steps))
    else:
        steps = ceildiv(limit - start, delta) if delta > 0 else ceildiv(start - limit, -delta)
        count = greater(steps, 0, e.ranges)
    out = e.iota((count,), 0, elem)
    if delta != 1:
        out = e.map(graph.mul, out, delta)
    return out if start == 0 else e.map(graph.add, out, e.full((count,), elem, start))


def _range_bound(node: Node, i: int, what: str) -> Dim | float:
    """A start, limit or delta: a dim if it is an integer, else a number."""
    (bound,) = node.numbers(i, what)
    if not isinstance(bound, (Expr, Ratio)):
        number = float(bound) if node.type(i).elem.is_float else int(bound)
        if not math.isfinite(number):
            raise node.error(f"{what}: expected a finite number, found {number}")
        return int(number) if number == math.floor(number) else number
    exact = to_ratio(bound)
    return exact.num if exact.den == 1 or isinstance(exact.num, Expr) else exact.num / exact.den


@onnx_op("EyeLike")
def eye_like(e: Emitter, node: Node) -> Value:
    """1 on the k-th diagonal, 0 elsewhere."""
    t = node.type(0)
    if t.rank != 2:
        raise node.error(f"the input must be a matrix, got {t}")
    elem = elem_from_onnx(node.attr_int("dtype"), node.loc) if "dtype" in node.attributes else t.elem
    row = e.map(graph.add, e.iota(t.shape, 0), node.attr_int("k", 0))
    return e.cast(e.map(graph.eq, row, e.iota(t.shape, 1)), elem)


@onnx_op("Trilu")
def trilu(e: Emitter, node: Node, x: Value) -> Value:
    """Keep the upper or lower triangle, from the k-th diagonal."""
    if tensor(x).rank < 2:
        raise node.error(f"the input must have at least two dims, got {x.type}")
    (k,) = node.dims(1, "k") if node.has(1) else (0,)
    k = min(max(k, -FARTHEST), FARTHEST) if isinstance(k, int) else k
    matrix = shape_of(x)[-2:]
    row = e.iota(matrix, 0)
    row = e.map(graph.add, row, e.full((), I64, k)) if k != 0 else row
    keep = e.map(graph.le if node.attr_int("upper", 1) else graph.ge, row, e.iota(matrix, 1))
    return e.select(keep, x, False if elem_of(x) == BOOL else 0)


@onnx_op("OneHot")
def one_hot(e: Emitter, node: Node) -> Value:
    """A new axis with the on-value at the index and the off-value elsewhere; out-of-range indices are all off."""
    node = node.fitted(e, {2: ("off and on", (2,))})
    indices, values = node.value(e, 0), node.value(e, 2)
    depth_array = node.known(1)
    if depth_array is None or depth_array.size != 1:
        raise node.unknown(1, "the depth must be known at compile time")
    depth = depth_array.reshape(-1)[0]
    depth = depth if isinstance(depth, Expr) else int(depth)
    if isinstance(depth, int) and depth < 0:
        raise node.error(f"the depth: expected at least 0, found {depth}")
    rank = tensor(indices).rank + 1
    axis = node.axis(node.attr_int("axis", -1), rank)
    at = e.unsqueeze(e.cast(indices, I64), axis)
    wrapped = e.select(e.map(graph.lt, at, 0), e.map(graph.add, at, e.full((), I64, depth)), at)
    where = e.iota(tuple(depth if i == axis else 1 for i in range(rank)), axis)
    off, on = (e.reshape(e.slice(values, 0, i, 1), ()) for i in (0, 1))
    return e.select(e.map(graph.eq, wrapped, where), on, off)


_WINDOWS = {"HannWindow": (0.5, -0.5), "HammingWindow": (25 / 46, -21 / 46), "BlackmanWindow": (0.42, -0.5, 0.08)}
"""What cosines of 0, 1 and 2 times the angle are multiplied by."""


@onnx_op(*_WINDOWS)
def window(_: Emitter, node: Node) -> Host:
    """A sum of cosines."""
    count = int(scalar_constant(node, 0, "the size"))
    node.check_table("the window", count)
    length = count if node.attr_int("periodic", 1) else count - 1
    at = np.arange(count, dtype=np.float64) * (2 * np.pi / length)
    total = sum(c * np.cos(k * at) for k, c in enumerate(_WINDOWS[node.op]))
    elem: Scalar = elem_from_onnx(node.attr_int("output_datatype", TensorProto.FLOAT), node.loc)
    return host(np.asarray(total), elem)


@onnx_op("OptionalHasElement")
def optional_has_element(_: Emitter, node: Node) -> Host:
    """Whether the input, a tensor, is there."""
    return Host(np.array(node.has(0)), BOOL)


@onnx_op("OptionalGetElement")
def optional_get_element(_: Emitter, node: Node) -> Tracked:
    """The input, a tensor."""
    return node.input(0)
