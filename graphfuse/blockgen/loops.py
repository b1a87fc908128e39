"""Loops that every schedule is made of: tiles along one dim, tiles of rows, reductions over tiles of a row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from graphfuse.blockgen.evaluate import COMBINE, Evaluator, Lane, accumulator, neutral
from graphfuse.blockgen.index import Index, unravel
from graphfuse.blockgen.kernel import Kernel
from graphfuse.blockgen.tiling import Piece
from graphfuse.dialects import block
from graphfuse.ir.core import Value
from graphfuse.ir.types import I64, Scalar
from graphfuse.symbolic import Dim, ceildiv, minimum

Carried = tuple[Value, ...]
AtPosition = Callable[[Dim, Carried], Sequence[Value]]
"""Emits what happens at a position along one dim (an expression in a lane), and gives the next carried values."""
RowTiles = Callable[[Callable[[Index, Carried], Sequence[Value]], Callable[[Piece], Carried]], Iterable[Carried]]
"""Runs a body over all tiles of a row, given the initial values per piece; gives the final values per piece."""


def digits(kernel: Kernel, flat: Dim, extents: Sequence[Dim]) -> Index:
    """The index whose row-major position in `extents` is `flat`; each digit that divides becomes a variable."""
    out: list[Dim] = []
    for digit, extent in zip(unravel(flat, extents, kernel.space), extents, strict=True):
        if isinstance(digit, int) or str(digit).isidentifier():
            out.append(digit)
        else:
            out.append(kernel.ev.bind("p", 0, extent - 1, kernel.ev.index(digit)))
    return tuple(out)


def for_piece(kernel: Kernel, piece: Piece, body: AtPosition, init: Carried = (), start: Dim = 0) -> Carried:
    """Run `body` over the tiles of a piece, one lane dim wide; `start` is where the piece's dim begins."""
    ev, space = kernel.ev, kernel.space

    def tile(t: Dim, carried: Carried) -> Sequence[Value]:
        lane = space.fresh("l", 0, piece.width - 1)
        first = start + piece.start + t * piece.width
        limit = None if piece.limit is None else start + piece.limit - first
        with ev.lanes_as(Lane(str(lane), piece.width, limit)):
            return body(first + lane, carried)

    return ev.loop("t", piece.count, tile, init)


def nest(
    ev: Evaluator, shape: Sequence[Dim], body: Callable[[Index, Carried], Sequence[Value]], init: Carried = ()
) -> Carried:
    """Nested loops over a shape, carrying values through."""

    def level(left: Sequence[Dim], at: Index, carried: Carried) -> Carried:
        if not left:
            return tuple(body(at, carried))
        return ev.loop("r", left[0], lambda var, c: level(left[1:], (*at, var), c), carried)

    return level(list(shape), (), init)


def for_row_tiles(
    kernel: Kernel, rows: Dim, height: int, block_rows: tuple[Dim, int] | None, body: Callable[[Dim, int], None]
) -> None:
    """Cover `rows` (or block `i` of `n` rows, given as `(i, n)`) by tiles: `body(first row, height)` emits one.

    The last tile moves back to end at the last row. When there may be fewer rows than one tile, they go one by one.
    """
    ev, space = kernel.ev, kernel.space
    first: Dim = 0
    here = rows
    if block_rows is not None:
        first = block_rows[0] * block_rows[1]
        here = minimum(rows - first, block_rows[1])
    exact = isinstance(rows, int) and rows % height == 0 and (block_rows is None or block_rows[1] % height == 0)

    def tiles() -> list[Value]:
        def tile(t: Dim, _: Carried) -> list[Value]:
            row: Dim = first + t * height
            if not exact:
                row = ev.bind("m", 0, rows - height, ev.index(minimum(row, rows - height)))
            body(row, height)
            return []

        ev.loop("t", space.simplify(ceildiv(here, height)), tile)
        return []

    if height == 1 or space.nonnegative(rows - height):
        tiles()
        return

    def one(m: Dim, _: Carried) -> list[Value]:
        body(first + m, 1)
        return []

    def short(_: object) -> list[Value]:
        ev.loop("m", space.simplify(here), one)
        return []

    ev.branch(ev.emit(block.ge, ev.index(rows), ev.const(height, I64)), tiles, short)


def reduce_row(ev: Evaluator, tiles: RowTiles, kind: str, elem: Scalar, at: Callable[[Index], Value]) -> Value:
    """Fold `at(index)` over a whole row to a scalar: a tile of partial results per piece, then across its lanes."""
    acc_elem = accumulator(elem) if kind in ("sum", "prod") else elem
    combine = block.ELEMENTWISE[COMBINE[kind]]

    def accumulate(index: Index, carried: Carried) -> list[Value]:
        got = at(index)
        if acc_elem != elem:
            got = ev.emit(block.cast, got, to=acc_elem)
        got = ev.shaped(got, ev.full_shape())
        if (live := ev.live_lanes()) is not None:
            got = ev.emit(block.select, live, got, ev.const(neutral(kind, acc_elem), acc_elem, ev.full_shape()))
        return [ev.emit(combine, carried[0], got)]

    def start(piece: Piece) -> Carried:
        return (ev.const(neutral(kind, acc_elem), acc_elem, (piece.width,)),)

    total: Value | None = None
    for (tile,) in tiles(accumulate, start):
        part = ev.emit(block.reduce, tile, axis=0, kind=kind)
        total = part if total is None else ev.emit(combine, total, part)
    if total is None:  # a row of nothing
        total = ev.const(neutral(kind, acc_elem), acc_elem)
    return total if acc_elem == elem else ev.emit(block.cast, total, to=elem)
