"""The Llama-style decoder behind `llama` and `llama_decode`; owns their shared wiring."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from models._builder import FLOAT, Builder, Value
from models._layers import linear, merge_heads, rms_norm, silu


@dataclass(frozen=True)
class Config:
    """Sizes of one decoder; `n_heads` query heads share `n_kv_heads` key and value heads."""

    width: int
    depth: int
    n_heads: int
    n_kv_heads: int
    ffn: int
    vocab: int

    @property
    def head_dim(self) -> int:
        """Width of one head."""
        return self.width // self.n_heads


FULL = Config(width=1024, depth=4, n_heads=16, n_kv_heads=4, ffn=2816, vocab=8192)
SMALL = Config(width=32, depth=2, n_heads=4, n_kv_heads=2, ffn=48, vocab=101)


@dataclass(frozen=True)
class Cache:
    """One layer's keys and values: f32 [batch, n_kv_heads, tokens, head_dim]."""

    key: Value
    value: Value


def embed(g: Builder, ids: Value, config: Config) -> Value:
    """Token embeddings."""
    table = g.normal([config.vocab, config.width], 1.0, "model.embed_tokens.weight")
    return g.Gather(table, ids, axis=0)


def rotary(g: Builder, positions: Value, config: Config) -> tuple[Value, Value]:
    """cos and sin of position * frequency, computed in the graph: f32 [B, 1, S, head_dim]."""
    half = config.head_dim // 2
    frequency = (10000.0 ** -(np.arange(half) / half)).astype(np.float32)
    places = g.Cast(g.Unsqueeze(positions, [1]), to=FLOAT)
    angle = g.Transpose(g.MatMul(frequency[None, :, None], places), perm=[0, 2, 1])
    angle = g.Unsqueeze(g.Concat(angle, angle, axis=-1), [1])
    return g.Cos(angle), g.Sin(angle)


def layer(
    g: Builder,
    x: Value,
    rope: tuple[Value, Value],
    mask: Value,
    past: Cache | None,
    config: Config,
) -> tuple[Value, Cache]:
    """One decoder layer; returns the keys and values including the past ones."""
    width = config.width
    y, cache = _attention(g, rms_norm(g, x, width, "input_layernorm"), rope, mask, past, config)
    x = x + y
    y = rms_norm(g, x, width, "post_attention_layernorm")
    with g.scope("mlp"):
        gate = silu(g, linear(g, y, width, config.ffn, "gate_proj", bias=False))
        up = linear(g, y, width, config.ffn, "up_proj", bias=False)
        return x + linear(g, gate * up, config.ffn, width, "down_proj", bias=False), cache


def head(g: Builder, x: Value, config: Config) -> Value:
    """Final norm and logits."""
    x = rms_norm(g, x, config.width, "model.norm")
    return linear(g, x, config.width, config.vocab, "lm_head", bias=False)


def _attention(
    g: Builder,
    x: Value,
    rope: tuple[Value, Value],
    mask: Value,
    past: Cache | None,
    config: Config,
) -> tuple[Value, Cache]:
    width, head_dim = config.width, config.head_dim
    with g.scope("self_attn"):
        batch, seq = g.dim(x, 0), g.dim(x, 1)

        def project(name: str, n_heads: int) -> Value:
            y = linear(g, x, width, n_heads * head_dim, f"{name}_proj", bias=False)
            return g.Transpose(g.reshape(y, batch, seq, -1, head_dim), perm=[0, 2, 1, 3])

        q = _rotate(g, project("q", config.n_heads), rope, head_dim)
        k = _rotate(g, project("k", config.n_kv_heads), rope, head_dim)
        v = project("v", config.n_kv_heads)
        if past is not None:
            k = g.Concat(past.key, k, axis=2)
            v = g.Concat(past.value, v, axis=2)
        keys, values = _repeat_heads(g, k, config), _repeat_heads(g, v, config)
        scale = head_dim**-0.25
        scores = (q * scale) @ (g.Transpose(keys, perm=[0, 1, 3, 2]) * scale) + mask
        mixed = merge_heads(g, g.Softmax(scores, axis=-1) @ values, batch, seq, width)
        return linear(g, mixed, width, width, "o_proj", bias=False), Cache(k, v)


def _rotate(g: Builder, x: Value, rope: tuple[Value, Value], head_dim: int) -> Value:
    """x * cos + [-x2, x1] * sin, where x = [x1, x2]."""
    cos, sin = rope
    low = g.Slice(x, [0], [head_dim // 2], [3], [1])
    high = g.Slice(x, [head_dim // 2], [2**63 - 1], [3], [1])
    return x * cos + g.Concat(-high, low, axis=-1) * sin


def _repeat_heads(g: Builder, x: Value, config: Config) -> Value:
    """[B, n_kv_heads, T, D] -> [B, n_heads, T, D] by Unsqueeze, Expand, Reshape."""
    group = config.n_heads // config.n_kv_heads
    batch, tokens = g.dim(x, 0), g.dim(x, 2)
    shape = g.shape_vector(batch, config.n_kv_heads, group, tokens, config.head_dim)
    wide = g.Expand(g.Unsqueeze(x, [2]), shape)
    return g.reshape(wide, batch, config.n_heads, tokens, config.head_dim)
