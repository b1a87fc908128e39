"""Rows in tiles of one group each: where they are, and what an operator made of them computes."""

from __future__ import annotations

import random

import numpy as np
import pytest

from graphfuse.dialects import control
from graphfuse.frontends.emit import Emitter
from graphfuse.frontends.groups import MOST_ROWS, tiles_in_order, tiles_of
from graphfuse.interp import graph as interp
from graphfuse.ir.core import Block, Func, Params
from graphfuse.ir.types import I32, Tensor
from graphfuse.symbolic import Dim, sym

Array = np.ndarray


def tiles(rows: Dim, groups: int, most: Dim, dims: tuple[tuple[str, int, int], ...] = ()) -> Func:
    """The group of each tile, the row of each place and the place of each row, of the groups of rows."""
    e, params = Emitter(), Params((Tensor((rows,), I32),), ("g",))
    made = tiles_of(e, params.values[0], groups, most)
    e.root.append(control.return_(made.group, made.row, made.place))
    return Func("main", Block(params, tuple(e.root.ops)), {}, dims)


def drawn(rng: np.random.Generator, rows: int, groups: int) -> Array:
    """Groups of rows: all of one, of a few, or of any."""
    few = rng.integers(0, groups, int(rng.choice([1, 2, groups])))
    return rng.choice(few, rows).astype(np.int32)


@pytest.mark.parametrize("seed", range(60))
def test_drawn(seed: int) -> None:
    draw, rng = random.Random(seed), np.random.default_rng(seed)
    groups, rows = round(2 ** draw.uniform(0, 8)), draw.choice([0, 1, 2, round(2 ** draw.uniform(1, 11))])
    func = tiles(rows, groups, rows) if seed % 2 else tiles(sym("n"), groups, sym("n"), (("n", 0, 4096),))
    of_row = drawn(rng, rows, groups)
    group, row, place = interp.run(func, of_row)
    height = row.shape[1]
    assert len(group) * height <= rows + groups * height, "less than a tile of each group is empty"
    assert height <= max(1, min(rows, MOST_ROWS)) and group.shape[0] == row.shape[0]
    assert len(set(place.tolist())) == rows, "no two rows are at one place"
    np.testing.assert_array_equal(row.reshape(-1)[place], np.arange(rows))
    np.testing.assert_array_equal(group[place // height], of_row)
    assert ((group >= 0) & (group < groups)).all() and ((row >= 0) & (row < max(1, rows))).all()


@pytest.mark.parametrize("seed", range(40))
def test_in_order(seed: int) -> None:
    """Groups one after the other, the last of which has all rows behind it."""
    draw, rng = random.Random(seed), np.random.default_rng(seed)
    groups, rows = (
        round(2 ** draw.uniform(0, 7)),
        draw.choice([0, 2, *(round(2 ** draw.uniform(1, 11)) for _ in "abc")]),
    )
    of_row = np.sort(drawn(rng, rows, groups))
    ends = np.searchsorted(of_row, np.arange(groups), side="right").astype(np.int32)
    ends[-1] = draw.choice([ends[-1], draw.randint(int(ends[-2]) if groups > 1 else 0, rows)])
    ends[ends == rows] += draw.choice([0, 7])  # behind all rows
    count = rows if seed % 2 else sym("n")
    e, params = Emitter(), Params((Tensor((groups,), I32), Tensor((count,), I32)), ("ends", "g"))
    made = tiles_in_order(e, params.values[0], count)
    e.root.append(control.return_(made.group, made.row, made.place))
    dims = () if seed % 2 else (("n", 0, 4096),)
    group, row, place = interp.run(Func("main", Block(params, tuple(e.root.ops)), {}, dims), ends, of_row)
    height = row.shape[1]
    assert len(group) * height <= rows + groups * height, "less than a tile of each group is empty"
    assert len(set(place.tolist())) == rows, "no two rows are at one place"
    np.testing.assert_array_equal(row.reshape(-1)[place], np.arange(rows))
    np.testing.assert_array_equal(group[place // height], of_row)
    assert ((group >= 0) & (group < groups)).all() and ((row >= 0) & (row < max(1, rows))).all()


def test_one_row_of_each_group_needs_no_order() -> None:
    """One token's experts: the matrices are those that it names."""
    group, row, place = interp.run(tiles(4, 8, 1), np.array([5, 2, 7, 0], np.int32))
    assert (group.tolist(), row.tolist(), place.tolist()) == ([5, 2, 7, 0], [[0], [1], [2], [3]], [0, 1, 2, 3])


def test_a_group_that_has_all_rows_fills_tiles() -> None:
    group, row, place = interp.run(tiles(1000, 4, 1000), np.full(1000, 2, np.int32))
    assert row.shape[1] == 125 and place.tolist() == list(range(1000))
    assert group[:8].tolist() == [2] * 8, "the first eight; the others have none"
