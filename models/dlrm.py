"""A DLRM-style recommender: embeddings, two MLPs, pairwise dot interaction (opset 23)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from models import _cli
from models._builder import INT64, Builder, Value
from models._layers import gemm

NAME = "dlrm"
DIMS: dict[str, tuple[int, int]] = {"batch": (1, 512)}
TEST_DIMS: list[dict[str, int]] = [{"batch": 1}, {"batch": 7}, {"batch": 64}]


@dataclass(frozen=True)
class _Config:
    rows: int
    tables: int
    width: int
    bottom: tuple[int, ...]
    top: tuple[int, ...]
    dense: int = 13


_FULL = _Config(rows=2000, tables=26, width=64, bottom=(512, 256), top=(512, 256))
_SMALL = _Config(rows=50, tables=5, width=8, bottom=(16,), top=(24, 12))


def build(path: Path, *, small: bool = False, seed: int = 0) -> None:
    """Write the model to `path`."""
    config = _SMALL if small else _FULL
    g = Builder(NAME, opset=23, seed=seed)
    dense = g.input("dense", ["batch", config.dense])
    sparse = g.input("sparse", ["batch", config.tables], INT64)
    bottom = _mlp(g, dense, [config.dense, *config.bottom, config.width], "bottom")
    bottom = g.Relu(bottom)
    features = [bottom]
    for i in range(config.tables):
        table = g.normal([config.rows, config.width], 1.0, f"embeddings.{i}.weight")
        features.append(g.Gather(table, g.Gather(sparse, g.const(i), axis=1), axis=0))
    count = len(features)
    pairs = _interact(g, features, config.width)
    n_in = config.width + count * (count - 1) // 2
    x = g.Concat(bottom, pairs, axis=1)
    score = g.Sigmoid(_mlp(g, x, [n_in, *config.top, 1], "top"))
    g.output(score, "click_probability", ["batch", 1])
    g.save(path)


def inputs(rng: np.random.Generator, *, small: bool = False, batch: int = 32) -> dict[str, np.ndarray]:
    """Random dense features and table rows."""
    config = _SMALL if small else _FULL
    return {
        "dense": rng.standard_normal((batch, config.dense), np.float32),
        "sparse": rng.integers(0, config.rows, (batch, config.tables), dtype=INT64),
    }


def _mlp(g: Builder, x: Value, widths: Sequence[int], stem: str) -> Value:
    for i, (n_in, n_out) in enumerate(pairwise(widths)):
        x = gemm(g, g.Relu(x) if i else x, n_in, n_out, f"{stem}.{i}")
    return x


def _interact(g: Builder, features: Sequence[Value], width: int) -> Value:
    """Dot products of every two features: the strict lower triangle of F F^T, [B, pairs]."""
    count = len(features)
    stacked = g.Concat(*(g.Unsqueeze(feature, [1]) for feature in features), axis=1)
    dots = (stacked @ g.Transpose(stacked, perm=[0, 2, 1])) * width**-0.5
    rows, columns = np.tril_indices(count, -1)
    flat = g.Reshape(dots, [-1, count * count])
    return g.Gather(flat, (rows * count + columns).astype(INT64), axis=1)


def main() -> None:
    """Write the model from the command line."""
    _cli.run(build, __doc__)


if __name__ == "__main__":
    main()
