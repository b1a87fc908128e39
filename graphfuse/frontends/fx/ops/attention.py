"""Attention, as the composition that fusion recognises, and its gradient.

torch's operators also return the logarithm of each row's sum, for the gradient. Where that is read, the scores are
stored: no kernel of ours returns both. On a CPU that is still faster than torch's kernels, on a GPU it is not tried.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch

from graphfuse.dialects import graph
from graphfuse.frontends.emit import Emitter, elem_of, shape_of
from graphfuse.frontends.fx.lowering import Arguments, Call, Results, lowers, wide_elem
from graphfuse.ir.core import Value
from graphfuse.ir.types import BOOL
from graphfuse.symbolic import static

aten = torch.ops.aten
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
        return out, e(graph.add, e(graph.log, total), high) if c.wanted[1] else None


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
    e, elem = c.e, elem_of(a.query)
    wide, scores = wide_elem(elem), a.scores(e)
    weights = e(graph.exp, e.map(graph.sub, scores, e.cast(e.unsqueeze(logsumexp, 3), wide)))
    if a.attn_mask is not None:
        weights = e.select(e.map(graph.eq, scores, -math.inf), 0.0, weights)
    grad_weights = e.contract(grad_out, a.value, SCORES, wide)
    along = e.reduce(e(graph.mul, e.cast(grad_out, wide), e.cast(out, wide)), "sum", [3])
    slope = e(graph.mul, weights, e.map(graph.sub, grad_weights, along))
    slope = e.cast(e.map(graph.mul, slope, a.factor), elem)
    return (
        e.contract(slope, a.key, VALUES),
        e.contract(slope, a.query, KEYS),
        e.contract(e.cast(weights, elem), grad_out, KEYS),
    )


@lowers(
    aten._scaled_dot_product_efficient_attention.default, aten._scaled_dot_product_flash_attention.default,
    aten._scaled_dot_product_cudnn_attention.default,
)  # fmt: skip
def attention_on_a_gpu(
    c: Call, a: Attention, attn_bias: Value | None = None, compute_log_sumexp: bool = False,
    return_debug_mask: bool = False,
) -> Results:  # fmt: skip
    """Where nothing but the result is read: torch's own kernels keep more for its gradient."""
    a.check(c)
    c.want(not any(c.wanted[1:]), "its gradient is torch's")
    c.want(not a.is_causal or shape_of(a.query)[2] == shape_of(a.key)[2], "causal attention of fewer queries than keys")
    out, _ = replace(a, attn_mask=attn_bias).attended(c)
    return out, *(None for _ in c.outs[1:])
