"""ShuffleNet-v2 x1.0, exported by TorchScript at opset 11: channel shuffles by shape arithmetic."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from models import _cli

if TYPE_CHECKING:
    from torch import nn

NAME = "shufflenet"
REQUIRES = ("torch", "torchvision")
DIMS: dict[str, tuple[int, int]] = {"batch": (1, 8)}
TEST_DIMS: list[dict[str, int]] = [{"batch": 1}, {"batch": 2}, {"batch": 3}]


def build(path: Path, *, small: bool = False, seed: int = 0) -> None:
    """Write the model to `path`."""
    from models import _torch_export

    module = _torch_export.heal(_module(small), seed)
    images = _torch_export.as_torch(inputs(np.random.default_rng(seed), small=small, batch=4))
    _torch_export.calibrate(module, images["image"])
    _torch_export.export_torchscript(module, images["image"][:2], path, opset=11)


def inputs(rng: np.random.Generator, *, small: bool = False, batch: int = 1) -> dict[str, np.ndarray]:
    """A random normalised image batch."""
    side = 64 if small else 224
    return {"image": rng.standard_normal((batch, 3, side, side), np.float32)}


def _module(small: bool) -> nn.Module:
    from models import _torch_export

    shufflenet = _torch_export.import_torchvision().models.shufflenetv2
    if small:
        return shufflenet.ShuffleNetV2([2, 2, 1], [8, 16, 24, 32, 48], num_classes=10)
    return shufflenet.shufflenet_v2_x1_0(weights=None)


def main() -> None:
    """Write the model from the command line."""
    _cli.run(build, __doc__)


if __name__ == "__main__":
    main()
