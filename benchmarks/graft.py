"""Bias and GELU grafted onto a hand-written product, beside the same kernel with a kernel after it.

    python -m benchmarks.graft [--only 1024x1024x256] [--json FILE]      on the CPU, in f32
    python -m benchmarks.graft --device cuda [--quick]                   in f16, beside torch eager
    python -m benchmarks.graft --dry                                     no GPU: a small shape on the emulator

`grafted` is `models/kernels/ops/matmul.tc` with the epilogue inside; `apart` the kernel, then one for bias and GELU;
`fuser` the compiler's own product with the epilogue. Each is checked against f64 first. A shape is M x N x K.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import record
from benchmarks.gpu_fused_graphs import Ours
from benchmarks.gpu_timing import QUICK, SUSTAINED, Recorded, arguments, asked, medians, race
from graphfuse import compiler
from graphfuse.compiled_model import CompiledModel
from graphfuse.cpu import backend as cpu_backend
from graphfuse.dialects import control, graph
from graphfuse.frontends.tc_ops import Operator
from graphfuse.frontends.tc_ops.header import parse_headers
from graphfuse.fusion.regions.rules import never_graft
from graphfuse.gpu import backend as gpu_backend
from graphfuse.ir.core import Builder, Func, Params, Value
from graphfuse.ir.types import F16, F32, Scalar, Tensor
from graphfuse.knobs import Options
from graphfuse.llvm.host import host_target
from graphfuse.targets import Target

SOURCE = Path(__file__).resolve().parent.parent / "models/kernels/ops/matmul.tc"
TILES = "TM = 64, TN = 64, TK = 32"
WARPS = "num_warps: 4"
ON_GPU = ("TM = 128, TN = 128, TK = 64", "num_warps: 8")
SHAPES = {
    "cpu": ((512, 512, 512), (1024, 1024, 256), (2048, 768, 64)),
    "cuda": ((2048, 3072, 768), (4096, 4096, 1024), (8192, 8192, 256)),
}
SMALL = (72, 96, 128)
BOUND = {"f32": 1e-5, "f16": 2e-3}
REPEATS = 7


def operator(*, gpu: bool) -> Operator:
    """The kernel, with tiles for a device."""
    text = SOURCE.read_text()
    if gpu:
        text = text.replace(TILES, ON_GPU[0]).replace(WARPS, ON_GPU[1])
    (header,) = parse_headers(text, str(SOURCE))
    return Operator(header, text, str(SOURCE))


def layer(shape: tuple[int, int, int], elem: Scalar, kernel: Operator | None) -> Func:
    """gelu(x @ w + bias), the product by a kernel or by the compiler."""
    m, n, k = shape
    params = Params((Tensor((m, k), elem), Tensor((k, n), elem), Tensor((n,), elem)), ("x", "w", "bias"))
    x, w, bias = params.values
    b = Builder()

    def number(value: float) -> Value:
        return b(graph.full, shape=(m, n), elem=F32, value=value)

    product = b.append(kernel.call([x, w], {}) if kernel else graph.contract(x, w, spec="mk,kn->mn")).result
    v = b(graph.add, product, b(graph.broadcast, bias, shape=(m, n)))
    wide = v if elem == F32 else b(graph.cast, v, to=F32)
    half = b(graph.mul, wide, number(0.5))
    erf = b(graph.erf, b(graph.mul, wide, number(2.0**-0.5)))
    y = b(graph.mul, half, b(graph.add, erf, number(1.0)))
    b.op(control.return_, y if elem == F32 else b(graph.cast, y, to=elem))
    return Func("main", b.block(params), {"inputs": ("x", "w", "bias"), "outputs": ("y",)})


@contextmanager
def without_grafts() -> Generator[None]:
    """The compiler leaves called kernels alone."""
    with ExitStack() as stack:
        for backend in (cpu_backend, gpu_backend):
            stack.enter_context(mock.patch.object(backend, "why_not_graft", return_value=never_graft))
        yield


def compiled(shape: tuple[int, int, int], target: Target, device: str) -> dict[str, CompiledModel]:
    """The contestants."""
    gpu = target.kind == "cuda"
    elem, kernel = (F16, operator(gpu=True)) if gpu else (F32, operator(gpu=False))

    def build(own: Operator | None) -> CompiledModel:
        return CompiledModel(compiler.build(layer(shape, elem, own), target, Options()), None, device)

    out = {"grafted": build(kernel)}
    with without_grafts():
        out["apart"] = build(kernel)
    out["fuser"] = build(None)
    return out


def inputs(shape: tuple[int, int, int], dtype: Any) -> dict[str, Any]:
    """Numbers whose products are about 1."""
    m, n, k = shape
    rng = np.random.default_rng(record.SEED)
    scale = {"x": k**-0.5, "w": 1.0, "bias": 1.0}
    sizes = {"x": (m, k), "w": (k, n), "bias": (n,)}
    return {name: (rng.standard_normal(s) * scale[name]).astype(dtype) for name, s in sizes.items()}


def error(found: Any, feed: dict[str, Any]) -> float:
    """Against f64, relative in the Frobenius norm."""
    from math import erf

    x, w, bias = (feed[n].astype(np.float64) for n in ("x", "w", "bias"))
    v = x @ w + bias
    exact = 0.5 * v * (1 + np.vectorize(erf)(v / np.sqrt(2)))
    return float(np.linalg.norm(np.asarray(found, np.float64) - exact) / np.linalg.norm(exact))


def on_cpu(shape: tuple[int, int, int], device: str, target: Target, dtype: Any) -> dict[str, Any]:
    """Best of some runs of each in turn, milliseconds; on the emulator, no time."""
    models, feed = compiled(shape, target, device), inputs(shape, dtype)
    row: dict[str, Any] = {"shape": "x".join(map(str, shape)), "kernels": {}, "errors": {}, "ms": {}}
    for name, m in models.items():
        row["errors"][name] = error(m(feed)["y"], feed)
        row["kernels"][name] = [s.kernel for _, s in m.executable.plan.walk()]
    for _ in range(0 if device else REPEATS):
        for name, m in models.items():
            start = time.perf_counter()
            m.session.run(feed)
            took = (time.perf_counter() - start) * 1e3
            row["ms"][name] = min(took, row["ms"].get(name, took))
    return row


def on_gpu(shape: tuple[int, int, int], *, quick: bool) -> dict[str, Any]:
    """Milliseconds in CUDA graphs, in rounds whose order rotates."""
    import torch

    feed = inputs(shape, np.float16)
    given = {name: torch.from_numpy(a).cuda() for name, a in feed.items()}
    wide = {name: a.float() for name, a in given.items()}
    exact = torch.nn.functional.gelu(wide["x"] @ wide["w"] + wide["bias"])
    row: dict[str, Any] = {"shape": "x".join(map(str, shape)), "kernels": {}, "errors": {}}
    calls: dict[str, Any] = {}
    for name, m in compiled(shape, Target.parse("cuda:sm_90a"), "cuda").items():
        ours = Ours.of(torch, m, given)
        ours()
        torch.cuda.synchronize()
        row["errors"][name] = ((ours.out["y"].float() - exact).norm() / exact.norm()).item()
        row["kernels"][name] = [s.kernel for _, s in m.executable.plan.walk()]
        calls[name] = ours
    calls["eager"] = lambda: torch.nn.functional.gelu(torch.addmm(given["bias"], given["x"], given["w"]))
    found = race({name: Recorded(call) for name, call in calls.items()}, QUICK if quick else SUSTAINED)
    row |= {"ms": medians(found), "gpu": torch.cuda.get_device_name()}
    return row


def report(row: dict[str, Any]) -> str:
    """One line."""
    ms = "  ".join(f"{name} {t:.3f}" for name, t in row["ms"].items())
    errors = "  ".join(f"{name} {e:.1e}" for name, e in row["errors"].items())
    ratio = f"x{row['ms']['apart'] / row['ms']['grafted']:.2f} of apart" if row["ms"] else ""
    launches = {name: len(k) for name, k in row["kernels"].items()}
    return f"{row['shape']:16s} {ratio}  ms: {ms}  errors: {errors}  launches: {launches}"


def main() -> int:
    """See the module."""
    parser = arguments(__doc__, budget=60, dry=True)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    args = parser.parse_args()
    until = time.perf_counter() + args.budget
    rows: list[dict[str, Any]] = []
    bound = BOUND["f16" if args.dry or args.device == "cuda" else "f32"]
    for shape in [SMALL] if args.dry else SHAPES[args.device]:
        if not asked("x".join(map(str, shape)), args.only) or time.perf_counter() > until:
            continue
        if args.dry:
            rows.append(on_cpu(shape, "emulator", Target.parse("cuda:sm_90a"), np.float16))
        elif args.device == "cuda":
            rows.append(on_gpu(shape, quick=args.quick))
        else:
            rows.append(on_cpu(shape, "", host_target(), np.float32))
        print(report(rows[-1]), flush=True)
        if args.json:
            record.write(args.json, rows)
    return 0 if all(e <= bound for row in rows for e in row["errors"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
