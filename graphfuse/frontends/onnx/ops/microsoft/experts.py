"""Mixtures of experts."""

from __future__ import annotations

import math

from graphfuse.dialects import graph
from graphfuse.frontends.compositions import gelu_of, silu_of, softmax_of
from graphfuse.frontends.emit import Emitter, elem_of, shape_of, tensor
from graphfuse.frontends.onnx.node import MICROSOFT, Node, one_of, onnx_op
from graphfuse.ir.core import Value
from graphfuse.symbolic import exact_div, product


@onnx_op("MoE", domain=MICROSOFT)
def moe(e: Emitter, node: Node, x: Value, scores: Value) -> Value:
    """Sums of the k best experts' outputs, weighted by softmax of the router's scores.

    Every expert computes every token: the weights of those that were not chosen are 0.
    """
    if node.attr_int("use_sparse_mixer", 0):
        raise node.unsupported("use_sparse_mixer must be 0, got 1")
    shape = shape_of(x)
    tokens = e.reshape(x, (product(shape[:-1]), shape[-1]))
    inner = _activated(e, node, _expert(e, node, tokens, 2, "td,efd->etf"), tokens)
    out = _expert(e, node, inner, 4, "etf,edf->etd")
    return e.reshape(e.contract(_routing(e, node, scores), out, "te,etd->td"), shape)


def _expert(e: Emitter, node: Node, x: Value, i: int, spec: str) -> Value:
    """All experts' products with the weights of input `i`, plus their biases, as [experts, tokens, features]."""
    y = e.contract(x, node.value(e, i), spec)
    bias = node.optional(e, i + 1)
    if bias is None:
        return y
    experts, _, features = shape_of(y)
    return e.map(graph.add, y, e.unsqueeze(e.equalled(bias, (experts, features), "the bias"), 1))


def _activated(e: Emitter, node: Node, x: Value, tokens: Value) -> Value:
    kind = node.attr_str("activation_type", "relu")
    if kind == "swiglu":
        return _swiglu(e, node, x, tokens)
    one_of("activation_type", kind, ("relu", "gelu", "silu", "swiglu", "identity"), node.unsupported)
    if kind == "relu":
        x = e.map(graph.max_, x, 0.0)
    elif kind == "gelu":
        x = gelu_of(e, x, by_tanh=True)  # as ONNX Runtime's kernels have it
    elif kind == "silu":
        x = silu_of(e, x)
    return e.map(graph.mul, x, _expert(e, node, tokens, 6, "td,efd->etf")) if node.has(6) else x


def _swiglu(e: Emitter, node: Node, x: Value, tokens: Value) -> Value:
    """G * sigmoid(alpha * G) * (L + beta), G and L clamped; both in x, interleaved or one after the other."""
    fusion, rank = node.attr_int("swiglu_fusion", 0), tensor(x).rank
    if fusion == 0:
        gate, linear = x, _expert(e, node, tokens, 6, "td,efd->etf")
    else:
        half = exact_div(shape_of(x)[-1], 2)
        if half is None or fusion not in (1, 2):
            raise node.error(f"swiglu_fusion must be 0, 1 or 2 of an even width, got {fusion} of {x.type}")
        if fusion == 1:
            gate, linear = e.slice(x, rank - 1, 0, half, 2), e.slice(x, rank - 1, 1, half, 2)
        else:
            gate, linear = e.split(x, (half, half), rank - 1)
    if math.isfinite(limit := node.attr_float("swiglu_limit", math.inf)):
        gate = e.map(graph.min_, gate, limit)
        linear = e.map(graph.min_, e.map(graph.max_, linear, -limit), limit)
    alpha, beta = node.attr_float("activation_alpha", 1.0), node.attr_float("activation_beta", 0.0)
    gated = e.map(graph.mul, gate, e.map(graph.sigmoid, e.map(graph.mul, gate, alpha)))
    return e.map(graph.mul, gated, e.map(graph.add, linear, beta))


def _routing(e: Emitter, node: Node, scores: Value) -> Value:
    """What each expert counts for each token: its softmax weight if it is among the k best, else 0."""
    best = e.op(graph.topk, softmax_of(e, scores, 1), k=node.attr_int("k", 1), axis=1, largest=True)
    chosen = best.results[0]
    if node.attr_int("normalize_routing_weights", 0):
        chosen = e.map(graph.div, chosen, e.reduce(chosen, "sum", [1]))
    none = e.full(shape_of(scores), elem_of(scores), 0.0)
    return e(graph.scatter_along, none, best.results[1], chosen, axis=1)
