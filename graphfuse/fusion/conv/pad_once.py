"""Pads an image once that several convolutions read with other padding each: they read parts of it.

The phases of a transposed convolution

    %a = graph.pad(%x) {high = [0, 0, 1, 0], low = [0, 0, 0, 0], value = 0.0} : tensor<8x35x36x162xf32>
    %b = graph.pad(%x) {high = [0, 1, 0, 0], low = [0, 0, 0, 0], value = 0.0} : tensor<8x36x35x162xf32>

become

    %p = graph.pad(%x) {high = [0, 1, 1, 0], low = [0, 0, 0, 0], value = 0.0} : tensor<8x36x36x162xf32>
    %a = graph.slice(%p) {sizes = [8, 35, 36, 162], starts = [0, 0, 0, 0], steps = [1, 1, 1, 1]}
    %b = graph.slice(%p) {sizes = [8, 36, 35, 162], starts = [0, 0, 0, 0], steps = [1, 1, 1, 1]}

Windows that read through their padding are left alone: nothing is stored for them.

Requires: decompose-conv. Ensures: the same values. Cost: one walk.
"""

from __future__ import annotations

from graphfuse.dialects import graph
from graphfuse.fusion.regions.dataflow import is_depthwise
from graphfuse.ir.core import Func, Op, Value, attr_ints, attr_number, tensor_of
from graphfuse.ir.passes import passing
from graphfuse.ir.rewrite import Replacement, common_subexpressions, readers, rebuild

Sides = tuple[tuple[int, ...], tuple[int, ...]]
"""Low and high."""


@passing("graph", after=("decompose-conv",))
def pad_once(func: Func) -> Func:
    """Pad images once."""
    pads = [op for op in func.body.ops if op.kind is graph.pad and graph.pads_positions(op)]
    if len(pads) < 2:
        return func
    reads, alike = readers(func), dict[tuple[Value, float], list[Op]]()
    for op in pads:
        if all(u.kind is graph.conv and not is_depthwise(u) for u in reads.get(op.result, ())):
            alike.setdefault((op.operands[0], attr_number(op, "value")), []).append(op)
    whole: dict[Op, Sides] = {}
    for same in alike.values():
        sides = [_sides(p) for p in same]
        if len(set(sides)) > 1:
            low, high = (tuple(map(max, *(s[i] for s in sides))) for i in range(2))
            whole.update(dict.fromkeys(same, (low, high)))
    if not whole:
        return func

    def visit(old: Op, new: Op) -> Replacement | None:
        if old not in whole:
            return None
        low, high = whole[old]
        (x,), shape = new.operands, tensor_of(new.result).shape
        image = graph.pad(x, low=low, high=high, value=attr_number(new, "value"), loc=new.loc).result
        own, _ = _sides(new)
        starts = tuple(a - b for a, b in zip(low, own, strict=True))
        return graph.slice_(image, starts=starts, sizes=shape, steps=(1,) * len(shape))

    return common_subexpressions(rebuild(func, visit_pair=visit))


def _sides(pad: Op) -> Sides:
    return attr_ints(pad, "low"), attr_ints(pad, "high")
