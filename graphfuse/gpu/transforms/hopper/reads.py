"""What an epilogue reads from memory, begun before its turn: a load takes as long as hundreds of instructions.

As much is on its way as registers have room for, from before the product on.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from graphfuse.gpu.transforms.hopper.epilogue import Axes, Chunk, Clones, Made, MadeKey, Origin
from graphfuse.ir.core import Builder, Value
from graphfuse.ir.layout import LinearLayout

_Load = tuple[tuple[int, int], tuple[Value, Axes, LinearLayout]]
"""Where a part begins, and what `Chunk.tile` is to make of it."""


class Reads:
    """Of an epilogue that goes through `boxes` in parts of a layout's shape; `room` is registers of a thread.

    What is `apart` is read element by element.
    """

    def __init__(
        self,
        first: int,
        boxes: Sequence[tuple[int, int]],
        width: int,
        layout: LinearLayout,
        values: Sequence[Value],
        products: Collection[Value],
        room: int,
        origin: Origin | None = None,
        apart: Collection[Value] = (),
    ) -> None:
        self.first, self.boxes = first, boxes
        self.made: Made = {}
        self._layout, self._values, self._room = layout, values, room
        self._products = {v: v for v in products}
        self._origin, self._apart = origin or Origin(), apart
        rows, columns = layout.shape
        self._size = rows, columns
        starts = [(r, c + at) for r, c in boxes for at in range(0, width, columns)]
        self._parts = [self._of(start) for start in starts]
        """Of each part the key and the registers of every load, and how to make it."""
        self._turn = self._ahead = 0

    def _of(self, start: tuple[int, int]) -> dict[MadeKey, tuple[int, _Load]]:
        chunk = Chunk(Clones(Builder(), {}), self._products, start, self._size, {})
        found: dict[MadeKey, tuple[int, _Load]] = {}
        for value in self._values:
            for place in chunk.loads(value, (0, 1), self._layout):
                found[chunk.key(*place)] = chunk.registers(*place, apart=place[0] in self._apart), (start, place)
        return found

    def go_on(self, clones: Clones) -> None:
        """Before a part's turn: begin to read for it and those after it."""
        self.begin(clones)
        self._turn += 1

    def begin(self, clones: Clones) -> None:
        """Read as far ahead as there is room."""
        while self._ahead < len(self._parts):
            waiting: dict[MadeKey, tuple[int, _Load]] = {}
            for part in self._parts[self._turn : self._ahead + 1]:
                waiting |= part
            if self._ahead > self._turn and sum(n for n, _ in waiting.values()) > self._room:
                return
            for _, (start, place) in self._parts[self._ahead].values():
                Chunk(clones, self._products, start, self._size, self.made, origin=self._origin).tile(*place)
            self._ahead += 1
