"""Attention of few queries over a long cache, beside cuDNN and FlashAttention-2 as torch has them.

    python -m benchmarks.cached_attention [--only WORDS] [--queries 1,2,4,8,16] [--json FILE]
    python -m benchmarks.cached_attention --dry        no GPU: small ones on the CPU, compared with float64

One query is a step of decoding, several verify what a draft wrote. `graphfuse masked` hides from each query what comes
behind it, as verifying needs; nobody else has a mask to apply. `bound` is the part of the copy bandwidth, measured in
the same run, that keys and values alone would need; `of one` what several queries take of the time of one. Every side
is recorded in a CUDA graph, and compared with float64 first.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import record
from benchmarks.decode import copy_bandwidth
from benchmarks.gpu_timing import AGAIN, Recorded, Timing, arguments, asked, medians, race, twice
from benchmarks.torch_gpu import distance, each_in_a_process, settings_of

TIMING = Timing(0.05, 0.15, 3)
OURS, MASKED = "graphfuse", "graphfuse masked"
LAST = {"efficient": "EFFICIENT_ATTENTION", "math": "MATH"}
"""Asked where neither of the others takes it."""
PEERS = {"cudnn": "CUDNN_ATTENTION", "flash": "FLASH_ATTENTION", **LAST}


@dataclass(frozen=True)
class Shape:
    """Of queries [batch, heads, queries, depth], keys [batch, groups, length, depth] and their values."""

    batch: int
    length: int
    heads: int = 64
    groups: int = 8
    depth: int = 128
    values: int = 128
    """Elements of a value: its key's first ones where they are fewer than `depth`, as in a latent cache."""


SHAPES = {
    "gqa 1x2k": Shape(1, 2048),
    "gqa 8x8k": Shape(8, 8192),
    "gqa 32x8k": Shape(32, 8192),
    "gqa 128x32k": Shape(128, 32_768),
    "gqa 1x128k": Shape(1, 131_072),
    "mha 8x8k": Shape(8, 8192, 32, 32),
    "mla 8x8k": Shape(8, 8192, 128, 1, 576, 512),
}
SMALL = {
    "gqa": Shape(2, 300, 8, 2, 32, 32),
    "mha": Shape(1, 257, 2, 2, 64, 64),
    "mla": Shape(2, 200, 4, 1, 48, 32),
}


def operands(torch: Any, shape: Shape, queries: int, device: str, dtype: Any) -> tuple[Any, ...]:
    """Queries, keys and, if they are not the keys' own first elements, values of standard normal numbers."""
    torch.manual_seed(record.SEED)
    normal = partial(torch.randn, device=device, dtype=dtype)
    q = normal(shape.batch, shape.heads, queries, shape.depth)
    k = normal(shape.batch, shape.groups, shape.length, shape.depth)
    if shape.values != shape.depth:
        return q, k
    return q, k, normal(shape.batch, shape.groups, shape.length, shape.values)


def attended(torch: Any, values: int, q: Any, k: Any, v: Any = None, *, masked: bool = False) -> Any:
    """Of all queries to all keys, or to those that were there when the query was."""
    v, mask = k[..., :values] if v is None else v, None
    if masked:
        keys, queries = k.shape[2], q.shape[2]
        last = torch.arange(keys - queries, keys, device=q.device)
        mask = torch.arange(keys, device=q.device) <= last[:, None]
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)


def exact(torch: Any, values: int, given: tuple[Any, ...], *, masked: bool) -> Any:
    """In float64, one sequence at a time."""
    return torch.cat([
        attended(torch, values, *(x[i : i + 1].double() for x in given), masked=masked).float()
        for i in range(len(given[0]))
    ])  # fmt: skip


def sides(torch: Any, values: int, queries: int) -> dict[str, tuple[Callable[..., Any], bool]]:
    """Who computes it, and whether with the mask."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def peer(kernel: Any, *args: Any) -> Any:
        with sdpa_kernel(kernel):
            return attended(torch, values, *args)

    found: dict[str, tuple[Callable[..., Any], bool]] = {
        name: (partial(peer, getattr(SDPBackend, kernel)), False) for name, kernel in PEERS.items()
    }
    torch._dynamo.reset()
    settings = {**(settings_of(OURS) or {})}
    settings.pop("mode")  # everybody is recorded below
    for name, masked in ((OURS, False), (MASKED, True)):
        if queries > 1 or not masked:
            function = torch.compile(partial(attended, torch, values, masked=masked), dynamic=False, **settings)
            found[name] = function, masked
    return found


def measure(name: str, queries: int) -> dict[str, Any]:
    """One row."""
    import torch

    shape = SHAPES[name]
    row: dict[str, Any] = {"case": name, "queries": queries, "gpu": torch.cuda.get_device_name(), "notes": []}
    given = operands(torch, shape, queries, "cuda", torch.bfloat16)
    row["bytes"] = sum(x.nbytes for x in given[1:])
    steps: dict[str, Recorded] = {}
    with torch.no_grad():
        asked_for = (False, True)[: 1 + (queries > 1)]
        wanted = {masked: exact(torch, shape.values, given, masked=masked) for masked in asked_for}
        for side, (function, masked) in sides(torch, shape.values, queries).items():
            if side in LAST and steps:
                continue
            try:
                row.setdefault("error", {})[side] = distance([function(*given).float()], [wanted[masked]])
                steps[side] = Recorded(partial(function, *given))
            except Exception as e:  # noqa: BLE001  # the others are worth measuring
                text = str(e).strip().splitlines()
                row["notes"].append(f"{side}: {type(e).__name__}: {text[0][:200] if text else ''}")
        row["copy_tb_s"] = copy_bandwidth(torch)
        row["ms"] = medians(race(twice(steps), TIMING))
    row["bound"] = {side: row["bytes"] / row["copy_tb_s"] / 1e9 / ms for side, ms in row["ms"].items()}
    peers = [ms for side, ms in row["ms"].items() if side in PEERS]
    if OURS in row["ms"] and peers:
        row["ratio"] = min(peers) / row["ms"][OURS]
    return row


def report(row: Mapping[str, Any]) -> str:
    """One line, and what went wrong."""
    text = f"{row['case']}, {row['queries']} queries:"
    for side, ms in row.get("ms", {}).items():
        if AGAIN not in side:
            text += f" {side} {ms * 1e3:.1f} us ({row['bound'][side]:.2f}),"
    text += f" ratio {row['ratio']:.2f}" if "ratio" in row else ""
    return text + "".join(f"\n    {note}" for note in row.get("notes", []))


def of_one(rows: list[dict[str, Any]]) -> None:
    """Adds to a case's rows what they take of the time of one query."""
    one = next((row.get("ms", {}) for row in rows if row["queries"] == 1), {})
    for row in rows:
        ones = {**one, MASKED: one.get(OURS)}
        row["of one"] = {side: ms / ones[side] for side, ms in row.get("ms", {}).items() if ones.get(side)}


def dry() -> bool:
    """Small ones in f32 on the CPU."""
    import torch

    good = True
    for (name, shape), queries in ((case, n) for case in SMALL.items() for n in (1, 3)):
        given = operands(torch, shape, queries, "cpu", torch.float32)
        for side, (function, masked) in sides(torch, shape.values, queries).items():
            if side in (OURS, MASKED):
                error = distance([function(*given)], [exact(torch, shape.values, given, masked=masked)])
                good &= error < 1e-4
                print(f"{name}, {queries} queries, {side}: {error:.1e}")
    return good


def main() -> int:
    """Every case in a process of its own."""
    parser = arguments(__doc__, budget=600, dry=True)
    parser.add_argument("--queries", default="1,2,4,8,16")
    parser.add_argument("--worker", metavar="CASE")
    args = parser.parse_args()
    if args.dry:
        return 0 if dry() else 1
    counts = [int(n) for n in args.queries.split(",")]
    if args.worker:
        print(json.dumps({"rows": [measure(args.worker, n) for n in counts]}))
        return 0
    rows: list[dict[str, Any]] = []
    command = ["benchmarks.cached_attention", "--queries", args.queries, "--worker"]
    cases = (
        ([*command, name], {"rows": [{"case": name, "queries": n} for n in counts]})
        for name in SHAPES
        if asked(name, args.only)
    )
    for found in each_in_a_process(cases, args.budget, 15):
        of_one(found)
        print("\n".join(map(report, found)), flush=True)
        rows += found
        if args.json:
            record.write(args.json, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
