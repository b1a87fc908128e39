"""Row kernels by their schedule: `python -m benchmarks.gpu_rows [--only WORDS] [--quick] [--json FILE] [--dry]`.

Softmax, norms and sums with every number of warps a block, of blocks that are to fit a multiprocessor, of rows a block
and of parts of a sum; with and without the instructions that let launches overlap (PDL), with cache hints on loads and
stores, with `--numerics fast`, and launched without a graph. Each is as the compiler makes it but for what its name
says (`4 warps x 5`: five blocks fit; without PDL); `chosen` is what it makes of its own accord. Peers: Triton and
`models/kernels/softmax.tc` by warps, Inductor. Every variant is compared with torch in f64 before it is timed. Timing
as in `gpu_timing`, behind a kernel that sleeps until all calls are queued; the copy of as many bytes is entered twice.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

os.environ["GRAPHFUSE_CACHE"] = "0"

import graphfuse
from benchmarks import record
from benchmarks.gpu_memory import SMALLER, TARGET, Gpu, emulated_error, kernels
from benchmarks.gpu_timing import QUICK, Call, Called, Timing, arguments, asked, medians, race, twice
from benchmarks.memory_cases import Case, cases, host_inputs, softmax
from graphfuse.api import CompiledModel
from graphfuse.artifact import Launch
from graphfuse.blockgen import gpu_reduction
from graphfuse.fusion.products import split_long_sums
from graphfuse.runtime.gpu.session import GpuSession

TIMING = Timing(0.0125, 0.025, 5)
LENGTHS = (64, 128, 512, 1024, 2048, 4096, 8192, 16384, 32768)
ELEMENTS = 1 << 26
REGISTERS, THREADS, BLOCKS = 65536, 2048, 32
"""Of a multiprocessor."""
REGISTERS_OF = {64: (128, 96, 80), 32: (0, 64, 48), 16: (0, 40, 32), 8: (0,), 4: (0,)}
"""Elements a thread, and registers that it is given for them; 0: as many as it likes."""
PARTS = (256, 512, 1024, 2048, 8192)
"""Of a sum."""
_LOADS, _STORES = (rf"\b{op}\.global(?=[.](?:v\d[.])?[bfsu]\d)" for op in ("ld", "st"))
HINTS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "no wait": ((r"griddepcontrol\.wait;", ""),),
    "no trigger": ((r"griddepcontrol\.launch_dependents;", ""),),
    "no PDL": ((r"griddepcontrol\.\w+;", ""),),
    "loads past L1": ((_LOADS, "ld.global.L1::no_allocate"),),
    "streaming stores": ((_STORES, "st.global.cs"),),
    "streaming both": ((_LOADS, "ld.global.cs"), (_STORES, "st.global.cs")),
}
"""Replacements in PTX."""


@dataclass(frozen=True)
class Variant:
    """Choices instead of the compiler's; 0 or nothing: its own."""

    warps: int = 0
    resident: int = 0
    rows: int = 0
    parts: int = 0
    hint: str = ""
    numerics: str = "eager"
    graph: bool = True

    def __str__(self) -> str:
        words = [f"{n} {what}" for n, what in ((self.parts, "parts"), (self.warps, "warps"), (self.rows, "rows")) if n]
        words += [f"x {self.resident}"] if self.resident else []
        words += [self.hint] if self.hint and not self.warps else []
        words += [self.numerics] if self.numerics != "eager" else []
        return " ".join(words + ([] if self.graph else ["no graph"])) or "chosen"

    def compiled(self, case: Case, device: str) -> CompiledModel:
        """The model, made with this choice."""
        columns = case.inputs[0][-1]
        block = {"warps": self.warps} | ({"resident": self.resident} if self.resident else {})
        dividing = split_long_sums._parts
        with ExitStack() as stack:
            if self.warps:
                stack.enter_context(patch.object(gpu_reduction, "_row_block", lambda *_: block))
                stack.enter_context(patch.object(gpu_reduction, "warps_for", lambda *_: self.warps))
            if self.rows:
                stack.enter_context(patch.object(gpu_reduction, "LEAST_TILE", self.rows * columns))
            if self.parts:
                most = lambda n, _, least: dividing(n, self.parts, least)  # noqa: E731
                stack.enter_context(patch.object(split_long_sums, "_parts", most))
            model = graphfuse.compile(case.model(), target=TARGET, device=device, numerics=self.numerics)
        if not self.hint:
            return model
        executable = model.executable
        code = executable.code[executable.target]
        ptx = code.ptx
        for pattern, by in HINTS[self.hint]:
            ptx = re.sub(pattern, by, ptx)
        if ptx == code.ptx:  # there is nothing of the kind
            return model
        made = tuple(k if k.launch is None else replace(k, launch=_alone(k.launch, ptx)) for k in executable.kernels)
        hinted = replace(executable, kernels=made, code={executable.target: replace(code, ptx=ptx, object=b"")})
        return CompiledModel(hinted, device=device)


def _alone(launch: Launch, ptx: str) -> Launch:
    """The launch, not overlapping with others if kernels do not wait for them."""
    return replace(launch, overlaps=launch.overlaps and "griddepcontrol.wait" in ptx)


def variants(case: Case) -> Iterator[Variant]:
    """All there are for a case."""
    yield Variant()
    yield Variant(graph=False)
    yield from (Variant(hint=h) for h in HINTS)
    columns = case.inputs[0][-1]
    if len(case.inputs[0]) == 1:
        yield from (Variant(parts=p) for p in PARTS)
        yield from (Variant(parts=p, warps=w) for p in PARTS[:3] for w in (4, 8))
        return
    yield Variant(numerics="fast", hint="no PDL")
    yield from blocks(columns)
    yield from (Variant(rows=r) for r in (1, 2, 4, 8, 16) if columns <= 512 or 1 < r <= 4096 // columns)


def blocks(columns: int) -> Iterator[Variant]:
    """Warps a block, and blocks that must find room on a multiprocessor: its registers over those of a block."""
    for each, sizes in REGISTERS_OF.items():
        threads = columns // each
        if not 32 <= threads <= 1024:
            continue
        counts = dict.fromkeys(min(REGISTERS // (threads * n), THREADS // threads, BLOCKS) if n else 0 for n in sizes)
        yield from (Variant(threads // 32, count, hint="no PDL") for count in counts)


def row_cases(scale: int = 1) -> list[Case]:
    """Softmax at every length, and the norms and sums of `memory_cases`."""
    lines = [softmax(max(4, ELEMENTS // n // scale), n) for n in LENGTHS]
    return lines + [c for c in cases(scale) if "norm" in c.name or c.name in ("sum f32", "row sums f32")]


def peers(gpu: Gpu, case: Case, x: Any, out: Any, inputs: list[Any]) -> dict[str, Call]:
    """Who else can do it."""
    torch = gpu.torch
    compiled = torch.compile(lambda *xs: case.torch(torch, *xs), dynamic=False)
    found: dict[str, Call] = {"inductor": lambda: compiled(*inputs)}
    if not case.softmax:
        return found
    from benchmarks.triton_softmax import softmaxes

    found |= {f"triton {w} warps": call for w, call in softmaxes(x, out).items()}
    rows, columns = x.shape
    file = Path(__file__).parent.parent / "models" / "kernels" / "softmax.tc"
    for warps in (columns // 2048, columns // 1024):
        if 1 <= warps <= 32:
            kernel = graphfuse.kernel(file, TYPE="float", BLOCK=columns, num_warps=warps)
            found[f"tc {warps} warps"] = lambda k=kernel: k.launch(rows, (x, out, columns, columns, columns))
    return found


def measure(gpu: Gpu, case: Case, timing: Timing, leaving: Sequence[str] = ()) -> dict[str, Any]:
    """Microseconds of every variant that is right."""
    torch = gpu.torch
    inputs = gpu.tensors(case)
    feed = dict(zip(case.names, inputs, strict=True))
    row: dict[str, Any] = {"case": case.name, "gpu": torch.cuda.get_device_name(), "bytes": case.nbytes, "made": {}}
    calls: dict[str, Any] = {}
    out = gpu.output(case)
    for variant in variants(case):
        if any(word in str(variant) for word in leaving):
            continue
        try:
            compiled = variant.compiled(case, "cuda")
            session = compiled.session
            if not variant.graph:
                session = GpuSession(compiled.executable, session._driver, graphs=False)
            out.fill_(float("nan"))
            session.run(feed, out={"out": out})
            torch.cuda.synchronize()
            error = gpu.error(case, inputs, out)
        except graphfuse.GraphfuseError as e:
            row["made"][str(variant)] = {"error": str(e)}
            continue
        row["made"][str(variant)] = {"error": error, "kernels": kernels(compiled)}
        if error <= case.tolerance:
            calls[str(variant)] = lambda s=session: s.run(feed, out={"out": out})
    calls |= peers(gpu, case, inputs[0], out, inputs)
    source = torch.randn(case.nbytes // 8, device="cuda")
    target = torch.empty_like(source)
    calls |= twice({"copy": lambda: target.copy_(source)})
    found = race({name: Called(call, asleep=True) for name, call in calls.items()}, timing)
    row["us"] = {name: 1e3 * ms for name, ms in medians(found).items()}
    return row


def report(row: Mapping[str, Any]) -> str:
    """Microseconds of everyone, the fastest first."""
    us = row["us"]
    order = sorted((n for n in us if n != "chosen"), key=lambda n: us[n])
    wrong = [n for n, made in row["made"].items() if n not in us]
    text = f"{row['case']:24s} chosen {us.get('chosen', float('nan')):.1f}; "
    text += ", ".join(f"{n} {us[n]:.1f}" for n in order)
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
                takes = [(k["threads"], k["registers"], k["spills"]) for k in kernels(compiled)]
                print(f"{case.name:30s} {variant!s:20s} threads, registers, spills {takes}, error {error:.1e}")
    return good


def main() -> int:
    """See the module."""
    parser = arguments(__doc__, budget=300, dry=True)
    parser.add_argument("--without", type=lambda s: s.split(","), default=[], help="no variants with one of these")
    args = parser.parse_args()
    if args.dry:
        return 0 if dry(args.only) else 1
    until = time.perf_counter() + args.budget
    gpu = Gpu()
    rows: list[dict[str, Any]] = []
    for case in row_cases():
        if asked(case.name, args.only) and time.perf_counter() < until:
            rows.append(measure(gpu, case, QUICK if args.quick else TIMING, args.without))
            print(report(rows[-1]), flush=True)
            gpu.torch.cuda.empty_cache()
            if args.json:
                record.write(args.json, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
