"""Emits products with matrices of few bits for GPUs: codes are widened in registers, and multiplied by tensor cores.

    program: panels of columns, and tiles of rows, one after another
      total[w] = 0                                                  w: the warp's number
      for step: for part g of the step:
        b = (step * G + g) * W + w                                  W: of warps, G: of parts of a step
        total[w] += scale[b] * dot_codes(x[rows, b], codes[b], 0)   a part is a block, or a line of two
      sum of total along w, epilogue, store

Few rows take as long as the codes take to read: warps share the sum, so that what all of them read lies side by side,
and a step's codes are asked for a step ahead, those of the first before the launch waits for others. Sums of x, which
zero points of blocks are multiplied by, are products with codes that are all 1. Rows of f32 are three of bf16, whose
sum they are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from graphfuse.blockgen.evaluate import Lane, lane_over
from graphfuse.blockgen.gpu_contraction import operand_tile
from graphfuse.blockgen.gpu_packed_operands import PackedOperands
from graphfuse.blockgen.gpu_packed_tiles import PackedTiles, Tile
from graphfuse.blockgen.gpu_tiles import at_most, lane_along, power_of_two, whole_tiles
from graphfuse.blockgen.kernel import Kernel, element_of, positions
from graphfuse.blockgen.loops import Carried, across
from graphfuse.blockgen.movement import shape_of
from graphfuse.blockgen.products import column_lane, store_results
from graphfuse.dialects import block
from graphfuse.dialects.boxes import Unboxed
from graphfuse.dialects.codes import HALVES, LINE_WORDS, SIDE, WORD_BITS, code_bit
from graphfuse.dialects.gpu import WITHOUT_WGMMA
from graphfuse.ir.core import Attr, Func, Op, Value
from graphfuse.ir.types import BF16, F32, I32
from graphfuse.symbolic import Dim, ceildiv, exact_div, floordiv, minimum, mod, static

LEAST_ROWS, FEW_ROWS, MOST_ROWS = 8, 16, 64
"""Of a program: what an instruction has, what it has where they may be few, and what registers hold the sums of."""
WARPS, MANY_WARPS = 16, 8
"""Of a program, one on each multiprocessor; and where it has more than `FEW_ROWS`, for registers to hold the sums."""
MOST_WORDS = 16
"""Of a column: as many as a warp asks for at a time."""
WAY_US = 3.0, 2.8e-7, 2.7e-8
"""Of a launch, of a byte, and of a byte for each row: 33 MB take 13.3 us of 1 row, 13.8, 15.0, 18.3 and 27 of 2, 4, 8
and 16, 132 MB 43 of 1 (H200: `benchmarks.gpu_packed --way`)."""
TILE_US = 8.2, 2.3e-7
"""The same of tiles of few rows: 15.8 us for 33 MB, 38.6 for 132 MB."""


@dataclass(frozen=True, slots=True)
class Way:
    """Warps of a program, parts of K that each takes in a step, and programs of a multiprocessor."""

    warps: int
    parts: int
    resident: int = 1

    def __str__(self) -> str:
        return f"{self.parts} parts warps={self.warps} resident={self.resident}"


def ways(height: int, parts: int, at_once: int) -> list[Way]:
    """How to go over so many parts of K, of which a warp has room for some at once; the best first."""
    most, warps = power_of_two(parts + 1) // 2, WARPS if height <= FEW_ROWS else MANY_WARPS
    every = ((warps, at_once, 1), (warps, at_once // 2, 1), (warps // 2, at_once, 2), (warps // 2, at_once, 1))
    sizes = ((min(warps, most), max(1, group), resident) for warps, group, resident in every)
    return list(dict.fromkeys(Way(w, max(1, min(group, parts // w)), resident) for w, group, resident in sizes))


def emit(kernel: Kernel, op: Op) -> Func:
    """The product with its epilogue."""
    made, (boxed, why) = _GpuPackedProduct(kernel, op), _boxed(kernel, op)
    way = kernel.chosen(ordered(boxed.tiles() if boxed else [], made.ways, made.most, made.nbytes))
    if isinstance(way, Tile):
        assert boxed is not None, "there are tiles"
        return boxed.emit(way)
    func = made.emit(way)
    return replace(func, attrs={WITHOUT_WGMMA: why, **func.attrs}) if why else func


def _boxed(kernel: Kernel, op: Op) -> tuple[PackedTiles | None, str]:
    """The product for warpgroups; or none, and why."""
    if not kernel.machine.has_wgmma:
        return None, ""
    try:
        return PackedTiles(kernel, op), ""
    except Unboxed as reason:
        return None, str(reason)


def ordered(tiles: Sequence[Tile], ways: Sequence[Way], rows: int, nbytes: int) -> list[Tile | Way]:
    """The best first, of so many rows at most, and bytes of codes and scales."""
    launch, byte, of_row = WAY_US
    first, rest = TILE_US
    if rows > FEW_ROWS or launch + nbytes * (byte + rows * of_row) > first + nbytes * rest:
        return [*tiles, *ways]
    return [*ways, *tiles]


class _GpuPackedProduct(PackedOperands):
    def __init__(self, kernel: Kernel, op: Op) -> None:
        super().__init__(kernel, op)
        self.scale, *points = self.numbers
        self.points = points[0] if points else None
        most = self.most = at_most(self.rows, kernel.space.ranges)
        height = FEW_ROWS if most <= MOST_ROWS and not isinstance(self.rows, int) else MOST_ROWS
        self.height = max(LEAST_ROWS, min(height, power_of_two(most)))
        self.is_ahead = self.height == LEAST_ROWS
        """Whether registers have room for x a step ahead, too."""
        most_words = MOST_WORDS * FEW_ROWS // max(FEW_ROWS, self.height)
        self.at_once = next(n for n in (most_words, LINE_WORDS, SIDE) if self._are_blocks(n))
        """Words of a block: those of a longer one that has a scale are several."""
        self.of_scale = self.words // self.scales // self.at_once
        """Blocks that share a scale."""
        self.length = self.at_once * (WORD_BITS // self.bits)
        self.blocks, self.of_part = self.depth // self.length, max(1, LINE_WORDS // self.at_once)
        self.parts = -(-self.blocks // self.of_part)
        self.elem = element_of(self.x) if element_of(self.x).bytes == BF16.bytes else BF16
        self.items = self.panels * ceildiv(self.rows, self.height)
        self.nbytes = sum(math.prod(map(static, shape_of(v))) * element_of(v).bytes for v in op.operands[1:])
        self.ways = ways(self.height, self.parts, most_words // (self.at_once * self.of_part))

    def _are_blocks(self, words: int) -> bool:
        """Whether a scale's words, and all of K, are whole blocks of so many."""
        of_scale = self.words // self.scales
        return of_scale % words == 0 and self.depth % (words * WORD_BITS // self.bits) == 0

    def emit(self, way: Way) -> Func:
        """As many programs as run at a time; each goes over items, a panel and a tile of rows."""
        kernel, ev, self.way = self.kernel, self.ev, way
        self.steps, self.of_step = -(-self.parts // (way.warps * way.parts)), way.parts * self.of_part
        self.grid = minimum(self.items, way.resident * kernel.machine.multiprocessors)
        pid = ev.bind("pid", 0, self.grid - 1, ev.emit(block.program_id))

        def turn(number: Dim, carried: Carried) -> Carried:
            item = ev.bind("p", 0, self.items - 1, ev.index(pid + number * self.grid))
            total, *following = self._total(item, carried)
            self._store(item, total)
            return tuple(following)

        ev.loop("q", kernel.space.simplify(ceildiv(self.items - pid, self.grid)), turn, self._begun(pid, 0))
        attrs: dict[str, Attr] = {"flops": 2 * positions((self.rows, self.columns)) * self.depth}
        attrs |= {"warps": self.way.warps, "resident": self.way.resident, "trigger": "early"}
        return kernel.finish(self.grid, 1 + self.height * self.width * self.depth // 8192, attrs)

    def _total(self, item: Dim, begun: Carried) -> Carried:
        """Sums of each warp for an item, and what has been begun for the next one."""

        def step(t: Dim, carried: Carried) -> list[Value]:
            total, *left = carried
            following = self._begun(*self._later(item, t))
            left = left if self.is_ahead else [*self._rows(item, t), *left]
            for g in range(self.of_step):
                total = self._block(*left[g :: self.of_step], total=total)
            return [total, *following]

        return self.ev.loop("t", self.steps, step, [self._zero(), *begun], inline=False)

    def _later(self, item: Dim, t: Dim) -> tuple[Dim, Dim]:
        """The item and the step that come next; an item behind the last is none."""
        if self.grid == self.items:
            return item, t + 1
        ends = self.ev.bind("n", 0, 1, self.ev.index(floordiv(t + 1, self.steps)))
        return item + ends * self.grid, t + 1 - ends * self.steps

    def _begun(self, item: Dim, t: Dim) -> list[Value]:
        """What a step reads: x, if it is read ahead, words, scales and zero points, of each block."""
        panel, *_ = self._place(item)
        parts = [self._parts(item, t, g) for g in range(self.of_step)]
        words = [self._words(lane, panel, b, g % self.of_part) for g, (lane, b) in enumerate(parts)]
        numbers = [self._numbers(lane, panel, b) for lane, b in parts]
        xs = self._rows(item, t) if self.is_ahead else []
        return [*xs, *words, *(v for same in zip(*numbers, strict=True) for v in same)]

    def _rows(self, item: Dim, t: Dim) -> list[Value]:
        """x of each block of a step."""
        (_, rows, row), blocks = self._place(item), range(self.of_step)
        return [self._x(lane, rows, row, b) for lane, b in (self._parts(item, t, g) for g in blocks)]

    def _place(self, item: Dim) -> tuple[Dim, Lane, Dim]:
        """The panel of an item, and its rows."""
        tiles = ceildiv(self.rows, self.height)
        lane, row = lane_along(self.kernel, self.rows, self.height, mod(item, tiles) * self.height)
        return floordiv(item, tiles), lane, row

    def _parts(self, item: Dim, t: Dim, g: int) -> tuple[Lane, Dim]:
        """The lane over warps, and the block of K that each has; beyond the last there are none."""
        way, (part, block) = self.way, divmod(g, self.of_part)
        first = (t * way.parts + part) * way.warps
        limit = None
        if t != 0 or not whole_tiles(self.blocks, way.warps * self.of_step):
            count = ceildiv(self.blocks - block, self.of_part)
            limit = count - first
            if self.grid != self.items:
                limit = minimum(limit, (self.items - item) * count)
        lane, b = lane_over(self.kernel.space, way.warps, first, limit)
        return replace(lane, bounded=limit is not None), b * self.of_part + block

    def _store(self, item: Dim, total: Value) -> None:
        """The results of an item."""
        panel, row_lane, row = self._place(item)
        sums = across(self.ev, "sum", total, (0,), F32)
        sums = self.ev.emit(block.reshape, sums, shape=(self.height, self.width))
        lane, column = column_lane(self.kernel, self.columns, self.width, panel * self.width)
        store_results(self.kernel, self.work(self.rows), (row, column), (row_lane, lane), sums)

    def _zero(self) -> Value:
        return self.ev.const(0.0, F32, (self.way.warps, self.height, self.width))

    def _words(self, parts: Lane, panel: Dim, b: Dim, of_part: int) -> Value:
        """The words of a block of each warp, which is number `of_part` of a line, or whole lines."""
        ev, lines, groups = self.ev, max(1, self.at_once // LINE_WORDS), self.width // SIDE
        fours = self.at_once // lines // SIDE
        lanes, at = zip(*(lane_over(self.kernel.space, n) for n in (lines, fours, groups, SIDE, SIDE)), strict=True)
        line, four, group, *inner = at
        with ev.lanes_as(parts, *lanes):
            first = exact_div(b - of_part, self.of_part)
            assert first is not None, "blocks are counted in parts"
            where = (first * lines + line, panel, (four + of_part * fours) * groups + group, *inner)
            tile = ev.load(ev.leaves[self.codes], where)
        rows = ev.emit(block.trans, tile, perm=(0, 1, 2, 4, 3, 5))
        return ev.emit(block.reshape, rows, shape=(self.way.warps, self.at_once, self.width))

    def _numbers(self, parts: Lane, panel: Dim, b: Dim) -> list[Value]:
        """The scales of a block of each warp, and zero points, if they differ."""
        ev, (columns, column) = self.ev, lane_over(self.kernel.space, self.width)
        if self.of_scale > 1:  # not of each warp its own, so that no limit cuts off what is behind the last
            b = minimum(floordiv(b, self.of_scale), self.scales - 1)
            panel = minimum(panel, self.panels - 1)
        with ev.lanes_as(parts, Lane("", 1), columns):
            values = (self.scale, *([] if self.points is None else [self.points]))
            loaded = [ev.value(v, (b, panel * self.width + column)) for v in values]
        return [ev.shaped(v, (self.way.warps, 1, self.width)) for v in loaded]

    def _x(self, parts: Lane, rows: Lane, row: Dim, b: Dim) -> Value:
        """Rows of x along a block of each warp; halves as words."""
        steps, k = lane_over(self.kernel.space, self.length)
        with self.ev.lanes_as(parts, rows, steps):
            x = operand_tile(self.kernel, self.x, self.row_at(row, b * self.length + k), 0)
        return self.ev.emit(block.words, x) if self.elem == element_of(self.x) else x

    def _block(self, x: Value, words: Value, *numbers: Value, total: Value) -> Value:
        """The totals with one more block of each warp."""
        ev, shape = self.ev, (self.way.warps, self.height, self.width)
        scale, *points = (ev.shaped(ev.cast(v, F32), shape) for v in numbers)
        is_near = 0 <= self.zero <= block.MOST_ZERO
        points = points if is_near else [ev.const(float(self.zero), F32, shape)]
        xs = self._halves(x)
        sums = self._products(xs, words, self.zero if is_near else 0)
        for zero in points:
            ones = sum(1 << code_bit(i, self.bits, HALVES) for i in range(WORD_BITS // self.bits))
            of_x = self._products(xs, ev.const(ones, I32, (self.way.warps, self.at_once, self.width)), 0)
            sums = ev.emit(block.sub, sums, ev.emit(block.mul, zero, of_x))
        return ev.emit(block.fma, scale, sums, total)

    def _products(self, xs: Sequence[Value], words: Value, zero: int) -> Value:
        sums, attrs = self._zero(), {"bits": self.bits, "zero": zero}
        for x in xs:
            sums = self.ev.emit(block.dot_codes, x, words, sums, elem=self.elem, **attrs)
        return sums

    def _halves(self, x: Value) -> list[Value]:
        """Words of halves whose sum a tile is."""
        if self.elem == element_of(self.x):
            return [x]
        ev, out = self.ev, list[Value]()
        for _ in range(F32.bytes // BF16.bytes + 1):
            part = ev.cast(x, BF16)
            out.append(ev.emit(block.words, part))
            x = ev.emit(block.sub, x, ev.cast(part, F32))
        return out
