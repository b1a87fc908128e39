"""ViT-base/16 at 224 pixels (opset 17), dynamic batch."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from models import _cli, _vit

NAME = "vit_base"
DIMS: dict[str, tuple[int, int]] = {"batch": (1, 4)}
TEST_DIMS: list[dict[str, int]] = [{"batch": 1}, {"batch": 2}, {"batch": 3}]

_FULL = _vit.Config(width=768, depth=12, n_heads=12)


def build(path: Path, *, small: bool = False, seed: int = 0) -> None:
    """Write the model to `path`."""
    _vit.graph(NAME, _vit.SMALL if small else _FULL, opset=17, seed=seed).save(path)


def inputs(rng: np.random.Generator, *, small: bool = False, batch: int = 1) -> dict[str, np.ndarray]:
    """A random normalised image batch."""
    return _vit.inputs(rng, _vit.SMALL if small else _FULL, batch)


def main() -> None:
    """Write the model from the command line."""
    _cli.run(build, __doc__)


if __name__ == "__main__":
    main()
