"""What a GPU did, and when, by CUPTI's activity API: launches as they ran, overlaps and gaps and all.

Of a record only its beginning is read, which CUDA 11.8 (CUpti_ActivityKernel8) to 13.5 (CUpti_ActivityKernel13) have in
common, as copies have (CUpti_ActivityMemcpy5 and 6): what is new comes behind. The library itself goes from one record
to the next, so that no size is needed here. Releases that nobody has looked at are refused.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import itertools
import logging
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from ctypes import POINTER, byref, c_char_p, c_int32, c_int64, c_size_t, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any

from graphfuse.errors import DeviceError
from graphfuse.targets.driver import LaunchRecord

log = logging.getLogger(__name__)

VERSIONS = (range(18, 29), range(130000, 130600))
"""Of the API, as `cuptiGetVersion` has them: CUDA 11.8 to 12.9, and 13.0 to 13.5."""
MEMCPY, CONCURRENT_KERNEL = 1, 10
"""Kinds of records. The other kind of kernels would run one after another."""
ON_DEVICE = 8
"""CUPTI_ACTIVITY_MEMCPY_KIND_DTOD."""
FORCED = 1
"""CUPTI_ACTIVITY_FLAG_FLUSH_FORCED."""
BUFFER_BYTES, BUFFER_ALIGN = 1 << 20, 8
MOST_BUFFERS = 256
"""That are out at the same time; more would be a run that nobody waits for."""
REASONS = {
    14: "it does not fit the driver",
    35: "the driver lets administrators measure only (NVreg_RestrictProfilingToAdminUsers)",
    39: "another profiler is at work",
    43: "a part of a GPU (MIG) has none",
    45: "WSL has none",
}
REQUEST = ctypes.CFUNCTYPE(None, POINTER(c_void_p), POINTER(c_size_t), POINTER(c_size_t))
COMPLETE = ctypes.CFUNCTYPE(None, c_void_p, c_uint32, c_void_p, c_size_t, c_size_t)


class KernelRecord(ctypes.Structure):
    """The beginning of a CUpti_ActivityKernel."""

    _fields_ = (
        ("kind", c_uint32), ("cache", c_uint8), ("shared_config", c_uint8), ("registers", c_uint16),
        ("partitioned", c_uint32 * 2), ("start", c_uint64), ("end", c_uint64), ("completed", c_uint64),
        ("device", c_uint32), ("context", c_uint32), ("stream", c_uint32), ("grid", c_int32 * 3),
        ("block", c_int32 * 3), ("static_shared", c_int32), ("dynamic_shared", c_int32), ("local", c_uint32),
        ("local_total", c_uint32), ("correlation", c_uint32), ("grid_id", c_int64), ("name", c_char_p),
    )  # fmt: skip


class CopyRecord(ctypes.Structure):
    """The beginning of a CUpti_ActivityMemcpy."""

    _fields_ = (
        ("kind", c_uint32), ("copy", c_uint8), ("source", c_uint8), ("to", c_uint8), ("flags", c_uint8),
        ("nbytes", c_uint64), ("start", c_uint64), ("end", c_uint64),
    )  # fmt: skip


class Cupti:
    """The library, to which this process gives its callbacks once; `library` has its functions."""

    def __init__(self, library: Any) -> None:
        self._library = library
        version = c_uint32()
        self._call("cuptiGetVersion", byref(version))
        if not any(version.value in known for known in VERSIONS):
            raise DeviceError(f"CUPTI's version {version.value} has records that are not known here")
        self.version = version.value
        self._tracing, self._lock = threading.Lock(), threading.Lock()
        self._free: list[int] = []
        self._filled: list[tuple[int, int]] = []
        self._rooms: dict[int, Any] = {}
        self._callbacks = REQUEST(self._request), COMPLETE(self._complete)
        self._call("cuptiActivityRegisterCallbacks", *self._callbacks)

    @contextmanager
    def tracing(self) -> Generator[Callable[[], list[LaunchRecord]]]:
        """See `Driver.tracing`. One thread at a time."""
        if not self._tracing.acquire(blocking=False):
            raise DeviceError("another thread measures")
        enabled: list[int] = []
        try:
            for kind in (CONCURRENT_KERNEL, MEMCPY):
                self._call("cuptiActivityEnable", kind)
                enabled.append(kind)
            yield self._take
        finally:
            for kind in enabled:
                self._library.cuptiActivityDisable(kind)
            self._library.cuptiActivityFlushAll(FORCED)
            self._give(self._taken())
            self._tracing.release()

    def _take(self) -> list[LaunchRecord]:
        self._call("cuptiActivityFlushAll", FORCED)
        dropped, filled = c_size_t(), self._taken()
        try:
            found = [r for address, valid in filled for r in self._records(address, valid)]
        finally:
            self._give(filled)
        self._call("cuptiActivityGetNumDroppedRecords", None, 0, byref(dropped))
        if dropped.value:
            raise DeviceError(f"CUPTI had no room for {dropped.value} records")
        return sorted(found, key=lambda r: r.start)

    def _records(self, address: int, valid: int) -> Generator[LaunchRecord]:
        at = c_void_p()
        while not self._library.cuptiActivityGetNextRecord(c_void_p(address), c_size_t(valid), byref(at)):
            assert at.value is not None
            kind = c_uint32.from_address(at.value).value
            if kind == CONCURRENT_KERNEL:
                found = KernelRecord.from_address(at.value)
                shared = found.static_shared + found.dynamic_shared
                name = (found.name or b"").decode(errors="replace")
                record = LaunchRecord(name, found.start, found.end, found.registers, shared, found.local)
            elif kind == MEMCPY and (copy := CopyRecord.from_address(at.value)).copy == ON_DEVICE:
                record = LaunchRecord("", copy.start, copy.end)
            else:
                continue
            if not 0 < record.start <= record.end:
                raise DeviceError(f"CUPTI has no times of {record.name or 'a copy'!r}")
            yield record

    def _call(self, function: str, *args: Any) -> None:
        if result := getattr(self._library, function)(*args):
            raise DeviceError(f"CUPTI cannot be used: {REASONS.get(result, f'{function} gave {result}')}")

    # buffers, which threads of the library ask for and bring back

    def _request(self, buffer: Any, size: Any, most: Any) -> None:
        size[0] = most[0] = 0
        with self._lock:
            if not self._free and len(self._rooms) < MOST_BUFFERS:
                room = ctypes.create_string_buffer(BUFFER_BYTES + BUFFER_ALIGN)
                address = -(-ctypes.addressof(room) // BUFFER_ALIGN) * BUFFER_ALIGN
                self._rooms[address] = room
                self._free.append(address)
            buffer[0] = self._free.pop() if self._free else None
        if buffer[0]:
            size[0] = BUFFER_BYTES

    def _complete(self, _: int | None, __: int, buffer: int, ___: int, valid: int) -> None:
        with self._lock:
            self._filled.append((buffer, valid))

    def _taken(self) -> list[tuple[int, int]]:
        with self._lock:
            filled, self._filled = self._filled, []
        return filled

    def _give(self, filled: list[tuple[int, int]]) -> None:
        with self._lock:
            self._free += [address for address, _ in filled]


@functools.cache
def opened() -> Cupti:
    """That of this process. Raises DeviceError where there is none that can be used."""
    for place in _places():
        try:
            library = ctypes.CDLL(place)
        except OSError as e:
            log.info("no CUPTI in %s: %s", place, e)
            continue
        return Cupti(library)
    raise DeviceError("there is no CUPTI (pip install nvidia-cuda-cupti)")


def _places() -> list[str]:
    """Of NVIDIA's packages, the toolkit's in its usual place, and wherever the system looks; the newest first."""
    try:
        spec = importlib.util.find_spec("nvidia")
    except ValueError:
        spec = None
    folders = [Path(p) for p in (spec.submodule_search_locations or ())] if spec else []
    packaged = [sorted(f.glob("*/lib/libcupti.so.*"), reverse=True) for f in folders]
    toolkit = Path("/usr/local/cuda")
    installed = [p for f in ("lib64", "extras/CUPTI/lib64") for p in [toolkit / f / "libcupti.so"] if p.exists()]
    return [*map(str, itertools.chain(*packaged, installed)), "libcupti.so.13", "libcupti.so.12", "libcupti.so"]
