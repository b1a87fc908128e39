"""`graphfuse profile`: what each kernel of a model takes, beside what the machine could do; the slowest first."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from graphfuse.artifact import Array, Executable
from graphfuse.cli.common import (
    MOST_THREADS,
    check_has_times,
    check_written,
    echo,
    inputs_of,
    inputs_option,
    json_option,
    note_dims,
    print_json,
    seed_option,
    table,
    why_text,
)
from graphfuse.cli.html import LONG_US, us_text
from graphfuse.cli.model_options import ModelOptions, of_model
from graphfuse.compiled_model import CompiledModel
from graphfuse.errors import UsageError
from graphfuse.files import writing
from graphfuse.runtime.report import not_fused, reasons_of

if TYPE_CHECKING:
    from graphfuse.peaks import Peaks
    from graphfuse.profiling import KernelTime, Runs


ROUNDS, SECONDS = 20, 10.0
"""Runs that are timed, and how long at most."""
LARGE = 1e7
"""Operations in a microsecond that are said in Tflop/s."""
MOST_REASONS = 5
"""Of the slowest kernel, that are told."""


def _counts(_: click.Context, __: click.Parameter, text: str | None) -> tuple[int, ...] | None:
    """`1,2,4` as numbers, the smallest first."""
    if text is None:
        return None
    words = text.split(",")
    if not all(w.isascii() and w.isdecimal() and len(w) < 5 and 1 <= int(w) <= MOST_THREADS for w in words):
        raise UsageError(f"--threads: expected numbers from 1 to {MOST_THREADS}, such as 4 or 1,2,4, got {text!r}")
    return tuple(sorted({int(w) for w in words}))


@click.command("profile", help="Time each kernel of MODEL (.onnx or .gfx) on random inputs, the slowest first.")
@of_model("dim_texts", "numerics", "precision", "unchecked", "device", "kernel_folders")
@click.option("--threads", callback=_counts, metavar="N[,N..]", help="How many threads run it; several are compared.")
@click.option("--rounds", type=click.IntRange(1), default=ROUNDS, show_default=True, help="How many runs are timed.")
@click.option("--seconds", type=click.FloatRange(0.1), default=SECONDS, show_default=True, help="Stop after this long.")
@click.option("--top", type=click.IntRange(1), default=20, show_default=True, help="Kernels that are listed.")
@click.option("--trace", type=click.Path(path_type=Path), help="Write a trace for Perfetto or chrome://tracing.")
@inputs_option
@seed_option
@json_option
def command(
    given: ModelOptions,
    threads: tuple[int, ...] | None,
    rounds: int,
    seconds: float,
    top: int,
    trace: Path | None,
    archive: Path | None,
    seed: int,
    as_json: bool,
) -> None:
    """Measure, then show kernels by what they take."""
    read = [f"={archive}"] if archive else []
    if trace is not None:
        check_written({"--trace": trace}, given.model, read, kernels=given.kernel_folders)
    counts = threads or (None,)
    model = dataclasses.replace(given, threads=counts[0]).open()
    if len(counts) > 1 and (trace is not None or model.device.is_gpu):
        what = "a trace" if trace is not None else f"the device {model.device}"
        raise UsageError(f"--threads: expected one number for {what}, got {len(counts)}")
    feed, dims, made_up = inputs_of(model, given.values, seed, archive)
    models = [model, *(CompiledModel(model.executable, n, model.device) for n in counts[1:])]
    found = [Profiled.of(m, feed, dims, rounds, seconds / len(models)) for m in models]
    if trace is not None:
        with writing(trace) as file:
            file.write(json.dumps(found[0].trace()).encode())
        echo(f"{trace}: {len(found[0].runs.launches)} launches", err=True)
    if as_json:
        each = {"sweep": [p.facts() for p in found]} if len(found) > 1 else found[0].facts()
        print_json({"model": str(given.model), "dims": made_up, **each})
    elif len(found) > 1:
        _sweep(str(given.model), found, top)
        note_dims(made_up)
    else:
        found[0].show(str(given.model), top)
        note_dims(made_up)


@dataclass(frozen=True)
class Profiled:
    """A model whose kernels were timed, beside what the machine does."""

    model: CompiledModel
    runs: Runs
    kernels: Sequence[KernelTime]
    peaks: Peaks

    @staticmethod
    def of(
        model: CompiledModel, feed: Mapping[str, Array], dims: Mapping[str, int], rounds: int, seconds: float
    ) -> Profiled:
        """Run it so often, or for so long."""
        check_has_times(model)
        # both import what compiles, and showing help need not
        from graphfuse.peaks import peaks_of
        from graphfuse.profiling import by_kernel, measured

        runs = measured(model, feed, rounds, seconds)
        if not len(runs.us):
            raise UsageError(f"{model.name}: expected as many launches in each run, found others in the second")
        peaks = peaks_of(model.device, model.session.threads)
        return Profiled(model, runs, by_kernel(model, runs, dims, peaks), peaks)

    @property
    def wall(self) -> list[float]:
        """Microseconds of a run: the percentiles that kernels have."""
        from graphfuse.profiling import PERCENTILES

        return np.percentile(self.runs.wall_us, PERCENTILES).tolist()

    @property
    def whole(self) -> float:
        """Microseconds of all kernels of a run."""
        return float(np.median(self.runs.us.sum(1)))

    @property
    def unit(self) -> tuple[str, float]:
        """In what the machine's operations are said, and how many of a microsecond that is."""
        return ("Tflop/s", 1e6) if self.peaks.flops_per_us >= LARGE else ("Gflop/s", 1e3)

    def trace(self) -> dict[str, Any]:
        """See `chrome_trace`."""
        from graphfuse.profiling import chrome_trace

        return chrome_trace(self.runs)

    def facts(self) -> dict[str, Any]:
        """All of it, as plain data."""
        rows = [{**asdict(k), "gflops": k.gflops, "gbytes": k.gbytes} for k in self.kernels]
        median, p90, p99 = self.wall
        return {
            "threads": self.model.session.threads, "rounds": len(self.runs.us), "wall_us": median,
            "wall_p90_us": p90, "wall_p99_us": p99, "kernels_us": self.whole, "peaks": asdict(self.peaks),
            "measured_by": self.runs.by, "why": self.runs.why, "gaps_us": self.runs.gaps_us,
            "overlapped_us": self.runs.overlapped_us, "span_us": self.runs.span_us, "kernels": rows,
        }  # fmt: skip

    def show(self, title: str, top: int) -> None:
        """The table of kernels, what a run takes, and why the slowest is not one with its neighbours."""
        device, whole = self.model.device, self.whole
        where = str(device) if device.is_gpu else f"{self.model.session.threads} threads"
        rows = [
            (
                k.kernel,
                _from(k.labels, len(k.launches)),
                *map(us_text, (k.median_us, k.p90_us, k.p99_us)),
                f"{100 * k.median_us / whole:.1f} %" if whole else "-",
                f"{k.gflops:.1f}",
                f"{k.gbytes:.1f}",
                f"{k.median_us / k.bound_us:.1f}" if k.bound_us and k.median_us >= LONG_US else "-",
                *(_resources(k) if self.runs.records else ()),
            )
            for k in self.kernels[:top]
        ]
        columns = ("kernel", "from", "median", "p90", "p99", "share", "Gflop/s", "GB/s", "times its bound")
        if self.runs.records:
            columns += ("registers", "shared", "local")
        table(f"{title}: {where}, {len(self.runs.us)} runs", columns, rows, right=2)
        _more(self.kernels, top)
        for line in [*self.summary(), *(_why(self.model.executable, self.kernels[0]) if self.kernels else ())]:
            echo(line)

    def summary(self) -> list[str]:
        """What a run takes, what measured its launches, and what the machine does."""
        median, p90, p99 = map(us_text, self.wall)
        kernels = f"its kernels {us_text(self.whole)} in {sum(len(k.launches) for k in self.kernels)} launches"
        bound = f" (their bound: {us_text(us)})" if (us := sum(k.bound_us for k in self.kernels)) else ""
        unit, per_us = self.unit
        does = f"does {self.peaks.flops_per_us / per_us:.0f} {unit}"
        moved, cached = self.peaks.bytes_per_us / 1e3, self.peaks.cached_per_us / 1e3
        return [
            f"a run takes {median} (p90 {p90}, p99 {p99}), {kernels}{bound}",
            *([_measured(self.runs)] if self.runs.by != "clock" else []),
            f"the machine {does} and moves {moved:.1f} GB/s, {cached:.0f} from caches",
        ]


def _resources(kernel: KernelTime) -> tuple[str, str, str]:
    """Registers of a thread, KiB of shared memory of a block, bytes of local memory of a thread."""
    if (r := kernel.resources) is None:
        return "-", "-", "-"
    return str(r.registers), f"{r.shared_bytes / 1024:.1f} KiB", f"{r.local_bytes} B"


def _measured(runs: Runs) -> str:
    """Which clock it was, and what only CUPTI sees."""
    if not runs.records:
        return f"launches were measured by {runs.by}, each by itself: {runs.why}"
    span, gaps, overlapped = map(us_text, (runs.span_us, runs.gaps_us, runs.overlapped_us))
    return (
        f"launches were measured by {runs.by}: {span} from the first to the last, {gaps} idle, {overlapped} overlapped"
    )


def _sweep(title: str, found: Sequence[Profiled], top: int) -> None:
    """Medians by number of threads, and how many times as fast that is as with the fewest."""
    medians = [{k.kernel: k.median_us for k in p.kernels} for p in found]
    order = sorted(found[0].kernels, key=lambda k: -max(m[k.kernel] for m in medians))
    lines = [(k.kernel, _from(k.labels, len(k.launches)), [m[k.kernel] for m in medians]) for k in order[:top]]
    lines.append(("a run", "", [p.wall[0] for p in found]))
    columns = ["kernel", "from"]
    for p in found:
        n = p.model.session.threads
        columns += [f"{n} thread{'s' * (n > 1)}", *(["times as fast"] if p is not found[0] else [])]
    rows = [
        (name, label, us_text(us[0]), *(c for t in us[1:] for c in (us_text(t), f"{us[0] / t:.2f}" if t else "-")))
        for name, label, us in lines
    ]
    table(f"{title}: {min(len(p.runs.us) for p in found)} runs each", columns, rows, right=2)
    _more(order, top)


def _more(kernels: Sequence[KernelTime], top: int) -> None:
    if len(kernels) > top:
        left = sum(k.median_us for k in kernels[top:])
        echo(f"and {len(kernels) - top} more, {us_text(left)} in all (--top {len(kernels)})")


def _why(executable: Executable, kernel: KernelTime) -> list[str]:
    """Why a kernel is not one with what comes before its first launch, and not with what comes behind."""
    rows = reasons_of(not_fused(executable), kernel.kind, kernel.labels[:1])
    return [why_text(r) for r in rows[:MOST_REASONS]]


def _from(labels: Sequence[str], launches: int) -> str:
    """The first of what a kernel's launches come from, and how many they are."""
    return f"{labels[0][:60]}{f' and {launches - 1} more' if launches > 1 else ''}"
