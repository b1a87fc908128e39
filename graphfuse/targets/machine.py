"""What schedules need to know of the machine they are for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from graphfuse.targets.profiles.cpus import CORE, CoreCosts
from graphfuse.targets.profiles.h200 import H200, GpuCosts


class Element(Protocol):
    """An element type, as far as room for it goes."""

    @property
    def bytes(self) -> int:
        """In memory."""
        ...


@dataclass(frozen=True, slots=True)
class KernelCosts:
    """What fusion weighs: the whole machine's nanoseconds."""

    launch: float
    """Of a kernel more."""
    byte: float
    """From or to memory."""
    row_bytes: int
    """Of a row that need not be read from memory again for a further pass over it."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Bytes of a vector register, how many there are, cache sizes, and what a GPU has besides."""

    vector_bytes: int = 32
    registers: int = 16
    l1_bytes: int = 32 << 10
    l2_bytes: int = 1 << 20
    stream_bytes: int = 32 << 20
    """Results of at least this size are written past the cache: nothing of them would survive in it."""
    multiplies_pairs: bool = False
    """Of bf16, by one instruction, in the time of a multiply-add of f32."""
    word_elems: frozenset[str] = frozenset()
    """Names of elements that are multiplied as words of 32 bits, tile by tile: Intel's AMX."""
    mixes_bytes: bool = False
    """Four bytes of one kind are multiplied and added by one instruction with four of the other kind only: VNNI."""
    multiprocessors: int = 1
    """Of a GPU: each runs some blocks of threads at a time."""
    shared_bytes: int = 0
    """Shared memory of one block of threads."""
    has_wgmma: bool = False
    """Whether products of warpgroups and copies of boxes (TMA) are there: Hopper."""
    core: CoreCosts = CORE
    """Of a processor."""
    gpu: GpuCosts = H200
    """Of a GPU: an H200's, where none were fitted to it."""

    def lanes(self, elem: Element) -> int:
        """Elements of one vector register; narrow elements are computed at 32 bits."""
        return max(1, self.vector_bytes // max(4, elem.bytes))

    @property
    def exact(self) -> Machine:
        """Without what takes subnormal numbers as 0."""
        return replace(self, multiplies_pairs=False, word_elems=frozenset())

    @property
    def kernels(self) -> KernelCosts:
        """Of one core, which is all that is sure to be there."""
        return KernelCosts(self.core.launch_ns, 1 / self.core.bytes_per_ns, self.l2_bytes)


WARP = 32
"""Threads of a warp."""
SCHEDULERS = 4
"""Of a multiprocessor, each of which issues instructions of one warp at a time."""
SHARED_ALLOC_BYTES = 40 << 10
"""`block.alloc` of a known size up to this is shared memory, so that several blocks fit; else it is global memory, but
where the op says otherwise."""


@dataclass(frozen=True, slots=True)
class GpuMachine(Machine):
    """A GPU: a program is a block of threads, its tiles are spread over their registers."""

    stream_bytes: int = 1 << 62
    multiprocessors: int = 132
    shared_bytes: int = 227 << 10

    def lanes(self, elem: Element) -> int:
        """Elements of a tile that one warp holds one of each: what schedules without an opinion of their own use."""
        del elem
        return WARP

    @property
    def kernels(self) -> KernelCosts:
        """Of kernels that only move data, and rows in registers."""
        memory = self.gpu.memory
        return KernelCosts(1e3 * memory.launch_us, 1e3 / memory.bytes_per_us, 4 * memory.row_elements)
