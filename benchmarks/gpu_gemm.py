"""Matrix products of the compiler on an H200 beside cuBLAS: `python -m benchmarks.gpu_gemm --set plain`.

Sets: `plain` (x @ w.T, all shapes), `layouts` (all four operand layouts of all shapes), `fused` (bias and GELU), and
`residual`. Kernels are the compiler's, from a graph, with the tile of its choice and no trial runs. `--tiles` adds
kernels with tiles that it did not choose, by their names (`TILES`) or as text, with attributes of the function:

    python -m benchmarks.gpu_gemm --quick --only 4096x4096x4096 --tiles "128x256,p128x192 ring=4,128x256 stream=1"

`copied` and `as stored` among the tiles: the compiler's kernels where operands of odd rows are copied first, and not.

`--target cuda:sm_90` compiles for that instead of `sm_90a`: products by `mma.sync`, as older parts make them.

Compiles in parallel processes; kernels run in a process that is started again, without the kernel at fault, when one
fails or hangs. Times are shorter where a set would not fit into `--budget`.
"""

from __future__ import annotations

import json
import math
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks import record
from benchmarks.gemm_kernels import Gemm
from benchmarks.gpu_timing import QUICK, SUSTAINED, Timing, arguments, asked, ptxas
from graphfuse.blockgen.gpu_contraction import GROUP
from graphfuse.blockgen.gpu_matmul_tile import ProductTile
from graphfuse.blockgen.gpu_wgmma_tile import STEP_BYTES, WgmmaTile
from graphfuse.ir.core import Func
from graphfuse.ir.types import Tile

SHAPES = (
    (8192, 8192, 8192), (4096, 4096, 4096), (2048, 2048, 2048), (1024, 768, 768), (2048, 3072, 768),
    (1024, 3072, 768), (2048, 768, 3072), (4096, 14336, 4096), (8192, 8192, 1024), (8192, 1024, 8192),
    (16384, 768, 768), (64, 4096, 4096), (16, 4096, 4096), (512, 512, 16384), (512, 1024, 1024),
    (4096, 4104, 1000), (4095, 4097, 1000), (2048, 50304, 768), (1024, 1024, 4096),
)  # fmt: skip
LAYOUTS = {"nt": (False, True), "nn": (False, False), "tn": (True, False), "tt": (True, True)}
"""Transposed or not, A then B: `nt` is x @ w.T with a weight [n, k]."""
TILES = (
    "128x256", "256x128", "128x192", "128x128", "p128x192", "p128x128", "p64x256", "p64x192", "p64x128", "64x256",
    "64x128", "64x64", "64x32", "64x128 persistent=2", "64x64 persistent=2", "64x32 persistent=2",
    *(f"{tile} split={s}" for s in (2, 4) for tile in ("128x128", "64x128", "64x64")),
    *(f"{tile} stream=1" for tile in ("128x256", "256x128", "128x192", "128x128")),
)  # fmt: skip
"""What `--tiles every` adds."""
COMPILER = "compiler"
"""The kernel that the compiler makes, tile and all."""
COMPILERS = (COMPILER, "copied", "as stored")
"""Those, and what it would make if operands of odd rows were always copied, or never."""
SETS = ("plain", "layouts", "fused", "residual")
ATTRS = ("schedule", "persistent", "split", "share", "ring", "store_buffers", "warps", "stages", "prefetch")
TARGET = "cuda:sm_90a"
PROMOTION = 128
"""Of tensor maps, as the runtime makes them."""
PREPARING = 0.5
"""Share of the budget that is not timing."""
PEERS = 3
"""Of a product, the one to beat twice."""
SILENCE = 60.0
"""Seconds without a word after which the worker is taken to hang."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A tile `rows x columns [x bytes of K]`, pingpong with a `p` before it, and attributes of the function.

    `rows=2` and `columns=2` are tiles that two blocks share. An `m` before it: `mma.sync`, of warps that do it all.
    """

    tile: WgmmaTile | ProductTile
    step_bytes: int
    attrs: tuple[tuple[str, int], ...]
    """`promotion` is the tensor maps': the bytes that the cache reads at once, 0 for no more than asked. `group` is the
    order of programs: so many tiles of rows go through the columns together."""

    @staticmethod
    def parse(text: str) -> Variant:
        """From a name such as `p128x192 ring=4`."""
        size, *words = text.split()
        attrs = {k: int(v) for k, v in (w.split("=") for w in words)}
        if size.startswith("m"):
            m, n, k_bytes = (int(d) for d in size[1:].split("x"))
            tile = ProductTile(m, n, k_bytes // 2, attrs.pop("warps", 8), attrs.pop("stages", 3))
            return Variant(tile, STEP_BYTES, tuple(attrs.items()))
        pingpong, dims = size.startswith("p"), [int(n) for n in size.removeprefix("p").split("x")]
        fields = (attrs.pop(name, 1) for name in ("persistent", "split", "rows", "columns"))
        tile = WgmmaTile(dims[0], dims[1], pingpong, *fields, stream=bool(attrs.pop("stream", 0)))
        return Variant(tile, dims[2] if len(dims) > 2 else STEP_BYTES, tuple(attrs.items()))


def gemms(
    which: str, elem: str, only: Sequence[str], shapes: Sequence[tuple[int, int, int]] = SHAPES
) -> Iterator[tuple[str, Gemm]]:
    """Products by the name of their job."""
    for shape in shapes:
        for layout, (ta, tb) in LAYOUTS.items():
            if which != "layouts" and layout != "nt":
                continue
            name = f"{'x'.join(map(str, shape))} {layout} {elem}"
            if not asked(name, only):
                continue
            fused = which == "fused"
            base = Gemm(*shape, ta=ta, tb=tb, elem=elem, out=elem, bias=fused, gelu=fused, residual=which == "residual")
            yield f"{name}{' bias gelu' if fused else ' residual' if base.residual else ''}", base


def compile_one(gemm: Gemm, label: str, folder: str, assembler: str, arch: str = TARGET) -> dict[str, Any]:
    """How to launch a product, with the tile that the label says or the compiler chooses."""
    from benchmarks.gemm_regions import ROWS, kernels_of, region_text
    from graphfuse.target import Target

    target = Target.parse(arch)
    folder = tempfile.mkdtemp(dir=folder)
    if label in COMPILERS:
        with ROWS.get(label, nullcontext()):
            first, *others = kernels_of(gemm, target).values()
            plan = {"plan": compile_plan(gemm, folder, assembler, arch)} if others else {}
        return {"label": label, **compile_text(first, folder, assembler, arch=arch), **plan}
    variant = Variant.parse(label)
    attrs = dict(variant.attrs)
    promotion, group = attrs.pop("promotion", PROMOTION), attrs.pop("group", GROUP)
    code = region_text(gemm, variant.tile, variant.step_bytes, attrs, target, group)
    return {"label": label, **compile_text(code, folder, assembler, arch=arch), "promotion": promotion}


def compile_text(code: str, folder: str, assembler: str, m: int = 0, arch: str = TARGET) -> dict[str, Any]:
    """A block function to PTX, to a cubin if there is an assembler, and how to launch it."""
    from graphfuse.gpu.lower import emit_ptx, lower
    from graphfuse.gpu.pipeline import transformed
    from graphfuse.ir.parser import parse
    from graphfuse.symbolic import evaluate
    from graphfuse.target import Target

    target = Target.parse(arch)
    begun = time.perf_counter()
    func = transformed(parse(code), target)
    lowered = lower([func], target)
    ptx = emit_ptx(lowered).rstrip("\0\n") + "\n"
    seconds = time.perf_counter() - begun
    (kernel,) = lowered.kernels
    stem = Path(folder) / f"{abs(hash(code)):x}"
    image = stem.with_suffix(".ptx")
    image.write_text(ptx, encoding="utf-8")
    log = ""
    if assembler:
        cubin = stem.with_suffix(".cubin")
        command = [assembler, "-arch=sm_90a", "-v", str(image), "-o", str(cubin)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        log = "\n".join(s for s in (done.stdout + done.stderr).splitlines() if "C7" in s or "spill" in s or "err" in s)
        image = cubin
    return {
        "name": kernel.name,
        "image": str(image),
        "log": log,
        "is_wgmma": "wgmma.mma_async" in ptx,
        "compile_s": seconds,
        "assemble_s": time.perf_counter() - begun - seconds,
        "threads": kernel.threads,
        "shared_bytes": kernel.shared_bytes,
        "grid": evaluate(kernel.grid, {"m": m}),
        "persistent": kernel.persistent,
        "split": kernel.split,
        "cluster": kernel.cluster,
        "flags": kernel.flags,
        "scratch_bytes": evaluate(kernel.scratch_bytes, {"m": m}),
        "attrs": {k: v for k, v in func.attrs.items() if k in ATTRS},
        "tile": _tile(func),
        "stages": [op.attrs["count"] for op in func.walk() if op.kind.name == "gpu.barriers"][:1],
        "tensor_maps": [
            {
                **asdict(t),
                "offset": evaluate(t.offset, {"m": m}),
                "dims": [evaluate(d, {"m": m}) for d in t.dims],
                "strides": [evaluate(s, {"m": m}) for s in t.strides],
            }
            for t in kernel.tensor_maps
        ],
    }


def compile_plan(gemm: Gemm, folder: str, assembler: str, arch: str = TARGET) -> dict[str, Any]:
    """A product of several kernels: their image, buffers and launches."""
    from benchmarks.gemm_regions import product
    from graphfuse.artifact import Pointer
    from graphfuse.compiler import Options, build
    from graphfuse.target import Target

    target = Target.parse(arch)
    made = build(product(gemm), target, Options())
    launches = {k.name: k.launch for k in made.kernels if k.launch}
    image = Path(folder) / "plan.ptx"
    image.write_text(made.code[str(target)].ptx.rstrip("\0\n") + "\n", encoding="utf-8")
    if assembler:
        image = image.with_suffix(".cubin")
        command = [assembler, "-arch=sm_90a", str(image.with_suffix(".ptx")), "-o", str(image)]
        subprocess.run(command, capture_output=True, check=True)
    steps: list[dict[str, Any]] = []
    for _, step in made.plan.walk():
        launch = launches[step.kernel]
        pointers = [a for a in step.args if isinstance(a, Pointer)]
        assert len(pointers) == len(step.args), "static shapes"
        assert all(a.offset == 0 for a in pointers), "a buffer for each tensor"
        fields = ("threads", "shared_bytes", "cluster", "split", "persistent", "overlaps", "flags")
        maps = [asdict(m) for m in launch.tensor_maps]
        own = {f: getattr(launch, f) for f in fields} | {"name": step.kernel, "grid": step.grid, "tensor_maps": maps}
        own["scratch_bytes"] = next(k.scratch_bytes for k in made.kernels if k.name == step.kernel)
        steps.append({**own, "image": str(image), "buffers": [a.buffer for a in pointers]})
    return {"steps": steps, "buffers": [asdict(b) for b in made.plan.buffers]}


def _tile(func: Func) -> str:
    """The tile of a function, as text."""
    op = next((op for op in func.walk() if op.kind.name in ("gpu.wgmma", "block.dot")), None)
    tile = op.result.type if op else None
    return "x".join(map(str, tile.shape)) if isinstance(tile, Tile) else ""


def compile_all(
    jobs: Sequence[tuple[str, Gemm]], tiles: Sequence[str], folder: str, assembler: str, arch: str = TARGET
) -> list[dict[str, Any]]:
    """Jobs for the worker; kernels that do not compile, and tiles that are declined, are left out."""
    out: list[dict[str, Any]] = []
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        labels = (COMPILER, *tiles)
        tasks = [(n, {t: pool.submit(compile_one, g, t, folder, assembler, arch) for t in labels}) for n, g in jobs]
        for (name, futures), (_, first) in zip(tasks, jobs, strict=True):
            done: list[dict[str, Any]] = []
            for label, future in futures.items():
                try:
                    spec = future.result()
                except Exception as e:  # noqa: BLE001  # one kernel less, and its reason in the output
                    print(f"{name} {label}: {type(e).__name__}: {str(e)[:300]}", flush=True)
                    continue
                if not spec["is_wgmma"] and label not in COMPILERS and not label.startswith("m"):
                    print(f"{name} {label}: declined", flush=True)
                    continue
                done.append(spec)
            fields = {f: getattr(first, f) for f in ("m", "n", "k", "ta", "tb", "elem", "bias", "residual", "gelu")}
            out.append({"name": name, **fields, "symbolic": first.symbolic, "kernels": done})
    return out


def work(
    jobs: list[dict[str, Any]],
    timing: Timing,
    folder: str,
    until: float,
    worker: Sequence[str] = ("benchmarks.gemm_worker",),
    silence: float = SILENCE,
) -> list[dict[str, Any]]:
    """Everything the worker said. A kernel that fails or hangs is taken out and the worker started again."""
    said: list[dict[str, Any]] = []
    pending = list(jobs)
    while pending and time.monotonic() < until:
        path = Path(folder) / "jobs.json"
        path.write_text(json.dumps({"timing": timing.fields(), "jobs": pending}), encoding="utf-8")
        command = [sys.executable, "-m", *worker, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, bufsize=1) as process:
            trying = _listen(process, said, pending, until, silence)
            process.kill()
        if not pending or time.monotonic() >= until:
            break
        if trying is None:
            raise SystemExit("the worker ended before its first kernel")
        print(f"{pending[0]['name']} {trying}: failed or hung", flush=True)
        said.append({"job": pending[0]["name"], "failed": trying})
        left = [k for k in pending[0]["kernels"] if k["label"] != trying]
        if len(left) == len(pending[0]["kernels"]):
            pending.pop(0)  # a peer failed
        else:
            pending[0] = {**pending[0], "kernels": left}
    return said


def _listen(
    worker: Any, said: list[dict[str, Any]], pending: list[dict[str, Any]], until: float, silence: float
) -> str | None:
    """Read until the worker ends, is silent for too long, or time is up; returns what it tried last."""
    lines: queue.Queue[str] = queue.Queue()

    def read() -> None:
        for line in worker.stdout:
            lines.put(line)
        lines.put("")

    threading.Thread(target=read, daemon=True).start()
    trying: str | None = None
    while time.monotonic() < until:
        try:
            line = lines.get(timeout=silence)
        except queue.Empty:
            return trying
        if not line:
            return trying
        if not line.startswith("{"):
            continue
        row = json.loads(line)
        if "trying" in row:
            trying = row["trying"]
            continue
        said.append(row)
        if "done" in row:
            pending.pop(0)
            _show(row["job"], [r for r in said if r.get("job") == row["job"]], row["seconds"])
    return trying


def _show(name: str, rows: list[dict[str, Any]], seconds: float) -> None:
    results = {r["result"]: r for r in rows if "result" in r}
    kernels = {r["kernel"]: r for r in rows if "kernel" in r}
    peers = [r["tflops"] for label, r in results.items() if label not in kernels]
    best = max(peers, default=math.nan)
    parts = [
        f"{label} {r['tflops']:.0f}TF {r['us']:.1f}us"
        + (f" x{r['tflops'] / best:.3f} e{kernels[label]['error']:.1e}" if label in kernels else "")
        for label, r in sorted(results.items(), key=lambda i: -i[1]["tflops"])
    ]
    wrong = [f"WRONG {k} e{r['error']:.2e}" for k, r in kernels.items() if k not in results]
    print(f"{name} [{seconds:.0f}s]: {'; '.join(parts + wrong)}", flush=True)


def rows_of(said: Sequence[dict[str, Any]], jobs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for each job: every contestant's time, our kernels' errors, resources and ratios to the best peer."""
    gpu = next((r["gpu"] for r in said if "gpu" in r), "")
    out: list[dict[str, Any]] = []
    for job in jobs:
        mine = [r for r in said if r.get("job") == job["name"]]
        results = {
            r["result"]: {"us": r["us"], "tflops": r["tflops"], "all_us": r["all_us"]} for r in mine if "result" in r
        }
        kernels = {r["kernel"]: r for r in mine if "kernel" in r}
        peers = {label: r for label, r in results.items() if label not in kernels}
        best = min((r["us"] for r in peers.values()), default=math.nan)
        ours = [
            {
                "tile": k["label"],
                **results.get(k["label"], {}),
                "ratio": best / results[k["label"]]["us"] if k["label"] in results else None,
                "error": kernels.get(k["label"], {}).get("error"),
                "registers": kernels.get(k["label"], {}).get("registers"),
                "local_bytes": kernels.get(k["label"], {}).get("local"),
                "compile_s": k["compile_s"],
                "assemble_s": k["assemble_s"],
                "log": k["log"],
                "made": k["tile"],
                "attrs": k["attrs"],
                "stages": k["stages"],
                "boxes": [m["box"] for m in k["tensor_maps"]],
            }
            for k in job["kernels"]
        ]
        out.append(
            {
                "job": job["name"],
                "gpu": gpu,
                "chosen": COMPILER,
                "peers": peers,
                "ours": ours,
            }
        )
    return out


def summary(rows: Sequence[dict[str, Any]]) -> str:
    """Geometric means of the ratio to the best peer: of the tile chosen, and of the best tile."""
    chosen, best = [], []
    for row in rows:
        ratios = {k["tile"]: k["ratio"] for k in row["ours"] if k.get("ratio")}
        if row["chosen"] in ratios:
            chosen.append(ratios[row["chosen"]])
        if ratios:
            best.append(max(ratios.values()))

    def mean(xs: list[float]) -> str:
        return (
            f"{math.exp(sum(map(math.log, xs)) / len(xs)):.3f} (least {min(xs):.3f}, {len(xs)} shapes)" if xs else "-"
        )

    return f"ratio to the best peer: chosen tile {mean(chosen)}; best tile {mean(best)}"


def _shape(text: str) -> tuple[int, int, int]:
    m, n, k = (int(d) for d in text.split("x"))
    return m, n, k


def fitted(timing: Timing, contestants: int, seconds: float) -> Timing:
    """The same, shorter if so many contestants would take longer."""
    needed = contestants * timing.rounds * (timing.warm + timing.seconds)
    share = min(1.0, seconds * (1 - PREPARING) / max(needed, 1e-9))
    return replace(timing, warm=timing.warm * share, seconds=timing.seconds * share)


def main() -> None:
    """See the module."""
    parser = arguments(__doc__, budget=450, json="benchmarks/results/gpu_gemm.json")
    parser.add_argument("--set", choices=SETS, action="append", default=[])
    parser.add_argument("--elem", default="bf16", choices=("bf16", "f16"))
    parser.add_argument("--shapes", default="", help="others, M x N x K, by commas")
    parser.add_argument("--tiles", default="", help="by commas; `every`: all of TILES")
    parser.add_argument("--target", default=TARGET, help="what to compile for; the kernels run here")
    parser.add_argument("--assembler", default=ptxas(), help="ptxas; none: the driver compiles")
    args = parser.parse_args()
    until = time.monotonic() + args.budget
    shapes = [_shape(s) for s in args.shapes.split(",")] if args.shapes else SHAPES
    tiles = TILES if args.tiles == "every" else tuple(t.strip() for t in args.tiles.split(",") if t.strip())
    wanted = [job for s in args.set or ["plain"] for job in gemms(s, args.elem, args.only, shapes)]
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        jobs = compile_all(wanted, tiles, folder, args.assembler, args.target)
        count = sum(len(j["kernels"]) for j in jobs)
        print(f"{count} kernels compiled in {time.perf_counter() - begun:.0f} s, by {args.assembler or 'the driver'}")
        for job in jobs:
            for k in job["kernels"]:
                if k["log"] and ("C7" in k["log"] or "0 bytes spill stores, 0 bytes spill loads" not in k["log"]):
                    print(f"{job['name']} {k['label']}: {k['log'][:300]}")
        if args.quick:
            jobs = [{**j, "few_peers": True} for j in jobs]
        contestants = count + len(jobs) * (PEERS - args.quick)
        timing = fitted(QUICK if args.quick else SUSTAINED, contestants, args.budget)
        said = work(jobs, timing, folder, until)
    rows = rows_of(said, jobs)
    record.write(args.json, rows)
    print(summary(rows))


if __name__ == "__main__":
    main()
