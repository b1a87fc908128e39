"""What the classifiers of `ai.onnx.ml` make of scores: a transform of them, a second class, and the label.

The specification leaves open how one score becomes two classes; these are ONNX Runtime's rules.
"""

from __future__ import annotations

import numpy as np

from graphfuse.dialects import graph
from graphfuse.frontends.compositions import softmax_of
from graphfuse.frontends.emit import Emitter, shape_of, tensor
from graphfuse.frontends.host_values import Array
from graphfuse.frontends.normal import ndtri
from graphfuse.frontends.onnx.forest import TRANSFORMS
from graphfuse.frontends.onnx.node import Node
from graphfuse.frontends.onnx.split_classifiers import INTS
from graphfuse.frontends.terms import Term
from graphfuse.ir.core import Value
from graphfuse.ir.types import I64
from graphfuse.symbolic import static


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
