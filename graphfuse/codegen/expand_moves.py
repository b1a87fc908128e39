"""Elements that change their places along an axis, by memory of the program's own or by what machines do better.

    %r = gather(%x, %index) {axis = 0}

stores the tile, and loads each element from where the index says:

    store(%m, places, %x)
    %r = load(%m, %index * stride + others, 0 <= %index < n)

One place of many is what is left of a reduction that sees 0 elsewhere; two halves side by side are a choice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from graphfuse.dialects import block, effects, moves
from graphfuse.ir.core import Builder, Func, Op, OpDef, Value, attr_int, tile_of
from graphfuse.ir.passes import passing
from graphfuse.ir.remake import Remaker
from graphfuse.ir.types import BOOL, I32, I64, Scalar, Tile


@passing("gpu", needed=True)
def expand_moves(func: Func, *, but: str = "") -> Func:
    """`func` without the ops of `dialects/moves.py`, other than sorting and those that are named."""
    kept = but.split(",")
    kinds = {kind: make for kind, make in _EXPANSIONS.items() if kind.name.removeprefix("block.") not in kept}
    return _Expander(func, kinds).run() if any(op.kind in kinds for op in func.walk()) else func


class _Expander(Remaker):
    def __init__(self, func: Func, kinds: dict[OpDef, Expand]) -> None:
        super().__init__(func)
        self._kinds = kinds
        sizes: dict[Scalar, int] = {}
        for t in (_passing(op) for op in func.walk() if op.kind in kinds and not _stays(op)):
            sizes[t.elem] = max(t.elements, sizes.get(t.elem, 0))
        self.rooms = {elem: self.builder(block.alloc, elem=elem, count=count) for elem, count in sizes.items()}
        """Memory for what is in it from a store to the load behind it: one for each kind of element."""

    def op(self, op: Op) -> None:
        if op.kind not in self._kinds:
            self.copy(op)
            return
        outer, self.builder.loc = self.builder.loc, op.loc
        self.values[op.result] = self._kinds[op.kind](self, op, [self.new(v) for v in op.operands])
        self.builder.loc = outer


Expand = Callable[[_Expander, Op, Sequence[Value]], Value]


def _stays(op: Op) -> bool:
    """Whether it is made in registers."""
    if op.kind is moves.take:
        return op.attrs["count"] == 1
    if op.kind is not moves.cat or tile_of(op.operands[0]) != tile_of(op.operands[1]):
        return False
    shape = tile_of(op.result).shape
    return shape[attr_int(op, "axis")] == 2 or all(n & n - 1 == 0 for n in shape)


def _passing(op: Op) -> Tile:
    """What memory holds of an op."""
    return tile_of(op.operands[0] if op.kind in (moves.take, moves.gather) else op.result)


# memory


def _strides(shape: Sequence[int]) -> list[int]:
    return [math.prod(shape[i + 1 :]) for i in range(len(shape))]


def _like(b: Builder, x: Value, value: int) -> Value:
    """A number for each element."""
    return b(block.const, value=value, elem=block.elem_of(x.type), shape=tile_of(x).shape)


def _along(b: Builder, shape: Sequence[int], axis: int, stride: int = 1) -> Value:
    """For each element of a tile its place along an axis, as i64, times a stride."""
    place = b(block.arange, start=0, end=shape[axis])
    place = place if stride == 1 else b(block.mul, place, _like(b, place, stride))
    only = b(block.reshape, place, shape=tuple(n if d == axis else 1 for d, n in enumerate(shape)))
    return b(block.broadcast, only, shape=tuple(shape))


def _places(b: Builder, shape: Sequence[int], strides: Sequence[int]) -> Value:
    """Where each element is."""
    out = b(block.const, value=0, elem=I64, shape=tuple(shape))
    for axis, stride in enumerate(strides):
        if stride and shape[axis] > 1:
            out = b(block.add, out, _along(b, shape, axis, stride))
    return out


def _stored(e: _Expander, x: Value) -> Value:
    """Memory that holds a tile."""
    pointer = e.rooms[tile_of(x).elem]
    _store(e.builder, pointer, x, _strides(tile_of(x).shape))
    return pointer


def _store(b: Builder, pointer: Value, x: Value, strides: Sequence[int], start: int = 0) -> None:
    b.op(block.store_view, pointer, b(block.const, value=start, elem=I64), x, strides=tuple(strides))


def _load(b: Builder, pointer: Value, shape: Sequence[int], strides: Sequence[int], start: int = 0) -> Value:
    base = b(block.const, value=start, elem=I64)
    return b(block.load_view, pointer, base, shape=tuple(shape), strides=tuple(strides))


def _gather(e: _Expander, op: Op, operands: Sequence[Value]) -> Value:
    b, (x, index) = e.builder, operands
    axis, t = attr_int(op, "axis"), tile_of(x)
    pointer = _stored(e, x)
    index = b(block.cast, index, to=I64)
    inside = b(block.and_, b(block.ge, index, _like(b, index, 0)), b(block.lt, index, _like(b, index, t.shape[axis])))
    strides = _strides(t.shape)
    others = _places(b, tile_of(index).shape, [0 if d == axis else s for d, s in enumerate(strides)])
    return b(block.load, pointer, b(block.add, others, b(block.mul, index, _like(b, index, strides[axis]))), inside)


def _take(e: _Expander, op: Op, operands: Sequence[Value]) -> Value:
    b, (x,) = e.builder, operands
    axis, start, step = attr_int(op, "axis"), attr_int(op, "start"), attr_int(op, "step", 1)
    if _stays(op):
        return _only(b, x, axis, start)
    strides = _strides(tile_of(x).shape)
    first = start * strides[axis]
    strides[axis] *= step
    return _load(b, _stored(e, x), tile_of(op.result).shape, strides, first)


def _cat(e: _Expander, op: Op, operands: Sequence[Value]) -> Value:
    b, axis, out = e.builder, attr_int(op, "axis"), tile_of(op.result)
    if _stays(op):
        return _side_by_side(b, operands, axis, out)
    pointer, strides, start = e.rooms[out.elem], _strides(out.shape), 0
    for x in operands:
        _store(b, pointer, x, strides, start)
        start += tile_of(x).shape[axis] * strides[axis]
    return _load(b, pointer, out.shape, strides)


def _histogram(e: _Expander, op: Op, operands: Sequence[Value]) -> Value:
    b, (x,) = e.builder, operands
    bins = tile_of(op.result)
    pointer = e.rooms[I32]
    _store(b, pointer, b(block.const, value=0, elem=I32, shape=bins.shape), [1])
    place = b(block.cast, x, to=I64)
    inside = b(block.and_, b(block.ge, place, _like(b, place, 0)), b(block.lt, place, _like(b, place, bins.elements)))
    one = b(block.const, value=1, elem=I32, shape=tile_of(x).shape)
    b.op(effects.atomic, pointer, place, one, inside, kind="add")
    return _load(b, pointer, bins.shape, [1])


# registers


def _only(b: Builder, x: Value, axis: int, place: int) -> Value:
    """One place along an axis."""
    t = tile_of(x)
    bits = t.elem if t.elem == BOOL else Scalar(f"i{t.elem.bits}")
    x = x if t.elem == bits else b(block.bitcast, x, to=bits)
    along = _along(b, t.shape, axis)
    none = b(block.const, value=False if bits == BOOL else 0, elem=bits, shape=t.shape)
    kept = b(block.select, b(block.eq, along, _like(b, along, place)), x, none)
    out = b(block.reduce, kept, axis=axis, kind="any" if bits == BOOL else "or")
    shape = moves.with_dim(t, axis, 1).shape
    out = b(block.reshape if isinstance(out.type, Tile) else block.splat, out, shape=shape)
    return out if t.elem == bits else b(block.bitcast, out, to=t.elem)


def _side_by_side(b: Builder, operands: Sequence[Value], axis: int, out: Tile) -> Value:
    """Two tiles alike: a choice by which of both halves it is."""
    shape = tile_of(operands[0]).shape
    both = (*shape[:axis], 2, *shape[axis:])
    one = tuple(1 if d == axis else n for d, n in enumerate(both))
    first, second = (b(block.broadcast, b(block.reshape, x, shape=one), shape=both) for x in operands)
    half = _along(b, both, axis)
    chosen = b(block.select, b(block.eq, half, _like(b, half, 0)), first, second)
    return b(block.reshape, chosen, shape=out.shape)


_EXPANSIONS: dict[OpDef, Expand] = {
    moves.take: _take, moves.cat: _cat, moves.gather: _gather, moves.histogram: _histogram,
}  # fmt: skip
