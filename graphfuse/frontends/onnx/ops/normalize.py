"""Normalisations, as compositions of reductions and arithmetic; halves are computed in f32."""

from __future__ import annotations

from graphfuse.dialects import graph
from graphfuse.frontends.compositions import moments, standardise
from graphfuse.frontends.emit import Emitter, Shape, elem_of, shape_of, tensor
from graphfuse.frontends.onnx.node import Node, elem_from_onnx, onnx_op
from graphfuse.frontends.onnx.ops.reduce import lp_norm
from graphfuse.ir.core import Value
from graphfuse.ir.types import F64
from graphfuse.symbolic import floordiv


def _per_channel(e: Emitter, v: Value, shape: Shape) -> Value:
    """A vector over dim 1 of a tensor of this shape."""
    e.require("equal", tensor(v).elements, shape[1], "number of channels")
    return e.reshape(v, (shape_of(v)[0], *(1,) * (len(shape) - 2)))


def _affine(e: Emitter, node: Node, y: Value, shape: Shape) -> Value:
    """y times input 1 plus input 2, which are vectors over dim 1 of `shape`, in the element of y."""
    y = e.map(graph.mul, y, e.cast(_per_channel(e, node.value(e, 1), shape), elem_of(y)))
    return e.map(graph.add, y, e.cast(_per_channel(e, node.value(e, 2), shape), elem_of(y)))


@onnx_op("BatchNormalization")
def batch_normalization(e: Emitter, node: Node, x: Value) -> tuple[Value, ...]:
    """Inference: y = x * s + t with s = scale / sqrt(var + epsilon), t = bias - mean * s."""
    scale, bias, mean, variance = (node.value(e, i) for i in range(1, 5))
    shape = shape_of(x) if tensor(x).rank > 1 else (*shape_of(x), 1)
    for v in (scale, bias, mean, variance):
        e.require("equal", tensor(v).elements, shape[1], "number of channels")
    if node.attr_int("training_mode", 0):
        return _batch_training(e, node, x, mean, variance)
    variance = e.wide(variance)
    wide = elem_of(variance)
    variance = e.map(graph.add, variance, node.attr_float("epsilon", 1e-5))
    s = e.map(graph.div, e.cast(scale, wide), e.map(graph.sqrt, variance))
    t = e.map(graph.sub, e.cast(bias, wide), e.map(graph.mul, e.cast(mean, wide), s))
    y = e.map(graph.mul, e.cast(x, wide), _per_channel(e, s, shape))
    return (e.cast(e.map(graph.add, y, _per_channel(e, t, shape)), elem_of(x)),)


def _batch_training(e: Emitter, node: Node, x: Value, mean: Value, variance: Value) -> tuple[Value, ...]:
    """Normalise by the batch's own statistics; also the updated running ones."""
    axes = [i for i in range(tensor(x).rank) if i != 1]
    now, centred, spread = moments(e, e.wide(x), axes)
    deviation = e.map(graph.sqrt, e.map(graph.add, spread, node.attr_float("epsilon", 1e-5)))
    y = _affine(e, node, e.map(graph.div, centred, deviation), shape_of(x))
    momentum = node.attr_float("momentum", 0.9)

    def running(old: Value, new: Value) -> Value:
        new = e.cast(e.reshape(new, shape_of(old)), elem_of(old))
        return e.map(graph.add, e.map(graph.mul, old, momentum), e.map(graph.mul, new, 1 - momentum))

    return e.cast(y, elem_of(x)), running(mean, now), running(variance, spread)


def stashed(e: Emitter, node: Node, x: Value) -> tuple[Value, list[int]]:
    """x in the element that `stash_type` says, f64 as it is; and the axes from `axis` on."""
    axis = node.axis(node.attr_int("axis", -1), tensor(x).rank)
    stash = elem_from_onnx(node.attr_int("stash_type", 1), node.loc)
    return e.cast(x, F64 if elem_of(x) == F64 else stash), list(range(axis, tensor(x).rank))


@onnx_op("LayerNormalization")
def layer_normalization(e: Emitter, node: Node, x: Value) -> tuple[Value, Value, Value]:
    """Standardise over the dims from `axis` on, then scale and shift; also mean and inverse deviation."""
    y, mean, inverse = standardise(e, *stashed(e, node, x), node.attr_float("epsilon", 1e-5))
    y = e.cast(y, elem_of(x))
    y = e.map(graph.mul, y, e.spread(node.value(e, 1), shape_of(y)))
    if (bias := node.optional(e, 2)) is not None:
        y = e.map(graph.add, y, e.spread(bias, shape_of(y)))
    return y, mean, inverse


@onnx_op("RMSNormalization")
def rms_normalization(e: Emitter, node: Node, x: Value) -> Value:
    """x / sqrt(mean(x * x) + epsilon) over the dims from `axis` on, then scale."""
    wide, axes = stashed(e, node, x)
    square = e.mean(e.map(graph.mul, wide, wide), axes)
    deviation = e.map(graph.sqrt, e.map(graph.add, square, node.attr_float("epsilon", 1e-5)))
    y = e.cast(e.map(graph.div, wide, deviation), node.type(1).elem)
    return e.map(graph.mul, y, e.spread(node.value(e, 1), shape_of(y)))


@onnx_op("InstanceNormalization")
def instance_normalization(e: Emitter, node: Node, x: Value) -> Value:
    """Standardise each channel of each sample, then scale and shift by channel."""
    y, _, _ = standardise(e, e.wide(x), range(2, tensor(x).rank), node.attr_float("epsilon", 1e-5))
    return e.cast(_affine(e, node, y, shape_of(x)), elem_of(x))


@onnx_op("GroupNormalization")
def group_normalization(e: Emitter, node: Node, x: Value) -> Value:
    """Standardise each group of channels of each sample, then scale and shift by channel (before opset 21: group)."""
    shape, groups = shape_of(x), node.attr_int("num_groups")
    channels = shape[1]
    if isinstance(channels, int) and channels % groups:
        raise node.error(f"{channels} channels do not divide into {groups} groups")
    grouped = e.reshape(e.wide(x), (shape[0], groups, floordiv(channels, groups), *shape[2:]))
    y, _, _ = standardise(e, grouped, range(2, tensor(grouped).rank), node.attr_float("epsilon", 1e-5))
    by_group = node.type(1).shape == (groups,) and channels != groups
    y = y if by_group else e.reshape(y, shape)
    return e.cast(e.reshape(_affine(e, node, y, shape_of(y)), shape), elem_of(x))


@onnx_op("LpNormalization")
def lp_normalization(e: Emitter, node: Node, x: Value) -> Value:
    """x divided by its Lp norm along an axis; 0 where the norm is 0."""
    axis, p = node.axis(node.attr_int("axis", -1), tensor(x).rank), node.attr_int("p", 2)
    wide = e.wide(x)
    norm = lp_norm(e, wide, p, lambda v: e.reduce(v, "sum", [axis]))
    return e.cast(e.select(e.map(graph.eq, norm, 0.0), 0.0, e.map(graph.div, wide, norm)), elem_of(x))


@onnx_op("MeanVarianceNormalization")
def mean_variance_normalization(e: Emitter, node: Node, x: Value) -> Value:
    """(x - mean) / (sqrt(E[x^2] - E[x]^2) + 1e-9)."""
    axes = list(node.axes(node.attr_ints("axes", (0, 2, 3)), tensor(x).rank))
    _, centred, variance = moments(e, e.wide(x), axes)
    return e.cast(e.map(graph.div, centred, e.map(graph.add, e.map(graph.sqrt, variance), 1e-9)), elem_of(x))
