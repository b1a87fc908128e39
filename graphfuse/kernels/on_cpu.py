"""Launches on the CPU: programs dealt out to one pool of threads for all kernels of the process."""

from __future__ import annotations

import ctypes
import functools
import os
import threading
from collections.abc import Callable

import numpy as np

from graphfuse.artifact import Executable
from graphfuse.cpu.executor_ir import executor_ir
from graphfuse.errors import ArtifactError, InputError, UsageError
from graphfuse.llvm import codegen
from graphfuse.llvm.host import host_target
from graphfuse.llvm.loader import load_object
from graphfuse.runtime.native import EXECUTOR, address_of, why_not_here
from graphfuse.runtime.session import thread_count
from graphfuse.symbolic import evaluate

CHUNKS_PER_THREAD = 4
ALIGNMENT = 64

_Record = ctypes.c_uint64 * 4
"""A launch as `executor_ir` has it. Arrays of ctypes, as those of numpy take microseconds to make and to find."""


class CpuKernel:
    """A linked kernel. Calls from several threads take turns."""

    def __init__(self, executable: Executable) -> None:
        code = executable.code[executable.target]
        if reason := why_not_here(code, host_target()):
            raise ArtifactError(f"code for {executable.target}: {reason}")
        (self.meta,) = executable.kernels
        self._library = load_object(code.object, [self.meta.name])
        self._address = self._library.address(self.meta.name)

    def launch(self, slots: tuple[int, ...], symbols: dict[str, int], programs: int, threads: int | None) -> None:
        """Run all programs, and return when they are done."""
        if not programs:
            return
        args = (ctypes.c_uint64 * len(slots))(*slots)
        count = thread_count(threads)
        chunk = max(1, programs // (count * CHUNKS_PER_THREAD))
        record = _Record(self._address, ctypes.addressof(args), programs, chunk)
        _executor().run(record, count, evaluate(self.meta.scratch_bytes, symbols))


class _Executor:
    """The native launch loop, its threads, and scratch memory for each of them."""

    def __init__(self) -> None:
        host = host_target()
        system = "darwin" if "darwin" in host.triple else "linux"
        self._library = load_object(codegen.object_code(executor_ir(host.arch, system), host), EXECUTOR)
        self._lock = threading.Lock()
        self._pools: dict[tuple[int, int], int] = {}
        """By process, as a forked one has none of the threads, and their number."""
        self._scratch, self._start = np.empty(0, np.uint8), 0

        def function(name: str) -> Callable[..., int]:
            result, *arguments = EXECUTOR[name]
            return ctypes.CFUNCTYPE(result, *arguments)(self._library.address(name))

        self._create, self._set_scratch, self._run = (
            function(n) for n in ("gf_pool_create", "gf_pool_scratch", "gf_run")
        )

    def run(self, record: ctypes.Array[ctypes.c_uint64], threads: int, scratch_bytes: int) -> None:
        """One launch record."""
        with self._lock:
            key = os.getpid(), threads
            if key not in self._pools:
                self._pools[key] = self._create(threads)
            pool = self._pools[key]
            if not pool:
                raise UsageError(f"cannot start {threads} threads")
            stride = -(-max(scratch_bytes, ALIGNMENT) // 128) * 128
            room = stride * threads + ALIGNMENT
            if self._scratch.nbytes < room:
                try:
                    self._scratch = np.empty(room, np.uint8)
                except (MemoryError, ValueError):
                    raise InputError(f"a kernel needs {room} bytes of scratch memory, which is not available") from None
                self._start = -(-address_of(self._scratch) // ALIGNMENT) * ALIGNMENT
            self._set_scratch(pool, self._start, stride)
            self._run(pool, ctypes.addressof(record), 1)


@functools.cache
def _executor() -> _Executor:
    return _Executor()


if hasattr(os, "register_at_fork"):
    # a lock that another thread holds at the fork would stay locked in the child
    os.register_at_fork(after_in_child=_executor.cache_clear)
