"""A small U-Net: one level up by ConvTranspose, two by Resize (opset 13), dynamic batch and size.

The nearest Resize takes its size from the skip connection's shape; the other two pad up to it by
shape arithmetic, so any image size works. The lowest level has a group norm as exported
(InstanceNormalization between reshapes).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from models import _cli
from models._builder import Builder, Value
from models._layers import conv

NAME = "unet"
DIMS: dict[str, tuple[int, int]] = {"batch": (1, 4), "height": (16, 512), "width": (16, 512)}
TEST_DIMS: list[dict[str, int]] = [
    {"batch": 1, "height": 64, "width": 64},
    {"batch": 2, "height": 32, "width": 80},
    {"batch": 1, "height": 45, "width": 51},
]


def build(path: Path, *, small: bool = False, seed: int = 0) -> None:
    """Write the model to `path`."""
    base = 4 if small else 32
    g = Builder(NAME, opset=13, seed=seed, constant_nodes=True)
    x = g.input("image", ["batch", 3, "height", "width"])
    skips: list[Value] = []
    channels = 3
    for level in range(3):
        with g.scope(f"down{level}"):
            x = _double_conv(g, x, channels, base << level)
        skips.append(x)
        channels = base << level
        x = g.MaxPool(x, kernel_shape=[2, 2], strides=[2, 2])
    with g.scope("middle"):
        x = _double_conv(g, x, channels, channels * 2)
        x = _group_norm(g, x, channels * 2, groups=4)
    for level, up in ((2, _up_linear), (1, _up_nearest), (0, _up_transposed)):
        width = base << level
        with g.scope(f"up{level}"):
            x = g.Concat(skips[level], up(g, x, skips[level], 2 * width), axis=1)
            x = _double_conv(g, x, 2 * width, width)
    x = conv(g, x, base, 2, 1, bias=True, stem="head")
    g.output(x, "mask_logits", ["batch", 2, "height", "width"])
    g.calibrate(inputs(g.rng, batch=2, height=64, width=64))
    g.save(path)


def inputs(
    rng: np.random.Generator,
    *,
    small: bool = False,
    batch: int = 1,
    height: int = 128,
    width: int = 128,
) -> dict[str, np.ndarray]:
    """A random image batch; `small` changes only the channels inside."""
    del small
    return {"image": rng.standard_normal((batch, 3, height, width), np.float32)}


def _double_conv(g: Builder, x: Value, c_in: int, c_out: int) -> Value:
    x = g.Relu(g.batch_norm(conv(g, x, c_in, c_out, 3, stem="conv1"), c_out))
    return g.Relu(g.batch_norm(conv(g, x, c_out, c_out, 3, stem="conv2"), c_out))


def _group_norm(g: Builder, x: Value, channels: int, *, groups: int) -> Value:
    """GroupNorm: InstanceNormalization over [B, groups, -1], then the per-channel affine."""
    ones, zeros = np.ones(groups, np.float32), np.zeros(groups, np.float32)
    y = g.InstanceNormalization(g.Reshape(x, [0, groups, -1]), ones, zeros, epsilon=1e-5)
    y = g.Reshape(y, g.Shape(x))
    return y * g.gain(channels, 1, 1) + g.bias(channels, 1, 1)


def _up_nearest(g: Builder, x: Value, skip: Value, channels: int) -> Value:
    """Resize to exactly the skip's height and width; the channel count comes from a 1x1."""
    x = conv(g, x, channels, channels // 2, 1, bias=True, stem="reduce")
    head = g.Slice(g.Shape(x), [0], [2], [0])
    sizes = g.Concat(head, g.Slice(g.Shape(skip), [2], [4], [0]), axis=0)
    return g.Resize(
        x, None, None, sizes,
        mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor",
    )  # fmt: skip


def _up_linear(g: Builder, x: Value, skip: Value, channels: int) -> Value:
    """Resize by the factor 2, bilinear; edge-pad what an odd size lacks."""
    x = conv(g, x, channels, channels // 2, 1, bias=True, stem="reduce")
    scales = np.asarray([1, 1, 2, 2], np.float32)
    x = g.Resize(x, None, scales, mode="linear", coordinate_transformation_mode="half_pixel")
    return _pad_to(g, x, skip, "edge")


def _up_transposed(g: Builder, x: Value, skip: Value, channels: int) -> Value:
    """Transposed convolution of stride 2; zero-pad what an odd size lacks."""
    half = channels // 2
    weight = g.weight(channels, half, 2, 2, fan_in=channels)
    x = g.ConvTranspose(x, weight, g.bias(half), kernel_shape=[2, 2], strides=[2, 2], pads=[0] * 4)
    return _pad_to(g, x, skip, "constant")


def _pad_to(g: Builder, x: Value, skip: Value, mode: str) -> Value:
    """Pad bottom and right up to the skip's size, by shape arithmetic."""
    missing = g.Sub(g.Shape(skip), g.Shape(x))
    spatial = g.Slice(missing, [2], [4], [0])
    pads = g.Concat([0, 0, 0, 0, 0, 0], spatial, axis=0)
    return g.Pad(x, pads, mode=mode)


def main() -> None:
    """Write the model from the command line."""
    _cli.run(build, __doc__)


if __name__ == "__main__":
    main()
