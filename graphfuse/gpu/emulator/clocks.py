"""What lanes know of what others have done: happens-before by vector clocks.

Agents are what acts on its own: warps, warpgroups (for what wgmma reads until its wait), bulk stores of a warp (what
they read until their wait), and mbarriers (for what bulk copies write before completing on them). An access is by an
agent at a time and, of a warp, by a lane. A warp's time goes on whenever lanes of it publish what they know.

A row has until when all that an agent did is known, by cluster: of one, where clusters do not wait for each other.
Where only some lanes of a warp have met, or one of them releases a flag, what they did later is known of these lanes
alone (`Partly`). What a lane learns alone, as by an acquire, is its own until lanes of its warp meet. Two times of
different lanes of a warp are kept as the later of both: what is missed for that is no false alarm.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graphfuse.gpu.emulator.gang import LANES, mask_of
from graphfuse.gpu.emulator.layout import Layout
from graphfuse.gpu.emulator.types import Array

ANY_LANE = 32
"""Lane of accesses that are ordered for the whole warp."""
SEVERAL = 33
"""Lanes of one warp at one time."""
_BITS: Array = np.left_shift(np.uint32(1), np.arange(LANES, dtype=np.uint32))


@dataclass(frozen=True, slots=True)
class Partly:
    """Of some lanes of agents more is known: until when, and of which lanes: [clusters, agents]."""

    until: Array
    lanes: Array

    def covers(self, where: tuple[Array | int, Array], times: Array, lanes: Array) -> Array:
        """Which accesses are known so."""
        named: Array = self.lanes[where]
        known = (named & _BITS[np.minimum(lanes, LANES - 1)] != 0) & (lanes < LANES)
        known |= (named != 0) & (lanes == SEVERAL)
        return known & (self.until[where] >= times)


@dataclass(frozen=True, slots=True)
class Known:
    """A row: until when all that agents did is known, [clusters, agents], and what is of some of their lanes."""

    all: Array
    partly: Partly | None = None

    def joined(self, other: Known) -> Known:
        """What both know together."""
        both, parts = np.maximum(self.all, other.all), [p for p in (self.partly, other.partly) if p is not None]
        if not parts:
            return Known(both)
        until, lanes = parts[0].until, parts[0].lanes
        if len(parts) == 2:
            until, lanes = np.maximum(until, parts[1].until), lanes | parts[1].lanes
        more = until > both
        return Known(both, Partly(np.where(more, until, 0), np.where(more, lanes, 0)) if more.any() else None)

    def covers(self, where: tuple[Array | int, Array], times: Array, lanes: Array) -> Array:
        """Which accesses are known."""
        known = self.all[where] >= times
        return known if self.partly is None else known | self.partly.covers(where, times, lanes)


class Clocks:
    """The time of each resident warp, and what it and its lanes know."""

    def __init__(self, layout: Layout, *, ordered: bool) -> None:
        warps, per = layout.resident_warps, layout.warps_per_cluster
        self.agent: Array = np.arange(warps) % per
        self.home: Array = np.arange(warps) // per if ordered else np.zeros(warps, np.int64)
        self.clusters = layout.resident_clusters if ordered else 1
        self.width = layout.readers + layout.mbarriers
        self.now: Array = np.ones(warps, np.int32)
        self.all: Array = np.zeros((warps, self.clusters, self.width), np.int32)
        self.partly: dict[int, Partly] = {}
        self.alone: dict[int, dict[int, Known]] = {}
        """What lanes of a warp know beyond it."""
        self.launched = [layout.mask_of_warp(w) for w in range(warps)]

    def of_agent(self, warp: int, agent: int, time: int) -> Known:
        """A row of what an agent of the warp's cluster did."""
        row = np.zeros((self.clusters, self.width), np.int32)
        row[self.home[warp], agent] = time
        return Known(row)

    def of_lane(self, warp: int, lane: int, time: int) -> Known:
        """What a lane knows, with what it did until a time."""
        return self._with(self.of(warp, mask_of(lane)), warp, time, _BITS[lane])

    def of(self, warp: int, lanes: Array) -> Known:
        """What lanes of a warp know of others."""
        row = Known(self.all[warp], self.partly.get(warp))
        for lane, known in self.alone.get(warp, {}).items():
            if lanes[lane]:
                row = row.joined(known)
        return row

    def published(self, warp: int, lanes: Array) -> Known:
        """What lanes of a warp know, with what they did; the warp goes on to a later time."""
        row, now = self.of(warp, lanes), int(self.now[warp])
        self.now[warp] += 1
        if (self.launched[warp] & ~lanes).any():
            return self._with(row, warp, now, _BITS[lanes].sum())
        known = row.all.copy()
        known[self.home[warp], self.agent[warp]] = now
        return Known(known, row.partly)

    def _with(self, row: Known, warp: int, time: int, lanes: int) -> Known:
        """A row with what lanes of a warp, as bits, did until a time."""
        own = self.home[warp], self.agent[warp]
        until, named = np.zeros_like(row.all), np.zeros(row.all.shape, np.uint32)
        until[own], named[own] = time, lanes
        return row.joined(Known(row.all, Partly(until, named)))

    def learn(self, warp: int, lanes: Array, live: Array, known: Known) -> None:
        """Lanes, of those that are alive, waited for something that carries this row."""
        if not (live & ~lanes).any():
            known = Known(self.all[warp], self.partly.pop(warp, None)).joined(known)
            self.all[warp] = known.all
            if known.partly is not None:
                self.partly[warp] = known.partly
            return
        alone = self.alone.setdefault(warp, {})
        for lane in np.flatnonzero(lanes).tolist():
            alone[lane] = alone[lane].joined(known) if lane in alone else known

    def meet(self, warp: int, lanes: Array, live: Array, known: Known | None = None) -> None:
        """Lanes of a warp wait for each other, or for others too, and know together what each of them did."""
        self.learn(warp, lanes, live, known or self.published(warp, lanes))
        if not (live & ~lanes).any():
            self.alone.pop(warp, None)

    def finished(self, warp: int, agent: int, time: int) -> None:
        """A warp knows that an agent has read until this time."""
        at = warp, self.home[warp], agent
        self.all[at] = max(self.all[at], time)

    def unknown(self, by: tuple[Array, Array], cluster: Array, agents: Array, times: Array, lanes: Array) -> Array:
        """Which accesses, [rows, n], are not ordered before what warps and lanes, [rows], do now.

        What a lane did itself is known to it, and what its warp did to accesses of the whole warp.
        """
        warps, own = by[0][:, None], by[1][:, None]
        late = self.all[warps, cluster, agents] < times
        if not late.any():
            return late
        mine = (agents == self.agent[warps]) & (cluster == self.home[warps])
        late &= ~(mine & ((lanes == own) | (own == ANY_LANE)))
        if late.any() and (self.partly or self.alone):
            self._less_what_lanes_know(late, by, *np.broadcast_arrays(cluster, agents, times, lanes))
        return late

    def _less_what_lanes_know(
        self, late: Array, by: tuple[Array, Array], cluster: Array, agents: Array, times: Array, lanes: Array
    ) -> None:
        for row in np.flatnonzero(late.any(1)).tolist():
            warp, lane = int(by[0][row]), int(by[1][row])
            where = cluster[row], agents[row]
            if partly := self.partly.get(warp):
                late[row] &= ~partly.covers(where, times[row], lanes[row])
            if known := self.alone.get(warp, {}).get(lane):
                late[row] &= ~known.covers(where, times[row], lanes[row])
