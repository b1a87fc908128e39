"""A two-layer bidirectional GRU tagger of sequences of different lengths (opset 14)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from models import _cli, bilstm
from models._builder import INT64, Builder, Value
from models._layers import linear, token_ids
from models.bilstm import FULL, SMALL

NAME = "bigru_tagger"
DIMS = bilstm.DIMS
TEST_DIMS: list[dict[str, int]] = [
    {"batch": 1, "seq": 9},
    {"batch": 4, "seq": 6},
    {"batch": 2, "seq": 1},
]


def build(path: Path, *, small: bool = False, seed: int = 0) -> None:
    """Write the model to `path`."""
    config = SMALL if small else FULL
    g = Builder(NAME, opset=14, seed=seed)
    ids = g.input("input_ids", ["batch", "seq"], INT64)
    lengths = g.input("lengths", ["batch"], np.int32)
    table = g.normal([config.vocab, config.embedding], 1.0, "embedding.weight")
    x = g.Transpose(g.Gather(table, ids, axis=0), perm=[1, 0, 2])
    n_in = config.embedding
    last: Value | None = None
    for i in range(config.layers):
        with g.scope(f"gru.{i}"):
            x, last = _bidirectional(g, x, lengths, n_in, config.hidden)
        n_in = 2 * config.hidden
    scores = linear(g, g.Transpose(x, perm=[1, 0, 2]), n_in, config.tags, "head")
    g.output(g.LogSoftmax(scores, axis=-1), "log_probs", ["batch", "seq", config.tags])
    assert last is not None
    g.output(last, "summary", [2, "batch", config.hidden])
    g.save(path)


def inputs(rng: np.random.Generator, *, small: bool = False, batch: int = 1, seq: int = 32) -> dict[str, np.ndarray]:
    """Random tokens; each sequence has a length of its own, and the first is as long as it can be."""
    lengths = rng.integers(1, seq + 1, batch).astype(np.int32)
    lengths[0] = seq
    ids = token_ids(rng, batch, seq, (SMALL if small else FULL).vocab)
    return {"input_ids": ids, "lengths": lengths}


def _bidirectional(g: Builder, x: Value, lengths: Value, n_in: int, hidden: int) -> tuple[Value, Value]:
    """[S, B, n_in] -> [S, B, 2 * hidden] and the last states [2, B, hidden]."""
    w = g.weight(2, 3 * hidden, n_in, fan_in=n_in, stem="W")
    r = g.weight(2, 3 * hidden, hidden, fan_in=hidden, stem="R")
    bias = g.bias(2, 6 * hidden, stem="B")
    y, last = g.ops(
        "GRU", x, w, r, bias, lengths, outputs=2,
        hidden_size=hidden, direction="bidirectional", linear_before_reset=1,
    )  # fmt: skip  # Y: [S, 2, B, hidden]
    return g.Reshape(g.Transpose(y, perm=[0, 2, 1, 3]), [0, 0, -1]), last


def main() -> None:
    """Write the model from the command line."""
    _cli.run(build, __doc__)


if __name__ == "__main__":
    main()
