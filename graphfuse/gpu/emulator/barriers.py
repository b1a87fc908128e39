"""mbarrier objects, CTA and cluster barriers: who has come, and the clocks they carry."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from graphfuse.gpu.emulator.gang import Split
from graphfuse.gpu.emulator.types import Array


def _no_clocks() -> Array:
    return np.zeros(0, np.int32)


@dataclass(eq=False, slots=True)
class Meeting:
    """What those who come know together, what who waits may know from it, and who waits."""

    incoming: Array = field(default_factory=_no_clocks, init=False)
    known: Array = field(default_factory=_no_clocks, init=False)
    waiting: list[Split] = field(default_factory=list[Split], init=False)

    def carry(self, row: Array) -> None:
        """Someone arrives who knows this much."""
        self.incoming = maximum(self.incoming, row)


@dataclass(eq=False, slots=True)
class MBarrier(Meeting):
    """An mbarrier in shared memory. A phase ends when no arrival and no byte is missing."""

    slot: int
    address: int
    count: int
    agent: int
    pending: int = field(init=False)
    bytes: int = 0
    phase: int = 0
    fenced: bool = False

    def __post_init__(self) -> None:
        self.pending = self.count

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
class Barrier(Meeting):
    """One of a CTA's 16 barriers, or a cluster's: of which warps (by rows), how many threads it takes, who has come.

    Without `threads` it takes all warps that have not ended.
    """

    rows: slice
    threads: int = 0
    arrived: int = 0
    warps: set[int] = field(default_factory=set[int])
    votes: list[Array] = field(default_factory=list[Array])


def maximum(a: Array, b: Array) -> Array:
    """The later of two rows of clocks, of whichever length."""
    if len(a) < len(b):
        a, b = b, a
    result = a.copy()
    np.maximum(result[: len(b)], b, out=result[: len(b)])
    return result
