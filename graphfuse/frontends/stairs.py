"""Whole numbers that rise in even steps, as a formula of their position: what is read by them needs no table.

stairs(np.array([0, 0, 1, 1, 2, 2, 2]))    Stairs(rise=1, run=2, start=0, low=0, high=2)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from graphfuse.dialects import graph
from graphfuse.frontends.emit import Emitter, shape_of
from graphfuse.frontends.host_values import Array
from graphfuse.frontends.terms import Term, maximum, minimum
from graphfuse.ir.core import Value
from graphfuse.symbolic import static

LONGEST_RUN = 256
"""Steps of longer periods are left to tables."""


@dataclass(frozen=True, slots=True)
class Stairs:
    """floor((rise * i + start) / run), no less than `low` and no more than `high`."""

    rise: int
    run: int
    start: int
    low: int
    high: int

    def value(self, e: Emitter, count: int) -> Value:
        """The first `count` of them."""
        at = Term(e, e.iota((count,), 0)) * self.rise + self.start
        at = at.map(graph.floordiv_, self.run) if self.run != 1 else at
        ends = [(i * self.rise + self.start) // self.run for i in (0, count - 1)]
        at = maximum(at, self.low) if ends[0] < self.low else at
        return (minimum(at, self.high) if ends[1] > self.high else at).value


def moved(e: Emitter, x: Value, axis: int, at: Array) -> Value | None:
    """Elements `at` of an axis, which has a known size, by movement alone: each of them several times, or every nth."""
    size, count = static(shape_of(x)[axis]), len(at)
    places = np.arange(count)
    if size and count and count % size == 0 and (at == places // (count // size)).all():
        return e.repeat(x, axis, count // size)
    if count and size % count == 0 and (at == places * (size // count)).all():
        return e.slice(x, axis, 0, count, size // count)
    return None


def stairs(numbers: Array, matter: Array | None = None) -> Stairs | None:
    """The formula of some numbers that do not fall, of the shortest period; None where there is none.

    Only those that `matter` have to be right; of others it is promised that they are between the least and the largest.
    """
    at = np.arange(len(numbers)) if matter is None else np.flatnonzero(matter)
    numbers = numbers[at]
    low, high = int(numbers.min()), int(numbers.max())
    if low == high:
        return Stairs(0, 1, low, low, high)
    # low and high say only that the others end there
    rising, ended = numbers > low, numbers >= high
    inner = np.flatnonzero(rising & ~ended)
    ends = [(0, len(at) - 1), *([(inner[0], inner[-1])] if len(inner) > 1 else [])]
    ends += [(max(int(rising.argmax()) - 1, 0), int(ended.argmax()))]
    slopes = [int(numbers[b] - numbers[a]) / max(int(at[b] - at[a]), 1) for a, b in ends]
    slack = 1 / max(len(inner) - 1, 1)
    for run in range(1, min(LONGEST_RUN, int(at[-1]) + 1) + 1):
        least, most = (min(slopes) - slack) * run, (max(slopes) + slack) * run
        for rise in range(max(math.floor(least), 0), math.ceil(most) + 1):
            start = int((numbers * run - rise * at)[rising].max())
            if start < int(((numbers + 1) * run - rise * at)[~ended].min()):
                return Stairs(rise, run, start, low, high)
    return None
