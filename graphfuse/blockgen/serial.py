"""Emits the ops whose elements depend on each other: running sums and scatters.

Each is a region of its own. The dependence runs through a loop; what is independent of it runs over programs and,
where memory is contiguous, lanes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from graphfuse.blockgen.evaluate_ops import from_the_end
from graphfuse.blockgen.index import Index
from graphfuse.blockgen.kernel import Kernel, element_of, positions
from graphfuse.blockgen.loops import Carried, for_piece, nest, programs, scan_tile
from graphfuse.blockgen.movement import shape_of
from graphfuse.blockgen.scans import Scan
from graphfuse.blockgen.tiling import pieces
from graphfuse.dialects import block, graph
from graphfuse.ir.core import Func, Op, Value, attr_int
from graphfuse.ir.types import I64, Scalar
from graphfuse.symbolic import Dim, static

SCANNED = 4
"""Vectors of a line that are scanned at once."""


def _only(kernel: Kernel, *kinds: object) -> Op:
    (op,) = (op for op in kernel.body.ops if op.kind in kinds)
    return op


# running sums


def emit_scan(kernel: Kernel) -> Func:
    """A program for each part of a line, in tiles; of a tile of lines side by side, when the axis is not innermost."""
    scan = Scan.of(_only(kernel, graph.cumulate))
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


# scatters


def emit_scatter(kernel: Kernel) -> Func:
    """One program: copy the operand, then apply the updates in order, so that later ones win."""
    op = _only(kernel, graph.scatter_along, graph.scatter_nd)
    x, indices, updates = op.operands
    ev = kernel.ev
    _lines(kernel, shape_of(x), element_of(x), lambda at: ev.store(kernel.stores[0], at, ev.value(x, at)))
    if op.kind is graph.scatter_along:
        nest(kernel.ev, shape_of(updates), lambda at, _: _update_along(kernel, op, at))
    else:
        nest(kernel.ev, shape_of(indices)[:-1], lambda at, _: _update_slice(kernel, op, at))
    return kernel.finish(1, positions(shape_of(x)) // 8 + positions(shape_of(updates)) * 2 + 1)


def _lines(kernel: Kernel, shape: Sequence[Dim], elem: Scalar, body: Callable[[Index], None]) -> None:
    """`body(index)` over a shape: loops, then lanes along the innermost dim."""
    if not shape:
        body(())
        return
    vector = kernel.machine.lanes(elem)

    def line(outer: Index, _: Carried) -> None:
        for piece in pieces(shape[-1], vector * 4, vector):
            for_piece(kernel, piece, lambda position, _: body((*outer, position)))

    nest(kernel.ev, shape[:-1], line)


def _position(kernel: Kernel, indices: Value, at: Index, size: Dim) -> tuple[Dim, Value]:
    """An index read from memory, from the end when negative, and whether it is in range."""
    ev = kernel.ev
    code = from_the_end(ev, ev.value(indices, at), size)
    inside = ev.emit(block.and_, ev.emit(block.ge, code, ev.const(0, I64)), ev.emit(block.lt, code, ev.index(size)))
    return ev.bind("g", 0, size - 1, code), inside


def _store(kernel: Kernel, op: Op, where: Index, update: Value) -> None:
    """Write an update, or what it makes of what is there."""
    ev, kind = kernel.ev, str(op.attrs.get("kind", "set"))
    if kind != "set":
        update = ev.emit(block.ELEMENTWISE[kind], *ev.unified([ev.load(kernel.stores[0], where), update]))
    ev.store(kernel.stores[0], where, update)


def _update_along(kernel: Kernel, op: Op, at: Index) -> None:
    (_, indices, updates), axis = op.operands, attr_int(op, "axis")
    place, inside = _position(kernel, indices, at, shape_of(op.result)[axis])
    target = (*at[:axis], place, *at[axis + 1 :])
    _where(kernel, [inside], lambda: _store(kernel, op, target, kernel.ev.value(updates, at)))


def _update_slice(kernel: Kernel, op: Op, at: Index) -> None:
    _, indices, updates = op.operands
    shape = shape_of(op.result)
    depth = static(shape_of(indices)[-1])
    places = [_position(kernel, indices, (*at, k), shape[k]) for k in range(depth)]
    found = tuple(place for place, _ in places)

    def element(rest: Index) -> None:
        _store(kernel, op, (*found, *rest), kernel.ev.value(updates, (*at, *rest)))

    conditions = [inside for _, inside in places]
    _where(kernel, conditions, lambda: _lines(kernel, shape[depth:], element_of(op.result), element))


def _where(kernel: Kernel, conditions: Sequence[Value], body: Callable[[], None]) -> None:
    """`body()` if all conditions hold: what is written out of range is dropped."""
    ev = kernel.ev
    if conditions:
        ev.branch(functools.reduce(lambda a, b: ev.emit(block.and_, a, b), conditions), body)
    else:
        body()
