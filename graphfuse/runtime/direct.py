"""Runs executables on bare addresses, for callers that know shapes and own all inputs and outputs.

`Session` serves one model. Here many small executables, such as the parts of one program, share threads, the memory
of intermediate tensors, and one lock: they run one after the other.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from graphfuse.artifact import Array, Executable
from graphfuse.errors import InputError, UsageError
from graphfuse.runtime.bound import Bound, Template
from graphfuse.runtime.native import NativeCode, address_of

MAX_BOUND = 256
"""How many sets of symbol values an executable remembers."""
_ALIGN = 64
_FEW = 24
"""Up to so many arguments are written faster one by one than by numpy."""


class Workspace:
    """Threads and memory. In a forked child threads are started anew."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.lock = threading.Lock()
        self._native: NativeCode | None = None
        self._launch: Callable[[int, int, int], int]
        self._pool = 0
        self._arena: Array = np.empty(0, np.uint8)
        self._scratch: Array = np.empty(0, np.uint8)
        self._stride = 0
        self.arena_address = 0
        _workspaces.add(self)

    def after_fork(self) -> None:
        """In a forked child: the parent's threads are gone, and a lock one of them held stays locked."""
        self.lock = threading.Lock()
        self._pool = 0

    def adopt(self, native: NativeCode) -> None:
        """Linked code that has an executor; the first one's is used from then on."""
        with self.lock:
            self._native = self._native or native

    def run(self, records: int, count: int, scratch_bytes: int) -> None:
        """Run `count` launches at an address, whose arguments are complete. The caller holds the lock."""
        if not self._pool or self._stride < scratch_bytes:
            self._prepare(scratch_bytes)
        self._launch(self._pool, records, count)

    def _prepare(self, scratch_bytes: int) -> None:
        """Threads, with so much scratch memory each."""
        native = self._native
        assert native is not None, "an executable was adopted before it runs"
        if not self._pool:
            self._pool = native.pool_create(self.threads)
            if not self._pool:
                raise UsageError(f"cannot start {self.threads} threads")
            self._stride, self._launch = 0, native.run
        if self._stride < scratch_bytes or not self._stride:
            self._stride = -(-max(scratch_bytes, self._stride, _ALIGN) // 128) * 128
            self._scratch = _bytes(self._stride * self.threads)
            native.pool_scratch(self._pool, _aligned(self._scratch), self._stride)

    def arena(self, nbytes: int) -> int:
        """The address of at least so many bytes, which only lasts until the next call."""
        if self._arena.nbytes < nbytes + _ALIGN:
            self._arena = _bytes(nbytes)
            self.arena_address = _aligned(self._arena)
        return self.arena_address


_workspaces: weakref.WeakSet[Workspace] = weakref.WeakSet()


def _after_fork() -> None:
    for workspace in list(_workspaces):
        workspace.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class _Ready:
    """A plan at one set of values, and where its intermediate tensors were when its arguments were written."""

    def __init__(self, bound: Bound) -> None:
        self.bound, self.arena = bound, -1
        self.peak, self.scratch_bytes = bound.arena.peak, bound.scratch_bytes
        self.records, self.count = bound.records_address, len(bound.records)
        table = zip(bound.io_slots.tolist(), bound.io_index.tolist(), bound.io_offsets.tolist(), strict=True)
        self._few = list(table) if len(bound.io_slots) <= _FEW else None
        # arrays are buffers from Python 3.12 on only, as their types have it
        self._args = memoryview(cast("Any", bound.args))

    def place(self, addresses: Sequence[int], arena: int) -> None:
        """Write the addresses of inputs and outputs, and those of intermediate tensors if they have moved."""
        if self._few is not None:
            args = self._args
            for slot, index, offset in self._few:
                args[slot] = addresses[index] + offset
        else:
            bound = self.bound
            bound.args[bound.io_slots] = np.array(addresses, np.int64)[bound.io_index] + bound.io_offsets
        if self.arena != arena:
            bound = self.bound
            bound.args[bound.arena_slots] = arena + bound.arena_offsets
            self.arena = arena


class Direct:
    """An executable in a workspace. Symbol values are given in the order of the signature's dims."""

    def __init__(self, executable: Executable, workspace: Workspace) -> None:
        self.executable = executable
        self.symbols = tuple(name for name, _, _ in executable.signature.dims)
        self._workspace = workspace
        self._native = NativeCode(executable)
        workspace.adopt(self._native)
        self._template = Template(executable)
        self._kernels = [self._native.kernels[k.name] for k in executable.kernels]
        self._ready: OrderedDict[tuple[int, ...], _Ready] = OrderedDict()

    def run(self, values: tuple[int, ...], addresses: Sequence[int]) -> None:
        """Run on the addresses of dense inputs, then outputs."""
        workspace = self._workspace
        with workspace.lock:
            ready = self._ready.get(values) or self._bind(values)
            ready.place(addresses, workspace.arena(ready.peak) if ready.peak else 0)
            workspace.run(ready.records, ready.count, ready.scratch_bytes)

    def _bind(self, values: tuple[int, ...]) -> _Ready:
        named = dict(zip(self.symbols, values, strict=True))
        made = self._ready[values] = _Ready(self._template.bind(named, self._kernels, self._workspace.threads))
        if len(self._ready) > MAX_BOUND:
            self._ready.popitem(last=False)
        return made


def _bytes(nbytes: int) -> Array:
    try:
        return np.empty(nbytes + _ALIGN, np.uint8)
    except (MemoryError, ValueError):
        raise InputError(f"intermediate tensors need {nbytes} bytes of memory, which is not available") from None


def _aligned(array: Array) -> int:
    return -(-address_of(array) // _ALIGN) * _ALIGN
