"""Renders docs/benchmarks-torch.md from benchmarks/results/torch_*.json, so that no figure is typed by hand.

python tools/render_torch_results.py > docs/benchmarks-torch.md
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent.parent / "benchmarks" / "results"
INTRODUCTION = """# Benchmarks of torch.compile

Rendered by `python tools/render_torch_results.py` from `benchmarks/results/{torch,population_cpu}_*.json`, each written
by the command it names. Sides take turns in one process; a ratio above 1 means that graphfuse is faster. Where a row
says *cpu*, seconds of the processor are counted, on one thread: it says what the code costs, not how well threads
share it. What is not in a table was not measured.
Not run by the tests: they take minutes to hours each, some of them on a GPU."""


def conditions(found: dict[str, Any]) -> str:
    """Where and how a file's figures were taken."""
    versions = ", ".join(f"{k} {v}" for k, v in found["versions"].items())
    note = f"\n\nNote: {found['note']}." if "note" in found else ""
    command = re.sub(r"--json \S+", f"--json benchmarks/results/{found['file']}", found["command"])
    return f"{found['device']}, {found['cores']} cores; {found['date'][:10]}; {versions}.\n\n    {command}{note}"


def line(*cells: object) -> str:
    """A row of a table."""
    return "| " + " | ".join(map(str, cells)) + " |"


def heading(*cells: str) -> str:
    """The head of a table."""
    return f"{line(*cells)}\n{'|---' * len(cells)}|"


def geometric_mean(values: Sequence[float]) -> float:
    """The mean that suits ratios."""
    return math.exp(sum(map(math.log, values)) / len(values))


def speed(found: dict[str, Any]) -> None:
    """Milliseconds, and ratios of medians."""
    print(f"\n## Speed\n\n{conditions(found)}\n\nRatios of medians, and of the fastest rounds in brackets.\n")
    sides = ("eager", "inductor", "inductor_freezing")
    timed = [r for r in found["rows"] if "median" in r]
    print(heading("case", "kind", "threads", "clock", "graphfuse, ms", *(f"ratio to {s}" for s in sides)))
    for row in timed:
        both = row["ratio_of_median"], row["ratio_of_fastest"]
        ratios = [f"{both[0][s]:.2f} ({both[1][s]:.2f})" if s in both[0] else "" for s in sides]
        ours = f"{row['median']['graphfuse']:.3f}"
        print(line(row["case"], row["kind"], row["threads"], row["clock"], ours, *ratios))
    ratios = [r["ratio_of_median"]["inductor"] for r in timed]
    print(
        line(
            "**geometric mean**", "", "", "", "", "", f"**{geometric_mean(ratios):.2f}** (least {min(ratios):.2f})", ""
        )
    )


def compiling(found: dict[str, Any], rows: Sequence[dict[str, Any]]) -> None:
    """Seconds of the processor until the first result."""
    print(f"\n## Seconds until the first result\n\n{conditions(found)}\n")
    print("Fresh processes, with empty caches (cold) and full ones (warm). Seconds of the processor, compilers that")
    print("are started included.\n")
    print(heading("case", "cold", "Inductor", "of Inductor's", "warm", "Inductor", "of Inductor's"))
    for row in rows:
        if "raised" in row:
            print(line(row["case"], f"raised: {str(row['raised'])[:60]}", *[""] * 5))
            continue
        cells: list[str] = []
        for state in ("cold", "warm"):
            ours, theirs = row[state]["graphfuse"]["cpu"], row[state]["inductor"]["cpu"]
            cells += [f"{ours:.1f}", f"{theirs:.1f}", f"{ours / theirs:.2f}"]
        print(line(row["case"], *cells))


def memory(found: dict[str, Any], rows: Sequence[dict[str, Any]]) -> None:
    """Peaks of a training step."""
    print(f"\n## Peak memory of a training step\n\n{conditions(found)}\n")
    print("MiB beyond those of the model and its inputs, in live blocks of at least 64 KiB, counted by malloc.\n")
    print(heading("case", "graphfuse", "eager", "Inductor", "of Inductor's"))
    for row in rows:
        peaks = [row[side].get("value") for side in ("graphfuse", "eager", "inductor")]
        if None in peaks:
            print(line(row["case"], "failed", *[""] * 3))
            continue
        print(line(row["case"], *(f"{mib:.0f}" for mib in peaks), f"{peaks[0] / peaks[2]:.2f}"))


def accuracy(found: dict[str, Any]) -> None:
    """Errors against float64."""
    print(f"\n## Against float64\n\n{conditions(found)}\n")
    (floor,) = {row["floor"] for row in found["rows"] if "floor" in row}
    print(
        "The largest deviation of any output, gradient or buffer over its root mean square, of models in small sizes."
        f"\nThe bar is twice eager's, or {f'{floor:.0e}'.replace('e-0', 'e-')}.\n"
    )
    print(heading("model", "mode", "error", "eager's", "graph breaks (eager's)", "operators", "left to torch", ""))
    for row in found["rows"]:
        if "raised" in row:
            print(line(row["model"], "", "", "", "", "", "", f"raised: {row['raised'][:60]}"))
            continue
        left = sum(row["externs"].values())
        verdict = "" if row["passed"] else "**beyond the bar**"
        breaks = f"{row['breaks']} ({row['eager_breaks']})"
        errors = (f"{row['error']:.1e}", f"{row['eager_error']:.1e}")
        print(line(row["model"], row["mode"], *errors, breaks, row["operators"], left, verdict))


def samples(found: Sequence[dict[str, Any]]) -> None:
    """torch's own operator samples, by element type, and what torch ran of them."""
    print("\n## torch's operator samples\n")
    print(
        "The first samples of every operator of `op_db`, forward and backward; those that fail eagerly or with"
        "\n`aot_eager` are not counted. *With externs* are operators of which torch runs any part.\n"
    )
    print(heading("element", "operators", "samples passed", "samples failed", "with externs", "share"))
    for file in found:
        for dtype, count in file["dtypes"].items():
            with_externs, ops = count["ops_with_externs"], count["ops"]
            counts = (ops, count["samples_passed"], count["samples_failed"], with_externs)
            print(line(dtype, *counts, f"{100 * with_externs / ops:.1f} %"))
    for file in found:
        print(f"\n{conditions(file)}")
        for failure in file["failures"]:
            print(f"\nFails: `{failure['op']}` in {failure['dtype']}, sample {failure['sample']}: {failure['message']}")
    print(f"\nWith externs in {', '.join(found[0]['dtypes'])}:\n")
    print(", ".join(f"`{op}`" for op in sorted(found[0]["left_to_torch"])) + ".")


def on_a_gpu(found: dict[str, Any]) -> None:
    """Whole models in halves, beside Inductor with CUDA graphs."""
    print(f"\n## On a GPU\n\n{found['rows'][0]['gpu']}. {conditions(found)}\n")
    print("Milliseconds of inference, seconds of the first call, both with CUDA graphs (`reduce-overhead`); the")
    print("largest error beside eager in f32, in standard deviations.\n")
    print(heading("model", "graphfuse", "eager", "Inductor", "ratio", "first call", "Inductor", "error", "eager's"))
    ratios: list[float] = []
    for row in found["rows"]:
        ms, first, error = row["ms"], row["compile_s"], row["error"]
        ratios.append(row["ratio"]["reduce-overhead"])
        times = [f"{ms[s]:.3f}" for s in ("graphfuse", "eager", "reduce-overhead")]
        calls = [f"{first[s]:.1f}" for s in ("graphfuse", "reduce-overhead")]
        errors = [f"{error[s]:.1e}" for s in ("graphfuse", "eager")]
        print(line(row["case"], *times, f"{ratios[-1]:.3f}", *calls, *errors))
    print(f"\nGeometric mean of ratios: **{geometric_mean(ratios):.2f}** (least {min(ratios):.2f}).")


PEERS = {"inductor": "Inductor", "onnxruntime": "ONNX Runtime"}


def drawn(kind: str, peer: str, files: Sequence[dict[str, Any]]) -> None:
    """Cases of the population on a CPU, by the threads and the instructions of a run."""
    print(
        f"\n## Nobody named: {kind}s, beside {PEERS[peer]}\n\nThe least in brackets; the best peer is that or eager.\n"
    )
    beside_peer = f"ratio to {PEERS[peer]}"
    print(heading("threads", "without AVX-512", "cases", beside_peer, "ratio to the best", "wrong", "not timed"))
    worst: list[tuple[float, str, dict[str, float]]] = []
    for found in files:
        timed = [r for r in found["rows"] if "ratio" in r and peer in r["us"]]
        beside = [r["us"][peer] / r["us"]["graphfuse"] for r in timed]
        best = [
            min(us[side] for side in us if side != "graphfuse") / us["graphfuse"] for us in (r["us"] for r in timed)
        ]
        ratios = [f"{geometric_mean(of):.2f} ({min(of):.2f})" for of in (beside, best)]
        rest = [f"{r['family']} {r['number']}" for r in found["rows"] if "ended" in r]
        wrong = [f"{r['family']} {r['number']}" for r in timed if r["wrong"]]
        narrow = "yes" if "--avx2" in found["command"] else "no"
        counts = (found["rows"][0]["threads"], narrow, len(timed))
        print(line(*counts, *ratios, *(", ".join(which) or "none" for which in (wrong, rest))))
        for row, ratio in zip(timed, beside, strict=True):
            worst.append((ratio, f"{row['family']} {row['number']}: {row['case']}", row["us"]))
    print(f"\nThe worst beside {PEERS[peer]}, in microseconds:\n")
    print(heading("case", "graphfuse", PEERS[peer], "eager", "ratio"))
    for ratio, case, us in sorted(worst, key=lambda w: w[0])[:8]:
        print(line(case, *(f"{us[side]:.1f}" for side in ("graphfuse", peer, "eager")), f"{ratio:.2f}"))
    for found in files:
        print(f"\n{conditions(found)}")


def main() -> None:
    """Every file that is there."""
    print(INTRODUCTION)
    paths = (p for begin in ("torch", "population_cpu") for p in sorted(RESULTS.glob(f"{begin}_*.json")))
    files = {p.stem: {**json.loads(p.read_text(encoding="utf-8")), "file": p.name} for p in paths}
    if "torch_gpu" in files:
        on_a_gpu(files["torch_gpu"])
    for name in ("torch_cpu_2_threads", "torch_cpu", "torch_cpu_compile", "torch_cpu_memory"):
        if name not in files:
            continue
        found = files[name]
        if any("median" in r for r in found["rows"]):
            speed(found)
        for kind, render in (("compile", compiling), ("memory", memory)):
            if rows := [r for r in found["rows"] if r["kind"] == kind]:
                render(found, rows)
    populations = [found for name, found in files.items() if name.startswith("population_cpu")]
    for kind, peer in (("kernel", "inductor"), ("model", "inductor"), ("model", "onnxruntime")):
        is_onnx = peer == "onnxruntime"
        of_kind = [f for f in populations if f["rows"][-1]["kind"] == kind and ("--onnx" in f["command"]) == is_onnx]
        if of_kind:
            drawn(kind, peer, of_kind)
    if "torch_accuracy" in files:
        accuracy(files["torch_accuracy"])
    if "torch_opinfo_f32" in files:
        others = sorted(name for name in files if name.startswith("torch_opinfo_") and name != "torch_opinfo_f32")
        samples([files[name] for name in ("torch_opinfo_f32", *others)])


if __name__ == "__main__":
    main()
