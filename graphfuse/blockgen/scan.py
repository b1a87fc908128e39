"""Emits running sums: the dependence runs through a loop; lines run over programs and, side by side, over lanes."""

from __future__ import annotations

from graphfuse.blockgen.index import Index
from graphfuse.blockgen.kernel import Kernel, element_of
from graphfuse.blockgen.loops import Carried, for_piece, programs, scan_tile
from graphfuse.blockgen.scans import Scan
from graphfuse.blockgen.tiling import pieces
from graphfuse.dialects import graph
from graphfuse.ir.core import Func, Value
from graphfuse.symbolic import Dim

SCANNED = 4
"""Vectors of a line that are scanned at once."""


def emit(kernel: Kernel) -> Func:
    """A program for each part of a line, in tiles; of a tile of lines side by side, when the axis is not innermost."""
    (op,) = (op for op in kernel.body.ops if op.kind is graph.cumulate)
    scan = Scan.of(op)
    outer = scan.outer
    lines = None if scan.axis == len(outer) else outer.pop()
    grid, (*at, part) = programs(kernel, [*outer, scan.parts])
    if lines is None:
        _scan_line(kernel, scan, tuple(at), part)
    else:
        vector = kernel.machine.lanes(element_of(scan.op.result))
        for piece in pieces(lines, vector * 2, vector):
            for_piece(kernel, piece, lambda place, _: _scan_lines(kernel, scan, (*at, place), part))
    return kernel.finish(grid, scan.part * (1 if lines is None else lines))


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
