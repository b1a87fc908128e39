"""Graphs that torch interrupts: stretches recorded around what cannot be, beside launches, Inductor and eager.

    python -m benchmarks.gpu_stretches [--json FILE]

Between two sums that are taken on the CPU lie `launches` products of halves, each with its GELU. Microseconds of a call
under mode="reduce-overhead", asked again and again without waiting for the GPU more than the CPU's share does. Least
`launches` for which `recorded` is below `launched` is `LEAST_LAUNCHES` in torch/stretches.py.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ["GRAPHFUSE_CACHE"] = "0"

import torch

from benchmarks import record
from benchmarks.gpu_timing import QUICK, SUSTAINED, Called, arguments, medians, race
from graphfuse.torch import backend, stretches

SIZES = (1, 2, 3, 4, 6, 8, 16, 48)


def interrupted(launches: int) -> Any:
    """A function of rows and a matrix that leaves the GPU in its middle."""

    def call(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        for _ in range(2):
            for _ in range(launches):
                x = torch.nn.functional.gelu(x @ w)
            x = x + x.float().mean().cpu().cuda().half()
        return x

    return call


def main() -> None:
    """Time, print and write."""
    args = arguments(__doc__, budget=300, json="gpu_stretches.json").parse_args()
    torch.manual_seed(record.SEED)
    rows: list[dict[str, Any]] = []
    for launches in SIZES:
        x, w = torch.randn(64, 256, device="cuda").half(), torch.randn(256, 256, device="cuda").half() / 16
        fn = interrupted(launches)
        calls: dict[str, Any] = {"eager": fn}
        for name, least in (("launched", 1 << 30), ("recorded", 1)):
            stretches.LEAST_LAUNCHES = least
            torch._dynamo.reset()
            calls[name] = torch.compile(fn, backend=backend, mode="reduce-overhead")
            calls[name](x, w)
        calls["inductor"] = torch.compile(fn, mode="reduce-overhead")
        for name, call in calls.items():
            for _ in range(5):
                got = call(x, w).clone()
            torch.testing.assert_close(got, fn(x, w), rtol=2e-2, atol=2e-2, msg=lambda m, n=name: f"{n}: {m}")
        sides = {n: Called(partial(c, x, w), asleep=False) for n, c in calls.items()}
        found = medians(race(sides, QUICK if args.quick else SUSTAINED))
        rows.append(
            {
                "gpu": torch.cuda.get_device_name(),
                "launches": launches,
                "us": {n: round(ms * 1e3, 1) for n, ms in found.items()},
            }
        )
        print(rows[-1])
    if args.json:
        record.write(args.json, rows, record.SEED)


if __name__ == "__main__":
    main()
