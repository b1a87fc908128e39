"""A block function that is attention becomes a kernel of warps with roles.

One thread of a producer warpgroup copies the queries of a tile, and blocks of keys and values, to shared memory (TMA).
Consumer warpgroups have 64 rows each. Their products are `wgmma`; probabilities stay in registers, where scores have
the layout that a factor needs. Iteration j of a consumer:

    begin S = Q K(j)'; begin acc += P(j - 1) V(j - 1)          in its turn, if two warpgroups take turns
    wait for S; softmax of S, while acc is still being summed
    wait for acc; rescale it by what the softmax found

so that exponentials of one warpgroup run beside its own second product and beside the products of the other. The first
block's scores are made before the loops, the last block's product with the values after them. Where the first loop may
not run at all, the program asks which loop the first block is of, and whether there is one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from graphfuse.dialects import block, control, gpu
from graphfuse.gpu.transforms.assign_layouts import project
from graphfuse.gpu.transforms.hopper.affine import Box, Scalars, find_box
from graphfuse.gpu.transforms.hopper.attention_config import choose
from graphfuse.gpu.transforms.hopper.epilogue import Clones, Declined
from graphfuse.gpu.transforms.hopper.match import Operand
from graphfuse.gpu.transforms.hopper.match_attention import Attention, Phase, match_attention
from graphfuse.gpu.transforms.hopper.matmul import elem_stored
from graphfuse.gpu.transforms.hopper.remake import Remake
from graphfuse.ir.core import Attr, Block, Builder, Func, Op, Params, Trait, Value, remade
from graphfuse.ir.layout import LinearLayout
from graphfuse.ir.layout_families import Wgmma
from graphfuse.ir.passes import passing
from graphfuse.ir.types import BOOL, F32, I32, I64, Tile
from graphfuse.symbolic import Dim, symbols

log = logging.getLogger(__name__)


@passing("gpu")
def hopper_attention(func: Func) -> Func:
    """The function as a TMA and `wgmma` kernel; itself, perhaps with the reason, where it cannot be one."""
    scalars = Scalars(func)
    try:
        attention = match_attention(func, scalars)
        return func if attention is None else _Build(func, scalars, attention).func()
    except Declined as reason:
        log.debug("@%s is no attention for wgmma: %s", func.name, reason)
        return Func(func.name, func.body, {**func.attrs, gpu.WITHOUT_WGMMA: str(reason)}, func.dims)


_Fill = Callable[[Clones, Value], None]
_FillTile = Callable[[Clones, Sequence[Value]], Sequence[Value]]


class _Build:
    """Makes the function again."""

    def __init__(self, func: Func, scalars: Scalars, attention: Attention) -> None:
        self.old, self.scalars, self.attention = func, scalars, attention
        self.store, self.row_stores = self._stores()
        self.box = find_box(self.store, scalars)
        stored = elem_stored(self.store)
        self.config = choose(func, attention, stored.bytes)
        if stored.bytes not in (2, 4) or self.config.store_width * stored.bytes < 32:
            self.box = None
        warps = (4 * self.config.warpgroups, 1)
        (rows, keys), (_, columns) = attention.score_type.shape, attention.acc_type.shape
        self.score_layout = Wgmma(keys, warps).linear((rows, keys))
        self.acc_layout = Wgmma(columns, warps).linear((rows, columns))
        self.part_layout = Wgmma(self.config.store_width, warps).linear((rows, self.config.store_width))
        self.rows = [i for i in range(len(attention.inits)) if i != attention.acc]
        self.swizzles = [
            _swizzle(o, attention.elem.bytes, depth=d)
            for o, d in zip(self._sides(attention.phases[0]), (1, 1, 0), strict=True)
        ]

    def _stores(self) -> tuple[Op, list[Op]]:
        """That of the result, and those of rows; else nothing but loops, arithmetic, views of what is not written."""
        stores = [op for op in self.old.body.ops if op.kind is block.store_view]
        for op in self.old.walk():
            effects = not op.has(Trait.PURE) and not op.has(Trait.TERMINATOR)
            if effects and op.kind not in (control.for_, block.store_view, block.load_view, block.load):
                raise Declined(f"{op.kind.name} beside the products")
        read = {op.operands[0] for op in self.old.walk() if op.kind in (block.load_view, block.load)}
        written = {op.operands[0] for op in stores}
        if written & read or self.old.attrs.get("inplace") or any(v.op is not None for v in (*written, *read)):
            raise Declined("what is written is also read, or a pointer is computed")
        whole = [op for op in stores if _shape(op.operands[2]) == self.attention.acc_type.shape]
        rows = [op for op in stores if self._is_row(op.operands[2])]
        if len(whole) != 1 or len(whole) + len(rows) < len(stores):
            raise Declined(f"{len(stores)} stores, {len(whole)} of the result's shape and {len(rows)} of rows")
        return whole[0], rows

    def _is_row(self, value: Value) -> bool:
        """Whether a tile has one element for each query."""
        rows = self.attention.acc_type.shape[0]
        return _shape(value) in ((rows,), (rows, 1))

    def _row_layout(self, value: Value) -> LinearLayout:
        """Of a tile with one element for each query: where the accumulator has its row."""
        if not self._is_row(value):
            raise Declined(f"a tile of {value.type} is carried beside the result")
        rows = self.attention.acc_type.shape[0]
        return project(self.score_layout, (rows, 1)).reshape(_shape(value))

    def _sides(self, phase: Phase) -> tuple[Operand, Operand, Operand]:
        return self.attention.query, phase.keys, phase.values

    # the function

    def func(self) -> Func:
        """Rings and barriers, then a body for each role."""
        c, a, b = self.config, self.attention, Builder()
        clones = Clones(b, {v: v for v in self.old.params})
        counts, names = (1, c.stages, c.stages), ("queries", "keys", "values")
        sides = list(zip(self._sides(a.phases[0]), self.swizzles, counts, names, strict=True))
        self.rings = [
            b(gpu.shared_alloc, shape=(count, *o.shape), elem=a.elem, swizzle=swizzle, hint=name)
            for o, swizzle, count, name in sides
        ]
        self.staging = None
        if self.box is not None:
            stored, width = elem_stored(self.store), c.store_width
            buffers = 4 * c.warpgroups * c.store_buffers
            swizzle = width * stored.bytes
            self.staging = b(gpu.shared_alloc, shape=(buffers, 16, width), elem=stored, swizzle=swizzle, hint="staging")
        self.full = [b(gpu.barriers, count=n, arrivals=1, hint="full") for n in counts]
        readers = (c.warpgroups * (4 if c.query_words else 1), c.warpgroups, c.warpgroups * 4)
        self.empty = [b(gpu.barriers, count=n, arrivals=r, hint="empty") for n, r in zip(counts, readers, strict=True)]
        self.turns = b(gpu.barriers, count=2, arrivals=4, hint="turns") if c.takes_turns else None
        bodies = (self._role(clones, self._consumer), self._role(clones, self._producer))
        attrs: dict[str, Attr] = {"warps": (4 * c.warpgroups, 4), "groups": (1, 1), "single": (1,)}
        if c.registers:
            attrs["registers"] = c.registers
        b.append(gpu.warp_specialize.build([], attrs, bodies=bodies))
        b.append(self.old.body.terminator)
        new = {**self.old.attrs, "warps": c.warps, "persistent": c.persistent, "resident": c.resident}
        return Func(self.old.name, b.block(self.old.body.params), new, self.old.dims)

    def _role(self, clones: Clones, fill: _Fill) -> Block:
        params = Params((I64,), ("group",))
        inner = clones.inside(Builder(), {})
        fill(inner, params.values[0])
        inner.builder.op(control.yield_)
        return inner.builder.block(params)

    def _tiles(self, clones: Clones, group: Value, start: Sequence[Value], fill: _FillTile) -> None:
        """The loop over the programs of this block; `fill` returns what is carried on."""
        params = Params((I64, *(v.type for v in start)), ("program", *(v.hint for v in start)))
        program, *carried = params.values
        ids = {op.result: program for op in self.old.walk() if op.kind is block.program_id}
        inner = clones.inside(Builder(), ids)
        inner.builder.op(control.yield_, *fill(inner, carried))
        body = inner.builder.block(params)
        clones.builder.append(gpu.for_tiles.build([group, *start], {"tiles": self.scalars.grid}, bodies=(body,)))

    def _loop(
        self, clones: Clones, phase: Phase, lower: Value, start: Sequence[Value], fill: _FillTile
    ) -> Sequence[Value]:
        """A phase's blocks from `lower` on."""
        params = Params((I64, *(v.type for v in start)), ("block", *(v.hint for v in start)))
        counter, *carried = params.values
        inner = clones.inside(Builder(), {phase.counter: counter})
        inner.builder.op(control.yield_, *fill(inner, carried))
        operands, body = [lower, clones(phase.loop.operands[1]), *start], inner.builder.block(params)
        return clones.builder.append(control.for_.build(operands, {}, bodies=(body,))).results

    # the producer

    def _producer(self, clones: Clones, group: Value) -> None:
        """Queries of a tile, then its blocks of keys and values, as soon as there is room."""
        stages = self.config.stages

        def tile(inner: Clones, carried: Sequence[Value]) -> Sequence[Value]:
            query, slot = carried
            self._copy(inner, 0, self.attention.query, query)

            def step(at: Clones, carried: Sequence[Value], phase: Phase) -> Sequence[Value]:
                (slot,) = carried
                self._copy(at, 1, phase.keys, slot)
                self._copy(at, 2, phase.values, slot)
                return [at.builder(gpu.advance, slot, size=stages)]

            for phase in self.attention.phases:
                lower = inner(phase.loop.operands[0])
                (slot,) = self._loop(inner, phase, lower, [slot], lambda at, c, p=phase: step(at, c, p))
            return [inner.builder(gpu.advance, query, size=1), slot]

        zero = clones.builder(block.const, value=0, elem=I32, hint="slot")
        self._tiles(clones, group, [zero, zero], tile)

    def _copy(self, clones: Clones, side: int, operand: Operand, slot: Value) -> None:
        b = clones.builder
        b.op(gpu.wait, self.empty[side], slot, previous=True)
        rows, columns = operand.shape
        b.op(gpu.expect, self.full[side], slot, nbytes=rows * columns * self.attention.elem.bytes)
        at = [self._value(clones, d) for d in operand.box.start]
        operands = [operand.box.pointer, self.rings[side], slot, self.full[side], *at]
        b.append(gpu.tma_load.build(operands, _tensor(operand.box)))

    # consumers

    def _consumer(self, clones: Clones, group: Value) -> None:
        """Tiles one after another; the slots of queries, keys and values go on from tile to tile."""
        b = clones.builder
        zero = b(block.const, value=0, elem=I32, hint="slot")
        start = [zero, zero, zero]
        if self.turns is not None:  # the first warpgroup's first turn is the phase before the first
            self.own = b(gpu.warpgroup, hint="own")
            back = b(block.sub, b(block.const, value=2, elem=I64), self.own)
            start.append(b(gpu.advance, zero, back, size=2, hint="turn"))
        self._tiles(clones, group, start, self._tile)
        if self.staging is not None:
            b.op(gpu.tma_flush)

    def _tile(self, clones: Clones, carried: Sequence[Value]) -> Sequence[Value]:
        """The first scores, the loops, the last product and the epilogue."""
        a, b = self.attention, clones.builder
        query, key, value, *turn = carried
        begin = Remake(clones, {}, self.score_layout)
        inits = [begin(a.inits[i], self._row_layout(a.inits[i])) for i in self.rows]
        b.op(gpu.wait, self.full[0], query)
        held = self._hold(b, query)
        state = [key, value, *turn]
        if a.any_runs:
            *state, acc = self._blocks(clones, inits, held, state)
        else:
            none = clones.inside(Builder(), {})
            nothing = begin(a.inits[a.acc], self.acc_layout)
            none.builder.op(control.yield_, *state, *inits, nothing)
            some = clones.inside(Builder(), {})
            some.builder.op(control.yield_, *self._blocks(some, inits, held, state))
            runs = [self._runs(clones, phase) for phase in a.phases]
            *state, acc = self._choose(b, self._any(b, runs), some.builder, none.builder)
        if not self.config.query_words:
            b.op(gpu.arrive, self.empty[0], query)
        state, rows = state[: 2 + len(turn)], state[2 + len(turn) :]
        ends = dict(zip((a.results[i] for i in self.rows), rows, strict=True))
        self._epilogue(clones, {**ends, a.results[a.acc]: acc})
        return [b(gpu.advance, query, size=1), *state]

    def _blocks(self, clones: Clones, rows: Sequence[Value], held: Value, slots: Sequence[Value]) -> list[Value]:
        """All blocks of keys, at least one: the slots after them, rows, and the result."""
        a, b, stages = self.attention, clones.builder, self.config.stages
        key, value, *turn = slots
        b.op(gpu.wait, self.full[1], key)
        scores = self._scores(b, held, key)
        scores = b.append(gpu.wgmma_wait.build([scores], {})).result
        b.op(gpu.arrive, self.empty[1], key)
        key = b(gpu.advance, key, size=stages)
        p, *rows = self._first(clones, a.phases if not a.first_runs else a.phases[:1], rows, scores)
        acc = b(gpu.undefined, shape=a.acc_type.shape, elem=F32, layout=self.acc_layout, hint="acc")
        keep = b(block.const, value=False, elem=BOOL, hint="keep")
        state: Sequence[Value] = [key, value, keep, *turn, p, acc, *rows]
        before: list[Value] = []
        for i, phase in enumerate(a.phases):
            lower = clones(phase.loop.operands[0])
            if i == 0:
                lower = b(block.add, lower, b(block.const, value=1, elem=I64))
            elif not a.first_runs:  # one block less, if the first of all was this loop's
                is_first = b(block.ELEMENTWISE["not"], self._any(b, before))
                lower = b(block.add, lower, b(block.cast, is_first, to=I64))
            before.append(self._runs(clones, phase))
            state = self._loop(clones, phase, lower, state, lambda at, c, ph=phase: self._step(at, c, ph, held))
        key, value, keep, *rest = state
        turn, (p, acc, *rows) = rest[: len(turn)], rest[len(turn) :]
        b.op(gpu.wait, self.full[2], value)
        acc = self._sum(b, p, value, acc, keep)
        acc = b.append(gpu.wgmma_wait.build([acc], {"fence": True})).result
        b.op(gpu.arrive, self.empty[2], value, every_warp=True)
        return [key, b(gpu.advance, value, size=stages), *turn, *rows, acc]

    def _first(self, clones: Clones, phases: Sequence[Phase], rows: Sequence[Value], scores: Value) -> Sequence[Value]:
        """Probabilities, as a factor, and rows of the first block, which is of the first of these loops that runs."""
        first, *others = phases

        def made(b: Builder) -> list[Value]:
            lower = clones.inside(b, {})(first.loop.operands[0])
            make = self._remake(clones.inside(b, {first.counter: lower}), first, rows)
            new, p = self._softmax(make, first, scores)
            return [b(gpu.pack, p, elem=self.attention.elem, hint="p"), *new]

        if not others:
            return made(clones.builder)
        then = Builder()
        then.op(control.yield_, *made(then))
        other = clones.inside(Builder(), {})
        other.builder.op(control.yield_, *self._first(other, others, rows, scores))
        return self._choose(clones.builder, self._runs(clones, first), then, other.builder)

    def _runs(self, clones: Clones, phase: Phase) -> Value:
        lower, upper = (clones(v) for v in phase.loop.operands[:2])
        return clones.builder(block.lt, lower, upper)

    def _any(self, b: Builder, conditions: Sequence[Value]) -> Value:
        out, *rest = conditions
        for other in rest:
            out = b(block.ELEMENTWISE["or"], out, other)
        return out

    def _choose(self, b: Builder, condition: Value, then: Builder, other: Builder) -> Sequence[Value]:
        """The values that one of two bodies hands on."""
        bodies = (then.block(Params(())), other.block(Params(())))
        return b.append(control.if_.build([condition], {}, bodies=bodies)).results

    def _step(self, clones: Clones, carried: Sequence[Value], phase: Phase, query: Value) -> Sequence[Value]:
        """A block of keys, and the product with the values of the block before it."""
        b, stages = clones.builder, self.config.stages
        key, value, keep, *rest = carried
        turn, (p, acc, *rows) = rest[: len(rest) - 2 - len(self.rows)], rest[len(rest) - 2 - len(self.rows) :]
        b.op(gpu.wait, self.full[1], key)
        if self.turns is not None:
            b.op(gpu.wait, self.turns, turn[0])
        scores = self._scores(b, query, key)
        b.op(gpu.wait, self.full[2], value)
        acc = self._sum(b, p, value, acc, keep)
        if self.turns is not None:
            b.op(gpu.arrive, self.turns, b(gpu.advance, turn[0], size=2), every_warp=True)
            turn = [b(gpu.advance, turn[0], b(block.const, value=2, elem=I64), size=2)]
        make = self._remake(clones, phase, rows)
        make.read_ahead(phase.probabilities, self.score_layout, self.config.read_ahead)
        scores = b.append(gpu.wgmma_wait.build([scores], {"pending": 1})).result
        b.op(gpu.arrive, self.empty[1], key)
        rows, p = self._softmax(make, phase, scores)
        # passed already: it keeps the assembler from moving the wait below up before the softmax. A warp that comes
        # late must find the same phase, so every warp has to say that it is done with the slot
        b.op(gpu.wait, self.full[2], value)
        acc = b.append(gpu.wgmma_wait.build([acc], {})).result
        b.op(gpu.arrive, self.empty[2], value, every_warp=True)
        p = b(gpu.pack, p, elem=self.attention.elem, hint="p")
        make.add(phase.carried[self.attention.acc], acc)
        acc = make(phase.output.operands[2], self.acc_layout)
        key, value = (b(gpu.advance, slot, size=stages) for slot in (key, value))
        return [key, value, b(block.const, value=True, elem=BOOL), *turn, p, acc, *rows]

    def _hold(self, b: Builder, query: Value) -> Value:
        """The queries as words in registers, if there is room for them, else their slot."""
        if not self.config.query_words:
            return query
        rows, depth = self.attention.query.shape
        layout = Wgmma(depth, (4 * self.config.warpgroups, 1)).linear((rows, depth))
        at = b(block.const, value=0, elem=I64)
        words = b(gpu.pack, b(gpu.load_shared, self.rings[0], at, layout=layout), elem=self.attention.elem, hint="q")
        b.op(gpu.arrive, self.empty[0], query, every_warp=True)
        return words

    def _scores(self, b: Builder, query: Value, key: Value) -> Value:
        """Begin Q K'; `query` is what `_hold` gave."""
        type_, first = self.attention.score_type, self.attention.phases[0]
        nothing = b(gpu.undefined, shape=type_.shape, elem=type_.elem, layout=self.score_layout, hint="scores")
        keep = b(block.const, value=False, elem=BOOL)
        flags: dict[str, Attr] = {"transpose_b": first.keys.transposed}
        if self.config.query_words:
            operands = [query, self.rings[1], key, nothing, keep]
        else:
            operands = [self.rings[0], self.rings[1], key, nothing, keep, query]
            flags["transpose_a"] = self.attention.query.transposed
        return b.append(gpu.wgmma.build(operands, flags)).result

    def _sum(self, b: Builder, p: Value, value: Value, acc: Value, keep: Value) -> Value:
        """Begin acc + P V."""
        operands = [p, self.rings[2], value, acc, keep]
        return b.append(gpu.wgmma.build(operands, {"transpose_b": self.attention.phases[0].values.transposed})).result

    def _remake(self, clones: Clones, phase: Phase, rows: Sequence[Value]) -> Remake:
        """What makes the tiles of an iteration, given what it carries."""
        known = dict(zip((phase.carried[i] for i in self.rows), rows, strict=True))
        return Remake(clones, known, self.score_layout, strict=self.old.attrs.get("numerics") == "strict")

    def _softmax(self, make: Remake, phase: Phase, scores: Value) -> tuple[list[Value], Value]:
        """What an iteration makes of the scores: what it carries of rows, and the probabilities."""
        make.add(phase.scores.result, scores)
        rows = [make(phase.yielded[i], self._row_layout(phase.yielded[i])) for i in self.rows]
        return rows, make(phase.probabilities, self.score_layout)

    def _epilogue(self, clones: Clones, products: dict[Value, Value]) -> None:
        """Each warp's 16 rows, a panel of columns at a time, through its staging buffers; or straight to memory."""
        b, width = clones.builder, self.config.store_width
        make = Remake(clones, products, self.score_layout)
        for op in self.row_stores:
            target, at, row, *ends = op.operands
            new = make(row, self._row_layout(row))
            b.append(remade(op, target, clones(at), new, *(clones(v) for v in ends)))
        pointer, base, value, *limits = self.store.operands
        done = make(value, self.acc_layout)
        if self.staging is None or self.box is None:
            b.append(remade(self.store, pointer, clones(base), done, *(clones(v) for v in limits)))
            return
        buffers = self.config.store_buffers
        for i in range(self.attention.acc_type.shape[1] // width):
            part = b(gpu.part, done, start=(0, i * width), layout=self.part_layout)
            b.append(gpu.stage.build([self.staging, part], {"buffer": i % buffers, "pending": buffers - 1}))
            *outer, row, column = self.box.start
            at = [self._value(clones, d) for d in (*outer, row, column + i * width)]
            b.append(gpu.tma_store.build([pointer, self.staging, *at], {**_tensor(self.box), "buffer": i % buffers}))

    def _value(self, clones: Clones, dim: Dim) -> Value:
        if isinstance(dim, int):
            return clones.builder(block.const, value=dim, elem=I64)
        names = tuple(sorted(symbols(dim) & self.scalars.leaves.keys()))
        operands = [clones(self.scalars.leaves[n]) for n in names]
        return clones.builder(block.index, *operands, expr=dim, names=names)


def _shape(value: Value) -> tuple[int, ...]:
    return value.type.shape if isinstance(value.type, Tile) else ()


def _tensor(box: Box) -> dict[str, Attr]:
    return {"dims": box.dims, "strides": box.strides, "offset": box.offset}


def _swizzle(operand: Operand, size: int, *, depth: int) -> int:
    """The widest that rows of the buffer are a multiple of; dim `depth` of the factor is summed over."""
    rows, columns = operand.shape
    k = operand.shape[1 - depth if operand.transposed else depth]
    if k % 16 or rows % 8 or rows > 256:
        raise Declined(f"no wgmma on buffers of {rows}x{columns}")
    for swizzle in (128, 64, 32):
        if columns * size % swizzle == 0:
            return swizzle
    raise Declined(f"rows of {columns * size} bytes")
