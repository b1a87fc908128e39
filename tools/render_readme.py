"""Renders the figures of README.md from benchmarks/results/*.json, the worst beside the best, in place.

python tools/render_readme.py
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools.render_results import RESULTS, geometric_mean

README = Path(__file__).resolve().parent.parent / "README.md"
FIGURES = re.compile(r"(?<=<!-- figures: make docs -->\n).*?(?=<!-- end of figures -->)", re.DOTALL)

Row = dict[str, Any]
Ratio = tuple[float, str]


def plain(row: Row) -> Ratio:
    """A row that has its ratio, and a name under one of two keys."""
    return row["ratio"], row.get("model") or row["case"]


def beside_inductor(row: Row) -> Ratio:
    """A row of the benchmarks of torch.compile on CPUs."""
    return row["ratio_of_median"]["inductor"], row["case"]


def with_graphs(row: Row) -> Ratio:
    """A row of the benchmarks of torch.compile on a GPU, both with CUDA graphs."""
    return row["ratio"]["reduce-overhead"], row["case"]


def chosen(row: Row) -> Ratio:
    """What the compiler chose, beside the best peer."""
    return next(o["ratio"] for o in row["ours"] if o["tile"] == row["chosen"]), row["job"]


def fused(row: Row) -> Ratio:
    """A convolution beside the best peer that has bias and ReLU, too."""
    ours = next(o["us"] for o in row["ours"] if o["tile"] == row["chosen"])
    return min(p["us"] for name, p in row["peers"].items() if name != "conv alone") / ours, row["job"]


def every(row: Row) -> bool:
    """All rows count."""
    return bool(row)


def drawn(row: Row) -> Ratio:
    """A case of the population."""
    return row["ratio"], f"{row['family']} {row['number']}"


def by_hand(row: Row) -> Ratio:
    """The best variant of a kernel in Triton-C."""
    ours = min(us for name, us in row["us"].items() if name in row["made"])
    return min(us for name, us in row["us"].items() if name not in row["made"]) / ours, row["case"]


TABLE: tuple[tuple[str, str, Callable[[Row], Ratio], Callable[[Row], bool]], ...] = (
    ("CPU: ONNX models, 1 thread / ONNX Runtime", "cpu_models_onnxruntime", plain, lambda r: r["threads"] == 1),
    ("the same, 2 threads", "cpu_models_onnxruntime", plain, lambda r: r["threads"] == 2),
    ("`torch.compile`, models, 2 threads / Inductor", "torch_cpu_2_threads", beside_inductor,
     lambda r: r["kind"] != "micro" and "median" in r),
    ("single operators, 1 thread, processor time / Inductor", "torch_cpu", beside_inductor,
     lambda r: r["kind"] == "micro"),
    ("{gpu}: `torch.compile`, models in halves / Inductor", "torch_gpu", with_graphs, every),
    ("{gpu}: inference of models that nobody named, drawn / Inductor", "population_models", drawn,
     lambda r: "ratio" in r and "training" not in r["case"]),
    ("{gpu}: training steps of such / Inductor", "population_models_training", drawn,
     lambda r: "ratio" in r and "training" in r["case"]),
    ("{gpu}: kernels that nobody named, drawn / the best of eager and Inductor", "population_gpu", drawn,
     lambda r: "ratio" in r),
    ("{gpu}: layers of convolutions, drawn / the best of eager and Inductor", "population_layers", drawn,
     lambda r: "ratio" in r),
    ("{gpu}: products, convolutions, attention, drawn, tuned / Inductor's `max-autotune`", "population_tuned", drawn,
     lambda r: "ratio" in r),
    ("{gpu}: bf16 products in four layouts / cuBLAS", "gpu_gemm_layouts", chosen, every),
    ("{gpu}: attention / cuDNN, FlashAttention-2, Triton", "gpu_attention", chosen, every),
    ("{gpu}: convolutions of ResNet-50 / cuDNN", "gpu_conv", fused, every),
    ("{gpu}: memory-bound kernels / torch, Inductor, Triton", "gpu_memory", plain, every),
    ("{gpu}: products in Triton-C / torch, Triton", "tc_products", by_hand, lambda r: len(r["us"]) > len(r["made"])),
)  # fmt: skip
"""Label, file, how to read a row of it, which rows count."""


def load(name: str) -> Row:
    """A file of results."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def figures() -> Iterable[str]:
    """The lines between the marks."""
    yield "| what / beside what | cases | worst | mean | best |\n|---|---|---|---|---|"
    for label, name, ratio, counts in TABLE:
        rows = load(name)["rows"]
        found = sorted(ratio(row) for row in rows if counts(row))
        worst, best = (f"{value:.2f} {case}" for value, case in (found[0], found[-1]))
        mean = geometric_mean([value for value, _ in found])
        gpu = str(rows[0].get("gpu", "")).removeprefix("NVIDIA ").split(" ")[0]
        yield f"| {label.format(gpu=gpu)} | {len(found)} | {worst} | **{mean:.2f}** | {best} |"


def rendered(text: str) -> str:
    """README with its figures as they are now."""
    assert FIGURES.search(text), "README has lost the marks around its figures"
    return FIGURES.sub(lambda _: "\n".join(figures()) + "\n", text)


if __name__ == "__main__":
    README.write_text(rendered(README.read_text(encoding="utf-8")), encoding="utf-8")
