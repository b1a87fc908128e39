"""What distances between tokens add to the scores of attention."""

from __future__ import annotations

import math

import numpy as np

from graphfuse.dialects import graph
from graphfuse.frontends.emit import Emitter, elem_of, shape_of
from graphfuse.frontends.host_values import Array
from graphfuse.frontends.onnx.node import MICROSOFT, Node, onnx_op
from graphfuse.frontends.onnx.ops.attention import with_heads
from graphfuse.frontends.onnx.ops.microsoft.attention import refuse
from graphfuse.ir.core import Value
from graphfuse.ir.types import I64
from graphfuse.symbolic import exact_div


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
