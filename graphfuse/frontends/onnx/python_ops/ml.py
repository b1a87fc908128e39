"""`ai.onnx.ml`: what maps labels and walks trees."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphfuse.frontends.host_values import Array
from graphfuse.frontends.onnx.python_ops.call import Call, python_op, strings

ML = "ai.onnx.ml"


@python_op("LabelEncoder", domain=ML)
def label_encoder(c: Call) -> Any:
    """The value of each key, or the default."""
    x = c.array(0)
    keys, _ = _labels(c, "keys")
    values, kind = _labels(c, "values")
    if len(keys) != len(values):
        raise c.error(f"expected as many values as keys, found {len(values)} and {len(keys)}")
    table = {_key(k): v for k, v in zip(keys, values, strict=True)}
    default = _default(c, kind)
    found = [table.get(_key(v), default) for v in x.reshape(-1).tolist()]
    if kind == "string":
        return strings(found, x.shape)
    dtypes = {"int64": np.int64, "float": np.float32}
    dtype = dtypes[kind] if kind in dtypes else c.get("values_tensor").dtype
    return np.array(found).astype(dtype).reshape(x.shape)


def _key(value: Any) -> Any:
    """NaN equals itself as a key."""
    return "nan" if isinstance(value, float) and math.isnan(value) else _text(value)


def _text(value: Any) -> Any:
    return ("text", value.decode() if isinstance(value, bytes) else value) if isinstance(value, (str, bytes)) else value


def _labels(c: Call, name: str) -> tuple[list[Any], str]:
    """Keys or values, and in which attribute they are."""
    for kind in ("int64", "string", "float"):
        if (found := c.get(f"{name}_{kind}s")) is not None:
            return list(found), kind
    if (tensor := c.get(f"{name}_tensor")) is None:
        raise c.error(f"attribute {name}_* is missing")
    is_text = tensor.dtype.kind in "OSU"
    return [_text(v)[1] if is_text else v for v in tensor.reshape(-1).tolist()], "string" if is_text else "tensor"


def _default(c: Call, kind: str) -> Any:
    if (tensor := c.get("default_tensor")) is not None:
        value = tensor.reshape(-1).tolist()[0]
        return _text(value)[1] if isinstance(value, (str, bytes)) else value
    if kind == "tensor":
        kind = "int64" if c.get("values_tensor").dtype.kind in "iu" else "float"
    return c.get(f"default_{kind}", {"int64": -1, "string": "_Unused", "float": -0.0}[kind])


_COMPARE = (np.less_equal, np.less, np.greater_equal, np.greater, np.equal, np.not_equal)
_MEMBER = len(_COMPARE)


@python_op("TreeEnsemble", domain=ML)
def tree_ensemble(c: Call) -> Any:
    """The weights of the leaves that each row reaches, combined by target; all rows walk each tree together."""
    x = c.array(0)
    if x.ndim != 2:
        raise c.error(f"input 0: expected two dims, found {x.ndim}")
    leaves, weights = np.asarray(c.get("leaf_targetids")), c.get("leaf_weights")
    combine = int(c.get("aggregate_function", 1))
    start = {2: np.inf, 3: -np.inf}.get(combine, 0.0)
    out = np.full((len(x), int(c.get("n_targets"))), start, dtype=np.float64)
    roots = c.get("tree_roots")
    for root in roots:
        reached = _leaves_reached(c, x, int(root))
        for row, leaf in enumerate(reached):
            at, weight = (row, leaves[leaf]), float(weights[leaf])
            out[at] = (
                min(out[at], weight) if combine == 2 else max(out[at], weight) if combine == 3 else out[at] + weight
            )
    out[np.isinf(out) & (combine in (2, 3))] = 0  # no leaf of that target
    out = out / len(roots) if combine == 0 else out
    return _transformed(c, out).astype(x.dtype)


def _leaves_reached(c: Call, x: Array, root: int) -> Array:
    modes, splits, features = c.get("nodes_modes"), c.get("nodes_splits"), c.get("nodes_featureids")
    nan_is_true = c.get("nodes_missing_value_tracks_true") or [0] * len(modes)
    steps = {
        True: (c.get("nodes_truenodeids"), c.get("nodes_trueleafs")),
        False: (c.get("nodes_falsenodeids"), c.get("nodes_falseleafs")),
    }
    members = _members(c, modes)
    reached = np.zeros(len(x), dtype=np.int64)
    todo = [(root, np.arange(len(x)))]
    for _ in range(2 * len(modes) + 1):  # a tree has no more edges
        if not todo:
            return reached
        at, rows = todo.pop()
        values = x[rows, features[at]]
        mode = int(modes[at])
        yes = np.isin(values, members[at]) if mode == _MEMBER else _COMPARE[mode](values, splits[at])
        yes = np.asarray(yes) | (np.isnan(values) & bool(nan_is_true[at]))
        for side, (nodes, is_leaf) in steps.items():
            mine = rows[yes == side]
            if is_leaf[at]:
                reached[mine] = nodes[at]
            elif mine.size:
                todo.append((int(nodes[at]), mine))
    raise c.error("the nodes are not a tree")


def _members(c: Call, modes: Array) -> dict[int, Array]:
    """The set of each node that tests for membership: NaN ends a set."""
    sets: list[list[float]] = [[]]
    for v in c.get("membership_values", np.empty(0)):
        if np.isnan(v):
            sets.append([])
        else:
            sets[-1].append(v)
    nodes = [i for i, mode in enumerate(modes) if int(mode) == _MEMBER]
    if len(sets) - 1 != len(nodes):
        raise c.error(f"membership_values: expected {len(nodes)} sets, found {len(sets) - 1}")
    return {node: np.asarray(s) for node, s in zip(nodes, sets, strict=False)}


def _transformed(c: Call, out: Array) -> Array:
    """The scores after the transform asked for."""
    kind = int(c.get("post_transform", 0))
    if kind == 0:
        return out
    if kind == 2:
        return 1 / (1 + np.exp(-out))
    if kind in (1, 3):
        on = np.ones_like(out, dtype=bool) if kind == 1 else out != 0
        powers = np.where(on, np.exp(out - out.max(-1, keepdims=True)), 0)
        return powers / np.maximum(powers.sum(-1, keepdims=True), np.finfo(np.float64).tiny)
    raise c.error(f"post_transform must be 0..3, got {kind}")
