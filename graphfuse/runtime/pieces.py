"""A run in pieces: what is an output exists from the first piece that touches it, an input until the last one.

A run of many launches at once holds all of its inputs and outputs from beginning to end. The backward of a model reads
what the forward kept, layer by layer, and writes gradients as it goes: in pieces the one makes room for the other.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from graphfuse.artifact import Buffer, Executable
from graphfuse.runtime.bound import Bound
from graphfuse.runtime.native import address_of
from graphfuse.runtime.planner import Ints

T = TypeVar("T")
MOST_PIECES = 32
"""More would free memory hardly earlier: each is a call of Python's."""
APART_BYTES = 1 << 20
"""Of an intermediate tensor that is worth an allocation of its own."""


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Consecutive launches: where their records are, and which arguments are inputs and outputs."""

    first: int
    records: int
    count: int
    slots: Ints
    index: Ints
    offsets: Ints
    begins: tuple[int, ...]
    """Inputs and outputs, by number, that no earlier piece touches."""
    ends: tuple[int, ...]
    """Those that no later piece touches."""


def apart(executable: Executable) -> tuple[Executable, tuple[tuple[int, int | None], ...]]:
    """The executable with its large intermediate tensors as further outputs.

    Of each the bytes, and the number of an input that it may be in the place of.

    An arena is as long as where it is fullest, while inputs and outputs may be most at another time.
    """
    made: list[tuple[int, int | None]] = []
    over = dict(executable.over)
    outputs = sum(b.kind == "output" for b in executable.plan.buffers)

    def moved(number: int, b: Buffer) -> Buffer:
        if not (nbytes := _bytes_apart(b)):
            return b
        made.append((nbytes, over.get(number)))
        return replace(b, kind="output", index=outputs + len(made) - 1)

    plan = replace(executable.plan, buffers=tuple(itertools.starmap(moved, enumerate(executable.plan.buffers))))
    return replace(executable, plan=plan, over=()), tuple(made)


def bytes_apart(executable: Executable) -> int:
    """Of all that `apart` makes outputs together, of which not all are there at once."""
    return sum(map(_bytes_apart, executable.plan.buffers))


def _bytes_apart(b: Buffer) -> int:
    """Of an intermediate tensor that is large, whatever the sizes of dims are; else 0."""
    return b.nbytes if b.kind == "arena" and isinstance(b.nbytes, int) and b.nbytes >= APART_BYTES else 0


def pieces_of(bound: Bound) -> tuple[Piece, ...]:
    """The launches of a plan in at most `MOST_PIECES` pieces, which hold as little memory at once as so many can."""
    # arguments follow one another as their launches do
    starts = (bound.records[:, 1] - address_of(bound.args)) // 8
    launch = np.searchsorted(starts, bound.io_slots, side="right") - 1
    launch = np.maximum(launch, 0)  # those of a launch without programs, which has no record, stay before it
    edges = _edges(bound, launch)
    piece = np.searchsorted(edges, launch, side="right") - 1
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for number, where in zip(bound.io_index.tolist(), piece.tolist(), strict=True):
        first.setdefault(number, where)
        last[number] = where
    out: list[Piece] = []
    for i, (begin, end) in enumerate(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)):
        mine = piece == i
        out.append(
            Piece(
                begin,
                bound.records_address + begin * bound.records.strides[0],
                end - begin,
                bound.io_slots[mine],
                bound.io_index[mine],
                bound.io_offsets[mine],
                tuple(n for n, where in first.items() if where == i),
                tuple(n for n, where in last.items() if where == i),
            )
        )
    return tuple(out)


def _made() -> Any:
    raise AssertionError("a tensor is made once")


def _edges(bound: Bound, launch: Ints) -> Ints:
    """Where pieces begin, and the end of the last, given the launch of each argument that is a numbered tensor.

    A piece from launch a to b holds what is begun before b and not ended before a. The longest that hold so much at
    most are the fewest that do: the least that `MOST_PIECES` of them can hold is searched for.
    """
    launches, numbers = len(bound.records), np.unique(bound.io_index)
    nbytes = np.zeros(int(bound.regions.io.max(initial=-1)) + 1, np.int64)
    begins, ends = np.full(len(nbytes), launches, np.int64), np.full(len(nbytes), -1, np.int64)
    is_numbered = bound.regions.io >= 0
    np.maximum.at(nbytes, bound.regions.io[is_numbered], bound.regions.sizes[is_numbered])
    np.minimum.at(begins, bound.io_index, launch)
    np.maximum.at(ends, bound.io_index, launch)
    first = bound.inputs
    begins[:first], ends[first : first + len(bound.output_shapes)] = -1, launches

    def so_far(at: Ints) -> list[int]:
        """Bytes of what is `at` a launch before each of them."""
        return np.cumsum(np.bincount(at[numbers] + 1, nbytes[numbers], launches + 2)).astype(np.int64).tolist()

    begun, ended = so_far(begins)[: launches + 1], so_far(ends)

    def within(most: int) -> list[int]:
        """The longest pieces that hold so much at most, as far as they come."""
        edges = [0]
        while edges[-1] < launches and len(edges) <= MOST_PIECES:
            end = bisect_right(begun, most + ended[edges[-1]]) - 1
            if end <= edges[-1]:
                break
            edges.append(end)
        return edges

    least = bisect_left(range(begun[-1]), launches, key=lambda most: within(most)[-1])
    return np.array(within(least), np.int64)


def run_in_pieces(
    bound: Bound,
    pieces: Sequence[Piece],
    inputs: list[T],
    makers: list[Callable[[], T]],
    address: Callable[[T], int],
    run: Callable[[Piece, Ints], None],
    results: int,
) -> list[T]:
    """Run, making each output when it is first touched and forgetting each input after it was last read.

    Outputs past so many `results` are forgotten likewise. `inputs` is cleared, and so is each of `makers` that was
    called, which may have given what it held; nobody else should hold that.
    `run` is given all addresses that there are by then, which are written into the arguments of its piece.
    """
    first, last = len(inputs), len(inputs) + results
    addresses = np.array([*map(address, inputs), *[0] * len(makers)], np.int64)
    tensors: dict[int, T] = dict(enumerate(inputs))
    inputs.clear()
    for number in set(range(first)).difference(*(p.begins for p in pieces)):
        del tensors[number]
    for piece in pieces:
        for number in piece.begins:
            if number >= first:
                tensors[number] = makers[number - first]()
                makers[number - first] = _made
                addresses[number] = address(tensors[number])
        bound.args[piece.slots] = addresses[piece.index] + piece.offsets
        run(piece, addresses)
        for number in piece.ends:
            if not first <= number < last:
                del tensors[number]
    # one that no launch touches has no elements
    return [tensors[n] if n in tensors else make() for n, make in enumerate(makers[:results], first)]
