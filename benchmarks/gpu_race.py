"""Kernels of the compiler beside peers on a GPU: compiled in parallel processes, run and timed in another.

The worker is started again, without the kernel at fault, when one fails or hangs. It reads jobs from a file and prints
lines of JSON (`gemm_worker`). A job is a dict with a `name`, `kernels` (what `compile_text` gives and a `label`), and
what its worker wants to know besides.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.gpu_timing import QUICK, SUSTAINED, Timing
from graphfuse.ir.core import Func
from graphfuse.ir.types import Tile

T = TypeVar("T")
COMPILER = "compiler"
"""The kernel that the compiler makes, tile and all."""
ATTRS = ("schedule", "persistent", "split", "share", "ring", "store_buffers", "warps", "stages", "prefetch")
TARGET = "cuda:sm_90a"
PREPARING = 0.5
"""Share of the budget that is not timing."""
SILENCE = 60.0
"""Seconds without a word after which the worker is taken to hang."""


# compiling


def compile_text(code: str, folder: str, assembler: str, m: int = 0, arch: str = TARGET) -> dict[str, Any]:
    """A block function to PTX, to a cubin if there is an assembler, and how to launch it."""
    from graphfuse.gpu.lower import emit_ptx, lower
    from graphfuse.gpu.pipeline import transformed
    from graphfuse.ir.parser import parse
    from graphfuse.symbolic import evaluate
    from graphfuse.targets import Target

    target = Target.parse(arch)
    begun = time.perf_counter()
    func = transformed(parse(code), target)
    lowered = lower([func], target)
    ptx = emit_ptx(lowered).rstrip("\0\n") + "\n"
    seconds = time.perf_counter() - begun
    (kernel,) = lowered.kernels
    stem = Path(folder) / f"{abs(hash(code)):x}"
    image = stem.with_suffix(".ptx")
    image.write_text(ptx, encoding="utf-8")
    log = ""
    if assembler:
        cubin = stem.with_suffix(".cubin")
        command = [assembler, "-arch=sm_90a", "-v", str(image), "-o", str(cubin)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        log = "\n".join(s for s in (done.stdout + done.stderr).splitlines() if "C7" in s or "spill" in s or "err" in s)
        image = cubin
    return {
        "name": kernel.name,
        "image": str(image),
        "log": log,
        "is_wgmma": "wgmma.mma_async" in ptx,
        "compile_s": seconds,
        "assemble_s": time.perf_counter() - begun - seconds,
        "threads": kernel.threads,
        "shared_bytes": kernel.shared_bytes,
        "grid": evaluate(kernel.grid, {"m": m}),
        "persistent": kernel.persistent,
        "split": kernel.split,
        "cluster": kernel.cluster,
        "flags": kernel.flags,
        "scratch_bytes": evaluate(kernel.scratch_bytes, {"m": m}),
        "attrs": {k: v for k, v in func.attrs.items() if k in ATTRS},
        "tile": _tile(func),
        "stages": [op.attrs["count"] for op in func.walk() if op.kind.name == "gpu.barriers"][:1],
        "tensor_maps": [
            {
                **asdict(t),
                "offset": evaluate(t.offset, {"m": m}),
                "dims": [evaluate(d, {"m": m}) for d in t.dims],
                "strides": [evaluate(s, {"m": m}) for s in t.strides],
            }
            for t in kernel.tensor_maps
        ],
    }


def _tile(func: Func) -> str:
    """The tile of a function, as text."""
    op = next((op for op in func.walk() if op.kind.name in ("gpu.wgmma", "block.dot")), None)
    tile = op.result.type if op else None
    return "x".join(map(str, tile.shape)) if isinstance(tile, Tile) else ""


def compile_each(
    jobs: Sequence[tuple[str, T]], labels: Sequence[str], compile_one: Callable[..., dict[str, Any]], *rest: Any
) -> Iterator[tuple[str, T, list[dict[str, Any]]]]:
    """Every job with `compile_one(job, label, *rest)` of all labels; those that do not compile are left out."""
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        tasks = [(name, job, {t: pool.submit(compile_one, job, t, *rest) for t in labels}) for name, job in jobs]
        for name, job, futures in tasks:
            done: list[dict[str, Any]] = []
            for label, future in futures.items():
                try:
                    done.append(future.result())
                except Exception as e:  # noqa: BLE001  # one kernel less, and its reason in the output
                    print(f"{name} {label}: {type(e).__name__}: {str(e)[:300]}", flush=True)
            yield name, job, done


def show_compiled(jobs: Sequence[dict[str, Any]], seconds: float, assembler: str) -> None:
    """How many there are, and what the assembler had to say of them."""
    print(f"{count(jobs)} kernels compiled in {seconds:.0f} s, by {assembler or 'the driver'}")
    for job in jobs:
        for k in job["kernels"]:
            if k["log"] and ("C7" in k["log"] or "0 bytes spill stores, 0 bytes spill loads" not in k["log"]):
                print(f"{job['name']} {k['label']}: {k['log'][:300]}")


def count(jobs: Sequence[dict[str, Any]]) -> int:
    """How many kernels they have."""
    return sum(len(j["kernels"]) for j in jobs)


# running


def run(
    jobs: Sequence[dict[str, Any]], args: argparse.Namespace, folder: str, until: float, peers: int, worker: str
) -> list[dict[str, Any]]:
    """Everything a worker said of jobs with so many peers, one less with `--quick`; rounds fit into the budget."""
    timing = fitted(QUICK if args.quick else SUSTAINED, count(jobs) + len(jobs) * (peers - args.quick), args.budget)
    return work([{**j, "few_peers": args.quick} for j in jobs], timing, folder, until, (worker,))


def fitted(timing: Timing, contestants: int, seconds: float) -> Timing:
    """The same, shorter if so many contestants would take longer."""
    needed = contestants * timing.rounds * (timing.warm + timing.seconds)
    share = min(1.0, seconds * (1 - PREPARING) / max(needed, 1e-9))
    return replace(timing, warm=timing.warm * share, seconds=timing.seconds * share)


def work(
    jobs: list[dict[str, Any]],
    timing: Timing,
    folder: str,
    until: float,
    worker: Sequence[str],
    silence: float = SILENCE,
) -> list[dict[str, Any]]:
    """Everything the worker said. A kernel that fails or hangs is taken out and the worker started again."""
    said: list[dict[str, Any]] = []
    pending = list(jobs)
    while pending and time.monotonic() < until:
        path = Path(folder) / "jobs.json"
        path.write_text(json.dumps({"timing": timing.fields(), "jobs": pending}), encoding="utf-8")
        command = [sys.executable, "-m", *worker, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, bufsize=1) as process:
            trying = _listen(process, said, pending, until, silence)
            process.kill()
        if not pending or time.monotonic() >= until:
            break
        if trying is None:
            raise SystemExit("the worker ended before its first kernel")
        print(f"{pending[0]['name']} {trying}: failed or hung", flush=True)
        said.append({"job": pending[0]["name"], "failed": trying})
        left = [k for k in pending[0]["kernels"] if k["label"] != trying]
        if len(left) == len(pending[0]["kernels"]):
            pending.pop(0)  # a peer failed
        else:
            pending[0] = {**pending[0], "kernels": left}
    return said


def _listen(
    worker: Any, said: list[dict[str, Any]], pending: list[dict[str, Any]], until: float, silence: float
) -> str | None:
    """Read until the worker ends, is silent for too long, or time is up; returns what it tried last."""
    lines: queue.Queue[str] = queue.Queue()

    def read() -> None:
        for line in worker.stdout:
            lines.put(line)
        lines.put("")

    threading.Thread(target=read, daemon=True).start()
    trying: str | None = None
    while time.monotonic() < until:
        try:
            line = lines.get(timeout=silence)
        except queue.Empty:
            return trying
        if not line:
            return trying
        if not line.startswith("{"):
            continue
        row = json.loads(line)
        if "trying" in row:
            trying = row["trying"]
            continue
        said.append(row)
        if "done" in row:
            pending.pop(0)
            _show(row["job"], [r for r in said if r.get("job") == row["job"]], row["seconds"])
    return trying


def _show(name: str, rows: list[dict[str, Any]], seconds: float) -> None:
    results = {r["result"]: r for r in rows if "result" in r}
    kernels = {r["kernel"]: r for r in rows if "kernel" in r}
    peers = [r["tflops"] for label, r in results.items() if label not in kernels]
    best = max(peers, default=math.nan)
    parts = [
        f"{label} {r['tflops']:.0f}TF {r['us']:.1f}us"
        + (f" x{r['tflops'] / best:.3f} e{kernels[label]['error']:.1e}" if label in kernels else "")
        for label, r in sorted(results.items(), key=lambda i: -i[1]["tflops"])
    ]
    wrong = [f"WRONG {k} e{r['error']:.2e}" for k, r in kernels.items() if k not in results]
    print(f"{name} [{seconds:.0f}s]: {'; '.join(parts + wrong)}", flush=True)


# what it said


@dataclass(frozen=True, slots=True)
class Heard:
    """What the worker said of one job, by label: times of all, errors and resources of our kernels."""

    results: Mapping[str, dict[str, Any]]
    kernels: Mapping[str, dict[str, Any]]
    peers: Mapping[str, dict[str, Any]]

    @staticmethod
    def of(said: Sequence[dict[str, Any]], job: Mapping[str, Any]) -> Heard:
        """Of a job."""
        mine = [r for r in said if r.get("job") == job["name"]]
        results = {r["result"]: {f: r[f] for f in ("us", "tflops", "all_us")} for r in mine if "result" in r}
        labels = {k["label"] for k in job["kernels"]}
        peers = {label: r for label, r in results.items() if label not in labels}
        return Heard(results, {r["kernel"]: r for r in mine if "kernel" in r}, peers)

    def entry(self, label: str) -> dict[str, Any]:
        """One of our kernels: its times, if it has any, and their ratio to the best peer's."""
        best = min((r["us"] for r in self.peers.values()), default=math.nan)
        found = self.results.get(label, {})
        return {"tile": label, **found, "ratio": best / found["us"] if found else None}


def gpu_of(said: Sequence[dict[str, Any]]) -> str:
    """The GPU's name."""
    return next((r["gpu"] for r in said if "gpu" in r), "")


def rows_of(said: Sequence[dict[str, Any]], jobs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for each job: every contestant's time, our kernels' errors, resources and ratios to the best peer."""
    gpu = gpu_of(said)
    out: list[dict[str, Any]] = []
    for job in jobs:
        heard = Heard.of(said, job)
        ours = [
            {
                **heard.entry(k["label"]),
                "error": heard.kernels.get(k["label"], {}).get("error"),
                "registers": heard.kernels.get(k["label"], {}).get("registers"),
                "local_bytes": heard.kernels.get(k["label"], {}).get("local"),
                "compile_s": k["compile_s"],
                "assemble_s": k["assemble_s"],
                "log": k["log"],
                "made": k["tile"],
                "attrs": k["attrs"],
                "stages": k["stages"],
                "boxes": [m["box"] for m in k["tensor_maps"]],
            }
            for k in job["kernels"]
        ]
        out.append(
            {
                "job": job["name"],
                "gpu": gpu,
                "chosen": COMPILER,
                "peers": heard.peers,
                "ours": ours,
            }
        )
    return out


def summary(rows: Sequence[dict[str, Any]]) -> str:
    """Geometric means of the ratio to the best peer: of the tile chosen, and of the best tile."""
    chosen, best = [], []
    for row in rows:
        ratios = {k["tile"]: k["ratio"] for k in row["ours"] if k.get("ratio")}
        if row["chosen"] in ratios:
            chosen.append(ratios[row["chosen"]])
        if ratios:
            best.append(max(ratios.values()))

    def mean(xs: list[float]) -> str:
        return (
            f"{math.exp(sum(map(math.log, xs)) / len(xs)):.3f} (least {min(xs):.3f}, {len(xs)} shapes)" if xs else "-"
        )

    return f"ratio to the best peer: chosen tile {mean(chosen)}; best tile {mean(best)}"
