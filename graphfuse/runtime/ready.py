"""A plan at one set of shapes with the arguments of its launches, as one caller writes them before a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from graphfuse.runtime.bound import Bound
from graphfuse.runtime.pieces import Piece, pieces_of

_FEW = 24
"""Up to so many arguments are written faster one by one than by numpy."""


class Ready:
    """A plan at one set of values, and where its intermediate tensors were when its arguments were written."""

    few: Sequence[tuple[int, int, int]] | None
    """By argument that is an input or output: its slot, which one it is, and an offset; None if there are many."""
    args: memoryview[int]
    """The arguments of all launches."""

    def __init__(self, bound: Bound) -> None:
        self.bound, self.arena = bound, -1
        self.peak, self.scratch_bytes = bound.arena.peak, bound.scratch_bytes
        self.records, self.count = bound.records_address, len(bound.records)
        table = zip(bound.io_slots.tolist(), bound.io_index.tolist(), bound.io_offsets.tolist(), strict=True)
        self.few = list(table) if len(bound.io_slots) <= _FEW else None
        # arrays are buffers from Python 3.12 on only, as their types have it
        self.args = memoryview(cast("Any", bound.args))
        self._pieces: tuple[Piece, ...] = ()

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """The launches in pieces."""
        self._pieces = self._pieces or pieces_of(self.bound)
        return self._pieces

    def place(self, addresses: Sequence[int], arena: int) -> None:
        """Write the addresses of inputs and outputs, and those of intermediate tensors if they have moved."""
        if self.few is not None:
            args = self.args
            for slot, index, offset in self.few:
                args[slot] = addresses[index] + offset
        else:
            bound = self.bound
            bound.args[bound.io_slots] = np.array(addresses, np.int64)[bound.io_index] + bound.io_offsets
        self.place_arena(arena)

    def place_arena(self, arena: int) -> None:
        """Write the addresses of intermediate tensors if they have moved."""
        if self.arena != arena:
            bound = self.bound
            bound.args[bound.arena_slots] = arena + bound.arena_offsets
            self.arena = arena
