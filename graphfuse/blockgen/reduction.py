"""Emits row reductions: softmax, layer norm, RMS norm and their like as one kernel, one program per row.

The reduced axes are the trailing dims of the region's domain (the *row*). For each reduction in order, one
pass over the row accumulates a tile and folds it to a scalar; a last pass computes the outputs from the
scalars. A reduced value that later passes need again and that is dear to compute is kept in a row of
program-local memory instead of being computed twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from graphfuse.blockgen.access import AccessAnalysis, Accesses, Merged, Walk, merged_index
from graphfuse.blockgen.evaluate import Leaf
from graphfuse.blockgen.index import Index, reshape_index, strides_of
from graphfuse.blockgen.kernel import Kernel, element_of, positions
from graphfuse.blockgen.loops import Carried, digits, for_piece, nest, reduce_row
from graphfuse.blockgen.movement import shape_of
from graphfuse.blockgen.tiling import TRANSCENDENTAL, Piece, cost_per_element, pieces
from graphfuse.dialects import block, graph
from graphfuse.ir.core import Func, Op, Value, dims_of
from graphfuse.symbolic import Dim, product


def emit(kernel: Kernel) -> Func:
    """One program per row."""
    reduces = [op for op in kernel.body.ops if op.kind is graph.reduce]
    domain = shape_of(reduces[0].operands[0])
    row_rank = len(dims_of(reduces[0].attrs["axes"]))
    return RowKernel(kernel, domain, len(domain) - row_rank).emit(reduces)


class RowKernel:
    """The state of emitting one row reduction: the domain, where rows begin, and how dims merged."""

    def __init__(self, kernel: Kernel, domain: tuple[Dim, ...], split: int) -> None:
        self.kernel = kernel
        self.domain = domain
        self.split = split
        self.outer, self.row = self._merged()
        self.at: Index = ()

    def _merged(self) -> tuple[list[Merged], list[Merged]]:
        kernel = self.kernel

        def walk(index: Index) -> Accesses:
            analysis = AccessAnalysis(kernel.space, set(kernel.ev.leaves))
            for op in kernel.body.ops:
                if op.kind is graph.reduce:
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

    def emit(self, reduces: Sequence[Op]) -> Func:
        """The whole kernel."""
        kernel, ev = self.kernel, self.kernel.ev
        rows = [d.extent for d in self.outer]
        grid = positions(rows)
        pid = ev.bind("pid", 0, grid - 1, ev.emit(block.program_id))
        self.at = digits(kernel, pid, rows)
        for i, op in enumerate(reduces):
            if i == 1:
                self._read_next_row()
            self._reduce(op, self._kept(op.operands[0], reduces[i + 1 :]))
        if len(reduces) == 1:
            self._read_next_row()
        whole = [v for v in kernel.outputs if not self.is_row_value(v)]
        for value, leaf in zip(kernel.outputs, kernel.stores, strict=True):
            if self.is_row_value(value):
                where = self.output_index(value, self._index(self._zeros()))
                ev.store(leaf, where, ev.value(value, where))
        if whole:
            for _ in self._tiles(lambda index, _: self._store(index, whole), lambda _: ()):
                pass
        ops = [op for op in kernel.body.ops[:-1] if op.kind is not graph.full]
        per_row = positions([d.extent for d in self.row])
        return kernel.finish(grid, per_row * max(1, round(cost_per_element(kernel.machine.core, ops) * 16)) // 16)

    def _read_next_row(self) -> None:
        """From here on, passes prefetch the next row: theirs is in the cache, and memory would idle."""
        row = positions([d.extent for d in self.row])
        most = self.kernel.machine.l2_bytes // 4
        self.kernel.read_ahead(lambda elem: row if isinstance(row, int) and row * elem.bytes <= most else 0)

    def _zeros(self) -> Index:
        return (0,) * len(self.row)

    def _index(self, row: Index) -> Index:
        dims = [*self.outer, *self.row]
        return merged_index(len(self.domain), dims, (*self.at, *row))

    def _store(self, index: Index, values: Sequence[Value]) -> list[Value]:
        ev = self.kernel.ev
        for value, leaf in zip(self.kernel.outputs, self.kernel.stores, strict=True):
            if value in values:
                where = self.output_index(value, index)
                ev.store(leaf, where, ev.value(value, where))
        return []

    def _kept(self, value: Value, later: Sequence[Op]) -> bool:
        """Whether a reduced value is dear and read again by later passes, so that a copy of the row pays."""
        if value in self.kernel.ev.leaves or not isinstance(value.owner, Op):
            return False
        if not any(op.kind.name in TRANSCENDENTAL for op in _producers(value, self.kernel)):
            return False
        uses = [op for op in self.kernel.body.ops if value in op.operands]
        return len(uses) > 1 or value in self.kernel.outputs or bool(later and uses[1:])

    def _reduce(self, op: Op, keep: bool) -> None:
        """One pass: accumulate tiles, fold to a scalar, and remember it for the passes after."""
        kernel, ev = self.kernel, self.kernel.ev
        (x,) = op.operands
        scratch = self._scratch(x) if keep else None

        def at(index: Index) -> Value:
            where = reshape_index(index, self.domain, shape_of(x), kernel.space)
            got = ev.value(x, where)
            if scratch is not None:
                ev.store(scratch, where, got)
            return got

        total = reduce_row(ev, self._tiles, str(op.attrs["kind"]), element_of(x), at)
        if scratch is not None:
            ev.leaves[x] = scratch
        where = self.output_index(op.result, self._index(self._zeros()))
        ev.remember(op.result, where, total)

    def _scratch(self, value: Value) -> Leaf:
        """Program-local memory for one row of `value`: only the row's dims advance."""
        shape = shape_of(value)
        row = len(shape) - (len(self.domain) - self.split)
        strides = strides_of(shape)
        count = product(shape[row:])
        pointer = self.kernel.ev.emit(block.alloc, elem=element_of(value), count=count)
        return Leaf(pointer, (*(0 for _ in range(row)), *strides[row:]), shape)

    def _tiles(
        self, body: Callable[[Index, Carried], Sequence[Value]], init: Callable[[Piece], Carried]
    ) -> Iterator[Carried]:
        """Run `body` over all tiles of the row: loops over its outer dims, lanes along the innermost."""
        kernel = self.kernel
        vector = kernel.machine.lanes(element_of(kernel.outputs[0]))
        extent = self.row[-1].extent if self.row else 1
        outer = [d.extent for d in self.row[:-1]]
        for piece in pieces(extent, vector * 4, vector):

            def along(at: Index, carried: Carried, piece: Piece = piece) -> Carried:
                def tile(position: Dim, inner: Carried) -> Sequence[Value]:
                    return body(self._index((*at, position) if self.row else ()), inner)

                return for_piece(kernel, piece, tile, carried)

            yield nest(kernel.ev, outer, along, init(piece))


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
