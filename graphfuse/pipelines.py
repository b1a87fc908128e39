"""Which passes run for a target, in their order; and the pass that cuts graphs into regions.

Importing this module registers every pass there is (`ir.passes.PASSES`).
"""

from __future__ import annotations

import importlib
from dataclasses import replace

from graphfuse.blockgen.numerics import BLOCK_PASSES
from graphfuse.dialects.ranges import ranges_of
from graphfuse.fusion.precision.store_halves import store_halves
from graphfuse.fusion.regions.outline import outline
from graphfuse.fusion.regions.partition import Decision
from graphfuse.ir.core import Block, Func, Params
from graphfuse.ir.passes import PASSES, Pass, passing, pipeline_text
from graphfuse.ir.types import scalar
from graphfuse.knobs import Options
from graphfuse.llvm.host import host_target, parse_target
from graphfuse.targets import Target
from graphfuse.targets.backend import backend_of
from graphfuse.targets.target import FAMILIES

for _module in ("graphfuse.blockopt.pipeline", *(family.backend for family in FAMILIES.values())):
    importlib.import_module(_module)


def partitioned(func: Func, target: str, *, fuse: bool = True) -> tuple[Func, list[Decision]]:
    """The graph as regions, one kernel each, and why they are what they are. `""` is the host."""
    host = host_target()
    backend = backend_of(host if target in ("", str(host)) else parse_target(target))
    return outline(func, replace(backend.rules(func.ranges, ranges_of(func)), fuse=fuse))


@passing("graph", needed=True)
def partition(func: Func, *, target: str = "", fuse: bool = True) -> Func:
    """Cut a graph into regions, one kernel each."""
    return partitioned(func, target, fuse=fuse)[0]


def graph_passes(target: Target, options: Options) -> tuple[Pass, ...]:
    """What runs between import and partitioning (docs/numerics.md, docs/precision.md)."""
    return backend_of(target).graph_passes(options)


def region_passes(target: Target, options: Options) -> tuple[Pass, ...]:
    """What runs on the regions."""
    halves = () if options.precision == "f32" else (store_halves.given(to=scalar(options.precision)),)
    return (*(backend_of(target).region_passes if options.fuse else ()), *halves)


def launch_passes(target: Target, options: Options) -> tuple[Pass, ...]:
    """What runs on the regions last, once their schedules have been chosen."""
    return backend_of(target).launch_passes if options.fuse else ()


# as text


def listing(target: str, options: Options | None = None) -> str:
    """The pipeline of each stage for a target, as `graphfuse opt -p` takes it, in the order of stages."""
    backend, options = backend_of(parse_target(target)), options or Options()
    stages = {
        "graph": backend.graph_passes(options),
        "regions": (
            partition.given(target=target, fuse=options.fuse),
            *region_passes(backend.target, options),
            *launch_passes(backend.target, options),
        ),
        "numerics": BLOCK_PASSES[options.numerics],
        backend.level: backend.kernel_passes(_ANY_KERNEL),
    }
    return "".join(f"// {stage}\n{pipeline_text(passes)}\n" for stage, passes in stages.items())


_ANY_KERNEL = Func("k", Block(Params(()), ()), {"grid": 1})


def table() -> str:
    """Every pass: its level, name with options and their defaults, and what it does."""
    rows = [f"{p.level:8}{p.given(**p.defaults)}\n        {p.doc}\n" for p in PASSES.values()]
    return "".join(sorted(rows))
