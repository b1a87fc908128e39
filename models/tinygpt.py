"""A tiny character-level GPT with a KV cache, trained on `tinygpt_corpus.txt` and committed.

Owns the committed file's interface: the alphabet, the cache's shape and generation by any callable
that runs one step. The training and the graph are in `train_tinygpt.py`.

The graph appends `step` tokens to `past` ones (rotary positions, so neither is bounded by a
table); a prompt is one call with `past` 0, and each further character one call with `step` 1.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np

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


def encode(text: str) -> np.ndarray:
    """Token ids int64 [1, n]; a character outside the alphabet is a KeyError."""
    ids = {character: i for i, character in enumerate(alphabet())}
    return np.asarray([[ids[character] for character in text]], np.int64)


def empty_cache(past: int = 0) -> Feeds:
    """The cache inputs of `past` tokens, zeroed: f32 [1, heads, past, head_dim] each."""
    shape = (1, N_HEADS, past, HEAD_DIM)
    names = [f"past_{kind}_{i}" for i in range(LAYERS) for kind in ("key", "value")]
    return {name: np.zeros(shape, np.float32) for name in names}


def generate(
    step: Callable[[Feeds], Mapping[str, np.ndarray]],
    prompt: str,
    count: int,
    *,
    temperature: float = 0.5,
    seed: int = 0,
) -> Iterator[str]:
    """Yield `count` characters after the prompt; `step` runs the model once on named inputs.

    Temperature 0 always takes the likeliest character.
    """
    rng, letters = np.random.default_rng(seed), alphabet()
    ids, cache = encode(prompt), empty_cache()
    for _ in range(count):
        outputs = step({"input_ids": ids, **cache})
        cache = {name: np.asarray(outputs[name.replace("past", "present")]) for name in cache}
        chosen = _sample(np.asarray(outputs["logits"])[0, -1], temperature, rng)
        yield letters[chosen]
        ids = np.asarray([[chosen]], np.int64)


def _sample(logits: np.ndarray, temperature: float, rng: np.random.Generator) -> int:
    if temperature == 0:
        return int(logits.argmax())
    scaled = (logits - logits.max()).astype(np.float64) / temperature
    weights = np.exp(scaled)
    return int(rng.choice(len(logits), p=weights / weights.sum()))


def main() -> None:
    """Write the model from the command line."""
    _cli.run(build, __doc__)


if __name__ == "__main__":
    main()
