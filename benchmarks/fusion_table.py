"""Kernels and bytes moved, before and after fusion, for every model: `--markdown` renders docs/fusion.md.

    python benchmarks/fusion_table.py [--models a,b] [--markdown]

Before: every graph op that does work is a kernel that reads its operands and writes its result once (reshapes,
broadcasts and fills are free on both sides). After: the launches of the plan. At the smallest batch and 128 tokens.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import models
from graphfuse import compiler
from graphfuse.dialects import graph
from graphfuse.frontends.onnx import import_model
from graphfuse.fusion.dataflow import Dataflow
from graphfuse.ir.core import Func, Op, Trait, Value
from graphfuse.ir.types import Tensor
from graphfuse.knobs import Options
from graphfuse.llvm.host import host_target
from graphfuse.symbolic import evaluate

PREFERRED = {"batch": 1, "seq": 128, "past": 128}


def nbytes(value: Value, at: dict[str, int]) -> int:
    """Bytes of a tensor at these symbol values."""
    assert isinstance(value.type, Tensor)
    return evaluate(value.type.nbytes, at)


def traffic(ops: list[Op], at: dict[str, int]) -> int:
    """Bytes that ops move when each reads its operands and writes its results once."""
    return sum(nbytes(v, at) for op in ops for v in (*dict.fromkeys(op.operands), *op.results))


def before(func: Func) -> list[Op]:
    """The ops of the imported graph that do work."""
    flow = Dataflow(func.body)
    return [
        op for op in func.body.ops
        if not op.has(Trait.TERMINATOR) and op.kind is not graph.constant and not flow.is_transparent(op)
    ]  # fmt: skip


def row(name: str) -> tuple[int, int, float, float, int]:
    """(kernels before, after, MB before, after, distinct kernels) of one model."""
    model = models.get(name)
    func = import_model(models.cached(name), dims=model.DIMS)
    at = {n: min(max(PREFERRED.get(n, 64), lo), hi) for n, lo, hi in func.dims}
    done = compiler.stages(func, host_target(), Options())
    old = before(func)
    new = [op for op in done.regions.walk() if op.kind is graph.region]
    at_loops = at | {str(op.attrs["symbol"]): 0 for op in done.regions.walk() if op.kind is graph.loop}
    top = [op for op in done.regions.body.ops if op.kind is graph.region]
    return len(old), len(new), traffic(old, at) / 1e6, traffic(top, at_loops) / 1e6, len(done.kernels)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default="")
    parser.add_argument("--markdown", action="store_true")
    args = parser.parse_args()
    names = [n for n in args.models.split(",") if n] or [n for n in models.names() if not models.requires(n)]
    if args.markdown:
        print("# Kernels and bytes moved, before and after fusion\n")
        print(f"Rendered by `python -m benchmarks.fusion_table --markdown`.\n\n {__doc__.split(chr(10) * 2)[2]}")
    print("| model | ops | launches | distinct kernels | MB moved, op by op | MB moved, fused | ratio |")
    print("|---|---|---|---|---|---|---|")
    for name in names:
        ops, launches, old, new, kernels = row(name)
        print(f"| {name} | {ops} | {launches} | {kernels} | {old:.1f} | {new:.1f} | {old / new:.2f} |")


if __name__ == "__main__":
    main()
