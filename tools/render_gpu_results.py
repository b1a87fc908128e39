"""Renders docs/benchmarks-gpu.md from benchmarks/results/*.json, so that no figure is typed by hand.

python tools/render_gpu_results.py > docs/benchmarks-gpu.md
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools.render_results import RESULTS, first_tokens, geometric_mean

INTRODUCTION = """# Benchmarks on a GPU

Rendered by `python tools/render_gpu_results.py` from `benchmarks/results/{gpu,tc,onnx,population}_*.json`, each
written by the command it names. Peers are timed in the same run, on random data; a ratio above 1 means graphfuse
is faster than the best of them. Tiles are what the compiler chooses, unless the command says `--tune`. The card is
power-limited: absolute figures drift by several per cent, ratios less.
Not run by the tests: they need a GPU of their own, for minutes each."""


def heading(title: str, found: dict[str, Any]) -> None:
    """What was measured, on what, when and how."""
    versions = ", ".join(f"{k} {v}" for k, v in found["versions"].items())
    gpu = found["rows"][0]["gpu"] or f"The emulator on {found['device']}"
    command = re.sub(r"--json \S+", f"--json benchmarks/results/{found['file']}", found["command"])
    print(f"\n## {title}\n\n{gpu}; {found['date'][:10]}; {versions}.\n\n    {command}\n")
    if "note" in found:
        print(f"Note: {found['note']}.\n")


def summary(ratios: list[float]) -> str:
    """Geometric mean and the least."""
    return f"**{geometric_mean(ratios):.3f}** (least {min(ratios):.3f})"


def memory(found: dict[str, Any]) -> None:
    """Kernels that move bytes."""
    heading("Memory-bound kernels", found)
    sides = ("ours", "eager", "inductor", "triton", "copy")
    print("Microseconds; `copy` moves the same bytes by torch.\n")
    print(f"| | {' | '.join(sides)} | TB/s | ratio | to copy | error |\n|{'---|' * (len(sides) + 5)}")
    for row in found["rows"]:
        times = [f"{row['us'][s]:.1f}" if s in row["us"] else "" for s in sides]
        figures = [f"{row['tb_per_s']['ours']:.2f}", f"{row['ratio']:.3f}", f"{row['ratio_to_copy']:.3f}"]
        print("| " + " | ".join([row["case"], *times, *figures, f"{row['error']:.1e}"]) + " |")
    print(f"\nGeometric mean of ratios: {summary([r['ratio'] for r in found['rows']])}.")


def products(found: dict[str, Any]) -> None:
    """Matrix products by the compiler's own choice."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in found["rows"]:
        if all("us" not in o for o in row["ours"]):
            continue  # no time was left for it
        _, layout, elem, *rest = row["job"].split()
        groups.setdefault(" ".join([elem, *rest]) + ("" if layout == "nt" else ", other layouts"), []).append(row)
    heading(f"Matrix products: {'; '.join(groups)}", found)
    print("M x N x K; `nt` is x @ w.T. TFLOP/s.")
    for name, rows in groups.items():
        peers = list(rows[0]["peers"])
        print(f"\n| {name} | ours | {' | '.join(peers)} | ratio |\n|{'---|' * (len(peers) + 3)}")
        ratios: list[float] = []
        for row in rows:
            ours = next(o for o in row["ours"] if o["tile"] == row["chosen"])
            ratios.append(ours["ratio"])
            shape = " ".join(row["job"].split()[:2])
            rates = [f"{row['peers'][p]['tflops']:.0f}" if p in row["peers"] else "" for p in peers]
            print("| " + " | ".join([shape, f"{ours['tflops']:.0f}", *rates, f"{ours['ratio']:.3f}"]) + " |")
        print(f"\nGeometric mean: {summary(ratios)}.")


def kinds(found: dict[str, Any]) -> None:
    """Products of other elements, and fused pairs: every tile that was tried."""
    heading("Products of other kinds, by tile", found)
    print("| product | what | TFLOP/s | us | ratio | error |\n|---|---|---|---|---|---|")
    for row in found["rows"]:
        for name, side in [*row["peers"].items(), *row["ours"].items()]:
            label = name if name in row["peers"] else f"**{name}**"
            ratio = "" if name in row["peers"] else f"{side['ratio']:.3f}"
            figures = [f"{side['tflops']:.0f}", f"{side['us']:.1f}", ratio, f"{side['error']:.1e}"]
            print("| " + " | ".join([row["job"], label, *figures]) + " |")


def attention(found: dict[str, Any]) -> None:
    """Attention by the compiler's own choice."""
    heading("Attention", found)
    print("Batch, heads, sequence and depth, f16; TFLOP/s of what a causal mask leaves; time in microseconds.\n")
    peers = list(dict.fromkeys(p for row in found["rows"] for p in row["peers"]))
    print(f"| | ours | {' | '.join(peers)} | us | ratio | error |\n|{'---|' * (len(peers) + 5)}")
    ratios: list[float] = []
    for row in found["rows"]:
        ours = next(o for o in row["ours"] if o["tile"] == row["chosen"])
        if "us" not in ours:  # the time was up
            continue
        ratios.append(ours["ratio"])
        rates = [f"{row['peers'][p]['tflops']:.0f}" if p in row["peers"] else "" for p in peers]
        figures = [f"{ours['us']:.1f}", f"{ours['ratio']:.3f}", f"{ours['error']:.1e}"]
        print("| " + " | ".join([row["job"], f"{ours['tflops']:.0f}", *rates, *figures]) + " |")
    print(f"\nGeometric mean of ratios: {summary(ratios)}.")


def models(found: dict[str, Any]) -> None:
    """Whole models."""
    heading("Whole models", found)
    sides = ("ours", "eager", "inductor", "reduce-overhead")
    print("Milliseconds; compile times in seconds.\n")
    print("| model | ours | eager | Inductor | Inductor, reduce-overhead | ratio | compile: ours | Inductor |")
    print("|---|---|---|---|---|---|---|---|")
    for row in found["rows"]:
        times = [f"{row['ms'][s]:.3f}" if s in row["ms"] else "" for s in sides]
        compiling = [f"{row[k]:.1f}" if k in row else "" for k in ("compile_s", "inductor_compile_s")]
        name = f"{row['case']} {row['precision']}"
        print("| " + " | ".join([name, *times, f"{row['ratio']:.3f}", *compiling]) + " |")


def layers(found: dict[str, Any]) -> None:
    """Layers compiled from graphs."""
    heading(f"Layers from graphs: {found['rows'][0]['layer']}", found)
    sides = ("ours", "eager", "inductor")
    print("Microseconds.\n")
    print(f"| shape | {' | '.join(sides)} | ratio | launches | error |\n|{'---|' * (len(sides) + 4)}")
    for row in found["rows"]:
        times = [f"{row['us'][s]:.1f}" if s in row["us"] else "" for s in sides]
        figures = [f"{row['ratio']:.3f}", str(row["launches"]), f"{row['errors']['ours']:.1e}"]
        print("| " + " | ".join([row["shape"], *times, *figures]) + " |")
    raced = [row["ratio"] for row in found["rows"] if "inductor" in row["us"]]
    if raced:
        print(f"\nGeometric mean of ratios beside both: {summary(raced)}.")


def convolutions(found: dict[str, Any]) -> None:
    """Convolutions by the compiler's own choice."""
    heading("Convolutions of ResNet-50, f16, with ReLU", found)
    print("Microseconds; `cudnn` is fused with bias and ReLU, `conv alone` without.\n")
    print("| convolution | ours | cudnn | conv alone | eager | ratio to the best fused |\n|---|---|---|---|---|---|")
    ratios: list[float] = []
    for row in found["rows"]:
        ours = next(o for o in row["ours"] if o["tile"] == row["chosen"])
        peers = {p: row["peers"][p]["us"] for p in ("cudnn", "conv alone", "eager") if p in row["peers"]}
        ratios.append(min(us for p, us in peers.items() if p != "conv alone") / ours["us"])
        times = [f"{peers[p]:.1f}" if p in peers else "" for p in ("cudnn", "conv alone", "eager")]
        print("| " + " | ".join([row["job"], f"{ours['us']:.1f}", *times, f"{ratios[-1]:.3f}"]) + " |")
    print(f"\nGeometric mean: {summary(ratios)}.")


def launches(found: dict[str, Any]) -> None:
    """What launches cost."""
    heading("Launches", found)
    print(
        "Microseconds a kernel in `chain` and `decode`, a run in `model`, a call in `call`; `host`: until it returns.\n"
    )
    print("| case | way | us | host |\n|---|---|---|---|")
    for row in found["rows"]:
        wrong = f" (WRONG: {row['wrong']})" if row["wrong"] else ""
        print(f"| {row['case']} | {row['way']}{wrong} | {row['us']:.2f} | {row['host_us']:.2f} |")


def steps(found: dict[str, Any]) -> None:
    """What a token costs."""
    heading("One token", found)
    print(
        "Milliseconds of a step by `torch.compile`, ours and Inductor's under `reduce-overhead`; the part of the copy "
        "bandwidth that the bytes of weights and cache need, kernels, and copies by the driver. `words`: how many are "
        "read at once; `cuDNN`: eager with its attention.\n"
    )
    sides = {"eager": "eager", "cudnn": "cuDNN", "reduce-overhead": "Inductor", "graphfuse": "graphfuse"}
    names = " | ".join(sides.values())
    print(f"| Llama | layers | batch | keys | words | {names} | ratio | bound | kernels | copies |")
    print(f"|{'---|' * 13}")
    for row in found["rows"]:
        if "ms" not in row:
            print(f"| {row['model']} | | {row['batch']} | {row['keys']} | | {row['notes'][0]} |")
            continue
        times = [f"{row['ms'][side]:.3f}" if side in row["ms"] else "" for side in sides]
        bound = f"{row['bound']['graphfuse']:.2f}" if "bound" in row else ""
        counts = [str(row[what]["graphfuse"]) for what in ("launches", "copies")]
        figures = [f"{min(row['ratio'].values()):.2f}", bound, *counts]
        sizes = [str(row[size]) for size in ("model", "layers", "batch", "keys")]
        sizes.append(str(row["keys"] if row.get("prompt") else 1))
        print(f"| {' | '.join([*sizes, *times, *figures])} |")


def beginnings(found: dict[str, Any]) -> None:
    """How long texts take to begin."""
    heading("How a text begins", found)
    first_tokens(found)


def cached(found: dict[str, Any]) -> None:
    """Attention of few queries."""
    heading("Attention over a cache", found)
    print(
        "Microseconds, recorded in a CUDA graph; `of bound`: the part of the copy bandwidth that keys and values need, "
        "`of one`: times what one query takes. `masked` hides what comes behind each query.\n"
    )
    print("| case | queries | best of torch | graphfuse | masked | ratio | of bound | of one |")
    print(f"|{'---|' * 8}")
    for row in found["rows"]:
        us = {side: f"{1e3 * ms:.1f}" for side, ms in row["ms"].items() if not side.endswith(" again")}
        ours, masked = us.pop("graphfuse"), us.pop("graphfuse masked", "")
        peer = min(us, key=row["ms"].__getitem__)
        figures = [f"{row['ratio']:.2f}", *(f"{row[part]['graphfuse']:.2f}" for part in ("bound", "of one"))]
        sizes = [row["case"], str(row["queries"]), f"{us[peer]} ({peer})"]
        print(f"| {' | '.join([*sizes, ours, masked, *figures])} |")


def packed(found: dict[str, Any]) -> None:
    """Products with weights of few bits."""
    heading("Weights of 4 bits", found)
    print(
        "Microseconds of a product, mean over a chain up and down between the two widths; `of bandwidth`: the part of "
        "the copy bandwidth that weights and scales need. `torch int4` is `_weight_int4pack_mm`.\n"
    )
    sides = ("graphfuse", "graphfuse bf16", "torch bf16", "torch int4")
    ratios = [f"to {side}" for side in sides[1:]]
    print(f"| widths | block | rows | {' | '.join((*sides, *ratios))} | of bandwidth | error |\n|{'---|' * 12}")
    for row in found["rows"]:
        us = [row["us"].get(side) for side in sides]
        times = ["" if t is None else f"{t:.2f}" for t in us]
        faster = ["" if t is None else f"{t / us[0]:.2f}" for t in us[1:]]
        figures = [str(row["block"]), str(row["rows"]), *times, *faster, f"{row['bandwidth']:.2f}"]
        error = f"{row['error'][sides[0]]:.1e}"
        print(f"| {' | '.join([row['case'], *figures, error])} |")
    for side in sides[1:]:
        found_ratios = [row["us"][side] / row["us"][sides[0]] for row in found["rows"] if side in row["us"]]
        print(f"\nGeometric mean to {side}: {summary(found_ratios)}." if found_ratios else "")


def experts(found: dict[str, Any]) -> None:
    """Mixtures of experts."""
    heading("Mixtures of experts", found)
    print(
        "Milliseconds of a layer in bf16, of which so many experts are active. torch: `grouped_mm`, look-ups of "
        "matrices, and a loop over experts,\nas they are or under `reduce-overhead` (r-o). `to dense`: the time of "
        "one product of as many FLOPs in ours; `of bandwidth`: the part of the\ncopy bandwidth that weights of active "
        "experts need.\n"
    )
    compiled = " reduce-overhead"
    sides = ("graphfuse", "grouped", f"grouped{compiled}", f"gathered{compiled}", "loop")
    columns = ["model", "tokens", "experts", *(s.replace(compiled, " r-o") for s in sides)]
    print(f"| {' | '.join(columns)} | to best | to dense | of bandwidth | error |\n|{'---|' * 12}")
    timed = [row for row in found["rows"] if "ratio" in row]
    ratios = [min((r for side, r in row["ratio"].items() if side != "dense"), default=None) for row in timed]
    for row, ratio in zip(timed, ratios, strict=True):
        cells = [row["case"], str(row["tokens"]), f"{row['active']:.0f}"]
        cells += ["" if (t := row["ms"].get(side)) is None else f"{t:.3f}" for side in sides]
        cells += ["" if r is None else f"{r:.2f}" for r in (ratio, row["ratio"].get("dense"), row.get("bandwidth"))]
        print(f"| {' | '.join([*cells, format(row['error']['graphfuse'], '.1e')])} |")
    print(f"\nGeometric mean to the best: {summary([r for r in ratios if r is not None])}.")


def functions(found: dict[str, Any]) -> None:
    """Errors of elementwise functions."""
    heading("Errors of functions", found)
    print("Units in the last place, at most: every half, samples of f32. Those above 1, and the worst of the others.\n")
    print("| element | numerics | above 1 | worst of the others |\n|---|---|---|---|")
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in found["rows"]:
        groups.setdefault((row["elem"], row["numerics"]), []).append(row)
    for (elem, numerics), rows in groups.items():
        rows.sort(key=lambda r: -r["ulp"])
        above = ", ".join(f"{r['function']} {r['ulp']:.2f}" for r in rows if r["ulp"] > 1)
        print(f"| {elem} | {numerics} | {above or 'none'} | {next((r['ulp'] for r in rows if r['ulp'] <= 1), 0):.2f} |")
    odd = sum(r["special"] for r in found["rows"])
    print(f"\nResults that are NaN or infinite where they should not be, or the other way round: {odd}.")


def hand_written(found: dict[str, Any]) -> None:
    """Kernels in Triton-C beside others."""
    heading("Hand-written kernels (Triton-C)", found)
    print("Microseconds; the best of ours, all others, and every peer.\n")
    print("| case | ours | variant | peers | ratio | other variants |")
    print("|---|---|---|---|---|---|")
    for row in found["rows"]:
        ours = {k: us for k, us in row["us"].items() if k in row["made"]}
        peers = {k: us for k, us in row["us"].items() if k not in row["made"]}
        best = min(ours, key=lambda k: ours[k])
        listed = ", ".join(f"{k} {us:.1f}" for k, us in sorted(peers.items(), key=lambda i: i[1]))
        others = ", ".join(f"{k} {us:.1f}" for k, us in sorted(ours.items(), key=lambda i: i[1]) if k != best)
        ratio = f"{min(peers.values()) / ours[best]:.3f}"
        print(f"| {row['case']} | {ours[best]:.1f} | {best} | {listed} | {ratio} | {others} |")


def grafts(found: dict[str, Any]) -> None:
    """Epilogues grafted onto a hand-written product."""
    heading("Bias and GELU grafted onto a hand-written product", found)
    ways = ("grafted", "apart", "fuser", "eager")
    print(f"Microseconds.\n\n| M x N x K | {' | '.join(ways)} | apart / grafted |\n|{'---|' * (len(ways) + 2)}")
    for row in found["rows"]:
        us = [f"{1e3 * row['ms'][w]:.1f}" for w in ways]
        print("| " + " | ".join([row["shape"], *us, f"{row['ms']['apart'] / row['ms']['grafted']:.2f}"]) + " |")


def suite(found: dict[str, Any]) -> None:
    """ONNX's backend tests."""
    heading("ONNX's backend tests", found)
    columns = ("tests", "passed", "failed", "raised", "crashed", "compiled", "by value", "host")
    print(f"All tests, no allow-list: {found['seconds']:.0f} s in {found['jobs']} processes.\n")
    print(f"| family | {' | '.join(columns)} |\n|{'---|' * (len(columns) + 1)}")
    for row in found["rows"]:
        print("| " + " | ".join([row["family"], *(str(row[c]) for c in columns)]) + " |")
    print("\nNot passed: " + ", ".join(f"`{r['name']}`" for r in found["not_passed"]) + ".")


def drawn(found: dict[str, Any]) -> None:
    """Cases of the population."""
    timed = [r for r in found["rows"] if "ratio" in r]
    if not timed:
        taken(found)
        return
    heading(f"Nobody named: {timed[0]['kind']}s", found)
    families: dict[str, list[float]] = {}
    for row in timed:
        families.setdefault(row["family"] + ", training" * ("training" in row["case"]), []).append(row["ratio"])
    print("| family | cases | geometric mean (least) |\n|---|---|---|")
    for name, ratios in {**families, "all": [r["ratio"] for r in timed]}.items():
        print(f"| {name} | {len(ratios)} | {summary(ratios)} |")
    print("\nThe worst:\n\n| case | us: ours | Inductor | eager | ratio |\n|---|---|---|---|---|")
    for row in sorted(timed, key=lambda r: r["ratio"])[:8]:
        times = " | ".join(f"{row['us'][s]:.1f}" if s in row["us"] else "" for s in ("graphfuse", "inductor", "eager"))
        print(f"| {row['family']} {row['number']}: {row['case']} | {times} | {row['ratio']:.2f} |")
    rest = [f"{r['family']} {r['number']} ({r['ended']})" for r in found["rows"] if "ended" in r]
    wrong = [f"{r['family']} {r['number']}" for r in timed if r["wrong"]]
    print(f"\nWrong: {', '.join(wrong) or 'none'}. Not timed: {', '.join(rest) or 'none'}.")


def taken(found: dict[str, Any]) -> None:
    """Memory of training steps of the population."""
    heading("Nobody named: memory of training steps", found)
    print("Peak MB beside parameters, calls after the first.\n\n| case | ours | Inductor | ratio |\n|---|---|---|---|")
    ratios: list[float] = []
    for row in (r for r in found["rows"] if len(r.get("memory", {})) == 2):
        ours, peer = (row["memory"][side] / 1e6 for side in ("graphfuse", "inductor"))
        ratios.append(ours / peer)
        print(f"| {row['family']} {row['number']}: {row['case']} | {ours:.0f} | {peer:.0f} | {ours / peer:.2f} |")
    print(f"\nGeometric mean {geometric_mean(ratios):.2f}, most {max(ratios):.2f}.")


def stretches(found: dict[str, Any]) -> None:
    """Graphs that torch interrupts."""
    heading("Graphs with work of the CPU in their midst", found)
    sides = ("launched", "recorded", "inductor", "eager")
    print(f"Microseconds of a call.\n\n| launches | {' | '.join(sides)} |\n|{'---|' * (len(sides) + 1)}")
    for row in found["rows"]:
        print(f"| {row['launches']} | {' | '.join(str(row['us'][s]) for s in sides)} |")


RENDER = {
    "gpu_memory": memory,
    "gpu_models": models,
    "gpu_attention": attention,
    "gpu_conv": convolutions,
    "gpu_fused": layers,
    "gpu_gemm_kinds": kinds,
    "gpu_gemm": products,
    "gpu_launch": launches,
    "gpu_decode": steps,
    "gpu_decode_rows": steps,
    "gpu_generation": beginnings,
    "gpu_cached_attention": cached,
    "gpu_packed": packed,
    "gpu_experts": experts,
    "gpu_functions": functions,
    "gpu_stretches": stretches,
    "population": drawn,
    "tc_kernels": hand_written,
    "tc_products": hand_written,
    "tc_graft": grafts,
    "onnx_suite": suite,
}
"""By what a file's name begins with; the first that fits."""


def kind(path: Path) -> str:
    """Which table a file is for."""
    return next(name for name in RENDER if path.stem.startswith(name))


def main() -> None:
    """Print the page."""
    print(INTRODUCTION)
    paths = [
        p
        for begin in ("gpu", "tc", "onnx", "population")
        for p in RESULTS.glob(f"{begin}_*.json")
        if "_cpu" not in p.stem
    ]
    for path in sorted(paths, key=lambda p: (list(RENDER).index(kind(p)), p.name)):
        RENDER[kind(path)]({**json.loads(path.read_text(encoding="utf-8")), "file": path.name})


if __name__ == "__main__":
    main()
