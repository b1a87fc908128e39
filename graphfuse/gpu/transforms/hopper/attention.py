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

Results that are too wide for a warpgroup are those of `attention_sides.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphfuse.dialects import block, control, gpu
from graphfuse.gpu.transforms.assign_layouts import project
from graphfuse.gpu.transforms.hopper.affine import Scalars
from graphfuse.gpu.transforms.hopper.attention_config import AttentionConfig, choose
from graphfuse.gpu.transforms.hopper.epilogue import Clones, Declined
from graphfuse.gpu.transforms.hopper.match import Operand
from graphfuse.gpu.transforms.hopper.match_attention import Attention, Phase
from graphfuse.gpu.transforms.hopper.remake import Remake
from graphfuse.gpu.transforms.hopper.roles import (
    Fill,
    Ring,
    Roles,
    Store,
    Turns,
    elem_stored,
    stored_box,
    stores_of,
    swizzle_of,
)
from graphfuse.gpu.transforms.hopper.stream import Piece
from graphfuse.ir.core import Attr, Builder, Func, Op, Params, Value, remade
from graphfuse.ir.layout import LinearLayout
from graphfuse.ir.layout_families import Wgmma
from graphfuse.ir.types import BOOL, F32, I64, Tile


class AttentionRoles(Roles[AttentionConfig]):
    """Makes the function again."""

    def __init__(self, func: Func, scalars: Scalars, attention: Attention) -> None:
        super().__init__(func, scalars)
        self.attention = attention
        store, self.row_stores = self._stores()
        c = self.config = choose(func, attention, elem_stored(store).bytes)
        self.width = c.store_width
        box = stored_box(store, scalars, self.width) if c.store_buffers else None
        self.stores = [Store(store, store.operands[2], box)]
        warps = (4 * c.warpgroups, 1)
        (rows, keys), columns = attention.score_type.shape, attention.acc_type.shape[1] // c.sides
        self.score_layout = Wgmma(keys, warps).linear((rows, keys))
        self.acc_layout = Wgmma(columns, warps).linear((rows, columns))
        self.part_layout = Wgmma(self.width, warps).linear((rows, self.width))
        self.rows = [i for i in range(len(attention.inits)) if i != attention.acc]
        query_readers = c.warpgroups * (4 if c.query_words else 1)
        along_k = not attention.query[0].transposed
        self.queries = self._ring("queries", attention.query, 1, query_readers, along_k=along_k)
        self.rings = (self.queries, *self._key_rings())

    def _key_rings(self) -> Sequence[Ring]:
        """Rings of keys and of values."""
        c, first = self.config, self.attention.phases[0]
        self.keys = self._ring("keys", first.keys, c.stages, c.warpgroups, along_k=first.keys[0].transposed)
        along_k = first.values.transposed
        self.values = self._ring("values", [first.values], c.stages, c.warpgroups * 4, along_k=along_k)
        return self.keys, self.values

    def _ring(self, name: str, parts: Sequence[Operand], stages: int, readers: int, *, along_k: bool) -> Ring:
        elem = self.attention.elem
        swizzles = [swizzle_of(o, elem, along_k=along_k) for o in parts]
        return Ring(self.scalars, parts, swizzles, [name] * len(parts), stages, readers)

    def _stores(self) -> tuple[Op, list[Op]]:
        """That of the result, and those of rows."""
        stores = stores_of(self.old)
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

    def prepare(self, b: Builder) -> None:
        """Turns."""
        self.turns = Turns(b, every_warp=True) if self.config.takes_turns else None

    def launch(self) -> dict[str, Attr]:
        """Persistent, or several side by side."""
        return {"persistent": self.config.persistent, "resident": self.config.resident}

    def _loop(self, clones: Clones, phase: Phase, lower: Value, start: Sequence[Value], fill: Fill) -> Sequence[Value]:
        """A phase's blocks from `lower` on."""
        return self.loop(clones, phase.counter, (lower, clones(phase.loop.operands[1])), start, fill, hint="block")

    # the producer

    def producer(self, clones: Clones, group: Value) -> None:
        """Queries of a tile, then its blocks of keys and values, as soon as there is room."""

        def tile(inner: Clones, carried: Sequence[Value], _piece: Piece | None) -> Sequence[Value]:
            query, slot = carried
            self.queries.fill(inner, query)
            for phase in self.attention.phases:

                def step(at: Clones, _: Value, carried: Sequence[Value], phase: Phase = phase) -> Sequence[Value]:
                    self._fill(at, carried[0], phase)
                    return [self.keys.next(at.builder, carried[0])]

                (slot,) = self._loop(inner, phase, inner(phase.loop.operands[0]), [slot], step)
            return [self.queries.next(inner.builder, query), slot]

        zero = self.zero(clones.builder)
        self.tiles(clones, group, 1, [zero, zero], tile)

    def _fill(self, clones: Clones, slot: Value, phase: Phase) -> None:
        """A block of keys and values."""
        self.keys.fill(clones, slot, phase.keys)
        self.values.fill(clones, slot, [phase.values])

    # consumers

    def consumer(self, clones: Clones, group: Value) -> None:
        """Tiles one after another; the slots of queries, keys and values go on from tile to tile."""
        b = clones.builder
        zero = self.zero(b)
        start = [zero, zero, zero]
        if self.turns is not None:
            start.append(self.turns.first(b, zero, b(gpu.warpgroup, hint="own")))
        self.tiles(clones, group, 1, start, self._tile)
        self.flush(b)

    def _tile(self, clones: Clones, carried: Sequence[Value], _piece: Piece | None) -> Sequence[Value]:
        """The first scores, the loops, the last product and the epilogue."""
        a, b = self.attention, clones.builder
        query, key, value, *turn = carried
        begin = Remake(clones, {}, self.score_layout)
        inits = [begin(a.inits[i], self._row_layout(a.inits[i])) for i in self.rows]
        self.queries.wait(b, query)
        held = self._hold(b, query)
        state = [key, value, *turn]
        if a.any_runs:
            *state, acc = self._blocks(clones, inits, held, state)
        else:
            none = clones.inside(Builder(), {})
            nothing = self._nothing(begin)
            none.builder.op(control.yield_, *state, *inits, nothing)
            some = clones.inside(Builder(), {})
            some.builder.op(control.yield_, *self._blocks(some, inits, held, state))
            runs = [self._runs(clones, phase) for phase in a.phases]
            *state, acc = self._choose(b, self._any(b, runs), some.builder, none.builder)
        if not self.config.query_words:
            self.queries.hand_back(b, query)
        state, rows = state[: 2 + len(turn)], state[2 + len(turn) :]
        ends = dict(zip((a.results[i] for i in self.rows), rows, strict=True))
        self._epilogue(clones, {**ends, a.results[a.acc]: acc})
        return [self.queries.next(b, query), *state]

    def _nothing(self, make: Remake) -> Value:
        """The result where no loop runs."""
        return make(self.attention.inits[self.attention.acc], self.acc_layout)

    def _wait_for_keys(self, b: Builder, key: Value) -> None:
        """Until they are there."""
        self.keys.wait(b, key)

    def _hand_back_keys(self, b: Builder, key: Value) -> None:
        """Once scores are made of them."""
        self.keys.hand_back(b, key)

    def _weights(self, make: Remake, phase: Phase) -> list[Value]:
        """What goes on to the next block beside the rows, for others."""
        del make, phase
        return []

    def _send(self, b: Builder, p: Value, rows: Sequence[Value], slot: Value) -> None:
        """Give others what the last block's scores have become."""

    def _blocks(self, clones: Clones, rows: Sequence[Value], held: Value, slots: Sequence[Value]) -> list[Value]:
        """All blocks of keys, at least one: the slots after them, rows, and the result."""
        a, b = self.attention, clones.builder
        key, value, *turn = slots
        self._wait_for_keys(b, key)
        scores = self._scores(b, held, key)
        scores = b.append(gpu.wgmma_wait.build([scores], {})).result
        self._hand_back_keys(b, key)
        key = self.keys.next(b, key)
        p, *rows = self._first(clones, a.phases if not a.first_runs else a.phases[:1], rows, scores)
        acc = b(gpu.undefined, shape=self.acc_layout.shape, elem=F32, layout=self.acc_layout, hint="acc")
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
            state = self._loop(clones, phase, lower, state, lambda at, _, c, ph=phase: self._step(at, c, ph, held))
        key, value, keep, *rest = state
        turn, (p, acc, *rows) = rest[: len(turn)], rest[len(turn) :]
        self.values.wait(b, value)
        acc = self._sum(b, p, value, acc, keep)
        self._send(b, p, rows, value)
        acc = b.append(gpu.wgmma_wait.build([acc], {"fence": True})).result
        self.values.hand_back(b, value, every_warp=True)
        return [key, self.values.next(b, value), *turn, *rows[: len(self.rows)], acc]

    def _first(self, clones: Clones, phases: Sequence[Phase], rows: Sequence[Value], scores: Value) -> Sequence[Value]:
        """Probabilities, as a factor, and rows of the first block, which is of the first of these loops that runs."""
        first, *others = phases

        def made(b: Builder) -> list[Value]:
            lower = clones.inside(b, {})(first.loop.operands[0])
            make = self._remake(clones.inside(b, {first.counter: lower}), first, rows)
            new, p = self._softmax(make, first, scores)
            weights = self._weights(make, first)
            return [b(gpu.pack, p, elem=self.attention.elem, hint="p"), *new, *weights]

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
        b = clones.builder
        key, value, keep, *rest = carried
        turn, (p, acc, *rows) = rest[: len(rest) - 2 - len(self.rows)], rest[len(rest) - 2 - len(self.rows) :]
        self.keys.wait(b, key)
        if self.turns is not None:
            self.turns.wait(b, turn[0])
        scores = self._scores(b, query, key)
        self.values.wait(b, value)
        acc = self._sum(b, p, value, acc, keep)
        if self.turns is not None:
            turn = [self.turns.hand_on(b, turn[0])]
        make = self._remake(clones, phase, rows)
        make.read_ahead(phase.probabilities, self.score_layout, self.config.read_ahead)
        scores = b.append(gpu.wgmma_wait.build([scores], {"pending": 1})).result
        self.keys.hand_back(b, key)
        rows, p = self._softmax(make, phase, scores)
        # passed already: it keeps the assembler from moving the wait below up before the softmax. A warp that comes
        # late must find the same phase, so every warp has to say that it is done with the slot
        self.values.wait(b, value)
        acc = b.append(gpu.wgmma_wait.build([acc], {})).result
        self.values.hand_back(b, value, every_warp=True)
        p = b(gpu.pack, p, elem=self.attention.elem, hint="p")
        make.add(phase.carried[self.attention.acc], acc)
        acc = make(phase.output.operands[2], self.acc_layout)
        key, value = self.keys.next(b, key), self.values.next(b, value)
        return [key, value, b(block.const, value=True, elem=BOOL), *turn, p, acc, *rows]

    def _hold(self, b: Builder, query: Value) -> Value:
        """The queries as words in registers, if there is room for them, else their slot."""
        if not self.config.query_words:
            return query
        rows, depth = self.attention.query[0].shape
        layout = Wgmma(depth, (4 * self.config.warpgroups, 1)).linear((rows, depth))
        at = b(block.const, value=0, elem=I64)
        tile = b(gpu.load_shared, self.queries.buffers[0], at, layout=layout)
        words = b(gpu.pack, tile, elem=self.attention.elem, hint="q")
        self.queries.hand_back(b, query, every_warp=True)
        return words

    def _scores(self, b: Builder, query: Value, key: Value) -> Value:
        """Begin Q K'; `query` is what `_hold` gave."""
        type_, first = self.attention.score_type, self.attention.phases[0]
        nothing = b(gpu.undefined, shape=type_.shape, elem=type_.elem, layout=self.score_layout, hint="scores")
        flags: dict[str, Attr] = {"transpose_b": first.keys[0].transposed}
        if self.config.query_words:
            keep = b(block.const, value=False, elem=BOOL)
            return b.append(gpu.wgmma.build([query, *self.keys.buffers, key, nothing, keep], flags)).result
        flags["transpose_a"] = self.attention.query[0].transposed
        scores = nothing
        for part, (queries, keys) in enumerate(zip(self.queries.buffers, self.keys.buffers, strict=True)):
            keep = b(block.const, value=part > 0, elem=BOOL)
            scores = b.append(gpu.wgmma.build([queries, keys, key, scores, keep, query], flags)).result
        return scores

    def _sum(self, b: Builder, p: Value, value: Value, acc: Value, keep: Value) -> Value:
        """Begin acc + P V."""
        operands = [p, *self.values.buffers, value, acc, keep]
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

    def _store_rows(self, make: Remake) -> None:
        """What has one element for each query."""
        clones = make.clones
        for op in self.row_stores:
            target, at, row, *ends = op.operands
            new = make(row, self._row_layout(row))
            clones.builder.append(remade(op, target, clones(at), new, *(clones(v) for v in ends)))

    def _epilogue(self, clones: Clones, products: dict[Value, Value]) -> None:
        """Each warp's 16 rows, a panel of columns at a time, through its staging buffers; or straight to memory."""
        b = clones.builder
        make = Remake(clones, products, self.score_layout)
        self._store_rows(make)
        (store,) = self.stores
        done = make(store.value, self.acc_layout)
        if not store.box:
            pointer, base, _, *limits = store.op.operands
            b.append(remade(store.op, pointer, clones(base), done, *(clones(v) for v in limits)))
            return
        for i, column in enumerate(range(0, self.attention.acc_type.shape[1], self.width)):
            part = b(gpu.part, done, start=(0, column), layout=self.part_layout)
            self.stage(b, 0, part, i)
            self.copy_out(clones, 0, i, 0, column)


def _shape(value: Value) -> tuple[int, ...]:
    return value.type.shape if isinstance(value.type, Tile) else ()
