"""`make demo`: handwritten digits read in the terminal, then ResNet-50 and BERT beside ONNX Runtime.

Needs the packages of the `test` extra and nothing from the network: the digits are scikit-learn's, the
classifier is in this folder, and the two large models are built here with seeded weights.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from rich.console import Console

import graphfuse
import models
from graphfuse.cli.common import nbytes_text, table
from graphfuse.cli.reference import Reference, is_installed
from graphfuse.cli.verify import relative_error
from graphfuse.runtime.session import Session
from models import digits

SHADES = " ░▒▓█"
PER_ROW = 8
DIGIT_COLUMNS = 18

LARGE = {
    "resnet50": {"batch": 1},
    "bert_base": {"batch": 1, "seq": 128},
}
"""Models and the sizes of their symbolic dims (those that a model does not have are left out)."""


def main() -> None:
    """Run the whole demo."""
    parser = argparse.ArgumentParser(description="graphfuse on handwritten digits, ResNet-50 and BERT")
    parser.add_argument("--digits-only", action="store_true", help="leave out the large models")
    parser.add_argument("--small", action="store_true", help="the large models with tiny widths")
    parser.add_argument("--threads", type=int, help="default: the cores this process may use")
    args = parser.parse_args()
    console = Console(highlight=False)
    read_digits(console, args.threads)
    if not args.digits_only:
        compare_large(console, args.threads, small=args.small)


def read_digits(console: Console, threads: int | None) -> None:
    """Compile the classifier, read the held-out digits, show some, and list what was fused."""
    start = time.perf_counter()
    model = graphfuse.compile(digits.FILE, dims=digits.DIMS, threads=threads)
    console.print(f"[bold]{digits.FILE.name}[/] compiled in {time.perf_counter() - start:.2f} s\n")
    held_out = digits.held_out()
    logits = model({"image": held_out.images})["logits"]
    answers = logits.argmax(axis=1)
    # some of each: the first ones, and a few it gets wrong
    wrong = np.flatnonzero(answers != held_out.labels)[: PER_ROW // 2]
    shown = [*range(2 * PER_ROW - len(wrong)), *wrong.tolist()]
    per_row = max(1, min(PER_ROW, (console.width + 2) // DIGIT_COLUMNS))
    for row in range(0, len(shown), per_row):
        for line in draw(held_out.images, held_out.labels, answers, shown[row : row + per_row]):
            console.print(line, markup=False)
    right = int((answers == held_out.labels).sum())
    console.print(
        f"{right} of {len(answers)} digits it has never seen are right: [bold]{right / len(answers):.1%}[/]\n"
    )
    list_regions(console, model)


def draw(images: np.ndarray, labels: np.ndarray, answers: np.ndarray, which: list[int]) -> Iterator[str]:
    """Digits side by side in block characters, two columns a pixel, with what was read below."""
    for y in range(8):
        rows = ("".join(SHADES[min(4, int(v * 4.99))] * 2 for v in images[i, 0, y]) for i in which)
        yield "  ".join(rows)
    verdicts: list[str] = []
    for i in which:
        verdict = str(answers[i]) if answers[i] == labels[i] else f"{answers[i]} (is {labels[i]})"
        verdicts.append(f"{verdict:^16}")
    yield "  ".join(verdicts)
    yield ""


def list_regions(console: Console, model: graphfuse.CompiledModel) -> None:
    """One line per launch: what was fused into it."""
    facts = model.inspect()
    rows = [
        (r["kernel"], r["label"].rpartition("/")[2], r["grid"], nbytes_text(r["bytes_written"])) for r in facts["steps"]
    ]
    table("fused regions", ("kernel", "from", "programs", "writes"), rows, right=3)
    console.print()


def compare_large(console: Console, threads: int | None, *, small: bool) -> None:
    """Time, kernels, memory and error of the large models beside ONNX Runtime."""
    rows: list[tuple[str, ...]] = []
    columns = ("model", "compile", "kernels", "graphfuse", "ONNX Runtime", "ratio", "arena", "max error")
    for name, sizes in LARGE.items():
        with status(console, f"{name}: building"):
            path = models.cached(name, small=small)
        with status(console, f"{name}: compiling"):
            start = time.perf_counter()
            model = graphfuse.compile(path, dims=models.get(name).DIMS, threads=threads)
            seconds = time.perf_counter() - start
        dims = {k: v for k, v in sizes.items() if k in models.get(name).DIMS}
        feed = models.get(name).inputs(np.random.default_rng(0), small=small, **dims)
        with status(console, f"{name}: measuring"):
            rows.append((name, f"{seconds:.1f} s", *measured(path, model, feed)))
    table("beside ONNX Runtime", columns, rows)
    console.print("medians of runs in turns, on equal threads; errors in standard deviations")


def measured(path: Path, model: graphfuse.CompiledModel, feed: Mapping[str, np.ndarray]) -> list[str]:
    """The figures of one row, from `kernels` on."""
    session = model.session
    assert isinstance(session, Session), "a CPU runs these without host code"
    plan = session.arena_plan(feed)
    kernels = str(len(model.inspect()["steps"]))
    sides: dict[str, Callable[[], Mapping[str, np.ndarray]]] = {"ours": lambda: model(feed)}
    error = "-"
    if is_installed():
        reference = Reference(path, session.threads)
        sides["theirs"] = lambda: reference(feed)
        wanted, found = reference(feed), model(feed)
        error = f"{max(relative_error(found[n], w) for n, w in wanted.items()):.1e}"
    times = median_times(sides)
    ours, theirs = times["ours"], times.get("theirs")
    beside = [f"{theirs * 1e3:.1f} ms", f"{theirs / ours:.2f} x"] if theirs else ["-", "-"]
    return [kernels, f"{ours * 1e3:.1f} ms", *beside, nbytes_text(plan.peak), error]


SETTLE_SECONDS = 0.05
"""What a side waits before its turn: the other side's idle threads spin on, on the cores it needs."""


def median_times(sides: Mapping[str, Callable[[], object]], seconds: float = 6.0) -> dict[str, float]:
    """Median seconds of each side, turn by turn so that a slow moment hits both."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    for run in sides.values():
        run()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times["ours"]) < 3:
        for name, run in sides.items():
            time.sleep(SETTLE_SECONDS)
            run()
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(t) for name, t in times.items()}


@contextmanager
def status(console: Console, text: str) -> Generator[None]:
    """A spinner on a terminal, nothing in a pipe."""
    if not console.is_terminal:
        yield
        return
    with console.status(text):
        yield


if __name__ == "__main__":
    main()
