"""Attention, as the composition that fusion recognises, and its gradient.

torch's operators also return the logarithm of each row's sum, for the gradient, which stores what scores become. On a
CPU that is faster than torch's kernels, on a GPU where scores are few.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from graphfuse.dialects import graph
from graphfuse.frontends.emit import Emitter, elem_of, shape_of
from graphfuse.frontends.fx.lowering import Arguments, Call, Results, lowers, wide_elem
from graphfuse.ir.core import Value
from graphfuse.ir.types import BOOL
from graphfuse.symbolic import product, static

aten = torch.ops.aten
FEW_KEYS, FEW_SCORES = 128, 3 << 17
"""Queries and keys, and scores in all, up to which launches are what an attention and its gradient take on a GPU:
`benchmarks.population --seed 760986079 --numbers 78,163` has two of them, whose torch kernels take 22 and 25 us on an
H100. Of 8 images, 12 heads and 77 keys torch's were faster."""
SCORES, VALUES, KEYS = "bhqd,bhkd->bhqk", "bhqk,bhkd->bhqd", "bhqk,bhqd->bhkd"


@dataclass(frozen=True, slots=True)
class Attention(Arguments):
    """softmax(scale * query key' + mask) value; not every operator has a mask."""

    query: Value
    key: Value
    value: Value
    dropout_p: float = 0.0
    is_causal: bool = False
    attn_mask: Value | None = None
    scale: float | None = None

    @property
    def factor(self) -> float:
        """What products are multiplied by."""
        return 1 / math.sqrt(static(shape_of(self.query)[-1])) if self.scale is None else float(self.scale)

    def check(self, c: Call) -> None:
        """Decline what is not compiled."""
        c.want(self.dropout_p == 0.0, "attention with dropout")
        c.want(all(len(shape_of(x)) == 4 for x in (self.query, self.key)), "attention without a dim of heads")
        heads, *shared = (shape_of(x)[1] for x in (self.query, self.key, self.value))
        c.want(all(isinstance(h, int) and h > 0 for h in (heads, *shared)), "the number of heads is not known")
        c.want(all(static(heads) % static(h) == 0 for h in shared), f"{heads} query heads share {shared[0]} of keys")
        c.want(isinstance(shape_of(self.query)[-1], int), "the size of a head is not known")

    def check_square(self, c: Call) -> None:
        """Decline causal attention of which operators for a GPU differ."""
        is_square = shape_of(self.query)[2] == shape_of(self.key)[2]
        c.want(not self.is_causal or is_square, "causal attention of fewer queries than keys")

    @property
    def is_short(self) -> bool:
        """Whether there are so few scores that a gradient may store them on a GPU."""
        sizes = (*shape_of(self.query)[:3], shape_of(self.key)[2])
        if not all(isinstance(d, int) for d in sizes) or max(map(static, sizes[2:])) > FEW_KEYS:
            return False
        return static(product(sizes)) <= FEW_SCORES

    def for_each(self, e: Emitter, shared: Value) -> Value:
        """Keys or values, which several query heads may share, for each of these."""
        return e.repeat(shared, 1, static(shape_of(self.query)[1]) // static(shape_of(shared)[1]))

    def scores(self, e: Emitter) -> Value:
        """The masked scores, wide."""
        wide, mask = wide_elem(elem_of(self.query)), self.attn_mask
        out = e.map(graph.mul, e.contract(self.query, self.for_each(e, self.key), SCORES, wide), self.factor)
        if mask is not None:
            is_bool = elem_of(mask) == BOOL
            out = e.select(mask, out, -math.inf) if is_bool else e.map(graph.add, out, e.cast(mask, wide))
        if self.is_causal:
            queries, keys = shape_of(self.query)[2], shape_of(self.key)[2]
            seen = e.map(graph.le, e.iota((1, 1, 1, keys), 3), e.iota((1, 1, queries, 1), 2))
            out = e.select(seen, out, -math.inf)
        return out

    def attended(self, c: Call) -> tuple[Value, Value | None]:
        """The result; and, where it is read, the logarithm of the sums, [B, H, Q, 1]."""
        e = c.e
        scores = self.scores(e)
        high = e.reduce(scores, "max", [3])
        powers = e(graph.exp, e.map(graph.sub, scores, high))
        total = e.reduce(powers, "sum", [3])
        weights = e.map(graph.div, powers, total)
        if self.attn_mask is not None:  # a row without any key is 0 / 0; torch's kernels have 0 there
            weights = e.select(e.map(graph.eq, high, -math.inf), 0.0, weights)
        out = e.contract(e.cast(weights, elem_of(self.query)), self.for_each(e, self.value), VALUES)
        return out, e(graph.add, e(graph.log, total), high) if any(c.wanted[1:2]) else None

    def gradients(self, e: Emitter, grad_out: Value, out: Value, logsumexp: Value) -> tuple[Value, ...]:
        """Of query, key, value and scores, which are wide; `logsumexp` is [B, H, Q, 1]."""
        elem = elem_of(self.query)
        wide, scores = wide_elem(elem), self.scores(e)
        weights = e(graph.exp, e.map(graph.sub, scores, e.cast(logsumexp, wide)))
        if self.attn_mask is not None:
            weights = e.select(e.map(graph.eq, scores, -math.inf), 0.0, weights)
        grad_weights = e.contract(grad_out, self.for_each(e, self.value), SCORES, wide)
        along = e.reduce(e(graph.mul, e.cast(grad_out, wide), e.cast(out, wide)), "sum", [3])
        steep = e(graph.mul, weights, e.map(graph.sub, grad_weights, along))
        slope = e.cast(e.map(graph.mul, steep, self.factor), elem)
        return (
            e.contract(slope, self.for_each(e, self.key), VALUES),
            e.contract(self.by_shared(e, slope), self.by_shared(e, self.query), KEYS),
            e.contract(self.by_shared(e, e.cast(weights, elem)), self.by_shared(e, grad_out), KEYS),
            steep,
        )

    def by_shared(self, e: Emitter, x: Value) -> Value:
        """With the rows of all query heads that share keys as rows of one."""
        batch, heads, rows, last = shape_of(x)
        shared = static(shape_of(self.key)[1])
        return e.reshape(x, (batch, shared, static(heads) // shared * rows, last))


@torch.library.custom_op(
    "graphfuse::attention",
    mutates_args=(),
    schema="(Tensor query, Tensor key, Tensor value, Tensor? attn_mask, bool is_causal, float? scale) -> Tensor",
)
def whole_attention(query: Any, key: Any, value: Any, attn_mask: Any, is_causal: bool, scale: float | None) -> Any:
    """`scaled_dot_product_attention` without a gradient as one operator, whatever torch has kernels for.

    Of queries [B, H, Q, D], keys [B, G, K, D] and values [B, G, K, V]: [B, H, Q, V].
    """
    function = torch.nn.functional.scaled_dot_product_attention
    out = function(query, key, value, attn_mask, 0.0, is_causal, scale=scale, enable_gqa=True)
    return out.contiguous()


@whole_attention.register_fake
def _of_whole_attention(query: Any, key: Any, value: Any, *_: Any) -> Any:
    return query.new_empty((*query.shape[:-1], value.shape[-1]))


WHOLE_ATTENTION: Any = torch.ops.graphfuse.attention.default


@lowers(WHOLE_ATTENTION)
def lower_whole_attention(c: Call, a: Attention) -> Results:
    a.check(c)
    return a.attended(c)[0]


@lowers(aten._scaled_dot_product_flash_attention_for_cpu.default)
def flash_attention_for_cpu(c: Call, a: Attention) -> Results:
    a.check(c)
    out, sums = a.attended(c)
    want = c.outs[1]
    assert want is not None
    return out, c.e.cast(c.e.reshape(sums, want.shape), want.elem) if sums else None


@lowers(aten._scaled_dot_product_flash_attention_for_cpu_backward.default)
def flash_attention_for_cpu_backward(c: Call, grad_out: Value, a: Attention, out: Value, logsumexp: Value) -> Results:
    a.check(c)
    c.want(shape_of(a.query)[1] == shape_of(a.key)[1] == shape_of(a.value)[1], "the gradient of keys that heads share")
    return a.gradients(c.e, grad_out, out, c.e.unsqueeze(logsumexp, 3))[:3]


@lowers(
    aten._scaled_dot_product_efficient_attention.default, aten._scaled_dot_product_flash_attention.default,
    aten._scaled_dot_product_cudnn_attention.default,
)  # fmt: skip
def attention_on_a_gpu(
    c: Call, a: Attention, attn_bias: Value | None = None, compute_log_sumexp: bool = False,
    return_debug_mask: bool = False,
) -> Results:  # fmt: skip
    """Where nothing but the result is read, or its gradient is computed here: torch's own kernels keep more for it."""
    a.check(c)
    a.check_square(c)
    a = replace(a, attn_mask=attn_bias)
    if not any(c.wanted[1:]):
        out, _ = a.attended(c)
        return out, *(None for _ in c.outs[1:])
    c.want(a.is_short, "its gradient is torch's")
    out, sums = a.attended(c)
    want, *others = c.outs[1:]
    if sums is not None and want is not None:
        rows = static(shape_of(sums)[2])
        more = static(product(want.shape)) // static(product(shape_of(sums)[:2])) - rows  # to a multiple, in some
        sums = c.e.reshape(c.e.cast(c.e.pad(sums, 2, 0, more), want.elem), want.shape)
    # seeds of a dropout that there is not
    seeds = (c.e.full(t.shape, t.elem, 0) if t and c.wanted[i] else None for i, t in enumerate(others, 2))
    return out, sums, *seeds


@lowers(aten._scaled_dot_product_efficient_attention_backward.default)
def efficient_attention_backward(
    c: Call, grad_out_: Value, a: Attention, out: Value, logsumexp: Value, attn_bias: Value | None,
    grad_input_mask: Sequence[bool], **_: Any,
) -> Results:  # fmt: skip
    *found, scores = short_gradients(c, grad_out_, replace(a, attn_mask=attn_bias), out, logsumexp)
    want = c.outs[3] if grad_input_mask[3] else None
    c.want(want is None or want.shape == shape_of(scores), "the gradient of a bias that heads or batches share")
    return *found, None if want is None else c.e.cast(scores, want.elem)


@lowers(aten._scaled_dot_product_cudnn_attention_backward.default)
def cudnn_attention_backward(
    c: Call, grad_out: Value, a: Attention, out: Value, logsumexp: Value, attn_bias: Value | None, **_: Any
) -> Results:
    return short_gradients(c, grad_out, replace(a, attn_mask=attn_bias), out, logsumexp)[:3]


@lowers(aten._scaled_dot_product_flash_attention_backward.default)
def flash_attention_backward(c: Call, grad_out: Value, a: Attention, out: Value, logsumexp: Value, **_: Any) -> Results:
    return short_gradients(c, grad_out, a, out, logsumexp)[:3]


def short_gradients(c: Call, grad_out: Value, a: Attention, out: Value, logsumexp: Value) -> tuple[Value, ...]:
    """Where few scores are stored."""
    a.check(c)
    a.check_square(c)
    c.want(a.is_short, "the gradient of an attention of many keys")
    batch, heads, queries, _ = shape_of(a.query)
    sums = c.e.reshape(logsumexp, (batch, heads, static(product(shape_of(logsumexp)[2:])), 1))
    return a.gradients(c.e, grad_out, out, c.e.slice(sums, 2, 0, queries))
