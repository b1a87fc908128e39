"""`graphfuse bench`: median times, rounds of both sides interleaved so that a slow moment hits both."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from graphfuse.cli.common import (
    check_has_times,
    echo,
    inputs_of,
    inputs_option,
    json_option,
    note_dims,
    print_json,
    seed_option,
    table,
)
from graphfuse.cli.model_options import ModelOptions, of_model
from graphfuse.cli.profile import Profiled
from graphfuse.cli.reference import Reference
from graphfuse.errors import UsageError
from graphfuse.runtime import gfx


@click.command("bench", help="Time MODEL (.onnx or .gfx) on random inputs.")
@of_model("dim_texts", "threads", "numerics", "precision", "unchecked", "device")
@click.option("--against", type=click.Choice(["onnxruntime"]), help="Time this too, on the same inputs.")
@click.option("--rounds", type=click.IntRange(1), default=20, show_default=True, help="How many runs are timed.")
@click.option("--seconds", type=click.FloatRange(0.1), default=10.0, show_default=True, help="Stop after this long.")
@click.option("--profile", is_flag=True, help="Then time each kernel, as graphfuse profile does.")
@inputs_option
@seed_option
@json_option
def command(
    given: ModelOptions,
    against: str | None,
    rounds: int,
    seconds: float,
    profile: bool,
    archive: Path | None,
    seed: int,
    as_json: bool,
) -> None:
    """Warm up, measure in rounds, report medians."""
    if against and gfx.is_artifact(given.model):
        raise UsageError("--against: expected an ONNX model, an artifact runs in graphfuse only")
    compiled = given.open()
    check_has_times(compiled)
    feed, dims, made_up = inputs_of(compiled, given.values, seed, archive)
    sides: dict[str, Callable[[], object]] = {"graphfuse": lambda: compiled(feed)}
    used = compiled.session.threads
    if against:
        reference = Reference(given.model, used)
        sides[against] = lambda: reference(feed)
    times = measure(sides, rounds, seconds)
    profiled = Profiled.of(compiled, feed, dims, rounds, seconds) if profile else None
    result = {name: _summary(t) for name, t in times.items()}
    ratio = result[against]["median_ms"] / result["graphfuse"]["median_ms"] if against else None
    if as_json:
        facts = {"model": str(given.model), "threads": used, "dims": made_up, "times": result, "speedup": ratio}
        print_json({**facts, "profile": profiled.facts()} if profiled else facts)
        return
    rows = [
        (name, *(f"{r[k]:.3f}" for k in ("median_ms", "min_ms", "p90_ms", "p99_ms")), r["rounds"])
        for name, r in result.items()
    ]
    table(f"{given.model}: {used} threads", ("", "median ms", "min ms", "p90 ms", "p99 ms", "rounds"), rows)
    note_dims(made_up)
    if ratio is not None:
        echo(f"graphfuse is {ratio:.2f} x as fast as {against}")
    if profiled:
        profiled.show(str(given.model), MOST_KERNELS)


MOST_KERNELS = 20
"""That `--profile` lists."""
SETTLE_SECONDS = 0.05
"""What a side waits before its turn: the other side's idle threads spin on, on the cores it needs."""


def measure(sides: dict[str, Callable[[], object]], rounds: int, seconds: float) -> dict[str, list[float]]:
    """Times in seconds of each side: a warm-up call each, then turn by turn."""
    for run in sides.values():
        run()
    times: dict[str, list[float]] = {name: [] for name in sides}
    end = time.perf_counter() + seconds
    with _bar(rounds) as advance:
        for _ in range(rounds):
            for name, run in sides.items():
                if len(sides) > 1:
                    time.sleep(SETTLE_SECONDS)
                    run()
                start = time.perf_counter()
                run()
                times[name].append(time.perf_counter() - start)
            advance()
            if time.perf_counter() > end:
                break
    return times


def _summary(times: list[float]) -> dict[str, Any]:
    ordered = sorted(times)
    return {
        "median_ms": statistics.median(times) * 1e3,
        "min_ms": ordered[0] * 1e3,
        **{f"p{p}_ms": ordered[min(len(ordered) - 1, len(ordered) * p // 100)] * 1e3 for p in (90, 99)},
        "rounds": len(times),
    }


@contextmanager
def _bar(rounds: int) -> Generator[Callable[[], None]]:
    if not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("measuring", total=rounds)
        yield lambda: bar.advance(task)
