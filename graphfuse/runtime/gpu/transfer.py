"""Arrays between the host and the device: small ones together through pinned memory, large ones from where they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from graphfuse.artifact import Array, Weight
from graphfuse.runtime.gpu.memory import Pinned
from graphfuse.runtime.weights import each
from graphfuse.targets.driver import Driver

STAGED = 32 << 20
"""Arrays larger than this are copied by the driver itself: pinned memory of that size costs more than it gains."""
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


def upload(driver: Driver, weights: Sequence[Weight], take: Callable[[int], int]) -> list[int]:
    """Copy weights into one block, which `take` gives by its bytes; where each is."""
    places, total = offsets([w.nbytes for w in weights])
    base = take(total) if total else 0
    for given, place in zip(each(weights), places, strict=True):
        array = np.ascontiguousarray(given)
        if array.nbytes:
            driver.copy_in(base + place, array.ctypes.data, array.nbytes, 0)
            driver.synchronize(0)  # then it may go
    return [base + place for place in places]


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
