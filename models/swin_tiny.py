"""Swin-tiny: shifted-window attention as roll, reshape and transpose (opset 17), batch 1.

The roll is Slice and Concat, the relative position bias a Gather from its table, and the mask of
the shifted windows a constant, as exported.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from models import _cli
from models._builder import INT64, Builder, Value
from models._layers import conv, gelu_erf, gemm, layer_norm, linear

NAME = "swin_tiny"
DIMS: dict[str, tuple[int, int]] = {}
TEST_DIMS: list[dict[str, int]] = [{}]


@dataclass(frozen=True)
class _Config:
    """Sizes of one Swin; the width doubles at each stage."""

    width: int
    depths: tuple[int, ...]
    n_heads: tuple[int, ...]
    image: int
    window: int
    classes: int


_FULL = _Config(96, (2, 2, 6, 2), (3, 6, 12, 24), 224, 7, 1000)
_SMALL = _Config(16, (2, 2), (2, 4), 32, 4, 10)


def build(path: Path, *, small: bool = False, seed: int = 0) -> None:
    """Write the model to `path`."""
    config = _SMALL if small else _FULL
    g = Builder(NAME, opset=17, seed=seed)
    image = g.input("image", [1, 3, config.image, config.image])
    width, side = config.width, config.image // 4
    x = conv(g, image, 3, width, 4, stride=4, pad=0, bias=True, stem="patch_embed")
    x = layer_norm(g, g.Transpose(x, perm=[0, 2, 3, 1]), width, "patch_embed.norm")
    for stage, depth in enumerate(config.depths):
        with g.scope(f"layers.{stage}"):
            if stage > 0:
                x = _merge_patches(g, x, width)
                width, side = width * 2, side // 2
            for i in range(depth):
                # windows as large as the map are not shifted
                shift = config.window // 2 if i % 2 == 1 and side > config.window else 0
                with g.scope(f"blocks.{i}"):
                    x = _block(g, x, width, side, config.n_heads[stage], config.window, shift)
    x = g.reduce_mean(layer_norm(g, x, width, "norm"), [1, 2], keepdims=False)
    g.output(gemm(g, x, width, config.classes, "head"), "logits", [1, config.classes])
    g.save(path)


def inputs(rng: np.random.Generator, *, small: bool = False) -> dict[str, np.ndarray]:
    """A random normalised image."""
    image = (_SMALL if small else _FULL).image
    return {"image": rng.standard_normal((1, 3, image, image), np.float32)}


def _merge_patches(g: Builder, x: Value, width: int) -> Value:
    """Concatenate each 2x2 neighbourhood's channels, then halve them."""
    corners: list[Value] = []
    for column in (0, 1):
        for row in (0, 1):
            rows = g.Slice(x, [row], [2**63 - 1], [1], [2])
            corners.append(g.Slice(rows, [column], [2**63 - 1], [2], [2]))
    with g.scope("downsample"):
        x = layer_norm(g, g.Concat(*corners, axis=-1), 4 * width, "norm")
        return linear(g, x, 4 * width, 2 * width, "reduction", bias=False)


def _block(g: Builder, x: Value, width: int, side: int, n_heads: int, window: int, shift: int) -> Value:
    y = layer_norm(g, x, width, "norm1")
    if shift:
        y = _roll(g, _roll(g, y, -shift, axis=1), -shift, axis=2)
    y = _window_attention(g, y, width, side, n_heads, window, shift)
    if shift:
        y = _roll(g, _roll(g, y, shift, axis=1), shift, axis=2)
    x = x + y
    with g.scope("mlp"):
        y = linear(g, layer_norm(g, x, width, "norm2"), width, 4 * width, "fc1")
        return x + linear(g, gelu_erf(g, y), 4 * width, width, "fc2")


def _roll(g: Builder, x: Value, shift: int, axis: int) -> Value:
    """torch.roll along one axis: two slices, swapped."""
    tail = g.Slice(x, [-shift], [2**63 - 1], [axis], [1])
    head = g.Slice(x, [0], [-shift], [axis], [1])
    return g.Concat(tail, head, axis=axis)


def _window_attention(g: Builder, x: Value, width: int, side: int, n_heads: int, window: int, shift: int) -> Value:
    """Partition into windows, attend within each, and put the windows back."""
    across, area, head_dim = side // window, window * window, width // n_heads
    windows = across * across
    with g.scope("attn"):
        x = g.reshape(x, 1, across, window, across, window, width)
        x = g.reshape(g.Transpose(x, perm=[0, 1, 3, 2, 4, 5]), windows, area, width)
        qkv = g.reshape(linear(g, x, width, 3 * width, "qkv"), windows, area, 3, n_heads, head_dim)
        qkv = g.Transpose(qkv, perm=[2, 0, 3, 1, 4])
        q, k, v = (g.Gather(qkv, g.const(part), axis=0) for part in range(3))
        scores = (q * head_dim**-0.5) @ g.Transpose(k, perm=[0, 1, 3, 2])
        scores = scores + _position_bias(g, n_heads, window)
        if shift:
            mask = _shift_mask(side, window, shift)
            scores = g.reshape(scores, 1, windows, n_heads, area, area)
            scores = scores + mask[None, :, None]
            scores = g.reshape(scores, windows, n_heads, area, area)
        mixed = g.Transpose(g.Softmax(scores, axis=-1) @ v, perm=[0, 2, 1, 3])
        x = linear(g, g.reshape(mixed, windows, area, width), width, width, "proj")
        x = g.reshape(x, 1, across, across, window, window, width)
        return g.reshape(g.Transpose(x, perm=[0, 1, 3, 2, 4, 5]), 1, side, side, width)


def _position_bias(g: Builder, n_heads: int, window: int) -> Value:
    """One learned bias per head and relative offset, gathered to [1, H, area, area]."""
    table = g.normal([(2 * window - 1) ** 2, n_heads], 0.5, "relative_position_bias_table")
    grid = np.stack(np.meshgrid(np.arange(window), np.arange(window), indexing="ij")).reshape(2, -1)
    offset = grid[:, :, None] - grid[:, None, :] + window - 1
    index = (offset[0] * (2 * window - 1) + offset[1]).reshape(-1).astype(INT64)
    bias = g.reshape(g.Gather(table, index, axis=0), window**2, window**2, n_heads)
    return g.Unsqueeze(g.Transpose(bias, perm=[2, 0, 1]), [0])


def _shift_mask(side: int, window: int, shift: int) -> np.ndarray:
    """-100 between positions that only the roll made neighbours; f32 [windows, area, area]."""
    label = np.zeros((side, side), INT64)
    edges = (slice(0, -window), slice(-window, -shift), slice(-shift, None))
    for i, rows in enumerate(edges):
        for j, columns in enumerate(edges):
            label[rows, columns] = 3 * i + j
    across = side // window
    label = label.reshape(across, window, across, window).transpose(0, 2, 1, 3)
    label = label.reshape(across * across, window * window)
    return np.where(label[:, None] != label[:, :, None], np.float32(-100), np.float32(0))


def main() -> None:
    """Write the model from the command line."""
    _cli.run(build, __doc__)


if __name__ == "__main__":
    main()
