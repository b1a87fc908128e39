"""Stream-K: the steps of the tiles of the last waves are dealt out evenly (`gpu.for_tiles` with `steps`).

A block that ends a tile adds what the blocks before it have left of it and does the epilogue; one that does not leaves
its sum. Every launch of so many blocks adds in the same order, so the result does not depend on who comes first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from graphfuse.dialects import block, control, gpu
from graphfuse.gpu.transforms.hopper.match import Product
from graphfuse.ir.core import Builder, Func, Params, Value
from graphfuse.ir.types import I64
from graphfuse.symbolic import Dim, sym

LEAST_STEPS = 2
"""Of a block, where there are more blocks than tiles."""


def steps_of(func: Func, product: Product) -> int:
    """The steps of a tile, if they are to be dealt out and can be, else 0."""
    p = product
    if func.attrs.get("schedule") != "stream" or not isinstance(p.trips, int) or not isinstance(p.lower, int):
        return 0
    single = len(p.results) == 1 and not p.is_added and func.attrs.get("split", 1) == 1 and "share" not in func.attrs
    return p.trips if single and p.trips >= 2 * LEAST_STEPS else 0


@dataclass(frozen=True, slots=True)
class Piece:
    """What falls to a block of a program of `steps` steps."""

    program: Value
    first: Value
    end: Value
    tiles: Dim
    steps: int

    def bounds(self, b: Builder, lower: int, step: int) -> tuple[Value, Value]:
        """Where its part of a loop begins and ends."""
        expr = lower + sym("at") * step
        begin, end = (b(block.index, v, expr=expr, names=("at",)) for v in (self.first, self.end))
        return begin, end

    def finish(self, b: Builder, acc: Value, then: Callable[[Builder, Value], None]) -> None:
        """Leave the sum, or complete it and go on with it."""
        left, ended = Builder(), Builder()
        left.op(gpu.leave, acc)
        left.op(control.yield_)
        then(ended, ended(gpu.collect, acc, self.program, self.first, tiles=self.tiles, steps=self.steps))
        ended.op(control.yield_)
        is_left = b(block.lt, self.end, b(block.const, value=self.steps, elem=I64))
        bodies = tuple(inner.block(Params((), ())) for inner in (left, ended))
        b.append(control.if_.build([is_left], {}, bodies=bodies))
