"""ResNet-18 with its batch norms unfolded (opset 17), dynamic batch: what its quantised forms are made of.

No model of the list itself: `resnet50` has the same layers.
"""

from __future__ import annotations

from pathlib import Path

from models import _cli, _resnet
from models._builder import Builder, Value
from models._resnet import conv_bn

DIMS = _resnet.DIMS
TEST_DIMS = _resnet.TEST_DIMS

inputs = _resnet.inputs


def build(path: Path, *, small: bool = False, seed: int = 0) -> None:
    """Write the model to `path`."""
    _resnet.write(path, "resnet18", _basic, (2, 2, 2, 2), 1, small=small, seed=seed)


def _basic(g: Builder, x: Value, c_in: int, width: int, stride: int) -> Value:
    y = g.Relu(conv_bn(g, x, c_in, width, 3, "conv1", stride=stride))
    # a trained network's branches are smaller than its shortcuts
    y = conv_bn(g, y, width, width, 3, "conv2", gain=0.4)
    if stride != 1 or c_in != width:
        x = conv_bn(g, x, c_in, width, 1, "downsample", stride=stride)
    return g.Relu(y + x)


def main() -> None:
    """Write the model from the command line."""
    _cli.run(build, __doc__)


if __name__ == "__main__":
    main()
