"""What every code generator gives: LLVM IR of some kernels, and what a caller must know of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from graphfuse.targets import Target

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class LoweredModule(Generic[K]):
    """LLVM IR of some kernels; `K` describes one."""

    text: str
    target: Target
    kernels: tuple[K, ...]
