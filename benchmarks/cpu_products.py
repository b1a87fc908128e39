"""Products on a CPU beside torch's (MKL, oneDNN): layouts, deep and shallow, few rows and many, checked in float64.

    python -m benchmarks.cpu_products [--threads N] [--dtype bfloat16] [--layouts tn]
    python -m benchmarks.cpu_products 768x1024x3072 --layouts tn,nt

A case is rows x depth x columns in a layout: `n` of an operand that lies as it is multiplied, `t` of one that lies
turned. Both sides are called through `torch.compile`, so that neither pays for a call what the other does not. Prints
microseconds, GFLOP/s and the ratio (above 1, graphfuse is faster); ends with their geometric mean and the least. Run it
with nothing beside it. Constants of blockgen (`contraction.py`, `blocks.py`, `slabs.py`, `words.py`) were chosen by it.
"""

from __future__ import annotations

import argparse
import functools
import math
import os
import statistics
import sys
from collections.abc import Callable

import torch

from benchmarks import record
from benchmarks.torch_cpu import ALLOCATOR, CLOCKS, in_turns

CASES = {
    "nn": "512x768x768 1024x3072x768 197x1152x384 900x192x480 3408x176x40 1000x40x1000 120x32000x512 128x1000x100",
    "nt": "512x768x768 1024x768x3072 197x384x1152 3408x176x40 1000x64x500 33x511x1000 2048x96x288 441x768x30522",
    "tn": "768x512x768 768x1024x3072 1152x788x384 257x4096x129 64x8192x576 96x2000x384 1000x6000x100 900x128x480",
}
"""Rows, depth and columns, by layout: of layers of transformers, their gradients, and beside them."""
ENVIRONMENT = {**ALLOCATOR, "GRAPHFUSE_CACHE": "0", "TORCHINDUCTOR_AUTOGRAD_CACHE": "0"}
"""Times are of the compiler as it is now."""
TOLERANCE = {"float32": 2e-5, "bfloat16": 1e-2, "float16": 2e-3, "float64": 1e-13}
"""Of the largest result."""


def product(layout: str) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """What is timed."""
    turned = [c == "t" for c in layout]

    def multiply(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return (a.t() if turned[0] else a) @ (b.t() if turned[1] else b)

    return multiply


def operands(layout: str, rows: int, depth: int, columns: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Normally distributed."""
    sizes = (rows, depth), (depth, columns)
    a, b = (torch.randn(size if c == "n" else size[::-1]) for size, c in zip(sizes, layout, strict=True))
    return a.to(dtype), b.to(dtype)


def ratio(layout: str, case: str, args: argparse.Namespace) -> float:
    """Of one case, which it prints."""
    rows, depth, columns = map(int, case.split("x"))
    a, b = operands(layout, rows, depth, columns, getattr(torch, args.dtype))
    torch.compiler.reset()
    multiply = product(layout)
    sides = {
        side: torch.compile(multiply, backend=backend, dynamic=False)
        for side, backend in (("eager", "aot_eager"), ("graphfuse", "graphfuse"))
    }
    want = multiply(a.double(), b.double())
    error = float((sides["graphfuse"](a, b).double() - want).abs().max() / want.abs().max())
    if not error <= TOLERANCE[args.dtype]:
        raise SystemExit(f"{layout} {case}: off by {error:.1e} of the largest result")
    steps: dict[str, Callable[[], object]] = {side: functools.partial(call, a, b) for side, call in sides.items()}
    times = {side: statistics.median(s) for side, s in in_turns(steps, args.rounds, CLOCKS["wall"]).items()}
    rate = 2e-9 * rows * depth * columns
    found = times["eager"] / times["graphfuse"]
    print(
        f"{layout} {case:16s} graphfuse {1e6 * times['graphfuse']:9.1f} us {rate / times['graphfuse']:6.1f} GFLOP/s,"
        f" torch {1e6 * times['eager']:9.1f} us {rate / times['eager']:6.1f} GFLOP/s, ratio {found:.2f}",
        flush=True,
    )
    return found


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("cases", nargs="*", help="rows x depth x columns, as 768x1024x3072")
    parser.add_argument("--layouts", default=",".join(CASES), help="of nn, nt, tn, tt, by commas")
    parser.add_argument("--dtype", choices=TOLERANCE, default="float32")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    if any(os.environ.get(name) != value for name, value in ENVIRONMENT.items()):  # glibc reads them as it starts
        command = [sys.executable, "-m", "benchmarks.cpu_products", *sys.argv[1:]]
        os.execve(sys.executable, command, os.environ | ENVIRONMENT)
    torch.set_num_threads(args.threads)
    torch.manual_seed(record.SEED)
    layouts = args.layouts.split(",")
    with torch.no_grad():
        found = [ratio(lay, c, args) for lay in layouts for c in args.cases or CASES[lay].split()]
    print(f"geometric mean {math.exp(statistics.fmean(map(math.log, found))):.2f}, least {min(found):.2f}")


if __name__ == "__main__":
    main()
