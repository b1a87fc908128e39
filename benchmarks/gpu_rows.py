"""Row kernels by their schedule: `python -m benchmarks.gpu_rows [--only WORDS] [--quick] [--json FILE] [--dry]`.

Softmax and norms with every number of warps a block, rows a block, and cache hints on loads and stores, each as the
compiler makes it but for that one choice; `chosen` is what it makes of its own accord. Every variant is compared with
torch in f64 before it is timed. Timing as in `gpu_timing`, behind a kernel that sleeps until all calls are queued; the
copy of as many bytes is entered twice.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

os.environ["GRAPHFUSE_CACHE"] = "0"

import graphfuse
from benchmarks import record
from benchmarks.gpu_memory import SMALLER, TARGET, Gpu, emulated_error, kernels
from benchmarks.gpu_timing import QUICK, Called, Timing, arguments, asked, medians, race, twice
from benchmarks.memory_cases import Case, cases, host_inputs, softmax
from graphfuse.api import CompiledModel
from graphfuse.blockgen import gpu_reduction

TIMING = Timing(0.0125, 0.025, 5)
LENGTHS = (64, 128, 512, 1024, 2048, 4096, 8192, 16384, 32768)
ELEMENTS = 1 << 26
HINTS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "loads past L1": ((r"\bld\.global(?=[.](?:v\d[.])?[bfsu]\d)", "ld.global.L1::no_allocate"),),
    "streaming stores": ((r"\bst\.global(?=[.](?:v\d[.])?[bfsu]\d)", "st.global.cs"),),
    "streaming both": (
        (r"\bld\.global(?=[.](?:v\d[.])?[bfsu]\d)", "ld.global.cs"),
        (r"\bst\.global(?=[.](?:v\d[.])?[bfsu]\d)", "st.global.cs"),
    ),
}
"""Replacements in PTX."""


@dataclass(frozen=True)
class Variant:
    """One choice instead of the compiler's; 0 or nothing: its own."""

    warps: int = 0
    rows: int = 0
    hint: str = ""

    def __str__(self) -> str:
        if self.warps:
            return f"{self.warps} warps"
        return f"{self.rows} rows" if self.rows else self.hint or "chosen"

    def compiled(self, case: Case, device: str) -> CompiledModel:
        """The model, made with this choice."""
        columns = case.inputs[0][-1]
        with ExitStack() as stack:
            if self.warps:
                stack.enter_context(patch.object(gpu_reduction, "_row_warps", lambda *_: self.warps))
            if self.rows:
                stack.enter_context(patch.object(gpu_reduction, "LEAST_TILE", self.rows * columns))
            model = graphfuse.compile(case.model(), target=TARGET, device=device)
        if not self.hint:
            return model
        executable = model.executable
        code = executable.code[executable.target]
        ptx = code.ptx
        for pattern, by in HINTS[self.hint]:
            ptx = re.sub(pattern, by, ptx)
        assert ptx != code.ptx, "nothing to hint at"
        hinted = replace(executable, code={executable.target: replace(code, ptx=ptx, object=b"")})
        return CompiledModel(hinted, device=device)


def variants(case: Case) -> Iterator[Variant]:
    """All there are for a case."""
    yield Variant()
    columns = case.inputs[0][-1]
    yield from (Variant(warps=w) for w in (1, 2, 4, 8, 16, 32) if 32 * w <= 4 * columns)
    yield from (Variant(rows=r) for r in (1, 2, 4, 8, 16) if r * columns <= 8192)
    yield from (Variant(hint=h) for h in HINTS)


def row_cases(scale: int = 1) -> list[Case]:
    """Softmax at every length, and the norms of `memory_cases`."""
    lines = [softmax(max(4, ELEMENTS // n // scale), n) for n in LENGTHS]
    return lines + [c for c in cases(scale) if "norm" in c.name]


def measure(gpu: Gpu, case: Case, timing: Timing) -> dict[str, Any]:
    """Microseconds of every variant that is right."""
    torch = gpu.torch
    inputs = gpu.tensors(case)
    feed = dict(zip(case.names, inputs, strict=True))
    row: dict[str, Any] = {"case": case.name, "gpu": torch.cuda.get_device_name(), "bytes": case.nbytes, "made": {}}
    calls: dict[str, Any] = {}
    out = gpu.output(case)
    for variant in variants(case):
        try:
            compiled = variant.compiled(case, "cuda")
            out.fill_(float("nan"))
            compiled.session.run(feed, out={"out": out})
            torch.cuda.synchronize()
            error = gpu.error(case, inputs, out)
        except graphfuse.GraphfuseError as e:
            row["made"][str(variant)] = {"error": str(e)}
            continue
        row["made"][str(variant)] = {"error": error, "kernels": kernels(compiled)}
        if error <= case.tolerance:
            calls[str(variant)] = lambda c=compiled: c.session.run(feed, out={"out": out})
    source = torch.randn(case.nbytes // 8, device="cuda")
    target = torch.empty_like(source)
    calls |= twice({"copy": lambda: target.copy_(source)})
    found = race({name: Called(call, asleep=True) for name, call in calls.items()}, timing)
    row["us"] = {name: 1e3 * ms for name, ms in medians(found).items()}
    return row


def report(row: Mapping[str, Any]) -> str:
    """Every variant as a part of the chosen one's speed, the best first."""
    us = row["us"]
    chosen = us.get("chosen", float("nan"))
    order = sorted((n for n in us if not n.startswith("copy")), key=lambda n: us[n])
    wrong = [n for n, made in row["made"].items() if n not in us]
    text = f"{row['case']:30s} chosen {chosen:8.1f} us, to copy {us['copy'] / chosen:.3f}: "
    text += ", ".join(f"{n} {chosen / us[n]:.3f}" for n in order if n != "chosen")
    return text + (f"; NOT RIGHT: {', '.join(wrong)}" if wrong else "")


def dry(words: list[str]) -> bool:
    """Every variant of small cases on the emulator."""
    import torch

    good = True
    for case in row_cases(SMALLER):
        if asked(case.name, words):
            for variant in variants(case):
                compiled = variant.compiled(case, "emulator")
                error = emulated_error(case, compiled.session, torch, host_inputs(case))
                good = good and error <= case.tolerance
                threads = [k["threads"] for k in kernels(compiled)]
                print(f"{case.name:30s} {variant!s:18s} {threads} threads, error {error:.1e}")
    return good


def main() -> int:
    """See the module."""
    args = arguments(__doc__, budget=300, dry=True).parse_args()
    if args.dry:
        return 0 if dry(args.only) else 1
    until = time.perf_counter() + args.budget
    gpu = Gpu()
    rows: list[dict[str, Any]] = []
    for case in row_cases():
        if asked(case.name, args.only) and time.perf_counter() < until:
            rows.append(measure(gpu, case, QUICK if args.quick else TIMING))
            print(report(rows[-1]), flush=True)
            gpu.torch.cuda.empty_cache()
            if args.json:
                record.write(args.json, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
