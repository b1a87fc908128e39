"""Emits products of one vector by the rows of matrices for GPUs: blocks that stay, and walk over the rows.

    x = the vector, in registers, with all that it is made of: a norm, an activation
    w = rows R b .. R b + R of each matrix          b: number of the block, B: of blocks, R: rows of a step
    for t = 0, 1 ..:
        y = sums of x * w, epilogue, store
        w = rows R (b + B (t + 1)) ..               asked for before the sums of lanes are added up

A block reads the vector once, where one for each few rows reads it as often, all from the cache, through which the
matrices come too. What the vector is made of costs as little, so that a norm needs no launch of its own. Rows are in
registers as a whole; how many there are at a time is by what memory needs to be busy (`ways`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from graphfuse.blockgen.evaluate import Lane, accumulator, lane_over
from graphfuse.blockgen.gpu_tiles import VECTOR_BYTES, lane_along, whole_tiles
from graphfuse.blockgen.index import Index
from graphfuse.blockgen.kernel import Kernel, element_of
from graphfuse.blockgen.loops import Carried, Fold, across, live_or
from graphfuse.blockgen.movement import shape_of
from graphfuse.blockgen.products import Product, store_results
from graphfuse.dialects import block, gpu, graph
from graphfuse.dialects.gpu import ROWS_ACROSS
from graphfuse.ir.core import Attr, Func, Op, Value, attr_ints, made_of, tile_of
from graphfuse.ir.types import F32
from graphfuse.symbolic import Dim, ceildiv, minimum
from graphfuse.targets.machine import WARP, Machine

WAIT_US, WARP_US, SHARPNESS = 0.75, 0.02, 5
"""Of a step from its loads to its end, whatever it reads, the same for each warp that waits for the others, and the
exponent of the norm that joins it with the time of memory: `python -m benchmarks.gpu_constants --only walks`."""
MOST_CHUNKS = 7
"""Vectors of a row that a thread has: with more, too few threads compute what comes."""
THREADS = (1024, 768, 512)
"""Of a multiprocessor."""
MOST_RESIDENT = 8
"""Blocks of a multiprocessor, each of which reads the vector."""
REGISTERS = 1 << 16
"""Of a multiprocessor."""
OTHER_REGISTERS, MAKING_REGISTERS = 16, 16
"""Of a thread, beside those of rows, vector and sums; and where the vector is made, not read."""
MOST_WAYS = 6
"""That are tried, where registers do not hold what they should."""


Chunk = tuple[Lane, Dim]
"""A lane along the vector, and the position that it stands for."""


@dataclass(frozen=True, slots=True)
class Way:
    """Warps of a block, blocks of a multiprocessor, and rows of a step."""

    warps: int
    resident: int
    rows: int

    def __str__(self) -> str:
        return f"walk of {self.rows} rows warps={self.warps} resident={self.resident}"


@dataclass(frozen=True, slots=True)
class Rows:
    """Of matrices that one vector is multiplied by: how many, of so many elements of `size` bytes, of each matrix."""

    count: int
    depth: int
    size: int
    matrices: int = 1
    is_made: bool = False
    """Whether the vector is made of what is read."""


def ways(machine: Machine, rows: Rows) -> list[Way]:
    """How to walk over rows, the best first; none if no block holds one."""
    rate = machine.gpu.memory.bytes_per_us / machine.multiprocessors
    vector = VECTOR_BYTES // rows.size
    row_bytes = rows.matrices * rows.depth * rows.size

    def chunks(way: Way) -> int:
        return -(-rows.depth // (way.warps * WARP * vector))

    def registers(way: Way) -> int:
        words = VECTOR_BYTES // 4 * way.rows * rows.matrices * chunks(way)
        return words + vector * (chunks(way) + way.rows) + OTHER_REGISTERS + MAKING_REGISTERS * rows.is_made

    def us(way: Way) -> float:
        """Of a multiprocessor: its blocks' steps, the last of them of what is left over, and half of one at the end."""

        def step(nbytes: float) -> float:
            return math.hypot((nbytes / rate) ** (SHARPNESS / 2), wait ** (SHARPNESS / 2)) ** (2 / SHARPNESS)

        wait = WAIT_US + WARP_US * way.warps
        at_once = way.resident * way.rows * row_bytes
        full, left = divmod(rows.count * row_bytes / machine.multiprocessors, at_once)
        return full * step(at_once) + (step(left) if left else 0) + at_once / rate / 4

    pairs = ((w, min(MOST_RESIDENT, threads // (WARP * w))) for w in (1, 2, 4, 8, 16) for threads in THREADS)
    every = dict.fromkeys(Way(w, n, r) for w, n in pairs if n for r in (1, 2, 4, 8))
    held = [w for w in every if chunks(w) <= MOST_CHUNKS and registers(w) * w.warps * WARP * w.resident <= REGISTERS]
    return sorted(held, key=us)[:MOST_WAYS]


def is_whole(reduce: Op, depth: int) -> bool:
    """Whether it makes one number of a vector of that length."""
    shape = shape_of(reduce.operands[0])
    return _is_vector(shape, depth) and shape.index(depth) in attr_ints(reduce, "axes")


def _is_vector(shape: Sequence[Dim], depth: int) -> bool:
    """Whether there is one dim of more than one element, of that many."""
    return [d for d in shape if d != 1] == [depth]


def _along(shape: Sequence[Dim], position: Dim) -> Index:
    """The index of a shape with one dim of more than one element, at a position along that."""
    return tuple(0 if d == 1 else position for d in shape)


@dataclass(frozen=True)
class VectorWalk:
    """Products by one vector, `lhs` of all of them, whose matrices have one dim of rows and one that is summed."""

    kernel: Kernel
    works: Sequence[Product]
    rows: Dim
    depth: int
    row_at: Callable[[Dim], Index]
    """The index of the domain at a row."""
    k_at: Callable[[Dim], Index]
    """The index of what is summed at a position."""

    def emit(self, choices: Sequence[Way]) -> Func:
        """The kernel, as the first of the choices or the one that the region asks for."""
        kernel, ev = self.kernel, self.kernel.ev
        way = kernel.chosen(choices)
        steps, most = ceildiv(self.rows, way.rows), way.resident * kernel.machine.multiprocessors
        grid = minimum(steps, most)
        pid = ev.bind("pid", 0, grid - 1, ev.emit(block.program_id))
        elem = element_of(self.works[0].rhs)
        width = way.warps * WARP * (VECTOR_BYTES // elem.bytes)
        first = self._matrices(way.rows, width, pid)
        vector = self._vector(width)

        turns = kernel.space.simplify(ceildiv(steps - pid, grid))

        def turn(number: Dim, carried: Carried) -> list[Value]:
            here = ev.bind("p", 0, steps - 1, ev.index(pid + number * grid))
            products = self._products(self._again(vector, number), carried, way.rows)
            following = [] if turns == 1 else self._matrices(way.rows, width, here + grid, is_there=False)
            self._store(products, here, way.rows)
            return following

        ev.loop("t", turns, turn, first)
        attrs: dict[str, Attr] = {"warps": way.warps, "resident": way.resident, ROWS_ACROSS: True, "trigger": "early"}
        attrs["flops"] = 2 * self.rows * self.depth * len(self.works)
        return kernel.finish(grid, 1 + self.depth * way.rows * len(self.works) // 256, attrs)

    def _chunks(self, width: int, extent: int) -> list[Chunk]:
        """Lanes over so many positions each, and the position that each stands for."""
        kernel, cut = self.kernel, extent % width
        whole = [lane_over(kernel.space, width, first) for first in range(0, extent - cut, width)]
        return [*whole, lane_along(kernel, extent, width, extent - cut)] if cut else whole

    # the vector

    def _vector(self, width: int) -> list[Value]:
        """Tiles of it, 0 behind its end."""
        kernel, ev, work = self.kernel, self.kernel.ev, self.works[0]
        none = (0,) * len(work.domain)
        chunks, made = self._chunks(width, self.depth), set(made_of(work.lhs))
        for v in kernel.body.params.values:
            if v in made and _is_vector(shape_of(v), self.depth):
                self._read(v, chunks)
        for op in kernel.body.ops:
            if op.kind is graph.reduce:
                self._reduce(op, chunks, width)
        tiles: list[Value] = []
        for lane, k in chunks:
            with ev.lanes_as(Lane("", 1), lane):
                got = ev.value(work.lhs, work.lhs_at(none, self.k_at(k)))
                tiles.append(live_or(ev, got, 0))
        return tiles

    def _read(self, v: Value, chunks: Sequence[Chunk]) -> None:
        """Load what the vector is made of, once."""
        ev, shape = self.kernel.ev, shape_of(v)
        for lane, k in chunks:
            at = _along(shape, k)
            with ev.lanes_as(Lane("", 1), lane):
                got = ev.value(v, at)
            ev.remember(v, at, got)

    def _reduce(self, op: Op, chunks: Sequence[Chunk], width: int) -> None:
        """What the vector is normalised by, for all lanes to read."""
        ev, (x,) = self.kernel.ev, op.operands
        axes, shape = attr_ints(op, "axes"), shape_of(x)
        fold = Fold.of(op, lambda at: ev.value(x, at))
        partial = fold.start(ev, (1, width))
        for lane, k in chunks:
            with ev.lanes_as(Lane("", 1), lane):
                partial = fold.combined(ev, partial, fold.at(_along(shape, k)))
        total = ev.cast(across(ev, fold.kind, partial, (1,), fold.wide), fold.elem)
        kept = len(shape) if op.attrs.get("keepdims", False) else len(shape) - len(axes)
        ev.remember(op.result, (0,) * kept, total)

    # rows

    def _lane(self, step: Dim, height: int, *, is_there: bool = True) -> tuple[Lane, Index]:
        """Over the rows of a step, and the index of the domain that they are at; of one that is not there, none.

        A lane of one row may vanish from where a view is read, and its limit with it: such a row is one that there is.
        """
        whole = is_there and whole_tiles(self.rows, height)
        limit = None if whole else self.rows - step * height
        first = minimum(step, self.rows - 1) if height == 1 and not is_there else step * height
        lane, row = lane_over(self.kernel.space, height, first, limit)
        return lane, self.row_at(row)

    def _matrices(self, height: int, width: int, step: Dim, *, is_there: bool = True) -> list[Value]:
        """Tiles of a step's rows of each matrix, one behind the other along the rows."""
        ev, (rows, at) = self.kernel.ev, self._lane(step, height, is_there=is_there)
        tiles: list[Value] = []
        for work in self.works:
            for lane, k in self._chunks(width, self.depth):
                with ev.lanes_as(rows, lane):
                    tiles.append(ev.value(work.rhs, work.rhs_at(at, self.k_at(k))))
        return tiles

    def _again(self, vector: Sequence[Value], turn: Dim) -> list[Value]:
        """The vector, not to be kept as f32 from turn to turn."""
        ev, elem = self.kernel.ev, element_of(self.works[0].lhs)
        keep = isinstance(turn, int) or elem.bytes >= F32.bytes
        return list(vector) if keep else [ev.emit(gpu.anew, v, ev.index(turn)) for v in vector]

    def _products(self, vector: Sequence[Value], matrices: Sequence[Value], height: int) -> list[Value]:
        """Of a step's rows and the vector, for each matrix: added up along a row but for its last lanes."""
        ev, out = self.kernel.ev, list[Value]()
        elem = accumulator(element_of(self.works[0].result))
        for i in range(0, len(matrices), len(vector)):
            pairs = zip(vector, matrices[i : i + len(vector)], strict=True)
            shape = (height, tile_of(matrices[i]).shape[1])
            total: Value | None = None
            for pair in pairs:
                factors = [ev.shaped(ev.cast(v, elem), shape) for v in pair]
                total = ev.emit(block.mul, *factors) if total is None else ev.emit(block.fma, *factors, total)
            assert total is not None
            out.append(total)
        return out

    def _store(self, products: Sequence[Value], step: Dim, height: int) -> None:
        rows, at = self._lane(step, height)
        work, *beside = self.works
        ev, elem = self.kernel.ev, accumulator(element_of(work.result))
        first, *more = (across(ev, "sum", p, (1,), elem) for p in products)
        store_results(self.kernel, work, at, (rows, Lane("", 1)), first, list(zip(beside, more, strict=True)))
