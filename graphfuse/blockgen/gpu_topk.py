"""Emits sorted selections for GPUs: lines, or chunks of longer ones, are sorted in registers.

Elements become integers that differ (`sort_keys.py`). Of many elements few are found by groups: the first of each group
are sorted, and then all of the groups that are first, which have all that is wanted. Of another long line a program
keeps the first so far, with which it merges the first of each chunk; what is more than it can keep it finds in several
walks.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphfuse.blockgen.access import Walk, merged_index
from graphfuse.blockgen.evaluate import Lane, lane_over
from graphfuse.blockgen.gpu_tiles import (
    SECTOR_BYTES,
    at_most,
    fitting,
    in_chunks,
    lane_along,
    lines_of_program,
    neighbours,
    power_of_two,
    tiled_programs,
    warps_for,
)
from graphfuse.blockgen.index import Index
from graphfuse.blockgen.kernel import Kernel, element_of, positions
from graphfuse.blockgen.loops import Carried, across
from graphfuse.blockgen.movement import shape_of
from graphfuse.blockgen.sort_keys import Keys, SortKeys
from graphfuse.dialects import block, graph, moves
from graphfuse.ir.core import Func, Op, Value, attr_int, tile_of
from graphfuse.ir.types import I64
from graphfuse.symbolic import Dim, ceildiv

HELD_BYTES = 64 << 10
"""Of the integers of a line that registers hold."""
LEAST_TILE, TILE = 256, 2048
"""Elements of a program that short lines are put together to: where lines are few, and where they are many."""
PER_THREAD = 64
"""Bytes of integers that a thread holds, of large tiles twice as many: the more it holds, the less has to be moved."""


def emit(kernel: Kernel) -> Func:
    """Programs of one line, or of several short ones."""
    (op,) = (op for op in kernel.body.ops if op.kind is graph.topk)
    return _TopK(kernel, op).emit()


class _TopK:
    """The state of emitting one selection: which lanes run over lines and along them."""

    def __init__(self, kernel: Kernel, op: Op) -> None:
        self.kernel, self.op = kernel, op
        (self.x,) = op.operands
        self.shape, self.axis = shape_of(self.x), attr_int(op, "axis")
        self.extent, self.wanted = self.shape[self.axis], shape_of(op.results[0])[self.axis]
        walk = Walk.over(kernel.space, self.shape, lambda index: kernel.reads(self.x, index))
        self.dims = [d for d in walk.merge([self.axis, self.axis + 1]) if d.first != self.axis]
        self.outer = [d.extent for d in self.dims]
        self.columns = bool(self.dims) and self.dims[-1].first > self.axis
        """Whether lines are next to one another in memory."""
        ranges = kernel.space.ranges
        longest, most = at_most(self.extent, ranges), power_of_two(at_most(self.wanted, ranges))
        self.sorting = SortKeys(kernel.ev, element_of(self.x), longest, falling=bool(op.attrs.get("largest", True)))
        room = HELD_BYTES // self.sorting.bytes
        self.is_held = longest <= room
        self.width = max(2, power_of_two(longest)) if self.is_held else room // 2
        self.count = min(most, self.width)
        """So many are found in one walk."""
        self.groups = self._groups(room // 2)
        """Groups of the line's elements, as far apart as there are groups; 0 where all are sorted."""
        self.width = self.groups or self.width
        self.size = max(self.width, self.count * self.members)
        """Of a line's tile at most."""
        self.walks: Dim = 1 if most <= self.count else ceildiv(self.wanted, self.count)

    def emit(self) -> Func:
        """Grid over lines."""
        kernel, ev = self.kernel, self.kernel.ev
        height = self._lines()
        grid, self.lines, self.at = tiled_programs(kernel, self.outer, {len(self.outer) - 1: height})

        def walk(number: Dim, after: Carried) -> list[Value]:
            keys = self._first(after if self.walks != 1 else ())
            self._store(number * self.count, keys)
            return self._next(keys) if self.walks != 1 else []

        line = self._shape(1)
        least = [ev.const(t.limits[0], t, line) for t in self.sorting.types] if self.walks != 1 else []
        ev.loop("s", self.walks, walk, least)
        held = self.size * height * self.sorting.bytes
        warps = max(warps_for(held, PER_THREAD, 8), warps_for(held, 2 * PER_THREAD, 16))
        return kernel.finish(grid, 1 + self.extent * self.walks // 64, {"warps": warps})

    def _groups(self, room: int) -> int:
        """As many as leave the least to sort, if that is much less than the line."""
        n = self.extent
        if not isinstance(n, int):
            return 0
        sizes = [m for i in range(room.bit_length()) if n >= (m := 1 << i) >= self.count]
        then = {m: self.count * power_of_two(-(-n // m)) for m in sizes}
        best = min((m for m in sizes if max(m, then[m]) <= room), key=lambda m: m + then[m], default=0)
        return best if best and best + then[best] <= n // 2 else 0

    @property
    def members(self) -> int:
        """Of a group, as a tile has them."""
        return power_of_two(at_most(ceildiv(self.extent, self.groups), {})) if self.groups else 1

    def _lines(self) -> int:
        """Of a program."""
        if not self.outer:
            return 1
        ranges = self.kernel.space.ranges
        most = max(1, HELD_BYTES // (2 if self.groups else 1) // self.sorting.bytes // self.size)
        lines = positions(self.outer)
        least = min(most, SECTOR_BYTES // element_of(self.x).bytes) if self.columns else 1
        least = neighbours(self.kernel, lines, least)
        wanted = lines_of_program(self.kernel, lines, self.size, TILE, LEAST_TILE)
        return fitting(self.outer[-1], least, min(most, max(least, wanted)), ranges)

    def _ordered(self, *lanes: Lane) -> list[Lane]:
        """Lanes in the order of their dims."""
        return [*lanes, *self.lines] if self.columns else [*self.lines, *lanes]

    @property
    def _along(self) -> int:
        return 0 if self.columns else len(self.lines)

    def _shape(self, size: int) -> tuple[int, ...]:
        return tuple(n.extent for n in self._ordered(Lane("", size)))

    def _index(self, position: Dim) -> Index:
        index = merged_index(len(self.shape), self.dims, self.at)
        return (*index[: self.axis], position, *index[self.axis + 1 :])

    def _first(self, after: Carried) -> Keys:
        """The first of a line, in order, from some integers on, if any are given."""
        kernel, sorting = self.kernel, self.sorting
        if self.groups:
            return self._first_of_groups()
        if self.is_held:
            lane, position = lane_along(kernel, self.extent, self.width, 0)
            return self._sorted(self._keys((lane,), position, after))

        def chunk(lane: Lane, position: Dim, kept: Carried) -> Keys:
            found = self._sorted(self._keys((lane,), position, after), falling=True)
            return self._sorted(sorting.select(sorting.before(kept, found), kept, found))

        return in_chunks(kernel, self.extent, self.width, chunk, sorting.last(self._shape(self.count)))

    def _first_of_groups(self) -> Keys:
        """The first of a line: those of the groups whose first comes first."""
        ev, sorting = self.kernel.ev, self.sorting

        def chunk(lane: Lane, position: Dim, least: Carried) -> Keys:
            keys = self._keys((lane,), position)
            return sorting.select(sorting.before(least, keys), least, keys)

        firsts = in_chunks(self.kernel, self.extent, self.groups, chunk, sorting.last(self._shape(self.groups)))
        places = sorting.places(self._sorted(firsts))
        group = ev.emit(block.and_, places, ev.const(self.groups - 1, I64, tile_of(places).shape))
        shape = list(self._shape(self.count))
        shape.insert(self._along + 1, 1)
        number = ev.bind("g", 0, self.groups - 1, ev.emit(block.reshape, group, shape=tuple(shape)))
        lane, member = lane_over(self.kernel.space, self.members)
        keys = self._keys((Lane("", self.count), lane), number + self.groups * member)
        joined = self._shape(self.count * self.members)
        return self._sorted(tuple(ev.emit(block.reshape, key, shape=joined) for key in keys))

    def _sorted(self, keys: Keys, *, falling: bool = False) -> Keys:
        return self.kernel.ev.builder.op(moves.sort, *keys, axis=self._along, count=self.count, falling=falling).results

    def _keys(self, lanes: Sequence[Lane], position: Dim, after: Carried = ()) -> Keys:
        """A part of a line, or several parts; what does not count comes last."""
        ev, sorting = self.kernel.ev, self.sorting
        with ev.lanes_as(*self._ordered(*lanes)):
            shape, live = ev.full_shape(), ev.live_lanes()
            place, inside = ev.index(position), None
            if len(lanes) > 1 and not self.kernel.space.below(position, self.extent):
                inside = ev.emit(block.lt, *ev.unified([place, ev.index(self.extent)]))
                live = ev.shaped(ev.both(live, inside), shape)
            with ev.where(inside):
                x = ev.value(self.x, self._index(position))
            keys = sorting.of(*(ev.shaped(v, shape) for v in (x, place)))
            if after:
                live = ev.both(live, sorting.before(tuple(ev.shaped(v, shape) for v in after), keys))
            return keys if live is None else sorting.select(live, keys, sorting.last(shape))

    def _next(self, keys: Keys) -> list[Value]:
        """What comes after all of some keys, for each line."""
        ev, out = self.kernel.ev, list[Value]()
        shape = tile_of(keys[0]).shape
        for key, elem in zip(keys, self.sorting.types, strict=True):
            best = across(ev, "max", key, (self._along,), elem)
            out.append(ev.shaped(best, self._shape(1)))
            if len(out) < len(keys):
                same = ev.emit(block.eq, key, ev.shaped(best, shape))
                keys = (key, ev.emit(block.select, same, keys[1], ev.const(elem.limits[0], elem, shape)))
        out[-1] = ev.emit(block.add, out[-1], ev.const(1, self.sorting.types[-1], self._shape(1)))
        return out

    def _store(self, first: Dim, keys: Keys) -> None:
        ev = self.kernel.ev
        lane, rank = lane_along(self.kernel, self.wanted, self.count, first)
        codes = zip(self.op.results, (self.sorting.elements, self.sorting.places), strict=True)
        stored = dict(zip(self.kernel.outputs, self.kernel.stores, strict=True))
        with ev.lanes_as(*self._ordered(lane)):
            for value, code in codes:
                if value in stored:
                    ev.store(stored[value], self._index(rank), code(keys))
