"""Emits scatters for GPUs: a tile of the updates per program, each of which is stored, or combined by an atomic.

Updates of one element are in no order. Where they are to be in theirs (`ordered`), or the element has no atomics, a
program makes one after the other.
"""

from __future__ import annotations

from dataclasses import replace

from graphfuse.blockgen.gpu_pointwise import Tiling
from graphfuse.blockgen.gpu_tiles import at_most, power_of_two
from graphfuse.blockgen.index import Index
from graphfuse.blockgen.kernel import Kernel, element_of, positions
from graphfuse.blockgen.scatter import Updates, in_order
from graphfuse.blockgen.tiling import Piece
from graphfuse.ir.core import Func
from graphfuse.symbolic import Dim
from graphfuse.targets.machine import WARP

LANES = 128
"""Of a tile of what is made in order."""


def emit(kernel: Kernel) -> Func:
    """All updates at once, if they may be."""
    made, ev = Updates(kernel), kernel.ev
    if _is_ordered(made):
        return _in_order(made)
    if positions(made.shape) == 0:
        return kernel.finish(0, 1, {"warps": 1})

    def compute(index: Index) -> None:
        places, inside = made.places(index)
        if made.kind == "set":
            made.apply(index, places, inside)
            return
        update = ev.value(made.updates, index)
        with ev.where(inside):
            ev.atomic(made.out, made.target(index, places), update, made.kind)

    return Tiling(kernel, made.walk(), compute).emit()


def _is_ordered(made: Updates) -> bool:
    """Whether updates go one after the other: sums of halves would be rounded at each, in any order."""
    elem = element_of(made.updates)
    rounds = made.kind in ("add", "mul") and elem.is_float and elem.bits < 32
    return bool(made.op.attrs.get("ordered", False)) or (made.kind != "set" and (rounds or elem.bits < 16))


def _in_order(made: Updates) -> Func:
    """A range of the first index, for as many programs as run at a time."""
    kernel, first = made.kernel, at_most(made.first, made.kernel.space.ranges)

    def width(extent: Dim) -> int:
        return min(LANES, power_of_two(at_most(extent, kernel.space.ranges)))

    def cut(extent: Dim, others: Dim, is_one: bool) -> tuple[Dim, int]:
        programs = at_most(others, kernel.space.ranges) * -(-at_most(extent, kernel.space.ranges) // width(extent))
        ranges = kernel.machine.multiprocessors // max(1, programs) if is_one else 1
        return width(extent), max(1, min(ranges, first))

    def tiles(size: Dim) -> list[Piece]:
        lanes = width(size)
        return [Piece(0, 1, lanes, None if size == lanes else size)]

    func = in_order(made, cut, tiles)
    return replace(func, attrs={**func.attrs, "warps": LANES // WARP})
