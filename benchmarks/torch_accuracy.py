"""Compare `torch.compile(model, backend="graphfuse")` with eager torch: inference, and a training step.

    python -m benchmarks.torch_accuracy [--only bert,gpt2] [--json FILE]

The measure is the model in float64. The error of a tensor is its largest deviation over its root mean square, which
counts as no less than a thousandth of the largest among the outputs, or among the gradients. A side's error is that
of its worst tensor. Ours may be twice eager's, both in float32; `FLOOR` is what rounding alone may make.
The backend's debug checker is on: sizes, strides, types and aliases are what torch was promised.
"""

from __future__ import annotations

import argparse
import copy
import math
import sys
import time
import traceback
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks import record
from benchmarks.torch_models import CASES, Inputs

FLOOR = 2e-6
"""An error that is no reason to complain, whatever eager's is."""
WEAKEST = 1e-3
"""Tensors weaker than this part of the strongest are measured by it."""


@dataclass(frozen=True)
class Row:
    """One model in one mode."""

    model: str
    mode: str
    outputs: int
    gradients: int
    error: float
    eager_error: float
    worst: str
    breaks: int
    eager_breaks: int
    graphs: int
    parts: int
    operators: int
    externs: dict[str, int]
    seconds: float
    floor: float = FLOOR

    @property
    def passed(self) -> bool:
        """Whether the bar is met."""
        return self.error <= max(2 * self.eager_error, self.floor) and self.breaks <= self.eager_breaks


@dataclass
class Result:
    """What a model gave: outputs and gradients by name."""

    outputs: dict[str, torch.Tensor]
    gradients: dict[str, torch.Tensor]


def run(module: torch.nn.Module, called: Any, inputs: Inputs, *, training: bool) -> Result:
    """`called` is the module, or what it was compiled to."""
    module.train(training)
    with torch.set_grad_enabled(training):
        loss, out = called(**inputs)
    gradients: dict[str, torch.Tensor] = {}
    if training:
        loss.backward()
        gradients = {k: p.grad.double() for k, p in module.named_parameters() if p.grad is not None}
    buffers = {k: b.double() for k, b in module.named_buffers() if b.is_floating_point()} if training else {}
    outputs = {"loss": loss.detach().double(), "outputs": out.detach().double()}
    return Result({**outputs, **buffers}, gradients)


def double(inputs: Inputs) -> Inputs:
    """Floats in float64."""
    return {k: v.double() if v.is_floating_point() else v for k, v in inputs.items()}


def error(got: Result, exact: Result) -> tuple[float, str]:
    """The error of the worst tensor, and its name."""
    worst = (0.0, "")
    for ours, wanted in ((got.outputs, exact.outputs), (got.gradients, exact.gradients)):
        if ours.keys() != wanted.keys():
            return math.inf, str(sorted(ours.keys() ^ wanted.keys())[0])
        strongest = max((rms(t) for t in wanted.values()), default=0.0)
        for name, want in wanted.items():
            scale = max(rms(want), WEAKEST * strongest, 1e-30)
            found = float((ours[name] - want).abs().max()) / scale if want.numel() else 0.0
            worst = max(worst, (found if math.isfinite(found) else math.inf, name))
    return worst


def rms(x: torch.Tensor) -> float:
    """The root of the mean square."""
    return float(x.square().mean().sqrt()) if x.numel() else 0.0


class Recorder:
    """Counts what the backend compiles."""

    def __enter__(self) -> Recorder:
        from graphfuse.torch import aot

        self.graphs: list[Any] = []
        self._aot, self._whole = aot, aot.compile_graph

        def recording(*args: Any) -> Any:
            self.graphs.append(self._whole(*args))
            return self.graphs[-1]

        aot.compile_graph = recording
        return self

    def __exit__(self, *_: object) -> None:
        self._aot.compile_graph = self._whole

    def operators(self) -> int:
        """How many calls of operators there were."""
        return sum(n.op == "call_function" for g in self.graphs for n in g.cut.kinds)

    def externs(self) -> dict[str, int]:
        """How often each operator was left to torch."""
        out: dict[str, int] = {}
        for graph in self.graphs:
            for node in graph.cut.reasons:
                out[str(node.target)] = out.get(str(node.target), 0) + 1
        return out


def breaks() -> int:
    """How often Dynamo broke the graph since the last reset."""
    return sum(torch._dynamo.utils.counters["graph_break"].values())


def measure(name: str, *, training: bool) -> Row:
    """Build the model thrice, and compare."""
    torch.manual_seed(record.SEED)
    module, inputs = CASES[name].small()
    eager, exact, counted = copy.deepcopy(module), copy.deepcopy(module).double(), copy.deepcopy(module)
    torch.set_default_dtype(torch.float64)  # for what the model makes itself
    try:
        want = run(exact, exact, double(inputs), training=training)
    finally:
        torch.set_default_dtype(torch.float32)
    theirs, _ = error(run(eager, eager, inputs, training=training), want)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    run(counted, torch.compile(counted, backend="eager"), inputs, training=training)
    eager_breaks = breaks()
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    started = time.perf_counter()
    with Recorder() as seen, torch._functorch.config.patch(enable_autograd_cache=False):
        got = run(
            module, torch.compile(module, backend="graphfuse", options={"check": True}), inputs, training=training
        )
    seconds = time.perf_counter() - started
    ours, worst = error(got, want)
    return Row(
        name, "training" if training else "inference", len(want.outputs), len(want.gradients), ours, theirs, worst,
        breaks(), eager_breaks, len(seen.graphs), sum(len(g.parts) for g in seen.graphs), seen.operators(),
        seen.externs(), round(seconds, 1),
    )  # fmt: skip


def main() -> int:
    """Measure, print and write the JSON; 1 if a model failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default=",".join(CASES), help="comma-separated models (default: all)")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    args = parser.parse_args()
    chosen = args.only.split(",")
    if unknown := set(chosen) - CASES.keys():
        parser.error(f"unknown models: {', '.join(sorted(unknown))}; known: {', '.join(CASES)}")
    warnings.filterwarnings("ignore")
    rows: list[dict[str, Any]] = []
    for name in chosen:
        for mode in ("inference", "training"):
            try:
                row = measure(name, training=mode == "training")
            except Exception as e:  # noqa: BLE001 (whatever a model raises is its result)
                traceback.print_exc(limit=-4)
                rows.append({"model": name, "mode": mode, "passed": False, "raised": str(e)[:300]})
                print(f"{name:14} {mode:10} RAISED {type(e).__name__}", flush=True)
                continue
            rows.append({**asdict(row), "passed": row.passed})
            print(
                f"{name:14} {row.mode:10} {row.error:9.1e} {row.eager_error:9.1e} {row.worst[:40]:40}"
                f" breaks {row.breaks}/{row.eager_breaks} graphs {row.graphs} parts {row.parts} of {row.operators}"
                f" externs {row.externs} {row.seconds} s{'' if row.passed else '  FAILED'}",
                flush=True,
            )
    if args.json:
        record.write(args.json, rows)
    return int(not all(row["passed"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
