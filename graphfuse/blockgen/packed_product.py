"""Emits products with matrices of few bits, on a CPU: words of codes are unpacked in registers.

    for tile of up to four rows:
      (sums of x along each block, where there are zero points; x in f32, where it is not that in memory)
      for panel of columns:
        total = 0
        for block along K:
          sum = 0
          for word, for code in it: sum += x[row, k] * float(code)           a vector of columns; x is one number
          total += scale * (sum - zero * sums of x)
        epilogue on the totals, store

Rows of bytes are multiplied four at a time, with sums in i32, and have a scale for each block, too. Of floats, where
there may be many rows, a panel is unpacked to program-local memory once and multiplied by as any other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from graphfuse.blockgen.evaluate import Lane, Leaf, lane_over
from graphfuse.blockgen.index import Index, reshape_index, strides_of
from graphfuse.blockgen.kernel import Kernel, element_of, is_view, positions
from graphfuse.blockgen.loops import Carried, Fold, RowTiles, fold_row, for_row_tiles, programs, row_tiles
from graphfuse.blockgen.movement import shape_of
from graphfuse.blockgen.products import FOUR, Depth, Product, accumulate, column_lane, store_results
from graphfuse.blockgen.tiling import RUN, matmul_tiles
from graphfuse.dialects import block
from graphfuse.dialects.codes import WORD_BITS, code_bit
from graphfuse.ir.core import Func, Op, Value, attr_int
from graphfuse.ir.types import F32, I8, I32, I64, Scalar
from graphfuse.symbolic import Dim, bounds, ceildiv, divisor, minimum, product, static, sym
from graphfuse.targets.machine import Machine

HEIGHTS = (4, 3, 2)
"""Rows that are multiplied by what is unpacked at once, where there are as many."""
MANY = 32
"""Rows from which on a panel is unpacked to memory."""
TOGETHER = 8
"""Panels that a program takes at most: what it makes of rows serves all of them."""
LEAST_PROGRAMS = 16
"""Programs that are left for threads."""
UNROLLED = 4
"""Words whose code is one turn of a loop."""


def packed_width(machine: Machine) -> int:
    """Columns of a panel: of two vectors, for which as many sums fit in the registers as there are rows in a tile."""
    return machine.lanes(F32) * (2 if machine.registers >= 4 * (HEIGHTS[0] + 1) else 1)


def emit(kernel: Kernel, op: Op) -> Func:
    """The product with its epilogue."""
    return _PackedProduct(kernel, op).emit()


@dataclass(frozen=True)
class _Rows:
    """Rows of x in a tile, and the sums of their blocks in f32, times the zero point if all have one."""

    first: Dim
    count: int
    x: Leaf | None
    """A copy, as `x[row - first, k]`; None where they are read from where they are."""
    sums: Leaf | None


class _PackedProduct:
    def __init__(self, kernel: Kernel, op: Op) -> None:
        self.kernel, self.ev = kernel, kernel.ev
        self.x, self.codes, self.scale, *more = op.operands
        self.elem = I8 if element_of(self.x) == I8 else F32
        """Of rows as they are multiplied."""
        self.x_scale = more.pop(0) if self.elem == I8 else None
        self.points = more[0] if more else None
        self.panels, words, self.width = (static(d) for d in shape_of(self.codes))
        self.blocks = static(shape_of(self.scale)[1])
        self.bits, self.columns = attr_int(op, "bits", 0), attr_int(op, "columns", 0)
        self.zero = attr_int(op, "zero", 0)
        self.per = WORD_BITS // self.bits
        self.words = words // self.blocks
        """Of a block."""
        self.depth = words * self.per
        self.rows = product(shape_of(self.x)[:-1])

        def x_at(o: Index, k: Index) -> Index:
            return self._row_at(o[0], k[0], self.x)

        self.work = Product(
            op.result, self.x, self.codes, (self.rows, self.columns), (self.depth,), x_at, lambda o, k: (*k, o[1])
        )
        leaf, ahead = kernel.ev.leaves[self.codes], kernel.machine.core.row_ahead_bytes // I32.bytes
        kernel.ev.leaves[self.codes] = replace(leaf, ahead=ahead)
        # words of bytes are read of dense rows only
        is_dense = self.x in kernel.ev.leaves or (self.elem == F32 and is_view(self.x, kernel))
        self.is_ready = element_of(self.x) == self.elem and is_dense

    def emit(self) -> Func:
        """Programs of some panels, for all rows."""
        kernel, ev, rows = self.kernel, self.ev, self.rows
        together = max(1, min(TOGETHER, self.panels // LEAST_PROGRAMS))
        grid, (at,) = programs(kernel, [ceildiv(self.panels, together)])
        count = minimum(self.panels - at * together, together) if self.panels % together else together
        least, most = bounds(rows, kernel.space.ranges)

        def few() -> None:
            height, *lower = HEIGHTS
            for_row_tiles(kernel, rows, height, None, lambda r, h, _: self._tile(r, h, at * together, count), lower)

        def many() -> None:
            ev.loop("q", count, lambda q, _: self._many(at * together + q))

        if most < MANY or self.elem == I8:
            few()
        elif least >= MANY:
            many()
        else:
            ev.branch(ev.emit(block.ge, ev.index(rows), ev.const(MANY, I64)), many, lambda _: few())
        flops = rows * together * self.width * self.depth
        words = together * self.width * self.depth // self.per
        lanes = kernel.machine.lanes(F32)
        attrs = {"flops": 2 * positions((rows, self.columns)) * self.depth}
        return kernel.finish(grid, 20 + (flops + words * self.per) // (3 * lanes), attrs)

    # few rows

    def _tile(self, row: Dim, height: int, first: Dim, count: Dim) -> None:
        """Some rows of all panels of a program."""
        rows = self._rows(row, height)
        self.ev.loop("q", count, lambda q, _: self._panel(rows, first + q))

    def _rows(self, first: Dim, count: int) -> _Rows:
        """What is made of them ahead of all panels."""
        x = None if self.is_ready else self._copied(first, count)
        rows = _Rows(first, count, x, None)
        if not self.zero and self.points is None:
            return rows
        ev, length = self.ev, self.depth // self.blocks
        sums = self._local((count, self.blocks), F32)
        for r in range(count):

            def of_block(b: Dim, _: Carried, r: int = r) -> None:
                fold = Fold("sum", F32, lambda at: ev.cast(self._x(rows, r, at[0]), F32))
                (total,) = fold_row(ev, self._along_k(length, b * length), [fold])
                if self.zero:
                    total = ev.emit(block.mul, total, ev.const(float(self.zero), F32))
                ev.store(sums, (r, b), total)

            ev.loop("b", self.blocks, of_block)
        return replace(rows, sums=sums)

    def _along_k(self, length: int, first: Dim = 0) -> RowTiles:
        return row_tiles(self.kernel, length, self.kernel.machine.lanes(F32), lambda at: (first + at,))

    def _copied(self, first: Dim, count: int) -> Leaf:
        """Rows of x in program-local memory, as they are multiplied."""
        ev, leaf = self.ev, self._local((count, self.depth), self.elem)
        for r in range(count):

            def copy(at: Index, _: Carried, r: int = r) -> None:
                got = ev.value(self.x, self.work.lhs_at((first + r, 0), at))
                ev.store(leaf, (r, *at), ev.cast(got, self.elem))

            for _ in self._along_k(self.depth)(copy, lambda _: ()):
                pass
        return leaf

    def _local(self, shape: tuple[int, ...], elem: Scalar) -> Leaf:
        pointer = self.ev.emit(block.alloc, elem=elem, count=math.prod(shape))
        return Leaf(pointer, strides_of(shape), shape)

    def _x(self, rows: _Rows, r: int, k: Dim) -> Value:
        """Elements of a row."""
        if rows.x is not None:
            return self.ev.load(rows.x, (r, k))
        return self.ev.value(self.x, self.work.lhs_at((rows.first + r, 0), (k,)))

    def _panel(self, rows: _Rows, panel: Dim) -> None:
        """A tile of the rows' totals, and what follows of it."""
        ev = self.ev
        lane, column = lane_over(self.kernel.space, self.width)

        def one(b: Dim, totals: Carried) -> list[Value]:
            with ev.lanes_as(lane):
                return self._block(rows, panel, column, b, totals)

        start = [ev.const(0.0, F32, (self.width,))] * rows.count
        totals = ev.loop("b", self.blocks, one, start)
        for r, total in enumerate(totals):
            lanes, column = column_lane(self.kernel, self.columns, self.width, panel * self.width)
            store_results(self.kernel, self.work, (rows.first + r, column), (lanes,), total)

    def _block(self, rows: _Rows, panel: Dim, column: Dim, b: Dim, totals: Carried) -> list[Value]:
        """The totals with one block more."""
        ev, shape = self.ev, (self.width,)
        sums = self._block_sums(rows, panel, column, b * self.words)
        scale = self._of_block(self.scale, panel, b, column)
        points = None if self.points is None else self._of_block(self.points, panel, b, column)
        out: list[Value] = []
        for r, (total, products) in enumerate(zip(totals, sums, strict=True)):
            products = ev.cast(products, F32)
            if rows.sums is not None:
                off = ev.shaped(ev.load(rows.sums, (r, b)), shape)
                off = off if points is None else ev.emit(block.mul, off, points)
                products = ev.emit(block.sub, products, off)
            here = scale
            if self.x_scale is not None:
                at = self._row_at(rows.first + r, b, self.x_scale)
                here = ev.emit(block.mul, scale, ev.shaped(ev.value(self.x_scale, at), shape))
            out.append(ev.emit(block.fma, here, products, total))
        return out

    def _block_sums(self, rows: _Rows, panel: Dim, column: Dim, first: Dim) -> Sequence[Value]:
        """The sums of a block's words; floats in runs, these added then."""
        ev, shape, words = self.ev, (self.width,), self.words
        most = words if self.elem == I8 else max(1, RUN // self.per)
        run = divisor(words, most)
        some = divisor(run, UNROLLED)
        add = self._add_floats if self.elem == F32 else self._add_bytes
        start = [ev.const(0.0, F32, shape) if self.elem == F32 else ev.const(0, I32, shape)] * rows.count

        def of_run(begin: Dim) -> Carried:
            def turn(w: Dim, sums: Carried) -> list[Value]:
                out = list(sums)
                for j in range(some):
                    word = begin + w * some + j
                    out = add(rows, word, self._word(panel, word, column), out)
                return out

            return ev.loop("w", run // some, turn, start)

        def plus(r: Dim, sums: Carried) -> list[Value]:
            found = of_run(first + r * run)
            return [ev.emit(block.add, total, more) for total, more in zip(sums, found, strict=True)]

        return of_run(first) if run == words else ev.loop("r", words // run, plus, start)

    def _add_floats(self, rows: _Rows, word: Dim, codes: Value, sums: Sequence[Value]) -> list[Value]:
        """The products of a word's codes and of x, code by code."""
        ev, out = self.ev, list(sums)
        for i, code in enumerate(self._unpacked(codes)):
            for r in range(rows.count):
                x = ev.shaped(self._x(rows, r, word * self.per + i), (self.width,))
                out[r] = ev.emit(block.fma, x, code, out[r])
        return out

    def _add_bytes(self, rows: _Rows, word: Dim, codes: Value, sums: Sequence[Value]) -> list[Value]:
        """The same of four codes at a time, which are the low bits of the bytes of what is shifted."""
        ev, out, steps = self.ev, list(sums), self.per // FOUR
        for i in range(steps):
            four = self._bits(codes, self.bits * i, ((1 << self.bits) - 1) * 0x01010101)
            for r in range(rows.count):
                x = ev.shaped(self._x_word(rows, r, word * steps + i), (self.width,))
                out[r] = ev.emit(block.dot_bytes, four, x, out[r], bits=self.bits)
        return out

    def _x_word(self, rows: _Rows, r: int, word: Dim) -> Value:
        """Four bytes of a row."""
        leaf, row = (rows.x, r) if rows.x is not None else (self.ev.leaves[self.x], rows.first + r)
        words = self.ev.emit(block.pointer_cast, leaf.pointer, to=I32)
        return self.ev.load(Leaf(words, (self.depth // FOUR, 1), (self.rows, self.depth // FOUR)), (row, word))

    def _row_at(self, row: Dim, k: Dim, value: Value) -> Index:
        """The index of a row's element k in a value whose rows are those of x."""
        shape = shape_of(value)
        return reshape_index((row, k), (self.rows, shape[-1]), shape, self.kernel.space)

    def _word(self, panel: Dim, word: Dim, column: Dim) -> Value:
        """A word of each column."""
        return self.ev.load(self.ev.leaves[self.codes], (panel, word, column))

    def _bits(self, words: Value, at: int, mask: int) -> Value:
        """Bits of words, from `at` on."""
        ev, shape = self.ev, (self.width,)
        moved = ev.emit(block.ELEMENTWISE["shr"], words, ev.const(at, I32, shape)) if at else words
        mask -= (mask >> 31) << 32
        return moved if mask == -1 else ev.emit(block.and_, moved, ev.const(mask, I32, shape))

    def _unpacked(self, words: Value) -> list[Value]:
        """The codes of words, as f32."""
        bits = (self._bits(words, code_bit(i, self.bits), (1 << self.bits) - 1) for i in range(self.per))
        return [self.ev.cast(code, F32) for code in bits]

    def _of_block(self, value: Value, panel: Dim, b: Dim, column: Dim) -> Value:
        """Numbers of a block's columns, as f32."""
        return self.ev.cast(self.ev.value(value, (panel, b, column)), F32)

    # many rows

    def _many(self, panel: Dim) -> None:
        """Unpack a panel, and multiply all rows by it."""
        kernel, ev = self.kernel, self.ev
        leaf = self._local((self.depth, self.width), F32)
        lane, column = lane_over(kernel.space, self.width)

        def unpack(b: Dim, _: Carried) -> None:
            with ev.lanes_as(lane):
                scale = self._of_block(self.scale, panel, b, column)
                if self.points is not None:
                    zero = self._of_block(self.points, panel, b, column)
                else:
                    zero = ev.const(float(self.zero), F32, (self.width,))

                def some(w: Dim, _: Carried) -> None:
                    word = b * self.words + w
                    for i, code in enumerate(self._unpacked(self._word(panel, word, column))):
                        got = ev.emit(block.mul, ev.emit(block.sub, code, zero), scale)
                        ev.store(leaf, (word * self.per + i, column), got)

                ev.loop("w", self.words, some)

        ev.loop("b", self.blocks, unpack)
        vectors = self.width // kernel.machine.lanes(F32)
        rows = self.rows if isinstance(self.rows, int) else MANY
        tile = matmul_tiles(kernel.machine, F32, rows, vectors, self.depth, row_stride=self.depth)[0]
        depth = Depth((self.depth,), lambda k: k, tile.k_step)

        def rows_of(row: Dim, height: int, _: Dim) -> None:
            rows, here = lane_over(kernel.space, height, row)
            lanes, at = column_lane(kernel, self.columns, self.width, panel * self.width)
            copied = None if self.is_ready else self._copied(row, height)

            def row_at(k: Dim) -> tuple[Leaf, Index]:
                assert copied is not None
                return copied, (sym(rows.name), k)

            index = (here, at)
            acc = accumulate(
                kernel, self.work, index, rows, Lane(lanes.name, lanes.extent), depth,
                lambda k: (leaf, (k, sym(lanes.name))), None if copied is None else row_at,
            )  # fmt: skip
            store_results(kernel, self.work, index, (rows, lanes), acc)

        for_row_tiles(kernel, self.rows, tile.rows, None, rows_of)
