"""Emits row reductions: softmax, layer norm, RMS norm and their like as one kernel, one program per row.

The reduced axes are some dims of the region's domain (the *row*). For reductions that do not need each other's results,
in order, one pass over the row accumulates a tile for each and folds it to a scalar; outputs are computed in the first
pass for which all that they need is known, the last ones in a pass of their own. A reduced value that later passes need
again and that is dear to compute is kept in a row of program-local memory instead of being computed twice.

Where memory is contiguous along what is kept, a program has a chunk of the innermost kept dim, and lanes are rows side
by side: nothing is folded across lanes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial

from graphfuse.blockgen import pointwise
from graphfuse.blockgen.access import AccessAnalysis, Accesses, Merged, Walk, merged_index
from graphfuse.blockgen.evaluate import Leaf
from graphfuse.blockgen.index import Index, reshape_index, strides_of, unravel
from graphfuse.blockgen.kernel import Kernel, element_of, positions
from graphfuse.blockgen.loops import AtIndex, Carried, Fold, fold_row, for_piece, nest, programs, side_by_side
from graphfuse.blockgen.movement import shape_of
from graphfuse.blockgen.tiling import TRANSCENDENTAL, Piece, cost_per_element, pieces, runs_width
from graphfuse.dialects import block, graph
from graphfuse.ir.core import Func, Op, Value, attr_ints, tile_of
from graphfuse.symbolic import Dim, bounds, floordiv, product, static, substitute

MOST_VECTORS = 4
"""Of a tile of a row."""
LEAST_PROGRAMS = 64
"""Rows go together where so many programs are left to deal out,"""
SHORT_ROW = 1024
"""and where each has so many bytes: 768 halves gain from it (`python benchmarks/cpu_memory.py --fit`)."""
AtRow = Callable[[Op, Index], Value]
"""Emits what an op reduces at a position of the row."""


def emit(kernel: Kernel) -> Func:
    """One program per row, or for rows side by side; a sum alone over anything else is a loop for each result."""
    rows = RowKernel(kernel)
    is_across = is_sum_across(kernel) and (not rows.row or rows.row[-1].first < rows.outer[-1].first)
    return pointwise.emit(kernel) if is_across else rows.emit()


def is_sum_across(kernel: Kernel) -> bool:
    """Whether it is one reduction, not of whole rows of memory, and what follows from its results alone."""
    first, *more = (op for op in kernel.body.ops if op.kind is graph.reduce)
    domain, axes = shape_of(first.operands[0]), attr_ints(first, "axes")
    kept = [i for i, d in enumerate(domain) if i not in axes and d != 1]
    across = any(i < kept[-1] and domain[i] != 1 for i in axes) if kept else False
    return across and not more and all(product(shape_of(v)) != product(domain) for v in kernel.outputs)


class RowKernel:
    """The state of emitting one row reduction: the domain, which of its dims are rows, and how dims merged."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.reduces = [op for op in kernel.body.ops if op.kind is graph.reduce]
        self.domain = shape_of(self.reduces[0].operands[0])
        self.axes = frozenset(attr_ints(self.reduces[0], "axes"))
        self.walk = self._walked()
        borders = [i for i in range(1, len(self.domain)) if (i in self.axes) != (i - 1 in self.axes)]
        dims = self.walk.merge(borders)
        self.outer = [d for d in dims if d.first not in self.axes]
        self.row = [d for d in dims if d.first in self.axes]
        self.extents = [d.extent for d in self.row]
        self.columns = bool(self.outer) and all(d.first < self.outer[-1].first for d in self.row)
        """Whether memory is contiguous along what is kept."""
        self.run: Merged | None = None
        """A short dim behind the last one that is kept, whose elements are lanes, too."""
        self.whole = [v for v in kernel.outputs if not self.is_row_value(v)]
        self.at: Index = ()

    def _walked(self) -> Walk:
        kernel = self.kernel

        def walk(index: Index) -> Accesses:
            analysis = AccessAnalysis(kernel.space, set(kernel.ev.leaves))
            for op in self.reduces:
                analysis.visit(op.operands[0], index)
            for value in kernel.outputs:
                analysis.write(value, self.output_index(value, index))
            return analysis.found

        return Walk.over(kernel.space, self.domain, walk)

    def is_row_value(self, value: Value) -> bool:
        """Whether `value` has one element per row rather than one per domain element."""
        return product(shape_of(value)) != product(self.domain)

    def rows(self, dims: Sequence[Dim]) -> tuple[Dim, ...]:
        """Those of the domain's dims, or of an index into it, that are kept."""
        return tuple(d for i, d in enumerate(dims) if i not in self.axes)

    def output_index(self, value: Value, index: Index) -> Index:
        """The index into `value` at a domain index: through the reshape between their shapes, or another order."""
        if self.is_row_value(value):
            return reshape_index(self.rows(index), self.rows(self.domain), shape_of(value), self.kernel.space)
        if value in self.kernel.outputs:
            return self._turned(value, index)
        return reshape_index(index, self.domain, shape_of(value), self.kernel.space)

    def _turned(self, output: Value, index: Index) -> Index:
        """The index into an output with an element for each of the domain."""
        if output.op is None or output.op.kind is not graph.permute:
            return reshape_index(index, self.domain, shape_of(output), self.kernel.space)
        inner = self._turned(output.op.operands[0], index)
        return tuple(inner[p] for p in attr_ints(output.op, "perm"))

    def emit(self) -> Func:
        """The whole kernel."""
        kernel = self.kernel
        cost = max(1, round(cost_per_element(kernel.machine.core, kernel.work) * 16))
        vector = kernel.machine.lanes(element_of(kernel.outputs[0]))
        if unit := self._take_run(vector):
            return self._emit_columns(cost, unit, unit << max(0, (4 * vector // unit).bit_length() - 1))
        if self.columns:
            return self._emit_columns(cost, vector, 4 * vector)
        together = self._together()
        extents = [d.extent for d in self.outer]
        grid, self.at = programs(kernel, [*extents[:-1], floordiv(extents[-1], together)] if together > 1 else extents)
        if together > 1:
            self._walk_together([(*self.at[:-1], self.at[-1] * together + i) for i in range(together)])
        else:
            self._passes()
        return kernel.finish(grid, positions(self.extents) * together * cost // 16)

    def _are_read_once(self) -> bool:
        """Whether one walk over each of several rows is all."""
        is_one = len(levels(self.reduces)) == len(self.row) == 1 and bool(self.outer)
        return is_one and not self.whole and not self.columns

    def _together(self) -> int:
        """How many rows are walked at once: memory gives more of several at a time than of one."""
        machine = self.kernel.machine
        if not self._are_read_once() or any(self._is_dear(op.operands[0]) for op in self.reduces):
            return 1
        row, rows = self.row[0].extent, self.outer[-1].extent
        if not isinstance(row, int) or not isinstance(rows, int):
            return 1
        nbytes = row * min(element_of(op.operands[0]).bytes for op in self.reduces)
        most = machine.registers // (2 * MOST_VECTORS * len(self.reduces))
        fitting = (n for n in (4, 2) if n <= most and rows % n == 0 and rows >= n * LEAST_PROGRAMS)
        return next(fitting, 1) if nbytes >= SHORT_ROW else 1

    def _walk_together(self, rows: Sequence[Index]) -> None:
        """One walk over several rows, and what follows of each."""
        self._read_on(len(rows))
        each = [(at, op) for at in rows for op in self.reduces]

        def term(at: Index, op: Op, row: Index) -> Value:
            self.at = at
            return self.term(op, row)

        folds = [Fold.of(op, partial(term, at, op)) for at, op in each]
        for (at, op), total in zip(each, fold_row(self.kernel.ev, self.tiles, folds, self.folded), strict=True):
            self.at = at
            self.remember(op, total)
        for self.at in rows:
            self.store_row_values()

    def _read_on(self, together: int = 1) -> None:
        """Prefetch in the only walk."""
        across, along = (self.walk.names[d.last] for d in (self.outer[-1], self.row[0]))
        self.kernel.read_rows_ahead(self.walk.found, across, along, self.row[0].extent, together)

    def _take_run(self, vector: int) -> int:
        """Make lanes of a short dim behind the last one that is kept: how many are a multiple of whole runs, else 0."""
        found = self.walk.last_run(sorted((*self.outer, *self.row), key=lambda d: d.first))
        if found is None or found[0] not in self.outer:
            return 0
        run = found[1]
        is_alone = self.row == [run]  # and folded at each step
        unit = runs_width(static(run.extent), vector, vector if is_alone else 4 * vector)
        if unit:
            self.run, self.columns = run, True
            self.outer = [d for d in self.outer if d != run]
            self.row = [d for d in self.row if d != run]
            self.extents = [d.extent for d in self.row]
        return unit

    def _emit_columns(self, cost: int, vector: int, width: int) -> Func:
        """Rows side by side: as many to a program as one row after the other fits its cache."""
        kernel, ev = self.kernel, self.kernel.ev
        *outer, across = (d.extent for d in self.outer)
        across = across * (1 if self.run is None else self.run.extent)
        row = bounds(positions(self.extents), kernel.space.ranges)[1] * self._row_bytes()
        count = max(1, min(kernel.machine.core.chunk, kernel.machine.l2_bytes // 2 // max(1, row)) // width) * width

        def some(at: Index, place: Dim) -> None:
            self.at, leaves = (*at, place), dict(ev.leaves)
            self._passes()
            ev.leaves = leaves  # what was kept is of these rows

        grid = side_by_side(kernel, outer, across, count, width, some, vector)
        return kernel.finish(grid, positions(self.extents) * count * cost // 16)

    def _row_bytes(self) -> int:
        """Bytes of an element of a row, in all that is read."""
        return sum(element_of(v).bytes for v in self.kernel.body.params.values)

    def _passes(self) -> None:
        """One walk for each level of reductions; what waits for none that are left is stored on the way."""
        found, left = levels(self.reduces), self.whole
        if self._are_read_once():
            self._read_on()
        for i, ops in enumerate(found):
            unknown = {op.result for level in found[i:] for op in level}
            soon = [v for v in left if made_for([v]).isdisjoint(unknown)]
            left = [v for v in left if v not in soon]
            self._reduce(ops, soon, [*left, *(op.operands[0] for level in found[i + 1 :] for op in level)])
            if i == 0 and not self.columns:
                self._read_next_row()
        self.store_all(left)

    def _read_next_row(self) -> None:
        """From here on, passes prefetch the next row: theirs is in the cache, and memory would idle."""
        row = positions(self.extents)
        most = self.kernel.machine.l2_bytes // 4
        self.kernel.read_ahead(lambda elem: row if isinstance(row, int) and row * elem.bytes <= most else 0)

    def index(self, row: Index) -> Index:
        """The index into the domain at a position of the row."""
        if self.run is None:
            return merged_index(len(self.domain), [*self.outer, *self.row], (*self.at, *row))
        *at, place = self.at
        digits = unravel(place, [self.outer[-1].extent, self.run.extent], self.kernel.space)
        return merged_index(len(self.domain), [*self.outer, self.run, *self.row], (*at, *digits, *row))

    def value(self, value: Value, row: Index) -> Value:
        """A value with an element for each of the domain, at a position of the row."""
        return self.kernel.ev.value(value, self.output_index(value, self.index(row)))

    def remember(self, op: Op, total: Value) -> None:
        """Note the result of a reduction of this row."""
        where = self.output_index(op.result, self.index((0,) * len(self.row)))
        self.kernel.ev.remember(op.result, where, total)

    @property
    def folded(self) -> Sequence[int]:
        """The axes of a tile that are along the row."""
        return () if self.columns else (0,)

    def fold(self, ops: Sequence[Op], at: AtRow | None = None) -> None:
        """One walk for reductions that do not need each other's results, which are remembered for the walks after."""
        folds = [Fold.of(op, partial(at or self.term, op)) for op in ops]
        for op, total in zip(ops, fold_row(self.kernel.ev, self.tiles, folds, self.folded), strict=True):
            self.remember(op, total)

    def term(self, op: Op, row: Index) -> Value:
        """What an op reduces, at a position of the row."""
        return self.value(op.operands[0], row)

    def store_row_values(self) -> None:
        """The outputs that have an element per row."""
        index = self.rows(self.index((0,) * len(self.row)))
        self.kernel.store_outputs(index, self.rows(self.domain), set(self.kernel.outputs).difference(self.whole))

    def store_whole(self, row: Index, which: Sequence[Value]) -> None:
        """Some of the others at a position of the row."""
        for value, leaf in zip(self.kernel.outputs, self.kernel.stores, strict=True):
            if value in which:
                where = self.output_index(value, self.index(row))
                self.kernel.ev.store(leaf, where, self.kernel.ev.value(value, where))

    def store_all(self, which: Sequence[Value]) -> None:
        """The outputs that have an element per row, and some of the others in a walk."""
        self.store_row_values()
        if which:
            for _ in self.tiles(lambda row, _: self.store_whole(row, which), lambda _: ()):
                pass

    # how a processor walks a row

    def _reduce(self, ops: Sequence[Op], soon: Sequence[Value], later: Sequence[Value]) -> None:
        """One walk, in which some outputs are stored, and what is dear and read for `later` values is kept."""
        ev = self.kernel.ev
        needed, operands = made_for(later, self._known()), dict.fromkeys(op.operands[0] for op in ops)
        scratch = {x: self._scratch(x) for x in operands if x in needed and self._is_dear(x)}

        def at(op: Op, row: Index) -> Value:
            if op is ops[0]:
                for x, leaf in scratch.items():
                    ev.store(leaf, self.output_index(x, self.index(row)), self.value(x, row))
                self.store_whole(row, soon)
            return self.term(op, row)

        self._total(ops, at)
        ev.leaves |= scratch

    def _total(self, ops: Sequence[Op], at: AtRow) -> None:
        if not self.columns:
            self.fold(ops, at)
            return
        ev, folds = self.kernel.ev, [Fold.of(op, partial(at, op)) for op in ops]
        totals = ev.reductions([(f.kind, f.wide, f.at) for f in folds], self.extents, self.at)
        for op, fold, total in zip(ops, folds, totals, strict=True):
            self.remember(op, ev.cast(self._of_runs(fold.kind, total), fold.elem))

    def _of_runs(self, kind: str, tile: Value) -> Value:
        """A tile of which each run is reduced, if it is along the row: to all elements of the run."""
        if self.run is None or self.run.first not in self.axes:
            return tile
        ev, (size,), times = self.kernel.ev, tile_of(tile).shape, static(self.run.extent)
        runs = ev.emit(block.reshape, tile, shape=(size // times, times))
        return ev.repeated(ev.emit(block.reduce, runs, axis=1, kind=kind), times)

    def _known(self) -> set[Value]:
        """What lies in memory, and what reductions make."""
        return {*self.kernel.ev.leaves, *(op.result for op in self.reduces)}

    def _is_dear(self, value: Value) -> bool:
        """Whether functions make a value, so that a copy of the row pays."""
        known = self._known()
        made = made_for([value], known).difference(known)
        return any(v.op is not None and v.op.kind.name in TRANSCENDENTAL for v in made)

    def _scratch(self, value: Value) -> Leaf:
        """Program-local memory for one row of `value`, or for rows side by side: only their dims advance."""
        ev, shape, run = self.kernel.ev, shape_of(value), self.run
        inside = [i in self.axes and (run is None or i < run.first) for i in range(len(self.domain))]
        width = math.prod(ev.full_shape()) if self.columns else 1
        sizes = [d if along else 1 for d, along in zip(self.domain, inside, strict=True)]
        strides = [s * width if along else 0 for s, along in zip(strides_of(sizes), inside, strict=True)]
        offset: Dim = 0
        if self.columns:
            strides[self.outer[-1].last] = 1 if run is None else run.extent
            if run is not None:
                strides[run.last] = 1
            offset = -substitute(self.at[-1], {lane.name: 0 for lane in ev.lanes})
        pointer = ev.emit(block.alloc, elem=element_of(value), count=product(sizes) * width)
        return Leaf(pointer, tuple(strides), shape, offset=offset)

    def tiles(self, body: AtIndex, init: Callable[[tuple[int, ...]], Carried]) -> Iterator[Carried]:
        """Run `body` over all tiles of the row: loops over its dims, lanes along the innermost if they are not rows."""
        kernel = self.kernel
        if self.columns:
            yield nest(kernel.ev, self.extents, body, init(kernel.ev.full_shape()))
            return
        vector = kernel.machine.lanes(element_of(kernel.outputs[0]))
        *outer, extent = self.extents or [1]
        for piece in pieces(extent, vector * MOST_VECTORS, vector):

            def along(at: Index, carried: Carried, piece: Piece = piece) -> Carried:
                return for_piece(kernel, piece, lambda p, inner: body((*at, p) if self.row else (), inner), carried)

            yield nest(kernel.ev, outer, along, init((piece.width,)))


def levels(reduces: Sequence[Op]) -> list[list[Op]]:
    """Reductions in groups that do not need each other's results, in an order in which they can run."""
    depth: dict[Op, int] = {}
    known: dict[Value, int] = {}

    def of(value: Value) -> int:
        if value not in known:
            op = value.op
            below = max((of(v) for v in op.operands), default=0) if op is not None else 0
            known[value] = below + (op is not None and op in reduces)
        return known[value]

    for op in reduces:
        depth[op] = of(op.result)
    return [[op for op in reduces if depth[op] == d] for d in sorted(set(depth.values()))]


def made_for(values: Iterable[Value], leaves: Collection[Value] = ()) -> set[Value]:
    """These, and what they are made of: of leaves nothing."""
    found, stack = set[Value](), list(values)
    while stack:
        if (v := stack.pop()) not in found:
            found.add(v)
            stack += v.op.operands if v.op is not None and v not in leaves else ()
    return found
