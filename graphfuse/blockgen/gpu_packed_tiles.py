"""Emits products with matrices of few bits for warpgroups: tiles, whose codes are widened in registers.

    sums = 0                                                        [columns, rows]
    for line:
      sums = dot(widen_codes(box of words, box of scales), trans(box of x), sums)
    epilogue on sums, store

Columns are the rows of the product that `wgmma` makes, as that takes its left operand from registers. TMA copies all
that is read, and a warpgroup widens codes while another multiplies (`hopper/matmul_codes.py`). Weights are
rounded to the halves that they are multiplied as.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from graphfuse.blockgen.gpu_factors import Boxed, Factor, find_box
from graphfuse.blockgen.gpu_packed_operands import PackedOperands
from graphfuse.blockgen.gpu_tiles import at_most, grouped, lane_along, power_of_two
from graphfuse.blockgen.index import unravel
from graphfuse.blockgen.kernel import Kernel, element_of, positions
from graphfuse.blockgen.loops import Carried, programs
from graphfuse.blockgen.movement import shape_of
from graphfuse.blockgen.products import column_lane, store_results
from graphfuse.dialects import block, graph
from graphfuse.dialects.boxes import Unboxed
from graphfuse.dialects.codes import LINE_WORDS, PANEL, line_steps
from graphfuse.ir.core import Attr, Func, Op, Value
from graphfuse.ir.types import BF16, F16, F32
from graphfuse.symbolic import Dim, ceildiv, floordiv, product, sym
from graphfuse.targets.machine import Machine

LEAST_ROWS, FEW_ROWS, MOST_ROWS = 8, 16, 128
"""Of a tile: what an instruction has, up to which codes take longer to come than to widen, and what registers hold."""
LEAST_FILLED = 64
"""Rows, where each place has tiles of its own: of fewer, codes would be widened for rows that are not there."""
WIDE = 256
"""Columns of a tile, of which a warpgroup has 64 or 128."""
LEAN_BITS = 4
"""Of codes, of which two lines, widened, leave registers for two programs, or for wide tiles."""
COOPERATIVE, STREAM = "cooperative", "stream"
FULL = 0.93
"""Of the last wave of programs: then dealing out steps saves less than it takes. 2,048 rows of 4096 x 14336 take 344 us
by whole tiles, 360 dealt out; 256 rows 94 and 51 (H200: `benchmarks.gpu_packed --way`)."""
TOGETHER = 2
"""Lines of a step: while one is multiplied by, the other is widened in registers of its own."""


@dataclass(frozen=True, slots=True)
class Tile:
    """Columns and rows of a program, and how programs are dealt out."""

    columns: int
    rows: int
    schedule: str = COOPERATIVE
    warpgroups: int = 2
    resident: int = 1
    """Programs that a multiprocessor has room for: one runs, and one of the next launch begins."""

    def __str__(self) -> str:
        ends = f"warpgroups={self.warpgroups} resident={self.resident}"
        return f"{self.columns} x {self.rows} {self.schedule} {ends}"


@dataclass(frozen=True, slots=True)
class _Boxes:
    """How TMA copies x: so many rows at each of `outer` places, and K as one dim, or line by line as several."""

    box: Boxed
    outer: Dim
    rows: Dim
    in_lines: bool
    names: Sequence[str]
    """Variables: place, row, line, and step of it."""

    def load(self, kernel: Kernel, place: Dim, row: Dim, line: Dim, tile: tuple[int, int]) -> Value:
        """A tile of rows and steps, from the beginning of a line of codes on."""
        along = (line, 0) if self.in_lines else (0, line * tile[1])
        return self.box.load(kernel, dict(zip(self.names, (place, row, *along), strict=True)), *tile)


class PackedTiles(PackedOperands):
    """Of one product; raises `Unboxed` where TMA does not copy what it reads."""

    def __init__(self, kernel: Kernel, op: Op) -> None:
        super().__init__(kernel, op)
        self.elem, self.steps = element_of(self.x), line_steps(self.bits)
        if self.elem not in (F16, BF16):
            raise Unboxed(f"{self.elem} is multiplied as halves, whose sum it is")
        if not 0 <= self.zero <= block.MOST_ZERO:
            raise Unboxed(f"{self.zero} is no zero point that halves have beside codes")
        self.numbers = [self._stored(v) for v in self.numbers]
        if any(v not in kernel.ev.leaves for v in self.numbers):
            raise Unboxed("scales are computed where they are read")
        self.boxes = self._boxes()

    def _stored(self, numbers: Value) -> Value:
        """What memory holds where numbers are widened as they are read: they are rounded to halves here anyway."""
        if numbers.op is None or numbers.op.kind is not graph.cast:
            return numbers
        (x,) = numbers.op.operands
        return x if element_of(x).is_float and element_of(x).bytes < element_of(numbers).bytes else numbers

    def _boxes(self) -> _Boxes:
        try:
            return self._found((), self.rows)
        except Unboxed as why:
            *places, rows = self.lead or (1,)
            fill = product(places) == 1 or (isinstance(rows, int) and rows >= LEAST_FILLED)
            if not fill or self.depth % (TOGETHER * self.steps):  # what is cut off would read what follows a line
                raise
            try:
                return self._found(places, rows, in_lines=True)
            except Unboxed:
                raise why from None

    def _found(self, lead: Sequence[Dim], rows: Dim, *, in_lines: bool = False) -> _Boxes:
        """Boxes of so many rows at each place of other dims."""
        space, depth = self.kernel.space, self.steps if in_lines else self.depth
        sizes = product(lead), rows, self.depth // depth, depth
        names = [str(space.fresh(hint, 0, n - 1)) for hint, n in zip("prlk", sizes, strict=True)]
        place, r, line, k = map(sym, names)
        at = self.work(*lead, rows).lhs_at((*unravel(place, lead, space), r, 0), (line * depth + k,))
        x = Factor.of(self.kernel, self.x, at, dict(zip(names, sizes, strict=True)), is_left=True)
        return _Boxes(find_box(self.kernel, x, names[1], names[3]), sizes[0], rows, in_lines, names)

    def tiles(self) -> list[Tile]:
        """The best first; others hold less in registers, or deal out steps otherwise."""
        machine, ranges = self.kernel.machine, self.kernel.space.ranges
        rows = max(LEAST_ROWS, min(MOST_ROWS, power_of_two(at_most(self.boxes.rows, ranges))))
        columns = WIDE if self.columns > WIDE // 2 else WIDE // 2
        is_lean = self.bits >= LEAN_BITS
        if rows <= FEW_ROWS:  # as long as memory takes: the next launch copies its first codes meanwhile
            wide = WIDE // 2 if len(self.numbers) > 1 and self._of_line > 1 else columns
            best = Tile(wide, rows, STREAM, wide // 64, resident=2 if is_lean else 1)
        elif rows < MOST_ROWS:
            best = Tile(WIDE // 2, rows, STREAM, resident=2 if is_lean else 1)
        else:
            best = Tile(columns if is_lean else WIDE // 2, rows, self._schedule(machine, rows, columns))
        narrow, other = replace(best, columns=WIDE // 2, warpgroups=2), COOPERATIVE
        every = best, replace(best, resident=1), narrow, replace(narrow, resident=1)
        return list(dict.fromkeys([*every, *(replace(t, schedule=s) for t in every for s in (STREAM, other))]))

    @property
    def _of_line(self) -> int:
        """Blocks of a line, or 1 that has several lines."""
        return max(1, self.scales * LINE_WORDS // self.words)

    def _schedule(self, machine: Machine, rows: int, columns: int) -> str:
        """Whole tiles, where they are known to fill the last wave of programs, too."""
        count = self.boxes.outer * ceildiv(self.boxes.rows, rows) * -(-self.columns // columns)
        if not isinstance(count, int):
            return STREAM
        waves = -(-count // machine.multiprocessors)
        return COOPERATIVE if count >= FULL * waves * machine.multiprocessors else STREAM

    def emit(self, tile: Tile) -> Func:
        """Programs of row tiles and column tiles."""
        kernel, ev, boxes = self.kernel, self.kernel.ev, self.boxes
        row_tiles, column_tiles = ceildiv(boxes.rows, tile.rows), -(-self.columns // tile.columns)
        grid, (outer, place) = programs(kernel, [boxes.outer, row_tiles * column_tiles])
        r, c = grouped(kernel, place, row_tiles, column_tiles)
        row_lane, row = lane_along(kernel, boxes.rows, tile.rows, r * tile.rows)
        lane, column = column_lane(kernel, self.columns, tile.columns, c * tile.columns)

        def step(t: Dim, carried: Carried) -> list[Value]:
            (total,) = carried
            for line in (t * TOGETHER + i for i in range(TOGETHER)):
                w = self._weights(line, c, tile.columns)
                x = boxes.load(kernel, outer, r * tile.rows, line, (tile.rows, self.steps))
                total = ev.emit(block.dot, w, ev.emit(block.trans, x, perm=(1, 0)), total)
            return [total]

        zero = ev.const(0.0, F32, (tile.columns, tile.rows))
        (total,) = ev.loop("k", ceildiv(self.words, LINE_WORDS * TOGETHER), step, (zero,))
        work = self.work(boxes.outer, boxes.rows)
        store_results(kernel, work, (outer, row, column), (lane, row_lane), total)
        attrs: dict[str, Attr] = {"flops": 2 * positions((self.rows, self.columns)) * self.depth}
        attrs |= {"warps": 8, "schedule": tile.schedule, "persistent": 1}
        attrs |= {"warpgroups": tile.warpgroups} if tile.warpgroups != 2 else {}
        attrs |= {"resident": tile.resident, "trigger": "early"} if tile.resident > 1 else {}
        return kernel.finish(grid, 1 + tile.columns * tile.rows * self.depth // 16384, attrs)

    def _weights(self, line: Dim, number: Dim, columns: int) -> Value:
        """A line of a tile's columns, widened."""
        dims, panels = (self.words // LINE_WORDS, self.panels, LINE_WORDS * PANEL), columns // PANEL
        words = self._box(self.codes, dims, (panels, dims[-1]), (line, number * panels, 0))
        at = floordiv(line * self._of_line, max(1, dims[0] // self.scales))
        numbers = [self._box(v, shape_of(v), (self._of_line, columns), (at, number * columns)) for v in self.numbers]
        attrs: dict[str, Attr] = {"bits": self.bits, "elem": self.elem, "zero": self.zero}
        return self.kernel.ev.emit(block.widen_codes, words, *numbers, **attrs)

    def _box(self, value: Value, dims: Sequence[Dim], shape: tuple[int, int], start: Sequence[Dim]) -> Value:
        ev, leaf = self.kernel.ev, self.kernel.ev.leaves[value]
        strides = [product(dims[i:]) for i in range(1, len(dims) + 1)]
        attrs: dict[str, Attr] = {"shape": shape, "dims": tuple(dims), "strides": tuple(strides)}
        at = [ev.index(d) for d in start]
        return ev.builder.append(block.load_box.build([leaf.pointer, *at], attrs, loc=ev.builder.loc)).result
