"""Attention to keys and values that lie in pages, as servers of language models keep them.

Tokens of all sequences are side by side, without padding. A page has some steps of one sequence, and a table says which
pages a sequence has, -1 where it has none: nothing is written there, and nothing attended to. What does not fit, a page
that there is not or a sequence that is longer than its row of the table, is not written either.

Queries are attended with in rows of a sequence each, as many as the longest may have: all tokens, unless
`attention_metadata` is known when the model is compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from graphfuse.dialects import graph
from graphfuse.frontends.emit import Emitter, elem_of, shape_of
from graphfuse.frontends.onnx.node import MICROSOFT, Node, onnx_op
from graphfuse.frontends.onnx.ops.attention import heads_of, rotate, without_heads
from graphfuse.frontends.onnx.ops.microsoft.grouped import (
    Stored,
    normed,
    rotary_tables,
    scores_of,
    seen,
    separate,
    softmax_of_heads,
    stored_of,
)
from graphfuse.ir.core import Value
from graphfuse.ir.types import I64, U8, Scalar
from graphfuse.symbolic import Dim, ceildiv, minimum


@onnx_op("PagedAttention", domain=MICROSOFT)
def paged_attention(e: Emitter, node: Node) -> tuple[Value | None, ...]:
    """Attention of each token to the tokens of its sequence so far; also the pages, with the new keys and values."""
    _check(node)
    tokens = [e.unsqueeze(node.value(e, i), 0) if node.has(i) else None for i in range(3)]
    q, k, v = separate(e, replace(node, inputs=(*tokens, *node.inputs[3:])))
    stored = stored_of(e, node, "k", k, cache=3, scale=14), stored_of(e, node, "v", v, cache=4, scale=15)
    _, groups, count, size = shape_of(k)
    pages, page, *_ = node.type(3).shape
    batch = node.type(7).shape[0]
    shape = (pages, page, groups, size)
    node = node.fitted(
        e,
        {
            3: ("the keys' pages", shape),
            4: ("the values' pages", shape),
            5: ("the cumulative lengths", (batch + 1,)),
            6: ("the past lengths", (batch,)),
            10: ("the slots", (count,)),
        },
    )
    at = _Sequences.of(e, node, count, batch)
    if node.has(12):
        q, k = normed(e, node, "q", q, 12), normed(e, node, "k", k, 13)
    if node.attr_int("do_rotary", 0):
        q, k = _rotated(e, node, q, k, at)
    places = _places(e, node, at)
    kept = [
        _written(e, node.value(e, i), s.stored(e, x), places) for i, s, x in zip((3, 4), stored, (k, v), strict=True)
    ]
    return _attended(e, node, q, stored, kept, at), *kept


def _check(node: Node) -> None:
    if (layout := node.attr_str("kv_cache_layout", "SEPARATE")) != "SEPARATE":
        raise node.unsupported(f"kv_cache_layout must be SEPARATE, got {layout}")
    if not node.has(4):
        raise node.error("value_cache is missing")
    for i in (3, 4):
        if node.type(i).elem == U8:
            raise node.unsupported(f"pages of numbers of 4 bits are not built, got {node.type(i)}")
    if node.has(12) != node.has(13):
        raise node.error("q_norm_weight and k_norm_weight must be given together")
    for i, rank in ((0, 2), (3, 4), (4, 4), (7, 2)):
        if node.type(i).rank != rank:
            raise node.error(f"{node.name(i)} must have {rank} dims, got {node.type(i)}")


@dataclass(frozen=True, slots=True)
class _Sequences:
    """Which sequence each of N tokens is of, and where there: integers of 64 bits, of tokens [N] or sequences [B]."""

    sequence: Value
    """Of tokens; those behind the last sequence's are of the last one, too, and not `there`."""
    offset: Value
    """Of tokens, among those of their sequence that are new."""
    there: Value
    """Of tokens: whether they are any sequence's, one whose lengths fit."""
    first: Value
    """Of sequences: their first token."""
    past: Value
    total: Value
    most: Dim
    """New tokens of a sequence, at most."""
    pages: Dim
    """Pages of a sequence, at most."""

    @staticmethod
    def of(e: Emitter, node: Node, count: Dim, batch: Dim) -> _Sequences:
        """By cumulative lengths, those of what is cached, and the rows of the table."""
        most, pages = _bounds(node, count)
        steps = pages * node.type(3).shape[1]
        ends = e.cast(node.within(e, 5, 0, count, "cumulative lengths"), I64)
        node.watched.watch_range(e.slice(ends, 0, 0, 1), 0, 0, "a first cumulative length", node.name(5))
        first, ends = e.slice(ends, 0, 0, batch), e.slice(ends, 0, 1, batch)
        new = e.map(graph.sub, ends, first)
        node.watched.watch_range(new, 0, most, "tokens of a sequence", node.name(5))
        past = e.cast(node.within(e, 6, 0, steps, "past lengths"), I64)
        total = e.map(graph.add, past, new)
        node.watched.watch_range(total, 0, steps, "lengths", node.name(6))
        token = e.iota((count,), 0)
        behind = e.cast(e.map(graph.ge, e.unsqueeze(token, 1), e.unsqueeze(ends, 0)), I64)
        sequence = e.reduce(behind, "sum", [1], keepdims=False)
        sequence = e.map(graph.min_, sequence, e.full((), I64, batch - 1))
        offset = e.map(graph.sub, token, e(graph.take, first, sequence, axis=0))
        fits = e.map(graph.and_, e.map(graph.ge, past, 0), e.map(graph.le, total, e.full((), I64, steps)))
        new, fits = (e(graph.take, x, sequence, axis=0) for x in (new, fits))
        there = e.fold(graph.and_, [e.map(graph.ge, offset, 0), e.map(graph.lt, offset, new), fits])
        return _Sequences(sequence, offset, there, first, past, total, most, pages)

    def positions(self, e: Emitter) -> Value:
        """Of tokens in their sequences, 0 for those that are not there."""
        position = e.map(graph.add, self.offset, e(graph.take, self.past, self.sequence, axis=0))
        return e.select(self.there, position, 0)


def _bounds(node: Node, count: Dim) -> tuple[Dim, Dim]:
    """How many new tokens and pages a sequence has at most."""
    pages, page = node.type(7).shape[1], node.type(3).shape[1]
    if node.known(16) is None:
        return count, pages
    queries, keys, *_ = (*node.ints(16, "attention_metadata"), 0, 0)  # 0 is for unknown
    return minimum(count, queries) if queries > 0 else count, minimum(pages, ceildiv(keys, page)) if keys > 0 else pages


def _rotated(e: Emitter, node: Node, q: Value, k: Value, at: _Sequences) -> tuple[Value, Value]:
    """Queries and keys [1, H, N, D] at their positions; features before `rotary_offset` are left as they are."""
    before, size = node.attr_int("rotary_offset", 0), shape_of(q)[3]
    tables = rotary_tables(e, node, 8, size - before)
    positions = at.positions(e)
    node.watched.watch_range(positions, 0, shape_of(tables[0])[0] - 1, "positions", node.name(6))
    cos, sin = (e.unsqueeze(e(graph.take, table, positions, axis=0), 0) for table in tables)

    interleaved = bool(node.attr_int("rotary_interleaved", 0))

    def turned(x: Value) -> Value:
        y = rotate(e, e.slice(x, 3, before, size - before), cos, sin, interleaved=interleaved)
        return e.concat([e.slice(x, 3, 0, before), y], 3) if before else y

    return turned(q), turned(k)


def _places(e: Emitter, node: Node, at: _Sequences) -> Value:
    """The page of each token, and where in it, [N, 2]: behind the last page for those that are not to be written."""
    pages, page, *_ = node.type(3).shape
    position, size = at.positions(e), e.full((), I64, page)
    if node.has(10):
        position = e.cast(node.within(e, 10, -1, pages * page - 1, "slots"), I64)
        found = e.map(graph.floordiv_, position, size)
    else:
        entries = e.cast(e.flatten(node.value(e, 7)), I64)
        row = e.map(graph.mul, at.sequence, e.full((), I64, node.type(7).shape[1]))
        found = e(graph.take, entries, e.map(graph.add, row, e.map(graph.floordiv_, position, size)), axis=0)
    written = e.map(graph.and_, at.there, _mapped(e, found, pages))
    found = e.select(written, found, e.full((), I64, pages))
    return e.concat([e.unsqueeze(x, 1) for x in (found, e.map(graph.floormod, position, size))], 1)


def _mapped(e: Emitter, found: Value, pages: Dim) -> Value:
    """Whether there is such a page."""
    return e.map(graph.and_, e.map(graph.ge, found, 0), e.map(graph.lt, found, e.full((), I64, pages)))


def _written(e: Emitter, cache: Value, new: Value, places: Value) -> Value:
    """The pages with the new keys or values, [1, groups, N, D]."""
    return e(graph.scatter_nd, cache, places, e.permute(e.squeeze(new, 0), (1, 0, 2)))


def _attended(
    e: Emitter, node: Node, q: Value, stored: Sequence[Stored], kept: Sequence[Value], at: _Sequences
) -> Value:
    """Attention of queries [1, H, N, D] to the pages that there are, [N, H * D]; 0 for tokens that are not there."""
    batch, count = node.type(7).shape[0], shape_of(q)[2]
    token = e.map(graph.add, e.unsqueeze(at.first, 1), e.iota((1, at.most), 1))
    token = e.map(graph.min_, token, e.full((), I64, count - 1))
    q = e.permute(e(graph.take, e.squeeze(q, 0), token, axis=1), (1, 0, 2, 3))
    k, v, key = _read(e, node, stored, kept, at, elem_of(q))
    heads = heads_of(node, shape_of(q)[1], shape_of(k)[1])
    scores = scores_of(e, node, heads, stored[0].scaled(e, q, heads), k)
    *lead, queries, keys = shape_of(scores)
    ones = (1,) * (len(lead) - 1)
    key = e.reshape(key, (batch, *ones, 1, keys))
    past, total = (e.reshape(x, (batch, *ones, 1, 1)) for x in (at.past, at.total))
    position = e.map(graph.add, e.iota((1, *ones, queries, 1), len(lead)), past)
    causal, window = bool(node.attr_int("is_causal", 1)), node.attr_int("local_window_size", -1)
    weights = softmax_of_heads(e, node, seen(e, scores, key, position, total, causal=causal, window=window), heads)
    weights = e.select(e.map(graph.isnan, weights), 0.0, weights)  # of no key at all
    y = without_heads(e, stored[1].scaled(e, heads.mixed(e, weights, v), heads))
    row = e.map(graph.add, e.map(graph.mul, at.sequence, e.full((), I64, at.most)), at.offset)
    y = e.reshape(y, (batch * at.most, shape_of(y)[2]))
    return e.select(e.unsqueeze(at.there, 1), e(graph.take, y, e.select(at.there, row, 0), axis=0), 0.0)


def _read(
    e: Emitter, node: Node, stored: Sequence[Stored], kept: Sequence[Value], at: _Sequences, elem: Scalar
) -> tuple[Value, Value, Value]:
    """Keys and values [B, groups, K, D] of all pages of each sequence, and their positions [B, K].

    Those of pages that there are not are behind the sequence's end.
    """
    pages, page, groups, _ = node.type(3).shape
    batch, steps = node.type(7).shape[0], at.pages * page
    table, total = e.slice(e.cast(node.value(e, 7), I64), 1, 0, at.pages), e.unsqueeze(at.total, 1)
    start = e.map(graph.mul, e.iota((1, at.pages), 1), e.full((), I64, page))
    table = e.select(e.map(graph.lt, start, total), table, -1)
    node.watched.watch_range(table, -1, pages - 1, "pages", node.name(7))
    mapped = _mapped(e, table, pages)
    table = e.select(mapped, table, 0)
    rows = [e.reshape(e(graph.take, x, table, axis=0), (batch, steps, groups, shape_of(x)[3])) for x in kept]
    k, v = (s.read(e, e.permute(x, (0, 2, 1, 3)), elem) for s, x in zip(stored, rows, strict=True))
    mapped = e.reshape(e.broadcast(e.unsqueeze(mapped, 2), (batch, at.pages, page)), (batch, steps))
    return k, v, e.select(mapped, e.iota((1, steps), 1), total)
