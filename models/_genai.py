"""Llamas as ONNX Runtime GenAI's builder writes them: attention of grouped queries, over a cache written in place.

Owns their wiring. Parameters are the graph's: a `Builder` draws them, and a `Given` has those of some other model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from models._builder import INT64, MICROSOFT, Builder, Value
from models._layers import linear, silu
from models._llama import Cache, Config

CACHE = "past_key_values.{}.{}"


def settings(config: Config, context: int) -> dict[str, Any]:
    """The `genai_config.json` beside such a file, what is of no use here too."""
    pasts = {f"past_{what}_names": CACHE.format("%d", what) for what in ("key", "value")}
    presents = {f"present_{what}_names": f"present.%d.{what}" for what in ("key", "value")}
    decoder: dict[str, Any] = {
        "session_options": {"log_id": "onnxruntime-genai", "provider_options": []},
        "filename": "model.onnx",
        "head_size": config.head_dim,
        "hidden_size": config.width,
        "inputs": {"input_ids": "input_ids", "attention_mask": "attention_mask", **pasts},
        "outputs": {"logits": "logits", **presents},
        "num_attention_heads": config.n_heads,
        "num_hidden_layers": config.depth,
        "num_key_value_heads": config.n_kv_heads,
    }
    model: dict[str, Any] = {"type": "llama", "decoder": decoder, "context_length": context, "vocab_size": config.vocab}
    model |= {"bos_token_id": 0, "eos_token_id": [], "pad_token_id": 0}
    search = {
        "diversity_penalty": 0.0, "do_sample": False, "early_stopping": True, "length_penalty": 1.0,
        "max_length": context, "min_length": 0, "no_repeat_ngram_size": 0, "num_beams": 1, "num_return_sequences": 1,
        "past_present_share_buffer": True, "repetition_penalty": 1.0, "temperature": 0.6, "top_k": 1, "top_p": 0.9,
    }  # fmt: skip
    return {"model": model, "search": search}


class Given(Builder):
    """A builder whose parameters are given, by their paths."""

    def __init__(self, name: str, *, opset: int, given: Mapping[str, np.ndarray]) -> None:
        super().__init__(name, opset=opset, seed=0)
        self._given = given

    def normal(self, shape: Sequence[int], std: float, stem: str) -> Value:
        """The one of this name."""
        array = self._given[".".join([*self._scope, stem])]
        assert array.shape == tuple(shape), f"{stem}: expected {shape}, got {array.shape}"
        return self.initializer(array, stem)

    def gain(self, *shape: int, stem: str = "weight") -> Value:
        """The one of this name."""
        return self.normal(shape, 1.0, stem)


@dataclass(frozen=True)
class Inputs:
    """What a decoder is given: tokens [batch, steps], a mask of all so far, perhaps positions; a cache a layer."""

    ids: Value
    mask: Value
    positions: Value | None
    pasts: list[Cache]


def inputs(g: Builder, config: Config, elem: Any = np.float32, *, positions: bool = False) -> Inputs:
    """Declare them."""
    ids = g.input("input_ids", ["batch", "steps"], INT64)
    mask = g.input("attention_mask", ["batch", "total"], INT64)
    given = g.input("position_ids", ["batch", "steps"], INT64) if positions else None
    shape = ["batch", config.n_kv_heads, "capacity", config.head_dim]
    caches = [[g.input(CACHE.format(i, what), shape, elem) for what in ("key", "value")] for i in range(config.depth)]
    return Inputs(ids, mask, given, [Cache(*pair) for pair in caches])


def embed(g: Builder, ids: Value, config: Config, *, tied: bool = False) -> tuple[Value, Value]:
    """Embeddings, and the head's weight [width, vocab]: of a tied one they are its columns."""
    if not tied:
        table = g.normal([config.vocab, config.width], 1.0, "model.embed_tokens.weight")
        head = g.weight(config.width, config.vocab, fan_in=config.width, stem="lm_head.weight")
        return g.Gather(table, ids, axis=0), head
    head = g.normal([config.width, config.vocab], 1.0, "lm_head.weight")
    return g.Gather(g.Transpose(head, perm=[1, 0]), ids, axis=0), head


def decode(
    g: Builder,
    x: Value,
    head: Value,
    given: Inputs,
    config: Config,
    tables: Sequence[np.ndarray],
    elem: Any = np.float32,
) -> None:
    """Layers over embeddings, and the outputs; `tables` are cosines and sines [positions, head_dim / 2]."""
    last = g.ReduceSum(given.mask, [1], keepdims=1) - g.const([1])
    counts = [g.Cast(last, to=TensorProto.INT32), g.Cast(g.dim(given.mask, 1), to=TensorProto.INT32)]
    turns = [g.initializer(t.astype(elem), name) for t, name in zip(tables, ("cos_cache", "sin_cache"), strict=True)]
    turned = [*counts, *turns, *([] if given.positions is None else [given.positions])]
    presents: list[Cache] = []
    branch = None
    for i, past in enumerate(given.pasts):
        with g.scope(f"model.layers.{i}"):
            y, x = _normed(g, x, branch, config, "input_layernorm")
            branch, present = _attention(g, y, past, turned, config)
            y, x = _normed(g, x, branch, config, "post_attention_layernorm")
            branch = _mlp(g, y, config)
        presents.append(present)
    y, _ = _normed(g, x, branch, config, "model.norm")
    logits = y @ head
    half = elem != np.float32
    g.output(g.Cast(logits, to=TensorProto.FLOAT) if half else logits, "logits", ["batch", "steps", config.vocab])
    shape = ["batch", config.n_kv_heads, "capacity", config.head_dim]
    for i, present in enumerate(presents):
        g.output(present.key, f"present.{i}.key", shape, elem)
        g.output(present.value, f"present.{i}.value", shape, elem)


def _normed(g: Builder, x: Value, branch: Value | None, config: Config, name: str) -> tuple[Value, Value]:
    """Root mean square norm of a sum, and the sum."""
    with g.scope(name):
        gain = g.gain(config.width)
    if branch is None:
        return g.SimplifiedLayerNormalization(x, gain, axis=-1, epsilon=1e-5, stash_type=1), x
    operands = x, branch, gain
    y, *unused, total = g.ops("SkipSimplifiedLayerNormalization", *operands, outputs=4, domain=MICROSOFT, epsilon=1e-5)
    for i, _ in enumerate(unused, 1):
        g.nodes[-1].output[i] = ""
    return y, total


def _attention(g: Builder, y: Value, past: Cache, turned: Sequence[Value], config: Config) -> tuple[Value, Cache]:
    """Of queries, keys and values of one product."""
    width, heads = config.width, config.n_heads + 2 * config.n_kv_heads
    with g.scope("attn"):
        packed = linear(g, y, width, heads * config.head_dim, "qkv_proj", bias=False)
        mixed, *present = g.ops(
            "GroupQueryAttention", packed, None, None, past.key, past.value, *turned, outputs=3,
            domain=MICROSOFT, num_heads=config.n_heads, kv_num_heads=config.n_kv_heads, do_rotary=1,
        )  # fmt: skip
        return linear(g, mixed, width, width, "o_proj", bias=False), Cache(*present)


def _mlp(g: Builder, y: Value, config: Config) -> Value:
    with g.scope("mlp"):
        gate, up = (linear(g, y, config.width, config.ffn, f"{name}_proj", bias=False) for name in ("gate", "up"))
        return linear(g, silu(g, gate) * up, config.ffn, config.width, "down_proj", bias=False)
