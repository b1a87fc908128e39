"""Products in Triton-C (`models/kernels`) on a GPU: attention, blocks, convolutions, weights of 4 bits.

    python -m benchmarks.tc_products [--device cuda|cpu] [--only WORDS] [--quick] [--budget S] [--json FILE]

Beside Triton's attention, FlashAttention-2 and cuDNN (torch's), dense products, cuDNN's convolutions, and weights that
are turned into halves first. Every kernel is compared with torch before it is timed, its result filled with NaN first.
Timing as in `gpu_timing`, launches in a CUDA graph. `--device cpu` only compares, small ones.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

os.environ["GRAPHFUSE_CACHE"] = "0"

import numpy as np
import torch

import graphfuse
from benchmarks import record
from benchmarks.gpu_timing import QUICK, Call, Recorded, Timing, arguments, asked, medians, race
from graphfuse.errors import GraphfuseError
from graphfuse.kernels.kernel import Kernel
from graphfuse.kernels.on_gpu import resources
from tests.kernels.products import cdiv, lists_of, pack4

FOLDER = Path(__file__).resolve().parent.parent / "models" / "kernels"
TIMING = Timing(0.04, 0.08, 3)
LARGEST_ERROR = 4e-3
"""Of the result's norm."""


@dataclass(frozen=True)
class Variant:
    """A file with its macros, how it is launched, and attributes of the function beside; perhaps another before it."""

    file: str
    macros: Mapping[str, Any]
    grid: tuple[int, ...]
    args: tuple[Any, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    before: Variant | None = None

    def made(self) -> list[Kernel] | GraphfuseError:
        """The kernels in their order, compiled and loaded."""
        first = self.before.made() if self.before else []
        if isinstance(first, GraphfuseError):
            return first
        try:
            k = graphfuse.kernel(FOLDER / f"{self.file}.tc", **self.macros)
            assert isinstance(k, Kernel)
            k.func = replace(k.func, attrs={**k.func.attrs, **self.attrs})
            k.prepare(self.grid, self.args)
        except GraphfuseError as e:
            return e
        return [*first, k]

    def launch(self, kernels: list[Kernel]) -> None:
        """All of them."""
        if self.before:
            self.before.launch(kernels[:-1])
        kernels[-1].launch(self.grid, self.args)


@dataclass(frozen=True)
class Case:
    """Variants that write `out`; `error` is how far it is off, relative to its norm."""

    name: str
    flops: float
    out: Any
    error: Callable[[], float]
    variants: Mapping[str, Variant]
    peers: Mapping[str, Call]


class Maker:
    """Makes cases, large ones for a GPU."""

    def __init__(self, device: str) -> None:
        self.device, self.is_large = device, device == "cuda"
        torch.manual_seed(record.SEED)

    def pick(self, large: Any, small: Any) -> Any:
        """By device."""
        return large if self.is_large else small

    def normal(self, *shape: int) -> Any:
        """Random halves."""
        return torch.randn(*shape, device=self.device).half()

    def empty(self, *shape: int) -> Any:
        """Room for results."""
        return torch.empty(*shape, device=self.device, dtype=torch.half)

    def attention(self, d: int, *, causal: bool) -> Case:
        """Of 4 batches with 32 heads."""
        z, h, s = self.pick((4, 32, 4096), (1, 2, 320))
        q, k, v = (self.normal(z, h, s, d) for _ in range(3))
        o = self.empty(z, h, s, d)
        strides = [x for t in (q, k, v, o) for x in t.stride()[:3]]
        args = (q, k, v, o, d**-0.5, s, s, *strides)

        def variant(rows: int, keys: int, **attrs: Any) -> Variant:
            macros = {"TYPE": "half", "D": d, "TM": rows, "TN": keys} | ({"CAUSAL": 1} if causal else {})
            return Variant("attention", macros, (cdiv(s, rows), h, z), args, attrs)

        variants = {"128x128": variant(128, 128), "128x128 not persistent": variant(128, 128, persistent=0)}
        if d == 64:
            variants["64x128 two a multiprocessor"] = variant(64, 128)
        elif not causal:
            variants |= {"128x128 turns": variant(128, 128, turns=True), "128x64": variant(128, 64)}
        f = torch.nn.functional.scaled_dot_product_attention
        peers: dict[str, Call] = {}
        if self.is_large:
            from torch.nn.attention import SDPBackend, sdpa_kernel

            def backend(which: Any) -> Call:
                def call() -> None:
                    with sdpa_kernel(which):
                        f(q, k, v, is_causal=causal)

                return call

            from benchmarks.triton_attention import attention

            other = self.empty(z, h, s, d)
            peers["triton"] = lambda: attention(q, k, v, other, causal=causal)
            peers["sdpa flash"] = backend(SDPBackend.FLASH_ATTENTION)
            peers["sdpa cudnn"] = backend(SDPBackend.CUDNN_ATTENTION)

        def error() -> float:
            worst = 0.0
            for at in ((0, 0), (z - 1, h - 1)):
                scores = q[at].double() @ k[at].double().T * d**-0.5
                if causal:
                    scores.masked_fill_(~torch.ones_like(scores, dtype=torch.bool).tril(), -torch.inf)
                worst = max(worst, off(o[at], scores.softmax(-1) @ v[at].double()))
            return max(worst, off(o, f(q, k, v, is_causal=causal)) / 4)

        flops = 4 * z * h * s * s * d * (0.5 if causal else 1)
        return Case(f"attention d{d}{' causal' * causal}", flops, o, error, variants, peers)

    def blocksparse(self, mode: str) -> Case:
        """A lower triangle of blocks, as attention has."""
        z, h, n, d, size = self.pick((2, 16, 4096, 64, 64), (1, 2, 128, 32, 16))
        there = np.tril(np.ones((h, n // size, n // size), bool))
        blocks = int(there.sum())
        mask = torch.ones(n, n, device=self.device, dtype=torch.bool)
        mask &= torch.from_numpy(np.kron(there[0], np.ones((size, size), bool))).to(self.device)
        dense = self.normal(z, h, n, n) * mask
        packed = dense.view(z, h, n // size, size, n // size, size).transpose(3, 4)
        packed = packed[:, torch.from_numpy(there).to(self.device)].contiguous()
        macros = {"TYPE": "half", "BLOCK": size, mode.upper(): 1}
        if mode == "sdd":
            a, b, out = self.normal(z, h, n, d), self.normal(z, h, d, n), torch.empty_like(packed)
            table = torch.from_numpy(np.stack(there.nonzero(), 1).astype(np.int32)).to(self.device)
            args = (a, b, out, table, h, n, n, d, blocks)
            pick = torch.from_numpy(there).to(self.device)

            def want() -> Any:
                product = (a @ b).view(z, h, n // size, size, n // size, size).transpose(3, 4)
                return product[:, pick]

            variants = {
                f"k {tk}, {w} warps": Variant(
                    "blocksparse_matmul", {**macros, "TK": tk, "num_warps": w}, (blocks, z), args
                )
                for tk, w in ((64, 4), (32, 4))
            }
            peers: dict[str, Call] = {"dense": lambda: torch.matmul(a, b)}
        else:
            a, b, out = packed, self.normal(z, h, n, d), self.empty(z, h, n, d)
            args = (a, b, out, torch.from_numpy(lists_of(there)).to(self.device), h, n, d, n, blocks)
            variants = {
                f"n {tn}, {w} warps": Variant(
                    "blocksparse_matmul", {**macros, "TN": tn, "num_warps": w}, (h * n // size, cdiv(d, tn), z), args
                )
                for tn, w in ((64, 4), (64, 8))
            }
            peers = {"dense": lambda: torch.matmul(dense, b)}

            def want() -> Any:
                return torch.matmul(dense, b)

        flops = 2 * z * blocks * size * size * d
        return Case(f"blocksparse {mode}", flops, out, lambda: off(out, want()), variants, peers)

    def conv(self) -> Case:
        """3x3 with 128 channels, and its layouts."""
        n, c, h, k = self.pick((32, 128, 56, 128), (1, 16, 9, 24))
        x = self.normal(n, c, h, h).to(memory_format=torch.channels_last)
        f = (self.normal(k, c, 3, 3) * (9 * c) ** -0.5).to(memory_format=torch.channels_last)
        y = self.empty(n, k, h, h).to(memory_format=torch.channels_last)
        args = (*(t.permute(0, 2, 3, 1) for t in (x, f, y)), n, c, h, h, k)
        tiles = ((128, 128, 64, 8), (128, 128, 32, 8), (128, 64, 64, 4)) if self.is_large else ((32, 32, 16, 4),)
        variants = {
            f"{tm}x{tn}x{tk} {w} warps": Variant(
                "conv",
                {"TYPE": "half", "R": 3, "S": 3, "STRIDE": 1, "PAD": 1, "TM": tm, "TN": tn, "TK": tk, "num_warps": w},
                (cdiv(n * h * h, tm), cdiv(k, tn)), args,
            )
            for tm, tn, tk, w in tiles
        }  # fmt: skip
        if self.is_large:
            sizes = {"TYPE": "half", "R": 3, "S": 3, "STRIDE": 1, "PAD": 1, "TN": 128, "TK": 64}
            for tm, options in ((128, {"schedule": "pingpong"}), (256, {})):
                label = " ".join((f"{tm}x128x64", *options.values()))
                variants[label] = Variant(
                    "conv", {**sizes, "TM": tm, **options}, (cdiv(n * h * h, tm), cdiv(k, 128)), args
                )
        conv2d = torch.nn.functional.conv2d
        want = lambda: conv2d(x.float(), f.float(), padding=1)  # noqa: E731
        peers = {"torch": lambda: conv2d(x, f, padding=1)}
        return Case("conv 3x3", 18 * n * h * h * c * k, y, lambda: off(y, want()), variants, peers)

    def int4(self, rows: int) -> Case:
        """A layer of 4096 to 4096 (on a CPU smaller), groups of 128."""
        n, k, group = self.pick((4096, 4096, 128), (64, 256, 64))
        a, c = self.normal(rows, k), self.empty(rows, n)
        numbers = torch.randint(0, 16, (k, n))
        packed = torch.from_numpy(pack4(numbers.numpy(), group)).to(self.device)
        scale = (torch.rand(k // group, n) * 0.01 + 0.005).half().to(self.device)
        zero = torch.randint(0, 16, (k // group, n)).half().to(self.device)
        args = (a, packed, scale, zero, c, rows, n, k)
        tiles = ((16, 32, 4), (16, 64, 4), (16, 128, 4)) if rows <= 16 else ((128, 128, 8), (64, 128, 4), (128, 64, 4))
        variants = {
            f"{tm}x{tn} {w} warps": Variant(
                "int4_matmul", {"TYPE": "half", "GROUP": group, "TM": tm, "TN": tn, "num_warps": w},
                (cdiv(rows, tm), cdiv(n, tn)), args,
            )
            for tm, tn, w in tiles
        }  # fmt: skip
        if rows > 16:
            full = self.empty(k, n)
            first = Variant(
                "int4_dequantise", {"TYPE": "half", "GROUP": group, "TN": 128, "num_warps": 8},
                (k // group, cdiv(n, 128)), (packed, scale, zero, full, n),
            )  # fmt: skip
            for tm, tn in ((128, 128), (128, 256)) if self.is_large else ((64, 64),):
                variants[f"in full, then {tm}x{tn}"] = Variant(
                    "seeds/matmul", {"TYPE": "half", "TM": tm, "TN": tn, "TK": 64}, (cdiv(rows, tm), cdiv(n, tn)),
                    (a, full, c, rows, n, k, k, n, n), before=first,
                )  # fmt: skip
        low, high = (packed & 15), (packed >> 4)

        def weights() -> Any:
            halves = torch.stack([low.view(-1, group // 2, n), high.view(-1, group // 2, n)], 1).view(k, n).half()
            return (halves.view(-1, group, n) - zero[:, None]).mul_(scale[:, None]).view(k, n)

        fixed = weights()
        peers = {"dequantise + mm": lambda: a @ weights(), "mm of halves": lambda: a @ fixed}
        return Case(
            f"int4 {rows} rows", 2 * rows * n * k, c, lambda: off(c, a.double() @ fixed.double()), variants, peers
        )

    def cases(self) -> Iterator[tuple[str, Callable[[], Case]]]:
        """All, the most telling ones first."""
        for d in (128, 64):
            for causal in (False, True):
                yield f"attention d{d}{' causal' * causal}", lambda d=d, c=causal: self.attention(d, causal=c)
        for rows in self.pick((16, 2048), (5, 40)):
            yield f"int4 {rows} rows", lambda r=rows: self.int4(r)
        yield "conv 3x3", self.conv
        for mode in ("sdd", "dsd"):
            yield f"blocksparse {mode}", lambda m=mode: self.blocksparse(m)


def off(got: Any, want: Any) -> float:
    """How far a result is off, relative to its norm."""
    return ((got.float() - want.float()).norm() / want.float().norm()).item()


def measure(case: Case, timing: Timing | None) -> dict[str, Any]:
    """What is wrong with each variant, and microseconds of all that are right and of the peers."""
    row: dict[str, Any] = {"case": case.name, "flops": case.flops, "made": {}, "failed": {}}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        kernels = list(pool.map(Variant.made, case.variants.values()))
    calls: dict[str, Call] = {}
    for (label, variant), made in zip(case.variants.items(), kernels, strict=True):
        if isinstance(made, GraphfuseError):
            row["failed"][label] = str(made)[:300]
            continue
        case.out.fill_(float("nan"))
        variant.launch(made)
        error = case.error()
        row["made"][label] = {"error": error, **resources(made[-1].compiled[0])}
        if error <= LARGEST_ERROR:  # NaN is not either
            calls[label] = lambda made=made, v=variant: v.launch(made)
        else:
            row["failed"][label] = f"error {error:.2e}"
    if timing is not None:
        found: dict[str, Recorded] = {}
        for label, call in {**calls, **case.peers}.items():
            try:
                found[label] = Recorded(call)
            except Exception as e:  # noqa: BLE001  # one contestant less, and why
                row["failed"][label] = f"{type(e).__name__}: {str(e)[:200]}"
        row["us"] = {label: 1e3 * ms for label, ms in medians(race(found, timing)).items()}
    return row


def report(case: Case, row: Mapping[str, Any]) -> str:
    """The best of ours beside every peer, then all of ours."""
    lines = [f"    NOT RIGHT {label}: {why}" for label, why in row["failed"].items()]
    us = row.get("us", {})
    ours = {label: us[label] for label in case.variants if label in us}
    if ours:
        best = min(ours, key=lambda label: ours[label])
        rate = case.flops / ours[best] / 1e6
        made = row["made"][best]
        peers = ", ".join(f"{p} {us[p]:.1f} ({us[p] / ours[best]:.3f})" for p in case.peers if p in us)
        lines.insert(0, f"{case.name:22s} {ours[best]:8.1f} us {rate:5.0f} TFLOP/s {best}; {peers}")
        lines.append("    " + ", ".join(f"{label} {t:.1f}" for label, t in ours.items()))
        lines.append(f"    {made['registers']} registers, {made['spill_bytes']} spilled, error {made['error']:.1e}")
    else:
        right = ", ".join(f"{label} {m['error']:.1e}" for label, m in row["made"].items())
        lines.insert(0, f"{case.name:22s} {right}")
    return "\n".join(lines)


def main() -> int:
    """See the module."""
    parser = arguments(__doc__, budget=300)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"), help="where the kernels run")
    args = parser.parse_args()
    until = time.perf_counter() + args.budget
    maker = Maker(args.device)
    timing = None if args.device == "cpu" else QUICK if args.quick else TIMING
    rows: list[dict[str, Any]] = []
    for name, make in maker.cases():
        if not asked(name, args.only) or time.perf_counter() > until:
            continue
        case = make()
        rows.append(measure(case, timing))
        if args.device == "cuda":
            rows[-1]["gpu"] = torch.cuda.get_device_name()
        print(report(case, rows[-1]), flush=True)
        if args.json:
            record.write(args.json, rows)
    return 1 if any(row["failed"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
