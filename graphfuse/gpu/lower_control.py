"""Loops and branches: as everywhere, and what memory they leave unordered."""

from __future__ import annotations

from graphfuse.codegen import control as shared
from graphfuse.dialects import block, control, gpu
from graphfuse.gpu.kernel import Kernel, lowers
from graphfuse.ir.core import Block, Op, walk
from graphfuse.ir.types import Ptr

STAGED = (gpu.convert_layout, block.reduce, block.dot)
"""Ops that may pass data between threads through staging memory."""


def touched(kernel: Kernel, body: Block) -> dict[str, str]:
    """What a body may leave unordered: memory it accesses, each with `r`, `w` or `rw`."""
    out: dict[str, set[str]] = {}
    for op in walk(body):
        if op.kind in STAGED:
            out.setdefault("staging", set()).update("rw")
        if op.kind is gpu.load_shared and op.operands[0] in kernel.values:
            out.setdefault(kernel.pointer(op.operands[0]).root, set()).add("r")
        for v in op.operands:
            if isinstance(v.type, Ptr) and v in kernel.values:
                writes = op.kind in (block.store, block.store_view)
                out.setdefault(kernel.pointer(v).root, set()).add("w" if writes else "r")
    return {root: "".join(sorted(kinds)) for root, kinds in out.items()}


def _merge(*states: dict[str, str]) -> dict[str, str]:
    roots = {r for s in states for r in s}
    return {r: "".join(sorted({c for s in states for c in s.get(r, "")})) for r in sorted(roots)}


@lowers(control.for_)
def lower_for(kernel: Kernel, op: Op) -> None:
    """An iteration follows another one, or what came before the loop."""
    before = dict(kernel.dirty)
    kernel.dirty = _merge(before, touched(kernel, op.body))
    shared.lower_for(kernel, op)
    kernel.dirty = _merge(before, kernel.dirty)


@lowers(control.if_)
def lower_if(kernel: Kernel, op: Op) -> None:
    """After a branch, what either side left is unordered."""
    before = dict(kernel.dirty)
    kernel.dirty = _merge(before, *(touched(kernel, b) for b in op.bodies))
    shared.lower_if(kernel, op)
    kernel.dirty = _merge(before, kernel.dirty, *(touched(kernel, b) for b in op.bodies))
