"""The probabilities that a support vector classifier makes of its margins."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from graphfuse.frontends.host_values import Array
from graphfuse.frontends.onnx.python_ops.call import Call, python_op
from graphfuse.frontends.onnx.split_classifiers import OWN


@python_op("SVMClassifier", domain=OWN)
def probabilities(c: Call) -> Any:
    """Of each class, from those of the pairs (Platt): coupled as Wu, Lin and Weng do (JMLR 5, 2004), as libsvm does.

    Input 0 ends with the margin of each pair: how much more its first class is for a row.
    """
    classes = int(c.get("classes"))
    pairs = list(itertools.combinations(range(classes), 2))
    a, b = (np.array(c.get(name), dtype=np.float64) for name in ("prob_a", "prob_b"))
    margins = c.array(0)[:, -len(pairs) :].astype(np.float64)
    with np.errstate(over="ignore"):
        first = np.clip(1 - 1 / (1 + np.exp(-(margins * a + b))), 1e-7, 1 - 1e-7)
    of_pair = np.zeros((len(margins), classes, classes))
    for k, (i, j) in enumerate(pairs):
        of_pair[:, i, j], of_pair[:, j, i] = first[:, k], 1 - first[:, k]
    return _coupled(of_pair).astype(np.float32)


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
