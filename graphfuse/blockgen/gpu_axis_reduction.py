"""Emits reductions of any axes for GPUs, and searches for an extreme's position: one reduction, then pointwise work.

A program has a tile [kept, reduced] or [reduced, kept], whichever way memory runs, and walks it over the reduced axes;
its lanes hold partial results, which are folded across lanes once at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphfuse.blockgen.access import AccessAnalysis, Merged, as_index, dim_names, merge, merged_index
from graphfuse.blockgen.evaluate import Lane, neutral
from graphfuse.blockgen.gpu_reduction import across, combined, live_or_neutral, partial_elem
from graphfuse.blockgen.gpu_tiles import at_most, fitting, in_chunks, in_whole_or_part, lane_along, warps_for
from graphfuse.blockgen.index import Index, linear, reshape_index, strides_of
from graphfuse.blockgen.kernel import GpuMachine, Kernel, element_of, positions
from graphfuse.blockgen.loops import Carried, digits, nest
from graphfuse.blockgen.movement import shape_of
from graphfuse.dialects import block, graph
from graphfuse.ir.core import Func, Op, Trait, Value, attr_int, attr_ints
from graphfuse.ir.types import I64, Scalar
from graphfuse.symbolic import Dim, ceildiv

TILE = 4096
"""Elements of a program's tile when the reduced axes are long."""
LINE = 32
"""Neighbours in memory that a tile has at least, if there are so many."""


def find(kernel: Kernel) -> Op | None:
    """The one reduction of the region, if all that follows it is one element to one element."""
    found = [op for op in kernel.body.ops if op.kind in (graph.reduce, graph.arg_reduce)]
    if len(found) != 1:
        return None
    (op,) = found
    reached = {op}
    for other in kernel.body.ops[:-1]:
        if any(v.op in reached for v in other.operands):
            if not (other.has(Trait.ELEMENTWISE) or other.kind is graph.reshape):
                return None
            reached.add(other)
    kept = positions(shape_of(op.result))
    same = all(positions(shape_of(v)) == kept for v in kernel.outputs)
    return op if same and _axes(op) else None


def _axes(op: Op) -> tuple[int, ...]:
    """The reduced axes that have more than one element."""
    axes = (attr_int(op, "axis"),) if op.kind is graph.arg_reduce else attr_ints(op, "axes")
    shape = shape_of(op.operands[0])
    return tuple(a for a in axes if shape[a] != 1)


def emit(kernel: Kernel, op: Op) -> Func:
    """The reduction `op` and what follows it."""
    return _AxisReduction(kernel, op).emit()


class _AxisReduction:
    """One region: the dims of what is reduced, merged, and which of them are in lanes."""

    def __init__(self, kernel: Kernel, op: Op) -> None:
        self.kernel, self.op = kernel, op
        self.x = op.operands[0]
        self.shape = shape_of(self.x)
        self.axes = _axes(op)
        self.dims = self._merged()
        self.reduced = [i for i, d in enumerate(self.dims) if d.first in self.axes]
        self.kept = [i for i in range(len(self.dims)) if i not in self.reduced]
        self.along = self.reduced[-1]
        self.across = self.kept[-1] if self.kept else None
        self.widths = self._widths()

    def _merged(self) -> list[Merged]:
        kernel = self.kernel
        names = dim_names(kernel.space, self.shape)
        index = as_index(names)
        analysis = AccessAnalysis(kernel.space, set(kernel.ev.leaves), frozenset([self.op.result]))
        analysis.visit(self.x, index)
        for value in kernel.outputs:
            where = self._result_index(value, index)
            analysis.touch(linear(where, strides_of(shape_of(value))))
            analysis.visit(value, where)
        borders = [i for i in range(1, len(self.shape)) if (i in self.axes) != (i - 1 in self.axes)]
        return merge(self.shape, names, analysis.found, borders)

    def _result_index(self, value: Value, index: Index) -> Index:
        """The index into a value as large as the result, at an index of what is reduced."""
        op = self.op
        axes = (attr_int(op, "axis"),) if op.kind is graph.arg_reduce else attr_ints(op, "axes")
        keep = bool(op.attrs.get("keepdims", False))
        at = tuple(0 if i in axes else x for i, x in enumerate(index) if keep or i not in axes)
        return reshape_index(at, shape_of(op.result), shape_of(value), self.kernel.space)

    def _widths(self) -> tuple[int, int]:
        """Lanes along the kept and along the reduced dim."""
        ranges, machine = self.kernel.space.ranges, self.kernel.machine
        assert isinstance(machine, GpuMachine)
        reduced = self.dims[self.along].extent
        if self.across is None:
            return 1, max(2, fitting(reduced, LINE, TILE, ranges))
        kept = self.dims[self.across].extent
        if self.along > self.across:  # rows
            wide = max(2, fitting(reduced, LINE, TILE // 4, ranges))
            high = fitting(kept, 1, max(1, TILE // 2 // wide), ranges)
        else:  # columns
            high = fitting(kept, LINE, 64, ranges)
            wide = max(2, fitting(reduced, 1, TILE // high, ranges, slack=0.5))
            high = fitting(kept, high, max(high, TILE // 2 // wide), ranges)
        total = at_most(positions([self.dims[i].extent for i in self.kept]), ranges)
        least = 1 if self.along > self.across else LINE
        while high > least and total < high * machine.multiprocessors:
            high //= 2
        return high, wide

    # emission

    def emit(self) -> Func:
        """The kernel."""
        kernel, ev = self.kernel, self.kernel.ev
        high, wide = self.widths
        extents = [self.dims[i].extent for i in self.kept]
        counts = [ceildiv(e, high) if i == self.across else e for i, e in zip(self.kept, extents, strict=True)]
        grid = positions(counts)
        pid = ev.bind("pid", 0, grid - 1, ev.emit(block.program_id))
        at = list(digits(kernel, pid, counts))
        lanes: list[Lane] = []
        if high > 1:
            lane, at[-1] = lane_along(kernel, extents[-1], high, at[-1] * high)
            lanes.append(lane)
        in_whole_or_part(kernel, lanes, lambda: self._program(tuple(at)))
        work = 1 + positions([self.dims[i].extent for i in self.reduced]) * high // 256
        return kernel.finish(grid, work, {"warps": warps_for(high * wide, 16)})

    def _program(self, at: Index) -> None:
        """Walk the reduced dims, fold, finish: under the lane of the kept dim, if there is one."""
        kernel, ev = self.kernel, self.kernel.ev
        kept = ev.lanes
        total = self._reduce(at, kept) if self.op.kind is graph.reduce else self._search(at, kept)
        with ev.lanes_as(*self._ordered(kept, Lane("", 1))) if kept else ev.lanes_as():
            index = self._index(at, (0,) * len(self.reduced))
            ev.remember(self.op.result, self._result_index(self.op.result, index), total)
            for value, leaf in zip(kernel.outputs, kernel.stores, strict=True):
                where = self._result_index(value, index)
                ev.store(leaf, where, ev.value(value, where))

    def _ordered(self, kept: Sequence[Lane], along: Lane) -> list[Lane]:
        """Lanes in the order of their dims."""
        columns = self.across is not None and self.along < self.across
        return [along, *kept] if columns else [*kept, along]

    def _index(self, kept: Index, reduced: Index) -> Index:
        where: list[Dim] = [0] * len(self.dims)
        for i, x in zip((*self.kept, *self.reduced), (*kept, *reduced), strict=True):
            where[i] = x
        return merged_index(len(self.shape), self.dims, where)

    def _walk(
        self, at: Index, kept: Sequence[Lane], step: Callable[[Value, Dim, Carried], Sequence[Value]], start: Carried
    ) -> Carried:
        """`step(element, position along the innermost reduced dim, carried)` over all chunks of the reduced dims."""
        kernel, ev = self.kernel, self.kernel.ev
        *outer, last = [self.dims[i].extent for i in self.reduced]

        def along(place: Index, carried: Carried) -> Carried:
            def chunk(lane: Lane, position: Dim, values: Carried) -> Sequence[Value]:
                with ev.lanes_as(*self._ordered(kept, lane)):
                    return step(ev.value(self.x, self._index(at, (*place, position))), position, values)

            return in_chunks(kernel, last, self.widths[1], chunk, carried)

        return nest(ev, outer, along, start)

    def _shape(self, kept: Sequence[Lane]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The tile's shape, and its reduced axis."""
        lanes = self._ordered(kept, Lane("along", self.widths[1]))
        return tuple(lane.extent for lane in lanes), tuple(i for i, lane in enumerate(lanes) if lane.name == "along")

    def _reduce(self, at: Index, kept: Sequence[Lane]) -> Value:
        ev = self.kernel.ev
        kind, elem = str(self.op.attrs["kind"]), element_of(self.x)
        wide = partial_elem(kind, elem)
        shape, axes = self._shape(kept)
        start = ev.const(neutral(kind, wide), wide, shape)
        (tile,) = self._walk(at, kept, lambda got, _, carried: [combined(ev, kind, carried[0], got)], (start,))
        return across(ev, kind, tile, axes, elem)

    # positions of extremes

    def _search(self, at: Index, kept: Sequence[Lane]) -> Value:
        """Per lane the best element and its position (-1: none yet), then the best of the lanes."""
        ev = self.kernel.ev
        kind, elem = str(self.op.attrs["kind"]), element_of(self.x)
        last = bool(self.op.attrs.get("last", False))
        shape, axes = self._shape(kept)

        def step(got: Value, position: Dim, carried: Carried) -> list[Value]:
            best, where = carried
            live = ev.live_lanes()
            here = live_or_neutral(ev, kind, elem, got)
            better = _better(kernel=self.kernel, kind=kind, last=last, elem=elem, here=here, best=best)
            better = ev.emit(block.or_, better, ev.emit(block.lt, where, ev.const(0, I64, shape)))
            if live is not None:
                better = ev.emit(block.and_, better, live)
            i = ev.shaped(ev.index(position), shape)
            return [ev.emit(block.select, better, here, best), ev.emit(block.select, better, i, where)]

        none = ev.const(-1, I64, shape)
        best, where = self._walk(at, kept, step, (ev.const(neutral(kind, elem), elem, shape), none))
        top = across(ev, kind, best, axes, elem)
        top = ev.shaped(top, shape)
        equal = ev.emit(block.eq, best, top)
        if elem.is_float:
            isnan = block.ELEMENTWISE["isnan"]
            equal = ev.emit(block.or_, equal, ev.emit(block.and_, ev.emit(isnan, best), ev.emit(isnan, top)))
        equal = ev.emit(block.and_, equal, ev.emit(block.ge, where, ev.const(0, I64, shape)))
        if last:
            found = across(ev, "max", ev.emit(block.select, equal, where, none), axes, I64)
            return self._at_least_first(found)
        far = ev.const((1 << 63) - 1, I64, shape)
        found = across(ev, "min", ev.emit(block.select, equal, where, far), axes, I64)
        return self._at_least_first(found)

    def _at_least_first(self, found: Value) -> Value:
        """The position found; 0 where there was no element."""
        ev, extent = self.kernel.ev, self.dims[self.along].extent
        if self.kernel.space.below(0, extent):
            return found
        shape = getattr(found.type, "shape", None)
        zero, end = ev.const(0, I64, shape), ev.index(extent)
        end = end if shape is None else ev.shaped(end, shape)
        inside = ev.emit(block.and_, ev.emit(block.ge, found, zero), ev.emit(block.lt, found, end))
        return ev.emit(block.select, inside, found, zero)


def _better(*, kernel: Kernel, kind: str, last: bool, elem: Scalar, here: Value, best: Value) -> Value:
    """Whether a later element is to be taken instead of the best so far; the first (or last) NaN is the extreme."""
    ev, fn = kernel.ev, block.ELEMENTWISE
    compare = {("max", False): "gt", ("max", True): "ge", ("min", False): "lt", ("min", True): "le"}[kind, last]
    better = ev.emit(fn[compare], here, best)
    if not elem.is_float:
        return better
    nan = ev.emit(fn["isnan"], here)
    if not last:
        nan = ev.emit(block.and_, nan, ev.emit(fn["not"], ev.emit(fn["isnan"], best)))
    return ev.emit(block.or_, better, nan)
