"""A GPU's driver whose device is the emulator: memory is numpy's, and a launch is done when it returns.

It is a `graphfuse.targets.driver.Driver`. Streams keep nothing waiting, graphs are lists of calls.
"""

from __future__ import annotations

import ctypes
import itertools
import sys
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from graphfuse.artifact import TensorMap as MapSpec
from graphfuse.artifact import elem_dtype
from graphfuse.errors import DeviceError
from graphfuse.gpu.emulator.emulator import SHARED_BYTES, Emulator
from graphfuse.gpu.emulator.errors import EmulatorError
from graphfuse.gpu.emulator.im2col import Im2colMap
from graphfuse.gpu.emulator.report import Report
from graphfuse.gpu.emulator.tensormap import Buffer, TensorMap
from graphfuse.gpu.emulator.types import Array
from graphfuse.targets.driver import Argument, CopyCall, LaunchCall
from graphfuse.targets.nvidia import GpuInfo

MULTIPROCESSORS = 4
"""As few as let persistent kernels have several blocks, and tests be quick."""
ALIGNMENT = 256
"""Of cuMemAlloc's addresses."""
FIRST_HANDLE = 256
"""Streams 0 to 2 are the default ones."""
_ELEMS = (
    "f16", "bf16", "f32", "f64", "i8", "u8", "bool", "i16", "u16", "i32", "u32", "i64", "u64", "f8e4m3", "f8e5m2"
)  # fmt: skip
"""What tensor maps may hold."""


def open_driver(arch: str) -> EmulatedDriver:
    """One GPU of this architecture, of its own."""
    return EmulatedDriver(arch)


class EmulatedDriver:
    """A device with `memory_bytes`; `seed` and `checks` are the emulator's. `reports` has that of every launch."""

    takes_cubins, reads_lines = False, True

    def __init__(
        self, arch: str = "sm_90a", *, devices: int = 1, seed: int = 0, checks: bool = True, memory_bytes: int = 1 << 40
    ) -> None:
        digits = arch.removeprefix("sm_").rstrip("af")
        sizes = (memory_bytes, SHARED_BYTES, MULTIPROCESSORS)
        self._info = GpuInfo(f"emulated {arch}", int(digits[:-1]), int(digits[-1]), *sizes)
        self._devices, self._seed, self._checks = devices, seed, checks
        self._handles = itertools.count(FIRST_HANDLE)
        self._modules: dict[int, Emulator] = {}
        self._functions: dict[int, tuple[Emulator, str]] = {}
        self._maps: list[tuple[MapSpec, int, tuple[int, ...], tuple[int, ...]]] = []
        """Of each tensor map what it describes, where that is, its dims and strides."""
        self._numbers: dict[tuple[MapSpec, int, tuple[int, ...], tuple[int, ...]], int] = {}
        self._memory: dict[int, Array] = {}
        self._starts: list[int] = []
        self._lock = threading.RLock()
        self._events: dict[int, float] = {}
        self._recording: dict[int, list[Callable[[], object]]] = {}
        self._graphs: dict[int, list[Callable[[], object]]] = {}
        self.contexts: dict[int, Any] = {}
        self.allocated = 0
        self.reports: list[tuple[str, Report]] = []

    # devices

    def device_count(self) -> int:
        """As many as it was made with."""
        return self._devices

    def device_info(self, ordinal: int) -> GpuInfo:
        """All are alike."""
        return self._info

    def retain(self, ordinal: int) -> int:
        """A context is a device's number, counted from 1."""
        return ordinal + 1

    def push(self, context: int) -> None:
        """Contexts share everything."""

    def pop(self) -> None:
        """Contexts share everything."""

    # code

    def load_module(self, image: bytes) -> int:
        """PTX only."""
        handle = next(self._handles)
        text = image.rstrip(b"\0").decode(errors="replace")
        self._modules[handle] = Emulator(text, seed=self._seed, checks=self._checks, name="kernels.ptx")
        return handle

    def function(self, module: int, name: str) -> int:
        """A kernel of a module."""
        emulator = self._modules[module]
        emulator.kernel(name)
        handle = next(self._handles)
        self._functions[handle] = (emulator, name)
        return handle

    def allow_shared(self, function: int, nbytes: int) -> None:
        """Any amount that an H100 has."""
        if nbytes > SHARED_BYTES:
            raise EmulatorError(f"{nbytes} bytes of shared memory: a block has at most {SHARED_BYTES}")

    # memory

    def alloc(self, nbytes: int) -> int:
        """Memory filled with ones: as a float, NaN."""
        if self.allocated + nbytes > self._info.memory_bytes:
            raise MemoryError(f"{nbytes} bytes of device memory")
        self.allocated += nbytes
        return self.alloc_host(nbytes)

    def alloc_host(self, nbytes: int) -> int:
        """Host memory is like device memory, and does not count."""
        raw = np.full(nbytes + ALIGNMENT, 0xFF, np.uint8)
        start = -_address(raw) % ALIGNMENT
        array = raw[start : start + nbytes]
        address = _address(raw) + start
        with self._lock:
            self._memory[address] = array
            self._starts = sorted(self._memory)
        return address

    def free(self, address: int) -> None:
        """Give memory back."""
        with self._lock:
            self.allocated -= self._memory[address].nbytes
            self.free_host(address)

    def memory_info(self) -> tuple[int, int]:
        """Free and total bytes."""
        return self._info.memory_bytes - self.allocated, self._info.memory_bytes

    def free_host(self, address: int) -> None:
        """Give host memory back."""
        with self._lock:
            del self._memory[address]
            self._starts = sorted(self._memory)

    def copy(self, to: int, source: int, nbytes: int, stream: int) -> None:
        """From anywhere to anywhere: all of it is numpy's memory."""
        self._do(stream, lambda: ctypes.memmove(to, source, nbytes))

    copy_in = copy_out = copy

    # streams

    def create_stream(self) -> int:
        """A number."""
        return next(self._handles)

    def destroy_stream(self, stream: int) -> None:
        """Nothing is left in it."""

    def synchronize(self, stream: int) -> None:
        """All work is done when it is given."""

    def create_event(self) -> int:
        """A time, once recorded."""
        return next(self._handles)

    def destroy_event(self, event: int) -> None:
        """Forget it."""
        self._events.pop(event, None)

    def record(self, event: int, stream: int) -> None:
        """Now."""
        self._events[event] = time.perf_counter()

    def wait(self, stream: int, event: int) -> None:
        """It has happened."""

    def tracing(self) -> NoReturn:
        """Nothing sees it."""
        raise DeviceError("the emulator has no times of its own")

    def elapsed_ms(self, start: int, end: int) -> float:
        """The emulator's own time."""
        return (self._events[end] - self._events[start]) * 1e3

    def _do(self, stream: int, work: Callable[[], object]) -> None:
        if stream in self._recording:
            self._recording[stream].append(work)
        else:
            with self._lock:  # a module's state is that of one launch
                work()

    # launches

    def encode_tensor_map(self, spec: MapSpec, address: int, dims: Sequence[int], strides: Sequence[int]) -> bytes:
        """Its number here, in 128 bytes."""
        if spec.elem not in _ELEMS:
            raise EmulatorError(f"tensor map: expected one of {', '.join(_ELEMS)}, found {spec.elem}")
        if address % 16:
            raise EmulatorError(f"tensor map: address {address:#x}: expected a multiple of 16")
        if not all(1 <= d <= 1 << 32 for d in dims):
            raise EmulatorError(f"tensor map: dims {tuple(dims)}: expected each in 1 to 2^32")
        new = (spec, address, tuple(dims), tuple(strides))
        number = self._numbers.setdefault(new, len(self._numbers))
        if number == len(self._maps):
            self._maps.append(new)
        return number.to_bytes(128, "little")

    def launch(self, call: LaunchCall, stream: int) -> None:
        """Run a kernel for its whole grid."""
        arguments = tuple(call.arguments())  # the slots may change once this has returned
        maps = tuple(call.tensor_maps())
        name, grid, threads = call.name, call.grid, call.threads
        function, shared, cluster = call.function, call.shared_bytes, call.cluster

        def work() -> None:
            emulator, kernel = self._functions[function]
            values = self._values(arguments, maps)
            shape = () if cluster == 1 else (cluster,)
            report = emulator.launch(kernel, (grid,), (threads,), values, shared_bytes=shared, cluster=shape)
            self.reports.append((name, report))
            sys.stdout.write(report.printed)
            sys.stdout.flush()

        self._do(stream, work)

    def launcher(self, calls: Sequence[LaunchCall | CopyCall]) -> None:
        """One by one: each has checks of its own."""

    def error(self, result: int) -> NoReturn:
        """None of its calls give results of this kind."""
        raise AssertionError(result)

    def replayer(self, context: int) -> None:
        """There is no native code here."""

    def _values(self, arguments: Sequence[Argument], maps: Sequence[bytes]) -> list[Any]:
        """What the emulator takes: each region of memory once, so that arguments that share one see each other."""
        modes: dict[tuple[int, int], str] = {}
        everything = [b for a in arguments for b in (a, *a.reached)]
        for a in everything:
            if a.base:
                modes[a.base, a.nbytes] = modes.get((a.base, a.nbytes), "") + a.mode
        regions = {key: self._region(*key) for key in modes}
        constant = {(a.base, a.nbytes): a.constant for a in everything}

        def buffer(i: int, a: Argument) -> Buffer:
            key, name = (a.base, a.nbytes), a.name or f"argument {i}"
            reads, writes = modes[key].strip("w") != "", modes[key].strip("r") != ""
            elem_bytes = elem_dtype(a.elem).itemsize if a.elem else 1
            reached = tuple(buffer(i, b) for b in a.reached)
            return Buffer(regions[key], reads, name, a.value - a.base, writes, constant[key], elem_bytes, reached)

        values = [buffer(i, a) if a.base else a.value for i, a in enumerate(arguments)]
        return values + [self._tensor_map(m, regions) for m in maps]

    def _region(self, base: int, nbytes: int) -> Array:
        i = bisect_right(self._starts, base) - 1
        start = self._starts[i] if i >= 0 else 0
        if i < 0 or base + nbytes > start + self._memory[start].nbytes:
            raise EmulatorError(f"{nbytes} bytes at {base:#x} are not device memory")
        return self._memory[start][base - start : base - start + nbytes]

    def _tensor_map(self, packed: bytes, regions: dict[tuple[int, int], Array]) -> TensorMap:
        spec, address, dims, strides = self._maps[int.from_bytes(packed, "little")]
        found = next((k for k in regions if k[0] <= address < k[0] + k[1]), None)
        if found is None:
            raise EmulatorError(f"tensor map: address {address:#x} is in no argument of the kernel")
        array, at = regions[found].view(elem_dtype(spec.elem)), address - found[0]
        sizes = (tuple(spec.box), spec.swizzle, dims, strides)
        if spec.im2col:
            return Im2colMap(array, *sizes, name="tensor map", offset=at, how=spec.im2col)
        return TensorMap(array, *sizes, name="tensor map", offset=at)

    # graphs

    def begin_capture(self, stream: int) -> None:
        """Record what comes."""
        self._recording[stream] = []

    def end_capture(self, stream: int) -> int:
        """What has come."""
        handle = next(self._handles)
        self._graphs[handle] = self._recording.pop(stream)
        return handle

    def instantiate(self, graph: int) -> int:
        """The same list under another number."""
        handle = next(self._handles)
        self._graphs[handle] = self._graphs[graph]
        return handle

    def update(self, executable: int, graph: int) -> bool:
        """Replace the list by one of the same length."""
        if len(self._graphs[executable]) != len(self._graphs[graph]):
            return False
        self._graphs[executable] = self._graphs[graph]
        return True

    def launch_graph(self, executable: int, stream: int) -> None:
        """Do what the list says."""
        for work in self._graphs[executable]:
            self._do(stream, work)

    def destroy_graph(self, graph: int) -> None:
        """Forget a list."""
        del self._graphs[graph]

    def destroy_executable(self, executable: int) -> None:
        """Forget a list."""
        del self._graphs[executable]


def _address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])
