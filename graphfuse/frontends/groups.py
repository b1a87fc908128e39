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

LEAST_ROWS, MOST_ROWS = 8, 128
"""Of a tile, where a group may have as many: what takes no longer than one, and what reads a matrix once for many."""
OF_MEAN = 2
"""Tiles of a group that has as many rows as the others: half a tile of each group has no rows, on average."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """Rows of groups in tiles of one group each."""

    group: Value
    """[tiles]: that of each tile."""
    row: Value
    """[tiles, height]: the row at each place; where there is none, any other."""
    place: Value
    """[rows]: the place of each row in all tiles."""

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
    mean = floordiv(rows, OF_MEAN * count)
    height = maximum(1, minimum(most, maximum(LEAST_ROWS, minimum(MOST_ROWS, mean))))
    tiles = minimum(rows, floordiv(rows, height) + count)
    numbers = e.iota((rows,), 0, I32)
    if height == 1:
        return Tiles(groups, e.unsqueeze(numbers, 1), numbers)
    is_of = e.map(graph.eq, e.unsqueeze(groups, 1), e.iota((rows, count), 1, I32))
    ones = e.cast(is_of, I32)
    used = e.divide(e.map(graph.add, e.reduce(ones, "sum", [0], keepdims=False), _number(e, height - 1)), height)
    ends = e(graph.cumulate, used, axis=0, kind="sum")
    so_far = e(graph.cumulate, ones, axis=0, kind="sum")  # rows of each group up to each row
    rank = e.squeeze(e(graph.take_along, so_far, e.unsqueeze(groups, 1), axis=1), 1)
    first = e(graph.take, e.map(graph.sub, ends, used), groups, axis=0)
    place = e.map(graph.add, e.map(graph.mul, first, _number(e, height)), e.map(graph.sub, rank, 1))
    row = e(graph.scatter_nd, e.full((tiles * height,), I32, 0), e.unsqueeze(place, 1), numbers, kind="set")
    before = e.map(graph.le, e.unsqueeze(ends, 0), e.iota((tiles, count), 0, I32))
    group = e.map(graph.min_, e.reduce(e.cast(before, I32), "sum", [1], keepdims=False), count - 1)
    return Tiles(group, e.reshape(row, (tiles, height)), place)


def _number(e: Emitter, dim: Dim) -> Value:
    return e.full((), I32, dim)
