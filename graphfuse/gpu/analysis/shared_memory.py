"""Shared-memory allocation: buffers that are live together get disjoint ranges, others may share one.

The plan is deterministic: largest first, each into the lowest gap that fits. It knows sizes and lifetimes only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from graphfuse.errors import TargetError

TMA_ALIGNMENT = 128
SWIZZLE_ALIGNMENT = 1024
"""The 128-byte swizzle repeats every 1024 bytes of address, so its tiles must begin there."""
BARRIER_ALIGNMENT = 8


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory wanted from op `start` to op `end`, both included."""

    name: str
    shared_bytes: int
    start: int
    end: int
    alignment: int = 16

    def __post_init__(self) -> None:
        assert self.shared_bytes >= 0, f"{self.name}: {self.shared_bytes} bytes"
        assert self.start <= self.end, f"{self.name}: lives from {self.start} to {self.end}"
        assert self.alignment > 0, f"{self.name}: alignment {self.alignment}"
        assert self.alignment & self.alignment - 1 == 0, f"{self.name}: alignment {self.alignment}"

    def meets(self, other: Buffer) -> bool:
        """Whether both are live at some op."""
        return self.start <= other.end and other.start <= self.end


@dataclass(frozen=True, slots=True)
class Allocation:
    """Offset of each buffer, and the bytes that take all of them."""

    offsets: Mapping[str, int]
    total_bytes: int
    lower_bound_bytes: int
    """The most bytes that are live at one op: no allocation takes less."""


def allocate(buffers: Sequence[Buffer], capacity_bytes: int | None = None) -> Allocation:
    """Place buffers; TargetError when they do not fit into `capacity_bytes`."""
    assert len({b.name for b in buffers}) == len(buffers), "two buffers have one name"
    offsets: dict[str, int] = {}
    placed: list[Buffer] = []
    for buffer in sorted(buffers, key=lambda b: (-b.shared_bytes, -b.alignment, b.start, b.name)):
        taken = sorted(
            (offsets[b.name], offsets[b.name] + b.shared_bytes) for b in placed if b.shared_bytes and b.meets(buffer)
        )
        at = 0
        for begin, end in taken:
            if at + buffer.shared_bytes <= begin:
                break
            at = max(at, -(-end // buffer.alignment) * buffer.alignment)
        offsets[buffer.name] = at
        placed.append(buffer)
    total = max((offsets[b.name] + b.shared_bytes for b in buffers), default=0)
    if capacity_bytes is not None and total > capacity_bytes:
        largest = max(buffers, key=lambda b: b.shared_bytes)
        raise TargetError(
            f"shared memory: {total} bytes are needed, {capacity_bytes} are there; "
            f"the largest buffer is {largest.name!r} with {largest.shared_bytes}"
        )
    live = (sum(b.shared_bytes for b in buffers if b.start <= at <= b.end) for at in {b.start for b in buffers})
    return Allocation({b.name: offsets[b.name] for b in buffers}, total, max(live, default=0))
