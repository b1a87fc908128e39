"""Block functions to what an artifact holds for a GPU: PTX, a cubin where there is an assembler, how to launch."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from graphfuse.artifact import Code, Launch
from graphfuse.gpu.assembler import Assembled, assemble
from graphfuse.gpu.lower import KernelInfo, Lowered, emit_ptx
from graphfuse.gpu.pipeline import fitted
from graphfuse.ir.core import Func
from graphfuse.ir.types import Ptr
from graphfuse.symbolic import Dim
from graphfuse.target import Target


@dataclass(frozen=True, slots=True)
class GpuCode:
    """The kernels of a module by name; `funcs` are the block functions with layouts."""

    code: Code
    launches: dict[str, Launch]
    scratch: dict[str, Dim]
    funcs: tuple[Func, ...]


def gpu_code(kernels: Iterable[Func], target: Target) -> GpuCode:
    """Compile block functions for a GPU."""
    funcs, lowered = fitted(tuple(kernels), target)
    ptx = ptx_of(lowered)
    assembled = assemble(ptx, target.cpu) if lowered.kernels else None
    code = Code(
        arch=target.cpu,
        os="cuda",
        features=(),
        object=assembled.cubin if assembled else b"",
        ptx=ptx,
        warnings=assembled.warnings if assembled else (),
    )
    launches = {k.name: _launch(k, f, ptx, assembled) for k, f in zip(lowered.kernels, funcs, strict=True)}
    return GpuCode(code, launches, {k.name: k.scratch_bytes for k in lowered.kernels}, funcs)


def ptx_of(lowered: Lowered) -> str:
    """The PTX, without the zeros that LLVM ends it with."""
    return emit_ptx(lowered).rstrip("\0\n") + "\n"


def _launch(kernel: KernelInfo, func: Func, ptx: str, assembled: Assembled | None) -> Launch:
    found = assembled.resources.get(kernel.name) if assembled else None
    return Launch(
        threads=kernel.threads,
        shared_bytes=kernel.shared_bytes,
        cluster=kernel.cluster,
        split=kernel.split,
        persistent=kernel.persistent,
        flags=kernel.flags,
        overlaps="griddepcontrol.wait" in _body(ptx, kernel.name),
        symbols=tuple(v.hint for v in func.params if not isinstance(v.type, Ptr)),
        tensor_maps=kernel.tensor_maps,
        registers=found.registers if found else -1,
        spill_bytes=found.spill_bytes if found else -1,
        static_shared_bytes=found.shared_bytes if found else -1,
    )


def _body(ptx: str, name: str) -> str:
    """The text from one entry to the next."""
    found = re.search(rf"\.entry {re.escape(name)}\b(.*?)(?=\.entry |\Z)", ptx, re.S)
    return found[1] if found else ""
