"""Layouts of `block.dot_codes`: words where they are loaded, side by side, and the rows that multiply them to match.

Which column of the result is which row of the left operand of `mma.sync` m16n8k16 does not matter, and a word has just
the steps that a lane has of it. So a lane has whole words, of four columns that lie side by side:

    words    columns 4 g .. 4 g + 3 of word t          g: the lane's number by 4, t: the rest; then columns 32 on
    x        pair t of each eight steps in row g       then rows 8 on
    acc      columns 4 g .. 4 g + 3 of rows 2 t, 2 t + 1

Nothing moves between lanes: a word's codes are widened where it has been loaded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from graphfuse.dialects.codes import LINE_WORDS, PANEL, WORD_BITS
from graphfuse.errors import TargetError
from graphfuse.gpu.transforms.dot_layouts import batched
from graphfuse.ir.core import Op, attr_int, tile_of
from graphfuse.ir.layout import LANE, REGISTER, WARP, LinearLayout, log2, tile_outs

LEAST = 8, 4, 32
"""Rows, words of a column, and columns of an instruction's operands, at least."""


def layouts(op: Op, warps: int) -> tuple[LinearLayout, LinearLayout, LinearLayout]:
    """Of x, words and sums. Raises `TargetError` where a dim is no power of two, or too short."""
    x, words, acc = (tile_of(v) for v in op.operands)
    *batch, count, columns = words.shape
    rows = x.shape[-2]
    sizes = zip((rows, count, columns), LEAST, strict=True)
    if any(n < least for n, least in sizes) or any(t.padded_shape != t.shape for t in (x, words, acc)):
        raise TargetError(f"{op.kind.name}: expected powers of two, {LEAST} or more, got {rows}, {count} and {columns}")
    n, k, per = log2(columns), log2(count), log2(WORD_BITS // attr_int(op, "bits") // 2)
    down, across = range(3, log2(rows)), range(5, n)
    made = (
        # bits of x: pairs of steps, eights of steps, rows
        ((*range(2, per + k), *_from(down, per + k)), (0, 1, *_from(range(3), per + k))),
        ((0, 1, *across, *range(n + 2, n + k)), (n, n + 1, 2, 3, 4)),
        ((n, 0, 1, *across, *_from(down, n)), (n + 1, n + 2, 2, 3, 4)),
    )
    shapes = [(rows, count << per), (count, columns), (rows, columns)]
    a, b, c = (_of(ins, shape, batch, warps) for ins, shape in zip(made, shapes, strict=True))
    return a, b, c


def of_lines(rows: int, warps: int) -> LinearLayout:
    """Of the words that `block.widen_codes` makes so many rows of: of each a lane has four columns, or two.

    Warps of a warpgroup have a panel each; where there are more warps than panels, two share one.
    """
    column = (0, 1, *(b + 2 for b in range(2, 5)), *(b + 3 for b in range(5, log2(rows))))  # of a row's bits, in words
    registers, lanes, across = _rows(rows, warps)
    ins = {
        REGISTER: [*(1 << column[b] for b in registers), 1 << 7],
        LANE: [1 << 2, 1 << 3, *(1 << column[b] for b in lanes)],
        WARP: [1 << column[b] for b in across],
    }
    return LinearLayout.of(ins, tile_outs((rows // PANEL, LINE_WORDS * PANEL)))


def of_products(rows: int, columns: int, warps: int) -> LinearLayout:
    """Of what `block.widen_codes` makes, as `wgmma` takes it from registers, and of the sums of its products.

    As ever, but for which row is which: rows 0 and 1 are the two of a lane, and slabs have rows by turns.
    """
    (first, *slabs), lanes, across = ([columns << b for b in bits] for bits in _rows(rows, warps))
    ins = {
        REGISTER: [1, first, *(1 << b for b in range(3, log2(columns))), *slabs],
        LANE: [2, 4, *lanes],
        WARP: across,
    }
    return LinearLayout.of(ins, tile_outs((rows, columns)))


def of_numbers(rows: int, blocks: int, warps: int) -> LinearLayout:
    """Of scales and zero points [blocks, rows]: lanes that have words of the same columns have the same."""
    registers, lanes, across = ([1 << b for b in bits] for bits in _rows(rows, warps))
    ins = {REGISTER: [*registers, *(rows << b for b in range(log2(blocks)))], LANE: [0, 0, *lanes], WARP: across}
    return LinearLayout.of(ins, tile_outs((blocks, rows)))


def _rows(rows: int, warps: int) -> tuple[list[int], list[int], list[int]]:
    """Which bits of a row's number tell apart registers, lanes (from the third bit on) and warps."""
    slabs = [1] if rows == PANEL * warps else []
    return [0, *slabs], [2, 3, 4], [5, 6, *([] if slabs else [1]), *range(7, log2(rows))]


def _from(bits: range, first: int) -> tuple[int, ...]:
    return tuple(first + i for i in bits)


def _of(
    ins: tuple[Sequence[int], Sequence[int]], shape: tuple[int, int], batch: Sequence[int], warps: int
) -> LinearLayout:
    """Which bits of an element's number registers and lanes have; matrices in front belong to warps, then registers."""
    registers, lanes = ([1 << i for i in bits] for bits in ins)
    matrix = LinearLayout.of({REGISTER: registers, LANE: lanes, WARP: []}, tile_outs(shape))
    groups = min(warps, math.prod(batch))
    out = batched(matrix, batch, groups)
    spare = [0] * (log2(warps) - log2(groups))
    bases = {name: list(out.bases(name)) for name in (REGISTER, LANE, WARP)}
    return LinearLayout.of({**bases, WARP: [*bases[WARP], *spare]}, dict(out.outs))
