"""`ai.onnx.ml`: linear models and support vector machines."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from graphfuse.frontends.host_values import Array
from graphfuse.frontends.onnx.python_ops.call import Call, python_op
from graphfuse.frontends.onnx.python_ops.scores import (
    chosen,
    class_labels,
    logistic,
    rows_of,
    transform_of,
    transformed,
    two_of_one,
)

ML = "ai.onnx.ml"


def _weights(c: Call, count: int, features: int) -> Array:
    weights = np.array(c.get("coefficients", []), dtype=np.float64)
    if weights.size != count * features:
        raise c.error(f"coefficients: expected {count} rows of {features}, found {weights.size} numbers")
    return weights.reshape(count, features)


def _intercepts(c: Call, count: int) -> Array:
    given = np.array(c.get("intercepts") or [0.0] * count, dtype=np.float64)
    if given.size != count:
        raise c.error(f"intercepts: expected {count}, found {given.size}")
    return given


@python_op("LinearRegressor", domain=ML)
def linear_regressor(c: Call) -> Any:
    """x times the coefficients of each target, plus its intercept, transformed."""
    x, count = rows_of(c), int(c.get("targets", 1))
    y = x @ _weights(c, count, x.shape[1]).T + _intercepts(c, count)
    return transformed(transform_of(c), y).astype(np.float32)


@python_op("LinearClassifier", domain=ML)
def linear_classifier(c: Call) -> tuple[Array, Array]:
    """The class of the highest score, and the scores. One score is the second class's."""
    x, labels = rows_of(c), class_labels(c, "classlabels_ints")
    given = len(c.get("intercepts", []))
    count = given or max(len(c.get("coefficients", [])) // max(x.shape[1], 1), 1)
    scores = x @ _weights(c, count, x.shape[1]).T + _intercepts(c, count)
    kind = transform_of(c)
    if count == 1:
        second = scores[:, 0]
        return (
            chosen(c, labels, (second > 0).astype(np.int64)),
            two_of_one(kind, second, mirrored=False).astype(np.float32),
        )
    return chosen(c, labels, np.argmax(scores, -1)), transformed(kind, scores).astype(np.float32)


# support vector machines


def _kernel(c: Call, x: Array, vectors: Array) -> Array:
    """The kernel of every row with every vector."""
    kind = c.get("kernel_type", "LINEAR")
    gamma, coef0, degree = [*c.get("kernel_params", []), 0.0, 0.0, 0.0][:3]
    if kind == "RBF":
        # one vector at a time: the differences, and not what is left of large products
        squares = np.stack([np.square(x - v).sum(-1) for v in vectors], -1)
        return np.exp(-gamma * squares)
    if kind not in ("LINEAR", "POLY", "SIGMOID"):
        raise c.error(f"kernel_type: expected LINEAR, POLY, RBF or SIGMOID, found {kind}")
    products = x @ vectors.T
    if kind == "POLY":
        return np.power(gamma * products + coef0, degree)
    return np.tanh(gamma * products + coef0) if kind == "SIGMOID" else products


def _vectors(c: Call, count: int, features: int) -> Array:
    given = np.array(c.get("support_vectors", []), dtype=np.float64)
    if given.size != count * features:
        raise c.error(f"support_vectors: expected {count} of {features} numbers, found {given.size} numbers")
    return given.reshape(count, features)


@python_op("SVMRegressor", domain=ML)
def svm_regressor(c: Call) -> Any:
    """The kernel with each support vector, weighted and summed; a linear model where there are none."""
    x, count = rows_of(c), int(c.get("n_supports", 0))
    rho = (c.get("rho") or [0.0])[0]
    if count:
        weights = np.array(c.get("coefficients", []), dtype=np.float64)
        if weights.size != count:
            raise c.error(f"coefficients: expected {count}, found {weights.size}")
        y = _kernel(c, x, _vectors(c, count, x.shape[1])) @ weights + rho
    else:
        y = (x @ _weights(c, 1, x.shape[1]).T)[:, 0] + rho
    if c.get("one_class", 0):
        y = np.where(y > 0, 1.0, -1.0)
    return transformed(transform_of(c), y[:, None]).astype(np.float32)


@python_op("SVMClassifier", domain=ML)
def svm_classifier(c: Call) -> tuple[Array, Array]:
    """The class with most votes of the machines for two classes each, and their margins, or probabilities."""
    x, labels, kind = rows_of(c), class_labels(c, "classlabels_ints"), transform_of(c)
    per_class = np.array(c.get("vectors_per_class", []), dtype=np.int64)
    if not per_class.size:
        return _linear_svm(c, x, labels, kind)
    if per_class.min() < 0 or len(per_class) < 2:
        raise c.error(f"vectors_per_class: expected at least two counts, found {per_class.tolist()}")
    pairs = list(itertools.combinations(range(len(per_class)), 2))
    margins = _margins(c, x, per_class, pairs)
    votes = np.zeros((len(x), len(per_class)))
    for k, (i, j) in enumerate(pairs):
        votes[:, i] += margins[:, k] > 0
        votes[:, j] += margins[:, k] <= 0
    winner = np.argmax(votes, -1)
    if c.get("prob_a"):
        scores = _probabilities(c, margins, pairs, len(per_class))
        return chosen(c, labels, winner), transformed(kind, scores).astype(np.float32)
    if len(pairs) == 1:
        # the margin is the first class's, the score that of the second
        mirrored = not kind.startswith("SOFTMAX")
        return chosen(c, labels, winner), two_of_one(kind, margins[:, 0], mirrored=mirrored).astype(np.float32)
    return chosen(c, labels, winner), transformed(kind, margins).astype(np.float32)


def _linear_svm(c: Call, x: Array, labels: Array, kind: str) -> tuple[Array, Array]:
    """Coefficients of each class in place of support vectors."""
    count = max(len(c.get("coefficients", [])) // max(x.shape[1], 1), 1)
    rho = (c.get("rho") or [0.0])[0]
    scores = x @ _weights(c, count, x.shape[1]).T + rho
    if count == 1:
        second = scores[:, 0]
        winner = (second > 0).astype(np.int64)
        return chosen(c, labels, winner), two_of_one(kind, second, mirrored=True).astype(np.float32)
    return chosen(c, labels, np.argmax(scores, -1)), transformed(kind, scores).astype(np.float32)


def _margins(c: Call, x: Array, per_class: Array, pairs: list[tuple[int, int]]) -> Array:
    """How much more each pair's first class is for a row, [rows, pairs]."""
    total, classes = int(per_class.sum()), len(per_class)
    values = _kernel(c, x, _vectors(c, total, x.shape[1]))
    weights = _weights(c, classes - 1, total)
    rho = np.array(c.get("rho", []), dtype=np.float64)
    if rho.size != len(pairs):
        raise c.error(f"rho: expected {len(pairs)}, found {rho.size}")
    ends = np.cumsum(per_class)
    of = [slice(int(e - n), int(e)) for e, n in zip(ends, per_class, strict=True)]
    columns = [
        values[:, of[i]] @ weights[j - 1, of[i]] + values[:, of[j]] @ weights[i, of[j]] + rho[k]
        for k, (i, j) in enumerate(pairs)
    ]
    return np.stack(columns, -1)


def _probabilities(c: Call, margins: Array, pairs: list[tuple[int, int]], classes: int) -> Array:
    """Of each class, from those of the pairs (Platt): coupled as Wu, Lin and Weng do (JMLR 5, 2004), as libsvm does."""
    a, b = (np.array(c.get(name, []), dtype=np.float64) for name in ("prob_a", "prob_b"))
    if not a.size == b.size == len(pairs):
        raise c.error(f"prob_a and prob_b: expected {len(pairs)}, found {a.size} and {b.size}")
    first = np.clip(1 - logistic(margins * a + b), 1e-7, 1 - 1e-7)
    of_pair = np.zeros((len(margins), classes, classes))
    for k, (i, j) in enumerate(pairs):
        of_pair[:, i, j], of_pair[:, j, i] = first[:, k], 1 - first[:, k]
    return _coupled(of_pair)


MOST_ITERATIONS = 100
"""As libsvm has for few classes: it stops there, converged or not."""


def _coupled(r: Array) -> Array:
    """The probabilities p [rows, k] that minimise sum over i < j of (r_ji p_i - r_ij p_j)^2, to 0.005 / k as libsvm.

    Each coordinate is set to its optimum in turn. The models' own library stops there, so that the optimum itself would
    differ from it in the third digit.
    """
    rows, count, _ = r.shape
    q = -r.transpose(0, 2, 1) * r
    at = list(range(count))
    q[:, at, at] = np.square(r).sum(1) - np.square(r[:, at, at])
    p = np.full((rows, count), 1 / count)
    left = np.array(range(rows), np.int64)
    for _ in range(MOST_ITERATIONS):
        some, now = q[left], p[left]
        gradient = np.einsum("nij,nj->ni", some, now)
        value = np.einsum("ni,ni->n", now, gradient)
        is_rough: Array = ~(np.abs(gradient - value[:, None]).max(-1) < 0.005 / count)
        some, now = some[is_rough], now[is_rough]
        left = np.asarray(left[is_rough])
        gradient, value = gradient[is_rough], value[is_rough]
        if not left.size:
            break
        for i in range(count):
            step = (value - gradient[:, i]) / some[:, i, i]
            whole = 1 + step
            now[:, i] += step
            value = (value + step * (step * some[:, i, i] + 2 * gradient[:, i])) / whole / whole
            gradient = (gradient + step[:, None] * some[:, i]) / whole[:, None]
            now /= whole[:, None]
        p[left] = now
    return p
