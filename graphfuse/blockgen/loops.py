"""Loops that every schedule is made of: tiles along one dim, tiles of rows, reductions over tiles of a row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from graphfuse.blockgen.evaluate import Evaluator, Yielded, accumulator, lane_over
from graphfuse.blockgen.index import Index, unravel
from graphfuse.blockgen.kernel import Kernel, element_of, positions
from graphfuse.blockgen.scans import Scan
from graphfuse.blockgen.tiling import Piece, pieces
from graphfuse.dialects import block
from graphfuse.dialects.elementwise import COMBINE, ROUNDED_KINDS, neutral
from graphfuse.ir.core import Op, Value, tensor_of, tile_of
from graphfuse.ir.types import I64, Scalar, Tile
from graphfuse.symbolic import Dim, bounds, ceildiv, minimum

Carried = tuple[Value, ...]
AtPosition = Callable[[Dim, Carried], Yielded]
"""Emits what happens at a position along one dim (an expression in a lane), and gives the next carried values."""
AtIndex = Callable[[Index, Carried], Yielded]
"""The same at an index."""
RowTiles = Callable[[AtIndex, Callable[[tuple[int, ...]], Carried]], Iterable[Carried]]
"""Runs a body over all tiles of a row, given what a run of tiles of a shape begins with; its last values."""


def digits(kernel: Kernel, flat: Dim, extents: Sequence[Dim]) -> Index:
    """The index whose row-major position in `extents` is `flat`; each digit that divides becomes a variable."""
    out: list[Dim] = []
    for digit, extent in zip(unravel(flat, extents, kernel.space), extents, strict=True):
        if isinstance(digit, int) or str(digit).isidentifier():
            out.append(digit)
        else:
            out.append(kernel.ev.bind("p", 0, extent - 1, kernel.ev.index(digit)))
    return tuple(out)


def programs(kernel: Kernel, extents: Sequence[Dim]) -> tuple[Dim, Index]:
    """A grid of one program for each index of `extents`, and the index of this one."""
    grid = positions(extents)
    return grid, digits(kernel, kernel.ev.bind("pid", 0, grid - 1, kernel.ev.emit(block.program_id)), extents)


def by_turns(kernel: Kernel, extents: Sequence[Dim], most: int, body: Callable[[Index], None]) -> Dim:
    """A grid of at most so many programs, which take the indices of `extents` by turns."""
    ev, total = kernel.ev, positions(extents)
    first = ev.bind("pid", 0, most - 1, ev.emit(block.program_id))

    def turn(number: Dim, _: Carried) -> None:
        at = ev.bind("p", 0, total - 1, ev.index(first + number * most))
        body(digits(kernel, at, extents))

    ev.loop("t", ceildiv(total - first, most), turn)
    return minimum(total, most)


def for_piece(kernel: Kernel, piece: Piece, body: AtPosition, init: Carried = (), start: Dim = 0) -> Carried:
    """Run `body` over the tiles of a piece, one lane dim wide; `start` is where the piece's dim begins."""
    ev, space = kernel.ev, kernel.space

    def tile(t: Dim, carried: Carried) -> Yielded:
        first = start + piece.start + t * piece.width
        limit = None if piece.limit is None else start + piece.limit - first
        lane, position = lane_over(space, piece.width, first, limit)
        with ev.lanes_as(lane):
            return body(position, carried)

    return ev.loop("t", piece.count, tile, init)


def row_tiles(kernel: Kernel, extent: Dim, lanes: int, index: Callable[[Dim], Index]) -> RowTiles:
    """Tiles of up to four vectors along one dim, whose positions are at `index`."""

    def run(body: AtIndex, init: Callable[[tuple[int, ...]], Carried]) -> Iterator[Carried]:
        for piece in pieces(extent, 4 * lanes, lanes):
            yield for_piece(kernel, piece, lambda at, c: body(index(at), c), init((piece.width,)))

    return run


def side_by_side(
    kernel: Kernel, outer: Sequence[Dim], across: Dim, count: int, width: int, body: Callable[[Index, Dim], None],
    vector: int = 0,
) -> Dim:  # fmt: skip
    """A grid of one program for each index of `outer` and `count` places of `across`: its size.

    `body(index, place)` emits a tile of places, of `width` lanes or fewer, but of a multiple of `vector` if that is
    given.
    """
    ev, vector = kernel.ev, vector or kernel.machine.lanes(element_of(kernel.outputs[0]))
    grid, (*at, chunk) = programs(kernel, [*outer, ceildiv(across, count)])
    here: Dim = across
    if not isinstance(across, int) or across > count:
        here = ev.bind("size", 1, count, ev.index(minimum(across - chunk * count, count)))
    for piece in pieces(here, width, vector):
        for_piece(kernel, piece, lambda place, _: body(tuple(at), place), start=chunk * count)
    return grid


def nest(ev: Evaluator, shape: Sequence[Dim], body: AtIndex, init: Carried = ()) -> Carried:
    """Nested loops over a shape, carrying values through."""

    def level(left: Sequence[Dim], at: Index, carried: Carried) -> Carried:
        if not left:
            return tuple(body(at, carried) or ())
        return ev.loop("r", left[0], lambda var, c: level(left[1:], (*at, var), c), carried)

    return level(list(shape), (), init)


def for_row_tiles(
    kernel: Kernel, rows: Dim, height: int, block_rows: tuple[Dim, int] | None,
    body: Callable[[Dim, int, Dim], None], lower: Sequence[int] = (),
) -> None:  # fmt: skip
    """Cover `rows` (or block `i` of `n` rows, given as `(i, n)`) by tiles: `body(first row, height, number)` emits one.

    The last tile moves back to end at the last row. When there may be fewer rows than one tile, they go by tiles of the
    `lower` heights, else one by one.
    """
    ev, space = kernel.ev, kernel.space
    first: Dim = 0
    here = rows
    if block_rows is not None:
        first = block_rows[0] * block_rows[1]
        here = minimum(rows - first, block_rows[1])
    exact = isinstance(rows, int) and rows % height == 0 and (block_rows is None or block_rows[1] % height == 0)

    def tile(t: Dim, _: Carried) -> None:
        row: Dim = first + t * height
        if not exact:
            row = ev.bind("m", 0, rows - height, ev.index(minimum(row, rows - height)))
        body(row, height, t)

    def tiles() -> Carried:
        return ev.loop("t", space.simplify(ceildiv(here, height)), tile)

    def short(_: object) -> None:
        if lower:
            for_row_tiles(kernel, rows, lower[0], block_rows, body, lower[1:])
        else:
            ev.loop("m", space.simplify(here), lambda m, _: body(first + m, 1, m))

    if height == 1 or space.nonnegative(rows - height):
        tiles()
    elif lower and bounds(rows, space.ranges)[1] < height:
        short(None)
    else:
        ev.branch(ev.emit(block.ge, ev.index(rows), ev.const(height, I64)), tiles, short)


# reductions


@dataclass(frozen=True, slots=True)
class Fold:
    """A reduction of what `at(position)` computes, whose element is `elem`."""

    kind: str
    elem: Scalar
    at: Callable[[Index], Value]

    @staticmethod
    def of(op: Op, at: Callable[[Index], Value]) -> Fold:
        """What a `graph.reduce` does."""
        return Fold(str(op.attrs["kind"]), tensor_of(op.operands[0]).elem, at)

    @property
    def wide(self) -> Scalar:
        """The element of partial results."""
        return accumulator(self.elem) if self.kind in ROUNDED_KINDS else self.elem

    def start(self, ev: Evaluator, shape: tuple[int, ...] | None) -> Value:
        """The result of nothing."""
        return ev.const(neutral(self.kind, self.wide), self.wide, shape)

    def of_two(self, ev: Evaluator, a: Value, b: Value) -> Value:
        """Two partial results as one."""
        return ev.emit(block.ELEMENTWISE[COMBINE[self.kind]], a, b)

    def combined(self, ev: Evaluator, into: Value, got: Value) -> Value:
        """Fold `got`, evaluated under the lanes, into partial results; lanes that do not exist change nothing."""
        return self.of_two(ev, into, live_or_neutral(ev, self.kind, self.wide, got))


def fold_row(ev: Evaluator, tiles: RowTiles, folds: Sequence[Fold], axes: Sequence[int] = (0,)) -> list[Value]:
    """Reduce a row in one walk: a tile of partial results for each run of tiles, then across `axes` of it."""

    def step(at: Index, carried: Carried) -> list[Value]:
        return [f.combined(ev, before, f.at(at)) for f, before in zip(folds, carried, strict=True)]

    runs = list(tiles(step, lambda shape: tuple(f.start(ev, shape) for f in folds)))
    if not runs:  # a row of nothing
        return [ev.cast(f.start(ev, None), f.elem) for f in folds]
    totals: list[Value] = []
    for f, *partial in zip(folds, *runs, strict=True):
        total, *others = narrowed(ev, f.kind, partial) if len(partial) > 1 else partial
        for other in others:
            total = f.of_two(ev, total, other)
        totals.append(across(ev, f.kind, total, axes, f.wide))
    return [ev.cast(total, f.elem) for f, total in zip(folds, totals, strict=True)]


def narrowed(ev: Evaluator, kind: str, tiles: Sequence[Value]) -> list[Value]:
    """Tiles of one dim with as many lanes as the narrowest: lanes so far apart are reduced."""
    width = min(tile_of(t).shape[0] for t in tiles)
    out: list[Value] = []
    for tile in tiles:
        times = tile_of(tile).shape[0] // width
        if times > 1:
            tile = ev.emit(block.reduce, ev.emit(block.reshape, tile, shape=(times, width)), axis=0, kind=kind)
        out.append(tile)
    return out


def live_or_neutral(ev: Evaluator, kind: str, elem: Scalar, got: Value) -> Value:
    """`got` as a full tile of `elem`, with the value that changes nothing in lanes that do not exist."""
    return live_or(ev, ev.cast(got, elem), neutral(kind, elem))


def live_or(ev: Evaluator, got: Value, other: bool | float) -> Value:
    """`got` as a full tile, `other` in lanes that do not exist."""
    got = ev.shaped(got, ev.full_shape())
    if (live := ev.live_lanes()) is None:
        return got
    elem = block.elem_of(got.type)
    fill = ev.const(float(other) if elem.is_float else other, elem, ev.full_shape())
    return ev.emit(block.select, live, got, fill)


def across(ev: Evaluator, kind: str, tile: Value, axes: Sequence[int], elem: Scalar) -> Value:
    """Reduce a tile along axes, which keep size 1, to `elem`; a scalar when nothing else is left."""
    out, left = tile, sorted(axes)
    for first, axis in reversed(list(pairwise(left))):  # neighbours at once: what registers hold is folded before lanes
        if axis == first + 1:
            shape = tile_of(out).shape
            out = ev.emit(block.reshape, out, shape=(*shape[:first], shape[first] * shape[axis], *shape[axis + 1 :]))
            left = _without(left, axis)
    while left:
        axis = max(left, key=tile_of(out).shape.__getitem__)
        out = ev.emit(block.reduce, out, axis=axis, kind=kind)
        left = _without(left, axis)
    out = ev.cast(out, elem)
    if not isinstance(out.type, Tile) or not axes:
        return out
    shape = tuple(1 if i in axes else n for i, n in enumerate(tile_of(tile).shape))
    return ev.emit(block.reshape, out, shape=shape)


def _without(axes: Sequence[int], gone: int) -> list[int]:
    """The other axes of a shape that has lost one."""
    return [i - (i > gone) for i in axes if i != gone]


def scan_tile(ev: Evaluator, scan: Scan, index: Index, axis: int, before: Value, wide: Scalar) -> tuple[Value, Value]:
    """The results in a tile at an index, scanned along an axis of the tile; and what lies before the next one."""
    tile = live_or_neutral(ev, scan.kind, wide, ev.value(scan.op.operands[0], index))
    found = ev.emit(block.scan, tile, axis=axis, kind=scan.kind, exclusive=scan.exclusive)
    here = ev.shaped(ev.cast(before, wide), ev.full_shape())
    total = across(ev, scan.kind, tile, (axis,), scan.elem)
    return ev.emit(scan.combine, here, found), ev.emit(scan.combine, before, total)
