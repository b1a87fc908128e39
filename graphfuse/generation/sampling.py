"""Which token comes next: functions of logits, with random numbers that depend on seed, sequence and place alone.

A draw is the argument of the largest of logits plus Gumbel noise, which is distributed as their softmax. So a model
and its draft, given the same noise, choose the same token wherever they are of one mind, and what a target chooses is
the same whether a draft proposed it or not.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphfuse.artifact import Array
from graphfuse.generation.config import GenerationConfig


def choose(logits: Array, config: GenerationConfig, seen: Array, rows: Sequence[int], places: Sequence[int]) -> Array:
    """The next token of each sequence.

    Args:
        logits: [sequences, vocabulary], of any float.
        config: How to choose.
        seen: bool of that shape: tokens that a sequence has; read if there is a penalty on them.
        rows: The sequences' numbers.
        places: How many tokens were chosen before, for each.

    Returns:
        Token ids, i64 [sequences].
    """
    scores = np.asarray(logits, np.float64)
    if config.repetition_penalty != 1:
        scores = penalised(scores, seen, config.repetition_penalty)
    if config.temperature == 0:
        return scores.argmax(-1)
    scores = scores / config.temperature
    scores = np.where(kept(scores, config.top_k, config.top_p), scores, -np.inf)
    return (scores + gumbel(config.seed, rows, places, scores.shape[-1])).argmax(-1)


def penalised(scores: Array, seen: Array, penalty: float) -> Array:
    """Scores [..., vocabulary], of which those that are `seen` are less likely for a penalty above 1."""
    return np.where(seen, np.where(scores < 0, scores * penalty, scores / penalty), scores)


def kept(scores: Array, top_k: int, top_p: float) -> Array:
    """Which of the scores [..., vocabulary] may be drawn: those that are at least the `top_k`-th.

    Of these, the ones than which likelier tokens have less than `top_p` of the probability. Ties are kept.
    """
    size = scores.shape[-1]
    mask = np.ones(scores.shape, np.bool_)
    if 0 < top_k < size:
        mask = scores >= np.partition(scores, size - top_k, -1)[..., size - top_k, None]
    if top_p < 1:
        weights = np.where(mask, np.exp(scores - scores.max(-1, keepdims=True)), 0)
        weights /= weights.sum(-1, keepdims=True)
        falling = np.sort(weights, -1)[..., ::-1]
        likelier = falling.cumsum(-1) - falling
        last = (likelier < top_p).sum(-1, keepdims=True) - 1
        mask &= weights >= np.take_along_axis(falling, last, -1)
    return mask


def gumbel(seed: int, rows: Sequence[int], places: Sequence[int], size: int) -> Array:
    """Noise, f64 [sequences, size], of which each row depends on the seed, its number and its place alone."""
    noise = np.empty((len(rows), size))
    for out, row, place in zip(noise, rows, places, strict=True):
        key, counter = (np.array(words, np.uint64) for words in ([seed, row], [0, place, 0, 0]))
        out[:] = np.random.Generator(np.random.Philox(key=key, counter=counter)).gumbel(size=size)
    return noise
