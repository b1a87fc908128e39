"""wav2vec2-base, exported from transformers: strided 1-D convolutions on raw audio."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from models import _cli

NAME = "wav2vec2"
REQUIRES = ("torch", "transformers")
DIMS: dict[str, tuple[int, int]] = {"batch": (1, 4), "samples": (800, 160000)}
TEST_DIMS: list[dict[str, int]] = [
    {"batch": 1, "samples": 4000},
    {"batch": 2, "samples": 3201},
    {"batch": 3, "samples": 1777},
]

_SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "conv_dim": (16,) * 7,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
}


def build(path: Path, *, small: bool = False, seed: int = 0) -> None:
    """Write the model to `path`."""
    import torch

    from models import _torch_export

    transformers = _torch_export.import_transformers()
    module = transformers.Wav2Vec2Model(
        transformers.Wav2Vec2Config(**(_SMALL if small else {}), apply_spec_augment=False)
    )
    _torch_export.heal(module, seed)

    class Encoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = module

        def forward(self, input_values: torch.Tensor) -> torch.Tensor:
            return self.model(input_values).last_hidden_state

    feeds = inputs(np.random.default_rng(seed), small=small, batch=2, samples=3999)
    _torch_export.export(
        Encoder(),
        _torch_export.as_torch(feeds),
        path,
        outputs=["last_hidden_state"],
        dims=DIMS,
        axes={"input_values": ["batch", "samples"]},
    )


def inputs(
    rng: np.random.Generator, *, small: bool = False, batch: int = 1, samples: int = 16000
) -> dict[str, np.ndarray]:
    """Noise of unit variance."""
    del small
    return {"input_values": rng.standard_normal((batch, samples), np.float32)}


def main() -> None:
    """Write the model from the command line."""
    _cli.run(build, __doc__)


if __name__ == "__main__":
    main()
