"""`ai.onnx.ml`: ensembles of decision trees."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphfuse.frontends.host_values import Array
from graphfuse.frontends.onnx.forest import AGGREGATES, COMPARE, LEAF, MEMBER, Forest, read_ensemble, read_trees
from graphfuse.frontends.onnx.limits import MOST_TABLE
from graphfuse.frontends.onnx.python_ops.call import Call, python_op
from graphfuse.frontends.onnx.python_ops.scores import chosen, class_labels, transform_of, transformed, two_of_one

ML = "ai.onnx.ml"


@python_op("TreeEnsemble", domain=ML)
def tree_ensemble(c: Call) -> Any:
    """The weights of the leaves that each row reaches, combined by target."""
    x = _rows(c)
    number = int(c.get("aggregate_function", 1))
    if not 0 <= number < len(AGGREGATES):
        raise c.error(f"aggregate_function: expected 0..{len(AGGREGATES) - 1}, found {number}")
    out, _ = _combined(c, read_ensemble(c.get), x, AGGREGATES[number])
    return transformed(transform_of(c), out).astype(x.dtype)


@python_op("TreeEnsembleRegressor", domain=ML)
def tree_ensemble_regressor(c: Call) -> Any:
    """The same, for trees in the older form."""
    combine = c.get("aggregate_function", "SUM")
    if combine not in AGGREGATES:
        raise c.error(f"aggregate_function: expected one of {', '.join(AGGREGATES)}, found {combine}")
    out, _ = _combined(c, read_trees(c.get, "target", int(c.get("n_targets", 1))), _rows(c), combine)
    return transformed(transform_of(c), out + base_values(c, out.shape[1])).astype(np.float32)


@python_op("TreeEnsembleClassifier", domain=ML)
def tree_ensemble_classifier(c: Call) -> tuple[Array, Array]:
    """The class of the highest sum of weights, and the sums. One class's weights are the second's."""
    labels, kind = class_labels(c, "classlabels_int64s"), transform_of(c)
    forest = read_trees(c.get, "class", len(labels))
    scores, _ = _combined(c, forest, _rows(c), "SUM")
    if len(labels) == 2 and len(np.unique(forest.target)) == 1:
        second = scores[:, forest.target[0]] + base_values(c, 1)[-1]
        is_probability = bool((forest.weight >= 0).all())
        winner = (second > (0.5 if is_probability else 0.0)).astype(np.int64)
        if forest.target[0]:  # the first class has a score, too: nothing
            return chosen(c, labels, winner), transformed(kind, scores + base_values(c, 2)).astype(np.float32)
        pair = two_of_one(kind, second, mirrored=not is_probability)
        return chosen(c, labels, winner), pair.astype(np.float32)
    scores = scores + base_values(c, len(labels))
    return chosen(c, labels, np.argmax(scores, -1)), transformed(kind, scores).astype(np.float32)


def base_values(c: Call, count: int) -> Array:
    """What each target starts with."""
    tensor = c.get("base_values_as_tensor")
    given = np.array(c.get("base_values") or [] if tensor is None else tensor, dtype=np.float64).reshape(-1)
    if given.size not in (0, 1, count):
        raise c.error(f"base_values: expected {count}, found {given.size}")
    return given if given.size else np.zeros(1)


def _rows(c: Call) -> Array:
    x = c.array(0)
    if x.ndim == 1:
        x = x[None]
    if x.ndim != 2:
        raise c.error(f"input 0: expected two dims, found {x.ndim}")
    return x


def _combined(c: Call, forest: Forest, x: Array, combine: str) -> tuple[Array, Array]:
    """What the leaves of each row add up to, as f64 [rows, targets], and the leaves."""
    if forest.targets < 1 or len(forest.mode) * forest.targets > MOST_TABLE:
        raise c.error(
            f"expected up to {MOST_TABLE} weights, found {len(forest.mode)} nodes of {forest.targets} targets"
        )
    reached = _reached(c, forest, x)
    table = forest.table(combine)
    out = np.full((len(x), forest.targets), {"MIN": np.inf, "MAX": -np.inf}.get(combine, 0.0))
    join: Any = {"MIN": np.minimum, "MAX": np.maximum}.get(combine, np.add)
    for tree in reached.T:
        out = join(out, table[tree])
    if combine in ("MIN", "MAX"):
        out[np.isinf(out)] = 0  # no leaf of that target
    return (out / len(forest.roots) if combine == "AVERAGE" else out), reached


def _reached(c: Call, forest: Forest, x: Array) -> Array:
    """The leaf of each row in each tree: all rows walk all trees together."""
    if forest.feature.size and forest.feature.max() >= x.shape[1]:
        raise c.error(f"nodes_featureids: expected 0..{x.shape[1] - 1}, found {forest.feature.max()}")
    wide = x.astype(np.float64)
    at = np.broadcast_to(forest.roots, (len(x), len(forest.roots))).copy()
    rows = np.broadcast_to(np.arange(len(x))[:, None], at.shape)
    for _ in range(forest.depth):
        value, mode, split = wide[rows, forest.feature[at]], forest.mode[at], forest.split[at].astype(np.float64)
        yes = np.zeros(at.shape, dtype=bool)
        for number, compare in enumerate(COMPARE):
            yes |= (mode == number) & compare(value, split)
        for node in np.unique(at[mode == MEMBER]).tolist():
            yes |= (at == node) & np.isin(value, forest.members[node])
        yes |= np.isnan(value) & forest.nan_is_yes[at]
        at = np.where(mode == LEAF, at, np.where(yes, forest.yes[at], forest.no[at]))
    return at
