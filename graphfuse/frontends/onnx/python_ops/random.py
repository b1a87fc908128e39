"""Random numbers, from numpy's Mersenne Twister (`RandomState`), one stream per execution of a node.

`seed` is cut to an integer, as its first 32 bits; without it the stream is the operating system's.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphfuse.frontends.onnx.python_ops.call import Call, python_op

MOST_DRAWN = 1 << 28
"""Elements: they are drawn as f64, whatever is asked for."""


def _stream(c: Call) -> np.random.RandomState:
    seed = c.get("seed")
    return np.random.RandomState(None if seed is None else int(seed) & 0xFFFFFFFF)


def _like(c: Call) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and dtype of what is drawn: the attributes' or the input's."""
    if not c.inputs:
        shape = tuple(c.get("shape"))
        if min(shape, default=0) < 0 or math.prod(shape) > MOST_DRAWN:
            raise c.error(f"shape: expected up to {MOST_DRAWN} elements, found {shape}")
        return shape, c.dtype("dtype")
    x = c.array(0)
    return x.shape, c.dtype("dtype") if "dtype" in c.attributes else x.dtype


@python_op("RandomUniform", "RandomUniformLike")
def random_uniform(c: Call) -> Any:
    """Evenly from `low` up to, not including, `high`."""
    shape, dtype = _like(c)
    return np.asarray(_stream(c).uniform(c.get("low", 0.0), c.get("high", 1.0), shape)).astype(dtype)


@python_op("RandomNormal", "RandomNormalLike")
def random_normal(c: Call) -> Any:
    """From the normal distribution."""
    shape, dtype = _like(c)
    return np.asarray(_stream(c).normal(c.get("mean", 0.0), c.get("scale", 1.0), shape)).astype(dtype)


@python_op("Bernoulli")
def bernoulli(c: Call) -> Any:
    """1 with the probability that the input says, else 0."""
    p, (_, dtype) = c.array(0), _like(c)
    return (_stream(c).uniform(0.0, 1.0, p.shape) < p.astype(np.float64)).astype(dtype)


@python_op("Multinomial")
def multinomial(c: Call) -> Any:
    """Class indices by rows of unnormalised log-probabilities."""
    logits = c.array(0).astype(np.float64)
    if (drawn := logits.size * int(c.get("sample_size", 1))) > MOST_DRAWN or drawn < 0:
        raise c.error(f"sample_size: expected up to {MOST_DRAWN} draws, found {drawn}")
    drawn = _stream(c).gumbel(size=(logits.shape[0], int(c.get("sample_size", 1)), logits.shape[1]))
    return np.argmax(logits[:, None, :] + drawn, axis=-1).astype(c.dtype("dtype", 6))


@python_op("Dropout")
def dropout(c: Call) -> Any:
    """Elements dropped with probability `ratio`, the others scaled up; and which are kept. In inference, all."""
    x, ratio = c.array(0), float(c.number(1, 0.5))
    if not c.number(2, 0) or ratio == 0:
        return x, np.ones(x.shape, dtype=np.bool_)
    kept = np.asarray(_stream(c).uniform(0.0, 1.0, x.shape) >= ratio)
    return np.where(kept, x.astype(np.float64) / (1 - ratio), 0).astype(x.dtype), kept
