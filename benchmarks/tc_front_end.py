"""The Triton-C front end's rate: lines a second over a source of about 1,000 lines made of `models/kernels`.

    python -m benchmarks.tc_front_end [--repeat 5]

Each file is repeated under a namespace of its own (kernels renamed) until the source has 1,000 lines; macros are given
as `MACROS` says. The best of the repeats counts, for parsing with checking, and for all up to block functions.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable
from pathlib import Path

from graphfuse.frontends.tc import check, compile_text

FOLDER = Path(__file__).parents[1] / "models" / "kernels"
MACROS = {"TYPE": "half", "BLOCK": "64", "D": "64", "GROUP": "8", "TM": "64", "TN": "64", "TK": "32"}
FILES = ("softmax", "attention", "batchnorm", "cross_entropy", "layernorm", "cumsum", "dropout", "grouped_matmul",
         "int4_matmul", "blocksparse_softmax", "histogram_atomic")  # fmt: skip
LINES = 1000


def source() -> str:
    """About LINES lines: the files in turn, their functions numbered, their macros undefined behind them."""
    parts: list[str] = []
    lines = 0
    while lines < LINES:
        text = (FOLDER / f"{FILES[len(parts) % len(FILES)]}.tc").read_text()
        n = len(parts)
        for name in set(re.findall(r"^(?:__global__ )?[a-z]+\w*(?:\[[^\]]*\])? (\w+)\(", text, re.MULTILINE)):
            text = re.sub(rf"\b{name}\b", f"{name}_{n}", text)
        defined = dict.fromkeys(re.findall(r"^#\s*define (\w+)", text, re.MULTILINE))
        text += "".join(f"#undef {name}\n" for name in defined)
        parts.append(text)
        lines += text.count("\n")
    return "".join(parts)


def best(run: Callable[[], object], repeat: int) -> float:
    """Seconds of the fastest run."""
    times: list[float] = []
    for _ in range(repeat):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    """Print a line for each stage."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else "")
    parser.add_argument("--repeat", type=int, default=5)
    repeat = parser.parse_args().repeat
    text = source()
    lines = text.count("\n")
    for name, stage in (("checked", check), ("lowered", compile_text)):
        seconds = best(lambda stage=stage: stage(text, "all.tc", MACROS), repeat)
        print(f"{name}: {lines} lines in {seconds:.3f} s, {lines / seconds:,.0f} lines/s")


if __name__ == "__main__":
    main()
