"""A double of CUPTI's library: records of what `FakeCuda` does, in buffers as the library fills them.

Functions are native ones, called through ctypes as the real ones are; `results` has what the next call of one gives.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_int, c_size_t, c_uint8, c_uint32, c_void_p

from graphfuse.runtime.cuda.cupti import (
    COMPLETE,
    CONCURRENT_KERNEL,
    MEMCPY,
    ON_DEVICE,
    REQUEST,
    CopyRecord,
    KernelRecord,
)

KERNEL_BYTES = {18: 200, 27: 208, 130001: 216}
"""By the API's version: CUpti_ActivityKernel8, 9, 10."""
COPY_BYTES = 96


class FakeCupti:
    """The library. `begin` and `took` say when the next launch begins behind the end of the last, and its ns.

    `known` has by a kernel's name what else its records have than others, as keywords of `ran`.
    """

    def __init__(self, version: int = 130001) -> None:
        self.version, self.results = version, {}
        self.enabled: set[int] = set()
        self.records: list[bytes] = []
        self.launched = 0
        self.clock, self.begin, self.took, self.dropped = 1000, 50, 200, 0
        self.known: dict[str, dict[str, int]] = {}
        self._names: dict[str, ctypes.Array] = {}
        self._functions = {}
        signatures = {
            "cuptiGetVersion": (POINTER(c_uint32),),
            "cuptiActivityRegisterCallbacks": (c_void_p, c_void_p),
            "cuptiActivityEnable": (c_int,),
            "cuptiActivityDisable": (c_int,),
            "cuptiActivityFlushAll": (c_uint32,),
            "cuptiActivityGetNextRecord": (c_void_p, c_size_t, POINTER(c_void_p)),
            "cuptiActivityGetNumDroppedRecords": (c_void_p, c_uint32, POINTER(c_size_t)),
        }
        for name, types in signatures.items():
            self._functions[name] = ctypes.CFUNCTYPE(c_int, *types)(self._calling(name))

    def __getattr__(self, name):
        if not name.startswith("cupti"):
            raise AttributeError(name)
        return self._functions[name]

    def _calling(self, name):
        def call(*args):
            if (result := self.results.get(name, 0)) == 0:
                result = getattr(self, "_" + name.removeprefix("cupti"))(*args) or 0
            return result

        return call

    def watch(self, fake_cuda):
        """Have a record of all that its driver does."""
        driver = fake_cuda.driver
        do, copy = driver._do, driver.copy

        def watched(stream, work):
            def working():
                before, seen = len(driver.reports), self.launched
                work()
                if len(driver.reports) > before and self.launched == seen:  # not a graph, whose launches were
                    self.launched += 1
                    name = driver.reports[-1][0]
                    self.ran(name, **self.known.get(name, {}))

            do(stream, working)

        def copied(to, source, nbytes, stream):
            do(stream, lambda: (ctypes.memmove(to, source, nbytes), self.copied(nbytes)))

        assert copy.__name__ == "copy"
        driver._do, driver.copy = watched, copied
        return self

    def _next(self, took=None):
        start = self.clock + self.begin
        self.clock = start + (self.took if took is None else took)
        return start, self.clock

    def ran(self, name, registers=40, shared=(1024, 512), local=0, took=None):
        if CONCURRENT_KERNEL not in self.enabled:
            return
        chars = self._names.setdefault(name, ctypes.create_string_buffer(name.encode()))
        start, end = self._next(took)
        record = KernelRecord(
            kind=CONCURRENT_KERNEL, registers=registers, start=start, end=end, static_shared=shared[0],
            dynamic_shared=shared[1], local=local, name=ctypes.addressof(chars),
        )  # fmt: skip
        self.records.append(bytes(record).ljust(KERNEL_BYTES.get(self.version, 216), b"\xee"))

    def copied(self, nbytes, kind=ON_DEVICE):
        if MEMCPY in self.enabled:
            start, end = self._next()
            record = CopyRecord(kind=MEMCPY, copy=kind, nbytes=nbytes, start=start, end=end)
            self.records.append(bytes(record).ljust(COPY_BYTES, b"\xee"))

    # functions

    def _GetVersion(self, to):  # noqa: N802
        to[0] = self.version

    def _ActivityRegisterCallbacks(self, request, complete):  # noqa: N802
        self.request, self.complete = REQUEST(request), COMPLETE(complete)

    def _ActivityEnable(self, kind):  # noqa: N802
        self.enabled.add(kind)

    def _ActivityDisable(self, kind):  # noqa: N802
        self.enabled.discard(kind)

    def _ActivityFlushAll(self, flag):  # noqa: N802
        assert flag == 1
        while self.records:
            buffer, size, most = c_void_p(), c_size_t(), c_size_t(7)
            self.request(ctypes.byref(buffer), ctypes.byref(size), ctypes.byref(most))
            assert most.value == 0
            if not buffer.value:
                self.dropped += len(self.records)
                self.records.clear()
                return
            assert buffer.value % 8 == 0
            at = 0
            while self.records and at + len(self.records[0]) <= size.value:
                data = self.records.pop(0)
                ctypes.memmove(buffer.value + at, data, len(data))
                at += len(data)
            self.complete(None, 0, buffer, size, at)

    def _ActivityGetNextRecord(self, buffer, valid, record):  # noqa: N802
        at = buffer
        if record[0] is not None:
            kind = c_uint8.from_address(record[0]).value
            at = record[0] + (COPY_BYTES if kind == MEMCPY else KERNEL_BYTES.get(self.version, 216))
        if at >= buffer + valid:
            return 12
        record[0] = at
        return 0

    def _ActivityGetNumDroppedRecords(self, context, stream, to):  # noqa: N802
        to[0], self.dropped = self.dropped, 0
