"""Emits contractions for GPUs: a tile of the result per program, k in steps of tiles.

    acc = 0
    for k: acc = dot(lhs[rows, k], rhs[k, columns], acc)
    epilogue on acc, store

Both operands are views with the strides they have in memory. Rows of a convolution are the flat positions of its
result; where a row begins in the input is computed once, outside the loop over k. Programs whose tiles share rows or
columns run close together, so that what they read is in the cache.

Products that share nothing (a vector by a matrix, rows by rows) are reductions along k (`gpu_axis_reduction`), and
depthwise convolutions are sums over the window of elementwise products.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from graphfuse.blockgen.access import Accesses, Walk, as_index, dim_names, merged_index
from graphfuse.blockgen.contraction import ContractionKernel
from graphfuse.blockgen.evaluate import Lane, accumulator
from graphfuse.blockgen.gpu_axis_reduction import AxisReduction, Terms
from graphfuse.blockgen.gpu_epilogue_cost import epilogue_ns
from graphfuse.blockgen.gpu_factors import Boxed, Factor, Roles, find_box, find_windows, step_of, with_taps_apart
from graphfuse.blockgen.gpu_matmul_tile import LEAST_SIDE, ProductTile, boxed_tiles, product_tiles, streamed_tiles
from graphfuse.blockgen.gpu_pointwise import LONG, Tiling, held_of_row
from graphfuse.blockgen.gpu_tiles import (
    SECTOR_BYTES,
    VECTOR_BYTES,
    at_most,
    fitting,
    grouped,
    lane_along,
    over_tiles,
    whole_tiles,
)
from graphfuse.blockgen.gpu_vector_walk import Rows, VectorWalk, Way, is_whole, ways
from graphfuse.blockgen.gpu_wgmma_tile import ROWS, STEP_BYTES, Product
from graphfuse.blockgen.index import Index, coefficient, reshape_index, unravel
from graphfuse.blockgen.kernel import Kernel, element_of, is_view, positions
from graphfuse.blockgen.loops import Carried, digits, live_or, programs
from graphfuse.blockgen.movement import shape_of
from graphfuse.blockgen.products import look_up, of_one_element, product_of, store_results
from graphfuse.blockgen.tiling import MatmulTile
from graphfuse.dialects import block, graph
from graphfuse.dialects.boxes import Unboxed
from graphfuse.dialects.gpu import ACCUMULATED, WITHOUT_WGMMA
from graphfuse.ir.core import Attr, Func, Value, attr_ints, made_of
from graphfuse.ir.types import F32
from graphfuse.symbolic import Dim, ceildiv, exact_div, floordiv, product, sym, symbols, typical
from graphfuse.targets.machine import SCHEDULERS, WARP

WINDOW = 128
"""Taps of a window up to which a depthwise product goes over them one by one."""
HELD = 64
"""Sums that a thread holds at most while it goes over windows."""
PLACES = 8
"""Of them along a dim: each is as much code again."""
PRODUCTS = (graph.contract, graph.contract_parts, graph.contract_blocks, graph.conv)
COPIED_BYTES = 4
"""Of the smallest `cp.async`."""
MOST_STREAMED = 64
"""Rows up to which the matrix of a product takes longer to load than to multiply by."""
SEVERAL = "rows, or k, are several dims that do not lie one behind the other"
"""Why operands are no boxes."""
WINDOW_BYTES, FEW_COLUMNS = 64, 48
"""Where windows of an image do not begin at multiples of so many bytes, and pixels are less than a line of shared
memory, TMA takes 2 to 8 times as long for a row of it, which so few columns do not make up for. By vectors and
`mma.sync`, 3x3 of 8 channels to 9 take 4.4 us instead of 9.3, 24 to 48 20.9 instead of 31.2, 40 to 40 9.3 instead of
11.6, but 56 to 56 16.1 instead of 11.5 (H100, f16, channels last: `benchmarks.gpu_constants --only windows`)."""
UNALIGNED = f"pixels of the image are no multiples of {WINDOW_BYTES} bytes apart: threads copy them faster"
SPARE = 1.13
"""Rows of the innermost dim alone are a tile's rows when no more than this factor of them are to spare."""


def emit(kernel: Kernel) -> Func:
    """The contraction of the region, or several of one operand, with the epilogue."""
    made = kernel_of(kernel)
    assert made is not None, f"{kernel.name} multiplies nothing"
    return made.emit()


def kernel_of(kernel: Kernel) -> GpuContraction | None:
    """What emits it; None where it multiplies by codes."""
    products = [product_of(op) for op in kernel.body.ops if op.kind in PRODUCTS]
    return GpuContraction(kernel, products[0], products[1:]) if products else None


def _along(index: Index, axis: int, count: int) -> list[Index]:
    """The places that an index stands for whose dim `axis` counts groups of them."""
    return [(*index[:axis], count * index[axis] + i, *index[axis + 1 :]) for i in range(count)]


@dataclass(frozen=True, slots=True)
class Feed:
    """How operands come to the tensor cores of a warpgroup: in boxes or windows that TMA copies, or `why` not."""

    rows: Sequence[int]
    """The dims that a tile's rows are of."""
    boxes: Sequence[Boxed] = ()
    """Of each factor."""
    step: int = 0
    """Channels of a step where an image is read in windows."""
    first: str = ""
    """The variable that is the row number, in these."""
    why: str = ""
    by_vectors: bool = False
    """Threads load a vector of the image at a time, faster than TMA would copy its windows."""


class GpuContraction(ContractionKernel):
    """One contraction on a GPU, or several that share an operand: each has an accumulator."""

    most_unrolled = 16  # more loads in a row than registers hold are all begun before the first is awaited
    at_once = (8, 7, 6, 5, 4)  # and fewer leave each turn of a loop to wait for memory

    def _tile(self, lhs: Accesses, names: Sequence[str]) -> None:
        """The roles of the dims: rows (in lhs only), columns (in rhs only), and those that are neither."""
        del lhs, names
        roles = list(zip(self.in_lhs, self.in_rhs, strict=True))
        self.row_dims = [i for i, (a, b) in enumerate(roles) if a and not b]
        self.column_dims = [i for i, (a, b) in enumerate(roles) if b and not a]
        self.machine = self.kernel.machine

    def emit(self) -> Func:
        """The kernel for what the product is."""
        if (walk := self.walk()) is not None:
            return walk[0].emit(walk[1])
        if self.elementwise or not self.dims or not self.row_dims or not self.column_dims:
            # without columns: weights that are one number everywhere
            return self._emit_windows() if self._is_window() else self._emit_reduction()
        return self._emit_tiles()

    def _typical(self, extent: Dim) -> int:
        return typical(extent, self.kernel.space.ranges)

    # products of a vector

    def walk(self) -> tuple[VectorWalk, Sequence[Way]] | None:
        """Products of one vector by matrices whose rows lie as they are summed, and how to make them; or None."""
        if len(self.dims) != 1 or len(self.k_dims) != 1 or self.in_lhs[0] or not self.in_rhs[0]:
            return None
        rows, depth, (first, *_) = self.dims[0].extent, self.k_dims[0].extent, self.works
        elem = element_of(first.rhs)
        if any(w.scale is not None or w.terms or w.lhs != first.lhs or element_of(w.rhs) != elem for w in self.works):
            return None
        if not elem.is_float or not isinstance(depth, int) or depth * elem.bytes % VECTOR_BYTES:
            return None
        out, k = as_index(self.names), as_index(self.k_names)
        extents = dict(zip((*self.names, *self.k_names), (*first.domain, *first.depth), strict=True))
        matrices = [Factor.of(self.kernel, w.rhs, w.rhs_at(out, k), extents) for w in self.works]
        reduces = [op for op in self.kernel.body.ops if op.kind is graph.reduce]
        if not all(self._lies_in_rows(m) for m in matrices):
            return None
        if not all(is_whole(op, depth) and op.result in made_of(first.lhs) for op in reduces):
            return None
        is_made = not is_view(first.lhs, self.kernel)
        found = ways(self.machine, Rows(self._typical(rows), depth, elem.bytes, len(self.works), is_made))
        k_at = functools.partial(merged_index, len(first.depth), self.k_dims)
        walk = VectorWalk(self.kernel, self.works, rows, depth, lambda r: self._indexed({0: r}), lambda k: k_at((k,)))
        return (walk, found) if found else None

    def _lies_in_rows(self, matrix: Factor) -> bool:
        """Whether a matrix is memory whose neighbours are along what is summed, in rows of whole vectors."""
        row, k = self.names[self.dims[0].last], self.k_names[self.k_dims[0].last]
        if not matrix.is_memory or matrix.strides(k) != (1,):
            return False
        (stride,) = matrix.strides(row)
        return stride is not None and exact_div(stride, VECTOR_BYTES // element_of(matrix.value).bytes) is not None

    # products that are reductions

    @functools.cached_property
    def _large(self) -> Factor:
        """The factor that has more elements."""
        return max(reversed(self.factors), key=lambda f: self._typical(positions(shape_of(f.value))))

    def _contiguous_columns(self) -> bool:
        """Whether memory of the larger factor runs along the columns rather than along k."""
        return bool(self.dims) and (
            1 in self._large.strides(self.names[self.dims[-1].last]) or not self._contiguous_k()
        )

    def _has_lines_of_columns(self) -> bool:
        """Whether memory of an operand of columns runs along them."""
        column = self.names[self.dims[self.column_dims[-1]].last]
        return any(1 in f.strides(column) for f in self.factors if not f.is_left)

    def _contiguous_k(self) -> bool:
        return bool(self.k_dims) and 1 in self._large.strides(self.k_names[self.k_dims[-1].last])

    def is_apart_along_k(self) -> bool:
        """Whether neighbours along k of the smaller factor lie apart where those of the larger lie side by side."""
        if not self._contiguous_k():
            return False
        (small,) = (f for f in self.factors if f is not self._large)
        return {0, 1}.isdisjoint(small.strides(self.k_names[self.k_dims[-1].last]))

    def _is_window(self) -> bool:
        """Whether every element of the result goes over a few numbers by itself, neighbours over neighbours."""
        window = product(self.work.depth)
        if not isinstance(window, int) or window > WINDOW or self.work.scale is not None:
            return False
        if self.beside or len(self.work.pairs) > 1:
            return False
        results = self._typical(positions(self.work.domain))
        if window > LONG and results < WARP * self.machine.multiprocessors and not self._is_convolution():
            return False  # lanes share the terms of one
        return not self._contiguous_k() or any(1 in self._large.strides(self.names[d.last]) for d in self.dims)

    def _emit_reduction(self) -> Func:
        """Elementwise products, summed along k."""
        kernel, ev, work = self.kernel, self.kernel.ev, self.work
        rank = len(work.domain)
        elem = accumulator(element_of(work.result))

        def term(number: int, index: Index) -> Value:
            work, products = self.works[number], list[Value]()
            for pair in pairs(number, index):
                factors = [ev.value(value, where) for value, where in pair]
                products.append(ev.emit(block.mul, *ev.unified([ev.cast(f, elem) for f in factors])))
            if work.scale is not None:
                scale = ev.cast(ev.value(work.scale, work.scale_at(index[:rank], index[rank:])), elem)
                products = [ev.emit(block.mul, *ev.unified([p, scale])) for p in products]
            return functools.reduce(lambda a, b: ev.emit(block.add, a, b), ev.unified(products))

        def pairs(number: int, index: Index) -> list[tuple[tuple[Value, Index], tuple[Value, Index]]]:
            o, k, work = index[:rank], index[rank:], self.works[number]
            return [((a, work.lhs_at(o, k)), (b, work.rhs_at(o, k))) for a, b in work.pairs]

        def terms_of(index: Index) -> list[Value]:
            return [term(n, index) for n in range(len(self.works))]

        def reads(index: Index) -> list[tuple[Value, Index]]:
            return [factor for n in range(len(self.works)) for pair in pairs(n, index) for factor in pair]

        axes = tuple(rank + i for i, d in enumerate(work.depth) if d != 1) or (rank,)
        shape = (*work.domain, *work.depth)
        columns = self._contiguous_columns()

        def kept(index: Index) -> Index:  # the domain may have groups and channels where the result has channels
            return reshape_index(index[:rank], work.domain, shape_of(work.result), kernel.space)

        results = [w.result for w in self.works]
        terms = Terms(shape, axes, results, kept, terms_of, reads, "sum", columns)
        return AxisReduction(kernel, terms, elem).emit()

    def _emit_windows(self) -> Func:
        """A tile of the result, whose elements each go over their window; neighbours share what they read."""
        kernel, work, self.tile = self.kernel, self.work, MatmulTile(1, 1, 1)
        axis, count = self._neighbours()

        def compute(index: Index) -> None:
            lanes, places = kernel.ev.lanes, _along(index, axis, count)
            for place, acc in zip(places, self._accumulate_elementwise(places, lanes), strict=True):
                store_results(kernel, work, place, lanes, acc)

        shape = tuple(floordiv(d, count) if i == axis else d for i, d in enumerate(work.domain))
        none = (0,) * len(work.depth)
        walk = Walk.over(kernel.space, shape, lambda at: self._walk((*_along(at, axis, count)[0], *none)))
        terms = positions(work.depth)
        return Tiling(kernel, walk, compute, places=count, terms=at_most(terms, kernel.space.ranges)).emit()

    def _neighbours(self) -> tuple[int, int]:
        """The dim along which a thread has several places, and how many: those that read least for each.

        There are as many as registers hold, and leave each scheduler a warp; one where memory is turned around.
        """
        work, machine = self.work, self.kernel.machine
        names = dim_names(self.kernel.space, work.domain)
        offsets = self._walk((*as_index(names), *(0,) * len(work.depth))).offsets
        outer = [i for i, d in enumerate(work.domain[:-1]) if d != 1]
        best, least, window = (0, 1), math.inf, self._window()
        if window is None or any(coefficient(o, names[i]) in (1, -1) for o in offsets for i in outer):
            return best
        held = held_of_row(self.kernel, work.domain[-1])
        warps = at_most(positions(work.domain), self.kernel.space.ranges) // (held * WARP)
        most = min(PLACES, HELD // held, warps // (SCHEDULERS * machine.multiprocessors))
        looped, taps = window
        depths = [self._depth().to_index((*(0,) * looped, *at)) for at in taps]
        for axis in outer:
            extent = work.domain[axis]
            count = max((n for n in range(1, most + 1) if isinstance(extent, int) and extent % n == 0), default=1)
            places = _along(as_index(names), axis, count)
            reads = {(i, f(p, k)) for p in places for k in depths for i, f in enumerate((work.lhs_at, work.rhs_at))}
            if len(reads) / count <= least:
                best, least = (axis, count), len(reads) / count
        return best

    # products of tiles

    @property
    def is_of_matrices(self) -> bool:
        """Whether it multiplies rows by columns."""
        return bool(self.row_dims and self.column_dims and self.k_dims) and not self.elementwise

    def feed(self) -> Feed:
        """How a product of matrices gets its operands. `wgmma` is faster wherever it can be fed."""
        rows = self._rows()
        if not self.machine.has_wgmma:
            return Feed(rows)
        if self._is_faster_by_vectors():
            return Feed(rows, why=UNALIGNED, by_vectors=True)
        reasons: list[str] = []
        # matrices are no windows: boxes serve them better
        for way in (lambda: self._matrices(rows), self._windows, lambda: self._lines(rows)):
            try:
                return way()
            except Unboxed as why:
                reasons.append(str(why))
        _, windows, lines = reasons
        return Feed(rows, why=windows if self._is_convolution() else lines)

    def _others(self, rows: Sequence[int]) -> list[int]:
        """The dims of programs, beside rows and the innermost columns."""
        return [i for i in range(len(self.dims)) if i not in rows and i != self.column_dims[-1]]

    def described(self, feed: Feed) -> Product:
        """What a model of the time has to know of the product of matrices."""
        m, n = (positions([self.dims[i].extent for i in dims]) for dims in (feed.rows, self.column_dims))
        others = [i for i in self._others(feed.rows) if i not in self.column_dims]
        batch = math.prod(max(1, self._typical(self.dims[i].extent)) for i in others)
        step = feed.step or (self._line_step() if feed.boxes else 0)
        depth = self._whole_steps(step) if step else product(self.work.depth)
        size = max(element_of(v).bytes for v in (self.work.lhs, self.work.rhs))
        sizes = self._typical(m), self._typical(n), self._typical(depth) * size
        made = Product(*sizes, batch, len(self.work.terms), len(self.works))
        if feed.step:
            return replace(made, windows=True, step_bytes=feed.step * size)
        return replace(made, aligned=self._has_whole_sectors(feed)) if feed.boxes else made

    def _has_whole_sectors(self, feed: Feed) -> bool:
        """Whether lines of boxes begin at whole sectors of memory."""
        whole = SECTOR_BYTES // element_of(self.work.lhs).bytes
        return all(exact_div(d, whole) is not None for b in feed.boxes for d in (*b.box.strides[:-1], b.box.offset))

    def _emit_tiles(self) -> Func:
        kernel, feed = self.kernel, self.feed()
        rows = feed.rows
        columns = self.dims[self.column_dims[-1]].extent
        m = positions([self.dims[i].extent for i in rows])
        others = self._others(rows)
        depth = product(self.work.depth)
        elem = max((element_of(self.work.lhs), element_of(self.work.rhs)), key=lambda e: e.bytes)
        made = self.described(feed)
        if feed.step or feed.boxes:
            ns = self._epilogue_ns()
            by_threads = ns > self.machine.gpu.epilogue.plain_ns and self._is_stored_by_threads()
            made = replace(made, by_threads=by_threads, epilogue_ns=ns)
        if feed.step:
            tiles = boxed_tiles(self.machine, elem, made, step=feed.step)
        elif feed.boxes:
            made = replace(made, in_lines=self._has_lines_of_columns())
            tiles = boxed_tiles(self.machine, elem, made, step=self._line_step())
        else:
            by_registers, copied = self._passes_registers(), self._is_copied(rows)
            apart = len(self.k_dims) > 1
            tiles = product_tiles(self.machine, elem, made, by_registers=by_registers, copied=copied, apart=apart)
        if self._is_converted() and made.m <= MOST_STREAMED:
            tiles = streamed_tiles(self.machine, elem, made, self.work.block if self.work.scale else 0)
        tile = kernel.chosen(tiles)
        if self.work.terms and len(kernel.outputs) > 1:
            tile = replace(tile, k=tile.k // 2)  # what is stored takes shared memory too
        extents = [self.dims[i].extent for i in others]
        row_tiles, column_tiles = ceildiv(m, tile.m), ceildiv(columns, tile.n)
        # rows of places that look up their matrix go through its columns together: neighbours often have the same
        apart, lead = ([], extents) if kernel.picked else (extents, [])
        every_row = [*lead, row_tiles]
        grid, (*at, place) = programs(kernel, [*apart, positions(every_row) * column_tiles])
        r, c = grouped(kernel, place, positions(every_row), column_tiles)
        *looked_up, r = unravel(r, every_row, kernel.space)
        at += looked_up
        row_lane, row = lane_along(kernel, m, tile.m, r * tile.m)
        lane, column = lane_along(kernel, columns, tile.n, c * tile.n)
        where = dict(zip(others, at, strict=True)) | {self.column_dims[-1]: column}
        row_digits = unravel(row, [self.dims[i].extent for i in rows], kernel.space) if len(rows) > 1 else (row,)
        index = self._indexed(where | dict(zip(rows, row_digits, strict=True)))
        look_up(kernel, self.works, index)
        if tile.wgmma:
            begin = dict(zip(others, at, strict=True)) | {self.column_dims[-1]: c * tile.n, rows[-1]: r * tile.m}
            variables = {self.names[self.dims[i].last]: d for i, d in begin.items()}
            first, *more = self._boxed_sums(tile, feed, variables | {feed.first: r * tile.m})
        else:
            held = self._held(row_digits, rows, row_lane)
            lhs_index = self._indexed(where | dict(zip(rows, held, strict=True)))
            first, *more = self._sums(tile, index, lhs_index, row_lane, lane)
        store_results(kernel, self.work, index, (row_lane, lane), first, list(zip(self.beside, more, strict=True)))
        attrs: dict[str, Attr] = {"flops": 2 * positions(self.domain) * depth * len(self.works)}
        attrs |= {"warps": tile.warps, "stages": tile.stages}
        if tile.wgmma:
            attrs |= {"schedule": tile.wgmma.schedule, "persistent": tile.wgmma.per_multiprocessor}
            attrs |= {"split": tile.wgmma.split} if tile.wgmma.split > 1 else {}
            attrs |= {"share": (tile.wgmma.rows, tile.wgmma.columns)} if tile.wgmma.shared > 1 else {}
        elif feed.why:
            attrs[WITHOUT_WGMMA] = feed.why
        return kernel.finish(grid, 1 + tile.m * tile.n * depth * len(self.works) // 16384, attrs)

    def _scaled(self, integers: Value, at: Index) -> Value:
        """A tile of integers times their scales, in the rows' element."""
        ev, work = self.kernel.ev, self.work
        assert work.scale is not None
        factors = [ev.cast(v, F32) for v in (integers, ev.value(work.scale, at))]
        scaled = ev.emit(block.mul, factors[0], ev.shaped(factors[1], ev.full_shape()))
        return ev.cast(scaled, element_of(work.lhs))

    def _is_converted(self) -> bool:
        """Whether the columns' operand is of bytes, the rows' of floats."""
        lhs, rhs = element_of(self.work.lhs), element_of(self.work.rhs)
        return lhs.is_float and rhs.is_integer and rhs.bytes == 1

    def _is_convolution(self) -> bool:
        op = self.work.result.op
        return op is not None and op.kind is graph.conv

    def _epilogue_ns(self) -> float:
        return epilogue_ns(self.kernel, [v for w in self.works for v in (w.lhs, w.rhs)])

    def _is_stored_by_threads(self) -> bool:
        """Whether there are results whose rows TMA does not take."""
        pitches = [shape_of(v)[-1] * element_of(v).bytes for v in self.kernel.outputs if shape_of(v)]
        return any(exact_div(p, VECTOR_BYTES) is None for p in pitches)

    def _check_elements(self) -> None:
        elem = element_of(self.work.lhs)
        if elem != element_of(self.work.rhs) or elem.name not in ACCUMULATED:
            raise Unboxed(f"warpgroups do not multiply {elem} by {element_of(self.work.rhs)}")
        summed = accumulator(element_of(self.work.result))
        if summed.name != ACCUMULATED[elem.name]:
            raise Unboxed(f"warpgroups do not sum products of {elem} in {summed}")

    def _matrices(self, rows: Sequence[int]) -> Feed:
        """Boxes of rows and of k that are one dim each; raises `Unboxed`."""
        if len(rows) != 1 or len(self.k_dims) != 1:
            raise Unboxed(SEVERAL)
        return Feed(rows, self._boxes(rows))

    def _lines(self, rows: Sequence[int]) -> Feed:
        """Boxes of the innermost dims of rows and of k: programs and loops go over the others; raises `Unboxed`."""
        if not self.k_dims:
            raise Unboxed(SEVERAL)
        step = self._line_step()
        if step and not self._fills(self.k_dims[-1].extent, step):
            raise Unboxed(SEVERAL)
        if len(rows) > 1 and not self._fills(self.dims[rows[-1]].extent, ROWS):
            raise Unboxed(SEVERAL)
        return Feed(rows[-1:], self._boxes(rows[-1:]))

    def _line_step(self) -> int:
        """Elements of a step that ends with the innermost dim of k; 0 where that is all of k."""
        return STEP_BYTES // element_of(self.work.lhs).bytes if len(self.k_dims) > 1 else 0

    def _fills(self, extent: Dim, tile: int) -> bool:
        """Whether no more than half of tiles is beyond the end."""
        count = self._typical(extent)
        return -(-count // tile) * tile <= 2 * count

    def _boxes(self, rows: Sequence[int]) -> list[Boxed]:
        """Those that TMA copies of operands that `wgmma` multiplies; raises `Unboxed`."""
        self._check_elements()
        k = self.k_names[self.k_dims[-1].last]
        sides = {True: self.names[self.dims[rows[0]].last], False: self.names[self.dims[self.column_dims[-1]].last]}
        return [find_box(self.kernel, f, sides[f.is_left], k) for f in self.factors]

    @functools.cached_property
    def factors(self) -> tuple[Factor, ...]:
        """What is multiplied, of all products."""
        o, k = (
            merged_index(len(names), dims, [sym(names[d.last]) for d in dims])
            for names, dims in ((self.names, self.dims), (self.k_names, self.k_dims))
        )
        extents = {self.names[d.last]: d.extent for d in self.dims}
        extents |= {self.k_names[d.last]: d.extent for d in self.k_dims}
        lefts = {v: work.lhs_at for work in self.works for v, _ in work.pairs}
        rights = {v: work.rhs_at for work in self.works for _, v in work.pairs}
        return tuple(
            Factor.of(self.kernel, value, at(o, k), extents, is_left=is_left)
            for is_left, values in ((True, lefts), (False, rights))
            for value, at in values.items()
        )

    def _is_copied(self, rows: Sequence[int]) -> bool:
        """Whether tiles of both operands are matrices in memory, which `cp.async` copies as they are."""
        return len(rows) == 1 and len(self.k_dims) == 1 and all(f.is_memory for f in self.factors)

    def _passes_registers(self) -> bool:
        """Whether rows of an operand begin where no `cp.async` does: it copies 4 bytes at least, and from multiples."""
        for f in self.factors:
            whole = COPIED_BYTES // element_of(f.value).bytes
            apart = [s for name in f.extents for s in f.strides(name) if s is not None and s != 1]
            if whole > 1 and any(exact_div(s, whole) is None for s in apart):
                return True
        return False

    def _windows(self) -> Feed:
        """How TMA reads the image of a convolution in windows; raises `Unboxed`."""
        flat = self._flat_rows()
        shared = self._shared()
        is_flat = flat == self.row_dims and all(isinstance(self.dims[i].extent, int) for i in flat[1:])
        if self.beside or self.work.terms or not self.k_dims or not is_flat:
            raise Unboxed("its rows are no positions of one image")
        r, c, both = ([self.names[self.dims[i].last] for i in dims] for dims in (flat, self.column_dims, shared))
        roles = Roles(r, c, both, [self.k_names[d.last] for d in self.k_dims])
        self._check_elements()
        channels = self.k_dims[-1].extent
        x, w = self.factors
        x = with_taps_apart(self.machine, x, roles, channels)
        first = str(self.kernel.space.fresh("row", 0, positions([self.dims[i].extent for i in flat]) - 1))
        boxes = find_windows(self.kernel, x, roles, first), find_box(self.kernel, w, c[-1], roles.depth[-1])
        if step := step_of(self.machine, x, roles, channels):
            return Feed(flat, boxes, step, first)
        raise Unboxed(f"{channels} channels of a tap or group are no whole steps")

    def _shared(self) -> list[int]:
        """The dims that are neither rows nor columns."""
        return [i for i in range(len(self.dims)) if i not in (*self.row_dims, *self.column_dims)]

    def _is_faster_by_vectors(self) -> bool:
        """Whether TMA copies rows of an image's windows more slowly than threads do, and few columns share them.

        There must be rows enough for all multiprocessors: of fewer, a cluster of `wgmma` shares the sums.
        """
        columns = self._typical(positions([self.dims[i].extent for i in self.column_dims]))
        if self._shared() or columns > FEW_COLUMNS or len(self.k_dims) < 2 or not self._is_convolution():
            return False
        if self._typical(positions([self.dims[i].extent for i in self.row_dims])) < ROWS * self.machine.multiprocessors:
            return False
        image, nbytes = self.factors[0], element_of(self.work.lhs).bytes
        rows = [self.names[self.dims[i].last] for i in self.row_dims]
        taps = [self.k_names[d.last] for d in self.k_dims[:-1]]
        apart = {s for name in (*rows, *taps) for s in image.strides(name)}

        def are_multiples(size: int) -> bool:
            return all(s is not None and exact_div(s * nbytes, size) is not None for s in apart)

        pixel = min((s for s in apart if isinstance(s, int)), default=STEP_BYTES)
        return pixel * nbytes < STEP_BYTES and are_multiples(VECTOR_BYTES) and not are_multiples(WINDOW_BYTES)

    def _whole_steps(self, step: int) -> Dim:
        """k with each tap's channels filled up to whole steps."""
        *taps, channels = (d.extent for d in self.k_dims)
        return positions([*taps, ceildiv(channels, step) * step])

    def _rows(self) -> list[int]:
        """The dims that a tile's rows are of: the innermost if few rows would be spare, else neighbours too."""
        last = self.row_dims[-1]
        extent = self.dims[last].extent
        if isinstance(extent, int) and extent >= 128 and -(-extent // 128) * 128 <= extent * SPARE:
            return [last]
        return self._flat_rows()

    def _flat_rows(self) -> list[int]:
        """The innermost dim of rows and its neighbours."""
        last = first = self.row_dims[-1]
        while first - 1 in self.row_dims:
            first -= 1
        return list(range(first, last + 1))

    def _indexed(self, where: dict[int, Dim]) -> Index:
        return merged_index(len(self.domain), self.dims, [where[i] for i in range(len(self.dims))])

    def _held(self, row: Sequence[Dim], rows: Sequence[int], lane: Lane) -> list[Dim]:
        """The rows' digits as variables whose values are computed here, once."""
        ev = self.kernel.ev
        if len(rows) == 1:
            return list(row)
        out: list[Dim] = []
        with ev.lanes_as(lane, Lane("", 1)):
            codes = [ev.index(d) for d in row]
        for i, code in zip(rows, codes, strict=True):
            out.append(ev.bind("p", 0, self.dims[i].extent - 1, code))
        return out

    def _depth_extents(self) -> list[Dim]:
        """The loops over k; short ones become one."""
        extents = [d.extent for d in self.k_dims]
        if len(extents) > 1 and all(isinstance(d, int) for d in extents[1:]) and at_most(extents[-1], {}) < 32:
            return [positions(extents)]
        return extents

    def _sums(self, tile: ProductTile, index: Index, lhs_index: Index, rows: Lane, columns: Lane) -> Sequence[Value]:
        """The accumulators after all of k, in the order of `works`."""
        kernel, ev, work = self.kernel, self.kernel.ev, self.work
        elem = accumulator(element_of(work.result))
        start = ev.const(0.0 if elem.is_float else 0, elem, (tile.m, tile.n))
        extents = self._depth_extents()
        flat = len(extents) < len(self.k_dims)

        def step(at: Index, k_lane: Lane, carried: Carried) -> list[Value]:
            if flat:
                at = unravel(at[0], [d.extent for d in self.k_dims], kernel.space)
            k = merged_index(len(work.depth), self.k_dims, at)
            every = [pair for w in self.works for pair in w.pairs]
            with ev.lanes_as(rows, k_lane):
                a = {v: operand_tile(kernel, v, work.lhs_at(lhs_index, k), 1) for v, _ in every}
            with ev.lanes_as(k_lane, columns):
                b = {v: operand_tile(kernel, v, work.rhs_at(index, k), 0) for _, v in every}
                if work.scale is not None:
                    b[work.rhs] = self._scaled(b[work.rhs], work.scale_at(index, k))
            return self._multiplied(a, b, start, carried)

        starts = (start,) * len(self.works)
        if not extents:
            return step((), Lane("", 1), starts)
        *outer, last = extents
        width = max(LEAST_SIDE, fitting(last, LEAST_SIDE, tile.k, kernel.space.ranges, slack=0.4))

        if outer and last != 0 and whole_tiles(last, width):  # one loop, which can be pipelined as a whole
            counts = [*outer, floordiv(last, width)]

            def along_all(t: Dim, values: Carried) -> list[Value]:
                *place, q = digits(kernel, t, counts)
                lane, position = lane_along(kernel, last, width, q * width)
                return step((*place, position), lane, values)

            return ev.loop("k", positions(counts), along_all, starts)

        def chunk(at: Index, lanes: Mapping[int, Lane], values: Carried) -> list[Value]:
            return step(at, lanes[len(outer)], values)

        return over_tiles(kernel, extents, [*(1 for _ in outer), width], chunk, starts)

    def _multiplied(
        self, a: Mapping[Value, Value], b: Mapping[Value, Value], zero: Value, carried: Carried
    ) -> list[Value]:
        """What is carried on, with the products of a step: of values their tiles."""
        ev, out = self.kernel.ev, list[Value]()
        for work, before in zip(self.works, carried, strict=True):
            got = zero if work.terms else before
            for v, w in work.pairs:
                got = ev.emit(block.dot, *of_one_element(self.kernel, a[v], b[w]), got)
            out.append(ev.emit(block.add, before, got) if work.terms and before != zero else got)
        return out

    def _boxed_sums(self, tile: ProductTile, feed: Feed, at: Mapping[str, Dim]) -> Sequence[Value]:
        """The same of boxes: steps of one tap each, filled up with zeros."""
        kernel, ev, elem = self.kernel, self.kernel.ev, accumulator(element_of(self.work.result))
        zero = ev.const(0.0 if elem.is_float else 0, elem, (tile.m, tile.n))
        trips = [d.extent for d in self.k_dims[:-1]] + [ceildiv(self.k_dims[-1].extent, tile.k)]

        def step(t: Dim, carried: Carried) -> list[Value]:
            *taps, q = digits(kernel, t, trips)
            depth = zip(self.k_dims, (*taps, q * tile.k), strict=True)
            where = {**at, **{self.k_names[d.last]: position for d, position in depth}}
            tiles: dict[bool, dict[Value, Value]] = {True: {}, False: {}}
            for boxed in feed.boxes:
                f = boxed.factor
                tiles[f.is_left][f.value] = boxed.load(kernel, where, tile.m if f.is_left else tile.n, tile.k)
            return self._multiplied(tiles[True], tiles[False], zero, carried)

        return ev.loop("k", positions(trips), step, (zero,) * len(self.works))


def operand_tile(kernel: Kernel, value: Value, index: Index, k: int) -> Value:
    """A full tile of a product's operand under the lanes, lane `k` of them along k.

    Lanes of k that are cut off must add nothing: loads give 0 there, what is computed is set to 0.
    """
    ev = kernel.ev
    got = ev.shaped(ev.value(value, index), ev.full_shape())
    lane = ev.lanes[k]
    loaded = is_view(value, kernel) and any(lane.name in symbols(i) for i in index)
    made = got.op
    if made is not None and made.kind is block.load_view and made.attrs.get("other", 0) == 0:
        loaded |= k in attr_ints(made, "limited", ())
    return got if lane.limit is None or loaded else live_or(ev, got, 0)
