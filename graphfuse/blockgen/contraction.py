"""Emits contractions: matrix products and channels-last convolutions with a fused epilogue.

Both are one shape of work: out[o...] = sum over k... of lhs[...] * rhs[...], every index affine. Adjacent dims
that advance as one in all memory merge (so `kw, c` of a convolution is one K run, and all rows of an unpadded
1x1 convolution are one M), then

    (rows that lie far apart along K, as those of a transposed matrix, are packed to program-local memory first)
    for panel of columns:  (packed likewise when its lanes are not contiguous, or lie far apart along K)
      for tile of rows:
        acc = 0; for k: acc += lhs[rows, k] @ rhs[k, panel]       a register tile: rows x (vectors x lanes)
        epilogue on acc, store

Rows that do not fill a tile are covered by moving the last tile back over rows already done; both write the same
values. So are columns that do not fill a panel, where panels are packed. When both operands vary along the lanes
(depthwise) the product is elementwise instead of a dot.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from graphfuse.blockgen import packed_product
from graphfuse.blockgen.access import Accesses, Merged, Walk, as_index, dim_names, merged_index
from graphfuse.blockgen.blocks import PACKED_PANELS, PACKED_ROWS, places_of, products_per_ns, program_of
from graphfuse.blockgen.evaluate import Lane, Leaf, accumulator, lane_over
from graphfuse.blockgen.index import Index, coefficient, strides_of
from graphfuse.blockgen.kernel import Kernel, element_of, is_view, positions
from graphfuse.blockgen.loops import Carried, digits, for_row_tiles, nest, programs
from graphfuse.blockgen.moved_bytes import RowSums, flips_signs, move_bytes, move_words, other_kind
from graphfuse.blockgen.movement import shape_of
from graphfuse.blockgen.products import (
    FOUR,
    Depth,
    Product,
    accumulate,
    column_lane,
    in_fours,
    look_up,
    pack_panel,
    product_of,
    store_results,
    sum_in_steps,
)
from graphfuse.blockgen.slabs import Tiles, emit_by_slabs
from graphfuse.blockgen.tiling import (
    ALIAS_BYTES,
    MatmulTile,
    Slabs,
    long_step,
    matmul_tiles,
    panel_vectors,
    slabs_of,
    word_tiles,
)
from graphfuse.blockgen.words import (
    EPILOGUE,
    PAIR,
    SIDE,
    Words,
    are_words,
    choose_words,
    multiply_words,
    pack_words,
    words_of,
)
from graphfuse.dialects import block, graph
from graphfuse.ir.core import Func, Value, dims_of, tile_of
from graphfuse.ir.types import BF16, I32, Scalar
from graphfuse.symbolic import (
    Dim,
    ceildiv,
    exact_div,
    floordiv,
    maximum,
    minimum,
    mod,
    product,
    static,
    substitute,
    sym,
)


def emit(kernel: Kernel) -> Func:
    """The contraction of the region with its epilogue."""
    (op,) = (op for op in kernel.body.ops if op.kind in (graph.contract, graph.contract_packed, graph.conv))
    if op.kind is graph.contract_packed:
        return packed_product.emit(kernel, op)
    work = product_of(op)
    fours = in_fours(work)
    return ContractionKernel(kernel, fours or work, in_fours=fours is not None).emit()


Read = dict[tuple[Value, Index], Value]
"""What was read, by value and index."""

UNROLLED_WINDOW = 7
"""Windows of dims up to this extent are unrolled in elementwise (depthwise) products."""


class ContractionKernel:
    """The state of emitting one contraction: merged dims, the roles they play, the register tile."""

    most_unrolled = UNROLLED_WINDOW**3
    """Taps of a window up to which none is in a loop."""
    words: Words | None = None
    """How halves are multiplied as words, if they are."""
    flips_signs = False
    """Whether panels have bytes of the other kind."""
    row_sums: RowSums | None = None
    """What is taken off the sums of bytes of one kind, if panels have them as the other kind."""
    at_once: Sequence[int] = ()
    """Steps of a long sum of elementwise products that are in one turn of its loop, best first."""

    def __init__(
        self, kernel: Kernel, work: Product, beside: Sequence[Product] = (), *, in_fours: bool = False
    ) -> None:
        self.kernel = kernel
        self.domain = work.domain
        self.work = work
        self.in_fours = in_fours
        """Whether four steps of k are one step of the innermost loop, and one lane of rhs."""
        self.beside: tuple[Product, ...] = tuple(beside)
        """Products with the same indices and one operand in common, made in the same loop."""
        self._analyse()

    @property
    def works(self) -> tuple[Product, ...]:
        """All products of the kernel."""
        return (self.work, *self.beside)

    def _analyse(self) -> None:
        kernel, work = self.kernel, self.work
        names = dim_names(kernel.space, self.domain)
        k_names = dim_names(kernel.space, work.depth, "k")
        out, depth = as_index(names), as_index(k_names)
        # each by itself: both may be the same value
        lhs, rhs = kernel.reads(work.lhs, work.lhs_at(out, depth)), kernel.reads(work.rhs, work.rhs_at(out, depth))
        rank, index = len(names), (*out, *depth)
        walk = Walk(kernel.space, (*self.domain, *work.depth), (*names, *k_names), self._walk, self._walk(index))
        dims = walk.merge(barriers=[rank])
        self.dims = [d for d in dims if d.first < rank]
        self.k_dims = [Merged(d.first - rank, d.last - rank, d.extent) for d in dims if d.first >= rank]
        self.in_lhs = [lhs.uses(names[d.last]) for d in self.dims]
        self.in_rhs = [rhs.uses(names[d.last]) for d in self.dims]
        if self.dims and self.in_lhs[-1] and not self.in_rhs[-1]:
            self.work, lhs, rhs = work.swapped(), rhs, lhs
            self.beside = tuple(b.swapped() for b in self.beside)
            self.in_lhs, self.in_rhs = self.in_rhs, self.in_lhs
        self.elementwise = bool(self.dims) and self.in_lhs[-1] and self.in_rhs[-1]
        self.names, self.k_names = names, k_names
        self.rhs_reads = rhs
        self._tile(lhs, names)

    def _walk(self, index: Index) -> Accesses:
        """What the kernel reads and writes at an index of the domain and, behind it, of the depth."""
        kernel, rank = self.kernel, len(self.domain)
        out, depth = index[:rank], index[rank:]
        analysis = kernel.accesses(out, self.domain, [w.result for w in self.works])
        for w in self.works:
            for value, at in ((w.lhs, w.lhs_at), (w.rhs, w.rhs_at)):
                analysis.visit(value, at(out, depth))
        return analysis.found

    def _tile(self, lhs: Accesses, names: Sequence[str]) -> None:
        kernel = self.kernel
        elem = accumulator(element_of(self.work.result))
        rows = [i for i in range(len(self.dims) - 1) if self.in_lhs[i] and not self.in_rhs[i]]
        if self.elementwise:
            rows = [i for i in range(len(self.dims) - 1) if self.in_lhs[i]]
        self.row_dim = rows[-1] if rows else None
        row_extent: Dim = self.dims[self.row_dim].extent if self.row_dim is not None else 1
        columns: Dim = self.dims[-1].extent if self.dims else 1
        vectors = panel_vectors(kernel.machine, elem, row_extent, columns)
        lanes = kernel.machine.lanes(elem)
        affine = next((v for v in (vectors, vectors // 2, vectors // 4) if v and self.affine(v * lanes)), None)
        self.contiguous = affine is not None
        vectors = affine or min(vectors, 3)
        self.columns, self.rows = columns, row_extent
        self.width = vectors * lanes
        self.packs_rows = self.rows_are_dense = self.streams_panels = False
        self.slabs: Slabs | None = None
        self.widens = False
        if self.elementwise:
            rows = max(1, min(4, row_extent)) if isinstance(row_extent, int) else 4
            self.tile = MatmulTile(rows, vectors, 1)
        else:
            row = names[self.dims[self.row_dim].last] if self.row_dim is not None else ""
            strides = [coefficient(o, row) for o in lhs.offsets]
            stride = next((s for s in strides if s), 0)
            if self.in_fours:
                stride = stride // FOUR  # of lanes, which is what the tile is made of
            narrow = self._narrow(lhs)
            self.words = choose_words(self, lhs) if narrow else None
            if self.words is not None:
                self.streams_panels = not self.words.along_k and self._is_large(self.work.rhs)
                self.contiguous = False
                self.slabs, self.packs_rows = self.words.slabs, self.words.packs_rows
                tiles = word_tiles(row_extent, -(-static(columns) // lanes))
                self.width = tiles[0].vectors * lanes
            else:
                tiles = self._tiles(lhs, row, stride, vectors, narrow=narrow)
            self.tile = kernel.chosen(tiles)
        outer = [i for i in range(len(self.dims) - 1) if i != self.row_dim]
        self.packs = not (self.contiguous or self.elementwise)
        # rhs does not depend on these
        self.shared = [i for i in outer if self.packs and self.slabs is None and not self.in_rhs[i]]
        # what has panels of its own first
        self.outer = sorted((i for i in outer if i not in self.shared), key=lambda i: not self.in_rhs[i])
        self.owners = sum(self.in_rhs[i] for i in self.outer)
        self.flips_signs = flips_signs(self, lhs)

    def _tiles(self, lhs: Accesses, row: str, stride: Dim, vectors: int, *, narrow: bool) -> list[MatmulTile]:
        """Those of vectors; and which operands are packed, and in slabs."""
        kernel, elements = self.kernel, {element_of(self.work.lhs), element_of(self.work.rhs)}
        if self.has_slabs():
            self.widens = narrow and not (elements == {BF16} and kernel.machine.multiplies_pairs)
            self.slabs = slabs_of(self.extents, SLAB_BYTES // self.panel_elem.bytes)
            if self.in_fours and self.slabs is not None:
                self.slabs = self.slabs.whole_words(FOUR)
            self.packs_rows = self._worth_packing_rows(lhs, row)
        far = isinstance(self.rows, int) and self.rows >= SLAB_ROWS and self._is_far(self.rhs_reads)
        if far or self.widens:
            self.streams_panels = self.contiguous and not self.in_fours and self._is_large(self.work.rhs)
            self.contiguous = False
        if self.slabs is None and self.has_slabs() and (self.packs_rows or not self.contiguous):
            self.slabs = Slabs.whole(self.extents)
        stride = 0 if self.packs_rows else stride
        depth = self.slabs.innermost if self.slabs else (self.extents or (1,))[-1]
        elem = accumulator(element_of(self.work.result))
        tiles = matmul_tiles(kernel.machine, elem, self.rows, vectors, depth, kernel.space.ranges, stride)
        if narrow and not self.packs_rows:
            return [replace(t, k_step=long_step(depth)) for t in tiles]
        return [replace(t, k_step=FOUR) for t in tiles] if self.in_fours else tiles

    def _narrow(self, lhs: Accesses) -> bool:
        """Whether both factors are views of floats that are narrower than the sums."""
        works = (self.work.lhs, lhs), (self.work.rhs, self.rhs_reads)
        for value, reads in works:
            elem = element_of(value)
            if not elem.is_float or elem.bytes >= accumulator(elem).bytes or not is_view(value, self.kernel):
                return False
            if not self.k_dims or self._step(reads, self.k_dims[-1]) == 0:
                return False
        return True

    @property
    def extents(self) -> tuple[Dim, ...]:
        """Of the loops over k."""
        return tuple(d.extent for d in self.k_dims)

    @property
    def panel_elem(self) -> Scalar:
        """Of what is packed: floats as they are multiplied, so that none is widened more than once."""
        elem = element_of(self.work.rhs)
        if self.flips_signs:
            return other_kind(elem)
        return I32 if self.words is not None else accumulator(elem) if self.widens else elem

    def has_slabs(self, *, packs: bool = False) -> bool:
        """Whether there are rows enough that a panel should stay in the first-level cache, and all sizes are known.

        One that `packs` it anyway, or where it is packed, serves all places that have it in common: it takes more rows.
        """
        image, sizes = self.work.lhs, (self.rows, self.columns, *self.extents)
        if image.op is not None and graph.pads_positions(image.op):
            return False
        known = [d for d in sizes if isinstance(d, int) and d > 0]
        others = (self.in_rhs[i] for i in range(len(self.dims) - 1) if i != self.row_dim)
        least = SLAB_ROWS if (self.contiguous and not packs) or all(others) else PACKED_ROWS
        return len(sizes) == len(known) > 2 and known[0] >= least

    def _is_far(self, reads: Accesses) -> bool:
        """Whether what is read at steps of k that are multiplied together lies on more pages than are known at once."""
        total = self.slabs.total if self.slabs else product(self.extents)
        nbytes = element_of(self.work.rhs).bytes
        steps = [coefficient(o, self.k_names[self.k_dims[-1].last]) for o in reads.offsets] if self.k_dims else []
        return bool(steps) and all(
            isinstance(s, int) and isinstance(total, int) and s * nbytes * total >= PAGES * PAGE_BYTES for s in steps
        )

    def _is_large(self, value: Value) -> bool:
        """Whether it comes from beyond the second-level cache each time that it is read."""
        nbytes = product(shape_of(value)) * element_of(value).bytes
        return isinstance(nbytes, int) and nbytes >= FAR_SIZE * self.kernel.machine.l2_bytes

    def _worth_packing_rows(self, lhs: Accesses, row: str) -> bool:
        """Whether rows of lhs are read for many panels, and lie far apart along k, or in few sets of the cache."""
        if self.in_fours or len(lhs.offsets) != 1 or not is_view(self.work.lhs, self.kernel):
            return False
        assert isinstance(self.columns, int)
        if self.columns <= (PACKED_PANELS - 1) * self.width:
            return False
        along, across = (coefficient(lhs.offsets[0], n) for n in (row, self.k_names[self.k_dims[-1].last]))
        self.rows_are_dense = along == 1
        if self.widens:
            return 1 in (along, across)
        if self.rows_are_dense:
            return self._is_far(lhs)
        aliased = isinstance(along, int) and along * element_of(self.work.lhs).bytes % ALIAS_BYTES == 0
        return across == 1 and aliased and self.slabs is not None

    def affine(self, width: int, *, anywhere: bool = False) -> bool:
        """Whether rhs is contiguous along `width` lanes of a panel, or of `anywhere` a panel might begin."""
        space = self.kernel.space
        if not self.dims:
            return False
        extent = self.dims[-1].extent
        panel = space.fresh("q", 0, extent - width if anywhere else ceildiv(extent, width) - 1)
        lane = space.fresh("l", 0, width - 1)
        at = [space.fresh("o", 0, d.extent - 1) for d in self.dims[:-1]]
        depth = [space.fresh("k", 0, d.extent - 1) for d in self.k_dims]
        index = merged_index(len(self.domain), self.dims, (*at, panel * (1 if anywhere else width) + lane))
        k = merged_index(len(self.work.depth), self.k_dims, depth)
        offsets = self.kernel.reads(self.work.rhs, self.work.rhs_at(index, k)).offsets
        if self.work.rhs not in self.kernel.ev.leaves and not is_view(self.work.rhs, self.kernel):
            return False
        step = FOUR if self.in_fours else 1
        return bool(offsets) and all(coefficient(o, str(lane)) == step for o in offsets)

    # programs

    def emit(self) -> Func:
        """Grid, panels, row tiles."""
        if not self.dims:
            return self._single()
        kernel, ev = self.kernel, self.kernel.ev
        self.word_work = self.work
        if self.words is not None:
            lhs_even, rhs_even = self.words.is_even
            if self.words.rows_along_k and lhs_even:
                self.word_work = words_of(kernel, self.word_work.swapped()).swapped()
            if self.words.along_k and rhs_even:
                self.word_work = words_of(kernel, self.word_work)
        elif self.in_fours and self.packs and self._are_fours():
            self.word_work = words_of(kernel, self.work, FOUR)
        panels = ceildiv(self.columns, self.width)
        depth = product([d.extent for d in self.k_dims])
        per_program, row_block = program_of(self, panels, depth)
        row_blocks = ceildiv(self.rows, row_block) if row_block is not None else 1
        panel_blocks = ceildiv(panels, per_program)
        outer = [self.dims[i].extent for i in self.outer]
        shared, together = positions([self.dims[i].extent for i in self.shared]), places_of(self)
        # panels outermost: neighbouring programs share one panel, which stays in the cache
        extents = [*outer[: self.owners], panel_blocks, *outer[self.owners :], ceildiv(shared, together), row_blocks]
        grid, (*at, shared_at, row_at) = programs(kernel, extents)
        panel_block = at.pop(self.owners)
        block_rows = None if row_block is None else (row_at, row_block)
        look_up(kernel, self.works, self.position((*at, *[0] * len(self.shared)), 0, 0))
        if self.flips_signs:
            self.row_sums = RowSums.made(self, tuple(at), block_rows)

        def each_panel(body: Callable[[Dim, Dim], None]) -> None:
            if per_program == 1:
                body(panel_block, 0)
                return
            first = panel_block * per_program
            count = panels
            if panel_blocks != 1:
                count = ev.bind("np", 1, per_program, ev.index(minimum(panels - first, per_program)))
            ev.loop("q", count, lambda q, _: body(first + q, q))

        if self.slabs is not None:
            count = ceildiv(row_block or self.rows, self.tile.rows)
            emit_by_slabs(self, self.slabs, Tiles(tuple(at), per_program, each_panel, block_rows, count))
        else:
            each_panel(lambda number, _: self._panel(number, tuple(at), (shared_at, together), block_rows))
        rows_done = (self.rows if row_block is None else row_block) * together
        flops = rows_done * (min(per_program, panels) if isinstance(panels, int) else 1) * self.width * depth
        lanes = kernel.machine.lanes(element_of(self.work.result))
        attrs = {"flops": 2 * positions(self.domain) * depth}
        per_ns = lanes if self.elementwise else products_per_ns(self)  # a depthwise one loads what it multiplies
        return kernel.finish(grid, 20 + flops // per_ns, attrs)

    def _single(self) -> Func:
        """A scalar result: the generic evaluator's loop."""
        self.kernel.store_outputs((0,) * len(self.domain), self.domain)
        return self.kernel.finish(1, positions(self.work.depth))

    # one panel of columns

    def _panel(self, panel: Dim, at: Index, block_of: tuple[Dim, int], block_rows: tuple[Dim, int] | None) -> None:
        first = self.first_column(panel)
        packed = self.packed(first, (*at, *[0] * len(self.shared)), self._depth())

        def rows(place: Index) -> None:
            def tile(row: Dim, height: int, _: Dim) -> None:
                self._row_tile(first, (*at, *place), row, height, packed)

            if self.row_dim is None:
                tile(0, 1, 0)
            else:
                lower = [h for h in FEW_ROWS if h < self.tile.rows and not self.elementwise]
                for_row_tiles(self.kernel, self.rows, self.tile.rows, block_rows, tile, lower)

        self._places(block_of, rows)

    def _places(self, block_of: tuple[Dim, int], body: Callable[[Index], None]) -> None:
        """`body` at each of the `n` places of block `i` of the shared dims, given as `(i, n)`."""
        ev, (i, n) = self.kernel.ev, block_of
        extents = [self.dims[d].extent for d in self.shared]
        if n == 1:
            body(digits(self.kernel, i, extents))
        else:
            count = minimum(positions(extents) - i * n, n)
            ev.loop("o", count, lambda j, _: body(digits(self.kernel, i * n + j, extents)))

    def first_column(self, panel: Dim) -> Dim:
        """Of a panel; the last one ends with the columns where it can: no lane is without one."""
        columns, width = self.columns, self.width
        first = panel * width
        if not isinstance(columns, int) or columns % width == 0 or columns < width:
            return first
        if not self.packs and not self.affine(width, anywhere=True):
            return first
        ev = self.kernel.ev
        return ev.bind("c", 0, columns - width, ev.index(minimum(first, columns - width)))

    def lane(self, first: Dim) -> tuple[Lane, Dim]:
        """The lane over a panel, and its column."""
        if isinstance(self.columns, int) and self.kernel.space.nonnegative(self.columns - self.width - first):
            return lane_over(self.kernel.space, self.width, first)
        return column_lane(self.kernel, self.columns, self.width, first)

    def position(self, at: Index, row: Dim, column: Dim) -> Index:
        """The index of the product at a row and a column, and `at` along the other dims."""
        where: list[Dim] = [0] * len(self.dims)
        for i, a in zip((*self.outer, *self.shared), at, strict=True):
            where[i] = a
        if self.row_dim is not None:
            where[self.row_dim] = row
        where[-1] = column
        return merged_index(len(self.domain), self.dims, where)

    def _row_tile(self, first: Dim, at: Index, row: Dim, height: int, packed: Leaf | None) -> None:
        """One register tile; of windows over a padded image twice, without masks where they reach no padding."""
        ev = self.kernel.ev
        inner = self._inner(height) if self.elementwise else {}
        places = dict(zip((*self.outer, *self.shared, self.row_dim), (*at, row), strict=True))
        condition: Value | None = None
        for i, ends in inner.items():
            for compare, end in zip((block.ge, block.le), ends, strict=True):
                condition = ev.both(condition, ev.emit(compare, ev.index(places[i]), ev.index(end)))
        if condition is None:
            self._tile_at(first, at, row, height, packed)
            return

        def whole() -> None:
            known = {i: ev.bind("i", *ends, ev.index(places[i])) for i, ends in inner.items()}
            *before, here = (known.get(i, place) for i, place in places.items())
            self._tile_at(first, tuple(before), here, height, packed)

        ev.branch(condition, whole, lambda _: self._tile_at(first, at, row, height, packed))

    def _inner(self, height: int) -> dict[int | None, tuple[Dim, Dim]]:
        """By outer dim or that of rows, the first and the last place of tiles whose windows reach no padding."""
        image = self.work.lhs
        if image.op is None or not graph.pads_positions(image.op):
            return {}
        reads = self.work.lhs_at(as_index(self.names), as_index(self.k_names))
        origin: dict[str, Dim] = dict.fromkeys(self.names, 0)
        taps = [(0,) * len(self.k_names), [d - 1 for d in self.work.depth]]
        found: dict[int | None, tuple[Dim, Dim]] = {}
        sizes = zip(dims_of(image.op.attrs["low"]), shape_of(image.op.operands[0]), shape_of(image), strict=True)
        for at, (low, size, padded) in zip(reads, sizes, strict=True):
            if size == padded:
                continue
            along = [i for i, d in enumerate(self.dims) if coefficient(at, self.names[d.last])]
            if len(along) != 1 or self.dims[along[0]].first != self.dims[along[0]].last:
                return {}
            (i,) = along
            step = coefficient(at, self.names[self.dims[i].last])
            if not isinstance(step, int):
                return {}
            nearest, farthest = (substitute(at, origin | dict(zip(self.k_names, tap, strict=True))) for tap in taps)
            last = floordiv(low + size - 1 - farthest, step) - (height - 1 if i == self.row_dim else 0)
            found[i] = maximum(0, ceildiv(low - nearest, step)), last
        reaches_always = any(self.kernel.space.below(last, least) for least, last in found.values())
        return {} if reaches_always else found

    def _tile_at(self, first: Dim, at: Index, row: Dim, height: int, packed: Leaf | None) -> None:
        """Accumulate one register tile, then evaluate and store the outputs from it."""
        rows, here = lane_over(self.kernel.space, height, row)
        lanes, column = self.lane(first)
        index = self.position(at, here, column)
        if self.elementwise:
            (acc,) = self._accumulate_elementwise([index], (rows, lanes))
        else:
            source = None if packed is None else self.packed_at(packed, sym(lanes.name))
            acc = self.accumulate(index, rows, lanes, self._depth(), source)
        self.store(at, row, first, acc)

    def accumulate(
        self, index: Index, rows: Lane, lanes: Lane, depth: Depth,
        packed: Callable[[Dim], tuple[Leaf, Index]] | None,
        packed_rows: Callable[[Dim], tuple[Leaf, Index]] | None = None, start: Callable[[], Value] | None = None,
    ) -> Value:  # fmt: skip
        """The sums of a tile over some steps of k, as `products.accumulate` has them, added to those at the `start`."""
        if self.words is None:
            acc = accumulate(self.kernel, self.work, index, rows, lanes, depth, packed, packed_rows)
            return acc if start is None else self.kernel.ev.emit(block.add, start(), acc)
        assert packed is not None, "words of rhs are packed"
        before = None if start is None else start()
        elem = element_of(self.work.lhs)
        return multiply_words(self.kernel, self.word_work, elem, index, rows, lanes, depth, packed, packed_rows, before)

    def store(self, at: Index, row: Dim, first: Dim, acc: Value) -> None:
        """Evaluate and store the outputs from the sums of a tile; of more than registers hold by way of memory."""
        ev, space = self.kernel.ev, self.kernel.space
        acc = acc if self.row_sums is None else self.row_sums.taken_off(acc, row)
        shape = tile_of(acc).shape
        if self.words is None:
            rows, row = lane_over(space, shape[0], row)
            lanes, column = self.lane(first)
            store_results(self.kernel, self.work, self.position(at, row, column), (rows, lanes), acc)
            return
        pointer = ev.emit(block.alloc, elem=block.elem_of(acc.type), count=math.prod(shape))
        leaf = Leaf(pointer, strides_of(shape), shape)
        places = [lane_over(space, n) for n in shape]
        with ev.lanes_as(*(lane for lane, _ in places)):
            ev.store(leaf, tuple(i for _, i in places), acc)
        self.store_kept(at, row, first, leaf, ())

    def store_kept(self, at: Index, row: Dim, first: Dim, sums: Leaf, slot: Index) -> None:
        """The same from sums in memory, of a tile at `slot`; words some rows at a time."""
        kernel, ev, height = self.kernel, self.kernel.ev, static(sums.shape[-2])
        together = height if self.words is None else min(height, max(1, EPILOGUE // self.tile.vectors))

        def some(start: Dim, count: int) -> None:
            rows, here = lane_over(kernel.space, count, start)
            lanes, column = self.lane(first)
            with ev.lanes_as(rows, Lane(lanes.name, lanes.extent)):
                acc = ev.load(sums, (*slot, here, sym(lanes.name)))
            if self.row_sums is not None:
                acc = self.row_sums.taken_off(acc, row + start)
            store_results(kernel, self.work, self.position(at, row + here, column), (rows, lanes), acc)

        ev.loop("e", height // together, lambda e, _: some(e * together, together))
        if rest := height % together:
            some(height - rest, rest)

    def _depth(self) -> Depth:
        return self.depth(self.extents, lambda at: at)

    def depth(self, extents: tuple[Dim, ...], to_k: Callable[[Index], Index]) -> Depth:
        """Some steps of k: `to_k` says where they are along the loops over all of it."""
        rank, per = len(self.work.depth), 1 if self.words is None else PAIR
        return Depth(extents, lambda at: merged_index(rank, self.k_dims, to_k(at)), self.tile.k_step, per)

    def _accumulate_elementwise(self, places: Sequence[Index], lanes: Sequence[Lane]) -> Carried:
        """Both operands vary along the lanes: multiply and add tile by tile, short windows unrolled.

        What several places read is read once.
        """
        ev, work = self.kernel.ev, self.work
        elem = accumulator(element_of(work.result))
        shape = tuple(lane.extent for lane in lanes) or None  # of one result: a scalar
        start = ev.const(0.0 if elem.is_float else 0, elem, shape)
        depth = self._depth()

        def step(index: Index, at: Index, carried: Value, read: Read) -> Value:
            k = depth.to_index(at)
            factors = (work.lhs, work.lhs_at(index, k)), (work.rhs, work.rhs_at(index, k))
            with ev.lanes_as(*lanes):
                for value, where in factors:
                    if (value, where) not in read:
                        read[value, where] = ev.shaped(ev.cast(ev.value(value, where), elem), shape)
                a, b = (read[factor] for factor in factors)
                if elem.is_float:
                    return ev.emit(block.fma, a, b, carried)
                return ev.emit(block.add, carried, ev.emit(block.mul, a, b))

        if (window := self._window()) is None:
            return tuple(self._long_sum(functools.partial(step, index), start) for index in places)
        looped, taps = window

        def over(at: Index, made: Carried) -> Carried:
            if len(at) < looped:
                return ev.loop("w", depth.extents[len(at)], lambda t, c: over((*at, t), c), made)
            read: Read = {}
            for tap in taps:
                made = tuple(step(i, (*at, *tap), acc, read) for i, acc in zip(places, made, strict=True))
            return made

        return over((), (start,) * len(places))

    def _long_sum(self, step: Callable[[Index, Value, Read], Value], start: Value) -> Value:
        """`step` along all of k, several at a time."""
        extents = self._depth().extents
        last = extents[-1]
        count = 1
        if self.at_once and isinstance(last, int):
            count = next((n for n in self.at_once if last % n == 0), min(last, self.at_once[0]))

        def several(at: Index, count: int, total: Value) -> Value:
            read: Read = {}
            for i in range(count):
                total = step((*at[:-1], at[-1] + i), total, read)
            return total

        return sum_in_steps(self.kernel.ev, extents, count, start, several)

    def _window(self) -> tuple[int, list[tuple[int, ...]]] | None:
        """How many dims of a short window are loops, and the places along the others; None for other windows."""
        extents = [d for d in self._depth().extents if isinstance(d, int) and d <= UNROLLED_WINDOW]
        if len(extents) < len(self.k_dims):
            return None
        looped = len(extents) - 1 if math.prod(extents) > self.most_unrolled else 0
        return looped, list(itertools.product(*map(range, extents[looped:])))

    def packed(self, first: Dim, at: Index, depth: Depth) -> Leaf | None:
        """A panel of rhs along some steps of k, copied as [depth, width]; None where it is read as it is."""
        if not self.packs:
            return None
        shape = (depth.total, self.width)
        if self.in_fours:
            fours = exact_div(depth.total, FOUR)
            assert fours is not None, "slabs are whole fours"
            shape = (fours, self.width, FOUR)
        pointer = self.kernel.ev.emit(block.alloc, elem=self.panel_elem, count=depth.total * self.width)
        leaf = Leaf(pointer, strides_of(shape), shape)
        self.pack(first, at, depth, leaf)
        return leaf

    def pack(self, first: Dim, at: Index, depth: Depth, leaf: Leaf) -> None:
        """Copy a panel of rhs along some steps of k there."""
        work = self.work
        if self.words is not None:
            self._pack_words(first, at, depth, leaf, along_k=self.words.along_k)
            return
        if self.word_work is not work:
            words = self.kernel.ev.emit(block.pointer_cast, leaf.pointer, to=I32)
            leaf = Leaf(words, strides_of(leaf.shape[:2]), leaf.shape[:2])
            self._pack_words(first, at, replace(depth, per=FOUR), leaf, along_k=True)
            return
        # the dims of k in the order rhs has them in memory: what is next to one another is read while it is cached
        steps = [self._step(self.rhs_reads, d) for d in self.k_dims[-len(depth.extents) :]]
        order = sorted(range(len(steps)), key=lambda i: steps[i], reverse=True)
        turned = self.kernel.machine.lanes(element_of(work.rhs)) if steps and steps[order[-1]] == 1 else 0
        starts = [0]
        if not self.in_fours and isinstance(self.columns, int) and turned < self.columns < self.width and turned:
            starts = self._whole_vectors(leaf, turned, self.columns, depth)
        for start in starts:
            lane, column = self.lane(first) if len(starts) == 1 else lane_over(self.kernel.space, turned, start)
            position, to = self.position(at, 0, column), self.packed_at(leaf, start + sym(lane.name))
            if self.in_fours:
                through = move_bytes if self.flips_signs else None
                pack_panel(self.kernel, work, position, lane, depth, to, together=FOUR, beside=True, through=through)
            else:
                pack_panel(self.kernel, work, position, lane, depth, to, order, turned)

    def _are_fours(self) -> bool:
        """Whether bytes of rhs that are multiplied together are words of its memory, one behind the other along k."""
        dim = self.k_dims[-1]
        if (
            len(self.rhs_reads.offsets) != 1
            or not is_view(self.work.rhs, self.kernel)
            or not isinstance(dim.extent, int)
        ):
            return False
        (offset,), name = self.rhs_reads.offsets, self.k_names[dim.last]
        return coefficient(offset, name) == 1 and are_words(offset, name, dim.extent, FOUR)

    def _pack_words(self, first: Dim, at: Index, depth: Depth, leaf: Leaf, *, along_k: bool) -> None:
        """The same of words: a square at a time where they are turned."""
        lane, column = self.lane(first)
        size = min(SIDE, lane.extent) if along_k else lane.extent
        for start in range(0, lane.extent, size):
            limit = None if lane.limit is None else lane.limit - start
            some = Lane(lane.name, min(size, lane.extent - start), limit)
            index = self.position(at, 0, substitute(column, {lane.name: start + sym(lane.name)}))
            to = self.packed_at(leaf, start + sym(lane.name))
            move = move_words if self.flips_signs else None
            pack_words(self.kernel, self.word_work, index, some, depth, to, move, along_k=along_k, rows_first=False)

    def _whole_vectors(self, leaf: Leaf, lanes: int, columns: int, depth: Depth) -> list[int]:
        """Where vectors begin that cover the columns of the only panel; where it has none it is 0."""
        ev = self.kernel.ev
        starts = list(range(0, columns - lanes + 1, lanes))
        if not columns % lanes:
            return starts
        lane, column = lane_over(self.kernel.space, lanes, columns // lanes * lanes)
        elem = self.panel_elem

        def clear(at: Index, _: Carried) -> None:
            with ev.lanes_as(lane):
                ev.store(leaf, (depth.flat(at), column), ev.const(0.0 if elem.is_float else 0, elem, (lanes,)))

        nest(ev, depth.extents, clear)
        return [*starts, columns - lanes]

    def packed_at(self, panel: Leaf, lane: Dim) -> Callable[[Dim], tuple[Leaf, Index]]:
        """Where a packed panel holds rhs at flat depth k, or a word of it."""
        if len(panel.shape) > 2:
            return lambda k: (panel, (floordiv(k, FOUR), lane, mod(k, FOUR)))
        return lambda k: (panel, (k, lane))

    def _step(self, reads: Accesses, dim: Merged) -> int:
        """How far apart elements are that follow one another along a dim of k; 0 if that is not one number."""
        steps = {coefficient(o, self.k_names[dim.last]) for o in reads.offsets}
        (step, *more) = steps or {0}
        return step if isinstance(step, int) and not more else 0


FEW_ROWS = 4, 2
"""Heights of tiles where fewer rows come than one has: a panel is read by each tile."""
PAGE_BYTES = 4096
"""Of memory, as processors map it."""
PAGES = 64
"""Addresses of so many pages are known to the first level of a TLB."""
# The following were chosen by `python -m benchmarks.cpu_products`, with AVX-512 and without.

FAR_SIZE = 4
"""Times the second-level cache, which is twice as large on some machines: what is larger comes from beyond."""
SLAB_ROWS = 56
"""Rows from which on a slab of a panel is read often enough to be kept in the first-level cache: four tiles of 14."""
SLAB_BYTES = 1024
"""Of a column of a slab: 256 steps of f32, of which 32 columns are a first-level cache."""
