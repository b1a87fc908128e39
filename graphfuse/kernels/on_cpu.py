"""Launches on the CPU: programs dealt out to threads that all kernels of the process share, a pool for each caller."""

from __future__ import annotations

import ctypes
import functools
import os
import re
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from graphfuse.artifact import Executable
from graphfuse.codegen.debug import failed
from graphfuse.errors import ArtifactError, InputError, Loc, UsageError
from graphfuse.findings import About, CheckError
from graphfuse.kernels import call_ir
from graphfuse.kernels.arguments import Bound
from graphfuse.llvm import codegen
from graphfuse.llvm.executor_ir import executor_ir
from graphfuse.llvm.host import host_target
from graphfuse.llvm.loader import load_object
from graphfuse.runtime.callers import Callers
from graphfuse.runtime.native import EXECUTOR, address_of, why_not_here
from graphfuse.runtime.session import thread_count
from graphfuse.runtime.workspace import most_callers
from graphfuse.symbolic import evaluate

CHUNKS_PER_THREAD = 4
"""Programs differ in length, and threads in speed: the last chunk is a small part of the whole."""
ALIGNMENT = 64
"""Of scratch memory: a line, and a vector of AVX-512."""

_Record = ctypes.c_uint64 * 4
"""A launch as `executor_ir` has it. Arrays of ctypes, as those of numpy take microseconds to make and to find."""


class CpuKernel:
    """A linked kernel. Threads may call it at the same time."""

    def __init__(self, executable: Executable, threads: int | None, *, asserts: bool = False) -> None:
        self._threads = threads
        code = executable.code[executable.target]
        if reason := why_not_here(code, host_target()):
            raise ArtifactError(f"code for {executable.target}: {reason}")
        (self.meta,) = executable.kernels
        names = [self.meta.name, failed(self.meta.name)] if asserts else [self.meta.name]
        self._library = load_object(code.object, names)
        self._address, *words = map(self._library.address, names)
        self._failed = ctypes.c_void_p.from_address(words[0]) if words else None
        scratch = self.meta.scratch_bytes
        is_little = isinstance(scratch, int) and scratch <= call_ir.MOST_SCRATCH and not asserts
        little = scratch if is_little and isinstance(scratch, int) else None
        self.here = None if little is None else call_ir.launcher(self._address, little)
        """Runs all programs on the caller's thread, for a grid and what the arguments are (`host_arguments`)."""

    def launch(self, bound: Bound, extra: Sequence[int], symbols: dict[str, int], programs: int) -> None:
        """Run all programs, and return when they are done."""
        self.run((*bound.slots, *extra), symbols, programs)

    @contextmanager
    def repeated(
        self, bound: Bound, extra: Sequence[int], symbols: dict[str, int], programs: int
    ) -> Generator[Callable[[], None]]:
        """What does one launch again and again."""
        yield lambda: self.launch(bound, extra, symbols, programs)

    def run(self, slots: Sequence[int], symbols: dict[str, int], programs: int) -> None:
        """`launch`, with the sizes of the grid among the slots."""
        if not programs:
            return
        args = (ctypes.c_uint64 * len(slots))(*slots)
        count = thread_count(self._threads)
        chunk = max(1, programs // (count * CHUNKS_PER_THREAD))
        record = _Record(self._address, ctypes.addressof(args), programs, chunk)
        _executor().run(record, count, evaluate(self.meta.scratch_bytes, symbols))
        if self._failed is not None and (message := self._failed.value):
            self._failed.value = None
            raise _assertion(ctypes.string_at(message).decode(errors="replace"))


def _assertion(text: str) -> CheckError:
    """What an assertion of a kernel left."""
    found = re.fullmatch(r"(.*?):(\d+):(\d+): (.*)", text, re.S)
    loc = Loc(found[1], int(found[2]), int(found[3])) if found else None
    return CheckError(found[4] if found else text, loc, About("assertion"))


class _Executor:
    """The native launch loop, and threads for each of several callers at once, by how many they ask for."""

    def __init__(self) -> None:
        host = host_target()
        system = "darwin" if "darwin" in host.triple else "linux"
        self._library = load_object(codegen.object_code(executor_ir(host.arch, system), host), EXECUTOR)
        self._callers: dict[int, Callers[_Pool]] = {}

        def function(name: str) -> Callable[..., Any]:
            result, *arguments = EXECUTOR[name]
            return ctypes.CFUNCTYPE(result, *arguments)(self._library.address(name))

        self.create, self.destroy = function("gf_pool_create"), function("gf_pool_destroy")
        self.set_scratch, self._run = function("gf_pool_scratch"), function("gf_run")

    def run(self, record: ctypes.Array[ctypes.c_uint64], threads: int, scratch_bytes: int) -> None:
        """One launch record."""
        if (callers := self._callers.get(threads)) is None:
            made = Callers(functools.partial(_Pool, self, threads), _Pool.close, most_callers(threads))
            callers = self._callers.setdefault(threads, made)
        pool = callers.take()
        try:
            pool.reserve(scratch_bytes)
            self._run(pool.address, ctypes.addressof(record), 1)
        finally:
            callers.give(pool)


class _Pool:
    """Threads, and scratch memory for each of them. One launch at a time has it."""

    def __init__(self, executor: _Executor, threads: int) -> None:
        self._executor, self._threads = executor, threads
        self.address: int = executor.create(threads)
        if not self.address:
            raise UsageError(f"cannot start {threads} threads")
        self._scratch, self._stride = np.empty(0, np.uint8), 0

    def reserve(self, scratch_bytes: int) -> None:
        """At least so much memory for each thread."""
        stride = -(-max(scratch_bytes, ALIGNMENT) // 128) * 128
        if self._stride >= stride:
            return
        room = stride * self._threads + ALIGNMENT
        try:
            self._scratch = np.empty(room, np.uint8)
        except (MemoryError, ValueError):
            raise InputError(f"a kernel needs {room} bytes of scratch memory, which is not available") from None
        self._stride = stride
        self._executor.set_scratch(self.address, -(-address_of(self._scratch) // ALIGNMENT) * ALIGNMENT, stride)

    def close(self) -> None:
        """Stop the threads."""
        self._executor.destroy(self.address)


_executors: dict[None, _Executor] = {}


def _executor() -> _Executor:
    """One for all callers, first ones too that come at the same time: threads run its code for good."""
    return _executors.get(None) or _executors.setdefault(None, _Executor())


if hasattr(os, "register_at_fork"):
    # a forked process has none of the threads
    os.register_at_fork(after_in_child=_executors.clear)
