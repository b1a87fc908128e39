"""The T5-small encoder, exported from transformers: relative position buckets in the graph."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from models import _cli
from models._layers import padding_mask, token_ids

NAME = "t5_encoder"
REQUIRES = ("torch", "transformers")
DIMS: dict[str, tuple[int, int]] = {"batch": (1, 8), "seq": (1, 512)}
TEST_DIMS: list[dict[str, int]] = [
    {"batch": 1, "seq": 16},
    {"batch": 3, "seq": 37},
    {"batch": 2, "seq": 5},
]

_FULL = {"vocab_size": 32128, "d_model": 512, "d_kv": 64, "d_ff": 2048, "num_layers": 6,
         "num_heads": 8}  # fmt: skip
_SMALL = {"vocab_size": 101, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}


def build(path: Path, *, small: bool = False, seed: int = 0) -> None:
    """Write the model to `path`."""
    import torch

    from models import _torch_export

    transformers = _torch_export.import_transformers()
    sizes = _SMALL if small else _FULL
    # transformers 5 would call scaled_dot_product_attention, whose decomposition gives other strides than the view
    # that torch exported behind it asks for
    config = transformers.T5Config(**sizes, use_cache=False, attn_implementation="eager")
    module = _torch_export.heal(transformers.T5EncoderModel(config), seed)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if name.endswith(".q.weight"):  # T5 has no softmax scale: it is in the weights
                parameter.mul_(sizes["d_kv"] ** -0.5)

    class Encoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = module

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
            return self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state

    feeds = inputs(np.random.default_rng(seed), small=small, batch=2, seq=17)
    _torch_export.export(
        Encoder(),
        _torch_export.as_torch(feeds),
        path,
        outputs=["last_hidden_state"],
        dims=DIMS,
        axes={"input_ids": ["batch", "seq"], "attention_mask": ["batch", "seq"]},
    )


def inputs(rng: np.random.Generator, *, small: bool = False, batch: int = 1, seq: int = 128) -> dict[str, np.ndarray]:
    """Random tokens; every row but the first is padded on the right."""
    return {
        "input_ids": token_ids(rng, batch, seq, (_SMALL if small else _FULL)["vocab_size"]),
        "attention_mask": padding_mask(rng, batch, seq),
    }


def main() -> None:
    """Write the model from the command line."""
    _cli.run(build, __doc__)


if __name__ == "__main__":
    main()
