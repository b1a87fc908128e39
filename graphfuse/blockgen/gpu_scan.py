"""Emits running sums for GPUs: a program has a tile [lines, line] or [line, lines], whichever way memory runs.

A part of a line that fits the registers of a block is one tile; a longer one is walked in chunks, and the total of what
lies before a chunk is carried. Of few lines that are a little longer than that, programs have parts, and each reads
what lies before its own: that takes less time than a second kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from graphfuse.blockgen.access import Accesses, Merged, Walk, merged_index
from graphfuse.blockgen.evaluate import Lane, accumulator, lane_over
from graphfuse.blockgen.gpu_tiles import (
    at_most,
    fitting,
    in_chunks,
    in_whole_or_part,
    lane_along,
    lines_of_program,
    power_of_two,
    tiled_programs,
    warps_for,
    whole_tiles,
)
from graphfuse.blockgen.index import Index
from graphfuse.blockgen.kernel import Kernel, element_of, positions
from graphfuse.blockgen.loops import Carried, Fold, across, scan_tile
from graphfuse.blockgen.movement import shape_of
from graphfuse.blockgen.scans import Scan
from graphfuse.dialects import block, graph
from graphfuse.dialects.elementwise import DEAR_KINDS, ROUNDED_KINDS
from graphfuse.ir.core import Func, Value
from graphfuse.symbolic import Dim, static, symbols
from graphfuse.targets.machine import WARP

LONGEST_TILE = 16384
"""Elements of a line that is held in registers, of up to 4 bytes each."""
LEAST_TILE = 2048
"""Elements of a program's tile that short lines are put together to."""
CHUNK = 4096
"""Elements of a tile of lines that are not held whole."""
MOST_READ_AGAIN = 8
"""Chunks of a line whose programs read all of it that lies before their own."""
NEIGHBOURS = 32
"""Lines side by side in memory that a tile has at least, if there are so many."""
FEW_NEIGHBOURS = 8
"""The same of long lines, where what is done to elements takes longer than to read sectors: logcumsumexp of 2288 lines
of 2040 side by side takes 71 us on an H200, 78 with 16 and 130 with 32 (`benchmarks.population`)."""


def emit(kernel: Kernel) -> Func:
    """A program for each tile of lines and each of their parts."""
    (op,) = (op for op in kernel.body.ops if op.kind is graph.cumulate)
    return _Lines(kernel, in_parts(kernel, Scan.of(op))).emit()


def in_parts(kernel: Kernel, scan: Scan) -> Scan:
    """With parts whose programs read what lies before them, if a line is worth them."""
    lines = at_most(positions(scan.outer), kernel.space.ranges)
    is_last = all(d == 1 for d in scan.outer[scan.axis :])
    fits = isinstance(scan.size, int) and LONGEST_TILE < scan.size <= MOST_READ_AGAIN * CHUNK
    few = 2 * lines <= kernel.machine.multiprocessors and scan.kind not in DEAR_KINDS
    return replace(scan, part=CHUNK) if scan.parts == 1 and is_last and fits and few else scan


class _Lines:
    """One region: the dims beside the axis, merged, and the innermost of them in lanes."""

    def __init__(self, kernel: Kernel, scan: Scan) -> None:
        self.kernel, self.scan, self.x = kernel, scan, scan.op.operands[0]
        self.elem = element_of(self.x)
        self.wide = accumulator(self.elem) if scan.kind in ROUNDED_KINDS else self.elem
        self.shape = shape_of(scan.op.result)
        self.dims = self._merged()
        self.extents = [d.extent for d in self.dims]
        self.columns = bool(self.dims) and self.dims[-1].first > scan.axis
        """Whether memory is contiguous along what is kept."""

    def _merged(self) -> list[Merged]:
        kernel, axis = self.kernel, self.scan.axis

        def walk(index: Index) -> Accesses:
            analysis = kernel.accesses(index, self.shape, [self.scan.op.result])
            analysis.visit(self.x, index)
            return analysis.found

        dims = Walk.over(kernel.space, self.shape, walk).merge([axis, axis + 1])
        return [d for d in dims if d.first != axis]

    def emit(self) -> Func:
        """The kernel."""
        kernel, scan = self.kernel, self.scan
        high, wide, is_tile = self._tile()
        last = len(self.extents) - 1
        grid, lanes, (*at, part) = tiled_programs(kernel, [*self.extents, scan.parts], {last: high} if high > 1 else {})
        first, end = scan.places(part)
        length = scan.part if scan.parts == 1 or whole_tiles(scan.size, scan.part) else end - first
        if is_tile:
            along, place = lane_along(kernel, length, wide, 0)
            in_whole_or_part(kernel, self._ordered(lanes, along), lambda: self._held(at, part, first + place))
        else:
            in_whole_or_part(kernel, lanes, lambda: self._walk(at, part, first, length, wide))
        warps = warps_for(high * wide, self._per_thread(high, wide, is_tile=is_tile), 16)
        return kernel.finish(grid, 1 + at_most(scan.part, kernel.space.ranges) * high, {"warps": warps})

    def _per_thread(self, high: int, wide: int, *, is_tile: bool) -> int:
        """Elements: of few short lines side by side one of them, else several, for vectors of neighbours."""
        if is_tile and self.scan.kind in DEAR_KINDS and wide > 16:
            return 4
        lines = at_most(positions([*self.extents, self.scan.parts]), self.kernel.space.ranges)
        is_few = lines * wide < LEAST_TILE * self.kernel.machine.multiprocessors
        if self.columns and is_tile and is_few and high >= WARP:
            return min(wide, 16)
        return 16 if is_tile or self.columns else 8

    def _tile(self) -> tuple[int, int, bool]:
        """Its lines, their elements, and whether these are a whole part of a line."""
        ranges, is_known = self.kernel.space.ranges, isinstance(self.scan.part, int)
        size = max(2, power_of_two(at_most(self.scan.part, ranges)))
        room = 4 / max(4, self.wide.bytes)
        if self.columns:
            lines = positions([*self.extents, self.scan.parts])
            most = int(2 * CHUNK * room)
            is_dear = self.scan.kind in DEAR_KINDS and size * NEIGHBOURS > most
            least = FEW_NEIGHBOURS if is_dear else NEIGHBOURS
            high = fitting(self.extents[-1], least, 2 * least, ranges)
            wide = min(size, most // high)
            most = max(least, lines_of_program(self.kernel, lines, wide, LEAST_TILE))
            high = fitting(self.extents[-1], min(high, most), most, ranges)
            return high, wide, is_known and wide == size
        if not is_known or size > LONGEST_TILE * room:
            return 1, min(size, CHUNK), False
        if not self.extents:
            return 1, size, True
        lines = positions([*self.extents, self.scan.parts])
        return fitting(self.extents[-1], 1, lines_of_program(self.kernel, lines, size, LEAST_TILE), ranges), size, True

    def _ordered(self, lanes: Sequence[Lane], along: Lane) -> list[Lane]:
        """Lanes in the order of their dims."""
        return [along, *lanes] if self.columns else [*lanes, along]

    @property
    def _axis(self) -> int:
        """Of the scan, in a tile."""
        return 0 if self.columns else len(self.kernel.ev.lanes) - 1

    def _index(self, at: Sequence[Dim]) -> Index:
        """Of the dims beside the axis."""
        index = merged_index(len(self.shape), self.dims, at)
        return (*index[: self.scan.axis], *index[self.scan.axis + 1 :])

    def _start(self, at: Sequence[Dim], part: Dim) -> Value:
        """What a part begins with, a tile of one element of each line."""
        ev = self.kernel.ev
        names = frozenset[str]().union(*map(symbols, at))
        lanes = [lane for lane in ev.lanes if lane.name in names]
        with ev.lanes_as(*self._ordered(lanes, Lane("", 1))) if lanes else ev.lanes_as():
            if self.scan.parts != 1 and len(self.scan.op.operands) == 1:
                return self._before(at, part)
            return ev.shaped(self.scan.start(ev, self._index(at), part), ev.full_shape() or None)

    def _before(self, at: Sequence[Dim], part: Dim) -> Value:
        """The total of all parts before one."""
        ev, scan, size = self.kernel.ev, self.scan, static(self.scan.part)
        fold = Fold(scan.kind, self.elem, lambda index: ev.value(self.x, index))
        total = fold.start(ev, (size,))
        for before in range(static(scan.parts) - 1):
            lane, place = lane_over(self.kernel.space, size, before * size, (part - before) * size)
            with ev.lanes_as(lane):
                total = fold.combined(ev, total, fold.at(scan.index(self._index(at), place)))
        return across(ev, scan.kind, total, (0,), scan.elem)

    def _held(self, at: Sequence[Dim], part: Dim, place: Dim) -> None:
        """The part is the tile."""
        ev, index = self.kernel.ev, self.scan.index(self._index(at), place)
        if self.scan.parts != 1:
            found, _ = scan_tile(ev, self.scan, index, self._axis, self._start(at, part), self.wide)
        else:
            tile = ev.shaped(ev.cast(ev.value(self.x, index), self.wide), ev.full_shape())
            found = ev.emit(block.scan, tile, axis=self._axis, kind=self.scan.kind, exclusive=self.scan.exclusive)
        self._store(index, found)

    def _walk(self, at: Sequence[Dim], part: Dim, first: Dim, length: Dim, width: int) -> None:
        """The total of what is before a chunk is carried."""
        ev, lines = self.kernel.ev, self.kernel.ev.lanes

        def chunk(lane: Lane, place: Dim, carried: Carried) -> list[Value]:
            lanes = self._ordered(lines, lane)
            with ev.lanes_as(*lanes):
                index = self.scan.index(self._index(at), first + place)
                found, after = scan_tile(ev, self.scan, index, self._axis, carried[0], self.wide)
                self._store(index, found)
                return [after]

        in_chunks(self.kernel, length, width, chunk, (self._start(at, part),))

    def _store(self, index: Index, value: Value) -> None:
        self.kernel.ev.store(self.kernel.stores[0], index, self.kernel.ev.cast(value, self.elem))
