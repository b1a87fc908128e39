"""What runs: lanes of a warp at one place (`Split`), where they come together (`Join`), warps in step (`Gang`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from graphfuse.findings import About
from graphfuse.gpu.emulator.errors import EmulatorError
from graphfuse.gpu.emulator.types import Array

if TYPE_CHECKING:
    from graphfuse.gpu.emulator.machine import Machine

LANES = 32
"""Of a warp."""
FULL: Array = np.ones(LANES, np.bool_)


def mask_of(lanes: int | list[int] | Array) -> Array:
    """Which lanes of a warp are these."""
    mask = np.zeros(LANES, np.bool_)
    mask[lanes] = True
    return mask


@dataclass(eq=False, slots=True)
class Join:
    """Where the sides of a divergent branch meet: it goes on when all lanes in `expected` have `arrived`."""

    pc: int
    expected: Array
    arrived: Array
    parent: Join | None


@dataclass(eq=False, slots=True)
class Split:
    """Some lanes of one warp that execute together. `waits_for` says what a blocked one waits for."""

    warp: int
    pc: int
    mask: Array
    join: Join | None
    waits_for: Callable[[], str] | None = None


class Gang:
    """Splits of different warps at the same instruction, executed as one array [warps, lanes]."""

    __slots__ = ("_active", "full", "machine", "mask", "pc", "rows", "splits", "warps")

    def __init__(self, machine: Machine, splits: list[Split], pc: int) -> None:
        splits.sort(key=_warp_of)
        self.machine, self.splits, self.pc = machine, splits, pc
        self.warps: Array = np.array([s.warp for s in splits])
        n, first = len(splits), splits[0].warp
        contiguous = splits[-1].warp - first == n - 1
        self.rows: Array | slice = slice(first, first + n) if contiguous else self.warps
        self.mask: Array = np.stack([s.mask for s in splits])
        self.full = bool(self.mask.all())
        self._active: tuple[Array, Array] | None = None

    def __len__(self) -> int:
        return len(self.splits)

    def restrict(self, mask: Array) -> None:
        """Go on with these lanes only."""
        self.mask = mask
        self.full = bool(mask.all())
        self._active = None

    def state(self) -> tuple[Array, bool, tuple[Array, Array] | None]:
        """What `restore` puts back."""
        return self.mask, self.full, self._active

    def restore(self, state: tuple[Array, bool, tuple[Array, Array] | None]) -> None:
        """Undo `restrict`."""
        self.mask, self.full, self._active = state

    def _lanes(self) -> tuple[Array, Array]:
        if self._active is None:
            row, lane = np.nonzero(self.mask)
            self._active = self.warps[row], lane
        return self._active

    @property
    def lane_warps(self) -> Array:
        """The warp of each active lane, as one flat array."""
        return self._lanes()[0]

    @property
    def lanes(self) -> Array:
        """The number of each active lane, as one flat array."""
        return self._lanes()[1]

    def who(self, row: int) -> tuple[int, int]:
        """Warp and number of an active lane, by its place among these."""
        return int(self.lane_warps[row]), int(self.lanes[row])

    def error(self, message: str, row: int = 0, about: About | str = "rule") -> EmulatorError:
        """What to raise: what is wrong with an active lane, by its place among these."""
        return self.machine.error(message, self.pc, *self.who(row), about)

    def refuse(self, bad: Array, message: Callable[[int], str], first: int = 0, kind: str = "rule") -> None:
        """Raise what is wrong with the first of the active lanes from `first` on for which `bad` is not zero."""
        if bad.any():
            row = int(np.argmax(bad != 0))
            raise self.error(message(row), first + row, kind)

    @property
    def slots(self) -> Array:
        """The slot of each active lane's CTA, as one flat array."""
        return self.lane_warps // self.machine.layout.warps_per_cta

    def flat(self, x: Array) -> Array:
        """A [warps, lanes] array's values of the active lanes."""
        if x.shape != self.mask.shape:
            x = np.broadcast_to(x, self.mask.shape)
        return x.reshape(-1) if self.full else x[self.mask]

    def spread(self, values: Array) -> Array:
        """The inverse of `flat`; inactive lanes get zero."""
        if self.full:
            return values.reshape(self.mask.shape)
        out = np.zeros(self.mask.shape, values.dtype)
        out[self.mask] = values
        return out


def _warp_of(split: Split) -> int:
    return split.warp


Step = Callable[[Gang], int | None]
"""Executes one instruction: None goes on, a number jumps there, STOP means that the splits know where they go."""

STOP = -1
"""What a `Step` gives if the splits know where they go."""


def no_step(g: Gang) -> None:
    """What has no effect on values."""
