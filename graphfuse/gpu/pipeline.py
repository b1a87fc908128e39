"""From block functions to a module for the GPU: the passes in their order, then lowering."""

from __future__ import annotations

from collections.abc import Sequence

from graphfuse.codegen.expand import expand, quiet
from graphfuse.codegen.expand_moves import expand_moves
from graphfuse.errors import TargetError
from graphfuse.gpu.lower import Lowered, lower
from graphfuse.gpu.transforms.assign_layouts import assign_layouts
from graphfuse.gpu.transforms.coalesce import coalesce
from graphfuse.gpu.transforms.hopper.attention_pass import hopper_attention
from graphfuse.gpu.transforms.hopper.matmul_pass import hopper_matmul
from graphfuse.gpu.transforms.overlap_launches import overlap_launches
from graphfuse.gpu.transforms.pipeline_loads import SHARED_BYTES, STAGES, pipeline_loads
from graphfuse.gpu.transforms.prefetch_operands import prefetch_operands
from graphfuse.gpu.transforms.rematerialise import rematerialise
from graphfuse.gpu.transforms.remove_conversions import remove_conversions
from graphfuse.gpu.transforms.short_functions import short_functions
from graphfuse.gpu.transforms.whole_loads import whole_loads
from graphfuse.ir.core import Func
from graphfuse.ir.passes import Pass, run
from graphfuse.ir.rewrite import common_subexpressions, dead_code
from graphfuse.symbolic import Expr
from graphfuse.targets import Target
from graphfuse.targets.profiles.nvidia import GPUS


def gpu_passes(func: Func, target: Target | None = None) -> tuple[Pass, ...]:
    """What runs on a block function before it is lowered."""
    room = GPUS[target.cpu].machine.shared_bytes if target else SHARED_BYTES
    one_axis = isinstance(func.attrs.get("grid"), int | Expr)
    return (
        quiet,
        expand_moves,
        *(FOR_ARCH.get(target.cpu, ()) if target and one_axis else ()),
        expand,
        pipeline_loads.given(shared_bytes=room),
        whole_loads,
        assign_layouts,
        coalesce,
        rematerialise,
        remove_conversions,
        rematerialise,  # what moves put in front of constants
        prefetch_operands.given(shared_bytes=room),
        common_subexpressions,  # what was made again in one layout
        dead_code,  # before anything asks where a value is read
        short_functions,
        *((overlap_launches,) if target and overlaps(target) else ()),
    )


FOR_ARCH: dict[str, tuple[Pass, ...]] = {"sm_90a": (hopper_matmul, hopper_attention)}
"""What runs first for one architecture, on functions that say their grid, of one axis."""


def transformed(func: Func, target: Target | None = None) -> Func:
    """A block function as it is lowered."""
    return run(func, gpu_passes(func, target), "gpu")


def overlaps(target: Target) -> bool:
    """Whether a launch may begin before the one before it has ended: from compute capability 9.0 on."""
    return int(target.cpu.removeprefix("sm_").rstrip("af")) >= 90


def compile_functions(funcs: Sequence[Func], target: Target) -> Lowered:
    """LLVM IR of block functions."""
    return fitted(funcs, target)[1]


def fitted(funcs: Sequence[Func], target: Target) -> tuple[tuple[Func, ...], Lowered]:
    """Block functions as they are lowered, and LLVM IR; what would take too much shared memory has fewer stages.

    Raises TargetError where that is not enough.
    """
    room = GPUS[target.cpu].machine.shared_bytes
    while True:
        made = tuple(transformed(f, target) for f in funcs)
        lowered = lower(made, target)
        large = {k.name: k.shared_bytes for k in lowered.kernels if k.shared_bytes > room}
        if not large:
            return made, lowered
        shallower = [_with_fewer_stages(f) if f.name in large else f for f in funcs]
        if shallower == list(funcs):
            name, nbytes = next(iter(large.items()))
            message = f"kernel {name!r}: expected at most {room} bytes of shared memory on {target.cpu}, found {nbytes}"
            raise TargetError(f"{message}: its tiles are too large")
        funcs = shallower


def _with_fewer_stages(func: Func) -> Func:
    stages = func.attrs.get("stages", STAGES)
    assert isinstance(stages, int), "stages is a number"
    return Func(func.name, func.body, {**func.attrs, "stages": stages - 1}, func.dims) if stages > 1 else func
