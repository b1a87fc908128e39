"""Emits running sums: the dependence runs through a loop; lines run over programs and, side by side, over lanes."""

from __future__ import annotations

from graphfuse.blockgen.index import Index
from graphfuse.blockgen.kernel import Kernel, element_of, positions
from graphfuse.blockgen.loops import Carried, for_piece, programs, scan_tile, side_by_side
from graphfuse.blockgen.scans import Scan
from graphfuse.blockgen.tiling import pieces
from graphfuse.dialects import graph
from graphfuse.dialects.elementwise import DEAR_KINDS
from graphfuse.ir.core import Func, Value
from graphfuse.symbolic import Dim, bounds

SCANNED = 4
"""Vectors of a line that are scanned at once."""
PROGRAMS = 32
"""Of lines side by side, as many as most CPUs have cores, where each still has vectors of them."""
DEAR_NS = 16
"""Of a step that takes an exponential and a logarithm."""


def emit(kernel: Kernel) -> Func:
    """A program for each part of a line, in tiles; of lines side by side, when the axis is not innermost."""
    (op,) = (op for op in kernel.body.ops if op.kind is graph.cumulate)
    scan = Scan.of(op)
    ns = DEAR_NS if scan.kind in DEAR_KINDS else 1
    if scan.axis < len(scan.outer):
        return _emit_lines(kernel, scan, ns)
    grid, (*at, part) = programs(kernel, [*scan.outer, scan.parts])
    _scan_line(kernel, scan, tuple(at), part)
    return kernel.finish(grid, scan.part * ns)


def _emit_lines(kernel: Kernel, scan: Scan, ns: int) -> Func:
    """A program for as many lines as a part of which fits its cache, or fewer, for enough programs."""
    *outer, lines = scan.outer
    out = element_of(scan.op.result)
    width, ranges = kernel.machine.lanes(out) * 2, kernel.space.ranges
    part, every, others = (bounds(dim, ranges)[1] for dim in (scan.part, lines, positions([*outer, scan.parts])))
    held = min(kernel.machine.core.chunk, kernel.machine.l2_bytes // (4 * out.bytes) // max(1, part))
    fair = -(-every // -(-PROGRAMS // max(1, others)))
    count = max(1, min(held, -(-fair // width) * width) // width) * width

    def some(at: Index, place: Dim) -> None:
        _scan_lines(kernel, scan, (*at[:-1], place), at[-1])

    grid = side_by_side(kernel, [*outer, scan.parts], lines, count, width, some)
    return kernel.finish(grid, scan.part * count * ns)


def _scan_line(kernel: Kernel, scan: Scan, at: Index, part: Dim) -> None:
    """A part of one line in tiles along it."""
    ev, vector = kernel.ev, kernel.machine.lanes(scan.elem)
    first, end = scan.places(part)

    def tile(place: Dim, carried: Carried) -> list[Value]:
        found, after = scan_tile(ev, scan, scan.index(at, place), 0, carried[0], scan.elem)
        ev.store(kernel.stores[0], scan.index(at, place), ev.cast(found, element_of(scan.op.result)))
        return [after]

    carried: Carried = (scan.start(ev, at, part),)
    for piece in pieces(kernel.space.simplify(end - first), SCANNED * vector, vector):
        carried = for_piece(kernel, piece, tile, carried, first)


def _scan_lines(kernel: Kernel, scan: Scan, at: Index, part: Dim) -> None:
    """The loop along a part of the axis, at an index of the other dims."""
    ev, x, shape = kernel.ev, scan.op.operands[0], kernel.ev.full_shape()
    first, end = scan.places(part)

    def step(place: Dim, carried: Carried) -> list[Value]:
        index = scan.index(at, place)
        got = ev.shaped(ev.cast(ev.value(x, index), scan.elem), shape)
        after = ev.emit(scan.combine, carried[0], got)
        ev.store(kernel.stores[0], index, ev.cast(carried[0] if scan.exclusive else after, element_of(x)))
        return [after]

    ev.loop("r", end, step, [ev.shaped(scan.start(ev, at, part), shape)], start=first)
