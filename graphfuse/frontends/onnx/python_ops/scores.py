"""What the classifiers of `ai.onnx.ml` make of scores: a transform of them, a second class, and the label.

The specification leaves open how one score becomes two classes; these are ONNX Runtime's rules.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import Any

import numpy as np

from graphfuse.frontends.host_values import Array
from graphfuse.frontends.onnx.forest import TRANSFORMS
from graphfuse.frontends.onnx.python_ops.call import Call, strings


def logistic(x: Array) -> Array:
    """1 / (1 + exp(-x))."""
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x))


def _probit(p: float) -> float:
    if 0 < p < 1:
        return NormalDist().inv_cdf(p)
    return {0.0: -np.inf, 1.0: np.inf}.get(p, np.nan)


def transform_of(c: Call) -> str:
    """The attribute `post_transform`, which `TreeEnsemble` has as a number."""
    kind = c.get("post_transform", "NONE")
    if isinstance(kind, int):
        kind = TRANSFORMS[_number_of_transform(c, kind)]
    if kind not in TRANSFORMS:
        raise c.error(f"post_transform: expected one of {', '.join(TRANSFORMS)}, found {kind}")
    return kind


def _number_of_transform(c: Call, kind: int) -> int:
    """`TreeEnsemble` counts NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO, PROBIT."""
    if not 0 <= kind < len(TRANSFORMS):
        raise c.error(f"post_transform: expected 0..{len(TRANSFORMS) - 1}, found {kind}")
    return kind


def transformed(kind: str, scores: Array) -> Array:
    """Scores [rows, targets] after the transform: softmax over the targets, the others one by one."""
    if kind == "LOGISTIC":
        return logistic(scores)
    if kind == "PROBIT":
        return np.vectorize(_probit, otypes=[np.float64])(scores)
    if kind in ("SOFTMAX", "SOFTMAX_ZERO"):
        on = np.ones_like(scores, dtype=bool) if kind == "SOFTMAX" else scores != 0
        powers = np.where(on, np.exp(scores - scores.max(-1, keepdims=True)), 0)
        return powers / np.maximum(powers.sum(-1, keepdims=True), np.finfo(np.float64).tiny)
    return scores


def two_of_one(kind: str, score: Array, *, mirrored: bool) -> Array:
    """The scores of two classes for that of the second, [rows]: its complement to 1, or its negative."""
    if mirrored:
        pair = np.stack([-score, score], -1)
        return logistic(pair) if kind == "LOGISTIC" else pair
    positive = transformed(kind, score) if kind in ("LOGISTIC", "PROBIT") else score
    return np.stack([1 - positive, positive], -1)


def class_labels(c: Call, ints: str) -> Array:
    """The labels of the classes: the attribute `ints`, or texts."""
    if texts := c.get("classlabels_strings"):
        return strings(texts, (len(texts),))
    numbers = c.get(ints)
    if not numbers:
        raise c.error(f"attribute {ints} or classlabels_strings is missing")
    return np.array(numbers, dtype=np.int64)


def chosen(c: Call, labels: Array, winner: Array) -> Array:
    """The label of each row's class."""
    if winner.size and winner.max() >= len(labels):
        raise c.error(f"expected a label for each of {int(winner.max()) + 1} classes, found {len(labels)}")
    return np.asarray(labels[winner], dtype=labels.dtype)


def rows_of(c: Call, dtype: Any = np.float64) -> Array:
    """Input 0 as rows of features."""
    x = c.array(0)
    if x.ndim not in (1, 2):
        raise c.error(f"input 0: expected one or two dims, found {x.ndim}")
    return np.atleast_2d(x).astype(dtype)
