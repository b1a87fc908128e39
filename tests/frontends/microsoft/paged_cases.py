"""Attention to pages, as ONNX Runtime's schema defines it, token by token: only its CUDA kernel executes it."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from tests.frontends.microsoft.support import F64, I8, I32, Case, case
from tests.frontends.support import Array, rng

BF16, F8 = np.dtype(ml_dtypes.bfloat16), np.dtype(ml_dtypes.float8_e4m3fn)
NAMES = ("query", "key", "value", "key_cache", "value_cache", "cumulative_sequence_length", "past_seqlens",
         "block_table", "cos_cache", "sin_cache", "slot_mapping", "head_sink", "q_norm_weight", "k_norm_weight",
         "k_scale", "v_scale", "attention_metadata")  # fmt: skip
"""Of the operator's inputs."""
PAGES, PAGE, GROUPS, SIZE = 12, 3, 2, 16
NEW, PAST = (4, 0, 1, 3), (0, 5, 8, 3)
TABLE = np.array([[3, 1, -1], [7, 8, 9], [0, 11, 5], [2, 4, 10]], I32)


def made(elem: Any = np.float32, cache: Any = None, per: int = 3, spare: int = 0, seed: int = 0) -> dict[str, Array]:
    """Inputs of four sequences, one of which has nothing new; `spare` tokens are nobody's."""
    draw = rng(seed)

    def floats(*shape: int) -> Array:
        return draw.standard_normal(shape).astype(elem)

    count, pages = sum(NEW) + spare, (PAGES, PAGE, GROUPS, SIZE)
    widths = {"query": per * GROUPS, "key": GROUPS, "value": GROUPS}
    x = {name: floats(count, width * SIZE) for name, width in widths.items()}
    for name in ("key_cache", "value_cache"):
        kept = draw.integers(-99, 100, pages) if cache in (I8, F8) else draw.standard_normal(pages)
        x[name] = kept.astype(cache or elem)
    ends = np.cumsum([0, *NEW])
    return x | {
        "cumulative_sequence_length": ends.astype(I32),
        "past_seqlens": np.array(PAST, I32),
        "block_table": TABLE,
    }


def packed(x: dict[str, Array]) -> dict[str, Array]:
    """Queries, keys and values side by side."""
    rest = {name: array for name, array in x.items() if name not in ("key", "value")}
    return rest | {"query": np.concatenate([x["query"], x["key"], x["value"]], 1)}


def paged(
    x: dict[str, Array], per: int = 3, known: tuple[int, ...] = (), error: float = 1e-4, **attributes: Any
) -> Case:
    heads = {"num_heads": per * GROUPS, "kv_num_heads": GROUPS}
    arrays = [x.get(name) for name in NAMES]
    return case("PagedAttention", *arrays, known=known, outputs=3, error=error, **heads, **attributes)


def turned(x: Array, cos: Array, sin: Array, *, interleaved: bool, offset: int) -> Array:
    """Heads [H, D] of one token at its position."""
    out, pairs = x.copy(), len(cos)
    part = x[:, offset : offset + 2 * pairs]
    a, b = (part[:, ::2], part[:, 1::2]) if interleaved else (part[:, :pairs], part[:, pairs:])
    real, imaginary = a * cos - b * sin, a * sin + b * cos
    joined = np.stack([real, imaginary], -1) if interleaved else np.concatenate([real, imaginary], -1)
    out[:, offset : offset + 2 * pairs] = joined.reshape(part.shape)
    return out


def by_definition(c: Case) -> list[Array]:
    """Results and pages."""
    x, attributes = dict(zip(NAMES, c.arrays, strict=True)), c.attributes
    tokens, elem = x["query"], x["query"].dtype
    groups, heads = attributes["kv_num_heads"], attributes["num_heads"]
    if x["key"] is None:
        size = tokens.shape[1] // (heads + 2 * groups)
        parts = np.split(tokens, [heads * size, (heads + groups) * size], 1)
    else:
        parts = [tokens, x["key"], x["value"]]
    q, k, v = (p.astype(F64).reshape(len(p), n, -1) for p, n in zip(parts, (heads, groups, groups), strict=True))
    out, caches = np.zeros(q.shape), [x["key_cache"].copy(), x["value_cache"].copy()]
    ends, past, table = x["cumulative_sequence_length"], x["past_seqlens"], x["block_table"]
    size, page = q.shape[2], caches[0].shape[1]
    scales = [
        s.astype(F64).reshape(-1, size) if s is not None and s.size > 1 else s for s in (x["k_scale"], x["v_scale"])
    ]

    def rounded(x: Array) -> Array:
        return x.astype(elem).astype(F64)

    def normed(x: Array, weight: Array) -> Array:
        root = np.sqrt((x**2).mean(-1, keepdims=True) + attributes.get("qk_norm_epsilon", 1e-6))
        return rounded(x / root * weight.astype(F64))

    places = [(b, past[b] + j, ends[b] + j) for b in range(len(past)) for j in range(ends[b + 1] - ends[b])]
    for b, position, n in places:
        if x["q_norm_weight"] is not None:
            q[n], k[n] = normed(q[n], x["q_norm_weight"]), normed(k[n], x["k_norm_weight"])
        if attributes.get("do_rotary"):
            cos, sin = (x[name][position].astype(F64) for name in ("cos_cache", "sin_cache"))
            how = {"interleaved": attributes.get("rotary_interleaved"), "offset": attributes.get("rotary_offset", 0)}
            q[n], k[n] = (rounded(turned(y[n], cos, sin, **how)) for y in (q, k))
        slot = table[b, position // page] * page + position % page
        slot = x["slot_mapping"][n] if x["slot_mapping"] is not None else slot
        for cache, new, scale in zip(caches, (k[n], v[n]), scales, strict=True):
            if slot >= 0:
                new = new if scale is None else new / scale
                new = np.clip(np.rint(new), -128, 127) if cache.dtype == I8 else new.astype(np.float32)
                cache[slot // page, slot % page] = new.astype(cache.dtype)
    window, cap = attributes.get("local_window_size", -1), attributes.get("softcap", 0.0)
    for b, position, n in places:
        last = position + 1 if attributes.get("is_causal", 1) else past[b] + ends[b + 1] - ends[b]
        first = max(position - window + 1, 0) if window > 0 else 0
        seen = [(table[b, j // page], j % page) for j in range(first, last) if table[b, j // page] >= 0]
        if not seen:
            continue
        keys, values = (
            np.stack([cache[at].astype(F64) for at in seen]) * (1 if scale is None else scale)
            for cache, scale in zip(caches, scales, strict=True)
        )
        for head in range(heads):
            group = head * groups // heads
            scores = keys[:, group] @ q[n, head] * (attributes.get("scale") or 1 / math.sqrt(size))
            scores = cap * np.tanh(scores / cap) if cap else scores
            sink = -np.inf if x["head_sink"] is None else x["head_sink"][head].astype(F64)
            powers = np.exp(scores - max(scores.max(), sink))
            total = powers.sum() + np.exp(sink - max(scores.max(), sink))
            out[n, head] = powers / total @ values[:, group]
    return [out.reshape(len(out), -1).astype(elem), *caches]


def rotary(elem: Any = np.float32, pairs: int = 8) -> dict[str, Array]:
    angles = np.arange(PAGE * TABLE.shape[1])[:, None] / 9 ** np.linspace(0, 1, pairs)
    return {"cos_cache": np.cos(angles).astype(elem), "sin_cache": np.sin(angles).astype(elem)}


def scales(kind: str) -> dict[str, Array]:
    shape = (1,) if kind == "PER_TENSOR" else (GROUPS, 1, SIZE)
    return {
        name: (rng(i).random(shape) / 30 + 0.02).astype(np.float32) for i, name in enumerate(("k_scale", "v_scale"))
    }


X = made()
HALF, BRAIN = made(np.float16), made(BF16)
SLOTS = np.array([9, -1, 11, 3, 33, -1, 14, 12], I32)
WEIGHTS = {
    "q_norm_weight": rng(7).random(SIZE).astype(np.float32),
    "k_norm_weight": rng(8).random(SIZE).astype(np.float32),
}
SINK = rng(9).standard_normal(6)
UNMAPPED = np.where(np.isin(TABLE, (3, 5, 11)), -1, TABLE)
PAGED = {
    "plain": paged(X),
    "packed": paged(packed(X)),
    "heads of their own": paged(made(per=1), per=1),
    "tokens that are nobody's": paged(made(spare=2)),
    "window": paged(X, local_window_size=2, softcap=1.5, scale=0.3),
    "to all tokens": paged(X, is_causal=0),
    "to all tokens of a window": paged(X, is_causal=0, local_window_size=3),
    "rotary": paged(X | rotary(), do_rotary=1),
    "rotary of pairs side by side": paged(X | rotary(), do_rotary=1, rotary_interleaved=1),
    "no pages": paged(X | {"block_table": UNMAPPED}),
    "pages behind the end": paged(X | {"block_table": np.where(TABLE == 9, 777, TABLE)}),
    "slots": paged(X | {"slot_mapping": SLOTS}),
    "sink": paged(X | {"head_sink": SINK.astype(np.float32)}, local_window_size=2),
    "norms": paged(X | WEIGHTS | rotary(), do_rotary=1, qk_norm_epsilon=0.1),
    "bounds": paged(X | {"attention_metadata": np.array([4, 9], I32)}, known=(16,)),
    "bounds that only a run knows": paged(X | {"attention_metadata": np.array([4, 9, 1], I32)}),
    "no bounds": paged(X | {"attention_metadata": np.array([0, 0], I32)}, known=(16,)),
    "halves": paged(HALF | rotary(np.float16), do_rotary=1, error=5e-3),
    "halves of eight bits of exponent": paged(
        packed(BRAIN) | {"head_sink": SINK.astype(BF16)}, softcap=2.0, error=4e-2
    ),
    **{
        f"{np.dtype(cache)} {kind}": paged(
            made(elem, cache) | scales(kind), error=error, k_quant_type=kind, v_quant_type=kind
        )
        for kind in ("PER_TENSOR", "PER_CHANNEL")
        for cache, elem, error in ((I8, np.float32, 1e-4), (F8, np.float16, 1e-2))
    },
}
