"""One block function to PTX, with what the runtime and people want to know of it: plain data, for any process."""

from __future__ import annotations

from dataclasses import dataclass

from graphfuse.dialects.gpu import WITHOUT_WGMMA
from graphfuse.gpu.lower import KernelInfo, Lowered, emit_ptx
from graphfuse.gpu.pipeline import fitted
from graphfuse.ir.core import Func
from graphfuse.ir.printer import to_text
from graphfuse.targets import Target


@dataclass(frozen=True, slots=True)
class CompiledKernel:
    """PTX of a module with one kernel."""

    info: KernelInfo
    ptx: str
    text: str
    """The block function as it was lowered, with layouts."""
    without_wgmma: str | None
    """Why the kernel does not use the instruction, where its tile was chosen for that."""


@dataclass(frozen=True, slots=True)
class LoweredKernel:
    """Half-way: all that is Python's work is done."""

    func: Func
    lowered: Lowered

    @staticmethod
    def of(func: Func, target: Target) -> LoweredKernel:
        """Give tiles layouts and write LLVM IR."""
        (made,), lowered = fitted((func,), target)
        return LoweredKernel(made, lowered)

    def compiled(self) -> CompiledKernel:
        """Let LLVM compile it."""
        (info,) = self.lowered.kernels
        why = self.func.attrs.get(WITHOUT_WGMMA)
        return CompiledKernel(info, ptx_of(self.lowered), to_text(self.func), None if why is None else str(why))


def ptx_of(lowered: Lowered) -> str:
    """The PTX, without the zeros that LLVM ends it with."""
    return emit_ptx(lowered).rstrip("\0\n") + "\n"
