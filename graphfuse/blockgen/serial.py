"""Emits the ops whose elements depend on each other: running sums and scatters.

Each is a region of its own. The dependence runs through a loop; what is independent of it runs over programs and,
where memory is contiguous, lanes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from graphfuse.blockgen.evaluate import running_elem
from graphfuse.blockgen.evaluate_ops import from_the_end
from graphfuse.blockgen.index import Index
from graphfuse.blockgen.kernel import Kernel, element_of, positions
from graphfuse.blockgen.loops import Carried, for_piece, nest, programs
from graphfuse.blockgen.movement import shape_of
from graphfuse.blockgen.tiling import pieces
from graphfuse.dialects import block, graph
from graphfuse.dialects.elementwise import COMBINE, neutral
from graphfuse.ir.core import Func, Op, Value, attr_int
from graphfuse.ir.types import I64, Scalar
from graphfuse.symbolic import Dim, static


def _only(kernel: Kernel, *kinds: object) -> Op:
    (op,) = (op for op in kernel.body.ops if op.kind in kinds)
    return op


# running sums


def emit_scan(kernel: Kernel) -> Func:
    """A program per line along the axis, or per tile of neighbouring lines when the axis is not innermost."""
    op = _only(kernel, graph.cumulate)
    shape = shape_of(op.result)
    axis = attr_int(op, "axis")
    outer = [*shape[:axis], *shape[axis + 1 :]]
    lines = None if axis == len(shape) - 1 else outer.pop()
    grid, at = programs(kernel, outer)
    if lines is None:
        scan_line(kernel, op, at)
    else:
        vector = kernel.machine.lanes(element_of(op.result))
        for piece in pieces(lines, vector * 2, vector):
            for_piece(kernel, piece, lambda place, _: scan_line(kernel, op, (*at, place)))
    return kernel.finish(grid, shape[axis] * (1 if lines is None else lines))


def scan_line(kernel: Kernel, op: Op, at: Index) -> None:
    """The loop along the axis, at an index of the other dims; sums and products of floats are carried in f64."""
    ev = kernel.ev
    (x,) = op.operands
    axis, kind = attr_int(op, "axis"), str(op.attrs["kind"])
    exclusive, reverse = bool(op.attrs.get("exclusive", False)), bool(op.attrs.get("reverse", False))
    shape = shape_of(x)
    elem = element_of(x)
    wide = running_elem(kind, elem)
    tile_shape = ev.full_shape() or None

    def step(i: Dim, carried: tuple[Value, ...]) -> list[Value]:
        position = shape[axis] - 1 - i if reverse else i
        index = (*at[:axis], position, *at[axis:])
        got = ev.shaped(ev.cast(ev.value(x, index), wide), tile_shape)
        after = ev.emit(block.ELEMENTWISE[COMBINE[kind]], carried[0], got)
        out = carried[0] if exclusive else after
        ev.store(kernel.stores[0], index, ev.cast(out, elem))
        return [after]

    ev.loop("r", shape[axis], step, [ev.const(neutral(kind, wide), wide, tile_shape)])


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
