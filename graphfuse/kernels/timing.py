"""Which of several kernels is fastest, on a machine that changes its speed.

A GPU under load settles, after some tenths of a second, at the clock that its power allows: whatever is measured before
that is measured on another machine, and what takes less energy wins later on. It also takes some time to settle when
another kernel comes. So candidates are timed in two rounds, without a pause: a short one for all, on a GPU that is
warm, and a long one for those that come close, several times over in a rotated order. Arrays that a cache may hold are
pushed out of it before each call.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from graphfuse.runtime.gpu.context import Context
from graphfuse.runtime.gpu.memory import Block

FLUSH_BYTES = 256 << 20
"""Twice what any cache holds: half of them are copied to the other half."""
CACHE_BYTES = 64 << 20
"""Arrays of more push themselves out of most caches (an H200's holds 50 MB), and what else is done costs power."""
ROUNDS, MOST_ROUNDS = 5, 50
SECONDS = 0.05
"""For one configuration: enough rounds for a median, little enough for a hundred of them."""
MOST_QUEUED = 200
"""Calls that are given to a GPU before it is waited for."""
CLOSE, MOST_CLOSE = 1.1, 6
"""Times the least of the short round, and how many go on to the long one."""

Run = Callable[[], None]
Name = TypeVar("Name")


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds before everything, then seconds of calls that do not count and of those that do, in so many rounds."""

    heat: float
    short: tuple[float, float]
    long: tuple[float, float]
    rounds: int


ON_CPU = Timing(0.0, (0.0, 0.05), (0.0, 0.05), 3)
ON_GPU = Timing(0.35, (0.1, 0.06), (0.15, 0.2), 4)
"""The clock of an H200 settles within a third of a second; in the 50 ms after another kernel, 8192^3 reads 15 % off."""


class Clock(Protocol):
    """What takes time."""

    def us(self, run: Run, warm: float, seconds: float) -> float:
        """Microseconds of a call, of as many as fit in `seconds`, after `warm` seconds of calls that do not count."""
        ...


def close(found: Mapping[Name, float]) -> list[Name]:
    """The fastest, and those that are not much slower; nobody if that is the only one."""
    least = min(found.values())
    names = sorted((n for n, us in found.items() if us <= CLOSE * least), key=lambda n: found[n])[:MOST_CLOSE]
    return names if len(names) > 1 else []


def race(runs: Mapping[Name, Run], clock: Clock, timing: Timing) -> dict[Name, float]:
    """The long rounds: medians of all. Each begins with another one, so that what drifts meets everybody alike."""
    names = list(runs)
    found: dict[Name, list[float]] = {name: [] for name in names}
    for i in range(timing.rounds):
        for name in rotated(names, i, timing.rounds):
            found[name].append(clock.us(runs[name], *timing.long))
    return {name: statistics.median(times) for name, times in found.items()}


def rotated(names: Sequence[Name], turn: int, turns: int) -> list[Name]:
    """The order of a round: over all of them the first place goes round evenly."""
    shift = turn * max(1, len(names) // turns) % len(names) if names else 0
    return [*names[shift:], *names[:shift]]


def on_cpu(run: Run, seconds: float = SECONDS) -> float:
    """Microseconds of a call, by the clock."""
    run()
    times: list[float] = []
    began = time.perf_counter()
    while len(times) < ROUNDS or (time.perf_counter() - began < seconds and len(times) < MOST_ROUNDS):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6


class CpuClock:
    """Calls by the clock."""

    def us(self, run: Run, warm: float, seconds: float) -> float:
        """See `Clock`."""
        if warm:
            on_cpu(run, warm)
        return on_cpu(run, seconds)


class GpuClock:
    """What calls give to a stream, by events; `nbytes` is what their arrays hold."""

    def __init__(self, context: Context, stream: int, nbytes: int) -> None:
        self._context, self._stream = context, stream
        self._is_cold = nbytes < CACHE_BYTES
        self._flush: Block | None = None
        self._events: list[int] = []

    def __enter__(self) -> GpuClock:
        with self._context.current():
            if self._is_cold:
                self._flush = self._context.pool.take(FLUSH_BYTES, "overwriting the cache", self._stream)
            self._events = [self._context.driver.create_event() for _ in range(2 * MOST_QUEUED)]
        return self

    def __exit__(self, *_: object) -> None:
        with self._context.current():
            for event in self._events:
                self._context.driver.destroy_event(event)
            if self._flush is not None:
                self._context.pool.give(self._flush, (self._stream,))

    def us(self, run: Run, warm: float, seconds: float) -> float:
        """See `Clock`."""
        self._batch(run, 1)
        began = time.perf_counter()
        self._batch(run, 2)
        each = (time.perf_counter() - began) / 2
        if warm:
            self._calls(run, warm, each)
        return statistics.median(self._calls(run, seconds, each))

    def _calls(self, run: Run, seconds: float, each: float) -> list[float]:
        """Microseconds of calls: as many at a time as are queued, until time is up."""
        times: list[float] = []
        began = time.perf_counter()
        while not times or time.perf_counter() - began < seconds:
            left = seconds - (time.perf_counter() - began)
            times += self._batch(run, min(MOST_QUEUED, max(1, round(left / each))))
        return times

    def _batch(self, run: Run, count: int) -> list[float]:
        """Microseconds of some calls, between which the GPU does not wait: of each, or the mean if caches stay."""
        driver, stream = self._context.driver, self._stream
        calls = 1 if self._flush is not None else count
        pairs = list(zip(self._events[: count // calls], self._events[MOST_QUEUED:], strict=False))
        with self._context.current():
            for start, end in pairs:
                if self._flush is not None:
                    half = self._flush.nbytes // 2
                    driver.copy(self._flush.address, self._flush.address + half, half, stream)
                driver.record(start, stream)
                for _ in range(calls):
                    run()
                driver.record(end, stream)
            driver.synchronize(stream)
            return [driver.elapsed_ms(start, end) * 1e3 / calls for start, end in pairs]
