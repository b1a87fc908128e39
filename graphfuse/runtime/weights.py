"""Bytes of an artifact's file, and weights in it: read when first used, into memory of this process, and checked.

So nothing that happens to the file later reaches a model that runs, and before that it is an error: with a mapping the
process is killed by a truncation (SIGBUS), and follows what is written over the file (`cp`). But that takes no time:
`graphfuse generate` does it. `GRAPHFUSE_WEIGHTS` chooses (ADR 0015).
"""

from __future__ import annotations

import math
import mmap
import operator
import os
import weakref
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from graphfuse.artifact import Array, Panels, Weight, fresh
from graphfuse.errors import ArtifactError, Loc
from graphfuse.files import is_regular, told
from graphfuse.knobs import WeightMode
from graphfuse.llvm.host import available_cores
from graphfuse.runtime.native import aligned_bytes

PIECE = 1 << 20
"""Bytes that are read and then checked: as much as stays in a core's cache."""
AT_ONCE = 64 << 20
"""From so many bytes on several threads read."""
ROW = 512
"""Words of a row of a piece, for its checksum."""
_WORD = np.dtype("<u8")
MOST_READERS = 4
"""Threads: disks and memory are busy with so many."""


class OpenFile:
    """A regular file, held open: what is read later is of the same one, whatever has its name by then."""

    def __init__(self, path: Path) -> None:
        with told("read", path):
            if not is_regular(path):
                raise OSError(22, "not a regular file")
            self._file = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        weakref.finalize(self, os.close, self._file)
        self.path = path
        self.nbytes = os.fstat(self._file).st_size

    def __reduce__(self) -> tuple[Any, ...]:
        """A number of an open file means nothing to a copy, or to another process."""
        raise TypeError(f"cannot copy or pickle the open file {self.path}")

    def fill(self, at: int, room: memoryview) -> None:
        """Read bytes from a position; it is an error where the file has become shorter."""
        done = 0
        while done < len(room):
            with told("read", self.path):
                count = os.preadv(self._file, [room[done:]], at + done)
            if not count:
                raise ArtifactError(f"truncated: expected {self.nbytes} bytes, found {at + done}", Loc(str(self.path)))
            done += count

    @cached_property
    def mapping(self) -> Array:
        """The file mapped, for as long as anything refers to it."""
        return np.frombuffer(mmap.mmap(self._file, self.nbytes, access=mmap.ACCESS_READ), np.uint8)


class Held:
    """The bytes of a file in memory."""

    def __init__(self, data: bytes) -> None:
        self._data, self.path, self.nbytes = data, Path("<bytes>"), len(data)

    def fill(self, at: int, room: memoryview) -> None:
        """Copy bytes from a position."""
        room[:] = memoryview(self._data)[at : at + len(room)]

    @property
    def mapping(self) -> Array:
        """All bytes."""
        return np.frombuffer(self._data, np.uint8)


@dataclass(frozen=True, slots=True)
class Extent:
    """A part of a file."""

    file: OpenFile | Held
    begin: int
    length: int

    def __len__(self) -> int:
        return self.length

    def part(self, at: int, length: int) -> Extent:
        """A part of this part."""
        assert 0 <= at <= at + length <= self.length, "the caller has checked where it is"
        return Extent(self.file, self.begin + at, length)

    def read(self, at: int = 0, length: int | None = None) -> bytes:
        """Its bytes, or some of them."""
        room = bytearray(self.length - at if length is None else length)
        self.file.fill(self.begin + at, memoryview(room))
        return bytes(room)


def checksum(piece: Array, before: int = 0) -> int:
    """32 bits that say what bytes are, behind those of which they were `before`; but for the last, pieces are whole.

    CRC-32 takes longer than reading does. So of a whole piece it is that of the sums of its rows, as 64-bit words: what
    does not show has changed at least two words of one row, by as much up and down (`gfx.verify` looks at all bits).
    """
    if len(piece) < PIECE:
        return zlib.crc32(piece.data, before)
    return zlib.crc32(piece.view(_WORD).reshape(-1, ROW).sum(1), before)


def checksum_of(data: Array) -> int:
    """That of all bytes."""
    found = 0
    for at in range(0, len(data), PIECE):
        found = checksum(data[at : at + PIECE], found)
    return found


class Blob:
    """The bytes of one or several weights, and their checksum."""

    def __init__(self, extent: Extent, check: int, mode: WeightMode) -> None:
        self.extent, self.check = extent, check
        self.mode: WeightMode = mode

        self._kept: list[Array] = []

    def array(self) -> Array:
        """The bytes, the same for every caller: addresses of them are kept."""
        return _kept(self._kept, self.read)

    def fresh(self) -> Array:
        """The bytes, which nobody keeps for the next caller; those that are kept, if they are."""
        return self._kept[0] if self._kept else self.read()

    def read(self) -> Array:
        """The bytes, read from the file, or mapped."""
        begin, nbytes, file = self.extent.begin, len(self.extent), self.extent.file
        is_mapped, found = self.mode == "mapped", 0
        room = file.mapping[begin : begin + nbytes] if is_mapped else aligned_bytes(nbytes)
        for at in range(0, nbytes, PIECE):
            piece = room[at : at + PIECE]
            if not is_mapped:
                file.fill(begin + at, piece.data)
            if self.mode != "unchecked":
                found = checksum(piece, found)
        if self.mode != "unchecked" and found != self.check:
            raise ArtifactError(
                f"weights are corrupted: expected a checksum {self.check:08x} of {nbytes} bytes, found {found:08x}",
                Loc(str(file.path)),
            )
        room.flags.writeable = False
        return room


class StoredArray:
    """An array in a file, maybe laid out in panels once it is read."""

    def __init__(self, blob: Blob, dtype: np.dtype[Any], shape: tuple[int, ...], panels: Panels | None = None) -> None:
        self._blob, self._dtype, self._shape, self._panels = blob, dtype, shape, panels
        self.shape = shape if panels is None else panels.shape(shape)
        self.nbytes = dtype.itemsize * math.prod(self.shape)
        self._kept: list[Array] = []

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies are in memory: the file may be closed, or gone, before they are read."""
        return np.asarray, (self.array(),)

    def array(self) -> Array:
        """The array, the same for every caller: its address is kept."""
        return self._of(self._blob.array()) if self._panels is None else _kept(self._kept, self.fresh)

    def fresh(self) -> Array:
        """The array, which nobody keeps for the next caller."""
        array = self._of(self._blob.fresh())
        if self._panels is None:
            return array
        laid_out = aligned_bytes(self.nbytes).view(self._dtype).reshape(self.shape)
        laid_out[...] = self._panels.of(array)
        laid_out.flags.writeable = False
        return laid_out

    def _of(self, data: Array) -> Array:
        return data.view(self._dtype).reshape(self._shape)


def _kept(known: list[Array], read: Callable[[], Array]) -> Array:
    """What is known, else what is read; of several callers at once, all get what the first has read."""
    if not known:
        known.append(read())
    return known[0]


class UnpackedArray:
    """The constant of this shape that a stored array is panels of."""

    def __init__(self, stored: StoredArray, panels: Panels, shape: tuple[int, ...]) -> None:
        self._stored, self._panels, self.shape = stored, panels, shape

    def __reduce__(self) -> tuple[Any, ...]:
        """As a stored array's."""
        return np.asarray, (self.array(),)

    @property
    def nbytes(self) -> int:
        """Those of the constant."""
        return self.array().nbytes

    def array(self) -> Array:
        """The constant, new for every caller."""
        return self._panels.back(self._stored.fresh(), self.shape)

    fresh = array


def read_all(weights: Sequence[Weight]) -> list[Array]:
    """Every array, from several threads where that is worth it: the largest first, so that all end at the same time."""
    if (readers := _readers(weights)) > 1:
        with ThreadPoolExecutor(readers) as pool:
            for _ in pool.map(operator.attrgetter("array"), sorted(weights, key=lambda w: -w.nbytes)):
                pass  # an error is raised here
    return [w.array for w in weights]


def each(weights: Sequence[Weight]) -> Iterator[Array]:
    """Every array in turn, which nobody keeps; other threads read the next few meanwhile, where that is worth it."""
    if (readers := _readers(weights)) == 1:
        yield from (fresh(w.data) for w in weights)
        return
    with ThreadPoolExecutor(readers) as pool:
        ahead = deque[Future[Array]]()
        for w in weights:
            ahead.append(pool.submit(fresh, w.data))
            if len(ahead) > readers:
                yield ahead.popleft().result()
        for one in ahead:
            yield one.result()


def _readers(weights: Sequence[Weight]) -> int:
    """How many threads read them."""
    return min(MOST_READERS, available_cores()) if sum(w.nbytes for w in weights) >= AT_ONCE else 1
