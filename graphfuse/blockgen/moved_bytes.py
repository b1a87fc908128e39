"""Products of bytes of one kind, where processors multiply unsigned by signed ones (`cpu/lower_dot_bytes.py`).

A panel that is packed anyway has its bytes as those of the other kind, which is their first bit turned round. What
that adds to each row of sums is known from that row of lhs alone:

    sum of a (b + 128) - 128 * sum of a        signed, and panels unsigned
    sum of a (b - 128) + 128 * sum of a        unsigned, and panels signed

Sums of rows are made once for all panels of a program.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphfuse.blockgen.access import Accesses, merged_index
from graphfuse.blockgen.evaluate import Evaluator, Lane, Leaf, lane_over
from graphfuse.blockgen.index import Index, coefficient
from graphfuse.blockgen.kernel import element_of
from graphfuse.blockgen.loops import Fold, fold_row, for_row_tiles, row_tiles
from graphfuse.dialects import block
from graphfuse.ir.core import Value, tile_of
from graphfuse.ir.types import I8, I32, U8, Scalar
from graphfuse.symbolic import Dim

if TYPE_CHECKING:
    from graphfuse.blockgen.contraction import ContractionKernel

FIRST_BIT = 0x80
"""Of a byte: how far signed and unsigned ones are apart."""
FIRST_BITS = -0x7F7F7F80
"""Of the four bytes of a word."""


def flips_signs(contraction: ContractionKernel, lhs: Accesses) -> bool:
    """Whether panels have the other kind of bytes: where both factors are of one, and rows are dense along k."""
    machine, k_dims = contraction.kernel.machine, contraction.k_dims
    elems = {element_of(contraction.work.lhs), element_of(contraction.work.rhs)}
    if not (contraction.in_fours and contraction.packs and machine.mixes_bytes and len(elems) == 1):
        return False
    if contraction.shared or contraction.row_dim is None or not isinstance(contraction.rows, int):
        return False
    return len(k_dims) == 1 and [coefficient(o, contraction.k_names[k_dims[0].last]) for o in lhs.offsets] == [1]


def other_kind(elem: Scalar) -> Scalar:
    """Signed bytes of unsigned ones, and the reverse."""
    return U8 if elem == I8 else I8


def move_bytes(ev: Evaluator, tile: Value) -> Value:
    """A tile of bytes as those of the other kind."""
    moved = ev.emit(block.bitcast, tile, to=other_kind(block.elem_of(tile.type)))
    elem = block.elem_of(moved.type)
    bit = ev.const(FIRST_BIT - 256 * elem.is_signed, elem, tile_of(tile).shape)
    return ev.emit(block.ELEMENTWISE["xor"], moved, bit)


def move_words(ev: Evaluator, tile: Value) -> Value:
    """A tile of words of four bytes as those of the other kind."""
    return ev.emit(block.ELEMENTWISE["xor"], tile, ev.const(FIRST_BITS, I32, tile_of(tile).shape))


@dataclass(frozen=True)
class RowSums:
    """What is taken off all sums of a row, for the rows of a program and those that its last tile goes back to."""

    contraction: ContractionKernel
    leaf: Leaf
    first: Dim
    """The row of the first element."""

    @staticmethod
    def made(contraction: ContractionKernel, at: Index, block_rows: tuple[Dim, int] | None) -> RowSums:
        """Those of a program."""
        ev, height = contraction.kernel.ev, contraction.tile.rows
        i, n = (0, contraction.rows) if block_rows is None else block_rows
        assert isinstance(n, int)
        leaf = Leaf(ev.emit(block.alloc, elem=I32, count=n + height), (1,), (n + height,))
        sums = RowSums(contraction, leaf, i * n - height)

        def tile(row: Dim, count: int, _: Dim) -> None:
            ev.loop("s", count, lambda r, _: sums._store(at, row + r))

        for_row_tiles(contraction.kernel, contraction.rows, height, block_rows, tile)
        return sums

    def _store(self, at: Index, row: Dim) -> None:
        contraction, ev = self.contraction, self.contraction.kernel.ev
        work, (dim,) = contraction.work, contraction.k_dims
        index, lanes = contraction.position(at, row, 0), contraction.kernel.machine.lanes(I32)

        def byte(k: Dim) -> Value:
            return ev.cast(ev.value(work.lhs, work.lhs_at(index, merged_index(len(work.depth), [dim], (k,)))), I32)

        tiles = row_tiles(contraction.kernel, dim.extent, lanes, lambda k: (k,))
        (total,) = fold_row(ev, tiles, [Fold("sum", I32, lambda k: byte(k[0]))])
        by = FIRST_BIT if element_of(work.lhs).is_signed else -FIRST_BIT
        ev.store(self.leaf, (row - self.first,), ev.emit(block.mul, total, ev.const(by, I32)))

    def taken_off(self, acc: Value, row: Dim) -> Value:
        """The sums of a tile from a row on as those of the factors' own bytes."""
        ev, shape = self.contraction.kernel.ev, tile_of(acc).shape
        rows, here = lane_over(self.contraction.kernel.space, shape[0], row)
        with ev.lanes_as(rows, Lane("", 1)):
            taken = ev.shaped(ev.load(self.leaf, (here - self.first,)), (shape[0], 1))
        return ev.emit(block.sub, acc, ev.emit(block.broadcast, taken, shape=shape))
