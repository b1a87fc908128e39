"""ResNet-50 with its batch norms unfolded (opset 17), dynamic batch."""

from __future__ import annotations

from pathlib import Path

from models import _cli, _resnet
from models._builder import Builder, Value
from models._resnet import conv_bn

NAME = "resnet50"
DIMS = _resnet.DIMS
TEST_DIMS = _resnet.TEST_DIMS
EXPANSION = 4

inputs = _resnet.inputs


def build(path: Path, *, small: bool = False, seed: int = 0) -> None:
    """Write the model to `path`."""
    _resnet.write(path, NAME, _bottleneck, (3, 4, 6, 3), EXPANSION, small=small, seed=seed)


def _bottleneck(g: Builder, x: Value, c_in: int, width: int, stride: int) -> Value:
    c_out = width * EXPANSION
    y = g.Relu(conv_bn(g, x, c_in, width, 1, "conv1"))
    y = g.Relu(conv_bn(g, y, width, width, 3, "conv2", stride=stride))
    # a trained network's branches are smaller than its shortcuts
    y = conv_bn(g, y, width, c_out, 1, "conv3", gain=0.4)
    if stride != 1 or c_in != c_out:
        x = conv_bn(g, x, c_in, c_out, 1, "downsample", stride=stride)
    return g.Relu(y + x)


def main() -> None:
    """Write the model from the command line."""
    _cli.run(build, __doc__)


if __name__ == "__main__":
    main()
