"""Attention, as the composition that fusion recognises, and its gradient.

torch's operators also return the logarithm of each row's sum, for the gradient. Where that is read, the scores are
stored: no kernel of ours returns both. On a CPU that is still faster than torch's kernels, on a GPU it is not tried.
"""

from __future__ import annotations

import math

import torch

from graphfuse.dialects import graph
from graphfuse.frontends.emit import elem_of, shape_of
from graphfuse.frontends.fx.lowering import Call, Results, lowers
from graphfuse.frontends.fx.ops.arithmetic import wide_elem
from graphfuse.ir.core import Value
from graphfuse.ir.types import BOOL

aten = torch.ops.aten
SCORES, VALUES, KEYS = "bhqd,bhkd->bhqk", "bhqk,bhkd->bhqd", "bhqk,bhqd->bhkd"


def _checked(c: Call, q: Value, k: Value, dropout_p: float) -> None:
    c.want(dropout_p == 0.0, "attention with dropout")
    c.want(all(len(shape_of(x)) == 4 for x in (q, k)), "attention without a dim of heads")
    c.want(shape_of(q)[1] == shape_of(k)[1], "query heads share keys")
    c.want(isinstance(shape_of(q)[-1], int), "the size of a head is not known")


def _scores(
    c: Call, q: Value, k: Value, mask: Value | None, *, is_causal: bool, scale: float | None
) -> tuple[Value, float]:
    """The masked scores, wide, and the scale they have."""
    e, width = c.e, shape_of(q)[-1]
    assert isinstance(width, int)
    wide = wide_elem(elem_of(q))
    factor = 1 / math.sqrt(width) if scale is None else float(scale)
    out = e.map(graph.mul, e.contract(q, k, SCORES, wide), factor)
    if mask is not None:
        is_bool = elem_of(mask) == BOOL
        out = e.select(mask, out, -math.inf) if is_bool else e.map(graph.add, out, e.cast(mask, wide))
    if is_causal:
        queries, keys = shape_of(q)[2], shape_of(k)[2]
        seen = e.map(graph.le, e.iota((1, 1, 1, keys), 3), e.iota((1, 1, queries, 1), 2))
        out = e.select(seen, out, -math.inf)
    return out, factor


def _attended(
    c: Call, q: Value, k: Value, v: Value, mask: Value | None, *, is_causal: bool, scale: float | None
) -> tuple[Value, Value | None]:
    """softmax(scale * q k' + mask) v; and, where it is read, the logarithm of the sums, [B, H, Q, 1]."""
    e = c.e
    scores, _ = _scores(c, q, k, mask, is_causal=is_causal, scale=scale)
    high = e.reduce(scores, "max", [3])
    powers = e(graph.exp, e.map(graph.sub, scores, high))
    total = e.reduce(powers, "sum", [3])
    weights = e.map(graph.div, powers, total)
    if mask is not None:  # a row without any key is 0 / 0; torch's kernels have 0 there
        weights = e.select(e.map(graph.eq, high, -math.inf), 0.0, weights)
    out = e.contract(e.cast(weights, elem_of(q)), v, VALUES)
    if not c.wanted[1]:
        return out, None
    return out, e(graph.add, e(graph.log, total), high)


@lowers(aten._scaled_dot_product_flash_attention_for_cpu.default)
def flash_attention_for_cpu(
    c: Call, query: Value, key: Value, value: Value, dropout_p: float = 0.0, is_causal: bool = False,
    attn_mask: Value | None = None, scale: float | None = None,
) -> Results:  # fmt: skip
    _checked(c, query, key, dropout_p)
    out, sums = _attended(c, query, key, value, attn_mask, is_causal=is_causal, scale=scale)
    want = c.outs[1]
    assert want is not None
    return out, c.e.cast(c.e.reshape(sums, want.shape), want.elem) if sums else None


@lowers(aten._scaled_dot_product_flash_attention_for_cpu_backward.default)
def flash_attention_for_cpu_backward(
    c: Call, grad_out: Value, query: Value, key: Value, value: Value, out: Value, logsumexp: Value, dropout_p: float,
    is_causal: bool, attn_mask: Value | None = None, scale: float | None = None,
) -> Results:  # fmt: skip
    _checked(c, query, key, dropout_p)
    e, elem = c.e, elem_of(query)
    wide = wide_elem(elem)
    scores, factor = _scores(c, query, key, attn_mask, is_causal=is_causal, scale=scale)
    weights = e(graph.exp, e.map(graph.sub, scores, e.cast(e.unsqueeze(logsumexp, 3), wide)))
    if attn_mask is not None:
        weights = e.select(e.map(graph.eq, scores, -math.inf), 0.0, weights)
    grad_weights = e.contract(grad_out, value, SCORES, wide)
    along = e.reduce(e(graph.mul, e.cast(grad_out, wide), e.cast(out, wide)), "sum", [3])
    slope = e(graph.mul, weights, e.map(graph.sub, grad_weights, along))
    slope = e.cast(e.map(graph.mul, slope, factor), elem)
    return (
        e.contract(slope, key, VALUES),
        e.contract(slope, query, KEYS),
        e.contract(e.cast(weights, elem), grad_out, KEYS),
    )


def _only_attended(
    c: Call, q: Value, k: Value, v: Value, mask: Value | None, dropout_p: float, *, is_causal: bool,
    scale: float | None,
) -> Results:  # fmt: skip
    """Attention of a GPU where nothing but the result is read: torch's own kernels keep more for its gradient."""
    _checked(c, q, k, dropout_p)
    c.want(not any(c.wanted[1:]), "its gradient is torch's")
    c.want(not is_causal or shape_of(q)[2] == shape_of(k)[2], "causal attention of fewer queries than keys")
    out, _ = _attended(c, q, k, v, mask, is_causal=is_causal, scale=scale)
    return out, *(None for _ in c.outs[1:])


@lowers(aten._scaled_dot_product_efficient_attention.default)
def efficient_attention(
    c: Call, query: Value, key: Value, value: Value, attn_bias: Value | None, compute_log_sumexp: bool,
    dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None,
) -> Results:  # fmt: skip
    return _only_attended(c, query, key, value, attn_bias, dropout_p, is_causal=is_causal, scale=scale)


@lowers(aten._scaled_dot_product_flash_attention.default)
def flash_attention(
    c: Call, query: Value, key: Value, value: Value, dropout_p: float = 0.0, is_causal: bool = False,
    return_debug_mask: bool = False, scale: float | None = None,
) -> Results:  # fmt: skip
    return _only_attended(c, query, key, value, None, dropout_p, is_causal=is_causal, scale=scale)


@lowers(aten._scaled_dot_product_cudnn_attention.default)
def cudnn_attention(
    c: Call, query: Value, key: Value, value: Value, attn_bias: Value | None, compute_log_sumexp: bool,
    dropout_p: float = 0.0, is_causal: bool = False, return_debug_mask: bool = False, scale: float | None = None,
) -> Results:  # fmt: skip
    return _only_attended(c, query, key, value, attn_bias, dropout_p, is_causal=is_causal, scale=scale)
