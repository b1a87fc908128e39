"""Emits sorted selections for GPUs: each choice is the best of the elements that come after the last one.

Elements become integers that order like them, held in registers; several short lines share a program, and longer lines
are read again for each choice.
"""

from __future__ import annotations

from graphfuse.blockgen.evaluate import Lane
from graphfuse.blockgen.gpu_tiles import (
    at_most,
    fitting,
    in_chunks,
    lane_along,
    power_of_two,
    tiled_programs,
    warps_for,
)
from graphfuse.blockgen.index import Index
from graphfuse.blockgen.kernel import Kernel, element_of
from graphfuse.blockgen.loops import Carried, across
from graphfuse.blockgen.movement import shape_of
from graphfuse.blockgen.ordering import key_elem, ordered
from graphfuse.dialects import block, graph
from graphfuse.dialects.elementwise import neutral
from graphfuse.ir.core import Func, Op, Value, attr_int, tile_of
from graphfuse.ir.types import I64
from graphfuse.symbolic import Dim

LONGEST = 4096
"""Elements of a line whose choices are made in registers."""


def emit(kernel: Kernel) -> Func:
    """Lines in registers, several to a program when they are short; longer lines are read again for each choice."""
    (op,) = (op for op in kernel.body.ops if op.kind is graph.topk)
    return _TopK(kernel, op).emit()


class _TopK:
    """The state of emitting one selection: which lanes run over lines and along them."""

    def __init__(self, kernel: Kernel, op: Op) -> None:
        self.kernel, self.op = kernel, op
        (self.x,) = op.operands
        self.shape, self.axis = shape_of(self.x), attr_int(op, "axis")
        self.extent = self.shape[self.axis]
        self.outer = (*self.shape[: self.axis], *self.shape[self.axis + 1 :])
        self.columns = self.axis < len(self.outer)
        """Whether lines are next to one another in memory."""
        self.stored = dict(zip(kernel.outputs, kernel.stores, strict=True))

    def emit(self) -> Func:
        """Grid over lines."""
        kernel, ev = self.kernel, self.kernel.ev
        ranges = kernel.space.ranges
        self.width = max(2, min(LONGEST, power_of_two(at_most(self.extent, ranges))))
        height = fitting(self.outer[-1], 1, max(1, 1024 // self.width), ranges) if self.outer else 1
        grid, self.lines, self.at = tiled_programs(kernel, self.outer, {len(self.outer) - 1: height})
        count = shape_of(self.op.results[0])[self.axis]
        if at_most(self.extent, ranges) <= self.width:
            lane, position = lane_along(kernel, self.extent, self.width, 0)
            with ev.lanes_as(*self._ordered(lane)):
                keys, numbers = self._keys(position), self._numbers(position)
                live = ev.live_lanes()

            def best(last: Carried) -> tuple[Value, Value]:
                return self._best(keys, self._after(keys, numbers, live, last), numbers)
        else:
            best = self._best_of_chunks
        key = key_elem(element_of(self.x))
        nothing = ev.const(0, key, self._line_shape()), ev.const(-1, I64, self._line_shape())

        def choose(rank: Dim, last: Carried) -> list[Value]:
            found = best(last)
            self._store(rank, found[1])
            return list(found)

        ev.loop("s", count, choose, nothing)
        work = 1 + self.extent * count // 64
        return kernel.finish(grid, work, {"warps": warps_for(self.width * height, 8)})

    def _ordered(self, lane: Lane) -> list[Lane]:
        """Lanes in the order of their dims."""
        return [lane, *self.lines] if self.columns else [*self.lines, lane]

    @property
    def _along(self) -> int:
        return 0 if self.columns else len(self.lines)

    def _line_shape(self) -> tuple[int, ...] | None:
        """A value per line: None for one line."""
        return tuple(n.extent for n in self._ordered(Lane("", 1))) if self.lines else None

    def _index(self, position: Dim) -> Index:
        return (*self.at[: self.axis], position, *self.at[self.axis :])

    def _keys(self, position: Dim) -> Value:
        """Integers that are larger the sooner an element is chosen, equal where the index decides."""
        ev = self.kernel.ev
        keys = ordered(self.kernel.ev, ev.shaped(ev.value(self.x, self._index(position)), ev.full_shape()))
        return keys if self.op.attrs.get("largest", True) else ev.emit(block.ELEMENTWISE["not"], keys)

    def _numbers(self, position: Dim) -> Value:
        ev = self.kernel.ev
        return ev.shaped(ev.index(position), ev.full_shape())

    def _after(self, keys: Value, numbers: Value, live: Value | None, last: Carried) -> Value:
        """Which elements exist and come after the last choice (number -1: none yet)."""
        ev = self.kernel.ev
        shape = tile_of(keys).shape
        key, number = (ev.shaped(v, shape) for v in last)
        fresh = ev.emit(block.lt, number, ev.const(0, I64, shape))
        later = ev.emit(block.and_, ev.emit(block.eq, keys, key), ev.emit(block.lt, number, numbers))
        after = ev.emit(block.or_, ev.emit(block.or_, fresh, ev.emit(block.lt, keys, key)), later)
        return after if live is None else ev.emit(block.and_, after, live)

    def _best(self, keys: Value, candidates: Value, numbers: Value) -> tuple[Value, Value]:
        """The largest key among candidates and the least number that has it."""
        ev = self.kernel.ev
        shape, elem = tile_of(keys).shape, block.elem_of(keys.type)
        low, far = ev.const(neutral("max", elem), elem, shape), ev.const(neutral("min", I64), I64, shape)
        best = across(ev, "max", ev.emit(block.select, candidates, keys, low), (self._along,), elem)
        same = ev.emit(block.and_, candidates, ev.emit(block.eq, keys, ev.shaped(best, shape)))
        return best, across(ev, "min", ev.emit(block.select, same, numbers, far), (self._along,), I64)

    def _best_of_chunks(self, last: Carried) -> tuple[Value, Value]:
        """The same for a line that is read in chunks: each lane keeps its best."""
        kernel, ev = self.kernel, self.kernel.ev
        elem = key_elem(element_of(self.x))
        shape = tuple(lane.extent for lane in self._ordered(Lane("", self.width)))

        def chunk(lane: Lane, position: Dim, carried: Carried) -> list[Value]:
            with ev.lanes_as(*self._ordered(lane)):
                keys, numbers = self._keys(position), self._numbers(position)
                candidates = self._after(keys, numbers, ev.live_lanes(), last)
                empty = ev.emit(block.lt, carried[1], ev.const(0, I64, shape))
                better = ev.emit(block.or_, empty, ev.emit(block.lt, carried[0], keys))
                better = ev.emit(block.and_, better, candidates)
                pairs = zip((keys, numbers), carried, strict=True)
                return [ev.emit(block.select, better, new, old) for new, old in pairs]

        start = ev.const(neutral("max", elem), elem, shape), ev.const(-1, I64, shape)
        keys, numbers = in_chunks(kernel, self.extent, self.width, chunk, start)
        return self._best(keys, ev.emit(block.ge, numbers, ev.const(0, I64, shape)), numbers)

    def _store(self, rank: Dim, number: Value) -> None:
        ev = self.kernel.ev
        chosen = ev.bind("g", 0, self.extent - 1, number)
        values, numbers = self.op.results
        with ev.lanes_as(*self._ordered(Lane("", 1))) if self.lines else ev.lanes_as():
            if values in self.stored:
                ev.store(self.stored[values], self._index(rank), ev.value(self.x, self._index(chosen)))
            if numbers in self.stored:
                ev.store(self.stored[numbers], self._index(rank), number)
