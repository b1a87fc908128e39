"""`graphfuse profile`: what each kernel of a model takes, beside what the machine could do; the slowest first."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np

from graphfuse.artifact import Executable
from graphfuse.cli.common import (
    check_has_times,
    check_written,
    echo,
    json_option,
    made_up_dims,
    note_dims,
    print_json,
    random_inputs,
    seed_option,
    table,
    why_text,
)
from graphfuse.cli.html import LONG_US, us_text
from graphfuse.cli.model_options import ModelOptions, of_model
from graphfuse.errors import UsageError
from graphfuse.files import writing
from graphfuse.runtime.report import not_fused, reasons_of

if TYPE_CHECKING:
    from graphfuse.profiling import KernelTime


MOST_REASONS = 5
"""Of the slowest kernel, that are told."""


@click.command("profile", help="Time each kernel of MODEL (.onnx or .gfx) on random inputs, the slowest first.")
@of_model("dim_texts", "threads", "numerics", "precision", "unchecked", "device", "kernel_folders")
@click.option("--rounds", type=click.IntRange(1), default=20, show_default=True, help="How many runs are timed.")
@click.option("--seconds", type=click.FloatRange(0.1), default=10.0, show_default=True, help="Stop after this long.")
@click.option("--top", type=click.IntRange(1), default=20, show_default=True, help="Kernels that are listed.")
@click.option("--trace", type=click.Path(path_type=Path), help="Write a trace for Perfetto or chrome://tracing.")
@seed_option
@json_option
def command(
    given: ModelOptions, rounds: int, seconds: float, top: int, trace: Path | None, seed: int, as_json: bool
) -> None:
    """Measure, then show kernels by what they take."""
    if trace is not None:
        check_written({"--trace": trace}, given.model, kernels=given.kernel_folders)
    model, dims = given.open(), given.values
    check_has_times(model)
    made_up = made_up_dims(model, dims)
    # both import what compiles, and showing help need not
    from graphfuse.peaks import peaks_of
    from graphfuse.profiling import by_kernel, chrome_trace, measured

    runs = measured(model, random_inputs(model, dims, seed), rounds, seconds)
    if not len(runs.us):
        raise UsageError(f"{given.model}: expected as many launches in each run, found others in the second")
    peaks = peaks_of(model.device, model.session.threads)
    kernels = by_kernel(model, runs, dims, peaks)
    wall, whole = statistics.median(runs.wall_us.tolist()), float(np.median(runs.us.sum(1)))
    if trace is not None:
        with writing(trace) as file:
            file.write(json.dumps(chrome_trace(runs)).encode())
        echo(f"{trace}: {len(runs.launches)} launches", err=True)
    if as_json:
        summary = {"rounds": len(runs.us), "wall_us": wall, "kernels_us": whole, "peaks": asdict(peaks)}
        rows = [{**asdict(k), "gflops": k.gflops, "gbytes": k.gbytes} for k in kernels]
        print_json({"model": str(given.model), "dims": made_up, **summary, "kernels": rows})
        return
    where = f"{model.session.threads} threads" if not model.device.is_gpu else str(model.device)
    rows = [
        (
            k.kernel,
            _from(k.labels, len(k.launches)),
            us_text(k.median_us),
            us_text(k.p90_us),
            f"{100 * k.median_us / whole:.1f} %" if whole else "-",
            f"{k.gflops:.1f}",
            f"{k.gbytes:.1f}",
            f"{k.median_us / k.bound_us:.1f}" if k.bound_us and k.median_us >= LONG_US else "-",
        )
        for k in kernels[:top]
    ]
    columns = ("kernel", "from", "median", "p90", "share", "Gflop/s", "GB/s", "times its bound")
    table(f"{given.model}: {where}, {len(runs.us)} runs", columns, rows, right=2)
    if len(kernels) > top:
        left = sum(k.median_us for k in kernels[top:])
        echo(f"and {len(kernels) - top} more, {us_text(left)} in all (--top {len(kernels)})")
    note_dims(made_up)
    echo(f"a run takes {us_text(wall)}, its kernels {us_text(whole)} in {len(runs.launches)} launches")
    flops, memory = peaks.flops_per_us / 1e3, (peaks.bytes_per_us / 1e3, peaks.cached_per_us / 1e3)
    echo(f"the machine does {flops:.0f} Gflop/s and moves {memory[0]:.1f} GB/s, {memory[1]:.0f} from caches")
    for line in _why(model.executable, kernels[0]):
        echo(line)


def _why(executable: Executable, kernel: KernelTime) -> list[str]:
    """Why a kernel is not one with what comes before its first launch, and not with what comes behind."""
    rows = reasons_of(not_fused(executable), kernel.kind, kernel.labels[:1])
    return [why_text(r) for r in rows[:MOST_REASONS]]


def _from(labels: Sequence[str], launches: int) -> str:
    """The first of what a kernel's launches come from, and how many they are."""
    return f"{labels[0][:60]}{f' and {launches - 1} more' if launches > 1 else ''}"
