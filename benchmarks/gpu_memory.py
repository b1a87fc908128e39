"""Memory-bound kernels on a GPU, against torch eager, Inductor, Triton and a plain copy, in the same rounds.

    python benchmarks/gpu_memory.py [--quick] [--only WORDS] [--numerics fast] [--json FILE]
    python benchmarks/gpu_memory.py --dry        no GPU: compile everything, run small ones on the emulator

Tensors are torch's on the GPU, outputs preallocated. Timing as in `gpu_timing`, behind a kernel that sleeps until all
calls are queued, so that only the GPU counts. Bandwidth counts each tensor once; the copy is entered twice. Ours is
compared with torch in f64 before it is timed, its output filled with NaN before that.
"""

from __future__ import annotations

import os
import re
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ["GRAPHFUSE_CACHE"] = "0"

import graphfuse
from benchmarks import record
from benchmarks.gpu_timing import QUICK, Call, Called, Timing, arguments, asked, elapsed, medians, race, twice
from benchmarks.memory_cases import Case, cases, host_inputs
from graphfuse.gpu.emulator.driver import EmulatedDriver
from graphfuse.runtime.gpu.session import GpuSession

TARGET = "cuda:sm_90a"
SMALLER = 4096
"""How much smaller the cases are that the emulator runs."""
PIECE = 1 << 26
"""Elements that are compared at a time."""
TIMING = Timing(0.0125, 0.025, 5)


# on the GPU


class Gpu:
    """torch, and what cases look like there."""

    def __init__(self) -> None:
        import torch

        self.torch = torch

    def tensors(self, case: Case) -> list[Any]:
        """Random normal inputs."""
        torch = self.torch
        torch.manual_seed(record.SEED)
        dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[case.elem]
        return [torch.randn(s, device="cuda", dtype=dtype) for s in case.inputs]

    def output(self, case: Case) -> Any:
        """Poisoned."""
        torch = self.torch
        if case.result == "i64":
            return torch.full(case.out, -1, device="cuda", dtype=torch.int64)
        dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[case.result]
        return torch.full(case.out, float("nan"), device="cuda", dtype=dtype)

    def error(self, case: Case, inputs: Sequence[Any], out: Any) -> float:
        """The largest difference from f64 over the largest element; for positions, the part that is wrong."""
        if case.result == "i64":
            return self._wrong(case, inputs[0], out)
        pieces = [(inputs, out)]
        if case.pointwise:
            split = [x.split(PIECE) for x in inputs]
            pieces = [(p, o) for *p, o in zip(*split, out.split(PIECE), strict=True)]
        worst = scale = 0.0
        for given, got in pieces:
            want = case.torch(self.torch, *(x.double() for x in given))
            difference = (got.double() - want).abs().max().item()
            worst = difference if difference != difference else max(worst, difference)
            if worst != worst:
                return worst
            scale = max(scale, want.abs().max().item())
        return worst / scale

    def _wrong(self, case: Case, x: Any, out: Any) -> float:
        want = case.torch(self.torch, x)
        axis = 1 if out.shape[0] == x.shape[0] and self.torch.equal(want, x.argmax(1)) else 0
        inside = (out >= 0) & (out < x.shape[axis])
        found = x.gather(axis, out.clamp(0, x.shape[axis] - 1).unsqueeze(axis)).squeeze(axis)
        return 1.0 - (inside & (found == x.amax(axis))).double().mean().item()


def measure(gpu: Gpu, case: Case, numerics: str, timing: Timing, deadline: float) -> dict[str, Any]:
    """One row of the table."""
    torch = gpu.torch
    gpu_name = torch.cuda.get_device_name()
    row: dict[str, Any] = {"case": case.name, "gpu": gpu_name, "numerics": numerics, "bytes": case.nbytes, "notes": []}
    inputs = gpu.tensors(case)
    contestants: dict[str, Call] = {}
    try:
        start = time.perf_counter()
        compiled = graphfuse.compile(case.model(), target=TARGET, device="cuda", numerics=numerics)
        row["compile_s"] = time.perf_counter() - start
        row["kernels"] = kernels(compiled)
        out = gpu.output(case)
        feed = dict(zip(case.names, inputs, strict=True))
        compiled.session.run(feed, out={"out": out})
        torch.cuda.synchronize()
        row["error"] = gpu.error(case, inputs, out)
        row["ok"] = row["error"] <= case.tolerance
        contestants["ours"] = lambda: compiled.session.run(feed, out={"out": out})
    except graphfuse.GraphfuseError as e:
        row["ok"] = False
        row["notes"].append(f"ours: {e}")
    torch.cuda.empty_cache()
    contestants["eager"] = lambda: case.torch(torch, *inputs)
    contestants |= _inductor(gpu, case, inputs, deadline, row)
    if case.softmax:
        contestants |= _triton(gpu, inputs[0], row)
    source = torch.randn(case.nbytes // 8, device="cuda")
    copy = torch.empty_like(source)
    contestants |= twice({"copy": lambda: copy.copy_(source)})
    racing = {name: Called(call, asleep=True) for name, call in contestants.items()}
    us = {name: 1e3 * ms for name, ms in medians(race(racing, timing)).items()}
    row["us"] = us
    row["tb_per_s"] = {name: case.nbytes / t * 1e-6 for name, t in us.items()}
    peers = {name: t for name, t in us.items() if name != "ours" and not name.startswith("copy")}
    row["best"] = min(peers, key=lambda name: peers[name])
    if "ours" in us:
        row["ratio"] = peers[row["best"]] / us["ours"]
        row["ratio_to_copy"] = us["copy"] / us["ours"]
    return row


def _inductor(gpu: Gpu, case: Case, inputs: Sequence[Any], deadline: float, row: dict[str, Any]) -> dict[str, Call]:
    torch = gpu.torch
    if time.perf_counter() > deadline:
        row["notes"].append("inductor: no time left to compile")
        return {}
    try:
        torch._dynamo.reset()  # its public way to forget what was compiled before
        start = time.perf_counter()
        compiled = torch.compile(lambda *xs: case.torch(torch, *xs), dynamic=False)
        compiled(*inputs)
        torch.cuda.synchronize()
        row["inductor_compile_s"] = time.perf_counter() - start
    except Exception as e:  # noqa: BLE001  # a compiler that is missing fails in many ways
        row["notes"].append(f"inductor: {type(e).__name__}: {str(e).strip().splitlines()[0][:120] if str(e) else ''}")
        return {}
    return {"inductor": lambda: compiled(*inputs)}


def _triton(gpu: Gpu, x: Any, row: dict[str, Any]) -> dict[str, Call]:
    """The best of several numbers of warps."""
    try:
        from benchmarks.triton_softmax import softmaxes

        out = gpu.torch.empty_like(x)
        found = softmaxes(x, out)
        if not found:
            row["notes"].append("triton: the row is too long for one block")
            return {}
        times: dict[int, float] = {}
        for warps, call in found.items():
            elapsed(call, 3)
            times[warps] = elapsed(call, 10, asleep=True)
        row["triton_warps"] = min(times, key=lambda w: times[w])
        return {"triton": found[row["triton_warps"]]}
    except Exception as e:  # noqa: BLE001  # a compiler that is missing fails in many ways
        row["notes"].append(f"triton: {type(e).__name__}: {str(e).strip().splitlines()[0][:120] if str(e) else ''}")
        return {}


def report(row: dict[str, Any]) -> str:
    """One line."""
    us, speed = row["us"], row["tb_per_s"]
    text = f"{row['case']:28s}"
    for name in ("ours", "eager", "inductor", "triton", "copy"):
        text += f" {us[name]:8.1f} {speed[name]:5.2f}" if name in us else f" {'-':>8s} {'-':>5s}"
    text += f"  {row.get('ratio', 0):5.3f} {row['best']:8s} {row.get('ratio_to_copy', 0):5.3f}"
    text += f"  {row['error']:.1e}" if "error" in row else "  no result"
    return text + ("" if row["ok"] else " WRONG") + "".join(f"\n    {note}" for note in row["notes"])


# anywhere


def kernels(compiled: graphfuse.CompiledModel) -> list[dict[str, Any]]:
    """What each kernel takes of the machine, and how wide its accesses are."""
    executable = compiled.executable
    (code,) = executable.code.values()
    found: list[dict[str, Any]] = []
    for k in executable.kernels:
        if k.launch is None:
            continue
        body = re.search(rf"\.entry {re.escape(k.name)}\b(.*?)(?=\.entry |\Z)", code.ptx, re.S)
        found.append(
            {
                "name": k.name,
                "threads": k.launch.threads,
                "registers": k.launch.registers,
                "spills": k.launch.spill_bytes,
                "accesses": accesses(body[1] if body else ""),
            }
        )
    return found


def accesses(ptx: str) -> dict[str, int]:
    """How often an access of each width stands in the text, and barriers."""
    found: dict[str, int] = {}
    for guard, kind, vector, bits in re.findall(r"(@\S+\s+)?\b(ld|st)\.global(?:\.\w+)*?(\.v\d)?\.[a-z](\d+)", ptx):
        width = int(bits) * int(vector[2:] or 1 if vector else 1)
        name = f"{'predicated ' if guard else ''}{kind}{width}"
        found[name] = found.get(name, 0) + 1
    if barriers := len(re.findall(r"\bbar\.sync", ptx)):
        found["barriers"] = barriers
    return found


def dry(words: Sequence[str], numerics: str) -> bool:
    """Compile every case; run small ones on the emulator against torch on the CPU."""
    import torch

    good = True
    for case, small in zip(cases(), cases(SMALLER), strict=True):
        if not asked(case.name, words):
            continue
        start = time.perf_counter()
        compiled = graphfuse.compile(case.model(), target=TARGET, numerics=numerics)
        seconds = time.perf_counter() - start
        print(f"{case.name:28s} compiled in {seconds:.2f} s")
        for k in kernels(compiled):
            widths = ", ".join(f"{n} {name}" for name, n in sorted(k["accesses"].items()))
            takes = f"{k['threads']} threads, {k['registers']} registers, {k['spills']} bytes spilled"
            print(f"    {k['name']}: {takes}; {widths}")
            good = good and k["spills"] <= 0
        error, wasted = _emulated(small, numerics, torch)
        shape = " x ".join(map(str, small.inputs[0]))
        print(f"    {shape} on the emulator: error {error:.1e}{''.join(wasted)}")
        good = good and error <= small.tolerance
    return good


def _emulated(case: Case, numerics: str, torch: Any) -> tuple[float, list[str]]:
    """The error, and accesses that take more sectors or wavefronts than their bytes need."""
    feed = host_inputs(case)
    compiled = graphfuse.compile(case.model(), target=TARGET, numerics=numerics)
    driver = EmulatedDriver(TARGET.partition(":")[2])
    with GpuSession(compiled.executable, driver) as session:
        error = emulated_error(case, session, torch, feed)
    wasted = [
        f"\n    {t.per_request:.2f} for {t.ideal / t.requests:.2f}: {t.text}"
        for _, report in driver.reports
        for t in (*report.uncoalesced, *report.conflicts)
    ]
    return error, wasted


def emulated_error(case: Case, session: GpuSession, torch: Any, feed: Mapping[str, np.ndarray]) -> float:
    """As `Gpu.error`, of what a session on the emulator gives."""
    got = np.asarray(session.run(dict(feed))["out"]).astype(np.float64)
    want = case.torch(torch, *(torch.from_numpy(x.astype(np.float64)) for x in feed.values())).numpy()
    if case.result == "i64":
        return float((got != want).mean())
    return float(np.abs(got - want).max() / np.abs(want).max())


def main() -> int:
    """Measure, or check without a GPU."""
    parser = arguments(__doc__, budget=240, dry=True)
    parser.add_argument("--numerics", default="eager", choices=("strict", "eager", "fast"))
    args = parser.parse_args()
    if args.dry:
        return 0 if dry(args.only, args.numerics) else 1
    gpu = Gpu()
    timing = QUICK if args.quick else TIMING
    deadline = time.perf_counter() + args.budget
    print(f"{gpu.torch.cuda.get_device_name()}; microseconds and TB/s; ratio to the best peer and to a copy")
    names = ("ours", "eager", "inductor", "triton", "copy")
    print(f"{'':28s}" + "".join(f" {n:>14s}" for n in names) + "  ratio best     copy   error")
    rows: list[dict[str, Any]] = []
    for case in cases():
        if asked(case.name, args.only):
            rows.append(measure(gpu, case, args.numerics, timing, deadline))
            print(report(rows[-1]), flush=True)
            gpu.torch.cuda.empty_cache()
            if args.json:  # what there is, should the time run out
                record.write(args.json, rows)
    ratios = [row["ratio"] for row in rows if "ratio" in row]
    if ratios:
        print(f"geomean {statistics.geometric_mean(ratios):.3f}, least {min(ratios):.3f}")
    return 0 if all(row["ok"] for row in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
