"""Kernels, bytes moved and memory of every model, before and after fusion: a count, not a measurement.

    python -m benchmarks.fusion_table [--models a,b] [--json benchmarks/results/fusion_table.json]

Before: every graph op that does work is a kernel, which reads its operands and writes its results once. After: the
launches of the plan, and what their regions read and write. On both sides a slice or a look-up in a table reads what it
takes; reshapes, permutes, broadcasts and fills are free; a loop counts as often as it runs. The arena is compared with
the most bytes alive at one step, which no placement can undercut.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import models
from benchmarks import record
from graphfuse import compiler
from graphfuse.artifact import Executable, Loop, Scalar, Step
from graphfuse.dialects import graph
from graphfuse.frontends.onnx import import_model
from graphfuse.fusion.regions.dataflow import Dataflow
from graphfuse.fusion.regions.traffic import bytes_read, is_work
from graphfuse.ir.core import Block, Func, Op, Trait, Value, attr_dim
from graphfuse.ir.dense import Dense
from graphfuse.ir.parser import parse
from graphfuse.ir.types import Tensor
from graphfuse.knobs import Options
from graphfuse.llvm.host import host_target
from graphfuse.runtime.report import report
from graphfuse.symbolic import evaluate

Dims = Mapping[str, int]

USUAL = {
    "batch": 1, "texts": 1, "images": 1, "seq": 128, "past": 128, "step": 1, "samples": 16000, "height": 256,
    "width": 256,
}  # fmt: skip
"""What each symbol is, as far as its range allows; memory is also given at every symbol's largest value."""


def nbytes(value: Value, at: Dims) -> int:
    """Bytes of a tensor at these symbol values."""
    assert isinstance(value.type, Tensor)
    return evaluate(value.type.nbytes, at)


def reads(flow: Dataflow, ops: Sequence[Op], at: Dims) -> int:
    """Bytes a kernel of these ops reads of values that it does not compute."""
    found = bytes_read(flow, ops, {name: (value, value) for name, value in at.items()})
    return sum(evaluate(n, at) for n in found.values())


def walk(block: Block, at: Dims) -> Iterator[tuple[Op, Dataflow, Dims, int]]:
    """The ops of a block and of the loops in it, with their dataflow, the dims they see and how often they run."""
    flow = Dataflow(block)
    for op in block.ops:
        yield op, flow, at, 1
        if op.kind is graph.loop:
            turns = evaluate(attr_dim(op, "count"), at)
            for inner, inner_flow, seen, times in walk(op.body, {**at, str(op.attrs["symbol"]): 0}):
                yield inner, inner_flow, seen, times * turns


def before(func: Func, at: Dims) -> tuple[int, int]:
    """Kernels and bytes moved of the imported graph, op by op."""
    kernels = moved = 0
    for op, flow, seen, times in walk(func.body, at):
        if is_work(flow, op):
            kernels += times
            moved += times * (reads(flow, [op], seen) + sum(nbytes(r, seen) for r in op.results))
    return kernels, moved


def after(executable: Executable, at: Dims) -> tuple[int, int]:
    """Launches and bytes moved of the plan. Regions are told by the partitioned graph that the artifact carries."""
    constants = {(d := Dense(w.array)).digest: d for w in executable.weights}
    launches, moved = _copies(executable.plan.steps, at)
    for op, _, seen, times in walk(parse(executable.ir["regions"], "<artifact>", constants).body, at):
        if op.kind is graph.region:
            launches += times
            inner = Dataflow(op.body)
            working = [o for o in op.body.ops if o.has(Trait.TERMINATOR) or is_work(inner, o)]
            moved += times * (reads(inner, working, seen) + sum(nbytes(r, seen) for r in op.results))
    return launches, moved


def _copies(steps: Sequence[Step | Loop], at: Dims) -> tuple[int, int]:
    """Launches and bytes of the copies into and out of what loops carry."""
    launches = moved = 0
    for step in steps:
        if isinstance(step, Loop):
            turns = evaluate(step.count, at)
            inner = _copies(step.steps, {**at, step.symbol: 0})
            launches, moved = launches + turns * inner[0], moved + turns * inner[1]
        elif step.kernel == "copy_bytes":
            size = step.args[-1]
            assert isinstance(size, Scalar)
            launches, moved = launches + 1, moved + 2 * evaluate(size.value, at)
    return launches, moved


def measure(name: str) -> dict[str, Any]:
    """One row."""
    func = import_model(models.cached(name), dims=models.get(name).DIMS)
    executable = compiler.build(func, host_target(), Options())
    at = {n: min(max(USUAL.get(n, lo), lo), hi) for n, lo, hi in func.dims}
    ops, moved_before = before(func, at)
    launches, moved_after = after(executable, at)
    sizes = {key: report(executable, dims)["memory"] for key, dims in (("usual", at), ("largest", _largest(func)))}
    return {
        "model": name,
        "dims": at,
        "ops": ops,
        "launches": launches,
        "kernels": sum(k.kind != "copy" for k in executable.kernels),
        "bytes_before": moved_before,
        "bytes_after": moved_after,
        "memory": sizes["usual"],
        "largest": _largest(func),
        "memory_at_largest": sizes["largest"],
        "model_bytes": models.cached(name).stat().st_size,
    }


def _largest(func: Func) -> dict[str, int]:
    return {name: hi for name, _, hi in func.dims}


def main() -> None:
    """Count and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--models", default=",".join(models.names()), help="comma-separated (default: all)")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []
    print(
        f"{'model':20} {'ops':>6} {'launches':>8} {'MB before':>10} {'after':>8} {'arena/bound':>11} {'at largest':>10}"
    )
    for name in args.models.split(","):
        row = measure(name)
        rows.append(row)
        print(
            f"{name:20} {row['ops']:6} {row['launches']:8} {row['bytes_before'] / 1e6:10.1f} "
            f"{row['bytes_after'] / 1e6:8.1f} {over_bound(row['memory']):11.3f} "
            f"{over_bound(row['memory_at_largest']):10.3f}",
            flush=True,
        )
    if args.json:
        record.write(args.json, rows)


def over_bound(memory: Mapping[str, int]) -> float:
    """The arena over the least it could be."""
    return memory["arena"] / memory["arena_bound"] if memory["arena_bound"] else 1.0


if __name__ == "__main__":
    main()
