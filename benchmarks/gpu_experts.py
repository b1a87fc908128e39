"""Mixtures of experts on a GPU, in bf16, beside torch.

    python -m benchmarks.gpu_experts [--only mixtral,qwen3] [--tokens 1,16,256] [--sides WORDS] [--json FILE]
    python -m benchmarks.gpu_experts --dry     no GPU: compile every case, run small ones on the emulator and in torch

A case is an `MoE` node of gate, up, SwiGLU and down in the sizes of a model, for a number of tokens that it says, with
weights and scores as inputs on the GPU; or a chain of such, whose tokens want other experts, where those of one would
stay in the cache. Times are of one layer, mean over the chain. Sides of torch: `loop`, over the experts that are hit,
as transformers' Mixtral has; `grouped`, by `grouped_mm`; `gathered`, of few tokens, by matrices that are looked up.
The first two are timed as they are, the last two under mode="reduce-overhead". `dense` is one product of as many
FLOPs, for many tokens. `bandwidth` is what the weights of active experts alone would need of the copy bandwidth,
measured in the same run, for few tokens. Results are compared with products in f32 first. Every row has a process of
its own.
"""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import ml_dtypes

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import record
from benchmarks.cpu_experts import Mixture, model_of
from benchmarks.decode import copy_bandwidth
from benchmarks.gpu_timing import (
    AGAIN,
    QUICK,
    Call,
    Called,
    Contestant,
    Recorded,
    Timing,
    arguments,
    asked,
    medians,
    race,
    twice,
)
from benchmarks.torch_gpu import in_a_process

TARGET = "cuda:sm_90a"
MIXTURES = {
    "mixtral": Mixture(8, 4096, 14336, 2, gated=True),
    "qwen3-30b-a3b": Mixture(128, 2048, 768, 8, gated=True),
    "deepseek": Mixture(256, 7168, 2048, 8, gated=True),
}
SMALL = (Mixture(4, 64, 96, 2, gated=True), Mixture(16, 128, 64, 4, gated=True))
TOKENS = "1,4,16,64,256,1024,4096"
FEW, MANY = 16, 256
"""Tokens at most where weights are what takes time, and at least where products do."""
UNCACHED = 110 << 20
"""Bytes of a chain's active experts, at least."""
STEP = 1 / 32
"""Between scores, all of which bf16 has."""
TIMING = Timing(0.05, 0.15, 5)
BOUND = 1.5e-2
"""Largest error that is right, of the norm: two layers, whose results are about quadratic in what they are given."""
SECONDS_TO_COMPILE = 45.0
SECONDS_FOR_A_ROW = 240.0
OURS, DENSE, COMPILED = "graphfuse", "dense", " reduce-overhead"
SIDES = ("grouped", "loop", f"grouped{COMPILED}", f"gathered{COMPILED}")
"""Of torch, what may take long to compile at the end."""
Layer = Callable[[Any, Any, Any, Any, int], Any]


# torch's ways: of x [tokens, width], scores [tokens, experts] and weights by name, the layer's result


def routed(torch: Any, x: Any, scores: Any, k: int) -> tuple[Any, Any]:
    """Shares of the k best experts of each token, and which they are: [tokens, k]."""
    share, chosen = torch.softmax(scores, 1, dtype=torch.float).topk(k)
    return (share / share.sum(1, keepdim=True)).to(x.dtype), chosen


def loop(torch: Any, x: Any, scores: Any, w: Any, k: int) -> Any:
    """Expert by expert, of those that are hit."""
    functional = torch.nn.functional
    share, chosen = routed(torch, x, scores, k)
    mask = functional.one_hot(chosen, scores.shape[1]).permute(2, 1, 0)
    out = torch.zeros_like(x)
    for e in mask.sum((1, 2)).nonzero().flatten().tolist():
        place, token = torch.where(mask[e])
        rows = x[token]
        inner = functional.silu(rows @ w.w1[e].T) * (rows @ w.w3[e].T)
        out.index_add_(0, token, (inner @ w.w2[e].T) * share[token, place, None])
    return out


def grouped(torch: Any, x: Any, scores: Any, w: Any, k: int) -> Any:
    """Rows in the order of their experts, whose products are one call."""
    functional = torch.nn.functional
    share, chosen = routed(torch, x, scores, k)
    ordered, order = chosen.flatten().sort()
    ends = torch.searchsorted(ordered, torch.arange(scores.shape[1], device=x.device), right=True).to(torch.int32)
    multiply = getattr(functional, "grouped_mm", None) or torch._grouped_mm  # as older torch calls it
    rows = x[order // k]
    gate, up = (multiply(rows, m.transpose(1, 2), offs=ends) for m in (w.w1, w.w3))
    out = multiply(functional.silu(gate) * up, w.w2.transpose(1, 2), offs=ends)
    placed = torch.empty_like(out).index_copy(0, order, out)
    return (placed.view(*chosen.shape, -1) * share[:, :, None]).sum(1)


def gathered(torch: Any, x: Any, scores: Any, w: Any, k: int) -> Any:
    """Matrices of each token's experts, which Inductor need not write down."""
    share, chosen = routed(torch, x, scores, k)
    gate, up = (torch.einsum("td,tkfd->tkf", x, m[chosen]) for m in (w.w1, w.w3))
    out = torch.einsum("tkf,tkdf->tkd", torch.nn.functional.silu(gate) * up, w.w2[chosen])
    return (out * share[:, :, None]).sum(1)


WAYS: dict[str, Layer] = {"grouped": grouped, "gathered": gathered, "loop": loop}


def module_of(torch: Any, way: str, weights: Mapping[str, Any], k: int) -> Any:
    """A chain of layers, whose weights are parameters: those no graph copies."""

    class Chain(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name, w in weights.items():
                self.register_parameter(name, torch.nn.Parameter(w, requires_grad=False))

        def forward(self, x: Any, scores: Sequence[Any]) -> Any:
            for s in scores:
                x = WAYS[way](torch, x, s, self, k)
            return x

    return Chain().eval()


# cases


def draw(torch: Any, mixture: Mixture, tokens: int, device: str) -> dict[str, Any]:
    """Inputs of a chain by name, in bf16; its number of links is as many as leave no cache what is read."""
    torch.manual_seed(record.SEED)
    feeds: dict[str, Any] = {
        name: torch.randn(shape, device=device, dtype=torch.bfloat16).mul_(shape[2] ** -0.5)
        for name, shape in mixture.weights.items()
    }
    feeds["x0"] = torch.randn(tokens, mixture.width, device=device).bfloat16()
    nbytes, links = 0, 0
    while nbytes < UNCACHED and (device != "cpu" or links < 2):
        order = torch.rand(tokens, mixture.experts, device=device).argsort(1)
        feeds[f"s{links}"] = scores = (order * STEP).bfloat16()
        nbytes, links = nbytes + active(mixture, scores) * bytes_of_one(mixture), links + 1
    return feeds


def scores_of(feeds: Mapping[str, Any]) -> list[Any]:
    """Those of each link."""
    return [feeds[f"s{i}"] for i in range(sum(name.startswith("s") for name in feeds))]


def active(mixture: Mixture, scores: Any) -> int:
    """How many experts any token wants."""
    return scores.topk(mixture.k).indices.unique().numel()


def bytes_of_one(mixture: Mixture) -> int:
    """Of an expert's weights."""
    return 2 * 3 * mixture.width * mixture.hidden


def exact(torch: Any, mixture: Mixture, feeds: Mapping[str, Any], dtype: Any) -> Any:
    """The chain with wide products, of which each layer's result is rounded."""
    x = feeds["x0"]
    for scores in scores_of(feeds):
        best = scores.topk(mixture.k)
        share = torch.zeros_like(scores, dtype=dtype).scatter_(1, best.indices, best.values.to(dtype).softmax(1))
        out = torch.zeros_like(x, dtype=dtype)
        for e in best.indices.unique().tolist():
            token = share[:, e].nonzero().flatten()
            w1, w2, w3 = (feeds[name][e].to(dtype) for name in ("w1", "w2", "w3"))
            rows = x[token].to(dtype)
            out[token] += torch.nn.functional.silu(rows @ w1.T) * (rows @ w3.T) @ w2.T * share[token, e, None]
        x = out.to(feeds["x0"].dtype)
    return x


def error_of(got: Any, want: Any) -> float:
    """Of the norm."""
    return float((got.double() - want.double()).norm() / want.double().norm())


def compiled_for(mixture: Mixture, tokens: int | str, links: int, device: str) -> Any:
    """Ours, of weights that are inputs."""
    import graphfuse

    model = model_of(mixture, tokens, ml_dtypes.bfloat16, {}, links)
    dims = {"tokens": (1, 4096)} if isinstance(tokens, str) else None
    return graphfuse.compile(model, target=TARGET, dims=dims, device=device)


# on the GPU


@contextlib.contextmanager
def within(seconds: float) -> Generator[None]:
    """What takes longer is stopped."""

    def stop(*_: Any) -> None:
        raise TimeoutError(f"stopped after {seconds:.0f} s")

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def sides_of(tokens: int, words: Sequence[str]) -> list[str]:
    """Those of torch that are asked for."""
    return [s for s in SIDES if asked(s, words) and (tokens <= FEW or not s.startswith("gathered"))]


def measure(name: str, tokens: int, words: Sequence[str], timing: Timing, *, unknown: bool) -> dict[str, Any]:
    """One row."""
    import torch

    mixture = MIXTURES[name]
    row: dict[str, Any] = {"case": name, "tokens": tokens, "unknown": unknown, "gpu": torch.cuda.get_device_name()}
    row |= {"copy_tb_s": copy_bandwidth(torch), "notes": [], "error": {}, "compile_s": {}}
    feeds = draw(torch, mixture, tokens, "cuda")
    scores = scores_of(feeds)
    row["links"] = links = len(scores)
    row["active"] = sum(active(mixture, s) for s in scores) / links
    row["bytes"] = row["active"] * bytes_of_one(mixture)
    row["flops"] = tokens * mixture.k * bytes_of_one(mixture)
    want = exact(torch, mixture, feeds, torch.float)
    contestants: dict[str, Contestant] = {}
    for side in (OURS, *sides_of(tokens, words)):
        begun = time.perf_counter()
        try:
            with torch.no_grad(), within(SECONDS_TO_COMPILE):
                if side == OURS:
                    ours = compiled_for(mixture, "tokens" if unknown else tokens, links, "cuda")
                    call = partial(run_ours, ours, feeds)
                    row["us_by_kernel"] = by_kernel(ours, feeds)
                else:
                    call = by_torch(torch, side, mixture, feeds)
                row["error"][side] = error_of(call(), want)
                row["compile_s"][side] = time.perf_counter() - begun
                for twin in twice({side: call}) if side == "grouped" else (side,):
                    contestants[twin] = entered(side, call)
        except Exception as e:  # noqa: BLE001  # the others are worth measuring
            text = str(e).strip().splitlines()
            row["notes"].append(f"{side}: {type(e).__name__}: {text[0][:300] if text else ''}")
    if tokens >= MANY:
        contestants[DENSE] = Recorded(dense(torch, mixture, tokens, "cuda"))
    found = medians(race(contestants, timing))
    row["ms"] = ms = {side: t / (1 if side == DENSE else links) for side, t in found.items()}
    if OURS in ms:
        row["ratio"] = {side: t / ms[OURS] for side, t in ms.items() if side != OURS and AGAIN not in side}
        row |= {"bandwidth": row["bytes"] / row["copy_tb_s"] / 1e9 / ms[OURS]} if tokens <= FEW else {}
    return row


def run_ours(ours: Any, feeds: Mapping[str, Any]) -> Any:
    """Our chain's result."""
    (found,) = ours.session.run(feeds).values()
    return found


def entered(side: str, call: Call) -> Contestant:
    """How a side is timed: by the GPU's work alone, but for loops, which wait for it in their midst."""
    if side.startswith("loop"):
        return Called(call, asleep=False)
    return Recorded(call) if side in WAYS else Called(call, asleep=True)


def dense(torch: Any, mixture: Mixture, tokens: int, device: str) -> Call:
    """One product of as many FLOPs."""
    k = mixture.width
    a = torch.randn(tokens * mixture.k, k, device=device).bfloat16()
    b = torch.randn(k, 3 * mixture.hidden, device=device).bfloat16()
    return lambda: a @ b


def by_torch(torch: Any, side: str, mixture: Mixture, feeds: Mapping[str, Any]) -> Call:
    """A side's call, compiled and warm."""
    way = side.removesuffix(COMPILED)
    module = module_of(torch, way, {name: feeds[name] for name in mixture.weights}, mixture.k)
    x, scores = feeds["x0"], scores_of(feeds)
    if way == side:
        return partial(module, x, scores)
    torch._dynamo.reset()
    compiled = torch.compile(module, mode="reduce-overhead")

    def call() -> Any:
        torch.compiler.cudagraph_mark_step_begin()
        with torch.no_grad():
            return compiled(x, scores)

    for _ in range(4):
        call()
    return call


def by_kernel(ours: Any, feeds: Mapping[str, Any]) -> dict[str, float]:
    """Microseconds of each kernel's launches, one at a time."""
    out: dict[str, float] = {}
    for step in ours.session.profile(feeds).steps:
        out[step.kernel] = out.get(step.kernel, 0.0) + step.ns / 1e3
    return dict(sorted(out.items(), key=lambda item: -item[1]))


def report(row: Mapping[str, Any]) -> str:
    """A line of a row, what its kernels take, and what went wrong."""
    text = f"{row['case']}, {row['tokens']} tokens:"
    if "ms" in row:
        text += f" {row['active']:.0f} experts, ms " + ", ".join(
            f"{side} {t:.3f}" for side, t in row["ms"].items() if AGAIN not in side
        )
        text += f"; {row['bandwidth']:.2f} of bandwidth" if "bandwidth" in row else ""
        text += f"; x {', '.join(f'{side} {r:.2f}' for side, r in row.get('ratio', {}).items())}"
        text += "; errors " + ", ".join(f"{side} {e:.1e}" for side, e in row["error"].items())
        text += "" if row["error"].get(OURS, 0) <= BOUND else "  WRONG"
        text += f"; compiled in {row['compile_s'].get(OURS, 0):.0f} s"
        text += "".join(f"\n    {name} {us:.1f} us" for name, us in list(row.get("us_by_kernel", {}).items())[:6])
    return text + "".join(f"\n    {note}" for note in row.get("notes", []))


# anywhere


def dry(words: Sequence[str], counts: Sequence[int], *, unknown: bool) -> bool:
    """Small ones on the emulator, and in torch on the CPU, beside f64; then every case is compiled."""
    import torch

    good = True
    for mixture, tokens in product(SMALL, (1, 5, 40)):
        feeds = draw(torch, mixture, tokens, "cpu")
        want = exact(torch, mixture, feeds, torch.double)
        links = len(scores_of(feeds))
        ours = compiled_for(mixture, "tokens" if unknown else tokens, links, "emulator")
        arrays = {name: t.view(torch.int16).numpy().view(ml_dtypes.bfloat16) for name, t in feeds.items()}
        errors = {OURS: error_of(torch.from_numpy(ours(arrays)[f"x{links}"].astype("f4")), want)}
        for way in WAYS:
            module = module_of(torch, way, {name: feeds[name] for name in mixture.weights}, mixture.k)
            errors[way] = error_of(module(feeds["x0"], scores_of(feeds)), want)
        good &= max(errors.values()) <= BOUND
        print(f"{mixture}, {tokens} tokens: " + ", ".join(f"{side} {e:.1e}" for side, e in errors.items()), flush=True)
    for name, tokens in product((name for name in MIXTURES if asked(name, words)), counts):
        begun = time.perf_counter()
        made = compiled_for(MIXTURES[name], "tokens" if unknown else tokens, 1, "emulator")
        launches = len(made.executable.plan.steps)
        print(
            f"{name}, {tokens} tokens: {launches} launches, compiled in {time.perf_counter() - begun:.1f} s", flush=True
        )
    return good


def main() -> int:
    """Every row in a process of its own; 1 if an output was wrong."""
    parser = arguments(__doc__, budget=570, dry=True)
    parser.add_argument("--tokens", default=TOKENS)
    parser.add_argument("--sides", default="", help="of torch, names with one of these words; all")
    parser.add_argument("--unknown", action="store_true", help="models do not say how many tokens there are")
    parser.add_argument("--worker", nargs=2, metavar=("CASE", "TOKENS"))
    args = parser.parse_args()
    counts, sides = [int(n) for n in args.tokens.split(",")], [w for w in args.sides.split(",") if w]
    if args.dry:
        return 0 if dry(args.only, counts, unknown=args.unknown) else 1
    if args.worker:
        timing = QUICK if args.quick else TIMING
        print(json.dumps(measure(args.worker[0], int(args.worker[1]), sides, timing, unknown=args.unknown)))
        return 0
    deadline = time.perf_counter() + args.budget
    flags = ["--sides", args.sides, *["--unknown"] * args.unknown, *["--quick"] * args.quick]
    made = (
        in_a_process(
            ["benchmarks.gpu_experts", "--worker", name, str(tokens), *flags], row, min(left, SECONDS_FOR_A_ROW)
        )
        for name, tokens in product((name for name in MIXTURES if asked(name, args.only)), counts)
        if (row := {"case": name, "tokens": tokens}) and (left := deadline - time.perf_counter()) >= 20
    )
    found = record.collect(made, report, args.json)
    return int(any(row.get("error", {}).get(OURS, 0) > BOUND for row in found))


if __name__ == "__main__":
    sys.exit(main())
