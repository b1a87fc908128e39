"""A tiny character-level GPT with a KV cache, trained on `tinygpt_corpus.txt` and committed.

Owns the committed file's interface: the alphabet, which is its tokenizer, and the cache's shape. The
training and the graph are in `train_tinygpt.py`; `graphfuse.generation` writes with it.

The graph appends `step` tokens to `past` ones (rotary positions, so neither is bounded by a
table); a prompt is one call with `past` 0, and each further character one call with `step` 1.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from graphfuse.errors import InputError
from models import _cli

NAME = "tinygpt"
DIMS: dict[str, tuple[int, int]] = {"past": (0, 1023), "step": (1, 256)}
TEST_DIMS: list[dict[str, int]] = [
    {"past": 0, "step": 9},
    {"past": 17, "step": 1},
    {"past": 5, "step": 8},
]

FILE = Path(__file__).with_suffix(".onnx")
CORPUS = Path(__file__).with_name("tinygpt_corpus.txt")

LAYERS = 3
N_HEADS = 4
HEAD_DIM = 24

Feeds = dict[str, np.ndarray]


def build(path: Path, *, small: bool = False, seed: int = 0) -> None:
    """Copy the committed model to `path`; there is one size and one set of weights."""
    del small, seed
    shutil.copyfile(FILE, path)


def inputs(rng: np.random.Generator, *, small: bool = False, past: int = 32, step: int = 1) -> Feeds:
    """Random characters after a random cache."""
    del small
    ids = rng.integers(0, len(alphabet()), (1, step), dtype=np.int64)
    return {"input_ids": ids, **{name: rng.standard_normal(value.shape, np.float32)
                                 for name, value in empty_cache(past).items()}}  # fmt: skip


def alphabet() -> str:
    """The characters, in the order of their token ids."""
    return "".join(sorted(set(CORPUS.read_text(encoding="utf-8"))))


class Tokenizer:
    """A token for each character of the alphabet, as `graphfuse.generation` takes it."""

    def __init__(self) -> None:
        self._letters = alphabet()

    def encode(self, text: str) -> list[int]:
        """Token ids; a character outside the alphabet is an InputError."""
        if unknown := sorted(set(text) - set(self._letters)):
            raise InputError(f"expected characters that the model knows, found {unknown}")
        return [self._letters.index(character) for character in text]

    def decode(self, ids: Sequence[int]) -> str:
        """The characters."""
        return "".join(self._letters[i] for i in ids)


def empty_cache(past: int = 0) -> Feeds:
    """The cache inputs of `past` tokens, zeroed: f32 [1, heads, past, head_dim] each."""
    shape = (1, N_HEADS, past, HEAD_DIM)
    names = [f"past_{kind}_{i}" for i in range(LAYERS) for kind in ("key", "value")]
    return {name: np.zeros(shape, np.float32) for name in names}


def main() -> None:
    """Write the model from the command line."""
    _cli.run(build, __doc__)


if __name__ == "__main__":
    main()
