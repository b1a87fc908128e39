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

from collections.abc import Callable

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

Pads = tuple[tuple[int, int], ...]
"""For each operand how many of its trailing dims are a row, and by how many elements that grows; (0, 0) leaves it."""
WhichRows = Callable[[Op], Pads]


def every_row(op: Op) -> Pads:
    """For targets that do not tell: the last dim of halves is filled up to whole sectors."""
    return tuple(_last(v) for v in op.operands)


def _last(x: Value) -> tuple[int, int]:
    t = tensor_of(x)
    length = t.shape[-1] if t.rank else 0
    grown = -length % UNIT if isinstance(length, int) and t.elem in (F16, BF16) else 0
    return (1, grown) if grown else (0, 0)


def copy_rows(func: Func, which: WhichRows = every_row) -> Func:
    """Copy the operands of products that `which` tells."""
    attention = {op for found in find_attention(Dataflow(func.body)) for op in (found.scores, found.output)}
    known: dict[tuple[Value, int, int], Value] = {}

    def visit(old: Op, new: Op) -> Replacement | None:
        if old.kind is not graph.contract or old in attention:
            return None
        pads = which(new)
        if not any(grown for _, grown in pads):
            return None
        operands = list[Value]()
        for v, (dims, grown) in zip(new.operands, pads, strict=True):
            operands.append(_with_pitch(v, dims, grown, known) if grown else v)
        return remade(new, *operands)

    return dead_code(common_subexpressions(rebuild(func, visit_pair=visit)))


def _with_pitch(x: Value, dims: int, grown: int, known: dict[tuple[Value, int, int], Value]) -> Value:
    """`x` as a view of rows, of so many trailing dims, that are `grown` elements further apart than they are long.

    `known` has the constants among those that were made so far.
    """
    shape = tensor_of(x).shape
    outer, length = shape[: len(shape) - dims], product(shape[len(shape) - dims :])
    copy = known.get((x, dims, grown))
    if copy is None:
        flat = reshaped(x, (*outer, length))
        high = (*(0 for _ in outer), grown)
        padded = graph.pad(flat, low=(0,) * len(high), high=high, value=0.0)
        copy = padded.result
        if (array := _known(flat)) is not None:
            known[x, dims, grown] = copy = constant(evaluate(padded, [array])[0], x.op)
    return reshaped(sliced(copy, len(outer), 0, length), shape)


def _known(x: Value) -> Array | None:
    """A constant, or movement of one."""
    if (array := array_of(x)) is not None or x.op is None:
        return array
    if not x.op.has(Trait.MOVEMENT) or len(x.op.operands) != 1:
        return None
    inner = _known(x.op.operands[0])
    return None if inner is None else evaluate(x.op, [inner])[0]
