"""Renders docs/benchmarks.md from benchmarks/results/*.json, so that no figure is typed by hand.

python tools/render_results.py > docs/benchmarks.md
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent.parent / "benchmarks" / "results"

INTRODUCTION = """# Benchmarks

Rendered by `python tools/render_results.py` from `benchmarks/results/*.json`, each written by the command it names.
Sides are timed in alternating rounds of one process, medians are shown, and a ratio above 1 means graphfuse is faster.
Machines differ and drift: run the commands on yours, and quote ratios."""


def geometric_mean(values: list[float]) -> float:
    """The mean that suits ratios."""
    return math.exp(sum(map(math.log, values)) / len(values))


def conditions(found: dict[str, Any]) -> str:
    """Where and how a file's figures were taken."""
    versions = ", ".join(f"{k} {v}" for k, v in found["versions"].items())
    where = f"{found['device']}, {found.get('cores', '?')} cores; {found['date'][:10]}; {versions}."
    note = f"\n\nNote: {found['note']}." if "note" in found else ""
    return f"{where}\n\n    {found['command']}{note}"


def models(found: dict[str, Any]) -> None:
    """Speed of whole models against a peer."""
    peer = {"onnxruntime": "ONNX Runtime", "inductor": "torch.compile (Inductor)"}[found["against"]]
    print(f"\n## Models against {peer}\n\n{conditions(found)}\n")
    print(f"| model | threads | graphfuse, ms | {peer}, ms | ratio |\n|---|---|---|---|---|")
    for row in found["rows"]:
        ours, theirs = row["ours"]["median"], row["theirs"]["median"]
        print(f"| {row['model']} | {row['threads']} | {ours:.2f} | {theirs:.2f} | {row['ratio']:.2f} |")
    for threads in sorted({row["threads"] for row in found["rows"]}):
        ratios = [row["ratio"] for row in found["rows"] if row["threads"] == threads]
        print(f"| **geometric mean** | {threads} | | | **{geometric_mean(ratios):.2f}** (least {min(ratios):.2f}) |")


def memory(found: dict[str, Any]) -> None:
    """Bandwidth of memory-bound kernels against memcpy."""
    print(f"\n## Memory-bound kernels against memcpy\n\n{conditions(found)}\n")
    print("| kernel | threads | GB/s | memcpy, GB/s | ratio |\n|---|---|---|---|---|")
    for row in found["rows"]:
        cells = [row["case"], row["threads"], *(f"{row[k]:.1f}" for k in ("gb_per_s", "memcpy_gb_per_s"))]
        print("| " + " | ".join(map(str, [*cells, f"{row['ratio']:.2f}"])) + " |")


def compiling(found: dict[str, Any]) -> None:
    """Compile and load times."""
    print(f"\n## Compiling and loading\n\n{conditions(found)}\n")
    print("| model | cold compile, s | artifact to first answer, s | second answer, s |\n|---|---|---|---|")
    for row in found["rows"]:
        cells = [f"{row[k]:.2f}" if k in row else "" for k in ("cold_compile_s", "first_answer_s", "second_answer_s")]
        print(f"| {row['model']} | {' | '.join(cells)} |")


RENDER = {"cpu_models": models, "cpu_memory": memory, "cpu_compile": compiling}


def main() -> None:
    """Print the page."""
    print(INTRODUCTION)
    for name, render in RENDER.items():
        for path in sorted(RESULTS.glob(f"{name}*.json")):
            render(json.loads(path.read_text(encoding="utf-8")))


if __name__ == "__main__":
    main()
