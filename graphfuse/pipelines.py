"""Which passes run for a target, in their order; and the graph passes that ask a target's machine.

Importing this module registers every pass there is (`ir.passes.PASSES`).
"""

from __future__ import annotations

from graphfuse.blockgen.gpu_row_pitch import rows_to_align
from graphfuse.blockgen.gpu_several_products import why_apart
from graphfuse.blockgen.gpu_sum_parts import sum_parts
from graphfuse.blockgen.gpu_wgmma_tile import MOST_SPLIT
from graphfuse.blockgen.graft import why_not_graft
from graphfuse.blockgen.kernel import GpuMachine, Machine
from graphfuse.blockgen.numerics import BLOCK_PASSES
from graphfuse.blockgen.pack_weights import pack_for_machine
from graphfuse.blockopt.pipeline import PIPELINE
from graphfuse.cpu.lower import cpu_passes
from graphfuse.dialects import graph
from graphfuse.fusion.conv.winograd import winograd
from graphfuse.fusion.passes import AS_STORED, ATTENTION, BY_PARTS, BYTES, CHANGES_ROUNDING, PIXELS, for_numerics
from graphfuse.fusion.precision.lower_precision import lower_precision
from graphfuse.fusion.precision.store_halves import store_halves
from graphfuse.fusion.products.align_rows import copy_rows
from graphfuse.fusion.products.normalise_later import normalise_later
from graphfuse.fusion.products.own_masks import own_masks
from graphfuse.fusion.products.split_columns import cut_columns
from graphfuse.fusion.products.split_long_sums import share_sums, split_long_reductions
from graphfuse.fusion.quantised.multiply_bytes import bytes_along_channels
from graphfuse.fusion.regions.outline import outline
from graphfuse.fusion.regions.partition import Decision
from graphfuse.fusion.regions.rules import Rules
from graphfuse.gpu.pipeline import gpu_passes
from graphfuse.ir.core import Block, Func, Params
from graphfuse.ir.passes import PASSES, Pass, passing, pipeline_text
from graphfuse.ir.rewrite import dead_code
from graphfuse.ir.types import scalar
from graphfuse.knobs import Options
from graphfuse.llvm.host import host_target, parse_target
from graphfuse.target import GPU_SIZES, Target

__all__ = [
    "PIPELINE", "cpu_passes", "gpu_passes", "graph_passes", "machine_of", "partitioned", "ranges_of", "region_passes",
]  # fmt: skip


def machine_of(target: Target) -> Machine:
    """What tiling needs to know of a target."""
    if target.kind == "cuda":
        multiprocessors, shared_bytes = GPU_SIZES[target.cpu]
        return GpuMachine(multiprocessors=multiprocessors, shared_bytes=shared_bytes, has_wgmma=target.cpu == "sm_90a")
    return Machine(vector_bytes=target.vector_bytes, registers=target.registers)


def _machine(target: str) -> Machine:
    """That of the target with this text; `""` is the host."""
    host = host_target()
    return machine_of(host if target in ("", str(host)) else parse_target(target))


def ranges_of(func: Func) -> dict[str, tuple[int, int]]:
    """The ranges of a function's symbols, and of its loops' own."""
    out = dict(func.ranges)
    for op in func.walk():
        if op.kind is graph.loop:
            out[str(op.attrs["symbol"])] = (0, (1 << 31) - 1)
    return out


# passes that ask a machine; where no target is named, they do what suits any


@passing("graph", after=("merge-contractions",))
def split_columns(func: Func, *, target: str = "") -> Func:
    """Multiply by slices of a matrix, where the target makes no kernel of these products together."""
    return cut_columns(func, why_apart(_machine(target), func.ranges)) if target else cut_columns(func)


@passing("graph", after=("canonicalize",))
def split_long_sums(func: Func, *, target: str = "") -> Func:
    """Give each of the programs that the target runs at a time a part of every long sum."""
    if not target:
        return share_sums(func)
    machine = _machine(target)
    assert isinstance(machine, GpuMachine), "for a CPU there is split-long-reductions"
    share = MOST_SPLIT if machine.has_wgmma else 1
    return share_sums(func, machine.multiprocessors, share, sum_parts(machine))


@passing("graph", after=("merge-contractions", "simplify-movement"))
def align_rows(func: Func, *, target: str = "") -> Func:
    """Copy operands of products whose rows begin at addresses that the target cannot copy tiles from."""
    return copy_rows(func, rows_to_align(_machine(target), ranges_of(func))) if target else copy_rows(func)


@passing("graph", after=("fold-constants", "layout"))
def pack_weights(func: Func, *, target: str = "") -> Func:
    """Lay constant factors out in the panels that the target's kernels read."""
    return pack_for_machine(func, _machine(target))


MOST_REPEATED = 16384
"""Elements of a row that a GPU computes again in every kernel that reads it: fewer are faster than a launch."""


def partitioned(func: Func, target: str, *, fuse: bool = True) -> tuple[Func, list[Decision]]:
    """The graph as regions, one kernel each, and why they are what they are."""
    machine = _machine(target)
    is_gpu = isinstance(machine, GpuMachine)
    return outline(
        func,
        Rules(
            fuse=fuse,
            reads_padded=is_gpu,
            most_repeated=MOST_REPEATED if is_gpu else 0,
            why_apart=why_apart(machine, func.ranges),
            why_not_graft=why_not_graft(ranges_of(func), machine),
        ),
    )


@passing("graph", needed=True)
def partition(func: Func, *, target: str = "", fuse: bool = True) -> Func:
    """Cut a graph into regions, one kernel each."""
    return partitioned(func, target, fuse=fuse)[0]


# in their order


def graph_passes(target: Target, options: Options) -> tuple[Pass, ...]:
    """What runs between import and partitioning (docs/numerics.md, docs/precision.md)."""
    numerics, precision, text = options.numerics, options.precision, str(target)
    passes = for_numerics(numerics)
    is_gpu, strict = target.kind == "cuda", numerics == "strict"
    machine = machine_of(target)
    has_wgmma = isinstance(machine, GpuMachine) and machine.has_wgmma
    if target.arch == "x86_64":  # which multiplies bytes four at a time
        first = (p for p in BYTES if not strict or p not in CHANGES_ROUNDING)
        passes = (*first, *passes, bytes_along_channels)
    if is_gpu or precision != "f32":
        # tensor cores leave nothing to save by fewer multiplications, and its transforms lose digits that halves lack
        passes = tuple(p for p in passes if p is not winograd)
    if is_gpu and not strict:
        passes = (dead_code, *AS_STORED, *passes)
    if numerics == "fast" or (is_gpu and not strict):
        passes = (*passes, *ATTENTION)
    if precision != "f32":
        passes = (*passes, lower_precision.given(to=scalar(precision)))
    packed = pack_weights.given(target=text)
    if not is_gpu:
        return (*passes, split_long_reductions, packed)
    parts = BY_PARTS if has_wgmma and not strict and precision == "f32" else ()
    pixels = PIXELS if has_wgmma and not strict else ()
    norms = () if strict else (normalise_later.given(centred=numerics == "fast"),)
    cuts = split_columns.given(target=text), split_long_sums.given(target=text)
    # late: no rule may see that what is added is left out again
    aligned = (align_rows.given(target=text),) if has_wgmma else ()
    # nothing that finds equal values may run after `own_masks`
    return (*passes, *pixels, *norms, *cuts, *parts, *aligned, own_masks)


def region_passes(options: Options) -> tuple[Pass, ...]:
    """What runs on the regions."""
    return () if options.precision == "f32" else (store_halves.given(to=scalar(options.precision)),)


# as text


def listing(target: str, options: Options | None = None) -> str:
    """The pipeline of each stage for a target, as `graphfuse opt -p` takes it, in the order of stages."""
    chosen, options = parse_target(target), options or Options()
    machine_passes = gpu_passes(_ANY_KERNEL, chosen) if chosen.kind == "cuda" else cpu_passes(chosen)
    stages = {
        "graph": graph_passes(chosen, options),
        "regions": (partition.given(target=target, fuse=options.fuse), *region_passes(options)),
        "numerics": BLOCK_PASSES[options.numerics],
        "gpu" if chosen.kind == "cuda" else "cpu": machine_passes,
    }
    return "".join(f"// {stage}\n{pipeline_text(passes)}\n" for stage, passes in stages.items())


_ANY_KERNEL = Func("k", Block(Params(()), ()), {"grid": 1})


def table() -> str:
    """Every pass: its level, name with options and their defaults, and what it does."""
    rows = [f"{p.level:8}{p.given(**p.defaults)}\n        {p.doc}\n" for p in PASSES.values()]
    return "".join(sorted(rows))
