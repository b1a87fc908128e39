"""`block.sort` of long lines: parts of them in registers, the rest of the network as loops over memory.

Parts are sorted, then runs of twice as many, and so on: the elements of a run meet their mirror images, then those half
a run away, as far as that is a part or more. What is left is within parts, which are sorted again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from graphfuse.cpu.windows.sources import Kept, Sources
from graphfuse.dialects import block, moves
from graphfuse.ir.core import Op, Value, attr_int, tile_of

Loop = Callable[[int, int, Callable[[Value, tuple[Value, ...]], Sequence[Value]]], object]
"""Runs a body from 0 up to a number, by steps."""


class LongSort:
    """The keys of one sort in memory, line after line."""

    def __init__(self, maker: Sources, loop: Loop, op: Op, part: int, lanes: int) -> None:
        self.maker, self.loop, self.part, self.lanes = maker, loop, part, lanes
        self.shape, self.axis = tile_of(op.operands[0]).shape, attr_int(op, "axis")
        self.size = 1 << (self.shape[self.axis] - 1).bit_length()
        others = [n for d, n in enumerate(self.shape) if d != self.axis]
        self.lines = math.prod(others)
        strides = [self.size * math.prod(others[i + 1 :]) for i in range(len(others))]
        strides.insert(self.axis, 1)
        self.keys = [
            Kept(
                maker.builder(block.alloc, elem=tile_of(v).elem, count=self.lines * self.size),
                tile_of(v).elem,
                tuple(strides),
            )
            for v in op.operands
        ]

    def run(self) -> None:
        """Sort what is in memory."""
        if self.shape[self.axis] < self.size:
            self._pad()
        self._sort_parts()
        run = 2 * self.part
        while run <= self.size:
            self._compare(run, mirrored=True)
            for apart in (run >> n for n in range(1, run.bit_length()) if run >> n > self.part):
                self._compare(apart, mirrored=False)
            self._sort_parts()
            run *= 2

    def _pad(self) -> None:
        """What comes after all elements, behind each line."""
        n = self.shape[self.axis]

        def body(line: Value, _: object) -> Sequence[Value]:
            for key in self.keys:
                most = self.maker.builder(block.const, value=key.elem.limits[1], elem=key.elem, shape=(self.size - n,))
                self._store(key, self.maker.position([(line, 1), (n, 1)]), most)
            return ()

        self.loop(self.lines * self.size, self.size, body)

    def _sort_parts(self) -> None:
        def body(first: Value, _: object) -> Sequence[Value]:
            keys = [self._load(key, first, self.part) for key in self.keys]
            results = self.maker.builder.op(moves.sort, *keys, axis=0, count=self.part).results
            for key, made in zip(self.keys, results, strict=True):
                self._store(key, first, made)
            return ()

        self.loop(self.lines * self.size, self.part, body)

    def _compare(self, run: int, *, mirrored: bool) -> None:
        """The lesser of pairs to the first half of each run: pairs mirror one another, or are half a run apart."""
        step = -1 if mirrored else 1

        def pairs(first: Value, i: Value) -> None:
            here = self.maker.position([(first, 1), (i, 1)])
            there = self.maker.position([(first, 1), (run - 1 if mirrored else run // 2, 1), (i, step)])
            a = [self._load(key, here, self.lanes) for key in self.keys]
            b = [self._load(key, there, self.lanes, step) for key in self.keys]
            is_more = self._before(b, a)
            for key, x, y in zip(self.keys, a, b, strict=True):
                self._store(key, here, self.maker.builder(block.select, is_more, y, x))
                self._store(key, there, self.maker.builder(block.select, is_more, x, y), step)

        def body(first: Value, _: object) -> Sequence[Value]:
            self.loop(run // 2, self.lanes, lambda i, _: pairs(first, i) or ())
            return ()

        self.loop(self.lines * self.size, run, body)

    def _before(self, a: Sequence[Value], b: Sequence[Value]) -> Value:
        """Whether elements of one come before those of the other, by all their keys."""
        do = self.maker.builder
        out = do(block.lt, a[-1], b[-1])
        for x, y in [*zip(a, b, strict=True)][-2::-1]:
            out = do(block.or_, do(block.lt, x, y), do(block.and_, do(block.eq, x, y), out))
        return out

    def _load(self, key: Kept, where: Value, count: int, step: int = 1) -> Value:
        return self.maker.builder(block.load_view, key.pointer, where, shape=(count,), strides=(step,))

    def _store(self, key: Kept, where: Value, tile: Value, step: int = 1) -> None:
        self.maker.builder.op(block.store_view, key.pointer, where, tile, strides=(step,))
