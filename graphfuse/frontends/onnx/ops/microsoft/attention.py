"""Attention with its input projection, with several heads, of one decoded token, and of quantised weights; biases.

Masks are added to scores: what a mask excludes gets `mask_filter_value`, -10,000 where it is not given, so a row
of which nothing is left attends to everything, as ONNX Runtime's does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from graphfuse.dialects import graph
from graphfuse.frontends.compositions import softmax_of
from graphfuse.frontends.emit import Emitter, elem_of, shape_of, tensor
from graphfuse.frontends.host_values import Array
from graphfuse.frontends.onnx.node import MICROSOFT, Node, onnx_op
from graphfuse.frontends.onnx.ops.attention import Heads, with_heads, without_heads
from graphfuse.frontends.onnx.ops.contract import matmul_of
from graphfuse.frontends.onnx.ops.index import written_from
from graphfuse.frontends.onnx.ops.microsoft.quantize import matmul_integer_to_float
from graphfuse.ir.core import Value
from graphfuse.ir.types import F32, I64
from graphfuse.symbolic import Dim, exact_div, floordiv


def refuse(node: Node, names: Sequence[str], inputs: dict[int, str]) -> None:
    """Raise for attributes that are set and inputs that are given, none of which is built."""
    for name in names:
        if value := node.attr_float(name, 0):
            raise node.unsupported(f"attribute {name} must be 0, got {value:g}")
    for i, name in inputs.items():
        if node.has(i):
            raise node.unsupported(f"input {i} ({name}) must be left out, got {node.type(i)}")


Heads3 = tuple[Value, Value, Value]
"""Queries [B, H, Q, D], keys and values [B, H, K, D]."""


def _attended(
    e: Emitter, node: Node, qkv: Heads3, *, past: Dim, mask: Value | None, bias: Value | None
) -> tuple[Value, Value]:
    """Attention, as [B, Q, H * D], and the masked scores.

    `mask` and `bias` are added; `past` keys come before the first query's own.
    """
    q, k, v = qkv
    queries, size = shape_of(q)[2:]
    if not isinstance(size, int):
        raise node.unknown_dim(f"the head size must be static, got {size}")
    heads = Heads(shape_of(q)[1], 1)
    scale = node.attr_float("scale", 0.0) or 1 / math.sqrt(size)
    scores = e.map(graph.mul, heads.scores(e, q, k), scale)
    if bias is not None:
        bias = e.equalled(bias, (*shape_of(bias)[:2], *shape_of(scores)[2:]), "what is added to scores")
    for added in (bias, mask):
        if added is not None:
            scores = e.map(graph.add, scores, e.cast(e.spread(added, shape_of(scores)), elem_of(scores)))
    if node.attr_int("unidirectional", 0) and queries != 1:
        last = e.iota((1, 1, queries, 1), 2)
        past = past + shape_of(k)[2] * floordiv(1, queries)  # a single query sees all keys
        last = e.map(graph.add, last, e.full((), I64, past)) if past != 0 else last
        scores = e.select(e.map(graph.le, e.iota((1, 1, 1, shape_of(k)[2]), 3), last), scores, -math.inf)
    return without_heads(e, heads.mixed(e, softmax_of(e, scores, 3), v)), scores


def _filtered(e: Emitter, node: Node, i: int, batch: Dim, queries: Dim, keys: Dim) -> Value | None:
    """What input `i`, a mask or lengths, adds to scores: 0, or the filter's value, as [B, 1, 1 or Q, K]."""
    if not node.has(i):
        return None
    mask = node.value(e, i)
    shape = shape_of(mask)
    off = node.attr_float("mask_filter_value", -10000.0)
    if len(shape) == 1:
        key, mask = e.iota((1, keys), 1), e.unsqueeze(e.cast(mask, I64), 1)
        keep = e.map(graph.lt, key, e.slice(mask, 0, 0, batch))  # ends
        if shape[0] != batch:  # and starts, if there are as many again
            e.require("divides", batch, shape[0], "lengths")
            e.require("at_most", shape[0], 2 * batch, "lengths")
            starts = e.slice(mask, 0, shape[0] - batch, batch)
            more = e.map(graph.gt, e.full((), I64, shape[0]), e.full((), I64, batch))
            keep = e.map(graph.and_, keep, e.map(graph.ge, key, e.select(more, starts, 0)))
        keep = e.unsqueeze(keep, 1, 2)
    elif len(shape) in (2, 3):
        mask = e.equalled(mask, (batch, *(queries,) * (len(shape) - 2), keys), "the mask")
        keep = e.unsqueeze(e.map(graph.ne, mask, 0), *((1, 2) if len(shape) == 2 else (1,)))
    else:
        raise node.unsupported(f"the mask must have 1, 2 or 3 dims, got {mask.type}")
    return e.select(keep, e.full(shape_of(keep), F32, 0.0), off)


# attention with its projection


@onnx_op("Attention", domain=MICROSOFT)
def attention(e: Emitter, node: Node) -> tuple[Value, Value | None]:
    """Attention of x w [+ bias], whose columns are queries, keys and values; also keys and values of all steps."""
    refuse(node, ("do_rotary", "past_present_share_buffer"), {6: "past_sequence_length"})
    node = node.fitted(e, {2: ("the bias", node.type(1).shape[1:])})
    projected = matmul_of(e, node.value(e, 0), node.value(e, 1))
    if (bias := node.optional(e, 2)) is not None:
        projected = e.map(graph.add, projected, bias)
    return _projected(e, node, projected, mask=3, past=4, bias=5)


@onnx_op("QAttention", domain=MICROSOFT)
def qattention(e: Emitter, node: Node) -> tuple[Value, Value | None]:
    """The same of quantised x and w; attention itself is of floats."""
    refuse(node, ("do_rotary", "past_present_share_buffer"), {})
    given = dict(enumerate(node.inputs))
    product = replace(node, inputs=tuple(given.get(i) for i in (0, 1, 3, 4, 6, 7, 2)))
    return _projected(e, node, matmul_integer_to_float(e, product), mask=5, past=8, bias=None)


def _projected(
    e: Emitter, node: Node, projected: Value, *, mask: int, past: int, bias: int | None
) -> tuple[Value, Value | None]:
    """Attention of what was projected [B, S, ..]; the numbers are of the inputs."""
    batch, steps, width = shape_of(projected)
    count = node.attr_int("num_heads")
    third = exact_div(width, 3)
    sizes = node.attr_ints("qkv_hidden_sizes", ()) or (third,) * 3
    if len(sizes) != 3 or None in sizes or sizes[0] != sizes[1] or sum(d for d in sizes if d is not None) != width:
        raise node.error(f"expected widths of queries, keys and values that make up {width}, got {sizes}")
    parts = e.split(projected, [d for d in sizes if d is not None], 2)
    q, k, v = (with_heads(e, node, part, "num_heads") for part in parts)
    before: Dim = 0
    if (state := node.optional(e, past)) is not None:
        before = shape_of(state)[3]
        if not e.same(shape_of(state)[0], 2) or not e.same(shape_of(state)[2], count):
            raise node.error(f"past must be keys and values of {count} heads, got {state.type}")
        old_k, old_v = (e.squeeze(part, 0) for part in e.split(state, (1, 1), 0))
        k, v = e.concat([old_k, k], 2), e.concat([old_v, v], 2)
    added = _mask_of_projected(e, node, mask, batch, steps, shape_of(k)[2], before)
    extra = None if bias is None else node.optional(e, bias)
    y, _ = _attended(e, node, (q, k, v), past=before, mask=added, bias=extra)
    present = e.concat([e.unsqueeze(k, 0), e.unsqueeze(v, 0)], 0) if node.wants(1) else None
    return y, present


def _mask_of_projected(e: Emitter, node: Node, i: int, batch: Dim, queries: Dim, keys: Dim, past: Dim) -> Value | None:
    """As `_filtered`; also [B, 1, most, most], of which the rows of these queries count."""
    if not node.has(i) or node.type(i).rank != 4:
        return _filtered(e, node, i, batch, queries, keys)
    whole = node.value(e, i)
    here = e.slice(e.slice(whole, 2, past, queries), 3, 0, keys)
    return _filtered(e, replace(node, inputs=(*node.inputs[:i], e.squeeze(here, 1))), i, batch, queries, keys)


# attention of queries, keys and values


@onnx_op("MultiHeadAttention", domain=MICROSOFT)
def multi_head_attention(e: Emitter, node: Node) -> tuple[Value | None, ...]:
    """Attention of queries to keys and values, apart or packed; also keys and values of all steps, and the scores."""
    refuse(node, (), {8: "past_sequence_length", 9: "cache_indirection"})
    return _heads_attended(e, node, _separate(e, node, bias=3), mask=4, bias=5, past=6)


@onnx_op("DecoderMaskedMultiHeadAttention", domain=MICROSOFT)
def decoder_attention(e: Emitter, node: Node) -> tuple[Value | None, ...]:
    """Attention of one token of each sequence to the keys and values so far, which beams may have from one another."""
    e.require("equal", node.type(0).shape[1], 1, "queries of a step")
    if not node.has(1):  # queries, keys and values side by side
        parts = e.split(node.value(e, 0), (_third(node),) * 3, 2)
        node = replace(node, inputs=(*parts, *node.inputs[3:]))
    qkv = _separate(e, node, bias=10)
    if node.attr_int("past_present_share_buffer", 0) and node.has(5):
        return _attended_in_place(e, node, qkv)
    if node.has(5):
        refuse(node, (), {7: "past_sequence_length", 9: "cache_indirection"})
    return _heads_attended(e, node, qkv, mask=3, bias=4, past=5)


def _attended_in_place(e: Emitter, node: Node, qkv: Heads3) -> tuple[Value | None, ...]:
    """The outputs where past keys and values lie in buffers, which the new ones are written into."""
    q, k, v = qkv
    if not node.has(6) or not node.has(7):
        raise node.error("a shared buffer needs past_key, past_value and past_sequence_length")
    batch, count, _, size = shape_of(q)
    width, capacity = shape_of(v)[3], node.type(5).shape[2]
    k = e.equalled(k, (batch, count, 1, size), "the keys")
    v = e.equalled(v, (batch, count, 1, width), "the values")
    shapes = [(batch, count, capacity, n) for n in (size, width)]
    node = node.fitted(e, {5: ("the past keys", shapes[0]), 6: ("the past values", shapes[1])})
    known = _steps(node)
    total = capacity if known is None else known
    e.require("at_most", total, capacity, "steps of the cache")
    within = (0 if known is None else known - 1, total - 1)
    past = e.reshape(e.cast(node.within(e, 7, *within, "past steps"), I64), (1, 1, 1, 1))
    at = written_from(e, past, within, past, capacity)
    present = [
        e(graph.scatter_along, node.value(e, i), e.broadcast(at, shape_of(new)), new, axis=2)
        for i, new in ((5, k), (6, v))
    ]
    k, v = (e.slice(x, 2, 0, total) for x in present)
    bias = node.optional(e, 4)
    if node.has(9):
        source, search = _beams(e, node, past, total, capacity)
        k, v = (e(graph.take_along, x, e.broadcast(source, shape_of(x)), axis=0) for x in (k, v))
        if bias is not None:  # as in ONNX Runtime, its rows are of searches, not of beams
            bias = e(graph.take, e.spread(bias, (batch, *shape_of(bias)[1:])), search, axis=0)
    elif node.has(8):
        node.within(e, 8, 1, 1, "beams without cache_indirection")
    mask = _filtered(e, node, 3, batch, 1, total)
    if known is None:
        if node.wants(3):
            raise node.unknown(7, "past_sequence_length must be known at compile time, scores have its length")
        mask = e.full((1, 1, 1, 1), F32, 0.0) if mask is None else mask
        mask = e.select(e.map(graph.le, e.iota((1, 1, 1, total), 3), past), mask, -math.inf)
    y, scores = _attended(e, node, (q, k, v), past=0, mask=mask, bias=bias)
    return y, *present, scores if node.wants(3) else None


def _steps(node: Node) -> Dim | None:
    """The past steps and the new one, as far as that follows from shapes: else only a run knows."""
    if node.known(7) is not None:
        (past,) = node.dims(7, "past_sequence_length")
        return past + 1
    return next((node.type(i).shape[-1] for i in (3, 4) if node.has(i) and node.type(i).rank > 1), None)


def _beams(e: Emitter, node: Node, past: Value, steps: Dim, capacity: Dim) -> tuple[Value, Value]:
    """Whose cache has each step of a sequence, [B, 1, steps, 1], and which of the searches a sequence is of, [B]."""
    batch, (searches, width, length) = node.type(0).shape[0], node.type(9).shape
    e.require("equal", searches * width, batch, "beams")
    e.require("equal", length, capacity, "steps of cache_indirection")
    if node.has(8):
        node.within(e, 8, width, width, "beams")
    else:
        e.require("equal", width, 1, "beams of cache_indirection")
    table = e.reshape(e.cast(node.value(e, 9), I64), (searches * width, 1, length, 1))
    table = e.slice(e.equalled(table, (batch, 1, capacity, 1), "cache_indirection"), 2, 0, steps)
    is_past = e.map(graph.lt, e.iota((1, 1, steps, 1), 2), past)
    table = e.select(is_past, table, 0)
    node.watched.watch_range(table, 0, width - 1, "beams", node.name(9))
    own, size = e.iota((batch, 1, 1, 1), 0), e.full((), I64, width)
    first = e.map(graph.sub, own, e.map(graph.floormod, own, size))
    search = e.map(graph.floordiv_, e.iota((batch,), 0), size)
    return e.select(is_past, e.map(graph.add, table, first), own), search


def _third(node: Node) -> Dim:
    width = exact_div(node.type(0).shape[2], 3)
    if width is None:
        raise node.error(f"packed queries, keys and values must be of one width, got {node.type(0)}")
    return width


def _separate(e: Emitter, node: Node, bias: int) -> Heads3:
    """Queries, keys and values, each [B, H, S, D], of inputs 0 to 2 plus input `bias`."""
    query = node.value(e, 0)
    added = node.optional(e, bias)
    if tensor(query).rank == 5:  # [B, S, H, 3, D]
        parts = [e.squeeze(p, 3) for p in e.split(query, (1, 1, 1), 3)]
        parts = [e.permute(p, (0, 2, 1, 3)) for p in parts]
    elif node.has(1) and node.type(1).rank == 5:  # [B, S, H, 2, D]
        packed = [e.squeeze(p, 3) for p in e.split(node.value(e, 1), (1, 1), 3)]
        parts = [with_heads(e, node, query, "num_heads"), *(e.permute(p, (0, 2, 1, 3)) for p in packed)]
    elif node.has(1) and node.has(2):
        parts = [with_heads(e, node, node.value(e, i), "num_heads") for i in range(3)]
        if node.type(2).rank == 4:
            parts[2] = e.equalled(parts[2], shape_of(parts[1]), "the values")
    else:
        raise node.error(f"keys and values must be given unless they are packed, got a query {query.type}")
    if added is not None:
        widths = [shape_of(p)[1] * shape_of(p)[3] for p in parts]
        pieces = e.split(added, widths, 0)
        for i, (p, piece) in enumerate(zip(parts, pieces, strict=True)):
            parts[i] = e.map(graph.add, p, e.reshape(piece, (shape_of(p)[1], 1, shape_of(p)[3])))
    return parts[0], parts[1], parts[2]


def _heads_attended(
    e: Emitter, node: Node, qkv: Heads3, *, mask: int, bias: int, past: int
) -> tuple[Value | None, ...]:
    """The operator's outputs; the numbers are of the inputs."""
    q, k, v = qkv
    before: Dim = 0
    if node.has(past) != node.has(past + 1):
        raise node.error("past keys and values must be given together")
    if (old := node.optional(e, past)) is not None:
        before = shape_of(old)[2]
        k, v = e.concat([old, k], 2), e.concat([node.value(e, past + 1), v], 2)
    added = _filtered(e, node, mask, shape_of(q)[0], shape_of(q)[2], shape_of(k)[2])
    y, scores = _attended(e, node, (q, k, v), past=before, mask=added, bias=node.optional(e, bias))
    return y, k, v, scores if node.wants(3) else None


# what distances between tokens add to the scores


@onnx_op("RelativePositionBias", domain=MICROSOFT)
def relative_position_bias(e: Emitter, node: Node, table: Value) -> Value:
    """T5's bias of each head [1, H, Q, K] for the bucket that key - query is in.

    The table is stored as [H, buckets], although its dims say [buckets, H].
    """
    most = node.attr_int("max_distance")
    buckets, heads = shape_of(table)
    both = bool(node.attr_int("is_bidirectional", 0))
    if not isinstance(buckets, int) or buckets < (4 if both else 2) or most <= buckets // (4 if both else 2):
        raise node.error(
            f"expected several buckets, and a max_distance beyond the exact ones, got {buckets} and {most}"
        )
    if not (node.type(1).elem.is_integer and node.type(2).elem.is_integer):
        raise node.error(f"lengths must be integers, got {node.type(1)} and {node.type(2)}")
    (queries,), (keys,) = node.dims(1, "query_length"), node.dims(2, "key_length")
    shape = (queries, keys)
    relative = e.map(graph.sub, e.iota(shape, 1), e.iota(shape, 0))
    per_side = buckets // 2 if both else buckets
    distance = e.map(graph.abs_, relative) if both else e.map(graph.neg, e.map(graph.min_, relative, 0))
    known = e.constant(_buckets(per_side, most))
    bucket = e(graph.take, known, e.map(graph.min_, distance, most), axis=0)
    if both:
        bucket = e.map(graph.add, bucket, e.select(e.map(graph.gt, relative, 0), e.full(shape, I64, per_side), 0))
    return e.unsqueeze(e(graph.take, e.reshape(table, (heads, buckets)), bucket, axis=1), 0)


def _buckets(count: int, most: int) -> Array:
    """The bucket of each distance 0..most: half of them exact, the rest in steps of the logarithm."""
    exact = count // 2
    distance = np.arange(most + 1, dtype=np.float32)
    steps = np.log(np.maximum(distance, 1) / np.float32(exact)) / np.float32(math.log(most / exact)) * (count - exact)
    far = np.minimum(exact + np.trunc(steps).astype(np.int64), count - 1)
    return np.where(distance < exact, distance.astype(np.int64), far)


@onnx_op("GatedRelativePositionBias", domain=MICROSOFT)
def gated_relative_position_bias(
    e: Emitter, node: Node, q: Value, q_bias: Value, positions: Value, w: Value, w_bias: Value, a: Value
) -> Value:
    """WavLM's bias: that of positions [1, H, Q, K] times u * (r * a - 1) + 2, u and r gates of each query's heads."""
    refuse(node, (), {6: "token_offset"})
    q = with_heads(e, node, e.map(graph.add, q, q_bias), "num_heads")
    gates = e.map(graph.add, e.contract(q, w, "bhsd,dg->bhsg"), w_bias)
    *lead, width = shape_of(gates)
    half = exact_div(width, 2)
    if half is None:
        raise node.error(f"the gates' weight must have an even width, got {width}")
    summed = e.reduce(e.wide(e.reshape(gates, (*lead, 2, half))), "sum", [4], keepdims=False)
    u, r = e.split(e.cast(e.map(graph.sigmoid, summed), elem_of(gates)), (1, 1), 3)
    factor = e.map(graph.mul, u, e.map(graph.sub, e.map(graph.mul, r, a), 1.0))
    return e.map(graph.mul, e.map(graph.add, factor, 2.0), positions)
