"""Classifiers of `ai.onnx.ml` that give texts, or Platt's probabilities: what is compiled, and what Python does behind.

Owns rewriting them, when a model is loaded. A classifier of numbers is followed by what makes texts of these, one of
margins by what makes probabilities of these (`python_ops/ml.py`); each goes by the classifier's name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
from onnx import helper

from graphfuse.errors import Loc, VerifyError
from graphfuse.frontends.onnx.node import attributes_of
from graphfuse.frontends.onnx.protos import set_items, subgraphs

ML, OWN = "ai.onnx.ml", "graphfuse"
INTS = {
    "LinearClassifier": "classlabels_ints",
    "SVMClassifier": "classlabels_ints",
    "TreeEnsembleClassifier": "classlabels_int64s",
}


def split_classifiers(graph: onnx.GraphProto, file: str) -> None:
    """Rewrite the classifiers of a graph and of those inside it, in place. `file` is for errors."""
    nodes: list[onnx.NodeProto] = []
    for n in graph.node:
        for g in subgraphs(n):
            split_classifiers(g, file)
        nodes += _split(n, file) if n.domain == ML and n.op_type in INTS else (n,)
    if len(nodes) > len(graph.node):
        set_items(graph.node, nodes)


def _split(node: onnx.NodeProto, file: str) -> Iterator[onnx.NodeProto]:
    """The classifier, and what follows it."""
    given, (label, scores) = attributes_of(node), node.output
    behind: list[onnx.NodeProto] = []

    def put(op: str, x: str, y: str, domain: str = ML, **attributes: Any) -> None:
        behind.append(helper.make_node(op, [x], [y], node.name, domain=domain, **attributes))

    if texts := given.pop("classlabels_strings", None):
        given[INTS[node.op_type]] = numbers = list(range(len(texts)))
        put("LabelEncoder", number := f"{label}/number", label, keys_int64s=numbers, values_strings=texts)
        label = number
    if given.get("vectors_per_class") and given.get("prob_a"):
        classes, kind = len(given["vectors_per_class"]), given.pop("post_transform", b"NONE")
        a, b, pairs = given.pop("prob_a"), given.pop("prob_b", []), classes * (classes - 1) // 2
        if not len(a) == len(b) == pairs:
            message = f"{node.op_type}: prob_a and prob_b: expected {pairs}, found {len(a)} and {len(b)}"
            raise VerifyError(message, Loc(file, node=node.name or node.op_type))
        each = np.eye(classes).reshape(-1).tolist()
        margins, pure = f"{scores}/margins", f"{scores}/pure"
        put(node.op_type, margins, pure, OWN, classes=classes, prob_a=a, prob_b=b)
        put("LinearRegressor", pure, scores, targets=classes, coefficients=each, post_transform=kind)
        scores = margins
    if behind:
        node.CopyFrom(helper.make_node(node.op_type, node.input, [label, scores], node.name, domain=ML, **given))
    yield node
    yield from behind
