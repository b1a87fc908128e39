"""What it costs to compile the models of `torch_gpu` for an H200, on any machine: no kernel runs.

    python -m benchmarks.gpu_compile [--only bert,resnet50] [--rounds 3] [--json FILE]

`capture` is Dynamo, AOTAutograd and the import of parts, with attention as torch chooses it on a GPU; `compile` is from
graph IR to code. Seconds of the wall and of the processor, of LLVM too; those of other processes, which are as many as
there are cores for, are apart: `ptxas`, and workers where there are four cores or more. Each round has a process of its
own; the least of each counts. `launches` are those of a call.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import record
from benchmarks.gpu_timing import arguments, asked
from benchmarks.torch_gpu import CASES

TARGET = "cuda:sm_90a"
ROUND_UP = 8
"""Elements that rows of a mask are padded to, so that torch's kernels can read them."""


def attention_of_a_gpu(
    query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
    scale: float | None = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    """`scaled_dot_product_attention` as torch decomposes it for CUDA tensors of halves."""
    import torch

    aten = torch.ops.aten
    assert not enable_gqa, "no model here has fewer heads of keys than of queries"
    assert not dropout_p, "no model here drops any"
    if attn_mask is None:
        return aten._scaled_dot_product_flash_attention(query, key, value, dropout_p, is_causal, scale=scale)[0]
    if attn_mask.dtype == torch.bool:
        attn_mask = torch.where(attn_mask, 0.0, torch.scalar_tensor(float("-inf"), dtype=query.dtype))
    if attn_mask.stride(-1) != 1 or any(s % ROUND_UP for s in attn_mask.stride()[:-1]):
        keys = attn_mask.shape[-1]
        attn_mask = torch.nn.functional.pad(attn_mask, (0, ROUND_UP - keys % ROUND_UP))[..., :keys]
    attn_mask = attn_mask.expand(*query.shape[:-1], key.shape[-2])
    call = aten._scaled_dot_product_efficient_attention
    return call(query, key, value, attn_mask, compute_log_sumexp=False, is_causal=is_causal, scale=scale)[0]


def as_on_a_gpu(gm: Any) -> None:
    """Let the tensors of a graph be a GPU's."""
    import torch
    from torch._guards import detect_fake_mode
    from torch.utils._pytree import tree_map

    mode = detect_fake_mode([n.meta.get("val") for n in gm.graph.nodes])
    assert mode is not None

    def moved(x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            return x
        with mode:
            return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="cuda")

    for node in gm.graph.nodes:
        node.meta["val"] = tree_map(moved, node.meta.get("val"))
        if node.kwargs.get("device") is not None:
            node.kwargs = {**node.kwargs, "device": torch.device("cuda")}


def parts_of(name: str) -> tuple[list[Any], float]:
    """The functions of a case's parts, and the seconds it took to make them."""
    import torch
    from torch._dynamo.backends.common import aot_autograd
    from torch._dynamo.exc import BackendCompilerFailed

    from benchmarks.torch_gpu import run_of
    from graphfuse.frontends.fx.importer import import_part
    from graphfuse.torch.constants import inline_numbers
    from graphfuse.torch.cut import cut
    from graphfuse.torch.decompositions import decompositions
    from models import _torch_export

    _torch_export.import_torchvision()
    found: list[Any] = []

    def compiler(gm: Any, _: Any) -> Any:
        as_on_a_gpu(gm)
        inline_numbers(gm)
        made = cut(gm.graph, {})
        assert not made.reasons, f"operators that are left to torch: {made.reasons}"
        found.extend(import_part(r.part) for r in made.regions)
        return gm.forward

    def backend(gm: Any, inputs: Any) -> Any:
        for node in gm.graph.nodes:
            if node.target is torch.nn.functional.scaled_dot_product_attention:
                node.target = attention_of_a_gpu
        gm.recompile()
        aot_autograd(fw_compiler=compiler, decompositions=decompositions())(gm, inputs)
        raise _CapturedError

    step = run_of(torch, CASES[name], "cpu", training=False).step({"backend": backend})
    start = time.perf_counter()
    try:
        step()
    except BackendCompilerFailed as e:
        if not isinstance(e.inner_exception, _CapturedError):
            raise
    return found, time.perf_counter() - start


class _CapturedError(Exception):
    """What is there to be compiled is known."""


def measure(name: str) -> dict[str, Any]:
    """One case in this process."""
    parts, capture = parts_of(name)
    from graphfuse.compiler import build
    from graphfuse.gpu.workers import workers
    from graphfuse.knobs import Options
    from graphfuse.targets import Target

    begun = time.perf_counter(), time.process_time(), _children()
    made = [build(f, Target.parse(TARGET), Options()) for f in parts]
    ended = time.perf_counter(), time.process_time()
    workers.stop()  # what they took is known when they have ended
    ended = *ended, _children()
    wall, cpu, beside = (b - a for a, b in zip(begun, ended, strict=True))
    launches = Counter(step.kernel for e in made for _, step in e.plan.walk())
    return {
        "case": name, "capture_s": capture, "compile_s": wall, "cpu_s": cpu, "beside_cpu_s": beside,
        "kernels": len(launches), "launches": launches.total(),
    }  # fmt: skip


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    """Every round in a process of its own."""
    parser = arguments(__doc__, budget=600)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--worker", help="one case in this process")
    args = parser.parse_args()
    if args.worker:
        print(json.dumps(measure(args.worker)))
        return 0
    rows: list[dict[str, Any]] = []
    deadline = time.perf_counter() + args.budget
    for name in CASES:
        rounds: list[dict[str, Any]] = []
        while asked(name, args.only) and len(rounds) < args.rounds and time.perf_counter() < deadline:
            command = [sys.executable, "-m", "benchmarks.gpu_compile", "--worker", name]
            env = {**os.environ, "GRAPHFUSE_CACHE": "0"}
            done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
            rounds.append(json.loads(done.stdout.splitlines()[-1]))
        if rounds:
            row = {k: min(r[k] for r in rounds) for k in rounds[0]}
            rows.append(row)
            print(", ".join(f"{k} {v:.2f}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()), flush=True)
    if args.json:
        record.write(args.json, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
