"""Decision trees of `ai.onnx.ml` as tables: one row per node, whichever operator they are written in.

Owns reading the attributes and checking that they are trees. Walking them is `ops/ml.py`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphfuse.frontends.host_values import Array
from graphfuse.frontends.onnx.limits import MOST_TABLE

Get = Callable[..., Any]
"""An attribute by name, or what to take for one that is not there."""

MODES = ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ", "MEMBER")
"""What a node asks of its feature, as `TreeEnsemble` numbers it."""
MEMBER, LEAF = 6, 7

AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


@dataclass(frozen=True, slots=True)
class Forest:
    """Nodes, leaves among them, which lead to themselves; and what a leaf adds to which target."""

    mode: Array
    feature: Array
    split: Array
    yes: Array
    no: Array
    nan_is_yes: Array
    sets: Array
    """A row for each node that asks for membership: the members, filled up with NaN, which nothing equals."""
    roots: Array
    leaf: Array
    target: Array
    weight: Array
    targets: int

    def __post_init__(self) -> None:
        """Raises ValueError unless all its numbers are of something."""
        count = len(self.mode)
        checks: Sequence[tuple[str, Array, int]] = (
            ("modes", self.mode, LEAF + 1),
            ("features", self.feature, 1 << 31),
            ("children", np.concatenate([self.yes, self.no]), count),
            ("roots", self.roots, count),
            ("targets", self.target, self.targets),
        )
        for name, found, most in checks:
            if found.size and not 0 <= found.min() <= found.max() < most:
                raise ValueError(f"{name}: expected 0..{most - 1}, found {found.min()}..{found.max()}")
        lengths = {len(a) for a in (self.mode, self.feature, self.split, self.yes, self.no, self.nan_is_yes)}
        if len(lengths) != 1 or not len(self.leaf) == len(self.target) == len(self.weight):
            raise ValueError("attributes of nodes, or of leaves, differ in length")
        if not self.roots.size:
            raise ValueError("expected at least one tree, found none")

    @property
    def depth(self) -> int:
        """How many questions lead to the furthest leaf. Raises ValueError where they lead in a circle."""
        level, depth = np.unique(self.roots), 0
        while (inner := level[self.mode[level] != LEAF]).size:
            level = np.unique(np.concatenate([self.yes[inner], self.no[inner]]))
            depth += 1
            if depth > len(self.mode):
                raise ValueError("the nodes are not a tree")
        return depth

    def table(self, combine: str) -> Array:
        """What each node adds to each target, as f64 [nodes, targets]: nothing, where it is no leaf of that target."""
        start = {"MIN": np.inf, "MAX": -np.inf}.get(combine, 0.0)
        out = np.full((len(self.mode), self.targets), start)
        join: Any = {"MIN": np.minimum, "MAX": np.maximum}.get(combine, np.add)
        join.at(out, (self.leaf, self.target), self.weight)
        return out


def read_ensemble(get: Get) -> Forest:
    """The forest of a `TreeEnsemble`, whose leaves have a table of their own."""
    modes = _ints(get("nodes_modes"))
    count, leaves = len(modes), _ints(get("leaf_targetids"))
    ends = [np.arange(count, count + len(leaves))] * 2
    sides = [
        _ints(get(f"nodes_{side}nodeids")) + np.where(_ints(get(f"nodes_{side}leafs")) != 0, count, 0)
        for side in ("true", "false")
    ]
    yes, no = (np.concatenate([s, e]) for s, e in zip(sides, ends, strict=True))
    splits = np.asarray(get("nodes_splits"))
    return Forest(
        mode=np.concatenate([modes, np.full(len(leaves), LEAF)]),
        feature=np.concatenate([_ints(get("nodes_featureids")), np.zeros(len(leaves), np.int64)]),
        split=np.concatenate([splits, np.zeros(len(leaves), splits.dtype)]),
        yes=yes,
        no=no,
        nan_is_yes=_flags(get("nodes_missing_value_tracks_true"), len(modes), len(leaves)),
        sets=_sets(modes, get("membership_values")),
        roots=_ints(get("tree_roots")),
        leaf=ends[0],
        target=leaves,
        weight=np.asarray(get("leaf_weights"), np.float64),
        targets=int(get("n_targets", 1)),
    )


def read_trees(get: Get, what: str, targets: int) -> Forest:
    """The forest of a `TreeEnsembleClassifier` or `-Regressor`; `what` is `class` or `target`."""
    names = [m.removeprefix("BRANCH_") for m in get("nodes_modes", [])]
    unknown = [n for n in names if n not in (*MODES[:MEMBER], "LEAF")]
    if unknown:
        raise ValueError(f"nodes_modes: expected BRANCH_LEQ, ... or LEAF, found {unknown[0]!r}")
    modes = np.array([LEAF if n == "LEAF" else MODES.index(n) for n in names], np.int64)
    trees, ids = _ints(get("nodes_treeids")), _ints(get("nodes_nodeids"))
    number = {key: i for i, key in enumerate(zip(trees.tolist(), ids.tolist(), strict=True))}
    if len(number) != len(modes):
        raise ValueError(f"expected {len(modes)} nodes of different numbers, found {len(number)}")

    def children(name: str) -> Array:
        named = zip(trees.tolist(), _ints(get(name)).tolist(), strict=True)
        keys = [(t, n) if modes[i] != LEAF else None for i, (t, n) in enumerate(named)]
        if lost := [k for k in keys if k is not None and k not in number]:
            raise ValueError(f"{name}: tree {lost[0][0]} has no node {lost[0][1]}")
        return np.array([i if k is None else number[k] for i, k in enumerate(keys)], np.int64)

    yes, no = children("nodes_truenodeids"), children("nodes_falsenodeids")
    _, first = np.unique(trees, return_index=True)
    weights = get(f"{what}_weights_as_tensor")
    of = zip(_ints(get(f"{what}_treeids")).tolist(), _ints(get(f"{what}_nodeids")).tolist(), strict=True)
    places = [number.get(key, -1) for key in of]
    if -1 in places:
        raise ValueError(f"{what}_nodeids: entry {places.index(-1)} names no node")
    splits = get("nodes_values_as_tensor")
    return Forest(
        mode=modes,
        feature=_ints(get("nodes_featureids")),
        split=np.asarray(get("nodes_values"), np.float32) if splits is None else np.asarray(splits),
        yes=yes,
        no=no,
        nan_is_yes=_flags(get("nodes_missing_value_tracks_true"), len(modes), 0),
        sets=np.empty((0, 0)),
        roots=first,  # the first node of a tree is its root
        leaf=np.array(places, np.int64),
        target=_ints(get(f"{what}_ids")),
        weight=np.asarray(get(f"{what}_weights") if weights is None else weights, np.float64),
        targets=targets,
    )


def _ints(values: Any) -> Array:
    return np.array([] if values is None else values).astype(np.int64).reshape(-1)


def _flags(values: Any, count: int, leaves: int) -> Array:
    given = _ints(values)
    return np.concatenate([given != 0 if given.size else np.zeros(count, bool), np.zeros(leaves, bool)])


def _sets(modes: Array, values: Any) -> Array:
    """The set of each node that asks for membership: NaN ends a set."""
    given = np.empty(0) if values is None else np.asarray(values)
    ends = np.flatnonzero(np.isnan(given))
    if len(ends) != (count := np.count_nonzero(modes == MEMBER)):
        raise ValueError(f"membership_values: expected {count} sets, found {len(ends)}")
    sizes = np.diff(ends, prepend=-1)
    if count * (most := sizes.max(initial=0)) > MOST_TABLE:
        raise ValueError(f"membership_values: expected a table of up to {MOST_TABLE}, found {count}x{most}")
    sets = np.full((count, most), np.nan)
    sets[np.arange(most) < sizes[:, None]] = given[: sizes.sum()]
    return sets
