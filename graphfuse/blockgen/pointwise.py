"""Emits pointwise regions: every output element on its own, lanes along the innermost merged dim.

program_id -> position in the outer dims (and a chunk of the innermost one)
for tile in chunk: evaluate each output at (outer..., tile + lane), store

Where an operand lies turned around, dense along an outer dim, tiles have both dims: each line of it is read
once and turned in registers.

Where what is read of a short innermost dim is one with the dim before, they are walked as one: what varies along the
first alone is read once for each run of the other, what varies along the short one alone once for all runs
(`Walk.last_run`).

Tiles end where a concat or pad along the innermost dim goes over to another operand, so that each reads one operand and
needs no mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from graphfuse.blockgen.access import Accesses, Merged, Walk, merged_index
from graphfuse.blockgen.evaluate import lane_over
from graphfuse.blockgen.index import coefficient
from graphfuse.blockgen.kernel import Kernel, element_of, positions
from graphfuse.blockgen.loops import Carried, digits, for_piece, programs
from graphfuse.blockgen.movement import shape_of
from graphfuse.blockgen.tiling import Piece, cost_per_element, pieces, pointwise_width, runs_width
from graphfuse.dialects import block, graph
from graphfuse.ir.core import Func, Op, attr_ints
from graphfuse.ir.types import I64
from graphfuse.symbolic import Dim, ceildiv, minimum, product, static, sym

SHORTEST_SIDE = 4
"""Elements of a dim whose tiles are turned in registers (`cpu/lower_memory.py`); fewer where edges would be masks."""
MOST_EDGES = 4
"""Of a dim that is turned, its ends included, whose parts have tiles of their own: code grows with each."""
MAX_PARTS = 64
"""Operands side by side in the innermost dim that get tiles of their own; code grows with each."""
ACCUMULATORS = 4
"""Vectors of partial sums that hide an addition's latency (2 to 4 cycles, two of them at once)."""
UNKNOWN = 64
"""Elements of a sum over dims that are not known."""


def emit(kernel: Kernel) -> Func:
    """One program per position of the outer dims and chunk of the innermost dim."""
    ops, elem, core = kernel.work, element_of(kernel.outputs[0]), kernel.machine.core
    vector = unit = kernel.machine.lanes(elem)
    width = pointwise_width(kernel.machine, elem, ops, len(kernel.body.params.types))
    domain: Sequence[Dim] = shape_of(kernel.outputs[0])
    walk = walked(kernel, domain)
    dims = walk.merge()
    joined = walk.last_run(dims, vector, kernel.outputs)
    if joined is not None and (lanes := runs_width(static(joined[1].extent), vector, width)):
        left, run = joined
        domain, unit = (*domain[: left.first], left.extent * run.extent), lanes
        width = unit << (width // unit).bit_length() - 1
        walk = walked(kernel, domain)
        dims = walk.merge()
    names, found = walk.names, walk.found
    if not dims:
        kernel.store_outputs((0,) * len(domain), domain)
        return kernel.finish(1, 10)
    cost = cost_per_element(core, ops) + core.element_ns * sum(map(_summed, ops))
    outer, inner = dims[:-1], dims[-1]
    if (dense := _turned(found, dims, names, vector)) is not None:
        return _Squares(kernel, walk, dims, dense, vector).emit(cost)
    chunks: Dim = 1
    extent, most = inner.extent, core.chunk // unit * unit
    if not isinstance(extent, int) or extent > most:
        chunks = ceildiv(extent, most)
    grid = positions([d.extent for d in outer]) * chunks
    ev = kernel.ev
    pid = ev.bind("pid", 0, grid - 1, ev.emit(block.program_id))
    at_outer, chunk = (pid, 0) if chunks == 1 else digits(kernel, pid, [grid // chunks, chunks])
    at = digits(kernel, at_outer, [d.extent for d in outer])
    start: Dim = chunk * most
    size: Dim = extent
    if chunks != 1:
        code = ev.index(minimum(extent - start, most))
        size = ev.bind("size", 1, most, code)
    kernel.read_ahead(lambda elem: core.ahead_bytes // elem.bytes)

    def store(position: Dim, _: Carried) -> None:
        kernel.store_outputs(merged_index(len(domain), dims, (*at, position)), domain)

    cuts = _cuts(found, names[inner.last], size) if isinstance(size, int) else []
    tiles = _cut_pieces(cuts, width, unit) if 1 < len(cuts) - 1 <= MAX_PARTS else pieces(size, width, unit)
    ev.chains = max(1, ACCUMULATORS * vector // max((p.width for p in tiles), default=vector))
    for piece in tiles:
        for_piece(kernel, piece, store, start=start)
    per_program = extent if chunks == 1 else most
    return kernel.finish(grid, per_program * max(1, round(cost * 16)) // 16)


def _summed(op: Op) -> int:
    """Elements for each result of a reduction; none of another op."""
    if op.kind is not graph.reduce:
        return 0
    shape = shape_of(op.operands[0])
    count = product([shape[a] for a in attr_ints(op, "axes")])
    return count if isinstance(count, int) else UNKNOWN


def _turned(found: Accesses, dims: Sequence[Merged], names: Sequence[str], vector: int) -> int | None:
    """The outer dim along which something read is dense that is far apart along the innermost one; static dims."""
    inner = dims[-1]
    if not isinstance(inner.extent, int):
        return None
    for offset in found.offsets:
        far = coefficient(offset, names[inner.last])
        if not isinstance(far, int) or far < vector:
            continue
        for i, d in enumerate(dims[:-1]):
            if not isinstance(d.extent, int) or coefficient(offset, names[d.last]) != 1:
                continue
            least = 2 if len(_cuts(found, names[d.last], d.extent)) > 2 else SHORTEST_SIDE
            if min(d.extent, inner.extent) >= least:
                return i
    return None


@dataclass(frozen=True)
class _Squares:
    """One program for some positions of dim `dense` and a chunk of the innermost; tiles are vectors either way.

    Programs go along `dense` first: the next one reads the next cache line of the same pages. The last tiles are
    moved back over others where they would not be full. No tile lies on both sides of an edge along `dense`, unless
    there are many.
    """

    kernel: Kernel
    walk: Walk
    dims: Sequence[Merged]
    dense: int
    vector: int

    def emit(self, cost: float) -> Func:
        """All of them."""
        kernel, ev, vector = self.kernel, self.kernel.ev, self.vector
        inner, height = self.dims[-1].extent, static(self.dims[self.dense].extent)
        assert isinstance(inner, int)
        high, wide = min(vector, height), min(vector, inner)
        most = min(inner, kernel.machine.core.chunk // high) // wide
        columns = wide * -(-(inner // wide) // -(-(inner // wide) // most))
        others = [d.extent for i, d in enumerate(self.dims[:-1]) if i != self.dense]
        parts = list(pairwise(self._edges()))
        lines = [-(-(end - begin) // vector) for begin, end in parts]
        grid, (*at, chunk, line) = programs(kernel, [*others, -(-inner // columns), sum(lines)])
        first = _moved_back(kernel, chunk, columns, inner)

        def part(number: int, before: int) -> None:
            def here() -> None:
                n = ev.bind("n", 0, lines[number] - 1, ev.index(line - before))
                self._line(at, parts[number], n, first, columns)

            behind = before + lines[number]
            if number + 1 == len(parts):
                here()
                return
            is_here = ev.emit(block.lt, ev.index(line), ev.const(behind, I64))
            ev.branch(is_here, here, lambda _: part(number + 1, behind))

        part(0, 0)
        return kernel.finish(grid, max(1, round(high * columns * cost)))

    def _edges(self) -> list[int]:
        """Where what is read changes along the dense dim, both its ends included; the ends alone if it often does."""
        dim = self.dims[self.dense]
        cuts = _cuts(self.walk.found, self.walk.names[dim.last], static(dim.extent))
        return cuts if len(cuts) <= MOST_EDGES else [cuts[0], cuts[-1]]

    def _line(self, at: Sequence[Dim], part: tuple[int, int], number: Dim, first: Dim, columns: int) -> None:
        """The squares of some positions of a part of the dense dim."""
        kernel, ev, domain, (begin, end) = self.kernel, self.kernel.ev, self.walk.shape, part
        high, wide = min(self.vector, end - begin), min(self.vector, static(self.dims[-1].extent))
        rows, row = lane_over(kernel.space, high, begin + _moved_back(kernel, number, high, end - begin))
        places = [*at[: self.dense], row, *at[self.dense :]]

        def square(t: Dim, _: Carried) -> None:
            lanes, column = lane_over(kernel.space, wide, first + t * wide)
            with ev.lanes_as(rows, lanes):
                kernel.store_outputs(merged_index(len(domain), self.dims, (*places, column)), domain)

        ev.loop("t", columns // wide, square)


def _moved_back(kernel: Kernel, number: Dim, size: int, extent: int) -> Dim:
    """Where a piece of so many elements begins, of which the last ends with the extent."""
    if extent % size == 0:
        return number * size
    code = kernel.ev.index(minimum(number * size, extent - size))
    return kernel.ev.bind("from", 0, extent - size, code)


def walked(kernel: Kernel, domain: Sequence[Dim]) -> Walk:
    """What the region reads and writes at an index of `domain`."""
    return Walk.over(kernel.space, domain, lambda at: kernel.accesses(at, domain).found)


def _cuts(found: Accesses, name: str, extent: int) -> list[int]:
    """The positions along dim `name` where what is read changes, 0 and the extent included, in order."""
    places = {0, extent}
    for at, edge in found.edges:
        here = edge - (at - sym(name))
        if isinstance(here, int) and 0 < here < extent:
            places.add(here)
    return sorted(places)


def _cut_pieces(cuts: Sequence[int], width: int, vector: int) -> list[Piece]:
    """`pieces` of each stretch between two cuts; one that would be masked has exactly the lanes it needs instead."""
    out: list[Piece] = []
    for begin, end in pairwise(cuts):
        for p in pieces(end - begin, width, vector):
            assert isinstance(p.start, int)
            exact = p if p.limit is None else replace(p, width=end - begin - p.start, limit=None)
            out.append(replace(exact, start=begin + p.start))
    return out
