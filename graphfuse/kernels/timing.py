"""How long a kernel takes: warmed up, with a cold second-level cache, the median of several rounds."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np

from graphfuse.runtime.cuda.context import Context

FLUSH_BYTES = 256 << 20
"""More than any cache holds."""
ROUNDS, MOST_ROUNDS = 5, 50
SECONDS = 0.05


def on_cpu(run: Callable[[], None], seconds: float = SECONDS) -> float:
    """Microseconds of a call, by the clock."""
    run()
    times: list[float] = []
    began = time.perf_counter()
    while len(times) < ROUNDS or (time.perf_counter() - began < seconds and len(times) < MOST_ROUNDS):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6


def on_gpu(context: Context, run: Callable[[], None], stream: int, seconds: float = SECONDS) -> float:
    """Microseconds of what a call gives to a stream, by events; caches are overwritten before each round."""
    driver = context.driver
    with context.current():
        flush = context.pool.take(FLUSH_BYTES, "overwriting the cache", stream)
        start, end = driver.create_event(), driver.create_event()
    times: list[float] = []
    try:
        run()
        began = time.perf_counter()
        while len(times) < ROUNDS or (time.perf_counter() - began < seconds and len(times) < MOST_ROUNDS):
            with context.current():
                half = FLUSH_BYTES // 2
                driver.copy(flush.address, flush.address + half, half, stream)
                driver.record(start, stream)
            run()
            with context.current():
                driver.record(end, stream)
                driver.synchronize(stream)
                times.append(driver.elapsed_ms(start, end) * 1e3)
    finally:
        with context.current():
            driver.destroy_event(start)
            driver.destroy_event(end)
            context.pool.give(flush, (stream,))
    return float(np.median(times))
