"""mbarrier objects and CTA barriers: counts and phases, and the clocks they carry."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from graphfuse.gpu.emulator.gang import Split
from graphfuse.gpu.emulator.types import Array


@dataclass(eq=False, slots=True)
class MBarrier:
    """An mbarrier in shared memory. A phase ends when no arrival and no byte is missing."""

    slot: int
    address: int
    count: int
    agent: int
    pending: int = field(init=False)
    bytes: int = 0
    phase: int = 0
    fenced: bool = False
    incoming: Array = field(default_factory=lambda: np.zeros(0, np.int32))
    known: Array = field(default_factory=lambda: np.zeros(0, np.int32))
    waiting: list[Split] = field(default_factory=list[Split])

    def __post_init__(self) -> None:
        self.pending = self.count

    def carry(self, row: Array) -> None:
        """Someone arrives who knows this much."""
        self.incoming = maximum(self.incoming, row)

    def flip(self) -> bool:
        """End the phase if it is complete."""
        if self.pending or self.bytes:
            return False
        self.phase += 1
        self.pending = self.count
        self.known = maximum(self.known, self.incoming)
        return True

    def state(self) -> str:
        """For messages."""
        return f"phase {self.phase}: {self.pending} of {self.count} arrivals and {self.bytes} bytes missing"


@dataclass(eq=False, slots=True)
class Barrier:
    """One of a CTA's 16 barriers, or a cluster's: how many threads it takes and who has come."""

    threads: int
    arrived: int = 0
    warps: set[int] = field(default_factory=set[int])
    incoming: Array = field(default_factory=lambda: np.zeros(0, np.int32))
    known: Array = field(default_factory=lambda: np.zeros(0, np.int32))
    phase: int = 0
    waiting: list[Split] = field(default_factory=list[Split])
    votes: list[Array] = field(default_factory=list[Array])


def maximum(a: Array, b: Array) -> Array:
    """The later of two rows of clocks, of whichever length."""
    if len(a) < len(b):
        a, b = b, a
    result = a.copy()
    np.maximum(result[: len(b)], b, out=result[: len(b)])
    return result
