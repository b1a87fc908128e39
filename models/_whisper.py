"""The Whisper-tiny sizes behind `whisper_encoder` and `whisper_decoder`, and their module."""

from __future__ import annotations

from typing import TYPE_CHECKING

from models import _torch_export

if TYPE_CHECKING:
    from transformers import WhisperForConditionalGeneration

FULL = {
    "d_model": 384,
    "encoder_layers": 4,
    "decoder_layers": 4,
    "encoder_attention_heads": 6,
    "decoder_attention_heads": 6,
    "encoder_ffn_dim": 1536,
    "decoder_ffn_dim": 1536,
    "vocab_size": 51865,
    "max_source_positions": 1500,
    "max_target_positions": 448,
}
SMALL = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "vocab_size": 101,
    "max_source_positions": 30,
    "max_target_positions": 448,
    "num_mel_bins": 16,
    "pad_token_id": 0,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "decoder_start_token_id": 0,
}


def sizes(small: bool) -> dict[str, int]:
    """The configuration's numbers."""
    return SMALL if small else {"num_mel_bins": 80, **FULL}


def module(small: bool, seed: int) -> WhisperForConditionalGeneration:
    """Return the whole model with healthy weights."""
    transformers = _torch_export.import_transformers()
    config = transformers.WhisperConfig(**sizes(small), use_cache=False)
    whole = transformers.WhisperForConditionalGeneration(config)
    _torch_export.heal(whole, seed)
    return whole
