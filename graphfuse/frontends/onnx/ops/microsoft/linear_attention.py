"""Attention without a softmax, as a recurrence over a state per head, and the convolution and gates before it."""

from __future__ import annotations

import math

from graphfuse.dialects import graph
from graphfuse.frontends.compositions import biased, silu_of
from graphfuse.frontends.emit import Emitter, elem_of, shape_of
from graphfuse.frontends.onnx.node import MICROSOFT, Node, one_of, onnx_op
from graphfuse.frontends.onnx.ops.activation import softplus_of
from graphfuse.frontends.onnx.ops.control import loop_of
from graphfuse.frontends.onnx.ops.microsoft.attention import refuse
from graphfuse.ir.core import Value
from graphfuse.symbolic import Dim, product

RULES = ("linear", "gated", "delta", "gated_delta")


@onnx_op("LinearAttention", domain=MICROSOFT)
def linear_attention(e: Emitter, node: Node) -> tuple[Value, Value]:
    """Queries of a state S, step by step: S = exp(g) S + b k (v - exp(g) S' k)', o = scale * S' q; and the last S.

    A rule without a gate has no g, one without delta takes v for the last factor. The state is of f32 or wider.
    """
    rule, elem = node.attr_str("update_rule", "gated_delta"), node.type(0).elem
    if rule not in RULES:
        raise node.unsupported(f"update_rule must be one of {', '.join(RULES)}, got {rule}")
    refuse(node, ("state_window",), {})
    count, groups = node.attr_int("q_num_heads"), node.attr_int("kv_num_heads")
    tokens = node.type(0).shape[:2]
    given = {i: what for i, what in enumerate(("keys", "values", "", "decay", "rate"), 1) if what and node.has(i)}
    node = node.fitted(e, {i: (f"the {what}", (*tokens, *node.type(i).shape[2:])) for i, what in given.items()})
    q, k, v = (_by_step(e, node, i, n) for i, n in enumerate((count, groups, groups)))
    steps, batch, _, width = shape_of(q)
    if not isinstance(width, int):
        raise node.unknown_dim(f"the head size must be static, got {width}")
    q, per_group = _grouped(e, node, q, groups)
    gate = e.map(graph.exp, _by_step(e, node, 4, groups)) if rule.startswith("gated") else None
    beta = _rate(e, node, groups) if rule.endswith("delta") else None
    shape = (batch, groups, width, shape_of(v)[3])
    if (past := node.optional(e, 3)) is not None:
        start = e.cast(e.equalled(past, shape, "the state"), elem_of(q))
    else:
        start = e.full(shape, elem_of(q), 0.0)

    def now(x: Value, at: Dim) -> Value:
        return e.squeeze(e.slice(x, 0, at, 1), 0)

    def body(at: Dim, carried: tuple[Value, ...]) -> list[Value]:
        (state,) = carried
        key, new = now(k, at), now(v, at)
        if gate is not None:
            state = e.map(graph.mul, state, e.unsqueeze(now(gate, at), -1))
        if beta is not None:
            found = e.contract(state, key, "bhkv,bhk->bhv")
            new = e.map(graph.mul, e.map(graph.sub, new, found), now(beta, at))
        state = e.map(graph.add, state, e.map(graph.mul, e.unsqueeze(key, -1), e.unsqueeze(new, 2)))
        return [state, e.contract(now(q, at), state, "bhrk,bhkv->bhrv")]

    last, out = loop_of(e, steps, [start], body)
    out = e.map(graph.mul, out, node.attr_float("scale", 0.0) or 1 / math.sqrt(width))
    out = e.reshape(out, (steps, batch, groups * per_group * shape_of(v)[3]))
    state_elem = node.type(3).elem if node.has(3) else elem
    return e.cast(e.permute(out, (1, 0, 2)), elem), e.cast(last, state_elem)


def _by_step(e: Emitter, node: Node, i: int, heads: int) -> Value:
    """Input `i` [B, T, H * D] as [T, B, H, D], of halves in f32."""
    x = e.wide(node.value(e, i))
    batch, steps, width = shape_of(x)
    size = node.quotient(width, heads, f"{heads} heads do not divide {width} features of input {i}")
    return e.permute(e.reshape(x, (batch, steps, heads, size)), (1, 0, 2, 3))


def _grouped(e: Emitter, node: Node, q: Value, groups: int) -> tuple[Value, int]:
    """Queries [T, B, H, D] as [T, B, groups, queries of a group, D]; a query that groups share is repeated."""
    steps, batch, count, width = shape_of(q)
    assert isinstance(count, int), "an attribute"
    if count % groups == 0:
        return e.reshape(q, (steps, batch, groups, count // groups, width)), count // groups
    if groups % count:
        raise node.error(f"{count} query heads and {groups} key heads do not divide")
    q = e.broadcast(e.unsqueeze(q, 3), (steps, batch, count, groups // count, width))
    return e.reshape(q, (steps, batch, groups, 1, width)), 1


def _rate(e: Emitter, node: Node, groups: int) -> Value:
    """The update rate [B, T, H or 1] as [T, B, H or 1, 1]."""
    return _by_step(e, node, 5, 1 if node.type(5).shape[2] == 1 else groups)


@onnx_op("LinearAttentionGate", domain=MICROSOFT)
def linear_attention_gate(e: Emitter, node: Node) -> tuple[Value, Value | None]:
    """The decay scale * softplus(a + bias), in f32 until it is done, and sigmoid(b)."""
    shape = node.type(0).shape
    node = node.fitted(e, {1: ("the bias", shape[-1:]), 2: ("the scale", shape[-1:]), 3: ("the rates", shape)})
    a, elem = e.wide(node.value(e, 0)), node.type(0).elem
    bias, scale = (e.cast(node.value(e, i), elem_of(a)) for i in (1, 2))
    decay = e.map(graph.mul, softplus_of(e, e.map(graph.add, a, bias)), scale)
    if not node.has(3):
        return e.cast(decay, elem), None
    return e.cast(decay, elem), e.cast(e.map(graph.sigmoid, e.wide(node.value(e, 3))), elem)


@onnx_op("CausalConvWithState")
@onnx_op("CausalConvWithState", domain=MICROSOFT)
def causal_conv(
    e: Emitter, node: Node, x: Value, w: Value, bias: Value | None = None, past: Value | None = None
) -> tuple[Value, Value]:
    """A depthwise convolution of the steps so far, and the steps that the next call needs."""
    refuse(node, ("state_window",), {})
    if (dims := node.attr_int("ndim", 1)) != 1:
        raise node.unsupported(f"ndim must be 1, got {dims}")
    activation, last = node.attr_str("activation", "none"), bool(node.attr_int("channels_last", 0))
    one_of("activation", activation, ("none", "silu", "swish"), node.unsupported)
    channels, _, size = shape_of(w)
    if not isinstance(size, int) or not isinstance(channels, int):
        raise node.unknown_dim(f"the weight must have a static shape, got {w.type}")
    dilation = node.attr_int("dilation", 1)
    elem, like, kept = elem_of(x), shape_of(x), (size - 1) * dilation

    def first(v: Value) -> Value:
        """[B, steps, C..] as [B, C, steps]."""
        batch, steps, *rest = shape_of(v)
        return e.permute(e.reshape(v, (batch, steps, product(tuple(rest)))), (0, 2, 1)) if last else v

    def restored(v: Value) -> Value:
        return e.reshape(e.permute(v, (0, 2, 1)), (like[0], shape_of(v)[2], *like[2:])) if last else v

    x = first(x)
    e.require("equal", shape_of(x)[1], channels, "channels")
    e.require("equal", shape_of(w)[1], 1, "channels of a weight")
    if past is not None:
        past = e.equalled(first(past), (shape_of(x)[0], channels, kept), "the state")
        joined = e.concat([e.cast(past, elem), x], 2)
    else:
        joined = e.pad(x, 2, kept, 0)
    one = {"strides": (1,), "input_dilation": (1,), "low": (0,), "high": (0,)}
    y = biased(e, e(graph.conv, joined, w, dilation=(dilation,), groups=channels, **one), bias, axis=1)
    if activation != "none":
        y = silu_of(e, y)
    present = e.slice(joined, 2, shape_of(joined)[2] - kept, kept)
    return restored(y), restored(present)
