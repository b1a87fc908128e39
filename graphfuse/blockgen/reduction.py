"""Emits row reductions: softmax, layer norm, RMS norm and their like as one kernel, one program per row.

The reduced axes are the trailing dims of the region's domain (the *row*). For each reduction in order, one
pass over the row accumulates a tile and folds it to a scalar; a last pass computes the outputs from the
scalars. A reduced value that later passes need again and that is dear to compute is kept in a row of
program-local memory instead of being computed twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from graphfuse.blockgen.access import AccessAnalysis, Accesses, Merged, Walk, merged_index
from graphfuse.blockgen.evaluate import Leaf
from graphfuse.blockgen.index import Index, reshape_index, strides_of
from graphfuse.blockgen.kernel import Kernel, element_of, positions
from graphfuse.blockgen.loops import AtIndex, Carried, Fold, fold_row, for_piece, nest, programs
from graphfuse.blockgen.movement import shape_of
from graphfuse.blockgen.tiling import TRANSCENDENTAL, Piece, cost_per_element, pieces
from graphfuse.dialects import block, graph
from graphfuse.ir.core import Func, Op, Value, attr_ints
from graphfuse.symbolic import product


def emit(kernel: Kernel) -> Func:
    """One program per row."""
    return RowKernel(kernel).emit()


class RowKernel:
    """The state of emitting one row reduction: the domain, where rows begin, and how dims merged."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.reduces = [op for op in kernel.body.ops if op.kind is graph.reduce]
        self.domain = shape_of(self.reduces[0].operands[0])
        self.split = len(self.domain) - len(attr_ints(self.reduces[0], "axes"))
        self.outer, self.row = self._merged()
        self.extents = [d.extent for d in self.row]
        self.whole = [v for v in kernel.outputs if not self.is_row_value(v)]
        self.at: Index = ()

    def _merged(self) -> tuple[list[Merged], list[Merged]]:
        kernel = self.kernel

        def walk(index: Index) -> Accesses:
            analysis = AccessAnalysis(kernel.space, set(kernel.ev.leaves))
            for op in self.reduces:
                analysis.visit(op.operands[0], index)
            for value in kernel.outputs:
                analysis.write(value, self.output_index(value, index))
            return analysis.found

        dims = Walk.over(kernel.space, self.domain, walk).merge(barriers=[self.split])
        return [d for d in dims if d.first < self.split], [d for d in dims if d.first >= self.split]

    def is_row_value(self, value: Value) -> bool:
        """Whether `value` has one element per row rather than one per domain element."""
        return product(shape_of(value)) != product(self.domain)

    def output_index(self, value: Value, index: Index) -> Index:
        """The index into `value` at a domain index: through the reshape between their shapes."""
        if self.is_row_value(value):
            rows = self.domain[: self.split]
            return reshape_index(index[: self.split], rows, shape_of(value), self.kernel.space)
        return reshape_index(index, self.domain, shape_of(value), self.kernel.space)

    def emit(self) -> Func:
        """The whole kernel."""
        kernel = self.kernel
        grid, self.at = programs(kernel, [d.extent for d in self.outer])
        for i, op in enumerate(self.reduces):
            self._reduce(op)
            if i == 0:
                self._read_next_row()
        self.store_all()
        cost = cost_per_element(kernel.machine.core, kernel.work)
        return kernel.finish(grid, positions(self.extents) * max(1, round(cost * 16)) // 16)

    def _read_next_row(self) -> None:
        """From here on, passes prefetch the next row: theirs is in the cache, and memory would idle."""
        row = positions(self.extents)
        most = self.kernel.machine.l2_bytes // 4
        self.kernel.read_ahead(lambda elem: row if isinstance(row, int) and row * elem.bytes <= most else 0)

    def index(self, row: Index) -> Index:
        """The index into the domain at a position of the row."""
        return merged_index(len(self.domain), [*self.outer, *self.row], (*self.at, *row))

    def value(self, value: Value, row: Index) -> Value:
        """A value with an element for each of the domain, at a position of the row."""
        return self.kernel.ev.value(value, self.output_index(value, self.index(row)))

    def remember(self, op: Op, total: Value) -> None:
        """Note the result of a reduction of this row."""
        where = self.output_index(op.result, self.index((0,) * len(self.row)))
        self.kernel.ev.remember(op.result, where, total)

    def fold(self, ops: Sequence[Op], at: Callable[[Value, Index], Value] | None = None) -> None:
        """One walk for reductions that do not need each other's results, which are remembered for the walks after."""
        folds = [Fold.of(op, partial(at or self.value, op.operands[0])) for op in ops]
        for op, total in zip(ops, fold_row(self.kernel.ev, self.tiles, folds), strict=True):
            self.remember(op, total)

    def store_row_values(self) -> None:
        """The outputs that have an element per row."""
        index = self.index((0,) * len(self.row))[: self.split]
        self.kernel.store_outputs(index, self.domain[: self.split], set(self.kernel.outputs).difference(self.whole))

    def store_whole(self, row: Index) -> None:
        """The others, at a position of the row."""
        self.kernel.store_outputs(self.index(row), self.domain, self.whole)

    def store_all(self) -> None:
        """The outputs that have an element per row, and the others in a walk."""
        self.store_row_values()
        if self.whole:
            for _ in self.tiles(lambda row, _: self.store_whole(row), lambda _: ()):
                pass

    # how a processor walks a row

    def _reduce(self, op: Op) -> None:
        """One walk, in which what is dear and read again is kept."""
        (x,) = op.operands
        if not self._is_worth_keeping(x):
            self.fold([op])
            return
        scratch = self._scratch(x)

        def kept(x: Value, row: Index) -> Value:
            got = self.value(x, row)
            self.kernel.ev.store(scratch, self.output_index(x, self.index(row)), got)
            return got

        self.fold([op], kept)
        self.kernel.ev.leaves[x] = scratch

    def _is_worth_keeping(self, value: Value) -> bool:
        """Whether a reduced value is dear and read again by later passes, so that a copy of the row pays."""
        if value in self.kernel.ev.leaves or not isinstance(value.owner, Op):
            return False
        if not any(op.kind.name in TRANSCENDENTAL for op in _producers(value, self.kernel)):
            return False
        return value in self.kernel.outputs or sum(value in op.operands for op in self.kernel.body.ops) > 1

    def _scratch(self, value: Value) -> Leaf:
        """Program-local memory for one row of `value`: only the row's dims advance."""
        shape = shape_of(value)
        row = len(shape) - (len(self.domain) - self.split)
        strides = strides_of(shape)
        count = product(shape[row:])
        pointer = self.kernel.ev.emit(block.alloc, elem=element_of(value), count=count)
        return Leaf(pointer, (*(0 for _ in range(row)), *strides[row:]), shape)

    def tiles(self, body: AtIndex, init: Callable[[int], Carried]) -> Iterator[Carried]:
        """Run `body` over all tiles of the row: loops over its outer dims, lanes along the innermost."""
        kernel = self.kernel
        vector = kernel.machine.lanes(element_of(kernel.outputs[0]))
        *outer, extent = self.extents or [1]
        for piece in pieces(extent, vector * 4, vector):

            def along(at: Index, carried: Carried, piece: Piece = piece) -> Carried:
                return for_piece(kernel, piece, lambda p, inner: body((*at, p) if self.row else (), inner), carried)

            yield nest(kernel.ev, outer, along, init(piece.width))


def _producers(value: Value, kernel: Kernel) -> list[Op]:
    """The ops that compute `value` from memory and from reductions already done."""
    out: list[Op] = []
    stack = [value]
    while stack:
        owner = stack.pop().owner
        if isinstance(owner, Op) and owner.kind is not graph.reduce and owner not in out:
            out.append(owner)
            stack += [v for v in owner.operands if v not in kernel.ev.leaves]
    return out
