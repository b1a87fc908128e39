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

from graphfuse.blockgen.gpu_factors import Factor, find_box
from graphfuse.blockgen.gpu_tiles import at_most, grouped, lane_along, power_of_two
from graphfuse.blockgen.index import Index, reshape_index
from graphfuse.blockgen.kernel import Kernel, element_of, positions
from graphfuse.blockgen.loops import Carried, programs
from graphfuse.blockgen.movement import shape_of
from graphfuse.blockgen.products import Product, column_lane, store_results
from graphfuse.dialects import block, graph
from graphfuse.dialects.boxes import Unboxed
from graphfuse.dialects.codes import LINE_WORDS, PANEL, line_steps
from graphfuse.ir.core import Attr, Func, Op, Value, attr_int, tensor_of
from graphfuse.ir.types import BF16, F16, F32
from graphfuse.symbolic import Dim, ceildiv, floordiv, product, static, sym
from graphfuse.targets.machine import Machine

LEAST_ROWS, FEW_ROWS, MOST_ROWS = 8, 16, 128
"""Of a tile: what an instruction has, up to which codes take longer to come than to widen, and what registers hold."""
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


class PackedTiles:
    """Of one product; raises `Unboxed` where TMA does not copy what it reads."""

    def __init__(self, kernel: Kernel, op: Op) -> None:
        self.kernel = kernel
        self.x, self.codes, *self.numbers = op.operands
        self.rows, self.depth = product(shape_of(self.x)[:-1]), static(shape_of(self.x)[-1])
        self.panels, self.words, _ = graph.panels_of(tensor_of(self.codes))
        self.bits, self.columns = attr_int(op, "bits", 0), attr_int(op, "columns", 0)
        self.zero, self.elem = attr_int(op, "zero", 0), element_of(self.x)
        self.steps = line_steps(self.bits)
        if self.elem not in (F16, BF16):
            raise Unboxed(f"{self.elem} is multiplied as halves, whose sum it is")
        if not 0 <= self.zero <= block.MOST_ZERO:
            raise Unboxed(f"{self.zero} is no zero point that halves have beside codes")
        if any(v not in kernel.ev.leaves for v in self.numbers):
            raise Unboxed("scales are computed where they are read")
        space = kernel.space
        self.row, self.k = (str(space.fresh(*of)) for of in (("r", 0, self.rows - 1), ("k", 0, self.depth - 1)))
        extents: dict[str, Dim] = {self.row: self.rows, self.k: self.depth}
        x = Factor.of(kernel, self.x, self._row_at(sym(self.row), sym(self.k)), extents, is_left=True)
        self.boxed = find_box(kernel, x, self.row, self.k)
        domain = (self.rows, self.columns)
        self.work = Product(
            op.result, self.x, self.codes, domain, (self.depth,), lambda o, k: self._row_at(o[0], k[0]),
            lambda o, k: (*k, o[1]),
        )  # fmt: skip

    def tiles(self) -> list[Tile]:
        """The best first; others hold less in registers, or deal out steps otherwise."""
        machine, ranges = self.kernel.machine, self.kernel.space.ranges
        rows = max(LEAST_ROWS, min(MOST_ROWS, power_of_two(at_most(self.rows, ranges))))
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
    def _blocks(self) -> int:
        """Of all of K."""
        return static(shape_of(self.numbers[0])[0])

    @property
    def _of_line(self) -> int:
        """Blocks of a line, or 1 that has several lines."""
        return max(1, self._blocks * LINE_WORDS // self.words)

    def _schedule(self, machine: Machine, rows: int, columns: int) -> str:
        """Whole tiles, where they are known to fill the last wave of programs, too."""
        if not isinstance(self.rows, int):
            return STREAM
        programs = -(-self.rows // rows) * -(-self.columns // columns)
        waves = -(-programs // machine.multiprocessors)
        return COOPERATIVE if programs >= FULL * waves * machine.multiprocessors else STREAM

    def emit(self, tile: Tile) -> Func:
        """Programs of row tiles and column tiles."""
        kernel, ev = self.kernel, self.kernel.ev
        row_tiles, column_tiles = ceildiv(self.rows, tile.rows), -(-self.columns // tile.columns)
        grid, (place,) = programs(kernel, [row_tiles * column_tiles])
        r, c = grouped(kernel, place, row_tiles, column_tiles)
        row_lane, row = lane_along(kernel, self.rows, tile.rows, r * tile.rows)
        lane, column = column_lane(kernel, self.columns, tile.columns, c * tile.columns)

        def step(t: Dim, carried: Carried) -> list[Value]:
            (total,) = carried
            for line in (t * TOGETHER + i for i in range(TOGETHER)):
                at = {self.row: r * tile.rows, self.k: line * self.steps}
                w = self._weights(line, c, tile.columns)
                x = self.boxed.load(kernel, at, tile.rows, self.steps)
                total = ev.emit(block.dot, w, ev.emit(block.trans, x, perm=(1, 0)), total)
            return [total]

        zero = ev.const(0.0, F32, (tile.columns, tile.rows))
        (total,) = ev.loop("k", ceildiv(self.words, LINE_WORDS * TOGETHER), step, (zero,))
        store_results(kernel, self.work, (row, column), (lane, row_lane), total)
        attrs: dict[str, Attr] = {"flops": 2 * positions((self.rows, self.columns)) * self.depth}
        attrs |= {"warps": 8, "schedule": tile.schedule, "persistent": 1}
        attrs |= {"warpgroups": tile.warpgroups} if tile.warpgroups != 2 else {}
        attrs |= {"resident": tile.resident, "trigger": "early"} if tile.resident > 1 else {}
        return kernel.finish(grid, 1 + tile.columns * tile.rows * self.depth // 16384, attrs)

    def _weights(self, line: Dim, number: Dim, columns: int) -> Value:
        """A line of a tile's columns, widened."""
        dims, panels = (self.words // LINE_WORDS, self.panels, LINE_WORDS * PANEL), columns // PANEL
        words = self._box(self.codes, dims, (panels, dims[-1]), (line, number * panels, 0))
        at = floordiv(line * self._of_line, max(1, dims[0] // self._blocks))
        numbers = [self._box(v, shape_of(v), (self._of_line, columns), (at, number * columns)) for v in self.numbers]
        attrs: dict[str, Attr] = {"bits": self.bits, "elem": self.elem, "zero": self.zero}
        return self.kernel.ev.emit(block.widen_codes, words, *numbers, **attrs)

    def _box(self, value: Value, dims: Sequence[Dim], shape: tuple[int, int], start: Sequence[Dim]) -> Value:
        ev, leaf = self.kernel.ev, self.kernel.ev.leaves[value]
        strides = [product(dims[i:]) for i in range(1, len(dims) + 1)]
        attrs: dict[str, Attr] = {"shape": shape, "dims": tuple(dims), "strides": tuple(strides)}
        at = [ev.index(d) for d in start]
        return ev.builder.append(block.load_box.build([leaf.pointer, *at], attrs, loc=ev.builder.loc)).result

    def _row_at(self, row: Dim, k: Dim) -> Index:
        """The index in x of a row's element k."""
        return reshape_index((row, k), (self.rows, self.depth), shape_of(self.x), self.kernel.space)
