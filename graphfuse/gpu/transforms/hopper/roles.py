"""Kernels of warps with roles: a producer copies boxes of memory into rings of shared buffers, and consumers use them.

    rings, staging buffers, barriers
    warp_specialize
        consumer:  for each program of this block:  wait for slots, multiply, hand slots back, epilogue
        producer:  for each program of this block:  fill slots, as soon as they are empty

What the roles do in a program is said by `matmul.py` and `attention.py`; all that a kernel of boxes and products needs
besides is here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from graphfuse.dialects import block, control, gpu
from graphfuse.dialects.boxes import Box, Unboxed
from graphfuse.gpu.transforms.hopper.affine import Scalars, find_box
from graphfuse.gpu.transforms.hopper.config import Config
from graphfuse.gpu.transforms.hopper.epilogue import Clones, Declined
from graphfuse.gpu.transforms.hopper.match import Operand
from graphfuse.gpu.transforms.hopper.order import placed
from graphfuse.gpu.transforms.hopper.stream import Piece
from graphfuse.ir.core import Attr, Block, Builder, Func, Op, Params, Trait, Value, attr_dims, attr_ints, tile_of
from graphfuse.ir.types import I32, I64, Scalar
from graphfuse.symbolic import Dim, symbols

READS = (block.load_view, block.load_box, block.load)


def stores_of(func: Func) -> list[Op]:
    """Where the results of a function go. `Declined` where it has other effects, or reads what it writes."""
    stores = [op for op in func.body.ops if op.kind is block.store_view]
    for op in func.walk():
        is_known = op.kind in (control.for_, *READS) or op in stores
        if not is_known and not op.has(Trait.PURE) and not op.has(Trait.TERMINATOR):
            raise Declined(f"{op.kind.name} beside the products")
    written = {op.operands[0] for op in stores}
    read = {op.operands[0] for op in func.walk() if op.kind in READS}
    if not stores or not written.isdisjoint(read) or func.attrs.get("inplace"):
        raise Declined("what is written is also read" if stores else "nothing is stored")
    if any(v.op is not None for v in (*written, *read)):
        raise Declined("a pointer is computed")
    return stores


def elem_stored(op: Op) -> Scalar:
    """The element that a store writes."""
    return tile_of(op.operands[2]).elem


@dataclass(frozen=True, slots=True)
class Store:
    """A store of the epilogue: through staging buffers of the warps, by TMA if there is a box, or by its threads."""

    op: Op
    value: Value
    """What is stored, before a rounding that staging does itself."""
    box: Box | None
    in_lines: bool = False
    """Staged, in rows that TMA cannot write."""

    def staged_bytes(self, width: int) -> int:
        """Of a warp's 16 rows of so many columns."""
        nbytes = width * elem_stored(self.op).bytes
        return 16 * (nbytes if self.box else nbytes + 16 if self.in_lines else 0)


def stored_box(op: Op, scalars: Scalars, width: int) -> Box | None:
    """What TMA moves of a store, through staging buffers of so many columns; None if it does not."""
    nbytes = elem_stored(op).bytes
    if nbytes not in (2, 4) or width * nbytes < 32:
        return None
    try:
        return find_box(op, scalars)
    except Unboxed:
        return None


@dataclass(frozen=True, slots=True)
class Lines:
    """Where a store writes the rows of a box: at a base, up to limits."""

    base: Value
    limits: Sequence[Value]


def has_lines(op: Op, width: int) -> bool:
    """Whether rows of so many columns can be stored through staging buffers, wherever they begin."""
    nbytes = elem_stored(op).bytes
    return attr_dims(op, "strides")[1] == 1 and nbytes <= 4 and width * nbytes >= 32 and width * nbytes % 16 == 0


def number(clones: Clones, scalars: Scalars, dim: Dim) -> Value:
    """A polynomial over symbols and leaves as a scalar."""
    if isinstance(dim, int):
        return clones.builder(block.const, value=dim, elem=I64)
    names = tuple(sorted(symbols(dim) & scalars.leaves.keys()))
    operands = [clones(scalars.leaves[n]) for n in names]
    wide = [v if v.type == I64 else clones.builder(block.cast, v, to=I64) for v in operands]
    return clones.builder(block.index, *wide, expr=dim, names=names)


def swizzle_of(operand: Operand, elem: Scalar, *, along_k: bool) -> int:
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


@dataclass
class Ring:
    """`stages` slots, each with a buffer for every operand. A barrier says when one is full, another when it is empty.

    A slot is full when all bytes of all operands are there, and empty when so many `readers` have handed it back.
    """

    scalars: Scalars
    operands: Sequence[Operand]
    swizzles: Sequence[int]
    """0: of what no `wgmma` reads."""
    names: Sequence[str]
    stages: int
    readers: int
    rows: Sequence[int] = ()
    """Of each operand the rows to copy where the tensor has fewer than the buffer, else 0."""
    parts: Sequence[int] = ()
    """How many blocks of a cluster load a part of each operand, to all of them."""
    blocks: int = 1
    """Of a cluster, whose readers each slot has."""
    buffers: list[Value] = field(init=False)
    full: Value = field(init=False)
    empty: Value = field(init=False)

    def allocate(self, b: Builder) -> None:
        """The buffers."""
        every = zip(self.operands, self.swizzles, self.names, strict=True)
        self.buffers = [
            b(gpu.shared_alloc, shape=(self.stages, *o.shape), elem=o.elem, swizzle=swizzle, hint=name)
            for o, swizzle, name in every
        ]

    # the producer's

    def fill(
        self, clones: Clones, slot: Value, operands: Sequence[Operand] = (), which: Sequence[int] | None = None
    ) -> None:
        """Copy a box of every operand, or of those, to an empty slot; of others of the same shapes, if any."""
        clones.builder.op(gpu.wait, self.empty, slot, previous=True)
        self.announce(clones.builder, slot, which)
        self.load(clones, slot, which, operands)

    def announce(self, b: Builder, slot: Value, which: Sequence[int] | None = None) -> None:
        """The bytes that those operands take of a slot, or all."""
        rows, nbytes = self.rows or (0,) * len(self.operands), 0
        for i in range(len(self.operands)) if which is None else which:
            nbytes += (rows[i] or self.operands[i].shape[0]) * self.operands[i].shape[1] * self.operands[i].elem.bytes
        b.op(gpu.expect, self.full, slot, nbytes=nbytes)

    def load(
        self, clones: Clones, slot: Value, which: Sequence[int] | None = None, operands: Sequence[Operand] = ()
    ) -> None:
        """Begin the copies of those operands, or of all."""
        for i in range(len(self.operands)) if which is None else which:
            operand, buffer = (operands or self.operands)[i], self.buffers[i]
            box = operand.box
            at = [number(clones, self.scalars, d) for d in (*box.start, *box.taps)]
            attrs = box.attrs()
            if self.rows and self.rows[i]:
                attrs["rows"] = self.rows[i]
            if self.parts and self.parts[i] > 1:
                attrs["parts"] = self.parts[i]
            clones.builder.append(gpu.tma_load.build([operand.pointer, buffer, slot, self.full, *at], attrs))

    # the consumers'

    def wait(self, b: Builder, slot: Value) -> None:
        """Until a slot is full."""
        b.op(gpu.wait, self.full, slot)

    def hand_back(self, b: Builder, slot: Value, *condition: Value, every_warp: bool = False) -> None:
        """A slot to the producers that fill it."""
        if self.blocks > 1:
            b.op(gpu.release, self.empty, slot, *condition, blocks=self.blocks)
        else:
            b.append(gpu.arrive.build([self.empty, slot, *condition], {"every_warp": True} if every_warp else {}))

    def next(self, b: Builder, slot: Value) -> Value:
        """The slot after one."""
        return b(gpu.advance, slot, size=self.stages)


class Turns:
    """Two groups of warps take turns: each begins when the other says so. `every_warp` of a group says it, or one."""

    def __init__(self, b: Builder, *, every_warp: bool) -> None:
        self._said: dict[str, Attr] = {"every_warp": True} if every_warp else {}
        self._barriers = b(gpu.barriers, count=2, arrivals=4 if every_warp else 1, hint="turns")

    def first(self, b: Builder, zero: Value, group: Value) -> Value:
        """A group's first turn, whose barrier has its number; the first group's is the phase before the first."""
        back = b(block.sub, b(block.const, value=2, elem=I64), group)
        return b(gpu.advance, zero, back, size=2, hint="turn")

    def wait(self, b: Builder, turn: Value) -> None:
        """Until it is this group's turn."""
        b.op(gpu.wait, self._barriers, turn)

    def hand_on(self, b: Builder, turn: Value) -> Value:
        """It is the other's turn; this group's next one."""
        b.append(gpu.arrive.build([self._barriers, b(gpu.advance, turn, size=2)], self._said))
        return b(gpu.advance, turn, b(block.const, value=2, elem=I64), size=2)


Fill = Callable[[Clones, Value, Sequence[Value]], Sequence[Value]]
"""Makes the body of a loop, given its counter and what is carried; returns what is carried on."""
FillTile = Callable[[Clones, Sequence[Value], Piece | None], Sequence[Value]]
"""Makes what happens for one program, or for the piece of one that falls to a block."""


_Config = TypeVar("_Config", bound=Config)


class Roles(ABC, Generic[_Config]):
    """Makes a function again as a kernel of warps with roles. Subclasses set what is declared here."""

    config: _Config
    rings: Sequence[Ring]
    stores: Sequence[Store]
    width: int
    """Columns of a staging buffer."""
    order: Dim | None = None
    """Of the program `n`, the number of the one that takes its place."""
    steps: int = 0
    """Of a program, where these are dealt out (`stream.py`)."""
    together: int = 1
    """Blocks of a cluster, which make a program together."""

    def __init__(self, func: Func, scalars: Scalars) -> None:
        self.old, self.scalars, self.builder = func, scalars, Builder()
        self.known = {v: v for v in func.params}
        """What bodies may read, by the old function's value."""

    def func(self) -> Func:
        """Rings and barriers, then a body for each role."""
        c, b = self.config, self.builder
        for ring in self.rings:
            ring.allocate(b)
        self.staging = {i: self._staging(b, s) for i, s in enumerate(self.stores) if s.box or s.in_lines}
        for ring in self.rings:
            ring.full = b(gpu.barriers, count=ring.stages, arrivals=len(self.producers()), hint="full")
        for ring in self.rings:
            ring.empty = b(gpu.barriers, count=ring.stages, arrivals=ring.readers, hint="empty")
        self.prepare(b)
        clones = Clones(b, self.known)
        consumers = self.consumers()
        producers = self.producers()
        bodies = tuple(self._role(clones, fill) for fill in (*consumers, *producers))
        each = 1 if len(producers) > 1 else 4
        warps = (*(4 * c.warpgroups for _ in consumers), *(each for _ in producers))
        groups = (*(c.groups for _ in consumers), *(1 for _ in producers))
        single = tuple(range(len(consumers), len(bodies)))
        attrs: dict[str, Attr] = {"warps": warps, "groups": groups, "single": single}
        if c.registers:
            attrs["registers"] = c.registers
        if self.together > 1:
            attrs["cluster"] = self.together
        b.append(gpu.warp_specialize.build([], attrs, bodies=bodies))
        b.append(self.old.body.terminator)
        count = sum(w * n for w, n in zip(warps, groups, strict=True))
        new = {**self.old.attrs, "warps": count, **self.launch()}
        return Func(self.old.name, b.block(self.old.body.params), new, self.old.dims)

    @abstractmethod
    def prepare(self, b: Builder) -> None:
        """What warps share besides."""

    def consumers(self) -> Sequence[Callable[[Clones, Value], None]]:
        """What makes the roles of warps that multiply."""
        return (self.consumer,)

    @abstractmethod
    def consumer(self, clones: Clones, group: Value) -> None:
        """What a group of warps that multiply does."""

    @abstractmethod
    def producer(self, clones: Clones, group: Value) -> None:
        """What the thread that copies does."""

    def producers(self) -> Sequence[Callable[[Clones, Value], None]]:
        """What makes the roles of threads that copy: one has four warps, to give up registers; several one each."""
        return (self.producer,)

    @abstractmethod
    def launch(self) -> dict[str, Attr]:
        """How blocks are launched."""

    def tiles(self, clones: Clones, group: Value, groups: int, start: Sequence[Value], fill: FillTile) -> None:
        """The loop over the programs of this block."""
        dealt = ("program", "first", "end") if self.steps else ("program",)
        params = Params((*(I64 for _ in dealt), *(v.type for v in start)), (*dealt, *(v.hint for v in start)))
        (program, *steps), carried = params.values[: len(dealt)], params.values[len(dealt) :]
        piece = Piece(program, steps[0], steps[1], self.scalars.grid, self.steps) if steps else None
        inner = self.of_program(clones.inside(Builder(), {}), program)
        inner.builder.op(control.yield_, *fill(inner, carried, piece))
        attrs = {"tiles": self.scalars.grid} | ({"groups": groups} if groups > 1 else {})
        attrs |= {"split": self.together} if self.together > 1 else {}
        attrs |= {"steps": self.steps} if self.steps else {}
        body = inner.builder.block(params)
        clones.builder.append(gpu.for_tiles.build([group, *start], attrs, bodies=(body,)))

    def of_program(self, clones: Clones, program: Value) -> Clones:
        """The same where the program's number is known."""
        own = placed(clones.builder, self.order, program)
        ids = {op.result: own for op in self.old.walk() if op.kind is block.program_id}
        return clones.inside(clones.builder, ids)

    def loop(
        self,
        clones: Clones,
        counter: Value | None,
        ends: tuple[Value, Value],
        start: Sequence[Value],
        fill: Fill,
        step: int = 1,
        hint: str = "k",
    ) -> Sequence[Value]:
        """A loop of the old function, whose counter that was, from and to other ends."""
        params = Params((I64, *(v.type for v in start)), (hint, *(v.hint for v in start)))
        new, *carried = params.values
        inner = clones.inside(Builder(), {counter: new} if counter else {})
        inner.builder.op(control.yield_, *fill(inner, new, carried))
        attrs: dict[str, Attr] = {"step": step} if step > 1 else {}
        made = control.for_.build([*ends, *start], attrs, bodies=(inner.builder.block(params),))
        return clones.builder.append(made).results

    def zero(self, b: Builder) -> Value:
        """The first slot of a ring."""
        return b(block.const, value=0, elem=I32, hint="slot")

    def stage(self, b: Builder, which: int, part: Value, box: int, column: int = 0) -> None:
        """Put a part of a box to a staging buffer of each warp, once stores have read what was there."""
        buffers, by_tma = self.config.store_buffers, [i for i in self.staging if self.stores[i].box]
        earlier = sum(i < which for i in by_tma)
        wait: dict[str, Attr] = {} if column else {"pending": buffers * len(by_tma) - 1 - earlier}
        b.append(gpu.stage.build([self.staging[which], part], {"buffer": box % buffers, "column": column, **wait}))

    def copy_out(self, clones: Clones, which: int, box: int, row: Dim, column: Dim) -> None:
        """Let TMA move a box's staging buffers to where the store has that row and column."""
        store = self.stores[which]
        assert store.box is not None
        *outer, r, c = store.box.start
        at = [number(clones, self.scalars, d) for d in (*outer, r + row, c + column)]
        attrs: dict[str, Attr] = {**store.box.attrs(), "buffer": box % self.config.store_buffers}
        clones.builder.append(gpu.tma_store.build([store.op.operands[0], self.staging[which], *at], attrs))

    def stage_lines(self, b: Builder, which: int, part: Value, box: int, column: int, lines: Lines) -> None:
        """Put a part of a box to a staging buffer of each warp, as it will lie in memory."""
        op, s = self.stores[which].op, self.scalars
        stride, pointer = attr_dims(op, "strides")[0], op.operands[0]
        pair_bytes = 2 * elem_stored(op).bytes
        pairs = all(s.divisor(d) % 2 == 0 for d in (stride, s.dim(op.operands[1])))
        pairs &= s.alignments[pointer.hint] % pair_bytes == 0
        attrs: dict[str, Attr] = {"stride": stride, "column": column, "buffer": box % self.config.store_buffers}
        attrs |= {"pairs": True} if pairs else {}
        b.append(gpu.stage_lines.build([self.staging[which], part, pointer, lines.base], attrs))

    def store_lines(self, b: Builder, which: int, box: int, lines: Lines) -> None:
        """Write a box's staging buffers to memory."""
        op = self.stores[which].op
        operands = [op.operands[0], lines.base, self.staging[which], *lines.limits]
        attrs: dict[str, Attr] = {"stride": attr_dims(op, "strides")[0], "buffer": box % self.config.store_buffers}
        attrs |= {"limited": attr_ints(op, "limited")} if "limited" in op.attrs else {}
        b.append(gpu.store_lines.build(operands, attrs))

    def flush(self, b: Builder) -> None:
        """Wait for the stores that are still on their way, at a consumer's end."""
        if self.staging:
            b.op(gpu.tma_flush)

    def _staging(self, b: Builder, store: Store) -> Value:
        c, elem = self.config, elem_stored(store.op)
        buffers, row = 4 * c.consumers * c.store_buffers, store.staged_bytes(self.width) // 16
        swizzle = row if store.box else 0
        return b(gpu.shared_alloc, shape=(buffers, 16, row // elem.bytes), elem=elem, swizzle=swizzle, hint="staging")

    def _role(self, clones: Clones, fill: Callable[[Clones, Value], None]) -> Block:
        params = Params((I64,), ("group",))
        inner = clones.inside(Builder(), {})
        fill(inner, params.values[0])
        inner.builder.op(control.yield_)
        return inner.builder.block(params)
