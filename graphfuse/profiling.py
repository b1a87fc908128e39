"""What kernels take, in many runs, beside what a machine could do: for `graphfuse profile` and for anyone's own tools.

Owns the figures and no presentation. Launches of one kernel are one row: equal layers of a model are made by the same.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphfuse.artifact import Array
from graphfuse.compiled_model import CompiledModel
from graphfuse.peaks import Peaks
from graphfuse.runtime.report import kernel_costs, report
from graphfuse.runtime.session import StepTime

PERCENTILES = (50, 90, 99)


@dataclass(frozen=True)
class Runs:
    """Of one model on the same inputs: microseconds of each launch, [runs, launches], and of whole runs, apart."""

    launches: Sequence[StepTime]
    us: Array
    wall_us: Array


@dataclass(frozen=True)
class KernelTime:
    """Of all launches of a kernel in one run; `bound_us` is the least that these bytes and operations take, or 0."""

    kernel: str
    kind: str
    launches: Sequence[int]
    """Their numbers."""
    labels: Sequence[str]
    """What they come from."""
    median_us: float
    p90_us: float
    p99_us: float
    flops: int
    nbytes: int
    bound_us: float

    @property
    def gflops(self) -> float:
        """Operations in a nanosecond."""
        return self.flops / self.median_us / 1e3 if self.median_us else 0.0

    @property
    def gbytes(self) -> float:
        """Bytes moved in a nanosecond."""
        return self.nbytes / self.median_us / 1e3 if self.median_us else 0.0


def measured(model: CompiledModel, inputs: Mapping[str, Any], rounds: int, seconds: float) -> Runs:
    """Run a model so often, or for so long, behind a first time; each launch timed, and whole runs in between."""
    launches, end = model.session.profile(inputs).steps, time.perf_counter() + seconds
    model(inputs)
    us: list[list[float]] = []
    wall: list[float] = []
    while len(us) < rounds and (not us or time.perf_counter() < end):
        start = time.perf_counter()
        model(inputs)
        wall.append(1e6 * (time.perf_counter() - start))
        again = model.session.profile(inputs).steps
        if len(again) != len(launches):  # Python runs it, and something in it is random
            break
        us.append([s.ns / 1e3 for s in again])
    return Runs(launches, np.array(us).reshape(-1, len(launches)), np.array(wall))


def by_kernel(model: CompiledModel, runs: Runs, dims: Mapping[str, int], peaks: Peaks | None) -> list[KernelTime]:
    """One row for each kernel, the one that takes most first."""
    rows = report(model.executable, dims)["steps"]
    if [r["kernel"] for r in rows] != [s.kernel for s in runs.launches]:  # other code than is described
        unknown = {"kind": "", "flops": 0, "bytes_read": 0, "bytes_written": 0}
        rows = [{"step": i, "kernel": s.kernel, "label": s.label, **unknown} for i, s in enumerate(runs.launches)]
    elif peaks is not None:
        least = [peaks.bound_us(r["bytes_read"] + r["bytes_written"], r["flops"]) for r in rows]
        rows = [{**r, "bound_us": us} for r, us in zip(rows, least, strict=True)]
    found: list[KernelTime] = []
    launched = [r for r in rows if r.get("grid") != "0"]  # others are kernels for other shapes
    for k in kernel_costs(launched):
        median, p90, p99 = np.percentile(runs.us[:, k.steps].sum(1), PERCENTILES).tolist()
        nbytes = k.read + k.written
        found.append(
            KernelTime(k.kernel, k.kind, k.steps, list(k.labels), median, p90, p99, k.flops, nbytes, k.bound_us)
        )
    return sorted(found, key=lambda k: -k.median_us)


def chrome_trace(runs: Runs) -> dict[str, Any]:
    """One run as Chrome and Perfetto read it: launches one behind the other, each as long as its median."""
    us, begin, events = np.median(runs.us, 0), 0.0, list[dict[str, Any]]()
    for number, (launch, duration) in enumerate(zip(runs.launches, us.tolist(), strict=True)):
        args = {"launch": number, "from": launch.label, "times": launch.launches}
        event = {"name": launch.kernel, "cat": "kernel", "ph": "X", "ts": begin, "dur": duration, "pid": 0, "tid": 0}
        events.append({**event, "args": args})
        begin += duration
    return {"traceEvents": events, "displayTimeUnit": "ms"}
