"""mbarrier objects, CTA and cluster barriers: who has come, and the clocks they carry."""

from __future__ import annotations

from dataclasses import dataclass, field

from graphfuse.gpu.emulator.clocks import Known
from graphfuse.gpu.emulator.gang import Split
from graphfuse.gpu.emulator.types import Array


@dataclass(eq=False, slots=True)
class Meeting:
    """What those who come know together, what who waits may know from it, and who waits."""

    incoming: Known | None = field(default=None, init=False)
    known: Known | None = field(default=None, init=False)
    waiting: list[Split] = field(default_factory=list[Split], init=False)

    def carry(self, row: Known) -> None:
        """Someone arrives who knows this much."""
        self.incoming = row if self.incoming is None else self.incoming.joined(row)


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
        if self.incoming is not None:
            self.known = self.incoming
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
