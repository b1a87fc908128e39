"""Emits attention: scores, softmax and the second contraction for a block of query rows; scores never leave the core.

    for (batch, head) and block of queries:
      keys packed once as [depth, key] panels
      for tile of query rows:
        z = pointwise(q @ k') tile by tile        -> program-local rows
        row reductions over z (max, sum of exp)   -> scalars; the exponentials stay in program-local rows
        p = the operand of the second contraction -> program-local rows
        out = p @ v in register tiles, epilogue, store

The pointwise parts (scale, masks, guards) are whatever the region's body says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphfuse.blockgen.contraction import Product, for_row_tiles, product_of
from graphfuse.blockgen.evaluate import COMBINE, Lane, Leaf, accumulator, neutral
from graphfuse.blockgen.index import Index, linear, reshape_index, strides_of
from graphfuse.blockgen.kernel import Kernel, element_of, positions
from graphfuse.blockgen.movement import shape_of
from graphfuse.blockgen.pointwise import digits
from graphfuse.blockgen.tiling import matmul_tile, pieces
from graphfuse.dialects import block, graph
from graphfuse.ir.core import Func, Op, Value
from graphfuse.symbolic import Dim, ceildiv, product

QUERY_BLOCK = 128
"""Query rows of one program: enough to repay packing the keys."""


@dataclass(frozen=True)
class _Roles:
    """Which dims of the scores are what, and how the second contraction's result is indexed from them."""

    scores: Product
    output: Product
    row: int
    outer: tuple[int, ...]
    out_from_scores: tuple[int | None, ...]
    """Per dim of the output: the scores dim it is, or None for the value-depth dim."""


def emit(kernel: Kernel) -> Func:
    """The whole attention region."""
    return _AttentionKernel(kernel).emit()


class _AttentionKernel:
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
        self.width = 2 * self.lanes
        depth = product(self.roles.scores.depth)
        self.tile = matmul_tile(machine, accumulator(self.elem), self.rows, 2, depth)
        self.padded = ceildiv(self.keys, self.width) * self.width

    def _find_roles(self) -> _Roles:
        scores, output = product_of(self.first), product_of(self.second)
        lhs, rhs, out = graph.parse_spec(str(self.first.attrs["spec"]))
        if out[-1] in lhs:
            scores, lhs, rhs = scores.swapped(), rhs, lhs
        rows = [i for i, c in enumerate(out[:-1]) if c in lhs and c not in rhs]
        row = rows[-1] if rows else len(out) - 2
        p_labels, v_labels, o_labels = graph.parse_spec(str(self.second.attrs["spec"]))
        if not self._from_first(self.second.operands[0]):
            output, p_labels, v_labels = output.swapped(), v_labels, p_labels
        where = tuple(p_labels.index(c) if c in p_labels else None for c in o_labels)
        outer = tuple(i for i in range(len(out) - 1) if i != row)
        return _Roles(scores, output, row, outer, where)

    def _from_first(self, value: Value) -> bool:
        seen: set[Value] = set()
        stack = [value]
        while stack:
            v = stack.pop()
            if v in seen:
                continue
            seen.add(v)
            if v == self.first.result:
                return True
            stack += v.op.operands if v.op is not None else ()
        return False

    def emit(self) -> Func:
        """Grid over outer dims and blocks of queries."""
        kernel, ev = self.kernel, self.kernel.ev
        whole = isinstance(self.rows, int) and self.rows <= QUERY_BLOCK * 3 // 2
        blocks: Dim = 1 if whole else ceildiv(self.rows, QUERY_BLOCK)
        extents = [*(self.shape[i] for i in self.roles.outer), blocks]
        grid = positions(extents)
        pid = ev.bind("pid", 0, grid - 1, ev.emit(block.program_id))
        *at, row_block = digits(kernel, pid, extents)
        self.at = tuple(at)
        packed = self._pack_keys() if self.tile.rows > 2 else None
        block_rows = None if whole else (row_block, QUERY_BLOCK)
        for_row_tiles(kernel, self.rows, self.tile.rows, block_rows, lambda row, h: self._row_tile(row, h, packed))
        depth = product(self.roles.scores.depth)
        total = positions(self.shape) * depth
        per_program = (self.rows if whole else QUERY_BLOCK) * self.keys * depth
        return kernel.finish(grid, 50 + per_program * 2 // (self.lanes * 2), {"flops": 4 * total})

    def _index(self, row: Dim, key: Dim) -> Index:
        """The index into the scores."""
        out: list[Dim] = [0] * len(self.shape)
        for i, a in zip(self.roles.outer, self.at, strict=True):
            out[i] = a
        out[self.roles.row] = row
        out[-1] = key
        return tuple(out)

    def _limit(self, width: int, start: Dim) -> Dim | None:
        return None if isinstance(self.keys, int) and self.keys % width == 0 else self.keys - start

    # stage 0: keys as [panel, depth, lane]

    def _pack_keys(self) -> Leaf:
        kernel, ev, space = self.kernel, self.kernel.ev, self.kernel.space
        work = self.roles.scores
        depth = product(work.depth)
        pointer = ev.emit(block.alloc, elem=element_of(work.rhs), count=self.padded * depth)
        leaf = Leaf(pointer, (depth * self.width, self.width, 1), (ceildiv(self.keys, self.width), depth, self.width))

        def panel(q: Dim, _: object) -> list[Value]:
            n = space.fresh("l", 0, self.width - 1)
            index = self._index(0, q * self.width + n)

            def nest(left: Sequence[Dim], where: Index) -> list[Value]:
                if left:
                    ev.loop("k", left[0], lambda k, __: nest(left[1:], (*where, k)))
                    return []
                with ev.lanes_as(Lane(str(n), self.width, self._limit(self.width, q * self.width))):
                    got = ev.shaped(ev.value(work.rhs, work.rhs_at(index, where)), (self.width,))
                with ev.lanes_as(Lane(str(n), self.width)):
                    ev.store(leaf, (q, linear(where, strides_of(work.depth)), n), got)
                return []

            return nest(work.depth, ())

        ev.loop("q", ceildiv(self.keys, self.width), panel)
        return leaf

    # one tile of query rows

    def _row_tile(self, row: Dim, height: int, packed: Leaf | None) -> None:
        kernel, ev = self.kernel, self.kernel.ev
        staged = self.reduces[0].operands[0]
        leaves = dict(ev.leaves)
        z = self._local(staged, row, height)
        ev.loop("q", ceildiv(self.keys, self.width), lambda q, _: self._score_tile(q, row, height, staged, z, packed))
        ev.leaves[staged] = z
        probabilities = self.roles.output.lhs
        p = self._local(probabilities, row, height)
        ev.loop("r", height, lambda r, _: self._softmax_row(row + r, p))
        ev.leaves[probabilities] = p
        self._values(row, height)
        ev.leaves.clear()
        ev.leaves.update(leaves)
        assert kernel.ev is ev

    def _local(self, value: Value, row: Dim, height: int) -> Leaf:
        """Program-local rows `row .. row + height` of a value shaped like the scores."""
        pointer = self.kernel.ev.emit(block.alloc, elem=element_of(value), count=self.padded * height)
        strides: list[Dim] = [0] * len(self.shape)
        strides[self.roles.row] = self.padded
        strides[-1] = 1
        shape = (*self.shape[:-1], self.padded)
        return Leaf(pointer, tuple(strides), shape, -row * self.padded)

    def _score_tile(self, q: Dim, row: Dim, height: int, staged: Value, z: Leaf, packed: Leaf | None) -> list[Value]:
        """One register tile of scores, taken through the pointwise ops before the first reduction, stored locally."""
        ev, space, work = self.kernel.ev, self.kernel.space, self.roles.scores
        acc_elem = accumulator(self.elem)
        i, n = space.fresh("l", 0, height - 1), space.fresh("l", 0, self.width - 1)
        rows = Lane(str(i), height)
        lanes = Lane(str(n), self.width, self._limit(self.width, q * self.width))
        index = self._index(row + i, q * self.width + n)
        acc = ev.const(0.0 if acc_elem.is_float else 0, acc_elem, (height, self.width))
        step = self.tile.k_step

        def innermost(k: Dim, outer: Index, carried: Value) -> Value:
            kk = space.fresh("kk", 0, step - 1) if step > 1 else None
            depth = (*outer, k * step + (kk or 0)) if work.depth else ()
            k_lane = Lane(str(kk), step) if kk is not None else Lane("", 1)
            with ev.lanes_as(rows, k_lane):
                a = ev.shaped(ev.value(work.lhs, work.lhs_at(index, depth)), (height, step))
            with ev.lanes_as(k_lane, lanes):
                if packed is None:
                    b = ev.value(work.rhs, work.rhs_at(index, depth))
                else:
                    b = ev.load(packed, (q, linear(depth, strides_of(work.depth)), n))
                b = ev.shaped(b, (step, self.width))
            return ev.emit(block.dot, a, b, carried)

        def nest(left: Sequence[Dim], at: Index, carried: Value) -> Value:
            if not left:
                return innermost(0, at, carried)
            if len(left) == 1:
                return ev.loop("k", left[0] // step, lambda k, c: [innermost(k, at, c[0])], [carried])[0]
            return ev.loop("k", left[0], lambda k, c: [nest(left[1:], (*at, k), c[0])], [carried])[0]

        acc = nest(work.depth, (), acc)
        if acc_elem != self.elem:
            acc = ev.emit(block.cast, acc, to=self.elem)
        with ev.lanes_as(rows, lanes):
            position = space.simplify(linear(index, strides_of(self.shape)))
            ev.tiles[self.first.result] = (position, acc)
            got = ev.value(staged, index)
            del ev.tiles[self.first.result]
            got = ev.shaped(got, ev.full_shape())
        with ev.lanes_as(rows, Lane(str(n), self.width)):
            ev.store(z, index, got)
        return []

    def _softmax_row(self, row: Dim, p: Leaf) -> list[Value]:
        """The reductions of one row in order, then the probabilities; the last summed operand is kept on the way."""
        ev = self.kernel.ev
        leaves = dict(ev.leaves)
        for op in self.reduces:
            (x,) = op.operands
            keep = None
            if op.attrs["kind"] == "sum" and x not in ev.leaves:
                keep = Leaf(p.pointer, p.strides, p.shape, p.offset) if element_of(x) == element_of(self.roles.output.lhs) else None
            self._reduce_row(op, row, keep)
            if keep is not None:
                ev.leaves[x] = keep
        target = self.roles.output.lhs
        if target not in ev.leaves:

            def tile(index: Index, _: tuple[Value, ...]) -> list[Value]:
                ev.store(p, index, ev.value(target, index))
                return []

            self._row_tiles(row, tile, ())
        ev.leaves.clear()
        ev.leaves.update(leaves)
        return []

    def _reduce_row(self, op: Op, row: Dim, keep: Leaf | None) -> None:
        ev = self.kernel.ev
        (x,) = op.operands
        kind = str(op.attrs["kind"])
        elem = element_of(x)
        acc_elem = accumulator(elem) if kind in ("sum", "prod") else elem
        combine = block.ELEMENTWISE[COMBINE[kind]]

        def accumulate(index: Index, carried: tuple[Value, ...]) -> list[Value]:
            got = ev.value(x, index)
            if keep is not None:
                ev.store(keep, index, got)
            if acc_elem != elem:
                got = ev.emit(block.cast, got, to=acc_elem)
            got = ev.shaped(got, ev.full_shape())
            if (live := ev.live_lanes()) is not None:
                got = ev.emit(block.select, live, got, ev.const(neutral(kind, acc_elem), acc_elem, ev.full_shape()))
            return [ev.emit(combine, carried[0], got)]

        total = self._row_tiles(row, accumulate, (kind, acc_elem))
        assert total is not None
        if acc_elem != elem:
            total = ev.emit(block.cast, total, to=elem)
        ev.remember(op.result, self._index(row, 0), total)

    def _row_tiles(self, row: Dim, body: object, reduction: tuple[object, ...]) -> Value | None:
        """Run `body(index, carried)` over the tiles of one row; with a (kind, element), fold what it carries."""
        ev, space = self.kernel.ev, self.kernel.space
        total: Value | None = None
        for piece in pieces(self.keys, self.lanes * 4, self.lanes):
            init: list[Value] = []
            if reduction:
                kind, elem = reduction
                init = [ev.const(neutral(str(kind), elem), elem, (piece.width,))]  # type: ignore[arg-type]

            def tile(t: Dim, carried: tuple[Value, ...], piece: object = piece) -> list[Value]:
                lane = space.fresh("l", 0, piece.width - 1)  # type: ignore[attr-defined]
                first = piece.start + t * piece.width  # type: ignore[attr-defined]
                limit = None if piece.limit is None else piece.limit - first  # type: ignore[attr-defined]
                with ev.lanes_as(Lane(str(lane), piece.width, limit)):  # type: ignore[attr-defined]
                    return body(self._index(row, first + lane), carried)  # type: ignore[operator]

            out = ev.loop("t", piece.count, tile, init)
            if reduction:
                part = ev.emit(block.reduce, out[0], axis=0, kind=str(reduction[0]))
                combine = block.ELEMENTWISE[COMBINE[str(reduction[0])]]
                total = part if total is None else ev.emit(combine, total, part)
        return total

    # the second contraction

    def _values(self, row: Dim, height: int) -> None:
        ev, work = self.kernel.ev, self.roles.output
        out_shape = shape_of(work.result)
        columns = out_shape[-1]
        vectors = 2 if not isinstance(columns, int) else min(2, max(1, -(-columns // self.lanes)))
        width = vectors * self.lanes
        ev.loop("q", ceildiv(columns, width), lambda q, _: self._value_tile(q, row, height, width, columns))

    def _value_tile(self, q: Dim, row: Dim, height: int, width: int, columns: Dim) -> list[Value]:
        kernel, ev, space, work = self.kernel, self.kernel.ev, self.kernel.space, self.roles.output
        elem = element_of(work.result)
        acc_elem = accumulator(elem)
        i, n = space.fresh("l", 0, height - 1), space.fresh("l", 0, width - 1)
        limit = None if isinstance(columns, int) and columns % width == 0 else columns - q * width
        rows, lanes = Lane(str(i), height), Lane(str(n), width, limit)
        scores = self._index(row + i, 0)
        index = tuple(q * width + n if w is None else scores[w] for w in self.roles.out_from_scores)
        step = next((k for k in (4, 2) if isinstance(self.keys, int) and self.keys % k == 0), 1)

        def dot(k: Dim, carried: tuple[Value, ...]) -> list[Value]:
            kk = space.fresh("kk", 0, step - 1) if step > 1 else None
            depth = (k * step + (kk or 0),)
            k_lane = Lane(str(kk), step) if kk is not None else Lane("", 1)
            with ev.lanes_as(rows, k_lane):
                a = ev.shaped(ev.value(work.lhs, work.lhs_at(index, depth)), (height, step))
            with ev.lanes_as(k_lane, lanes):
                b = ev.shaped(ev.value(work.rhs, work.rhs_at(index, depth)), (step, width))
            return [ev.emit(block.dot, a, b, carried[0])]

        start = ev.const(0.0 if acc_elem.is_float else 0, acc_elem, (height, width))
        (acc,) = ev.loop("k", self.keys // step, dot, [start])
        if acc_elem != elem:
            acc = ev.emit(block.cast, acc, to=elem)
        domain = shape_of(work.result)
        with ev.lanes_as(rows, lanes):
            ev.tiles[work.result] = (space.simplify(linear(index, strides_of(domain))), acc)
            for value, leaf in zip(kernel.outputs, kernel.stores, strict=True):
                where = reshape_index(index, domain, shape_of(value), space)
                ev.store(leaf, where, ev.value(value, where))
            del ev.tiles[work.result]
        return []
