"""ConvNeXt-tiny: 7x7 depthwise, channels-last MLP, Gelu operator, layer scale (opset 20)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from models import _cli
from models._builder import Builder, Value
from models._layers import conv, gemm, layer_norm, linear

NAME = "convnext_tiny"
DIMS: dict[str, tuple[int, int]] = {"batch": (1, 8)}
TEST_DIMS: list[dict[str, int]] = [{"batch": 1}, {"batch": 2}, {"batch": 3}]


def build(path: Path, *, small: bool = False, seed: int = 0) -> None:
    """Write the model to `path`."""
    widths, depths, classes = ((8, 16), (1, 2), 10) if small else ((96, 192, 384, 768), (3, 3, 9, 3), 1000)
    image = _image(small)
    g = Builder(NAME, opset=20, seed=seed)
    x = g.input("image", ["batch", 3, image, image])
    x = conv(g, x, 3, widths[0], 4, stride=4, pad=0, bias=True, stem="stem")
    x = _norm_2d(g, x, widths[0], "stem.norm")
    for stage, (width, depth) in enumerate(zip(widths, depths, strict=True)):
        with g.scope(f"stages.{stage}"):
            if stage > 0:
                before = widths[stage - 1]
                x = _norm_2d(g, x, before, "downsample.norm")
                x = conv(g, x, before, width, 2, stride=2, pad=0, bias=True, stem="downsample")
            for block in range(depth):
                with g.scope(f"blocks.{block}"):
                    x = _block(g, x, width)
    x = g.Flatten(_norm_2d(g, g.GlobalAveragePool(x), widths[-1], "head.norm"), axis=1)
    g.output(gemm(g, x, widths[-1], classes, "head.fc"), "logits", ["batch", classes])
    g.save(path)


def inputs(rng: np.random.Generator, *, small: bool = False, batch: int = 1) -> dict[str, np.ndarray]:
    """A random normalised image batch."""
    return {"image": rng.standard_normal((batch, 3, _image(small), _image(small)), np.float32)}


def _image(small: bool) -> int:
    return 32 if small else 224


def _norm_2d(g: Builder, x: Value, width: int, stem: str) -> Value:
    """LayerNorm over the channels of an NCHW tensor."""
    x = g.Transpose(x, perm=[0, 2, 3, 1])
    return g.Transpose(layer_norm(g, x, width, stem, epsilon=1e-6), perm=[0, 3, 1, 2])


def _block(g: Builder, x: Value, width: int) -> Value:
    y = conv(g, x, width, width, 7, groups=width, bias=True, stem="conv_dw")
    y = layer_norm(g, g.Transpose(y, perm=[0, 2, 3, 1]), width, "norm", epsilon=1e-6)
    y = g.Gelu(linear(g, y, width, 4 * width, "mlp.fc1"))
    y = linear(g, y, 4 * width, width, "mlp.fc2")
    y = g.Transpose(y * g.gain(width, stem="gamma"), perm=[0, 3, 1, 2])
    return y + x


def main() -> None:
    """Write the model from the command line."""
    _cli.run(build, __doc__)


if __name__ == "__main__":
    main()
