"""Fragments of the next slice of a product are read from shared memory before the instructions of this one.

A loop that `pipeline_loads` made waits, meets, reads its tiles and only then multiplies. With the tiles cut along k
into slices as deep as one instruction, and its head (wait, copies of a later tile) moved into the iteration before,

    head(first); x = slice 0 of the first tiles
    for i: y = slice 1; multiply x; z = slice 2; multiply y; ...
           head(i + 1); x = slice 0 of the next tiles; multiply the last slice

the tensor cores have a slice to multiply while threads meet and wait for `ldmatrix`. All of a tile is read before the
head, whose barrier therefore comes between these reads and the copies that overwrite it, and between the arrival of
the next tile and the first read of that. The last iteration, after which there is no tile, reads its own once more.

Done where registers and shared memory have no room for three blocks on a multiprocessor: more of them keep each other's
tensor cores busy, and the registers and instructions are for nothing then. The attribute `prefetch` of a function,
`true` or `false`, decides instead. Requires: layouts, and that every product of the loop is made by `mma.sync` of what
it reads from rings. Declines: where a tile is one slice, accumulators are narrower than 32 bits (each slice would round
them), elements have 8 bits (LLVM would carry them in a register each), or registers for two slices are not left.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from graphfuse.dialects import block, control, gpu
from graphfuse.gpu.analysis.registers import registers_per_thread
from graphfuse.gpu.kernel import WARP_SIZE, layout_of
from graphfuse.gpu.properties import laid_out
from graphfuse.gpu.transforms.dot_layouts import depth, instruction_elem, mma_warps, operand_layout
from graphfuse.gpu.transforms.pipeline_loads import SHARED_BYTES
from graphfuse.ir.core import Block, Builder, Func, Op, Params, Trait, Value, attr_int, tile_of
from graphfuse.ir.layout import WARP, LinearLayout
from graphfuse.ir.layout_families import Operand
from graphfuse.ir.passes import passing
from graphfuse.ir.remake import Remaker
from graphfuse.ir.rewrite import dead_code, readers
from graphfuse.ir.types import Buffer, Tile
from graphfuse.symbolic import sym

REGISTERS, REGISTERS_OF_BLOCK = 255, 65536
RESERVED = 48
"""Registers for addresses, counters and what else a loop needs."""
ENOUGH = 3
"""Blocks of a multiprocessor that do without."""
RESERVED_SHARED = 1024
"""Bytes of shared memory that a block takes besides its own; a multiprocessor has as many more than one may have."""


@passing("gpu", requires=(laid_out,))
def prefetch_operands(func: Func, *, shared_bytes: int = SHARED_BYTES) -> Func:
    """Double-buffer the fragments of loops; a block may have `shared_bytes` of shared memory."""
    wanted = func.attrs.get("prefetch")
    if wanted is not None and not wanted:
        return func
    users = readers(func)
    loops = {op: found for op in func.walk() if op.kind is control.for_ and (found := _matched(op, users))}
    if wanted is None:
        buffers = (t.nbytes for op in func.walk() for t in op.types if isinstance(t, Buffer))
        crowded = ENOUGH * (sum(buffers) + RESERVED_SHARED) > shared_bytes + RESERVED_SHARED
        loops = {op: found for op, found in loops.items() if crowded or _fills(found)}
    return dead_code(_Rewriter(func, loops).run()) if loops else func


@dataclass(frozen=True, slots=True)
class _Loop:
    """The parts of a loop's body."""

    head: tuple[Op, ...]
    """A wait, copies, and what they need."""
    loads: tuple[tuple[Op, int, LinearLayout], ...]
    """Reads of tiles, which operand of products they are, and the layout of a slice."""
    products: tuple[Op, ...]
    rest: tuple[Op, ...]
    slot: int
    """Which parameter of the body says where in the rings it is."""
    slices: int


def _matched(loop: Op, users: Mapping[Value, Sequence[Op]]) -> _Loop | None:
    *ops, last = loop.body.ops
    ends = [i for i, op in enumerate(ops) if op.kind is gpu.commit]
    if len(ends) != 1 or ops[0].kind is not gpu.wait_group:
        return None
    head, after = tuple(ops[: ends[0] + 1]), ops[ends[0] + 1 :]
    products = tuple(op for op in after if op.kind is block.dot)
    found = [op for op in after if op.kind is gpu.load_shared]
    rest = tuple(op for op in after if op not in products and op not in found)
    slots = {op.operands[1] for op in found}
    if not products or len(slots) != 1 or any(op.bodies or not op.has(Trait.PURE) for op in rest):
        return None
    (slot,) = slots
    if slot.owner is not loop.body.params:
        return None
    known = {loop.body.params.values[0], slot}
    inside = {v for op in ops for v in op.results} | set(loop.body.params.values)
    if not _follows(head, known, inside) or not _follows(chain([last.operands[slot.index - 1]], ops), known, inside):
        return None
    loads = [_load(op, users.get(op.result, ()), products) for op in found]
    slices = {_slices(op, inside.difference(loop.body.params.values)) for op in products}
    read = {op.result for op in found}
    if None in loads or len(slices) != 1 or not all(read.issuperset(op.operands[:2]) for op in products):
        return None
    (count,) = slices
    made = _Loop(head, tuple(x for x in loads if x), products, rest, slot.index, count)
    return made if count > 1 and _fits(made) else None


def _follows(ops: Sequence[Op], known: set[Value], inside: set[Value]) -> bool:
    """Whether ops need nothing of the loop but what is known."""
    known = set(known)
    for op in ops:
        if op.bodies or any(v in inside and v not in known for v in op.operands):
            return False
        if not (op.has(Trait.PURE) or op.kind in (gpu.wait_group, gpu.copy_async, gpu.commit)):
            return False
        known.update(op.results)
    return True


def chain(values: Iterable[Value], ops: Sequence[Op]) -> list[Op]:
    """The ops of a body that values come from, in order."""
    needed = set(values)
    for op in reversed(ops):
        if not needed.isdisjoint(op.results):
            needed.update(op.operands)
    return [op for op in ops if not needed.isdisjoint(op.results)]


def _slices(op: Op, made: set[Value]) -> int:
    """Instructions along k; 1 if the product cannot be cut."""
    elem, acc = instruction_elem(op), tile_of(op.result)
    if elem is None or acc.elem.bits < 32 or op.operands[2] in made or len(acc.shape) != 2:
        return 1
    if any(tile_of(v).layout != operand_layout(op, i, layout_of(acc)) for i, v in enumerate(op.operands[:2])):
        return 1
    return tile_of(op.operands[0]).shape[1] // depth(elem)


def _load(op: Op, readers: Sequence[Op], products: Sequence[Op]) -> tuple[Op, int, LinearLayout] | None:
    """A load that products read as one operand; the layout of a slice of it."""
    places = {(reader in products, i) for reader in readers for i, v in enumerate(reader.operands) if v == op.result}
    if len(places) != 1:
        return None
    ((read, index),), tile = places, tile_of(op.result)
    elem = instruction_elem(readers[0]) if read and len(tile.shape) == 2 else None
    grid = mma_warps(layout_of(tile_of(readers[0].result))) if elem else None
    if elem is None or grid is None or index > 1 or tile.elem.bits < 16:
        return None
    rows, columns = tile.shape
    shape = (rows, depth(elem)) if index == 0 else (depth(elem), columns)
    return op, index, Operand(elem.bits, index, grid).linear(shape)


def _fits(loop: _Loop) -> bool:
    """Whether accumulators leave room for two slices."""
    return _registers(loop) <= min(REGISTERS, REGISTERS_OF_BLOCK // _threads(loop))


def _fills(loop: _Loop) -> bool:
    """Whether registers do not suffice for many blocks."""
    return ENOUGH * _threads(loop) * _registers(loop) > REGISTERS_OF_BLOCK


def _registers(loop: _Loop) -> int:
    """Of a thread: accumulators, two slices, and the rest."""
    sums = sum(registers_per_thread(tile_of(op.result)) for op in loop.products)
    slice_ = sum(registers_per_thread(_sliced(op, i, layout)) for op, i, layout in loop.loads)
    return sums + 2 * slice_ + RESERVED


def _threads(loop: _Loop) -> int:
    return layout_of(tile_of(loop.products[0].result)).size(WARP) * WARP_SIZE


def _sliced(op: Op, index: int, layout: LinearLayout) -> Tile:
    return Tile(layout.shape, tile_of(op.result).elem, layout)


class _Rewriter(Remaker):
    """Makes the loops again."""

    def __init__(self, func: Func, loops: Mapping[Op, _Loop]) -> None:
        super().__init__(func)
        self.loops = loops

    def op(self, op: Op) -> None:
        """An op, or a loop with its fragments ahead."""
        if op in self.loops:
            self._loop(op, self.loops[op])
        else:
            self.copy(op)

    def _loop(self, old: Op, found: _Loop) -> None:
        lower, upper, *carried = map(self.new, old.operands)
        start = carried[found.slot - 1]
        self._again(found.head, {old.body.params.values[0]: lower, old.body.params.values[found.slot]: start})
        first = self._first(found, self.builder(block.lt, lower, upper), start)
        types, hints = old.body.params.types, old.body.params.hints or ("",) * len(old.body.params.types)
        params = Params((*types, *(v.type for v in first)), (*hints, *("",) * len(first)))
        self.values.update(zip(old.body.params.values, params.values, strict=False))
        outer, self.builder = self.builder, Builder(self.builder.loc)
        ahead = self._body(old, found, upper, params.values[len(types) :])
        yielded = [self.new(v) for v in old.body.terminator.operands]
        self.builder.append(control.yield_(*yielded, *ahead, loc=old.body.terminator.loc))
        body, self.builder = self.builder.block(params), outer
        made = control.for_.build([lower, upper, *carried, *first], old.attrs, loc=old.loc, bodies=(body,))
        self.builder.append(made)
        self.values.update(zip(old.results, made.results, strict=False))

    def _first(self, found: _Loop, runs: Value, slot: Value) -> tuple[Value, ...]:
        """Slice 0 of the first tiles, if there are any."""
        outer, bodies = self.builder, list[Block]()
        for there in (True, False):
            self.builder = Builder(outer.loc)
            values = self._slice(found, 0, slot) if there else [self._nothing(*load) for load in found.loads]
            self.builder.append(control.yield_(*values))
            bodies.append(self.builder.block(Params(())))
        self.builder = outer
        return self.builder.append(control.if_(runs, bodies=tuple(bodies))).results

    def _nothing(self, op: Op, index: int, layout: LinearLayout) -> Value:
        t = _sliced(op, index, layout)
        return self.builder(
            block.const, value=0 if t.elem.is_integer else 0.0, elem=t.elem, shape=t.shape, layout=layout
        )

    def _body(self, old: Op, found: _Loop, upper: Value, held: Sequence[Value]) -> list[Value]:
        """Returns slice 0 of the next tiles."""
        build = self.builder
        for op in found.head:
            if op.has(Trait.PURE):  # the rest may read it too
                self.copy(op)
        counter, slot = (self.new(old.body.params.values[i]) for i in (0, found.slot))
        sums = {op: self.new(op.operands[2]) for op in found.products}
        for number in range(1, found.slices):
            following = self._slice(found, number, slot)
            self._multiply(found, sums, held)
            held = following
        step = attr_int(old, "step", 1)
        later = build(block.index, counter, expr=sym("i") + step, names=("i",))
        turned = old.body.terminator.operands[found.slot - 1]
        known = {old.body.params.values[found.slot]: slot}
        next_slot = self._again(chain([turned], old.body.ops[:-1]), known)[turned]
        self._again(found.head, {old.body.params.values[0]: later, old.body.params.values[found.slot]: next_slot})
        safe = build(block.select, build(block.lt, later, upper), next_slot, slot)
        ahead = self._slice(found, 0, safe)
        self._multiply(found, sums, held)
        self.values.update((op.result, value) for op, value in sums.items())
        for op in found.rest:
            self.copy(op)
        return ahead

    def _slice(self, found: _Loop, number: int, slot: Value) -> list[Value]:
        return [
            self.builder(
                gpu.load_shared, self.new(op.operands[0]), slot, transposed=bool(op.attrs.get("transposed")),
                axis=1 - index, part=number, parts=found.slices, layout=layout,
            )
            for op, index, layout in found.loads
        ]  # fmt: skip

    def _multiply(self, found: _Loop, sums: dict[Op, Value], held: Sequence[Value]) -> None:
        """One slice of every product."""
        tiles = {op.result: v for (op, _, _), v in zip(found.loads, held, strict=True)}
        for op in found.products:
            a, b = (tiles[v] for v in op.operands[:2])
            made = block.dot.build([a, b, sums[op]], op.attrs, loc=op.loc)
            sums[op] = self.builder.append(made).result

    def _again(self, ops: Sequence[Op], known: Mapping[Value, Value]) -> dict[Value, Value]:
        """Ops of the body for another counter and slot."""
        now = dict(known)
        for op in ops:
            operands = tuple(now.get(v, self.new(v)) for v in op.operands)
            made = self.builder.append(Op(op.kind, operands, op.attrs, op.types, (), (), op.loc))
            now.update(zip(op.results, made.results, strict=True))
        return now
