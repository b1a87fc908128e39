"""What attention of grouped queries to a cache is made of, however the cache lies.

A cache of integers is read as they are: a key's scale is the query's, a value's the result's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from graphfuse.dialects import graph
from graphfuse.dialects.graph import ELEMENTWISE
from graphfuse.frontends.compositions import root_mean_square, softmax_of
from graphfuse.frontends.emit import Emitter, elem_of, shape_of, tensor
from graphfuse.frontends.onnx.node import Node
from graphfuse.frontends.onnx.ops.attention import Heads
from graphfuse.frontends.onnx.ops.microsoft.normalize import scaled
from graphfuse.frontends.onnx.ops.quantize import quantize_of
from graphfuse.ir.core import Value
from graphfuse.ir.types import F32, I8, U8, Scalar
from graphfuse.symbolic import Dim, floordiv

F8 = Scalar("f8e4m3")


@dataclass(frozen=True, slots=True)
class Stored:
    """How a cache has what is attended to: as it is, or by a scale as bytes, which may have two numbers each."""

    elem: Scalar
    scale: Value | None = None
    """Of f32: one, or one for each group and element of a head, [1, groups, 1, D]."""

    def width(self, size: int | Dim) -> Dim:
        """Elements of a head of so many."""
        return floordiv(size, 2) if self.elem == U8 else size

    def stored(self, e: Emitter, x: Value) -> Value:
        """New ones [B, groups, S, D], as the cache has them."""
        if self.scale is None:
            return x
        x = e.cast(x, F32)
        if self.elem != U8:
            return quantize_of(e, x, self.scale, None, self.elem)
        y = e.map(graph.add, e.map(ELEMENTWISE["round"], e.map(graph.div, x, self.scale)), 8.0)
        y = e.cast(e.map(graph.min_, e.map(graph.max_, y, 0.0), 15.0), U8)
        *lead, size = shape_of(y)
        pairs = e.reshape(y, (*lead, floordiv(size, 2), 2))
        low, high = (e.reshape(e.slice(pairs, 4, i, 1), (*lead, floordiv(size, 2))) for i in range(2))
        return e.map(graph.add, low, e.map(graph.mul, high, 16))

    def read(self, e: Emitter, x: Value, elem: Scalar) -> Value:
        """Those of a cache, without their scale."""
        if self.scale is None or self.elem != U8:
            return e.cast(x, elem)
        halves = e.map(ELEMENTWISE["and"], x, 15), e.map(ELEMENTWISE["shr"], x, 4)
        *lead, size = shape_of(x)
        pairs = e.concat([e.unsqueeze(h, 4) for h in halves], 4)
        return e.map(graph.sub, e.cast(e.reshape(pairs, (*lead, size * 2)), elem), 8.0)

    def scaled(self, e: Emitter, x: Value, heads: Heads) -> Value:
        """`x` [B, H, S, D], times the scale."""
        if self.scale is None:
            return x
        scale = e.repeat(self.scale, 1, heads.per_group) if shape_of(self.scale) else self.scale
        return e.cast(e.map(graph.mul, e.cast(x, F32), scale), elem_of(x))


def stored_of(e: Emitter, node: Node, which: str, x: Value, *, cache: int, scale: int) -> Stored:
    """How input `cache`, where it is given, has keys or values; input `scale` has their scale, `x` are new ones."""
    kind, elem = node.attr_str(f"{which}_quant_type", "NONE"), elem_of(x)
    kept, given = (node.type(cache).elem, True) if node.has(cache) else (elem, False)
    if kind == "NONE":
        if node.has(scale):
            raise node.error(f"{which}_scale is for a cache of integers, got {which}_quant_type NONE")
        if kept != elem:
            raise node.unsupported(f"a cache must have the query's element, got {node.type(cache)}")
        return Stored(elem)
    if kind not in ("PER_TENSOR", "PER_CHANNEL"):
        raise node.error(f"{which}_quant_type must be NONE, PER_TENSOR or PER_CHANNEL, got {kind}")
    if not given or not node.has(scale):
        raise node.error(f"{which}_quant_type {kind} needs a past and {which}_scale")
    bits = node.attr_int("kv_cache_bit_width", 0) or (4 if kept == U8 else 8)
    if kept not in ((U8,) if bits == 4 else (I8, F8)) or bits not in (4, 8):
        raise node.error(f"a cache of {bits} bits cannot be of {kept}: expected i8 or f8e4m3 for 8, u8 for 4")
    _, groups, _, size = shape_of(x)
    if bits == 4 and (not isinstance(size, int) or size % 2):
        raise node.error(f"a cache of 4 bits needs an even head size, got {size}")
    factor = e.cast(node.value(e, scale), F32)
    if kind == "PER_CHANNEL":
        factor = e.unsqueeze(factor, 0) if tensor(factor).rank == 3 else factor
        return Stored(kept, e.equalled(factor, (1, groups, 1, size), f"{which}_scale"))
    if any(d != 1 for d in shape_of(factor)):
        raise node.error(f"{which}_scale must be one number, got {node.type(scale)}")
    return Stored(kept, e.reshape(factor, ()))


def separate(e: Emitter, node: Node) -> tuple[Value, Value, Value]:
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


def normed(e: Emitter, node: Node, which: str, x: Value, i: int) -> Value:
    """`x`, queries or keys, over the root mean square of each head, times input `i`."""
    epsilon = node.attr_float(f"{which}_norm_epsilon", node.attr_float("qk_norm_epsilon", 1e-6))
    y, _ = root_mean_square(e, e.wide(x), [3], epsilon)
    weight = e.equalled(node.value(e, i), shape_of(x)[3:], f"{which}_norm_weight")
    return e.cast(scaled(e, y, weight, None), elem_of(x))


def rotary_tables(e: Emitter, node: Node, i: int, size: Dim) -> tuple[Value, Value]:
    """Cosines and sines of positions, [rows, pairs], for heads of `size`: inputs `i` and the one after it."""
    rows, pairs = node.type(i).shape
    node = node.fitted(e, {i + 1: ("the sines", (rows, pairs))})
    e.require("divides", 8, pairs, "columns of cosines")
    e.require("at_most", pairs, floordiv(size, 2), "columns of cosines")
    return node.value(e, i), node.value(e, i + 1)


def scores_of(e: Emitter, node: Node, heads: Heads, q: Value, k: Value) -> Value:
    """Products of queries and keys, scaled and capped."""
    size = shape_of(q)[3]
    if not isinstance(size, int):
        raise node.unknown_dim(f"the head size must be static, got {size}")
    scale = node.attr_float("scale", 0.0) or 1 / math.sqrt(size)
    scores = e.map(graph.mul, heads.scores(e, q, k), scale)
    if (cap := node.attr_float("softcap", 0.0)) != 0.0:
        scores = e.map(graph.mul, e.map(graph.tanh, e.map(graph.div, scores, cap)), cap)
    return scores


def seen(e: Emitter, scores: Value, key: Value, at: Value, lengths: Value, *, causal: bool, window: int) -> Value:
    """Scores of keys that a query may see: up to its own position, or of all `lengths`, and the last ones of a window.

    Positions are those of keys [.., 1, K] and of queries [.., Q, 1].
    """
    there = e.map(graph.le, key, at) if causal else e.map(graph.lt, key, lengths)
    scores = e.select(there, scores, -math.inf)
    if window > 0:
        scores = e.select(e.map(graph.gt, key, e.map(graph.sub, at, window)), scores, -math.inf)
    return scores


def softmax_of_heads(e: Emitter, node: Node, scores: Value, heads: Heads) -> Value:
    """Softmax along the keys; a sink is one more score per head that nothing comes of (0 for a smooth softmax)."""
    axis = tensor(scores).rank - 1
    sink = node.optional(e, 11)
    if sink is None and node.attr_int("smooth_softmax", -1) != 1:
        return softmax_of(e, scores, axis)
    if sink is None:
        extra = e.full((1,) * (axis + 1), elem_of(scores), 0.0)
    else:
        count = heads.groups * heads.per_group
        sink = e.equalled(e.cast(sink, elem_of(scores)), (count,), "the sink")
        extra = heads.split(e, e.reshape(sink, (1, count, 1, 1)))
    most = e.map(graph.max_, e.reduce(scores, "max", [axis]), extra)
    powers = e.map(graph.exp, e.map(graph.sub, scores, most))
    total = e.map(graph.add, e.reduce(powers, "sum", [axis]), e.map(graph.exp, e.map(graph.sub, extra, most)))
    return e.map(graph.div, powers, total)
