"""Load the tiles of later iterations while this one multiplies: `cp.async` into rings of buffers in shared memory.

A loop

    for i: a = load_view(p, f(i)); b = load_view(q, g(i)); acc = dot(a, b, acc)

becomes, with n stages,

    copy tiles 0 .. n - 2, one group each
    for i: wait for the oldest group; copy tile i + n - 1; a, b = load_shared(slot); acc = dot(a, b, acc)

Where tiles are may be read from memory too, as tables of blocks say: the numbers are read again for the tile ahead.

The buffer that an iteration fills is the one that the last iteration read, and the wait, where all threads meet, lies
between. A loop takes the rings of one that has ended, where it wants the same. Copies beyond the end are left out but
their groups, empty, are not: so the count of pending groups is always right, whatever the number of trips.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from graphfuse.dialects import block, control, effects, gpu
from graphfuse.gpu.alignment import pointer_alignments
from graphfuse.gpu.analysis.axis_facts import power_of_two
from graphfuse.gpu.analysis.axis_info import Facts, access_info, axis_info
from graphfuse.gpu.transforms.dot_layouts import reached
from graphfuse.ir.core import Block, Builder, Func, Op, Params, Trait, Value, attr_dims, attr_int, tile_of, walk
from graphfuse.ir.passes import passing
from graphfuse.ir.remake import Remaker
from graphfuse.ir.rewrite import readers
from graphfuse.ir.types import I64, Buffer, Tile
from graphfuse.symbolic import sym

STAGES = 3
"""Where a kernel does not say: two on the way hide the way to memory behind most products."""
SHARED_BYTES = 96 << 10
"""What rings may take where the target is not known: every part since sm_80 has so much for a block."""


@passing("gpu")
def pipeline_loads(func: Func, *, shared_bytes: int = SHARED_BYTES) -> Func:
    """Pipeline every loop that multiplies tiles it loads; `func.attrs["stages"]` (default 3) says how deep."""
    stages = attr_int(func, "stages", STAGES)
    tiles = [t for op in func.walk() for t in op.types if isinstance(t, Tile)]
    if stages < 2 or any(t.layout for t in tiles) or not any(op.kind is block.dot for op in func.walk()):
        return func
    return _Rewriter(func, axis_info(func, pointer_alignments(func)), stages, shared_bytes).run()


@dataclass(frozen=True, slots=True)
class _Copy:
    """A load that becomes a copy."""

    load: Op
    ring: Buffer
    width: int
    transposed: bool


class _Rewriter(Remaker):
    def __init__(self, func: Func, facts: Facts, stages: int, shared_bytes: int) -> None:
        super().__init__(func)
        self.facts, self.stages, self.left = facts, stages, shared_bytes
        self.rings = Builder()
        """Allocations; they come first, for a loop may be inside another one."""
        self.free: list[Value] = []
        """Rings of loops that have ended."""
        self.users = readers(func)

    def run(self) -> Func:
        done = super().run()
        # a loop in a loop allocates when the outer one has begun: all rings go to the front
        return replace(done, body=Block(done.body.params, (*self.rings.ops, *done.body.ops)))

    def op(self, op: Op) -> None:
        copies = list(self._copies(op)) if op.kind is control.for_ else []
        if rings := self._rings_of(copies):
            self._pipelined(op, copies, rings)
        else:
            self.copy(op)

    # which loads

    def _rings_of(self, copies: Sequence[_Copy]) -> list[Value]:
        """A ring for each copy, of a loop that has ended or new, as deep as there is room for; none: leave the loop."""
        for stages in range(self.stages, 1, -1) if copies else ():
            wanted = [replace(c.ring, shape=(stages, *c.ring.shape[1:])) for c in copies]
            free, found = list(self.free), list[Value | None]()
            for buffer in wanted:
                found.append(next((r for r in free if r.type == buffer), None))
                free = [r for r in free if r != found[-1]]
            missing = sum(w.nbytes for w, r in zip(wanted, found, strict=True) if r is None)
            if missing <= self.left:
                self.left, self.free = self.left - missing, free
                return [self._ring(w) if r is None else r for w, r in zip(wanted, found, strict=True)]
        return []

    def _ring(self, buffer: Buffer) -> Value:
        return self.rings(gpu.shared_alloc, shape=buffer.shape, elem=buffer.elem, swizzle=buffer.swizzle)

    def _copies(self, loop: Op) -> Iterator[_Copy]:
        """Loads of whole matrices at addresses that are known ahead, which products take."""
        inside = [op for op in walk(loop.body) if not op.bodies and op.kind not in (effects.print_, effects.assert_)]
        if any(map(block.may_write, inside)):
            return
        for op in loop.body.ops:
            if op.kind is not block.load_view or not self._feeds_product(op.result):
                continue
            if (copy := self._copy(op)) and self._known_ahead(loop, op.operands):
                yield copy

    def _feeds_product(self, value: Value) -> bool:
        seen = reached(value, self.users)
        through = {value}
        for op in seen:
            if op.has(Trait.ELEMENTWISE) or op.kind is block.trans:
                through.update(op.results)
        users = [u for v in through for u in (*seen, *self.users.get(v, ()))]
        return any(u.kind is block.dot and any(v in through for v in u.operands[:2]) for u in users)

    def _copy(self, op: Op) -> _Copy | None:
        t = tile_of(op.result)
        if len(t.shape) != 2 or t.shape != t.padded_shape or op.attrs.get("other", 0) != 0 or t.elem.bits < 8:
            return None
        info = access_info(self.func, op, self.facts)
        strides = attr_dims(op, "strides")
        fast = 0 if strides[0] == 1 and strides[1] != 1 else 1
        size = t.elem.bytes
        # a limit may cut an instruction's bytes short, so the mask does not matter here
        width = min(power_of_two(info.contiguity[fast]), power_of_two(info.alignment[fast]) // size, 16 // size)
        if strides[fast] != 1 or width * size < 4:
            return None
        shape = (t.shape[1], t.shape[0]) if fast == 0 else t.shape
        row = shape[1] * size
        swizzle = next((s for s in (128, 64, 32) if row % s == 0), 0)
        return _Copy(op, Buffer((0, *shape), t.elem, swizzle), width, fast == 0)

    def _known_ahead(self, loop: Op, values: Sequence[Value]) -> bool:
        """Whether values follow from the counter, from what the loop does not change, and numbers read by these."""
        inside = set(loop.body.ops)
        for v in values:
            if v.owner is loop.body.params:
                if v.index:
                    return False
            elif isinstance(v.owner, Op) and v.owner in inside:
                reads = v.owner.kind is block.load
                if not (v.owner.has(Trait.PURE) or reads) or v.owner.bodies or isinstance(v.type, Tile):
                    return False
                if not self._known_ahead(loop, v.owner.operands):
                    return False
        return True

    # the loop

    def _pipelined(self, loop: Op, copies: Sequence[_Copy], rings: Sequence[Value]) -> None:
        build, buffer = self.builder, rings[0].type
        assert isinstance(buffer, Buffer)
        stages = buffer.shape[0]
        lower, upper, *carried = (self.new(v) for v in loop.operands)
        step = attr_int(loop, "step", 1)
        for stage in range(stages - 1):
            slot = build(block.const, value=stage, elem=I64)
            self._fill(loop, copies, rings, slot, self._ahead(lower, stage * step), upper)
        first = build(block.const, value=0, elem=I64)
        old = loop.body.params
        params = Params((*old.types, I64), (*(old.hints or ("",) * len(old.types)), "slot"))
        counter, *_, slot = params.values
        self.values.update(zip(loop.body.params.values, params.values, strict=False))
        outer, self.builder = self.builder, Builder(self.builder.loc)
        build = self.builder
        build.op(gpu.wait_group, pending=stages - 2)
        filled = self._turned(slot, 0, stages - 1, -1)
        self._fill(loop, copies, rings, filled, self._ahead(counter, (stages - 1) * step), upper)
        loads = {c.load: (c, ring) for c, ring in zip(copies, rings, strict=True)}
        for op in loop.body.ops[:-1]:
            if op in loads:
                copy, ring = loads[op]
                hint = op.hints[0] if op.hints else ""
                self.values[op.result] = build(gpu.load_shared, ring, slot, transposed=copy.transposed, hint=hint)
            else:
                self.op(op)
        following = self._turned(slot, stages - 1, 0, 1)
        build.op(control.yield_, *(self.new(v) for v in loop.body.terminator.operands), following)
        body, self.builder = build.block(params), outer
        new = control.for_.build([lower, upper, *carried, first], loop.attrs, loc=loop.loc, bodies=(body,))
        self.builder.append(new)
        self.values.update(zip(loop.results, new.results, strict=False))
        self.free += rings

    def _fill(
        self, loop: Op, copies: Sequence[_Copy], rings: Sequence[Value], slot: Value, at: Value, upper: Value
    ) -> None:
        """Begin the copies of the iteration whose counter is `at`, if there is one, and close their group."""
        build = self.builder
        condition = build(block.lt, at, upper)
        known = {loop.body.params.values[0]: at}
        for copy, ring in zip(copies, rings, strict=True):
            pointer, base, *limits = (self._cloned(loop, v, known, condition) for v in copy.load.operands)
            kept = {name: copy.load.attrs[name] for name in ("strides", "limited") if name in copy.load.attrs}
            build.append(
                gpu.copy_async.build(
                    [pointer, base, ring, slot, condition, *limits],
                    {**kept, "width": copy.width, "transposed": copy.transposed},
                    loc=copy.load.loc,
                )
            )
        build.op(gpu.commit)

    def _cloned(self, loop: Op, value: Value, known: dict[Value, Value], condition: Value) -> Value:
        """A value of the loop's body for another counter; memory is read if the condition holds."""
        owner = value.owner
        if value not in known:
            if not isinstance(owner, Op) or owner not in loop.body.ops:
                return self.new(value)
            operands = [self._cloned(loop, v, known, condition) for v in owner.operands]
            if owner.kind is block.load:  # a table of where tiles are ends with the loop
                operands[2:] = [self.builder(block.and_, condition, m) for m in operands[2:]] or [condition]
            again = self.builder.append(owner.kind.build(operands, owner.attrs, loc=owner.loc))
            known.update(zip(owner.results, again.results, strict=True))
        return known[value]

    def _ahead(self, counter: Value, by: int) -> Value:
        return self.builder(block.index, counter, expr=sym("i") + by, names=("i",)) if by else counter

    def _turned(self, slot: Value, last: int, start: int, by: int) -> Value:
        """The next number in a ring: `start` after `last`."""
        build = self.builder
        ends = build(block.eq, slot, build(block.const, value=last, elem=I64))
        moved = build(block.index, slot, expr=sym("s") + by, names=("s",))
        return build(block.select, ends, build(block.const, value=start, elem=I64), moved)
