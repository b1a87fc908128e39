"""Decoders that write word by word: eager's words, as many graphs for many steps as for few, caches that stay."""

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402, N812

from benchmarks import decode, generation  # noqa: E402
from graphfuse.symbolic import evaluate  # noqa: E402
from graphfuse.torch.cut import Kind  # noqa: E402
from models import _torch_export  # noqa: E402
from tests.torch.support import compiled, left_to_torch, recorded_graphs  # noqa: E402

TIE = 1e-4
"""Words whose logits are as near to one another are equal."""
WORDS, WINDOW, STEPS = 200, 24, 128


def copies(graph, nbytes):
    """Caches, which have so many bytes at least, that a call copies: back into inputs, or between kernels."""
    count = sum(k is Kind.COPY_BACK for k in graph.cut.kinds.values())
    for part in graph.parts:
        plan, few = part.executable.plan, dict.fromkeys(part.symbols, 3)
        count -= len(part.executable.shared)
        count += sum(step.kernel == "copy_bytes" for _, step in plan.walk())
        count += sum(b.kind == "arena" and evaluate(b.nbytes, few) >= nbytes for b in plan.buffers)
    return count


def assert_same_words(found, want, logits):
    """Up to the first step of a row where two words tie."""
    for ours, eager, row in zip(found, want, logits, strict=True):
        if len(apart := (ours != eager).nonzero()):
            at = apart[0].item()
            gap = row[at, eager[at]] - row[at, ours[at]]
            assert gap < TIE, f"step {at}: {ours[at]} for {eager[at]}, whose logit is {gap} larger"


@pytest.mark.parametrize("batch", [1, 3])
def test_words_of_a_llama(batch):
    shape, steps, keys = replace(decode.SMALL, tied=False), 20, 29
    prompt = torch.randint(0, shape.words, (4, batch, 1))
    found = []
    with torch.no_grad(), recorded_graphs() as graphs:
        for wrap in (compiled, lambda fn: fn):
            module = decode.decoder(torch, shape, batch, keys)
            step, words, logits = wrap(module), [*prompt], []
            for at in range(steps):
                logits.append(step(words[at], torch.tensor([at])))
                if len(words) == at + 1:
                    words.append(logits[-1].argmax(-1, keepdim=True))
            found.append((torch.cat(words[4:], 1), torch.stack(logits[3:], 1)))
    (ours, _), (eager, logits) = found
    assert_same_words(ours, eager, logits)
    assert len(set(eager.flatten().tolist())) > 8
    (graph,) = graphs
    assert left_to_torch(graphs) == {}
    assert copies(graph, module.layers[0].keys.nbytes) == 0


@pytest.mark.parametrize("tied", [True, False])
def test_the_file_of_a_llama(tied):
    """As the builder of ONNX Runtime GenAI would write it: the benchmark's other side."""
    assert decode.is_eager(torch, "onnxruntime", replace(decode.SMALL, tied=tied), 3)


@pytest.mark.parametrize("device", ["cpu", pytest.param("emulator", marks=pytest.mark.full)])
def test_texts_of_an_artifact_of_that_file(device):
    assert generation.is_eager(device)


class Window:
    """The last few steps; the oldest is forgotten as transformers does."""

    def __init__(self):
        self.keys, self.seen = torch.zeros(2, 3, 6, 8), 0

    def attend(self, x, at):
        full, self.seen = self.seen >= 6, self.seen + 1
        if full:
            rolled = self.keys.roll(-1, dims=-2)
            rolled[:, :, torch.tensor([-1])] = x
            self.keys.copy_(rolled)
        else:
            self.keys.index_copy_(2, at, x)
        return F.scaled_dot_product_attention(x, self.keys, self.keys)


def test_a_window_that_fills():
    """Few graphs: of its first step, of any, and of any that forgets one."""
    ours, eager = Window(), Window()
    fn = compiled(Window.attend)
    with torch.no_grad(), recorded_graphs() as graphs:
        for at in range(16):
            x = torch.randn(2, 3, 1, 8)
            torch.testing.assert_close(fn(ours, x, torch.tensor([at])), eager.attend(x, torch.tensor([at])))
    assert [copies(g, eager.keys.nbytes) for g in graphs] == [0, 0, 1]


# models of transformers

SMALL = {
    "vocab_size": WORDS, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 256,
}  # fmt: skip
HEADS_OF_16 = {**SMALL, "head_dim": 16}
GEMMA = {
    **HEADS_OF_16, "num_hidden_layers": 3, "query_pre_attn_scalar": 16, "sliding_window": WINDOW,
    "layer_types": ["sliding_attention", "sliding_attention", "full_attention"], "final_logit_softcapping": 10.0,
}  # fmt: skip
FAMILIES = {
    "LlamaForCausalLM": SMALL,
    "Qwen3ForCausalLM": HEADS_OF_16,
    "Gemma3ForCausalLM": GEMMA,
    "Gemma2ForCausalLM": {**GEMMA, "attn_logit_softcapping": 5.0, "attn_implementation": "eager"},
    "PhiForCausalLM": {**SMALL, "partial_rotary_factor": 0.5},
    "GPT2LMHeadModel": {"vocab_size": WORDS, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 256},
    "MixtralForCausalLM": {**SMALL, "num_local_experts": 4},
}
ROLLED = 4
"""Caches of the layers of a Gemma that have a window, which move by a step once it is full."""


@pytest.fixture(scope="module")
def transformers():
    pytest.importorskip("transformers")
    return _torch_export.import_transformers()


def built(cls, settings):
    """A model with random weights that never ends a text."""
    model = _torch_export.heal(cls(cls.config_class(**settings)), 0)
    model.generation_config.eos_token_id, model.generation_config.pad_token_id = None, 0
    return model


def prompts(*lengths):
    """Words, and a mask of those that are padding on the left."""
    longest = max(lengths)
    mask = torch.stack([(torch.arange(longest) >= longest - n).long() for n in lengths])
    return {"input_ids": torch.randint(3, WORDS, mask.shape) * mask, "attention_mask": mask}


def written(model, given, **how):
    """Words and logits of as many steps, and after each how many graphs there are."""
    made, graphs = [], how.pop("graphs", [])

    def count(_, scores):
        made.append(len(graphs))
        return scores

    out = model.generate(
        **given, **how, cache_implementation="static", do_sample=False, max_new_tokens=STEPS, output_logits=True,
        return_dict_in_generate=True, logits_processor=[count],
    )  # fmt: skip
    return out.sequences[:, -STEPS:], torch.stack(out.logits, 1), made


@pytest.mark.full
@pytest.mark.parametrize("lengths", [(5,), (17,), (40,), (6, 3, 11)], ids=str)
@pytest.mark.parametrize("name", FAMILIES)
def test_words_of_transformers(name, lengths, transformers):
    model, given = built(getattr(transformers, name), FAMILIES[name]), prompts(*lengths)
    config = transformers.CompileConfig(backend="graphfuse", mode=None)
    config._compile_all_devices = True
    eager, logits, _ = written(model, given, disable_compile=True)
    del model._cache
    with recorded_graphs() as graphs, torch._dynamo.config.patch(fail_on_recompile_limit_hit=True):
        ours, _, made = written(model, given, compile_config=config, graphs=graphs)
    assert_same_words(ours, eager, logits)
    assert max(len(set(row.tolist())) for row in eager) > 4
    assert left_to_torch(graphs).keys() <= {"_assert_async"}  # of a one_hot, in Mixtral
    assert made[1] >= 1
    assert made[WINDOW] == made[-1] <= (12 if name.startswith("Mixtral") else 3), made
    copied = [copies(g, model._cache.layers[0].keys.nbytes) for g in graphs]
    rolled = ROLLED if name.startswith("Gemma") else 0
    assert copied[-1] == rolled
    assert {*copied} <= {0, rolled}


@pytest.mark.full
@pytest.mark.parametrize("by_hand", [False, True])
@pytest.mark.parametrize("name", ["LlamaForCausalLM", "Gemma3ForCausalLM"])
def test_later_calls_have_the_same_graphs(name, by_hand, transformers):
    """Also of prompts, once they differed in length."""
    model, given = built(getattr(transformers, name), FAMILIES[name]), [prompts(n) for n in (19, 23, 7, 12, 15)]
    wanted = [written(model, g, disable_compile=True) for g in given]
    del model._cache
    how = {"disable_compile": True}
    if by_hand:
        model.forward = compiled(model.forward)
    else:
        how = {"compile_config": transformers.CompileConfig(backend="graphfuse", mode=None)}
        how["compile_config"]._compile_all_devices = True
    counts = []
    with recorded_graphs() as graphs, torch._dynamo.config.patch(fail_on_recompile_limit_hit=True):
        for g, (eager, logits, _) in zip(given, wanted, strict=True):
            ours, _, _ = written(model, g, graphs=graphs, **how)
            assert_same_words(ours, eager, logits)
            counts.append(len(graphs))
    assert left_to_torch(graphs) == {}
    assert counts[-3] == counts[-1] <= 9, counts
