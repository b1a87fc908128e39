"""Operators of `ai.onnx.ml` that are arithmetic on tensors."""

from __future__ import annotations

import math

import numpy as np

from graphfuse.dialects import graph
from graphfuse.frontends.emit import Emitter, elem_of, shape_of, tensor
from graphfuse.frontends.host_values import greater
from graphfuse.frontends.onnx.node import Node, onnx_op
from graphfuse.frontends.onnx.ops.scores import chosen_label, score_transform, transform_of, two_scores
from graphfuse.ir.core import Value
from graphfuse.ir.dense import numpy_dtype
from graphfuse.ir.types import F32, I64

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
    picked = e(graph.take, x, e.flatten(node.index(e, 1, shape_of(x)[-1], from_end=False)), axis=tensor(x).rank - 1)
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


def _linear(e: Emitter, node: Node, count: int) -> Value:
    """x times the coefficients of each of `count` targets, plus its intercept."""
    x = _floats(e, node.value(e, 0))
    weights = np.array(node.attributes["coefficients"], dtype=np.float32)
    if count < 1 or weights.size % count:
        raise node.error(f"{weights.size} coefficients cannot be of {count} targets")
    x = x if tensor(x).rank > 1 else e.unsqueeze(x, 0)
    y = e.contract(x, e.constant(weights.reshape(count, -1)), "nc,tc->nt")
    if "intercepts" in node.attributes:
        y = e.map(graph.add, y, e.constant(np.array(node.attributes["intercepts"], dtype=np.float32)))
    return y


@onnx_op("LinearRegressor", domain=ML)
def linear_regressor(e: Emitter, node: Node) -> Value:
    """A linear function of each target, transformed."""
    return score_transform(e, node, transform_of(node), _linear(e, node, node.attr_int("targets", 1)))


@onnx_op("LinearClassifier", domain=ML)
def linear_classifier(e: Emitter, node: Node) -> tuple[Value, Value]:
    """The class of the highest score, and the scores. One score is the second class's."""
    labels, kind = node.attributes.get("classlabels_ints"), transform_of(node)
    if not labels or "intercepts" not in node.attributes:
        raise node.unsupported("texts as labels, and models without intercepts, are not compiled")
    scores = _linear(e, node, len(node.attributes["intercepts"]))
    if shape_of(scores)[1] == 1:
        second = e.squeeze(scores, 1)
        winner = e.cast(e.map(graph.gt, second, 0.0), I64)
        return chosen_label(e, labels, winner), two_scores(e, node, kind, second, mirrored=False)
    winner = e.squeeze(e(graph.arg_reduce, scores, axis=1, kind="max", keepdims=True), 1)
    return chosen_label(e, labels, winner), score_transform(e, node, kind, scores)


@onnx_op("SVMRegressor", domain=ML)
def svm_regressor(e: Emitter, node: Node) -> Value:
    """The kernel with each support vector, weighted and summed; a linear model where there are none."""
    x = _floats(e, node.value(e, 0))
    x = x if tensor(x).rank > 1 else e.unsqueeze(x, 0)
    weights = np.array(node.attributes["coefficients"], dtype=np.float32)
    if count := node.attr_int("n_supports", 0):
        vectors = np.array(node.attributes["support_vectors"], dtype=np.float32)
        if weights.size != count or vectors.size % count:
            raise node.error(f"{weights.size} coefficients and {vectors.size} numbers cannot be of {count} vectors")
        values = _svm_kernel(e, node, x, e.constant(vectors.reshape(count, -1)))
    else:
        values = x
    y = e.contract(values, e.constant(weights[None]), "nc,tc->nt")
    y = e.map(graph.add, y, float(node.attributes.get("rho", [0.0])[0]))
    if node.attr_int("one_class", 0):
        y = e.select(e.map(graph.gt, y, 0.0), e.full(shape_of(y), F32, 1.0), -1.0)
    return score_transform(e, node, transform_of(node), y)


def _svm_kernel(e: Emitter, node: Node, x: Value, vectors: Value) -> Value:
    """The kernel of every row with every vector, [rows, vectors]."""
    kind = node.attr_str("kernel_type", "LINEAR")
    gamma, coef0, degree = [*map(float, node.attributes.get("kernel_params", [])), 0.0, 0.0, 0.0][:3]
    if kind == "RBF":
        e.require("equal", shape_of(x)[1], shape_of(vectors)[1], "features")
        apart = e.map(graph.sub, e.unsqueeze(x, 1), e.unsqueeze(vectors, 0))
        squares = e.reduce(e.map(graph.mul, apart, apart), "sum", (2,), keepdims=False)
        return e.map(graph.exp, e.map(graph.mul, squares, -gamma))
    products = e.contract(x, vectors, "nc,vc->nv")
    if kind == "LINEAR":
        return products
    if kind not in ("POLY", "SIGMOID"):
        raise node.error(f"kernel_type: expected LINEAR, POLY, RBF or SIGMOID, found {kind}")
    scaled = e.map(graph.add, e.map(graph.mul, products, gamma), coef0)
    return e.map(graph.pow_, scaled, degree) if kind == "POLY" else e.map(graph.tanh, scaled)


@onnx_op("OneHotEncoder", domain=ML)
def one_hot_encoder(e: Emitter, node: Node) -> Value:
    """A new last axis with 1 at the category that an element is, a float being the integer it is cast to."""
    if not node.attributes.get("cats_int64s") or not node.attr_int("zeros", 1):
        raise node.unsupported("texts, and the check that every element is a category, are not compiled")
    x = e.unsqueeze(node.value(e, 0), -1)
    categories = np.array(node.attributes["cats_int64s"], dtype=np.int64)
    return e.cast(e.map(graph.eq, e.cast(x, I64), e.constant(categories)), F32)


@onnx_op("FeatureVectorizer", domain=ML)
def feature_vectorizer(e: Emitter, node: Node) -> Value:
    """Matrices side by side, each cut or filled with zeros to the width that is said."""
    xs = [_floats(e, v) for v in node.values(e)]
    xs = [x if tensor(x).rank > 1 else e.unsqueeze(x, 0) for x in xs]
    for i, width in enumerate(node.attr_ints("inputdimensions", ())[: len(xs)]):
        missing = greater(width - shape_of(xs[i])[1], 0, e.ranges)
        xs[i] = e.slice(e.pad(xs[i], 1, 0, missing), 1, 0, width)
    return e.concat(xs, 1)
