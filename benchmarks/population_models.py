"""Models of the population: configurations of transformers, timm, torchvision and diffusers, with random weights.

A library that is not installed has no cases; `MISSING` names it.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from benchmarks.population_draw import Array, Case, Draw, Family
from benchmarks.torch_models import without_dropout
from models import _torch_export

MISSING = [
    name for name in ("transformers", "timm", "torchvision", "diffusers") if importlib.util.find_spec(name) is None
]
WORDS = {
    "BertForMaskedLM": 30522, "DistilBertForMaskedLM": 30522, "GPT2LMHeadModel": 50257, "OPTForCausalLM": 50272,
    "GPTNeoXForCausalLM": 50432, "LlamaForCausalLM": 32000, "MistralForCausalLM": 32000, "Qwen2ForCausalLM": 151936,
    "Qwen3ForCausalLM": 151936, "GemmaForCausalLM": 256000, "PhiForCausalLM": 51200, "RobertaForMaskedLM": 50265,
    "T5ForConditionalGeneration": 32128, "AlbertForMaskedLM": 30000, "ModernBertForMaskedLM": 50368,
}  # fmt: skip
"""Classes of transformers that read tokens, and their vocabularies."""
OTHERS = (
    "ViTModel", "WhisperModel", "CLIPVisionModel", "CLIPTextModel", "Dinov2Model", "SegformerModel", "Wav2Vec2Model",
)  # fmt: skip
TIMM = (
    "resnet18", "resnet50", "resnext50_32x4d", "mobilenetv3_small_100", "mobilenetv3_large_100", "efficientnet_b0",
    "convnext_atto", "convnext_tiny", "vit_tiny_patch16_224", "vit_small_patch16_224", "regnety_008", "densenet121",
    "swin_tiny_patch4_window7_224", "mixer_s32_224", "deit_tiny_patch16_224", "poolformer_s12", "maxvit_nano_rw_256",
)  # fmt: skip
TORCHVISION = (
    "resnet18", "resnet34", "mobilenet_v2", "shufflenet_v2_x1_0", "squeezenet1_1", "efficientnet_b0", "vgg11",
    "densenet121", "regnet_y_400mf", "mnasnet1_0", "googlenet", "convnext_tiny", "swin_t",
)  # fmt: skip


class Loss(nn.Module):
    """A model's output, or its loss while it trains: of `labels`, or a mean of squares."""

    def __init__(self, model: nn.Module, names: tuple[str, ...], *, trains: bool) -> None:
        super().__init__()
        self.model, self.names, self.trains = without_dropout(model), names, trains
        if self.trains:
            self.model.train()

    def forward(self, *given: torch.Tensor) -> torch.Tensor:
        """Logits or a loss."""
        named = dict(zip(self.names, given, strict=True))
        labels = named.pop("labels", None) if "" in self.names else None
        out = self.model(named.pop("")) if "" in self.names else self.model(**named)
        found = out if isinstance(out, torch.Tensor) else out[0]
        if not self.trains or labels is None:
            return found.square().mean() if self.trains and found.dim() else found
        return functional.cross_entropy(found if found.dtype == torch.float64 else found.float(), labels)


def _model(d: Draw, text: str, build: Callable[[], nn.Module], arrays: Mapping[str, Array], *, trains: bool) -> Case:
    dtype = "float32" if d.device == "cpu" else "float32" if trains else d.one("bfloat16", "float16")
    make = partial(_made, build, tuple(arrays), trains=trains)
    return Case(text, tuple(arrays.values()), dtype, module=make, work=1 << 20, training=trains, trains=trains)


def _made(build: Callable[[], nn.Module], names: tuple[str, ...], *, trains: bool) -> Loss:
    return Loss(build(), names, trains=trains).train(trains)


def text_model(d: Draw) -> Case:
    """An encoder, a decoder or both, with its own vocabulary."""
    name, words = d.one(*WORDS.items())
    large = 2 if d.device == "cuda" else 1
    layers, heads, size = d.size(1, 6 * large), d.one(2, 4, 6, 8, 12), d.one(32, 40, 64, 64, 80)
    shared = d.one(*(g for g in (1, 2, 4, heads) if heads % g == 0))
    width = heads * size
    hidden = d.one(4 * width, 8 * d.size(width // 8, width // 2))
    b, n, trains = d.size(1, 8), d.size(8, 256 * large * large), d.even()
    settings: dict[str, Any] = {"vocab_size": words, "use_cache": False}
    if name.startswith("GPT2"):
        settings |= {"n_layer": layers, "n_embd": width, "n_head": heads, "n_inner": hidden}
    elif name.startswith("Distil"):
        settings = {"vocab_size": words, "n_layers": layers, "dim": width, "n_heads": heads, "hidden_dim": hidden}
    elif name.startswith("T5"):
        settings |= {"num_layers": layers, "d_model": width, "num_heads": heads, "d_ff": hidden, "d_kv": size}
        settings |= {"decoder_start_token_id": 0, "dropout_rate": 0.0}
    else:
        settings |= {"num_hidden_layers": layers, "hidden_size": width, "num_attention_heads": heads}
        settings |= {
            "ffn_dim" if name.startswith("OPT") else "intermediate_size": hidden,
            "max_position_embeddings": 4096,
        }
    if name.startswith(("Llama", "Mistral", "Qwen", "Gemma")):
        settings |= {"num_key_value_heads": shared, "head_dim": size}
    if name.startswith("OPT"):
        settings |= {"word_embed_proj_dim": width}
    if name.startswith(("Roberta", "ModernBert")):
        settings |= {"pad_token_id": 1}

    def build() -> nn.Module:
        cls = getattr(_torch_export.import_transformers(), name)
        return cls(cls.config_class(**settings))

    ids = Array((b, min(n, 500)), below=words)
    arrays = {"input_ids": ids} | ({"labels": ids} if trains else {})
    if name.startswith("T5") and not trains:
        arrays["decoder_input_ids"] = Array((b, d.size(1, 64)), below=words)
    keys = f" ({shared} of keys)" if "num_key_value_heads" in settings else ""
    text = f"{name} {layers} layers of {width}, {heads} heads{keys}, hidden {hidden}, {b}x{ids.shape[1]}"
    return _model(d, text, build, arrays, trains=trains)


def other_transformer(d: Draw) -> Case:
    """ViT, Whisper, CLIP's towers, Mamba, SegFormer."""
    name = d.one(*OTHERS)
    layers, heads = d.size(1, 4), d.one(2, 3, 4, 6)
    width, b, trains = heads * d.one(32, 64), d.size(1, 8), d.even()
    side = d.one(96, 128, 224)
    settings: dict[str, Any] = {
        "num_hidden_layers": layers, "hidden_size": width, "num_attention_heads": heads, "intermediate_size": 4 * width,
    }  # fmt: skip
    arrays = {"pixel_values": Array((b, 3, side, side))}
    if name == "WhisperModel":
        settings = {"d_model": width, "use_cache": False, "max_source_positions": 200}
        for side in ("encoder", "decoder"):
            settings |= {f"{side}_layers": layers, f"{side}_attention_heads": heads, f"{side}_ffn_dim": 4 * width}
        arrays = {"input_features": Array((b, 80, 400)), "decoder_input_ids": Array((b, d.size(1, 64)), below=51865)}
    elif name == "CLIPTextModel":
        arrays = {"input_ids": Array((b, 77), below=49400)}
    elif name == "SegformerModel":
        settings = {}
    elif name == "Wav2Vec2Model":
        settings |= {"mask_time_prob": 0.0, "layerdrop": 0.0, "num_conv_pos_embedding_groups": heads}
        arrays = {"input_values": Array((b, d.size(2000, 16000)))}
    else:
        settings |= {"image_size": side, "patch_size": d.one(8, 16, 32) if side != 224 else 16}

    def build() -> nn.Module:
        cls = getattr(_torch_export.import_transformers(), name)
        return cls(cls.config_class(**settings))

    sizes = ", ".join(str(a.shape) for a in arrays.values())
    return _model(d, f"{name} {layers} layers of {width}, {sizes}", build, arrays, trains=trains)


def image_network(d: Draw) -> Case:
    """A network of timm's or torchvision's, NCHW as they come, or channels-last."""
    library = d.one(*(name for name in ("timm", "torchvision") if name not in MISSING))
    name, trains = d.one(*(TIMM if library == "timm" else TORCHVISION)), d.even()
    fixed = 256 if "256" in name else 224 if "224" in name else 0
    b, side = d.size(1, 32 if d.device == "cuda" else 3), fixed or d.one(64, 96, 128, 160, 224)
    last = d.one("", "", "last")

    def build() -> nn.Module:
        torchvision = _torch_export.import_torchvision()
        if library == "timm":
            import timm

            made = timm.create_model(name)
        elif name == "googlenet":
            made = torchvision.models.googlenet(weights=None, aux_logits=False, init_weights=False)
        else:
            made = getattr(torchvision.models, name)(weights=None)
        return made.to(memory_format=torch.channels_last) if last else made

    arrays = {"": Array((b, 3, side, side), layout=last)} | ({"labels": Array((b,), below=1000)} if trains else {})
    return _model(d, f"{library} {name} {b}x{side}x{side} {last or 'first'}", build, arrays, trains=trains)


def diffusion(d: Draw) -> Case:
    """A U-Net, a transformer or an autoencoder of diffusers'."""
    kind, trains = d.one("UNet2DModel", "UNet2DConditionModel", "AutoencoderKL", "DiTTransformer2DModel"), d.even()
    large = d.device == "cuda"
    widths = d.one(*(((320, 640), (224, 448, 672), (128, 256)) if large else ((32, 64), (64, 96))))
    b, side = d.size(1, 4), d.one(32, 64) if large else d.one(16, 32)
    image, when = Array((b, 4, side, side)), Array((b,), below=1000)
    down = "CrossAttnDownBlock2D" if "Cond" in kind else "DownBlock2D"
    up = down.replace("Down", "Up")
    settings: dict[str, Any] = {
        "sample_size": side, "in_channels": 4, "out_channels": 4, "block_out_channels": widths, "layers_per_block": 1,
    }  # fmt: skip
    arrays = {"sample": image, "timestep": when}
    if kind == "AutoencoderKL":
        settings |= {
            "down_block_types": ("DownEncoderBlock2D",) * len(widths),
            "up_block_types": ("UpDecoderBlock2D",) * len(widths),
        }
        arrays = {"sample": image}
    elif kind.startswith("UNet"):
        settings |= {"down_block_types": (down,) * len(widths), "up_block_types": (up,) * len(widths)}
        if "Cond" in kind:
            settings |= {"cross_attention_dim": 256, "attention_head_dim": 8}
            arrays["encoder_hidden_states"] = Array((b, 77, 256))
    else:
        settings = {
            "num_attention_heads": 4,
            "attention_head_dim": 72,
            "in_channels": 4,
            "num_layers": 2,
            "sample_size": side,
        }
        arrays = {"hidden_states": image, "timestep": when, "class_labels": Array((b,), below=1000)}

    def build() -> nn.Module:
        import diffusers

        return getattr(diffusers, kind)(**settings)

    return _model(d, f"{kind} {widths} {b}x{side}x{side}", build, arrays, trains=trains)


_ALL: dict[str, tuple[Family, set[str]]] = {
    "text": (text_model, {"transformers"}), "images": (image_network, {"timm", "torchvision"}),
    "other transformer": (other_transformer, {"transformers"}), "diffusion": (diffusion, {"diffusers"}),
}  # fmt: skip
FAMILIES = {name: family for name, (family, needs) in _ALL.items() if needs - set(MISSING)}
