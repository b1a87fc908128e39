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

import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks import record
from benchmarks.gemm_kernels import Gemm
from benchmarks.gpu_race import COMPILER, TARGET, compile_each, compile_text, rows_of, run, show_compiled, summary
from benchmarks.gpu_timing import arguments, asked, ptxas
from graphfuse.blockgen.gpu_matmul_tile import ProductTile
from graphfuse.blockgen.gpu_tiles import GROUP
from graphfuse.blockgen.gpu_wgmma_tile import STEP_BYTES, WgmmaTile

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
    "128x208", "p128x176", "128x160", "128x144", "128x96", "64x128", "64x64", "64x32",
    "64x128 persistent=2", "64x64 persistent=2", "64x32 persistent=2",
    *(f"{tile} split={s}" for s in (2, 4) for tile in ("128x128", "64x128", "64x64")),
    *(f"{tile} stream=1" for tile in ("128x256", "256x128", "128x192", "128x128")),
)  # fmt: skip
"""What `--tiles every` adds."""
COMPILERS = (COMPILER, "copied", "as stored")
"""Those, and what it would make if operands of odd rows were always copied, or never."""
SETS = ("plain", "layouts", "fused", "residual")
PROMOTION = 128
"""Of tensor maps, as the runtime makes them."""
PEERS = 3
"""Of a product, the one to beat twice."""


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
    from graphfuse.targets import Target

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


def compile_plan(gemm: Gemm, folder: str, assembler: str, arch: str = TARGET) -> dict[str, Any]:
    """A product of several kernels: their image, buffers and launches."""
    from benchmarks.gemm_regions import product
    from graphfuse.artifact import Pointer
    from graphfuse.compiler import Options, build
    from graphfuse.targets import Target

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


def compile_all(
    jobs: Sequence[tuple[str, Gemm]], tiles: Sequence[str], folder: str, assembler: str, arch: str = TARGET
) -> list[dict[str, Any]]:
    """Jobs for the worker; kernels that do not compile, and tiles that are declined, are left out."""
    out: list[dict[str, Any]] = []
    for name, gemm, made in compile_each(jobs, (COMPILER, *tiles), compile_one, folder, assembler, arch):
        done: list[dict[str, Any]] = []
        for spec in made:
            if spec["is_wgmma"] or spec["label"] in COMPILERS or spec["label"].startswith("m"):
                done.append(spec)
            else:
                print(f"{name} {spec['label']}: declined", flush=True)
        fields = {f: getattr(gemm, f) for f in ("m", "n", "k", "ta", "tb", "elem", "bias", "residual", "gelu")}
        out.append({"name": name, **fields, "symbolic": gemm.symbolic, "kernels": done})
    return out


def _shape(text: str) -> tuple[int, int, int]:
    m, n, k = (int(d) for d in text.split("x"))
    return m, n, k


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
        show_compiled(jobs, time.perf_counter() - begun, args.assembler)
        said = run(jobs, args, folder, until, PEERS, "benchmarks.gemm_worker")
    rows = rows_of(said, jobs)
    record.write(args.json, rows)
    print(summary(rows))


if __name__ == "__main__":
    main()
