"""Kernels on a GPU as constants of the compiler choose them and otherwise: `python -m benchmarks.gpu_constants`.

Each set has cases, and ways to make their kernels: as `chosen`, and with other constants. All ways are timed beside
eager torch and Inductor in the same rounds, behind a look at their results.

    tables      updates of few places: `MANY`, `MOST`, `GROUP` and `AMONG_PLACES` of `gpu_scatter`
    scatters    elements that go to rows or columns of their own: constants of `gpu_whole_scatter`
    columns     reductions of columns: `COLUMNS` of `gpu_tiles`, `NARROW` of `split_long_sums`
    vectors     products of a vector with the rows of a matrix: `LONG_VECTOR` of `split_long_sums`
    walks       layers of a Llama for one word, without attention: `ways` of `gpu_vector_walk`; otherwise by another way
                for one of the three kinds of products
    cached      attention of few queries over long keys: `least_rows`, `STAGES` and parts of keys
    few         products of few rows: `memory_ns` of `WgmmaCosts`, and which are made at once; otherwise by other tiles
    windows     convolutions whose pixels are few bytes: `FEW_COLUMNS` of `gpu_contraction`; with all to threads, with
                none, and without copies that move pixels apart

    python -m benchmarks.gpu_constants --only windows,columns --json FILE
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from itertools import product
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from torch._functorch import config as functorch_config
from torch.nn import functional

from benchmarks import record
from benchmarks.gpu_timing import QUICK, SUSTAINED, Recorded, Timing, arguments, asked, medians, race
from benchmarks.torch_cpu import copied
from graphfuse.blockgen import (
    gpu_attention,
    gpu_attention_tile,
    gpu_contraction,
    gpu_key_parts,
    gpu_matmul_tile,
    gpu_scatter,
    gpu_several_products,
    gpu_tiles,
    gpu_whole_scatter,
)
from graphfuse.blockgen.gpu_product_costs import ProductCosts
from graphfuse.blockgen.gpu_vector_walk import Rows, Way, ways
from graphfuse.blockgen.gpu_wgmma_tile import Product, WgmmaTile, wgmma_tiles
from graphfuse.fusion.products import split_long_sums
from graphfuse.gpu import graph_passes
from graphfuse.targets.machine import Machine
from graphfuse.torch import build
from graphfuse.torch.aot import backend

Ways = Mapping[str, Callable[[], AbstractContextManager[Any]]]


class Case(NamedTuple):
    """What it is called, a function and its arguments, and what is compared of a result, where that is not all."""

    name: str
    fn: Callable[..., Any]
    args: tuple[Any, ...]
    seen: Callable[[Any], Any] = lambda found: found


UNCACHED_BYTES = 160 << 20
ALL = 1 << 60
"""More than there is of anything."""
MOST_OFF = 0.02
"""Of the largest result, that a result may be away from eager's: halves, summed in another order."""


def _among(places: int) -> Callable[[], AbstractContextManager[Any]]:
    return lambda: patch.multiple(gpu_scatter, MANY=0, MOST=0, AMONG_PLACES=places)


def _parts(stages: int, programs: int) -> Callable[[], AbstractContextManager[Any]]:
    def way() -> AbstractContextManager[Any]:
        made = ExitStack()
        made.enter_context(patch.object(gpu_attention, "STAGES", stages))
        made.enter_context(patch.object(graph_passes, "key_parts", lambda _: partial(_part, programs)))
        return made

    return way


def _tile(name: str) -> Callable[[], AbstractContextManager[Any]]:
    """Where there is such a tile."""

    def tiles(machine: Machine, made: Product) -> list[WgmmaTile]:
        return sorted(wgmma_tiles(machine, made), key=lambda tile: str(tile) != name)

    return lambda: patch.object(gpu_matmul_tile, "wgmma_tiles", tiles)


def _apart() -> AbstractContextManager[Any]:
    return patch.object(gpu_several_products, "MOST_PRODUCTS", 1)


def _walk(kind: str, way: Way) -> Callable[[], AbstractContextManager[Any]]:
    """Of one kind of a layer's products: with two matrices, down from the hidden width, and others."""

    def found(machine: Machine, rows: Rows) -> list[Way]:
        made = "up" if rows.matrices == 2 else "down" if rows.depth > rows.count else "square"
        return [*([way] if made == kind else []), *ways(machine, rows)]

    return lambda: patch.object(gpu_contraction, "ways", found)


WAYS: Mapping[str, Ways] = {
    "tables": {"none": lambda: patch.multiple(gpu_scatter, MANY=ALL, MOST=ALL)}
    | {str(n): _among(n) for n in (3, 13, 54, 216)},
    "scatters": {
        "in place": lambda: patch.object(graph_passes, "columns_of", lambda *_: 0),
        "16 warps": lambda: patch.object(gpu_whole_scatter, "WARPS", 16),
        "8 held": lambda: patch.object(gpu_whole_scatter, "HELD", 8),
        "8 columns": lambda: patch.object(gpu_whole_scatter, "LEAST", 8),
    },
    "columns": {
        "4 columns": lambda: patch.object(gpu_tiles, "COLUMNS", 4),
        "16 columns": lambda: patch.object(gpu_tiles, "COLUMNS", 16),
        "narrow 1": lambda: patch.object(split_long_sums, "NARROW", 1),
        "narrow 4": lambda: patch.object(split_long_sums, "NARROW", 4),
    },
    "vectors": {
        "in parts": lambda: patch.object(split_long_sums, "LONG_VECTOR", split_long_sums.LONG_DEPTH),
        "whole": lambda: patch.object(split_long_sums, "LONG_VECTOR", ALL),
    },
    "walks": {
        f"{kind} {w}x{n} {rows}": _walk(kind, Way(w, n, rows))
        for kind, w, n, each in (
            ("up", 8, 4, (1, 2)),
            ("up", 8, 3, (1, 2)),
            ("up", 8, 2, (2, 4)),
            ("up", 4, 4, (1, 2)),
            ("up", 2, 8, (1,)),
            ("down", 8, 3, (1,)),
            ("down", 8, 2, (1, 2)),
            ("down", 4, 4, (1,)),
            ("down", 16, 1, (2, 4)),
            ("square", 8, 4, (1, 2)),
            ("square", 8, 2, (2, 4)),
            ("square", 4, 8, (1,)),
            ("square", 4, 4, (1, 2)),
            ("square", 2, 8, (1, 2)),
            ("square", 16, 2, (2,)),
        )
        for rows in each
    },
    "cached": {
        "warpgroups": lambda: patch.object(gpu_attention_tile, "least_rows", lambda *_: 1),
        "3 stages": lambda: patch.object(gpu_attention, "STAGES", 3),
        "4 stages": lambda: patch.object(gpu_attention, "STAGES", 4),
        **{f"{s} stages, {n} parts": _parts(s, n) for s, n in ((3, 132), (3, 264), (4, 132))},
        "whole": lambda: patch.object(graph_passes, "key_parts", lambda _: lambda *sizes: sizes[2]),
    },
    "few": {
        **{t: _tile(t) for t in ("64x32", "64x64", *(f"64x{n} split={s}" for n, s in ((64, 2), (128, 2), (128, 4))))},
        "apart": _apart,
    },
    "windows": {
        "threads": lambda: patch.object(gpu_contraction, "FEW_COLUMNS", ALL),
        "tma": lambda: patch.object(gpu_contraction, "FEW_COLUMNS", 0),
        "as stored": lambda: patch.object(ProductCosts, "stays", lambda *_: True),
    },
}


def cases(name: str) -> Iterator[Case]:
    """Of a set."""
    made = {
        "tables": _updates, "scatters": _scatters, "columns": _columns, "vectors": _vectors, "walks": _layers,
        "cached": _attentions, "few": _few_rows, "windows": _convolutions,
    }  # fmt: skip
    yield from made[name]()


def _updates() -> Iterator[Case]:
    sizes = (31_843, 50_384, 100_003, 175_176, 1_000_003, 8_000_000)
    for updates, places in product(sizes, (37, 464, 1_021, 2_272, 9_001)):
        bins = partial(torch.histc, bins=places, min=-4, max=4)
        halves = torch.randn(updates, device="cuda").half()
        yield Case(f"histogram {updates} of {places}", lambda x, bins=bins: bins(x.float()), (halves,))
        for dtype in (torch.float32, torch.int64):
            given = (
                torch.zeros(places, dtype=dtype),
                torch.randint(places, (updates,)),
                torch.ones(updates, dtype=dtype),
            )
            added = tuple(t.cuda() for t in given)
            yield Case(f"{dtype} {updates} of {places}", lambda out, at, x: out.index_add(0, at, x), added)


def _scatters() -> Iterator[Case]:
    shapes = (
        (5226, 4039, 3182), (3000, 4096, 3000), (20000, 4096, 1000), (10000, 4096, 8), (10000, 4096, 32),
        (1000, 2048, 3000), (250, 4096, 2000), (50000, 1024, 500), (40000, 256, 1024), (2000, 512, 7000),
        (9000, 2048, 14000), (20000, 1024, 30000), (300, 1030, 300),
    )  # fmt: skip
    for (updates, columns, places), dtype in product(shapes, (torch.float32, torch.bfloat16)):
        x, u = (torch.randn(n, columns, device="cuda").to(dtype) for n in (places, updates))
        at = torch.randint(places, (updates, columns), device="cuda")
        turned = tuple(t.t().contiguous() for t in (x, at, u))
        for axis, given in enumerate(((x, at, u), turned)):
            name = f"{updates} to {places} of {columns} along {axis} {dtype}"
            yield Case(name, lambda x, at, u, axis=axis: x.scatter_add(axis, at, u), given)


def _columns() -> Iterator[Case]:
    kinds: dict[str, Callable[..., Any]] = {
        "softmax": lambda x: torch.softmax(x, 0),
        "mean": lambda x: x.mean(0),
        "std": lambda x: x.std(0),
        "argmax": lambda x: x.argmax(0),
    }
    shapes = ((720, 309), (920, 104), (2039, 137), (4099, 50), (1000, 31), (5003, 211), (1024, 520), (3000, 1000))
    for shape, dtype, (kind, fn) in product(shapes, (torch.float32, torch.bfloat16), kinds.items()):
        x = torch.randn(shape, device="cuda").to(dtype)
        # of several that are equal any may be found
        seen = {"seen": lambda found, x=x: x.gather(0, found[None])} if kind == "argmax" else {}
        yield Case(f"{kind} of {shape} {dtype}", fn, (x,), **seen)


def _product(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return functional.linear(x, w)


def _vectors() -> Iterator[Case]:
    shapes = ((3, 9001), (32, 4096), (1000, 2048), (17, 33_333), (131, 14_336), (1024, 14_336))
    deep = ((1, 70_001), (7, 65_536), (60, 131_072), (100, 65_536), (2, 400_000))
    for (rows, depth), dtype in product((*shapes, *deep), (torch.float32, torch.bfloat16)):
        w, x = (torch.randn(*shape, device="cuda").to(dtype) for shape in ((rows, depth), (1, depth)))
        yield Case(f"{rows} rows of {depth} {dtype}", _product, (x, w))


def _layers() -> Iterator[Case]:
    for width, keys, hidden in ((2048, 512, 8192), (3072, 1024, 8192), (4096, 1024, 14_336)):
        shapes = (
            (width, width), (width,), (hidden, width), (hidden, width), (width, hidden), (width,),
            (width + 2 * keys, width),
        )  # fmt: skip
        weights = sum(torch.Size(s).numel() for s in shapes)
        copies = -(-UNCACHED_BYTES // (2 * weights))
        given = [torch.randn(s, device="cuda") * s[-1] ** -0.5 for _ in range(copies) for s in shapes]
        x, y = (torch.randn(1, width, device="cuda").bfloat16() for _ in range(2))
        yield Case(f"{copies} layers of {width}, {hidden}", _layer, (x, y, *(t.bfloat16() for t in given)))


def _layer(x: torch.Tensor, y: torch.Tensor, *given: torch.Tensor) -> torch.Tensor:
    """`x` is what layers hand on, `y` what the first one's attention gives."""
    width = x.shape[-1:]
    for i in range(0, len(given), 7):
        out, before, gate, up, down, behind, words = given[i : i + 7]
        x = x + functional.linear(y[:, : width[0]], out)
        y = functional.rms_norm(x, width, before, 1e-5)
        x = x + functional.linear(functional.silu(functional.linear(y, gate)) * functional.linear(y, up), down)
        y = functional.linear(functional.rms_norm(x, width, behind, 1e-5), words)
    return y


def _few_rows() -> Iterator[Case]:
    matrices = (
        (4096, 14_336), (4096, 4096), (1024, 4096), (6144, 4096), (3072, 8192), (3072, 3072), (2048, 8192),
        (2048, 2048),
    )  # fmt: skip
    for rows, (columns, depth), weights in product((16, 64, 33), matrices, (1, 2)):
        copies = -(-UNCACHED_BYTES // (2 * weights * columns * depth))
        shapes = ((rows, depth), *[(columns, depth)] * weights)
        given = tuple(torch.randn(s, device="cuda").bfloat16() for _ in range(copies) for s in shapes)
        name = f"{copies} times {rows} rows by {weights} of {columns} x {depth}"
        yield Case(name, _products(weights), given, lambda found: torch.cat(found, 1))


def _products(weights: int) -> Callable[..., tuple[torch.Tensor, ...]]:
    """Each row of so many weights by what comes before them: what is read is in no cache."""

    def each(*given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        groups = [given[i : i + 1 + weights] for i in range(0, len(given), 1 + weights)]
        return tuple(functional.linear(x, w) for x, *ws in groups for w in ws)

    return each


def _part(programs: int, heads: int, rows: int, keys: int, _: int) -> int:
    """Keys of a part, for so many programs."""
    parts = max(1, programs // (heads * -(-rows // gpu_key_parts.ROWS)))
    return min(keys, -(-keys // (parts * gpu_key_parts.KEYS)) * gpu_key_parts.KEYS)


def _attentions() -> Iterator[Case]:
    shapes = (
        (1, 2048, 64, 8, 128), (8, 8192, 64, 8, 128), (32, 8192, 64, 8, 128), (1, 131_072, 64, 8, 128),
        (16, 1024, 32, 8, 64), (4, 3001, 24, 24, 96), (3, 20_011, 28, 4, 128), (64, 16_384, 64, 8, 128),
        (4, 30_000, 32, 8, 64),
    )  # fmt: skip
    for (batch, keys, heads, groups, depth), queries in product(shapes, (1, 3, 16)):
        q = torch.randn(batch, heads, queries, depth, device="cuda").bfloat16()
        k, v = (torch.randn(batch, groups, keys, depth, device="cuda").bfloat16() for _ in range(2))
        name = f"{batch}x{keys} {heads}/{groups} of {depth}, {queries} queries"
        yield Case(name, _attended, (q, k, v))


def _attended(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)


def _convolutions() -> Iterator[Case]:
    sizes = (
        (8, 8, 9, 81, 3, 1), (8, 16, 16, 80, 3, 1), (32, 8, 32, 56, 5, 1), (16, 24, 32, 60, 3, 2),
        (8, 24, 48, 100, 3, 1), (4, 40, 40, 64, 3, 1), (2, 48, 31, 200, 3, 1), (4, 32, 17, 150, 3, 1),
        (2, 56, 56, 112, 3, 1), (16, 72, 72, 28, 3, 1), (8, 16, 128, 56, 3, 1), (24, 112, 16, 80, 5, 1),
        (32, 3, 32, 224, 3, 2),
    )  # fmt: skip
    for batch, channels, out, size, window, stride in sizes:
        x = torch.randn(batch, channels, size, size, device="cuda")
        w = torch.randn(out, channels, window, window, device="cuda") / (channels * window**2) ** 0.5
        x, w, b = x.half(), w.half(), torch.randn(out, device="cuda").half()
        given = (*(t.to(memory_format=torch.channels_last) for t in (x, w)), b)
        name = f"{batch}x{channels}->{out} {size}^2 window {window} step {stride}"
        yield Case(name, lambda x, w, b, step=stride: functional.conv2d(x, w, b, stride=step).relu(), given)


def timed(case: Case, ways: Ways, rounds: Timing) -> dict[str, float]:
    """Microseconds by way."""
    fn, args = case.fn, case.args
    want = case.seen(fn(*args)).double()
    torch._dynamo.reset()
    inductor = torch.compile(copied(fn), dynamic=False)
    sides = {"eager": Recorded(lambda: fn(*args)), "inductor": Recorded(lambda: inductor(*args))}
    for way, constants in {"chosen": nullcontext, **ways}.items():
        torch._dynamo.reset()
        build._in_use.clear()  # kernels are found by their graph, which is the same each time
        compiled = torch.compile(copied(fn), backend=backend, dynamic=False)
        with constants():
            off = (case.seen(compiled(*args)).double() - want).abs().max() / want.abs().max()
        assert off <= MOST_OFF, f"{way}: {off} of the largest result away from eager's"
        sides[way] = Recorded(lambda compiled=compiled: compiled(*args))
    return {side: round(1e3 * ms, 2) for side, ms in medians(race(sides, rounds)).items()}


def main() -> None:
    """Time, print and write."""
    args = arguments(__doc__, budget=600, json="gpu_constants.json").parse_args()
    end, rows = time.monotonic() + args.budget, []
    torch.manual_seed(record.SEED)
    os.environ["GRAPHFUSE_CACHE"] = "0"
    functorch_config.enable_autograd_cache = False  # it would give every way the kernels of the first
    for name, case in ((s, c) for s in WAYS for c in cases(s)):
        if time.monotonic() > end:
            break
        if asked(f"{name} {case.name}", args.only):
            us = timed(case, WAYS[name], QUICK if args.quick else SUSTAINED)
            rows.append({"gpu": torch.cuda.get_device_name(), "set": name, "case": case.name, "us": us})
            print(rows[-1], flush=True)
            record.write(args.json, rows, record.SEED)


if __name__ == "__main__":
    main()
