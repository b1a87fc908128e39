"""BERT-base: LayerNormalization and Erf gelu (opset 17), dynamic batch and sequence."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from models import _cli
from models._builder import FLOAT, INT64, Builder, Value
from models._layers import (
    gelu_erf,
    gemm,
    heads,
    layer_norm,
    linear,
    merge_heads,
    padding_mask,
    token_ids,
)

NAME = "bert_base"
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


_FULL = _Config(width=768, depth=12, n_heads=12, vocab=30522)
_SMALL = _Config(width=32, depth=2, n_heads=4, vocab=101)


def build(path: Path, *, small: bool = False, seed: int = 0) -> None:
    """Write the model to `path`."""
    config = _SMALL if small else _FULL
    width = config.width
    g = Builder(NAME, opset=17, seed=seed)
    ids = g.input("input_ids", ["batch", "seq"], INT64)
    mask = g.input("attention_mask", ["batch", "seq"], INT64)
    types = g.input("token_type_ids", ["batch", "seq"], INT64)
    batch, seq = g.dim(ids, 0), g.dim(ids, 1)
    # 0 where attended, the most negative f32 where padded: [B, 1, 1, S]
    keep = g.Cast(g.Unsqueeze(g.Unsqueeze(mask, [1]), [2]), to=FLOAT)
    additive = (1.0 - keep) * float(np.finfo(np.float32).min)
    x = _embed(g, ids, types, seq, config)
    for i in range(config.depth):
        with g.scope(f"encoder.layer.{i}"):
            y = _attention(g, x, additive, batch, seq, config)
            x = layer_norm(g, y + x, width, "attention.output.LayerNorm", epsilon=1e-12)
            y = gelu_erf(g, linear(g, x, width, 4 * width, "intermediate.dense"))
            y = linear(g, y, 4 * width, width, "output.dense")
            x = layer_norm(g, y + x, width, "output.LayerNorm", epsilon=1e-12)
    pooled = g.Tanh(gemm(g, g.Gather(x, g.const(0), axis=1), width, width, "pooler.dense"))
    g.output(x, "last_hidden_state", ["batch", "seq", width])
    g.output(pooled, "pooler_output", ["batch", width])
    g.save(path)


def inputs(rng: np.random.Generator, *, small: bool = False, batch: int = 1, seq: int = 128) -> dict[str, np.ndarray]:
    """Random tokens; every row but the first is padded on the right."""
    config = _SMALL if small else _FULL
    return {
        "input_ids": token_ids(rng, batch, seq, config.vocab),
        "attention_mask": padding_mask(rng, batch, seq),
        "token_type_ids": rng.integers(0, 2, (batch, seq), dtype=INT64),
    }


def _embed(g: Builder, ids: Value, types: Value, seq: Value, config: _Config) -> Value:
    """Sum of word, token-type and position embeddings, normalised."""
    with g.scope("embeddings"):
        words = g.normal([config.vocab, config.width], 1.0, "word_embeddings")
        kinds = g.normal([2, config.width], 0.5, "token_type_embeddings")
        places = g.normal([config.positions, config.width], 0.5, "position_embeddings")
        all_positions = np.arange(config.positions, dtype=INT64)[None]
        positions = g.Slice(all_positions, [0], g.Unsqueeze(seq, [0]), [1])
        x = g.Gather(words, ids, axis=0) + g.Gather(kinds, types, axis=0)
        x = x + g.Gather(places, positions, axis=0)
        return layer_norm(g, x, config.width, "LayerNorm", epsilon=1e-12)


def _attention(g: Builder, x: Value, additive: Value, batch: Value, seq: Value, config: _Config) -> Value:
    width, n_heads = config.width, config.n_heads
    head_dim = width // n_heads
    with g.scope("attention"):
        q, k, v = (
            heads(g, linear(g, x, width, width, f"self.{name}"), batch, seq, n_heads, head_dim)
            for name in ("query", "key", "value")
        )
        scores = (q @ g.Transpose(k, perm=[0, 1, 3, 2])) / float(np.sqrt(head_dim)) + additive
        mixed = merge_heads(g, g.Softmax(scores, axis=-1) @ v, batch, seq, width)
        return linear(g, mixed, width, width, "output.dense")


def main() -> None:
    """Write the model from the command line."""
    _cli.run(build, __doc__)


if __name__ == "__main__":
    main()
