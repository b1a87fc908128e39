"""Attention and rotary embedding, as the compositions that exporters write out by hand."""

from __future__ import annotations

import math
from dataclasses import dataclass

from graphfuse.dialects import graph
from graphfuse.frontends.emit import Emitter, elem_of, shape_of, tensor
from graphfuse.frontends.onnx.node import WHOLE_MASK, Node, elem_from_onnx, onnx_op
from graphfuse.frontends.onnx.ops.activation import softmax_in_element
from graphfuse.ir.core import Value
from graphfuse.ir.types import BF16, BOOL, F16, F32, I64, Scalar
from graphfuse.symbolic import Dim, exact_div


@dataclass(frozen=True, slots=True)
class Heads:
    """Query heads in `groups` of `per_group`: scores are [B, groups, per_group, Q, K], or [B, groups, Q, K] for 1."""

    groups: Dim
    per_group: int

    def split(self, e: Emitter, x: Value) -> Value:
        """[B or 1, H or 1, Q, K] with the heads as groups."""
        if self.per_group == 1:
            return x
        batch, heads, *rest = shape_of(x)
        return e.reshape(x, (batch, *((1, 1) if heads == 1 else (self.groups, self.per_group)), *rest))

    def merge(self, e: Emitter, x: Value) -> Value:
        """Back to [B, H, Q, K]."""
        if self.per_group == 1:
            return x
        batch, groups, per, *rest = shape_of(x)
        return e.reshape(x, (batch, groups * per, *rest))

    def scores(self, e: Emitter, q: Value, k: Value, elem: Scalar | None = None) -> Value:
        """The products of queries [B, H, Q, D] and keys [B, groups, K, D], in `elem`, or those of halves in f32."""
        if elem is None:
            elem = F32 if elem_of(q) in (F16, BF16) else elem_of(q)
        return e.contract(self.split(e, q), k, "bhqd,bhkd->bhqk" if self.per_group == 1 else "bhgqd,bhkd->bhgqk", elem)

    def mixed(self, e: Emitter, weights: Value, v: Value) -> Value:
        """Sums of values [B, groups, K, D] by weights, as [B, H, Q, D]."""
        spec = "bhqk,bhkd->bhqd" if self.per_group == 1 else "bhgqk,bhkd->bhgqd"
        return self.merge(e, e.contract(e.cast(weights, elem_of(v)), v, spec))


def with_heads(e: Emitter, node: Node, x: Value, attribute: str) -> Value:
    """[B, S, H*D] or [B, H, S, D] as the latter."""
    if tensor(x).rank == 4:
        return x
    if tensor(x).rank != 3:
        raise node.error(f"operands must have 3 or 4 dims, got {x.type}")
    batch, steps, width = shape_of(x)
    heads = node.attr_int(attribute)
    size = node.quotient(width, heads, f"{attribute} is {heads}, which does not divide {width}")
    return e.permute(e.reshape(x, (batch, steps, heads, size)), (0, 2, 1, 3))


def without_heads(e: Emitter, x: Value) -> Value:
    """[B, H, S, D] as [B, S, H*D]."""
    x = e.permute(x, (0, 2, 1, 3))
    batch, steps, heads, size = shape_of(x)
    return e.reshape(x, (batch, steps, heads * size))


@onnx_op("Attention")
def attention(e: Emitter, node: Node) -> tuple[Value | None, ...]:
    """softmax(scale * Q K' [softcap] + mask) V, grouped heads, caches, causal and windowed masks."""
    flat = node.type(0).rank == 3
    q = with_heads(e, node, node.value(e, 0), "q_num_heads")
    k = with_heads(e, node, node.value(e, 1), "kv_num_heads")
    v = with_heads(e, node, node.value(e, 2), "kv_num_heads")
    past: Dim = 0
    if (past_k := node.optional(e, 4)) is not None:
        past = shape_of(past_k)[2]
        k, v = e.concat([past_k, k], 2), e.concat([node.value(e, 5), v], 2)
    heads = heads_of(node, shape_of(q)[1], shape_of(k)[1])
    elem = elem_of(q)
    queries, size = shape_of(q)[2:]
    if not isinstance(size, int):
        raise node.unknown_dim("the head size must be static")
    raw = _scores(e, heads, q, k, node.attr_float("scale", 1 / math.sqrt(size)))
    capped = raw
    if (cap := node.attr_float("softcap", 0.0)) != 0.0:
        capped = e.map(graph.mul, e.map(graph.tanh, e.map(graph.div, raw, cap)), cap)
    masked, guarded = _masked(e, node, capped, heads, queries, shape_of(k)[2], past)
    scores = masked
    if "softmax_precision" in node.attributes:
        scores = e.cast(scores, elem_from_onnx(node.attr_int("softmax_precision"), node.loc))
    weights = softmax_in_element(e, scores, tensor(scores).rank - 1)
    if guarded:  # a row without any key is 0 / 0
        weights = e.select(e.map(graph.isnan, weights), 0.0, weights)
    y = heads.mixed(e, weights, v)
    y = without_heads(e, y) if flat else y
    debug = (raw, capped, masked, weights)[node.attr_int("qk_matmul_output_mode", 0)]
    return y, k, v, heads.merge(e, e.cast(debug, elem)) if node.wants(3) else None


def _scores(e: Emitter, heads: Heads, q: Value, k: Value, scale: float) -> Value:
    """scale * Q K'; of halves every step is rounded as in the standard's body, which scales both factors."""
    if (elem := elem_of(q)) not in (F16, BF16):
        return e.map(graph.mul, heads.scores(e, q, k), scale)
    root = math.sqrt(abs(scale))
    q, k = e.map(graph.mul, q, math.copysign(root, scale)), e.map(graph.mul, k, root)
    return heads.scores(e, q, k, elem)


def heads_of(node: Node, queries: Dim, keys: Dim) -> Heads:
    """So many query heads over so many key heads."""
    ratio = exact_div(queries, keys)
    if not isinstance(ratio, int):
        raise node.unfit(f"{queries} query heads do not divide into {keys} key heads", queries, keys)
    return Heads(keys, ratio)


def _masked(
    e: Emitter, node: Node, scores: Value, heads: Heads, queries: Dim, keys: Dim, past: Dim
) -> tuple[Value, bool]:
    """Scores with every mask applied, and whether a row may be left without a key."""
    guarded = False
    if (mask := node.optional(e, 3)) is not None:
        rank = tensor(mask).rank
        mask = e.reshape(mask, ((1,) * (4 - rank)) + shape_of(mask)) if rank < 4 else mask
        if shape_of(mask)[3] != 1 and not node.attr_int(WHOLE_MASK, 0):
            mask = _padded(e, mask, keys)
        mask = e.spread(heads.split(e, mask), shape_of(scores))
        guarded = True
        if elem_of(mask) == BOOL:
            scores = e.select(mask, scores, -math.inf)
        else:
            scores = e.map(graph.add, scores, e.cast(mask, elem_of(scores)))
    # positions as [.., Q, 1] and [.., 1, K]; `offset` may differ per batch
    dims = (1,) * (tensor(scores).rank - 2)
    query, key = e.iota((*dims, queries, 1), len(dims)), e.iota((*dims, 1, keys), len(dims) + 1)
    if node.has(6):
        node = node.fitted(e, {6: ("the lengths", shape_of(scores)[:1])})
        lengths = node.within(e, 6, 0, keys, "lengths")
        lengths = e.reshape(e.cast(lengths, I64), (*shape_of(lengths), *(1,) * (len(dims) + 1)))
        scores = e.select(e.map(graph.lt, key, lengths), scores, -math.inf)
        guarded = True
        offset: Value | None = e.map(graph.sub, lengths, e.full((), I64, queries))
    else:
        offset = e.full((), I64, past) if past != 0 else None
    at = query if offset is None else e.map(graph.add, query, offset)
    left, right = node.attr_int("left_window_size", -1), node.attr_int("right_window_size", -1)
    if node.attr_int("is_causal", 0):
        right = 0 if right < 0 else min(right, 0)
    if right >= 0:
        last = e.map(graph.add, at, right) if right else at
        scores = e.select(e.map(graph.le, key, last), scores, -math.inf)
    if left >= 0:
        scores = e.select(e.map(graph.ge, key, e.map(graph.sub, at, left)), scores, -math.inf)
        guarded = True
    return scores, guarded


def _padded(e: Emitter, mask: Value, keys: Dim) -> Value:
    """A mask that ends early excludes the keys after it."""
    missing = keys - shape_of(mask)[3]
    if isinstance(missing, int) and missing <= 0:
        return mask
    fill = False if elem_of(mask) == BOOL else -math.inf
    return e.pad(mask, 3, 0, missing, fill)


@onnx_op("RotaryEmbedding")
def rotary_embedding(e: Emitter, node: Node, x: Value, cos: Value, sin: Value) -> Value:
    """Rotate pairs of features by angles that grow with the position."""
    flat = tensor(x).rank == 3
    heads = with_heads(e, node, x, "num_heads")
    _, _, _, size = shape_of(heads)
    turned = node.attr_int("rotary_embedding_dim", 0) or size
    if node.has(3):
        steps = (shape_of(heads)[0], shape_of(heads)[2])
        at = e.equalled(node.index(e, 3, shape_of(cos)[0]), steps, "the positions")
        e.require("equal", shape_of(cos)[0], shape_of(sin)[0], "rows of cosines and sines")
        cos, sin = e(graph.take, cos, at, axis=0), e(graph.take, sin, at, axis=0)
    else:
        cos = e.equalled(cos, (shape_of(heads)[0], shape_of(heads)[2], shape_of(cos)[-1]), "the cosines")
    sin = e.equalled(sin, shape_of(cos), "the sines")
    half = exact_div(turned, 2)
    if half is None:
        raise node.error(f"the rotated width must be even, got {turned}")
    if shape_of(cos)[-1] != exact_div(size, 2):  # of all features, some of which are left as they are
        e.require("equal", shape_of(cos)[-1], half, "columns of cosines and sines")
    cos, sin = e.slice(cos, -1, 0, half), e.slice(sin, -1, 0, half)
    out = rotate(e, heads, cos, sin, interleaved=bool(node.attr_int("interleaved", 0)))
    return e.reshape(e.permute(out, (0, 2, 1, 3)), shape_of(x)) if flat else out


def rotate(e: Emitter, x: Value, cos: Value, sin: Value, *, interleaved: bool) -> Value:
    """Turn pairs of the first features of x [B, H, S, D] by angles whose cos and sin are [B or 1, S, pairs].

    Pairs are neighbours where they are interleaved, else a feature of the first half and one of the second.
    """
    size, half = shape_of(x)[3], shape_of(cos)[2]
    turned = 2 * half
    cos, sin = e.unsqueeze(cos, 1), e.unsqueeze(sin, 1)
    front, rest = e.slice(x, 3, 0, turned), e.slice(x, 3, turned, size - turned) if turned != size else None
    if interleaved:
        a, b = e.slice(front, 3, 0, half, 2), e.slice(front, 3, 1, half, 2)
    else:
        a, b = e.split(front, (half, half), 3)
    real = e.map(graph.sub, e.map(graph.mul, a, cos), e.map(graph.mul, b, sin))
    imaginary = e.map(graph.add, e.map(graph.mul, a, sin), e.map(graph.mul, b, cos))
    if interleaved:
        pairs = e.concat([e.unsqueeze(real, -1), e.unsqueeze(imaginary, -1)], 4)
        out = e.reshape(pairs, shape_of(front))
    else:
        out = e.concat([real, imaginary], 3)
    return e.concat([out, rest], 3) if rest is not None else out
