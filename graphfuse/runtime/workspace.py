"""What kernels run on and in: a native pool of threads, scratch memory for each, and memory for intermediate tensors.

One run at a time has it: a session lends each of its callers one (`workspaces`); many small executables share some
(`Shared`).
"""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from collections.abc import Callable

import numpy as np

from graphfuse.artifact import Array
from graphfuse.errors import InputError, UsageError
from graphfuse.llvm.host import available_cores
from graphfuse.runtime.bound import Template
from graphfuse.runtime.callers import Callers, watch_forks
from graphfuse.runtime.native import ALIGN, NativeCode, address_of, aligned_bytes
from graphfuse.runtime.ready import Ready


class Workspace:
    """Threads and memory, taken when first needed. In a forked child threads are started anew."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.lock = threading.Lock()
        """Its holder's, where it is nobody's by `Callers`."""
        self._native: NativeCode | None = None
        self._launch: Callable[[int, int, int], int]
        self._pool = 0
        self._scratch = aligned_bytes(0)
        self._stride = 0
        self._arena = aligned_bytes(0)
        self._arena_address = address_of(self._arena)
        self.ready: dict[Template, OrderedDict[tuple[tuple[int, ...], ...], Ready]] = {}
        """Plans by shapes whose arguments the holder writes."""
        watch_forks(self)

    def adopt(self, native: NativeCode) -> None:
        """Linked code that has an executor; the first one's is used from then on. The caller holds it."""
        self._native = self._native or native

    def run(self, records: int, count: int, scratch_bytes: int) -> None:
        """Run `count` launches at an address, whose arguments are complete. The caller holds it."""
        if not self._pool or self._stride < scratch_bytes:
            self._prepare(scratch_bytes)
        self._launch(self._pool, records, count)

    def profile(self, records: int, count: int, scratch_bytes: int) -> list[int]:
        """As `run`; the nanoseconds of each launch."""
        ns = np.zeros(max(count, 1), np.int64)
        self._prepare(scratch_bytes).run_profiled(self._pool, records, count, address_of(ns))
        return ns[:count].tolist()

    def arena(self, nbytes: int) -> int:
        """The address of at least so many bytes, which only lasts until the next call. The caller holds it."""
        if self._arena.nbytes < nbytes:
            self._arena = _taken(nbytes)
            self._arena_address = address_of(self._arena)
        return self._arena_address

    def close(self) -> None:
        """Stop the threads and free the memory; a later run takes them again. The caller holds it."""
        pool, self._pool = self._pool, 0
        if pool:
            assert self._native is not None
            self._native.pool_destroy(pool)
        self._scratch = self._arena = aligned_bytes(0)
        self._arena_address = address_of(self._arena)
        self.ready.clear()

    def after_fork(self) -> None:
        """In a forked child: the parent's threads are gone, and a lock one of them held stays locked."""
        self.lock = threading.Lock()
        self._pool = 0

    def _prepare(self, scratch_bytes: int) -> NativeCode:
        """Threads, with so much scratch memory each."""
        native = self._native
        assert native is not None, "an executable was adopted before it runs"
        if not self._pool:
            self._pool = native.pool_create(self.threads)
            if not self._pool:
                raise UsageError(f"cannot start {self.threads} threads")
            self._stride, self._launch = 0, native.run
        if self._stride < scratch_bytes or not self._stride:
            stride = -(-max(scratch_bytes, ALIGN) // 128) * 128
            if self._scratch.nbytes < stride * self.threads:
                self._scratch = _taken(stride * self.threads)
            native.pool_scratch(self._pool, address_of(self._scratch), stride)
            self._stride = stride
        return native


def workspaces(threads: int) -> Callers[Workspace]:
    """One for each caller at once, up to `most_callers`."""
    return Callers(functools.partial(Workspace, threads), Workspace.close, most_callers(threads))


class Shared:
    """Workspaces for many small executables: a caller alone has `home`, which takes no more than a lock."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.home = Workspace(threads)
        self._others = workspaces(threads)

    def take(self) -> Workspace:
        """A workspace that nobody else has until it is given back."""
        home = self.home
        return home if home.lock.acquire(blocking=False) else self._others.take()

    def give(self, workspace: Workspace) -> None:
        """Back from a call."""
        if workspace is self.home:
            workspace.lock.release()
        else:
            self._others.give(workspace)


def most_callers(threads: int) -> int:
    """As many callers as have, all together, twice as many threads as there are cores; two at least."""
    return max(2 * available_cores() // threads, 2)


def _taken(nbytes: int) -> Array:
    try:
        return aligned_bytes(nbytes)
    except (MemoryError, ValueError):
        raise InputError(f"these shapes need {nbytes} bytes of memory, which is not available") from None
