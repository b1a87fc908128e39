"""Emits attention for GPUs: a block of query rows per program, keys in blocks, scores only in registers.

When what lies between the two products is a softmax, one walk over the keys does it all (Dao et al., FlashAttention):
with m the largest score so far and l the sum of exponentials so far,

    m' = max(m, rows of z);  e = exp(z - m');  c = exp(m - m')
    l = l c + sum e;  acc = acc c + e @ v

and the result is acc / l. Otherwise each reduction is a walk of its own, which computes the scores again, and the last
walk multiplies by the values.

Where indices decide what a query may see (`gpu_mask.py`), blocks of keys that no row of the program sees are not
visited. Those that some row does not see whole come first, then the others without the mask. Programs that visit most
blocks begin first, as far as the keys and values of their heads fit into the cache together. Probabilities that are
rounded to halves are computed as 2^(y scale log2(e) - m log2(e)), one rounding off the scores as they were.

A program makes up to 256 columns of the result, or 512 where two warpgroups share them and shared memory has room: keys
that hold the values, as in latent attention, take it once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from graphfuse.blockgen import gpu_attention_tile
from graphfuse.blockgen.attention import AttentionKernel
from graphfuse.blockgen.evaluate import Lane, Yielded, accumulator, lane_over
from graphfuse.blockgen.gpu_attention_tile import MAX_SHARED_VALUES, MAX_VALUES, AttentionTile
from graphfuse.blockgen.gpu_contraction import operand_tile
from graphfuse.blockgen.gpu_factors import Boxed, Factor, find_box
from graphfuse.blockgen.gpu_mask import MASK, Scores, analyse, span
from graphfuse.blockgen.gpu_matmul_tile import LEAST_SIDE
from graphfuse.blockgen.gpu_tiles import at_most, in_chunks, lane_along, power_of_two
from graphfuse.blockgen.index import Index, unravel
from graphfuse.blockgen.kernel import Kernel, element_of, positions
from graphfuse.blockgen.loops import AtIndex, Carried, Fold, across, digits, live_or, live_or_neutral, programs
from graphfuse.blockgen.movement import shape_of
from graphfuse.blockgen.products import store_results
from graphfuse.blockgen.reduction import levels
from graphfuse.dialects import block
from graphfuse.dialects.boxes import Unboxed
from graphfuse.dialects.gpu import WITHOUT_WGMMA
from graphfuse.dialects.softmax import LOG2_E, Softmax, find_softmax
from graphfuse.ir.core import Attr, Func, Op, Value, made_of, tile_of
from graphfuse.ir.types import BF16, F16, F32, I64, Scalar
from graphfuse.symbolic import Dim, ceildiv, exact_div, floordiv, maximum, minimum, product, substitute

MAX_DEPTH = 256
"""Elements of a query that are multiplied at once. Deeper ones are in parts: in shared memory, where that has room for
all of them, else loaded again for each block of keys."""
WIDE_DEPTH_BYTES, WIDE_VALUES_BYTES, WIDE_KEYS = 256, 512, 16
"""The same in bytes, and keys of a block, where threads multiply f32 or f64 in registers. For 64 queries of 64 or 128
f32, 2.0 to 2.4 instructions for each fma on the emulator (tests/torch/test_population.py); with as much as of halves
2.7, and registers spilled."""
STAGES = 3
"""Blocks of keys, and of values, that shared memory holds in long walks of few rows, which only read; others have 2."""
BOX_BYTES = 16
"""What TMA wants rows and offsets to be multiples of."""
TOO_MANY = "queries have several dims, or more elements than shared memory has room for"


@dataclass(frozen=True, slots=True)
class Sizes:
    """Of a program whose products warps or threads make: queries, keys of a block, warps."""

    rows: int
    keys: int
    warps: int

    def __str__(self) -> str:
        return f"{self.rows}x{self.keys} warps={self.warps}"


def emit(kernel: Kernel) -> Func:
    """The whole attention region."""
    return GpuAttention(kernel).emit()


class GpuAttention(AttentionKernel):
    """One attention on a GPU: lanes over rows, keys, depth and value columns."""

    def emit(self) -> Func:
        """Grid over outer dims, blocks of queries, blocks of value columns."""
        kernel, ev = self.kernel, self.kernel.ev
        columns = shape_of(self.roles.output.result)[-1]
        self.depth = product(self.roles.scores.depth)
        found = find_softmax(self.reduces, self.roles.output.lhs)
        self.scores = None if found is None else self._analyse(found)
        width, tiles = self._width(columns), []
        self.boxes: tuple[Boxed, ...] = ()
        why = "" if found else "no softmax lies between the products"
        try:
            if kernel.machine.has_wgmma and found:
                self.boxes = self._boxes(columns)
                width, tiles = self._width_and_tiles(columns)
        except Unboxed as reason:
            self.boxes, why = (), str(reason)
        size = element_of(self.roles.scores.lhs).bytes
        self.is_narrow = size <= 2
        self.most_depth = MAX_DEPTH if self.is_narrow else WIDE_DEPTH_BYTES // size
        tile = kernel.chosen(tiles) if self.boxes else None
        sizes = Sizes(tile.rows, tile.keys, tile.rows // 16) if tile else self._sizes(width)
        self.height, self.keys_width = sizes.rows, sizes.keys
        height = self.height
        outer = [self.shape[i] for i in self.roles.outer]
        group = self._group(positions(outer), columns)
        extents = [positions(outer) // group, ceildiv(self.rows, height), group, ceildiv(columns, width)]
        if group == 1:
            grid, (*at, r, c) = programs(kernel, [*outer, *extents[1::2]])
        else:
            grid, (high, r, low, c) = programs(kernel, extents)
            at = digits(kernel, high * group + low, outer)
        self.at = tuple(at)
        if self.scores is not None and self.scores.limits and isinstance(extents[1], int):
            r = ev.bind("r", 0, extents[1] - 1, ev.index(extents[1] - 1 - r))  # most work first
        self.first_row = r * height
        self.row_lane, self.row = lane_along(kernel, self.rows, height, self.first_row)
        self.first_column = c * width
        self.column_lane, self.column = lane_along(kernel, columns, width, self.first_column)
        self.query = self._query()
        acc = self._walks() if found is None else self._one_walk(found)
        self._store(acc)
        flops = 2 * positions(self.shape) * (self.depth + columns)
        per_program = height * self.keys * (self.depth + width) // 4096
        attrs: dict[str, Attr] = {"flops": flops, "warps": sizes.warps, "stages": self._stages()}
        if tile is not None:
            attrs |= {"turns": tile.turns, "persistent": tile.persistent, "resident": tile.resident}
            attrs |= {"query_words": tile.query_words}
        elif kernel.machine.has_wgmma:
            attrs[WITHOUT_WGMMA] = why
        if self.scores is not None and self.scores.reason:
            attrs[MASK] = self.scores.reason
        return kernel.finish(grid, 1 + per_program, attrs)

    def _store(self, acc: Value) -> None:
        """The region's results: those made of the rows' reductions alone, and all others."""
        kernel, product = self.kernel, self.roles.output
        rows = {v for v in kernel.outputs if product.result not in made_of(v)}
        index = self._result_index(self.row, self.column)
        store_results(kernel, product, index, (self.row_lane, self.column_lane), acc, only={*kernel.outputs} - rows)
        with kernel.ev.lanes_as(self.row_lane, Lane("", 1)):
            kernel.store_outputs(self._index(self.row, 0), (*self.shape[:-1], 1), rows)

    def _analyse(self, softmax: Softmax) -> Scores:
        """What is known of the scores that the softmax is of, by names of its own for row and key."""
        space = self.kernel.space
        row, key = space.fresh("q", 0, self.rows - 1), space.fresh("k", 0, self.keys - 1)
        self.names = str(row), str(key)
        self.at = tuple(space.fresh("o", 0, self.shape[i] - 1) for i in self.roles.outer)
        self.outer_names = tuple(map(str, self.at))
        z = softmax.largest.operands[0]
        self.is_short = element_of(z) == F32 and element_of(self.roles.output.lhs) in (F16, BF16)
        return analyse(z, self.first.result, self._index(row, key), space, self.names, unscale=self.is_short)

    def _group(self, heads: Dim, columns: Dim) -> int:
        """Heads whose programs run side by side, those with most work first; 1 where all have the same work."""
        if self.scores is None or not self.scores.limits or not isinstance(heads, int):
            return 1
        size = element_of(self.roles.scores.rhs).bytes
        head = at_most(self.keys * (self.depth + columns) * size, self.kernel.space.ranges)
        most = max(1, self.kernel.machine.gpu.memory.cache_bytes // max(1, head))
        return max(g for g in range(1, heads + 1) if heads % g == 0 and g <= most)

    def _boxes(self, columns: Dim) -> tuple[Boxed, ...]:
        """How TMA copies queries, keys and values; raises `Unboxed` where it, or `wgmma`, does not take them."""
        scores, output, space = self.roles.scores, self.roles.output, self.kernel.space
        elem = element_of(scores.lhs)
        if elem not in (F16, BF16) or any(element_of(v) != elem for v in (scores.rhs, output.lhs, output.rhs)):
            raise Unboxed("operands have no element of 16 bits in common")
        if element_of(output.result) not in (F32, elem):
            raise Unboxed(f"the result is of {element_of(output.result)}")
        if len(scores.depth) != 1:
            raise Unboxed(TOO_MANY)
        least = gpu_attention_tile.least_rows(at_most(self.keys, space.ranges), self.kernel.machine)
        if at_most(self.rows, space.ranges) < least:
            raise Unboxed(f"fewer than {least} queries")
        if any(exact_div(d, BOX_BYTES // elem.bytes) is None for d in (self.depth, columns)):
            raise Unboxed(f"rows that are no multiples of {BOX_BYTES} bytes")
        sizes = (self.rows, self.keys, self.depth, columns, *(self.shape[i] for i in self.roles.outer))
        variables = [space.fresh("i", 0, n - 1) for n in sizes]
        row, key, depth, column, *self.at = variables
        self.variables = tuple(map(str, variables))
        extents = dict(zip(self.variables, sizes, strict=True))
        q, k = scores.lhs_at(self._index(row, 0), (depth,)), scores.rhs_at(self._index(row, key), (depth,))
        v = output.rhs_at(self._result_index(row, column), (key,))
        query = Factor.of(self.kernel, scores.lhs, q, extents, is_left=True)
        keys, values = (Factor.of(self.kernel, w.rhs, at, extents) for w, at in ((scores, k), (output, v)))
        pairs = ((query, row, depth), (keys, key, depth), (values, column, key))
        return tuple(find_box(self.kernel, f, str(side), str(summed)) for f, side, summed in pairs)

    def _width_and_tiles(self, columns: Dim) -> tuple[int, list[AttentionTile]]:
        """Columns of the result that a program of warpgroups makes: all, if there is a tile; raises `Unboxed`."""
        results = [v for v in self.kernel.outputs if self.roles.output.result in made_of(v)]
        for most in (MAX_SHARED_VALUES, MAX_VALUES)[len(results) > 1 :]:
            width = self._width(columns, most)
            if tiles := self._tiles(columns, width):
                return width, tiles
        raise Unboxed(TOO_MANY)

    def _width(self, columns: Dim, most: int = MAX_VALUES) -> int:
        """Columns of the result that a program makes."""
        size = element_of(self.roles.scores.lhs).bytes
        most = most if size <= 2 else WIDE_VALUES_BYTES // size
        return max(LEAST_SIDE, min(most, power_of_two(at_most(columns, self.kernel.space.ranges))))

    def _apart(self, columns: Dim, width: int) -> int:
        """Of so many columns of values, how many are copied besides the keys: they are no parts of them."""
        keys, values = self.boxes[1:]
        _, _, depth, column, *_ = self.variables
        own, parts = MAX_VALUES, self._depths()

        def is_part(at: int) -> bool:
            a, b = (
                replace(f.box, start=tuple(substitute(d, {name: at}) for d in f.box.start))
                for f, name in ((keys, depth), (values, column))
            )
            return (at, own) in parts and a.is_alike(b, own)

        if keys.factor.found.of != values.factor.found.of or at_most(columns, self.kernel.space.ranges) > width:
            return width
        return sum(own for at in range(0, width, own) if not is_part(at))

    def _tiles(self, columns: Dim, values: int) -> list[AttentionTile]:
        """Of a program of warpgroups that makes so many of the columns, the best first."""
        machine, ranges = self.kernel.machine, self.kernel.space.ranges
        rows, keys = (at_most(d, ranges) for d in (self.rows, self.keys))
        heads = at_most(positions([self.shape[i] for i in self.roles.outer]), ranges)
        depth = sum(width for _, width in self._depths())
        if values > MAX_VALUES:
            return gpu_attention_tile.tiles_of_sides(depth, self._apart(columns, values), machine)
        return gpu_attention_tile.attention_tiles(depth, values, rows, keys, heads, machine)

    def _depths(self) -> list[tuple[int, int]]:
        """Where the parts of a query begin that are multiplied at once, and how long they are."""
        depth = at_most(self.depth, self.kernel.space.ranges)
        starts = range(0, max(1, depth), MAX_DEPTH)
        return [(at, max(LEAST_SIDE, min(MAX_DEPTH, power_of_two(depth - at)))) for at in starts]

    def _sizes(self, values: int) -> Sizes:
        """As many rows as there are programs for all multiprocessors with."""
        machine, ranges = self.kernel.machine, self.kernel.space.ranges
        narrow = self.is_narrow
        rows = power_of_two(at_most(self.rows, ranges))
        outer = at_most(positions([self.shape[i] for i in self.roles.outer]), ranges)
        height = 128 // max(1, values // 128) if narrow else 64
        while height > LEAST_SIDE and (height >= 2 * rows or outer * -(-rows // height) < machine.multiprocessors):
            height //= 2
        height = height if narrow else min(height, rows)  # tensor cores take rows that are not there, for nothing
        # more keys and a thread's registers run out; a query alone leaves some
        wide_keys = WIDE_KEYS if height > 1 else 2 * WIDE_KEYS
        keys = wide_keys if not narrow else 64 if values <= 64 or height == LEAST_SIDE else 32
        keys = max(LEAST_SIDE, min(keys, power_of_two(at_most(self.keys, ranges))))
        warps = max(2, min(8, height * max(values, 64) // 1024 if narrow else max(4 * (height >= 16), height // 8)))
        best = Sizes(height, keys, warps)
        return self.kernel.chosen([best], () if narrow else [replace(best, rows=max(1, height // 2))])

    def _stages(self) -> int:
        """Blocks of keys on the way, and the one that is read."""
        is_long = at_most(self.keys, self.kernel.space.ranges) > self.kernel.machine.gpu.short_walk
        return STAGES if is_long and self.is_narrow and self.height == LEAST_SIDE and not self.boxes else 2

    # scores

    def _depth_lane(self, first: Dim = 0) -> tuple[Lane, Index]:
        """A lane over the depth of a query (flat, from `first`), and its index."""
        depth = self.roles.scores.depth
        width = max(LEAST_SIDE, min(self.most_depth, power_of_two(at_most(self.depth, self.kernel.space.ranges))))
        lane, position = lane_along(self.kernel, self.depth, width, first)
        return lane, unravel(position, depth, self.kernel.space)

    def _query(self) -> list[Value]:
        """The rows of queries, loaded once, in parts along their depth; nothing when they are too deep."""
        work = self.roles.scores
        if self.boxes:
            return [self._boxed(0, self.height, width, first=first) for first, width in self._depths()]
        if at_most(self.depth, self.kernel.space.ranges) > self.most_depth:
            return []
        lane, k = self._depth_lane()
        with self.kernel.ev.lanes_as(self.row_lane, lane):
            return [operand_tile(self.kernel, work.lhs, work.lhs_at(self._index(self.row, 0), k), 1)]

    def _boxed(self, which: int, side: int, depth: int, key: Dim = 0, lane: str = "", first: int = 0) -> Value:
        """A tile of the queries, keys or values, in a box; `lane` is what runs along the keys from `key` on.

        Of queries and keys it begins at element `first`.
        """
        at = (self.first_row, substitute(key, {lane: 0}), first, self.first_column, *self.at)
        return self.boxes[which].load(self.kernel, dict(zip(self.variables, at, strict=True)), side, depth)

    def _scores(self, lane: Lane, key: Dim) -> Value:
        """A tile of scores in their own element."""
        kernel, ev, work = self.kernel, self.kernel.ev, self.roles.scores
        index = self._index(self.row, key)
        elem = accumulator(self.elem)
        acc = ev.const(0.0, elem, (self.row_lane.extent, lane.extent))

        if self.boxes:
            for a, (first, width) in zip(self.query, self._depths(), strict=True):
                b = self._boxed(1, lane.extent, width, key, lane.name, first)
                acc = ev.emit(block.dot, a, b, acc)
            return ev.cast(acc, self.elem)

        def multiplied(depth: Lane, k: Index, carried: Value) -> Value:
            if self.query:
                (a,) = self.query
            else:
                with ev.lanes_as(self.row_lane, depth):
                    a = operand_tile(kernel, work.lhs, work.lhs_at(index, k), 1)
            with ev.lanes_as(depth, lane):
                b = operand_tile(kernel, work.rhs, work.rhs_at(index, k), 0)
            return ev.emit(block.dot, a, b, carried)

        if self.query:
            acc = multiplied(*self._depth_lane(), acc)
        else:

            def chunk(depth: Lane, position: Dim, carried: Carried) -> list[Value]:
                return [multiplied(depth, unravel(position, work.depth, kernel.space), carried[0])]

            (acc,) = in_chunks(kernel, self.depth, self.most_depth, chunk, (acc,))
        return ev.cast(acc, self.elem)

    def _walk(self, step: AtIndex, start: Carried) -> Carried:
        """`step(index of the scores, carried)` for each block of keys."""

        def chunk(lane: Lane, key: Dim, carried: Carried) -> Yielded:
            return self._at_keys(lane, key, step, carried)

        return in_chunks(self.kernel, self.keys, self.keys_width, chunk, start)

    def _at_keys(self, lane: Lane, key: Dim, step: AtIndex, carried: Carried) -> Yielded:
        """A step on the scores of a block of keys, under lanes over rows and keys."""
        ev, index = self.kernel.ev, self._index(self.row, key)
        scores = self._scores(lane, key)
        with ev.lanes_as(self.row_lane, lane):
            ev.tiles[self.first.result] = (self.kernel.space.position(index, self.shape), scores)
            out = step(index, carried)
            del ev.tiles[self.first.result]
        return out

    def _times_values(self, p: Value, key: Dim, acc: Value) -> Value:
        """acc + p @ values of the block of keys that the lanes run over."""
        ev, work = self.kernel.ev, self.roles.output
        lane = ev.lanes[1]
        p = ev.cast(p, element_of(work.lhs))
        if self.boxes:
            v = self._boxed(2, self.column_lane.extent, lane.extent, key, lane.name)
            return ev.emit(block.dot, p, v, acc)
        with ev.lanes_as(lane, self.column_lane):
            v = operand_tile(self.kernel, work.rhs, work.rhs_at(self._result_index(self.row, self.column), (key,)), 0)
        return ev.emit(block.dot, p, v, acc)

    def _no_result(self) -> Value:
        elem = accumulator(element_of(self.roles.output.result))
        return self.kernel.ev.const(0.0, elem, (self.row_lane.extent, self.column_lane.extent))

    # any reductions

    def _walks(self) -> Value:
        """A walk per reduction, and one that multiplies by the values."""
        ev = self.kernel.ev
        rows = (self.row_lane.extent, 1)
        for level in levels(self.reduces):
            folds = [Fold.of(op, partial(ev.value, op.operands[0])) for op in level]

            def reduced(index: Index, carried: Carried, folds: list[Fold] = folds) -> list[Value]:
                out: list[Value] = []
                for f, acc in zip(folds, carried, strict=True):
                    tile = live_or_neutral(ev, f.kind, f.wide, f.at(index))
                    out.append(f.of_two(ev, acc, across(ev, f.kind, tile, (1,), f.wide)))
                return out

            start = tuple(f.start(ev, rows) for f in folds)
            for op, total in zip(level, self._walk(reduced, start), strict=True):
                self._remember(op, total)
        probabilities = self.roles.output.lhs

        def multiplied(index: Index, carried: Carried) -> list[Value]:
            return [self._times_values(live_or(ev, ev.value(probabilities, index), 0), index[-1], carried[0])]

        return self._walk(multiplied, (self._no_result(),))[0]

    def _remember(self, op: Op, total: Value) -> None:
        total = self.kernel.ev.cast(total, element_of(op.result))
        self.kernel.ev.remember(op.result, self._index(self.row, 0), total)
        if self.rows == 1:  # where it is spread over the keys, the only row is asked for by its number
            self.kernel.ev.remember(op.result, self._index(0, 0), total)

    # softmax

    def _one_walk(self, softmax: Softmax) -> Value:
        """Largest score, sum of exponentials and result together; the largest without the scale that scores have."""
        ev, scores = self.kernel.ev, self.scores
        assert scores is not None
        elem = accumulator(element_of(softmax.largest.operands[0]))
        rows = (self.row_lane.extent, 1)
        add, mul, sub = (block.ELEMENTWISE[n] for n in ("add", "mul", "sub"))
        short, scale = self.is_short, scores.scale
        exp = block.ELEMENTWISE["exp2" if short else "exp"]

        def scaled(value: Value, by: float) -> Value:
            return value if by == 1 else ev.emit(mul, value, ev.const(by, elem, tile_of(value).shape))

        def step(whole: bool, index: Index, carried: Carried) -> list[Value]:
            largest, total, acc = carried
            got = ev.value(scores.whole if whole else scores.tile, index)
            every_row = replace(self.row_lane, limit=None)  # rows that are not there may be anything
            with ev.lanes_as(every_row, ev.lanes[1]):
                tile = live_or_neutral(ev, "max", elem, got)
            larger = ev.emit(block.max_, largest, across(ev, "max", tile, (1,), elem))
            before, after = (self._base(softmax, scaled(v, scale), elem) for v in (largest, larger))
            before, after = self._or_never(softmax, largest, before), self._finite(after)
            if short and scores.is_near:  # one op for each score, where none is so large that the factor ends f32
                before, after = (scaled(v, LOG2_E) for v in (before, after))
                correction = ev.emit(exp, ev.emit(sub, before, after))
                factor = ev.const(scale * LOG2_E, elem, ev.full_shape())
                away = ev.shaped(ev.emit(block.ELEMENTWISE["neg"], after), ev.full_shape())
                e = ev.emit(exp, ev.emit(block.fma, tile, factor, away))
            else:
                away = ev.shaped(after, ev.full_shape())
                correction, e = (
                    ev.emit(exp, scaled(ev.emit(sub, a, b), LOG2_E if short else 1.0))
                    for a, b in ((before, after), (scaled(tile, scale), away))
                )
            total = ev.emit(add, ev.emit(mul, total, correction), across(ev, "sum", e, (1,), elem))
            return [larger, total, self._times_values(e, index[-1], self._scaled(acc, correction, mul))]

        start = (ev.const(-math.inf, elem, rows), ev.const(0.0, elem, rows), self._no_result())
        largest, total, acc = self._visit(step, start)
        self._remember(softmax.largest, scaled(largest, scale))
        self._remember(softmax.sum, total)
        with ev.lanes_as(self.row_lane, Lane("", 1)):
            by = ev.shaped(ev.value(softmax.total, self._index(self.row, 0)), rows)
        fn = block.ELEMENTWISE[softmax.scale.kind.name.removeprefix("graph.")]
        if short and fn is block.div:
            by, fn = ev.emit(block.div, ev.const(1.0, elem, rows), by), mul
        out = self._scaled(acc, by, fn)
        return self._guard(softmax.guard, out, largest, total) if softmax.guard else out

    def _guard(self, guard: str, out: Value, largest: Value, total: Value) -> Value:
        """0 in rows whose probabilities are NaN (their sum is, or it is 0), or whose scores are all -inf."""
        ev, elem = self.kernel.ev, block.elem_of(total.type)
        rows = (self.row_lane.extent, 1)
        if guard == "nan":
            some = ev.emit(block.ELEMENTWISE["gt"], total, ev.const(0.0, elem, rows))
            nothing = ev.emit(block.ELEMENTWISE["not"], some)
        else:
            nothing = ev.emit(block.eq, largest, ev.const(-math.inf, block.elem_of(largest.type), rows))
        t = tile_of(out)
        return ev.emit(block.select, ev.shaped(nothing, t.shape), ev.const(0.0, t.elem, t.shape), out)

    def _visit(self, step: Callable[[bool, Index, Carried], Yielded], start: Carried) -> Carried:
        """`step(seen whole?, index, carried)` for blocks of keys: first those that some rows do not see whole."""
        kernel, space, scores, width = self.kernel, self.kernel.space, self.scores, self.keys_width
        assert scores is not None
        last_row = minimum(self.first_row + self.height, self.rows) - 1
        at = dict(zip(self.outer_names, self.at, strict=True))
        limits = [substitute(d, at) for d in scores.limits]
        seen = span(limits, self.names, (self.first_row, last_row), self.keys, space)
        blocks = ceildiv(self.keys, width)
        if not scores.limits and exact_div(self.keys, width) is not None:
            return self._blocks(step, start, 0, blocks, whole=True)
        ev = kernel.ev

        def bound(hint: str, low: Dim, high: Dim, value: Dim) -> Dim:
            value = space.simplify(maximum(low, minimum(value, high)))
            return value if isinstance(value, int) else ev.bind(hint, low, high, ev.index(value))

        whole_to = bound("w", 0, blocks - 1, floordiv(minimum(seen.all_to, self.keys), width))
        cut = space.simplify(minimum(ceildiv(seen.end, width), blocks) - whole_to)
        if not isinstance(cut, int) or cut < 1:  # written down as a maximum, so that the loop is seen to run
            one = ev.const(1, I64)
            cut = ev.bind("c", 1, blocks - whole_to, ev.emit(block.max_, ev.index(cut), one))
        begin = bound("b", 0, whole_to, floordiv(seen.begin, width))
        whole_from = bound("f", begin, whole_to, ceildiv(seen.all_from, width))
        carried = self._blocks(step, start, whole_to, whole_to + cut, whole=False)
        carried = self._blocks(step, carried, whole_from, whole_to, whole=True)
        return self._blocks(step, carried, begin, whole_from, whole=False)

    def _blocks(
        self, step: Callable[[bool, Index, Carried], Yielded], carried: Carried, begin: Dim, end: Dim, *, whole: bool
    ) -> Carried:
        kernel, width = self.kernel, self.keys_width
        if begin == end:
            return carried

        def chunk(t: Dim, carried: Carried) -> Yielded:
            if whole:
                lane, key = lane_over(kernel.space, width, t * width)
            else:
                lane, key = lane_along(kernel, self.keys, width, t * width)
            return self._at_keys(lane, key, partial(step, whole), carried)

        return kernel.ev.loop("t", end, chunk, carried, begin, inline=not self.boxes)

    def _base(self, softmax: Softmax, largest: Value, elem: Scalar) -> Value:
        """What is subtracted from the scores when `largest` is the largest."""
        ev = self.kernel.ev
        with ev.lanes_as(self.row_lane, Lane("", 1)):
            self._remember(softmax.largest, largest)
            base = ev.shaped(ev.value(softmax.base, self._index(self.row, 0)), (self.row_lane.extent, 1))
            return ev.cast(base, elem)

    def _or_never(self, softmax: Softmax, largest: Value, base: Value) -> Value:
        """-inf where all scores so far are, whatever the base is then: of what is 0, nothing is left."""
        if softmax.base == softmax.largest.result:
            return base
        ev, t = self.kernel.ev, tile_of(base)
        never = ev.const(-math.inf, t.elem, t.shape)
        return ev.emit(block.select, ev.emit(block.eq, largest, never), never, base)

    def _finite(self, base: Value) -> Value:
        """0 where all scores so far are -inf, so that exponentials are 0 and not NaN."""
        ev, elem = self.kernel.ev, block.elem_of(base.type)
        shape = (self.row_lane.extent, 1)
        nothing = ev.emit(block.eq, base, ev.const(-math.inf, elem, shape))
        return ev.emit(block.select, nothing, ev.const(0.0, elem, shape), base)

    def _scaled(self, acc: Value, by: Value, fn: Callable[..., Op]) -> Value:
        """The accumulator times (or over) a value per row."""
        ev = self.kernel.ev
        by = ev.cast(by, block.elem_of(acc.type))
        return ev.emit(fn, acc, ev.shaped(by, (self.row_lane.extent, self.column_lane.extent)))
