"""What each of several callers at once needs for itself, lent for the time of a call.

A loaded model is code, weights and plans, which all callers share. What a call writes (arguments, intermediate tensors,
the state of threads) is a *context*, and a caller has one for itself: its own of last time if that is there, as it is
warm, else any that is idle, else a new one, up to `most`; then it waits. So there are as many as callers were ever at
once. One that was idle in all of `WINDOW` calls is closed, and `close` closes all.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")

WINDOW = 1000
"""Calls after which what none of them needed is closed."""


class Callers(Generic[T]):
    """Contexts that `make` makes, to be taken and given back. In a forked child those that were lent are forgotten."""

    def __init__(self, make: Callable[[], T], close: Callable[[T], None], most: int) -> None:
        self._make, self._close, self._most = make, close, most
        self._idle: list[tuple[int, T]] = []
        """With the thread that each was given back by, the latest last."""
        self._made = self._waiting = self._calls = self._closing = 0
        self._unneeded = most
        self._lock = threading.Lock()
        self._freed = threading.Condition(self._lock)
        watch_forks(self)

    def take(self) -> T:
        """A context that nobody else has until it is given back."""
        me = threading.get_ident()
        with self._lock:
            idle = self._idle
            while self._closing or (not idle and self._made >= self._most):
                self._wait()
            if idle:
                last = idle.pop() if idle[-1][0] == me else self._best(me)
                if len(idle) < self._unneeded:
                    self._unneeded = len(idle)
                return last[1]
            self._made += 1
            self._unneeded = 0
        try:
            return self._make()
        except BaseException:
            with self._lock:
                self._made -= 1
                self._freed.notify()
            raise

    def give(self, context: T) -> None:
        """Back from a call."""
        me, dropped = threading.get_ident(), ()
        with self._lock:
            self._idle.append((me, context))
            self._calls += 1
            if self._calls >= WINDOW or self._made > self._most:
                dropped = self._trimmed()
            if self._waiting:
                self._freed.notify_all()
        for old in dropped:
            self._close(old)

    def limit(self, most: int) -> None:
        """Change how many there may be; those that are too many go as they come back."""
        with self._lock:
            self._most = most
            self._freed.notify_all()

    def close(self, shared: Callable[[], None] | None = None) -> None:
        """Close all, once every call has ended, then what they share; a later call makes them anew."""
        with self._lock:
            self._closing += 1
            try:
                while len(self._idle) < self._made:
                    self._wait()
                for context in self._taken_out(len(self._idle)):
                    self._close(context)
                if shared is not None:
                    shared()
            finally:
                self._closing -= 1
                self._freed.notify_all()

    def close_idle(self) -> None:
        """Close what no call has."""
        with self._lock:
            closed = self._taken_out(len(self._idle))
        for context in closed:
            self._close(context)

    @property
    def idle(self) -> list[T]:
        """Those that no call has, the one given back last at the end."""
        return [context for _, context in self._idle]

    def after_fork(self) -> None:
        """In a forked child: the parent's other threads are gone, with what they had."""
        self._lock = threading.Lock()
        self._freed = threading.Condition(self._lock)
        self._made, self._waiting, self._closing = len(self._idle), 0, 0

    def _best(self, me: int) -> tuple[int, T]:
        """This thread's, or else the one given back last."""
        mine = (i for i, (thread, _) in enumerate(self._idle) if thread == me)
        return self._idle.pop(next(mine, -1))

    def _trimmed(self) -> list[T]:
        """What is to be closed: more than there may be, or idle in all of a window's calls."""
        unneeded = self._unneeded if self._calls >= WINDOW else 0
        out = self._taken_out(max(unneeded, self._made - self._most))
        self._calls, self._unneeded = 0, len(self._idle)
        return out

    def _wait(self) -> None:
        self._waiting += 1
        try:
            self._freed.wait()
        finally:
            self._waiting -= 1

    def _taken_out(self, count: int) -> list[T]:
        """The first `count` of those idle, no longer counted."""
        out = [context for _, context in self._idle[:count]]
        del self._idle[:count]
        self._made -= len(out)
        return out


class Forked(Protocol):
    """What must know that it is in a forked child."""

    def after_fork(self) -> None:
        """The parent's other threads are gone."""
        ...


_watched: weakref.WeakSet[Forked] = weakref.WeakSet()


def watch_forks(thing: Forked) -> None:
    """Tell it in forked children, as long as it lives."""
    _watched.add(thing)


def _after_fork() -> None:
    for thing in list(_watched):
        thing.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
