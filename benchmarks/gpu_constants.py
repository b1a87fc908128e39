"""Updates of few places on a GPU, by how many programs have a table: `python -m benchmarks.gpu_tables --json FILE`.

Histograms of normal numbers, and sums of uniform ones in f32 and i64, compiled as `gpu_scatter` chooses, with more and
fewer programs, and without tables, beside eager torch in the same rounds. Totals are checked before times.
Fits `AMONG_PLACES`, `MANY` and `MOST`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from itertools import product
from typing import Any

import torch
from torch._functorch import config as functorch_config

from benchmarks import record
from benchmarks.gpu_timing import QUICK, SUSTAINED, Recorded, Timing, arguments, asked, medians, race
from graphfuse.blockgen import gpu_scatter
from graphfuse.torch import build
from graphfuse.torch.aot import backend

SIZES = (31_843, 175_176, 1_000_003, 8_000_000)
PLACES = (37, 464, 2_272, 9_001)
KINDS = ("histogram", "f32", "i64")
NEVER, ALWAYS = {"MOST": 1 << 60, "MANY": 1 << 60}, {"MANY": 0, "MOST": 0}
AMONG = (3, 13, 54, 216)
WAYS = {"chosen": {}, "none": NEVER, **{str(n): {**ALWAYS, "AMONG_PLACES": n} for n in AMONG}}
"""Constants of `gpu_scatter`, by what a way is called."""


def case(kind: str, updates: int, places: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A function and its arguments."""
    if kind == "histogram":
        return lambda x: torch.histc(x.float(), places, -4, 4), (torch.randn(updates, device="cuda").half(),)
    dtype = torch.float32 if kind == "f32" else torch.int64
    given = (torch.zeros(places, dtype=dtype), torch.randint(places, (updates,)), torch.ones(updates, dtype=dtype))
    return lambda out, at, x: out.index_add(0, at, x), tuple(t.cuda() for t in given)


def timed(fn: Callable[..., Any], args: tuple[Any, ...], rounds: Timing) -> dict[str, float]:
    """Microseconds by way."""
    before = {name: getattr(gpu_scatter, name) for name in ("MANY", "MOST", "AMONG_PLACES")}
    sides = {"eager": Recorded(lambda: fn(*args))}
    for way, constants in WAYS.items():
        vars(gpu_scatter).update(before | constants)
        torch._dynamo.reset()
        build._in_use.clear()  # kernels are found by their graph, which is the same each time
        compiled = torch.compile(fn, backend=backend, dynamic=False)
        torch.testing.assert_close(compiled(*args).sum(), fn(*args).sum())
        sides[way] = Recorded(lambda compiled=compiled: compiled(*args))
    vars(gpu_scatter).update(before)
    return {way: round(1e3 * ms, 1) for way, ms in medians(race(sides, rounds)).items()}


def main() -> None:
    """Time, print and write."""
    args = arguments(__doc__, budget=300, json="gpu_tables.json").parse_args()
    end, rows = time.monotonic() + args.budget, []
    torch.manual_seed(record.SEED)
    os.environ["GRAPHFUSE_CACHE"] = "0"
    functorch_config.enable_autograd_cache = False  # it would give every way the kernels of the first
    for kind, updates, places in product(KINDS, SIZES, PLACES):
        if not asked(name := f"{kind} {updates} of {places}", args.only):
            continue
        if time.monotonic() > end:
            break
        us = timed(*case(kind, updates, places), QUICK if args.quick else SUSTAINED)
        rows.append({"gpu": torch.cuda.get_device_name(), "case": name, "us": us})
        print(rows[-1], flush=True)
    record.write(args.json, rows, record.SEED)


if __name__ == "__main__":
    main()
