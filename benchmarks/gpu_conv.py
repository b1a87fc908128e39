"""Convolutions of the compiler on an H200 beside cuDNN: `python -m benchmarks.gpu_conv --json FILE`.

Each distinct convolution of ResNet-50 in f16, at batch 32 and 1, channels last, with bias, relu and the residual where
the model has one. Kernels are the compiler's, from a graph, with the tile of its choice; `--tiles` adds others, by
their names (see `gpu_gemm`). The peers are cuDNN's fused call and torch's own, with `cudnn.benchmark`, in the same
rounds; results are checked before anything is timed. The last table weighs every kernel by how often the model has it,
beside the time that its bytes and operations take at least.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from benchmarks import record
from benchmarks.conv_kernels import RESNET50, Conv, conv_text
from benchmarks.gpu_gemm import TILES, Variant
from benchmarks.gpu_race import COMPILER, compile_each, compile_text, rows_of, run, show_compiled, summary
from benchmarks.gpu_timing import arguments, asked, ptxas

BATCHES = (32, 1)
PEERS = 4
BYTES_PER_US, FLOPS_PER_US = 4.2e6, 650e6
"""What an H200 reaches."""


def compile_one(conv: Conv, label: str, folder: str, assembler: str) -> dict[str, Any]:
    """How to launch a convolution, with the tile that the label says or the compiler chooses."""
    folder = tempfile.mkdtemp(dir=folder)
    if label == COMPILER:
        return {"label": label, **compile_text(conv_text(conv), folder, assembler)}
    variant = Variant.parse(label)
    return {"label": label, **compile_text(conv_text(conv, variant.tile, dict(variant.attrs)), folder, assembler)}


def compile_all(convs: Sequence[Conv], tiles: Sequence[str], folder: str, assembler: str) -> list[dict[str, Any]]:
    """Jobs for the worker; kernels that do not compile, and tiles that are declined, are left out."""
    out: list[dict[str, Any]] = []
    named = [(str(c), c) for c in convs]
    for name, conv, made in compile_each(named, (COMPILER, *tiles), compile_one, folder, assembler):
        done = [k for k in made if k["is_wgmma"] or k["label"] == COMPILER]
        derived = {field: getattr(conv, field) for field in ("pad", "positions", "flops", "nbytes")}
        out.append({"name": name, **asdict(conv), **derived, "kernels": done})
    return out


def floor_us(job: dict[str, Any]) -> float:
    """The least time of a convolution: its bytes or its operations."""
    return max(job["nbytes"] / BYTES_PER_US, job["flops"] / FLOPS_PER_US)


def table(rows: Sequence[dict[str, Any]], jobs: Sequence[dict[str, Any]]) -> str:
    """Every convolution: ours, the best tile, cuDNN fused and as torch calls it, and the floor; then sums."""
    lines = [f"{'':34} {'n':>2} {'tile':>8} {'ours':>7} {'best':>7} {'cudnn':>7} {'eager':>7} {'floor':>7}  best tile"]
    sums: dict[int, list[float]] = {}
    for row, job in zip(rows, jobs, strict=True):
        times = {k["tile"]: k["us"] for k in row["ours"] if k.get("us")}
        ours = times.get(COMPILER, float("nan"))
        best = min(times, key=times.__getitem__, default="")
        peers = [row["peers"].get(p, {}).get("us", float("nan")) for p in ("cudnn", "eager")]
        figures = [ours, times.get(best, float("nan")), *peers, floor_us(job)]
        made = next((k["made"] for k in row["ours"] if k["tile"] == COMPILER), "")
        shown = " ".join(f"{f:7.1f}" for f in figures)
        lines.append(f"{job['name']:34} {job['count']:2} {made:>8} {shown}  {best}")
        total = sums.setdefault(job["batch"], [0.0] * len(figures))
        sums[job["batch"]] = [t + job["count"] * f for t, f in zip(total, figures, strict=True)]
    for batch, total in sums.items():
        lines.append(f"{f'b{batch} all':34} {'':2} {'':8} {' '.join(f'{t:7.1f}' for t in total)}")
    return "\n".join(lines)


def main() -> None:
    """See the module."""
    parser = arguments(__doc__, budget=300, json="benchmarks/results/gpu_conv.json")
    parser.add_argument("--tiles", default="", help="by commas; `every`: all of gpu_gemm's")
    parser.add_argument("--assembler", default=ptxas(), help="ptxas; none: the driver compiles")
    args = parser.parse_args()
    until = time.monotonic() + args.budget
    tiles = TILES if args.tiles == "every" else tuple(t.strip() for t in args.tiles.split(",") if t.strip())
    convs = [replace(c, batch=batch) for batch in BATCHES for c in RESNET50]
    convs = [c for c in convs if asked(str(c), args.only)]
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        jobs = compile_all(convs, tiles, folder, args.assembler)
        show_compiled(jobs, time.perf_counter() - begun, args.assembler)
        said = run(jobs, args, folder, until, PEERS, "benchmarks.conv_worker")
    rows = rows_of(said, jobs)
    record.write(args.json, rows)
    print(table(rows, jobs))
    print(summary(rows))


if __name__ == "__main__":
    main()
