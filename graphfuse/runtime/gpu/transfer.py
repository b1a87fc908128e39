"""Arrays between the host and the device: small ones together through pinned memory, large ones from where they are.

Weights go through pinned memory too, from several threads: what is pageable the driver copies on one.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from graphfuse.artifact import Array, Weight
from graphfuse.llvm.host import available_cores
from graphfuse.runtime.gpu.context import Context
from graphfuse.runtime.gpu.memory import Pinned
from graphfuse.runtime.weights import PIECE, Source, source_of
from graphfuse.targets.driver import Driver, DriverError

STAGED = 32 << 20
"""Arrays larger than this are copied by the driver itself: pinned memory of that size costs more than it gains."""
WINDOW = 4 * PIECE
"""Bytes of weights that are read and then copied: as much as lets a copy run at full speed."""
FOR_THREAD = 32 << 20
"""Bytes of weights that are worth a thread."""
MOST_THREADS = 8
"""That fill windows: with so many the bus is busy."""
SPACING = 256
"""Tensors in one block begin at multiples of this."""


def offsets(sizes: Sequence[int]) -> tuple[list[int], int]:
    """Where things of these sizes go one after the other, and where they end."""
    out: list[int] = []
    end = 0
    for size in sizes:
        out.append(end)
        end += -(-size // SPACING) * SPACING
    return out, end


@contextlib.contextmanager
def uploading(context: Context, weights: Sequence[Weight], take: Callable[[int], int]) -> Generator[list[int]]:
    """Copy weights into one block, which `take` gives by its bytes, while the caller does something else.

    It gets where each will be once this has ended. Threads fill pinned memory, each one window while another one of
    its own is on the way; what is read from a file is checked as it passes. The first error ends all.
    """
    places, total = offsets([w.nbytes for w in weights])
    base = take(total) if total else 0
    context.driver.synchronize(0)  # earlier work that may still use the block
    windows = deque(_windows(weights, places))
    count = min(max(-(-total // FOR_THREAD), 1), MOST_THREADS, available_cores(), len(windows))
    with ThreadPoolExecutor(max(count, 1), "upload") as pool:
        tasks = [pool.submit(_carry, context, windows, base, min(total, WINDOW)) for _ in range(count)]
        try:
            yield [base + place for place in places]
        except BaseException:
            windows.clear()
            raise
    for task in tasks:
        task.result()


def upload(context: Context, weights: Sequence[Weight], take: Callable[[int], int]) -> list[int]:
    """The same, at once: where each weight is."""
    with uploading(context, weights, take) as places:
        return places


@dataclass(frozen=True, slots=True)
class _Window:
    """Bytes that are copied at once, and the parts of weights in them: their sources, from where on, and to where."""

    begin: int
    nbytes: int
    parts: Sequence[tuple[Source, int, slice]]


def _windows(weights: Sequence[Weight], places: Sequence[int]) -> Iterator[_Window]:
    """All parts in order, as many in one as go into `WINDOW` bytes."""
    parts: list[tuple[Source, int, slice]] = []
    begin = end = 0
    for weight, place in zip(weights, places, strict=True):
        source, nbytes = source_of(weight), weight.nbytes
        for at in range(0, max(nbytes, 1), WINDOW):
            length = min(WINDOW, nbytes - at)
            if parts and place + at + length > begin + WINDOW:
                yield _Window(begin, end - begin, parts)
                parts = []
            if not parts:
                begin = place + at
            end = place + at + length
            parts.append((source, at, slice(end - length - begin, end - begin)))
    if parts:
        yield _Window(begin, end - begin, parts)


def _carry(context: Context, windows: deque[_Window], base: int, size: int) -> None:
    """Copy windows of up to `size` bytes to the device while there are any, by turns through two pieces of memory."""
    driver, pinned, streams = context.driver, Pinned(context.driver), list[int]()
    with context.current():
        try:
            count = min(len(windows), 2)
            room = pinned.room(count * size).reshape(count, size)
            for _ in room:
                streams.append(driver.create_stream())
            for stream, place in itertools.cycle(zip(streams, room, strict=True)):
                try:
                    window = windows.popleft()
                except IndexError:
                    break
                driver.synchronize(stream)  # what was in this place is on the device
                for source, at, where in window.parts:
                    source.fill(at, place[where])
                if window.nbytes:
                    driver.copy_in(base + window.begin, place.ctypes.data, window.nbytes, stream)
            for stream in streams:
                driver.synchronize(stream)
        except BaseException:
            windows.clear()
            raise
        finally:
            with contextlib.suppress(DriverError):  # of a lost context, which has had its say
                for stream in streams:
                    driver.synchronize(stream)
                    driver.destroy_stream(stream)
                pinned.close()


def copy_in(driver: Driver, pinned: Pinned, items: Sequence[tuple[int, Array]], stream: int) -> bool:
    """Copy dense arrays to these addresses; whether the host's memory may still be read when this returns."""
    items = [(address, array) for address, array in items if array.nbytes]
    large = [(address, array) for address, array in items if array.nbytes > STAGED]
    for address, array in large:
        driver.copy_in(address, array.ctypes.data, array.nbytes, stream)
    small = [(address, array) for address, array in items if array.nbytes <= STAGED]
    if not small:
        return bool(large)
    base = min(address for address, _ in small)
    span = max(address + array.nbytes for address, array in small) - base
    in_one = span <= STAGED
    packed, total = offsets([array.nbytes for _, array in small])
    driver.synchronize(stream)  # the run before may still be reading what is there
    room = pinned.room(span if in_one else total)
    for at, (address, array) in zip(packed, small, strict=True):
        to = address - base if in_one else at
        room[to : to + array.nbytes] = as_bytes(array)
        if not in_one:
            driver.copy_in(address, room.ctypes.data + to, array.nbytes, stream)
    if in_one:
        driver.copy_in(base, room.ctypes.data, span, stream)
    return bool(large)


def copy_out(driver: Driver, pinned: Pinned, items: Sequence[tuple[int, Array]], stream: int) -> None:
    """Copy from these addresses, one after the other in one block, into dense arrays; waits for the stream."""
    items = [(address, array) for address, array in items if array.nbytes]
    if not items:
        driver.synchronize(stream)
        return
    base = min(address for address, _ in items)
    span = max(address + array.nbytes for address, array in items) - base
    if span > STAGED:
        for address, array in items:
            driver.copy_out(array.ctypes.data, address, array.nbytes, stream)
        driver.synchronize(stream)
        return
    room = pinned.room(span)
    driver.copy_out(room.ctypes.data, base, span, stream)
    driver.synchronize(stream)
    for address, array in items:
        as_bytes(array)[...] = room[address - base : address - base + array.nbytes]


def as_bytes(array: Array) -> Array:
    """The bytes of a dense array."""
    return array.reshape(-1).view(np.uint8)
