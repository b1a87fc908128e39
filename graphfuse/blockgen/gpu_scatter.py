"""Emits scatters for GPUs: a tile of the updates per program, each of which is stored, or combined by an atomic.

Many updates of few places would wait for one another in memory: there each program has a table of all places in shared
memory, and combines its updates in that before it goes to memory, once for each place (`_Tables`).

Updates of one element are in no order. Where they are to be in theirs (`ordered`), or the element has no atomics, a
program makes one after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import isqrt

from graphfuse.blockgen import gpu_whole_scatter
from graphfuse.blockgen.evaluate import Lane, Leaf, leaf_of
from graphfuse.blockgen.gpu_pointwise import Tiling
from graphfuse.blockgen.gpu_tiles import SECTOR_BYTES, at_most, in_chunks, power_of_two
from graphfuse.blockgen.index import Index, strides_of, unravel
from graphfuse.blockgen.kernel import Kernel, element_of, positions
from graphfuse.blockgen.loops import Carried
from graphfuse.blockgen.scatter import REDUCTIONS, Updates, in_order
from graphfuse.blockgen.tiling import Piece
from graphfuse.dialects import block, effects
from graphfuse.dialects.elementwise import neutral
from graphfuse.ir.core import Func
from graphfuse.ir.types import I32, I64
from graphfuse.symbolic import Dim, floordiv, mod
from graphfuse.targets.machine import SHARED_ALLOC_BYTES, WARP

LANES = 128
"""Of a tile of what is made in order."""
MANY, MOST, GROUP = 40, 96, 64
"""So many updates of one place, on average, take longer than tables do: as many as there are groups of places, which
have longer tables and wait less for one another, but from `MANY` to `MOST`. Times the places of a sector that a warp
updates at once, where all along a row go to one place: sectors are what updates wait for (`benchmarks.gpu_constants`: a
million updates of 9,001 places take 39 us without tables and 22 with them, 175 thousand 8.7 and 11.5; of 1,021 places
50,384 take 6.6 and 4.7, 31,843 4.8 and 6.4, on an H200)."""
PROGRAMS = 4
"""With tables, at most so many for each multiprocessor: enough threads to read what memory gives."""
AMONG_PLACES = 54
"""So many merges of a program's place, side by side, take as long as one update in it after the other: of 8,000 to
8,000,000 updates of 37 to 2,272 places on an H100 (`benchmarks.gpu_constants`)."""
NEIGHBOURS = 4
"""So many updates side by side, which one thread may have, go to the same table."""
OF_A_TABLE = 4
"""For so many updates of a place, on average, a program has a further table."""
CHUNK = 1024
"""Places of a table at a time."""


def emit(kernel: Kernel) -> Func:
    """All updates at once, if they may be."""
    made, ev = Updates(kernel), kernel.ev
    if made.is_whole:
        return gpu_whole_scatter.emit(made)
    if _is_ordered(made):
        return _in_order(made)
    if positions(made.shape) == 0:
        return kernel.finish(0, 1, {"warps": 1})

    made.out = replace(made.out, relaxed=made.kind == "set")
    if (tables := _Tables.of(made)) is not None:
        return tables.emit()

    def compute(index: Index) -> None:
        places, inside = made.places(index)
        if made.kind == "set":
            made.apply(index, places, inside)
            return
        update = ev.value(made.updates, index)
        with ev.where(inside):
            ev.atomic(made.out, made.target(index, places), update, made.kind)

    return Tiling(kernel, made.walk(), compute).emit()


def _is_ordered(made: Updates) -> bool:
    """Whether updates go one after the other: sums of halves would be rounded at each, in any order."""
    elem = element_of(made.updates)
    rounds = made.kind in ("add", "mul") and elem.is_float and elem.bits < 32
    return bool(made.op.attrs.get("ordered", False)) or (made.kind != "set" and (rounds or elem.bits < 16))


class _Tables:
    """What a program's updates come to, in shared memory: several tables, where places have very many.

    Of what is stored they have the number of each place's last update, whose value is computed once all have been seen.
    """

    def __init__(self, made: Updates, places: int) -> None:
        self.made, self.kernel, self.ev = made, made.kernel, made.kernel.ev
        self.places, self.elem, self.kind = places, element_of(made.updates), made.kind
        self.updates = at_most(positions(made.shape), self.kernel.space.ranges)
        if made.kind == "set":
            self.elem, self.kind = I32 if self.updates < 1 << 31 else I64, "max"
        self.reduction = REDUCTIONS.get(self.kind, self.kind)
        self.start = -1 if made.kind == "set" else neutral(self.reduction, self.elem)
        nbytes, least = self.elem.bytes, max(places, SECTOR_BYTES // self.elem.bytes)
        many = min(max(MANY, places // GROUP), MOST) * self._at_once(nbytes)
        self.pay = self.updates >= many * least and places * nbytes <= SHARED_ALLOC_BYTES
        # p programs take updates / p for theirs, and p * places to merge them
        apart = isqrt(AMONG_PLACES * self.updates // least)
        self.programs = max(1, min(PROGRAMS * self.kernel.machine.multiprocessors, apart))
        wanted, room = self.updates // (OF_A_TABLE * least * self.programs), SHARED_ALLOC_BYTES // nbytes
        self.count = 1 << max(1, min(WARP, wanted, room // (places | 1))).bit_length() - 1
        self.row = places | 1 if self.count > 1 else places
        """From one table to the next: one place of all is in as many banks."""

    def _at_once(self, nbytes: int) -> int:
        """Places of a sector that neighbours of one row update."""
        walk = self.made.walk()
        dims = walk.merge()
        if not dims or not self.made.is_one_place(walk, dims[-1]):
            return 1
        return min(SECTOR_BYTES // nbytes, at_most(dims[-1].extent, self.kernel.space.ranges))

    @staticmethod
    def of(made: Updates) -> _Tables | None:
        """Those of a scatter, if they fit and places have many updates."""
        places = positions(made.sizes)
        found = _Tables(made, places) if isinstance(places, int) and places else None
        return found if found and found.pay else None

    def emit(self) -> Func:
        """The kernel."""
        ev, total = self.ev, self.count * self.row
        self.pointer = ev.emit(block.alloc, elem=self.elem, count=total)
        start, flat = ev.const(self.start, self.elem), leaf_of(self.pointer, (total,))
        self._along(total, lambda at: ev.store(flat, (at,), start))
        ev.builder.op(effects.barrier)  # else each of the turns would begin with one
        tiles = Tiling(self.kernel, self.made.walk(), self._combine, sharing=self.programs).emit_tiles()
        self._along(self.places, self._write)
        return self.kernel.finish(*tiles)

    def _along(self, extent: int, body: Callable[[Dim], None]) -> None:
        """What happens at each position."""

        def chunk(lane: Lane, position: Dim, _: Carried) -> None:
            with self.ev.lanes_as(lane):
                body(position)

        in_chunks(self.kernel, extent, min(CHUNK, power_of_two(extent)), chunk, ())

    def _combine(self, index: Index) -> None:
        made, ev = self.made, self.ev
        places, inside = made.places(index)
        number = self.kernel.space.position(index, made.shape)
        update = ev.cast(ev.index(number), self.elem) if made.kind == "set" else ev.value(made.updates, index)
        table = mod(floordiv(number, NEIGHBOURS), self.count)
        leaf = Leaf(self.pointer, (self.row, *strides_of(made.sizes)), (self.count, *made.sizes))
        with ev.where(inside):
            ev.atomic(leaf, (table, *made.target(index, places)), update, self.kind)

    def _write(self, place: Dim) -> None:
        """To memory, if there is anything new."""
        made, ev = self.made, self.ev
        out = replace(leaf_of(made.out.pointer, (self.places,)), relaxed=made.out.relaxed)
        leaf = Leaf(self.pointer, (self.row, 1), (self.count, self.places))
        found = ev.reduction(
            self.reduction, self.elem, [self.count], lambda of: ev.load(leaf, (*of, place)), (place,), self.count
        )
        is_old = ev.emit(block.eq, *ev.unified([found, ev.const(self.start, self.elem)]))
        with ev.where(ev.emit(block.ELEMENTWISE["not"], is_old)):
            if made.kind == "set":
                number = ev.bind("n", 0, positions(made.shape) - 1, ev.cast(found, I64))
                update = ev.value(made.updates, unravel(number, made.shape, self.kernel.space))
                ev.store(out, (place,), update)
            else:
                ev.atomic(out, (place,), found, made.kind)


def _in_order(made: Updates) -> Func:
    """A range of the first index, for as many programs as run at a time."""
    kernel, first = made.kernel, at_most(made.first, made.kernel.space.ranges)

    def width(extent: Dim) -> int:
        return min(LANES, power_of_two(at_most(extent, kernel.space.ranges)))

    def cut(extent: Dim, others: Dim, is_one: bool) -> tuple[Dim, int]:
        programs = at_most(others, kernel.space.ranges) * -(-at_most(extent, kernel.space.ranges) // width(extent))
        ranges = kernel.machine.multiprocessors // max(1, programs) if is_one else 1
        return width(extent), max(1, min(ranges, first))

    def tiles(size: Dim) -> list[Piece]:
        lanes = width(size)
        return [Piece(0, 1, lanes, None if size == lanes else size)]

    func = in_order(made, cut, tiles)
    return replace(func, attrs={**func.attrs, "warps": LANES // WARP})
