"""MobileNet-v3 large: depthwise convolutions, squeeze-excite, hard swish (opset 14), batch 1."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from models import _cli
from models._builder import Builder, Value
from models._layers import conv, gemm

NAME = "mobilenet_v3"
DIMS: dict[str, tuple[int, int]] = {}
TEST_DIMS: list[dict[str, int]] = [{}]


@dataclass(frozen=True)
class _Block:
    """One inverted residual, a row of the paper's table 1."""

    kernel: int
    expanded: int
    out: int
    squeeze: Literal["SE", "-"]
    activation: Literal["HS", "RE"]
    stride: int


_FULL = (
    _Block(3, 16, 16, "-", "RE", 1),
    _Block(3, 64, 24, "-", "RE", 2),
    _Block(3, 72, 24, "-", "RE", 1),
    _Block(5, 72, 40, "SE", "RE", 2),
    _Block(5, 120, 40, "SE", "RE", 1),
    _Block(5, 120, 40, "SE", "RE", 1),
    _Block(3, 240, 80, "-", "HS", 2),
    _Block(3, 200, 80, "-", "HS", 1),
    _Block(3, 184, 80, "-", "HS", 1),
    _Block(3, 184, 80, "-", "HS", 1),
    _Block(3, 480, 112, "SE", "HS", 1),
    _Block(3, 672, 112, "SE", "HS", 1),
    _Block(5, 672, 160, "SE", "HS", 2),
    _Block(5, 960, 160, "SE", "HS", 1),
    _Block(5, 960, 160, "SE", "HS", 1),
)
_SMALL = (
    _Block(3, 8, 8, "-", "RE", 1),
    _Block(5, 24, 16, "SE", "RE", 2),
    _Block(3, 24, 16, "-", "HS", 1),
    _Block(5, 40, 24, "SE", "HS", 2),
)


def build(path: Path, *, small: bool = False, seed: int = 0) -> None:
    """Write the model to `path`."""
    blocks, hidden, classes = (_SMALL, 32, 10) if small else (_FULL, 1280, 1000)
    stem, image = blocks[0].expanded, _image(small)
    g = Builder(NAME, opset=14, seed=seed)
    x = g.input("image", [1, 3, image, image])
    with g.scope("stem"):
        x = g.HardSwish(_conv_bn(g, x, 3, stem, 3, stride=2))
    channels = stem
    for i, block in enumerate(blocks):
        with g.scope(f"block{i}"):
            x = _inverted_residual(g, x, channels, block)
        channels = block.out
    last = 6 * channels
    with g.scope("head"):
        x = g.HardSwish(_conv_bn(g, x, channels, last, 1))
    x = g.Flatten(g.GlobalAveragePool(x), axis=1)
    x = g.HardSwish(gemm(g, x, last, hidden, "classifier.0"))
    g.output(gemm(g, x, hidden, classes, "classifier.3"), "logits", [1, classes])
    images = 8 if small else 2
    g.calibrate({"image": g.rng.standard_normal((images, 3, image, image), np.float32)})
    g.save(path)


def inputs(rng: np.random.Generator, *, small: bool = False) -> dict[str, np.ndarray]:
    """A random normalised image."""
    return {"image": rng.standard_normal((1, 3, _image(small), _image(small)), np.float32)}


def _image(small: bool) -> int:
    return 48 if small else 224


def _conv_bn(g: Builder, x: Value, c_in: int, c_out: int, kernel: int, *, stride: int = 1, groups: int = 1) -> Value:
    y = conv(g, x, c_in, c_out, kernel, stride=stride, groups=groups)
    return g.batch_norm(y, c_out, epsilon=1e-3)


def _inverted_residual(g: Builder, x: Value, c_in: int, block: _Block) -> Value:
    activation = g.HardSwish if block.activation == "HS" else g.Relu
    wide, y = block.expanded, x
    if wide != c_in:
        with g.scope("expand"):
            y = activation(_conv_bn(g, y, c_in, wide, 1))
    with g.scope("depthwise"):
        y = activation(_conv_bn(g, y, wide, wide, block.kernel, stride=block.stride, groups=wide))
    if block.squeeze == "SE":
        with g.scope("se"):
            y = _squeeze_excite(g, y, wide)
    with g.scope("project"):
        y = _conv_bn(g, y, wide, block.out, 1)
    return x + y if block.stride == 1 and c_in == block.out else y


def _squeeze_excite(g: Builder, x: Value, channels: int) -> Value:
    squeezed = max(8, (channels // 4 + 4) // 8 * 8)
    s = g.GlobalAveragePool(x)
    s = g.Relu(conv(g, s, channels, squeezed, 1, bias=True, stem="fc1"))
    s = conv(g, s, squeezed, channels, 1, bias=True, stem="fc2")
    return g.HardSigmoid(s, alpha=1.0 / 6.0, beta=0.5) * x


def main() -> None:
    """Write the model from the command line."""
    _cli.run(build, __doc__)


if __name__ == "__main__":
    main()
