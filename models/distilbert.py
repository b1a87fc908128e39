"""DistilBERT as TorchScript writes it: decomposed norms, Constant nodes, Where masks (opset 13)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from models import _cli
from models._builder import BOOL, INT64, Builder, Value
from models._layers import (
    gelu_erf,
    heads,
    layer_norm_decomposed,
    linear,
    merge_heads,
    padding_mask,
    token_ids,
)

NAME = "distilbert"
DIMS: dict[str, tuple[int, int]] = {"batch": (1, 16), "seq": (1, 512)}
TEST_DIMS: list[dict[str, int]] = [
    {"batch": 1, "seq": 16},
    {"batch": 3, "seq": 37},
    {"batch": 2, "seq": 1},
]


@dataclass(frozen=True)
class _Config:
    width: int
    depth: int
    n_heads: int
    vocab: int
    positions: int = 512


_FULL = _Config(width=768, depth=6, n_heads=12, vocab=30522)
_SMALL = _Config(width=32, depth=2, n_heads=4, vocab=101)


def build(path: Path, *, small: bool = False, seed: int = 0) -> None:
    """Write the model to `path`."""
    config = _SMALL if small else _FULL
    width = config.width
    g = Builder(NAME, opset=13, seed=seed, constant_nodes=True)
    ids = g.input("input_ids", ["batch", "seq"], INT64)
    mask = g.input("attention_mask", ["batch", "seq"], INT64)
    x = _embed(g, ids, config)
    for i in range(config.depth):
        with g.scope(f"transformer.layer.{i}"):
            y = _attention(g, x, mask, config)
            x = layer_norm_decomposed(g, y + x, width, "sa_layer_norm")
            y = gelu_erf(g, linear(g, x, width, 4 * width, "ffn.lin1"))
            y = linear(g, y, 4 * width, width, "ffn.lin2")
            x = layer_norm_decomposed(g, y + x, width, "output_layer_norm")
    g.output(x, "last_hidden_state", ["batch", "seq", width])
    g.save(path)


def inputs(rng: np.random.Generator, *, small: bool = False, batch: int = 1, seq: int = 128) -> dict[str, np.ndarray]:
    """Random tokens; every row but the first is padded on the right."""
    config = _SMALL if small else _FULL
    return {
        "input_ids": token_ids(rng, batch, seq, config.vocab),
        "attention_mask": padding_mask(rng, batch, seq),
    }


def _embed(g: Builder, ids: Value, config: _Config) -> Value:
    with g.scope("embeddings"):
        words = g.normal([config.vocab, config.width], 1.0, "word_embeddings")
        places = g.normal([config.positions, config.width], 0.5, "position_embeddings")
        all_positions = np.arange(config.positions, dtype=INT64)[None]
        positions = g.Slice(all_positions, [0], g.Unsqueeze(g.dim(ids, 1), [0]), [1], [1])
        x = g.Gather(words, ids, axis=0) + g.Gather(places, positions, axis=0)
        return layer_norm_decomposed(g, x, config.width, "LayerNorm")


def _attention(g: Builder, x: Value, mask: Value, config: _Config) -> Value:
    """Scores at padded keys are replaced, by a mask expanded to the scores' own shape."""
    width, n_heads = config.width, config.n_heads
    head_dim = width // n_heads
    with g.scope("attention"):
        batch, seq = g.dim(x, 0), g.dim(x, 1)
        q, k, v = (
            heads(g, linear(g, x, width, width, f"{name}_lin"), batch, -1, n_heads, head_dim)
            for name in ("q", "k", "v")
        )
        scores = (q / float(np.sqrt(head_dim))) @ g.Transpose(k, perm=[0, 1, 3, 2])
        padded = g.reshape(g.Equal(mask, g.const(0)), batch, 1, 1, seq)
        padded = g.Cast(g.Expand(padded, g.Shape(scores)), to=BOOL)
        scores = g.Where(padded, float(np.finfo(np.float32).min), scores)
        mixed = merge_heads(g, g.Softmax(scores, axis=-1) @ v, batch, -1, width)
        return linear(g, mixed, width, width, "out_lin")


def main() -> None:
    """Write the model from the command line."""
    _cli.run(build, __doc__)


if __name__ == "__main__":
    main()
