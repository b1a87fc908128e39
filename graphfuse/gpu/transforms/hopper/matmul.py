"""A block function that is a matrix product becomes a persistent kernel of warps with roles.

One thread of a producer warpgroup copies boxes of the operands into a ring of shared buffers (TMA), one or two
consumer warpgroups multiply what is there (`wgmma`) and run the epilogue on their registers. A buffer is handed over by
a barrier that counts bytes, and handed back by one that counts warpgroups. Three schedules: `cooperative`, all
consumers share a tile; `pingpong`, each has tiles of its own and takes turns, so that one's epilogue runs beside the
other's products; `stream`, as cooperative, and blocks share the tiles of the last waves.

The function says what a tile is (shapes, `grid`); a function that is something else is left as it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from graphfuse.dialects import block, gpu
from graphfuse.gpu.transforms.hopper.affine import Scalars
from graphfuse.gpu.transforms.hopper.config import Config, choose, chunk_width, line_width, part_width, read_ahead
from graphfuse.gpu.transforms.hopper.epilogue import Chunk, Clones, Declined, Origin
from graphfuse.gpu.transforms.hopper.match import Operand, Product
from graphfuse.gpu.transforms.hopper.order import grouped
from graphfuse.gpu.transforms.hopper.reads import Reads
from graphfuse.gpu.transforms.hopper.roles import (
    READS,
    Fill,
    Lines,
    Ring,
    Roles,
    Store,
    Turns,
    elem_stored,
    has_lines,
    number,
    stored_box,
    stores_of,
    swizzle_of,
)
from graphfuse.gpu.transforms.hopper.share import ALONE, EIGHT, Share, shared
from graphfuse.gpu.transforms.hopper.split import exchange, split_of
from graphfuse.gpu.transforms.hopper.stream import LEAST_STEPS, Piece, steps_of
from graphfuse.gpu.transforms.overlap_launches import constants_of
from graphfuse.ir.core import Attr, Builder, Func, Op, Value, attr_dims, remade, tile_of
from graphfuse.ir.layout import LinearLayout
from graphfuse.ir.layout_families import Wgmma
from graphfuse.ir.types import BF16, BOOL, F16, F32, Tile, scalar
from graphfuse.symbolic import bounds, floordiv, minimum, sym

ROUNDED = (F16, BF16)
"""What staging rounds f32 to by itself."""


Sums = tuple[Value, Sequence[Value], Value | None]
"""The next slot, the sums, and the slot of products that are still being made, if any are."""


class MatmulRoles(Roles[Config]):
    """Makes the function again."""

    every_warp = False
    """Whether each warp hands a slot back, which reads it by itself."""

    def __init__(self, func: Func, scalars: Scalars, product: Product, blocks: tuple[int, int]) -> None:
        super().__init__(func, scalars)
        self.share, self.whole, self.rank = Share(), product.acc, None
        if blocks != ALONE:
            self.rank = self.builder(gpu.cluster_rank, hint="rank")
            self.known[self.rank] = self.rank
            self.share, product = shared(self.rank, blocks, product, scalars)
        self.product, self.order = product, grouped(func, product, scalars)
        rows, columns = product.acc.shape
        stored = stores_of(func)
        self.split = self._split()
        self.together = self.split * self.share.blocks
        self.steps = steps_of(func, product) if self.share.blocks == 1 else 0
        own = columns // self.split
        self.width = min(chunk_width(own, elem_stored(op).bytes) for op in stored)
        self.stores = [self._store(op) for op in stored]
        by_tma = any(s.box for s in self.stores)
        if not by_tma:
            self.width = min(line_width(own, elem_stored(op).bytes, len(stored)) for op in stored)
        if any(not isinstance(s.value.type, Tile) or s.value.type.shape != self.whole.shape for s in self.stores):
            raise Declined("a store has another shape than the product")
        staged = sum(s.staged_bytes(self.width) for s in self.stores)
        received = rows * columns * product.acc.elem.bytes // self.split * (self.split - 1)
        self.config = choose(func, product, staged, own // self.width, received, buffers=1 + by_tma)
        padded = product.acc.padded_shape[1]
        self.layout = self._layout(rows, padded)
        step = math.gcd(self.width, part_width(self._of_a_thread))
        self.part_layout = self._layout(self.part_rows, step)
        self.rings = [self.ring] = [self._ring()]

    def _layout(self, rows: int, columns: int) -> LinearLayout:
        """Of sums, or a part of them."""
        return Wgmma(columns, (4 * self.config.warpgroups, 1)).linear((rows, columns))

    @property
    def part_rows(self) -> int:
        """That an epilogue has at a time."""
        return 64 * self.config.warpgroups

    def _ring(self) -> Ring:
        """One slot has what a step of K takes."""
        p, elem, every = self.product, scalar(self.product.elem), range(len(self.product.operands))
        parts = [self.share.parts(p, i) for i in every]
        return Ring(
            self.scalars,
            p.operands,
            [0 if i in p.codes else swizzle_of(o, elem, along_k=p.runs_along_k(i)) for i, o in enumerate(p.operands)],
            [f"{'b' if any(t.b == i for t in p.terms) else 'a'}_ring" for i in every],
            self.config.stages,
            readers=self.config.warpgroups * (4 if self.every_warp else 1) * self.share.blocks,
            rows=[_few_rows(o, EIGHT * n) for o, n in zip(p.operands, parts, strict=True)],
            parts=parts,
            blocks=self.share.blocks,
        )

    @property
    def _of_a_thread(self) -> int:
        """Accumulators."""
        return self.product.accumulated // (self.config.warpgroups * 128)

    def _split(self) -> int:
        """Blocks that share a tile."""
        p, columns = self.product, self.product.acc.shape[1]
        if self.share.blocks > 1 or p.codes:
            return 1
        if p.is_added or len(p.results) > 1 or self.old.attrs.get("schedule") == "pingpong" or columns & columns - 1:
            return 1
        return split_of(self.old, p.trips, columns, self.scalars.ranges)

    def _store(self, op: Op) -> Store:
        value, elem = op.operands[2], elem_stored(op)
        box, cast = stored_box(op, self.scalars, self.width), value.op
        in_lines = box is None and has_lines(op, self.width)
        is_staged = box is not None or in_lines
        if is_staged and cast and cast.kind is block.cast and elem in ROUNDED and tile_of(cast.operands[0]).elem == F32:
            value = cast.operands[0]
        return Store(op, value, box, in_lines)

    def prepare(self, b: Builder) -> None:
        """Turns, the parts of sums that blocks exchange, and rows that are never copied."""
        c, p = self.config, self.product
        # a warp that has not left a barrier must not meet its next phase but one: from the second step on, the first
        # is waited for, which every warp takes part in
        of_one_step = c.groups > 1 and p.trips is not None and bounds(p.trips, self.scalars.ranges)[0] < 2
        self.turns = Turns(b, every_warp=of_one_step) if c.groups > 1 else None
        self.exchange = None
        if self.split > 1:
            self.exchange = exchange(b, self.split, p.accumulated, p.acc.elem, c.warpgroups)
        for rows, buffer in zip(self.ring.rows, self.ring.buffers, strict=True):
            if rows:
                b.op(gpu.zero_rows, buffer, start=rows)

    def launch(self) -> dict[str, Attr]:
        """Persistent, perhaps in clusters."""
        out: dict[str, Attr] = {"persistent": self.config.persistent}
        out |= {"split": self.together, "cluster": self.together} if self.together > 1 else {}
        return out | ({"split": self.steps // LEAST_STEPS} if self.steps else {})

    def _bounds(self, clones: Clones, piece: Piece | None = None) -> tuple[Value, Value]:
        """Where K begins and ends for this block."""
        p = self.product
        if piece is not None:
            assert isinstance(p.lower, int), "checked before steps are dealt out"
            return piece.bounds(clones.builder, p.lower, p.step)
        if self.exchange is not None:
            assert p.trips is not None, "checked before a sum is split"
            return self.exchange.steps(clones.builder, p.lower, p.trips, p.step)
        return number(clones, self.scalars, p.lower), number(clones, self.scalars, p.upper)

    def _steps(self, clones: Clones, start: Sequence[Value], fill: Fill, ends: tuple[Value, Value]) -> Sequence[Value]:
        """The loop over K, or over a part of it."""
        return self.loop(clones, self.product.counter, ends, start, fill, self.product.step)

    # roles

    def producer(self, clones: Clones, group: Value) -> None:
        """Fill slot after slot, tile after tile, as soon as it is empty."""
        weights = self._weights()
        start = self._fill_first(clones, weights) if weights else (self.zero(clones.builder),)
        self._fill(clones, group, start)

    def _fill(self, clones: Clones, group: Value, start: Sequence[Value], which: Sequence[int] | None = None) -> None:
        """Fill slots with those operands, or all; the first tile goes on from `start`: a slot, and maybe where in K."""

        def step(inner: Clones, _counter: Value, carried: Sequence[Value]) -> Sequence[Value]:
            self.ring.fill(inner, carried[0], which=which)
            return [self.ring.next(inner.builder, carried[0])]

        def tile(inner: Clones, carried: Sequence[Value], piece: Piece | None) -> Sequence[Value]:
            slot, *begin = carried
            lower, upper = self._bounds(inner, piece)
            (slot,) = self._steps(inner, [slot], step, (begin[0] if begin else lower, upper))
            return [slot, *(lower for _ in begin)]

        self.tiles(clones, group, 1, start, tile)

    def _weights(self) -> list[int]:
        """Operands that may be copied before the wait for earlier launches: what is copied for the first tile."""
        p, constants = self.product, constants_of(self.old)
        found = [i for i, o in enumerate(p.operands) if o.pointer in constants and not o.box.im2col]
        is_simple = self.share.blocks == 1 and p.trips is not None and isinstance(p.lower, int) and not self.steps
        return found if is_simple else []

    def _fill_first(self, clones: Clones, weights: Sequence[int]) -> tuple[Value, Value]:
        """Fill the ring for the first tile: with weights, then with the rest. The next slot, and where K goes on."""
        p, b, ring = self.product, clones.builder, self.ring
        own = b(block.program_id)
        if self.together > 1:
            own = b(block.index, own, expr=floordiv(sym("p"), self.together), names=("p",))
        here = self.of_program(clones, own)
        lower, upper = self._bounds(here)
        end = minimum(sym("lower") + ring.stages * p.step, sym("upper"))
        end = b(block.index, lower, upper, expr=end, names=("lower", "upper"))
        first = slot = self.zero(b)
        others = [i for i in range(len(p.operands)) if i not in weights]
        for announces, which in ((True, weights), (False, others)):
            if which:
                (slot,) = self._steps(here, [first], self._loading(which, announces=announces), (lower, end))
        return slot, end

    def _loading(self, which: Sequence[int], *, announces: bool) -> Fill:
        """Fills slot after slot with some operands; those that go first `announce` the bytes of all."""
        ring = self.ring

        def step(inner: Clones, _counter: Value, carried: Sequence[Value]) -> Sequence[Value]:
            if announces:
                ring.announce(inner.builder, carried[0])
            ring.load(inner, carried[0], which)
            return [ring.next(inner.builder, carried[0])]

        return step

    def consumer(self, clones: Clones, group: Value) -> None:
        """Multiply slot after slot; hand a slot back when the product after it has begun, and so it is read."""
        p, b, ring = self.product, clones.builder, self.ring
        slot = self.zero(b)
        start, trips = [slot], None
        if self.turns is not None:
            assert p.trips is not None, "checked when the schedule was chosen"
            trips = number(clones, self.scalars, p.trips)
            zero, slot = slot, b(gpu.advance, slot, b(block.mul, group, trips), size=ring.stages, hint="slot")
            start = [slot, self.turns.first(b, zero, group)]
        elif self.exchange is not None:
            start = [slot, self.exchange.first_slot(b)]

        def tile(inner: Clones, carried: Sequence[Value], piece: Piece | None) -> Sequence[Value]:
            slot, *turn = carried
            b, reads, ends = inner.builder, self._reads(), self._bounds(inner, piece)
            if self.exchange is None:  # else it is not known yet which columns
                reads.begin(inner)
            if self.turns is not None:
                self.turns.wait(b, turn[0])
            slot, sums, last = (self._added if p.is_added else self._summed)(inner, slot, ends)
            if self.turns is not None:
                turn = [self.turns.hand_on(b, turn[0])]
            if last is not None:
                sums = b.append(gpu.wgmma_wait.build(sums, {"fence": True})).results
                self._hand_back(b, last)
            if self.exchange is not None:
                turn = [self._shared_epilogue(inner, sums[0], turn[0])]
            else:
                self._finish(inner, sums, reads, piece)
            if trips is not None:
                slot = b(gpu.advance, slot, trips, size=ring.stages)
            return [slot, *turn]

        self.tiles(clones, group, self.config.groups, start, tile)
        self.flush(b)

    def _summed(self, clones: Clones, slot: Value, ends: tuple[Value, Value]) -> Sums:
        """Products summed as they are made."""
        ring = self.ring

        def step(inner: Clones, counter: Value, carried: Sequence[Value]) -> Sequence[Value]:
            slot, last, *accs = carried
            b = inner.builder
            again = b(block.lt, ends[0], counter)
            ring.wait(b, slot)
            accs = self._multiply(b, slot, accs, again)
            b.op(gpu.wgmma_wait, pending=len(self.product.terms))
            self._hand_back(b, last, again)
            return [ring.next(b, slot), slot, *accs]

        slot, last, *sums = self._steps(clones, [slot, slot, *self._undefined(clones.builder)], step, ends)
        return slot, sums, last

    def _added(self, clones: Clones, slot: Value, ends: tuple[Value, Value]) -> Sums:
        """The products of a step by themselves, then added to the sums."""
        p, ring = self.product, self.ring

        def step(inner: Clones, _counter: Value, carried: Sequence[Value]) -> Sequence[Value]:
            slot, *sums = carried
            b = inner.builder
            ring.wait(b, slot)
            accs = self._multiply(b, slot, self._undefined(b), b(block.const, value=False, elem=BOOL))
            done = b.append(gpu.wgmma_wait.build(accs, {})).results
            self._hand_back(b, slot)
            return [ring.next(b, slot), *map(partial(b, block.add), sums, done)]

        zero = clones.builder(block.const, value=0.0, elem=p.acc.elem, shape=p.acc.shape, layout=self.layout)
        slot, *sums = self._steps(clones, [slot, *(zero for _ in p.results)], step, ends)
        return slot, sums, None

    def _undefined(self, b: Builder) -> list[Value]:
        acc = self.product.acc
        return [
            b(gpu.undefined, shape=acc.shape, elem=acc.elem, layout=self.layout, hint="acc")
            for _ in self.product.results
        ]

    def _multiply(self, b: Builder, slot: Value, accs: Sequence[Value], keep: Value) -> list[Value]:
        """Begin a step's products; an accumulator's first may ignore what it holds."""
        p, new = self.product, dict(enumerate(accs))
        keeps = dict.fromkeys(new, keep)
        for t in p.terms:
            buffers = self.ring.buffers[t.a], self.ring.buffers[t.b]
            transposed: dict[str, Attr] = {"transpose_a": p.is_transposed(t.a), "transpose_b": p.is_transposed(t.b)}
            operands = [*buffers, slot, new[t.result], keeps[t.result]]
            new[t.result] = b.append(gpu.wgmma.build(operands, transposed)).result
            keeps[t.result] = b(block.const, value=True, elem=BOOL) if len(p.terms) > len(accs) else keep
        return list(new.values())

    def _hand_back(self, b: Builder, slot: Value, *condition: Value) -> None:
        self.ring.hand_back(b, slot, *condition, every_warp=self.every_warp)

    def _finish(self, clones: Clones, sums: Sequence[Value], reads: Reads, piece: Piece | None) -> None:
        """The epilogue, where it is this block's."""
        if piece is None:
            self._epilogue(clones, dict(zip(self.product.results, sums, strict=True)), reads)
            return

        def then(b: Builder, total: Value) -> None:
            self._epilogue(clones.inside(b, {}), {self.product.results[0]: total}, reads)

        piece.finish(clones.builder, sums[0], then)

    def _shared_epilogue(self, clones: Clones, acc: Value, turn: Value) -> Value:
        """The epilogue of this block's columns of the sum; the next turn."""
        assert self.exchange is not None
        rows, columns = self.product.acc.shape
        own = columns // self.split
        layout = Wgmma(own, (4 * self.config.warpgroups, 1)).linear((rows, own))

        def then(b: Builder, total: Value, first: int) -> None:
            self._epilogue(clones.inside(b, {}), {self.product.results[0]: total}, self._reads(first))

        return self.exchange.add_up(clones.builder, acc, turn, layout, then)

    def _epilogue(self, clones: Clones, products: dict[Value, Value], reads: Reads) -> None:
        """For a box of each store after another: part by part what is stored, into the warps' buffers; the stores."""
        height, step = self.part_layout.shape
        chunk_of = partial(Chunk, clones, products, made=reads.made, first_column=reads.first, origin=self._origin())
        for i, (row, column) in enumerate(reads.boxes):
            whole = chunk_of((row, column), (height, self.width))
            lines = {which: self._lines(whole, store) for which, store in enumerate(self.stores) if store.in_lines}
            for at in range(0, self.width, step):
                chunk = chunk_of((row, column + at), (height, step))
                reads.go_on(clones)
                for which in range(len(self.stores)):
                    self._keep(chunk, which, i, at, lines.get(which))
            for which, store in enumerate(self.stores):
                if store.box:
                    first_row, first_column = self.share.origin
                    self.copy_out(clones, which, i, first_row + row, first_column + column)
                elif which in lines:
                    self.store_lines(clones.builder, which, i, lines[which])

    def _reads(self, first: int = 0) -> Reads:
        """For the columns of this block, from `first` on."""
        rows, columns = self.product.acc.shape
        height = self.part_layout.shape[0]
        last = first + columns // self.split
        boxes = [(r, c) for c in range(first, last, self.width) for r in range(0, rows, height)]
        values = [s.value for s in self.stores]
        ops = self.old.body.ops
        read = [t for op in ops if op.kind in READS for t in op.types if isinstance(t, Tile)]
        reads_rows = all(t.shape != self.whole.shape for t in read)
        has_erf = any(op.kind is block.ELEMENTWISE["erf"] for op in ops)
        in_lines = any(s.in_lines for s in self.stores)
        room = read_ahead(self._of_a_thread, rows_and_erf=reads_rows and has_erf, in_lines=in_lines)
        products, apart = set(self.product.results), {op.result for op in ops if self._is_apart(op)}
        return Reads(first, boxes, self.width, self.part_layout, values, products, room, self._origin(), apart)

    def _is_apart(self, op: Op) -> bool:
        """Whether it reads narrow elements one by one: neighbours are no pair in memory."""
        if op.kind is not block.load_view or tile_of(op.result).elem.bytes >= 4:
            return False
        strides = [d for d in attr_dims(op, "strides") if d not in (0, 1)]
        return any(self.scalars.divisor(d) % 2 for d in (*strides, *map(self.scalars.dim, op.operands[1:])))

    def _origin(self) -> Origin:
        """Of this block's part of the tile."""
        return Origin(self.share.origin, {} if self.rank is None else {self.share.rank: self.rank})

    def _lines(self, box: Chunk, store: Store) -> Lines:
        """Where a store writes the rows of a box."""
        _, base, _, *limits = store.op.operands
        return Lines(*box.view(store.op, (0, 1), base, limits))

    def _keep(self, chunk: Chunk, which: int, box: int, column: int, lines: Lines | None) -> None:
        """Store a part, or put it where the store of its box will find it."""
        b, s = chunk.clones.builder, self.stores[which]
        value = chunk.tile(s.value, (0, 1), self.part_layout)
        if lines is not None:
            self.stage_lines(b, which, value, box, column, lines)
        elif s.box:
            self.stage(b, which, value, box, column)
        else:
            pointer, base, _, *limits = s.op.operands
            at, cuts = chunk.view(s.op, (0, 1), base, limits)
            b.append(remade(s.op, pointer, at, value, *cuts))


def _few_rows(operand: Operand, unit: int = EIGHT) -> int:
    """Rows to copy where the tensor has fewer than the buffer, else 0: TMA takes long to fill up boxes."""
    extent = operand.box.rows
    rows = -(-extent // unit) * unit if isinstance(extent, int) else 0
    return rows if 0 < rows < operand.shape[0] else 0
