"""The Whisper-tiny encoder, exported from transformers: 1-D convolutions, then attention."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from models import _cli

NAME = "whisper_encoder"
REQUIRES = ("torch", "transformers")
DIMS: dict[str, tuple[int, int]] = {"batch": (1, 4)}
TEST_DIMS: list[dict[str, int]] = [{"batch": 1}, {"batch": 2}, {"batch": 3}]


def build(path: Path, *, small: bool = False, seed: int = 0) -> None:
    """Write the model to `path`."""
    import torch

    from models import _torch_export, _whisper

    encoder = _whisper.module(small, seed).get_encoder()

    class Encoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = encoder

        def forward(self, input_features: torch.Tensor) -> torch.Tensor:
            return self.encoder(input_features).last_hidden_state

    feeds = inputs(np.random.default_rng(seed), small=small, batch=2)
    _torch_export.export(
        Encoder(),
        _torch_export.as_torch(feeds),
        path,
        outputs=["last_hidden_state"],
        dims=DIMS,
        axes={"input_features": ["batch", None, None]},
    )


def inputs(rng: np.random.Generator, *, small: bool = False, batch: int = 1) -> dict[str, np.ndarray]:
    """Random mel frames, two per source position."""
    bins, frames = (16, 60) if small else (80, 3000)
    return {"input_features": rng.standard_normal((batch, bins, frames), np.float32)}


def main() -> None:
    """Write the model from the command line."""
    _cli.run(build, __doc__)


if __name__ == "__main__":
    main()
