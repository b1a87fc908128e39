"""A plan that runs turn after turn, as the body of a loop: many turns are one call of native code.

Every turn has arguments of its own, as those of a loop inside of a plan have. What it makes is a row of its own, and
what it is given of the turn before is the row before. Which turn is the last is seen when all of a call have run, so
some may run for nothing: for a fifth of the time at most, or a tenth of a millisecond.

Owns that memory and those arguments. What is fed back to what is the caller's to say.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphfuse.artifact import Array
from graphfuse.runtime.bound import Bound
from graphfuse.runtime.native import ALIGN, address_of, aligned_bytes
from graphfuse.runtime.ready import Ready
from graphfuse.runtime.workspace import Workspace

MOST_TURNS = 256
"""Turns of a call."""
MOST_LAUNCHES = 1 << 13
"""Launches of a call: 32 bytes each, and their arguments."""
MOST_BYTES = 1 << 18
"""Of the rows of all turns of a call: what a cache holds. Turns that make more have more to do than Python."""
FEWEST_TURNS = 4
"""Of a call that is worth it."""
FOR_NOTHING_SECONDS, FOR_NOTHING = 1e-4, 0.25
"""What turns may take that nobody may want: seconds, or this part of the time that turns took before."""
UNHEARD_SECONDS = 0.05
"""What a call may take at most: meanwhile nobody can interrupt it."""

Slices = Callable[[int, int], Array]
"""From two turns to what is given to the first and those up to before the second, stacked."""


@dataclass(frozen=True, slots=True)
class Wiring:
    """The inputs and outputs of a plan that is a body, by their numbers.

    `fed` are outputs by the input that has them in the next turn, no output twice; `sliced` the inputs that
    each turn has one of its own of; `stacked` the outputs of which all are kept, not the last alone; `going` the output
    that says whether another turn follows.
    """

    fed: Mapping[int, int]
    sliced: Mapping[int, Slices]
    stacked: Sequence[int]
    going: int | None

    @property
    def key(self) -> object:
        """Equal for what can have the same arguments."""
        return tuple(self.fed.items()), tuple(self.sliced)


@dataclass(frozen=True, slots=True)
class Made:
    """How many turns there were, whether the last said that more should follow, and the outputs."""

    turns: int
    going: bool
    outputs: list[Array]


Spec = tuple[tuple[int, ...], np.dtype[Any]]
"""A tensor's shape and dtype."""


class _Rows:
    """Memory for a tensor of each turn."""

    def __init__(self, count: int, spec: Spec) -> None:
        self.shape, self.dtype = spec
        self.stride = _stride(spec)
        rows = aligned_bytes(count * self.stride).reshape(count, self.stride)
        self.address = address_of(rows)
        self._rows = rows[:, : math.prod(self.shape) * self.dtype.itemsize]

    def get(self, first: int, last: int) -> Array:
        """A copy of rows."""
        return self._rows[first : last + 1].copy().view(self.dtype).reshape(last + 1 - first, *self.shape)

    def put(self, values: Array) -> None:
        """Write the first rows."""
        dense = np.ascontiguousarray(values, self.dtype).reshape(len(values), math.prod(self.shape))
        self._rows[: len(values)] = dense.view(np.uint8)

    def begin_with(self, row: int) -> None:
        """Make a row the first."""
        self._rows[0] = self._rows[row]


def _stride(spec: Spec) -> int:
    nbytes = math.prod(spec[0]) * spec[1].itemsize
    return max(-(-nbytes // ALIGN), 1) * ALIGN


class Turns:
    """The arguments of up to `room` turns of a plan, and its tensors in each. One caller has it at a time."""

    @staticmethod
    def of(bound: Bound, inputs: Sequence[Spec], outputs: Sequence[Spec], wiring: Wiring, most: int) -> Turns | None:
        """None where it is not worth it, or what is fed back has another shape than what it is fed to."""
        if any(outputs[o] != inputs[i] for i, o in wiring.fed.items()):
            return None
        row = sum(_stride(s) for s in (*outputs, *(inputs[i] for i in wiring.sliced)))
        room = min(MOST_TURNS, MOST_BYTES // row, MOST_LAUNCHES // max(len(bound.records), 1))
        return Turns(bound, inputs, outputs, wiring, room) if room >= min(FEWEST_TURNS, most) else None

    def __init__(
        self, bound: Bound, inputs: Sequence[Spec], outputs: Sequence[Spec], wiring: Wiring, room: int
    ) -> None:
        self.room = room
        self._seconds = 0.0
        """What a turn took last time."""
        self._sliced = {i: _Rows(room, inputs[i]) for i in wiring.sliced}
        self._made = [_Rows(room + 1, spec) for spec in outputs]
        """Row 0 was made in the turn before."""
        self._turn = np.arange(room)[:, None]
        self._args = np.tile(bound.args, (room, 1))
        self._records = np.tile(bound.records, (room, 1, 1))
        self._records[:, :, 1] += address_of(self._args) - address_of(bound.args) + bound.args.nbytes * self._turn
        rows = {**self._sliced, **{i: self._made[o] for i, o in wiring.fed.items()}}
        steps = [rows[i].stride if i in rows else 0 for i in range(len(inputs))]
        self._steps = np.array([*steps, *(r.stride for r in self._made)])
        self._rows = rows

    def _place(self, bound: Bound, inputs: Sequence[Array], arena: int, wiring: Wiring) -> None:
        """Write all arguments, and what is fed to the first turn."""
        for i, o in wiring.fed.items():
            self._made[o].put(inputs[i][None])
        address = [self._rows[i].address if i in self._rows else address_of(x) for i, x in enumerate(inputs)]
        address += [r.address + r.stride for r in self._made]
        io = bound.io_index
        self._args[:, bound.io_slots] = np.array(address)[io] + bound.io_offsets + self._steps[io] * self._turn
        self._args[:, bound.arena_slots] = arena + bound.arena_offsets

    def run(
        self,
        workspace: Workspace,
        ready: Ready,
        inputs: Sequence[Array],
        wiring: Wiring,
        most: int,
        look: Callable[[Array], None] | None,
    ) -> Made:
        """Up to so many turns, or until one ends it. `look` gets what turns report, and may raise."""
        self._place(ready.bound, inputs, workspace.arena(ready.peak), wiring)
        records = address_of(self._records)
        pieces: dict[int, list[Array]] = {o: [] for o in wiring.stacked}
        done, seconds, goes_on = 0, 0.0, True
        while goes_on and done < most:
            may_take = UNHEARD_SECONDS if wiring.going is None else max(seconds * FOR_NOTHING, FOR_NOTHING_SECONDS)
            affordable = int(min(may_take, UNHEARD_SECONDS) / self._seconds) if self._seconds else 1
            turns = min(max(affordable, 1), self.room, most - done)
            for i, rows in self._sliced.items():
                rows.put(wiring.sliced[i](done, done + turns))
            started = time.perf_counter()
            workspace.run(records, turns * ready.count, ready.scratch_bytes)
            took = time.perf_counter() - started
            self._seconds, seconds = took / turns, seconds + took
            if wiring.going is not None:
                said = self._made[wiring.going].get(1, turns).reshape(-1)
                if not (goes_on := bool(said.all())):
                    turns = int(said.argmin()) + 1
            if look is not None:
                look(self._made[-1].get(1, turns))
            for o, piece in pieces.items():
                piece.append(self._made[o].get(1, turns))
            for rows in self._made:
                rows.begin_with(turns)
            done += turns
        last = [rows.get(0, 0)[0] for rows in self._made]
        return Made(done, goes_on, [np.concatenate(pieces[o]) if o in pieces else x for o, x in enumerate(last)])
