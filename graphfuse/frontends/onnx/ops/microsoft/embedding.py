"""Embeddings: of words with their positions and a norm, of positions as rotations, of rows of a few bits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from graphfuse.dialects import graph
from graphfuse.dialects.graph import ELEMENTWISE
from graphfuse.frontends.compositions import standardise
from graphfuse.frontends.emit import Emitter, elem_of, shape_of, tensor
from graphfuse.frontends.onnx.node import MICROSOFT, Node, onnx_op
from graphfuse.frontends.onnx.ops.attention import rotate, with_heads, without_heads
from graphfuse.frontends.onnx.ops.microsoft.normalize import scaled
from graphfuse.frontends.onnx.ops.quantize import dequantize_of
from graphfuse.ir.core import Value
from graphfuse.ir.types import I32, I64, U8


@onnx_op("EmbedLayerNormalization", domain=MICROSOFT)
def embed_layer_normalization(e: Emitter, node: Node) -> tuple[Value, ...]:
    """Layer norm of the sum of word, position and segment embeddings; also how many words count, and the sum."""
    return _embedded(e, node, 8, lambda _, rows: rows)


@onnx_op("QEmbedLayerNormalization", domain=MICROSOFT)
def quantized_embed_layer_normalization(e: Emitter, node: Node) -> tuple[Value, ...]:
    """The same of tables and parameters of bytes; their scales are inputs 8 to 12, their zero points 13 to 17."""
    order = (2, 3, 4, 5, 6)

    def real(i: int, rows: Value) -> Value:
        at = order.index(i)
        return dequantize_of(e, node, rows, node.value(e, 8 + at), node.optional(e, 13 + at))

    return _embedded(e, node, None, real)[:2]


def _embedded(e: Emitter, node: Node, places: int | None, real: Callable[[int, Value], Value]) -> tuple[Value, ...]:
    """The norm, how many words count, and the sum; `real` makes floats of rows of an input."""

    def rows(table: int, which: int) -> Value:
        value = node.value(e, table)
        return real(table, e(graph.take, value, node.index(e, which, shape_of(value)[0], from_end=False), axis=0))

    words = rows(2, 0)
    elem = elem_of(words)
    total = e.wide(words)
    if places is not None and node.has(places):
        along = rows(3, places)
    else:
        along = real(3, e.slice(node.value(e, 3), 0, 0, shape_of(words)[1]))
    total = e.map(graph.add, total, e.cast(along, elem_of(total)))
    if node.has(1) != node.has(4):
        raise node.error("segment_ids and segment_embedding must be given together")
    if node.has(1):
        total = e.map(graph.add, total, e.cast(rows(4, 1), elem_of(total)))
    y, _, _ = standardise(e, total, [2], node.attr_float("epsilon", 1e-12))
    y = scaled(e, y, real(5, node.value(e, 5)), real(6, node.value(e, 6)))
    if (mask := node.optional(e, 7)) is not None:
        count = e.reduce(e.cast(e.map(graph.eq, mask, 1), I32), "sum", [1], keepdims=False)
    else:
        count = e.full((shape_of(words)[0],), I32, 0)
    return e.cast(y, elem), count, e.cast(total, elem)


@onnx_op("RotaryEmbedding", domain=MICROSOFT)
def rotary_embedding(e: Emitter, node: Node, x: Value) -> Value:
    """Rotate pairs of features of [B, S, H*D] or [B, H, S, D] by the angles of each token's position."""
    batch, steps = shape_of(x)[0], shape_of(x)[1 if tensor(x).rank == 3 else 2]
    first = node.type(1).elements == 1  # the position of the first token
    node = node.fitted(e, {
        3: ("the sines", node.type(2).shape), **({} if first else {1: ("the positions", (batch, steps))}),
    })  # fmt: skip
    most = node.type(2).shape[0] - (steps if first else 1)
    positions = e.cast(node.within(e, 1, 0, most, "positions"), I64)
    if first:
        positions = e.map(graph.add, e.iota((1, steps), 1), e.reshape(positions, ()))
    cos, sin = (e(graph.take, node.value(e, i), positions, axis=0) for i in (2, 3))
    return _rotated(e, node, x, cos, sin)


@onnx_op("MRotaryEmbedding", domain=MICROSOFT)
def multimodal_rotary_embedding(e: Emitter, node: Node) -> Value:
    """The same with three positions per token, each of which some of the angles are of."""
    shape = node.type(0).shape
    tokens = (3, shape[0], shape[1 if len(shape) == 3 else 2])
    node = node.fitted(e, {1: ("the positions", tokens), 3: ("the sines", node.type(2).shape)})
    positions = e.cast(node.within(e, 1, 0, node.type(2).shape[0] - 1, "positions"), I64)
    sections, half = node.attr_ints("mrope_section"), node.type(2).shape[1]
    if len(sections) != 3 or sum(sections) != half:
        raise node.error(f"mrope_section must be three widths that make up {half}, got {sections}")
    owner = np.repeat(np.arange(3), sections)  # which of the three positions an angle is of
    if node.attr_int("mrope_layout", 0) == 1:
        owner = np.zeros(sum(sections), np.int64)
        for which in (1, 2):
            owner[which : 3 * sections[which] : 3] = which

    def combined(table: Value) -> Value:
        found = e(graph.take, table, positions, axis=0)  # [3, B, S, half]
        out, *others = (e.squeeze(e.slice(found, 0, which, 1), 0) for which in range(3))
        for which, other in enumerate(others, 1):
            out = e.select(e.constant(owner == which), other, out)
        return out

    return _rotated(e, node, node.value(e, 0), combined(node.value(e, 2)), combined(node.value(e, 3)))


def _rotated(e: Emitter, node: Node, x: Value, cos: Value, sin: Value) -> Value:
    """x rotated by angles whose cos and sin are [B or 1, S, pairs]."""
    for name, only in (("is_packed_batching", 0), ("scale", 1)):
        if node.attr_float(name, only) != only:
            raise node.unsupported(f"{name} must be {only}, got {node.attr_float(name, only)}")
    if tensor(x).rank == 3 and not node.attr_int("num_heads", 0):  # heads are as wide as the whole table
        batch, steps, width = shape_of(x)
        size = shape_of(cos)[2] * 2
        count = node.quotient(width, size, f"heads of {size} features do not divide {width}")
        heads = e.permute(e.reshape(x, (batch, steps, count, size)), (0, 2, 1, 3))
    else:
        heads = with_heads(e, node, x, "num_heads")
        widths = [w for w in (node.attr_int("rotary_embedding_dim", 0), shape_of(heads)[3]) if w != 0]
        if 2 * shape_of(cos)[2] not in widths:
            e.require("equal", 2 * shape_of(cos)[2], widths[0], "cosines and sines")
    out = rotate(e, heads, cos, sin, interleaved=bool(node.attr_int("interleaved", 0)))
    return without_heads(e, out) if tensor(x).rank == 3 else out


@onnx_op("GatherBlockQuantized", domain=MICROSOFT)
def gather_block_quantized(e: Emitter, node: Node) -> Value:
    """Slices of a tensor of integers (packed, low bits first, where they are bytes), less zero point, times scale.

    Scales and zero points are of blocks along `quantize_axis`; an index out of range gives zeros.
    """
    data, scales = node.value(e, 0), node.value(e, 2)
    rank = tensor(data).rank
    axis, along = (node.axis(node.attr_int(n, d), rank) for n, d in (("gather_axis", 0), ("quantize_axis", 1)))
    bits, block = node.attr_int("bits", 4), node.attr_int("block_size", 128)
    packed = elem_of(data) == U8
    if axis == along:
        raise node.unsupported(f"gather_axis and quantize_axis must differ, got {axis} for both")
    if not elem_of(data).is_integer:
        raise node.unsupported(f"data must be integers, got {elem_of(data)}")
    if packed and bits not in (2, 4, 8):
        raise node.error(f"bits must be 2, 4 or 8, got {bits}")
    if packed and bits < 8 and along != rank - 1:
        raise node.unsupported(f"packed data must be quantised along the last dim {rank - 1}, got {along}")
    if block < 16:
        raise node.unsupported(f"block_size must be at least 16, got {block}")
    size = shape_of(data)[axis]
    at = e.cast(node.value(e, 1), I64)
    whole = e.full((), I64, size)
    found = e.map(graph.and_, e.map(graph.ge, at, e.map(graph.neg, whole)), e.map(graph.lt, at, whole))
    at = e.select(found, at, 0)

    def gathered(x: Value) -> Value:
        return e(graph.take, x, at, axis=axis)

    shift = tensor(at).rank - 1  # how far dims after the gathered one move
    along = along + shift if along > axis else along
    q = gathered(data)
    if packed and bits < 8:
        q = _unpacked(e, q, bits)
    q = e.cast(q, I32)
    length = shape_of(q)[along]
    zeros = node.optional(e, 3)
    if zeros is not None:
        zeros = gathered(zeros)
        if packed and bits < 8:
            zeros = e.slice(_unpacked(e, zeros, bits), along, 0, shape_of(scales)[rank - 1])
        q = e.map(graph.sub, q, e.slice(e.repeat(e.cast(zeros, I32), along, block), along, 0, length))
    elif packed:
        q = e.map(graph.sub, q, 1 << (bits - 1))
    scale = e.slice(e.repeat(gathered(scales), along, block), along, 0, length)
    y = e.cast(e.map(graph.mul, e.cast(q, elem_of(e.wide(scale))), e.wide(scale)), elem_of(scales))
    lead = (*(1,) * axis, *shape_of(at), *(1,) * (rank - 1 - axis))
    return e.select(e.reshape(found, lead), y, 0.0)


def _unpacked(e: Emitter, x: Value, bits: int) -> Value:
    """Bytes as integers of so many bits along the last dim, the low ones first."""
    parts = [e.map(ELEMENTWISE["shr"], x, i * bits) if i else x for i in range(8 // bits)]
    parts = [e.unsqueeze(e.map(graph.and_, p, (1 << bits) - 1), -1) for p in parts]
    shape = shape_of(x)
    return e.reshape(e.concat(parts, len(shape)), (*shape[:-1], shape[-1] * (8 // bits)))
