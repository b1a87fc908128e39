"""Emits scatters, which change what is in memory already, in the order of the updates: later ones win.

A program has a piece of the dims that no index is for, or a range of the first dim that indices are for, and makes all
updates of it, one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from graphfuse.blockgen.access import AccessAnalysis, Accesses, Merged, Walk, as_index, merged_index
from graphfuse.blockgen.evaluate_ops import from_the_end
from graphfuse.blockgen.index import Index
from graphfuse.blockgen.kernel import Kernel, element_of, positions
from graphfuse.blockgen.loops import Carried, for_piece, nest, programs
from graphfuse.blockgen.movement import shape_of
from graphfuse.blockgen.tiling import Piece, pieces
from graphfuse.dialects import block, graph
from graphfuse.ir.core import Func, Value, attr_int, attr_ints
from graphfuse.symbolic import Dim, ceildiv, exact_div, floordiv, minimum, static

PARTS = 8
"""A dim is cut in so many at most: all of them read the indices."""
LEAST_BYTES = 256
"""Of a part: slices lie anywhere, and each costs its latency."""
REDUCTIONS = {"add": "sum", "mul": "prod"}
"""What reductions call kinds of updates, where that is something else."""


class Updates:
    """What a region scatters, and where to."""

    def __init__(self, kernel: Kernel) -> None:
        (op,) = (op for op in kernel.body.ops if op.kind in graph.SCATTERS)
        self.kernel, self.op, self.is_whole = kernel, op, bool(op.attrs.get("whole", False))
        written = len(attr_ints(kernel.region, "in_place", ()))
        assert written == (not self.is_whole), "its operand is where its result is"
        self.x, self.indices, self.updates = op.operands
        self.kind = str(op.attrs.get("kind", "set"))
        self.shape, self.sizes = shape_of(self.updates), shape_of(op.result)
        self.out = replace(kernel.stores[0], stream_elems=0)
        self._axis = attr_int(op, "axis") if op.kind is graph.scatter_along else None
        first = self._axis or 0
        self.named = range(first, first + 1 if self._axis is not None else len(shape_of(self.indices)) - 1)
        """The dims of the updates that there are indices for."""

    def walk(self) -> Walk:
        """What an update at any index reads and writes; all that a program does there, if the scatter is whole."""
        return Walk.over(self.kernel.space, self.shape, self._accesses)

    def _accesses(self, at: Index) -> Accesses:
        analysis = AccessAnalysis(self.kernel.space, set(self.kernel.ev.leaves), frozenset({self.op.result}))
        analysis.visit(self.updates, at)
        found: list[Dim] = []
        for where, dim in self._read(at):
            analysis.visit(self.indices, where)
            found.append(self.kernel.space.fresh("g", 0, self.sizes[dim] - 1))
        target = self.target(at, found)
        for value in self.kernel.outputs:
            analysis.write(value, target)
        if self.is_whole:
            analysis.visit(self.x, target)
        return analysis.found

    @property
    def first(self) -> Dim:
        """The extent of the first dim that indices are for; 1 if there is none."""
        return next((self.sizes[dim] for _, dim in self._read(tuple(0 for _ in self.shape))), 1)

    def is_one_place(self, walk: Walk, dim: Merged) -> bool:
        """Whether all along a dim have one index."""
        reads = [self.kernel.reads(self.indices, where) for where, _ in self._read(as_index(walk.names))]
        return not any(r.uses(walk.names[i]) for r in reads for i in range(dim.first, dim.last + 1))

    def _read(self, at: Index) -> Iterator[tuple[Index, int]]:
        """Where the indices of an update are, and the dims of the result that they are for."""
        if self._axis is not None:
            yield at, self._axis
        else:
            lead = at[: self.named.stop]
            yield from (((*lead, k), k) for k in range(static(shape_of(self.indices)[-1])))

    def target(self, at: Index, places: Sequence[Dim]) -> Index:
        """Where an update goes."""
        before = () if self._axis is None else at[: self._axis]
        return (*before, *places, *at[self.named.stop :])

    def places(self, at: Index, within: tuple[Dim, Dim] | None = None) -> tuple[list[Dim], Value | None]:
        """What the indices of an update say, from the end when negative, and whether that is in range.

        `within` is that range for the first of them.
        """
        ev, found, inside = self.kernel.ev, list[Dim](), None
        for where, dim in self._read(at):
            size = self.sizes[dim]
            low, high = (0, size) if found or within is None else within
            code = from_the_end(ev, ev.value(self.indices, where), size)
            for test, bound in ((block.ge, low), (block.lt, high)):
                inside = ev.both(inside, ev.emit(test, *ev.unified([code, ev.index(bound)])))
            found.append(ev.bind("g", 0, size - 1, code))
        return found, inside

    def apply(self, at: Index, places: Sequence[Dim], inside: Value | None) -> None:
        """Store an update, or what it makes of what is there: nothing out of range."""
        ev, target = self.kernel.ev, self.target(at, places)
        update = ev.value(self.updates, at)
        with ev.where(inside):
            if self.kind != "set":
                update = ev.emit(block.ELEMENTWISE[self.kind], *ev.unified([ev.load(self.out, target), update]))
            ev.store(self.out, target, update)


Cut = Callable[[Dim, Dim, bool], tuple[Dim, int]]
"""How a scatter is shared out, by its innermost free dim, the programs that there are for that, and whether all of it
goes to one place: the length of the dim's parts, and how many ranges of the first index there are."""


def emit(kernel: Kernel) -> Func:
    """Programs for parts of slices."""
    elem = element_of(kernel.outputs[0])
    vector, least = kernel.machine.lanes(elem), LEAST_BYTES // max(1, elem.bytes)

    def cut(extent: Dim, others: Dim, _: bool) -> tuple[Dim, int]:
        if kernel.space.below(PARTS, others):
            return extent, 1
        if not isinstance(extent, int):
            return least * PARTS, 1
        wanted = max(least, -(-extent // (PARTS * vector)) * vector)
        return next((n for n in range(wanted, 2 * wanted, vector) if extent % n == 0), min(wanted, extent)), 1

    return in_order(Updates(kernel), cut, lambda size: pieces(size, vector * 4, vector))


def in_order(made: Updates, shared: Cut, tiles: Callable[[Dim], list[Piece]]) -> Func:
    """Loops over the dims that have indices, inside of programs over the others; lanes along the innermost of them."""
    kernel, ev, walk = made.kernel, made.kernel.ev, made.walk()
    dims = walk.merge()
    named, free = ([d for d in dims if (d.last in made.named) is is_named] for is_named in (True, False))
    inner = free.pop() if free and free[-1] is dims[-1] else None
    extent = inner.extent if inner else 1
    is_one = inner is None or made.is_one_place(walk, inner)
    cut, ranges = shared(extent, positions([d.extent for d in free]), is_one)
    parts = 1 if cut == extent else ceildiv(extent, cut)
    grid, (*outer, number, share) = programs(kernel, [*(d.extent for d in free), parts, ranges])
    start, size = number * cut, cut
    if cut != extent and exact_div(extent, cut) is None:
        size = ev.bind("size", 1, cut, ev.index(minimum(extent - start, cut)))
    rows = ceildiv(made.first, ranges)
    within = None if ranges == 1 else (share * rows, minimum(share * rows + rows, made.first))

    def index(at: Index, position: Dim) -> Index:
        by_dim = dict(zip((*named, *free), (*at, *outer), strict=True))
        return merged_index(len(made.shape), dims, [by_dim.get(d, position) for d in dims])

    def along(body: Callable[[Dim], None]) -> None:
        if inner is None:
            body(0)
            return
        for piece in tiles(size):
            for_piece(kernel, piece, lambda position, _: body(position), start=start)

    def step(at: Index, _: Carried) -> None:
        if not is_one:
            along(lambda position: made.apply(index(at, position), *made.places(index(at, position), within)))
            return
        places, inside = made.places(index(at, start), within)

        def write() -> None:
            along(lambda position: made.apply(index(at, position), places, None))

        if inside is None:
            write()
        else:
            ev.branch(inside, write)

    nest(ev, [d.extent for d in named], step)
    updates = positions([d.extent for d in named])
    return kernel.finish(grid, 1 + updates * 2 + floordiv(updates * cut, 8 * ranges))
