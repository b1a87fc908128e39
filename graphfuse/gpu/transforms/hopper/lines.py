"""Stores that TMA cannot make, such as of rows of 4097 halves, by warps whose lanes are neighbours in memory.

In an accumulator four lanes share eight columns of a row, so that a warp writes to eight rows at once, and each of its
instructions to a few bytes of eight sectors. Lanes take over the columns that registers count, and registers the rows
that lanes counted: data stays in its warp, as exchanges by shuffles.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphfuse.dialects import block, gpu
from graphfuse.gpu.transforms.hopper.affine import Scalars
from graphfuse.ir.core import Builder, Op, Value, attr_dims
from graphfuse.ir.layout import LANE, REGISTER, LinearLayout

MOST_ACCUMULATORS = 128
"""Of a thread that has registers for the exchange beside what an epilogue computes and reads."""


def has_room(accumulators: int, value: Value, products: Sequence[Value]) -> bool:
    """Whether a thread of so many accumulators has registers to spare when it stores a value."""
    op = value.op
    is_product = value in products or (op is not None and op.kind is block.cast and op.operands[0] in products)
    return is_product or accumulators <= MOST_ACCUMULATORS


def in_lines(b: Builder, value: Value, layout: LinearLayout, store: Op, scalars: Scalars) -> Value:
    """A part of what a `store_view` writes, in a layout by which a warp writes few rows at once."""
    rows, columns = attr_dims(store, "strides")
    if columns != 1:
        return value
    pairs = scalars.divisor(rows) % 2 == 0 and scalars.divisor(scalars.dim(store.operands[1])) % 2 == 0
    lines = lines_of(layout, pairs=pairs)
    return value if lines == layout else b(gpu.convert_layout, value, layout=lines, route="shuffle")


def lines_of(layout: LinearLayout, *, pairs: bool) -> LinearLayout:
    """The same elements in the same warps, columns counted by lanes; with `pairs` neighbours stay in one lane."""
    whole = 1 << layout.outs[-1][1]
    registers, lanes = list(layout.bases(REGISTER)), list(layout.bases(LANE))
    columns = sorted(base for base in registers if base < whole and not (pairs and base == 1))
    for column, row in zip(columns, [base for base in lanes if base >= whole], strict=False):
        registers[registers.index(column)], lanes[lanes.index(row)] = row, column
    ins = {name: layout.bases(name) for name in layout.in_names} | {REGISTER: tuple(registers), LANE: tuple(lanes)}
    return LinearLayout.of(ins, dict(layout.outs))
