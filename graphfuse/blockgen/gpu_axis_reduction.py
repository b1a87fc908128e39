"""Emits reductions of any axes for GPUs, and searches for an extreme's position: one reduction, then pointwise work.

A program has a tile of the dims, in the order of memory, and walks it over the reduced ones; its lanes hold partial
results, which are folded across lanes once at the end. Products of one operand are reductions of one walk.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from graphfuse.blockgen.access import Accesses, Merged, Walk, merged_index
from graphfuse.blockgen.evaluate import Lane, Yielded
from graphfuse.blockgen.gpu_tiles import (
    LINE,
    SECTOR_BYTES,
    SHARES,
    apart,
    as_one,
    at_most,
    columns_of_program,
    fitting,
    in_whole_or_part,
    neighbours,
    over_tiles,
    short_tail,
    tiled_programs,
    warps_for,
)
from graphfuse.blockgen.index import Index
from graphfuse.blockgen.kernel import Kernel, element_of, positions
from graphfuse.blockgen.loops import Carried, Fold, across, live_or_neutral
from graphfuse.blockgen.movement import shape_of
from graphfuse.blockgen.ordering import is_better
from graphfuse.dialects import block, graph
from graphfuse.dialects.elementwise import neutral
from graphfuse.ir.core import Func, Op, Trait, Value, attr_int, attr_ints
from graphfuse.ir.types import I32, I64, Scalar
from graphfuse.symbolic import Dim

TILE = 4096
"""Elements of a program's tile when the reduced axes are long."""


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


def _all_axes(op: Op) -> tuple[int, ...]:
    return (attr_int(op, "axis"),) if op.kind is graph.arg_reduce else attr_ints(op, "axes")


def _axes(op: Op) -> tuple[int, ...]:
    """The reduced axes that have more than one element."""
    return tuple(a for a in _all_axes(op) if shape_of(op.operands[0])[a] != 1)


def emit(kernel: Kernel, op: Op) -> Func:
    """The reduction `op` and what follows it."""
    (x,) = op.operands
    axes, keep = _all_axes(op), bool(op.attrs.get("keepdims", False))

    def kept(index: Index) -> Index:
        return tuple(0 if i in axes else at for i, at in enumerate(index) if keep or i not in axes)

    def of(index: Index) -> list[Value]:
        return [kernel.ev.value(x, index)]

    terms = Terms(shape_of(x), _axes(op), [op.result], kept, of, lambda index: ((x, index),), str(op.attrs["kind"]))
    last = bool(op.attrs.get("last", False)) if op.kind is graph.arg_reduce else None
    return AxisReduction(kernel, terms, element_of(x), last).emit()


@dataclass(frozen=True)
class Terms:
    """`results[n][kept(i)] = reduction of of(i)[n] over the axes`, i over `shape`; the results have one shape."""

    shape: tuple[Dim, ...]
    axes: tuple[int, ...]
    results: Sequence[Value]
    kept: Callable[[Index], Index]
    of: Callable[[Index], Sequence[Value]]
    reads: Callable[[Index], Sequence[tuple[Value, Index]]]
    """What `of` evaluates, and where."""
    kind: str
    columns: bool | None = None
    """Whether memory is contiguous along what is kept; None: as the last dim says."""


class AxisReduction:
    """One region: the dims of what is reduced, merged, and which of them are in lanes."""

    def __init__(self, kernel: Kernel, terms: Terms, elem: Scalar, last: bool | None = None) -> None:
        self.kernel, self.terms, self.elem = kernel, terms, elem
        self.last = last
        """For a search: whether the last of equal elements is wanted. None: a reduction."""
        self.shape, self.axes = terms.shape, terms.axes
        self.memory = self._merged()
        """Dims that are one in all memory."""
        self.tail = short_tail(self.memory, self.axes)
        self.dims = [*self.memory[: -len(self.tail)], as_one(self.tail)] if self.tail else self.memory
        self.reduced = [i for i, d in enumerate(self.dims) if d.first in self.axes]
        self.kept = [i for i in range(len(self.dims)) if i not in self.reduced]
        self.along = self.reduced[-1]
        self.across = self.kept[-1] if self.kept else None
        columns = self.across is not None and self.along < self.across
        self.columns = columns if terms.columns is None or self.across is None else terms.columns
        self.widths = self._widths()
        """Lanes along each dim."""

    def _merged(self) -> list[Merged]:
        kernel, terms = self.kernel, self.terms

        def walk(index: Index) -> Accesses:
            analysis = kernel.accesses(terms.kept(index), shape_of(terms.results[0]), terms.results)
            for value, where in terms.reads(index):
                analysis.visit(value, where)
            return analysis.found

        borders = [i for i in range(1, len(self.shape)) if (i in self.axes) != (i - 1 in self.axes)]
        dims = Walk.over(kernel.space, self.shape, walk).merge(borders)
        if any(d.first in self.axes for d in dims):
            return dims
        return [*dims, Merged(self.axes[-1], self.axes[-1], 1)]  # a sum of one: `merge` leaves out dims of 1

    def _widths(self) -> list[int]:
        """Lanes along the innermost kept and reduced dims, then along other reduced ones, until enough is in flight."""
        ranges, machine = self.kernel.space.ranges, self.kernel.machine
        out = [1] * len(self.dims)
        reduced = self.dims[self.along].extent
        if self.across is None:  # one program, which waits for memory: for few reads of much
            most = min(4 * TILE // len(self.terms.results), machine.gpu.memory.in_flight_bytes // self._widest())
            out[self.along] = max(2, fitting(reduced, LINE, most, ranges, slack=0.5))
        else:
            out[self.across], out[self.along], most = self._two_widths(self.dims[self.across].extent, reduced)
        for i in reversed(self.reduced[:-1]):
            more = max(1, min(most, machine.gpu.memory.row_elements) // math.prod(out))
            out[i] = fitting(self.dims[i].extent, 1, more, ranges, slack=0.5)
        return out

    def _two_widths(self, kept: Dim, reduced: Dim) -> tuple[int, int, int]:
        """Lanes along the kept and the reduced dim, and the elements that a program should have in flight."""
        ranges, machine = self.kernel.space.ranges, self.kernel.machine
        tile = TILE // len(self.terms.results)
        if not self.columns:
            wide = max(2, fitting(reduced, LINE, tile // 4, ranges))
            # of short rows, as windows of 4 x 4, a tile may have some that there are not, rather than one
            slack = 0.1 if wide >= LINE else 0.5
            high = fitting(kept, 1, max(1, tile // 2 // wide), ranges, slack)
        else:  # columns
            high = fitting(kept, LINE, 64, ranges)
            wide = max(2, fitting(reduced, 1, tile // high, ranges, slack=0.5))
            high = fitting(kept, high, max(high, tile // 2 // wide), ranges)
        lines, widest = positions([self.dims[i].extent for i in self.kept]), self._widest()
        total = at_most(lines, ranges)
        if self.columns:
            high = columns_of_program(self.kernel, lines, high, min(LINE, max(1, 2 * SECTOR_BYTES // widest)))
        else:
            high = neighbours(self.kernel, lines, high)
        # few programs must have more in flight each; a search carries three registers an element
        share = max(1, min(8, total // high // machine.multiprocessors))
        most = machine.gpu.memory.in_flight_bytes // share // widest
        most = min(most, TILE if self.last is not None else 4 * TILE) // len(self.terms.results)
        if high * wide < most:
            # few programs rather read all in a step or two, some of it in vain, than a little at a time
            every = high * at_most(positions([self.dims[i].extent for i in self.reduced]), ranges)
            slack = 1.0 if every <= 2 * most and total <= high * machine.multiprocessors else 0.1
            wide = max(wide, fitting(reduced, wide, most // high, ranges, slack))
        return high, wide, most

    def _widest(self) -> int:
        """Bytes of the largest element that is read."""
        return max(element_of(v).bytes for v, _ in self.terms.reads((0,) * len(self.shape)))

    # emission

    def emit(self) -> Func:
        """The kernel."""
        kernel = self.kernel
        grid, lanes, at = tiled_programs(
            kernel, [self.dims[i].extent for i in self.kept], dict(enumerate(self.widths[i] for i in self.kept))
        )
        in_whole_or_part(kernel, lanes, lambda: self._program(tuple(at)))
        tile = math.prod(self.widths)
        reduced = positions([self.dims[i].extent for i in self.reduced])
        high = math.prod(self.widths[i] for i in self.kept)
        share = kernel.chosen(SHARES[:1], SHARES[1:]).of
        warps = _warps(tile) if self.kept else warps_for(tile, 16, 32)
        return kernel.finish(grid, 1 + reduced * high // 256, {"warps": min(32, warps * share)})

    def _program(self, at: Index) -> None:
        """Walk the reduced dims, fold, finish: under the lanes of the kept dims, if there are any."""
        kernel, ev = self.kernel, self.kernel.ev
        kept = ev.lanes
        totals = self._reduce(at, kept) if self.last is None else [self._search(at, kept, last=self.last)]
        with ev.lanes_as(*self._lanes(kept, dict.fromkeys(self._in_lanes, Lane("", 1)))) if kept else ev.lanes_as():
            index = self.terms.kept(self._index(at, (0,) * len(self.reduced)))
            for result, total in zip(self.terms.results, totals, strict=True):
                ev.remember(result, index, ev.cast(total, element_of(result)))
            kernel.store_outputs(index, shape_of(self.terms.results[0]))

    @property
    def _in_lanes(self) -> list[int]:
        """The reduced dims that have lanes."""
        return [i for i in self.reduced if self.widths[i] > 1]

    def _lanes(self, kept: Sequence[Lane], reduced: Mapping[int, Lane]) -> list[Lane]:
        """Lanes in the order of memory."""
        lanes = {**dict(zip((i for i in self.kept if self.widths[i] > 1), kept, strict=True)), **reduced}
        innermost = self.across if self.columns else self.along
        return [lanes[i] for i in sorted(lanes, key=lambda i: (i == innermost, i))]

    def _index(self, kept: Index, reduced: Index) -> Index:
        where: list[Dim] = [0] * len(self.dims)
        for i, x in zip((*self.kept, *self.reduced), (*kept, *reduced), strict=True):
            where[i] = x
        if self.tail:
            where[-1:] = apart(self.tail, where[-1], self.kernel.space)
        return merged_index(len(self.shape), self.memory, where)

    def _walk(
        self, at: Index, kept: Sequence[Lane], step: Callable[[Sequence[Value], Dim, Carried], Yielded], start: Carried
    ) -> Carried:
        """`step(elements, position along the innermost reduced dim, carried)` over all chunks of the reduced dims."""

        def inside(place: Index, lanes: Mapping[int, Lane], values: Carried) -> Yielded:
            along = {self.reduced[i]: lane for i, lane in lanes.items()}
            with self.kernel.ev.lanes_as(*self._lanes(kept, along)):
                return step(self.terms.of(self._index(at, place)), place[-1], values)

        extents, widths = [self.dims[i].extent for i in self.reduced], [self.widths[i] for i in self.reduced]
        return over_tiles(self.kernel, extents, widths, inside, start)

    def _shape(self, kept: Sequence[Lane]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The tile's shape, and its reduced axes."""
        lanes = self._lanes(kept, {i: Lane("along", self.widths[i]) for i in self._in_lanes})
        return tuple(lane.extent for lane in lanes), tuple(i for i, lane in enumerate(lanes) if lane.name == "along")

    def _reduce(self, at: Index, kept: Sequence[Lane]) -> list[Value]:
        ev, fold = self.kernel.ev, Fold(self.terms.kind, self.elem, lambda index: self.terms.of(index)[0])
        shape, axes = self._shape(kept)

        def step(got: Sequence[Value], _: Dim, carried: Carried) -> list[Value]:
            return [fold.combined(ev, before, here) for before, here in zip(carried, got, strict=True)]

        tiles = self._walk(at, kept, step, tuple(fold.start(ev, shape) for _ in self.terms.results))
        return [across(ev, fold.kind, tile, axes, fold.elem) for tile in tiles]

    # positions of extremes

    def _search(self, at: Index, kept: Sequence[Lane], *, last: bool) -> Value:
        """Per lane the best element and its position (-1: none yet), then the best of the lanes.

        Where the first is wanted, an element like what a lane begins with is not taken. If that is the best, all
        elements are alike, no lane has a position, and the first is at 0.
        """
        ev = self.kernel.ev
        kind, elem = self.terms.kind, self.elem
        shape, axes = self._shape(kept)
        short = at_most(self.dims[self.along].extent, self.kernel.space.ranges) < 1 << 31
        at_elem = I32 if short else I64

        def step(got: Sequence[Value], position: Dim, carried: Carried) -> list[Value]:
            best, where = carried
            live = ev.live_lanes()
            here = live_or_neutral(ev, kind, elem, got[0])
            better = is_better(ev, kind, here, best, last=last)
            if last:
                better = ev.emit(block.or_, better, ev.emit(block.lt, where, ev.const(0, at_elem, shape)))
            if live is not None:
                better = ev.emit(block.and_, better, live)
            i = ev.shaped(ev.cast(ev.index(position), at_elem), shape)
            return [ev.emit(block.select, better, here, best), ev.emit(block.select, better, i, where)]

        none = ev.const(-1, at_elem, shape)
        best, where = self._walk(at, kept, step, (ev.const(neutral(kind, elem), elem, shape), none))
        top = across(ev, kind, best, axes, elem)
        top = ev.shaped(top, shape)
        equal = ev.emit(block.eq, best, top)
        if elem.is_float:
            isnan = block.ELEMENTWISE["isnan"]
            equal = ev.emit(block.or_, equal, ev.emit(block.and_, ev.emit(isnan, best), ev.emit(isnan, top)))
        equal = ev.emit(block.and_, equal, ev.emit(block.ge, where, ev.const(0, at_elem, shape)))
        if last:
            found = across(ev, "max", ev.emit(block.select, equal, where, none), axes, at_elem)
        else:
            far = ev.const((1 << at_elem.bits - 1) - 1, at_elem, shape)
            found = across(ev, "min", ev.emit(block.select, equal, where, far), axes, at_elem)
        found = ev.cast(found, I64)
        is_certain = last and self.kernel.space.below(0, self.dims[self.along].extent)
        return found if is_certain else self._at_least_first(found)

    def _at_least_first(self, found: Value) -> Value:
        """The position found; 0 where there was none."""
        ev, extent = self.kernel.ev, self.dims[self.along].extent
        shape = getattr(found.type, "shape", None)
        zero, end = ev.const(0, I64, shape), ev.shaped(ev.index(extent), shape)
        inside = ev.emit(block.and_, ev.emit(block.ge, found, zero), ev.emit(block.lt, found, end))
        return ev.emit(block.select, inside, found, zero)


def _warps(elements: int) -> int:
    return warps_for(elements, 16) if elements <= TILE else warps_for(elements, 32, 16)
