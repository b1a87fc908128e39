"""The Whisper-tiny decoder, exported from transformers: causal self- and cross-attention."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from models import _cli
from models._layers import token_ids

NAME = "whisper_decoder"
REQUIRES = ("torch", "transformers")
DIMS: dict[str, tuple[int, int]] = {"batch": (1, 4), "seq": (1, 448)}
TEST_DIMS: list[dict[str, int]] = [
    {"batch": 1, "seq": 16},
    {"batch": 3, "seq": 37},
    {"batch": 2, "seq": 5},
]


def build(path: Path, *, small: bool = False, seed: int = 0) -> None:
    """Write the model to `path`."""
    import torch

    from models import _torch_export, _whisper

    whole: Any = _whisper.module(small, seed)

    class Decoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.decoder = whole.get_decoder()
            self.proj_out = whole.proj_out

        def forward(self, input_ids: torch.Tensor, encoder_hidden_states: torch.Tensor) -> torch.Tensor:
            states = self.decoder(input_ids=input_ids, encoder_hidden_states=encoder_hidden_states, use_cache=False)
            return self.proj_out(states.last_hidden_state)

    feeds = inputs(np.random.default_rng(seed), small=small, batch=2, seq=17)
    _torch_export.export(
        Decoder(),
        _torch_export.as_torch(feeds),
        path,
        outputs=["logits"],
        dims=DIMS,
        axes={"input_ids": ["batch", "seq"], "encoder_hidden_states": ["batch", None, None]},
    )


def inputs(rng: np.random.Generator, *, small: bool = False, batch: int = 1, seq: int = 32) -> dict[str, np.ndarray]:
    """Random tokens and encoder states."""
    vocab, positions, width = (101, 30, 32) if small else (51865, 1500, 384)
    return {
        "input_ids": token_ids(rng, batch, seq, vocab),
        "encoder_hidden_states": rng.standard_normal((batch, positions, width), np.float32),
    }


def main() -> None:
    """Write the model from the command line."""
    _cli.run(build, __doc__)


if __name__ == "__main__":
    main()
