"""Llama-style decoder, prefill: RMSNorm, RoPE, GQA, SwiGLU (opset 20), dynamic batch and seq."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from models import _cli, _llama
from models._builder import INT64, Builder, Value
from models._layers import token_ids

NAME = "llama"
DIMS: dict[str, tuple[int, int]] = {"batch": (1, 8), "seq": (1, 1024)}
TEST_DIMS: list[dict[str, int]] = [
    {"batch": 1, "seq": 16},
    {"batch": 3, "seq": 37},
    {"batch": 2, "seq": 1},
]


def build(path: Path, *, small: bool = False, seed: int = 0) -> None:
    """Write the model to `path`."""
    config = _llama.SMALL if small else _llama.FULL
    g = Builder(NAME, opset=20, seed=seed)
    ids = g.input("input_ids", ["batch", "seq"], INT64)
    positions = g.input("position_ids", ["batch", "seq"], INT64)
    mask = _causal_mask(g, positions)
    rope = _llama.rotary(g, positions, config)
    x = _llama.embed(g, ids, config)
    for i in range(config.depth):
        with g.scope(f"model.layers.{i}"):
            x, _ = _llama.layer(g, x, rope, mask, None, config)
    g.output(_llama.head(g, x, config), "logits", ["batch", "seq", config.vocab])
    g.save(path)


def inputs(rng: np.random.Generator, *, small: bool = False, batch: int = 1, seq: int = 128) -> dict[str, np.ndarray]:
    """Random tokens; each row starts at a position of its own."""
    config = _llama.SMALL if small else _llama.FULL
    start = rng.integers(0, 16, (batch, 1), dtype=INT64)
    return {
        "input_ids": token_ids(rng, batch, seq, config.vocab),
        "position_ids": start + np.arange(seq, dtype=INT64),
    }


def _causal_mask(g: Builder, positions: Value) -> Value:
    """Upper triangle at the most negative f32, as transformers builds it: [1, 1, S, S]."""
    seq = g.dim(positions, 1)
    lowest = float(np.finfo(np.float32).min)
    full = g.Expand(g.const(lowest), g.shape_vector(seq, seq))
    steps = g.Range(g.const(0), seq, g.const(1))
    future = g.Greater(steps, g.Reshape(steps, [-1, 1]))
    mask = g.Where(future, g.Trilu(full, g.const(1), upper=1), 0.0)
    return g.Unsqueeze(g.Unsqueeze(mask, [0]), [0])


def main() -> None:
    """Write the model from the command line."""
    _cli.run(build, __doc__)


if __name__ == "__main__":
    main()
