"""Kernels in Triton-C (`models/kernels`) next to torch, Inductor and Triton, in the same rounds.

    python -m benchmarks.tc_kernels --device cuda [--quick] [--only WORDS] [--peers eager,inductor,triton] [--json FILE]
    python -m benchmarks.tc_kernels --device cpu        next to torch, by the clock
    python -m benchmarks.tc_kernels --device emulator   no times: small ones are compared with torch

A case has several variants, which are macros and warps of one kernel, or kernels for the same thing. Each is compared
with torch in f64 before it is timed, what it writes filled with NaN before that. On a GPU, timing is as in
`gpu_timing`, behind a kernel that sleeps until all calls are queued; the first peer is entered twice.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("GRAPHFUSE_CACHE", "0")

import graphfuse
from benchmarks import record
from benchmarks.gpu_timing import QUICK, Call, Called, Timing, arguments, asked, medians, race, twice
from graphfuse.errors import GraphfuseError
from graphfuse.kernels.kernel import Kernel
from graphfuse.kernels.on_gpu import resources
from graphfuse.kernels.timing import on_cpu
from graphfuse.kernels.tuner import TunedKernel
from graphfuse.runtime.session import available_cores

FOLDER = Path(__file__).resolve().parent.parent / "models" / "kernels"
TIMING = Timing(0.02, 0.05, 5)
SIZES = ("cuda", "cpu", "emulator")
REGISTERS, THREADS = 65536, 2048
"""Of a multiprocessor."""


@dataclass
class Variant:
    """A file with its macros, a kernel of it, and how it is launched."""

    file: str
    macros: dict[str, Any]
    grid: Any
    args: tuple[Any, ...]
    kernel: str | None = None
    fits: bool = False
    """The grid is at most what runs at the same time."""


@dataclass
class Case:
    """Variants that all write `outs`, what should be in them, and who else can do it."""

    name: str
    variants: Mapping[str, Variant]
    outs: Sequence[Any]
    want: Callable[[], Sequence[Any]]
    peers: Mapping[str, Call]
    error: float
    nbytes: int = 0
    flops: float = 0
    inductor: Callable[..., Any] | None = None
    inputs: tuple[Any, ...] = field(default=())


class Maker:
    """Makes cases for a device: large ones for GPUs, smaller ones for CPUs, tiny ones for the emulator."""

    def __init__(self, device: str) -> None:
        import torch

        self.torch, self.device, self.where = torch, device, "cuda" if device == "cuda" else "cpu"
        torch.manual_seed(record.SEED)

    def pick(self, *sizes: int) -> int:
        """The size for this device."""
        return sizes[SIZES.index(self.device)]

    def normal(self, *shape: int, dtype: str = "float32") -> Any:
        """Random numbers."""
        return self.torch.randn(shape, device=self.where).to(getattr(self.torch, dtype))

    def empty(self, *shape: int, dtype: str = "float32") -> Any:
        """Room for results; `measure` fills it before each check."""
        return self.torch.zeros(shape, device=self.where, dtype=getattr(self.torch, dtype))

    # cases

    def transpose(self) -> Case:
        """As a masked kernel, which does not know that sizes are multiples of its tiles."""
        n = self.pick(8192, 1024, 96)
        x, y = self.normal(n, n), self.empty(n, n)
        args = (x, y, n, n, n, n)
        tiles = [(64, 64, 4), (64, 64, 8), (32, 32, 4), (32, 64, 4), (128, 32, 8), (64, 128, 8)]
        variants = {
            f"{tm}x{tn} {w} warps": Variant(
                "seeds/transpose_masked", {"TYPE": "float", "TM": tm, "TN": tn, "num_warps": w},
                (cdiv(n, tm), cdiv(n, tn)), args,
            )
            for tm, tn, w in tiles
        }  # fmt: skip
        peers = {"eager": lambda: y.copy_(x.t())}
        return Case(f"transpose f32 {n}^2", variants, [y], lambda: [x.t()], peers, 0, 8 * n * n,
                    inductor=lambda x: x.t().contiguous(), inputs=(x,))  # fmt: skip

    def softmax(self) -> Case:
        """A row a program, rows in turns, and the walks over a row."""
        rows, n = self.pick(8192, 512, 4), self.pick(8192, 2048, 300)
        x, y = self.normal(rows, n), self.empty(rows, n)
        block = 1 << (n - 1).bit_length()
        variants = {
            f"row {w} warps": Variant(
                "softmax", {"TYPE": "float", "BLOCK": block, "num_warps": w}, rows, (x, y, n, n, n)
            )
            for w in (4, 8, 16)
        }
        variants |= {
            f"fused {w} warps": Variant(
                "seeds/softmax_fused", {"BLOCK": block, "num_warps": w}, rows, (y, x, n, n, rows, n), fits=True
            )
            for w in (8, 16)
        }
        variants |= {
            f"{name} {b}": Variant(f"seeds/softmax_{name}", {"BLOCK": b}, rows, (x, y, n, n, n))
            for name in ("naive", "online")
            for b in (256, 1024)
        }
        peers: dict[str, Call] = {"eager": lambda: x.softmax(1)}
        if self.device == "cuda":
            from benchmarks.triton_softmax import softmaxes

            peers |= {f"triton {w} warps": call for w, call in softmaxes(x, y).items() if w in (8, 16)}
        return Case(f"softmax f32 {rows}x{n}", variants, [y], lambda: [x.double().softmax(1)], peers, 1e-5,
                    8 * rows * n, inductor=lambda x: x.softmax(1), inputs=(x,))  # fmt: skip

    def matmul(self, n: int) -> Case:
        """By tiles, in rows of tiles and in groups of them, and the best of all for these sizes."""
        dtype, ctype = ("float16", "half") if self.device != "cpu" else ("float32", "float")
        a, b, c = (self.normal(n, n, dtype=dtype) for _ in range(3))
        args = (a, b, c, n, n, n, n, n, n)
        tiles = self.tiles()
        variants: dict[str, Variant] = {}
        for tm, tn, tk in tiles:
            macros = {"TYPE": ctype, "TM": tm, "TN": tn, "TK": tk, "num_warps": 8}
            grid = (cdiv(n, tm), cdiv(n, tn))
            variants[f"{tm}x{tn}x{tk}"] = Variant("seeds/matmul", macros, grid, args)
            for group in (8, 16) if tk == tiles[0][2] else ():
                variants[f"{tm}x{tn}x{tk} groups of {group}"] = Variant(
                    "seeds/matmul_grouped", {**macros, "GROUP": group}, grid[0] * grid[1], args
                )
        tm, tn, tk = tiles[0]
        for file in ("dot", "dot_prefetch") if n % max(tm, tn, tk) == 0 else ():
            macros = {"TYPE": ctype, "TM": tm, "TN": tn, "TK": tk, "num_warps": 8}
            variants[f"{file} {tm}x{tn}x{tk}"] = Variant(f"seeds/{file}", macros, (n // tm, n // tn), args)
        if self.device == "cuda":
            for tm, tn, options in (
                (256, 256, {"num_ctas": 2}),
                (256, 192, {"num_ctas": 2, "schedule": "pingpong"}),
                (128, 192, {"schedule": "pingpong"}),
                (128, 128, {"schedule": "pingpong"}),
            ):
                label = " ".join(map(str, (f"{tm}x{tn}x64", *(f"{k}={v}" for k, v in options.items()))))
                macros = {"TYPE": ctype, "TM": tm, "TN": tn, "TK": 64, **options}
                variants[label] = Variant("seeds/matmul", macros, (cdiv(n, tm), cdiv(n, tn)), args)
            macros = {
                "TYPE": ctype, "TM": [128, 256], "TN": [128, 192, 256], "TK": 64, "GROUP": [8, 16],
                "num_ctas": [1, 2], "schedule": ["cooperative", "pingpong"],
                "require": [
                    "TM*TN <= (schedule == pingpong ? 24576 : 32768)*num_ctas", "num_ctas == 1 || TM == 256",
                    "schedule == cooperative || TM == 128*num_ctas",
                ],
            }  # fmt: skip
            grid = lambda m: cdiv(n, m.TM) * cdiv(n, m.TN)  # noqa: E731
            variants["tuned"] = Variant("seeds/matmul_grouped", macros, grid, args)
        peers = {"mm": lambda: self.torch.mm(a, b, out=c)}
        return Case(f"matmul {dtype} {n}^3", variants, [c], lambda: [a.float() @ b.float()], peers, 4e-3 * n**0.5,
                    flops=2 * n**3)  # fmt: skip

    def tiles(self) -> list[tuple[int, int, int]]:
        """Of matrix products."""
        if self.device == "cuda":
            return [(128, 128, 64), (128, 256, 64), (256, 128, 64), (128, 256, 128)]
        return [(64, 64, 32)]

    def matmul_small(self) -> Case:
        """What a CPU multiplies in a moment, or 4096^3."""
        return self.matmul(self.pick(4096, 512, 128))

    def matmul_large(self) -> Case:
        """Where the order of programs counts."""
        return self.matmul(self.pick(8192, 1024, 192))

    def add(self) -> Case:
        """Any number of elements."""
        n = self.pick(1 << 26, 1 << 22, 1000)
        x, y, out = self.normal(n), self.normal(n), self.empty(n)
        variants = {
            f"{b}": Variant("seeds/add_masked", {"TYPE": "float", "BLOCK_SIZE": b}, cdiv(n, b), (x, y, out, n))
            for b in (1024, 4096)
        }
        peers = {"eager": lambda: self.torch.add(x, y, out=out)}
        return Case(f"add f32 {n}", variants, [out], lambda: [x + y], peers, 0, 12 * n)

    def layernorm(self) -> Case:
        """Forward."""
        rows, n = self.pick(16384, 512, 4), self.pick(4096, 1024, 200)
        x, w, b, y = self.normal(rows, n), self.normal(n), self.normal(n), self.empty(rows, n)
        mean, rstd = self.empty(rows), self.empty(rows)
        macros = {"TYPE": "float", "BLOCK": 1 << (n - 1).bit_length()}
        args = (x, w, b, y, mean, rstd, n, 1e-5)
        variants = {
            f"{k} warps": Variant("layernorm", {**macros, "num_warps": k}, rows, args, "layernorm_forward")
            for k in (4, 8, 16)
        }
        f = self.torch.nn.functional.layer_norm
        want = lambda: [f(x.double(), (n,), w.double(), b.double())]  # noqa: E731
        return Case(f"layernorm f32 {rows}x{n}", variants, [y], want, {"eager": lambda: f(x, (n,), w, b)}, 1e-4,
                    8 * rows * n, inductor=lambda x, w, b: f(x, (n,), w, b), inputs=(x, w, b))  # fmt: skip

    def layernorm_backward(self) -> Case:
        """To the input; torch makes the sums for the weights besides unless told not to."""
        rows, n = self.pick(16384, 512, 4), self.pick(4096, 1024, 200)
        x, w, dy, dx = self.normal(rows, n), self.normal(n), self.normal(rows, n), self.empty(rows, n)
        mean, rstd = x.mean(1), (x.var(1, unbiased=False) + 1e-5).rsqrt()
        macros = {"TYPE": "float", "BLOCK": 1 << (n - 1).bit_length()}
        args = (x, w, dy, mean, rstd, dx, n)
        variants = {
            f"{k} warps": Variant("layernorm", {**macros, "num_warps": k}, rows, args, "layernorm_backward")
            for k in (4, 8, 16)
        }
        f = self.torch.ops.aten.native_layer_norm_backward
        columns = (mean[:, None], rstd[:, None])

        def grad(x: Any, w: Any, dy: Any, mean: Any, rstd: Any) -> Any:
            return f(dy, x, [n], mean, rstd, w, w, [True, False, False])[0]

        want = lambda: [grad(x.double(), w.double(), dy.double(), *(c.double() for c in columns))]  # noqa: E731
        peers = {"eager": lambda: grad(x, w, dy, *columns)}
        return Case(f"layernorm backward f32 {rows}x{n}", variants, [dx], want, peers, 1e-4, 12 * rows * n)

    def cross_entropy(self) -> Case:
        """Forward, without a reduction."""
        rows, n = self.pick(8192, 256, 3), self.pick(32000, 8000, 700)
        x, loss, lse = self.normal(rows, n), self.empty(rows), self.empty(rows)
        labels = self.torch.randint(0, n, (rows,), device=self.where, dtype=self.torch.int32)
        wide = labels.long()
        variants = {
            f"{b} {w} warps": Variant(
                "cross_entropy", {"TYPE": "float", "BLOCK": b, "num_warps": w}, rows, (x, labels, loss, lse, n),
                "cross_entropy_forward",
            )
            for b, w in ((1024, 4), (2048, 4), (4096, 8), (8192, 16))
        }  # fmt: skip
        f = self.torch.nn.functional.cross_entropy
        want = lambda: [f(x.double(), wide, reduction="none")]  # noqa: E731
        return Case(f"cross-entropy f32 {rows}x{n}", variants, [loss], want,
                    {"eager": lambda: f(x, wide, reduction="none")}, 1e-4, 4 * rows * n,
                    inductor=lambda x, t: f(x, t, reduction="none"), inputs=(x, wide))  # fmt: skip

    def batchnorm(self) -> Case:
        """Forward, with the batch's statistics."""
        shape = (self.pick(64, 8, 2), self.pick(256, 32, 3), self.pick(3136, 784, 150))
        channels = shape[1]
        x, y, w, b = self.normal(*shape), self.empty(*shape), self.normal(channels), self.normal(channels)
        sums = [self.empty(channels) for _ in range(4)]
        variants = {
            f"{k} {warps} warps": Variant(
                "batchnorm", {"TYPE": "float", "BLOCK": k, "num_warps": warps}, channels,
                (x, w, b, y, *sums, *shape, 0.1, 1e-5), "batchnorm_forward",
            )
            for k, warps in ((1024, 4), (2048, 8), (4096, 16), (4096, 32))
        }  # fmt: skip
        f = self.torch.nn.functional.batch_norm
        want = lambda: [f(x.double(), None, None, w.double(), b.double(), training=True)]  # noqa: E731
        return Case(f"batchnorm f32 {'x'.join(map(str, shape))}", variants, [y], want,
                    {"eager": lambda: f(x, None, None, w, b, training=True)}, 1e-4, 8 * x.numel(),
                    inductor=lambda x, w, b: f(x, None, None, w, b, training=True), inputs=(x, w, b))  # fmt: skip

    def rope(self) -> Case:
        """Of f16."""
        tokens, heads, half = self.pick(16384, 1024, 3), self.pick(32, 8, 4), self.pick(64, 64, 16)
        x, y = (self.normal(tokens, heads, 2 * half, dtype="float16") for _ in range(2))
        c, s = self.normal(tokens, half), self.normal(tokens, half)
        positions = self.torch.arange(tokens, device=self.where, dtype=self.torch.int32)
        variants = {
            f"{h} heads {w} warps": Variant(
                "rope", {"TYPE": "half", "HALF": half, "HEADS": h, "num_warps": w}, (tokens, cdiv(heads, h)),
                (x, c, s, positions, y, heads),
            )
            for h, w in ((4, 4), (8, 4), (16, 4), (32, 8))
        }  # fmt: skip

        def turned(x: Any, c: Any, s: Any) -> Any:
            left, right = x[..., :half], x[..., half:]
            c, s = c[:, None], s[:, None]
            return self.torch.cat([left * c - right * s, right * c + left * s], -1).to(x.dtype)

        want = lambda: [turned(x.double(), c.double(), s.double())]  # noqa: E731
        return Case(f"rope f16 {tokens}x{heads}x{2 * half}", variants, [y], want,
                    {"eager": lambda: turned(x, c, s)}, 2e-2, 4 * x.numel(), inductor=turned,
                    inputs=(x, c, s))  # fmt: skip

    def topk(self) -> Case:
        """Eight of a thousand."""
        rows, n, k = self.pick(16384, 1024, 3), self.pick(1024, 512, 100), 8
        x, values, indices = self.normal(rows, n), self.empty(rows, k), self.empty(rows, k, dtype="int32")
        macros = {"TYPE": "float", "BLOCK": 1 << (n - 1).bit_length(), "K": k}
        variants = {
            f"{w} warps": Variant("topk", {**macros, "num_warps": w}, rows, (x, values, indices, n)) for w in (1, 2, 4)
        }
        want = lambda: [x.topk(k, 1).values]  # noqa: E731
        return Case(f"top-{k} f32 {rows}x{n}", variants, [values], want, {"eager": lambda: x.topk(k, 1)}, 0,
                    4 * rows * n)  # fmt: skip

    def histogram(self) -> Case:
        """Of integers: an atomic addition for each."""
        n, bins = self.pick(1 << 24, 1 << 20, 600), self.pick(4096, 4096, 40)
        x = self.torch.randint(0, bins, (n,), device=self.where, dtype=self.torch.int32)
        counts = self.empty(bins, dtype="int32")
        variants = {
            f"{b}": Variant("histogram_atomic", {"BLOCK": b}, cdiv(n, b), (x, counts, n, bins)) for b in (1024, 4096)
        }
        want = lambda: [self.torch.bincount(x, minlength=bins)]  # noqa: E731
        peers = {"eager": lambda: self.torch.bincount(x, minlength=bins)}
        return Case(f"histogram i32 {n} to {bins}", variants, [counts], want, peers, 0, 4 * n)

    def cumsum(self) -> Case:
        """Along rows."""
        rows, n = self.pick(4096, 256, 2), self.pick(16384, 4096, 300)
        x, y = self.normal(rows, n), self.empty(rows, n)
        variants = {
            f"{b} {w} warps": Variant("cumsum", {"TYPE": "float", "BLOCK": b, "num_warps": w}, rows, (x, y, n))
            for b, w in ((1024, 4), (2048, 4), (4096, 8), (8192, 8))
        }
        return Case(f"cumsum f32 {rows}x{n}", variants, [y], lambda: [x.double().cumsum(1)],
                    {"eager": lambda: self.torch.cumsum(x, 1, out=y)}, 1e-2, 8 * rows * n,
                    inductor=lambda x: x.cumsum(1), inputs=(x,))  # fmt: skip

    def dropout(self) -> Case:
        """Whose stream torch does not know: what is kept must be right, and be of the right number."""
        n = self.pick(1 << 26, 1 << 22, 1024)
        x, y = self.normal(n), self.empty(n)
        variants = {
            f"{b}": Variant("dropout", {"TYPE": "float", "BLOCK": b}, cdiv(n, b), (x, y, n, 0.5, 1, 2))
            for b in (1024, 2048, 4096)
        }
        f = self.torch.nn.functional.dropout

        def want() -> list[Any]:
            assert abs((y != 0).double().mean().item() - 0.5) < 3 / n**0.5, "half of them are kept"
            return [self.torch.where(y == 0, 0 * x, 2 * x)]

        return Case(f"dropout f32 {n}", variants, [y], want, {"eager": lambda: f(x, 0.5)}, 0, 8 * n,
                    inductor=lambda x: f(x, 0.5), inputs=(x,))  # fmt: skip


CASES = (
    "transpose", "softmax", "matmul_small", "matmul_large", "layernorm", "layernorm_backward", "cross_entropy",
    "batchnorm", "rope", "topk", "histogram", "cumsum", "dropout", "add",
)  # fmt: skip


def cdiv(a: int, b: int) -> int:
    """How many b make at least a."""
    return -(-a // b)


def made(variant: Variant, device: str) -> Kernel | TunedKernel | GraphfuseError:
    """The kernel, compiled if there are no alternatives."""
    try:
        kernel = graphfuse.kernel(
            FOLDER / f"{variant.file}.tc", variant.kernel, device=device if device == "emulator" else "",
            **variant.macros,
        )  # fmt: skip
        if isinstance(kernel, Kernel):
            kernel.prepare(variant.grid, arguments_of(variant, device))
    except GraphfuseError as e:
        return e
    return kernel


def grid_of(variant: Variant, kernel: Kernel, maker: Maker) -> Any:
    """The grid, at most what runs at the same time where that is asked for."""
    if not variant.fits:
        return variant.grid
    if maker.device != "cuda":
        return min(variant.grid, 4)
    known = resources(kernel.compiled[-1])
    resident = min(THREADS // known["threads"], REGISTERS // (known["threads"] * known["registers"]))
    return min(variant.grid, resident * maker.torch.cuda.get_device_properties(0).multi_processor_count)


def arguments_of(variant: Variant, device: str) -> tuple[Any, ...]:
    """The arguments: the emulator takes arrays of numpy, which share torch's memory."""
    if device != "emulator":
        return variant.args
    return tuple(a.numpy() if hasattr(a, "numpy") else a for a in variant.args)


def wrong(case: Case) -> str:
    """What is not as it should be, nothing if all is."""
    for got, want in zip(case.outs, case.want(), strict=True):
        error = (got.double() - want.double()).abs().max().item()
        if not error <= case.error:  # NaN is not either
            return f"error {error:.2e}, at most {case.error:.2e} expected"
    return ""


def measure(maker: Maker, case: Case, timing: Timing, peers: Sequence[str]) -> dict[str, Any]:
    """Microseconds of every variant that is right, and of the peers."""
    row: dict[str, Any] = {"case": case.name, "bytes": case.nbytes, "flops": case.flops, "made": {}, "failed": {}}
    calls: dict[str, Call] = {}
    with ThreadPoolExecutor(available_cores()) as pool:
        kernels = list(pool.map(lambda v: made(v, maker.device), case.variants.values()))
    for (label, variant), kernel in zip(case.variants.items(), kernels, strict=True):
        args = arguments_of(variant, maker.device)
        try:
            if isinstance(kernel, GraphfuseError):
                raise kernel
            if isinstance(kernel, TunedKernel):
                kernel = kernel.chosen(variant.grid, args)
            for out in case.outs:  # tuning ran it
                out.fill_(float("nan") if out.is_floating_point() else 0)
            grid = grid_of(variant, kernel, maker)
            kernel.launch(grid, args)
            if maker.device == "cuda":
                maker.torch.cuda.synchronize()
            problem = wrong(case)
        except GraphfuseError as e:
            problem = str(e)[:300]
        if problem:
            row["failed"][label] = problem
            continue
        row["made"][label] = {**resources(kernel.compiled[-1]), "macros": dict(kernel.macros)}
        calls[label] = lambda k=kernel, g=grid, a=args: k.launch(g, a)
    if maker.device == "emulator":
        return row
    others = {name: call for name, call in case.peers.items() if asked(name, peers)}
    if case.inductor is not None and maker.device == "cuda" and asked("inductor", peers):
        compiled = maker.torch.compile(case.inductor, dynamic=False)
        compiled(*case.inputs)
        others["inductor"] = lambda: compiled(*case.inputs)
    if maker.device == "cuda":
        contestants = {name: Called(call, asleep=True) for name, call in {**calls, **twice(others)}.items()}
        row["us"] = {name: 1e3 * ms for name, ms in medians(race(contestants, timing)).items()}
    else:
        row["us"] = {name: on_cpu(call, timing.seconds * timing.rounds) for name, call in {**calls, **others}.items()}
    ours = {name: row["us"][name] for name in calls}
    theirs = {name: us for name, us in row["us"].items() if name not in calls}
    if ours:
        row["best"] = min(ours, key=lambda n: ours[n])
        if theirs:
            row["peer"] = min(theirs, key=lambda n: theirs[n])
            row["ratio"] = theirs[row["peer"]] / ours[row["best"]]
    return row


def report(row: Mapping[str, Any]) -> str:
    """Two lines: the best against the best, then everyone."""
    failed = "".join(f"\n    NOT RIGHT {name}: {why}" for name, why in row["failed"].items())
    if "best" not in row:
        return f"{row['case']:28s} {len(row['made'])} right{failed}"
    us = row["us"]
    best = us[row["best"]]
    speed = f"{row['flops'] / best / 1e6:.0f} TFLOP/s" if row["flops"] else f"{row['bytes'] / best / 1e6:.2f} TB/s"
    against = f", ratio {row['ratio']:.3f} to {row['peer']}" if "peer" in row else ""
    chosen = row["made"][row["best"]]["macros"] if row["best"] == "tuned" else ""
    everyone = ", ".join(f"{n} {us[n]:.1f}" for n in sorted(us, key=lambda n: us[n]))
    return f"{row['case']:28s} {row['best']} {best:.1f} us, {speed}{against} {chosen}\n    {everyone}{failed}"


def main() -> int:
    """See the module."""
    parser = arguments(__doc__, budget=300)
    parser.add_argument("--device", default="cpu", choices=SIZES, help="where the kernels run")
    parser.add_argument("--peers", type=lambda s: s.split(","), default=[], help="peers with one of these, by commas")
    args = parser.parse_args()
    until = time.perf_counter() + args.budget
    maker = Maker(args.device)
    rows: list[dict[str, Any]] = []
    for name in CASES:
        if asked(name, args.only) and time.perf_counter() < until:
            rows.append(measure(maker, getattr(maker, name)(), QUICK if args.quick else TIMING, args.peers))
            print(report(rows[-1]), flush=True)
            if args.device == "cuda":
                rows[-1]["gpu"] = maker.torch.cuda.get_device_name()
                maker.torch.cuda.empty_cache()
            if args.json:
                record.write(args.json, rows)
    return 1 if any(row["failed"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
