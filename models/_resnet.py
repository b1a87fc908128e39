"""What the ResNets have in common: stem, stages and head, with batch norms unfolded (opset 17) and a dynamic batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from models._builder import Builder, Value
from models._layers import conv, gemm

DIMS: dict[str, tuple[int, int]] = {"batch": (1, 16)}
TEST_DIMS: list[dict[str, int]] = [{"batch": 1}, {"batch": 2}, {"batch": 3}]

Block = Callable[[Builder, Value, int, int, int], Value]
"""Of the builder, a tensor, its channels, the width and the stride."""


def write(
    path: Path, name: str, block: Block, depths: Sequence[int], expansion: int, *, small: bool, seed: int
) -> None:
    """Write a network whose blocks give `expansion` times their width, `depths` of them in each stage."""
    base, depths, classes = (8, (1, 2, 1, 1), 10) if small else (64, depths, 1000)
    image = _image(small)
    g = Builder(name, opset=17, seed=seed)
    x = g.input("image", ["batch", 3, image, image])
    x = conv_bn(g, x, 3, base, 7, "stem", stride=2)
    x = g.MaxPool(g.Relu(x), kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    c_in = base
    for stage, depth in enumerate(depths):
        width = base << stage
        for i in range(depth):
            stride = 2 if stage > 0 and i == 0 else 1
            with g.scope(f"layer{stage + 1}.{i}"):
                x = block(g, x, c_in, width, stride)
            c_in = width * expansion
    x = g.Flatten(g.GlobalAveragePool(x), axis=1)
    g.output(gemm(g, x, c_in, classes, "fc"), "logits", ["batch", classes])
    g.calibrate(inputs(g.rng, small=small, batch=8 if small else 2))
    g.save(path)


def inputs(rng: np.random.Generator, *, small: bool = False, batch: int = 1) -> dict[str, np.ndarray]:
    """A random normalised image batch."""
    return {"image": rng.standard_normal((batch, 3, _image(small), _image(small)), np.float32)}


def _image(small: bool) -> int:
    return 64 if small else 224


def conv_bn(
    g: Builder, x: Value, c_in: int, c_out: int, kernel: int, stem: str, *, stride: int = 1, gain: float = 1.0
) -> Value:
    """A convolution and its batch norm."""
    with g.scope(stem):
        return g.batch_norm(conv(g, x, c_in, c_out, kernel, stride=stride), c_out, gain=gain)
