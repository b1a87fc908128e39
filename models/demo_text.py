"""`make demo-text`: a tiny GPT writes, token by token, through a compiled artifact with a KV cache.

The artifact is written, loaded again and run from the file, as a program that ships one would.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import graphfuse
from models import tinygpt

PROMPT = "The "


def main() -> None:
    """Compile, reload, generate."""
    parser = argparse.ArgumentParser(description="a tiny GPT writes through a graphfuse artifact")
    parser.add_argument("prompt", nargs="?", default=PROMPT)
    parser.add_argument("--count", type=int, default=160, help="characters to write")
    parser.add_argument("--temperature", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    unknown = sorted(set(args.prompt) - set(tinygpt.alphabet()))
    if unknown or not args.prompt:
        parser.error(f"the prompt has characters the model does not know: {unknown}" if unknown else "no prompt")
    with tempfile.TemporaryDirectory() as folder:
        artifact = Path(folder) / "tinygpt.gfx"
        start = time.perf_counter()
        graphfuse.compile(tinygpt.FILE, dims=tinygpt.DIMS).save(artifact)
        compiled = time.perf_counter()
        model = graphfuse.load(artifact)
        letters = tinygpt.generate(model, args.prompt, args.count, temperature=args.temperature, seed=args.seed)
        first = next(letters)
        ready = time.perf_counter()
        sys.stdout.write(args.prompt + first)
        written = 1
        for letter in letters:
            sys.stdout.write(letter)
            sys.stdout.flush()
            written += 1
        seconds = time.perf_counter() - ready
    rate = f"{(written - 1) / seconds:.0f} characters/s" if written > 1 else "one character"
    print(
        f"\n\ncompiled in {compiled - start:.2f} s, reload to first character {ready - compiled:.3f} s, {rate} on "
        f"{model.session.threads} threads"
    )


if __name__ == "__main__":
    main()
