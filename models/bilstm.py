"""A two-layer bidirectional LSTM tagger with initial states by shape arithmetic (opset 14)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from models import _cli
from models._builder import INT64, Builder, Value
from models._layers import linear, token_ids

NAME = "bilstm"
DIMS: dict[str, tuple[int, int]] = {"batch": (1, 16), "seq": (1, 256)}
TEST_DIMS: list[dict[str, int]] = [
    {"batch": 1, "seq": 12},
    {"batch": 3, "seq": 7},
    {"batch": 2, "seq": 1},
]


@dataclass(frozen=True)
class Config:
    """Sizes of a tagger."""

    embedding: int
    hidden: int
    vocab: int
    tags: int
    layers: int = 2


FULL = Config(embedding=128, hidden=256, vocab=10000, tags=17)
SMALL = Config(embedding=12, hidden=16, vocab=101, tags=5)


def build(path: Path, *, small: bool = False, seed: int = 0) -> None:
    """Write the model to `path`."""
    config = SMALL if small else FULL
    g = Builder(NAME, opset=14, seed=seed)
    ids = g.input("input_ids", ["batch", "seq"], INT64)
    table = g.normal([config.vocab, config.embedding], 1.0, "embedding.weight")
    x = g.Transpose(g.Gather(table, ids, axis=0), perm=[1, 0, 2])
    n_in = config.embedding
    for i in range(config.layers):
        with g.scope(f"lstm.{i}"):
            x = _bidirectional(g, x, n_in, config.hidden)
        n_in = 2 * config.hidden
    scores = linear(g, g.Transpose(x, perm=[1, 0, 2]), n_in, config.tags, "head")
    g.output(g.LogSoftmax(scores, axis=-1), "log_probs", ["batch", "seq", config.tags])
    g.save(path)


def inputs(rng: np.random.Generator, *, small: bool = False, batch: int = 1, seq: int = 32) -> dict[str, np.ndarray]:
    """Random tokens."""
    return {"input_ids": token_ids(rng, batch, seq, (SMALL if small else FULL).vocab)}


def _bidirectional(g: Builder, x: Value, n_in: int, hidden: int) -> Value:
    """[S, B, n_in] -> [S, B, 2 * hidden]."""
    w = g.weight(2, 4 * hidden, n_in, fan_in=n_in, stem="W")
    r = g.weight(2, 4 * hidden, hidden, fan_in=hidden, stem="R")
    bias = g.bias(2, 8 * hidden, stem="B")
    zeros = g.Expand(0.0, g.shape_vector(2, g.dim(x, 1), hidden))
    y = g.LSTM(x, w, r, bias, None, zeros, zeros, hidden_size=hidden, direction="bidirectional")  # Y: [S, 2, B, hidden]
    return g.Reshape(g.Transpose(y, perm=[0, 2, 1, 3]), [0, 0, -1])


def main() -> None:
    """Write the model from the command line."""
    _cli.run(build, __doc__)


if __name__ == "__main__":
    main()
