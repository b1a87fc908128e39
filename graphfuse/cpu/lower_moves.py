"""Elements that change their places: lanes are picked anew."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from graphfuse.cpu.kernel import Kernel, lowers
from graphfuse.cpu.lower_shape import pick
from graphfuse.dialects import moves
from graphfuse.ir.core import Op, attr_int, tile_of
from graphfuse.llvm.module import Reg


@lowers(moves.take)
def lower_take(kernel: Kernel, op: Op) -> None:
    """Constant places."""
    tile, axis = kernel.tile(op.operands[0]), attr_int(op, "axis")
    kernel.bound_alike(op)
    n, inner = tile.shape[axis], math.prod(tile.shape[axis + 1 :])
    start, step = attr_int(op, "start"), attr_int(op, "step", 1)
    pick(kernel, op, tile, [
        (outer * n + start + step * i) * inner + j
        for outer, i, j in _lines(tile_of(op.result).shape, axis)
    ])  # fmt: skip


@lowers(moves.cat)
def lower_cat(kernel: Kernel, op: Op) -> None:
    """Elements of one, then of the other."""
    axis, out = attr_int(op, "axis"), tile_of(op.result)
    a, b = (kernel.tile(v) for v in op.operands)
    n, inner = a.shape[axis], math.prod(out.shape[axis + 1 :])

    def source(outer: int, i: int, j: int) -> tuple[Reg, int]:
        tile, at = (a, i) if i < n else (b, i - n)
        return tile.locate((outer * tile.shape[axis] + at) * inner + j)

    kernel.set(op, kernel.regroup(out, [source(*place) for place in _lines(out.shape, axis)]))


def _lines(shape: tuple[int, ...], axis: int) -> Iterator[tuple[int, int, int]]:
    """For each element, row-major: which of what is around the axis, place along it, which of what is inside."""
    around, inside = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    return itertools.product(range(around), range(shape[axis]), range(inside))
