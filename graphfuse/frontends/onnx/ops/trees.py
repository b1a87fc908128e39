"""Ensembles of decision trees, compiled: all rows walk all trees at once, one question of every tree per step.

What a node asks is looked up in tables of constants; leaves lead to themselves, so that short paths wait for long ones.
"""

from __future__ import annotations

import numpy as np

from graphfuse.dialects import graph
from graphfuse.frontends.emit import Emitter, elem_of, shape_of
from graphfuse.frontends.host_values import Array
from graphfuse.frontends.onnx.forest import AGGREGATES, MEMBER, TRANSFORMS, Forest, read_ensemble, read_trees
from graphfuse.frontends.onnx.node import Node, onnx_op
from graphfuse.frontends.onnx.ops.control import loop_of
from graphfuse.frontends.onnx.ops.ml import (
    chosen_label,
    highest,
    labels_of,
    rows_of,
    score_transform,
    transform_of,
    two_scores,
)
from graphfuse.frontends.onnx.python_ops.call import call_of
from graphfuse.ir.core import Value
from graphfuse.ir.dense import numpy_dtype
from graphfuse.ir.types import F32, F64, I64

ML = "ai.onnx.ml"
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
