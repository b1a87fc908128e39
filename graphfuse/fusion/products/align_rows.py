"""Operands whose rows begin at odd addresses are copied into rows that TMA can read.

    %y = graph.contract(%x, %w) {spec = "km,kn->mn"} : tensor<4095x4104xbf16>          // x: 1000 x 4095

becomes

    %p = graph.pad(%x) {high = [0, 1], low = [0, 0], value = 0.0} : tensor<1000x4096xbf16>
    %s = graph.slice(%p) {sizes = [1000, 4095], starts = [0, 0], steps = [1, 1]} : tensor<1000x4095xbf16>
    %y = graph.contract(%s, %w) {spec = "km,kn->mn"} : tensor<4095x4104xbf16>

The slice is a view: the product reads 4095 columns of rows that are 4096 apart, and never what was added. Trailing
dims that are one dim of the product are padded as one. Constants are copied when compiling; an operand of several
products is copied once.

Requires: whatever changes products has run, and nothing after it merges slices with pads. Declines attention, and
what the target does not ask for. Ensures: the same factors. Cost: one sweep.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import ClassVar, Protocol

from graphfuse.dialects import graph
from graphfuse.fusion.regions.attention import find_attention
from graphfuse.fusion.regions.dataflow import Dataflow
from graphfuse.fusion.simplify.fold_constants import Array, array_of, constant, evaluate
from graphfuse.fusion.simplify.simplify_movement import reshaped, sliced
from graphfuse.ir.core import Func, Op, Trait, Value, remade, tensor_of
from graphfuse.ir.rewrite import Replacement, common_subexpressions, dead_code, rebuild
from graphfuse.ir.types import BF16, F16
from graphfuse.symbolic import product

UNIT = 16
"""Elements of 2 bytes in a sector of memory."""
Row = tuple[int, int]
"""How many trailing dims of an operand are a row, and by how many elements that grows; (0, 0) leaves it."""
STAYS: Row = (0, 0)


class Costs(Protocol):
    """What a target says of products by how their operands lie in memory."""

    gain: ClassVar[float]
    """How many times less something must cost before it is taken to be less."""

    def stays(self, op: Op) -> bool:
        """Whether copies are of no use to a product."""
        ...

    def us(self, op: Op) -> float:
        """Microseconds that a product takes, with the pads that it reads."""
        ...


def _last(x: Value) -> Row:
    """The last dim of halves, filled up to whole sectors."""
    t = tensor_of(x)
    length = t.shape[-1] if t.rank else 0
    grown = -length % UNIT if isinstance(length, int) and t.elem in (F16, BF16) else 0
    return (1, grown) if grown else STAYS


def _row(op: Op, side: int) -> Row:
    """The dims of an operand that lie side by side and have one role in the product, in whole sectors."""
    labels = graph.parse_spec(str(op.attrs["spec"]))
    shape = tensor_of(op.operands[side]).shape
    role: tuple[bool, ...] | None = None
    first = len(shape)
    for i in reversed(range(len(shape))):
        if shape[i] != 1:
            its = tuple(labels[side][i] in each for each in labels)
            if role not in (None, its):
                break
            role, first = its, i
    length = product(shape[first:])
    if role is None or not isinstance(length, int) or _is_spread(op.operands[side]):
        return STAYS
    return len(shape) - first, -length % UNIT or UNIT  # whole sectors may still be apart by something else


def _is_spread(x: Value) -> bool:
    """Whether it is a view of fewer elements."""
    while x.op is not None and x.op.has(Trait.MOVEMENT):
        if x.op.kind in (graph.broadcast, graph.stretch):
            return True
        x = x.op.operands[0]
    return False


def copy_rows(func: Func, costs: Costs | None = None) -> Func:
    """Copy the operands of products for which that costs less; without costs all whose last dim is no whole sectors."""
    attention = {op for found in find_attention(Dataflow(func.body)) for op in (found.scores, found.output)}
    known: dict[tuple[Value, Row], Value] = {}

    def visit(old: Op, new: Op) -> Replacement | None:
        if old.kind is not graph.contract or old in attention:
            return None
        rows = cheapest_rows(new, costs) if costs else tuple(map(_last, new.operands))
        if not any(grown for _, grown in rows):
            return None
        return remade(new, *(_with_pitch(v, row, known) for v, row in zip(new.operands, rows, strict=True)))

    return dead_code(common_subexpressions(rebuild(func, visit_pair=visit)))


def cheapest_rows(op: Op, costs: Costs) -> tuple[Row, ...]:
    """Which operands of a contraction to copy."""
    if costs.stays(op):
        return (STAYS,) * len(op.operands)

    def us(rows: Sequence[Row]) -> float:
        return costs.us(remade(op, *(_with_pitch(v, row) for v, row in zip(op.operands, rows, strict=True))))

    as_stored, *copied = itertools.product(*({STAYS: None, _row(op, side): None} for side in range(2)))
    times = {rows: us(rows) for rows in copied}
    best = min(times, key=times.__getitem__, default=as_stored)
    return best if times and times[best] * costs.gain <= us(as_stored) else as_stored


def _with_pitch(x: Value, row: Row, known: dict[tuple[Value, Row], Value] | None = None) -> Value:
    """`x` as a view of rows that are further apart than they are long.

    `known` has the constants among those that were made so far; without it nothing is evaluated.
    """
    dims, grown = row
    if not grown:
        return x
    shape = tensor_of(x).shape
    outer, length = shape[: len(shape) - dims], product(shape[len(shape) - dims :])
    copy = known.get((x, row)) if known else None
    if copy is None:
        flat = reshaped(x, (*outer, length))
        high = (*(0 for _ in outer), grown)
        padded = graph.pad(flat, low=(0,) * len(high), high=high, value=0.0)
        copy = padded.result
        if known is not None and (array := _known(flat)) is not None:
            known[x, row] = copy = constant(evaluate(padded, [array])[0], x.op)
    return reshaped(sliced(copy, len(outer), 0, length), shape)


def _known(x: Value) -> Array | None:
    """A constant, or movement of one."""
    if (array := array_of(x)) is not None or x.op is None:
        return array
    if not x.op.has(Trait.MOVEMENT) or len(x.op.operands) != 1:
        return None
    inner = _known(x.op.operands[0])
    return None if inner is None else evaluate(x.op, [inner])[0]
