"""Operators of `ai.onnx.ml` that are arithmetic on tensors, ensembles of trees among them, and give f32.

The specification leaves open how one score becomes two classes; these are ONNX Runtime's rules.
"""

from __future__ import annotations

import math

import numpy as np

from graphfuse.dialects import graph
from graphfuse.frontends.compositions import softmax_of
from graphfuse.frontends.emit import Emitter, elem_of, shape_of, tensor
from graphfuse.frontends.host_values import Array, greater
from graphfuse.frontends.normal import ndtri
from graphfuse.frontends.onnx.forest import AGGREGATES, MEMBER, TRANSFORMS, Forest, read_ensemble, read_trees
from graphfuse.frontends.onnx.node import Node, onnx_op
from graphfuse.frontends.onnx.ops.control import loop_of
from graphfuse.frontends.onnx.ops.reduce import lp_norm
from graphfuse.frontends.onnx.python_ops.call import call_of
from graphfuse.frontends.onnx.split_classifiers import INTS
from graphfuse.frontends.terms import Term
from graphfuse.ir.core import Value
from graphfuse.ir.dense import numpy_dtype
from graphfuse.ir.types import F32, F64, I64
from graphfuse.symbolic import Dim, static

ML = "ai.onnx.ml"


@onnx_op("Binarizer", domain=ML)
def binarizer(e: Emitter, node: Node, x: Value) -> Value:
    """1 above a threshold, else 0."""
    threshold = node.attr_float("threshold", 0.0)
    above = e.map(graph.gt, x, threshold if elem_of(x).is_float else int(threshold))
    return e.cast(above, elem_of(x))


@onnx_op("ArrayFeatureExtractor", domain=ML)
def array_feature_extractor(e: Emitter, node: Node, x: Value) -> Value:
    """Elements of the last axis, by index."""
    picked = e(graph.take, x, e.flatten(node.index(e, 1, shape_of(x)[-1], from_end=False)), axis=tensor(x).rank - 1)
    return picked if tensor(x).rank > 1 else e.reshape(picked, (1, *shape_of(picked)))


def _per_feature(e: Emitter, node: Node, name: str, x: Value) -> Value:
    """An attribute of floats as a row: one for each feature, or one for all."""
    numbers = np.array(node.attributes[name], dtype=np.float32)
    features = shape_of(x)[-1] if tensor(x).rank else 1
    if numbers.size != 1 and numbers.size != features:
        raise node.error(f"{name}: expected 1 or {features} numbers, found {numbers.size}")
    return e.constant(numbers)


@onnx_op("Scaler", domain=ML)
def scaler(e: Emitter, node: Node, x: Value) -> Value:
    """(x - offset) * scale, by feature."""
    out = e.cast(x, F32)
    if "offset" in node.attributes:
        out = e.map(graph.sub, out, _per_feature(e, node, "offset", x))
    return e.map(graph.mul, out, _per_feature(e, node, "scale", x)) if "scale" in node.attributes else out


@onnx_op("Imputer", domain=ML)
def imputer(e: Emitter, node: Node, x: Value) -> Value:
    """Another value, by feature, for the one that stands for a missing one (NaN, too)."""
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
    x = e.cast(node.value(e, 0), F32)
    last = (tensor(x).rank - 1,)
    kind = node.attr_choice("norm", "MAX", "L1", "L2")
    if kind == "MAX":
        norm = e.reduce(x, "max", last)
    else:
        norm = lp_norm(e, x, 1 if kind == "L1" else 2, lambda v: e.reduce(v, "sum", last))
    return e.map(graph.div, x, e.select(e.map(graph.eq, norm, 0.0), 1.0, norm))


def _linear(e: Emitter, node: Node, count: int = 0) -> Value:
    """x times the coefficients of each of `count` targets (0: of as many as there are), plus its intercept."""
    x = e.cast(rows_of(e, node), F32)
    features = shape_of(x)[1]
    if not count:
        if not isinstance(features, int):
            raise node.unknown_dim("the number of features must be known at compile time")
        count = max(_numbers(node, "coefficients").size // max(features, 1), 1)
    y = e.contract(x, e.constant(_rows(node, "coefficients", count, features)), "nc,tc->nt")
    if (given := _numbers(node, "intercepts")).size not in (0, count):
        raise node.error(f"intercepts: expected {count}, found {given.size}")
    return e.map(graph.add, y, e.constant(given)) if given.size else y


def _numbers(node: Node, name: str) -> Array:
    """An attribute of floats; nothing if it is left out."""
    return np.array(node.attributes.get(name, []), dtype=np.float32)


def _rows(node: Node, name: str, count: int, features: Dim) -> Array:
    """An attribute of floats as `count` rows of as many numbers."""
    given = _numbers(node, name)
    if count < 1 or given.size % count or (isinstance(features, int) and given.size != count * features):
        raise node.error(f"{name}: expected {count} rows of {features}, found {given.size} numbers")
    return given.reshape(count, -1)


@onnx_op("LinearRegressor", domain=ML)
def linear_regressor(e: Emitter, node: Node) -> Value:
    """A linear function of each target, transformed."""
    return score_transform(e, transform_of(node), _linear(e, node, node.attr_int("targets", 1)))


@onnx_op("LinearClassifier", domain=ML)
def linear_classifier(e: Emitter, node: Node) -> tuple[Value, Value]:
    """The class of the highest score, and the scores. One score is the second class's."""
    return classified(e, node, _linear(e, node, len(node.attributes.get("intercepts", []))), mirrored=False)


@onnx_op("SVMRegressor", domain=ML)
def svm_regressor(e: Emitter, node: Node) -> Value:
    """The kernel with each support vector, weighted and summed; a linear model where there are none."""
    if count := node.attr_int("n_supports", 0):
        values = _svm_kernel(e, node, count)
        y = e.contract(values, e.constant(_rows(node, "coefficients", 1, count)), "nc,tc->nt")
    else:
        y = _linear(e, node, 1)
    y = e.map(graph.add, y, _first_rho(node))
    if node.attr_int("one_class", 0):
        y = e.select(e.map(graph.gt, y, 0.0), e.full(shape_of(y), F32, 1.0), -1.0)
    return score_transform(e, transform_of(node), y)


def _first_rho(node: Node) -> float:
    return float((*_numbers(node, "rho"), 0.0)[0])


@onnx_op("SVMClassifier", domain=ML)
def svm_classifier(e: Emitter, node: Node) -> tuple[Value, Value]:
    """The class with most votes of the machines for two classes each, and their margins.

    Coefficients of each class may be in place of support vectors. Probabilities are made of the margins by what the
    loader puts behind (`split_classifiers.py`).
    """
    per_class = node.attr_ints("vectors_per_class", ())
    if not per_class:
        return classified(e, node, e.map(graph.add, _linear(e, node), _first_rho(node)), mirrored=True)
    classes, total, rho, kind = len(per_class), sum(per_class), _numbers(node, "rho"), transform_of(node)
    if classes < 2 or min(per_class) < 0 or not total:
        raise node.error(f"vectors_per_class: expected at least two counts, found {list(per_class)}")
    if rho.size != (pairs := classes * (classes - 1) // 2):
        raise node.error(f"rho: expected {pairs}, found {rho.size}")
    weights, values = _rows(node, "coefficients", classes - 1, total), _svm_kernel(e, node, total)
    node.check_table("the weights of the machines", pairs, total)
    first, second = np.triu_indices(classes, 1)
    class_of = np.repeat(np.arange(classes), per_class)
    of_second = np.where(class_of == second[:, None], weights[first], np.float32(0))
    machines = np.where(class_of == first[:, None], weights[second - 1], of_second)
    margins = e.map(graph.add, e.contract(values, e.constant(machines), "nv,pv->np"), e.constant(rho))
    # a machine votes for its first class in place of its second
    each = np.eye(classes, dtype=np.float32)
    moved = e.contract(e.cast(e.map(graph.gt, margins, 0.0), F32), e.constant(each[first] - each[second]), "np,pc->nc")
    label = chosen_label(e, node, highest(e, e.map(graph.add, moved, e.constant(each[second].sum(0)))), classes)
    if pairs > 1:
        return label, score_transform(e, kind, margins)
    # the margin is the first class's, the score that of the second
    return label, two_scores(e, kind, e.squeeze(margins, 1), mirrored=not kind.startswith("SOFTMAX"))


def _svm_kernel(e: Emitter, node: Node, count: int) -> Value:
    """The kernel of every row with every one of `count` support vectors, [rows, count]."""
    x = e.cast(rows_of(e, node), F32)
    vectors = e.constant(_rows(node, "support_vectors", count, shape_of(x)[1]))
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
    xs = [e.cast(v, F32) for v in node.values(e)]
    xs = [x if tensor(x).rank > 1 else e.unsqueeze(x, 0) for x in xs]
    for i, width in enumerate(node.attr_ints("inputdimensions", ())[: len(xs)]):
        missing = greater(width - shape_of(xs[i])[1], 0, e.ranges)
        xs[i] = e.slice(e.pad(xs[i], 1, 0, missing), 1, 0, width)
    return e.concat(xs, 1)


# what classifiers make of scores: a transform of them, a second class, and the label


def rows_of(e: Emitter, node: Node) -> Value:
    """Input 0 as rows of features."""
    x = node.value(e, 0)
    if tensor(x).rank not in (1, 2):
        raise node.error(f"input 0: expected one or two dims, found {tensor(x).rank}")
    return x if tensor(x).rank > 1 else e.unsqueeze(x, 0)


def transform_of(node: Node) -> str:
    """The attribute `post_transform`, by name."""
    kind = node.attr_str("post_transform", "NONE")
    if kind not in TRANSFORMS:
        raise node.error(f"post_transform: expected one of {', '.join(TRANSFORMS)}, found {kind}")
    return kind


def score_transform(e: Emitter, kind: str, scores: Value) -> Value:
    """Scores [rows, targets] after a transform: softmax over the targets, the others one by one."""
    if kind == "PROBIT":
        return ndtri(Term(e, scores)).value
    if kind == "LOGISTIC":
        return e.map(graph.sigmoid, scores)
    if kind == "SOFTMAX":
        return softmax_of(e, scores, 1)
    if kind == "SOFTMAX_ZERO":
        powers = e.map(graph.exp, e.map(graph.sub, scores, e.reduce(scores, "max", (1,))))
        powers = e.select(e.map(graph.ne, scores, 0.0), powers, 0.0)
        total = e.reduce(powers, "sum", (1,))
        return e.map(graph.div, powers, e.select(e.map(graph.eq, total, 0.0), 1.0, total))
    return scores


def two_scores(e: Emitter, kind: str, second: Value, *, mirrored: bool) -> Value:
    """The scores of two classes for that of the second, [rows]: its complement to 1, or its negative."""
    if mirrored:
        pair = e.concat([e.unsqueeze(e.map(graph.neg, second), 1), e.unsqueeze(second, 1)], 1)
        return e.map(graph.sigmoid, pair) if kind == "LOGISTIC" else pair
    second = score_transform(e, kind, second) if kind in ("LOGISTIC", "PROBIT") else second
    first = e.map(graph.add, e.map(graph.neg, second), 1.0)
    return e.concat([e.unsqueeze(first, 1), e.unsqueeze(second, 1)], 1)


def highest(e: Emitter, scores: Value) -> Value:
    """The first class with the highest score, of each row."""
    return e.squeeze(e(graph.arg_reduce, scores, axis=1, kind="max", keepdims=True), 1)


def labels_of(node: Node, classes: int = 1) -> Array:
    """The numbers that the classes are called: at least as many as there are classes."""
    name = INTS[node.op]
    labels = np.array(node.attributes.get(name, []), dtype=np.int64)
    if not labels.size:
        raise node.error(f"attribute {name} or classlabels_strings is missing")
    if len(labels) < classes:
        raise node.error(f"expected a label for each of {classes} classes, found {len(labels)}")
    return labels


def chosen_label(e: Emitter, node: Node, winner: Value, classes: int) -> Value:
    """The label of each row's class."""
    return e(graph.take, e.constant(labels_of(node, classes)), winner, axis=0)


def classified(e: Emitter, node: Node, scores: Value, *, mirrored: bool) -> tuple[Value, Value]:
    """The label of the highest score, and the scores transformed. One score is the second class's."""
    kind, classes = transform_of(node), static(shape_of(scores)[1])
    if classes == 1:
        second = e.squeeze(scores, 1)
        winner = e.cast(e.map(graph.gt, second, 0.0), I64)
        return chosen_label(e, node, winner, 2), two_scores(e, kind, second, mirrored=mirrored)
    return chosen_label(e, node, highest(e, scores), classes), score_transform(e, kind, scores)


# ensembles of decision trees: all rows walk all trees at once, one question of every tree per step. What a node asks is
# looked up in tables of constants; leaves lead to themselves, so that short paths wait for long ones


MOST_STEPS = 64
"""Questions on a path that are unrolled: each is a few kernels. More are a loop."""

_ASK = (graph.le, graph.lt, graph.ge, graph.gt, graph.eq, graph.ne)


@onnx_op("TreeEnsemble", domain=ML)
def tree_ensemble(e: Emitter, node: Node) -> Value:
    """The weights of the leaves that each row reaches, combined by target."""
    combine, kind = node.attr_int("aggregate_function", 1), node.attr_int("post_transform", 0)
    if not 0 <= combine < len(AGGREGATES) or not 0 <= kind < len(TRANSFORMS):
        raise node.error(f"unknown aggregate_function {combine} or post_transform {kind}")
    out = _combined(e, node, _read(node, "", 0), AGGREGATES[combine])
    return e.cast(score_transform(e, TRANSFORMS[kind], out), node.type(0).elem)


@onnx_op("TreeEnsembleRegressor", domain=ML)
def tree_ensemble_regressor(e: Emitter, node: Node) -> Value:
    """The same, for trees in the older form."""
    combine = node.attr_str("aggregate_function", "SUM")
    if combine not in AGGREGATES:
        raise node.error(f"aggregate_function: expected one of {', '.join(AGGREGATES)}, found {combine}")
    targets = node.attr_int("n_targets", 1)
    out = _combined(e, node, _read(node, "target", targets), combine)
    out = _with_base(e, node, out, targets)
    return e.cast(score_transform(e, transform_of(node), out), F32)


@onnx_op("TreeEnsembleClassifier", domain=ML)
def tree_ensemble_classifier(e: Emitter, node: Node) -> tuple[Value, Value]:
    """The class of the highest sum of weights, and the sums. One class's weights are the second's."""
    classes, kind = len(labels_of(node)), transform_of(node)
    forest = _read(node, "class", classes)
    scores = _combined(e, node, forest, "SUM")
    if classes == 2 and len(np.unique(forest.target)) == 1:
        which = int(forest.target[0])
        second = e.squeeze(e.slice(_with_base(e, node, scores, 2, last=True), 1, which, 1), 1)
        is_probability = bool((forest.weight >= 0).all())
        winner = e.cast(e.map(graph.gt, second, 0.5 if is_probability else 0.0), I64)
        pair = two_scores(e, kind, second, mirrored=not is_probability)
        if which:  # the first class has a score, too: nothing
            pair = score_transform(e, kind, _with_base(e, node, scores, 2))
    else:
        scores = _with_base(e, node, scores, classes)
        winner, pair = highest(e, scores), score_transform(e, kind, scores)
    return chosen_label(e, node, winner, classes), e.cast(pair, F32)


def _read(node: Node, what: str, targets: int) -> Forest:
    """The trees of the node's attributes."""
    call = call_of(node.proto, (), node.loc)
    try:
        return read_trees(call.get, what, targets) if what else read_ensemble(call.get)
    except ValueError as e:
        raise node.error(str(e)) from None


def _with_base(e: Emitter, node: Node, out: Value, count: int, *, last: bool = False) -> Value:
    """Plus what each target starts with; the last of these for all, on request."""
    get = call_of(node.proto, (), node.loc).get
    tensor = get("base_values_as_tensor")
    given = np.array(get("base_values", []) if tensor is None else tensor, numpy_dtype(elem_of(out))).reshape(-1)
    if given.size not in (0, 1, count):
        raise node.error(f"base_values: expected {count}, found {given.size}")
    return e.map(graph.add, out, e.constant(given[-1:] if last else given)) if given.any() else out


def _combined(e: Emitter, node: Node, forest: Forest, combine: str) -> Value:
    """What the leaves of each row add up to, [rows, targets], in the type that the trees are compared in."""
    x = rows_of(e, node)
    rows, features = shape_of(x)
    if isinstance(features, int) and forest.feature.size and forest.feature.max() >= features:
        raise node.error(f"nodes_featureids: expected 0..{features - 1}, found {forest.feature.max()}")
    if forest.feature.size:
        e.require("at_most", int(forest.feature.max()) + 1, features, "features that the trees ask for")
    elem = F64 if elem_of(x) == F64 or forest.split.dtype == np.float64 else F32
    x = e.cast(x, elem)
    node.check_table("the weights of the leaves", len(forest.mode), max(forest.targets, 1))
    try:
        depth = forest.depth
    except ValueError as error:
        raise node.error(str(error)) from None
    trees = len(forest.roots)
    at = e.broadcast(e.constant(forest.roots.astype(np.int64)), (rows, trees))
    if depth > MOST_STEPS:
        (at,) = loop_of(e, depth, [at], lambda _, carried: [_step(e, forest, x, *carried)])
        depth = 0
    for _ in range(depth):
        at = _step(e, forest, x, at)
    table = forest.table(combine).astype(numpy_dtype(elem))
    weights = e(graph.take, e.constant(table), at, axis=0)
    kind = {"MIN": "min", "MAX": "max"}.get(combine, "sum")
    out = e.reduce(weights, kind, (1,), keepdims=False)
    if kind != "sum":  # no leaf of that target
        return e.select(e.map(graph.isinf, out), 0.0, out)
    return e.map(graph.div, out, float(trees)) if combine == "AVERAGE" else out


def _step(e: Emitter, forest: Forest, x: Value, at: Value) -> Value:
    """The next node of each row in each tree."""

    def of(table: Array) -> Value:
        return e(graph.take, e.constant(table), at, axis=0)

    split = forest.split.astype(numpy_dtype(elem_of(x)))
    value = e(graph.take_along, x, of(forest.feature.astype(np.int64)), axis=1)
    asked = [int(m) for m in np.unique(forest.mode) if m < len(_ASK)]
    answers = [(m, e.map(_ASK[m], value, of(split))) for m in asked]
    if forest.sets.size:
        sets = e.constant(forest.sets.astype(split.dtype))
        members = e(graph.take, sets, of(np.maximum(np.cumsum(forest.mode == MEMBER) - 1, 0)), axis=0)
        is_one = e.map(graph.eq, e.unsqueeze(value, 2), members)
        answers.append((MEMBER, e.reduce(is_one, "any", (2,), keepdims=False)))
    mode = of(forest.mode.astype(np.int64))
    yes = answers[0][1]
    for m, answer in answers[1:]:
        yes = e.select(e.map(graph.eq, mode, m), answer, yes)
    if forest.nan_is_yes.any():
        yes = e.map(graph.or_, yes, e.map(graph.and_, e.map(graph.isnan, value), of(forest.nan_is_yes)))
    return e.select(yes, of(forest.yes.astype(np.int64)), of(forest.no.astype(np.int64)))
