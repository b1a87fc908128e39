"""`python -m tests.gpu.foreign.take_down FILE`, on a GPU: PTX and launches of `inductor.FUNCTIONS`, as JSON by xz."""

import json
import lzma
import re
import sys
from pathlib import Path

import torch
from torch._inductor import config
from torch._inductor.runtime import triton_heuristics as heuristics

from tests.gpu.foreign.inductor import FUNCTIONS, Taken

LAUNCHED: list = []


def record() -> None:
    """Every launch by Inductor goes into LAUNCHED: names and values of arguments, and the kernel as Triton keeps it."""
    result = heuristics.TritonCompileResult
    original = result._gen_launcher_code

    def recording(self, scope, def_args, runner_args):
        runner, kernel = scope["runner"], self.kernel

        def launch(*values):
            named = dict(zip(runner_args, values, strict=True))
            LAUNCHED.append((kernel, named))
            return runner(*values)

        scope["runner"] = launch
        return original(self, scope, def_args, runner_args)

    result._gen_launcher_code = recording


def described(taken: Taken) -> tuple[list[str], dict]:
    """The texts of a function's kernels, and their launches."""
    inputs = [x.cuda() for x in taken.inputs]
    with config.patch(
        {"use_static_cuda_launcher": False, "compile_threads": 1, "force_disable_caches": True, **dict(taken.options)}
    ):
        torch._dynamo.reset()
        function = torch.compile(taken.function, fullgraph=True)
        function(*[x.clone() for x in inputs])
        LAUNCHED.clear()
        found = function(*inputs)
        torch.cuda.synchronize()
    outputs = [found] if isinstance(found, torch.Tensor) else list(found)
    launches, LAUNCHED[:] = list(LAUNCHED), []
    buffers: dict[int, dict] = {}

    def buffer(x: torch.Tensor, kind: str) -> int:
        """Its index."""
        storage = x.untyped_storage()
        entry = buffers.setdefault(
            storage.data_ptr(),
            {"index": len(buffers), "kind": kind, "dtype": str(x.dtype).removeprefix("torch."),
             "count": storage.nbytes() // x.itemsize},
        )  # fmt: skip
        assert x.storage_offset() == 0, "a view of a part"
        return entry["index"]

    def viewed(x: torch.Tensor, kind: str) -> dict:
        return {"buffer": buffer(x, kind), "shape": list(x.shape), "strides": list(x.stride())}

    given = [viewed(x, "input") for x in inputs]
    returned = [viewed(x, "output") for x in outputs]
    texts, rows = [], []
    for kernel, named in launches:
        ptx = kernel.asm["ptx"]
        names = [n for n, t in kernel.src.signature.items() if t != "constexpr"]
        assert set(names) <= set(named), f"{names} of {list(named)}"
        values = [
            {
                "buffer": buffer(named[n], "given" if n.startswith(("in_ptr", "ws_ptr", "sem_ptr")) else "scratch"),
                "name": n,
            }
            if isinstance(named[n], torch.Tensor)
            else {"number": named[n], "name": n}
            for n in names
        ]
        rows.append({
            "kernel": kernel.metadata.name, "grid": [named[f"grid_{i}"] for i in range(3)],
            "warps": kernel.metadata.num_warps, "shared": kernel.metadata.shared,
            "ctas": kernel.metadata.num_ctas, "scratch": getattr(kernel.metadata, "global_scratch_size", 0),
            "arguments": values,
        })  # fmt: skip
        texts.append(ptx)
    kept = sorted(buffers.values(), key=lambda b: b["index"])
    return texts, {
        "buffers": [{k: v for k, v in b.items() if k != "index"} for b in kept], "inputs": given, "outputs": returned,
        "launches": rows,
    }  # fmt: skip


def without_paths(ptx: str) -> str:
    """Without what holds the paths of files."""
    return re.sub(r'(\.file\s+\d+ )"(?:.*/)?([^"/]*)"', r'\1"\2"', ptx.partition("\t.section\t.debug")[0])


if __name__ == "__main__":
    import triton

    record()
    made = {}
    for name, taken in FUNCTIONS.items():
        texts, made[name] = described(taken)
        for text, launch in zip(texts, made[name]["launches"], strict=True):
            launch["ptx"] = without_paths(text)
    head = {"torch": torch.__version__, "triton": triton.__version__, "device": torch.cuda.get_device_name()}
    text = json.dumps({**head, "functions": made}, indent=1)
    Path(sys.argv[1]).write_bytes(lzma.compress(text.encode(), preset=9))
