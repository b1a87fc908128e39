"""Asynchronous operations that complete on their own: as late as can be, or a random while after their start."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

NEVER = 1 << 62
"""A round that no kernel reaches."""
POLLS = 1000
"""Rounds after which an operation completes where warps never stop, because they poll global memory."""


@dataclass(frozen=True, slots=True)
class Event:
    """`fire` completes the operation; due at a scheduler round, or when nothing else can run."""

    due: int
    slot: int
    what: str
    fire: Callable[[], None]


class Events:
    """What is in flight."""

    def __init__(self, rng: np.random.Generator, *, polls: bool = False) -> None:
        self.latest = POLLS if polls else NEVER
        self.rng, self.pending, self.next_due, self.round = rng, list[Event](), NEVER, 0

    def start(self, slot: int, what: str, fire: Callable[[], None]) -> None:
        """Begin an operation; half of them complete only when every warp waits, or late if warps wait by polling."""
        late = self.rng.random() < 0.5
        due = min(self.round + self.latest, NEVER) if late else self.round + int(self.rng.integers(1, 200))
        self.pending.append(Event(due, slot, what, fire))
        self.next_due = min(self.next_due, due)

    def tick(self) -> None:
        """A scheduler round went by."""
        self.round += 1
        if self.round < self.next_due:
            return
        due = [e for e in self.pending if e.due <= self.round]
        self.pending = [e for e in self.pending if e.due > self.round]
        self.next_due = min((e.due for e in self.pending), default=NEVER)
        for i in self.rng.permutation(len(due)):
            due[i].fire()

    def fire_one(self) -> bool:
        """Complete one at random; False if there is none."""
        if not self.pending:
            return False
        self.pending.pop(int(self.rng.integers(len(self.pending)))).fire()
        return True


Key = TypeVar("Key")
Item = TypeVar("Item")


class Groups(Generic[Key, Item]):
    """Operations that are committed in groups and waited for: of each who waits the open group and those committed."""

    def __init__(self) -> None:
        self.open = defaultdict[Key, list[Item]](list)
        self.committed = defaultdict[Key, list[list[Item]]](list)

    def commit(self, key: Key) -> None:
        """End the open group."""
        self.committed[key].append(self.open.pop(key, []))

    def due(self, key: Key, keep: int) -> list[Item]:
        """What all but the last groups hold."""
        groups = self.committed.get(key, [])
        return list(itertools.chain(*groups[: max(len(groups) - keep, 0)]))

    def drop(self, key: Key, keep: int) -> None:
        """Forget all but the last groups."""
        if groups := self.committed.get(key):
            del groups[: max(len(groups) - keep, 0)]
