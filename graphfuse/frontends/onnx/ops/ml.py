"""Operators of `ai.onnx.ml` that are arithmetic on tensors."""

from __future__ import annotations

from graphfuse.dialects import graph
from graphfuse.frontends.emit import Emitter, elem_of, shape_of, tensor
from graphfuse.frontends.onnx.node import Node, onnx_op
from graphfuse.ir.core import Value

ML = "ai.onnx.ml"


@onnx_op("Binarizer", domain=ML)
def binarizer(e: Emitter, node: Node) -> Value:
    """1 above a threshold, else 0."""
    x = node.value(e, 0)
    threshold = node.attr_float("threshold", 0.0)
    above = e.map(graph.gt, x, threshold if elem_of(x).is_float else int(threshold))
    return e.cast(above, elem_of(x))


@onnx_op("ArrayFeatureExtractor", domain=ML)
def array_feature_extractor(e: Emitter, node: Node) -> Value:
    """Elements of the last axis, by index."""
    x = node.value(e, 0)
    picked = e(graph.take, x, e.flatten(e.indices(node.value(e, 1))), axis=tensor(x).rank - 1)
    return picked if tensor(x).rank > 1 else e.reshape(picked, (1, *shape_of(picked)))
