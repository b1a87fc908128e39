"""Attention of the compiler on an H200 beside FlashAttention-2, cuDNN (both torch's) and Triton.

    python -m benchmarks.gpu_attention [--sweep] [--only WORDS] [--quick] [--json FILE]

Rates count what a causal mask leaves. Kernels are the compiler's, from a graph, with the tile of its choice; `--sweep`
adds others. Every kernel is compared with float64 before it is timed. Methods as in `gpu_gemm`.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any
from unittest.mock import patch

from benchmarks import record
from benchmarks.attention_regions import Attention, compiled
from benchmarks.gpu_race import COMPILER, Heard, compile_each, compile_text, count, gpu_of, work
from benchmarks.gpu_timing import QUICK, SUSTAINED, arguments, asked, ptxas
from graphfuse.blockgen import gpu_attention_tile
from graphfuse.blockgen.gpu_attention_tile import AttentionTile
from graphfuse.ir.core import Func
from graphfuse.ir.printer import to_text

CASES = {
    "b4 h32 s4096 d128": Attention(4, 32, 4096, 4096, 128),
    "b4 h32 s4096 d128 causal": Attention(4, 32, 4096, 4096, 128, causal=True),
    "b4 h32 s4096 d64": Attention(4, 32, 4096, 4096, 64),
    "b4 h32 s4096 d64 causal": Attention(4, 32, 4096, 4096, 64, causal=True),
    "b8 h12 s512 d64": Attention(8, 12, 512, 512, 64),
    "b8 h12 s512 d64 causal": Attention(8, 12, 512, 512, 64, causal=True),
    "b4 h12 s512 d64 causal packed": Attention(4, 12, 512, 512, 64, causal=True, layout="packed"),
}
SILENCE = 30.0
"""Seconds without a word after which the worker is taken to hang: Triton tries its kernels in silence."""


@dataclass(frozen=True, slots=True)
class Variant:
    """What differs from the compiler's choice: fields of its tile, attributes of the function."""

    tile: tuple[tuple[str, int], ...] = ()
    attrs: tuple[tuple[str, int], ...] = ()


_PAIR = (("rows", 128), ("keys", 128), ("resident", 1))
VARIANTS = {
    COMPILER: Variant(),
    "pair": Variant((*_PAIR, ("turns", 0), ("persistent", 0), ("query_words", 0))),
    "pair words": Variant((*_PAIR, ("turns", 0), ("persistent", 0), ("query_words", 1))),
    "pair turns": Variant((*_PAIR, ("turns", 1), ("persistent", 1), ("query_words", 0))),
    "pair persistent": Variant((*_PAIR, ("turns", 0), ("persistent", 1), ("query_words", 0))),
    "pair persistent words": Variant((*_PAIR, ("turns", 0), ("persistent", 1), ("query_words", 1))),
    "pair turns words": Variant((*_PAIR, ("turns", 1), ("persistent", 1), ("query_words", 1))),
    "single": Variant((("rows", 64), ("resident", 2), ("persistent", 0), ("query_words", 0))),
    "single persistent": Variant((("rows", 64), ("resident", 2), ("persistent", 2), ("query_words", 0))),
    "single words": Variant((("rows", 64), ("resident", 2), ("persistent", 0), ("query_words", 1))),
}


def block_text(attention: Attention, variant: Variant) -> str:
    """The block function."""
    choose = gpu_attention_tile.attention_tiles

    def tiles(*args: Any) -> list[AttentionTile]:
        return [replace(choose(*args)[0], **dict(variant.tile))]

    with patch.object(gpu_attention_tile, "attention_tiles", tiles):
        func, _ = compiled(attention)
    return to_text(Func(func.name, func.body, {**func.attrs, **dict(variant.attrs)}, func.dims))


def compile_one(attention: Attention, label: str, folder: str, assembler: str) -> dict[str, Any]:
    """How to launch a kernel."""
    return {"label": label, **compile_text(block_text(attention, VARIANTS[label]), folder, assembler)}


def jobs_of(only: list[str], labels: list[str], folder: str, assembler: str) -> Iterator[dict[str, Any]]:
    """For the worker."""
    cases = {name: a for name, a in CASES.items() if asked(name, only)}
    for name, attention, made in compile_each(list(cases.items()), labels, compile_one, folder, assembler):
        kernels: list[dict[str, Any]] = []
        for spec in made:
            if not spec["is_wgmma"] or "C75" in spec["log"]:
                what = "serialised" if spec["is_wgmma"] else "declined"
                print(f"{name} {spec['label']}: {what} {spec['log'][:200]}")
            if spec["is_wgmma"] and not any(k["image"] == spec["image"] for k in kernels):
                kernels.append(spec)
        yield {"name": name, **asdict(attention), "flops": attention.flops, "kernels": kernels}


def rows_of(said: list[dict[str, Any]], jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for each job."""
    out: list[dict[str, Any]] = []
    for job in jobs:
        heard = Heard.of(said, job)
        if not heard.results:  # no time was left
            continue
        ours = [
            {
                **heard.entry(k["label"]),
                **{f: heard.kernels.get(k["label"], {}).get(f) for f in ("error", "registers", "local")},
                **{f: k[f] for f in ("compile_s", "assemble_s", "log")},
            }
            for k in job["kernels"]
        ]
        mine = [r for r in said if r.get("job") == job["name"]]
        notes = [r["note"] for r in mine if "note" in r] + [f"failed: {r['failed']}" for r in mine if "failed" in r]
        row = {"job": job["name"], "gpu": gpu_of(said), "chosen": COMPILER, "peers": heard.peers}
        out.append({**row, "ours": ours, "notes": notes})
    return out


def main() -> None:
    """See the module."""
    parser = arguments(__doc__, budget=300)
    parser.add_argument("--sweep", action="store_true", help="other tiles and schedules too")
    parser.add_argument("--assembler", default=ptxas(), help="ptxas; none: the driver compiles")
    args = parser.parse_args()
    until = time.monotonic() + args.budget
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        labels = list(VARIANTS) if args.sweep else [COMPILER]
        jobs = list(jobs_of(args.only, labels, folder, args.assembler))
        print(f"{count(jobs)} kernels compiled in {time.perf_counter() - begun:.0f} s")
        jobs = [{**j, "few_peers": args.quick} for j in jobs]
        said = work(jobs, QUICK if args.quick else SUSTAINED, folder, until, ("benchmarks.attention_worker",), SILENCE)
    rows = rows_of(said, jobs)
    for row in rows:
        for note in row["notes"]:
            print(f"{row['job']}: {note}")
    if args.json:
        record.write(args.json, rows)


if __name__ == "__main__":
    main()
