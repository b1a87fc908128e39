"""Emits row reductions for GPUs: softmax, layer norm and their like.

A row that fits the registers of a block is one tile, loaded once, however many reductions follow each other. Short
rows go several to a program, as a tile [rows, row]. A longer row is walked in chunks: one walk for all reductions that
do not need each other's results, each with a tile of partial results, and one for the outputs. Every other walk goes
backwards, so that it begins with what the cache still has. The largest element and the sum of exponentials relative to
it take one walk (Milakov and Gimelshein, Online normalizer calculation for softmax).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce

from graphfuse.blockgen import gpu_axis_reduction
from graphfuse.blockgen.access import Merged, merged_index
from graphfuse.blockgen.evaluate import Lane, Yielded, accumulator, lane_over
from graphfuse.blockgen.gpu_tiles import (
    LINE,
    SECTOR_BYTES,
    VECTOR_BYTES,
    apart,
    as_one,
    at_most,
    columns_of_program,
    fitting,
    in_chunks,
    in_whole_or_part,
    lane_along,
    lines_of_program,
    neighbours,
    over_tiles,
    power_of_two,
    short_tail,
    tiled_programs,
    warps_for,
)
from graphfuse.blockgen.index import Index, unravel
from graphfuse.blockgen.kernel import Kernel, element_of, positions
from graphfuse.blockgen.loops import AtIndex, Carried, Fold, across, live_or_neutral
from graphfuse.blockgen.movement import shape_of
from graphfuse.blockgen.reduction import RowKernel, is_sum_across, levels, made_for
from graphfuse.blockgen.tiling import cost_per_element
from graphfuse.dialects import block, gpu, graph
from graphfuse.dialects.elementwise import neutral
from graphfuse.dialects.softmax import LOG2_E, base_of
from graphfuse.ir.core import Attr, Func, Op, Value
from graphfuse.ir.types import F32, I64
from graphfuse.symbolic import Dim, product, substitute
from graphfuse.targets.machine import WARP

DYNAMIC_TILE = 4096
"""Elements of a row of unknown length that is held in registers: shorter ones waste the lanes that are left over."""
LEAST_TILE = 512
"""Elements of a program's tile that short rows are put together to."""
MOST_BYTES = 8192
"""Of such a tile where there are `PROGRAMS` for each multiprocessor: blocks of a warp end sooner than others begin."""
PROGRAMS = 8
CHUNK = 4096
"""Elements of a longer row that are in flight at once."""
TOGETHER = 4
"""Chunks whose largest element is found before what came before is scaled down."""
MANY_PROGRAMS, COLUMN_BYTES = 4, 128
"""From so many programs for each multiprocessor on, a thread has so many bytes of columns side by side: what lanes
exchange for each is most of the work. An argmin over 96 x 39,368 halves takes 33 instructions an element with 32 bytes
a thread, 11 with these (`benchmarks.population --seed 760986079 --numbers 190`). Not fitted."""
FEW_WARPS = 8
"""Of short rows for each multiprocessor: up to so many, a warp has fewer elements."""
REPEATS = (graph.broadcast, graph.full, graph.iota)
"""What takes no registers of its own."""
DEEP = 4
"""Positions of another dim of a row that are worth lanes of their own."""


def emit(kernel: Kernel) -> Func:
    """Rows as tiles, or rows in chunks; for rows of unknown length both."""
    if is_sum_across(kernel) and (reduction := gpu_axis_reduction.find(kernel)) is not None:
        return gpu_axis_reduction.emit(kernel, reduction)
    return _GpuRows(kernel).emit()


@dataclass(frozen=True, slots=True)
class Way:
    """How rows are held: walked in chunks of so many elements, or, where that is 0, as tiles."""

    chunk: int = 0
    warps: int = 1
    """Times as many as a tile of the size has."""
    beside: int = 1
    """Of the rows that should be side by side, a tile has one in so many."""

    def __str__(self) -> str:
        tile = f"tile of 1/{self.beside} of the rows, {self.warps} times the warps"
        return f"chunks of {self.chunk}" if self.chunk else tile


class _GpuRows(RowKernel):
    """One region's rows on a GPU."""

    backwards = False
    """Which way the next walk goes."""
    stacked: Merged | None = None
    """The kept dim whose rows a program has side by side."""
    beside: Sequence[Lane] = ()
    """The lane over these."""
    widths: Sequence[int] = ()
    """Lanes along the dims of a row that is walked."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self.tail = short_tail(sorted((*self.outer, *self.row), key=lambda d: d.first), self.axes)
        """Kept dims that are one of `outer`."""
        if self.tail:
            self.outer = [*self.outer[: -len(self.tail)], as_one(self.tail)]

    def index(self, row: Index) -> Index:
        """The index into the domain at a position of the row."""
        if not self.tail:
            return super().index(row)
        *at, last = self.at
        dims = [*self.outer[:-1], *self.tail, *self.row]
        return merged_index(len(self.domain), dims, (*at, *apart(self.tail, last, self.kernel.space), *row))

    def emit(self) -> Func:
        """The kernel for the rows' length, as far as it is known."""
        longest = self.kernel.machine.gpu.memory.row_elements * 4 // max(4, self._wide()) // self._held()
        static = all(isinstance(d, int) for d in self.extents)
        widths = self._row_widths()
        beside = self._least_beside()
        ways = [Way(CHUNK >> i) for i in range(3)] if self.extents else []
        if self._row_tile(widths) * beside <= (longest if static else min(longest, DYNAMIC_TILE)):
            ways = [Way(), Way(warps=2), *(Way(0, 2, n) for n in (2, 4) if self._may_part(beside, n)), *ways]
        way = self.kernel.chosen(ways[:1], ways[1:])
        return self._emit_long(way.chunk) if way.chunk else self._emit_tiles(widths, way)

    def _least_beside(self) -> int:
        """Rows that a program should have at least, for whole sectors of memory: if they are not contiguous.

        Fewer where multiprocessors would idle: of rows of a few neighbours each, caches have what others read.
        """
        if not self.outer:
            return 1
        short = 1 if self.columns else at_most(self.extents[-1], self.kernel.space.ranges)
        lies_within = self.columns or (len(self.row) > 1 and self.outer[-1].first > self.row[-2].first)
        most = power_of_two(at_most(self.outer[-1].extent, self.kernel.space.ranges))
        beside = min(most, max(1, LINE // power_of_two(short))) if lies_within else 1
        lines = positions([d.extent for d in self.outer])
        if self.columns:
            return columns_of_program(self.kernel, lines, beside, max(1, SECTOR_BYTES // self._wide()))
        return neighbours(self.kernel, lines, beside)

    def _may_part(self, beside: int, parts: int) -> bool:
        """Whether rows side by side may be those of several programs: whole sectors, or few programs."""
        rows = at_most(positions([d.extent for d in self.outer]), self.kernel.space.ranges)
        is_few = rows < beside * self.kernel.machine.multiprocessors
        return parts <= beside and (is_few or beside // parts * self._wide() >= SECTOR_BYTES)

    def _lanes(self, along: Sequence[tuple[Merged, Lane]], beside: Sequence[Lane] | None = None) -> list[Lane]:
        """Lanes along a row and over rows side by side, in the order of memory."""
        pairs = [(d.first, lane) for d, lane in along]
        if self.stacked is not None:
            pairs += [(self.stacked.first, lane) for lane in (self.beside if beside is None else beside)]
        return [lane for _, lane in sorted(pairs, key=lambda pair: pair[0])]

    def _folded(self, along: Sequence[Merged]) -> tuple[int, ...]:
        """The axes of a tile that are along a row, some of whose dims have lanes."""
        firsts = [d.first for d in along]
        every = sorted([*firsts, *([self.stacked.first] if self.stacked is not None else [])])
        return tuple(i for i, first in enumerate(every) if first in firsts)

    def _wide(self) -> int:
        """Bytes of the largest element in memory, but of what there is one of for each row."""
        rows = product(self.rows(self.domain))
        read = [v for v in self.kernel.body.params.values if product(shape_of(v)) != rows]
        return max((element_of(v).bytes for v in (*read, *self.whole)), default=1)

    def _held(self) -> int:
        """Tiles that wait for results of reductions, at most: what these read, and what is behind them reads too."""
        needed, done, most = set[Value](), set[Op](), 1
        for reduces in levels(self.reduces):
            needed |= made_for([v for op in reduces for v in op.operands])
            done.update(reduces)
            behind = [op for op in self.kernel.body.ops if op not in done and not (op.types and op.result in needed)]
            waiting = {v for op in behind for v in op.operands if v in needed and not self.is_row_value(v)}
            most = max(most, sum(v.op is None or v.op.kind not in REPEATS for v in waiting))
        return most

    def _row_widths(self) -> list[int]:
        """Lanes along the dims of a whole row; two at least, for a lane of one has no mask."""
        ranges = self.kernel.space.ranges
        return [max(2, power_of_two(at_most(d, ranges))) for d in self.extents] or [1]

    # rows that are tiles

    def _emit_tiles(self, widths: Sequence[int], way: Way) -> Func:
        kernel = self.kernel
        flat, size = self._flattens(widths), self._row_tile(widths)
        height = self._stack(size, self._least_beside() // way.beside)
        i = self.outer.index(self.stacked) if self.stacked is not None else -1
        grid, beside, at = tiled_programs(kernel, [d.extent for d in self.outer], {i: height})
        self.at = tuple(at)
        inner, row = self._row_lanes(widths, size if flat else 0)
        where = (self.row[:1] if flat else self.row) or [Merged(len(self.domain), len(self.domain), 1)]
        lanes = self._lanes(list(zip(where, inner, strict=True)), beside)
        in_whole_or_part(kernel, lanes, lambda: self._tile(row, self._folded(where)))
        tile = size * height
        work = 1 + round(tile * cost_per_element(kernel.machine.core, kernel.work)) // 64
        programs, multiprocessors = at_most(grid, kernel.space.ranges), kernel.machine.multiprocessors
        few = FEW_WARPS * multiprocessors // max(1, programs)
        least = 1 << max(1, min(height, few, tile // (4 * WARP))).bit_length() - 1
        wide, held = self._wide(), self._held()
        how = _row_block(tile, wide, held, way.warps, min(least, 16))
        if self.columns and programs >= MANY_PROGRAMS * multiprocessors and held == 1:
            how = {"warps": warps_for(tile, COLUMN_BYTES // wide, 16) * way.warps}
        return kernel.finish(grid, work, how)

    def _row_lanes(self, widths: Sequence[int], flat: int) -> tuple[list[Lane], Index]:
        """Lanes over a whole row, and the row's index under them."""
        if flat:
            lane, position = lane_along(self.kernel, positions(self.extents), flat, 0)
            return [lane], unravel(position, self.extents, self.kernel.space)
        if not self.extents:
            return [Lane("", 1)], ()
        pairs = [lane_along(self.kernel, e, w, 0) for e, w in zip(self.extents, widths, strict=True)]
        return [lane for lane, _ in pairs], tuple(position for _, position in pairs)

    def _row_tile(self, widths: Sequence[int]) -> int:
        """Elements of the tile of a whole row."""
        flat = self._flattens(widths)
        return max(2, power_of_two(at_most(positions(self.extents), {}))) if flat else math.prod(widths)

    def _flattens(self, widths: Sequence[int]) -> bool:
        """Whether one lane over all dims of a row wastes far less than a lane for each."""
        sizes = [d for d in self.extents if isinstance(d, int)]
        if len(widths) < 2 or len(sizes) != len(self.extents) or self._is_cut():
            return False
        return power_of_two(math.prod(sizes)) < math.prod(widths)

    def _is_cut(self) -> bool:
        """Whether what is kept lies between the dims of a row."""
        return any(self.row[0].first < d.first < self.row[-1].first for d in self.outer)

    def _stack(self, row: int, least: int) -> int:
        """Choose the rows side by side of a program: `LEAST_TILE` elements, fewer of few rows, more of very many."""
        ranges = self.kernel.space.ranges
        rows = positions([d.extent for d in self.outer])
        height = max(least, lines_of_program(self.kernel, rows, row, LEAST_TILE, least=256))
        enough = at_most(rows, ranges) // (PROGRAMS * self.kernel.machine.multiprocessors)
        while row <= LEAST_TILE and 2 * height <= enough and 2 * height * row * self._wide() <= MOST_BYTES:
            height *= 2
        if height == 1 or not self.outer:
            return 1
        sizes = [at_most(d.extent, ranges) for d in self.outer]
        whole = [i for i, n in enumerate(sizes) if n >= height]
        i = whole[-1] if whole else max(range(len(sizes)), key=lambda i: sizes[i])
        if least > 1:
            i = len(sizes) - 1
        height = fitting(self.outer[i].extent, least, height, ranges)
        self.stacked = self.outer[i] if height > 1 else None
        return height

    def _tile(self, row: Index, axes: Sequence[int]) -> None:
        """All reductions on the tile, then all outputs."""
        ev = self.kernel.ev
        for op in self.reduces:
            (x,) = op.operands
            fold = Fold.of(op, partial(self.value, x))
            tile = live_or_neutral(ev, fold.kind, fold.wide, fold.at(row))
            self.remember(op, across(ev, fold.kind, tile, axes, fold.elem))
        self.store_whole(row, self.whole)
        each = [Lane("", 1) if i in axes else lane for i, lane in enumerate(ev.lanes)]
        with ev.lanes_as(*each) if len(axes) < len(each) else ev.lanes_as():
            self.store_row_values()

    # rows that are walked

    def _emit_long(self, most: int) -> Func:
        """Rows in chunks, one to a program or some side by side; a row of unknown length that is short is one tile."""
        kernel, ev = self.kernel, self.kernel.ev
        high = self._least_beside()
        if high > 1:
            self.stacked = self.outer[-1]
        self.widths = self._chunk(high, most)
        grid, beside, at = tiled_programs(kernel, [d.extent for d in self.outer], {len(self.outer) - 1: high})
        self.at = tuple(at)
        row = self.extents[-1]
        if isinstance(row, int) or len(self.extents) > 1 or high > 1:
            in_whole_or_part(kernel, beside, self._walk_all)
        else:

            def as_tile() -> None:
                lane, position = lane_along(kernel, row, DYNAMIC_TILE, 0)
                with ev.lanes_as(lane):
                    self._tile((position,), (0,))

            fits = ev.emit(block.le, ev.index(row), ev.const(DYNAMIC_TILE, I64))
            ev.branch(fits, as_tile, lambda _: self._walk_all())
        cost = cost_per_element(kernel.machine.core, kernel.work)
        work = positions(self.extents) * high * max(1, round(cost * 16)) // 1024
        return kernel.finish(grid, work, {"warps": warps_for(math.prod(self.widths) * high, 8, 32)})

    def _chunk(self, high: int, chunk: int) -> list[int]:
        """Lanes of a chunk along each dim of a row: more where there are few rows for each multiprocessor.

        One that has but one waits for memory: rather for few reads of much, some of it in vain, than for many.
        """
        machine, ranges = self.kernel.machine, self.kernel.space.ranges
        rows = at_most(positions([d.extent for d in self.outer]), ranges)
        few = high == 1 and rows < 4 * machine.multiprocessors
        alone = few and rows <= machine.multiprocessors
        most = chunk * (4 if alone else 2) if few else chunk
        out = [1] * len(self.extents)
        slack = 0.5 if alone else 0.05
        out[-1] = max(2, fitting(self.extents[-1], chunk // 4 // high, most // high, ranges, slack))
        for i in reversed(range(len(out) - 1)):
            more = chunk // high // math.prod(out)
            out[i] = fitting(self.extents[i], 1, max(1, more), ranges, slack=0.5) if more >= DEEP else 1
        return out

    def _walk_all(self) -> None:
        self.beside = self.kernel.ev.lanes
        found = levels(self.reduces)
        while found:
            level, *found = found
            if found and is_softmax(level, found[0]):
                self._walk_softmax(level[0], found.pop(0)[0])
            else:
                self.fold(level)
        self.store_all(self.whole)

    def _walk_softmax(self, largest: Op, total: Op) -> None:
        """Each lane's largest element so far, and its sum relative to that, scaled down when a larger one comes.

        Once for some chunks, whose loads are in flight together. Powers are of two: what a rounded exponent loses of
        terms is less than what their sum does, as the larger ones have the smaller exponents.
        """
        ev, (z,) = self.kernel.ev, largest.operands
        elem, shape = element_of(z), self._shape()
        lowest = neutral("max", elem)

        exp2 = partial(gpu.short, function="exp2") if elem == F32 else block.ELEMENTWISE["exp2"]

        def power(x: Value, base: Value) -> Value:
            away = ev.emit(block.sub, x, base)
            return ev.emit(exp2, ev.emit(block.mul, away, ev.const(LOG2_E, elem, shape)))

        def step(rows: Sequence[Index], carried: Carried) -> list[Value]:
            top, acc = carried
            got = [live_or_neutral(ev, "max", elem, self.value(z, row)) for row in rows]
            larger = reduce(partial(ev.emit, block.max_), got, top)
            none = ev.emit(block.eq, larger, ev.const(lowest, elem, shape))
            base = ev.emit(block.select, none, ev.const(0.0, elem, shape), larger)
            first, *terms = (power(x, base) for x in got)
            before = ev.emit(block.fma, acc, power(top, base), first)
            return [larger, reduce(partial(ev.emit, block.add), terms, before)]

        top, acc = self._walk_some(step, [ev.const(lowest, elem, shape), ev.const(0.0, elem, shape)])
        most = across(ev, "max", top, self.folded, elem)
        scale = power(top, ev.shaped(most, shape))
        self.remember(largest, most)
        self.remember(total, across(ev, "sum", ev.emit(block.mul, acc, scale), self.folded, elem))

    # what a walk is made of

    def _in_lanes(self) -> list[tuple[Merged, int]]:
        """The dims of a row that have lanes in a chunk, and how many."""
        last = len(self.row) - 1
        return [(d, w) for i, (d, w) in enumerate(zip(self.row, self.widths, strict=True)) if w > 1 or i == last]

    @property
    def folded(self) -> Sequence[int]:
        """The axes of a chunk that are along the row."""
        return self._folded([d for d, _ in self._in_lanes()])

    def _shape(self) -> tuple[int, ...]:
        """Of a chunk."""
        return tuple(lane.extent for lane in self._lanes([(d, Lane("", w)) for d, w in self._in_lanes()]))

    def store_row_values(self) -> None:
        """Under a lane of one for each along the row, where lanes are rows too."""
        ev = self.kernel.ev
        if not self.beside:
            super().store_row_values()
            return
        with ev.lanes_as(*self._lanes([(d, Lane("", 1)) for d, _ in self._in_lanes()])):
            super().store_row_values()

    def tiles(self, body: AtIndex, init: Callable[[tuple[int, ...]], Carried]) -> Iterator[Carried]:
        """A run of chunks."""
        yield self._walk(body, init(self._shape()))

    def _walk(self, step: AtIndex, start: Sequence[Value]) -> Carried:
        """Carry values over the chunks of a row, the other way than the walk before."""
        backwards, self.backwards = self.backwards, not self.backwards

        def chunk(row: Index, lanes: Mapping[int, Lane], values: Carried) -> Yielded:
            with self.kernel.ev.lanes_as(*self._lanes([(self.row[i], lane) for i, lane in lanes.items()])):
                return step(row, values)

        return over_tiles(self.kernel, self.extents, self.widths, chunk, tuple(start), backwards=backwards)

    def _walk_some(self, step: Callable[[Sequence[Index], Carried], Yielded], start: Sequence[Value]) -> Carried:
        """The same with `TOGETHER` whole chunks at a time, then those that are left one by one."""
        self.backwards = not self.backwards
        kernel, ev, last, width = self.kernel, self.kernel.ev, len(self.row) - 1, self.widths[-1]

        def chunks(row: Index, lanes: Mapping[int, Lane], values: Carried) -> Yielded:
            all_of_them = lanes[last]
            first = substitute(row[-1], {all_of_them.name: 0})

            def some(lane: Lane, position: Dim, values: Carried, count: int = 1) -> Yielded:
                each = {**lanes, last: lane}
                with ev.lanes_as(*self._lanes([(self.row[i], each[i]) for i in each])):
                    return step([(*row[:-1], first + position + i * width) for i in range(count)], values)

            if all_of_them.limit is not None:
                return in_chunks(kernel, all_of_them.limit, width, some, values)
            return some(*lane_over(kernel.space, width, 0), values, TOGETHER)

        widths = [*self.widths[:-1], width * TOGETHER]
        return over_tiles(kernel, self.extents, widths, chunks, tuple(start))


def is_softmax(first: Sequence[Op], second: Sequence[Op]) -> bool:
    """Whether these levels are a largest element, and the sum of exponentials relative to it."""
    base = base_of([*first, *second])
    while base is not None and base.op is not None and base.op.kind in (graph.broadcast, graph.reshape):
        base = base.op.operands[0]
    (z,), (term,) = first[0].operands, second[0].operands
    return base == first[0].result and accumulator(element_of(term)) == element_of(z)


def _row_block(elements: int, elem_bytes: int, held: int, more: int, least: int) -> dict[str, Attr]:
    """Two vectors a thread, but for the largest tiles 32 elements, of all tiles that are `held`.

    No more than 16 warps if they can hold it: of blocks of 32, which wait for their last warp twice, two fit, and rows
    of 8192 f32 take 133.4 us instead of 131.4 (`benchmarks/gpu_rows.py`, without PDL). `more` times as many warps, at
    `least` so many before.
    """
    vectors = 2 * VECTOR_BYTES // max(1, elem_bytes)
    warps = warps_for(elements, vectors, 16) if elements <= 8192 else warps_for(elements, 32 // held, 32)
    warps = min(32, max(warps, least) * more)
    # as many registers as leave room for a second block, whose loads fill the time that this one computes
    crowded = elements > warps * WARP * 16 and warps <= 16
    return {"warps": warps, "resident": 2} if crowded else {"warps": warps}
