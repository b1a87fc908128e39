"""Attention of grouped queries over a cache of keys and values, as language models are exported with.

The cache's used length differs from sequence to sequence: `seqlens_k` says it, at run time. Present keys are the
past ones up to there, then the new ones, then zeros. Where past and present are one memory, the model's state, the new
ones are written there and nothing else is, as ONNX Runtime does; `total_sequence_length` elements of it are read.
"""

from __future__ import annotations

import math

from graphfuse.dialects import graph
from graphfuse.frontends.compositions import root_mean_square, softmax_of
from graphfuse.frontends.emit import Emitter, elem_of, shape_of, tensor
from graphfuse.frontends.host_values import greater
from graphfuse.frontends.onnx.node import MICROSOFT, Node, onnx_op
from graphfuse.frontends.onnx.ops.attention import Heads, heads_of, rotate, without_heads
from graphfuse.frontends.onnx.ops.index import written_from
from graphfuse.frontends.onnx.ops.microsoft.attention import refuse
from graphfuse.frontends.onnx.ops.microsoft.normalize import scaled
from graphfuse.ir.core import Value
from graphfuse.ir.types import I64
from graphfuse.symbolic import floordiv


@onnx_op("GroupQueryAttention", domain=MICROSOFT)
def group_query_attention(e: Emitter, node: Node) -> tuple[Value | None, ...]:
    """Attention of new tokens to all tokens so far; also the keys and values of these, and the scores."""
    _check(node)
    q, k, v = _separate(e, node)
    if node.has(3):
        batch, groups, _, size = shape_of(k)
        past = (batch, groups, node.type(3).shape[2], size)
        node = node.fitted(e, {3: ("the past keys", past), 4: ("the past values", past)})
    heads = heads_of(node, shape_of(q)[1], shape_of(k)[1])
    batch, _, steps, size = shape_of(q)
    if not isinstance(size, int):
        raise node.unknown_dim(f"the head size must be static, got {size}")
    lengths = e.reshape(e.cast(node.value(e, 5), I64), (batch, 1, 1, 1))
    lengths = e.map(graph.add, lengths, 1)
    if _has_past(node):
        start = e.map(graph.max_, e.map(graph.sub, lengths, e.full((), I64, steps)), 0)
    else:
        start = e.full((batch, 1, 1, 1), I64, 0)
    if node.has(14) != node.has(15):
        raise node.error("q_norm_weight and k_norm_weight must be given together")
    if node.has(14):
        q, k = _normed(e, node, q, 14), _normed(e, node, k, 15)
    if node.attr_int("do_rotary", 0):
        q, k = _rotated(e, node, q, k, start)
    k, v = (_present(e, node, x, start, lengths, i) for x, i in ((k, 3), (v, 4)))
    present = k, v
    if _is_state(node):
        k, v = (_used(e, node, x) for x in present)
    scale = node.attr_float("scale", 0.0) or 1 / math.sqrt(size)
    scores = e.map(graph.mul, heads.scores(e, q, k), scale)
    if (cap := node.attr_float("softcap", 0.0)) != 0.0:
        scores = e.map(graph.mul, e.map(graph.tanh, e.map(graph.div, scores, cap)), cap)
    node.within(e, 5, 0, shape_of(k)[2] - 1, "lengths less 1")
    scores = _masked(e, node, scores, heads, start, lengths)
    weights = _softmax(e, node, scores, heads)
    y = without_heads(e, heads.mixed(e, weights, v))
    if not node.wants(3) or not node.attr_int("qk_output", 0):
        return y, *present, None
    if node.attr_int("qk_output") == 1:  # scores, and 0 where there is nothing to see
        weights = e.select(e.map(graph.eq, scores, -math.inf), 0.0, scores)
    return y, *present, e.cast(heads.merge(e, weights), elem_of(q))


def _check(node: Node) -> None:
    refuse(node, ("sliding_window_cache",), {12: "k_scale", 13: "v_scale"})
    for name in ("k_quant_type", "v_quant_type"):
        if (kind := node.attr_str(name, "NONE")) != "NONE":
            raise node.unsupported(f"{name} must be NONE, got {kind}")
    if node.has(3) != node.has(4):
        raise node.error("past_key and past_value must be given together")
    if node.has(3) and node.type(3).elem != node.type(0).elem:
        raise node.unsupported(f"a cache must have the query's element, got {node.type(3)}")
    for i, name in ((5, "seqlens_k"), (6, "total_sequence_length")):
        if not node.type(i).elem.is_integer:
            raise node.error(f"{name} must be of integers, got {node.type(i)}")
    if node.attr_int("qk_output", 0) not in (0, 1, 2):
        raise node.error(f"qk_output must be 0, 1 or 2, got {node.attr_int('qk_output')}")


def _has_past(node: Node) -> bool:
    return node.has(3) and node.type(3).shape[2] != 0


def _is_state(node: Node) -> bool:
    states = [node.has(i) and node.is_state(i, output) for i, output in ((3, 1), (4, 2))]
    if states[0] != states[1]:
        raise node.error("of past_key and past_value one alone is a state")
    return states[0]


def _used(e: Emitter, node: Node, cache: Value) -> Value:
    """The steps of a cache that are there at all."""
    (total,) = node.dims(6, "total_sequence_length")
    return e.slice(cache, 2, 0, total)


def _separate(e: Emitter, node: Node) -> tuple[Value, Value, Value]:
    """Queries [B, H, S, D], keys and values [B, groups, S, D], of three inputs or of one."""
    query, count, groups = node.value(e, 0), node.attr_int("num_heads"), node.attr_int("kv_num_heads")
    batch, steps, width = shape_of(query)
    packed = not node.has(1)
    otherwise = f"{count} query and {groups} key heads do not divide {width} features"
    size = node.quotient(width, count + 2 * groups if packed else count, otherwise)
    if packed:
        parts = e.split(query, (count * size, groups * size, groups * size), 2)
    else:
        shape = (batch, steps, groups * size)
        node = node.fitted(e, {1: ("the keys", shape), 2: ("the values", shape)})
        parts = (query, node.value(e, 1), node.value(e, 2))

    def split(x: Value, heads: int) -> Value:
        return e.permute(e.reshape(x, (batch, steps, heads, size)), (0, 2, 1, 3))

    return split(parts[0], count), split(parts[1], groups), split(parts[2], groups)


def _normed(e: Emitter, node: Node, x: Value, i: int) -> Value:
    y, _ = root_mean_square(e, e.wide(x), [3], node.attr_float("qk_norm_epsilon", 1e-6))
    return e.cast(scaled(e, y, node.value(e, i), None), elem_of(x))


def _rotated(e: Emitter, node: Node, q: Value, k: Value, start: Value) -> tuple[Value, Value]:
    """Queries and keys at their positions: those given, or the ones after the cache."""
    batch, _, steps, size = shape_of(q)
    rows, pairs = node.type(7).shape
    node = node.fitted(e, {8: ("the sines", (rows, pairs)), 9: ("the positions", (batch, steps))})
    tables = [node.value(e, i) for i in (7, 8)]
    e.require("divides", 8, pairs, "columns of cosines")
    e.require("at_most", pairs, floordiv(size, 2), "columns of cosines")
    if node.has(9):
        given = e.cast(node.within(e, 9, 0, rows - 1, "positions"), I64)
        cos, sin = (e(graph.take, table, given, axis=0) for table in tables)
    elif _has_past(node):
        positions = e.map(graph.add, e.reshape(start, (shape_of(start)[0], 1)), e.iota((1, steps), 1))
        node.watched.watch_range(positions, 0, rows - 1, "positions", node.name(5))
        cos, sin = (e(graph.take, table, positions, axis=0) for table in tables)
    else:
        cos, sin = (e.unsqueeze(e.slice(table, 0, 0, steps), 0) for table in tables)
    turned = bool(node.attr_int("rotary_interleaved", 0))
    return rotate(e, q, cos, sin, interleaved=turned), rotate(e, k, cos, sin, interleaved=turned)


def _present(e: Emitter, node: Node, new: Value, start: Value, lengths: Value, i: int) -> Value:
    """The cache with the new steps [B, groups, S, D] from `start` [B, 1, 1, 1] on; input `i` is the past one."""
    steps = shape_of(new)[2]
    (total,) = node.dims(6, "total_sequence_length")
    if not _has_past(node):
        if not e.same(steps, total):
            raise node.unsupported(f"without past keys, total_sequence_length must be {steps}, got {total}")
        return new
    past = node.value(e, i)
    if _is_state(node):
        e.require("at_most", total, shape_of(past)[2], "steps of the cache")
        e.require("at_most", steps, total, "steps")
        start = written_from(e, lengths, (1, total), start, shape_of(past)[2])
        at = e.map(graph.add, e.iota((1, 1, steps, 1), 2), start)
        return e(graph.scatter_along, past, e.broadcast(at, shape_of(new)), new, axis=2)
    capacity = greater(shape_of(past)[2], total, e.ranges)
    grown = capacity - shape_of(past)[2]  # nothing, or all new steps
    e.require("at_most", grown, steps, "steps after the past")
    e.require("divides", steps, grown, "steps after the past")
    past = e.pad(past, 2, 0, grown)
    at = e.map(graph.sub, e.iota((1, 1, capacity, 1), 2), start)
    if steps == 1:
        placed = e.select(e.map(graph.eq, at, 0), new, 0.0)
    else:
        last = e.full((), I64, steps - 1)
        batch, groups, _, size = shape_of(new)
        where = e.map(graph.min_, e.map(graph.max_, at, 0), last)
        taken = e(graph.take_along, new, e.broadcast(where, (batch, groups, capacity, size)), axis=2)
        placed = e.select(e.map(graph.le, at, last), taken, 0.0)
    return e.select(e.map(graph.lt, at, 0), past, placed)


def _masked(e: Emitter, node: Node, scores: Value, heads: Heads, start: Value, lengths: Value) -> Value:
    """Scores plus a bias, of the keys that each query may see."""
    *lead, queries, keys = shape_of(scores)
    ones = (1,) * len(lead)
    if (bias := node.optional(e, 10)) is not None:
        shape = (*shape_of(bias)[:2], queries, *node.dims(6, "total_sequence_length"))
        bias = e.equalled(bias, shape, "the bias")
        bias = e.pad(bias, 3, 0, keys - shape_of(bias)[3])
        count = heads.groups * heads.per_group
        if shape_of(bias)[1] != 1:
            bias = e.spread(bias, (shape_of(bias)[0], count, *shape_of(bias)[2:]))
        bias = e.spread(heads.split(e, e.cast(bias, elem_of(scores))), shape_of(scores))
        scores = e.map(graph.add, scores, bias)
    batch = shape_of(start)[0]
    start, lengths = (e.reshape(x, (batch, *ones, 1)) for x in (start, lengths))
    key = e.iota((*ones, 1, keys), len(lead) + 1)
    window = node.attr_int("local_window_size", -1)
    if not node.attr_int("causal", 1):
        if window > 0:
            raise node.error(f"local_window_size must be -1 without a causal mask, got {window}")
        return e.select(e.map(graph.lt, key, lengths), scores, -math.inf)
    at = e.map(graph.add, e.iota((*ones, queries, 1), len(lead)), start)
    scores = e.select(e.map(graph.le, key, at), scores, -math.inf)
    if window > 0:
        scores = e.select(e.map(graph.gt, key, e.map(graph.sub, at, window)), scores, -math.inf)
    return scores


def _softmax(e: Emitter, node: Node, scores: Value, heads: Heads) -> Value:
    """Softmax along the keys; a sink is one more score per head that nothing comes of (0 for a smooth softmax)."""
    axis = tensor(scores).rank - 1
    sink = node.optional(e, 11)
    if sink is None and node.attr_int("smooth_softmax", -1) != 1:
        return softmax_of(e, scores, axis)
    if sink is None:
        extra = e.full((1,) * (axis + 1), elem_of(scores), 0.0)
    else:
        extra = heads.split(e, e.reshape(e.cast(sink, elem_of(scores)), (1, shape_of(sink)[0], 1, 1)))
    most = e.map(graph.max_, e.reduce(scores, "max", [axis]), extra)
    powers = e.map(graph.exp, e.map(graph.sub, scores, most))
    total = e.map(graph.add, e.reduce(powers, "sum", [axis]), e.map(graph.exp, e.map(graph.sub, extra, most)))
    return e.map(graph.div, powers, total)
