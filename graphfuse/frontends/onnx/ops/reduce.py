"""Reductions along axes: sums, norms, extremes, arg-extremes, running sums, top-k."""

from __future__ import annotations

import math
from collections.abc import Callable

from graphfuse.dialects import graph
from graphfuse.frontends.emit import Emitter, elem_of, shape_of, tensor
from graphfuse.frontends.onnx.node import Node, onnx_op
from graphfuse.ir.core import OpDef, Value
from graphfuse.ir.types import BOOL, F64, U8


def _axes(node: Node, rank: int) -> tuple[int, ...]:
    """The axes of a Reduce operator (input or attribute)."""
    given = node.ints(1, "the axes") if node.has(1) else node.attr_ints("axes", ())
    if given:
        return node.axes(given, rank)
    return () if node.attr_int("noop_with_empty_axes", 0) else tuple(range(rank))


_REDUCTIONS = ("Sum", "Prod", "Max", "Min", "Mean", "SumSquare", "L1", "L2", "LogSum", "LogSumExp")


@onnx_op(*(f"Reduce{name}" for name in _REDUCTIONS))
def reduce(e: Emitter, node: Node, x: Value) -> Value:
    """Combine along axes; halves accumulate in f32."""
    elem, rank = elem_of(x), tensor(x).rank
    axes = _axes(node, rank)
    keep = bool(node.attr_int("keepdims", 1))
    if elem == BOOL:
        x = e.cast(x, U8)
    out = _reduced(e, node.op, e.wide(x), axes)
    if not keep:
        out = e.squeeze(out, *axes)
    return e.cast(out, elem)


def _reduced(e: Emitter, op: str, x: Value, axes: tuple[int, ...]) -> Value:
    match op:
        case "ReduceSum" | "ReduceProd" | "ReduceMax" | "ReduceMin":
            return e.reduce(x, op.removeprefix("Reduce").lower(), axes)
        case "ReduceMean":
            return e.mean(x, axes) if axes else x
        case "ReduceSumSquare":
            return e.reduce(e.map(graph.mul, x, x), "sum", axes)
        case "ReduceL1":
            return e.reduce(e.map(graph.abs_, x), "sum", axes)
        case "ReduceL2":
            total = e.reduce(e.map(graph.mul, x, x), "sum", axes)
            return _in_floats(e, graph.sqrt, total)
        case "ReduceLogSum":
            return _in_floats(e, graph.log, e.reduce(x, "sum", axes))
        case _:
            if not axes or not elem_of(x).is_float:
                return _in_floats(e, graph.log, e.reduce(_in_floats(e, graph.exp, x), "sum", axes))
            return _log_sum_exp(e, x, axes)


def _log_sum_exp(e: Emitter, x: Value, axes: tuple[int, ...]) -> Value:
    """max + log(sum(exp(x - max))), where an infinite max counts as 0 so that it does not turn into NaN."""
    peak = e.reduce(x, "max", axes)
    infinite = e.map(graph.eq, e.map(graph.abs_, peak), math.inf)
    shift = e.select(infinite, 0.0, peak)
    powers = e.map(graph.exp, e.map(graph.sub, x, shift))
    return e.map(graph.add, e.map(graph.log, e.reduce(powers, "sum", axes)), shift)


def _in_floats(e: Emitter, kind: OpDef, x: Value) -> Value:
    """A function of floats, of integers by way of f64."""
    elem = elem_of(x)
    return e.map(kind, x) if elem.is_float else e.cast(e.map(kind, e.cast(x, F64)), elem)


@onnx_op("ArgMax", "ArgMin")
def arg_reduce(e: Emitter, node: Node, x: Value) -> Value:
    """The index of an extreme along an axis."""
    axis = node.axis(node.attr_int("axis", 0), tensor(x).rank)
    kind = "max" if node.op == "ArgMax" else "min"
    keep, last = bool(node.attr_int("keepdims", 1)), bool(node.attr_int("select_last_index", 0))
    return e(graph.arg_reduce, x, axis=axis, kind=kind, keepdims=keep, last=last)


@onnx_op("CumSum", "CumProd")
def cumulate(e: Emitter, node: Node, x: Value) -> Value:
    """Running sums or products along an axis."""
    (axis,) = node.ints(1, "the axis")
    axis, kind = node.axis(axis, tensor(x).rank), "sum" if node.op == "CumSum" else "prod"
    exclusive, reverse = (bool(node.attr_int(name, 0)) for name in ("exclusive", "reverse"))
    out = e(graph.cumulate, e.wide(x), axis=axis, kind=kind, exclusive=exclusive, reverse=reverse)
    return e.cast(out, elem_of(x))


@onnx_op("TopK")
def topk(e: Emitter, node: Node, x: Value) -> tuple[Value, Value]:
    """The k extreme elements along an axis and their indices, sorted whether or not it is asked for."""
    axis = node.axis(node.attr_int("axis", -1), tensor(x).rank)
    (k,) = node.dims(1, "k") if node.has(1) else (node.attr_int("k"),)
    size = shape_of(x)[axis]
    if isinstance(k, int) and isinstance(size, int) and not 0 <= k <= size:
        raise node.error(f"k must be in 0..{size}, got {k}")
    op = e.op(graph.topk, x, k=k, axis=axis, largest=bool(node.attr_int("largest", 1)))
    return op.results[0], op.results[1]


@onnx_op("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(e: Emitter, node: Node, x: Value) -> Value:
    """Combine over all spatial dims, keeping them as 1."""
    axes = tuple(range(2, tensor(x).rank))
    wide = e.wide(x)
    if node.op == "GlobalMaxPool":
        return e.reduce(x, "max", axes)
    if node.op == "GlobalAveragePool":
        return e.cast(e.mean(wide, axes), elem_of(x))
    return e.cast(lp_norm(e, wide, node.attr_int("p", 2), lambda v: e.reduce(v, "sum", axes)), elem_of(x))


def lp_norm(e: Emitter, x: Value, p: int, total: Callable[[Value], Value]) -> Value:
    """The p-th root of the sum of |x| to the power p; `total` is what sums."""
    match p:
        case 1:
            return total(e.map(graph.abs_, x))
        case 2:
            return e.map(graph.sqrt, total(e.map(graph.mul, x, x)))
        case _:
            return e.map(graph.pow_, total(e.map(graph.pow_, e.map(graph.abs_, x), float(p))), 1 / p)
