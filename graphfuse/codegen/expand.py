"""Ops that are left out, or said in terms of others, before they are lowered, alike on every target.

    %i = arg_reduce(%x) {axis = 1, kind = "max"}

is the least index of what equals the maximum, or is NaN where that is:

    %m = reduce(%x) {axis = 1, kind = "max"}
    %hit = or(eq(%x, broadcast(%m)), isnan(%x))
    %i = reduce(select(%hit, arange, n)) {axis = 1, kind = "min"}
"""

from __future__ import annotations

import math

from graphfuse.codegen.expand_boxes import expand_box
from graphfuse.dialects import block, effects
from graphfuse.dialects.codes import WORD_BITS
from graphfuse.ir.core import Func, Op, Value, attr_int, attr_scalar, tile_of
from graphfuse.ir.passes import passing
from graphfuse.ir.rewrite import Replacement, dead_code, rebuild
from graphfuse.ir.types import I32, I64, U16, Tile


@passing("gpu", needed=True)
def quiet(func: Func) -> Func:
    """`func` without what only debugging asks for: printing, assertions, and all that they alone need."""
    wanted = [op for op in func.walk() if op.kind in (effects.print_, effects.assert_)]
    if not wanted or func.attrs.get("debug") is True:
        return func
    return dead_code(rebuild(func, keep=lambda op: op not in wanted))


@passing("gpu", needed=True)
def expand(func: Func) -> Func:
    """`func` without `block.arg_reduce` and `block.load_box`."""
    return rebuild(func, _visit)


def _visit(op: Op) -> Replacement | None:
    if op.kind is block.load_box:
        return expand_box(op)
    return _arg_reduce(op) if op.kind is block.arg_reduce else None


@passing("block", needed=True)
def expand_words(func: Func, *, but: str = "") -> Func:
    """`func` without `block.dot_words`, but of some elements: one product for each place in a word."""
    kept = but.split(",")

    def is_other(op: Op) -> bool:
        return op.kind is block.dot_words and attr_scalar(op, "elem", I64).name not in kept

    return (
        rebuild(func, lambda op: _dot_words(op) if is_other(op) else None) if any(map(is_other, func.walk())) else func
    )


def _dot_words(op: Op) -> Op:
    a, b, acc = op.operands
    elem = attr_scalar(op, "elem", I64)
    (m, n), depth = tile_of(acc).shape, math.prod(tile_of(a).shape[1:])
    words = block.reshape(a, shape=(m, depth)), block.reshape(b, shape=(depth, n))
    for place in range(WORD_BITS // elem.bits):
        shift = block.const(value=place * elem.bits, elem=I32)
        factors: list[Op] = []
        for word in words:
            shifts = block.splat(shift, shape=tile_of(word.result).shape)
            part = block.ELEMENTWISE["shr"](word, shifts)
            factors.append(block.bitcast(block.cast(part, to=U16), to=elem))
        op = block.dot(*factors, acc, loc=op.loc)
        acc = op.result
    return op


def _arg_reduce(op: Op) -> Op:
    (x,), axis, elem = op.operands, attr_int(op, "axis"), attr_scalar(op, "elem", I64)
    t = tile_of(x)
    n = t.shape[axis]
    extreme = block.reduce(x, axis=axis, kind=op.attrs["kind"])
    hit: Op = block.eq(x, _along(extreme.result, t.shape, axis))
    if t.elem.is_float:
        hit = block.or_(hit, block.ELEMENTWISE["isnan"](x))
    shape = tuple(n if d == axis else 1 for d in range(len(t.shape)))
    at = block.reshape(block.arange(start=0, end=n, elem=elem), shape=shape)
    index = block.broadcast(at, shape=t.shape)
    none = block.const(value=n, elem=elem, shape=t.shape)
    return block.reduce(block.select(hit, index, none), axis=axis, kind="min", loc=op.loc)


def _along(x: Value, shape: tuple[int, ...], axis: int) -> Op:
    """What was reduced, back in every place."""
    if not isinstance(x.type, Tile):
        return block.splat(x, shape=shape)
    kept = tuple(1 if d == axis else n for d, n in enumerate(shape))
    return block.broadcast(block.reshape(x, shape=kept), shape=shape)
