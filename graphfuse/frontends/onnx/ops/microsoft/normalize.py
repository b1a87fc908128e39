"""Normalisations of a sum of inputs; halves are summed and computed in f32."""

from __future__ import annotations

from graphfuse.dialects import graph
from graphfuse.frontends.compositions import biased, root_mean_square, silu_of, standardise
from graphfuse.frontends.emit import Emitter, elem_of, shape_of, tensor
from graphfuse.frontends.onnx.node import MICROSOFT, Node, elem_from_onnx, one_of, onnx_op
from graphfuse.frontends.onnx.ops.normalize import stashed
from graphfuse.ir.core import Value
from graphfuse.symbolic import floordiv


def scaled(e: Emitter, x: Value, gamma: Value, beta: Value | None) -> Value:
    """x * gamma [+ beta], in the element of x."""
    y = e.map(graph.mul, x, e.cast(gamma, elem_of(x)))
    return y if beta is None else e.map(graph.add, y, e.cast(beta, elem_of(x)))


def _sum(e: Emitter, node: Node, terms: tuple[int, ...]) -> Value:
    """The sum of inputs, those that are given."""
    total = e.wide(node.value(e, terms[0]))
    for i in terms[1:]:
        if (x := node.optional(e, i)) is not None:
            total = e.map(graph.add, total, e.cast(e.spread(x, shape_of(total)), elem_of(total)))
    return total


def _of_rows(e: Emitter, node: Node, names: dict[int, str]) -> Node:
    """The node: its vectors are as long as the last dim of x, and its skip repeats along the first dim, if at all."""
    shape, skip = node.type(0).shape, node.type(1).shape
    whole = shape if len(shape) < 3 else (*skip[:1], *shape[1:]) if len(skip) == 3 else shape[1:]
    return node.fitted(e, {1: ("the skip", whole), **{i: (name, shape[-1:]) for i, name in names.items()}})


@onnx_op("SkipLayerNormalization", domain=MICROSOFT)
def skip_layer_normalization(e: Emitter, node: Node) -> tuple[Value, ...]:
    """Layer norm of x + skip [+ bias] along the last dim; also mean, inverse deviation and the sum."""
    node = _of_rows(e, node, {2: "gamma", 3: "beta", 4: "the bias"})
    elem = node.type(0).elem
    total = _sum(e, node, (0, 1, 4))
    last = [tensor(total).rank - 1]
    y, mean, inverse = standardise(e, total, last, node.attr_float("epsilon", 1e-12))
    y = scaled(e, y, node.value(e, 2), node.optional(e, 3))
    return e.cast(y, elem), mean, inverse, e.cast(total, elem)


@onnx_op("SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def skip_simplified_layer_normalization(e: Emitter, node: Node) -> tuple[Value | None, ...]:
    """Root mean square norm of x + skip [+ bias] along the last dim; also inverse deviation and the sum."""
    node = _of_rows(e, node, {2: "gamma", 3: "the bias"})
    elem = node.type(0).elem
    total = _sum(e, node, (0, 1, 3))
    y, inverse = root_mean_square(e, total, [tensor(total).rank - 1], node.attr_float("epsilon", 1e-12))
    return e.cast(scaled(e, y, node.value(e, 2), None), elem), None, inverse, e.cast(total, elem)


@onnx_op("SimplifiedLayerNormalization", domain=MICROSOFT)
def simplified_layer_normalization(e: Emitter, node: Node, x: Value) -> tuple[Value, Value]:
    """Root mean square norm over the dims from `axis` on, then scale; also inverse deviation."""
    wide, axes = stashed(e, node, x)
    scale = e.spread(node.value(e, 1), shape_of(wide)[axes[0] :])
    stash = elem_from_onnx(node.attr_int("stash_type", 1), node.loc)
    y, inverse = root_mean_square(e, wide, axes, node.attr_float("epsilon", 1e-5))
    return e.cast(scaled(e, y, scale, None), node.type(1).elem), e.cast(inverse, stash)


@onnx_op("GroupNorm", domain=MICROSOFT)
def group_norm(e: Emitter, node: Node, x: Value) -> Value:
    """Group norm with optional SiLU, of channels that come last (or, where `channels_last` is 0, second)."""
    return _grouped(e, node, e.wide(x))


@onnx_op("SkipGroupNorm", domain=MICROSOFT)
def skip_group_norm(e: Emitter, node: Node) -> tuple[Value, Value]:
    """Group norm of x + skip [+ bias], and the sum."""
    x, skip = e.wide(node.value(e, 0)), e.wide(node.value(e, 3))
    last = bool(node.attr_int("channels_last", 1))
    rank = tensor(x).rank
    if tensor(skip).rank == 2:  # per sample and channel
        batch, channels = shape_of(skip)
        skip = e.reshape(skip, (batch, *(1,) * (rank - 2), channels) if last else (batch, channels, *(1,) * (rank - 2)))
    total = e.map(graph.add, x, e.spread(skip, shape_of(x)))
    if (bias := node.optional(e, 4)) is not None:
        total = biased(e, total, e.cast(bias, elem_of(total)), axis=-1 if last else 1)
    return _grouped(e, node, total), e.cast(total, node.type(0).elem)


def _grouped(e: Emitter, node: Node, x: Value) -> Value:
    shape, groups = shape_of(x), node.attr_int("groups")
    last = bool(node.attr_int("channels_last", 1))
    channels = shape[-1] if last else shape[1]
    if isinstance(channels, int) and channels % groups:
        raise node.error(f"{channels} channels do not divide into {groups} groups")
    activation = node.attr_int("activation")
    if activation not in (0, 1):
        raise node.unsupported(f"activation must be 0 (none) or 1 (SiLU), got {activation}")
    parts = (groups, floordiv(channels, groups))
    split = (*shape[:-1], *parts) if last else (shape[0], *parts, *shape[2:])
    rank = len(split)
    axes = [*range(1, rank - 2), rank - 1] if last else list(range(2, rank))
    y, _, _ = standardise(e, e.reshape(x, split), axes, node.attr_float("epsilon", 1e-5))
    gamma, beta = (e.equalled(node.value(e, i), (channels,), what) for i, what in ((1, "gamma"), (2, "beta")))
    if not last:
        gamma, beta = (e.reshape(v, (shape_of(v)[0], *(1,) * (len(shape) - 2))) for v in (gamma, beta))
    y = scaled(e, e.reshape(y, shape), gamma, beta)
    if activation == 1:
        y = silu_of(e, y)
    return e.cast(y, node.type(0).elem)


@onnx_op("GatedRMSNorm", domain=MICROSOFT)
def gated_rms_norm(e: Emitter, node: Node) -> Value:
    """Root mean square norm of each run of as many features as the scale has, times an activation of the gate."""
    node = node.fitted(e, {2: ("the gate", node.type(0).shape)})
    x, gate, weight = e.wide(node.value(e, 0)), e.wide(node.value(e, 2)), node.value(e, 1)
    *lead, width = shape_of(x)
    size = shape_of(weight)[0]
    runs = node.quotient(width, size, f"a norm of {size} features does not divide {width}")
    activation = node.attr_str("activation", "silu")
    one_of("activation", activation, ("silu", "swish", "sigmoid"), node.unsupported)
    rows = e.reshape(x, (*lead, runs, size))
    y, _ = root_mean_square(e, rows, [len(lead) + 1], node.attr_float("epsilon", 1e-5))
    y = e.reshape(scaled(e, y, weight, None), shape_of(x))
    opened = e.map(graph.sigmoid, gate) if activation == "sigmoid" else silu_of(e, gate)
    return e.cast(e.map(graph.mul, y, opened), node.type(0).elem)
