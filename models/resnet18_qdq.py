"""ResNet-18 in 8 bits: f32 operators between QuantizeLinear and DequantizeLinear."""

from __future__ import annotations

from pathlib import Path

from models import _cli, _quantize, resnet18

NAME = "resnet18_qdq"
SOURCE = resnet18
REQUIRES = ("onnxruntime",)
DIMS = resnet18.DIMS
TEST_DIMS = resnet18.TEST_DIMS
inputs = resnet18.inputs
TOLERANCE = 5e-2


def build(path: Path, *, small: bool = False, seed: int = 0) -> None:
    """Write the model to `path`."""
    _quantize.static(SOURCE, path, form="QDQ", small=small, seed=seed)


def main() -> None:
    """Write the model from the command line."""
    _cli.run(build, __doc__)


if __name__ == "__main__":
    main()
