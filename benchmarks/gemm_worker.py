"""Runs matrix products on the GPU beside torch's (a process of its own: a kernel that fails takes its context along).

Reads jobs from a file, one shape each, and prints a line of JSON for every step; `gpu_race` starts it and reads them.
Timing as in `gpu_timing`, launches in a CUDA graph. Data is random; outputs are poisoned before they are checked.
"""

from __future__ import annotations

import ctypes
import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from cuda.bindings import driver

from benchmarks import record
from benchmarks.gpu_timing import Call, Recorded, Timing, medians, race, twice

ELEMS = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
MAP_ELEMS = {
    "bf16": "BFLOAT16", "f16": "FLOAT16", "f32": "FLOAT32", "i32": "INT32", "i8": "UINT8", "f8e4m3": "UINT8",
}  # fmt: skip

SETTLE = 0.4
"""Seconds of work before products are timed in rounds: in short ones the third contestant of a shape took up to 9 %
longer than the same kernel further on (4096^3: 222.5 and 204.1 us), as if the limit of power answered late."""
SIZES = {"bf16": 2, "f16": 2, "f32": 4, "i32": 4, "i8": 1, "f8e4m3": 1}


def checked(result: Any) -> Any:
    """What a driver call gives, or its error."""
    code, *values = result
    if code != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(str(code))
    return values[0] if len(values) == 1 else values


def tensor_map(spec: dict[str, Any], tensor: torch.Tensor, promoted: int = 128) -> Any:
    """128 bytes for one `TensorMap` of a kernel; so many bytes are read into the cache at once."""
    promotion = f"L2_{promoted}B" if promoted else "NONE"
    enum = driver.CUtensorMapDataType
    elem = getattr(enum, f"CU_TENSOR_MAP_DATA_TYPE_{MAP_ELEMS[spec['elem']]}")
    size = SIZES[spec["elem"]]
    rank = len(spec["dims"])
    how = spec.get("im2col")
    steps = [1] * rank
    if how:
        encode, box = driver.cuTensorMapEncodeIm2col, (how["lower"], how["upper"], *spec["box"])
        steps[1:-1] = how["steps"]
    else:
        encode, box = driver.cuTensorMapEncodeTiled, ([driver.cuuint32_t(b) for b in spec["box"]],)
    swizzle = {0: "NONE", 32: "32B", 64: "64B", 128: "128B"}[spec["swizzle"]]
    return checked(
        encode(
            elem,
            rank,
            tensor.data_ptr() + spec["offset"] * size,
            [driver.cuuint64_t(d) for d in spec["dims"]],
            [driver.cuuint64_t(s * size) for s in spec["strides"]],
            *box,
            [driver.cuuint32_t(s) for s in steps],
            driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            getattr(driver.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{swizzle}"),
            getattr(driver.CUtensorMapL2promotion, f"CU_TENSOR_MAP_L2_PROMOTION_{promotion}"),
            driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
    )


class Kernel:
    """A compiled product, bound to tensors: inputs in the order of its parameters, then the output."""

    def __init__(self, spec: dict[str, Any], tensors: list[torch.Tensor], symbols: list[int]) -> None:
        self.spec, self._tensors = spec, tensors
        image = Path(spec["image"]).read_bytes()
        self.module = checked(driver.cuModuleLoadData(image + b"\0"))
        self.function = checked(driver.cuModuleGetFunction(self.module, spec["name"].encode()))
        attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        checked(driver.cuFuncSetAttribute(self.function, attribute, spec["shared_bytes"]))
        self.registers = self._attribute("NUM_REGS")
        self.local_bytes = self._attribute("LOCAL_SIZE_BYTES")
        sms = torch.cuda.get_device_properties(0).multi_processor_count
        self.grid = spec["grid"] * spec["split"]
        if spec["persistent"]:
            self.grid = min(self.grid, sms * spec["persistent"] // spec["cluster"] * spec["cluster"])
        flags = -(-4 * spec.get("flags", 0) * self.grid // 256) * 256
        self.scratch = torch.zeros(flags + spec.get("scratch_bytes", 0) * self.grid, dtype=torch.uint8, device="cuda")
        scratch = self.scratch.data_ptr() + flags if len(self.scratch) else 0
        words = [ctypes.c_uint64(v) for v in (*(t.data_ptr() for t in tensors), *symbols, scratch)]
        maps = [tensor_map(m, tensors[m["param"]], spec.get("promotion", 128)) for m in spec["tensor_maps"]]
        self._keep = (words, maps)
        addresses = [ctypes.addressof(w) for w in words] + [int(m.getPtr()) for m in maps]
        self._params = (ctypes.c_void_p * len(addresses))(*addresses)

    def _attribute(self, name: str) -> int:
        enum = driver.CUfunction_attribute
        return int(checked(driver.cuFuncGetAttribute(getattr(enum, f"CU_FUNC_ATTRIBUTE_{name}"), self.function)))

    def __call__(self) -> None:
        """Launch on torch's current stream."""
        stream = torch.cuda.current_stream().cuda_stream
        params = ctypes.addressof(self._params)
        threads, shared = self.spec["threads"], self.spec["shared_bytes"]
        if not self.spec.get("overlaps"):
            checked(driver.cuLaunchKernel(self.function, self.grid, 1, 1, threads, 1, 1, shared, stream, params, 0))
            return
        config, attribute = driver.CUlaunchConfig(), driver.CUlaunchAttribute()
        config.gridDimX, config.gridDimY, config.gridDimZ = self.grid, 1, 1
        config.blockDimX, config.blockDimY, config.blockDimZ = threads, 1, 1
        config.sharedMemBytes, config.hStream = shared, stream
        attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        attribute.value.programmaticStreamSerializationAllowed = 1
        config.attrs, config.numAttrs = [attribute], 1
        checked(driver.cuLaunchKernelEx(config, self.function, params, 0))


class Chain:
    """A product of several kernels, as the runtime launches them: all but the first may begin early."""

    def __init__(self, plan: dict[str, Any], inputs: list[torch.Tensor], out: torch.Tensor) -> None:
        kinds = {"input": inputs, "output": [out]}
        buffers = [
            kinds[b["kind"]][b["index"]]
            if b["kind"] in kinds
            else torch.empty(b["nbytes"], dtype=torch.uint8, device="cuda")
            for b in plan["buffers"]
        ]
        self.kernels: list[Kernel] = []
        for i, step in enumerate(plan["steps"]):
            spec = {**step, "overlaps": step["overlaps"] and i > 0}
            self.kernels.append(Kernel(spec, [buffers[b] for b in step["buffers"]], []))
        self.registers = max(k.registers for k in self.kernels)
        self.local_bytes = max(k.local_bytes for k in self.kernels)

    def __call__(self) -> None:
        """Launch on torch's current stream."""
        for kernel in self.kernels:
            kernel()


class Problem:
    """The data of a job, and torch's ways to compute it."""

    def __init__(self, job: dict[str, Any]) -> None:
        elem = ELEMS[job["elem"]]
        generator = torch.Generator("cuda").manual_seed(record.SEED)

        def random(*shape: int) -> torch.Tensor:
            return torch.randn(*shape, device="cuda", generator=generator, dtype=torch.float32).to(elem)

        m, n, k = job["m"], job["n"], job["k"]
        self.memory = [random(k, m) if job["ta"] else random(m, k), random(n, k) if job["tb"] else random(k, n)]
        self.a = self.memory[0].T if job["ta"] else self.memory[0]
        self.b = self.memory[1].T if job["tb"] else self.memory[1]
        self.bias = random(n)
        self.residual = random(m, n) if job["residual"] else None
        self.out = torch.empty(m, n, device="cuda", dtype=elem)
        self.job = job

    def inputs(self) -> list[torch.Tensor]:
        """What a kernel reads, in order."""
        out = list(self.memory)
        if self.job["bias"]:
            out.append(self.bias)
        if self.residual is not None:
            out.append(self.residual)
        return out

    def exact(self) -> torch.Tensor:
        """In f32."""
        out = self.a.float() @ self.b.float()
        if self.job["bias"]:
            out += self.bias.float()
        if self.residual is not None:
            out += self.residual.float()
        return torch.nn.functional.gelu(out, approximate="tanh") if self.job["gelu"] else out

    def peers(self) -> dict[str, Call]:
        """torch's calls, the one to beat first."""
        a, b, out, bias = self.a, self.b, self.out, self.bias
        functional = torch.nn.functional
        if self.job["gelu"]:
            return {
                "cublaslt": lambda: torch._addmm_activation(bias, a, b, use_gelu=True),
                "eager": lambda: functional.gelu(torch.addmm(bias, a, b), approximate="tanh"),
            }
        if self.residual is not None:
            residual = self.residual
            return {
                "addmm": lambda: torch.addmm(residual, a, b, out=out),
                "eager": lambda: torch.addmm(bias, a, b).add_(residual),
            }
        return {
            "mm": lambda: torch.mm(a, b, out=out),
            "addmm": lambda: torch.addmm(bias, a, b, out=out),
        }


def run(job: dict[str, Any], timing: dict[str, Any], say: Callable[[dict[str, Any]], None]) -> None:
    """One shape: check every kernel, then time all."""
    problem = Problem(job)
    exact = problem.exact()
    calls: dict[str, Call] = {}
    if not job.get("check_only"):
        calls |= problem.peers() if job.get("few_peers") else twice(problem.peers())
    symbols = [job["m"]] if job["symbolic"] else []
    for spec in job["kernels"]:
        say({"trying": spec["label"]})
        problem.out.fill_(float("nan"))
        if plan := spec.get("plan"):
            kernel: Kernel | Chain = Chain(plan, problem.inputs(), problem.out)
        else:
            kernel = Kernel(spec, [*problem.inputs(), problem.out], symbols)
        kernel()
        torch.cuda.synchronize()
        error = ((problem.out.float() - exact).norm() / exact.norm()).item()
        good = error < 1e-2
        say({"kernel": spec["label"], "error": error, "registers": kernel.registers, "local": kernel.local_bytes})
        if good:
            calls[spec["label"]] = kernel
    del exact
    if job.get("check_only"):
        return
    time_all(calls, 2 * job["m"] * job["n"] * job["k"], timing, say, SETTLE)


def time_all(
    calls: Mapping[str, Call],
    flops: int,
    timing: dict[str, Any],
    say: Callable[[dict[str, Any]], None],
    settle: float = 0,
) -> None:
    """Times of all contestants by turns, and what rate `flops` operations make of them, after `settle` seconds."""

    def trying(label: str) -> None:
        say({"trying": label})

    recorded: dict[str, Recorded] = {}
    for label, call in calls.items():
        trying(label)
        recorded[label] = Recorded(call)
    if settle and recorded:
        next(iter(recorded.values())).ms(settle, 0)
    found = race(recorded, Timing(**timing), trying)
    for label, ms in medians(found).items():
        all_us = [t * 1e3 for t in found[label]]
        say({"result": label, "us": ms * 1e3, "tflops": flops / ms / 1e9, "all_us": all_us})


def serve(path: Path, run: Callable[[dict[str, Any], dict[str, Any], Callable[[dict[str, Any]], None]], None]) -> None:
    """Run the jobs of a file {"timing": .., "jobs": [..]}."""
    work = json.loads(path.read_text(encoding="utf-8"))
    torch.backends.cuda.matmul.allow_tf32 = False
    print(json.dumps({"gpu": torch.cuda.get_device_name(0), "torch": torch.__version__}), flush=True)
    for i, job in enumerate(work["jobs"]):
        begun = time.perf_counter()

        def say(row: dict[str, Any], job: dict[str, Any] = job) -> None:
            print(json.dumps({"job": job["name"], **row}), flush=True)

        run(job, work["timing"], say)
        torch.cuda.empty_cache()
        print(json.dumps({"job": job["name"], "done": i, "seconds": time.perf_counter() - begun}), flush=True)


def main() -> None:
    """`python -m benchmarks.gemm_worker JOBS`."""
    serve(Path(sys.argv[1]), run)


if __name__ == "__main__":
    main()
