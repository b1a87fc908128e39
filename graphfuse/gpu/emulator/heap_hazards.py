"""Who touched which byte of global memory when, and whether that was ordered before who touches it now.

As in shared memory (`hazards`), but over the whole grid: CTAs of other clusters know of each other only what flags
carry. Of each unit, the narrowest access of the kernel, there is the last write and the last reads of two CTAs.

A release (PTX ISA 8.7: the memory consistency model) leaves at its flag what its lanes know; an acquire of what the
flag holds since then learns it, where the scope of each includes the other. Atomic updates carry on what was left
before. A fence before a strong write, and one behind a strong read, make a release and an acquire of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from graphfuse.findings import About, Who
from graphfuse.gpu.emulator.clocks import Known
from graphfuse.gpu.emulator.errors import EmulatorError
from graphfuse.gpu.emulator.gang import LANES, Gang, mask_of
from graphfuse.gpu.emulator.hazards import Access, Same
from graphfuse.gpu.emulator.parse import Instruction
from graphfuse.gpu.emulator.types import Array

if TYPE_CHECKING:
    from graphfuse.gpu.emulator.machine import Machine

_WARP, _TIME, _STRONG = 40, 8, 1 << 7
"""An access is one number: its warp in the grid, counted from 1, its time, whether it is strong, and its lane."""
_TIMES = (1 << _WARP - _TIME) - 1
_WRITTEN = "race: write of {where}, which {who} wrote ({line}), {order}"
SCOPES = ("cta", "cluster", "gpu", "sys")
_MEMBARS = {"cta": 0, "gl": 2, "sys": 3}


def reach_of(i: Instruction) -> int:
    """The scope of an instruction, as a number: that of the GPU, if it names none."""
    if i.name == "membar":
        return next((_MEMBARS[m] for m in i.mods if m in _MEMBARS), 2)
    return 3 if "volatile" in i.mods else next((k for k, scope in enumerate(SCOPES) if scope in i.mods), 2)


class HeapHazards:
    """The shadow of global memory during a launch."""

    def __init__(self, machine: Machine) -> None:
        self.machine, self.unit = machine, machine.layout.heap_unit
        units = len(machine.heap.data) // self.unit
        self.writes = np.zeros(units, np.int64)
        self.write_pcs = np.zeros(units, np.int32)
        self.reads = np.zeros((2, units), np.int64)
        """The last, and the last of another CTA than that."""
        self.aliased: Array | None = None
        """Units of what several arguments are. Of a tile smaller than a CTA each warp loads what one of them stores:
        where compilers take the arguments for different memory, the others may do so later, and drop it."""
        if machine.heap.aliased:
            self.aliased = np.zeros(units, np.bool_)
            for start in machine.heap.aliased:
                region = machine.heap.region_at(start)
                assert region, "it was added"
                self.aliased[start // self.unit : -(-region.end // self.unit)] = True
        self.first_cluster = 0

    def units(self, at: Array, nbytes: int) -> Array:
        """Of ranges of bytes that begin there: [ranges, units]."""
        return (at // self.unit)[:, None] + np.arange(max(1, nbytes // self.unit))

    def read(self, by: Access, units: Array, *, cached: bool = False) -> None:
        """Rows of units are read, through the non-coherent cache if `cached`."""
        if (written := self.writes[units]).any():
            if cached:
                message = "ld.global.nc of {where}, which {who} wrote ({line}) in this launch"
                raise self._error(by, written != 0, units, written, message, "read-only")
            self._refuse(by, units, written, "race: read of {where}, which {who} wrote ({line}), {order}")
        mine, before = self._packed(by), self.reads[0, units]
        others = (before != 0) & (self._cta(before) != self._cta(mine))
        if others.any():
            self.reads[1, units[others]] = before[others]
        self.reads[0, units] = mine

    def write(self, by: Access, units: Array, same: Same | None = None) -> None:
        """Rows of units are written; units that stay the `same` as they were are worth a note."""
        if (written := self.writes[units]).any() and (late := self._unordered(by, written)).any():
            differ = late if same is None else late & ~same(units.shape[1])
            if differ.any():
                raise self._error(by, differ, units, written, _WRITTEN)
            self.machine.note_same(by.pc, self._error(by, late, units, written, _WRITTEN))
        for reads in self.reads:
            if (read := reads[units]).any():
                if self.aliased is not None:
                    beside = self._cta(read) == self._cta(self._packed(by))
                    read = np.where(self.aliased[units] & beside, 0, read)
                self._refuse(by, units, read, "race: write of {where}, which {who} read, {order}")
        mine = self._packed(by)
        self.writes[units], self.write_pcs[units] = mine, by.pc
        if not by.strong:  # what warps write at once is the same, or a race that the store finds
            others = (written := self.writes[units]) >> _WARP != mine >> _WARP
            if others.any():
                self.machine.note_same(by.pc, self._error(by, others, units, written, _WRITTEN))

    def is_ordered(self, by: Access, packed: int) -> bool:
        """Whether an access is ordered before what a lane does now."""
        return not self._unordered(by, np.array([[packed]])).any()

    def _packed(self, by: Access) -> Array:
        warps = by.warps + (self.first_cluster * self.machine.layout.warps_per_cluster + 1)
        times = self.machine.clocks.now[by.warps].astype(np.int64)
        return ((warps << _WARP) | (times << _TIME) | (_STRONG * by.strong) | by.lanes)[:, None]

    def _cta(self, packed: Array) -> Array:
        return ((packed >> _WARP) - 1) // self.machine.layout.warps_per_cta

    def _unordered(self, by: Access, packed: Array) -> Array:
        """Which accesses of others are not ordered before what these lanes do now."""
        clocks, per = self.machine.clocks, self.machine.layout.warps_per_cluster
        warps, lanes = (packed >> _WARP) - 1, packed & (LANES - 1)
        of, home = warps // per - self.first_cluster, by.warps[:, None] // per
        apart = (packed != 0) & ~((lanes == by.lanes[:, None]) & (warps % per + of * per == by.warps[:, None]))
        if by.strong:
            apart &= packed & _STRONG == 0
        if not apart.any():
            return apart
        if clocks.clusters == 1:
            cluster, never, ended = np.zeros_like(of), of != home, np.False_
        else:
            cluster, never, ended = np.maximum(of, 0), np.False_, of < 0
        late = clocks.unknown((by.warps, by.lanes), cluster, warps % per, packed >> _TIME & _TIMES, lanes)
        return apart & ~ended & (late | never)

    def _refuse(self, by: Access, units: Array, packed: Array, message: str) -> None:
        if (late := self._unordered(by, packed)).any():
            raise self._error(by, late, units, packed, message)

    def _error(
        self, by: Access, bad: Array, units: Array, packed: Array, message: str, kind: str = "race"
    ) -> EmulatorError:
        row, column = np.unravel_index(int(np.argmax(bad)), bad.shape)
        unit, other, layout = int(units[row, column]), int(packed[row, column]), self.machine.layout
        mine, warp = int(by.warps[row]), (other >> _WARP) - 1 - self.first_cluster * layout.warps_per_cluster
        slot, in_cta = divmod(warp, layout.warps_per_cta)
        who, order = f"warp {in_cta} lane {other & 31}", "with no barrier between"
        if warp == mine:
            who, order = f"lane {other & 31} of the same warp", "with no bar.warp.sync between"
        elif slot != layout.slot_of(mine):
            who = f"CTA {layout.cta_of(self.first_cluster, slot)} {who}"
            order = "with no release and acquire between"
        pc, machine, at = int(self.write_pcs[unit]), self.machine, unit * self.unit
        text = message.format(where=machine.heap.describe(at), who=who, line=machine.instruction(pc), order=order)
        cta = layout.cta_of(self.first_cluster, slot)
        source = machine.kernel.code[pc].source if "{line}" in message else None
        about = About(kind, *machine.heap.element_at(at), other=Who(cta, in_cta, other & 31), other_loc=source)
        return machine.error(text, by.pc, mine, int(by.lanes[row]), about)


class Stale:
    """What places held before a strong store: who does not know of the store may still read that.

    Nobody reads it any more who has read the new number, and atomic updates never do.
    """

    def __init__(self, machine: Machine, hazards: HeapHazards) -> None:
        self.machine, self.hazards = machine, hazards
        self.before: dict[int, tuple[Array, int, set[tuple[int, int]]]] = {}
        """Of the place of an element: what it held, who stored (as `HeapHazards` has it), and who has read that."""

    def stored(self, g: Gang, at: Array, before: Array) -> None:
        """Active lanes stored where this was before: [lanes, elements]."""
        hazards, width = self.hazards, before.dtype.itemsize
        for row, (place, key) in enumerate(zip(at.tolist(), _who(g), strict=True)):
            for k, old in enumerate(before[row]):
                where = place + k * width
                self.before[where] = old, int(hazards.writes[where // hazards.unit]), {key}

    def read(self, g: Gang, at: Array, values: Array) -> Array:
        """What active lanes read that is these numbers by now: [lanes, elements]."""
        hazards, width = self.hazards, values.dtype.itemsize
        if not self.before:
            return values
        values = values.copy()
        for row, (place, (warp, lane)) in enumerate(zip(at.tolist(), _who(g), strict=True)):
            for k in range(values.shape[1]):
                found = self.before.get(place + k * width)
                if found is None or found[0].dtype != values.dtype or (warp, lane) in found[2]:
                    continue
                by = Access.of_one(warp, lane, g.pc)
                if hazards.is_ordered(by, found[1]) or self.machine.rng.random() < 0.5:
                    found[2].add((warp, lane))
                else:
                    values[row, k] = found[0]
        return values


def _who(g: Gang) -> list[tuple[int, int]]:
    return list(zip(g.lane_warps.tolist(), g.lanes.tolist(), strict=True))


@dataclass(frozen=True, slots=True)
class _Left:
    """What a release left at its flag: it reaches so far around the CTA in a slot."""

    reach: int
    slot: int
    known: Known


class Flags:
    """What was released at places of global and shared memory."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.left = defaultdict[tuple[str, int], list[_Left]](list)
        self.fenced: dict[tuple[int, int], tuple[int, int]] = {}
        """Of lanes that executed a fence: its reach, and when."""
        self.seen = defaultdict[tuple[int, int], list[_Left]](list)
        """What lanes have read and will know behind a fence."""

    def write(self, by: Access, space: str, at: Array, reach: int | None, *, update: bool) -> None:
        """Lanes write flags, releasing what they know within their `reach`; None: what they did before a fence.

        An `update` also carries on what was left there.
        """
        if reach is None and not self.fenced and not self.left:
            return
        clocks, layout = self.machine.clocks, self.machine.layout
        for warp, flag, lanes in _by_flag(by, at):
            left, slot = self.left[space, flag], layout.slot_of(warp)
            if not update:
                left.clear()
            if reach is not None:
                left.append(_Left(reach, slot, clocks.published(warp, lanes)))
            else:
                fences = ((lane, self.fenced.get((warp, lane))) for lane in np.flatnonzero(lanes).tolist())
                left += [_Left(f[0], slot, clocks.of_lane(warp, lane, f[1])) for lane, f in fences if f]
            if not left:
                del self.left[space, flag]

    def read(self, by: Access, space: str, at: Array, reach: int | None) -> None:
        """Lanes read flags, acquiring what was left there within their `reach`; None: behind a fence."""
        if not self.left:
            return
        for warp, flag, lanes in _by_flag(by, at):
            for left in self.left.get((space, flag), ()):
                if reach is not None:
                    self._acquire(warp, lanes, reach, left)
                    continue
                for lane in np.flatnonzero(lanes).tolist():
                    self.seen[warp, lane].append(left)

    def fence(self, g: Gang, reach: int) -> None:
        """Active lanes execute a fence."""
        for row, warp in enumerate(g.warps.tolist()):
            now = int(self.machine.clocks.now[warp])
            for lane in np.flatnonzero(g.mask[row]).tolist():
                self.fenced[warp, lane] = reach, now
                for left in self.seen.pop((warp, lane), ()):
                    self._acquire(warp, mask_of(lane), reach, left)
            self.machine.clocks.now[warp] += 1

    def _acquire(self, warp: int, lanes: Array, reach: int, left: _Left) -> None:
        machine, size = self.machine, self.machine.layout.ctas_per_cluster
        slot = machine.layout.slot_of(warp)
        reaches = slot == left.slot, slot // size == left.slot // size, True, True
        if reaches[min(reach, left.reach)]:
            machine.clocks.learn(warp, lanes, machine.live_lanes[warp], left.known)


def _by_flag(by: Access, at: Array) -> Iterator[tuple[int, int, Array]]:
    """Each warp and each place that lanes of it address, and which do."""
    lanes = defaultdict[tuple[int, int], list[int]](list)
    for warp, flag, lane in zip(by.warps.tolist(), at.tolist(), by.lanes.tolist(), strict=True):
        lanes[warp, flag].append(lane)
    for (warp, flag), found in lanes.items():
        yield warp, flag, mask_of(found)
