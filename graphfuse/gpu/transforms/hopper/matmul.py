"""A block function that is a matrix product becomes a persistent kernel of warps with roles.

One thread of a producer warpgroup copies boxes of the operands into a ring of shared buffers (TMA), one or two
consumer warpgroups multiply what is there (`wgmma`) and run the epilogue on their registers. A buffer is handed over by
a barrier that counts bytes, and handed back by one that counts warpgroups. Three schedules: `cooperative`, all
consumers share a tile; `pingpong`, each has tiles of its own and takes turns, so that one's epilogue runs beside the
other's products; `stream`, as cooperative, and blocks share the tiles of the last waves.

The function says what a tile is (shapes, `grid`); a function that is something else is left as it is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from graphfuse.dialects import block, control, gpu
from graphfuse.gpu.transforms.hopper.affine import Box, Scalars, find_box
from graphfuse.gpu.transforms.hopper.config import choose, chunk_width, part_width, read_ahead
from graphfuse.gpu.transforms.hopper.epilogue import Chunk, Clones, Declined, Origin
from graphfuse.gpu.transforms.hopper.lines import has_room, in_lines
from graphfuse.gpu.transforms.hopper.match import Operand, Product, match_product
from graphfuse.gpu.transforms.hopper.order import grouped, placed
from graphfuse.gpu.transforms.hopper.reads import Reads
from graphfuse.gpu.transforms.hopper.share import ALONE, EIGHT, Share, choices, shared
from graphfuse.gpu.transforms.hopper.split import exchange, split_of
from graphfuse.gpu.transforms.hopper.stream import LEAST_STEPS, Piece, steps_of
from graphfuse.gpu.transforms.overlap_launches import constants_of
from graphfuse.ir.core import Attr, Block, Builder, Func, Op, Params, Trait, Value, remade
from graphfuse.ir.layout_families import Wgmma
from graphfuse.ir.passes import passing
from graphfuse.ir.types import BF16, BOOL, F16, F32, I32, I64, Scalar, Tile, scalar
from graphfuse.symbolic import Dim, floordiv, minimum, sym, symbols

log = logging.getLogger(__name__)

READS = (block.load_view, block.load)
ROUNDED = (F16, BF16)
"""What a store by TMA rounds f32 to by itself."""


@passing("gpu")
def hopper_matmul(func: Func) -> Func:
    """The function as a persistent TMA and `wgmma` kernel; itself, with the reason where a tile for one was chosen."""
    found = match_product(func, Scalars(func))
    why = "" if found else "its loop is no product of boxes that TMA copies"
    for blocks in choices(func, found.acc.shape) if found else ():
        scalars = Scalars(func)  # each way names values of its own
        product = match_product(func, scalars)
        assert product is not None, "it was one before"
        try:
            return _Build(func, scalars, product, blocks).func()
        except Declined as reason:
            log.debug("@%s is no product for wgmma of %d by %d blocks: %s", func.name, *blocks, reason)
            why = why or str(reason)
    return _left(func, why)


def _left(func: Func, why: str) -> Func:
    """The function, every block of which makes one program."""
    attrs = {name: value for name, value in func.attrs.items() if name not in ("persistent", "split")}
    attrs |= {gpu.WITHOUT_WGMMA: why} if "schedule" in attrs else {}
    return func if attrs == func.attrs else Func(func.name, func.body, attrs, func.dims)


_Fill = Callable[[Clones, Value], None]
_FillTile = Callable[[Clones, Sequence[Value], Piece | None], Sequence[Value]]
_FillStep = Callable[[Clones, Value, Value, Sequence[Value]], Sequence[Value]]
_Load = Callable[[Clones, Value, Sequence[int]], None]


@dataclass(frozen=True, slots=True)
class _Store:
    """A store of the epilogue, its box if TMA can move it, and the staging memory of its warps."""

    op: Op
    value: Value
    """What is stored, before a rounding that the store does itself."""
    box: Box | None


class _Build:
    """Makes the function again."""

    def __init__(self, func: Func, scalars: Scalars, product: Product, blocks: tuple[int, int]) -> None:
        self.old, self.scalars, self.builder = func, scalars, Builder()
        self.share, self.whole, self.rank = Share(), product.acc, None
        if blocks != ALONE:
            self.rank = self.builder(gpu.cluster_rank, hint="rank")
            self.share, product = shared(self.rank, blocks, product, scalars)
        self.product, self.order = product, grouped(func, product, scalars)
        rows, columns = product.acc.shape
        stored = [op for op in func.body.ops if op.kind is block.store_view]
        self.split = self._split()
        self.steps = steps_of(func, product) if self.share.blocks == 1 else 0
        own = columns // self.split
        self.width = min((chunk_width(own, elem_stored(op).bytes) for op in stored), default=1)
        self.stores = [self._store(op) for op in stored]
        self._check()
        boxed = [s for s in self.stores if s.box]
        self.boxed = len(boxed)
        staged = sum(16 * self.width * elem_stored(s.op).bytes for s in boxed)
        received = rows * columns * product.acc.elem.bytes // self.split * (self.split - 1)
        self.config = choose(func, product, staged, own // self.width, received)
        padded = product.acc.padded_shape[1]
        warps = (4 * self.config.warpgroups, 1)
        self.layout = Wgmma(padded, warps).linear((rows, padded))
        step = min(self.width, part_width(self._of_a_thread))
        self.part_layout = Wgmma(step, warps).linear((64 * self.config.warpgroups, step))
        self.swizzles = [
            _swizzle(o, scalar(product.elem), along_k=product.runs_along_k(i)) for i, o in enumerate(product.operands)
        ]

    @property
    def _of_a_thread(self) -> int:
        """Accumulators."""
        return self.product.accumulated // (self.config.warpgroups * 128)

    def _split(self) -> int:
        """Blocks that share a tile."""
        p, columns = self.product, self.product.acc.shape[1]
        if self.share.blocks > 1:
            return 1
        if p.is_added or len(p.results) > 1 or self.old.attrs.get("schedule") == "pingpong" or columns & columns - 1:
            return 1
        return split_of(self.old, p.trips, columns, self.scalars.ranges)

    def _store(self, op: Op) -> _Store:
        value, elem = op.operands[2], elem_stored(op)
        box = find_box(op, self.scalars)
        if elem.bytes not in (2, 4) or self.width * elem.bytes < 32:
            box = None
        cast = value.op
        if box and cast and cast.kind is block.cast and elem in ROUNDED and _elem(cast.operands[0]) == F32:
            value = cast.operands[0]
        return _Store(op, value, box)

    def _check(self) -> None:
        """Nothing but the loop, arithmetic, reads and views; what is stored has the product's shape and is not read."""
        written = {s.op.operands[0] for s in self.stores}
        for op in self.old.body.ops[:-1]:
            if op.kind in (control.for_, block.store_view) or op.has(Trait.PURE):
                continue
            if op.kind not in READS:
                raise Declined(f"{op.kind.name} beside the product")
        read = {op.operands[0] for op in self.old.walk() if op.kind in READS}
        if not self.stores or not written.isdisjoint(read) or self.old.attrs.get("inplace"):
            raise Declined("what is written is also read" if self.stores else "nothing is stored")
        if any(v.op is not None for v in (*written, *read)):
            raise Declined("a pointer is computed")
        for s in self.stores:
            if not isinstance(s.value.type, Tile) or s.value.type.shape != self.whole.shape:
                raise Declined("a store has another shape than the product")

    # the function

    def func(self) -> Func:
        """Rings and barriers, then a body for each role."""
        c, p, b = self.config, self.product, self.builder
        known = {v: v for v in (*self.old.params, *([] if self.rank is None else [self.rank]))}
        clones = Clones(b, known)
        elem = scalar(p.elem)
        self.rings = [
            b(gpu.shared_alloc, shape=(c.stages, *o.shape), elem=elem, swizzle=swizzle, hint=f"{_side(p, i)}_ring")
            for i, (o, swizzle) in enumerate(zip(p.operands, self.swizzles, strict=True))
        ]
        self.staging = [self._staging(b, elem_stored(s.op)) if s.box else None for s in self.stores]
        self.full = b(gpu.barriers, count=c.stages, arrivals=1, hint="full")
        self.empty = b(gpu.barriers, count=c.stages, arrivals=c.warpgroups * self.share.blocks, hint="empty")
        self.turns = b(gpu.barriers, count=2, arrivals=1, hint="turns") if c.groups > 1 else None
        self.exchange = None
        if self.split > 1:
            self.exchange = exchange(b, self.split, p.accumulated, p.acc.elem, c.warpgroups)
        self._zero_rows(b)
        bodies = (self._role(clones, self._consumer), self._role(clones, self._producer))
        attrs: dict[str, Attr] = {"warps": (4 * c.warpgroups, 4), "groups": (c.groups, 1), "single": (1,)}
        if c.registers:
            attrs["registers"] = c.registers
        blocks = self.split * self.share.blocks
        if blocks > 1:
            attrs["cluster"] = blocks
        b.append(gpu.warp_specialize.build([], attrs, bodies=bodies))
        b.append(self.old.body.terminator)
        new = {**self.old.attrs, "warps": c.warps, "persistent": c.per_multiprocessor}
        new |= {"split": blocks, "cluster": blocks} if blocks > 1 else {}
        new |= {"split": self.steps // LEAST_STEPS} if self.steps else {}
        return Func(self.old.name, b.block(self.old.body.params), new, self.old.dims)

    def _staging(self, b: Builder, elem: Scalar) -> Value:
        count = 4 * self.config.consumers * self.config.store_buffers
        swizzle = self.width * elem.bytes
        return b(gpu.shared_alloc, shape=(count, 16, self.width), elem=elem, swizzle=swizzle, hint="staging")

    def _role(self, clones: Clones, fill: _Fill) -> Block:
        params = Params((I64,), ("group",))
        inner = clones.inside(Builder(), {})
        fill(inner, params.values[0])
        inner.builder.op(control.yield_)
        return inner.builder.block(params)

    def _tiles(self, clones: Clones, group: Value, groups: int, start: Sequence[Value], fill: _FillTile) -> None:
        """The loop over the programs of this block; `fill` returns what is carried on."""
        dealt = ("program", "first", "end") if self.steps else ("program",)
        params = Params((*(I64 for _ in dealt), *(v.type for v in start)), (*dealt, *(v.hint for v in start)))
        (program, *steps), carried = params.values[: len(dealt)], params.values[len(dealt) :]
        piece = Piece(program, steps[0], steps[1], self.scalars.grid, self.steps) if steps else None
        b = Builder()
        own = placed(b, self.order, program)
        ids = {op.result: own for op in self.old.walk() if op.kind is block.program_id}
        inner = clones.inside(b, ids)
        ends = fill(inner, carried, piece)
        inner.builder.op(control.yield_, *ends)
        body = inner.builder.block(params)
        attrs = {"tiles": self.scalars.grid} | ({"groups": groups} if groups > 1 else {})
        blocks = self.split * self.share.blocks
        attrs |= {"split": blocks} if blocks > 1 else {}
        attrs |= {"steps": self.steps} if self.steps else {}
        clones.builder.append(gpu.for_tiles.build([group, *start], attrs, bodies=(body,)))

    def _bounds(self, clones: Clones, piece: Piece | None = None) -> tuple[Value, Value]:
        """Where K begins and ends for this block."""
        p = self.product
        if piece is not None:
            assert isinstance(p.lower, int), "checked before steps are dealt out"
            return piece.bounds(clones.builder, p.lower, p.step)
        if self.exchange is not None:
            assert p.trips is not None, "checked before a sum is split"
            return self.exchange.steps(clones.builder, p.lower, p.trips, p.step)
        return self._value(clones, p.lower), self._value(clones, p.upper)

    def _steps(
        self, clones: Clones, start: Sequence[Value], fill: _FillStep, ends: tuple[Value, Value] | None = None
    ) -> Sequence[Value]:
        """The loop over K, or over a part of it."""
        p = self.product
        lower, upper = ends or self._bounds(clones)
        params = Params((I64, *(v.type for v in start)), ("k", *(v.hint for v in start)))
        counter, *carried = params.values
        inner = clones.inside(Builder(), {p.counter: counter} if p.counter else {})
        inner.builder.op(control.yield_, *fill(inner, lower, counter, carried))
        operands, body = [lower, upper, *start], inner.builder.block(params)
        new = control.for_.build(operands, {"step": p.step} if p.step > 1 else {}, bodies=(body,))
        return clones.builder.append(new).results

    # roles

    def _producer(self, clones: Clones, group: Value) -> None:
        """Fill slot after slot, tile after tile, as soon as it is empty."""
        p, stages = self.product, self.config.stages
        few = self._few_rows()

        def load(inner: Clones, slot: Value, which: Sequence[int]) -> None:
            for i in which:
                operand, ring, rows = p.operands[i], self.rings[i], few[i]
                at = [self._value(inner, d) for d in (*operand.box.start, *operand.box.taps)]
                operands = [operand.box.pointer, ring, slot, self.full, *at]
                attrs: dict[str, Attr] = {**_tensor(operand.box)} | ({"rows": rows} if rows else {})
                parts = self.share.parts(p, i)
                kind = gpu.tma_load if parts == 1 else gpu.tma_load_part
                inner.builder.append(kind.build(operands, attrs | ({"parts": parts} if parts > 1 else {})))

        def step(inner: Clones, _lower: Value, _counter: Value, carried: Sequence[Value]) -> Sequence[Value]:
            (slot,) = carried
            b = inner.builder
            b.op(gpu.wait, self.empty, slot, previous=True)
            self._announce(b, slot)
            load(inner, slot, range(len(p.operands)))
            return [b(gpu.advance, slot, size=stages)]

        def tile(inner: Clones, carried: Sequence[Value], piece: Piece | None) -> Sequence[Value]:
            slot, *begin = carried
            lower, upper = self._bounds(inner, piece)
            (slot,) = self._steps(inner, [slot], step, (begin[0] if begin else lower, upper))
            return [slot, *(lower for _ in begin)]

        if weights := self._weights():
            start = self._fill_first(clones, weights, load)
        else:
            start = (clones.builder(block.const, value=0, elem=I32, hint="slot"),)
        self._tiles(clones, group, 1, start, tile)

    def _weights(self) -> list[int]:
        """Operands that may be copied before the wait for earlier launches: what is copied for the first tile."""
        p, constants = self.product, constants_of(self.old)
        found = [i for i, o in enumerate(p.operands) if o.box.pointer in constants and not o.box.im2col]
        is_simple = self.share.blocks == 1 and p.trips is not None and isinstance(p.lower, int) and not self.steps
        return found if is_simple else []

    def _fill_first(self, clones: Clones, weights: Sequence[int], load: _Load) -> tuple[Value, Value]:
        """Fill the ring for the first tile: with weights, then with the rest. The next slot, and where K goes on."""
        p, b, stages = self.product, clones.builder, self.config.stages
        own, blocks = b(block.program_id), self.split * self.share.blocks
        own = b(block.index, own, expr=floordiv(sym("p"), blocks), names=("p",)) if blocks > 1 else own
        own = placed(b, self.order, own)
        here = clones.inside(b, {op.result: own for op in self.old.walk() if op.kind is block.program_id})
        lower, upper = self._bounds(here)
        end = minimum(sym("lower") + stages * p.step, sym("upper"))
        end = b(block.index, lower, upper, expr=end, names=("lower", "upper"))
        first = slot = b(block.const, value=0, elem=I32, hint="slot")
        others = [i for i in range(len(p.operands)) if i not in weights]
        for announced, which in ((True, weights), (False, others)):
            if not which:
                continue

            def step(
                inner: Clones,
                _lower: Value,
                _counter: Value,
                carried: Sequence[Value],
                announced: bool = announced,
                which: Sequence[int] = which,
            ) -> Sequence[Value]:
                if announced:
                    self._announce(inner.builder, carried[0])
                load(inner, carried[0], which)
                return [inner.builder(gpu.advance, carried[0], size=stages)]

            (slot,) = self._steps(here, [first], step, (lower, end))
        return slot, end

    def _announce(self, b: Builder, slot: Value) -> None:
        """The bytes of a step."""
        p = self.product
        elements = sum((r or o.shape[0]) * o.shape[1] for r, o in zip(self._few_rows(), p.operands, strict=True))
        b.op(gpu.expect, self.full, slot, nbytes=elements * scalar(p.elem).bytes)

    def _consumer(self, clones: Clones, group: Value) -> None:
        """Multiply slot after slot; hand a slot back when the product after it has begun, and so it is read."""
        c, p, b = self.config, self.product, clones.builder
        slot = b(block.const, value=0, elem=I32, hint="slot")
        start, trips = [slot], None
        if self.turns is not None:
            assert p.trips is not None, "checked when the schedule was chosen"
            trips = self._value(clones, p.trips)
            slot = b(gpu.advance, slot, b(block.mul, group, trips), size=c.stages, hint="slot")
            # the barrier of a group's turn has its number; the first group's first turn is the phase before the first
            back = b(block.sub, b(block.const, value=2, elem=I64), group)
            start = [slot, b(gpu.advance, start[0], back, size=2, hint="turn")]

        elif self.exchange is not None:
            start = [slot, self.exchange.first_slot(b)]

        def step(inner: Clones, lower: Value, counter: Value, carried: Sequence[Value]) -> Sequence[Value]:
            slot, last, *accs = carried
            b = inner.builder
            again = b(block.lt, lower, counter)
            b.op(gpu.wait, self.full, slot)
            accs = self._multiply(b, slot, accs, again)
            b.op(gpu.wgmma_wait, pending=len(p.terms))
            self._hand_back(b, last, again)
            return [b(gpu.advance, slot, size=c.stages), slot, *accs]

        def added_step(inner: Clones, _lower: Value, _counter: Value, carried: Sequence[Value]) -> Sequence[Value]:
            slot, *sums = carried
            b = inner.builder
            b.op(gpu.wait, self.full, slot)
            accs = self._multiply(b, slot, self._undefined(b), b(block.const, value=False, elem=BOOL))
            done = b.append(gpu.wgmma_wait.build(accs, {})).results
            self._hand_back(b, slot)
            return [b(gpu.advance, slot, size=c.stages), *map(partial(b, block.add), sums, done)]

        def tile(inner: Clones, carried: Sequence[Value], piece: Piece | None) -> Sequence[Value]:
            slot, *turn = carried
            b, reads, ends = inner.builder, self._reads(), self._bounds(inner, piece)
            if self.exchange is None:  # else it is not known yet which columns
                reads.begin(inner)
            if self.turns is not None:
                b.op(gpu.wait, self.turns, turn[0])
            last = None
            if p.is_added:
                zero = b(block.const, value=0.0, elem=p.acc.elem, shape=p.acc.shape, layout=self.layout)
                slot, *sums = self._steps(inner, [slot, *(zero for _ in p.results)], added_step, ends)
            else:
                slot, last, *sums = self._steps(inner, [slot, slot, *self._undefined(b)], step, ends)
            if self.turns is not None:
                b.op(gpu.arrive, self.turns, b(gpu.advance, turn[0], size=2))
                turn = [b(gpu.advance, turn[0], b(block.const, value=2, elem=I64), size=2)]
            if last is not None:
                sums = b.append(gpu.wgmma_wait.build(sums, {"fence": True})).results
                self._hand_back(b, last)
            if self.exchange is not None:
                turn = [self._shared_epilogue(inner, sums[0], turn[0])]
            else:
                self._finish(inner, sums, reads, piece)
            if trips is not None:
                slot = b(gpu.advance, slot, trips, size=c.stages)
            return [slot, *turn]

        self._tiles(clones, group, c.groups, start, tile)
        if self.boxed:
            b.op(gpu.tma_flush)

    def _hand_back(self, b: Builder, slot: Value, *condition: Value) -> None:
        """A slot to the producers that fill it."""
        if self.share.blocks > 1:
            b.op(gpu.release, self.empty, slot, *condition, blocks=self.share.blocks)
        else:
            b.op(gpu.arrive, self.empty, slot, *condition)

    def _zero_rows(self, b: Builder) -> None:
        """What is never copied of buffers that are larger than their tensors."""
        for rows, ring in zip(self._few_rows(), self.rings, strict=True):
            if rows:
                b.op(gpu.zero_rows, ring, start=rows)

    def _few_rows(self) -> list[int]:
        """Of each operand the rows to copy where the tensor has fewer than the buffer, else 0."""
        p = self.product
        return [_few_rows(o, EIGHT * self.share.parts(p, i)) for i, o in enumerate(p.operands)]

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
            rings = self.rings[t.a], self.rings[t.b]
            transposed: dict[str, Attr] = {"transpose_a": p.is_transposed(t.a), "transpose_b": p.is_transposed(t.b)}
            operands = [*rings, slot, new[t.result], keeps[t.result]]
            new[t.result] = b.append(gpu.wgmma.build(operands, transposed)).result
            keeps[t.result] = b(block.const, value=True, elem=BOOL) if len(p.terms) > len(accs) else keep
        return list(new.values())

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
        b = clones.builder
        height, step = self.part_layout.shape
        for i, (row, column) in enumerate(reads.boxes):
            for at in range(0, self.width, step):
                start = (row, column + at)
                chunk = Chunk(clones, products, start, (height, step), reads.made, reads.first, self._origin())
                reads.go_on(clones)
                for s, staging in zip(self.stores, self.staging, strict=True):
                    self._keep(chunk, s, staging, i, at)
            for s, staging in zip(self.stores, self.staging, strict=True):
                if s.box and staging is not None:
                    *outer, r, c = s.box.start
                    first_row, first_column = self.share.origin
                    first = (*outer, r + first_row + row, c + first_column + column)
                    where = [self._value(clones, d) for d in first]
                    attrs: dict[str, Attr] = {**_tensor(s.box), "buffer": i % self.config.store_buffers}
                    b.append(gpu.tma_store.build([s.op.operands[0], staging, *where], attrs))

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
        room = read_ahead(self._of_a_thread, rows_and_erf=reads_rows and has_erf)
        return Reads(
            first, boxes, self.width, self.part_layout, values, set(self.product.results), room, self._origin()
        )

    def _origin(self) -> Origin:
        """Of this block's part of the tile."""
        return Origin(self.share.origin, {} if self.rank is None else {self.share.rank: self.rank})

    def _keep(self, chunk: Chunk, s: _Store, staging: Value | None, box: int, column: int) -> None:
        """Store a part, or put it where the store by TMA of its box will find it."""
        b = chunk.clones.builder
        value = chunk.tile(s.value, (0, 1), self.part_layout)
        if staging is None:
            pointer, base, _, *limits = s.op.operands
            at, cuts = chunk.view(s.op, (0, 1), base, limits)
            if has_room(self._of_a_thread, s.value, self.product.results):
                value = in_lines(b, value, self.part_layout, s.op, self.scalars)
            b.append(remade(s.op, pointer, at, value, *cuts))
            return
        buffers = self.config.store_buffers
        earlier = sum(other.box is not None for other in self.stores[: self.stores.index(s)])
        wait: dict[str, Attr] = {} if column else {"pending": buffers * self.boxed - 1 - earlier}
        b.append(gpu.stage.build([staging, value], {"buffer": box % buffers, "column": column, **wait}))

    def _value(self, clones: Clones, dim: Dim) -> Value:
        if isinstance(dim, int):
            return clones.builder(block.const, value=dim, elem=I64)
        names = tuple(sorted(symbols(dim) & self.scalars.leaves.keys()))
        operands = [clones(self.scalars.leaves[n]) for n in names]
        wide = [v if v.type == I64 else clones.builder(block.cast, v, to=I64) for v in operands]
        return clones.builder(block.index, *wide, expr=dim, names=names)


def _few_rows(operand: Operand, unit: int = EIGHT) -> int:
    """Rows to copy where the tensor has fewer than the buffer, else 0: TMA takes long to fill up boxes."""
    extent = operand.box.rows
    rows = -(-extent // unit) * unit if isinstance(extent, int) else 0
    return rows if 0 < rows < operand.shape[0] else 0


def _side(product: Product, operand: int) -> str:
    return "b" if any(t.b == operand for t in product.terms) else "a"


def elem_stored(op: Op) -> Scalar:
    """The element that a store writes."""
    return _elem(op.operands[2])


def _elem(value: Value) -> Scalar:
    assert isinstance(value.type, Tile)
    return value.type.elem


def _tensor(box: Box) -> dict[str, Attr]:
    attrs: dict[str, Attr] = {"dims": box.dims, "strides": box.strides, "offset": box.offset}
    if how := box.im2col:
        attrs |= {"lower": how.lower, "upper": how.upper, "steps": how.steps}
    return attrs


def _swizzle(operand: Operand, elem: Scalar, *, along_k: bool) -> int:
    """The widest that rows of the buffer are a multiple of; `along_k`: rows run along K."""
    rows, columns = operand.shape
    depth = columns if along_k else rows
    if depth * elem.bytes % 32 or rows % 8 or rows > 256:
        raise Declined(f"no wgmma on buffers of {rows}x{columns}")
    if elem.bytes != 2 and not along_k:
        raise Declined(f"{elem} operands must be contiguous along K")
    for swizzle in (128, 64, 32):
        if columns * elem.bytes % swizzle == 0:
            return swizzle
    raise Declined(f"rows of {columns * elem.bytes} bytes")
