"""Emits scatters whose programs each make all of some columns of the result, for GPUs.

What updates come to is combined in shared memory, in a table of the places that an index may name in these columns.
Then the program combines that with what the scatter begins with, which may be computed, and goes on with the result
while it has it. In memory each update would take a sector, as neighbours go to places of their own.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

from graphfuse.blockgen.access import merged_index
from graphfuse.blockgen.evaluate import Lane, Leaf, leaf_of
from graphfuse.blockgen.gpu_tiles import SECTOR_BYTES, in_chunks, lane_along, power_of_two, warps_for
from graphfuse.blockgen.index import Index
from graphfuse.blockgen.kernel import element_of
from graphfuse.blockgen.loops import Carried, programs
from graphfuse.blockgen.movement import shape_of
from graphfuse.blockgen.scatter import REDUCTIONS, Updates
from graphfuse.dialects import block, effects, graph
from graphfuse.dialects.elementwise import neutral
from graphfuse.ir.core import Func, Op, attr_int
from graphfuse.symbolic import Dim, ceildiv, static
from graphfuse.targets.machine import WARP, Machine

WARPS, HELD = 32, 4
"""Of a program at most, whose table may be all that a multiprocessor has; and the updates that a thread reads at a time
(5,226 rows of 4,039 bf16 into 3,182 on an H200: 137 us, with 16 warps 171, with 8 updates 141)."""
LEAST = 2
"""Columns side by side at least, if there are several: with one most of what is read of memory is not asked for."""
FEWER, FEWER_NARROW = 8, 2
"""Times as many places as updates at most: all places are read and written, whatever is updated. The second where
columns are no whole sectors, but for elements of 16 bits, which are swapped in loops in memory."""


def columns_of(op: Op, machine: Machine) -> int:
    """Columns side by side that one program makes; 0 for a scatter that is better made where it lies.

    Constants are fitted to `benchmarks.gpu_constants --only scatters`.
    """
    elem, shapes = element_of(op.result), [shape_of(v) for v in op.operands]
    combines = op.attrs.get("kind", "set") != "set" and not op.attrs.get("ordered", False)
    if op.kind is not graph.scatter_along or not combines or elem.bits < 16:
        return 0
    if not all(isinstance(d, int) for d in itertools.chain(*shapes)):
        return 0
    x, _, updates = (tuple(map(static, shape)) for shape in shapes)
    axis = attr_int(op, "axis")
    outer, inner = math.prod(x[:axis]), math.prod(x[axis + 1 :])
    if (*x[:axis], *x[axis + 1 :]) != (*updates[:axis], *updates[axis + 1 :]):
        return 0

    def too_few(width: int, wanted: int) -> bool:
        return outer * -(-inner // width) < wanted

    exchanged = WARPS * WARP * HELD * elem.bytes  # by threads that read tables otherwise than memory
    room = (machine.shared_bytes - 2 * exchanged) // (elem.bytes * max(1, x[axis]))
    most, sector, wanted = power_of_two(inner), SECTOR_BYTES // elem.bytes, machine.multiprocessors
    width = min(WARP, most)
    while width > min(LEAST, most) and (width > room or too_few(width, wanted if width > sector else wanted // 2)):
        width //= 2
    fewer = FEWER_NARROW if width < min(sector, inner) and elem.bits >= 32 else FEWER
    # of fewer places than a warp has threads, they would wait for one another
    fits = width <= room and x[axis] * width >= WARP and fewer * updates[axis] >= x[axis]
    return width if fits and not too_few(width, wanted // 2) else 0


def emit(made: Updates) -> Func:
    """A program for each tile of columns."""
    return _Columns(made).emit()


class _Columns:
    """The columns of a program: neighbours along the innermost dim, if the axis is none."""

    def __init__(self, made: Updates) -> None:
        self.made, self.kernel, self.ev = made, made.kernel, made.kernel.ev
        self.elem, self.axis = element_of(made.updates), made.named.start
        dims = made.walk().merge()
        self.others = [d for d in dims if d.last != self.axis]
        self.inner = self.others[-1] if self.others and self.others[-1].last > self.axis else None
        wanted = max(1, columns_of(made.op, self.kernel.machine))
        self.width = min(wanted, power_of_two(static(self.inner.extent))) if self.inner else 1
        self.places, self.count = static(made.sizes[self.axis]), static(made.shape[self.axis])
        self.warps = warps_for(max(self.places, self.count) * self.width, HELD, WARPS)
        self.tile = self.warps * WARP * HELD

    def emit(self) -> Func:
        """The kernel."""
        ev, kernel, inner, total = self.ev, self.kernel, self.inner, self.places * self.width
        sizes, axis = self.made.sizes, self.axis
        pointer = ev.emit(block.alloc, elem=self.elem, count=total, shared=True)
        grid, place = programs(kernel, [ceildiv(d.extent, self.width if d is inner else 1) for d in self.others])
        at, lanes, first = list(place), list[Lane](), 0
        strides: list[Dim] = [self.width if i == axis else 0 for i in range(len(sizes))]
        if inner:
            first = at[-1] = place[-1] * self.width
            strides[inner.last] = 1
            if self.width > 1:
                lane, at[-1] = lane_along(kernel, inner.extent, self.width, first)
                lanes.append(lane)
        table, beside = Leaf(pointer, tuple(strides), tuple(sizes), -first), merged_index(len(sizes), self.others, at)

        def index(position: Dim) -> Index:
            return (*beside[:axis], position, *beside[axis + 1 :])

        start = ev.const(neutral(REDUCTIONS.get(self.made.kind, self.made.kind), self.elem), self.elem)
        flat, rows = leaf_of(pointer, (total,)), self.tile // self.width
        self._along(total, self.tile, [], lambda position: ev.store(flat, (position,), start))
        ev.builder.op(effects.barrier)  # else each tile would begin with one
        self._along(self.count, rows, lanes, lambda position: self._combine(table, index(position)))
        self._along(self.places, rows, lanes, lambda position: self._write(table, index(position)))
        return kernel.finish(grid, 1 + self.count + self.places, {"warps": self.warps})

    def _along(self, extent: int, most: int, columns: Sequence[Lane], body: Callable[[Dim], None]) -> None:
        """What happens at all positions of a line, and in all columns, tile by tile."""

        def tile(lane: Lane, position: Dim, _: Carried) -> None:
            with self.ev.lanes_as(lane, *columns):
                body(position)

        in_chunks(self.kernel, extent, min(most, power_of_two(extent)), tile, ())

    def _combine(self, table: Leaf, at: Index) -> None:
        made, ev = self.made, self.ev
        places, inside = made.places(at)
        update = ev.value(made.updates, at)
        with ev.where(inside):
            ev.atomic(table, made.target(at, places), update, made.kind)

    def _write(self, table: Leaf, at: Index) -> None:
        made, ev = self.made, self.ev
        found = ev.unified([ev.value(made.x, at), ev.load(table, at)])
        ev.remember(made.op.result, at, ev.emit(block.ELEMENTWISE[made.kind], *found))
        self.kernel.store_outputs(at, made.sizes)
