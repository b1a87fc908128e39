"""Which few of many things it takes: delta debugging, and a child process in which what may die is tried.

Knows nothing of models.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import pickle
import select
import signal
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")
Fails = Callable[[tuple[T, ...]], bool]


class OutOfTimeError(Exception):
    """There is no time for another try."""


def shortest_prefix(items: tuple[T, ...], fails: Fails[T]) -> tuple[T, ...]:
    """A prefix that fails, found by halving: the shortest where all longer ones fail."""
    low, high = 0, len(items)
    while low < high - 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fails(items[:middle]) else (middle, high)
    return items[:high]


def shortest_suffix(items: tuple[T, ...], fails: Fails[T]) -> tuple[T, ...]:
    """A suffix that fails, found by halving: the shortest where all longer ones fail."""
    low, high = 0, len(items)
    while low < high - 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fails(items[middle:]) else (low, middle)
    return items[low:]


def without_chunks(items: tuple[T, ...], fails: Fails[T]) -> tuple[T, ...]:
    """Items none of which can be left out: chunks are, from half of all down to one, until that changes nothing."""
    size = max(len(items) // 2, 1)
    while len(items) > 1:
        before, at = items, 0
        while at < len(items) and len(items) > 1:
            rest = items[:at] + items[at + size :]
            if rest and fails(rest):
                items = rest
            else:
                at += size
        if size == 1 and items == before:
            break
        size = max(size // 2, 1)
    return items


@dataclass(frozen=True)
class Ended:
    """How a child ended that gave no answer, and whether of its own."""

    how: str
    is_own: bool = True


def in_child(work: Callable[[], Any], seconds: float) -> Any:
    """What a function gives in a child process, which may die of it, or `Ended`; it is killed after so long.

    What it gives is pickled. It prints nothing.
    """
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # of threads: those of libraries, which the child leaves alone
        pid = os.fork()
    if pid == 0:
        _give(work, write)
    os.close(write)
    data, is_late, status = bytearray(), True, 0
    try:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and select.select([read], [], [], left)[0]:
            if not (piece := os.read(read, 1 << 20)):
                is_late = False
                break
            data += piece
    finally:
        os.close(read)
        if is_late:
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
    if is_late:
        return Ended(f"took longer than {seconds:.0f} s", is_own=False)
    if os.WIFSIGNALED(status):
        return Ended(f"died of {signal.Signals(os.WTERMSIG(status)).name}")
    if not data:
        return Ended(f"left with {os.waitstatus_to_exitcode(status)}")
    return pickle.loads(bytes(data))  # noqa: S301  # of this process's own child


def _give(work: Callable[[], Any], write: int) -> None:
    """In the child: never returns."""
    code = 1
    faulthandler.disable()  # where and how it dies is the parent's to say
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        data = memoryview(pickle.dumps(work()))
        while data:
            data = data[os.write(write, data) :]
        code = 0
    except BaseException:  # noqa: BLE001  # the parent is told by the code
        code = 1
    finally:
        with contextlib.suppress(OSError):
            os.close(write)
        os._exit(code)


def chosen_of(items: Sequence[T], fails: Fails[T]) -> tuple[T, ...]:
    """The fewest of these found in this way: shorter from behind, then from the front, then chunks between."""
    found = tuple(items)
    for step in (shortest_prefix, shortest_suffix, without_chunks):
        found = step(found, fails)
    return found
