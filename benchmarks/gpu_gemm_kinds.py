"""Products with other elements, or with more around them, beside torch's: `python -m benchmarks.gpu_gemm_kinds`.

Sets: `fp8` (e4m3 to bf16; torch._scaled_mm, which is cuBLASLt, with and without its fast accumulation), `int8`
(torch._int_mm), `f32` (split into three bf16 parts, beside f32 products without TF32: both operands split each time, or
the weights once), `swiglu` (silu(x @ w1.T) * (x @ w3.T)) and `layernorm` (of the rows, before a product with bias:
scales and shifts after it). The last two beside eager calls and Inductor's max-autotune. Methods as in `gpu_gemm`.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks import record
from benchmarks.gemm_kernels import STATISTICS, Gemm, split_text, text
from benchmarks.gpu_race import compile_text, gpu_of, work
from benchmarks.gpu_timing import QUICK, SUSTAINED, arguments, asked, ptxas, twice

PINGPONG = (("schedule", '"pingpong"'),)
SQUARE = ((4096, 4096, 4096),)
GATED = ((4096, 4096, 4096), (2048, 3072, 768), (4096, 14336, 4096), (8192, 8192, 1024))
SETS = ("fp8", "int8", "f32", "swiglu", "layernorm")
AUTOTUNING = 240.0
"""Seconds without a word after which the worker is taken to hang: Inductor tries its kernels in silence."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A kernel by its text, and the names of the tensors it takes."""

    code: str
    tensors: tuple[str, ...]


def contestants(kind: str, shape: tuple[int, int, int]) -> dict[str, list[Stage]]:
    """Our kernels for a shape, by name: what runs one after another."""
    base = Gemm(*shape)
    match kind:
        case "fp8" | "int8":
            elems = ("f8e4m3", "bf16", "f32") if kind == "fp8" else ("i8", "i32", "i32")
            base = replace(base, elem=elems[0], out=elems[1], sum=elems[2])
            tiles = {
                "128x256": ((128, 256, 128), ()), "p128x192": ((128, 192, 128), PINGPONG),
                "p128x128": ((128, 128, 128), PINGPONG), "128x128": ((128, 128, 128), ()),
                "128x192": ((128, 192, 128), ()),
            }  # fmt: skip
        case "f32":
            base = replace(base, parts=3, out="f32")
            tiles = {
                "128x128": ((128, 128, 64), ()), "128x128x32": ((128, 128, 32), ()), "128x192x32": ((128, 192, 32), ()),
                "p64x128x32": ((64, 128, 32), PINGPONG),
            }  # fmt: skip
        case "swiglu":
            base = replace(base, gate=True)
            tiles = {
                "128x128": ((128, 128, 64), ()), "p128x96": ((128, 96, 64), PINGPONG), "128x96": ((128, 96, 64), ()),
                "p128x64": ((128, 64, 64), PINGPONG), "p64x128": ((64, 128, 64), PINGPONG),
            }  # fmt: skip
        case _:
            base = replace(base, norm=True, bias=True)
            tiles = {
                "128x256": ((128, 256, 64), ()), "128x128": ((128, 128, 64), ()),
                "p128x128": ((128, 128, 64), PINGPONG),
            }  # fmt: skip
    m, n, k = shape
    out: dict[str, list[Stage]] = {}
    for label, (tile, attrs) in tiles.items():
        gemm = replace(base, tile=tile, attrs=attrs)
        product = Stage(text(gemm), (*(name for name, _ in gemm.inputs), "out"))
        if kind == "f32":
            x, w = Stage(split_text((m, k)), ("x", "a")), Stage(split_text((n, k)), ("w", "b"))
            out[label] = [x, w, product]
            out[f"{label} weights split"] = [x, product]
        elif kind == "layernorm":
            out[label] = [Stage(statistics_text(m, k), ("a", *STATISTICS[:2])), product]
        else:
            out[label] = [product]
    return out


def statistics_text(rows: int, columns: int, epsilon: float = 1e-5) -> str:
    """A block function: for each row of bf16 the reciprocal of its deviation, and minus that times its mean."""
    width = 1 << (columns - 1).bit_length()
    tile = f"tile<{width}xf32>"
    view = f"shape = [{width}], strides = [1]"
    limit, operand = (", limited = [0]", ", %end") if width != columns else ("", "")
    lines = [
        f"func @statistics(%x: ptr<bf16>, %scale: ptr<f32>, %shift: ptr<f32>) {{grid = ({rows}), warps = 4}} {{",
        "%p = block.program_id() : i64",
        f'%at = block.index(%p) {{expr = ({columns}*p), names = ["p"]}} : i64',
        f"%end = block.const() {{elem = i64, value = {columns}}} : i64",
        f"%h = block.load_view(%x, %at{operand}) {{{view}{limit}}} : tile<{width}xbf16>",
        f"%v = block.cast(%h) {{to = f32}} : {tile}",
        '%sum = block.reduce(%v) {axis = 0, kind = "sum"} : f32',
        f"%one = block.const() {{elem = f32, value = {1 / columns}}} : f32",
        "%mean = block.mul(%sum, %one) : f32",
        f"%means = block.splat(%mean) {{shape = [{width}]}} : {tile}",
        f"%all = block.sub(%v, %means) : {tile}",
    ]
    last = "all"
    if limit:
        lines += [
            f"%i = block.arange() {{end = {width}, start = 0}} : tile<{width}xi64>",
            f"%ends = block.splat(%end) {{shape = [{width}]}} : tile<{width}xi64>",
            f"%in = block.lt(%i, %ends) : tile<{width}xbool>",
            f"%zero = block.const() {{elem = f32, shape = [{width}], value = 0.0}} : {tile}",
            f"%d = block.select(%in, %all, %zero) : {tile}",
        ]
        last = "d"
    lines += [
        f"%square = block.mul(%{last}, %{last}) : {tile}",
        '%squares = block.reduce(%square) {axis = 0, kind = "sum"} : f32',
        "%variance = block.mul(%squares, %one) : f32",
        f"%epsilon = block.const() {{elem = f32, value = {epsilon}}} : f32",
        "%more = block.add(%variance, %epsilon) : f32",
        "%deviation = block.sqrt(%more) : f32",
        "%unit = block.const() {elem = f32, value = 1.0} : f32",
        "%r = block.div(%unit, %deviation) : f32",
        "%negative = block.neg(%mean) : f32",
        "%s = block.mul(%negative, %r) : f32",
        "%rt = block.splat(%r) {shape = [1]} : tile<1xf32>",
        "%st = block.splat(%s) {shape = [1]} : tile<1xf32>",
        "block.store_view(%scale, %p, %rt) {strides = [1]}",
        "block.store_view(%shift, %p, %st) {strides = [1]}",
    ]
    return "\n  ".join([*lines, "return()"]) + "\n}\n"


# in the worker


class Problem:
    """The tensors of a job by name, the exact result, and torch's calls."""

    def __init__(self, kind: str, m: int, n: int, k: int) -> None:
        import torch

        self.torch, self.kind = torch, kind
        generator = torch.Generator("cuda").manual_seed(record.SEED)

        def random(*shape: int, elem: Any = torch.bfloat16) -> Any:
            return torch.randn(*shape, device="cuda", generator=generator).to(elem)

        def empty(*shape: int, elem: Any = torch.float32) -> Any:
            return torch.empty(*shape, device="cuda", dtype=elem)

        t: dict[str, Any] = {}
        self.tensors = t
        match kind:
            case "fp8":
                t["a"], t["b"] = (random(*s, elem=torch.float8_e4m3fn) for s in ((m, k), (n, k)))
                t["out"] = empty(m, n, elem=torch.bfloat16)
            case "int8":
                t["a"], t["b"] = (
                    torch.randint(-128, 128, s, device="cuda", generator=generator, dtype=torch.int8)
                    for s in ((m, k), (n, k))
                )
                t["out"] = empty(m, n, elem=torch.int32)
            case "f32":
                t["x"], t["w"] = random(m, k, elem=torch.float32), random(n, k, elem=torch.float32)
                t["a"], t["b"] = empty(3, m, k, elem=torch.bfloat16), empty(3, n, k, elem=torch.bfloat16)
                t["out"] = empty(m, n)
            case "swiglu":
                t["a"], t["b"], t["c"] = random(m, k), random(n, k) / k**0.5, random(n, k) / k**0.5
                t["out"] = empty(m, n, elem=torch.bfloat16)
            case _:
                t["a"], t["w"], t["bias"] = random(m, k) * 2 + 1, random(n, k), random(n)
                t["g"] = 1 + random(k) / 10
                t["b"] = (t["w"].float() * t["g"].float()).bfloat16()
                t["sums"] = t["b"].float().sum(1)
                t["scale"], t["shift"] = empty(m), empty(m)
                t["out"] = empty(m, n, elem=torch.bfloat16)

    def exact(self) -> Any:
        """In f64 where the error is to be told from f32's, else in f32."""
        t, functional = self.tensors, self.torch.nn.functional
        match self.kind:
            case "fp8":
                return t["a"].float() @ t["b"].float().T
            case "int8":
                return t["a"].double() @ t["b"].double().T
            case "f32":
                return t["x"].double() @ t["w"].double().T
            case "swiglu":
                a = t["a"].float()
                return functional.silu(a @ t["b"].float().T) * (a @ t["c"].float().T)
            case _:
                normed = functional.layer_norm(t["a"].float(), t["g"].shape, t["g"].float())
                return normed @ t["w"].float().T + t["bias"].float()

    @property
    def most(self) -> float:
        """How large an error is right."""
        return {"int8": 0.0, "f32": 2e-6}.get(self.kind, 1e-2)

    def peers(self) -> dict[str, Callable[[], Any]]:
        """torch's ways, Inductor's among them where there is more than a product."""
        torch, t = self.torch, self.tensors
        functional = torch.nn.functional
        match self.kind:
            case "fp8":
                a, b, one = t["a"], t["b"].T, torch.ones((), device="cuda")

                def scaled(*, fast: bool) -> Any:
                    kw = {"out_dtype": torch.bfloat16, "use_fast_accum": fast}
                    return torch._scaled_mm(a, b, scale_a=one, scale_b=one, **kw)

                return {"scaled_mm": lambda: scaled(fast=False), "scaled_mm fast": lambda: scaled(fast=True)}
            case "int8":
                return {"int_mm": lambda: torch._int_mm(t["a"], t["b"].T)}
            case "f32":
                out = torch.empty_like(t["out"])
                return {"mm": lambda: torch.mm(t["x"], t["w"].T, out=out)}
            case "swiglu":

                def eager() -> Any:
                    return functional.silu(t["a"] @ t["b"].T) * (t["a"] @ t["c"].T)

            case _:

                def eager() -> Any:
                    normed = functional.layer_norm(t["a"], t["g"].shape, t["g"])
                    return functional.linear(normed, t["w"], t["bias"])

        calls = {"eager": eager}
        try:
            compiled: Callable[[], Any] = torch.compile(eager, mode="max-autotune-no-cudagraphs")
            compiled()
            calls["inductor"] = compiled
        except Exception as e:  # noqa: BLE001  # without Triton, or with one it does not know
            print(f"no inductor: {e}", file=sys.stderr)
        return calls


def error_of(got: Any, exact: Any) -> float:
    """Relative, in the Frobenius norm."""
    return ((got.double() - exact).norm() / exact.norm()).item()


def run(job: dict[str, Any], timing: dict[str, Any], say: Callable[[dict[str, Any]], None]) -> None:
    """Check every contestant and peer, then time them."""
    import torch

    from benchmarks.gemm_worker import Kernel, time_all

    problem = Problem(job["kind"], *job["shape"])
    exact = problem.exact()
    calls: dict[str, Callable[[], Any]] = {}

    for label, call in twice(problem.peers()).items():
        say({"trying": label})
        got = call()
        say({"peer": label, "error": error_of(got, exact)})
        calls[label] = call
    for spec in job["kernels"]:
        say({"trying": spec["label"]})
        stages = [Kernel(s, [problem.tensors[n] for n in s["tensors"]], []) for s in spec["stages"]]

        def launch(stages: Sequence[Kernel] = stages) -> None:
            for stage in stages:
                stage()

        problem.tensors["out"].zero_()
        launch()
        torch.cuda.synchronize()
        error = error_of(problem.tensors["out"], exact)
        registers, local = max(s.registers for s in stages), max(s.local_bytes for s in stages)
        say({"kernel": spec["label"], "error": error, "registers": registers, "local": local})
        if error <= problem.most:
            calls[spec["label"]] = launch
    del exact
    time_all(calls, job["flops"], timing, say)


# in the benchmark


def prepared(name: str, kind: str, shape: tuple[int, int, int], pool: Any, folder: str, assembler: str) -> Any:
    """A job with its kernels compiling."""
    ours = contestants(kind, shape)
    futures = {
        code: pool.submit(compile_text, code, folder, assembler) for s in ours.values() for code in {x.code for x in s}
    }

    def done() -> dict[str, Any]:
        kernels = []
        for label, stages in ours.items():
            specs = [{**futures[s.code].result(), "tensors": s.tensors} for s in stages]
            if not specs[-1]["is_wgmma"]:
                print(f"{name} {label}: declined")
                continue
            kernels.append({"label": label, "stages": specs, "log": "\n".join(str(s["log"]) for s in specs)})
        flops = 2 * shape[0] * shape[1] * shape[2] * (2 if kind == "swiglu" else 1)
        return {"name": name, "kind": kind, "shape": shape, "flops": flops, "kernels": kernels}

    return done


def jobs_of(sets: Sequence[str], only: Sequence[str]) -> Iterator[tuple[str, str, tuple[int, int, int]]]:
    """Name, kind and shape of each job."""
    for kind in sets:
        for shape in GATED if kind in ("swiglu", "layernorm") else SQUARE:
            name = f"{'x'.join(map(str, shape))} {kind}"
            if asked(name, only):
                yield name, kind, shape


def rows_of(said: Sequence[dict[str, Any]], jobs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for each job: times, rates and errors of all."""
    gpu = gpu_of(said)
    out: list[dict[str, Any]] = []
    for job in jobs:
        mine = [r for r in said if r.get("job") == job["name"]]
        errors = {r.get("kernel") or r.get("peer"): r["error"] for r in mine if "error" in r}
        times = {r["result"]: {k: r[k] for k in ("us", "tflops", "all_us")} for r in mine if "result" in r}
        labels = {k["label"] for k in job["kernels"]}
        best = min((t["us"] for label, t in times.items() if label not in labels), default=None)
        rows = {
            label: {**time_, "error": errors.get(label), "ratio": best / time_["us"] if best else None}
            for label, time_ in times.items()
        }
        ours = {label: r for label, r in rows.items() if label in labels}
        wrong = {label: e for label, e in errors.items() if label not in times}
        peers = {label: r for label, r in rows.items() if label not in labels}
        out.append({"job": job["name"], "gpu": gpu, "peers": peers, "ours": ours, "wrong": wrong})
    return out


def main() -> None:
    """See the module."""
    if sys.argv[1:2] == ["--worker"]:
        from benchmarks.gemm_worker import serve

        serve(Path(sys.argv[2]), run)
        return
    parser = arguments(__doc__, budget=450, json="benchmarks/results/gpu_gemm_kinds.json")
    parser.add_argument("--set", choices=SETS, action="append", default=[])
    parser.add_argument("--assembler", default=ptxas(), help="ptxas; none: the driver compiles")
    args = parser.parse_args()
    until = time.monotonic() + args.budget
    timing = QUICK if args.quick else SUSTAINED
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(os.cpu_count()) as pool:
        started = [
            prepared(name, kind, shape, pool, folder, args.assembler)
            for name, kind, shape in jobs_of(args.set or SETS, args.only)
        ]
        jobs = [finish() for finish in started]
        for job in jobs:
            for k in job["kernels"]:
                notes = [s for s in k["log"].splitlines() if "C7" in s or ("spill" in s and " 0 bytes spill" not in s)]
                if notes:
                    print(f"{job['name']} {k['label']}: {notes}")
        said = work(jobs, timing, folder, until, ("benchmarks.gpu_gemm_kinds", "--worker"), AUTOTUNING)
    rows = rows_of(said, jobs)
    record.write(args.json, rows)
    for row in rows:
        for label, r in {**row["peers"], **row["ours"]}.items():
            ratio = f" x{r['ratio']:.3f}" if label in row["ours"] else ""
            print(f"{row['job']} {label}: {r['tflops']:.1f} TFLOP/s {r['us']:.1f} us{ratio} error {r['error']:.2e}")
        for label, error in row["wrong"].items():
            print(f"{row['job']} {label}: wrong, or no time was left; error {error:.2e}")


if __name__ == "__main__":
    main()
