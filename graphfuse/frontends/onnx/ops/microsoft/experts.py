"""Mixtures of experts."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from graphfuse.dialects import graph
from graphfuse.frontends.compositions import gelu_of, silu_of, softmax_of
from graphfuse.frontends.emit import Emitter, elem_of, shape_of, tensor
from graphfuse.frontends.groups import Tiles, tiles_of
from graphfuse.frontends.onnx.node import MICROSOFT, Node, one_of, onnx_op
from graphfuse.frontends.onnx.ops.microsoft.contract import unpacked
from graphfuse.ir.core import Value
from graphfuse.ir.types import F32, I32, scalar
from graphfuse.symbolic import ceildiv, exact_div, product, static


@dataclass(frozen=True, slots=True)
class _Experts:
    """The products of a node's experts, numbered from 1, each of `each` inputs: weights come first, a bias last."""

    e: Emitter
    node: Node
    each: int = 2

    def first(self, number: int) -> int:
        """The input that has the weights of a product."""
        return 2 + (number - 1) * self.each

    @property
    def count(self) -> int:
        """How many experts the scores are of."""
        count = self.node.type(1).shape[-1]
        if not isinstance(count, int):
            raise self.node.unsupported(f"the number of experts must be known, got {self.node.type(1)}")
        return count

    def weights(self, number: int) -> Value:
        """Those of a product: [experts, features, width]."""
        return self.node.value(self.e, self.first(number))

    def product(self, tiles: Tiles, x: Value, number: int) -> Value:
        """Tiles [tiles, height, width] times their experts' weights, plus their biases: [tiles, height, features]."""
        e, weights = self.e, self.weights(number)
        e.require("equal", shape_of(weights)[0], self.count, "the experts that have weights")
        y = tiles.contract(e, x, weights, "tmd,tfd->tmf")
        bias = self.node.optional(e, self.first(number) + self.each - 1)
        if bias is None:
            return y
        return e.map(graph.add, y, tiles.of_group(e, e.equalled(bias, shape_of(weights)[:2], "the bias")))


class _QuantisedExperts(_Experts):
    """Those of integers [experts, features, bytes], with scales of rows, or of blocks along them."""

    def weights(self, number: int) -> Value:
        """(code - zero point) * scale, in the element of the tokens."""
        e, node, first = self.e, self.node, self.first(number)
        bits = node.attr_int(f"fc{number}_expert_weight_bits", node.attr_int("expert_weight_bits", 4))
        if bits not in (2, 4, 8):
            raise node.unsupported(f"expert_weight_bits must be 2, 4 or 8, got {bits}")
        packed = node.constant(first, "weights")
        if packed.dtype != np.uint8 or packed.ndim != 3:
            raise node.error(f"expected weights [experts, features, bytes] in u8, got {node.type(first)}")
        experts, features, width = (codes := unpacked(packed, bits)).shape
        block = node.attr_int("block_size", 0)
        if block < 0 or (block and width % block):
            raise node.error(f"expected a block_size that divides {width} elements, got {block}")
        blocks = width // block if block else 1
        shape = (experts, features, blocks) if block else (experts, features)

        def spread(v: Value) -> Value:
            apart = e.reshape(v, (experts, features, blocks, 1))
            wide = e.broadcast(apart, (experts, features, blocks, width // blocks))
            return e.reshape(wide, (experts, features, width))

        integers = e.cast(e.constant(codes), I32)
        if node.has(10 + number):
            zeros = unpacked(node.constant(10 + number, "zero points"), bits)
            if zeros.ndim != len(shape) or zeros.shape[:-1] != shape[:-1] or zeros.shape[-1] < shape[-1]:
                raise node.error(f"expected zero points {list(shape)} of {bits} bits, got {node.type(10 + number)}")
            points = spread(e.constant(zeros[..., : shape[-1]].astype(np.int32)))
        else:
            points = e.full((), I32, 1 << (bits - 1))
        scale = spread(e.wide(e.equalled(node.value(e, first + 1), shape, "the scales")))
        floats = e.cast(e.map(graph.sub, integers, points), F32)
        return e.cast(e.map(graph.mul, floats, scale), node.type(0).elem)


class _Fp8Experts(_Experts):
    """Those of f8e4m3 [experts, features, width], with scales of square blocks, the last of which may be cut off."""

    def weights(self, number: int) -> Value:
        """Weight * scale, in the element of the tokens."""
        e, node, first = self.e, self.node, self.first(number)
        w, block = node.value(e, first), node.attr_int("block_size", 0)
        if elem_of(w) != scalar("f8e4m3") or block <= 0:
            raise node.unsupported(f"fp8 needs weights in f8e4m3 and a block_size, got {w.type} and {block}")
        experts, *sizes = shape_of(w)
        wanted = experts, *(ceildiv(d, block) for d in sizes)
        scale = e.wide(e.equalled(node.value(e, first + 1), wanted, "the scales"))
        for axis, size in enumerate(sizes, 1):
            numbers = np.arange(static(size)) // block
            scale = e(graph.take, scale, e.constant(numbers), axis=axis)
        return e.cast(e.map(graph.mul, e.cast(w, F32), scale), node.type(0).elem)


QUANTISED = {"int": _QuantisedExperts, "fp8": _Fp8Experts}


@onnx_op("MoE", domain=MICROSOFT)
def moe(e: Emitter, node: Node, x: Value, scores: Value) -> Value:
    """Sums of the k best experts' outputs, weighted by softmax of the router's scores."""
    return _mixture(_Experts(e, node), x, scores, None)


@onnx_op("QMoE", domain=MICROSOFT)
def qmoe(e: Emitter, node: Node, x: Value, scores: Value) -> Value:
    """The same of experts whose weights are integers of 2, 4 or 8 bits, or fp8; what they weigh may be given apart."""
    kind = node.attr_str("quant_type", "int")
    one_of("quant_type", kind, tuple(QUANTISED), node.unsupported)
    if node.attr_int("weights_prepacked", -1) == 1:
        raise node.unsupported("weights_prepacked must be 0 or -1, weights as they are quantised, got 1")
    return _mixture(QUANTISED[kind](e, node, 3), x, scores, node.optional(e, 14))


def _mixture(experts: _Experts, x: Value, scores: Value, weighed: Value | None) -> Value:
    """Sums of what the best experts by `scores` make of tokens x [.., width]; `weighed`: what they weigh, if given."""
    e, node = experts.e, experts.node
    for name in ("use_sparse_mixer", "swiglu_limit_after_activation"):
        if node.attr_int(name, 0):
            raise node.unsupported(f"{name} must be 0, got 1")
    shape, k = shape_of(x), node.attr_int("k", 1)
    count = product(shape[:-1])
    if k < 1:
        raise node.error(f"k must be at least 1, got {k}")
    scores = e.equalled(scores, (count, experts.count), "the scores")
    best, chosen = _routing(e, node, scores, k, weighed)
    tiles = tiles_of(e, e.flatten(chosen), experts.count, count)
    tokens = e.reshape(x, (count, shape[-1]))
    rows = e(graph.take, tokens, e.divide(tiles.row, k), axis=0)
    inner = _activated(experts, tiles, experts.product(tiles, rows, 1), rows)
    out = experts.product(tiles, inner, 2)
    places = e.reshape(tiles.place, (count, k))
    each = [
        e.map(graph.mul, e.wide(tiles.of_rows(e, out, e.squeeze(e.slice(places, 1, i, 1), 1))), e.slice(best, 1, i, 1))
        for i in range(k)
    ]
    return e.reshape(e.cast(e.fold(graph.add, each), elem_of(x)), shape)


def _activated(experts: _Experts, tiles: Tiles, x: Value, rows: Value) -> Value:
    e, node = experts.e, experts.node
    kind = node.attr_str("activation_type", "relu")
    if kind == "swiglu":
        return _swiglu(experts, tiles, x, rows)
    one_of("activation_type", kind, ("relu", "gelu", "silu", "swiglu", "identity"), node.unsupported)
    if kind == "relu":
        x = e.map(graph.max_, x, 0.0)
    elif kind == "gelu":
        x = gelu_of(e, x, by_tanh=True)  # as ONNX Runtime's kernels have it
    elif kind == "silu":
        x = silu_of(e, x)
    return e.map(graph.mul, x, experts.product(tiles, rows, 3)) if node.has(experts.first(3)) else x


def _swiglu(experts: _Experts, tiles: Tiles, x: Value, rows: Value) -> Value:
    """G * sigmoid(alpha * G) * (L + beta), G and L clamped; both in x, interleaved or one after the other."""
    e, node = experts.e, experts.node
    fusion, rank = node.attr_int("swiglu_fusion", 0), tensor(x).rank
    if fusion == 0:
        gate, linear = x, experts.product(tiles, rows, 3)
    else:
        half = exact_div(shape_of(x)[-1], 2)
        if half is None or fusion not in (1, 2):
            raise node.error(f"swiglu_fusion must be 0, 1 or 2 of an even width, got {fusion} of {shape_of(x)[-1]}")
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


def _routing(e: Emitter, node: Node, scores: Value, k: int, weighed: Value | None) -> tuple[Value, Value]:
    """What the k best experts of each token weigh, in f32 at least, and which they are, [tokens, k] of i32."""
    best, experts = e.op(graph.topk, softmax_of(e, e.wide(scores), 1), k=k, axis=1, largest=True).results
    if weighed is not None:
        best = e(
            graph.take_along, e.wide(e.equalled(weighed, shape_of(scores), "the router's weights")), experts, axis=1
        )
    if node.attr_int("normalize_routing_weights", 0):
        best = e.map(graph.div, best, e.reduce(best, "sum", [1]))
    return best, e.cast(experts, I32)
