"""Makes groups of few channels fewer of more, with zeros in the weights, where tensor cores do that in less time.

    %y = graph.conv(%x, %w) {groups = 32, ...} : tensor<8x54x54x256xf16>          // x: 8x56x56x256, w: 3x3x8x256

becomes

    %j = graph.iota() {axis = 2, ...} : tensor<3x3x8x8x256xi64>                     // which group of eight
    %g = graph.floormod(graph.floordiv(graph.iota() {axis = 4, ...}, 8), 8) : tensor<3x3x8x8x256xi64>
    %b = graph.select(graph.eq(%j, %g), graph.broadcast(%w), 0.0) : tensor<3x3x8x8x256xf16>
    %y = graph.conv(%x, graph.reshape(%b)) {groups = 4, ...} : tensor<8x54x54x256xf16>

A line of shared memory has 64 channels, and a step of 8 takes as long.

Requires: channels are last; what changes products has run. Ensures: the same sums, with zeros added. Cost: one sweep.
"""

from __future__ import annotations

from graphfuse.dialects import graph
from graphfuse.fusion.products.align_rows import LINE, Costs, aligned_us
from graphfuse.fusion.simplify.fold_constants import array_of, constant, full
from graphfuse.fusion.simplify.simplify_movement import broadcasted, reshaped
from graphfuse.ir.core import Func, Op, Value, attr_int, remade, tensor_of
from graphfuse.ir.rewrite import Replacement, dead_code, rebuild
from graphfuse.ir.types import BF16, F16, I64
from graphfuse.symbolic import static

LEAST = 4
"""Channels of a group: those of fewer are read at each tap, for channels together."""


def joined_groups(func: Func, costs: Costs, launch_us: float) -> Func:
    """Join the groups of convolutions of halves where that takes less time; weights are spread by one more launch."""

    def visit(op: Op) -> Replacement | None:
        counts = _counts(op)
        if not counts:
            return None
        made = [_joined(op, count) for count in counts]
        times = [launch_us + aligned_us(m, costs) for m in made]
        best = min(range(len(made)), key=times.__getitem__)
        return made[best] if times[best] * costs.gain <= aligned_us(op, costs) else None

    return dead_code(rebuild(func, visit))


def _counts(op: Op) -> list[int]:
    """How many groups could be one; groups of one result are no products of matrices."""
    if op.kind is not graph.conv or op.attrs.get("layout") != "nhwc":
        return []
    if any(tensor_of(v).elem not in (F16, BF16) for v in op.operands):
        return []
    groups, (*_, channels, out) = attr_int(op, "groups", 1), tensor_of(op.operands[1]).shape
    if groups in (1, out) or not isinstance(channels, int) or not isinstance(out, int) or channels < LEAST:
        return []
    return [n for n in range(2, groups + 1) if groups % n == 0 and n * channels <= LINE]


def _joined(op: Op, count: int) -> Op:
    """The convolution with so many groups as one each."""
    (image, weights), groups = op.operands, attr_int(op, "groups")
    return remade(op, image, _spread(weights, groups, count), groups=groups // count)


def _spread(weights: Value, groups: int, count: int) -> Value:
    """Weights of joined groups: zeros for the channels of the others."""
    *taps, channels, out = map(static, tensor_of(weights).shape)
    shape, each = (*taps, count, channels, out), out // groups
    if (array := array_of(weights)) is not None:
        known = array.reshape(*taps, 1, channels, out).repeat(count, len(taps))
        for i in range(out):
            known[..., [n for n in range(count) if n != i // each % count], :, i] = 0
        return constant(known.reshape(*taps, count * channels, out), weights.op)
    row, column = (graph.iota(shape=shape, elem=I64, axis=axis).result for axis in (len(taps), len(shape) - 1))
    of = graph.floormod(graph.floordiv_(column, full(shape, I64, each)), full(shape, I64, count))
    wide = broadcasted(reshaped(weights, (*taps, 1, channels, out)), shape)
    kept = graph.select(graph.eq(row, of), wide, full(shape, tensor_of(weights).elem, 0))
    return reshaped(kept.result, (*taps, count * channels, out))
