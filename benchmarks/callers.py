"""How two callers of one model share a machine: calls per second beside one caller's, and a small call behind a large.

    python -m benchmarks.callers [--models a,b] [--rounds 9] [--json FILE]

Threads of one process call one model that was loaded with one thread. A round times one caller, two callers of one
model, and two callers with a model each (what two free cores can give), one after the other. Then a call of batch 1
is made while one of batch 6 runs, for the models that have a batch. `torch` is four blocks of a transformer's by
`torch.compile`, of 128 rows.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import graphfuse
import models
from benchmarks import record

DIMS: dict[str, dict[str, int]] = {
    "resnet50": {"batch": 1},
    "bert_base": {"batch": 1, "seq": 128},
    "mobilenet_v3": {},
    "digits": {"batch": 1},
}
TORCH = "torch"
LARGE = 6
SECONDS = 0.6
"""How long one caller takes for its calls of a round."""

Call = Callable[[], object]


@dataclass(frozen=True)
class Row:
    """One model: calls per second over those of one caller, and milliseconds of calls."""

    model: str
    ms: float
    together: float
    apart: float
    small_ms: float | None = None
    behind_ms: float | None = None
    large_ms: float | None = None


def at_once(calls: Sequence[Call], count: int) -> float:
    """Seconds until each caller has made `count` calls."""
    begin = threading.Barrier(len(calls) + 1)

    def work(call: Call) -> None:
        begin.wait()
        for _ in range(count):
            call()

    threads = [threading.Thread(target=work, args=(c,)) for c in calls]
    for t in threads:
        t.start()
    begin.wait()
    started = time.perf_counter()
    for t in threads:
        t.join()
    return time.perf_counter() - started


def caller(model: Any, feeds: Mapping[str, np.ndarray]) -> Call:
    """A call of a model."""
    return lambda: model(feeds)


def blocks_by_torch() -> Call:
    """A call of a model that torch.compile has compiled for one thread."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(record.SEED)
    block = (torch.nn.LayerNorm(768), torch.nn.Linear(768, 3072), torch.nn.GELU(), torch.nn.Linear(3072, 768))
    module = torch.compile(torch.nn.Sequential(*block * 4).eval(), backend="graphfuse", dynamic=False)
    x = torch.randn(128, 768)

    def call() -> object:
        with torch.no_grad():  # each thread has its own mode
            return module(x)

    call()
    return call


def measure(name: str, rounds: int) -> Row:
    """One model."""
    if name == TORCH:
        one = blocks_by_torch()
        return Row(name, *compared([one, one], [one, blocks_by_torch()], rounds))
    path = models.cached(name)
    source = models.get(name)
    rng = np.random.default_rng(record.SEED)
    feeds = source.inputs(rng, small=False, **DIMS[name])
    one, other = (graphfuse.compile(path, dims=source.DIMS, threads=1) for _ in range(2))
    same, apart = [caller(one, feeds)] * 2, [caller(one, feeds), caller(other, feeds)]
    row = Row(name, *compared(same, apart, rounds))
    if "batch" not in DIMS[name]:
        return row
    large = caller(one, source.inputs(rng, small=False, **{**DIMS[name], "batch": LARGE}))
    large()
    times = [behind(same[0], large, 0.25 * LARGE * row.ms / 1e3) for _ in range(rounds)]
    small_ms, behind_ms, large_ms = (1e3 * statistics.median(t) for t in zip(*times, strict=True))
    return Row(**{**asdict(row), "small_ms": small_ms, "behind_ms": behind_ms, "large_ms": large_ms})


def compared(same: Sequence[Call], apart: Sequence[Call], rounds: int) -> tuple[float, float, float]:
    """Milliseconds of a call, and how many calls per second two callers make for each of one: of one model, of two."""
    for calls in (same, apart):
        at_once(calls, 2)
    count = max(2, round(SECONDS / at_once(same[:1], 3) * 3))
    alone: list[float] = []
    ratios: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        took = at_once(same[:1], count)
        alone.append(took / count)
        for calls, kept in zip((same, apart), ratios, strict=True):
            kept.append(len(calls) * took / at_once(calls, count))
    return 1e3 * statistics.median(alone), statistics.median(ratios[0]), statistics.median(ratios[1])


def behind(small: Call, large: Call, after: float) -> tuple[float, float, float]:
    """Seconds of a small call alone, of one that begins `after` seconds of a large one, and of that one."""

    def timed(call: Call) -> float:
        started = time.perf_counter()
        call()
        return time.perf_counter() - started

    alone, took = timed(small), [0.0]
    thread = threading.Thread(target=lambda: took.append(timed(large)))
    thread.start()
    time.sleep(after)
    second = timed(small)
    thread.join()
    return alone, second, took[-1]


def main() -> int:
    """Measure, print a table, write the JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--models", default=",".join((*DIMS, TORCH)), help="comma-separated (default: all)")
    parser.add_argument("--rounds", type=int, default=9, help="per model (default 9)")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    args = parser.parse_args()
    if unknown := set(args.models.split(",")) - {*DIMS, TORCH}:
        parser.error(f"unknown models: {', '.join(sorted(unknown))}; known: {', '.join((*DIMS, TORCH))}")
    print(f"{'model':14} {'ms':>8} {'two / one':>10} {'a model each':>13} {'small':>8} {'behind':>8} {'large':>8}")
    rows: list[Row] = []
    for name in args.models.split(","):
        rows.append(r := measure(name, args.rounds))
        waits = "".join(f" {v:8.1f}" for v in (r.small_ms, r.behind_ms, r.large_ms) if v is not None)
        print(f"{r.model:14} {r.ms:8.2f} {r.together:10.2f} {r.apart:13.2f}{waits}", flush=True)
    if args.json:
        args.json.write_text(json.dumps({**record.environment(), "rows": [asdict(r) for r in rows]}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
