"""Kernels that nobody named, drawn from a seed: `python -m benchmarks.population --seed 7 --count 40 --json FILE`.

Every case is a function of torch on arrays of drawn shapes (log-uniform, with primes), layouts and elements. Each is
compiled by `torch.compile` for graphfuse and Inductor, its result is compared with float64, and both are timed beside
eager in CUDA graphs on inputs that stay where they are. `bound` is the time that its compulsory bytes or its operations
take at what this GPU was measured to reach in the same run. A case is a process of its own: one that dies is a row.

    python -m benchmarks.population --family convolution,sum      some families
    python -m benchmarks.population --dry                         no GPU: draws, compiles for the CPU and checks
"""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import record
from benchmarks.gpu_timing import Recorded, Timing, arguments, medians, race

PRIMES = (3, 5, 7, 11, 13, 17, 31, 37, 61, 67, 97, 127, 131, 193, 251, 257, 509, 521, 769, 1021, 2039, 4099, 8191)
TIMING = Timing(0.02, 0.05, 3)
SECONDS_FOR_A_CASE = 120.0
MOST_ELEMENTS = 1 << 27
MOST_FLOPS = 1 << 39
FAR = 4.0
"""Times its bound: further than that a kernel of `LONG_US` and more is a cliff, whatever its peers take."""
LONG_US = 20.0
SIDES = ("graphfuse", "inductor", "eager")


@dataclass(frozen=True)
class Case:
    """`call` on arrays of `shapes`; `flops` are multiplications and additions of products."""

    text: str
    call: Callable[..., Any]
    shapes: Sequence[tuple[int, ...]]
    dtype: str
    flops: int = 0
    channels_last: bool = False


class Draw:
    """Numbers of one case."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def size(self, low: int, high: int) -> int:
        """Log-uniform; one in five is a prime, two in five are multiples of 8."""
        n = round(math.exp(self.random.uniform(math.log(low), math.log(high))))
        kind = self.random.random()
        if kind < 0.2:
            return min((p for p in PRIMES if low <= p <= high), key=lambda p: abs(math.log(p / n)), default=n)
        return max(low, -(-n // 8) * 8) if kind < 0.6 and high >= 8 else n

    def one(self, *values: Any) -> Any:
        """One of them."""
        return self.random.choice(values)

    def even(self) -> bool:
        """As likely as not."""
        return self.random.random() < 0.5

    def within(self, sizes: Callable[[], tuple[int, ...]], most: int = MOST_ELEMENTS) -> tuple[int, ...]:
        """Sizes whose product is not too large."""
        return next(s for s in iter(sizes, None) if 1 << 14 <= math.prod(s) <= most)


def convolution(d: Draw) -> Case:
    """Images as users have them: either layout, any channels, groups, steps, 1-D to 3-D."""
    import torch.nn.functional as nn

    rank, taps, step = d.one(1, 2, 2, 2, 2, 3), d.one(1, 3, 3, 5), d.one(1, 1, 2)
    groups = d.one(1, 1, 1, 1, 2, 0)
    n, c, k = d.size(1, 32), d.size(3, 512), d.size(8, 512)
    if groups > 1:
        c, k = c // groups * groups or groups, k // groups * groups or groups
    if groups == 0:  # depthwise
        groups = k = c
    side = d.size(7, {1: 4096, 2: 112, 3: 24}[rank])
    pad = d.one(taps // 2, 0) if side > taps else taps // 2
    flops = 2 * n * (side // step) ** rank * k * c // groups * taps**rank
    if flops > MOST_FLOPS or n * max(c, k) * side**rank > MOST_ELEMENTS:
        return convolution(d)
    conv, last = getattr(nn, f"conv{rank}d"), d.even() and rank == 2

    def call(x: Any, w: Any, b: Any) -> Any:
        return nn.relu(conv(x, w, b, stride=step, padding=pad, groups=groups))

    shapes = ((n, c, *[side] * rank), (k, c // groups, *[taps] * rank), (k,))
    text = f"{n}x{c}->{k} {side}^{rank} taps {taps} step {step} pad {pad} groups {groups} {'last' if last else 'first'}"
    return Case(text, call, shapes, d.one("float16", "bfloat16"), flops, last)


def product(d: Draw) -> Case:
    """A linear layer, with what follows."""
    import torch.nn.functional as nn

    m, n, k = d.size(1, 8192), d.size(16, 8192), d.size(16, 8192)
    after = d.one("none", "bias", "bias, gelu", "residual")

    def call(x: Any, w: Any, b: Any, r: Any) -> Any:
        y = nn.linear(x, w, b if "bias" in after else None)
        return nn.gelu(y) if "gelu" in after else y + r if after == "residual" else y

    shapes = ((m, k), (n, k), (n,), (m, n) if after == "residual" else (1,))
    return Case(f"{m}x{n}x{k} {after}", call, shapes, d.one("float16", "bfloat16"), 2 * m * n * k)


def batched(d: Draw) -> Case:
    """Many small products."""
    b, m, n, k = d.size(2, 512), d.size(4, 512), d.size(4, 512), d.size(8, 256)
    shapes = ((b, m, k), (b, k, n))

    def call(x: Any, y: Any) -> Any:
        return x @ y

    return Case(f"{b} of {m}x{n}x{k}", call, shapes, d.one("float16", "bfloat16"), 2 * b * m * n * k)


def sums(d: Draw) -> Case:
    """Reductions over any axes of up to four."""
    rank = d.one(2, 3, 3, 4)
    shape = d.within(lambda: tuple(d.size(2, {2: 65536, 3: 2048, 4: 256}[rank]) for _ in range(rank)))
    axes = tuple(i for i in range(rank) if d.even()) or (d.one(*range(rank)),)
    kind = d.one("sum", "amax", "mean", "var")

    def call(x: Any) -> Any:
        return getattr(x, kind)(axes)

    return Case(f"{kind} {list(axes)} of {shape}", call, (shape,), _any(d))


def rows(d: Draw) -> Case:
    """Norms and softmax along the last axis."""
    import torch.nn.functional as nn

    m, n = d.within(lambda: (d.size(1, 1 << 20), d.size(16, 1 << 17)))
    kind = d.one("softmax", "layer norm", "rms norm")

    def call(x: Any, w: Any) -> Any:
        if kind == "softmax":
            return x.softmax(-1)
        return nn.layer_norm(x, (n,), w) if kind == "layer norm" else nn.rms_norm(x, (n,), w)

    return Case(f"{kind} {m}x{n}", call, ((m, n), (n,)), _any(d))


def moved(d: Draw) -> Case:
    """Permuted, then added to or cut."""
    rank = d.one(2, 3, 4)
    shape = d.within(lambda: tuple(d.size(2, {2: 16384, 3: 1024, 4: 128}[rank]) for _ in range(rank)))
    perm = tuple(d.random.sample(range(rank), rank))
    extra = tuple(shape[p] for p in perm)

    def call(x: Any, y: Any) -> Any:
        return (x.permute(perm) + y) * 2

    return Case(f"{shape} by {perm}", call, (shape, extra), _any(d))


def along(d: Draw) -> Case:
    """Sums so far, along either axis."""
    shape = d.within(lambda: (d.size(2, 1 << 16), d.size(2, 1 << 16)), 1 << 25)
    axis = d.one(0, 1)

    def call(x: Any) -> Any:
        return x.cumsum(axis)

    return Case(f"cumsum {axis} of {shape}", call, (shape,), "float32")


def _any(d: Draw) -> str:
    return d.one("float16", "bfloat16", "float32")


FAMILIES: dict[str, Callable[[Draw], Case]] = {
    "convolution": convolution, "product": product, "batched": batched, "sum": sums, "rows": rows, "moved": moved,
    "along": along,
}  # fmt: skip


def drawn(seed: int, number: int, families: Sequence[str]) -> tuple[str, Case]:
    """The family and the case of that number."""
    name = families[number % len(families)]
    return name, FAMILIES[name](Draw(seed * 1_000_003 + number))


def inputs(case: Case, device: str) -> list[Any]:
    """Arrays on a device; weights are small enough for sums to stay near 1."""
    import torch

    out: list[Any] = []
    for i, shape in enumerate(case.shapes):
        made = torch.randn(shape, device=device)
        if case.flops and i == 1:
            made /= math.sqrt(math.prod(shape[1:]))
        made = made.to(getattr(torch, case.dtype))
        out.append(made.to(memory_format=torch.channels_last) if case.channels_last and made.ndim == 4 else made)
    return out


def measured(case: Case, device: str) -> dict[str, Any]:
    """Errors and times of one case, in this process."""
    import torch

    from graphfuse.torch import backend

    torch.manual_seed(record.SEED)
    torch.backends.cudnn.benchmark = True
    given = inputs(case, device)
    exact = case.call(*(x.double() for x in given))
    own = float((case.call(*given).double() - exact).abs().max())
    row: dict[str, Any] = {"nbytes": sum(x.nbytes for x in given) + exact.numel() * given[0].element_size()}
    calls: dict[str, Callable[[], Any]] = {"eager": lambda: case.call(*given)}
    for side, chosen in (("graphfuse", backend), ("inductor", "inductor")):
        if device == "cpu" and side == "inductor":
            continue
        torch.compiler.reset()
        begun = time.perf_counter()
        compiled = torch.compile(case.call, backend=chosen, dynamic=False)
        error = float((compiled(*given).double() - exact).abs().max())
        row[f"{side}_first_s"] = round(time.perf_counter() - begun, 2)
        row[f"{side}_error"] = error
        calls[side] = lambda compiled=compiled: compiled(*given)
    size = float(exact.abs().max())
    row |= {"eager_error": own, "wrong": not row["graphfuse_error"] <= 4 * own + 2.0**-20 * size}
    if device != "cpu":
        recorded = {side: Recorded(calls[side]) for side in SIDES}
        row["us"] = {side: 1e3 * ms for side, ms in medians(race(recorded, TIMING)).items()}
    return row


def reached() -> dict[str, float]:
    """Bytes and operations of a microsecond: a large copy, a large product of halves."""
    import torch

    x = torch.empty(1 << 29, dtype=torch.uint8, device="cuda")
    a = torch.randn(8192, 8192, device="cuda").half()
    copy, multiply = Recorded(x.clone), Recorded(lambda: a @ a)
    long = Timing(0.3, 0.5, 3)
    ms = medians(race({"copy": copy, "product": multiply}, long))
    return {"bytes_per_us": 2 * x.numel() / ms["copy"] / 1e3, "flops_per_us": 2 * 8192**3 / ms["product"] / 1e3}


def one(seed: int, number: int, families: Sequence[str], seconds: float, *, dry: bool) -> dict[str, Any]:
    """A case in a process of its own: its row, or how it ended."""
    name, case = drawn(seed, number, families)
    row = {"family": name, "number": number, "case": f"{case.text} {case.dtype}", "flops": case.flops}
    command = [sys.executable, "-m", "benchmarks.population", "--one", str(number), "--seed", str(seed)]
    command += ["--family", ",".join(families), *(["--dry"] if dry else [])]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return row | {"ended": f"after {seconds:.0f} s"}
    said = next((line for line in reversed(done.stdout.splitlines()) if line.startswith("{")), "")
    if not said:
        return row | {"ended": f"exit {done.returncode}: {done.stderr.strip().splitlines()[-1:]}"}
    spilled = [line for line in done.stderr.splitlines() if "spills" in line]
    return row | json.loads(said) | ({"spills": spilled} if spilled else {})


def judged(row: dict[str, Any], peak: dict[str, float]) -> dict[str, Any]:
    """With its bound, and its ratio to the best peer."""
    if "us" not in row:
        return row
    bound = max(row["nbytes"] / peak["bytes_per_us"], row["flops"] / peak["flops_per_us"])
    ours, best = row["us"]["graphfuse"], min(row["us"]["inductor"], row["us"]["eager"])
    far = ours >= LONG_US and ours > FAR * bound
    return row | {"bound_us": bound, "ratio": best / ours, "to_bound": ours / bound, "cliff": far}


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Each family's geometric mean and least; the worst ten; what is wrong, and what ended."""
    lines: list[str] = []
    timed = [r for r in rows if "ratio" in r]
    for family in dict.fromkeys(r["family"] for r in rows):
        ratios = [r["ratio"] for r in timed if r["family"] == family]
        if not ratios:
            lines.append(f"{family:12} {sum(r['family'] == family for r in rows):3} cases, not timed")
        else:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            cliffs = sum(r["cliff"] for r in timed if r["family"] == family)
            lines.append(
                f"{family:12} {len(ratios):3} cases, geomean {mean:.2f}, least {min(ratios):.2f}, {cliffs} cliffs"
            )
    lines.append("worst:")
    for r in sorted(timed, key=lambda r: r["ratio"])[:10]:
        us = ", ".join(f"{side} {us:.1f}" for side, us in r["us"].items())
        lines.append(f"  {r['ratio']:.2f} {r['family']} {r['case']}: {us}; bound {r['bound_us']:.1f} us")
    far = sorted((r for r in timed if r["cliff"]), key=lambda r: -r["to_bound"])
    lines += [
        f"  {r['to_bound']:.1f} x its bound: {r['family']} {r['case']} ({r['us']['graphfuse']:.1f} us)"
        for r in far[:10]
    ]
    for r in rows:
        if r.get("wrong") or "ended" in r or "spills" in r:
            why = (
                r.get("ended") or r.get("spills") or f"off by {r['graphfuse_error']:.2e}, eager {r['eager_error']:.2e}"
            )
            lines.append(f"  {'ended' if 'ended' in r else 'spills' if 'spills' in r else 'WRONG'}: {r['case']}: {why}")
    return "\n".join(lines)


def main() -> None:
    """See the module."""
    parser = arguments(__doc__, budget=600, json="benchmarks/results/population_kernels.json", dry=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--family", default=",".join(FAMILIES), help=f"of {', '.join(FAMILIES)}")
    parser.add_argument("--jobs", type=int, default=3, help="processes that compile side by side; one is timed")
    parser.add_argument("--one", type=int, help="a case in this process")
    args = parser.parse_args()
    families = args.family.split(",")
    if args.one is not None:
        _, case = drawn(args.seed, args.one, families)
        print(json.dumps(measured(case, "cpu" if args.dry else "cuda")))
        return
    until = time.monotonic() + args.budget
    peak = {} if args.dry else reached()

    def begin(number: int) -> dict[str, Any] | None:
        left = until - time.monotonic()
        if left < 5:
            return None
        return one(args.seed, number, families, min(left, SECONDS_FOR_A_CASE), dry=args.dry)

    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with ThreadPoolExecutor(args.jobs) as pool:
        rows = [judged(r, peak) for r in pool.map(begin, range(args.count)) if r is not None]
    if not args.dry:
        record.write(args.json, [{"gpu": _gpu(), **peak}, *rows], args.seed)
    print(table(rows))


def _gpu() -> str:
    import torch

    return str(torch.cuda.get_device_name())


if __name__ == "__main__":
    main()
