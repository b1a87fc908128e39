"""Tokens are those of a run of the whole text for each, in whatever company a sequence is."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np
import pytest
from onnx import TensorProto, helper

import graphfuse
from graphfuse.errors import InputError, UsageError
from graphfuse.generation import Decoder, Generator, Interface, decoder
from graphfuse.runtime.gpu.arrays import DeviceArray
from models._builder import INT64, Builder
from tests.generation.decoders import CONFIG, KINDS, SMALLER, STATE, greedy, growing, runner, shared

PROMPTS = [[5, 17, 3, 40, 8, 2, 11], [9], [33, 1, 58, 20]]


class Letters:
    """A token is a letter, or two for odd ones."""

    def encode(self, text):
        return [ord(c) - 65 for c in text]

    def decode(self, ids):
        return "".join(chr(65 + i) * (1 + i % 2) for i in ids)


@functools.cache
def compiled(kind, *args, device="cpu"):
    model = KINDS[kind](*args)
    state = None if kind == "growing" else STATE
    return graphfuse.compile(model, state=state, device=device)


def generator(kind, *args, draft=None, context_length=64):
    drafted = Decoder(compiled(*draft), context_length=context_length) if draft else None
    return Generator(Decoder(compiled(kind, *args), context_length=context_length), draft=drafted)


both = pytest.mark.parametrize("kind", ["shared", "growing"])


@pytest.mark.parametrize("kind", ["shared", "placed", "growing"])
def test_greedy_tokens_are_those_of_whole_texts(kind):
    every = generator(kind).generate(PROMPTS, max_new_tokens=24)
    for prompt, one in zip(PROMPTS, every, strict=True):
        assert list(one.tokens) == greedy(kind, prompt, 24)
        assert (one.text, one.finish_reason) == ("", "length")
        assert generator(kind).generate(prompt, max_new_tokens=24) == [one]
    assert len(set(every[0].tokens)) > 6, "a model that says one thing would show nothing"


@both
@pytest.mark.parametrize("temperature", [0.0, 1.3])
def test_a_ragged_batch_is_its_prompts_alone(kind, temperature):
    """Each with the random numbers of its place."""
    options = {"max_new_tokens": 16, "temperature": temperature, "top_k": 20, "seed": 5, "repetition_penalty": 1.2}
    batch = generator(kind).generate(PROMPTS, **options)
    alone = [generator(kind).generate(p, first_row=row, **options) for row, p in enumerate(PROMPTS)]
    assert batch == [one for (one,) in alone]
    assert batch == generator(kind).generate(PROMPTS, **options)
    if temperature:
        assert batch != generator(kind).generate(PROMPTS, **{**options, "seed": 6})
        assert batch[0] != generator(kind).generate(PROMPTS[0], first_row=1, **options)[0]


@both
def test_a_penalty_on_what_was_there(kind):
    """By the definition, one logit at a time."""
    (found,) = generator(kind).generate(PROMPTS[0], max_new_tokens=16, repetition_penalty=1.5)
    tokens = list(PROMPTS[0])
    for token in found.tokens:
        scores = [float(s) for s in runner(kind)(tokens)[-1]]
        for i in set(tokens):
            scores[i] = scores[i] * 1.5 if scores[i] < 0 else scores[i] / 1.5
        assert token == max(range(len(scores)), key=scores.__getitem__)
        tokens.append(token)


@both
def test_sequences_end_one_by_one(kind):
    """Those that are over change nothing for the others; the token that ends one is its last."""
    plain = [greedy(kind, p, 24) for p in PROMPTS]
    eos = plain[0][4]
    found = generator(kind).generate(PROMPTS, max_new_tokens=24, eos_token_ids=[eos])
    for tokens, one in zip(plain, found, strict=True):
        end = tokens.index(eos) + 1 if eos in tokens else 24
        assert list(one.tokens) == tokens[:end]
        assert one.finish_reason == ("stop" if eos in tokens else "length")
    assert len(found[0].tokens) <= 5


@both
def test_text_and_stop_strings(kind):
    text = Generator(Decoder(compiled(kind)), Letters())
    prompt = "FRDI"
    (plain,) = text.generate(prompt, max_new_tokens=24)
    assert plain.text == Letters().decode(plain.tokens)
    stop = plain.text[5:9]
    pieces = list(text.stream(prompt, max_new_tokens=24, stop_strings=stop))
    said = "".join(p.text for p in pieces)
    assert said == plain.text[: plain.text.find(stop)]
    assert [p.finish_reason for p in pieces] == [""] * (len(pieces) - 1) + ["stop"]
    assert tuple(p.token for p in pieces) == plain.tokens[: len(pieces)]
    (ended,) = text.generate(prompt, max_new_tokens=24, eos_token_ids=[plain.tokens[6]])
    assert ended.text == Letters().decode(ended.tokens[:-1])


DRAFTS = [("shared", "growing"), ("growing", "shared"), ("shared", "shared"), ("growing", "growing")]


@pytest.mark.parametrize(("kind", "draft"), DRAFTS)
def test_a_draft_changes_nothing(kind, draft):
    """A poor one, one that is the target, and one that has fewer tokens; greedy, and drawn."""
    for options in (
        {},
        {"temperature": 1.0, "seed": 3, "repetition_penalty": 1.3},
        {"temperature": 0.7, "top_p": 0.9, "draft_tokens": 2},
    ):
        wanted = generator(kind).generate(PROMPTS, max_new_tokens=15, **options)
        for which in ((draft, SMALLER, 3), (draft,)):
            assert generator(kind, draft=which).generate(PROMPTS, max_new_tokens=15, **options) == wanted


def test_a_good_draft_is_accepted():
    stream = generator("shared", draft=("growing", SMALLER, 3)).stream(PROMPTS[0], max_new_tokens=30)
    tokens = [piece.token for piece in stream]
    assert tokens == greedy("shared", PROMPTS[0], 30)
    assert stream.accepted < stream.proposed
    stream = generator("shared", draft=("shared",)).stream(PROMPTS[0], max_new_tokens=31, draft_tokens=5)
    assert [piece.token for piece in stream][:30] == tokens
    assert stream.accepted == stream.proposed == 25, "five turns of six tokens, and the last one"
    stream = generator("shared", draft=("shared",)).stream(PROMPTS, max_new_tokens=11, temperature=1, draft_tokens=4)
    assert len([*stream]) == 33
    assert stream.accepted == stream.proposed == 24, "what is drawn too: it is drawn by the same numbers"


def test_a_draft_of_fewer_tokens():
    wanted = generator("growing").generate(PROMPTS, max_new_tokens=12)
    assert max(t for one in wanted for t in one.tokens) >= 20
    drafted = generator("growing", draft=("growing", replace(SMALLER, vocab=20), 3))
    assert drafted.generate(PROMPTS, max_new_tokens=12) == wanted


@both
def test_long_prompts_are_read_in_chunks(kind, monkeypatch):
    wanted = generator(kind).generate(PROMPTS, max_new_tokens=8)
    monkeypatch.setattr(decoder, "LOGITS_AT_ONCE", 2 * len(PROMPTS) * CONFIG.vocab)
    assert generator(kind).generate(PROMPTS, max_new_tokens=8) == wanted


# what padding a model takes


def test_masks_have_few_lengths():
    """Zeros behind the end of a mask change nothing in attention of grouped queries."""
    one = Decoder(compiled("shared"))
    cache = one.cache(2, 90)
    seen, session = set(), cache._session

    def spy(feed):
        seen.add(feed["attention_mask"].shape[1])
        return session(feed)

    cache._session = spy
    tokens = np.array([[3], [4]])
    for _ in range(90):
        cache.feed(tokens)
    assert one.ignores_zeros
    assert seen == {1, 2, 16, 32, 48, 64, 80, 96}, "the first is as long as it has to be, of the second both are tried"


def test_a_model_that_counts_a_mask_s_length():
    """Its positions are not those of the ones: it gets masks of the right length."""
    wide = Decoder(compiled("unusual"))
    (found,) = Generator(wide).generate(PROMPTS[0], max_new_tokens=20)
    assert wide.ignores_zeros is False
    tokens = list(PROMPTS[0])
    for token in found.tokens:
        assert token == runner("unusual")(tokens)[-1].argmax()
        tokens.append(token)


def test_models_that_do_not_leave_padding_out():
    """Without a mask, lengths must be equal; so must they with a draft, which is right more often in one."""
    plain = Generator(Decoder(graphfuse.compile(growing(padded=False))))
    equal = [[5, 17, 3], [9, 1, 2]]
    found = plain.generate(equal, max_new_tokens=6)
    assert [list(f.tokens) for f in found] == [list(plain.generate(p, max_new_tokens=6)[0].tokens) for p in equal]
    message = "the model does not leave padding out: expected one prompt, or prompts of one length"
    with pytest.raises(InputError, match=message):
        plain.stream(PROMPTS)
    with pytest.raises(InputError, match=message):
        Generator(plain.decoder, draft=plain.decoder).stream(equal)
    (drafted,) = Generator(plain.decoder, draft=plain.decoder).generate(equal[0], max_new_tokens=6)
    assert drafted == found[0]
    counts = Generator(Decoder(graphfuse.compile(shared())))  # compiled without a state, it counts a mask's ones
    assert list(counts.generate(PROMPTS[0], max_new_tokens=9)[0].tokens) == greedy("shared", PROMPTS[0], 9)
    with pytest.raises(InputError, match=message):
        counts.stream(PROMPTS)


@pytest.mark.parametrize("kind", ["shared", pytest.param("growing", marks=pytest.mark.full)])
def test_on_a_gpu_s_code(kind):
    """Caches stay where they are."""
    found, wanted = (
        Decoder(compiled(kind, SMALLER, device=device)).cache(1, 16).feed for device in ("emulator", "cpu")
    )
    for ids in ([[3, 9, 4]], [[7]], [[1]]):
        logits = found(np.array(ids))
        assert isinstance(logits, DeviceArray)
        np.testing.assert_allclose(np.asarray(logits), wanted(np.array(ids)), rtol=1e-3, atol=1e-4)


# what does not fit


def test_what_does_not_fit():
    """One error, before anything is run."""
    one = generator("shared", context_length=20)
    for prompts, options, error, message in (
        ([], {}, UsageError, "prompts: expected at least one, found none"),
        (3, {}, UsageError, "prompts: expected a text, token ids, or several of these, found 3"),
        ([[]], {}, InputError, "prompt 0 has no tokens: expected at least one"),
        ([[3], [59]], {}, InputError, "prompt 1: expected token ids from 0 to 58, found 59"),
        ([[3], [-1]], {}, InputError, "prompt 1: expected token ids from 0 to 58, found -1"),
        ([[3], 3.5], {}, UsageError, "prompt 1: expected a text or token ids, found 3.5"),
        ([["a"]], {}, UsageError, "prompt 0: expected an integer, found 'a'"),
        ("a text", {}, UsageError, "prompt 0 is a text, and there is no tokenizer: expected token ids"),
        ([3], {"stop_strings": "x"}, UsageError, "stop_strings: expected a tokenizer, found none"),
        ([3], {"first_row": -1}, UsageError, "first_row: expected a number of at least 0, found -1"),
        ([3] * 12, {"max_new_tokens": 9}, InputError,
         "expected up to 20 tokens, of a prompt and max_new_tokens together, found 12 and 9"),
    ):  # fmt: skip
        with pytest.raises(error) as e:
            one.stream(prompts, **options)
        assert message in str(e.value)
    assert len(one.generate([3] * 12, max_new_tokens=8)[0].tokens) == 8


def test_a_draft_that_is_shorter():
    drafted = Generator(
        Decoder(compiled("shared"), context_length=40), draft=Decoder(compiled("growing"), context_length=10)
    )
    with pytest.raises(InputError, match="expected up to 10 tokens, of a prompt and max_new_tokens together"):
        drafted.stream([3, 4], max_new_tokens=9)


@both
def test_a_full_cache(kind):
    """It is what it was before."""
    one = Decoder(compiled(kind), context_length=48)
    cache = one.cache(1, 16)
    cache.read([list(range(1, 16))])
    assert cache.lengths.tolist() == [15]
    message = "the cache is full: expected sequences of up to 16 tokens, found 17"
    with pytest.raises(InputError, match=message):
        cache.feed(np.array([[7, 8]]))
    found = np.asarray(cache.feed(np.array([[7]])))
    np.testing.assert_allclose(found[0, -1], runner(kind)([*range(1, 16), 7])[-1], rtol=1e-3, atol=1e-4)
    with pytest.raises(InputError, match="the cache is full"):
        cache.feed(np.array([[7]]))
    with pytest.raises(InputError, match="expected sequences of up to 48 tokens, found 49"):
        one.cache(1, 49)


def test_more_sequences_than_the_model_takes():
    one = Generator(Decoder(graphfuse.compile(growing(SMALLER, batch=1))))
    with pytest.raises(InputError, match="the model takes 1 sequences at once, found 2"):
        one.stream([[3], [4]])
    some = generator("growing")
    some.decoder.batches = 1, 2
    with pytest.raises(InputError, match="the model takes 1 to 2 sequences at once, found 3"):
        some.stream([[3], [4], [5]], max_new_tokens=2)


# models that are no decoders


def model(inputs, outputs, nodes=()):
    infos = [
        [helper.make_tensor_value_info(name, elem, shape) for name, elem, shape in some] for some in (inputs, outputs)
    ]
    graph = helper.make_graph(list(nodes), "g", *infos)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


IDS = ("input_ids", TensorProto.INT64, ["batch", "steps"])


def cast(shape, ids=IDS, extra=()):
    """Logits of another rank, and caches that are of no use."""
    nodes = [
        helper.make_node("Cast", ["past"], ["present"], to=1),
        helper.make_node("Cast", ["past"], ["logits"], to=1),
    ]
    outputs = [("present", TensorProto.FLOAT, shape), ("logits", TensorProto.FLOAT, shape)]
    return model([ids, ("past", TensorProto.FLOAT, shape), *extra], outputs, nodes)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: cast(["b", 3, "n", 4], ("ids", *IDS[1:])), "not a decoder: expected an input 'input_ids', found ids"),
        (lambda: cast(["b", 3, "n", 4]), "logits: expected [batch, steps, N], found logits: f32[b, 3, n, 4]"),
        (lambda: cast(["b", "n", 4]), "expected an input of 4 dims, found past: f32[b, n, 4]"),
        (lambda: cast(["b", "n", 4], (*IDS[:2], ["n"])), "expected an input of 2 dims, found input_ids: i64[n]"),
        (
            lambda: cast(["b", "n", 4], extra=[("x", 1, [2])]),
            "not a decoder: input 'x' is neither tokens, mask nor positions, and becomes no output",
        ),
        (
            lambda: model([IDS], [("logits", 1, IDS[2])], [helper.make_node("Cast", ["input_ids"], ["logits"], to=1)]),
            "not a decoder: expected inputs that are caches of keys and values, found none",
        ),
    ],
    ids=["ids", "logits", "cache", "rank", "input", "none"],
)  # fmt: skip
def test_models_that_are_no_decoders(made, message):
    with pytest.raises(UsageError) as e:
        Decoder(graphfuse.compile(made()))
    assert message in str(e.value)


def test_states_that_are_not_the_caches():
    one = {"past_key_values.0.key": "present.0.key", "past_key_values.0.value": "present.0.value"}
    message = "the model's state: expected all caches .*, found past_key_values.0.key, past_key_values.0.value$"
    with pytest.raises(UsageError, match=message):
        Decoder(graphfuse.compile(shared(replace(SMALLER, depth=2)), state=one))
    g = Builder("scatter", opset=18, seed=0)
    ids = g.input("input_ids", ["batch", "steps"], INT64)
    past = g.input("past", ["batch", 2, "capacity", 4])
    made = g.ScatterElements(
        past, g.const(np.zeros((1, 1, 1, 1), np.int64)), g.const(np.ones((1, 1, 1, 1), np.float32)), axis=2
    )
    g.output(g.Gather(g.normal([9, 9], 1.0, "w"), ids, axis=0), "logits", ["batch", "steps", 9])
    g.output(made, "present", ["batch", 2, "capacity", 4])
    with pytest.raises(UsageError, match="a model with a state: expected an input 'attention_mask', found none"):
        Decoder(graphfuse.compile(g.model(), state={"past": "present"}))


def test_heads_of_a_growing_cache_are_numbers():
    shape = ["batch", "heads", "past", 4]
    g = Builder("heads", opset=18, seed=0)
    ids = g.input("input_ids", ["batch", "steps"], INT64)
    g.output(g.Gather(g.normal([9, 9], 1.0, "w"), ids, axis=0), "logits", ["batch", "steps", 9])
    g.output(g.Neg(g.input("past", shape)), "present", shape)
    one = Decoder(graphfuse.compile(g.model()))
    with pytest.raises(UsageError, match="a cache: expected heads and their size to be numbers, found past: f32"):
        one.cache(1, 4)


def test_names():
    """Patterns first; else `present` for `past`."""
    names = Interface(caches=(("k_%d", "grown_k_%d"), ("past_%d", "kept_%d")))
    inputs = ["input_ids", "k_0", "past_11", "past_key_values.3.value"]
    outputs = ["logits", "grown_k_0", "kept_11", "present.3.value", "present_11"]
    wanted = {"k_0": "grown_k_0", "past_11": "kept_11", "past_key_values.3.value": "present.3.value"}
    assert names.pairs(inputs, outputs) == wanted
    with pytest.raises(UsageError, match="not a decoder: expected an output 'logits', found present_1"):
        names.pairs(["input_ids", "past_1"], ["present_1"])


def of_the_last(made):
    """A model that gives the logits of the last token only."""
    (logits,) = (o for o in made.graph.output if o.name == "logits")
    ends = [helper.make_node("Slice", ["every", "from", "to", "axis"], ["logits"])]
    for node in made.graph.node:
        for i, name in enumerate(node.output):
            if name == "logits":
                node.output[i] = "every"
    for name, value in (("from", -1), ("to", 1 << 40), ("axis", 1)):
        made.graph.initializer.append(helper.make_tensor(name, TensorProto.INT64, [1], [value]))
    made.graph.node.extend(ends)
    logits.type.tensor_type.shape.dim[1].Clear()
    return made


@both
def test_logits_of_last_tokens(kind):
    """In a batch the last token of one may be no other's last: then it is fed once more."""
    state = None if kind == "growing" else STATE
    one = Generator(Decoder(graphfuse.compile(of_the_last(KINDS[kind](CONFIG)), state=state), context_length=64))
    wanted = [greedy(kind, prompt, 9) for prompt in PROMPTS]
    assert [list(found.tokens) for found in one.generate(PROMPTS, max_new_tokens=9)] == wanted
    assert [list(found.tokens) for p in PROMPTS for found in one.generate(p, max_new_tokens=9)] == wanted


def test_a_draft_needs_logits_of_all_tokens():
    one = Decoder(graphfuse.compile(of_the_last(growing(CONFIG))))
    drafted = Generator(one, draft=Decoder(compiled("growing")))
    with pytest.raises(UsageError, match="a draft: expected a model that gives logits of all tokens, found those of"):
        drafted.generate(PROMPTS[0], max_new_tokens=9)
