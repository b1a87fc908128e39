"""Bytes of an artifact's file, and weights in it: read when first used, into memory of this process, and checked.

So nothing that happens to the file later reaches a model that runs, and before that it is an error: with a mapping the
process is killed by a truncation (SIGBUS), and follows what is written over the file (`cp`). But that takes no time:
`graphfuse generate` does it. `GRAPHFUSE_WEIGHTS` chooses (ADR 0015).
"""

from __future__ import annotations

import functools
import math
import mmap
import operator
import os
import threading
import weakref
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
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
_ROW_BYTES = ROW * _WORD.itemsize
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
                found = os.fstat(self._file).st_size  # other threads may read further on
                raise ArtifactError(f"truncated: expected {self.nbytes} bytes, found {found}", Loc(str(self.path)))
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


class Sums:
    """The checksum of bytes that come in parts, in any order: 32 bits that say what they are.

    CRC-32 takes longer than reading does. So of each whole piece it is that of the sums of its rows, as 64-bit words:
    what does not show has changed at least two words of one row, by as much up and down (`gfx.verify` looks at all
    bits).
    """

    def __init__(self, nbytes: int) -> None:
        self._rows = np.empty(nbytes // PIECE * (PIECE // _ROW_BYTES), _WORD)
        self._rest = np.empty(nbytes % PIECE, np.uint8)

    def put(self, at: int, part: Array) -> None:
        """Bytes from a piece's first one on, to a piece's last or the last of all."""
        whole = len(part) // PIECE * PIECE
        rows = self._rows[at // _ROW_BYTES : (at + whole) // _ROW_BYTES]
        part[:whole].view(_WORD).reshape(-1, ROW).sum(1, out=rows)
        if whole < len(part):
            self._rest[...] = part[whole:]

    def checksum(self) -> int:
        """Of all parts."""
        return zlib.crc32(self._rest.data, zlib.crc32(self._rows.data))


def checksum_of(data: Array) -> int:
    """That of all bytes."""
    sums = Sums(len(data))
    for at in range(0, len(data), PIECE):
        sums.put(at, data[at : at + PIECE])
    return sums.checksum()


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
        is_mapped, sums = self.mode == "mapped", self.sums()
        room = file.mapping[begin : begin + nbytes] if is_mapped else aligned_bytes(nbytes)
        for at in range(0, nbytes, PIECE):
            piece = room[at : at + PIECE]
            if not is_mapped:
                file.fill(begin + at, piece.data)
            if sums is not None:
                sums.put(at, piece)
        self.compare(sums)
        room.flags.writeable = False
        return room

    @property
    def is_kept(self) -> bool:
        """Whether the bytes are in memory already."""
        return bool(self._kept)

    def sums(self) -> Sums | None:
        """What the bytes that are read go through; nothing, where they are not checked."""
        return Sums(len(self.extent)) if self.mode != "unchecked" else None

    def compare(self, sums: Sums | None) -> None:
        """Raise ArtifactError if all bytes have been read, and are others."""
        if sums is not None and (found := sums.checksum()) != self.check:
            raise ArtifactError(
                f"weights are corrupted: expected a checksum {self.check:08x} of {len(self.extent)} bytes, "
                f"found {found:08x}",
                Loc(str(self.extent.file.path)),
            )


class Source(ABC):
    """The bytes of a weight, which are asked for in parts that begin at multiples of `PIECE`, each once, in any order.

    Several threads may do so; nothing of it stays once all parts have been given.
    """

    def __init__(self, nbytes: int) -> None:
        self._lock = threading.Lock()
        self._left = nbytes

    def fill(self, at: int, room: Array) -> None:
        """Write the bytes from `at` on. Raises ArtifactError, in the last of all parts also for what others had."""
        self._copy(at, room)
        with self._lock:
            self._left -= len(room)
            is_last = not self._left
        if is_last:
            self._end()

    @abstractmethod
    def _copy(self, at: int, room: Array) -> None: ...

    @abstractmethod
    def _end(self) -> None: ...


class _FileSource(Source):
    """Bytes that go from the file to where they are wanted, mapped or not."""

    def __init__(self, blob: Blob) -> None:
        super().__init__(len(blob.extent))
        self._blob, self._sums = blob, blob.sums()

    def _copy(self, at: int, room: Array) -> None:
        extent = self._blob.extent
        extent.file.fill(extent.begin + at, room.data)
        if self._sums is not None:
            self._sums.put(at, room)

    def _end(self) -> None:
        self._blob.compare(self._sums)


class _ArraySource(Source):
    """An array, made when it is first asked for."""

    def __init__(self, make: Callable[[], Array], nbytes: int) -> None:
        super().__init__(nbytes)
        self._make = make
        self._bytes: Array | None = None

    def _copy(self, at: int, room: Array) -> None:
        with self._lock:
            if (found := self._bytes) is None:
                found = self._bytes = np.ascontiguousarray(self._make()).reshape(-1).view(np.uint8)
        room[...] = found[at : at + len(room)]

    def _end(self) -> None:
        self._bytes = None


def source_of(weight: Weight) -> Source:
    """The bytes of a weight for one reader that has a place for them."""
    data = weight.data
    if isinstance(data, StoredArray) and (blob := data.as_it_is) is not None:
        return _FileSource(blob)
    return _ArraySource(functools.partial(fresh, data), weight.nbytes)


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

    @property
    def as_it_is(self) -> Blob | None:
        """The bytes in the file, if those of the array are the same and not in memory yet."""
        return None if self._panels is not None or self._blob.is_kept else self._blob

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


def _readers(weights: Sequence[Weight]) -> int:
    """How many threads read them."""
    return min(MOST_READERS, available_cores()) if sum(w.nbytes for w in weights) >= AT_ONCE else 1
