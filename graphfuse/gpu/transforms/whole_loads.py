"""Loads of a tile that is whole in most programs: there in vectors, whatever its limit is a multiple of.

    %v = block.load_view(%x, %at, %n) {limited = [0], shape = [4096], strides = [1]} : tile<4096xf16>

becomes

    %c = block.ge(%n, 4096)
    %v = if(%c) do () {
      yield(block.load_view(%x, %at) {shape = [4096], strides = [1]})
    } do () {
      yield(block.load_view(%x, %at, %n) {limited = [0], shape = [4096], strides = [1]})
    } : tile<4096xf16>

where the limit cuts the elements that one instruction moves. Loads in branches are left alone: those were chosen by
limits already. So are kernels with products, whose loads belong to their pipelines.

Requires: nothing. Ensures: the same tiles. Cost: one walk.
"""

from __future__ import annotations

from collections.abc import Collection

from graphfuse.dialects import block, control
from graphfuse.gpu.alignment import pointer_alignments
from graphfuse.gpu.analysis.axis_info import Facts, access_info, axis_info
from graphfuse.ir.core import Block, Builder, Func, Op, Params, attr_dims, attr_ints, tile_of, walk
from graphfuse.ir.passes import passing
from graphfuse.ir.remake import Remaker
from graphfuse.ir.types import I64


@passing("gpu")
def whole_loads(func: Func) -> Func:
    """Branch around loads whose limits cut vectors."""
    ops = list(func.walk())
    if any(op.kind in (block.dot, block.dot_codes) or op.kind.name.startswith("gpu.") for op in ops):
        return func
    within = {inner for op in ops if op.kind is control.if_ for body in op.bodies for inner in walk(body)}
    limited = [op for op in ops if op not in within and _is_limited(op)]
    if not limited:
        return func  # before anything is analysed
    facts = axis_info(func, pointer_alignments(func))
    cut = {op for op in limited if _is_cut(func, op, facts)}
    return _Whole(func, cut).run() if cut else func


def _is_limited(op: Op) -> bool:
    """Whether a load of a view has limits, none of them a number."""
    limits = op.operands[2:] if op.kind is block.load_view else ()
    return bool(limits) and not any(v.op is not None and v.op.kind is block.const for v in limits)


def _is_cut(func: Func, op: Op, facts: Facts) -> bool:
    """Whether limits are why a load moves fewer elements at once."""
    t, strides = tile_of(op.result), attr_dims(op, "strides")
    bare = block.load_view.build(op.operands[:2], {k: v for k, v in op.attrs.items() if k != "limited"})
    along = [d for d, s in enumerate(strides) if s == 1]
    widths = [[access_info(func, o, facts).vector(d, t.elem.bytes) for d in along] for o in (op, bare)]
    return widths[0] < widths[1]


class _Whole(Remaker):
    def __init__(self, func: Func, cut: Collection[Op]) -> None:
        super().__init__(func)
        self.cut = cut

    def op(self, op: Op) -> None:
        """Branch around a load that is cut."""
        if op not in self.cut:
            self.copy(op)
            return
        b, shape = self.builder, tile_of(op.result).shape
        pointer, at, *limits = map(self.new, op.operands)
        tests = [
            b(block.ge, limit, b(block.const, value=shape[d], elem=I64))
            for d, limit in zip(attr_ints(op, "limited"), limits, strict=True)
        ]
        condition = tests[0]
        for test in tests[1:]:
            condition = b(block.and_, condition, test)
        bare = {k: v for k, v in op.attrs.items() if k != "limited"}
        bodies: list[Block] = []
        for operands, attrs in (((pointer, at), bare), ((pointer, at, *limits), op.attrs)):
            inner = Builder(op.loc)
            load = inner.append(op.kind.build(operands, attrs, loc=op.loc))
            inner.append(control.yield_(load.result))
            bodies.append(inner.block(Params(())))
        chosen = b.op(control.if_, condition, bodies=tuple(bodies))
        self.values[op.result] = chosen.result
