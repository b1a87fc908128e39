"""What the classifiers of `ai.onnx.ml` make of scores, compiled (`python_ops/scores.py` has the rules)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphfuse.dialects import graph
from graphfuse.frontends.compositions import softmax_of
from graphfuse.frontends.emit import Emitter
from graphfuse.frontends.onnx.forest import TRANSFORMS
from graphfuse.frontends.onnx.node import Node
from graphfuse.ir.core import Value


def transform_of(node: Node) -> str:
    """The attribute `post_transform`, by name."""
    kind = node.attr_str("post_transform", "NONE")
    if kind not in TRANSFORMS:
        raise node.error(f"post_transform: expected one of {', '.join(TRANSFORMS)}, found {kind}")
    return kind


def score_transform(e: Emitter, node: Node, kind: str, scores: Value) -> Value:
    """Scores [rows, targets] after a transform: softmax over the targets, the others one by one."""
    if kind == "PROBIT":
        raise node.unsupported("post_transform PROBIT is not compiled")
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


def two_scores(e: Emitter, node: Node, kind: str, second: Value, *, mirrored: bool) -> Value:
    """The scores of two classes for that of the second, [rows]: its complement to 1, or its negative."""
    if mirrored:
        pair = e.concat([e.unsqueeze(e.map(graph.neg, second), 1), e.unsqueeze(second, 1)], 1)
        return e.map(graph.sigmoid, pair) if kind == "LOGISTIC" else pair
    second = score_transform(e, node, kind, second) if kind in ("LOGISTIC", "PROBIT") else second
    first = e.map(graph.add, e.map(graph.neg, second), 1.0)
    return e.concat([e.unsqueeze(first, 1), e.unsqueeze(second, 1)], 1)


def chosen_label(e: Emitter, labels: Sequence[int], winner: Value) -> Value:
    """The label of each row's class."""
    return e(graph.take, e.constant(np.array(labels, dtype=np.int64)), winner, axis=0)
