"""Places buffers in one arena so that those alive together never overlap, in little more than the least space.

Pure arithmetic on sizes and lifetimes; knows no plan, no steps and no memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

ALIGN = 64
"""A cache line, and the widest vector."""

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class ArenaPlan:
    """Where each buffer starts; how long the arena is; the bytes alive at the fullest step.

    No arena can be shorter than `lower_bound`, whatever the placement.
    """

    offsets: Ints
    peak: int
    lower_bound: int


def plan_arena(sizes: Any, first: Any, last: Any) -> ArenaPlan:
    """Place buffers of `sizes` bytes, alive from step `first` to step `last` inclusive.

    Best fit, largest first: each buffer goes into the tightest gap among those placed that live with
    it. When the result is above the lower bound, longest-lived first is tried too; the better wins.
    """
    size, begin, end = (np.asarray(a, dtype=np.int64) for a in (sizes, first, last))
    size = -(-size // ALIGN) * ALIGN
    bound = lower_bound(size, begin, end)
    offsets, peak = _best_fit(size, begin, end, np.lexsort((begin, -size)))
    if peak > bound:
        for order in (np.lexsort((-size, begin - end)), np.lexsort((-size, begin))):
            other, other_peak = _best_fit(size, begin, end, order)
            if other_peak < peak:
                offsets, peak = other, other_peak
    return ArenaPlan(offsets, peak, bound)


def lower_bound(sizes: Ints, first: Ints, last: Ints) -> int:
    """The most bytes alive at one step."""
    if not len(sizes):
        return 0
    change = np.zeros(int(last.max()) + 2, dtype=np.int64)
    np.add.at(change, first, sizes)
    np.subtract.at(change, last + 1, sizes)
    return int(np.cumsum(change).max())


def _best_fit(size: Ints, first: Ints, last: Ints, order: Any) -> tuple[Ints, int]:
    offsets = np.zeros(len(size), dtype=np.int64)
    placed = np.empty(len(size), dtype=np.int64)
    count = peak = 0
    for i in order:
        wanted = int(size[i])
        if not wanted:
            continue
        others = placed[:count]
        others = others[(first[others] <= last[i]) & (last[others] >= first[i])]
        offset = _tightest_gap(offsets[others], size[others], wanted)
        offsets[i] = offset
        peak = max(peak, offset + wanted)
        placed[count] = i
        count += 1
    return offsets, peak


def _tightest_gap(offsets: Ints, sizes: Ints, wanted: int) -> int:
    """The start of the smallest gap that holds `wanted` bytes, or the end of what is there."""
    best, best_gap, top = -1, 1 << 62, 0
    order = np.argsort(offsets, kind="stable")
    for begin, end in zip(offsets[order].tolist(), (offsets + sizes)[order].tolist(), strict=True):
        if wanted <= begin - top < best_gap:
            best, best_gap = top, begin - top
        top = max(top, end)
    return best if best >= 0 else top
