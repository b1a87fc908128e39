"""Emits attention: scores, softmax and the second contraction for a block of query rows; scores never leave the core.

    for (batch, head) and block of queries:
      keys packed once as [depth, key] panels; for few queries they stay as they lie, each is read once for all queries,
        and scores are sums along depth
      for tile of query rows:
        z = pointwise(q @ k') tile by tile        -> program-local rows
        row reductions over z (max, sum of exp)   -> scalars; the exponentials stay in program-local rows
        p = the operand of the second contraction -> program-local rows
        out = p @ v in register tiles, epilogue, store

The pointwise parts (scale, masks, guards) are whatever the region's body says.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from graphfuse.blockgen.access import as_index, dim_names
from graphfuse.blockgen.evaluate import Lane, Leaf, accumulator, lane_over
from graphfuse.blockgen.index import Index, coefficient
from graphfuse.blockgen.kernel import Kernel, element_of, positions
from graphfuse.blockgen.loops import Carried, Fold, RowTiles, fold_row, for_row_tiles, programs, row_tiles
from graphfuse.blockgen.movement import shape_of
from graphfuse.blockgen.products import Depth, Product, accumulate, column_lane, pack_panel, product_of, store_results
from graphfuse.blockgen.tiling import MatmulTile, matmul_tiles
from graphfuse.dialects import block, graph
from graphfuse.ir.core import Func, Op, Value, made_of
from graphfuse.ir.types import I64
from graphfuse.symbolic import Dim, ceildiv, floordiv, product, sym

FEW_ROWS = 8
"""Query rows that do not repay packing the keys, if their number is known; fewer than half, if it is not, as each then
reads the keys: by hand, 1,024 keys of 64 and 128 f32 and bf16."""
QUERY_BLOCK = 128
"""Query rows of one program at most, in whole tiles: enough to repay packing the keys."""


Staged = tuple[Value, Leaf]
"""What is stored of scores, and where."""


@dataclass(frozen=True)
class Roles:
    """Which dims of the scores are what, and how the second contraction's result is indexed from them."""

    scores: Product
    output: Product
    row: int
    outer: tuple[int, ...]
    out_from_scores: tuple[int | None, ...]
    """Per dim of the output: the scores dim it is, or None for the value-depth dim."""


def emit(kernel: Kernel) -> Func:
    """The whole attention region."""
    return AttentionKernel(kernel).emit()


class AttentionKernel:
    """The state of emitting one attention: what the dims of the scores are, tile sizes."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        contractions = [op for op in kernel.body.ops if op.kind is graph.contract]
        self.first, self.second = contractions
        self.roles = self._find_roles()
        self.shape = shape_of(self.first.result)
        self.keys = self.shape[-1]
        self.rows = self.shape[self.roles.row]
        self.reduces = [op for op in kernel.body.ops if op.kind is graph.reduce]
        self.elem = element_of(self.first.result)
        machine = kernel.machine
        self.lanes = machine.lanes(accumulator(self.elem))
        self.width = _width(self.keys, 2, self.lanes)
        self.padded = ceildiv(self.keys, self.width) * self.width

    @functools.cached_property
    def tile(self) -> MatmulTile:
        """Of both products."""
        kernel, depth = self.kernel, product(self.roles.scores.depth)
        elem = accumulator(self.elem)
        return kernel.chosen(matmul_tiles(kernel.machine, elem, self.rows, 2, depth, kernel.space.ranges))

    def _find_roles(self) -> Roles:
        scores, output = product_of(self.first), product_of(self.second)
        lhs, rhs, out = graph.parse_spec(str(self.first.attrs["spec"]))
        if out[-1] in lhs:
            scores, lhs, rhs = scores.swapped(), rhs, lhs
        rows = [i for i, c in enumerate(out[:-1]) if c in lhs and c not in rhs]
        row = rows[-1] if rows else len(out) - 2
        p_labels, v_labels, o_labels = graph.parse_spec(str(self.second.attrs["spec"]))
        if self.first.result not in made_of(self.second.operands[0]):
            output, p_labels, v_labels = output.swapped(), v_labels, p_labels
        where = tuple(p_labels.index(c) if c in p_labels else None for c in o_labels)
        outer = tuple(i for i in range(len(out) - 1) if i != row)
        return Roles(scores, output, row, outer, where)

    def emit(self) -> Func:
        """Grid over outer dims and blocks of queries."""
        kernel = self.kernel
        whole = isinstance(self.rows, int) and self.rows <= QUERY_BLOCK * 3 // 2
        block_of = QUERY_BLOCK // self.tile.rows * self.tile.rows
        blocks: Dim = 1 if whole else ceildiv(self.rows, block_of)
        extents = [*(self.shape[i] for i in self.roles.outer), blocks]
        grid, (*at, row_block) = programs(kernel, extents)
        self.at = tuple(at)
        block_rows = None if whole else (row_block, block_of)

        def few(height: int) -> None:
            leaves = dict(kernel.ev.leaves)
            self._read_on()
            tiles = partial(for_row_tiles, kernel, self.rows, height, block_rows)
            tiles(lambda row, h, _: self._row_tile(row, h, self._sum_scores))
            kernel.ev.leaves = leaves

        def many() -> None:
            packed = self._pack_keys() if self.tile.rows > 2 or self._turned() else None
            scores = partial(self._multiply_scores, packed)
            tile = self.tile.rows
            for_row_tiles(kernel, self.rows, tile, block_rows, lambda row, h, _: self._row_tile(row, h, scores))

        if not self._are_summed() or (isinstance(self.rows, int) and self.rows > FEW_ROWS):
            many()
        elif isinstance(self.rows, int):
            few(self.rows)
        else:
            are_few = kernel.ev.emit(block.lt, kernel.ev.index(self.rows), kernel.ev.const(FEW_ROWS // 2, I64))
            kernel.ev.branch(are_few, lambda: few(1), lambda _: many())
        depth = product(self.roles.scores.depth)
        total = positions(self.shape) * depth
        per_program = (self.rows if whole else block_of) * self.keys * depth
        return kernel.finish(grid, 50 + per_program * 2 // (self.lanes * 2), {"flops": 4 * total})

    def _index(self, row: Dim, key: Dim) -> Index:
        """The index into the scores."""
        out: list[Dim] = [0] * len(self.shape)
        for i, a in zip(self.roles.outer, self.at, strict=True):
            out[i] = a
        out[self.roles.row] = row
        out[-1] = key
        return tuple(out)

    # stage 0: keys as [panel, depth, lane]

    def _pack_keys(self) -> Leaf:
        ev, work = self.kernel.ev, self.roles.scores
        panels = ceildiv(self.keys, self.width)
        depth = self._depth()
        pointer = ev.emit(block.alloc, elem=element_of(work.rhs), count=self.padded * depth.total)
        leaf = Leaf(pointer, (depth.total * self.width, self.width, 1), (panels, depth.total, self.width))

        turned = self._turned()

        def panel(q: Dim, lane: Lane, key: Dim) -> None:
            to = _packed_at(leaf, q, sym(lane.name))
            pack_panel(self.kernel, work, self._index(0, key), lane, depth, to, together=turned)

        def whole_panel(q: Dim, _: Carried) -> None:
            panel(q, *lane_over(self.kernel.space, self.width, q * self.width))

        def any_panel(q: Dim, _: Carried) -> None:
            panel(q, *column_lane(self.kernel, self.keys, self.width, q * self.width))

        whole = floordiv(self.keys, self.width) if turned else 0
        ev.loop("q", whole, whole_panel)
        ev.loop("q", panels, any_panel, start=whole)
        return leaf

    def _turned(self) -> int:
        """How many steps of k are read at once, where keys are dense along it; else 0."""
        work, space = self.roles.scores, self.kernel.space
        out, depth = dim_names(space, self.shape), dim_names(space, work.depth, "k")
        if not depth:
            return 0
        offsets = self.kernel.reads(work.rhs, work.rhs_at(as_index(out), as_index(depth))).offsets
        return self.lanes if offsets and all(coefficient(o, depth[-1]) == 1 for o in offsets) else 0

    def _depth(self) -> Depth:
        return Depth(self.roles.scores.depth, lambda at: at, self.tile.k_step)

    # one tile of query rows

    def _row_tile(self, row: Dim, height: int, scores: Callable[[Dim, int, Staged], None]) -> None:
        """`scores(row, height, staged)` emits the loop that makes them."""
        ev = self.kernel.ev
        outer, ev.leaves = ev.leaves, dict(ev.leaves)
        staged = self.reduces[0].operands[0]
        z = self._local(staged, row, height)
        scores(row, height, (staged, z))
        ev.leaves[staged] = z
        probabilities = self.roles.output.lhs
        p = self._local(probabilities, row, height)
        ev.loop("r", height, lambda i, _: self._softmax_row(row + i, p))
        ev.leaves[probabilities] = p
        self._values(row, height)
        ev.leaves = outer

    def _local(self, value: Value, row: Dim, height: int) -> Leaf:
        """Program-local rows `row .. row + height` of a value shaped like the scores."""
        pointer = self.kernel.ev.emit(block.alloc, elem=element_of(value), count=self.padded * height)
        strides: list[Dim] = [0] * len(self.shape)
        strides[self.roles.row] = self.padded
        strides[-1] = 1
        shape = (*self.shape[:-1], self.padded)
        return Leaf(pointer, tuple(strides), shape, -row * self.padded)

    def _multiply_scores(self, packed: Leaf | None, row: Dim, height: int, to: Staged) -> None:
        """Register tiles of scores."""
        kernel, work = self.kernel, self.roles.scores
        rows, row = lane_over(kernel.space, height, row)

        def panel(q: Dim, _: Carried) -> None:
            lanes, key = column_lane(kernel, self.keys, self.width, q * self.width)
            index = self._index(row, key)
            source = None if packed is None else _packed_at(packed, q, sym(lanes.name))
            self._stage(accumulate(kernel, work, index, rows, lanes, self._depth(), source), index, rows, lanes, to)

        kernel.ev.loop("q", ceildiv(self.keys, self.width), panel)

    def _read_on(self) -> None:
        """Prefetch from here on the keys and values, which few queries read from memory once."""
        scores, output, space = self.roles.scores, self.roles.output, self.kernel.space
        key, value = (dim_names(space, shape_of(p.result)) for p in (scores, output))
        depth, keys = dim_names(space, scores.depth, "k"), dim_names(space, output.depth, "k")
        read = self.kernel.reads(scores.rhs, scores.rhs_at(as_index(key), as_index(depth)))
        self.kernel.read_rows_ahead(read, key[-1], depth[-1], scores.depth[-1])
        read = self.kernel.reads(output.rhs, output.rhs_at(as_index(value), as_index(keys)))
        self.kernel.read_rows_ahead(read, keys[-1], value[-1], shape_of(output.result)[-1])

    def _sum_scores(self, row: Dim, height: int, to: Staged) -> None:
        """Scores of all rows by a few keys at a time, which are read once: products along depth, then their sums."""
        kernel, ev, work, n = self.kernel, self.kernel.ev, self.roles.scores, self.lanes
        elem = accumulator(self.elem)
        (depth,) = work.depth
        rows, row = lane_over(kernel.space, height, row)
        beside = min(n, max(2, _power_below(kernel.machine.registers * 3 // 4 // height)))
        shape = (height, beside, n)

        def some(lanes: Lane, key: Dim) -> None:
            index = self._index(row, key)

            def step(c: Dim, carried: Carried) -> list[Value]:
                along, k = lane_over(kernel.space, n, c * n)
                with ev.lanes_as(rows, lanes, along):
                    factors = (
                        ev.value(work.lhs, work.lhs_at(index, (k,))),
                        ev.value(work.rhs, work.rhs_at(index, (k,))),
                    )
                    a, b = (ev.shaped(ev.cast(v, elem), shape) for v in factors)
                return [ev.emit(block.add, carried[0], ev.emit(block.mul, a, b))]

            (total,) = ev.loop("c", floordiv(depth, n), step, (ev.const(0.0, elem, shape),))
            self._stage(ev.emit(block.reduce, total, axis=2, kind="sum"), index, rows, lanes, to)

        def all_there(t: Dim, _: Carried) -> None:
            some(*lane_over(kernel.space, beside, t * beside))

        def some_there(t: Dim, _: Carried) -> None:
            some(*lane_over(kernel.space, beside, t * beside, self.keys - t * beside))

        whole = floordiv(self.keys, beside)
        ev.loop("q", whole, all_there)
        ev.loop("q", ceildiv(self.keys, n) * (n // beside), some_there, start=whole)  # whole vectors are read again

    def _are_summed(self) -> bool:
        """Whether scores of few rows are sums of whole vectors along depth."""
        depth = self.roles.scores.depth
        is_whole = len(depth) == 1 and isinstance(depth[0], int) and depth[0] % self.lanes == 0
        return is_whole and self.keys != 1 and accumulator(self.elem).is_float and self._turned() > 0

    def _stage(self, scores: Value, index: Index, rows: Lane, lanes: Lane, to: Staged) -> None:
        """Take a tile of scores through the pointwise ops before the first reduction, and store it locally."""
        ev, space, (staged, z) = self.kernel.ev, self.kernel.space, to
        acc = ev.cast(scores, self.elem)
        with ev.lanes_as(rows, lanes):
            ev.tiles[self.first.result] = (space.position(tuple(index), self.shape), acc)
            got = ev.shaped(ev.value(staged, index), ev.full_shape())
            del ev.tiles[self.first.result]
        with ev.lanes_as(rows, Lane(lanes.name, lanes.extent)):
            ev.store(z, index, got)

    def _softmax_row(self, row: Dim, p: Leaf) -> None:
        """The reductions of one row in order, then the probabilities; the last summed operand is kept on the way."""
        ev = self.kernel.ev
        outer, ev.leaves = ev.leaves, dict(ev.leaves)
        for op in self.reduces:
            (x,) = op.operands
            is_last = op.attrs["kind"] == "sum" and x not in ev.leaves
            keep = p if is_last and element_of(x) == element_of(self.roles.output.lhs) else None
            self._reduce_row(op, row, keep)
            if keep is not None:
                ev.leaves[x] = keep
        target = self.roles.output.lhs
        if target not in ev.leaves:
            store = self._row_tiles(row)(lambda index, _: ev.store(p, index, ev.value(target, index)), lambda _: ())
            for _ in store:
                pass
        ev.leaves = outer

    def _reduce_row(self, op: Op, row: Dim, keep: Leaf | None) -> None:
        ev = self.kernel.ev
        (x,) = op.operands

        def at(index: Index) -> Value:
            got = ev.value(x, index)
            if keep is not None:
                ev.store(keep, index, got)
            return got

        (total,) = fold_row(ev, self._row_tiles(row), [Fold.of(op, at)])
        ev.remember(op.result, self._index(row, 0), total)

    def _row_tiles(self, row: Dim) -> RowTiles:
        """Tiles over the keys of one row of scores."""
        return row_tiles(self.kernel, self.keys, self.lanes, partial(self._index, row))

    # the second contraction

    def _result_index(self, row: Dim, column: Dim) -> Index:
        """The index into the output."""
        scores = self._index(row, 0)
        return tuple(column if w is None else scores[w] for w in self.roles.out_from_scores)

    def _values(self, row: Dim, height: int) -> None:
        columns = shape_of(self.roles.output.result)[-1]
        width, rest = 2 * self.lanes, 0
        if isinstance(columns, int):  # panels about alike, and a last one of its own: masked loads of halves are slow
            most = max(2, self.kernel.machine.registers // 2 // height)  # sums that do not wait for each other
            panels = max(1, -(-columns // (most * self.lanes)))
            width = _width(columns, max(1, -(-columns // (panels * self.lanes))), self.lanes)
            rest = columns % width

        def panel(start: Dim, width: int) -> None:
            self._value_tile(start, row, height, width, columns)

        self.kernel.ev.loop("q", ceildiv(columns - rest, width), lambda q, _: panel(q * width, width))
        if rest:
            panel(columns - rest, -(-rest // self.lanes) * self.lanes)

    def _value_tile(self, start: Dim, row: Dim, height: int, width: int, columns: Dim) -> None:
        kernel, work = self.kernel, self.roles.output
        rows, row = lane_over(kernel.space, height, row)
        lanes, column = column_lane(kernel, columns, width, start)
        index = self._result_index(row, column)
        step = next((k for k in (4, 2) if isinstance(self.keys, int) and self.keys % k == 0), 1)
        acc = accumulate(kernel, work, index, rows, lanes, Depth((self.keys,), lambda at: at, step))
        store_results(kernel, work, index, (rows, lanes), acc)


def _power_below(most: int) -> int:
    """The largest power of two that is no more; 1 for 0."""
    return 1 << (max(1, most).bit_length() - 1)


def _width(extent: Dim, vectors: int, lanes: int) -> int:
    """Lanes of a tile: so many vectors; one along a dim of 1, where a reshape leaves no place for others."""
    return 1 if extent == 1 else vectors * lanes


def _packed_at(panels: Leaf, panel: Dim, lane: Dim) -> Callable[[Dim], tuple[Leaf, Index]]:
    """Where packed panels hold rhs at flat depth k."""
    return lambda k: (panels, (panel, k, lane))
