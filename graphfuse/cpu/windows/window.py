"""Windows: parts of a tile at a position that may be known only at run time, of a shape that is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from graphfuse.ir.core import Value
from graphfuse.symbolic import divisor

Start = Value | int
"""Where a window starts along a dim: a number, or an i64."""


class Window(NamedTuple):
    """`shape[d]` elements from `starts[d]` on, along each dim."""

    starts: tuple[Start, ...]
    shape: tuple[int, ...]

    def insert(self, dim: int, start: Start, size: int) -> Window:
        """The window with one dim more."""
        starts, shape = list(self.starts), list(self.shape)
        starts.insert(dim, start)
        shape.insert(dim, size)
        return Window(tuple(starts), tuple(shape))

    def pick(self, dims: Sequence[int | None]) -> Window:
        """The window of the given dims; None stands for a dim of 1."""
        return Window(
            tuple(0 if d is None else self.starts[d] for d in dims),
            tuple(1 if d is None else self.shape[d] for d in dims),
        )


class Inside(NamedTuple):
    """That `size` indices from `start` on are less than a limit."""

    limit: Value
    start: Start
    size: int


def window_shape(shape: Sequence[int], lanes: int, vectors: int, *, square: bool = False) -> tuple[int, ...]:
    """A window of about `vectors` vectors of a tile, along its last dims; `square` where rows become columns."""
    if not shape:
        return ()
    out = [1] * len(shape)
    if square and len(shape) > 1:
        out[-2:] = [divisor(d, lanes) for d in shape[-2:]]
        return tuple(out)
    left = lanes * vectors
    for d in reversed(range(len(shape))):
        out[d] = divisor(shape[d], max(left, 1))
        left //= out[d]
        if out[d] != shape[d]:
            break
    return tuple(out)
