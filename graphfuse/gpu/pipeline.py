"""From block functions to a module for the GPU: the passes in their order, then lowering."""

from __future__ import annotations

from collections.abc import Sequence

from graphfuse.gpu.lower import LoweredModule, lower
from graphfuse.gpu.transforms.assign_layouts import assign_layouts
from graphfuse.gpu.transforms.hopper.matmul import hopper_matmul
from graphfuse.ir.core import Func
from graphfuse.ir.passes import Pass
from graphfuse.ir.rewrite import common_subexpressions, dead_code
from graphfuse.target import Target

PIPELINE: tuple[Pass, ...] = (
    assign_layouts,
    common_subexpressions,  # constants and ranges that were made again in one layout
    dead_code,
)
"""What runs on every block function before it is lowered."""


FOR_ARCH: dict[str, tuple[Pass, ...]] = {"sm_90a": (hopper_matmul,)}
"""What runs before that for one architecture."""


def transformed(func: Func, target: Target | None = None) -> Func:
    """A block function as it is lowered."""
    for step in (*(FOR_ARCH.get(target.cpu, ()) if target else ()), *PIPELINE):
        func = step(func)
    return func


def compile_functions(funcs: Sequence[Func], target: Target) -> LoweredModule:
    """LLVM IR of block functions."""
    return lower([transformed(f, target) for f in funcs], target)
