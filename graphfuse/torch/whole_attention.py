"""Keeps attentions whole that torch has no fused kernel for.

`scaled_dot_product_attention` chooses its kernel while it is traced. For heads that none takes, as of keys that are
longer than their values (the latent attention of DeepSeek-AI, DeepSeek-V2), it is its mathematics in f32: two products
of keys and values that are copied for each query head. Where no gradient is asked for, such a call becomes one operator
of ours, which is lowered like torch's fused ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import fx

from graphfuse.frontends.fx.ops.attention import WHOLE_ATTENTION

NAMES = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")
PLAIN = (int, float, type(None))
"""What the other arguments are, if they are known."""
MOST = 256
"""Elements of a head that torch's fused kernels take."""


def attention_calls(gm: fx.GraphModule) -> Iterator[tuple[fx.Node, dict[str, Any]]]:
    """The calls of attention in Dynamo's graph, each with its arguments by name."""
    for node in gm.graph.find_nodes(op="call_function", target=torch.nn.functional.scaled_dot_product_attention):
        yield node, {**dict(zip(NAMES, node.args, strict=False)), **node.kwargs}


def keep_attention_whole(gm: fx.GraphModule) -> None:
    """Replace such calls in Dynamo's graph."""
    changed = False
    for node, given in attention_calls(gm):
        if _is_left_to_mathematics(given):
            node.target = WHOLE_ATTENTION
            mask, is_causal, scale = (given.get(name) for name in ("attn_mask", "is_causal", "scale"))
            node.args = (*(given[name] for name in NAMES[:3]), mask, bool(is_causal), scale)
            node.kwargs = {}
            changed = True
    if changed:
        gm.recompile()


def _is_left_to_mathematics(given: Mapping[str, Any]) -> bool:
    """Whether no fused kernel takes a call that needs no gradient, as far as is known."""
    nodes = [n for n in map(given.get, NAMES[:4]) if n is not None]
    values: list[Any] = [n.meta.get("example_value") for n in nodes if isinstance(n, fx.Node)]
    if len(values) < max(3, len(nodes)) or not all(isinstance(given.get(name, 0), PLAIN) for name in NAMES[4:]):
        return False
    if given.get("dropout_p") or not all(isinstance(v, torch.Tensor) and not v.requires_grad for v in values):
        return False
    query, key, value = values[:3]
    if any(v.dim() != 4 or v.shape[0] != query.shape[0] for v in (query, key, value)):
        return False
    if not given.get("enable_gqa") and query.shape[1] != key.shape[1]:
        return False
    depth, width = query.shape[-1], value.shape[-1]
    return isinstance(depth, int) and isinstance(width, int) and (depth != width or depth > MOST)
