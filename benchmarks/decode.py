"""One step of a Llama that writes a token: weights that stay, a cache that is written in place and read.

    python -m benchmarks.decode [--cases 1b:1:1024,8b:16:2048] [--layers N] [--only 1b,8b] [--json FILE]
    python -m benchmarks.decode --cpu 2 [--dtypes f32,bf16] ...    on so many threads of the CPU, in f32 and in bf16
    python -m benchmarks.decode --dry          no GPU: small ones on the CPU, compared with eager

A case is a model, a batch and the length of its cache; with `:prompt`, a prompt of that length is read at once.

Random weights in bf16, in the shapes of Llama-3.2-1B, 3B and Llama-3.1-8B (and of one of 110 million), or their first
`--layers`, under `torch.compile`; on a CPU also in ONNX Runtime, from a file as its GenAI's builder writes.
`bound` is the part of the copy bandwidth (of a CPU: of what threads read), measured in the same run, that the bytes
of weights and cache alone would need; `launches` counts kernels of one step for each layer, `copies` bytes that the
driver copies. Times are medians of rounds in rotated order, and the ratio is that to the best of the others. Every
model has a process of its own.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import record
from benchmarks.genai import by_onnxruntime
from benchmarks.gpu_timing import AGAIN, Call, Called, Timing, arguments, asked, elapsed, medians, race, twice
from benchmarks.torch_gpu import distance, in_a_process, settings_of

TIMING = Timing(0.05, 0.2, 5)
SIDES = ("eager", "graphfuse", "reduce-overhead")
ON_CPU = ("eager", "graphfuse", "inductor", "onnxruntime")
PROMPT_SIDES = ("eager", "cudnn", "graphfuse", "reduce-overhead")
"""`cudnn` is eager with cuDNN's attention."""
CASES = "1b:1:1024,3b:1:1024,8b:1:1024,8b:16:2048,8b:64:2048,8b:1:2048:prompt"
CASES_OF_CPU = "110m:1:1024,1b:1:1024"
COPIED = 1 << 30
"""Bytes of the copy whose bandwidth is measured."""


@dataclass(frozen=True)
class Shape:
    """Of a Llama."""

    width: int
    layers: int
    heads: int
    groups: int
    size: int
    hidden: int
    words: int = 128_256
    tied: bool = True


SHAPES = {
    "110m": Shape(768, 12, 12, 4, 64, 2048, words=32_000),
    "1b": Shape(2048, 16, 32, 8, 64, 8192),
    "3b": Shape(3072, 28, 24, 8, 128, 8192),
    "8b": Shape(4096, 32, 32, 8, 128, 14336, tied=False),
}
SMALL = Shape(64, 2, 4, 2, 16, 96, words=100)


def decoder(torch: Any, shape: Shape, batch: int, keys: int) -> Any:
    """A module whose forward takes words [batch, n] and their positions [n], and gives the logits of the last.

    There is one word, or as many as keys.
    """
    from torch import nn
    from torch.nn import functional

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            wide, narrow = shape.heads * shape.size, shape.groups * shape.size
            self.before, self.behind = nn.RMSNorm(shape.width, 1e-5), nn.RMSNorm(shape.width, 1e-5)
            self.q, self.k, self.v = (nn.Linear(shape.width, n, bias=False) for n in (wide, narrow, narrow))
            self.o = nn.Linear(wide, shape.width, bias=False)
            self.gate, self.up = (nn.Linear(shape.width, shape.hidden, bias=False) for _ in range(2))
            self.down = nn.Linear(shape.hidden, shape.width, bias=False)
            cache = torch.zeros(batch, shape.groups, keys, shape.size)
            self.register_buffer("keys", torch.randn_like(cache))
            self.register_buffer("values", torch.randn_like(cache))

        def forward(self, x: Any, at: Any, turns: tuple[Any, Any], mask: Any) -> Any:
            y = self.before(x)
            q, k, v = (p(y).view(batch, len(at), -1, shape.size).transpose(1, 2) for p in (self.q, self.k, self.v))
            self.keys.index_copy_(2, at, turned(k, *turns))
            self.values.index_copy_(2, at, v)
            y = functional.scaled_dot_product_attention(
                turned(q, *turns), self.keys, self.values, attn_mask=mask, is_causal=mask is None, enable_gqa=True
            )
            x = x + self.o(y.transpose(1, 2).reshape(batch, len(at), -1))
            y = self.behind(x)
            return x + self.down(functional.silu(self.gate(y)) * self.up(y))

    def turned(x: Any, cos: Any, sin: Any) -> Any:
        first, second = x.chunk(2, -1)
        return x * cos + torch.cat((-second, first), -1) * sin

    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(shape.words, shape.width)
            self.layers = nn.ModuleList(Layer() for _ in range(shape.layers))
            self.norm, self.head = nn.RMSNorm(shape.width, 1e-5), nn.Linear(shape.width, shape.words, bias=False)
            if shape.tied:
                self.head.weight = self.embedding.weight
            angles = torch.arange(keys)[:, None] / 5e5 ** (torch.arange(0, shape.size, 2) / shape.size)
            self.register_buffer("cos", angles.cos().repeat(1, 2))
            self.register_buffer("sin", angles.sin().repeat(1, 2))

        def forward(self, words: Any, at: Any) -> Any:
            x, mask = self.embedding(words), None
            if len(at) == 1:
                mask = (torch.arange(keys, device=at.device) <= at)[None, None, None]
            turns = self.cos[at], self.sin[at]
            for layer in self.layers:
                x = layer(x, at, turns, mask)
            return self.head(self.norm(x[:, -1]))

    torch.manual_seed(record.SEED)
    return Decoder().eval()


def bytes_read(module: Any, shape: Shape) -> int:
    """Of a step: all weights but the embedding's, which is read for few words, and the cache."""
    tensors = {id(p): p for p in [*module.parameters(), *module.buffers()]}
    if not shape.tied:
        tensors.pop(id(module.embedding.weight))
    return sum(t.nbytes for t in tensors.values())


def row_of(case: str) -> dict[str, Any]:
    """The beginning of a case's row."""
    model, batch, keys, *rest = case.split(":")
    return {"model": model, "batch": int(batch), "keys": int(keys)} | ({"prompt": True} if rest == ["prompt"] else {})


def measure(case: str, layers: int, threads: int, dtype: str) -> dict[str, Any]:
    """One row; `threads` of the CPU, or a GPU's."""
    import torch

    row = row_of(case)
    name, batch, keys = row["model"], row["batch"], row["keys"]
    shape = replace(SHAPES[name], layers=layers or SHAPES[name].layers)
    row |= {"layers": shape.layers, "notes": []}
    sides = ON_CPU if threads else PROMPT_SIDES if row.get("prompt") else SIDES
    if threads:
        torch.set_num_threads(threads)
        row |= {"threads": threads, "dtype": dtype}
    else:
        row["gpu"] = torch.cuda.get_device_name()
    with torch.device("cpu" if threads else "cuda"):
        module = decoder(torch, shape, batch, keys).to(torch.float32 if dtype == "f32" else torch.bfloat16)
        first = 0 if row.get("prompt") else keys - 1
        words, at = torch.randint(0, shape.words, (batch, keys - first)), torch.arange(first, keys)
    row["bytes"] = bytes_read(module, shape)
    steps: dict[str, Call] = {}
    for side in sides:
        try:
            called = called_by(torch, side, module, shape, threads)

            def step(called: Any = called) -> Any:
                if not threads:
                    torch.compiler.cudagraph_mark_step_begin()
                with torch.no_grad():
                    return called(words, at)

            start = time.perf_counter()
            for _ in range(4):
                found = step()
            if not threads:
                torch.cuda.synchronize()
            row.setdefault("compile_s", {})[side] = time.perf_counter() - start
            found = found.float().clone()
            if side == "eager":
                wanted = found
            row.setdefault("error", {})[side] = distance([found], [wanted])
            if not threads:
                row.setdefault("launches", {})[side], row.setdefault("copies", {})[side] = counted(torch, step)
            steps[side] = step
        except Exception as e:  # noqa: BLE001  # the others are worth measuring
            text = str(e).strip().splitlines()
            row["notes"].append(f"{side}: {type(e).__name__}: {text[0][:300] if text else ''}")
    row["copy_tb_s"] = read_bandwidth(torch) if threads else copy_bandwidth(torch)
    contestant = OnCpu if threads else partial(Called, asleep=False)
    row["ms"] = medians(race({s: contestant(step) for s, step in twice(steps).items()}, TIMING))
    if not row.get("prompt"):
        row["bound"] = {s: row["bytes"] / row["copy_tb_s"] / 1e9 / ms for s, ms in row["ms"].items()}
    if ours := row["ms"].get("graphfuse"):
        row["ratio"] = {s: ms / ours for s, ms in row["ms"].items() if s != "graphfuse" and not s.endswith(AGAIN)}
    return row


def called_by(torch: Any, side: str, module: Any, shape: Shape, threads: int) -> Callable[[Any, Any], Any]:
    """The module's forward as a side runs it."""
    if side == "onnxruntime":
        return by_onnxruntime(torch, module, shape, threads)
    if side == "cudnn":
        return with_cudnn(torch, module)
    torch._dynamo.reset()
    settings = settings_of(side)
    return module if settings is None else torch.compile(module, **settings)


def with_cudnn(torch: Any, module: Any) -> Callable[[Any, Any], Any]:
    """The module's forward in eager, with cuDNN's attention."""

    def called(words: Any, at: Any) -> Any:
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.CUDNN_ATTENTION):
            return module(words, at)

    return called


class OnCpu:
    """Calls on a CPU: the least of each round, as others' work only adds."""

    def __init__(self, call: Call) -> None:
        self.call = call

    def ms(self, warm: float, seconds: float) -> float:
        """See `Contestant`."""
        end, times = time.perf_counter() + warm + seconds, list[float]()
        while len(times) < 4 or time.perf_counter() < end:
            start = time.perf_counter()
            self.call()
            times.append(time.perf_counter() - start)
        return 1e3 * min(times)


def read_bandwidth(torch: Any) -> float:
    """Of the CPU, in TB/s: MKL's product of a vector and a matrix that no cache holds, which reads faster than sums."""
    rows, vector = torch.ones(COPIED // 4 // 2048, 2048), torch.ones(2048)
    return COPIED / OnCpu(lambda: rows @ vector).ms(0.2, 1.0) / 1e9


def copy_bandwidth(torch: Any) -> float:
    """Of the GPU, in TB/s: bytes read and written."""
    a, b = (torch.empty(COPIED, dtype=torch.uint8, device="cuda") for _ in range(2))
    elapsed(lambda: a.copy_(b), 20)
    return 2 * COPIED / elapsed(lambda: a.copy_(b), 100) / 1e9


def counted(torch: Any, step: Call) -> tuple[int, int]:
    """The kernels of a step, and how many copies the driver makes."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        step()
        torch.cuda.synchronize()
    names = [e.name for e in profile.events() if e.device_type == torch.autograd.DeviceType.CUDA]
    copies = sum(n.startswith(("Memcpy", "Memset")) for n in names)
    return len(names) - copies, copies


def report(row: Mapping[str, Any]) -> str:
    """One line, and what went wrong."""
    model = " ".join(str(row[part]) for part in ("model", "dtype", "layers") if part in row)
    text = f"{model} layers, batch {row['batch']}, {row['keys']} {'words at once' if 'prompt' in row else 'keys'}:"
    for part, form in (
        ("ms", "{:.3f}"),
        ("bound", "{:.2f}"),
        ("launches", "{}"),
        ("copies", "{}"),
    ):
        found = row.get(part, {})
        text += f" {part} " + ", ".join(f"{side} {form.format(v)}" for side, v in found.items() if AGAIN not in side)
    if ratios := row.get("ratio"):
        text += f" ratio {min(ratios.values()):.2f}"
    return text + "".join(f"\n    {note}" for note in row.get("notes", []))


def is_eager(torch: Any, side: str, shape: Shape, batch: int) -> bool:
    """Whether a side's logits and caches are eager's, in f32 on the CPU, at several positions."""
    eager, module = (decoder(torch, shape, batch, 24) for _ in range(2))
    called = called_by(torch, side, module, shape, 1)
    errors: list[float] = []
    with torch.no_grad():
        for where in (*([] if side == "onnxruntime" else [range(24)]), [0], [5], [23]):
            words, at = torch.randint(0, shape.words, (batch, len(where))), torch.tensor(where)
            errors.append(distance([called(words, at)], [eager(words, at)]))
    print(f"{side}, batch {batch}{', tied' * shape.tied}: {max(errors):.1e}")
    pairs = zip(eager.buffers(), module.buffers(), strict=True)
    return max(errors) < 1e-3 and all(torch.allclose(a, b, atol=1e-4) for a, b in pairs)


def dry() -> bool:
    """Small ones of both kinds."""
    import torch

    cases = product(("graphfuse", "onnxruntime"), (SMALL, replace(SMALL, tied=False)), (1, 3))
    return not [case for case in cases if not is_eager(torch, *case)]


def main() -> int:
    """Every row in a process of its own."""
    parser = arguments(__doc__, budget=600, dry=True)
    parser.add_argument("--cases", default="", help="each MODEL:BATCH:KEYS or MODEL:BATCH:KEYS:prompt")
    parser.add_argument("--layers", type=int, default=0, help="of each model; all of them")
    parser.add_argument("--cpu", type=int, default=0, metavar="THREADS", help="on the CPU")
    parser.add_argument("--dtypes", default="", help="of weights: bf16, on a CPU f32 too")
    parser.add_argument("--worker", nargs=2, metavar=("CASE", "DTYPE"))
    args = parser.parse_args()
    if args.dry:
        return 0 if dry() else 1
    if args.worker:
        case, dtype = args.worker
        print(json.dumps(measure(case, args.layers, args.cpu, dtype)))
        return 0
    deadline = time.perf_counter() + args.budget
    dtypes = (args.dtypes or ("f32,bf16" if args.cpu else "bf16")).split(",")
    cases = (args.cases or (CASES_OF_CPU if args.cpu else CASES)).split(",")
    sizes = ["--layers", str(args.layers), "--cpu", str(args.cpu)]
    made = (
        in_a_process(["benchmarks.decode", "--worker", case, dtype, *sizes], row_of(case), left)
        for case, dtype in product((c for c in cases if asked(c, args.only)), dtypes)
        if (left := deadline - time.perf_counter()) >= 20
    )
    record.collect(made, report, args.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
