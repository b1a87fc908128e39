"""Races between the programs of a grid: who touched which element of the arrays that all of them share.

Programs run in any order and side by side. Two that touch an element, which one of them changes, race, unless both do
so by atomics, or one comes before the other: an `acq_rel` atomic of an element shows all that its program did until
then to those whose `acq_rel` atomics of that element come later. A store that leaves an element as it is changes
nothing: two that store the same are worth a note. Stores that are `relaxed` do not race with atomics. One program's
statements come one after another, but the lanes of one store do not.

An access is a number, by which its program, its statement and its time are found; a program's time goes on when it
releases. Elements keep their last write, the atomic of another program before it, and the last reads of two programs:
the epochs of FastTrack (Flanagan and Freund, PLDI 2009), with room for two of what is in no order. Of three programs
that read an element, a write that comes after the last two of them alone is not found to race with the first.
"""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# numpy's stubs leave most results partly unknown

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from graphfuse.findings import About, CheckError, Finding, Who, finding_of
from graphfuse.interp.elementwise import Array
from graphfuse.interp.roles import Wait
from graphfuse.ir.core import Op

NOTHING = 0
"""The number of no access."""
MOST_TURNS = 1 << 20
"""Of a loop with a condition."""


@dataclass(frozen=True, slots=True)
class Where:
    """The elements that a statement touches: positions in an array, and in the tile of the statement, one each."""

    elements: Array
    lanes: Array
    shape: tuple[int, ...]
    """Of the tile."""


@dataclass(frozen=True, slots=True, eq=False)
class _Statement:
    op: Op | None
    shape: tuple[int, ...]


@dataclass(eq=False, slots=True)
class Program:
    """What one program knows."""

    number: int
    known: Array
    """Until which time, of each program."""
    time: int = 1
    accesses: dict[tuple[Op | None, bool], int] = field(default_factory=dict[tuple[Op | None, bool], int])
    """The numbers of what statements do at this time, by atomics or not."""


class Races:
    """What the programs of one launch did until now to arrays, which have names."""

    def __init__(self, grid: Sequence[int], names: Sequence[str], arrays: Sequence[Array]) -> None:
        self._grid, self._nothing = tuple(grid), np.zeros(math.prod(grid), np.int32)
        self.now = Program(0, self._nothing)
        """The program that runs."""
        self.op: Op | None = None
        """What runs."""
        self.changes = 0
        """How often memory changed."""
        self.notes: dict[Op | None, Finding] = {}
        """Of statements: what is odd, and not wrong."""
        self.waiting: dict[int, Op] = {}
        """The loops that programs go round until another changes something."""
        self.programs, self.times = np.zeros(64, np.int32), np.zeros(64, np.int32)
        """Of each access, by its number."""
        self.atomic = np.zeros(64, np.bool_)
        self.statements = [_Statement(None, ())]
        self._released: dict[tuple[int, int], Array] = {}
        """What is known of programs to who acquires: by array and byte."""
        same: dict[tuple[int, int], Shadow] = {}
        for name, x in zip(names, arrays, strict=True):
            at = int(x.ctypes.data), x.nbytes
            same[at] = same.get(at) or Shadow(self, name, x.size, x.itemsize)
        self.shadows = [same[int(x.ctypes.data), x.nbytes] for x in arrays]
        """Of each array; arrays that are the same memory have one."""

    def begin(self, program: int) -> None:
        """Another program runs, from its beginning."""
        self.now = Program(program, self._nothing)

    def turned(self, loop: Op, turns: int, *, changed: bool, wait: Wait) -> None:
        """The program went round a loop so often. If that changed nothing, others run until something changes."""
        if turns == MOST_TURNS:
            message = f"program {self.now.number} went round this loop {turns} times, and it has not ended"
            raise CheckError(message, loop.loc, About("endless", by=self.who(self.now.number)))
        if changed:
            return
        now, changes = self.now, self.changes
        self.waiting[now.number] = loop
        wait(lambda: self.changes != changes)
        del self.waiting[now.number]
        self.now = now

    def who(self, program: int, at: tuple[int, ...] | None = None) -> Who:
        """A program by its number, axis 0 of the grid fastest, and an element of what its statement touches."""
        return Who(tuple(int(i) for i in np.unravel_index(program, self._grid, order="F")), at=at)

    def deadlock(self) -> CheckError:
        """What is wrong when all programs that are left wait."""
        (first, loop), *more = self.waiting.items()
        who = f"programs {', '.join(map(str, sorted(self.waiting)))} wait" if more else f"program {first} waits"
        about = About("deadlock", by=self.who(first), other=self.who(more[0][0]) if more else None)
        return CheckError(f"deadlock: {who} in this loop for what no program does", loop.loc, about)

    def number(self, shape: tuple[int, ...], *, atomic: bool) -> int:
        """Of the access that the statement makes now."""
        if (found := self.now.accesses.get((self.op, atomic))) is not None:
            return found
        number = len(self.statements)
        if number == len(self.programs):
            self.programs, self.times, self.atomic = (
                np.concatenate([x, np.zeros_like(x)]) for x in (self.programs, self.times, self.atomic)
            )
        self.programs[number], self.times[number], self.atomic[number] = self.now.number, self.now.time, atomic
        self.statements.append(_Statement(self.op, shape))
        self.now.accesses[self.op, atomic] = number
        return number

    def unordered(self, accesses: Array) -> Array:
        """Which of these accesses are of programs that this one knows nothing of."""
        who = self.programs[accesses]
        late = (accesses != NOTHING) & (who != self.now.number)
        return late & (self.now.known[who] < self.times[accesses]) if self._released else late

    def acquire(self, flag: tuple[int, int]) -> None:
        """The program knows what was released at the flag."""
        if (released := self._released.get(flag)) is not None:
            self.now.known = np.maximum(self.now.known, released)

    def release(self, flag: tuple[int, int]) -> None:
        """Who acquires at the flag from now on knows what the program knows and did, beside what was known there."""
        made = self._released[flag] = np.maximum(self.now.known, self._released.get(flag, self._nothing))
        made[self.now.number] = self.now.time
        self.now.time += 1
        self.now.accesses.clear()

    def forget(self, array: int, first: Array) -> None:
        """Flags are overwritten by what releases nothing."""
        if self._released:
            for at in first.tolist():
                self._released.pop((array, at), None)


@dataclass(eq=False, slots=True)
class Seen:
    """The last access of a kind to each unit, and the lane that it was of."""

    verb: str
    accesses: Array
    lanes: Array

    @classmethod
    def nothing(cls, verb: str, count: int) -> Seen:
        """Of so many units."""
        return cls(verb, np.zeros(count, np.int32), np.zeros(count, np.int32))

    def divide(self, count: int) -> None:
        """Each unit becomes so many."""
        self.accesses, self.lanes = np.repeat(self.accesses, count), np.repeat(self.lanes, count)

    def put(self, units: Array, accesses: Array | int, lanes: Array) -> None:
        """These units were touched."""
        self.accesses[units], self.lanes[units] = accesses, lanes


class Shadow:
    """What was done to each element of an array, a parameter called `name`."""

    def __init__(self, races: Races, name: str, count: int, nbytes: int) -> None:
        self.races, self.name, self.nbytes = races, name, nbytes
        self.unit = nbytes
        """Bytes that have a shadow each: the smallest elements that it was touched as."""
        self.writes, self.atomics = Seen.nothing("written", count), Seen.nothing("written", count)
        """The last ones; and the atomic of another program before it, if both are atomics."""
        self.reads, self.others = Seen.nothing("read", count), Seen.nothing("read", count)
        """By the program that read last, and by the one before it."""

    def read(self, where: Where, nbytes: int) -> None:
        """Elements of so many bytes are loaded."""
        touch = self._touch(where, nbytes, "read")
        for seen in (self.writes, self.atomics):
            touch.check(seen, self.races.unordered(seen.accesses[touch.units]))
        self._keep_other(self.reads, self.others, touch.units)
        self.reads.put(touch.units, self.races.number(where.shape, atomic=False), touch.lanes)

    def write(self, where: Where, wanted: Array, old: Array, new: Array, *, relaxed: bool) -> None:
        """Elements are stored: what each lane stores, what was there, and what is there now."""
        if not relaxed:
            self._check_lanes(where, wanted, new)
        touch, races = self._touch(where, old.itemsize, "written", (old, new)), self.races
        changed = touch.changed
        for seen in (self.writes, self.atomics, self.reads, self.others):
            accesses = seen.accesses[touch.units]
            late = races.unordered(accesses) & ~(relaxed & races.atomic[accesses])
            touch.check(seen, late & changed)
            if seen is self.writes and late.any() and races.op not in races.notes:
                races.notes[races.op] = touch.note(seen, late)
        if relaxed:
            self._keep_other(self.writes, self.atomics, touch.units)
        else:
            self.atomics.accesses[touch.units] = NOTHING
        races.forget(id(self), touch.units * self.unit)
        self.writes.put(touch.units, races.number(where.shape, atomic=relaxed), touch.lanes)

    def change(self, where: Where, old: Array, new: Array, *, order: str, apart: bool) -> None:
        """One element is changed by an atomic, which may leave it as it is, and may order programs.

        What is `apart` is one for its own program only.
        """
        touch = self._touch(where, old.itemsize, "changed", (old, new))
        flag = id(self), int(where.elements[0]) * old.itemsize
        if order in ("acquire", "acq_rel") and not apart:
            self.races.acquire(flag)
        for seen in (self.writes, self.atomics)[: 1 + apart]:
            writes = seen.accesses[touch.units]
            touch.check(seen, self.races.unordered(writes) & (apart | ~self.races.atomic[writes]))
        changed = touch.changed
        for seen in (self.reads, self.others):
            touch.check(seen, self.races.unordered(seen.accesses[touch.units]) & changed)
        self._keep_other(self.writes, self.atomics, touch.units)
        self.writes.put(touch.units, self.races.number(where.shape, atomic=not apart), touch.lanes)
        if order in ("release", "acq_rel") and not apart:
            self.races.release(flag)

    def _check_lanes(self, where: Where, wanted: Array, new: Array) -> None:
        """An error if two lanes of a store write different values to one element: one of them is lost."""
        lost = bits(wanted) != bits(new)
        if not lost.any():
            return
        i = int(np.argmax(lost))
        element = where.elements[i]
        kept = int(np.flatnonzero((where.elements == element) & ~lost)[-1])
        mine, other = (_place(int(where.lanes[lane]), where.shape) for lane in (i, kept))
        races, number = self.races, int(element * new.itemsize // self.nbytes)
        by, op = races.now.number, races.op
        raise CheckError(
            f"race: element {number} of {self.name} is written by two lanes of one store:"
            f" {wanted[i]} by{_shown(mine)}, {wanted[kept]} by{_shown(other)}",
            about=About("race", self.name, number, races.who(by, mine), races.who(by, other), op.loc if op else None),
        )

    def _keep_other(self, last: Seen, before: Seen, units: Array) -> None:
        """What another program did last becomes what was before."""
        accesses = last.accesses[units]
        of_another = (accesses != NOTHING) & (self.races.programs[accesses] != self.races.now.number)
        moved = units[of_another]
        before.put(moved, accesses[of_another], last.lanes[moved])

    def _touch(self, where: Where, nbytes: int, verb: str, values: tuple[Array, ...] = ()) -> _Touch:
        if nbytes < self.unit:
            for seen in (self.writes, self.atomics, self.reads, self.others):
                seen.divide(self.unit // nbytes)
            self.unit = nbytes
        each = nbytes // self.unit
        units, lanes = where.elements, where.lanes
        if each > 1:
            units, lanes = (units[:, None] * each + np.arange(each)).reshape(-1), np.repeat(lanes, each)
        return _Touch(self, units, lanes, where.shape, verb, values)


@dataclass(frozen=True, slots=True, eq=False)
class _Touch:
    """What a statement does to some units now."""

    shadow: Shadow
    units: Array
    lanes: Array
    shape: tuple[int, ...]
    verb: str
    values: tuple[Array, ...]
    """Before and now, of the elements."""

    @property
    def changed(self) -> Array:
        """Which units have other bits now."""
        old, new = (np.ascontiguousarray(x).view(f"u{self.shadow.unit}") for x in self.values)
        return old != new

    def check(self, seen: Seen, bad: Array) -> None:
        """An error that says who has `seen` the first bad unit, if there is one."""
        if bad.any():
            raise self._unordered(seen, bad, "race: ", "")

    def note(self, seen: Seen, late: Array) -> Finding:
        """That the first such unit was written in no order, and with the same."""
        error, op = self._unordered(seen, late, "", ", which write the same"), self.shadow.races.op
        return replace(finding_of(error), is_note=True, loc=op.loc if op else None)

    def _unordered(self, seen: Seen, bad: Array, before: str, behind: str) -> CheckError:
        i, shadow = int(np.argmax(bad)), self.shadow
        unit = int(self.units[i])
        access = int(seen.accesses[unit])
        statement = shadow.races.statements[access]
        loc = statement.op.loc if statement.op is not None else None
        mine, other = _place(int(self.lanes[i]), self.shape), _place(int(seen.lanes[unit]), statement.shape)
        numbers = [x[i * len(x) // len(self.units)] for x in self.values]
        told = f" ({numbers[0]} before, {numbers[1]} now)" if numbers else ""
        races, element = shadow.races, unit * shadow.unit // shadow.nbytes
        program = int(races.programs[access])
        return CheckError(
            f"{before}element {element} of {shadow.name} is {self.verb} here{_shown(mine)}{told}, and was {seen.verb}"
            f" by program {program}{_shown(other)}{f' at {loc}' if loc else ''}: nothing orders the two"
            f" programs{behind}",
            about=About(
                "race", shadow.name, element, races.who(races.now.number, mine), races.who(program, other), loc
            ),
        )


def _place(lane: int, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    return tuple(int(i) for i in np.unravel_index(lane, shape)) if shape else None


def _shown(at: tuple[int, ...] | None) -> str:
    return f" [{', '.join(map(str, at))}]" if at is not None else ""


def bits(x: Any) -> Array:
    """Elements as integers: NaN equals itself."""
    return np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}")
