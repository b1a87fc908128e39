"""Windows of tiles: loaded where a tile is kept in memory, else computed from windows of the operands."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from graphfuse.cpu.windows.window import Inside, Start, Window
from graphfuse.dialects import block
from graphfuse.ir.core import Attr, Builder, Op, Trait, Value, attr_dims, attr_int, attr_ints, tile_of
from graphfuse.ir.types import I64, Scalar, Tile
from graphfuse.symbolic import Dim, sym


@dataclass(frozen=True, slots=True)
class Kept:
    """A tile in memory of the program, dense and row-major unless `strides` says otherwise."""

    pointer: Value
    elem: Scalar
    strides: tuple[int, ...]


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """How far neighbours along each dim are apart."""
    return tuple(math.prod(shape[d + 1 :]) for d in range(len(shape)))


class Sources:
    """Emits windows of the tiles of an old function, in a new one."""

    def __init__(self, symbols: Mapping[str, tuple[int, int]]) -> None:
        self.builder = Builder()
        self.kept: dict[Value, Kept] = {}
        self.scalars: dict[Value, Value] = {}
        """New for old, of values that are no tiles."""
        self.made: list[dict[tuple[Value, Window], Value]] = [{}]
        """Windows at hand, for each block that is open."""
        self.limits: dict[Value, list[tuple[int, Value]]] = {}
        """Masks that are limits: the dims, and the first index that is out."""
        self.asked: dict[Inside, None] = {}
        """What would have spared the block that is open a mask."""
        self.met: frozenset[Inside] = frozenset()
        """What is known to hold in the block that is open."""
        self.names = [f"{'_' * (max(map(len, symbols), default=0))}w{i}" for i in range(16)]
        """Names for positions in index expressions, longer than those of symbols."""

    @contextmanager
    def scope(self) -> Generator[Builder]:
        """Build another block."""
        outer, self.builder = self.builder, Builder(self.builder.loc)
        self.made.append({})
        yield self.builder
        self.made.pop()
        self.builder = outer

    def scalar(self, value: Value) -> Value:
        """What stands for a value that is no tile."""
        return self.scalars.get(value, value)

    def position(self, terms: Sequence[tuple[Start, Dim]], plus: Value | None = None) -> Value:
        """`plus` and the sum of starts times strides, as an i64."""
        expr: Dim = 0
        operands: list[Value] = []
        for start, stride in [*terms, *([(plus, 1)] if plus is not None else [])]:
            if isinstance(start, int):
                expr = expr + start * stride
            elif stride != 0:
                expr = expr + sym(self.names[len(operands)]) * stride
                operands.append(start)
        if len(operands) == 1 and expr == sym(self.names[0]):
            return operands[0]
        return self.builder(block.index, *operands, expr=expr, names=tuple(self.names[: len(operands)]))

    def at(self, value: Value, window: Window) -> Value:
        """A window of a tile."""
        for scope in reversed(self.made):
            if (value, window) in scope:
                return scope[value, window]
        outer, self.builder.loc = self.builder.loc, value.op.loc if value.op else self.builder.loc
        if value in self.kept:
            out = self._kept(self.kept[value], window)
        elif value in self.limits and not self.limits_of(window, self.limits[value]):
            out = self.builder(block.const, value=True, shape=window.shape, elem=block.elem_of(value.type))
        else:
            assert value.op is not None, "parameters that are tiles are kept"
            out = self._virtual(value.op, window)
        self.builder.loc = outer
        self.made[-1][value, window] = out
        return out

    def store(self, kept: Kept, window: Window, tile: Value) -> None:
        """Write a window of a kept tile."""
        elem = block.elem_of(tile.type)
        if elem != kept.elem:
            tile = self.builder(block.cast, tile, to=kept.elem)
        where = self.position(list(zip(window.starts, kept.strides, strict=True)))
        self.builder.op(block.store_view, kept.pointer, where, tile, strides=kept.strides)

    def _kept(self, kept: Kept, window: Window) -> Value:
        where = self.position(list(zip(window.starts, kept.strides, strict=True)))
        return self.builder(block.load_view, kept.pointer, where, shape=window.shape, strides=kept.strides)

    # computed

    def _virtual(self, op: Op, window: Window) -> Value:
        if op.kind is block.load_view:
            return self._load_view(op, window)
        if op.kind in (block.const, block.splat):
            return self._again(op, [self.scalar(v) for v in op.operands], shape=window.shape)
        if op.kind is block.arange:
            return self._arange(op, window)
        if op.kind is block.broadcast:
            return self._broadcast(op, window)
        if op.kind is block.trans:
            perm = attr_ints(op, "perm")
            tile = self.at(op.operands[0], window.pick([perm.index(d) for d in range(len(perm))]))
            return self._again(op, [tile])
        if op.kind is block.reshape:
            return self._squeeze(op, window)
        assert op.has(Trait.ELEMENTWISE) or op.kind in (block.index, block.load), f"{op.kind} is no virtual op"
        operands = [self.at(v, window) if isinstance(v.type, Tile) else self.scalar(v) for v in op.operands]
        return self._again(op, operands)

    def _again(self, op: Op, operands: Sequence[Value], **changes: Attr) -> Value:
        return self.builder.append(op.kind.build(operands, {**op.attrs, **changes}, loc=self.builder.loc)).result

    def _arange(self, op: Op, window: Window) -> Value:
        (start,), (size,) = window
        elem = block.elem_of(op.types[0])
        first = attr_int(op, "start")
        if isinstance(start, int):
            return self.builder(block.arange, start=first + start, end=first + start + size, elem=elem)
        lanes = self.builder(block.arange, start=first, end=first + size, elem=elem)
        base = start if elem == I64 else self.builder(block.cast, start, to=elem)
        return self.builder(block.add, self.builder(block.splat, base, shape=(size,)), lanes)

    def _broadcast(self, op: Op, window: Window) -> Value:
        dims = [None if d == 1 else i for i, d in enumerate(tile_of(op.operands[0]).shape)]
        x = self.at(op.operands[0], window.pick(dims))
        return self.builder(block.broadcast, x, shape=window.shape)

    def _squeeze(self, op: Op, window: Window) -> Value:
        tile, out = (tile_of(v).shape for v in (op.operands[0], op.result))
        wide = (i for i, d in enumerate(out) if d != 1)
        x = self.at(op.operands[0], window.pick([None if d == 1 else next(wide) for d in tile]))
        return self.builder(block.reshape, x, shape=window.shape)

    def _load_view(self, op: Op, window: Window) -> Value:
        """Of a view whose columns are contiguous, not its rows, the transposed window is loaded."""
        strides = attr_dims(op, "strides")
        pointer, base, *limits = (self.scalar(v) for v in op.operands)
        where, limited, here = self.moved(op, window, base, limits)
        perm = swapped(strides, window)
        changes: dict[str, Attr] = {
            "shape": tuple(window.shape[p] for p in perm),
            "strides": tuple(strides[p] for p in perm),
            "limited": tuple(perm.index(d) for d in limited),
        }
        return self.transposed(self._again(op, [pointer, where, *here], **changes), perm)

    def moved(
        self, op: Op, window: Window, base: Value, limits: Sequence[Value]
    ) -> tuple[Value, tuple[int, ...], list[Value]]:
        """Where a window of a view begins, the dims that it may stick out of, and their limits from there."""
        where = self.position(list(zip(window.starts, attr_dims(op, "strides"), strict=True)), base)
        left = self.limits_of(window, zip(attr_ints(op, "limited", ()), limits, strict=True))
        return where, tuple(d for d, _ in left), [self.position([(window.starts[d], -1)], v) for d, v in left]

    def limits_of(self, window: Window, limits: Iterable[tuple[int, Value]]) -> list[tuple[int, Value]]:
        """Those that a window is not known to be inside of."""
        inside = {Inside(v, window.starts[d], window.shape[d]): (d, v) for d, v in limits}
        left = {i: limit for i, limit in inside.items() if i not in self.met}
        self.asked.update(dict.fromkeys(left))
        return list(left.values())

    def transposed(self, x: Value, perm: tuple[int, ...]) -> Value:
        """A window with two dims exchanged; exchanged back, it is what it was."""
        if perm == tuple(range(len(perm))):
            return x
        if x.op is not None and x.op.kind is block.trans and attr_ints(x.op, "perm") == perm:
            return x.op.operands[0]
        return self.builder(block.trans, x, perm=perm)


def is_turned(strides: Sequence[Dim]) -> bool:
    """Whether columns of a view are contiguous, and its rows are not."""
    return bool(strides) and strides[-1] not in (0, 1) and 1 in strides


def swapped(strides: Sequence[Dim], window: Window) -> tuple[int, ...]:
    """The dims of a window, the last exchanged with the one that it is best loaded and stored along."""
    perm = list(range(len(strides)))
    swap = _contiguous(strides, window)
    perm[swap], perm[-1] = perm[-1], perm[swap]
    return tuple(perm)


def _contiguous(strides: Sequence[Dim], window: Window) -> int:
    """The dim that a window is best loaded along."""
    last = len(strides) - 1
    if strides[last] in (0, 1):
        return last
    return next((d for d in range(last) if strides[d] == 1 and window.shape[d] > 1), last)
