"""Attention of grouped queries over a cache of keys and values, as language models are exported with.

The cache's used length differs from sequence to sequence: `seqlens_k` says it, at run time. Present keys are the
past ones up to there, then the new ones, then zeros. Where past and present are one memory, the model's state, the new
ones are written there and nothing else is, as ONNX Runtime does; `total_sequence_length` elements of it are read.

A cache that slides has the last tokens of each sequence from its front on, at least as many as the window: all of it is
written, for what stays moves to the front.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from graphfuse.dialects import graph
from graphfuse.frontends.emit import Emitter, elem_of, shape_of
from graphfuse.frontends.host_values import greater
from graphfuse.frontends.onnx.node import MICROSOFT, Node, onnx_op
from graphfuse.frontends.onnx.ops.attention import Heads, heads_of, rotate, without_heads
from graphfuse.frontends.onnx.ops.index import written_from
from graphfuse.frontends.onnx.ops.microsoft.grouped import (
    normed,
    rotary_tables,
    scores_of,
    seen,
    separate,
    softmax_of_heads,
    stored_of,
)
from graphfuse.ir.core import Value
from graphfuse.ir.types import I64
from graphfuse.symbolic import Dim


@onnx_op("GroupQueryAttention", domain=MICROSOFT)
def group_query_attention(e: Emitter, node: Node) -> tuple[Value | None, ...]:
    """Attention of new tokens to all tokens so far; also the keys and values of these, and the scores."""
    _check(node)
    q, k, v = separate(e, node)
    stored = stored_of(e, node, "k", k, cache=3, scale=12), stored_of(e, node, "v", v, cache=4, scale=13)
    if node.has(3):
        batch, groups, _, size = shape_of(k)
        pasts = [(batch, groups, node.type(3).shape[2], s.width(size)) for s in stored]
        node = node.fitted(e, {3: ("the past keys", pasts[0]), 4: ("the past values", pasts[1])})
    heads = heads_of(node, shape_of(q)[1], shape_of(k)[1])
    batch, _, steps, _ = shape_of(q)
    lengths = e.reshape(e.cast(node.value(e, 5), I64), (batch, 1, 1, 1))
    lengths = e.map(graph.add, lengths, 1)
    if _has_past(node):
        start = e.map(graph.max_, e.map(graph.sub, lengths, _new(e, node, batch, steps)), 0)
    else:
        start = e.full((batch, 1, 1, 1), I64, 0)
    if node.has(14) != node.has(15):
        raise node.error("q_norm_weight and k_norm_weight must be given together")
    if node.has(14):
        q, k = normed(e, node, "q", q, 14), normed(e, node, "k", k, 15)
    if node.attr_int("do_rotary", 0):
        q, k = _rotated(e, node, q, k, start)
    new = [kept.stored(e, x) for kept, x in zip(stored, (k, v), strict=True)]
    positions = None
    if node.attr_int("sliding_window_cache", 0):
        used, present, positions = _slid(e, node, new, start, lengths)
    else:
        present = [_present(e, node, x, start, lengths, i) for i, x in enumerate(new, 3)]
        used = [_used(e, node, x) for x in present] if _is_state(node) else present
        node.within(e, 5, 0, shape_of(used[0])[2] - 1, "lengths less 1")
    k, v = (kept.read(e, x, elem_of(q)) for kept, x in zip(stored, used, strict=True))
    scores = scores_of(e, node, heads, stored[0].scaled(e, q, heads), k)
    scores = _masked(e, node, scores, heads, start, lengths, positions)
    weights = softmax_of_heads(e, node, scores, heads)
    y = without_heads(e, stored[1].scaled(e, heads.mixed(e, weights, v), heads))
    if not node.wants(3) or not node.attr_int("qk_output", 0):
        return y, *present, None
    if node.attr_int("qk_output") == 1:  # scores, and 0 where there is nothing to see
        weights = e.select(e.map(graph.eq, scores, -math.inf), 0.0, scores)
    return y, *present, e.cast(heads.merge(e, weights), elem_of(q))


def _new(e: Emitter, node: Node, batch: Dim, steps: Dim) -> Value:
    """How many of the tokens of each sequence are new, [B, 1, 1, 1] or all: the others behind them fill a chunk up."""
    if not node.has(16):
        return e.full((), I64, steps)
    if not node.attr_int("causal", 1):
        raise node.error("query_seqlens needs a causal mask")
    given = node.within(e, 16, 0, steps, "new tokens")
    return e.reshape(e.cast(given, I64), (batch, 1, 1, 1))


def _check(node: Node) -> None:
    if node.attr_int("sliding_window_cache", 0):
        if not _has_past(node) or node.attr_int("local_window_size", -1) <= 0:
            raise node.error("sliding_window_cache needs past_key, past_value and a local_window_size")
        if node.wants(3) and node.attr_int("qk_output", 0):
            raise node.unsupported("qk_output must be 0 with a sliding_window_cache")
    if node.has(16) and not _has_past(node):
        raise node.error("query_seqlens needs past_key and past_value")
    if node.has(3) != node.has(4):
        raise node.error("past_key and past_value must be given together")
    for i, name in ((5, "seqlens_k"), (6, "total_sequence_length"), (16, "query_seqlens")):
        if node.has(i) and not node.type(i).elem.is_integer:
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


def _rotated(e: Emitter, node: Node, q: Value, k: Value, start: Value) -> tuple[Value, Value]:
    """Queries and keys at their positions: those given, or the ones after the cache."""
    batch, _, steps, size = shape_of(q)
    node = node.fitted(e, {9: ("the positions", (batch, steps))})
    tables = rotary_tables(e, node, 7, size)
    rows = shape_of(tables[0])[0]
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
        placed = e.select(e.map(graph.eq, at, 0), new, 0)
    else:
        last = e.full((), I64, steps - 1)
        batch, groups, _, size = shape_of(new)
        where = e.map(graph.min_, e.map(graph.max_, at, 0), last)
        taken = e(graph.take_along, new, e.broadcast(where, (batch, groups, capacity, size)), axis=2)
        placed = e.select(e.map(graph.le, at, last), taken, 0)
    return e.select(e.map(graph.lt, at, 0), past, placed)


def _slid(
    e: Emitter, node: Node, new: Sequence[Value], start: Value, lengths: Value
) -> tuple[list[Value], list[Value], Value]:
    """Of keys and of values those that are attended to, then those that are kept; positions of the first, [B, K].

    Attended to is what was there and what is new, side by side, for what a late token pushes out an early one may see.
    """
    capacity, steps = node.type(3).shape[2], shape_of(new[0])[2]
    size, last = e.full((), I64, capacity), (1 << 31) - 2
    if node.known(6) is not None:
        (total,) = node.dims(6, "total_sequence_length")
        last = total - 1
    e.require("at_most", node.attr_int("local_window_size"), capacity, "tokens of a window")
    node.within(e, 5, 0, last, "lengths less 1")
    before, after = (_resident(e, node, x, capacity) for x in (start, lengths))
    whole = [e.concat([node.value(e, i), x], 2) for i, x in enumerate(new, 3)]
    row, step = e.iota((1, 1, capacity, 1), 2), e.iota((1, 1, steps, 1), 2)
    first = e.map(graph.sub, start, before)
    old = e.map(graph.add, first, row)
    old = e.select(e.map(graph.lt, row, before), old, lengths)  # behind the end where there is nothing
    positions = e.concat([old, e.map(graph.add, start, step)], 2)
    kept = e.map(graph.add, e.map(graph.sub, lengths, after), row)
    behind = e.map(graph.add, e.map(graph.sub, kept, start), size)
    source = e.select(e.map(graph.ge, kept, start), behind, e.map(graph.sub, kept, first))
    source = e.select(e.map(graph.lt, row, after), source, row)
    present = [e(graph.take_along, x, e.broadcast(source, node.type(i).shape), axis=2) for i, x in enumerate(whole, 3)]
    if _is_state(node):
        at = written_from(e, lengths, (1, last + 1), row, capacity)
        present = [
            e(graph.scatter_along, node.value(e, i), e.broadcast(at, shape_of(x)), x, axis=2)
            for i, x in enumerate(present, 3)
        ]
    return whole, present, e.reshape(positions, shape_of(positions)[::2])


def _resident(e: Emitter, node: Node, lengths: Value, capacity: Dim) -> Value:
    """How many of so many tokens a cache that slides has: a full one makes room for all that is not of the window."""
    room = e.full((), I64, capacity - node.attr_int("local_window_size") + 1)
    over = e.map(graph.sub, lengths, e.full((), I64, capacity))
    times = e.map(graph.neg, e.map(graph.floordiv_, e.map(graph.neg, over), room))
    return e.map(graph.sub, lengths, e.map(graph.max_, e.map(graph.mul, times, room), 0))


def _masked(
    e: Emitter, node: Node, scores: Value, heads: Heads, start: Value, lengths: Value, positions: Value | None
) -> Value:
    """Scores plus a bias, of the keys that each query may see; their `positions` [B, K], unless they are in order."""
    *lead, queries, keys = shape_of(scores)
    ones, batch = (1,) * len(lead), shape_of(start)[0]
    if (bias := node.optional(e, 10)) is not None:
        total = node.dims(6, "total_sequence_length")
        bias = e.equalled(bias, (*shape_of(bias)[:2], queries, *total), "the bias")
        if positions is None:
            bias = e.pad(bias, 3, 0, keys - shape_of(bias)[3])
        else:
            columns = e.map(graph.min_, e.map(graph.max_, positions, 0), e.full((), I64, total[0] - 1))
            bias = e.spread(bias, (batch, *shape_of(bias)[1:]))
            columns = e.broadcast(e.unsqueeze(columns, 1, 2), (*shape_of(bias)[:3], keys))
            bias = e(graph.take_along, bias, columns, axis=3)
        count = heads.groups * heads.per_group
        if shape_of(bias)[1] != 1:
            bias = e.spread(bias, (shape_of(bias)[0], count, *shape_of(bias)[2:]))
        bias = e.spread(heads.split(e, e.cast(bias, elem_of(scores))), shape_of(scores))
        scores = e.map(graph.add, scores, bias)
    start, lengths = (e.reshape(x, (batch, *ones, 1)) for x in (start, lengths))
    if positions is None:
        key = e.iota((*ones, 1, keys), len(lead) + 1)
    else:
        key = e.reshape(positions, (batch, *ones[1:], 1, keys))
    at = e.map(graph.add, e.iota((*ones, queries, 1), len(lead)), start)
    causal, window = bool(node.attr_int("causal", 1)), node.attr_int("local_window_size", -1)
    if not causal and window > 0:
        raise node.error(f"local_window_size must be -1 without a causal mask, got {window}")
    return seen(e, scores, key, at, lengths, causal=causal, window=window)
