"""Time `torch.compile(..., backend="graphfuse")` against Inductor on the CPU.

    python -m benchmarks.torch_cpu [--only bert_b1,softmax] [--kinds inference,training,micro,compile,memory]
                                   [--rounds 9] [--threads 2] [--json FILE]

Each case runs in a process of its own, in which sides take turns: eager, graphfuse, Inductor, and, for inference of
models, Inductor with frozen weights. A ratio is their median over ours: above 1 means that graphfuse is faster; the
ratio of the fastest rounds stands beside it, as other programs on the machine slow down some rounds. On a machine that
others use too, `--threads 1 --clock cpu` counts seconds of the processor instead: waiting is left out. With `--json`
rows of cases that are not measured now stay in the file, so that it can be filled in parts.

`compile`: seconds from the call to the first result in a fresh process, with empty caches and with full ones: on the
clock, and of the processor, processes that were started for it included. The latter is what to compare on a machine
that others use too. Contenders take turns; `--rounds` beyond 3 are not made.
`memory`: MiB that live blocks of 64 KiB or more have at most during the fourth training step, beyond those of the model
and its inputs: a malloc that counts (counting_malloc.c) is loaded before all else. Small blocks are what interpreters
and compilers keep. What is resident says less: it holds whatever compiling has left behind.
"""

from __future__ import annotations

import argparse
import compileall
import ctypes
import gc
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

import graphfuse
from benchmarks import record

SETTLE_SECONDS = 0.02
CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}
LEAST_SECONDS = 0.02
"""A round of something faster is several calls."""
MODELS: dict[str, tuple[str, int, int]] = {
    "bert_b1": ("bert", 1, 128),
    "bert_b8": ("bert", 8, 128),
    "gpt2": ("gpt2", 1, 128),
    "resnet50": ("resnet50", 1, 0),
    "vit": ("vit", 1, 0),
    "llama_110m": ("llama", 1, 128),
    "convnext": ("convnext", 1, 0),
}
"""Inference: the model, its batch and length."""
TRAINING: dict[str, tuple[str, int, int]] = {
    "bert_training": ("bert", 2, 128), "gpt2_training": ("gpt2", 2, 128), "resnet50_training": ("resnet50", 2, 0),
}  # fmt: skip
COMPILED = ("bert_b1", "gpt2", "resnet50", "vit", "llama_110m", "convnext", "pointwise", *TRAINING)
MOST_STARTS = 3
KINDS = ("inference", "training", "micro", "compile", "memory")
Tensors = tuple[torch.Tensor, ...]
ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(4 << 30)}
"""For all sides: else glibc gives results of megabytes back and maps them anew, in some rounds of some side."""


@dataclass(frozen=True)
class Micro:
    """A function and the sizes of its arguments, normally distributed."""

    fn: Callable[..., torch.Tensor]
    sizes: tuple[tuple[int, ...], ...]


def _residual_norm(x: torch.Tensor, y: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return functional.layer_norm(x + y, (x.shape[-1],), w, b)


def _rms_norm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * w


def _masked_softmax(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return torch.softmax(torch.where(mask > 0, x, -math.inf), -1)


ROWS, WIDTH = (4096, 768), (768,)
MICRO: dict[str, Micro] = {
    "pointwise": Micro(lambda x, y: torch.relu(x * y + x) * 0.5 + torch.sigmoid(y) - x, (ROWS, ROWS)),
    "bias_gelu": Micro(lambda x, b: functional.gelu(x + b), ((1024, 3072), (3072,))),
    "softmax": Micro(lambda x: torch.softmax(x, -1), ((12, 512, 512),)),
    "layernorm": Micro(lambda x, w, b: functional.layer_norm(x, WIDTH, w, b), (ROWS, WIDTH, WIDTH)),
    "rmsnorm": Micro(_rms_norm, (ROWS, WIDTH)),
    "residual_layernorm": Micro(_residual_norm, (ROWS, ROWS, WIDTH, WIDTH)),
    "masked_softmax": Micro(_masked_softmax, ((12, 512, 512), (512, 512))),
    "full_sum": Micro(lambda x: x.sum(), (ROWS,)),
    "transpose_add": Micro(lambda x, y: (x.t() + y).contiguous(), ((2048, 1024), (1024, 2048))),
    "deep_product": Micro(lambda x, y: x @ y, ((1000, 6000), (6000, 100))),
    "weight_gradient": Micro(lambda x, y: x.t() @ y, ((1024, 768), (1024, 3072))),
    "gradient_of_logits": Micro(lambda x, y: x @ y, ((120, 32000), (32000, 512))),
    "tiny": Micro(lambda x, y: torch.relu(x * y + 1).sum(-1), ((4, 8), (4, 8))),
}


def sides_of(kind: str) -> dict[str, dict[str, Any]]:
    """What is compared, by name, and what `torch.compile` is given for it."""
    sides: dict[str, dict[str, Any]] = {
        "eager": {}, "graphfuse": {"backend": "graphfuse"}, "inductor": {"backend": "inductor"}
    }  # fmt: skip
    return {**sides, "inductor_freezing": {"backend": "inductor"}} if kind == "inference" else sides


Step = Callable[[], Any]


def steps_of(name: str, kind: str) -> dict[str, Step]:
    """A function for each side that computes the case once."""
    return {side: step_of(name, kind, side, settings) for side, settings in sides_of(kind).items()}


def step_of(name: str, kind: str, side: str, settings: Mapping[str, Any]) -> Step:
    """What computes the case once on one side; the first call compiles."""
    torch.manual_seed(record.SEED)
    frozen = side == "inductor_freezing"

    def compiled(fn: Any) -> Any:
        return torch.compile(fn, **settings) if settings else fn

    if kind == "micro":
        case = MICRO[name]
        args = tuple(torch.randn(size) for size in case.sizes)
        # a function of its own, as Dynamo keeps what it compiled by the code object
        fn = compiled(copied(case.fn))

        def micro() -> Any:
            with torch.no_grad():
                return fn(*args)

        return micro
    from benchmarks.torch_models import CASES

    model, batch, length = {**MODELS, **TRAINING}[name]
    full = CASES[model].full
    assert full is not None
    module, inputs = full(batch, length)
    if kind == "training":
        module.train()
        called = compiled(module)

        def training() -> Any:
            module.zero_grad(set_to_none=True)
            loss, _ = called(**inputs)
            loss.backward()
            return loss.detach()

        return training
    module.eval()
    inner = module.model
    wanted = {k: v for k, v in inputs.items() if k != "labels"}
    called = compiled(inner)

    def inference() -> Any:
        with torch.no_grad():
            out = called(**wanted) if "images" not in wanted else called(wanted["images"])
        return out if isinstance(out, torch.Tensor) else out.logits

    def freezing() -> Any:
        with torch._inductor.config.patch(freezing=True):
            return inference()

    return freezing if frozen else inference


def copied(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function with code of its own."""
    import types

    return types.FunctionType(fn.__code__.replace(), fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)


def seconds(step: Step, calls: int, clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds of one call."""
    started = clock()
    for _ in range(calls):
        step()
    return (clock() - started) / calls


def timed(name: str, kind: str, rounds: int, clock: Callable[[], float]) -> dict[str, Any]:
    """Milliseconds of each side, in alternating rounds."""
    steps = steps_of(name, kind)
    results: dict[str, torch.Tensor] = {}
    for side, step in steps.items():
        torch._dynamo.reset() if side == "inductor_freezing" else None
        results[side] = step().clone()
        step()
    fresh = {k: s for k, s in steps.items() if k != "inductor_freezing"}
    if len(fresh) < len(steps):
        for step in fresh.values():  # the reset forgot them: compiled again, from the caches
            step()
    scale = results["eager"].float().std().item() if results["eager"].numel() > 1 else results["eager"].abs().item()
    deviation = (results["graphfuse"] - results["eager"]).abs().max().item() / max(scale, 1e-6)
    samples = in_turns(steps, rounds, clock)
    row: dict[str, Any] = {
        "median": {side: 1e3 * statistics.median(s) for side, s in samples.items()},
        "fastest": {side: 1e3 * min(s) for side, s in samples.items()},
        "deviation": deviation,
    }
    for estimate in ("median", "fastest"):
        ours = row[estimate]["graphfuse"]
        row[f"ratio_of_{estimate}"] = {side: t / ours for side, t in row[estimate].items() if side != "graphfuse"}
    return row


def in_turns(steps: Mapping[str, Step], rounds: int, clock: Callable[[], float]) -> dict[str, list[float]]:
    """Seconds of a call of each side, in alternating rounds."""
    calls = max(1, round(LEAST_SECONDS / max(1e-7, min(seconds(steps["eager"], 2), 1.0))))
    samples: dict[str, list[float]] = {side: [] for side in steps}
    for i in range(rounds):
        for side, step in steps.items() if i % 2 == 0 else reversed(steps.items()):
            time.sleep(SETTLE_SECONDS)
            step()
            samples[side].append(seconds(step, calls, clock))
    return samples


def first_call(name: str, side: str) -> dict[str, float]:
    """Seconds until the first result, the model being there: on the clock, and of the processor."""
    kind = "micro" if name in MICRO else "training" if name in TRAINING else "inference"
    step = step_of(name, kind, side, sides_of(kind)[side])
    began, used = time.perf_counter(), processor_seconds()
    step()
    return {"wall": time.perf_counter() - began, "cpu": processor_seconds() - used}


def processor_seconds() -> float:
    """Of this process, and of those that it has started and that have ended."""
    both = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)


def peak(name: str, side: str) -> dict[str, float]:
    """MiB that a training step takes at most, beyond the model and its inputs."""
    counted = ctypes.CDLL(None)
    for function in (counted.counted_live, counted.counted_peak):
        function.restype = ctypes.c_longlong
    step = step_of(name, "training", side, sides_of("training")[side])
    gc.collect()
    before, resident = counted.counted_live(), _resident("VmRSS")
    for _ in range(3):
        step()
    gc.collect()
    counted.counted_forget()
    Path("/proc/self/clear_refs").write_text("5")  # the most so far is forgotten
    step()
    most = _resident("VmHWM") - resident
    return {"value": (counted.counted_peak() - before) / (1 << 20), "resident": most / 1024}


def _resident(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1])
    raise KeyError(field)


def counting_malloc(folder: Path) -> Path:
    """The library that counts, compiled."""
    library, source = folder / "counting_malloc.so", Path(__file__).with_name("counting_malloc.c")
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    return library


def child(arguments: list[str], caches: Path | None = None, preload: Path | None = None) -> dict[str, Any]:
    """What another process of this file measured."""
    env = {**os.environ, **ALLOCATOR}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    if caches is not None:
        env |= {"TORCHINDUCTOR_CACHE_DIR": str(caches / "torch"), "GRAPHFUSE_CACHE": str(caches / "graphfuse")}
    if preload is not None:
        env["LD_PRELOAD"] = str(preload)
    command = [sys.executable, "-m", "benchmarks.torch_cpu", *arguments]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"raised": done.stderr.strip().splitlines()[-1:] or ["no message"]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def measure(name: str, kind: str, rounds: int, threads: int, clock: str) -> dict[str, Any]:
    """One case, in processes of its own."""
    common = ["--threads", str(threads), "--rounds", str(rounds), "--clock", clock, "--kinds", kind]
    common += ["--worker", name]
    if kind in ("inference", "training", "micro"):
        return {"case": name, "kind": kind, **child(common)}
    row: dict[str, Any] = {"case": name, "kind": kind}
    with tempfile.TemporaryDirectory() as folder:
        if kind == "memory":
            library = counting_malloc(Path(folder))
            for side in ("eager", "graphfuse", "inductor"):
                row[side] = child([*common, "--side", side], Path(folder), library)
            return row
        # as an installed package has it
        compileall.compile_dir(str(Path(graphfuse.__file__).parent), quiet=2)
        starts: list[tuple[str, str, dict[str, Any]]] = []
        for start in range(min(rounds, MOST_STARTS)):
            for side in ("graphfuse", "inductor"):
                caches = Path(folder, side, str(start))
                starts += [(state, side, child([*common, "--side", side], caches)) for state in ("cold", "warm")]
    if failed := [found for _, _, found in starts if "raised" in found]:
        return {**row, **failed[0]}
    for state, side, _ in starts:
        found = [f for s, of, f in starts if (s, of) == (state, side)]
        row.setdefault(state, {})[side] = {c: statistics.median(f[c] for f in found) for c in CLOCKS}
    return row


def names_of(kind: str) -> list[str]:
    """The cases of a kind."""
    return list(
        {"inference": MODELS, "training": TRAINING, "micro": MICRO, "compile": COMPILED, "memory": TRAINING}[kind]
    )


def describe(row: Mapping[str, Any]) -> str:
    """A row for people."""
    head = f"{row['kind']:10} {row['case']:18}"
    if "raised" in row:
        return f"{head} RAISED {row['raised']}"
    if row["kind"] == "compile":
        return "; ".join([head, *(f"{state} {_of_inductors(row[state])}" for state in ("cold", "warm"))])
    if row["kind"] == "memory":
        sides = {side: row[side] for side in ("eager", "graphfuse", "inductor")}
        return " ".join(
            [head, "MiB", *(f"{s} {m.get('value', 0):.0f} ({m.get('resident', 0):.0f})" for s, m in sides.items())]
        )
    times = " ".join(f"{side} {t:.3f}" for side, t in row["median"].items())
    ratios = " ".join(
        f"{side} {r:.2f} ({row['ratio_of_fastest'][side]:.2f})" for side, r in row["ratio_of_median"].items()
    )
    return f"{head} ms {times}; ratio {ratios}"


def _of_inductors(found: Mapping[str, Any]) -> str:
    ours, theirs = found["graphfuse"], found["inductor"]
    return " ".join(f"{c} {ours[c]:.1f} of {theirs[c]:.1f} s ({ours[c] / theirs[c]:.2f})" for c in CLOCKS)


def main() -> int:
    """Measure, print, and keep the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", help="comma-separated cases (default: all of the kinds)")
    parser.add_argument("--kinds", default=",".join(KINDS), help=f"of {', '.join(KINDS)}")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--json", type=Path, help="keep the figures in this file")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--side", help=argparse.SUPPRESS)
    args = parser.parse_args()
    kinds = args.kinds.split(",")
    if args.worker:
        warnings.filterwarnings("ignore")
        torch.set_num_threads(args.threads)
        if kinds == ["compile"]:
            print(json.dumps(first_call(args.worker, args.side)))
        elif kinds == ["memory"]:
            print(json.dumps(peak(args.worker, args.side)))
        else:
            print(json.dumps(timed(args.worker, kinds[0], args.rounds, CLOCKS[args.clock])))
        return 0
    kept: dict[str, dict[str, Any]] = {}
    if args.json and args.json.exists():
        kept = {f"{r['kind']} {r['case']}": r for r in json.loads(args.json.read_text())["rows"]}
    for kind in kinds:
        for name in names_of(kind):
            if args.only and name not in args.only.split(","):
                continue
            row = measure(name, kind, args.rounds, args.threads, args.clock)
            print(describe(row), flush=True)
            kept[f"{kind} {name}"] = {**row, "threads": args.threads, "clock": args.clock}
            if args.json:
                record.write(args.json, sorted(kept.values(), key=lambda r: KINDS.index(r["kind"])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
