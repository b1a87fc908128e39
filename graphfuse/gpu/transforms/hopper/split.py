"""Sums over K by the blocks of a cluster: each makes a part of the sum of a tile, then adds up a part of the tile.

The parts of a tile are columns. Blocks send what they have of the others' columns to their shared memory; everyone adds
in the order of the blocks' numbers, so the result does not depend on who comes first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from graphfuse.dialects import block, control, gpu
from graphfuse.ir.core import Builder, Func, Params, Value
from graphfuse.ir.layout import LinearLayout
from graphfuse.ir.types import I32, I64, Scalar
from graphfuse.symbolic import Dim, Ranges, bounds, floordiv, sym, symbols

MOST = 8
"""Blocks of a cluster on any machine."""


def split_of(func: Func, trips: Dim | None, columns: int, ranges: Ranges) -> int:
    """How many blocks share a tile: what the attribute `split` says if every one has something to do, else 1."""
    split = func.attrs.get("split", 1)
    if not isinstance(split, int) or split not in (2, 4, MOST) or trips is None:
        return 1
    return split if bounds(trips, ranges)[0] >= split and columns % (8 * split) == 0 else 1


@dataclass(frozen=True, slots=True)
class Exchange:
    """The shared memory for parts of tiles of `split` blocks, and its barriers, which count warps."""

    split: int
    rank: Value
    room: Value
    sent: Value
    """Barrier of the parts that others have sent."""
    taken: Value
    """Barrier of the others that have read what was sent to them."""

    def steps(self, b: Builder, lower: Dim, trips: Dim, step: int) -> tuple[Value, Value]:
        """Where this block's part of a loop begins and ends."""
        name = "rank"
        while name in symbols(lower) | symbols(trips):
            name += "_"
        first = (lower + floordiv(trips * (sym(name) + i), self.split) * step for i in range(2))
        begin, end = (b(block.index, self.rank, expr=e, names=(name,)) for e in first)
        return begin, end

    def add_up(
        self, b: Builder, acc: Value, slot: Value, layout: LinearLayout, then: Callable[[Builder, Value, int], None]
    ) -> Value:
        """For each rank its code: send, add, and what follows with the sum and its first column. The next slot."""
        rows, columns = layout.shape
        b.op(gpu.wait, self.taken, slot, previous=True, cluster=True)

        def part(inner: Builder, rank: int) -> Value:
            return inner(gpu.part, acc, start=(0, rank * columns), layout=layout)

        for rank in range(self.split):
            others = [r for r in range(self.split) if r != rank]
            inner = Builder()
            for to in others:
                operands = self.room, part(inner, to), self.sent, slot
                inner.op(gpu.send, *operands, block=to, part=rank - (rank > to))
            inner.op(gpu.wait, self.sent, slot, cluster=True)
            total: Value | None = None
            for r in range(self.split):
                if r == rank:
                    value = part(inner, rank)
                else:
                    elem = block.elem_of(acc.type)
                    place = r - (r > rank)
                    value = inner(gpu.receive, self.room, part=place, shape=(rows, columns), elem=elem, layout=layout)
                total = value if total is None else inner(block.add, total, value)
            for to in others:
                inner.op(gpu.arrive_at, self.taken, slot, block=to)
            assert total is not None
            then(inner, total, rank * columns)
            inner.op(control.yield_)
            is_mine = b(block.eq, self.rank, b(block.const, value=rank, elem=I64))
            b.append(control.if_.build([is_mine], {}, bodies=(inner.block(Params((), ())),)))
        return b(gpu.advance, slot, size=1)

    def first_slot(self, b: Builder) -> Value:
        """Of the first tile."""
        return b(block.const, value=0, elem=I32, hint="turn")


def exchange(b: Builder, split: int, acc_elements: int, elem: Scalar, warpgroups: int) -> Exchange:
    """Room for the parts of a tile that the other blocks send."""
    threads = 128 * warpgroups
    shape = (split - 1, acc_elements // split // threads, threads)
    arrivals = 4 * warpgroups * (split - 1)
    return Exchange(
        split,
        b(gpu.cluster_rank, hint="rank"),
        b(gpu.shared_alloc, shape=shape, elem=elem, hint="room"),
        b(gpu.barriers, count=1, arrivals=arrivals, hint="sent"),
        b(gpu.barriers, count=1, arrivals=arrivals, hint="taken"),
    )
