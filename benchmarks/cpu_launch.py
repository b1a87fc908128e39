"""What a launch of a Triton-C kernel costs on a CPU, beside what numpy's and torch's `add` cost.

    python -m benchmarks.cpu_launch [--rounds 4000] [--json FILE]

All add 64 floats, one call of each in every round, by one thread. The least of all rounds is what a call takes when
nothing disturbs it, and is what counts; the median is shown beside it.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import graphfuse
from benchmarks import record

SOURCE = """
__global__ void add(float *a, float *b, float *c ALONE, int n) {
  int i[SIZE] = get_program_id(0) * SIZE + 0 ... SIZE;
  *?(i < n)(c + i) = *?(i < n)(a + i) + *?(i < n)(b + i);
}
"""
COUNT = 64
PEER = "numpy.add"


def calls() -> dict[str, Callable[[], object]]:
    """What is measured, by what a caller would write."""
    import torch

    a, b, c = (np.ones(COUNT, np.float32) for _ in range(3))
    x, y, z = (torch.ones(COUNT) for _ in range(3))
    columns = np.ones((COUNT, 4), np.float32)[:, 1]
    add = graphfuse.kernel(SOURCE, SIZE=COUNT, ALONE="", threads=1)
    alone = graphfuse.kernel(SOURCE, SIZE=COUNT, ALONE="__noalias", threads=1)
    tuned = graphfuse.kernel(SOURCE, SIZE=[32, 64, 128], ALONE="", threads=1)
    return {
        PEER: lambda: np.add(a, b, out=c),
        "torch.add": lambda: torch.add(x, y, out=z),
        "k[(1,)](numpy)": lambda: add[(1,)](a, b, c, COUNT),
        "k[1](numpy)": lambda: add[1](a, b, c, COUNT),
        "k[lambda m: ...](numpy)": lambda: add[lambda m: (COUNT // m.SIZE,)](a, b, c, COUNT),
        "k[(1,)](numpy, n=64)": lambda: add[(1,)](a, b, c, n=COUNT),
        "k[(1,)](numpy, strided)": lambda: add[(1,)](a, columns, c, COUNT),
        "k[(1,)](numpy), __noalias": lambda: alone[(1,)](a, b, c, COUNT),
        "k[(1,)](torch)": lambda: add[(1,)](x, y, z, COUNT),
        "k[(1,)](torch), __noalias": lambda: alone[(1,)](x, y, z, COUNT),
        "tuned[lambda m: ...](numpy)": lambda: tuned[lambda m: (-(-COUNT // m.SIZE),)](a, b, c, COUNT),
        "tuned[lambda m: ...](torch)": lambda: tuned[lambda m: (-(-COUNT // m.SIZE),)](x, y, z, COUNT),
    }


def main() -> int:
    """Measure, print a table, write the JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=4000, help="calls of each (default 4000)")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    args = parser.parse_args()
    made = calls()
    took: dict[str, list[float]] = {name: [] for name in made}
    for call in made.values():
        call()
    for _ in range(args.rounds):
        for name, call in made.items():
            started = time.perf_counter()
            call()
            took[name].append(1e6 * (time.perf_counter() - started))
    peer = min(took[PEER])
    print(f"{'call':30} {'us':>7} {'median':>7} {'of numpy.add':>13}")
    rows: list[dict[str, object]] = []
    for name, us in took.items():
        rows.append({"call": name, "us": min(us), "median_us": statistics.median(us), "ratio": min(us) / peer})
        print(f"{name:30} {min(us):7.2f} {statistics.median(us):7.2f} {min(us) / peer:13.2f}")
    if args.json:
        record.write(args.json, rows, seed=None)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
