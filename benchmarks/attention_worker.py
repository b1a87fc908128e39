"""Runs attention kernels on the GPU beside torch's and Triton's; `gpu_attention` starts it (see `gemm_worker`)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from benchmarks import record
from benchmarks.gemm_worker import ELEMS, Kernel, serve, time_all
from benchmarks.gpu_timing import Call, twice

PEERS = {"fa2": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}
CHECKED_ROWS = 1024
"""Queries compared with float64 for a head."""
LARGEST_ERROR = 4e-3
"""Of the result's norm."""


class Problem:
    """The data of a job, and its peers."""

    def __init__(self, job: dict[str, Any]) -> None:
        elem, self.causal = ELEMS[job["elem"]], job["causal"]
        generator = torch.Generator("cuda").manual_seed(record.SEED)
        b, h, s, d = job["batch"], job["heads"], job["queries"], job["depth"]

        def random(*shape: int) -> torch.Tensor:
            return torch.randn(*shape, device="cuda", generator=generator, dtype=torch.float32).to(elem)

        if job["layout"] == "packed":
            self.memory = [random(b, s, 3, h, d)]
            self.q, self.k, self.v = (self.memory[0][:, :, i].transpose(1, 2) for i in range(3))
        else:
            self.memory = [random(b, h, s, d) for _ in range(3)]
            self.q, self.k, self.v = self.memory
        bshd = job["layout"] != "bhsd"
        self.out = torch.empty((b, s, h, d) if bshd else (b, h, s, d), device="cuda", dtype=elem)
        self.result = self.out.transpose(1, 2) if bshd else self.out

    def error(self, got: torch.Tensor) -> float:
        """The largest of some heads' relative errors, by float64; those of all heads by torch's in f32."""
        worst = 0.0
        batch, heads, length, depth = self.q.shape
        for b, h in ((0, 0), (batch - 1, heads - 1), (batch // 2, heads // 3)):
            rows = (
                torch.cat([torch.arange(CHECKED_ROWS), torch.arange(length - CHECKED_ROWS, length)]).clamp(0).unique()
            )
            rows = rows[rows < length].cuda()
            q, k, v = (x[b, h].double() for x in (self.q, self.k, self.v))
            scores = q[rows] @ k.T * depth**-0.5
            if self.causal:
                scores.masked_fill_(torch.arange(length, device="cuda")[None, :] > rows[:, None], -torch.inf)
            want = scores.softmax(-1) @ v
            worst = max(worst, ((got[b, h][rows].double() - want).norm() / want.norm()).item())
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            whole = torch.nn.functional.scaled_dot_product_attention(self.q, self.k, self.v, is_causal=self.causal)
        away = (got.float() - whole.float()).abs().amax(-1).amax(-1) / whole.float().abs().amax(-1).amax(-1)
        return max(worst, away.max().item() / 8)  # the largest element may be off by more than the norm

    def peers(self, say: Callable[[dict[str, Any]], None]) -> dict[str, Call]:
        """What torch and Triton have, as far as it runs."""
        sdpa = torch.nn.functional.scaled_dot_product_attention

        def backend(which: Any) -> Call:
            def call() -> None:
                with sdpa_kernel(which):
                    sdpa(self.q, self.k, self.v, is_causal=self.causal)

            return call

        tried = {name: backend(which) for name, which in PEERS.items()}
        try:
            from benchmarks.triton_attention import attention

            mine = torch.empty_like(self.result)
            tried["triton"] = lambda: attention(self.q, self.k, self.v, mine, causal=self.causal)
        except ImportError as e:
            say({"note": f"triton: {e}"})
        out: dict[str, Call] = {}
        for name, call in tried.items():
            say({"trying": name})
            try:
                call()
                torch.cuda.synchronize()
                out[name] = call
            except Exception as e:  # noqa: BLE001  # one peer less
                say({"note": f"{name}: {str(e)[:300]}"})
        if "triton" in out:
            say({"kernel": "triton", "error": self.error(mine), "registers": 0, "local": 0})
        return out


def run(job: dict[str, Any], timing: dict[str, Any], say: Callable[[dict[str, Any]], None]) -> None:
    """One shape: check every kernel, then time all."""
    problem = Problem(job)
    calls = problem.peers(say)
    calls = calls if job.get("few_peers") else twice(calls)
    for spec in job["kernels"]:
        say({"trying": spec["label"]})
        problem.out.fill_(float("nan"))
        kernel = Kernel(spec, [*problem.memory, problem.out], [])
        kernel()
        torch.cuda.synchronize()
        error = problem.error(problem.result)
        say({"kernel": spec["label"], "error": error, "registers": kernel.registers, "local": kernel.local_bytes})
        if error < LARGEST_ERROR:
            calls[spec["label"]] = kernel
    time_all(calls, job["flops"], timing, say)


if __name__ == "__main__":
    serve(Path(sys.argv[1]), run)
