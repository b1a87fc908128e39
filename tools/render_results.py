"""Renders docs/benchmarks.md and docs/fusion.md from benchmarks/results/*.json, so that no figure is typed by hand.

python tools/render_results.py > docs/benchmarks.md
python tools/render_results.py fusion > docs/fusion.md
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent.parent / "benchmarks" / "results"

INTRODUCTION = """# Benchmarks

Rendered by `python tools/render_results.py` from `benchmarks/results/*.json`, each written by the command it names.
Sides are timed in alternating rounds of one process, medians are shown, and a ratio above 1 means graphfuse is faster.
Machines differ and drift: run the commands on yours, and quote ratios.
Not run by the tests: they take minutes to hours each, on a machine that does nothing else."""


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


def quantised(found: dict[str, Any]) -> None:
    """Speed of quantised models against ONNX Runtime."""
    print(f"\n## Quantised models against ONNX Runtime\n\n{conditions(found)}\n")
    print(
        "ResNet-18 and BERT-base in 8 bits, at batch 1 (BERT with 128 tokens). The last column is the largest\n"
        "difference of outputs, in standard deviations, and how far ONNX Runtime is from itself if rounded otherwise.\n"
    )
    print("| model | threads | graphfuse, ms | ONNX Runtime, ms | ratio | of processor time | difference |")
    print("|---|---|---|---|---|---|---|")
    for row in found["rows"]:
        times = f"{row['ours']['median']:.2f} | {row['theirs']['median']:.2f} | {row['ratio']:.2f}"
        differs = f"{row['deviation']:.1e} of {row['tolerance']:.1e}"
        print(f"| {row['model']} | {row['threads']} | {times} | {row['processor_ratio']:.2f} | {differs} |")


def packed(found: dict[str, Any]) -> None:
    """Speed and room of weights of 4 bits against ONNX Runtime."""
    print(f"\n## Weights of 4 bits against ONNX Runtime\n\n{conditions(found)}\n")
    print(
        "`MatMulNBits` in blocks of 32; level 4 lets both sides round the left operand to 8 bits. `file`: our\n"
        "artifact in the size of the model. The difference is the largest one of outputs, in standard deviations.\n"
        "Decoders are Llamas that ONNX Runtime's tool quantised, which write a token behind 1,024.\n"
    )
    columns = "k x n, or model | rows | level | threads | graphfuse, ms | ONNX Runtime, ms | ratio | file | difference"
    print(f"| {columns} |\n" + "|---" * 9 + "|")
    for row in found["rows"]:
        cells = [row["case"], row["rows"], row["level"], row["threads"], *(f"{ms:.3f}" for ms in row["ms"].values())]
        cells += [f"{row['ratio']:.2f}", f"{row['file']:.3f}", f"{row['error']:.1e}"]
        print("| " + " | ".join(map(str, cells)) + " |")


def experts(found: dict[str, Any]) -> None:
    """Speed of mixtures of experts against ONNX Runtime."""
    print(f"\n## Mixtures of experts against ONNX Runtime\n\n{conditions(found)}\n")
    print(
        "`MoE` in f32: experts of two products with SiLU between them, from a width to a hidden width and back. Each\n"
        "was compiled once for all numbers of tokens. The difference is the largest one, in standard deviations.\n"
    )
    columns = "experts x width x hidden | tokens | threads | graphfuse, ms | ONNX Runtime, ms | ratio | difference"
    print(f"| {columns} |\n" + "|---" * 7 + "|")
    for row in found["rows"]:
        cells = [row["case"], row["tokens"], row["threads"], *(f"{ms:.3f}" for ms in row["ms"].values())]
        print("| " + " | ".join(map(str, [*cells, f"{row['ratio']:.2f}", f"{row['error']:.1e}"])) + " |")
    ratios = [row["ratio"] for row in found["rows"]]
    print(f"| **geometric mean** | | | | | **{geometric_mean(ratios):.2f}** (least {min(ratios):.2f}) | |")


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


def footprint(found: dict[str, Any]) -> None:
    """Memory of a process that runs a model."""
    print(f"\n## Memory of a process\n\n{conditions(found)}\n")
    print(
        "What loading a model and running it adds to a process, in MB. Own is memory that no file backs; resident "
        "counts pages mapped\nfrom a file as well. An artifact's weights are read into own memory and checked "
        "(`GRAPHFUSE_WEIGHTS=mapped` leaves them in the file).\n"
    )
    sides = "from an artifact: own | resident | compiling: own | resident | ONNX Runtime: own | resident"
    print(f"| model | weights | {sides} |")
    print("|---|---|---|---|---|---|---|---|")
    for row in found["rows"]:
        sizes = [row[side][kind] for side in ("artifact", "compile", "onnxruntime") for kind in ("own", "resident")]
        print(f"| {row['model']} | " + " | ".join(f"{n / 1e6:.0f}" for n in (row["weights"], *sizes)) + " |")


def callers(found: dict[str, Any]) -> None:
    """Two callers of one model."""
    print(f"\n## Two callers of one model\n\n{conditions(found)}\n")
    print(
        "Calls per second of two threads, each call on one thread of its own, over those of one caller; beside it with "
        "a model each.\nThen milliseconds of a call of batch 1 alone, and while one of batch 6 runs.\n"
    )
    print("| model | ms | two / one | a model each | batch 1 | behind batch 6 | batch 6 |")
    print("|---|---|---|---|---|---|---|")
    for row in found["rows"]:
        waits = (row[k] for k in ("small_ms", "behind_ms", "large_ms"))
        cells = " | ".join("" if ms is None else f"{ms:.1f}" for ms in waits)
        print(f"| {row['model']} | {row['ms']:.2f} | {row['together']:.2f} | {row['apart']:.2f} | {cells} |")


def launches(found: dict[str, Any]) -> None:
    """Launches of a Triton-C kernel."""
    print(f"\n## Launches of a Triton-C kernel\n\n{conditions(found)}\n")
    print(
        "Microseconds of one call that adds 64 floats, by one thread: the least of all rounds, the median, and the "
        "least over that of\n`numpy.add` in the same run.\n"
    )
    print("| call | us | median | over numpy.add |\n|---|---|---|---|")
    for row in found["rows"]:
        print(f"| `{row['call']}` | {row['us']:.2f} | {row['median_us']:.2f} | {row['ratio']:.1f} |")


HOST = {
    "detection_head": "`models/detection_head`, its larger shapes",
    "nms": "4000 boxes decoded and suppressed, 4 classes",
    "nms_80_classes": "1000 boxes, 80 classes",
    "filter": "the boxes above a score, `NonZero`",
    "greedy_decoder": "`models/greedy_decoder`",
    "while_1": "1000 turns that a condition ends, 1 float",
    "while_64": "the same, 64 floats",
    "counted": "1000 turns that are counted, 64 floats",
    "nested": "30 times 30 turns",
    "growing": "200 turns, each makes what it carries longer",
    "scan": "500 slices, `NonZero` in the body",
    "branches": "an `If` in an `If`",
    "sequences": "a sequence split, rebuilt in 200 turns, joined",
    "texts": "1000 texts normalised, counted, labelled",
    "ragged": "`Resize` and `Pad` by an input's values",
}


def host_code(found: dict[str, Any]) -> None:
    """Models that Python runs parts of."""
    print(f"\n## Models that Python runs parts of\n\n{conditions(found)}\n")
    print(
        "Processor time of a call by one thread, in microseconds, the least of all rounds; their time over ours.\n"
        "Turns of a body that is compiled as a whole are run many at a time, and `NonMaxSuppression` has a kernel. "
        "What is slowest is what\nPython still does in every turn, and plans made anew for each length.\n"
    )
    print("| model | ours | ONNX Runtime | ratio |\n|---|---|---|---|")
    for row in found["rows"]:
        times = " | ".join(f"{1e3 * row[side]['fastest']:,.0f}" for side in ("ours", "theirs"))
        print(f"| {HOST.get(row['model'], row['model'])} | {times} | {row['ratio']:.2f} |")


def value_checks(found: dict[str, Any]) -> None:
    """What checks of indices cost."""
    print(f"\n## Checks of values\n\n{conditions(found)}\n")
    print("Milliseconds with checks of indices, as is the default, and without (`check_indices=False`).\n")
    print("| model | threads | checked | unchecked | unchecked / checked |\n|---|---|---|---|---|")
    for row in found["rows"]:
        times = " | ".join(f"{row[side]['median']:.2f}" for side in ("ours", "theirs"))
        print(f"| {row['model']} | {row['threads']} | {times} | {row['ratio']:.3f} |")


def accuracy(found: dict[str, Any]) -> None:
    """Differences of whole models from ONNX Runtime."""
    print(f"\n## Accuracy of models\n\n{conditions(found)}\n")
    print(
        "The largest difference from ONNX Runtime over all outputs, in standard deviations of the output, at full "
        "size. Each model\nis compiled once and run at every shape; the worst is shown. The tests allow 1e-4.\n"
    )
    print("| model | shapes | largest difference | at |\n|---|---|---|---|")
    by_model: dict[str, list[dict[str, Any]]] = {}
    for row in found["rows"]:
        by_model.setdefault(row["model"], []).append(row)
    for name, rows in by_model.items():
        worst = max(rows, key=lambda row: row["distance"])
        print(f"| {name} | {len(rows)} | {worst['distance']:.1e} | {dims_text(worst['dims'])} |")
    print(f"| **all {len(by_model)}** | {len(found['rows'])} | **{max(r['distance'] for r in found['rows']):.1e}** | |")


FUSION = """# Kernels, bytes moved and memory, before and after fusion

Rendered by `python tools/render_results.py fusion` from `benchmarks/results/fusion_table.json`, which is written by
(not run by the tests: it builds every model at full size)

    {command}

The figures are counts, not measurements. Before: every graph op that does work is a kernel, which reads its operands
and writes its results once. After: the launches of the plan, and what their regions read and write. On both sides a
slice or a look-up in a table reads what it takes; reshapes, permutes, broadcasts and fills are free; a loop counts as
often as it runs. Where more bytes are moved after, convolutions took Winograd's form: 16 products for 36, and
transforms that go through memory ([ADR 8](adr/0008-winograd-by-default.md))."""

MEMORY = """
## Memory

The arena holds every intermediate tensor. Its lower bound is the most bytes alive at one step, which no placement can
undercut. Weights are those in the artifact: packed in panels, transformed for Winograd, read from the file and never
copied ([benchmarks.md](benchmarks.md) has what a process takes).
"""


def fusion(found: dict[str, Any]) -> None:
    """The page of counts."""
    print(FUSION.format(command=found["command"]))
    print("\n| model | at | ops | launches | distinct kernels | MB moved, op by op | MB moved, fused | ratio |")
    print("|---|---|---|---|---|---|---|---|")
    for row in found["rows"]:
        old, new = row["bytes_before"] / 1e6, row["bytes_after"] / 1e6
        counts = [row["model"], dims_text(row["dims"]), row["ops"], row["launches"], row["kernels"]]
        print("| " + " | ".join(map(str, [*counts, f"{old:.1f}", f"{new:.1f}", f"{old / new:.2f}"])) + " |")
    print(MEMORY)
    print("| model | at | arena, MB | over its bound | at the largest | arena, MB | over its bound | weights, MB |")
    print("|---|---|---|---|---|---|---|---|")
    for row in found["rows"]:
        usual, largest = row["memory"], row["memory_at_largest"]
        cells = [
            row["model"], dims_text(row["dims"]), *arena_cells(usual),
            dims_text(row["largest"]), *arena_cells(largest), f"{usual['weights'] / 1e6:.1f}",
        ]  # fmt: skip
        print("| " + " | ".join(cells) + " |")
    worst = max(max(over_bound(row["memory"]), over_bound(row["memory_at_largest"])) for row in found["rows"])
    print(f"\nThe largest ratio of all {len(found['rows'])} models is {worst:.3f}.")


def arena_cells(memory: dict[str, int]) -> list[str]:
    """The size of an arena and how far it is above its bound."""
    return [f"{memory['arena'] / 1e6:.2f}", f"{over_bound(memory):.3f}"]


def over_bound(memory: dict[str, int]) -> float:
    """The arena over the least it could be."""
    return memory["arena"] / memory["arena_bound"] if memory["arena_bound"] else 1.0


def dims_text(dims: dict[str, int]) -> str:
    """`batch 1, seq 128`, or that there is nothing to choose."""
    return ", ".join(f"{name} {value}" for name, value in dims.items()) or "fixed"


def tokens(found: dict[str, Any]) -> None:
    """What a token of a Llama costs."""
    print("\n## One token\n\n" + conditions(found) + "\n")
    print(
        "Milliseconds of a step by `torch.compile`, the least of each round, and by ONNX Runtime where it has the "
        "type; the ratio is that to\nthe best of the others; `of bound`: the part of what the same threads read in a "
        "second, measured beside, that weights and cache need.\n"
    )
    names = {"eager": "eager", "inductor": "Inductor", "onnxruntime": "ONNX Runtime", "graphfuse": "graphfuse"}
    print(f"| Llama | weights | layers | batch | threads | {' | '.join(names.values())} | ratio | of bound |")
    print("|---" * 11 + "|")
    for row in found["rows"]:
        times = [f"{row['ms'][side]:.2f}" if side in row["ms"] else "" for side in names]
        sizes = [str(row[size]) for size in ("model", "dtype", "layers", "batch", "threads")]
        figures = [f"{min(row['ratio'].values()):.2f}", f"{row['bound']['graphfuse']:.2f}"]
        print("| " + " | ".join([*sizes, *times, *figures]) + " |")


def beginnings(found: dict[str, Any]) -> None:
    """How long texts take to begin, on a CPU."""
    print("\n## How a text begins\n\n" + conditions(found) + "\n")
    first_tokens(found)


def first_tokens(found: dict[str, Any]) -> None:
    """What lies before the first token, on any device."""
    print(
        "Seconds of a new process, whose artifact the system has in memory: until code and weights are loaded and "
        "checked, with the parts of\nthat (`checks`, of all threads, are in `weights`); from a prompt of 128 tokens to "
        "the first token, and later on (`prefill`). Loading is to take\nat most 0.3 s, the first token at most 1.2 "
        "times the prefill. `from start`: from where the command's own code\nbegins to the first token, so "
        "with what it imports.\n"
    )
    columns = "Llama | weights | GB | compiled in | load | of that | first token | prefill | from start | tokens/s"
    print(f"| {columns} | missed |")
    print("|---" * 11 + "|")
    for row in found["rows"]:
        parts = ", ".join(f"{part} {seconds:.3f}" for part, seconds in row["parts"].items() if part != "import")
        cells = [row["model"], row["dtype"], f"{row['bytes'] / 1e9:.1f}", f"{row['compile_s']:.0f}"]
        cells += [f"{row['load']:.3f}", parts, *(f"{row[part]:.3f}" for part in ("first", "prefill", "start"))]
        missed = ", ".join(bar for bar, met in row["met"].items() if not met)
        print("| " + " | ".join([*cells, f"{row['tokens_s']:.1f}", missed]) + " |")


RENDER = {
    "cpu_decode": tokens, "cpu_generation": beginnings,
    "cpu_models": models, "cpu_quantised": quantised, "cpu_packed": packed, "cpu_experts": experts,
    "cpu_memory": memory,
    "cpu_compile": compiling,
    "cpu_footprint": footprint, "cpu_callers": callers, "cpu_host": host_code, "cpu_launch": launches,
    "cpu_value_checks": value_checks, "model_accuracy": accuracy,
}  # fmt: skip


def main() -> None:
    """Print the page."""
    if sys.argv[1:] == ["fusion"]:
        fusion(json.loads((RESULTS / "fusion_table.json").read_text(encoding="utf-8")))
        return
    print(INTRODUCTION)
    for name, render in RENDER.items():
        for path in sorted(RESULTS.glob(f"{name}*.json")):
            render(json.loads(path.read_text(encoding="utf-8")))


if __name__ == "__main__":
    main()
