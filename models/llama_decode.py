"""Llama-style decoder, one token against a KV cache (opset 20), dynamic batch and past.

Per layer, `past_key_i` and `past_value_i` come in and `present_key_i`, `present_value_i`, one
token longer, go out.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from models import _cli, _llama
from models._builder import FLOAT, INT64, Builder, Value
from models._layers import token_ids

NAME = "llama_decode"
DIMS: dict[str, tuple[int, int]] = {"batch": (1, 8), "past": (1, 2047)}
TEST_DIMS: list[dict[str, int]] = [
    {"batch": 1, "past": 16},
    {"batch": 3, "past": 37},
    {"batch": 2, "past": 1},
]


def build(path: Path, *, small: bool = False, seed: int = 0) -> None:
    """Write the model to `path`."""
    config = _llama.SMALL if small else _llama.FULL
    g = Builder(NAME, opset=20, seed=seed)
    ids = g.input("input_ids", ["batch", 1], INT64)
    positions = g.input("position_ids", ["batch", 1], INT64)
    padding = g.input("attention_mask", ["batch", "past + 1"], INT64)
    shape = ["batch", config.n_kv_heads, "past", config.head_dim]
    pasts = [
        _llama.Cache(g.input(f"past_key_{i}", shape), g.input(f"past_value_{i}", shape)) for i in range(config.depth)
    ]
    mask = _padding_mask(g, padding)
    rope = _llama.rotary(g, positions, config)
    x = _llama.embed(g, ids, config)
    presents: list[_llama.Cache] = []
    for i, past in enumerate(pasts):
        with g.scope(f"model.layers.{i}"):
            x, present = _llama.layer(g, x, rope, mask, past, config)
        presents.append(present)
    g.output(_llama.head(g, x, config), "logits", ["batch", 1, config.vocab])
    longer = ["batch", config.n_kv_heads, "past + 1", config.head_dim]
    for i, present in enumerate(presents):
        g.output(present.key, f"present_key_{i}", longer)
        g.output(present.value, f"present_value_{i}", longer)
    g.save(path)


def inputs(rng: np.random.Generator, *, small: bool = False, batch: int = 1, past: int = 128) -> dict[str, np.ndarray]:
    """A random token and cache; every row but the first has padding at its left."""
    config = _llama.SMALL if small else _llama.FULL
    shape = (batch, config.n_kv_heads, past, config.head_dim)
    mask = np.ones((batch, past + 1), INT64)
    for row in range(1, batch):
        mask[row, : int(rng.integers(0, past // 2 + 1))] = 0
    feeds = {
        "input_ids": token_ids(rng, batch, 1, config.vocab),
        "position_ids": mask.sum(axis=1, keepdims=True) - 1,
        "attention_mask": mask,
    }
    for i in range(config.depth):
        feeds[f"past_key_{i}"] = rng.standard_normal(shape, np.float32)
        feeds[f"past_value_{i}"] = rng.standard_normal(shape, np.float32)
    return feeds


def _padding_mask(g: Builder, padding: Value) -> Value:
    """0 where attended, the most negative f32 where padded: [B, 1, 1, past + 1]."""
    keep = g.Cast(g.Unsqueeze(padding, g.const([1, 2])), to=FLOAT)
    return (1.0 - keep) * float(np.finfo(np.float32).min)


def main() -> None:
    """Write the model from the command line."""
    _cli.run(build, __doc__)


if __name__ == "__main__":
    main()
