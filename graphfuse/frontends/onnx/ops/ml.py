"""Operators of `ai.onnx.ml` that are arithmetic on tensors."""

from __future__ import annotations

import math

import numpy as np

from graphfuse.dialects import graph
from graphfuse.frontends.emit import Emitter, elem_of, shape_of, tensor
from graphfuse.frontends.onnx.node import Node, onnx_op
from graphfuse.ir.core import Value
from graphfuse.ir.dense import numpy_dtype
from graphfuse.ir.types import F32

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


def _per_feature(e: Emitter, node: Node, name: str, x: Value) -> Value:
    """An attribute of floats as a row: one for each feature, or one for all."""
    numbers = np.array(node.attributes[name], dtype=np.float32)
    features = shape_of(x)[-1] if tensor(x).rank else 1
    if numbers.size != 1 and numbers.size != features:
        raise node.error(f"{name}: expected 1 or {features} numbers, found {numbers.size}")
    return e.constant(numbers)


def _floats(e: Emitter, x: Value) -> Value:
    """As f32, which is what these operators give."""
    return e.cast(x, F32)


@onnx_op("Scaler", domain=ML)
def scaler(e: Emitter, node: Node) -> Value:
    """(x - offset) * scale, by feature."""
    x = node.value(e, 0)
    out = _floats(e, x)
    if "offset" in node.attributes:
        out = e.map(graph.sub, out, _per_feature(e, node, "offset", x))
    return e.map(graph.mul, out, _per_feature(e, node, "scale", x)) if "scale" in node.attributes else out


@onnx_op("Imputer", domain=ML)
def imputer(e: Emitter, node: Node) -> Value:
    """Another value, by feature, for the one that stands for a missing one (NaN, too)."""
    x = node.value(e, 0)
    kind = "floats" if elem_of(x).is_float else "int64s"
    missing = node.attributes.get(f"replaced_value_{kind.removesuffix('s')}", 0)
    given = np.array(node.attributes.get(f"imputed_value_{kind}", []))
    if given.size != 1 and given.size != shape_of(x)[-1]:
        raise node.error(f"imputed_value_{kind}: expected 1 or {shape_of(x)[-1]} numbers, found {given.size}")
    is_missing = e.map(graph.isnan, x) if math.isnan(missing) else e.map(graph.eq, x, missing)
    return e.select(is_missing, e.broadcast(e.constant(given.astype(numpy_dtype(elem_of(x)))), shape_of(x)), x)


@onnx_op("Normalizer", domain=ML)
def normalizer(e: Emitter, node: Node) -> Value:
    """Rows divided by their largest element, or by their L1 or L2 norm; rows of norm 0 stay."""
    x = _floats(e, node.value(e, 0))
    last = (tensor(x).rank - 1,)
    kind = node.attr_str("norm", "MAX")
    if kind == "MAX":
        norm = e.reduce(x, "max", last)
    elif kind == "L1":
        norm = e.reduce(e.map(graph.abs_, x), "sum", last)
    elif kind == "L2":
        norm = e.map(graph.sqrt, e.reduce(e.map(graph.mul, x, x), "sum", last))
    else:
        raise node.error(f"norm must be MAX, L1 or L2, got {kind}")
    return e.map(graph.div, x, e.select(e.map(graph.eq, norm, 0.0), 1.0, norm))


@onnx_op("LinearRegressor", domain=ML)
def linear_regressor(e: Emitter, node: Node) -> Value:
    """x times the coefficients of each target, plus its intercept."""
    if (transform := node.attr_str("post_transform", "NONE")) != "NONE":
        raise node.unsupported(f"post_transform {transform} is not supported")
    x = _floats(e, node.value(e, 0))
    targets, weights = node.attr_int("targets", 1), np.array(node.attributes["coefficients"], dtype=np.float32)
    if targets < 1 or weights.size % targets:
        raise node.error(f"{weights.size} coefficients cannot be of {targets} targets")
    x = x if tensor(x).rank > 1 else e.unsqueeze(x, 0)
    y = e.contract(x, e.constant(weights.reshape(targets, -1)), "nc,tc->nt")
    if "intercepts" in node.attributes:
        y = e.map(graph.add, y, e.constant(np.array(node.attributes["intercepts"], dtype=np.float32)))
    return y


@onnx_op("FeatureVectorizer", domain=ML)
def feature_vectorizer(e: Emitter, node: Node) -> Value:
    """Matrices side by side."""
    xs = [_floats(e, v) for v in node.values(e)]
    return e.concat([x if tensor(x).rank > 1 else e.unsqueeze(x, 0) for x in xs], 1)
