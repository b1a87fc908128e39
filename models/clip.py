"""CLIP ViT-B/32, exported from transformers: a text and an image tower and their similarity."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from models import _cli
from models._layers import padding_mask, token_ids

NAME = "clip"
REQUIRES = ("torch", "transformers")
DIMS: dict[str, tuple[int, int]] = {"texts": (1, 8), "images": (1, 8), "seq": (2, 77)}
TEST_DIMS: list[dict[str, int]] = [
    {"texts": 2, "images": 1, "seq": 16},
    {"texts": 3, "images": 2, "seq": 37},
    {"texts": 2, "images": 3, "seq": 77},
]

_SMALL_TEXT = {"vocab_size": 101, "hidden_size": 32, "intermediate_size": 64,
               "num_hidden_layers": 2, "num_attention_heads": 4, "projection_dim": 24,
               "eos_token_id": 100, "bos_token_id": 99, "pad_token_id": 98}  # fmt: skip
_SMALL_IMAGE = {"hidden_size": 40, "intermediate_size": 80, "num_hidden_layers": 2,
                "num_attention_heads": 4, "image_size": 32, "patch_size": 8,
                "projection_dim": 24}  # fmt: skip


def build(path: Path, *, small: bool = False, seed: int = 0) -> None:
    """Write the model to `path`."""
    import torch

    from models import _torch_export

    transformers = _torch_export.import_transformers()
    config = transformers.CLIPConfig(
        text_config=_SMALL_TEXT if small else {},
        vision_config=_SMALL_IMAGE if small else {},
        projection_dim=24 if small else 512,
    )
    module = _torch_export.heal(transformers.CLIPModel(config), seed)

    class Clip(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = module

        def forward(
            self,
            input_ids: torch.Tensor,
            attention_mask: torch.Tensor,
            pixel_values: torch.Tensor,
        ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
            result = self.model(input_ids=input_ids, attention_mask=attention_mask, pixel_values=pixel_values)
            return result.logits_per_image, result.text_embeds, result.image_embeds

    feeds = inputs(np.random.default_rng(seed), small=small, texts=2, images=3, seq=17)
    _torch_export.export(
        Clip(),
        _torch_export.as_torch(feeds),
        path,
        outputs=["logits_per_image", "text_embeds", "image_embeds"],
        dims=DIMS,
        axes={
            "input_ids": ["texts", "seq"],
            "attention_mask": ["texts", "seq"],
            "pixel_values": ["images", None, None, None],
        },
    )


def inputs(
    rng: np.random.Generator,
    *,
    small: bool = False,
    texts: int = 2,
    images: int = 1,
    seq: int = 77,
) -> dict[str, np.ndarray]:
    """Random texts, each ended by its end token before the padding, and random images."""
    vocab, end, side = (98, 100, 32) if small else (49000, 49407, 224)
    ids, mask = token_ids(rng, texts, seq, vocab), padding_mask(rng, texts, seq)
    ids[np.arange(texts), mask.sum(axis=1) - 1] = end
    return {
        "input_ids": ids,
        "attention_mask": mask,
        "pixel_values": rng.standard_normal((images, 3, side, side), np.float32),
    }


def main() -> None:
    """Write the model from the command line."""
    _cli.run(build, __doc__)


if __name__ == "__main__":
    main()
