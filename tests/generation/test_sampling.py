"""Which tokens may be drawn, how often they are, and what a draw depends on."""

from __future__ import annotations

import numpy as np
import pytest

from graphfuse.errors import UsageError
from graphfuse.generation import GenerationConfig
from graphfuse.generation.sampling import choose, gumbel, kept, penalised

RNG = np.random.default_rng(0)
NOTHING = np.zeros((1, 0), bool)


def naive(scores, top_k, top_p):
    """The definition, token by token."""
    size = len(scores)
    mask = [top_k == 0 or sum(other > s for other in scores) < top_k for s in scores]
    weights = [np.exp(s - max(scores)) * m for s, m in zip(scores, mask, strict=True)]
    weights = [w / sum(weights) for w in weights]
    return [mask[i] and sum(w for w in weights if w > weights[i]) < top_p for i in range(size)]


@pytest.mark.parametrize("ties", [False, True])
def test_what_may_be_drawn(ties):
    for _ in range(40):
        scores = RNG.standard_normal((3, 23)) * 2
        scores = np.round(scores) if ties else scores
        top_k, top_p = int(RNG.integers(0, 30)), float(RNG.uniform(0.01, 1.0))
        found = kept(scores, top_k, top_p)
        assert found.tolist() == [naive(row, top_k, top_p) for row in scores.tolist()], (top_k, top_p)
        assert found.any(1).all()


def test_all_tokens_without_limits():
    assert kept(RNG.standard_normal((2, 9)), 0, 1.0).all()


def test_frequencies_are_the_softmax():
    """And those of what is kept, at another temperature."""
    logits, count = np.array([2.0, 1.0, 0.5, -1.0, 0.0]), 20_000
    for config in (
        GenerationConfig(temperature=1.0),
        GenerationConfig(temperature=0.5, top_k=4, seed=3),
        GenerationConfig(temperature=2.0, top_p=0.8, seed=4),
    ):
        scores = logits / config.temperature
        weights = np.exp(scores) * naive(scores.tolist(), config.top_k, config.top_p)
        weights /= weights.sum()
        drawn = choose(np.tile(logits, (count, 1)), config, NOTHING, [0] * count, range(count))
        found = np.bincount(drawn, minlength=5) / count
        assert (np.abs(found - weights) <= 4 * np.sqrt(weights * (1 - weights) / count)).all()


def test_noise_depends_on_seed_row_and_place_alone():
    noise = gumbel(7, [0, 1, 5], [3, 3, 9], 11)
    for i, (row, place) in enumerate([(0, 3), (1, 3), (5, 9)]):
        assert (gumbel(7, [row], [place], 11) == noise[i]).all()
        assert (gumbel(7, [row], [place], 6) == noise[i, :6]).all(), "a draft may have fewer tokens"
    others = [gumbel(*args, 11) for args in ((8, [0], [3]), (7, [2], [3]), (7, [0], [4]))]
    assert all((other != noise[0]).all() for other in others)


def test_a_penalty():
    scores, seen = np.array([[3.0, -2.0, 1.0]]), np.array([[True, True, False]])
    assert penalised(scores, seen, 2.0).tolist() == [[1.5, -4.0, 1.0]]
    config = GenerationConfig(repetition_penalty=4.0)
    assert choose(scores, config, seen, [0], [0]).tolist() == [2]


def test_logits_of_halves():
    logits = np.array([[1.0, 3.0, 2.0]], np.float16)
    assert choose(logits, GenerationConfig(), NOTHING, [0], [0]).tolist() == [1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_new_tokens": 0}, "max_new_tokens: expected an integer from 1 to 1099511627776, found 0"),
        ({"max_new_tokens": 1.5}, "max_new_tokens: expected an integer, found 1.5"),
        ({"top_k": -1}, "top_k: expected an integer from 0 to 1099511627776, found -1"),
        ({"seed": -1}, "seed: expected an integer from 0 to 18446744073709551615, found -1"),
        ({"draft_tokens": 0}, "draft_tokens: expected an integer from 1 to 1024, found 0"),
        ({"temperature": -0.5}, "temperature: expected a number of at least 0, found -0.5"),
        ({"temperature": float("nan")}, "temperature: expected a number of at least 0, found nan"),
        ({"temperature": float("inf")}, "temperature: expected a number of at least 0, found inf"),
        ({"temperature": "warm"}, "temperature: expected a number, found 'warm'"),
        ({"top_p": 0}, "top_p: expected a number above 0 and at most 1, found 0"),
        ({"top_p": 1.5}, "top_p: expected a number above 0 and at most 1, found 1.5"),
        ({"repetition_penalty": 0.0}, "repetition_penalty: expected a number above 0, found 0.0"),
        ({"eos_token_ids": 3}, "eos_token_ids: expected several token ids, found 3"),
        ({"eos_token_ids": ["a"]}, "eos_token_ids: expected an integer, found 'a'"),
        ({"stop_strings": [3]}, "stop_strings: expected a text, found 3"),
        ({"stop_strings": [""]}, "stop_strings: expected texts of at least one character, found an empty one"),
        ({"temprature": 1}, "unknown option 'temprature'; did you mean 'temperature'?"),
        ({"x": 1}, "unknown option 'x'; expected one of max_new_tokens, temperature, top_k"),
    ],
)
def test_options_that_are_none(options, message):
    with pytest.raises(UsageError) as e:
        GenerationConfig().changed(**options)
    assert message in str(e.value)
