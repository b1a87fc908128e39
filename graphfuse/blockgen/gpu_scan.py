"""Emits running sums for GPUs.

Along contiguous memory a program walks its line in chunks: element i of a chunk combines the elements up to i, a
triangle of a tile that is reduced along one side. Otherwise lanes run over neighbouring lines, and the axis is a loop.
"""

from __future__ import annotations

from graphfuse.blockgen import serial
from graphfuse.blockgen.evaluate import COMBINE, Lane, accumulator, neutral
from graphfuse.blockgen.gpu_reduction import across, live_or_neutral
from graphfuse.blockgen.gpu_tiles import (
    at_most,
    fitting,
    in_chunks,
    in_whole_or_part,
    lane_along,
    power_of_two,
    warps_for,
)
from graphfuse.blockgen.index import Index
from graphfuse.blockgen.kernel import Kernel, element_of, positions
from graphfuse.blockgen.loops import Carried, digits
from graphfuse.blockgen.movement import shape_of
from graphfuse.dialects import block, graph
from graphfuse.ir.core import Func, Op, Value, attr_int
from graphfuse.symbolic import Dim, ceildiv, sym

CHUNK = 64
"""Elements of a line that are scanned at once: the work grows with its square."""


def emit(kernel: Kernel) -> Func:
    """A line per program, or neighbouring lines in lanes when the axis is not innermost."""
    (op,) = (op for op in kernel.body.ops if op.kind is graph.cumulate)
    shape = shape_of(op.result)
    axis = attr_int(op, "axis")
    ev = kernel.ev
    outer = [i for i in range(len(shape)) if i != axis]
    width = 1
    if axis != len(shape) - 1:
        width = max(2, fitting(shape[-1], 32, 128, kernel.space.ranges))
    counts = [ceildiv(shape[i], width) if i == len(shape) - 1 else shape[i] for i in outer]
    grid = positions(counts)
    pid = ev.bind("pid", 0, grid - 1, ev.emit(block.program_id))
    at = dict(zip(outer, digits(kernel, pid, counts), strict=True))
    if width == 1:
        _scan_line(kernel, op, at)
        return kernel.finish(grid, 1 + shape[axis], {"warps": 4})
    lane, at[len(shape) - 1] = lane_along(kernel, shape[-1], width, at[len(shape) - 1] * width)
    in_whole_or_part(kernel, [lane], lambda: serial.scan_line(kernel, op, at))
    return kernel.finish(grid, 1 + shape[axis], {"warps": warps_for(width, 1)})


def _scan_line(kernel: Kernel, op: Op, at: dict[int, Dim]) -> None:
    ev = kernel.ev
    (x,) = op.operands
    axis, kind, elem = attr_int(op, "axis"), str(op.attrs["kind"]), element_of(x)
    wide = accumulator(elem) if kind in ("sum", "prod") else elem
    combine = block.ELEMENTWISE[COMBINE[kind]]
    extent = shape_of(x)[axis]
    below = block.lt if op.attrs.get("exclusive", False) else block.le

    def index(place: Dim) -> Index:
        element = extent - 1 - place if op.attrs.get("reverse", False) else place
        return tuple(element if d == axis else at[d] for d in range(len(at) + 1))

    def chunk(lane: Lane, place: Dim, carried: Carried) -> list[Value]:
        first = kernel.space.simplify(place - sym(lane.name))
        j, at_j = lane_along(kernel, extent, lane.extent, first)
        j = j if lane.limit is not None else Lane(j.name, lane.extent)
        with ev.lanes_as(lane, j):
            got = ev.value(x, index(at_j))
            tile = live_or_neutral(ev, kind, wide, got)
            seen = ev.emit(below, *ev.unified([ev.index(at_j), ev.index(place)]))
            seen = ev.shaped(seen, ev.full_shape())
            none = ev.const(neutral(kind, wide), wide, ev.full_shape())
            upto = across(ev, kind, ev.emit(block.select, seen, tile, none), (1,), wide)
        with ev.lanes_as(j):
            total = across(ev, kind, live_or_neutral(ev, kind, wide, ev.value(x, index(at_j))), (0,), wide)
        with ev.lanes_as(lane, Lane("", 1)):
            out = ev.emit(combine, ev.shaped(carried[0], ev.full_shape()), upto)
            out = out if wide == elem else ev.emit(block.cast, out, to=elem)
            ev.store(kernel.stores[0], index(place), out)
        return [ev.emit(combine, carried[0], total)]

    width = max(2, min(CHUNK, power_of_two(at_most(extent, kernel.space.ranges))))
    in_chunks(kernel, extent, width, chunk, (ev.const(neutral(kind, wide), wide),))
