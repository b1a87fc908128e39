"""Updates of few places on a GPU, by how many programs have a table: `python -m benchmarks.gpu_tables --budget 300`.

Histograms of normal numbers, and sums of uniform ones in f32 and i64, compiled as `gpu_scatter` chooses, with more and
fewer programs, and without tables, beside eager torch in the same rounds. Fits `AMONG_PLACES` and `MANY`.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from itertools import product
from typing import Any

import torch

from benchmarks.gpu_timing import Recorded, Timing, medians, race
from graphfuse.blockgen import gpu_scatter
from graphfuse.torch import build
from graphfuse.torch.aot import backend

SIZES = (31_843, 175_176, 1_000_003, 8_000_000)
PLACES = (37, 464, 2_272, 9_001)
KINDS = ("histogram", "f32", "i64")
NEVER = 1 << 60
AMONG = (3, 13, 54, 216)
WAYS = {"chosen": {}, "none": {"MANY": NEVER}, **{str(n): {"MANY": 0, "AMONG_PLACES": n} for n in AMONG}}
"""Constants of `gpu_scatter`, by what a way is called."""
ROUNDS = Timing(0.02, 0.04, 3)


def case(kind: str, updates: int, places: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A function and its arguments."""
    if kind == "histogram":
        return lambda x: torch.histc(x.float(), places, -4, 4), (torch.randn(updates, device="cuda").half(),)
    dtype = torch.float32 if kind == "f32" else torch.int64
    given = (torch.zeros(places, dtype=dtype), torch.randint(places, (updates,)), torch.ones(updates, dtype=dtype))
    return lambda out, at, x: out.index_add(0, at, x), tuple(t.cuda() for t in given)


def timed(fn: Callable[..., Any], args: tuple[Any, ...]) -> dict[str, float]:
    """Microseconds by way."""
    before = {name: getattr(gpu_scatter, name) for name in ("MANY", "AMONG_PLACES")}
    sides = {"eager": Recorded(lambda: fn(*args))}
    for way, constants in WAYS.items():
        vars(gpu_scatter).update(before | constants)
        torch._dynamo.reset()
        build._in_use.clear()  # kernels are found by their graph, which is the same each time
        compiled = torch.compile(fn, backend=backend, dynamic=False)
        compiled(*args)
        sides[way] = Recorded(lambda compiled=compiled: compiled(*args))
    vars(gpu_scatter).update(before)
    return {way: 1e3 * ms for way, ms in medians(race(sides, ROUNDS)).items()}


def main() -> None:
    """Times each case, as long as there is time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=float, default=300, help="seconds; after these nothing more begins")
    end = time.monotonic() + parser.parse_args().budget
    os.environ["GRAPHFUSE_CACHE"] = "0"
    for kind, updates, places in product(KINDS, SIZES, PLACES):
        if time.monotonic() > end:
            break
        us = timed(*case(kind, updates, places))
        print(f"{kind:10} {updates:8} of {places:5}: " + ", ".join(f"{k} {v:.1f}" for k, v in us.items()), flush=True)


if __name__ == "__main__":
    main()
