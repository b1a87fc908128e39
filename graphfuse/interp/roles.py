"""Roles of warps that wait for one another: one runs at a time, until it waits, in an order that never changes."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from graphfuse.errors import InputError
from graphfuse.ir.core import Value


@dataclass(slots=True)
class Barrier:
    """An mbarrier: a phase ends after so many arrivals, and when no byte is missing that was announced."""

    arrivals: int
    missing: int
    """Arrivals."""
    nbytes: int = 0
    phase: int = 0
    """Modulo 2."""

    def arrive(self, count: int = 1, nbytes: int = 0) -> None:
        """So many arrivals, which announce bytes."""
        if count > self.missing:
            found = self.arrivals - self.missing + count
            raise InputError(f"expected {self.arrivals} arrivals of a phase, found {found}")
        self.missing -= count
        self.landed(-nbytes)

    def landed(self, nbytes: int) -> None:
        """So many bytes are there."""
        self.nbytes -= nbytes
        if self.missing == self.nbytes == 0:
            self.phase, self.missing = 1 - self.phase, self.arrivals


Wait: TypeAlias = Callable[[Callable[[], bool]], None]
"""Goes on when a condition holds."""


@dataclass(slots=True)
class Cluster:
    """Blocks that run together. Their roles start when all of them have come to their `warp_specialize`."""

    size: int = 1
    memory: dict[tuple[int, Value], Any] = field(default_factory=dict[tuple[int, Value], Any])
    """Rings of buffers and barriers, by the number of their block."""
    roles: list[Role] = field(default_factory=list["Role"])
    begun: int = 0

    def begin(self, bodies: Sequence[Callable[[Wait], None]]) -> None:
        """A block's roles, each given what it waits with."""
        self.roles += [Role(body) for body in bodies]
        self.begun += 1
        if self.begun == self.size:
            run(self.roles)


def _alone(is_ready: Callable[[], bool]) -> None:
    if not is_ready():
        raise StuckError("a block waits for what nobody does")


@dataclass(frozen=True, slots=True)
class Place:
    """Which warps run: of which block, with which role."""

    cluster: Cluster = field(default_factory=Cluster)
    rank: int = 0
    """The block's number in its cluster."""
    group: int = 0
    """Of those that have the role."""
    groups: int = 1
    warps: int = 4
    """Of a group; of a role that one thread has, 1."""
    wait: Wait = _alone
    left: dict[int, Any] = field(default_factory=dict[int, Any])
    """Tiles that blocks have left, by the number of the block."""


class StuckError(InputError):
    """All wait."""


class _Ended(BaseException):
    """Another role has failed."""


class Role:
    """Runs in a thread of its own, but only between `resume` and its next wait."""

    def __init__(self, body: Callable[[Wait], None]) -> None:
        self._body, self.error, self.is_done = body, None, False
        self.is_ready: Callable[[], bool] = lambda: True
        self._go, self._back = threading.Semaphore(0), threading.Semaphore(0)
        self._is_ended = False
        context = contextvars.copy_context()
        self._thread = threading.Thread(target=context.run, args=(self._main,), daemon=True)

    def resume(self) -> None:
        """Until it waits, or is done; raises what it raises."""
        if self._thread.ident is None:
            self._thread.start()
        self._go.release()
        self._back.acquire()
        if self.error is not None:
            raise self.error

    def end(self) -> None:
        """Whatever it waits for."""
        self._is_ended = True
        self._go.release()
        if self._thread.ident is not None:
            self._thread.join()

    def _main(self) -> None:
        self._go.acquire()
        try:
            with np.errstate(all="ignore"):
                self._body(self._wait)
        except _Ended:
            pass
        except BaseException as e:  # noqa: BLE001  # goes on in the thread that resumed it
            self.error = e
        self.is_done = True
        self._back.release()

    def _wait(self, is_ready: Callable[[], bool]) -> None:
        if is_ready():
            return
        self.is_ready = is_ready
        self._back.release()
        self._go.acquire()
        if self._is_ended:
            raise _Ended


def run(roles: Sequence[Role]) -> None:
    """All to their ends, in turn. Raises StuckError where all that are left wait."""
    left = list(roles)
    try:
        while left:
            role = next((r for r in left if r.is_ready()), None)
            if role is None:
                raise StuckError(f"{len(left)} of {len(roles)} roles wait for what nobody does")
            role.resume()
            if role.is_done:
                left.remove(role)
    finally:
        for role in roles:
            role.end()
