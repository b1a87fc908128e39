"""Device memory that is kept for the next run, and pinned host memory to copy through."""

from __future__ import annotations

import ctypes
import sys
import threading
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from graphfuse.artifact import Array
from graphfuse.errors import DeviceError
from graphfuse.targets.driver import Driver

SMALL = 512
"""Sizes are rounded up to a multiple of this, so that blocks fit more than one use."""
LARGE = 2 << 20
"""And from here on to a multiple of this."""


class NoRoomError(DeviceError):
    """Memory that is not there, as long as others have theirs."""


@dataclass(slots=True, eq=False)
class Block:
    """Device memory that nothing else uses."""

    address: int
    nbytes: int


@dataclass(slots=True, eq=False)
class _Idle:
    """A block given back, and the events after which it may be written."""

    block: Block
    events: list[int] = field(default_factory=list[int])


class Pool:
    """Device memory of one context. `take` and `give` are cheap; `close` frees what is idle."""

    def __init__(self, driver: Driver, where: str) -> None:
        self._driver, self._where = driver, where
        self._idle: dict[int, list[_Idle]] = {}
        self._lock = threading.Lock()

    def take(self, nbytes: int, what: str, stream: int) -> Block:
        """At least `nbytes`, for work that is given to `stream`; `what` is for the message when there is no room."""
        size = _rounded(nbytes)
        with self._lock:
            found = self._idle.get(size)
            if found:
                idle = found.pop()
                for event in idle.events:
                    self._driver.wait(stream, event)
                    self._driver.destroy_event(event)
                return idle.block
        try:
            return Block(self._driver.alloc(size), size)
        except MemoryError:
            self.trim()
            _trim_torch()
        try:
            return Block(self._driver.alloc(size), size)
        except MemoryError:
            free, total = self._driver.memory_info()
            raise NoRoomError(
                f"{what}: {nbytes} bytes do not fit into the memory of {self._where} ({free} of {total} bytes are free)"
            ) from None

    def give(self, block: Block, streams: tuple[int, ...] = ()) -> None:
        """Back into the pool; what `streams` have been given may still use it for a while."""
        events: list[int] = []
        for stream in streams:
            events.append(self._driver.create_event())
            self._driver.record(events[-1], stream)
        with self._lock:
            self._idle.setdefault(block.nbytes, []).append(_Idle(block, events))

    def trim(self) -> None:
        """Free every idle block; the driver waits for what still uses them."""
        with self._lock:
            idle, self._idle = self._idle, {}
        for blocks in idle.values():
            for entry in blocks:
                for event in entry.events:
                    self._driver.destroy_event(event)
                self._driver.free(entry.block.address)


class Pinned:
    """Host memory that the GPU can read while the CPU goes on; it only grows."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._address, self._nbytes = 0, 0

    def room(self, nbytes: int) -> Array:
        """Bytes to copy through; what was there before is lost."""
        if nbytes > self._nbytes:
            self.close()
            size = _rounded(nbytes)
            try:
                self._address = self._driver.alloc_host(size)
            except MemoryError:
                raise NoRoomError(f"{nbytes} bytes of pinned host memory are not available") from None
            self._nbytes = size
        return host_bytes(self._address, nbytes)

    def close(self) -> None:
        """Give the memory back."""
        if self._address:
            self._driver.free_host(self._address)
        self._address, self._nbytes = 0, 0


def host_bytes(address: int, nbytes: int) -> Array:
    """Host memory as an array."""
    if not nbytes:
        return np.empty(0, np.uint8)
    view: Any = (ctypes.c_char * nbytes).from_address(address)
    return np.frombuffer(view, np.uint8)


def _trim_torch() -> None:
    """Memory that torch, if it is there, keeps for itself."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is not None:
        cuda.empty_cache()


def _rounded(nbytes: int) -> int:
    unit = LARGE if nbytes >= LARGE else SMALL
    return max(-(-nbytes // unit), 1) * unit
