"""Time quantised models against ONNX Runtime on the CPU, in the same process and rounds.

    python -m benchmarks.cpu_quantised [--models a,b] [--threads 1,2] [--rounds 15] [--json FILE]

ResNet-18 in 8 bits, as QDQ and as quantised operators, and BERT-base with dynamic quantisation, at batch 1. Every round
runs each side once, in alternating order. A ratio above 1 means graphfuse is faster; that of processor time says how it
is where other work disturbs the machine (threads that wait count too). Before it is timed, each model's outputs are
compared: they may differ as ONNX Runtime does from itself with other roundings (`TOLERANCE` of the model), in standard
deviations.
"""

from __future__ import annotations

import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import models
from benchmarks import record
from benchmarks.cpu_models import (
    SETTLE_SECONDS,
    Feeds,
    Run,
    Timing,
    arguments,
    asked,
    graphfuse_runner,
    onnxruntime_runner,
)
from models import _compare, _health

DIMS: dict[str, dict[str, int]] = {
    "resnet18_qdq": {"batch": 1},
    "resnet18_qoperator": {"batch": 1},
    "bert_base_int8": {"batch": 1, "seq": 128},
}


@dataclass(frozen=True)
class Row:
    """One model at one thread count."""

    model: str
    threads: int
    ours: Timing
    theirs: Timing
    our_processor: Timing
    their_processor: Timing
    compile_seconds: float
    deviation: float
    tolerance: float

    @property
    def ratio(self) -> float:
        """Their time over ours."""
        return self.theirs.median / self.ours.median

    @property
    def processor_ratio(self) -> float:
        """The same of processor time."""
        return self.their_processor.median / self.our_processor.median


def measure(name: str, threads: int, rounds: int, seed: int) -> Row:
    """Compile, compare, warm up and time one model at one thread count."""
    path, model = models.cached(name), models.get(name)
    feeds = model.inputs(np.random.default_rng(seed), small=False, **DIMS[name])
    started = time.perf_counter()
    ours = graphfuse_runner(path, name, threads)
    compile_seconds = time.perf_counter() - started
    theirs = onnxruntime_runner(path, threads)
    deviation = _health.distance(theirs(feeds), ours(feeds))
    timings = interleave(ours, theirs, feeds, rounds)
    tolerance = float(getattr(model, "TOLERANCE", _compare.BOUND))
    return Row(name, threads, *timings, compile_seconds, deviation, tolerance)


def interleave(ours: Run, theirs: Run, feeds: Feeds, rounds: int) -> tuple[Timing, Timing, Timing, Timing]:
    """Seconds per call of each side, then processor time; a round of a fast model averages several calls."""
    theirs(feeds)
    calls = max(1, min(20, round(0.03 / max(1e-6, _seconds(theirs, feeds, 1)[0]))))
    samples: tuple[list[float], ...] = ([], [], [], [])
    sides = ((ours, samples[0], samples[2]), (theirs, samples[1], samples[3]))
    for i in range(rounds):
        for run, wall, processor in sides if i % 2 == 0 else reversed(sides):
            time.sleep(SETTLE_SECONDS)  # the other side's threads spin on for a while, on the cores this side needs
            run(feeds)  # its own caches, its own threads awake
            seconds = _seconds(run, feeds, calls)
            wall.append(seconds[0])
            processor.append(seconds[1])
    a, b, c, d = (Timing.of(s) for s in samples)
    return a, b, c, d


def _seconds(run: Run, feeds: Feeds, calls: int) -> tuple[float, float]:
    started = time.perf_counter(), time.process_time()
    for _ in range(calls):
        run(feeds)
    return (time.perf_counter() - started[0]) / calls, (time.process_time() - started[1]) / calls


def table_line(row: Row) -> str:
    """One row, in milliseconds."""
    flag = "" if row.deviation <= row.tolerance else f"  WRONG: more than {row.tolerance:.0e}"
    return (
        f"{row.model:20} {row.threads:7} {row.ours.median:9.2f} {row.ours.spread:7.2f} {row.theirs.median:15.2f}"
        f" {row.theirs.spread:7.2f} {row.ratio:7.2f} {row.processor_ratio:10.2f} {row.deviation:10.1e}{flag}"
    )


def main() -> int:
    """Measure, print the table and write the JSON; 1 if an output was wrong."""
    parser = arguments(__doc__, DIMS)
    args = parser.parse_args()
    chosen, counts = asked(parser, args, DIMS)
    print(
        f"{'model':20} {'threads':>7} {'ours ms':>9} {'iqr':>7} {'onnxruntime ms':>15} {'iqr':>7} {'ratio':>7}"
        f" {'processor':>10} {'deviation':>10}"
    )
    rows: list[Row] = []
    for threads in counts:
        for name in chosen:
            rows.append(measure(name, threads, args.rounds, args.seed))
            print(table_line(rows[-1]), flush=True)
    if args.json:
        record.write(
            args.json, [{**asdict(r), "ratio": r.ratio, "processor_ratio": r.processor_ratio} for r in rows], args.seed
        )
    return int(any(row.deviation > row.tolerance for row in rows))


if __name__ == "__main__":
    sys.exit(main())
