"""GPT-2: causal mask by shape arithmetic, Gemm projections, tanh gelu (opset 18), dynamic.

The mask joins `key <= query` (Range, LessOrEqual) with the padding mask; rows that attend to
nothing come out of the softmax as NaN and are set to 0, as the dynamo exporter's attention does.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from models import _cli
from models._builder import BOOL, INT64, Builder, Value
from models._layers import gelu_tanh, heads, layer_norm, merge_heads, padding_mask, token_ids

NAME = "gpt2"
DIMS: dict[str, tuple[int, int]] = {"batch": (1, 8), "seq": (1, 1024)}
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
    positions: int = 1024


_FULL = _Config(width=768, depth=12, n_heads=12, vocab=50257)
_SMALL = _Config(width=32, depth=2, n_heads=4, vocab=101)


def build(path: Path, *, small: bool = False, seed: int = 0) -> None:
    """Write the model to `path`."""
    config = _SMALL if small else _FULL
    width = config.width
    g = Builder(NAME, opset=18, seed=seed)
    ids = g.input("input_ids", ["batch", "seq"], INT64)
    padding = g.input("attention_mask", ["batch", "seq"], INT64)
    batch, seq = g.dim(ids, 0), g.dim(ids, 1)
    words = g.normal([config.vocab, width], 4 * width**-0.5, "transformer.wte.weight")
    places = g.normal([config.positions, width], 2 * width**-0.5, "transformer.wpe.weight")
    positions = g.Unsqueeze(g.Range(g.const(0), seq, g.const(1)), [0])
    x = g.Gather(words, ids, axis=0) + g.Gather(places, positions, axis=0)
    mask = _causal_mask(g, padding, batch, seq)
    for i in range(config.depth):
        with g.scope(f"transformer.h.{i}"):
            x = _attention(g, layer_norm(g, x, width, "ln_1"), mask, batch, seq, config) + x
            x = x + _mlp(g, layer_norm(g, x, width, "ln_2"), batch, seq, width)
    x = layer_norm(g, x, width, "transformer.ln_f")
    logits = x @ g.Transpose(words, perm=[1, 0])
    g.output(logits, "logits", ["batch", "seq", config.vocab])
    g.save(path)


def inputs(rng: np.random.Generator, *, small: bool = False, batch: int = 1, seq: int = 128) -> dict[str, np.ndarray]:
    """Random tokens; every row but the first is padded on the left, as for generation."""
    config = _SMALL if small else _FULL
    return {
        "input_ids": token_ids(rng, batch, seq, config.vocab),
        "attention_mask": padding_mask(rng, batch, seq, left=True),
    }


def _causal_mask(g: Builder, padding: Value, batch: Value, seq: Value) -> Value:
    """0 where query may see key, -inf elsewhere: f32 [B, 1, S, S]."""
    steps = g.Range(g.const(0), seq, g.const(1))
    visible = g.LessOrEqual(g.Unsqueeze(steps, [0]), g.Unsqueeze(steps, [1]))
    visible = g.Unsqueeze(visible, g.const([0, 1]))
    real = g.Unsqueeze(g.Cast(padding, to=BOOL), g.const([1, 2]))
    allowed = g.Expand(g.And(visible, real), g.shape_vector(batch, 1, seq, seq))
    return g.Where(allowed, 0.0, float("-inf"))


def _conv1d(g: Builder, x: Value, n_in: int, n_out: int, batch: Value, seq: Value, stem: str) -> Value:
    """Transformers' Conv1D: Gemm on the flattened tokens, weight stored [in, out]."""
    with g.scope(stem):
        flat = g.Gemm(g.reshape(x, -1, n_in), g.weight(n_in, n_out, fan_in=n_in), g.bias(n_out))
        return g.reshape(flat, batch, seq, n_out)


def _attention(g: Builder, x: Value, mask: Value, batch: Value, seq: Value, config: _Config) -> Value:
    width, n_heads = config.width, config.n_heads
    head_dim = width // n_heads
    with g.scope("attn"):
        qkv = _conv1d(g, x, width, 3 * width, batch, seq, "c_attn")
        q, k, v = (heads(g, part, batch, seq, n_heads, head_dim) for part in g.split(qkv, [width] * 3, axis=2))
        scale = head_dim**-0.25
        scores = (q * scale) @ (g.Transpose(k, perm=[0, 1, 3, 2]) * scale) + mask
        probs = g.Softmax(scores, axis=-1)
        probs = g.Where(g.IsNaN(probs), 0.0, probs)
        mixed = merge_heads(g, probs @ v, batch, seq, width)
        return _conv1d(g, mixed, width, width, batch, seq, "c_proj")


def _mlp(g: Builder, x: Value, batch: Value, seq: Value, width: int) -> Value:
    with g.scope("mlp"):
        hidden = gelu_tanh(g, _conv1d(g, x, width, 4 * width, batch, seq, "c_fc"))
        return _conv1d(g, hidden, 4 * width, width, batch, seq, "c_proj")


def main() -> None:
    """Write the model from the command line."""
    _cli.run(build, __doc__)


if __name__ == "__main__":
    main()
