"""Models for torch.compile, with random weights: what is measured in `torch_accuracy.py` and `torch_cpu.py`.

    case = CASES["bert"]
    module, inputs = case.small()          # or case.full(batch, length), where the case has full sizes
    loss, outputs = module(**inputs)       # the loss is a number to train by

Transformers come from their configurations, images from timm; nothing is downloaded. Dropout is 0 everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from models import _torch_export

Inputs = dict[str, torch.Tensor]
Built = tuple[nn.Module, Inputs]
VOCABULARY = 500


class WithLoss(nn.Module):
    """A model that returns its loss, then its outputs."""

    def __init__(self, model: nn.Module, read: Callable[[Any, Inputs], tuple[torch.Tensor, torch.Tensor]]) -> None:
        super().__init__()
        self.model, self.read = model, read

    def forward(self, **inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The loss and the outputs."""
        return self.read(self.model, inputs)


def without_dropout(module: nn.Module) -> nn.Module:
    """Every probability of dropping is 0."""
    for part in module.modules():
        if isinstance(part, (nn.Dropout, nn.Dropout1d, nn.Dropout2d)):
            part.p = 0.0
        for name in ("dropout", "dropout_prob", "attention_dropout", "attn_dropout", "activation_dropout", "drop_prob"):
            if isinstance(getattr(part, name, None), float):
                setattr(part, name, 0.0)
    return module


def _transformer(name: str, settings: dict[str, Any], inputs: Inputs) -> Built:
    """`name` is of a class of transformers whose configuration is named alike; its outputs are `logits`."""
    transformers = _torch_export.import_transformers()
    cls = getattr(transformers, name)
    model = cls(cls.config_class(**settings))

    def read(model: nn.Module, given: Inputs) -> tuple[torch.Tensor, torch.Tensor]:
        out = model(**given, return_dict=True)
        return out.loss, out.logits_per_text if "logits_per_text" in out else out.logits

    return WithLoss(without_dropout(model), read), inputs


def image_model(model: nn.Module, batch: int, side: int, classes: int = 10) -> Built:
    """A classifier of square images, with random ones."""
    inputs = {"images": torch.randn(batch, 3, side, side), "labels": torch.randint(0, classes, (batch,))}

    def read(model: nn.Module, given: Inputs) -> tuple[torch.Tensor, torch.Tensor]:
        out = model(given["images"])
        return functional.cross_entropy(out, given["labels"]), out

    return WithLoss(without_dropout(model), read), inputs


def _timm(name: str, batch: int, side: int, classes: int = 10, **settings: Any) -> Built:
    _torch_export.import_torchvision()
    import timm

    return image_model(timm.create_model(name, num_classes=classes, **settings), batch, side, classes)


def _tokens(batch: int, length: int, vocabulary: int = VOCABULARY) -> torch.Tensor:
    return torch.randint(5, vocabulary, (batch, length))


def _text(batch: int, length: int, vocabulary: int = VOCABULARY) -> Inputs:
    return {"input_ids": _tokens(batch, length, vocabulary), "labels": _tokens(batch, length, vocabulary)}


SMALL: dict[str, Any] = {
    "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128,
    "vocab_size": VOCABULARY,
}  # fmt: skip
SMALL_IMAGES: dict[str, Any] = {**SMALL, "image_size": 32, "patch_size": 8}
SMALL_GROUPED: dict[str, Any] = {**SMALL, "num_key_value_heads": 2}
SMALL_GPT2: dict[str, Any] = {"n_layer": 2, "n_embd": 64, "n_head": 4, "vocab_size": VOCABULARY}
SMALL_T5: dict[str, Any] = {
    "num_layers": 2, "d_model": 64, "num_heads": 4, "d_ff": 128, "d_kv": 16, "vocab_size": VOCABULARY,
    "decoder_start_token_id": 0, "dropout_rate": 0.0,
}  # fmt: skip
SMALL_WHISPER: dict[str, Any] = {
    "encoder_layers": 2, "decoder_layers": 2, "d_model": 64, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "vocab_size": VOCABULARY,
    "max_source_positions": 50, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1,
}  # fmt: skip


def _small_clip() -> Built:
    inputs = {
        "input_ids": _tokens(2, 16),
        "pixel_values": torch.randn(2, 3, 32, 32),
        "attention_mask": torch.ones(2, 16, dtype=torch.int64),
        "return_loss": torch.tensor(data=True),
    }
    module, _ = _transformer("CLIPModel", {"text_config": SMALL, "vision_config": SMALL_IMAGES}, inputs)
    inputs.pop("return_loss")
    read = module.read

    def with_loss(model: nn.Module, given: Inputs) -> tuple[torch.Tensor, torch.Tensor]:
        return read(model, {**given, "return_loss": True})  # type: ignore[dict-item]

    module.read = with_loss
    return module, inputs


def _small_images() -> Inputs:
    return {"pixel_values": torch.randn(2, 3, 32, 32), "labels": torch.tensor([0, 1])}


class DoubleConvolution(nn.Sequential):
    """Two convolutions, each normalised."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(
            nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), nn.GroupNorm(4, outputs), nn.SiLU(),
        )  # fmt: skip


class UNet(nn.Module):
    """Three levels down by pooling, up by a transposed convolution, nearest and linear resizing."""

    def __init__(self, width: int = 8, outputs: int = 2) -> None:
        super().__init__()
        widths = [width << i for i in range(4)]
        self.down = nn.ModuleList(DoubleConvolution(a, b) for a, b in zip([3, *widths], widths[:3], strict=False))
        self.middle = DoubleConvolution(widths[2], widths[3])
        self.grow = nn.ModuleList([
            nn.ConvTranspose2d(widths[3], widths[2], 2, stride=2),
            nn.Sequential(nn.Upsample(scale_factor=2, mode="nearest"), nn.Conv2d(widths[2], widths[1], 1)),
            nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear"), nn.Conv2d(widths[1], widths[0], 1)),
        ])  # fmt: skip
        self.up = nn.ModuleList(DoubleConvolution(2 * w, w) for w in reversed(widths[:3]))
        self.head = nn.Conv2d(width, outputs, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of every pixel, averaged to those of the image."""
        skips: list[torch.Tensor] = []
        for down in self.down:
            x = down(x)
            skips.append(x)
            x = functional.max_pool2d(x, 2)
        x = self.middle(x)
        for grow, up in zip(self.grow, self.up, strict=True):
            x = up(torch.cat([skips.pop(), grow(x)], 1))
        return self.head(x).mean((2, 3))


@dataclass(frozen=True)
class Case:
    """A model in a size for comparing numbers, and perhaps one for timing, of a batch and a length."""

    small: Callable[[], Built]
    full: Callable[[int, int], Built] | None = None


def full_llama(batch: int, length: int, **sizes: int) -> Built:
    """A decoder in the style of Llama: of 110 million parameters, if no other sizes are given."""
    settings = {
        "num_hidden_layers": 12, "hidden_size": 768, "num_attention_heads": 12, "num_key_value_heads": 12,
        "intermediate_size": 2048, "vocab_size": 32000, "use_cache": False, **sizes,
    }  # fmt: skip
    return _transformer("LlamaForCausalLM", settings, _text(batch, length, 32000))


def _full_vit(batch: int, length: int) -> Built:
    inputs = {"pixel_values": torch.randn(batch, 3, 224, 224), "labels": torch.zeros(batch, dtype=torch.int64)}
    return _transformer("ViTForImageClassification", {}, inputs)


CASES: dict[str, Case] = {
    "bert": Case(
        lambda: _transformer("BertForMaskedLM", SMALL, _text(2, 16)),
        lambda b, n: _transformer("BertForMaskedLM", {}, _text(b, n, 30000)),
    ),
    "distilbert": Case(
        lambda: _transformer(
            "DistilBertForMaskedLM",
            {"n_layers": 2, "dim": 64, "n_heads": 4, "hidden_dim": 128, "vocab_size": VOCABULARY},
            _text(2, 16),
        )
    ),
    "gpt2": Case(
        lambda: _transformer("GPT2LMHeadModel", {**SMALL_GPT2, "use_cache": False}, _text(2, 16)),
        lambda b, n: _transformer("GPT2LMHeadModel", {"use_cache": False}, _text(b, n, 50000)),
    ),
    "llama": Case(
        lambda: _transformer("LlamaForCausalLM", {**SMALL_GROUPED, "use_cache": False}, _text(2, 16)), full_llama
    ),
    "mixtral": Case(
        lambda: _transformer(
            "MixtralForCausalLM", {**SMALL_GROUPED, "num_local_experts": 4, "use_cache": False}, _text(2, 16)
        )
    ),
    "t5": Case(lambda: _transformer("T5ForConditionalGeneration", {**SMALL_T5, "use_cache": False}, _text(2, 16))),
    "vit": Case(
        lambda: _transformer("ViTForImageClassification", {**SMALL_IMAGES, "num_labels": 10}, _small_images()),
        _full_vit,
    ),
    "clip": Case(_small_clip),
    "whisper": Case(
        lambda: _transformer(
            "WhisperForConditionalGeneration",
            {**SMALL_WHISPER, "use_cache": False},
            {"input_features": torch.randn(2, 80, 100), "labels": _tokens(2, 16)},
        )
    ),
    "mamba": Case(
        lambda: _transformer(
            "MambaForCausalLM",
            {"num_hidden_layers": 2, "hidden_size": 64, "vocab_size": VOCABULARY, "use_cache": False},
            _text(2, 16),
        )
    ),
    "resnet50": Case(lambda: _timm("resnet50", 2, 64), lambda b, _: _timm("resnet50", b, 224, 1000)),
    "mobilenet": Case(lambda: _timm("mobilenetv3_large_100", 2, 64)),
    "efficientnet": Case(lambda: _timm("efficientnet_b0", 2, 64)),
    "convnext": Case(
        lambda: _timm("convnext_tiny", 2, 64, depths=(1, 1, 2, 1), dims=(16, 32, 48, 64)),
        lambda b, _: _timm("convnext_tiny", b, 224, 1000),
    ),
    "swin": Case(
        lambda: _timm("swin_tiny_patch4_window7_224", 2, 56, img_size=56, depths=(2, 2), embed_dim=24, num_heads=(2, 4))
    ),
    "unet": Case(lambda: image_model(UNet(), 2, 32, 2)),
}
"""The models of the bar."""
