"""Time graphfuse against ONNX Runtime, Inductor, or itself without checks of values, on the CPU, in one process.

    python benchmarks/cpu_models.py [--models a,b] [--threads 1,2] [--rounds 15] [--json FILE]

Every round runs each side once, in alternating order, so that a slow spell of the machine falls
on both. A ratio above 1 means graphfuse is faster. Before it is timed, each side's outputs are
compared with ONNX Runtime's.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import models
from benchmarks import record
from models import _health

Feeds = dict[str, np.ndarray]
Run = Callable[[Feeds], Mapping[str, np.ndarray]]

# the ten models of the bar, each at batch 1
DIMS: dict[str, dict[str, int]] = {
    "resnet50": {"batch": 1},
    "mobilenet_v3": {},
    "efficientnet_b0": {},
    "convnext_tiny": {"batch": 1},
    "bert_base": {"batch": 1, "seq": 128},
    "distilbert": {"batch": 1, "seq": 128},
    "vit_tiny": {"batch": 1},
    "swin_tiny": {},
    "gpt2": {"batch": 1, "seq": 128},
    "llama_decode": {"batch": 1, "past": 128},
}
TOLERANCE = 1e-4
SETTLE_SECONDS = 0.05


@dataclass(frozen=True)
class Timing:
    """Milliseconds of one side over the rounds; the spread is the interquartile range."""

    median: float
    spread: float
    fastest: float

    @staticmethod
    def of(samples: list[float]) -> Timing:
        """Summarise samples in seconds."""
        low, _, high = statistics.quantiles(samples, n=4)
        return Timing(1e3 * statistics.median(samples), 1e3 * (high - low), 1e3 * min(samples))


@dataclass(frozen=True)
class Row:
    """One model at one thread count."""

    model: str
    threads: int
    ours: Timing
    theirs: Timing
    compile_seconds: float
    deviation: float

    @property
    def ratio(self) -> float:
        """Their time over ours."""
        return self.theirs.median / self.ours.median


def graphfuse_runner(path: Path, name: str, threads: int, *, check_indices: bool = True) -> Run:
    """Compile with graphfuse, for the model's whole declared ranges."""
    import graphfuse

    compiled = graphfuse.compile(path, dims=models.get(name).DIMS, threads=threads, check_indices=check_indices)
    return lambda feeds: compiled(**feeds)


def onnxruntime_runner(path: Path, threads: int) -> Run:
    """An ONNX Runtime session of that many threads, with all its graph optimisations."""
    import onnxruntime

    options: Any = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    session: Any = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [str(info.name) for info in session.get_outputs()]

    def run(feeds: Feeds) -> Mapping[str, np.ndarray]:
        values = session.run(names, feeds)
        return {name: np.asarray(value) for name, value in zip(names, values, strict=True)}

    return run


def inductor_runner(path: Path, name: str, threads: int, feeds: Feeds) -> Run:
    """The same graph as a torch module through torch.compile, at fixed shapes.

    Weights are frozen (folded and packed, as the other sides do). Where Inductor fails on a graph, it is tried without
    freezing, then without its pattern matcher; which one ran is printed.
    """
    import torch
    from torch._dynamo.exc import BackendCompilerFailed
    from torch._inductor import config

    from models import _as_torch

    torch.set_num_threads(threads)
    outputs = [info.name for info in onnx.load(path, load_external_data=False).graph.output]

    def compiled(*, freezing: bool, patterns: bool) -> Run:
        config.freezing, config.pattern_matcher = freezing, patterns
        torch.compiler.reset()
        module = torch.compile(_as_torch.torch_module(path, DIMS[name]).eval(), dynamic=False)

        def run(feeds: Feeds) -> Mapping[str, np.ndarray]:
            with torch.inference_mode():
                results = module(*(torch.from_numpy(value) for value in feeds.values()))
            return {key: value.numpy() for key, value in zip(outputs, results, strict=True)}

        run(feeds)
        return run

    for freezing, patterns in ((True, True), (False, True), (True, False)):
        try:
            return compiled(freezing=freezing, patterns=patterns)
        except BackendCompilerFailed as e:
            reason = str(e).splitlines()[1][:100]
            print(f"{name}: Inductor fails with {freezing=} {patterns=} ({reason})", file=sys.stderr)
    raise SystemExit(f"{name}: Inductor does not compile it")


def measure(name: str, threads: int, rounds: int, against: str, seed: int) -> Row:
    """Compile, compare, warm up and time one model at one thread count."""
    path = models.cached(name)
    feeds = models.get(name).inputs(np.random.default_rng(seed), small=False, **DIMS[name])
    started = time.perf_counter()
    ours = graphfuse_runner(path, name, threads)
    compile_seconds = time.perf_counter() - started
    reference = onnxruntime_runner(path, threads)
    match against:
        case "onnxruntime":
            theirs = reference
        case "unchecked":
            theirs = graphfuse_runner(path, name, threads, check_indices=False)
        case _:
            theirs = inductor_runner(path, name, threads, feeds)
    expected = reference(feeds)
    deviation = max(_health.distance(expected, side(feeds)) for side in {ours, theirs})
    if against != "onnxruntime":
        del reference
    our_samples, their_samples = interleave(ours, theirs, feeds, rounds)
    our_timing, their_timing = Timing.of(our_samples), Timing.of(their_samples)
    return Row(name, threads, our_timing, their_timing, compile_seconds, deviation)


def interleave(ours: Run, theirs: Run, feeds: Feeds, rounds: int) -> tuple[list[float], list[float]]:
    """Seconds per call of each side; a round of a fast model averages several calls."""
    for _ in range(2):
        ours(feeds)
        theirs(feeds)
    calls = max(1, min(20, round(0.03 / max(1e-6, _seconds(theirs, feeds, 1)))))
    samples: tuple[list[float], list[float]] = ([], [])
    sides = ((ours, samples[0]), (theirs, samples[1]))
    for i in range(rounds):
        for run, kept in sides if i % 2 == 0 else reversed(sides):
            time.sleep(SETTLE_SECONDS)  # the other side's threads spin on for a while, on the cores this side needs
            run(feeds)  # its own caches, its own threads awake
            kept.append(_seconds(run, feeds, calls))
    return samples


def _seconds(run: Run, feeds: Feeds, calls: int) -> float:
    started = time.perf_counter()
    for _ in range(calls):
        run(feeds)
    return (time.perf_counter() - started) / calls


def summary(rows: list[Row]) -> dict[str, float]:
    """Geometric mean and minimum of the ratios."""
    logs = [math.log(row.ratio) for row in rows]
    return {"geomean": math.exp(statistics.fmean(logs)), "min": min(row.ratio for row in rows)}


def table_line(row: Row) -> str:
    """One row, in milliseconds."""
    flag = "" if row.deviation <= TOLERANCE else f"  WRONG: deviates by {row.deviation:.1e} std"
    return (
        f"{row.model:16} {row.threads:7} {row.ours.median:10.2f} {row.ours.spread:8.2f}"
        f" {row.theirs.median:14.2f} {row.theirs.spread:8.2f} {row.ratio:7.2f}"
        f" {row.compile_seconds:9.1f}{flag}"
    )


def arguments(doc: str | None, cases: Iterable[str]) -> argparse.ArgumentParser:
    """What benchmarks of models are asked for."""
    parser = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    parser.add_argument("--models", default=",".join(cases), help="comma-separated (default: all)")
    parser.add_argument("--threads", default="1,2", help="comma-separated counts (default 1,2)")
    parser.add_argument("--rounds", type=int, default=15, help="per model (default 15, least 2)")
    parser.add_argument("--seed", type=int, default=record.SEED, help="of the inputs (default 0)")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    return parser


def asked(
    parser: argparse.ArgumentParser, args: argparse.Namespace, cases: Iterable[str]
) -> tuple[list[str], list[int]]:
    """The models and the thread counts; ends the program where they make no sense."""
    chosen, counts = args.models.split(","), [int(n) for n in args.threads.split(",")]
    if unknown := set(chosen) - {*cases}:
        parser.error(f"unknown models: {', '.join(sorted(unknown))}; known: {', '.join(cases)}")
    if args.rounds < 2:
        parser.error(f"--rounds: expected at least 2, got {args.rounds}")
    return chosen, counts


def main() -> int:
    """Measure, print the table and write the JSON; 1 if an output was wrong."""
    parser = arguments(__doc__, DIMS)
    parser.add_argument("--against", choices=("onnxruntime", "inductor", "unchecked"), default="onnxruntime")
    args = parser.parse_args()
    chosen, counts = asked(parser, args, DIMS)
    print(
        f"{'model':16} {'threads':>7} {'ours ms':>10} {'iqr':>8} {args.against + ' ms':>14}"
        f" {'iqr':>8} {'ratio':>7} {'compile s':>9}"
    )
    rows: list[Row] = []
    for threads in counts:
        for name in chosen:
            rows.append(measure(name, threads, args.rounds, args.against, args.seed))
            print(table_line(rows[-1]), flush=True)
    summaries = {str(n): summary([row for row in rows if row.threads == n]) for n in counts}
    for threads, figures in summaries.items():
        print(f"threads {threads}: geomean {figures['geomean']:.2f}, min {figures['min']:.2f}")
    if args.json:
        document = {
            **record.environment(args.seed),
            "against": args.against,
            "rounds": args.rounds,
            "summary": summaries,
            "rows": [{**asdict(row), "ratio": row.ratio} for row in rows],
        }
        args.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return int(any(row.deviation > TOLERANCE for row in rows))


if __name__ == "__main__":
    sys.exit(main())
