"""What kernels take, in many runs, beside what a machine could do: for `graphfuse profile` and for anyone's own tools.

Owns the figures and no presentation. Launches of one kernel are one row: equal layers of a model are made by the same.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphfuse.artifact import Array
from graphfuse.compiled_model import CompiledModel
from graphfuse.errors import DeviceError
from graphfuse.peaks import Peaks
from graphfuse.runtime.gpu.session import GpuSession
from graphfuse.runtime.report import kernel_costs, launched, report
from graphfuse.runtime.session import Profile, StepTime
from graphfuse.targets.driver import LaunchRecord

PERCENTILES = (50, 90, 99)
Records = Sequence[tuple[int, LaunchRecord]]
"""Of a run: a launch's number, and what a GPU says of it, in the order of their starts."""


@dataclass(frozen=True)
class Runs:
    """Of one model on the same inputs: microseconds of each launch, [runs, launches], and of whole runs, apart.

    `by` says what measured launches: "CUPTI" as they ran, one behind the other or both at once; "events" of a GPU, or
    a "clock", each launch by itself. `why` is the reason for events.
    """

    launches: Sequence[StepTime]
    us: Array
    wall_us: Array
    by: str = "clock"
    why: str = ""
    records: Sequence[Records] = ()
    """CUPTI's, of each run."""

    @property
    def gaps_us(self) -> float:
        """Microseconds of a run, from its first launch to the end of the last, in which the GPU had none: a median."""
        return float(np.median([_gaps(r) for r in self.records])) / 1e3 if self.records else 0.0

    @property
    def span_us(self) -> float:
        """Microseconds from the start of a run's first launch to the end of the last: a median."""
        return float(np.median([_span(r) for r in self.records])) / 1e3 if self.records else 0.0

    @property
    def overlapped_us(self) -> float:
        """Microseconds of a run in which a launch ran while one before it still did: a median."""
        return float(np.median([_overlapped(r) for r in self.records])) / 1e3 if self.records else 0.0

    def resources(self, launches: Sequence[int]) -> Resources | None:
        """What a kernel takes of a multiprocessor, by its launches' numbers; None if nothing saw that."""
        wanted = set(launches)
        found = [r for step, r in (self.records[0] if self.records else ()) if step in wanted and r.name]
        if not found:
            return None
        most = (max(getattr(r, name) for r in found) for name in ("registers", "shared_bytes", "local_bytes"))
        return Resources(*most)


@dataclass(frozen=True)
class Resources:
    """Registers and bytes of local memory of a thread (what did not fit into registers), shared bytes of a block."""

    registers: int
    shared_bytes: int
    local_bytes: int


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
    resources: Resources | None = None
    """Where CUPTI measured."""

    @property
    def gflops(self) -> float:
        """Operations in a nanosecond."""
        return self.flops / self.median_us / 1e3 if self.median_us else 0.0

    @property
    def gbytes(self) -> float:
        """Bytes moved in a nanosecond."""
        return self.nbytes / self.median_us / 1e3 if self.median_us else 0.0


def measured(model: CompiledModel, inputs: Mapping[str, Any], rounds: int, seconds: float) -> Runs:
    """Run a model so often, or for so long, behind a first time; each launch timed, and whole runs in between.

    Launches of a GPU are measured by CUPTI where it is, behind the whole runs.
    """
    session, why = model.session, ""
    if isinstance(session, GpuSession):
        try:
            return _traced(model, session, inputs, rounds, seconds)
        except DeviceError as e:
            why = e.message
    launches = session.profile(inputs).steps
    model(inputs)
    us: list[list[float]] = []
    wall: list[float] = []
    end = time.perf_counter() + seconds
    while len(us) < rounds and (not us or time.perf_counter() < end):
        wall.append(_wall_us(model, inputs))
        again = session.profile(inputs).steps
        if len(again) != len(launches):  # Python runs it, and something in it is random
            break
        us.append([s.ns / 1e3 for s in again])
    by = "events" if isinstance(session, GpuSession) else "clock"
    return Runs(launches, np.array(us).reshape(-1, len(launches)), np.array(wall), by, why)


def _traced(model: CompiledModel, session: GpuSession, inputs: Mapping[str, Any], rounds: int, seconds: float) -> Runs:
    """By what the driver sees of launches, which makes runs longer: whole ones are timed before."""
    with session.tracing() as traced:
        traced(inputs)  # whether it works
    profiles: list[Profile] = []
    wall: list[float] = []
    end = time.perf_counter() + seconds / 2
    while len(wall) < rounds and (not wall or time.perf_counter() < end):
        wall.append(_wall_us(model, inputs))
    end = time.perf_counter() + seconds / 2
    with session.tracing() as traced:
        while len(profiles) < len(wall) and (not profiles or time.perf_counter() < end):
            profiles.append(traced(inputs))
    us = np.array([[s.ns / 1e3 for s in p.steps] for p in profiles])
    return Runs(profiles[0].steps, us, np.array(wall), "CUPTI", records=[p.records for p in profiles])


def _wall_us(model: CompiledModel, inputs: Mapping[str, Any]) -> float:
    start = time.perf_counter()
    model(inputs)
    return 1e6 * (time.perf_counter() - start)


def _span(records: Records) -> int:
    """Nanoseconds from the start of a run's first launch to the end of the last."""
    return max((r.end for _, r in records), default=0) - (records[0][1].start if records else 0)


def _overlapped(records: Records) -> int:
    """Nanoseconds in which a launch ran beside one before it."""
    return sum(r.end - r.start for _, r in records) + _gaps(records) - _span(records)


def _gaps(records: Records) -> int:
    """Nanoseconds between launches in which none ran."""
    gaps, until = 0, records[0][1].start if records else 0
    for _, r in records:
        gaps += max(r.start - until, 0)
        until = max(until, r.end)
    return gaps


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
    for k in kernel_costs(launched(rows)):
        median, p90, p99 = np.percentile(runs.us[:, k.steps].sum(1), PERCENTILES).tolist()
        nbytes = k.read + k.written
        took = (median, p90, p99, k.flops, nbytes, k.bound_us, runs.resources(k.steps))
        found.append(KernelTime(k.kernel, k.kind, k.steps, list(k.labels), *took))
    return sorted(found, key=lambda k: -k.median_us)


def chrome_trace(runs: Runs) -> dict[str, Any]:
    """One run as Chrome and Perfetto read it.

    Launches begin when they did in the run that took the median, if CUPTI saw them; else they stand one behind the
    other, each as long as its median.
    """
    events: list[dict[str, Any]] = []
    for number, begin, duration in _spans(runs):
        launch = runs.launches[number]
        args = {"launch": number, "from": launch.label, "times": launch.launches}
        event = {"name": launch.kernel, "cat": "kernel", "ph": "X", "ts": begin, "dur": duration, "pid": 0, "tid": 0}
        events.append({**event, "args": args})
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _spans(runs: Runs) -> Generator[tuple[int, float, float]]:
    """Launches' numbers, when they begin, and how long they take, in microseconds."""
    if runs.records:
        order = sorted(range(len(runs.records)), key=lambda i: runs.us[i].sum())
        records = runs.records[order[len(order) // 2]]
        for number, r in records:
            yield number, (r.start - records[0][1].start) / 1e3, (r.end - r.start) / 1e3
        return
    begin = 0.0
    for number, duration in enumerate(np.median(runs.us, 0).tolist()):
        yield number, begin, duration
        begin += duration
