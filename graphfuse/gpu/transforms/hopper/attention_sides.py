"""Attention with results too wide for one warpgroup: two share the rows, and each makes half of the columns.

The first one makes the scores and their softmax, as the only one of `attention.py` does. The second has but the product
with its own columns of the values: the first gives it the probabilities, and what rows are multiplied by, through
shared memory. Block j of the first, and what the second does beside it:

    begin acc += P(j - 1) V(j - 1); begin S = Q K(j)'
    send P(j - 1) and the rows                              rescale acc
    wait for acc, hand back what it was made of
    begin S of the part of the keys that comes last
    wait for S; it is the second's turn
    softmax of S, rescale acc                               acc += P(j - 1) V(j - 1), its own columns

so that the tensor cores have the second's product to do while the first is busy with the softmax. Nothing is computed
twice, and no block of keys is wanted before the one before it is almost done: shared memory has room for two.

Where the columns that a warpgroup multiplies by are a part of the keys themselves, as in latent attention (DeepSeek-AI,
DeepSeek-V2), they are copied once, and a slot is handed back when that product is done.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from graphfuse.dialects import block, gpu
from graphfuse.gpu.transforms.assign_layouts import project
from graphfuse.gpu.transforms.hopper.attention import AttentionRoles
from graphfuse.gpu.transforms.hopper.epilogue import Chunk, Clones, Declined, Made
from graphfuse.gpu.transforms.hopper.match_attention import Phase
from graphfuse.gpu.transforms.hopper.remake import Remake
from graphfuse.gpu.transforms.hopper.roles import Ring
from graphfuse.gpu.transforms.hopper.stream import Piece
from graphfuse.ir.core import Attr, Builder, Value, remade, tile_of
from graphfuse.ir.types import BOOL, F32, I32, I64

FIRST, SECOND = 0, 1


class SideRoles(AttentionRoles):
    """Makes the function again, with a role for each half of the columns."""

    def _key_rings(self) -> Sequence[Ring]:
        """One for each part of the keys: parts are handed back at different times."""
        a, c, first = self.attention, self.config, self.attention.phases[0]
        in_keys = [a.part_of_keys(side) for side in (FIRST, SECOND)]
        self.parts = [
            self._ring("keys", [o], c.stages, 4 if i in in_keys else 1, along_k=first.keys[0].transposed)
            for i, o in enumerate(first.keys)
        ]
        self.of_sides = [
            self._ring("values", [a.values_of(first, side)], c.stages, 4, along_k=first.values.transposed)
            if part is None
            else self.parts[part]
            for side, part in enumerate(in_keys)
        ]
        self.keys, self.values = self.parts[0], self.of_sides[FIRST]
        self.by_use = sorted(range(len(self.parts)), key=lambda i: self.parts[i] is self.of_sides[SECOND])
        """Parts of the keys, the one last that is handed back last."""
        for phase in a.phases:
            if len(a.weights(phase)) != len(a.weights(first)):
                raise Declined("loops weigh the sum so far in different ways")
        return [*self.parts, *self._apart()]

    def _apart(self) -> list[Ring]:
        """Of values that are no part of the keys."""
        return [ring for ring in self.of_sides if not _among(ring, self.parts)]

    def prepare(self, b: Builder) -> None:
        """What the second warpgroup receives, and when."""
        super().prepare(b)
        a, (rows, keys) = self.attention, self.attention.score_type.shape
        swizzle = next(n for n in (128, 64, 32) if keys * a.elem.bytes % n == 0)
        self.sent_p = b(gpu.shared_alloc, shape=(1, rows, keys), elem=a.elem, swizzle=swizzle, hint="p")
        count = len(a.weights(a.phases[0])) + len(self.rows)
        self.sent_rows = b(gpu.shared_alloc, shape=(count, rows, 1), elem=F32, hint="rows")
        self.sent, self.turn = (
            b(gpu.barriers, count=self.config.stages, arrivals=4, hint=name) for name in ("sent", "turn")
        )

    def consumers(self) -> Sequence[Callable[[Clones, Value], None]]:
        """Of both halves."""
        return (self.consumer, self._second)

    def _fill(self, clones: Clones, slot: Value, phase: Phase) -> None:
        a = self.attention
        for i in self.by_use:
            self.parts[i].fill(clones, slot, [phase.keys[i]])
        for side, ring in enumerate(self.of_sides):
            if not _among(ring, self.parts):
                ring.fill(clones, slot, [a.values_of(phase, side)])

    def _columns(self, clones: Clones, side: int, acc: tuple[Value, Value], rows: Mapping[Value, Value]) -> Chunk:
        """What makes a side's columns of tiles, given those of the result, old and new, and tiles of rows."""
        made: Made = {}
        count, columns = self.acc_layout.shape
        chunk = Chunk(clones, dict([acc]), (0, side * columns), (count, columns), made, side * columns)
        for old, new in rows.items():
            made[chunk.key(old, (0, None)[: len(tile_of(old).shape)], self._row_layout(old))] = new
        return chunk

    # the first

    def _wait_for_keys(self, b: Builder, key: Value) -> None:
        """Each part as it is needed."""

    def _hand_back_keys(self, b: Builder, key: Value) -> None:
        for ring in self.parts:
            if not _among(ring, self.of_sides):
                ring.hand_back(b, key)

    def _nothing(self, make: Remake) -> Value:
        return self._zeros(make.clones.builder)

    def _zeros(self, b: Builder) -> Value:
        return b(block.const, value=0.0, elem=F32, shape=self.acc_layout.shape, layout=self.acc_layout, hint="acc")

    def _scores(self, b: Builder, query: Value, key: Value) -> Value:
        return self._add_scores(b, query, key, self.by_use)

    def _add_scores(
        self, b: Builder, query: Value, key: Value, parts: Sequence[int], scores: Value | None = None
    ) -> Value:
        """Begin Q K' of some parts, on top of the scores of others."""
        type_, first, keep = self.attention.score_type, self.attention.phases[0], scores is not None
        if scores is None:
            scores = b(gpu.undefined, shape=type_.shape, elem=type_.elem, layout=self.score_layout, hint="scores")
        flags: dict[str, Attr] = {
            "transpose_a": self.attention.query[0].transposed,
            "transpose_b": first.keys[0].transposed,
        }
        for i in parts:
            self.parts[i].wait(b, key)
            adds = b(block.const, value=keep, elem=BOOL)
            operands = [self.queries.buffers[i], *self.parts[i].buffers, key, scores, adds, query]
            scores, keep = b.append(gpu.wgmma.build(operands, flags)).result, True
        return scores

    def _weights(self, make: Remake, phase: Phase) -> list[Value]:
        return [make(w, self._row_layout(w)) for w in self.attention.weights(phase)]

    def _step(self, clones: Clones, carried: Sequence[Value], phase: Phase, query: Value) -> Sequence[Value]:
        b, a = clones.builder, self.attention
        key, value, keep, p, acc, *rows = carried
        self.values.wait(b, value)
        acc = self._sum(b, p, value, acc, keep)
        early = self.by_use[:-1] or self.by_use
        scores = self._add_scores(b, query, key, early)
        self._send_all(b, p, rows, value)
        make = self._remake(clones, phase, rows[: len(self.rows)])
        make.read_ahead(phase.probabilities, self.score_layout, self.config.read_ahead)
        acc = b.append(gpu.wgmma_wait.build([acc], {"pending": len(early)})).result
        self.values.hand_back(b, value, every_warp=True)
        scores = self._add_scores(b, query, key, self.by_use[len(early) :], scores)
        scores = b.append(gpu.wgmma_wait.build([scores], {})).result
        self._arrive(b, self.turn, value)
        self._hand_back_keys(b, key)
        rows, p = self._softmax(make, phase, scores)
        weights = self._weights(make, phase)
        of_weights = dict(zip(a.weights(phase), weights, strict=True))
        columns = self._columns(clones, FIRST, (phase.carried[a.acc], acc), of_weights)
        acc = columns.tile(phase.output.operands[2], (0, 1), self.acc_layout)
        p = b(gpu.pack, p, elem=a.elem, hint="p")
        slots = self.keys.next(b, key), self.values.next(b, value)
        return [*slots, b(block.const, value=True, elem=BOOL), p, acc, *rows, *weights]

    def _send(self, b: Builder, p: Value, rows: Sequence[Value], slot: Value) -> None:
        self._send_all(b, p, rows, slot)
        self._arrive(b, self.turn, slot)

    def _send_all(self, b: Builder, p: Value, rows: Sequence[Value], slot: Value) -> None:
        """Once the second has read what it was sent before: it then hands back the slot of that block."""
        back = b(block.const, value=2 * self.config.stages - 1, elem=I64)
        b.op(gpu.wait, self.of_sides[SECOND].empty, b(gpu.advance, slot, back, size=self.config.stages))
        b.op(gpu.store_shared, self.sent_p, self._number(b, 0), p)
        for i, row in enumerate(rows):
            if block.elem_of(row.type) != F32:
                raise Declined(f"rows of {row.type}")
            column = row if len(tile_of(row).shape) == 2 else b(block.reshape, row, shape=(tile_of(row).shape[0], 1))
            b.op(gpu.store_shared, self.sent_rows, self._number(b, i), column)
        self._arrive(b, self.sent, slot)

    def _arrive(self, b: Builder, barriers: Value, slot: Value) -> None:
        b.append(gpu.arrive.build([barriers, slot], {"every_warp": True}))

    def _number(self, b: Builder, value: int) -> Value:
        return b(block.const, value=value, elem=I64)

    def _epilogue(self, clones: Clones, products: dict[Value, Value]) -> None:
        result = self.attention.results[self.attention.acc]
        rows = {old: new for old, new in products.items() if old != result}
        self._store_rows(Remake(clones, products, self.score_layout))
        self._store_columns(clones, FIRST, products[result], rows)

    def _store_columns(self, clones: Clones, side: int, acc: Value, rows: Mapping[Value, Value]) -> None:
        """A side's columns, by its threads."""
        (store,) = self.stores
        pointer, base, _, *limits = store.op.operands
        columns = self._columns(clones, side, (self.attention.results[self.attention.acc], acc), rows)
        value = columns.tile(store.value, (0, 1), self.acc_layout)
        at, cuts = columns.view(store.op, (0, 1), base, limits)
        clones.builder.append(remade(store.op, clones(pointer), at, value, *cuts))

    # the second

    def _second(self, clones: Clones, group: Value) -> None:
        """Tiles one after another."""
        self.tiles(clones, group, 1, [self.zero(clones.builder)], self._second_tile)

    def _second_tile(self, clones: Clones, carried: Sequence[Value], _piece: Piece | None) -> Sequence[Value]:
        """The loops and the epilogue."""
        a, b = self.attention, clones.builder
        begin = Remake(clones, {}, self.score_layout)
        rows = [begin(a.inits[i], self._row_layout(a.inits[i])) for i in self.rows]
        state: Sequence[Value] = [*carried, self._zeros(b), *rows]
        for phase in a.phases:
            lower = clones(phase.loop.operands[0])
            state = self._loop(clones, phase, lower, state, lambda at, _, c, ph=phase: self._second_step(at, c, ph))
        slot, acc, *rows = state
        self._store_columns(clones, SECOND, acc, dict(zip((a.results[i] for i in self.rows), rows, strict=True)))
        return [slot]

    def _second_step(self, clones: Clones, carried: Sequence[Value], phase: Phase) -> Sequence[Value]:
        """A block's product, with what was sent for it."""
        b, a, ring = clones.builder, self.attention, self.of_sides[SECOND]
        slot, acc, *_ = carried
        b.op(gpu.wait, self.sent, slot)
        weights, count = a.weights(phase), len(self.rows)
        every = [*(phase.yielded[i] for i in self.rows), *weights]
        got = [self._received(b, i, old) for i, old in enumerate(every)]
        of_weights = dict(zip(weights, got[count:], strict=True))
        columns = self._columns(clones, SECOND, (phase.carried[a.acc], acc), of_weights)
        acc = columns.tile(phase.output.operands[2], (0, 1), self.acc_layout)
        ring.wait(b, slot)
        b.op(gpu.wait, self.turn, slot)
        keep, zero = b(block.const, value=True, elem=BOOL), b(block.const, value=0, elem=I32)
        flags: dict[str, Attr] = {"transpose_b": phase.values.transposed}
        acc = b.append(gpu.wgmma.build([self.sent_p, *ring.buffers, slot, acc, keep, zero], flags)).result
        acc = b.append(gpu.wgmma_wait.build([acc], {"fence": True})).result
        ring.hand_back(b, slot, every_warp=True)
        return [ring.next(b, slot), acc, *got[:count]]

    def _received(self, b: Builder, number: int, old: Value) -> Value:
        """A tile of rows that was sent, as it was."""
        shape = tile_of(old).shape
        layout = project(self.score_layout, (shape[0], 1))
        new = b(gpu.load_shared, self.sent_rows, self._number(b, number), layout=layout)
        return new if len(shape) == 2 else b(block.reshape, new, shape=shape)


def _among(ring: Ring, rings: Sequence[Ring]) -> bool:
    return any(ring is other for other in rings)
