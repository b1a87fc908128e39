"""Emits a program of a contraction slab by slab of k: what is read for many tiles stays in the caches meanwhile.

The order of loops is that of Goto and van de Geijn (Anatomy of High-Performance Matrix Multiplication, 2008):

    sums = 0                                      of all tiles of the program, in program-local memory
    for slab of k:
      (rows of lhs are packed, tile by tile: with the sums, they stay in the second-level cache)
      for panel of columns:                       (packed; a slab of it stays in the first-level cache)
        for tile of rows:
          sums[panel, tile] += lhs[rows, slab] @ rhs[slab, panel]
    for panel, for tile: epilogue on the sums, store

A tile's sums are its own: what is moved back over places of another one is not added to that one's. Where one slab
is all of k, and only packed, there are no sums in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from graphfuse.blockgen.evaluate import Lane, Leaf, accumulator, lane_over
from graphfuse.blockgen.index import Index, linear, strides_of
from graphfuse.blockgen.kernel import element_of
from graphfuse.blockgen.loops import Carried, for_row_tiles, nest
from graphfuse.blockgen.products import Depth, in_chunks, pack_panel
from graphfuse.blockgen.tiling import Slabs
from graphfuse.blockgen.words import PAIR, SIDE, in_lines, pack_words
from graphfuse.dialects import block
from graphfuse.ir.core import Value
from graphfuse.ir.types import Scalar
from graphfuse.symbolic import Dim, product, static, sym

if TYPE_CHECKING:
    from graphfuse.blockgen.contraction import ContractionKernel


@dataclass(frozen=True)
class Tiles:
    """The tiles of one program: `panels` at most, each of so many tiles of `rows`, or of block `i` of `n` rows."""

    at: Index
    """Along the other dims."""
    panels: int
    each_panel: Callable[[Callable[[Dim, Dim], None]], None]
    """Runs `body(panel, place among the program's)`."""
    block_rows: tuple[Dim, int] | None
    count: Dim


@dataclass(frozen=True)
class _Place:
    """A tile: its first column and row, and its place among those of the program."""

    column: Dim
    row: Dim
    slot: Index


def emit_by_slabs(contraction: ContractionKernel, slabs: Slabs, tiles: Tiles) -> None:
    """All tiles of a program."""
    _Program(contraction, slabs, tiles).emit()


STREAMS = 8
"""Rows of memory that are read side by side: as many as a processor surely sees to be read in order."""


class _Program:
    def __init__(self, contraction: ContractionKernel, slabs: Slabs, tiles: Tiles) -> None:
        self.contraction = contraction
        self.kernel = contraction.kernel
        self.slabs, self.tiles = slabs, tiles
        elem = accumulator(element_of(contraction.work.result))
        shape = (tiles.panels, tiles.count, contraction.tile.rows, contraction.width)
        self.sums = None if slabs.is_one else self._local(shape, elem)

    def emit(self) -> None:
        """Slabs, and what is before and behind them."""
        slabs, sums = self.slabs, self.sums
        if sums is None:
            self._slab((), 0, slabs.size)
            return
        elem = block.pointed_to(sums.pointer)
        zero = self.kernel.ev.const(0.0 if elem.is_float else 0, elem, tuple(map(static, sums.shape[2:])))
        self._each_tile(lambda place: self._keep(sums, place, zero))
        outer, (extent, *_) = slabs.extents[: slabs.level], slabs.extents[slabs.level :]

        def along(at: Index, _: Carried) -> None:
            self.kernel.ev.loop("s", extent // slabs.size, lambda s, _: self._slab(at, s * slabs.size, slabs.size))
            if rest := extent % slabs.size:
                self._slab(at, extent - rest, rest)

        nest(self.kernel.ev, outer, along)
        store, at = self.contraction.store_kept, self.tiles.at
        self._each_tile(lambda place: store(at, place.row, place.column, sums, place.slot))

    def _slab(self, outer: Index, start: Dim, size: int) -> None:
        """The products of one slab."""
        contraction, slabs = self.contraction, self.slabs
        extents = (size, *slabs.extents[slabs.level + 1 :])
        depth = contraction.depth(extents, lambda at: (*outer, start + at[0], *at[1:]))
        rows = self._pack_rows(depth) if contraction.packs_rows else None

        def multiply(place: _Place, panel: Leaf | None) -> None:
            row_lane, lanes, index = self._tile(place)
            packed = None if panel is None else contraction.packed_at(panel, sym(lanes.name))
            packed_row = None if rows is None else self._packed_row(rows, place, row_lane)
            start = None if (sums := self.sums) is None else lambda: self._kept(sums, place)
            acc = contraction.accumulate(index, row_lane, lanes, depth, packed, packed_row, start)
            if sums is None:
                contraction.store(self.tiles.at, place.row, place.column, acc)
            else:
                self._keep(sums, place, acc)

        panels = self._pack_panels(depth) if contraction.streams_panels else None

        def panel(number: Dim, slot: Dim) -> None:
            first = contraction.first_column(number)
            packed = contraction.packed(first, self.tiles.at, depth) if panels is None else panels(slot, 0)
            self._along_rows(first, slot, lambda place: multiply(place, packed))

        self.tiles.each_panel(panel)

    def _pack_rows(self, depth: Depth) -> Leaf:
        """The program's rows of lhs as [tile, depth, row]; words as [tile, row, depth]."""
        contraction = self.contraction
        work, height, words = contraction.word_work.swapped(), contraction.tile.rows, contraction.words
        depth = depth if words is None else in_lines(depth)
        shape = (depth.total, height) if words is None else (height, depth.total)
        wide = words is not None or contraction.widens
        leaf = self._local((self.tiles.count, *shape), contraction.panel_elem if wide else element_of(work.rhs))
        dense = contraction.rows_are_dense if words is None else not words.rows_along_k

        def some(steps: Depth, first: Dim) -> None:
            def tile(place: _Place) -> None:
                lane, row = lane_over(self.kernel.space, height, place.row)
                index = contraction.position(self.tiles.at, row, 0)
                to = self._packed_row(leaf, place, lane, first)
                if words is not None:
                    pack_words(self.kernel, work, index, lane, steps, to, along_k=words.rows_along_k, rows_first=True)
                    return
                turned = 0 if dense else self.kernel.machine.lanes(element_of(work.rhs))
                pack_panel(self.kernel, work, index, lane, steps, to, together=turned)

            self._along_rows(0, 0, tile)

        if dense:
            in_chunks(self.kernel, depth, STREAMS if words is None else PAIR * SIDE, some)
        else:
            some(depth, 0)
        return leaf

    def _pack_panels(self, depth: Depth) -> Callable[[Dim, Dim], Leaf]:
        """The program's panels as [panel, depth, column]; where one is, from a step on."""
        contraction, tiles = self.contraction, self.tiles
        shape = (depth.total, contraction.width)
        panels = self._local((tiles.panels, *shape), contraction.panel_elem)

        def place(slot: Dim, step: Dim) -> Leaf:
            offset = linear((slot, step), panels.strides[:2])
            return replace(panels, strides=panels.strides[1:], shape=shape, offset=offset)

        def some(steps: Depth, step: Dim) -> None:
            first = contraction.first_column
            tiles.each_panel(lambda number, slot: contraction.pack(first(number), tiles.at, steps, place(slot, step)))

        in_chunks(self.kernel, depth, STREAMS, some)
        return place

    def _packed_row(self, rows: Leaf, place: _Place, lane: Lane, first: Dim = 0) -> Callable[[Dim], tuple[Leaf, Index]]:
        """Where packed rows hold step k of those from `first` on."""
        slot, row = place.slot[1], sym(lane.name)
        if self.contraction.words is not None:
            return lambda k: (rows, (slot, row, first + k))
        return lambda k: (rows, (slot, first + k, row))

    # tiles

    def _each_tile(self, body: Callable[[_Place], None]) -> None:
        first = self.contraction.first_column
        self.tiles.each_panel(lambda number, slot: self._along_rows(first(number), slot, body))

    def _along_rows(self, column: Dim, slot: Dim, body: Callable[[_Place], None]) -> None:
        contraction = self.contraction

        def tile(row: Dim, _: int, number: Dim) -> None:
            body(_Place(column, row, (slot, number)))

        for_row_tiles(self.kernel, contraction.rows, contraction.tile.rows, self.tiles.block_rows, tile)

    def _tile(self, place: _Place) -> tuple[Lane, Lane, Index]:
        """The lanes of a tile, and its index."""
        rows, row = lane_over(self.kernel.space, self.contraction.tile.rows, place.row)
        lanes, column = self.contraction.lane(place.column)
        return rows, lanes, self.contraction.position(self.tiles.at, row, column)

    # sums in memory

    def _local(self, shape: tuple[Dim, ...], elem: Scalar) -> Leaf:
        pointer = self.kernel.ev.emit(block.alloc, elem=elem, count=product(shape))
        return Leaf(pointer, strides_of(shape), shape)

    def _lanes(self) -> tuple[Lane, Lane]:
        """Of a tile, without limits: sums of what does not exist are there, too."""
        contraction, space = self.contraction, self.kernel.space
        return lane_over(space, contraction.tile.rows, 0)[0], lane_over(space, contraction.width, 0)[0]

    def _kept(self, sums: Leaf, place: _Place) -> Value:
        """A tile's sums so far."""
        lanes = self._lanes()
        with self.kernel.ev.lanes_as(*lanes):
            return self.kernel.ev.load(sums, (*place.slot, *(sym(lane.name) for lane in lanes)))

    def _keep(self, sums: Leaf, place: _Place, value: Value) -> None:
        lanes = self._lanes()
        with self.kernel.ev.lanes_as(*lanes):
            self.kernel.ev.store(sums, (*place.slot, *(sym(lane.name) for lane in lanes)), value)
