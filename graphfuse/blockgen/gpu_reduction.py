"""Emits row reductions for GPUs: softmax, layer norm and their like.

A row that fits the registers of a block is one tile, loaded once, however many reductions follow each other. Short
rows go several to a program, as a tile [rows, row]. A longer row is walked in chunks: one walk for all reductions that
do not need each other's results, each with a tile of partial results, and one for the outputs. Every other walk goes
backwards, so that it begins with what the cache still has. The largest element and the sum of exponentials relative to
it take one walk (Milakov and Gimelshein, Online normalizer calculation for softmax).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from graphfuse.blockgen.evaluate import Lane, Yielded, accumulator
from graphfuse.blockgen.gpu_tiles import (
    VECTOR_BYTES,
    at_most,
    fitting,
    in_whole_or_part,
    lane_along,
    lines_of_program,
    over_chunks,
    power_of_two,
    tiled_programs,
    warps_for,
)
from graphfuse.blockgen.index import Index, unravel
from graphfuse.blockgen.kernel import Kernel, element_of, positions
from graphfuse.blockgen.loops import AtIndex, Carried, Fold, across, live_or_neutral, programs
from graphfuse.blockgen.reduction import RowKernel
from graphfuse.blockgen.tiling import cost_per_element
from graphfuse.dialects import block, graph
from graphfuse.dialects.elementwise import neutral
from graphfuse.ir.core import Attr, Func, Op, Value
from graphfuse.ir.types import I64
from graphfuse.targets.machine import WARP

DYNAMIC_TILE = 4096
"""Elements of a row of unknown length that is held in registers: shorter ones waste the lanes that are left over."""
LEAST_TILE = 512
"""Elements of a program's tile that short rows are put together to."""
CHUNK = 4096
"""Elements of a longer row that are in flight at once."""


def emit(kernel: Kernel) -> Func:
    """Rows as tiles, or rows in chunks; for rows of unknown length both."""
    return _GpuRows(kernel).emit()


class _GpuRows(RowKernel):
    """One region's rows on a GPU."""

    backwards = False
    """Which way the next walk goes."""

    def emit(self) -> Func:
        """The kernel for the rows' length, as far as it is known."""
        longest = self.kernel.machine.gpu.memory.row_elements * 4 // max(4, self._wide())
        static = all(isinstance(d, int) for d in self.extents)
        widths = self._row_widths()
        if math.prod(widths) <= (longest if static else min(longest, DYNAMIC_TILE)):
            return self._emit_tiles(widths)
        return self._emit_long()

    def _wide(self) -> int:
        """Bytes of the largest element in memory."""
        return max(element_of(v).bytes for v in (*self.kernel.body.params.values, *self.kernel.outputs))

    def _row_widths(self) -> list[int]:
        """Lanes along the dims of a whole row; two at least, for a lane of one has no mask."""
        ranges = self.kernel.space.ranges
        return [max(2, power_of_two(at_most(d, ranges))) for d in self.extents] or [1]

    # rows that are tiles

    def _emit_tiles(self, widths: Sequence[int]) -> Func:
        kernel = self.kernel
        flat = self._flattens(widths)
        size = max(2, power_of_two(at_most(positions(self.extents), {}))) if flat else math.prod(widths)
        rows = [d.extent for d in self.outer]
        height = self._height(size)
        i = self._stacked(height)
        grid, lanes, at = tiled_programs(kernel, rows, {} if i is None else {i: height})
        self.at = tuple(at)
        inner, row = self._row_lanes(widths, size if flat else 0)
        in_whole_or_part(kernel, [*lanes, *inner], lambda: self._tile(row, len(lanes)))
        tile = size * height
        work = 1 + round(tile * cost_per_element(kernel.machine.core, kernel.work)) // 64
        return kernel.finish(grid, work, _row_block(tile, self._wide()))

    def _row_lanes(self, widths: Sequence[int], flat: int) -> tuple[list[Lane], Index]:
        """Lanes over a whole row, and the row's index under them."""
        if flat:
            lane, position = lane_along(self.kernel, positions(self.extents), flat, 0)
            return [lane], unravel(position, self.extents, self.kernel.space)
        if not self.extents:
            return [Lane("", 1)], ()
        pairs = [lane_along(self.kernel, e, w, 0) for e, w in zip(self.extents, widths, strict=True)]
        return [lane for lane, _ in pairs], tuple(position for _, position in pairs)

    def _flattens(self, widths: Sequence[int]) -> bool:
        """Whether one lane over all dims of a row wastes far less than a lane for each."""
        sizes = [d for d in self.extents if isinstance(d, int)]
        if len(widths) < 2 or len(sizes) != len(self.extents):
            return False
        return power_of_two(math.prod(sizes)) < math.prod(widths)

    def _height(self, row: int) -> int:
        """Rows of a program: to `LEAST_TILE` elements, but to fewer when there are few rows."""
        rows = positions([d.extent for d in self.outer])
        height = lines_of_program(self.kernel, rows, row, LEAST_TILE, least=256)
        i = self._stacked(height)
        return 1 if i is None else fitting(self.outer[i].extent, 1, height, self.kernel.space.ranges)

    def _stacked(self, height: int) -> int | None:
        """The outer dim whose rows are put together: the innermost that is long enough, or else the longest."""
        if height == 1 or not self.outer:
            return None
        ranges = self.kernel.space.ranges
        sizes = [at_most(d.extent, ranges) for d in self.outer]
        enough = [i for i, n in enumerate(sizes) if n >= height]
        return enough[-1] if enough else max(range(len(sizes)), key=lambda i: sizes[i])

    def _tile(self, row: Index, stacked: int) -> None:
        """All reductions on the tile, then all outputs."""
        ev = self.kernel.ev
        axes = range(stacked, len(ev.lanes))
        for op in self.reduces:
            (x,) = op.operands
            fold = Fold.of(op, partial(self.value, x))
            tile = live_or_neutral(ev, fold.kind, fold.wide, fold.at(row))
            self.remember(op, across(ev, fold.kind, tile, axes, fold.elem))
        self.store_whole(row)
        outer = ev.lanes[:stacked]
        with ev.lanes_as(*outer, *(Lane("", 1) for _ in axes)) if outer else ev.lanes_as():
            self.store_row_values()

    # rows that are walked

    def _emit_long(self) -> Func:
        """A row per program, in chunks; a row of unknown length that turns out short is one tile."""
        kernel, ev = self.kernel, self.kernel.ev
        grid, self.at = programs(kernel, [d.extent for d in self.outer])
        row = self.extents[-1]
        if isinstance(row, int) or len(self.extents) > 1:
            self._walk_all()
        else:

            def as_tile() -> None:
                lane, position = lane_along(kernel, row, DYNAMIC_TILE, 0)
                with ev.lanes_as(lane):
                    self._tile((position,), 0)

            fits = ev.emit(block.le, ev.index(row), ev.const(DYNAMIC_TILE, I64))
            ev.branch(fits, as_tile, lambda _: self._walk_all())
        cost = cost_per_element(kernel.machine.core, kernel.work)
        work = positions(self.extents) * max(1, round(cost * 16)) // 1024
        return kernel.finish(grid, work, {"warps": warps_for(self._chunk(), 8, 32)})

    def _chunk(self) -> int:
        """Lanes of a chunk: more where there are few rows for each multiprocessor."""
        machine, ranges = self.kernel.machine, self.kernel.space.ranges
        few = at_most(positions([d.extent for d in self.outer]), ranges) < 4 * machine.multiprocessors
        return fitting(self.extents[-1], CHUNK // 4, CHUNK * 2 if few else CHUNK, ranges, slack=0.05)

    def _walk_all(self) -> None:
        found = levels(self.reduces)
        while found:
            level, *found = found
            if found and is_softmax(level, found[0]):
                self._walk_softmax(level[0], found.pop(0)[0])
            else:
                self.fold(level)
        self.store_all()

    def _walk_softmax(self, largest: Op, total: Op) -> None:
        """Each lane's largest element so far, and its sum relative to that, scaled down when a larger one comes."""
        ev, (z,) = self.kernel.ev, largest.operands
        elem, shape = element_of(z), (self._chunk(),)
        exp, lowest = block.ELEMENTWISE["exp"], neutral("max", elem)

        def step(row: Index, carried: Carried) -> list[Value]:
            top, acc = carried
            got = live_or_neutral(ev, "max", elem, self.value(z, row))
            larger = ev.emit(block.max_, top, got)
            none = ev.emit(block.eq, larger, ev.const(lowest, elem, shape))
            base = ev.emit(block.select, none, ev.const(0.0, elem, shape), larger)
            scale = ev.emit(exp, ev.emit(block.sub, top, base))
            term = ev.emit(exp, ev.emit(block.sub, got, base))
            return [larger, ev.emit(block.fma, acc, scale, term)]

        top, acc = self._walk(step, [ev.const(lowest, elem, shape), ev.const(0.0, elem, shape)])
        most = across(ev, "max", top, (0,), elem)
        scale = ev.emit(exp, ev.emit(block.sub, top, ev.shaped(most, shape)))
        self.remember(largest, most)
        self.remember(total, across(ev, "sum", ev.emit(block.mul, acc, scale), (0,), elem))

    def tiles(self, body: AtIndex, init: Callable[[int], Carried]) -> Iterator[Carried]:
        """A run of chunks."""
        yield self._walk(body, init(self._chunk()))

    def _walk(self, step: AtIndex, start: Sequence[Value]) -> Carried:
        """Carry values over the chunks of a row, the other way than the walk before."""
        backwards, self.backwards = self.backwards, not self.backwards

        def chunk(row: Index, lane: Lane, values: Carried) -> Yielded:
            with self.kernel.ev.lanes_as(lane):
                return step(row, values)

        return over_chunks(self.kernel, self.extents, self._chunk(), chunk, tuple(start), backwards=backwards)


def is_softmax(first: Sequence[Op], second: Sequence[Op]) -> bool:
    """Whether these levels are a largest element, and the sum of exponentials relative to it."""
    base = base_of([*first, *second])
    while base is not None and base.op is not None and base.op.kind in (graph.broadcast, graph.reshape):
        base = base.op.operands[0]
    (z,), (term,) = first[0].operands, second[0].operands
    return base == first[0].result and accumulator(element_of(term)) == element_of(z)


def base_of(reduces: Sequence[Op]) -> Value | None:
    """The base, if these are the largest z and the sum of exp(z - base)."""
    if [op.attrs["kind"] for op in reduces] != ["max", "sum"]:
        return None
    (z,), (term,) = (op.operands for op in reduces)
    shifted = term.op.operands[0].op if term.op is not None and term.op.kind is graph.exp else None
    if shifted is None or shifted.kind is not graph.sub or shifted.operands[0] != z:
        return None
    return shifted.operands[1]


def levels(reduces: Sequence[Op]) -> list[list[Op]]:
    """Reductions in groups that do not need each other's results, in an order in which they can run."""
    depth: dict[Op, int] = {}
    known: dict[Value, int] = {}

    def of(value: Value) -> int:
        if value not in known:
            op = value.op
            below = max((of(v) for v in op.operands), default=0) if op is not None else 0
            known[value] = below + (op is not None and op in reduces)
        return known[value]

    for op in reduces:
        depth[op] = of(op.result)
    return [[op for op in reduces if depth[op] == d] for d in sorted(set(depth.values()))]


def _row_block(elements: int, elem_bytes: int) -> dict[str, Attr]:
    """Two vectors a thread, but for the largest tiles 32 elements.

    No more than 16 warps if they can hold it: of blocks of 32, which wait for their last warp twice, two fit, and rows
    of 8192 f32 take 133.4 us instead of 131.4 (`benchmarks/gpu_rows.py`, without PDL).
    """
    vectors = 2 * VECTOR_BYTES // max(1, elem_bytes)
    warps = warps_for(elements, vectors, 16) if elements <= 8192 else warps_for(elements, 32, 32)
    # as many registers as leave room for a second block, whose loads fill the time that this one computes
    crowded = elements > warps * WARP * 16 and warps <= 16
    return {"warps": warps, "resident": 2} if crowded else {"warps": warps}
