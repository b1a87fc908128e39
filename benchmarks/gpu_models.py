"""Whole models in half precision on a GPU, against torch eager and Inductor in the same rounds.

    python benchmarks/gpu_models.py [--only WORDS] [--precision f16] [--seconds 450] [--json FILE]
    python benchmarks/gpu_models.py --dry        no GPU: compile everything, run small models on the emulator

Ours is the f32 ONNX model of `models/` under `--precision`, its float inputs and outputs made halves as the peers' are,
with masks of ones; inputs and outputs are torch's on the GPU, and runs replay a CUDA graph. The peers are the models of
transformers and torchvision of the same sizes, in halves, with random weights and no mask. A figure is the median of
rounds in rotated order, each a burst of calls between two CUDA events. Before that ours is compared with ONNX Runtime
in f32, its output filled with NaN.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ["GRAPHFUSE_CACHE"] = "0"

import graphfuse
import models
from benchmarks import record
from benchmarks.gpu_timing import AGAIN, QUICK, Call, Called, Timing, arguments, asked, medians, race, twice

TARGET = "cuda:sm_90a"
BOUNDS = {"f16": 2e-2, "bf16": 1e-1}
"""Largest error, in standard deviations of the output."""
ONNX_TYPES = {"f16": TensorProto.FLOAT16, "bf16": TensorProto.BFLOAT16}
TIMING = Timing(0.02, 0.06, 7)
PEERS = {"inductor": "default", "reduce-overhead": "reduce-overhead"}
SECONDS_TO_COMPILE = 25.0
"""What one compilation by Inductor may take: without so much left, it is left out."""


@dataclass(frozen=True)
class Case:
    """A model at one size: `build` makes the peer of `torch`, whose arguments are those `inputs` of ours."""

    name: str
    model: str
    dims: Mapping[str, int]
    build: Callable[[], Any]
    inputs: tuple[str, ...]
    channels_last: bool = False


def _bert() -> Any:
    from transformers import BertConfig, BertModel

    return BertModel(BertConfig())


def _gpt2() -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(use_cache=False))


def _resnet() -> Any:
    from torchvision.models import resnet50

    return resnet50()


def _vit() -> Any:
    from torchvision.models import vit_b_16

    return vit_b_16()


CASES = (
    Case("bert-base b8 s128", "bert_base", {"batch": 8, "seq": 128}, _bert, ("input_ids",)),
    Case("gpt2 b4 s512", "gpt2", {"batch": 4, "seq": 512}, _gpt2, ("input_ids",)),
    Case("resnet50 b32", "resnet50", {"batch": 32}, _resnet, ("image",), channels_last=True),
    Case("resnet50 b1", "resnet50", {"batch": 1}, _resnet, ("image",), channels_last=True),
    Case("vit-base b16", "vit_base", {"batch": 16}, _vit, ("image",)),
)


# our side


def half_borders(path: Path, precision: str) -> onnx.ModelProto:
    """The model with a cast at each float input and output."""
    model = onnx.load(path)
    elem = ONNX_TYPES[precision]
    first = []
    for info in model.graph.input:
        if info.type.tensor_type.elem_type == TensorProto.FLOAT:
            wide = f"{info.name}.f32"
            for node in model.graph.node:
                node.input[:] = [wide if i == info.name else i for i in node.input]
            first.append(helper.make_node("Cast", [info.name], [wide], to=TensorProto.FLOAT))
            info.type.tensor_type.elem_type = elem
    for info in model.graph.output:
        if info.type.tensor_type.elem_type == TensorProto.FLOAT:
            wide = f"{info.name}.f32"
            for node in model.graph.node:
                node.input[:] = [wide if i == info.name else i for i in node.input]
                node.output[:] = [wide if o == info.name else o for o in node.output]
            model.graph.node.append(helper.make_node("Cast", [wide], [info.name], to=elem))
            info.type.tensor_type.elem_type = elem
    nodes = [*first, *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


def feeds_of(case: Case, *, small: bool = False) -> dict[str, np.ndarray]:
    """Random inputs, masks of ones."""
    dims = {k: min(v, 16 if k == "seq" else 2) for k, v in case.dims.items()} if small else case.dims
    feeds = models.get(case.model).inputs(np.random.default_rng(record.SEED), small=small, **dims)
    return {k: np.ones_like(v) if "mask" in k else v for k, v in feeds.items()}


def compiled_of(case: Case, precision: str, *, small: bool = False, device: str = "cuda") -> Any:
    """Compiled for the shapes of the case; the small model for those it is tested at."""
    source = half_borders(models.cached(case.model, small=small), precision)
    dims = models.get(case.model).DIMS if small else dict(case.dims)
    return graphfuse.compile(source, target=TARGET, dims=dims, precision=precision, device=device)


def kernels(compiled: Any) -> dict[str, int]:
    """How many launches there are, and how many of which multiply with what."""
    executable = compiled.executable
    ptx = executable.code[executable.target].ptx
    bodies = {m[1]: m[2] for m in re.finditer(r"\.entry (\w+)\((.*?)(?=\.entry |\Z)", ptx, re.S)}
    out = {"launches": 0, "wgmma": 0, "mma": 0}
    for step in executable.plan.steps:
        body = bodies.get(getattr(step, "kernel", ""), "")
        out["launches"] += 1
        out["wgmma"] += "wgmma.mma_async" in body
        out["mma"] += "mma.sync" in body
    return out


def distance(want: np.ndarray, got: np.ndarray) -> float:
    """The largest error in standard deviations; infinite where only one is finite."""
    w, g = want.astype(np.float64), got.astype(np.float64)
    if not np.array_equal(np.isfinite(w), np.isfinite(g)):
        return float("inf")
    finite = np.isfinite(w)
    return float(np.abs(w - g)[finite].max() / w[finite].std())


def errors(case: Case, feeds: Mapping[str, np.ndarray], found: Mapping[str, np.ndarray], *, small: bool) -> float:
    """The largest distance from ONNX Runtime in f32."""
    from models import _compare

    wanted = _compare.onnxruntime_of(models.cached(case.model, small=small))(feeds)
    return max(distance(wanted[name], array) for name, array in found.items())


# on the GPU


def measure(torch: Any, case: Case, precision: str, timing: Timing, deadline: float) -> dict[str, Any]:
    """One row of the table."""
    row: dict[str, Any] = {"case": case.name, "precision": precision, "gpu": torch.cuda.get_device_name(), "notes": []}
    dtype = {"f16": torch.float16, "bf16": torch.bfloat16}[precision]
    feeds = feeds_of(case)
    given = {k: torch.from_numpy(v).cuda() for k, v in feeds.items()}
    given = {k: v.to(dtype) if v.is_floating_point() else v for k, v in given.items()}
    contestants: dict[str, Call] = {}
    try:
        contestants["ours"] = _ours(torch, case, precision, feeds, given, row)
    except Exception as e:  # noqa: BLE001  # the peers are worth measuring without us
        row["notes"].append(f"ours: {_line(e)}")
    try:
        contestants |= twice(_peers(torch, case, [given[name] for name in case.inputs], dtype, deadline, row))
    except Exception as e:  # noqa: BLE001  # so are we without the peers
        row["notes"].append(f"peers: {_line(e)}")
    with torch.inference_mode():
        row["ms"] = medians(race({name: Called(call, asleep=False) for name, call in contestants.items()}, timing))
    peers = {name: ms for name, ms in row["ms"].items() if name != "ours" and not name.endswith(AGAIN)}
    if peers:
        row["best"] = min(peers, key=lambda name: peers[name])
    if peers and "ours" in row["ms"]:
        row["ratio"] = peers[row["best"]] / row["ms"]["ours"]
    torch._dynamo.reset()  # its public way to forget what was compiled before
    return row


def _ours(torch: Any, case: Case, precision: str, feeds: Any, given: Any, row: dict[str, Any]) -> Call:
    start = time.perf_counter()
    compiled = compiled_of(case, precision)
    row["compile_s"] = time.perf_counter() - start
    row["kernels"] = kernels(compiled)
    names = [s.name for s in compiled.signature.inputs]
    tensors = {name: given[name] for name in names}
    out = {name: torch.full_like(t, float("nan")) for name, t in compiled.session.run(tensors).items()}
    for _ in range(3):  # the first run by launches, the second is recorded, the third is a graph's
        compiled.session.run(tensors, out=out)
    torch.cuda.synchronize()
    row["ours_ms_by_kernel"] = _by_kernel(compiled, tensors)
    start = time.perf_counter()
    try:
        found = {name: t.float().cpu().numpy() for name, t in out.items()}
        row["error"] = errors(case, feeds, found, small=False)
        row["compare_s"] = time.perf_counter() - start
        row["ok"] = row["error"] <= BOUNDS[precision]
    except ImportError as e:
        row["notes"].append(f"not compared: {_line(e)}")
    return lambda: compiled.session.run(tensors, out=out)


def _by_kernel(compiled: Any, tensors: Any) -> dict[str, float]:
    """Milliseconds of each kernel's launches, one at a time."""
    out: dict[str, float] = {}
    for step in compiled.session.profile(tensors).steps:
        out[step.kernel] = out.get(step.kernel, 0.0) + step.ns / 1e6
    return dict(sorted(out.items(), key=lambda item: -item[1]))


def _peers(torch: Any, case: Case, inputs: list[Any], dtype: Any, deadline: float, row: dict[str, Any]) -> Any:
    start = time.perf_counter()
    model = case.build().eval().to("cuda", dtype)
    row["peer_build_s"] = time.perf_counter() - start
    if case.channels_last:
        model = model.to(memory_format=torch.channels_last)
        inputs = [x.to(memory_format=torch.channels_last) for x in inputs]
    out: dict[str, Call] = {"eager": lambda: model(*inputs)}
    for name, mode in PEERS.items():
        if time.perf_counter() + SECONDS_TO_COMPILE > deadline:
            row["notes"].append(f"{name}: no time left to compile")
            continue
        try:
            start = time.perf_counter()
            compiled = torch.compile(model, mode=mode, dynamic=False)
            with torch.inference_mode():
                for _ in range(3):
                    compiled(*inputs)
            torch.cuda.synchronize()
            row[f"{name}_compile_s"] = time.perf_counter() - start
            out[name] = lambda compiled=compiled: compiled(*inputs)
        except Exception as e:  # noqa: BLE001  # a compiler that is missing fails in many ways
            row["notes"].append(f"{name}: {_line(e)}")
    return out


def _line(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:160] if text else ''}"


def report(row: Mapping[str, Any]) -> str:
    """One line, and the kernels that take most of the time."""
    text = f"{row['case']:20s}"
    for name in ("ours", "eager", *PEERS):
        text += f" {row['ms'][name]:8.3f}" if name in row["ms"] else f" {'-':>8s}"
    text += f"  {row.get('ratio', 0):5.3f} {row.get('best', ''):15s}"
    text += f" {row['error']:.1e}" if "error" in row else " no result"
    text += "" if row.get("ok", True) else " WRONG"
    if "kernels" in row:
        text += f"  {row['kernels']}  compiled in {row['compile_s']:.1f} s"
    spent = {k: f"{row[k]:.0f} s" for k in ("compare_s", "peer_build_s") if k in row}
    text += f"  {spent}" if spent else ""
    most = list(row.get("ours_ms_by_kernel", {}).items())[:8]
    text += "".join(f"\n    {name:20s} {ms:.3f}" for name, ms in most)
    return text + "".join(f"\n    {note}" for note in row["notes"])


# anywhere


def dry(words: list[str], precision: str) -> bool:
    """Compile each case for the GPU, run its small model on the emulator, and the peer on the CPU."""
    import torch

    good = True
    for case in CASES:
        if not asked(case.name, words):
            continue
        start = time.perf_counter()
        compiled = compiled_of(case, precision, device="emulator")
        seconds = time.perf_counter() - start
        feeds = feeds_of(case, small=True)
        dtype = np.float16 if precision == "f16" else ml_dtypes.bfloat16
        halves = {k: v.astype(dtype) if v.dtype == np.float32 else v for k, v in feeds.items()}
        found = compiled_of(case, precision, small=True, device="emulator")(halves)
        error = errors(case, feeds, found, small=True)
        note = ""
        try:
            with torch.inference_mode():
                case.build().eval()(*(torch.from_numpy(feeds_of(case)[name][:1]) for name in case.inputs))
        except Exception as e:  # noqa: BLE001  # what the GPU's machine has need not be here
            note = f"; no peer: {_line(e)}"
        ok = error <= BOUNDS[precision]
        good &= ok
        print(
            f"{case.name:20s} {kernels(compiled)} in {seconds:.1f} s; small: {error:.1e}{'' if ok else ' WRONG'}{note}"
        )
    return good


def main() -> int:
    """Every case in turn, as far as time allows."""
    parser = arguments(__doc__, budget=450, dry=True)
    parser.add_argument("--precision", default="f16", choices=BOUNDS)
    args = parser.parse_args()
    if args.dry:
        return 0 if dry(args.only, args.precision) else 1
    import torch

    deadline = time.perf_counter() + args.budget
    timing = QUICK if args.quick else TIMING
    cases = [case for case in CASES if asked(case.name, args.only)]
    rows: list[dict[str, Any]] = []
    print(f"{'ms':20s} {'ours':>8s} {'eager':>8s} {'inductor':>8s} {'r-o':>8s}  ratio best            error")
    for i, case in enumerate(cases):
        left = deadline - time.perf_counter()
        if left < SECONDS_TO_COMPILE:
            print(f"{case.name:20s} no time left")
            continue
        # each gets its share of what is left, so that a slow one does not leave the others without peers
        share = time.perf_counter() + left / (len(cases) - i)
        try:
            rows.append(measure(torch, case, args.precision, timing, share))
            print(report(rows[-1]), flush=True)
        except Exception as e:  # noqa: BLE001  # the others are worth measuring
            print(f"{case.name:20s} {_line(e)}", flush=True)
        torch.cuda.empty_cache()
        if args.json:
            record.write(args.json, rows)
    return 0 if rows and all(r.get("ok", False) for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
