"""`graphfuse bench`: median times, rounds of both sides interleaved so that a slow moment hits both."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import click

from graphfuse.cli.common import (
    check_has_times,
    echo,
    json_option,
    made_up_dims,
    note_dims,
    print_json,
    random_inputs,
    seed_option,
    table,
)
from graphfuse.cli.model_options import ModelOptions, of_model
from graphfuse.cli.reference import Reference
from graphfuse.errors import UsageError
from graphfuse.runtime import gfx


@click.command("bench", help="Time MODEL (.onnx or .gfx) on random inputs.")
@of_model("dim_texts", "threads", "numerics", "precision", "unchecked", "device")
@click.option("--against", type=click.Choice(["onnxruntime"]), help="Time this too, on the same inputs.")
@click.option("--rounds", type=click.IntRange(1), default=20, show_default=True, help="How many runs are timed.")
@click.option("--seconds", type=click.FloatRange(0.1), default=10.0, show_default=True, help="Stop after this long.")
@seed_option
@json_option
def command(given: ModelOptions, against: str | None, rounds: int, seconds: float, seed: int, as_json: bool) -> None:
    """Warm up, measure in rounds, report medians."""
    if against and gfx.is_artifact(given.model):
        raise UsageError("--against: expected an ONNX model, an artifact runs in graphfuse only")
    dims = given.values
    compiled = given.open()
    check_has_times(compiled)
    feed = random_inputs(compiled, dims, seed)
    sides: dict[str, Callable[[], object]] = {"graphfuse": lambda: compiled(feed)}
    used = compiled.session.threads
    if against:
        reference = Reference(given.model, used)
        sides[against] = lambda: reference(feed)
    times = measure(sides, rounds, seconds)
    made_up = made_up_dims(compiled, dims)
    result = {name: _summary(t) for name, t in times.items()}
    ratio = result[against]["median_ms"] / result["graphfuse"]["median_ms"] if against else None
    if as_json:
        print_json({"model": str(given.model), "threads": used, "dims": made_up, "times": result, "speedup": ratio})
        return
    rows = [
        (name, *(f"{r[k]:.3f}" for k in ("median_ms", "min_ms", "p90_ms")), r["rounds"]) for name, r in result.items()
    ]
    table(f"{given.model}: {used} threads", ("", "median ms", "min ms", "p90 ms", "rounds"), rows)
    note_dims(made_up)
    if ratio is not None:
        echo(f"graphfuse is {ratio:.2f} x as fast as {against}")


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
        "p90_ms": ordered[min(len(ordered) - 1, int(len(ordered) * 0.9))] * 1e3,
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
