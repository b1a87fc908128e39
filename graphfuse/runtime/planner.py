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

RETRIES = 7
"""Fits per order after the first: most arenas reach their lower bound at once, and others within a few."""

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
    it. While the result is above the lower bound, the buffers at the top of the arena are placed first
    instead, and other orders are tried in the same way: longest-lived first, then earliest first. The best wins.
    """
    size, begin, end = (np.asarray(a, dtype=np.int64) for a in (sizes, first, last))
    size = -(-size // ALIGN) * ALIGN
    bound = lower_bound(size, begin, end)
    offsets, peak = np.zeros(len(size), dtype=np.int64), 1 << 62
    for order in ((begin, -size), (-size, begin - end), (-size, begin)):
        found, found_peak = _placed(size, begin, end, np.lexsort(order), bound)
        if found_peak < peak:
            offsets, peak = found, found_peak
        if peak == bound:
            break
    return ArenaPlan(offsets, peak, bound)


def lower_bound(sizes: Ints, first: Ints, last: Ints) -> int:
    """The most bytes alive at one step."""
    if not len(sizes):
        return 0
    change = np.zeros(int(last.max()) + 2, dtype=np.int64)
    np.add.at(change, first, sizes)
    np.subtract.at(change, last + 1, sizes)
    return int(np.cumsum(change).max())


def _placed(size: Ints, first: Ints, last: Ints, order: Ints, bound: int) -> tuple[Ints, int]:
    """The best of a few fits: in `order`, then, while above `bound`, with what reached the top put first."""
    best, least = _best_fit(size, first, last, order)
    offsets, peak = best, least
    for _ in range(RETRIES):
        if least == bound:
            break
        is_top = (offsets + size == peak)[order]
        order = np.concatenate([order[is_top], order[~is_top]])
        offsets, peak = _best_fit(size, first, last, order)
        if peak < least:
            best, least = offsets, peak
    return best, least


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
