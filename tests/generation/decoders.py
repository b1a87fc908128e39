"""Small random decoders as exporters write them, and what ONNX Runtime makes of them from the whole text each time."""

from __future__ import annotations

import functools

import numpy as np
import onnx
import onnxruntime

from models import _genai, _llama
from models._builder import BOOL, INT64, Builder

CONFIG = _llama.Config(width=64, depth=2, n_heads=4, n_kv_heads=2, ffn=80, vocab=59)
SMALLER = _llama.Config(width=32, depth=1, n_heads=2, n_kv_heads=1, ffn=48, vocab=59)
POSITIONS = 192
"""Rows of the tables of cosines."""


def growing(config=CONFIG, seed=0, padded=True, batch="batch"):
    """As transformers' models are exported: past and new keys are joined."""
    g = Builder("growing", opset=18, seed=seed)
    ids = g.input("input_ids", [batch, "steps"], INT64)
    padding = g.input("attention_mask", [batch, "past + steps"], INT64) if padded else None
    given = g.input("position_ids", [batch, "steps"], INT64) if padded else None
    shape = [batch, config.n_kv_heads, "past", config.head_dim]
    pasts = [
        _llama.Cache(*(g.input(_genai.CACHE.format(i, what), shape) for what in ("key", "value")))
        for i in range(config.depth)
    ]
    past, steps = g.dim(pasts[0].key, 2), g.dim(ids, 1)
    total = past + steps
    queries = g.Unsqueeze(g.Range(past, total, g.const(1)), [1])
    seen = g.LessOrEqual(g.Range(g.const(0), total, g.const(1)), queries)
    if padding is not None:
        seen = g.And(seen, g.Cast(g.Unsqueeze(padding, [1, 2]), to=BOOL))
    mask = g.Where(seen, 0.0, float(np.finfo(np.float32).min))
    places = given or g.Unsqueeze(g.Range(past, total, g.const(1)), [0])
    rope = _llama.rotary(g, places, config)
    x = _llama.embed(g, ids, config) + learned(g, places, config)
    presents = []
    for i, cache in enumerate(pasts):
        with g.scope(f"model.layers.{i}"):
            x, present = _llama.layer(g, x, rope, mask, cache, config)
        presents.append(present)
    g.output(_llama.head(g, x, config), "logits", [batch, "steps", config.vocab])
    longer = [batch, config.n_kv_heads, "past + steps", config.head_dim]
    for i, present in enumerate(presents):
        g.output(present.key, f"present.{i}.key", longer)
        g.output(present.value, f"present.{i}.value", longer)
    return g.model()


def shared(config=CONFIG, seed=0, by_mask_length=False, positions=False):
    """As ONNX Runtime GenAI's builder writes them, with caches that are as long as may be.

    `by_mask_length`: positions are those at the end of the mask, whatever it says, and are learned. `positions`: they
    are an input.
    """
    g = Builder("shared", opset=18, seed=seed)
    given = _genai.inputs(g, config, positions=positions)
    x, head = _genai.embed(g, given.ids, config)
    if by_mask_length:
        end = g.dim(given.mask, 1)
        x = x + learned(g, g.Range(end - g.dim(given.ids, 1), end, g.const(1)), config)
    elif positions:
        x = x + learned(g, given.positions, config)
    angles = np.arange(POSITIONS)[:, None] / 100 ** np.linspace(0, 1, config.head_dim // 2)
    _genai.decode(g, x, head, given, config, (np.cos(angles), np.sin(angles)))
    return g.model()


def learned(g, places, config):
    """What shows where a position is by itself; angles show only differences."""
    return g.Gather(g.normal([POSITIONS, config.width], 1.0, "positions"), places, axis=0)


STATE = {"past_key_values.*": "present.*"}
KINDS = {
    "shared": shared,
    "placed": functools.partial(shared, positions=True),
    "unusual": functools.partial(shared, by_mask_length=True),
    "growing": growing,
}


@functools.cache
def runner(kind, *args):
    """From a model's maker to logits [tokens, vocabulary] of a whole text, by ONNX Runtime."""
    model = KINDS[kind](*args)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return logits_of(onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"]))


def logits_of(session):
    """From tokens to logits [tokens, vocabulary], with caches that hold nothing."""
    caches = [i for i in session.get_inputs() if i.name.startswith("past")]
    names = {i.name for i in session.get_inputs()}

    def run(tokens):
        n = len(tokens)
        feed = {"input_ids": np.array([tokens]), "attention_mask": np.ones((1, n), np.int64)}
        feed["position_ids"] = np.arange(n)[None]
        feed = {name: array for name, array in feed.items() if name in names}
        for cache in caches:
            _, heads, length, size = cache.shape
            length = POSITIONS if length == "capacity" else 0
            feed[cache.name] = np.zeros((1, heads, length, size), np.float32)
        return session.run(["logits"], feed)[0][0]

    return run


def greedy(kind, prompt, count):
    """The likeliest tokens, each from the whole text before it."""
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(int(runner(kind)(tokens)[-1].argmax()))
    return tokens[len(prompt) :]


def save(model, path):
    onnx.save(model, path)
    return path
