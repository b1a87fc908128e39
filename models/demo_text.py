"""`make demo-text`: a tiny GPT writes, token by token, through a compiled artifact with a KV cache.

The artifact is written, loaded again and run from the file, as a program that ships one would; on the CPU, and on a
GPU where there is one.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import graphfuse
from graphfuse.errors import DeviceError, InputError
from graphfuse.generation import Decoder, Generator
from models import tinygpt

PROMPT = "The "
LEFT = tinygpt.DIMS["past"][1]
"""Characters of a text, prompt included."""


def main() -> None:
    """Write on each device."""
    parser = argparse.ArgumentParser(description="a tiny GPT writes through a graphfuse artifact")
    parser.add_argument("prompt", nargs="?", default=PROMPT)
    parser.add_argument("--count", type=int, default=160, help="characters to write")
    parser.add_argument("--temperature", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    try:
        prompt = tinygpt.Tokenizer().encode(args.prompt)
    except InputError as e:
        parser.error(e.message)
    if not prompt or len(prompt) + args.count > LEFT:
        parser.error(f"expected a prompt, and up to {LEFT} characters with it" if prompt else "no prompt")
    for device in ("cpu", "cuda"):
        try:
            write(args.prompt, args.count, args.temperature, args.seed, device)
        except DeviceError:
            if device == "cpu":
                raise


def write(prompt: str, count: int, temperature: float, seed: int, device: str) -> None:
    """Compile, reload, generate; then the figures."""
    with tempfile.TemporaryDirectory() as folder:
        artifact = Path(folder) / "tinygpt.gfx"
        start = time.perf_counter()
        graphfuse.compile(tinygpt.FILE, dims=tinygpt.DIMS, device=device).save(artifact)
        compiled = time.perf_counter()
        model = graphfuse.load(artifact, device=device)
        generator = Generator(Decoder(model), tinygpt.Tokenizer())
        pieces = generator.stream(prompt, max_new_tokens=count, temperature=temperature, seed=seed)
        first = next(pieces)
        ready = time.perf_counter()
        sys.stdout.write(prompt + first.text)
        written = 1
        for piece in pieces:
            sys.stdout.write(piece.text)
            sys.stdout.flush()
            written += 1
        seconds = time.perf_counter() - ready
    rate = f"{(written - 1) / seconds:.0f} characters/s" if written > 1 else "one character"
    where = f"{model.session.threads} threads" if device == "cpu" else "the GPU"
    print(
        f"\n\ncompiled in {compiled - start:.2f} s, reload to first character {ready - compiled:.3f} s, {rate}, {where}"
    )


if __name__ == "__main__":
    main()
