"""A convolutional classifier of scikit-learn's 8x8 handwritten digits, trained and committed.

Owns the committed file's interface and the split into training and held-out digits; the training
is `train_digits.py`.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np

from models import _cli

NAME = "digits"
DIMS: dict[str, tuple[int, int]] = {"batch": (1, 512)}
TEST_DIMS: list[dict[str, int]] = [{"batch": 1}, {"batch": 3}, {"batch": 64}]

FILE = Path(__file__).with_suffix(".onnx")
HELD_OUT = 360
_SPLIT_SEED = 20


@dataclass(frozen=True)
class Digits:
    """Images f32 [n, 1, 8, 8] in 0..1 with their labels int64 [n]."""

    images: np.ndarray
    labels: np.ndarray


def build(path: Path, *, small: bool = False, seed: int = 0) -> None:
    """Copy the committed model to `path`; there is one size and one set of weights."""
    del small, seed
    shutil.copyfile(FILE, path)


def inputs(rng: np.random.Generator, *, small: bool = False, batch: int = 1) -> dict[str, np.ndarray]:
    """Random grey levels, not digits: those are in `held_out`, which needs scikit-learn."""
    del small
    levels = rng.integers(0, 17, (batch, 1, 8, 8))
    return {"image": levels.astype(np.float32) / np.float32(16)}


def training() -> Digits:
    """Return the digits the model was trained on."""
    return _digits(slice(HELD_OUT, None))


def held_out() -> Digits:
    """Return the digits the model never saw."""
    return _digits(slice(0, HELD_OUT))


def _digits(part: slice) -> Digits:
    from sklearn.datasets import load_digits

    images, labels = cast("tuple[np.ndarray, np.ndarray]", load_digits(return_X_y=True))
    order = np.random.default_rng(_SPLIT_SEED).permutation(len(labels))[part]
    scaled = images[order].reshape(-1, 1, 8, 8).astype(np.float32) / np.float32(16)
    return Digits(scaled, labels[order].astype(np.int64))


def main() -> None:
    """Write the model from the command line."""
    _cli.run(build, __doc__)


if __name__ == "__main__":
    main()
