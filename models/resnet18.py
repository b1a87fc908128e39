"""ResNet-18 with its batch norms unfolded (opset 17), dynamic batch: what its quantised forms are made of.

No model of the list itself: `resnet50` has the same layers.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from models import _cli
from models._builder import Builder, Value
from models._layers import conv, gemm

DIMS: dict[str, tuple[int, int]] = {"batch": (1, 16)}
TEST_DIMS: list[dict[str, int]] = [{"batch": 1}, {"batch": 2}, {"batch": 3}]


def build(path: Path, *, small: bool = False, seed: int = 0) -> None:
    """Write the model to `path`."""
    base, depths, classes = (8, (1, 2, 1, 1), 10) if small else (64, (2, 2, 2, 2), 1000)
    image = _image(small)
    g = Builder("resnet18", opset=17, seed=seed)
    x = g.input("image", ["batch", 3, image, image])
    x = _conv_bn(g, x, 3, base, 7, "stem", stride=2)
    x = g.MaxPool(g.Relu(x), kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    c_in = base
    for stage, depth in enumerate(depths):
        width = base << stage
        for block in range(depth):
            stride = 2 if stage > 0 and block == 0 else 1
            with g.scope(f"layer{stage + 1}.{block}"):
                x = _basic(g, x, c_in, width, stride)
            c_in = width
    x = g.Flatten(g.GlobalAveragePool(x), axis=1)
    g.output(gemm(g, x, c_in, classes, "fc"), "logits", ["batch", classes])
    g.calibrate(inputs(g.rng, small=small, batch=8 if small else 2))
    g.save(path)


def inputs(rng: np.random.Generator, *, small: bool = False, batch: int = 1) -> dict[str, np.ndarray]:
    """A random normalised image batch."""
    return {"image": rng.standard_normal((batch, 3, _image(small), _image(small)), np.float32)}


def _image(small: bool) -> int:
    return 64 if small else 224


def _conv_bn(
    g: Builder,
    x: Value,
    c_in: int,
    c_out: int,
    kernel: int,
    stem: str,
    *,
    stride: int = 1,
    gain: float = 1.0,
) -> Value:
    with g.scope(stem):
        return g.batch_norm(conv(g, x, c_in, c_out, kernel, stride=stride), c_out, gain=gain)


def _basic(g: Builder, x: Value, c_in: int, width: int, stride: int) -> Value:
    y = g.Relu(_conv_bn(g, x, c_in, width, 3, "conv1", stride=stride))
    # a trained network's branches are smaller than its shortcuts
    y = _conv_bn(g, y, width, width, 3, "conv2", gain=0.4)
    if stride != 1 or c_in != width:
        x = _conv_bn(g, x, c_in, width, 1, "downsample", stride=stride)
    return g.Relu(y + x)


def main() -> None:
    """Write the model from the command line."""
    _cli.run(build, __doc__)


if __name__ == "__main__":
    main()
