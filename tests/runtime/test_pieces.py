"""Pieces of a run: where they begin, and what is forgotten on the way."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from graphfuse.runtime import pieces
from graphfuse.runtime.pieces import Piece, run_in_pieces

MOST = 3


def drawn(seed):
    """A plan of a few launches: what each numbered tensor has, and where it is touched."""
    rng = np.random.default_rng(seed)
    launches, counts = int(rng.integers(1, 9)), rng.integers(0, 5, 3)
    numbers = int(counts.sum())
    touches = [np.unique(rng.integers(0, launches, rng.integers(1, 4))) for _ in range(numbers)]
    index = np.repeat(np.arange(numbers), [len(t) for t in touches]).astype(np.int64)
    launch = np.concatenate([*touches, []]).astype(np.int64)
    order = np.argsort(launch, kind="stable")
    sizes = rng.integers(1, 100, numbers + 2)
    io = np.append(rng.permutation(numbers), [-1, numbers])  # the last is touched by none
    bound = SimpleNamespace(
        records=np.zeros((launches, 4), np.int64),
        io_index=index[order],
        inputs=int(counts[0]),
        output_shapes=((),) * int(counts[1]),
        regions=SimpleNamespace(io=io, sizes=sizes),
    )
    nbytes = {int(n): int(size) for n, size in zip(io, sizes, strict=True) if n >= 0}
    return bound, launch[order], touches, nbytes


def held(bound, touches, nbytes, edges):
    """The most bytes that a piece holds."""
    first, last = bound.inputs, bound.inputs + len(bound.output_shapes)
    most = 0
    for begin, end in itertools.pairwise(edges):
        now = [n for n, t in enumerate(touches) if (n < first or t[0] < end) and (first <= n < last or t[-1] >= begin)]
        most = max(most, sum(nbytes[n] for n in now))
    return most


@pytest.mark.parametrize("seed", range(60))
def test_pieces_hold_as_little_as_so_many_can(seed, monkeypatch):
    monkeypatch.setattr(pieces, "MOST_PIECES", MOST)
    bound, launch, touches, nbytes = drawn(seed)
    launches = len(bound.records)
    edges = pieces._edges(bound, launch).tolist()
    assert (edges[0], edges[-1]) == (0, launches)
    assert edges == sorted(set(edges))
    assert len(edges) - 1 <= MOST
    inside = range(1, launches)
    ways = [(0, *c, launches) for n in range(MOST) for c in itertools.combinations(inside, n)]
    assert held(bound, touches, nbytes, edges) == min(held(bound, touches, nbytes, way) for way in ways)


def test_what_made_a_tensor_is_forgotten_with_it():
    """A tensor that is written over an input is held by nobody behind its last launch."""

    class Memory:
        alive = 0

        def __init__(self):
            Memory.alive += 1

        def __del__(self):
            Memory.alive -= 1

    none = np.zeros(0, np.int64)
    touched = [
        Piece(i, 0, 1, none, none, none, b, e) for i, (b, e) in enumerate([((0, 2), (0,)), ((1,), (2,)), ((), (1,))])
    ]
    bound = SimpleNamespace(io_index=np.array([0, 1, 2]), args=none)
    given = [Memory()]
    makers = [Memory, lambda it=given[0]: it]
    seen = []
    out = run_in_pieces(bound, touched, given, makers, id, lambda *_: seen.append(Memory.alive), 1)
    assert seen == [1, 2, 1]
    assert len(out) == Memory.alive == 1
