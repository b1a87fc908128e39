"""Products of rows with the matrix of the group that each is of, as tokens have with their experts' weights.

Rows of a group are put side by side, in tiles that have rows of one group each, and every tile is multiplied by its
group's matrix, which is read where it lies:

    y = contract(take(x, row) [tiles, height, K], take(w, group) [tiles, N, K], "tmk,tnk->tmn")

So the work is that of the rows, whatever groups they are of, and matrices that no row asks for are not read. No number
of rows depends on data: of `rows // height + groups` tiles the last ones may have none.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphfuse.dialects import graph
from graphfuse.frontends.emit import Emitter, shape_of
from graphfuse.ir.core import Value
from graphfuse.ir.types import I32
from graphfuse.symbolic import Dim, floordiv, maximum, minimum

MOST_ROWS = 128
"""Of a tile: as many as read a matrix as seldom as they should."""
OF_MEAN = 2
"""Tiles of a group that has as many rows as the others: half a tile of each group has no rows, on average."""
FEW_ROWS, OF_FEW = 8, 4
"""Rows that take hardly longer than one, of a group that has a fourth of them on average; of groups that have less than
a row on average few have more than two."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """Rows of groups in tiles of one group each."""

    group: Value
    """[tiles]: that of each tile."""
    row: Value
    """[tiles, height]: the row at each place; where there is none, any other."""
    place: Value
    """[rows]: the place of each row in all tiles."""

    def of_tiles(self, e: Emitter, x: Value) -> Value:
        """The rows of [rows, N] in tiles: [tiles, height, N]."""
        return e(graph.take, x, self.row, axis=0)

    def contract(self, e: Emitter, x: Value, matrices: Value, spec: str) -> Value:
        """Tiles [tiles, height, ..] times the matrix of each, of [groups, ..]."""
        return e.contract(x, e(graph.take, matrices, self.group, axis=0), spec)

    def of_group(self, e: Emitter, vectors: Value) -> Value:
        """The vector of each tile's group, of [groups, N], for all of its rows: [tiles, 1, N]."""
        return e.unsqueeze(e(graph.take, vectors, self.group, axis=0), 1)

    def of_rows(self, e: Emitter, x: Value, place: Value) -> Value:
        """The rows of tiles [tiles, height, N] at some places: [places, N]."""
        tiles, height, width = shape_of(x)
        return e(graph.take, e.reshape(x, (tiles * height, width)), place, axis=0)


def tiles_of(e: Emitter, groups: Value, count: int, most: Dim) -> Tiles:
    """Tiles of rows whose groups are `groups` [rows] of i32, each less than `count`; one has `most` rows at most."""
    (rows,) = shape_of(groups)
    height, tiles = _sizes(rows, count, most)
    numbers = e.iota((rows,), 0, I32)
    if height == 1:
        return Tiles(groups, e.unsqueeze(numbers, 1), numbers)
    is_of = e.map(graph.eq, e.unsqueeze(groups, 1), e.iota((rows, count), 1, I32))
    ones = e.cast(is_of, I32)
    used, ends = _used(e, e.reduce(ones, "sum", [0], keepdims=False), height)
    so_far = e(graph.cumulate, ones, axis=0, kind="sum")  # rows of each group up to each row
    rank = e.squeeze(e(graph.take_along, so_far, e.unsqueeze(groups, 1), axis=1), 1)
    first = e(graph.take, e.map(graph.sub, ends, used), groups, axis=0)
    place = e.map(graph.add, e.map(graph.mul, first, _number(e, height)), e.map(graph.sub, rank, 1))
    row = e(graph.scatter_nd, e.full((tiles * height,), I32, 0), e.unsqueeze(place, 1), numbers, kind="set")
    return Tiles(_not_after(e, ends, tiles), e.reshape(row, (tiles, height)), place)


def tiles_in_order(e: Emitter, ends: Value, rows: Dim) -> Tiles:
    """Tiles of rows that lie group by group, each up to its one of `ends` [groups] of i32; the last has all others."""
    (count,) = shape_of(ends)
    height, tiles = _sizes(rows, count, rows)
    numbers, group = e.iota((rows,), 0, I32), _not_after(e, ends, rows)
    if height == 1:
        return Tiles(group, e.unsqueeze(numbers, 1), numbers)
    begins = e.concat([e.full((1,), I32, 0), e.slice(ends, 0, 0, count - 1)], 0)
    used, tile_ends = _used(e, e.map(graph.sub, ends, begins), height)
    # by how many rows each group is further on in tiles
    moved = e.map(graph.sub, e.map(graph.mul, e.map(graph.sub, tile_ends, used), _number(e, height)), begins)
    place = e.map(graph.add, numbers, e(graph.take, moved, group, axis=0))
    of_tile = _not_after(e, tile_ends, tiles)
    places = e.reshape(e.iota((tiles * height,), 0, I32), (tiles, height))
    row = e.map(graph.sub, places, e.unsqueeze(e(graph.take, moved, of_tile, axis=0), 1))
    return Tiles(of_tile, e.map(graph.min_, row, _number(e, rows - 1)), place)


def _sizes(rows: Dim, count: Dim, most: Dim) -> tuple[Dim, Dim]:
    """The height and the number of tiles."""
    least = maximum(2, minimum(FEW_ROWS, floordiv(OF_FEW * rows, count)))
    height = maximum(1, minimum(most, maximum(least, minimum(MOST_ROWS, floordiv(rows, OF_MEAN * count)))))
    return height, minimum(rows, floordiv(rows, height) + count)


def _used(e: Emitter, counts: Value, height: Dim) -> tuple[Value, Value]:
    """How many tiles groups of so many rows have, and their sums, up to each: [groups]."""
    used = e.divide(e.map(graph.add, counts, _number(e, height - 1)), height)
    return used, e(graph.cumulate, used, axis=0, kind="sum")


def _not_after(e: Emitter, ends: Value, size: Dim) -> Value:
    """Of numbers 0 .. size - 1, how many of `ends` [groups] are not behind each, but for the last: [size]."""
    (count,) = shape_of(ends)
    before = e.map(graph.le, e.unsqueeze(ends, 0), e.iota((size, count), 0, I32))
    found = e.reduce(e.cast(before, I32), "sum", [1], keepdims=False)
    return e.map(graph.min_, found, _number(e, count - 1))


def _number(e: Emitter, dim: Dim) -> Value:
    return e.full((), I32, dim)
