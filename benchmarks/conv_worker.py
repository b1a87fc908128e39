"""Runs convolutions on the GPU beside cuDNN's, as `gemm_worker` runs products; `gpu_conv` starts it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks import record
from benchmarks.gemm_worker import ELEMS, Kernel, serve, time_all
from benchmarks.gpu_timing import Call, twice

BOUND = 5e-3
"""Largest relative error in the Euclidean norm."""


class Problem:
    """The data of a job, and torch's ways to compute it: images are channels last, as ours are."""

    def __init__(self, job: dict[str, Any]) -> None:
        elem = ELEMS[job["elem"]]
        generator = torch.Generator("cuda").manual_seed(record.SEED)
        n, size, channels, out, kernel = (job[k] for k in ("batch", "size", "channels", "out", "kernel"))

        def random(*shape: int, scale: float = 1.0) -> torch.Tensor:
            return (torch.randn(*shape, device="cuda", generator=generator) * scale).to(elem)

        last = torch.channels_last
        self.x = random(n, channels, size, size).to(memory_format=last)
        self.w = random(out, channels, kernel, kernel, scale=(channels * kernel**2) ** -0.5).to(memory_format=last)
        self.bias = random(out)
        positions = job["positions"]
        self.residual = random(n, out, positions, positions).to(memory_format=last) if job["residual"] else None
        self.out = torch.empty(n, positions, positions, out, device="cuda", dtype=elem)
        self.how = ([job["stride"]] * 2, [job["pad"]] * 2, [1, 1])

    def inputs(self) -> list[torch.Tensor]:
        """What a kernel reads, in order: images as they lie in memory, weights [kh, kw, c, o]."""
        out = [self.x.permute(0, 2, 3, 1), self.w.permute(2, 3, 1, 0).contiguous(), self.bias]
        return out if self.residual is None else [*out, self.residual.permute(0, 2, 3, 1)]

    def exact(self) -> torch.Tensor:
        """In f32, channels last."""
        out = torch.nn.functional.conv2d(self.x.float(), self.w.float(), self.bias.float(), *self.how)
        out = out if self.residual is None else out + self.residual.float()
        return out.relu().permute(0, 2, 3, 1)

    def peers(self) -> dict[str, Call]:
        """cuDNN with bias and relu in one kernel; then torch's own calls, and the convolution alone."""
        x, w, bias, residual = self.x, self.w, self.bias, self.residual
        stride, pad, dilation = self.how
        conv2d = torch.nn.functional.conv2d
        alone = {"conv alone": lambda: conv2d(x, w, None, stride, pad)}
        if residual is not None:
            return {
                "cudnn": lambda: torch.cudnn_convolution_add_relu(x, w, residual, 1.0, bias, stride, pad, dilation, 1),
                "eager": lambda: conv2d(x, w, bias, stride, pad).add_(residual).relu_(),
                **alone,
            }
        return {
            "cudnn": lambda: torch.cudnn_convolution_relu(x, w, bias, stride, pad, dilation, 1),
            "eager": lambda: conv2d(x, w, bias, stride, pad).relu_(),
            **alone,
        }


def run(job: dict[str, Any], timing: dict[str, Any], say: Callable[[dict[str, Any]], None]) -> None:
    """One shape: check every kernel, then time all."""
    problem = Problem(job)
    exact = problem.exact()
    calls: dict[str, Call] = {}
    for label, call in problem.peers().items():
        say({"trying": label})
        try:
            call()
        except RuntimeError as e:
            say({"peer": label, "error": str(e)[:200]})
            continue
        calls[label] = call
    calls = calls if job.get("few_peers") else twice(calls)
    inputs = problem.inputs()
    for spec in job["kernels"]:
        say({"trying": spec["label"]})
        problem.out.fill_(float("nan"))
        kernel = Kernel(spec, [*inputs, problem.out], [])
        kernel()
        torch.cuda.synchronize()
        error = ((problem.out.float() - exact).norm() / exact.norm()).item()
        say({"kernel": spec["label"], "error": error, "registers": kernel.registers, "local": kernel.local_bytes})
        if error < BOUND:
            calls[spec["label"]] = kernel
    del exact
    time_all(calls, job["flops"], timing, say)


def main() -> None:
    """`python -m benchmarks.conv_worker JOBS`."""
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = False
    serve(Path(sys.argv[1]), run)


if __name__ == "__main__":
    main()
