"""Models that transformers' own were exported to say what transformers' `generate` does, side by side too."""

from __future__ import annotations

import pytest

from graphfuse import generation

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("onnxscript")
_torch_export = pytest.importorskip("models._torch_export")
pytestmark = pytest.mark.full

LAYERS, HEADS, SIZE, VOCABULARY, STEPS = 2, 4, 16, 97, 128
LLAMA = {
    "hidden_size": HEADS * SIZE, "intermediate_size": 96, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
    "num_key_value_heads": 2, "max_position_embeddings": 256,
}  # fmt: skip
FAMILIES = {
    "Llama": LLAMA,
    "Qwen3": {**LLAMA, "head_dim": SIZE},
    "Phi": {**LLAMA, "num_key_value_heads": HEADS, "partial_rotary_factor": 0.5},
    "Gemma3Text": {
        **LLAMA, "head_dim": SIZE, "query_pre_attn_scalar": SIZE, "sliding_window": 12, "final_logit_softcapping": 5.0,
        "tie_word_embeddings": False,
        "layer_types": ["sliding_attention", "full_attention"],
    },
    "GPT2": {"n_embd": HEADS * SIZE, "n_layer": LAYERS, "n_head": HEADS, "n_positions": 256},
}  # fmt: skip
TIE = 1e-4
"""Of logits of which either's token may follow."""


def mask_of(batch_size, cache_position, kv_length, kv_offset=0, mask_function=None, attention_mask=None, **_):
    """Bools [batch, 1, queries, keys], sliding windows too: transformers' own has no vmap, or no windows."""
    batch, key = torch.arange(batch_size)[:, None, None, None], torch.arange(kv_length)[None, None, None] + kv_offset
    seen = mask_function(batch, 0, cache_position[None, None, :, None], key)
    return seen if attention_mask is None else seen & attention_mask[:, None, None, :kv_length].bool()


def export(transformers, net, heads, path):
    """With caches that grow."""
    masking, attention = transformers.masking_utils, transformers.modeling_utils
    masking.ALL_MASK_ATTENTION_FUNCTIONS.register("exported", mask_of)
    attention.ALL_ATTENTION_FUNCTIONS.register("exported", attention.ALL_ATTENTION_FUNCTIONS["sdpa"])
    before, net.config._attn_implementation = net.config._attn_implementation, "exported"

    class Flat(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, ids, mask, positions, *past):
            cache = transformers.DynamicCache.from_legacy_cache(tuple(zip(past[::2], past[1::2], strict=True)))
            out = self.net(ids, attention_mask=mask, position_ids=positions, past_key_values=cache, use_cache=True)
            return out.logits, *(x for pair in out.past_key_values.to_legacy_cache() for x in pair)

    caches = [f"{i}.{what}" for i in range(LAYERS) for what in ("key", "value")]
    ids, mask = torch.ones(2, 3, dtype=torch.long), torch.ones(2, 8, dtype=torch.long)
    given = ids, mask, torch.arange(5, 8).repeat(2, 1), *(torch.randn(2, heads, 5, SIZE) for _ in caches)
    free = torch.export.Dim.DYNAMIC
    both, past = {0: free, 1: free}, tuple({0: free, 2: free} for _ in caches)
    torch.onnx.export(
        Flat(), given, path, dynamo=True, verbose=False, opset_version=20, external_data=False,
        input_names=["input_ids", "attention_mask", "position_ids", *(f"past_key_values.{c}" for c in caches)],
        output_names=["logits", *(f"present.{c}" for c in caches)],
        dynamic_shapes={"ids": both, "mask": both, "positions": both, "past": past},
    )  # fmt: skip
    net.config._attn_implementation = before


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("family", FAMILIES)
def test_the_tokens_are_transformers(family, tmp_path):
    transformers = _torch_export.import_transformers()
    torch.manual_seed(0)
    config = getattr(transformers, f"{family}Config")(
        vocab_size=VOCABULARY, initializer_range=0.3, eos_token_id=None, pad_token_id=0, **FAMILIES[family]
    )
    name = {"GPT2": "GPT2LMHeadModel", "Gemma3Text": "Gemma3ForCausalLM"}.get(family, f"{family}ForCausalLM")
    net = getattr(transformers, name)(config).eval()
    export(transformers, net, getattr(config, "num_key_value_heads", HEADS), tmp_path / "model.onnx")
    prompts = [[5, 17, 3, 40, 8], [9], [33, 1, 58]]
    generator = generation.load(tmp_path / "model.onnx", context_length=160)
    for prompt, found in zip(prompts, generator.generate(prompts, max_new_tokens=STEPS), strict=True):
        with torch.no_grad():  # of the whole text: what `generate` takes one by one
            logits = net(torch.tensor([prompt + list(found.tokens)])).logits[0, len(prompt) - 1 : -1]
        taken = logits.gather(1, torch.tensor(found.tokens)[:, None])[:, 0]
        assert len(found.tokens) == STEPS
        assert (logits.max(1).values - taken).max() < TIE
        wanted = net.generate(torch.tensor([prompt]), max_new_tokens=8, do_sample=False)[0, len(prompt) :]
        assert list(found.tokens[:8]) == wanted.tolist()
    assert len(set(found.tokens)) > 4
