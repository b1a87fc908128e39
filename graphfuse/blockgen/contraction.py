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

from graphfuse.blockgen.access import Accesses, Merged, Walk, as_index, dim_names, merged_index
from graphfuse.blockgen.evaluate import Lane, Leaf, accumulator, lane_over
from graphfuse.blockgen.index import Index, coefficient, strides_of
from graphfuse.blockgen.kernel import Kernel, element_of, positions
from graphfuse.blockgen.loops import Carried, digits, for_piece, for_row_tiles, nest, programs
from graphfuse.blockgen.movement import shape_of
from graphfuse.blockgen.products import (
    FOUR,
    Depth,
    Product,
    accumulate,
    column_lane,
    in_fours,
    pack_panel,
    product_of,
    store_results,
    sum_in_runs,
)
from graphfuse.blockgen.tiling import MatmulTile, long_step, matmul_tiles, panel_vectors, pieces
from graphfuse.dialects import block, graph
from graphfuse.ir.core import Func, Op, Trait, Value, dims_of
from graphfuse.symbolic import (
    Dim,
    bounds,
    ceildiv,
    exact_div,
    floordiv,
    maximum,
    minimum,
    mod,
    product,
    substitute,
    sym,
)


def emit(kernel: Kernel) -> Func:
    """The contraction of the region with its epilogue."""
    (op,) = (op for op in kernel.body.ops if op.kind in (graph.contract, graph.conv))
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
        self.beside = tuple(beside)
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
        depth = self.k_dims[-1].extent if self.k_dims else 1
        vectors = panel_vectors(kernel.machine, elem, row_extent, columns)
        lanes = kernel.machine.lanes(elem)
        affine = next((v for v in (vectors, vectors // 2, vectors // 4) if v and self._affine(v * lanes)), None)
        self.contiguous = affine is not None
        vectors = affine or min(vectors, 3)
        self.packs_rows = False
        if self.elementwise:
            rows = max(1, min(4, row_extent)) if isinstance(row_extent, int) else 4
            self.tile = MatmulTile(rows, vectors, 1)
        else:
            row = names[self.dims[self.row_dim].last] if self.row_dim is not None else ""
            strides = [coefficient(o, row) for o in lhs.offsets]
            stride = next((s for s in strides if s), 0)
            if self.in_fours:
                stride = stride // FOUR  # of lanes, which is what the tile is made of
            tiles = matmul_tiles(kernel.machine, elem, row_extent, vectors, depth, kernel.space.ranges, stride)
            if self._narrow(lhs):
                tiles = [replace(t, k_step=long_step(depth)) for t in tiles]
            self.tile = kernel.chosen(tiles)
            self.packs_rows = self._worth_packing_rows(lhs, row, row_extent, columns, vectors * lanes)
            many = isinstance(row_extent, int) and row_extent >= MANY * self.tile.rows
            if self.packs_rows or (many and self._is_far(self.rhs_reads, vectors * lanes)):
                self.contiguous = False
        self.columns, self.rows = columns, row_extent
        self.width = vectors * lanes
        outer = [i for i in range(len(self.dims) - 1) if i != self.row_dim]
        packs = not (self.contiguous or self.elementwise or self.packs_rows)
        # rhs does not depend on these
        self.shared = [i for i in outer if packs and not self.in_rhs[i]]
        # what has panels of its own first
        self.outer = sorted((i for i in outer if i not in self.shared), key=lambda i: not self.in_rhs[i])
        self.owners = sum(self.in_rhs[i] for i in self.outer)

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

    def _is_far(self, reads: Accesses, width: int) -> bool:
        """Whether `width` elements at every k are more lines than the first-level cache holds, each on its own page."""
        depth = product([d.extent for d in self.k_dims])
        nbytes, machine = element_of(self.work.rhs).bytes, self.kernel.machine
        if not isinstance(depth, int) or depth * max(width * nbytes, LINE_BYTES) <= machine.l1_bytes:
            return False
        return self._has_pages(reads)

    def _is_spread(self, reads: Accesses, size: int) -> bool:
        """Whether `size` elements are too many for the second-level cache, and every k on more pages than are known."""
        depth = product([d.extent for d in self.k_dims])
        nbytes, machine = element_of(self.work.rhs).bytes, self.kernel.machine
        if not isinstance(depth, int) or depth <= PAGES or size * depth * nbytes <= machine.l2_bytes:
            return False
        return self._has_pages(reads)

    def _has_pages(self, reads: Accesses) -> bool:
        """Whether what is read at every k is on a page of its own."""
        nbytes = element_of(self.work.rhs).bytes
        steps = [coefficient(o, self.k_names[self.k_dims[-1].last]) for o in reads.offsets]
        return bool(steps) and all(isinstance(s, int) and s * nbytes >= FAR_BYTES for s in steps)

    def _worth_packing_rows(self, lhs: Accesses, row: str, rows: Dim, columns: Dim, width: int) -> bool:
        """Whether lhs is contiguous along the rows and far apart along k, and read for many panels."""
        if not isinstance(rows, int) or not isinstance(columns, int) or not is_view(self.work.lhs, self.kernel):
            return False
        if len(lhs.offsets) != 1 or coefficient(lhs.offsets[0], row) != 1:
            return False
        if not (self._is_far(lhs, self.tile.rows) or self._is_spread(lhs, rows)):
            return False
        return rows >= 2 * self.tile.rows and columns >= MANY * width

    def _affine(self, width: int, *, anywhere: bool = False) -> bool:
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
        panels = ceildiv(self.columns, self.width)
        depth = product([d.extent for d in self.k_dims])
        per_program, row_block = self._blocks(panels, depth)
        row_blocks = ceildiv(self.rows, row_block) if row_block is not None else 1
        panel_blocks = ceildiv(panels, per_program)
        outer = [self.dims[i].extent for i in self.outer]
        shared, together = positions([self.dims[i].extent for i in self.shared]), self._together()
        # panels outermost: neighbouring programs share one panel, which stays in the cache
        extents = [*outer[: self.owners], panel_blocks, *outer[self.owners :], ceildiv(shared, together), row_blocks]
        grid, (*at, shared_at, row_at) = programs(kernel, extents)
        panel_block = at.pop(self.owners)
        if self.packs_rows:
            assert row_block is not None
            self._pack_rows(tuple(at), row_at, row_block, depth)
        block_rows = None if row_block is None else (row_at, row_block)

        def panel(number: Dim) -> None:
            self._panel(number, tuple(at), (shared_at, together), block_rows)

        if per_program == 1:
            panel(panel_block)
        else:
            first = panel_block * per_program
            count = panels
            if panel_blocks != 1:
                count = ev.bind("np", 1, per_program, ev.index(minimum(panels - first, per_program)))
            ev.loop("q", count, lambda q, _: panel(first + q))
        rows_done = (self.rows if row_block is None else row_block) * together
        flops = rows_done * (min(per_program, panels) if isinstance(panels, int) else 1) * self.width * depth
        lanes = kernel.machine.lanes(element_of(self.work.result))
        attrs = {"flops": 2 * positions(self.domain) * depth}
        per_ns = lanes if self.elementwise else self._products_per_ns()  # a depthwise one loads what it multiplies
        return kernel.finish(grid, 20 + flops // per_ns, attrs)

    def _blocks(self, panels: Dim, depth: Dim) -> tuple[int, int | None]:
        """(panels per program, rows per program; None for all rows)."""
        machine = self.kernel.machine
        bytes_per = element_of(self.work.rhs).bytes
        known_depth = depth if isinstance(depth, int) else 1024
        panel_bytes = known_depth * self.width * bytes_per
        known_rows = self.rows if isinstance(self.rows, int) else 1 << 30
        if self.packs_rows:
            assert isinstance(self.rows, int)
            tiles = machine.l2_bytes // 2 // (known_depth * bytes_per * self.tile.rows)
            assert isinstance(panels, int)
            return max(MANY, -(-panels // 4)), min(self.rows, max(1, tiles) * self.tile.rows)
        if not self.contiguous:
            return 1, None
        rows_flops = known_depth * self.width
        # about 20 microseconds of work, in whole tiles
        tile_ns = max(1.0, self.tile.rows * rows_flops / self._products_per_ns())
        if isinstance(panels, int) and panels * panel_bytes <= machine.l2_bytes // 2:
            tiles = max(1, round(20_000 / (tile_ns * panels)))
            block_rows = tiles * self.tile.rows
            return panels, (None if known_rows <= block_rows else block_rows)
        # one panel: as many rows as keep lhs in half the second-level cache
        cached = max(1, machine.l2_bytes // 2 // (known_depth * bytes_per * self.tile.rows)) * self.tile.rows
        cached = max(cached, self.tile.rows * 4)
        return 1, (None if known_rows <= cached else cached)

    def _together(self) -> int:
        """How many places of the shared dims one program takes: a panel that is packed serves them all."""
        places = positions([self.dims[i].extent for i in self.shared])
        rows = bounds(self.rows, self.kernel.space.ranges)[0]
        most = ceildiv(PACKED_ROWS, max(1, rows))
        assert isinstance(most, int)
        if not isinstance(places, int):
            return most
        return -(-places // -(-places // most)) if places else 1

    def _products_per_ns(self) -> int:
        """Roughly, at three vectors a nanosecond."""
        return self.kernel.machine.lanes(element_of(self.work.result)) * 3 * (FOUR if self.in_fours else 1)

    def _single(self) -> Func:
        """A scalar result: the generic evaluator's loop."""
        self.kernel.store_outputs((0,) * len(self.domain), self.domain)
        return self.kernel.finish(1, positions(self.work.depth))

    # one panel of columns

    def _panel(self, panel: Dim, at: Index, block_of: tuple[Dim, int], block_rows: tuple[Dim, int] | None) -> None:
        packs = not (self.contiguous or self.elementwise)
        first = self._last_moved_back(panel * self.width, packs)
        packed = self._pack(first, (*at, *[0] * len(self.shared))) if packs else None

        def rows(place: Index) -> None:
            def tile(row: Dim, height: int) -> None:
                self._row_tile(first, (*at, *place), row, height, packed)

            if self.row_dim is None:
                tile(0, 1)
            else:
                for_row_tiles(self.kernel, self.rows, self.tile.rows, block_rows, tile)

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

    def _last_moved_back(self, first: Dim, packs: bool) -> Dim:
        """The first column of a panel, of which the last ends with the columns where it can: no lane is without one."""
        columns, width = self.columns, self.width
        if not isinstance(columns, int) or columns % width == 0 or columns < width:
            return first
        if not packs and not self._affine(width, anywhere=True):
            return first
        ev = self.kernel.ev
        return ev.bind("c", 0, columns - width, ev.index(minimum(first, columns - width)))

    def _lane(self, first: Dim) -> tuple[Lane, Dim]:
        """The lane over a panel, and its column."""
        if isinstance(self.columns, int) and self.kernel.space.nonnegative(self.columns - self.width - first):
            return lane_over(self.kernel.space, self.width, first)
        return column_lane(self.kernel, self.columns, self.width, first)

    def _position(self, at: Index, row: Dim, column: Dim) -> Index:
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
        kernel = self.kernel
        rows, row = lane_over(kernel.space, height, row)
        lanes, column = self._lane(first)
        index = self._position(at, row, column)
        if self.elementwise:
            (acc,) = self._accumulate_elementwise([index], (rows, lanes))
        else:
            source = None if packed is None else self._packed_at(packed, sym(lanes.name))
            acc = accumulate(kernel, self.work, index, rows, lanes, self._depth(), source, self._packed_row(row))
        store_results(kernel, self.work, index, (rows, lanes), acc)

    def _depth(self) -> Depth:
        extents = tuple(d.extent for d in self.k_dims)
        return Depth(extents, lambda at: merged_index(len(self.work.depth), self.k_dims, at), self.tile.k_step)

    def _accumulate_elementwise(self, places: Sequence[Index], lanes: Sequence[Lane]) -> Carried:
        """Both operands vary along the lanes: multiply and add tile by tile, short windows unrolled.

        What several places read is read once.
        """
        ev, work = self.kernel.ev, self.work
        elem = accumulator(element_of(work.result))
        start = ev.const(0.0 if elem.is_float else 0, elem, tuple(lane.extent for lane in lanes))
        depth = self._depth()

        def step(index: Index, at: Index, carried: Value, read: Read) -> Value:
            k = depth.to_index(at)
            factors = (work.lhs, work.lhs_at(index, k)), (work.rhs, work.rhs_at(index, k))
            with ev.lanes_as(*lanes):
                for value, where in factors:
                    if (value, where) not in read:
                        read[value, where] = ev.shaped(ev.cast(ev.value(value, where), elem), ev.full_shape())
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
        ev, extents = self.kernel.ev, self._depth().extents
        last = extents[-1]
        count = next((n for n in self.at_once if isinstance(last, int) and last % n == 0), 1)

        def several(at: Index, total: Value) -> Value:
            read: Read = {}
            for i in range(count):
                total = step((*at[:-1], count * at[-1] + i), total, read)
            return total

        return sum_in_runs(ev, (*extents[:-1], floordiv(last, count)), count, start, several)

    def _window(self) -> tuple[int, list[tuple[int, ...]]] | None:
        """How many dims of a short window are loops, and the places along the others; None for other windows."""
        extents = [d for d in self._depth().extents if isinstance(d, int) and d <= UNROLLED_WINDOW]
        if len(extents) < len(self.k_dims):
            return None
        looped = len(extents) - 1 if math.prod(extents) > self.most_unrolled else 0
        return looped, list(itertools.product(*map(range, extents[looped:])))

    def _pack_rows(self, at: Index, row_at: Dim, count: int, total: Dim) -> None:
        """The program's rows of lhs in program-local memory as [depth, rows]."""
        ev, work, rows = self.kernel.ev, self.work, self.rows
        assert isinstance(rows, int)
        elem = element_of(work.lhs)
        leaf = Leaf(ev.emit(block.alloc, elem=elem, count=total * count), (count, 1), (total, count))
        first = row_at * count
        if rows % count:  # the last program's rows end where the matrix does, as its tiles do
            first = ev.bind("m", 0, rows - count, ev.index(minimum(first, rows - count)))
        depth, lanes = self._depth(), self.kernel.machine.lanes(elem)

        def copied(k: Index, _: Carried) -> None:
            where = depth.to_index(k)

            def some(r: Dim, _: Carried) -> None:
                got = ev.value(work.lhs, work.lhs_at(self._position(at, first + r, 0), where))
                ev.store(leaf, (depth.flat(k), r), ev.shaped(got, ev.full_shape()))

            for piece in pieces(count, 2 * lanes, lanes):
                for_piece(self.kernel, piece, some)

        nest(ev, depth.extents, copied)
        self.rows_at = (leaf, first)

    def _packed_row(self, row: Dim) -> Callable[[Dim], tuple[Leaf, Index]] | None:
        """Where the packed rows hold lhs at flat depth k, if they are packed."""
        if not self.packs_rows:
            return None
        leaf, first = self.rows_at
        return lambda k: (leaf, (k, row - first))

    def _pack(self, first: Dim, at: Index) -> Leaf:
        """One panel of rhs in program-local memory as [depth, width]."""
        ev, work = self.kernel.ev, self.work
        depth = self._depth()
        pointer = ev.emit(block.alloc, elem=element_of(work.rhs), count=depth.total * self.width)
        leaf = Leaf(pointer, (self.width, 1), (depth.total, self.width))
        if self.in_fours:
            shape = (exact_div(depth.total, FOUR) or 0, self.width, FOUR)
            leaf = Leaf(pointer, strides_of(shape), shape)
        # the dims of k in the order rhs has them in memory: what is next to one another is read while it is cached
        steps = [self._step(self.rhs_reads, d) for d in self.k_dims]
        order = sorted(range(len(steps)), key=lambda i: steps[i], reverse=True)
        turned = self.kernel.machine.lanes(element_of(work.rhs)) if steps and steps[order[-1]] == 1 else 0
        starts = [0]
        if not self.in_fours and isinstance(self.columns, int) and turned < self.columns < self.width and turned:
            starts = self._whole_vectors(leaf, turned, self.columns)
        for start in starts:
            lane, column = self._lane(first) if len(starts) == 1 else lane_over(self.kernel.space, turned, start)
            position, to = self._position(at, 0, column), self._packed_at(leaf, start + sym(lane.name))
            if self.in_fours:
                pack_panel(self.kernel, work, position, lane, depth, to, together=FOUR, beside=True)
            else:
                pack_panel(self.kernel, work, position, lane, depth, to, order, turned)
        return leaf

    def _whole_vectors(self, leaf: Leaf, lanes: int, columns: int) -> list[int]:
        """Where vectors begin that cover the columns of the only panel; where it has none it is 0."""
        ev, depth = self.kernel.ev, self._depth()
        starts = list(range(0, columns - lanes + 1, lanes))
        if not columns % lanes:
            return starts
        lane, column = lane_over(self.kernel.space, lanes, columns // lanes * lanes)
        elem = element_of(self.work.rhs)

        def clear(at: Index, _: Carried) -> None:
            with ev.lanes_as(lane):
                ev.store(leaf, (depth.flat(at), column), ev.const(0.0 if elem.is_float else 0, elem, (lanes,)))

        nest(ev, depth.extents, clear)
        return [*starts, columns - lanes]

    def _packed_at(self, panel: Leaf, lane: Dim) -> Callable[[Dim], tuple[Leaf, Index]]:
        """Where a packed panel holds rhs at flat depth k."""
        if self.in_fours:
            return lambda k: (panel, (floordiv(k, FOUR), lane, mod(k, FOUR)))
        return lambda k: (panel, (k, lane))

    def _step(self, reads: Accesses, dim: Merged) -> int:
        """How far apart elements are that follow one another along a dim of k; 0 if that is not one number."""
        steps = {coefficient(o, self.k_names[dim.last]) for o in reads.offsets}
        (step, *more) = steps or {0}
        return step if isinstance(step, int) and not more else 0


LINE_BYTES = 64
"""Of a cache: what is read of memory at least, for an element."""
FAR_BYTES = 2048
"""Elements this far apart are each on a page of their own, or on every other, and fall into few sets of a cache."""
PAGES = 64
"""Addresses of so many pages are known to the first level of a TLB."""
PACKED_ROWS = 256
"""A panel is packed for so many rows, if there are as many: that takes as long as some 14 of them."""
MANY = 4
"""Something is copied where it is read at least so often."""


def is_view(value: Value, kernel: Kernel) -> bool:
    """Whether `value` is memory seen through movement ops only."""
    while value not in kernel.ev.leaves:
        op = value.owner
        if not isinstance(op, Op) or not op.has(Trait.MOVEMENT) or len(op.operands) != 1 or op.kind is graph.pad:
            return False
        value = op.operands[0]
    return True
