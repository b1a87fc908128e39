"""The Vision Transformer behind `vit_tiny` and `vit_base`; owns their shared wiring."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from models._builder import Builder, Value
from models._layers import conv, gelu_erf, gemm, layer_norm, linear, merge_heads


@dataclass(frozen=True)
class Config:
    """Sizes of one ViT."""

    width: int
    depth: int
    n_heads: int
    image: int = 224
    patch: int = 16
    classes: int = 1000

    @property
    def head_dim(self) -> int:
        """Width of one attention head."""
        return self.width // self.n_heads

    @property
    def tokens(self) -> int:
        """Patches plus the class token."""
        return (self.image // self.patch) ** 2 + 1


SMALL = Config(width=24, depth=2, n_heads=3, image=32, patch=8, classes=10)


def graph(name: str, config: Config, *, opset: int, seed: int) -> Builder:
    """Return the whole model, with a dynamic batch."""
    g = Builder(name, opset=opset, seed=seed)
    image = g.input("image", ["batch", 3, config.image, config.image])
    batch = g.dim(image, 0)
    x = conv(
        g, image, 3, config.width, config.patch,
        stride=config.patch, pad=0, bias=True, stem="patch_embed",
    )  # fmt: skip
    x = g.reshape(x, batch, config.width, config.tokens - 1)
    x = g.Transpose(x, perm=[0, 2, 1])
    cls_token = g.normal([1, 1, config.width], 1.0, "cls_token")
    cls_token = g.Expand(cls_token, g.shape_vector(batch, 1, config.width))
    x = g.Concat(cls_token, x, axis=1)
    x = x + g.normal([1, config.tokens, config.width], 0.5, "pos_embed")
    for i in range(config.depth):
        with g.scope(f"blocks.{i}"):
            x = x + _attention(g, layer_norm(g, x, config.width, "norm1"), batch, config)
            x = x + _mlp(g, layer_norm(g, x, config.width, "norm2"), config.width)
    x = layer_norm(g, x, config.width, "norm")
    x = g.Gather(x, g.const(0), axis=1)
    g.output(gemm(g, x, config.width, config.classes, "head"), "logits", ["batch", config.classes])
    return g


def inputs(rng: np.random.Generator, config: Config, batch: int) -> dict[str, np.ndarray]:
    """A random normalised image batch."""
    return {"image": rng.standard_normal((batch, 3, config.image, config.image), np.float32)}


def _attention(g: Builder, x: Value, batch: Value, config: Config) -> Value:
    """Fused qkv projection, then softmax(q k^T) v with the scale split over q and k."""
    width, n_heads, head_dim = config.width, config.n_heads, config.head_dim
    with g.scope("attn"):
        qkv = linear(g, x, width, 3 * width, "qkv")
        qkv = g.reshape(qkv, batch, config.tokens, 3, n_heads, head_dim)
        qkv = g.Transpose(qkv, perm=[2, 0, 3, 1, 4])
        q, k, v = (g.Squeeze(part, [0]) for part in g.split(qkv, [1, 1, 1], axis=0))
        scale = head_dim**-0.25
        scores = (q * scale) @ (g.Transpose(k, perm=[0, 1, 3, 2]) * scale)
        mixed = merge_heads(g, g.Softmax(scores, axis=-1) @ v, batch, config.tokens, width)
        return linear(g, mixed, width, width, "proj")


def _mlp(g: Builder, x: Value, width: int) -> Value:
    with g.scope("mlp"):
        hidden = gelu_erf(g, linear(g, x, width, 4 * width, "fc1"))
        return linear(g, hidden, 4 * width, width, "fc2")
