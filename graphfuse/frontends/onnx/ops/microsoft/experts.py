"""Mixtures of experts."""

from __future__ import annotations

import math

from graphfuse.dialects import graph
from graphfuse.frontends.compositions import gelu_of, silu_of, softmax_of
from graphfuse.frontends.emit import Emitter, shape_of, tensor
from graphfuse.frontends.groups import Tiles, tiles_of
from graphfuse.frontends.onnx.node import MICROSOFT, Node, one_of, onnx_op
from graphfuse.ir.core import Value
from graphfuse.ir.types import I32
from graphfuse.symbolic import exact_div, product, static


@onnx_op("MoE", domain=MICROSOFT)
def moe(e: Emitter, node: Node, x: Value, scores: Value) -> Value:
    """Sums of the k best experts' outputs, weighted by softmax of the router's scores."""
    if node.attr_int("use_sparse_mixer", 0):
        raise node.unsupported("use_sparse_mixer must be 0, got 1")
    shape, k = shape_of(x), node.attr_int("k", 1)
    count = product(shape[:-1])
    best, experts = _routing(e, node, scores, k)
    tiles = tiles_of(e, e.flatten(experts), static(shape_of(scores)[1]), count)
    tokens = e.reshape(x, (count, shape[-1]))
    rows = e(graph.take, tokens, e.divide(tiles.row, k), axis=0)
    inner = _activated(e, node, tiles, _expert(e, node, tiles, rows, 2), rows)
    out = _expert(e, node, tiles, inner, 4)
    places = e.reshape(tiles.place, (count, k))
    weighted = [
        e.map(graph.mul, tiles.of_rows(e, out, e.squeeze(e.slice(places, 1, i, 1), 1)), e.slice(best, 1, i, 1))
        for i in range(k)
    ]
    return e.reshape(e.fold(graph.add, weighted), shape)


def _expert(e: Emitter, node: Node, tiles: Tiles, x: Value, i: int) -> Value:
    """The products of tiles with their experts' weights of input `i`, plus their biases: [tiles, height, features]."""
    weights = node.value(e, i)
    y = tiles.contract(e, x, weights, "tmd,tfd->tmf")
    bias = node.optional(e, i + 1)
    if bias is None:
        return y
    experts, features, _ = shape_of(weights)
    return e.map(graph.add, y, tiles.of_group(e, e.equalled(bias, (experts, features), "the bias")))


def _activated(e: Emitter, node: Node, tiles: Tiles, x: Value, rows: Value) -> Value:
    kind = node.attr_str("activation_type", "relu")
    if kind == "swiglu":
        return _swiglu(e, node, tiles, x, rows)
    one_of("activation_type", kind, ("relu", "gelu", "silu", "swiglu", "identity"), node.unsupported)
    if kind == "relu":
        x = e.map(graph.max_, x, 0.0)
    elif kind == "gelu":
        x = gelu_of(e, x, by_tanh=True)  # as ONNX Runtime's kernels have it
    elif kind == "silu":
        x = silu_of(e, x)
    return e.map(graph.mul, x, _expert(e, node, tiles, rows, 6)) if node.has(6) else x


def _swiglu(e: Emitter, node: Node, tiles: Tiles, x: Value, rows: Value) -> Value:
    """G * sigmoid(alpha * G) * (L + beta), G and L clamped; both in x, interleaved or one after the other."""
    fusion, rank = node.attr_int("swiglu_fusion", 0), tensor(x).rank
    if fusion == 0:
        gate, linear = x, _expert(e, node, tiles, rows, 6)
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


def _routing(e: Emitter, node: Node, scores: Value, k: int) -> tuple[Value, Value]:
    """The weights of the k best experts of each token, and which they are, [tokens, k] of i32."""
    best, experts = e.op(graph.topk, softmax_of(e, scores, 1), k=k, axis=1, largest=True).results
    if node.attr_int("normalize_routing_weights", 0):
        best = e.map(graph.div, best, e.reduce(best, "sum", [1]))
    return best, e.cast(experts, I32)
