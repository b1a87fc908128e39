"""EfficientNet-B0: inverted residuals, squeeze-excite, SiLU as Sigmoid and Mul (opset 18)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from models import _cli
from models._builder import Builder, Value
from models._layers import conv, gemm, silu

NAME = "efficientnet_b0"
DIMS: dict[str, tuple[int, int]] = {}
TEST_DIMS: list[dict[str, int]] = [{}]


@dataclass(frozen=True)
class _Stage:
    """A run of equal blocks: expansion ratio, kernel, first stride, output channels, depth."""

    expansion: int
    kernel: int
    stride: int
    out: int
    depth: int


_FULL = (
    _Stage(1, 3, 1, 16, 1),
    _Stage(6, 3, 2, 24, 2),
    _Stage(6, 5, 2, 40, 2),
    _Stage(6, 3, 2, 80, 3),
    _Stage(6, 5, 1, 112, 3),
    _Stage(6, 5, 2, 192, 4),
    _Stage(6, 3, 1, 320, 1),
)
_SMALL = (_Stage(1, 3, 1, 8, 1), _Stage(4, 5, 2, 12, 2), _Stage(4, 3, 2, 16, 2))


def build(path: Path, *, small: bool = False, seed: int = 0) -> None:
    """Write the model to `path`."""
    stages, stem, head, classes = (_SMALL, 8, 64, 10) if small else (_FULL, 32, 1280, 1000)
    image = _image(small)
    g = Builder(NAME, opset=18, seed=seed)
    x = g.input("image", [1, 3, image, image])
    with g.scope("stem"):
        x = silu(g, _conv_bn(g, x, 3, stem, 3, stride=2))
    channels = stem
    for s, stage in enumerate(stages):
        for block in range(stage.depth):
            with g.scope(f"blocks.{s}.{block}"):
                x = _mbconv(g, x, channels, stage, stage.stride if block == 0 else 1)
            channels = stage.out
    with g.scope("head"):
        x = silu(g, _conv_bn(g, x, channels, head, 1))
    pooled = g.reduce_mean(x, [2, 3], keepdims=False)
    g.output(gemm(g, pooled, head, classes, "classifier"), "logits", [1, classes])
    images = 8 if small else 2
    g.calibrate({"image": g.rng.standard_normal((images, 3, image, image), np.float32)})
    g.save(path)


def inputs(rng: np.random.Generator, *, small: bool = False) -> dict[str, np.ndarray]:
    """A random normalised image."""
    return {"image": rng.standard_normal((1, 3, _image(small), _image(small)), np.float32)}


def _image(small: bool) -> int:
    return 48 if small else 224


def _conv_bn(g: Builder, x: Value, c_in: int, c_out: int, kernel: int, *, stride: int = 1, groups: int = 1) -> Value:
    return g.batch_norm(conv(g, x, c_in, c_out, kernel, stride=stride, groups=groups), c_out)


def _mbconv(g: Builder, x: Value, c_in: int, stage: _Stage, stride: int) -> Value:
    wide, y = c_in * stage.expansion, x
    if wide != c_in:
        with g.scope("expand"):
            y = silu(g, _conv_bn(g, y, c_in, wide, 1))
    with g.scope("depthwise"):
        y = silu(g, _conv_bn(g, y, wide, wide, stage.kernel, stride=stride, groups=wide))
    with g.scope("se"):
        y = _squeeze_excite(g, y, wide, max(1, c_in // 4))
    with g.scope("project"):
        y = _conv_bn(g, y, wide, stage.out, 1)
    return y + x if stride == 1 and c_in == stage.out else y


def _squeeze_excite(g: Builder, x: Value, channels: int, squeezed: int) -> Value:
    s = g.reduce_mean(x, [2, 3])
    s = silu(g, conv(g, s, channels, squeezed, 1, bias=True, stem="reduce"))
    return x * g.Sigmoid(conv(g, s, squeezed, channels, 1, bias=True, stem="expand"))


def main() -> None:
    """Write the model from the command line."""
    _cli.run(build, __doc__)


if __name__ == "__main__":
    main()
