"""Time `torch.compile(..., backend="graphfuse")` against eager and Inductor on a GPU.

    python -m benchmarks.torch_gpu [--only bert,gpt2] [--training] [--json FILE]
    python -m benchmarks.torch_gpu --dry       no GPU: small models on the CPU, compared with eager

The six models of the table are those of `gpu_models` with weights in halves, and a decoder in the style of Llama of
four layers in bf16. Both compilers run under mode="reduce-overhead"; Inductor's default mode is timed too with
`--default`. Every model has a process of its own. `compile` is seconds from the call to the first result with empty
caches, after a trifle was compiled by the same backend; ours and Inductor's are the same work of Dynamo and AOTAutograd
before that. Times are medians of rounds in rotated order, each a burst of calls between two CUDA events. Before that
every side is compared with eager in f32: `error` is the largest in standard deviations of the output.

`--training`: forward, backward and the gradients' reset; `inductor` is the peer.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import record
from benchmarks.gpu_timing import AGAIN, QUICK, Call, Called, Timing, arguments, asked, medians, race, twice

TIMING = Timing(0.05, 0.15, 7)
SECONDS_FOR_A_CASE = 110.0
SIDES: dict[str, dict[str, Any]] = {
    "eager": {},
    "graphfuse": {"mode": "reduce-overhead"},
    "reduce-overhead": {"backend": "inductor", "mode": "reduce-overhead"},
    "inductor": {"backend": "inductor"},
}
"""What `torch.compile` is given; eager is not compiled."""


@dataclass(frozen=True)
class Case:
    """A model, the inputs of its forward at one size, and the type of its weights."""

    build: Callable[[Any], tuple[Any, dict[str, Any]]]
    """Of torch: a module that returns its loss and its outputs, and its inputs."""
    dtype: str = "float16"
    channels_last: bool = False
    inner: str = ""
    """What is run for inference, where that is not all of it."""


def _full(name: str, batch: int, length: int) -> Callable[[Any], Any]:
    def build(torch: Any) -> Any:
        from benchmarks.torch_models import CASES as MODELS

        full = MODELS[name].full
        assert full is not None
        return full(batch, length)

    return build


def _resnet(batch: int) -> Callable[[Any], Any]:
    def build(torch: Any) -> Any:
        from torchvision.models import resnet50

        from benchmarks.torch_models import image_model

        return image_model(resnet50(), batch, 224, 1000)

    return build


def _llama(torch: Any) -> Any:
    from benchmarks.torch_models import full_llama

    settings = {"num_hidden_layers": 4, "hidden_size": 2048, "num_attention_heads": 16, "num_key_value_heads": 16}
    return full_llama(1, 2048, **settings, intermediate_size=5632)


CASES: dict[str, Case] = {
    "bert b8 s128": Case(_full("bert", 8, 128), inner="bert"),
    "gpt2 b4 s512": Case(_full("gpt2", 4, 512)),
    "resnet50 b32": Case(_resnet(32), channels_last=True),
    "resnet50 b1": Case(_resnet(1), channels_last=True),
    "vit b16": Case(_full("vit", 16, 0)),
    "llama 4 layers b1 s2048": Case(_llama, dtype="bfloat16"),
}


@dataclass
class Run:
    """A case on its device."""

    torch: Any
    module: Any
    inputs: dict[str, Any]
    training: bool
    inner: str = ""

    def step(self, settings: Mapping[str, Any] | None) -> Call:
        """What computes it once; None: eager."""
        torch = self.torch
        inner = self.module if self.training else self.module.model
        if self.inner and not self.training:
            inner = getattr(inner, self.inner)
        called = torch.compile(inner, **settings) if settings is not None else inner
        wanted = self.inputs if self.training else {k: v for k, v in self.inputs.items() if k != "labels"}

        def training() -> Any:
            torch.compiler.cudagraph_mark_step_begin()
            self.module.zero_grad(set_to_none=True)
            loss, _ = called(**wanted)
            loss.backward()
            return loss.detach()

        def inference() -> Any:
            torch.compiler.cudagraph_mark_step_begin()
            with torch.no_grad():
                out = called(wanted["images"]) if "images" in wanted else called(**wanted)
            return out if isinstance(out, torch.Tensor) else out[0]

        return training if self.training else inference

    def results(self, step: Call) -> list[Any]:
        """What a step computes: its outputs, or its loss and gradients."""
        out = [step().float().clone()]
        if self.training:
            out += [p.grad.float().clone() for p in self.module.parameters() if p.grad is not None]
        return out


def run_of(torch: Any, case: Case, device: str, *, training: bool, dtype: str | None = None) -> Run:
    """The case with the same weights and inputs each time."""
    torch.manual_seed(record.SEED)
    module, inputs = case.build(torch)
    kind = getattr(torch, dtype or case.dtype)
    module = module.train(training).to(device, kind)
    inputs = {k: v.to(device) for k, v in inputs.items()}
    inputs = {k: v.to(kind) if v.is_floating_point() else v for k, v in inputs.items()}
    if case.channels_last:
        module = module.to(memory_format=torch.channels_last)
        inputs = {k: v.to(memory_format=torch.channels_last) if v.dim() == 4 else v for k, v in inputs.items()}
    return Run(torch, module, inputs, training, case.inner)


def settings_of(side: str) -> Mapping[str, Any] | None:
    """Of `torch.compile`; the backend by its function, which needs no installation."""
    if side == "eager":
        return None
    if side == "graphfuse":
        from graphfuse.torch import backend

        return {**SIDES[side], "backend": backend}
    return SIDES[side]


def distance(found: list[Any], wanted: list[Any]) -> float:
    """The largest error in standard deviations of what was wanted."""
    pairs = zip(found, wanted, strict=True)
    return max(float((f - w).abs().max() / (w.std() if w.numel() > 1 else w.abs()).clamp(min=1e-12)) for f, w in pairs)


def measure(name: str, sides: list[str], timing: Timing, *, training: bool) -> dict[str, Any]:
    """One row."""
    import torch

    row: dict[str, Any] = {"case": name, "training": training, "gpu": torch.cuda.get_device_name(), "notes": []}
    case = CASES[name]
    exact = run_of(torch, case, "cuda", training=training, dtype="float32")
    wanted = exact.results(exact.step(None))
    del exact
    steps: dict[str, Call] = {}
    runs: dict[str, Run] = {}
    trifle = torch.ones(64, 64, device="cuda")
    for side in sides:
        try:
            settings = settings_of(side)
            if settings is not None:
                torch._dynamo.reset()
                torch.compile(lambda x: (x @ x).relu(), **settings)(trifle)
            run = run_of(torch, case, "cuda", training=training)
            step = run.step(settings)
            torch.cuda.synchronize()
            start = time.perf_counter()
            step()
            torch.cuda.synchronize()
            row.setdefault("compile_s", {})[side] = time.perf_counter() - start
            for _ in range(3):
                step()
            row.setdefault("error", {})[side] = distance(run.results(step), wanted)
            steps[side], runs[side] = step, run
        except Exception as e:  # noqa: BLE001  # the others are worth measuring
            text = str(e).strip().splitlines()
            row["notes"].append(f"{side}: {type(e).__name__}: {text[0][:300] if text else ''}")
    row["ms"] = medians(race({s: Called(step, asleep=False) for s, step in twice(steps).items()}, timing))
    ours = row["ms"].get("graphfuse")
    if ours:
        row["ratio"] = {s: ms / ours for s, ms in row["ms"].items() if s != "graphfuse" and not s.endswith(AGAIN)}
    return row


def report(row: Mapping[str, Any]) -> str:
    """One line, and what went wrong."""
    text = f"{row['case']:24s}"
    for part, form in (("ms", "{:.3f}"), ("ratio", "{:.3f}"), ("compile_s", "{:.1f}"), ("error", "{:.1e}")):
        found = row.get(part, {})
        text += f" {part} " + ", ".join(f"{side} {form.format(v)}" for side, v in found.items() if AGAIN not in side)
    return text + "".join(f"\n    {note}" for note in row["notes"])


def dry(words: list[str], *, training: bool) -> bool:
    """Each case in f32 on the CPU, a few tokens long, compared with eager."""
    import torch

    small = {"bert b8 s128": _full("bert", 1, 8), "gpt2 b4 s512": _full("gpt2", 1, 8), "vit b16": _full("vit", 1, 0)}
    good = True
    for name, build in small.items():
        if asked(name, words):
            run = run_of(torch, Case(build, "float32"), "cpu", training=training)
            errors = distance(run.results(run.step(settings_of("graphfuse"))), run.results(run.step(None)))
            good &= errors < 1e-3
            print(f"{name:24s} {errors:.1e}")
    return good


def main() -> int:
    """Every case in a process of its own."""
    parser = arguments(__doc__, budget=600, dry=True)
    parser.add_argument("--training", action="store_true")
    parser.add_argument("--default", action="store_true", help="Inductor's default mode too")
    parser.add_argument("--sides", default="", help="by commas; all")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.dry:
        return 0 if dry(args.only, training=args.training) else 1
    sides = args.sides.split(",") if args.sides else [s for s in SIDES if s != "inductor" or args.default]
    if args.worker:
        timing = QUICK if args.quick else TIMING
        print(json.dumps(measure(args.worker, sides, timing, training=args.training)))
        return 0
    rows: list[dict[str, Any]] = []
    deadline = time.perf_counter() + args.budget
    for name in CASES:
        left = min(SECONDS_FOR_A_CASE, deadline - time.perf_counter())
        if not asked(name, args.only) or left < 20:
            continue
        flags = ["--quick"] * args.quick + ["--training"] * args.training
        command = ["benchmarks.torch_gpu", "--worker", name, "--sides", ",".join(sides), *flags]
        row = in_a_process(command, {"case": name}, left)
        print(report(row), flush=True)
        rows.append(row)
        if args.json:
            record.write(args.json, rows)
    return 0


def in_a_process(command: Sequence[str], row: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """The row that a benchmark's process prints last, with caches of its own; else `row`, and why there is none."""
    with tempfile.TemporaryDirectory() as folder:
        caches = {"TORCHINDUCTOR_CACHE_DIR": f"{folder}/torch", "TRITON_CACHE_DIR": f"{folder}/triton"}
        env = {**os.environ, **caches, "GRAPHFUSE_CACHE": f"{folder}/graphfuse"}
        whole = [sys.executable, "-m", *command]
        try:
            done = subprocess.run(whole, env=env, capture_output=True, text=True, check=False, timeout=seconds)
        except subprocess.TimeoutExpired:
            return {**row, "notes": [f"stopped after {seconds:.0f} s"]}
    if done.returncode:
        return {**row, "notes": done.stderr.strip().splitlines()[-3:]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def each_in_a_process(
    commands: Iterable[tuple[Sequence[str], Mapping[str, Any]]], seconds: float, least: float
) -> Iterator[list[dict[str, Any]]]:
    """The rows of each command, or the given ones; their notes are printed. None begins with less than `least` left."""
    deadline = time.perf_counter() + seconds
    for command, failed in commands:
        if (left := deadline - time.perf_counter()) < least:
            return
        found = in_a_process(command, failed, left)
        if notes := found.get("notes"):
            print("\n".join(notes))
        yield found["rows"]


if __name__ == "__main__":
    sys.exit(main())
