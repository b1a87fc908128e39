"""What native code gives to the driver in one call: packed launches, or a graph (`graphfuse.llvm.launch_loop`)."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence

import numpy as np

from graphfuse.artifact import Array
from graphfuse.llvm.launch_loop import CONFIG_BYTES, RECORD_BYTES, REPLAY, SYMBOL, launch_loop
from graphfuse.runtime.native import address_of
from graphfuse.targets.driver import CopyCall, LaunchCall

_CONFIG = struct.Struct("<7I4xQQI4x")
ATTRIBUTE_BYTES = 72
"""Of a CUlaunchAttribute: its id, and a union of 64 bytes."""
_CLUSTER, _OVERLAP = struct.Struct("<I4xIII"), struct.Struct("<I4xI")
CLUSTER_DIMENSION, PROGRAMMATIC_STREAM_SERIALIZATION = 4, 6
"""Of `CUlaunchAttributeID`."""
assert _CONFIG.size == CONFIG_BYTES

_P, _I = ctypes.c_void_p, ctypes.c_int64
_Loop = ctypes.CFUNCTYPE(_I, _P, _P, _P, _I, _P, _P)
_Replay = ctypes.CFUNCTYPE(_I, _P, _P, _P)


class Replay:
    """Launches graphs in one context, whichever is current. `functions` are push, pop and launch."""

    def __init__(self, functions: Sequence[int], context: int) -> None:
        self._library = launch_loop()
        self._native: Callable[..., int] = _Replay(self._library.address(REPLAY))
        self._table = np.array([*functions, context], np.int64)
        self._at = address_of(self._table)

    def __call__(self, graph: int, stream: int) -> int:
        """0, or what went wrong."""
        return self._native(self._at, graph, stream)


class Batch:
    """Launches and copies in order. The addresses that they point to may change between calls, their number not."""

    def __init__(self, calls: Sequence[LaunchCall | CopyCall], launch: int, copy: int) -> None:
        self._library = launch_loop()
        self._loop: Callable[..., int] = _Loop(self._library.address(SYMBOL))
        kernels = [c for c in calls if not isinstance(c, CopyCall)]
        self._attributes = np.zeros(max(2 * len(kernels) * ATTRIBUTE_BYTES // 8, 1), np.int64)
        self._configs = np.zeros(max(len(kernels) * CONFIG_BYTES // 8, 1), np.int64)
        self._records = np.zeros((max(len(calls), 1), RECORD_BYTES // 8), np.int64)
        self._failed = np.zeros(1, np.int64)
        number = 0
        for record, call in zip(self._records, calls, strict=False):
            if isinstance(call, CopyCall):
                record[:] = 0, 0, call.slots
                continue
            record[:] = self._config(call, number), call.function, call.params
            number += 1
        where = launch, copy, address_of(self._records)
        self._before = (*where, len(calls))
        self._after = address_of(self._failed)

    def launch(self, stream: int) -> tuple[int, int]:
        """Give all to the driver: 0, or the result of the one that failed, and its number."""
        result = self._loop(*self._before, stream, self._after)
        return result, int(self._failed[0])

    def _config(self, call: LaunchCall, number: int) -> int:
        """Fill in the configuration of kernel `number`; its address."""
        attributes = self._attributes.view(np.uint8)
        start, count = 2 * number * ATTRIBUTE_BYTES, 0
        if call.cluster != 1:
            _put(attributes, start, _CLUSTER.pack(CLUSTER_DIMENSION, call.cluster, 1, 1))
            count += 1
        if call.overlaps:
            _put(attributes, start + count * ATTRIBUTE_BYTES, _OVERLAP.pack(PROGRAMMATIC_STREAM_SERIALIZATION, 1))
            count += 1
        at = number * CONFIG_BYTES
        shape = (call.grid, 1, 1, call.threads, 1, 1, call.shared_bytes)
        where = address_of(self._attributes) + start if count else 0
        _put(self._configs.view(np.uint8), at, _CONFIG.pack(*shape, 0, where, count))
        return address_of(self._configs) + at


def _put(to: Array, at: int, content: bytes) -> None:
    to[at : at + len(content)] = np.frombuffer(content, np.uint8)
