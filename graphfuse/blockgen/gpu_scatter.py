"""Emits scatters for GPUs: every element of the result looks for the updates that name it, in their order.

When there are very many updates, one program copies and then applies them one by one.
"""

from __future__ import annotations

from graphfuse.blockgen import serial
from graphfuse.blockgen.evaluate_ops import from_the_end
from graphfuse.blockgen.gpu_pointwise import Tiling
from graphfuse.blockgen.gpu_tiles import at_most
from graphfuse.blockgen.index import Index
from graphfuse.blockgen.kernel import Kernel, element_of, positions
from graphfuse.blockgen.loops import Carried, nest
from graphfuse.blockgen.movement import Source, shape_of
from graphfuse.blockgen.pointwise import walked
from graphfuse.dialects import block, graph
from graphfuse.ir.core import Func, Op, Value, attr_int
from graphfuse.ir.types import BOOL
from graphfuse.symbolic import Dim, static, symbols

MANY = 4096
"""Updates up to which every element looks at all of them."""


def emit(kernel: Kernel) -> Func:
    """Each element of the result by itself, unless there are too many updates for that."""
    (op,) = (op for op in kernel.body.ops if op.kind in (graph.scatter_along, graph.scatter_nd))
    _, indices, _ = op.operands
    lead = shape_of(indices)[:-1]
    if op.kind is graph.scatter_along:
        lead = (shape_of(indices)[attr_int(op, "axis")],)
    if at_most(positions(lead), kernel.space.ranges) > MANY:
        func = serial.emit_scatter(kernel)
        return Func(func.name, func.body, {**func.attrs, "warps": 4}, func.dims)

    def compute(index: Index) -> None:
        found = _set_along(kernel, op, index) if op.kind is graph.scatter_along else _set_slices(kernel, op, index)
        kernel.ev.remember(op.result, index, found)
        kernel.store_outputs(index, domain)

    domain = shape_of(op.result)
    return Tiling(kernel, walked(kernel, domain), compute).emit()


def _updated(kernel: Kernel, op: Op, held: Value, update: Value, match: Value) -> Value:
    """`held` with the update where it matches."""
    ev = kernel.ev
    kind = str(op.attrs.get("kind", "set"))
    shape = ev.full_shape() or None
    update = ev.shaped(update, shape)
    new = update if kind == "set" else ev.emit(block.ELEMENTWISE[kind], held, update)
    return ev.emit(block.select, ev.shaped(match, shape), new, held)


def _set_along(kernel: Kernel, op: Op, index: Index) -> Value:
    ev = kernel.ev
    x, indices, updates = op.operands
    axis = attr_int(op, "axis")
    sizes, count = shape_of(x), shape_of(indices)
    where = tuple((0, index[d], n) for d, n in enumerate(count) if d != axis and n != sizes[d])
    inside: Value | None = None
    for _, i, n in where:
        inside = ev.both(inside, ev.emit(block.lt, *ev.unified([ev.index(i), ev.index(n)])))

    def step(u: Dim, carried: Carried) -> list[Value]:
        at = (*index[:axis], u, *index[axis + 1 :])
        place = from_the_end(ev, ev.guarded(Source(indices, at, where), element_of(indices), 0, None), sizes[axis])
        match = ev.emit(block.eq, *ev.unified([place, ev.index(index[axis])]))
        if inside is not None:
            match = ev.emit(block.and_, *ev.unified([match, inside]))
        update = ev.guarded(Source(updates, at, where), element_of(updates), 0, None)
        return [_updated(kernel, op, carried[0], update, match)]

    return ev.loop("u", count[axis], step, [ev.shaped(ev.value(x, index), ev.full_shape() or None)])[0]


def _set_slices(kernel: Kernel, op: Op, index: Index) -> Value:
    ev = kernel.ev
    x, indices, updates = op.operands
    lead, depth = shape_of(indices)[:-1], static(shape_of(indices)[-1])
    sizes = shape_of(x)
    lanes = {lane.name for lane in ev.lanes}
    uniform = not any(symbols(i) & lanes for i in index[:depth])

    def step(at: Index, carried: Carried) -> list[Value]:
        match: Value | None = None
        for k in range(depth):
            place = from_the_end(ev, ev.value(indices, (*at, k)), sizes[k])
            match = ev.both(match, ev.emit(block.eq, *ev.unified([place, ev.index(index[k])])))

        def changed() -> list[Value]:
            always = ev.const(value=True, elem=BOOL)
            return [_updated(kernel, op, carried[0], ev.value(updates, (*at, *index[depth:])), always)]

        if match is None:
            return changed()
        if uniform:
            return list(ev.branch(match, changed, lambda _: [carried[0]]))
        return [_updated(kernel, op, carried[0], ev.value(updates, (*at, *index[depth:])), match)]

    return nest(ev, lead, step, (ev.shaped(ev.value(x, index), ev.full_shape() or None),))[0]
