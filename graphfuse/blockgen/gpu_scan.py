"""Emits running sums for GPUs.

Along contiguous memory a line that fits the registers of a block is one tile, short ones several to a program; a longer
one is walked in chunks. Otherwise lanes run over neighbouring lines, and the axis is a loop.
"""

from __future__ import annotations

from graphfuse.blockgen import serial
from graphfuse.blockgen.evaluate import Lane, accumulator, running_elem
from graphfuse.blockgen.gpu_tiles import (
    at_most,
    fitting,
    in_chunks,
    in_whole_or_part,
    lane_along,
    lines_of_program,
    power_of_two,
    tiled_programs,
    warps_for,
)
from graphfuse.blockgen.index import Index
from graphfuse.blockgen.kernel import Kernel, element_of, positions
from graphfuse.blockgen.loops import Carried, across, live_or_neutral
from graphfuse.blockgen.movement import shape_of
from graphfuse.dialects import block, graph
from graphfuse.dialects.elementwise import COMBINE, neutral
from graphfuse.ir.core import Func, Op, Value, attr_int
from graphfuse.symbolic import Dim

LONGEST_TILE = 16384
"""Elements of a line that is held in registers, of up to 4 bytes each."""
LEAST_TILE = 2048
"""Elements of a program's tile that short lines are put together to."""
CHUNK = 4096
"""Elements of a longer line that are scanned at once."""


def emit(kernel: Kernel) -> Func:
    """Lines as tiles or in chunks, or neighbouring lines in lanes when the axis is not innermost."""
    (op,) = (op for op in kernel.body.ops if op.kind is graph.cumulate)
    shape = shape_of(op.result)
    if attr_int(op, "axis") == len(shape) - 1:
        return _Lines(kernel, op).emit()
    return _emit_columns(kernel, op)


def _emit_columns(kernel: Kernel, op: Op) -> Func:
    shape = shape_of(op.result)
    axis = attr_int(op, "axis")
    outer = [*shape[:axis], *shape[axis + 1 :]]
    width = max(2, fitting(shape[-1], 32, 128, kernel.space.ranges))
    grid, lanes, at = tiled_programs(kernel, outer, {len(outer) - 1: width})
    in_whole_or_part(kernel, lanes, lambda: serial.scan_line(kernel, op, tuple(at)))
    return kernel.finish(grid, 1 + shape[axis], {"warps": warps_for(width, 1)})


class _Lines:
    """Scans along the innermost dim."""

    def __init__(self, kernel: Kernel, op: Op) -> None:
        self.kernel, self.op = kernel, op
        (x,) = op.operands
        *self.outer, self.extent = shape_of(x)
        self.kind, self.elem = str(op.attrs["kind"]), element_of(x)
        self.wide = accumulator(self.elem) if self.kind in ("sum", "prod") else self.elem
        self.exclusive, self.reverse = bool(op.attrs.get("exclusive", False)), bool(op.attrs.get("reverse", False))

    def emit(self) -> Func:
        """The kernel."""
        kernel = self.kernel
        size = max(2, power_of_two(at_most(self.extent, kernel.space.ranges)))
        is_tile = isinstance(self.extent, int) and size <= LONGEST_TILE * 4 // max(4, self.wide.bytes)
        height = self._height(size) if is_tile else 1
        grid, rows, at = tiled_programs(kernel, self.outer, {len(self.outer) - 1: height})
        if not is_tile:
            width = min(size, CHUNK)
            self._walk(tuple(at), width)
            return kernel.finish(grid, 1 + self.extent, {"warps": warps_for(width, 8, 16)})
        along, place = lane_along(kernel, self.extent, size, 0)
        in_whole_or_part(kernel, [*rows, along], lambda: self._tile((*at, self._element(place))))
        return kernel.finish(grid, 1 + size * height, {"warps": warps_for(size * height, 16, 16)})

    def _height(self, size: int) -> int:
        """Lines of a program."""
        if not self.outer:
            return 1
        height = lines_of_program(self.kernel, positions(self.outer), size, LEAST_TILE)
        return fitting(self.outer[-1], 1, height, self.kernel.space.ranges)

    def _element(self, place: Dim) -> Dim:
        return self.extent - 1 - place if self.reverse else place

    def _scanned(self, tile: Value, axis: int) -> Value:
        return self.kernel.ev.emit(block.scan, tile, axis=axis, kind=self.kind, exclusive=self.exclusive)

    def _store(self, index: Index, value: Value) -> None:
        ev = self.kernel.ev
        ev.store(self.kernel.stores[0], index, ev.cast(value, self.elem))

    def _tile(self, index: Index) -> None:
        ev = self.kernel.ev
        got = ev.cast(ev.value(self.op.operands[0], index), self.wide)
        self._store(index, self._scanned(ev.shaped(got, ev.full_shape()), len(ev.lanes) - 1))

    def _walk(self, at: Index, width: int) -> None:
        """The total of the chunks before is carried."""
        ev, kind = self.kernel.ev, self.kind
        total = running_elem(kind, self.elem)
        combine = block.ELEMENTWISE[COMBINE[kind]]

        def chunk(lane: Lane, place: Dim, carried: Carried) -> list[Value]:
            with ev.lanes_as(lane):
                index = (*at, self._element(place))
                tile = live_or_neutral(ev, kind, self.wide, ev.value(self.op.operands[0], index))
                before = ev.shaped(ev.cast(carried[0], self.wide), ev.full_shape())
                self._store(index, ev.emit(combine, before, self._scanned(tile, 0)))
                return [ev.emit(combine, carried[0], across(ev, kind, tile, (0,), total))]

        in_chunks(self.kernel, self.extent, width, chunk, (ev.const(neutral(kind, total), total),))
