"""Global, constant and parameter memory of one launch: one array of bytes with a gap after each buffer."""

from __future__ import annotations

import bisect
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from graphfuse.gpu.emulator.tensormap import Buffer
from graphfuse.gpu.emulator.types import UNSIGNED, Array

BASE = 0x7F00_0000_0000
"""The first address: none of the host's, so that one taken for the other is seen."""
GAP = 4096
"""Bytes between allocations that belong to nobody: an access beyond the end of one meets none of another."""


@dataclass(frozen=True, slots=True)
class Region:
    """A buffer in the heap, `[start, end)` counted from the heap's start."""

    name: str
    start: int
    end: int
    buffer: Buffer

    @property
    def elem_bytes(self) -> int:
        """Of the elements that messages count."""
        return self.buffer.elem_bytes or self.buffer.array.itemsize


class Heap:
    """Buffers are added, then `seal` lays them out; after the launch `write_back` copies results to their arrays."""

    def __init__(self) -> None:
        self.regions: list[Region] = []
        self.end = GAP
        self.data: Array = np.zeros(0, np.uint8)
        self.views: dict[int, Array] = {}
        self.written: Array | None = None
        self.aliased = list[int]()
        """Where buffers begin that several arguments are."""
        self._starts: list[int] = []
        self._by_source: dict[tuple[int, int], int] = {}

    def add(self, name: str, buffer: Buffer) -> int:
        """Reserve memory, filled from the buffer's array; its address. The same memory twice is one buffer."""
        nbytes = buffer.array.nbytes
        key = (buffer.array.__array_interface__["data"][0], nbytes)
        if nbytes and key in self._by_source:
            self.aliased.append(self._by_source[key] - BASE)
            return self._by_source[key]
        start = self.end
        self.regions.append(Region(buffer.name or name, start, start + nbytes, buffer))
        self.end = -(-(start + nbytes + GAP) // 1024) * 1024
        self._by_source[key] = BASE + start
        return BASE + start

    def seal(self) -> None:
        """Allocate, and copy every source in."""
        self.data = np.zeros(self.end, np.uint8)
        self.views = {n: self.data.view(UNSIGNED[8 * n]) for n in (1, 2, 4, 8)}
        self._starts = [r.start for r in self.regions]
        if not all(r.buffer.initialised for r in self.regions):
            self.written = np.ones(self.end, np.bool_)
        for region in self.regions:
            self.data[region.start : region.end] = _bytes_of(region.buffer.array)
            if self.written is not None and not region.buffer.initialised:
                self.written[region.start : region.end] = False

    def write_back(self) -> None:
        """Copy what the kernel wrote to the arrays it came from."""
        for region in self.regions:
            if region.buffer.writable:
                _bytes_of(region.buffer.array)[...] = self.data[region.start : region.end]

    def region_at(self, offset: int) -> Region | None:
        """The buffer that holds this offset."""
        i = bisect.bisect_right(self._starts, offset) - 1
        return self.regions[i] if i >= 0 and offset < self.regions[i].end else None

    def find_bad(self, offsets: Array, nbytes: int, wrong: Callable[[Region], str]) -> tuple[int, str] | None:
        """The first of these accesses that is out of bounds or of a buffer of which something is `wrong`, and what."""
        region = self.region_at(int(offsets.min()))
        if region and int(offsets.max()) + nbytes <= region.end and not wrong(region):
            return None
        for i, offset in enumerate(offsets.tolist()):
            region = self.region_at(offset)
            if region is None or offset + nbytes > region.end:
                return i, f"out of bounds: {self.describe(offset)}"
            if why := wrong(region):
                return i, why
        return None

    def find_unwritten(self, offsets: Array, nbytes: int) -> int | None:
        """The first access that reads a byte nobody wrote."""
        if self.written is None:
            return None
        ok = self.written[offsets[:, None] + np.arange(nbytes)].all(1)
        return None if ok.all() else int(np.argmin(ok))

    def mark_written(self, offsets: Array, nbytes: int) -> None:
        """These bytes hold values now."""
        if self.written is not None:
            self.written[offsets[:, None] + np.arange(nbytes)] = True

    def element_at(self, offset: int) -> tuple[str, int | None]:
        """The buffer that holds this offset, or whose end or beginning is near, and which element of it that is."""
        region = self._near(offset)
        if region is None:
            return "", None
        return region.name, (offset - region.start) // region.elem_bytes

    def describe(self, offset: int) -> str:
        """Where an address is, for messages: `element 1027 of c (1024 elements)`."""
        region = self._near(offset)
        if region is None:
            return f"address {offset + BASE:#x} is near no buffer"
        count, each = (region.end - region.start) // region.elem_bytes, region.elem_bytes
        what, (at, byte) = "byte" if each == 1 else "element", divmod(offset - region.start, each)
        inside = f"byte {byte} of " if byte else ""
        return f"{inside}{what} {at} of {region.name} ({count} {what}s)"

    def _near(self, offset: int) -> Region | None:
        i = bisect.bisect_right(self._starts, offset) - 1
        near = [r for r in self.regions[max(i, 0) : i + 2] if abs(offset - r.end) < 1 << 30]
        return min(near, key=lambda r: min(abs(offset - r.start), abs(offset - r.end)), default=None)


def _bytes_of(array: Array) -> Array:
    return array.reshape(-1).view(np.uint8)
