"""Who touched which shared byte when, and whether that was ordered: happens-before by vector clocks.

Agents are what acts on its own: warps, warpgroups (for what wgmma reads until its wait), bulk stores of a warp (what
they read until their wait), and mbarriers (for what bulk copies write before completing on them). Each warp knows of
each agent up to some time, its row of `clocks`. An access by agent a at time t is ordered before warp w's next one iff
`clocks[w, a] >= t`. Barriers join rows; an mbarrier carries rows from those who arrive to those who wait.

Shared memory is tracked in units, the narrowest access of the kernel, so neighbours are never confused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from graphfuse.gpu.emulator.errors import EmulatorError
from graphfuse.gpu.emulator.types import Array

if TYPE_CHECKING:
    from graphfuse.gpu.emulator.machine import Machine

ANY_LANE = 32
"""Lane of writes that are ordered for the whole warp."""


@dataclass(frozen=True, slots=True)
class Access:
    """Who accesses: per row the warp, the lane (or ANY_LANE) and, for messages, the instruction."""

    warps: Array
    lanes: Array
    pc: int
    strong: bool = False

    @classmethod
    def of_one(cls, warp: int, lane: int, pc: int, *, strong: bool = False) -> Access:
        """One lane's, of one row."""
        return cls(np.array([warp]), np.array([lane]), pc, strong)


class Hazards:
    """The shadow of the shared memory of all resident CTAs, and the clocks of their warps."""

    def __init__(self, machine: Machine) -> None:
        self.machine, layout = machine, machine.layout
        units, warps, self.readers = len(machine.shared) // layout.unit, layout.resident_warps, layout.readers
        self.agent_of_warp = np.arange(warps) % layout.warps_per_cluster
        self.clocks = np.zeros((warps, self.readers + 16), np.int32)
        self.clocks[np.arange(warps), self.agent_of_warp] = 1
        self.synced = np.zeros(warps, np.int32)
        self.written = np.zeros(units, np.bool_)
        self.writer = np.zeros(units, np.int16)
        self.write_time = np.zeros(units, np.int32)
        self.write_lane = np.full(units, ANY_LANE, np.int8)
        self.write_sync = np.zeros(units, np.int32)
        self.write_pc = np.zeros(units, np.int32)
        self.write_strong = np.zeros(units, np.bool_)
        self.reads = np.zeros((units, self.readers), np.int32)
        self.pending = np.zeros(units, np.int32)
        self.pending_count = 0
        self.unfenced = np.zeros(units, np.int8)
        self.any_unfenced = False

    # clocks

    def agent(self, index: int) -> int:
        """Make sure that clocks have a column for this agent."""
        while index >= self.clocks.shape[1]:
            self.clocks = np.concatenate([self.clocks, np.zeros_like(self.clocks)], axis=1)
        return index

    def published(self, warp: int) -> Array:
        """What this warp knows, as one row; it goes on to a later time."""
        row = self.clocks[warp].copy()
        self.clocks[warp, self.agent_of_warp[warp]] += 1
        return row

    def learn(self, warp: int, row: Array) -> None:
        """A warp waited for something that carries this row; its lanes are in step behind it."""
        self.synced[warp] += 1
        n = len(row)
        np.maximum(self.clocks[warp, :n], row, out=self.clocks[warp, :n])

    def finished(self, warp: int, agent: int, time: int) -> None:
        """A warp knows that an agent has read until this time."""
        self.clocks[warp, agent] = max(self.clocks[warp, agent], time)

    # accesses

    def read(
        self, by: Access, units: Array, *, agent: int | None = None, time: int = 0, asynchronous: bool = False
    ) -> None:
        """Rows of units are read. `agent` at `time` reads for the warp (an asynchronous operation)."""
        self._not_pending(by, units, "read")
        if not self.written[units].all():
            raise self._error(by, ~self.written[units], units, "read of uninitialised shared memory at {unit}")
        self._ordered_writes(by, units, "read")
        if asynchronous and self.any_unfenced and (bad := np.asarray(self.unfenced[units] != 0)).any():
            message = "the async proxy reads {unit}, written by the generic proxy ({written})"
            raise self._error(by, bad, units, f"{message} with no fence.proxy.async since")
        if by.strong:
            return  # strong accesses race with weak ones only, and those find the write
        if agent is None:
            agents = self.agent_of_warp[by.warps]
            self.reads[units, agents[:, None]] = self.clocks[by.warps, agents][:, None]
        else:
            self.reads[units, agent] = time

    def write(self, by: Access, units: Array) -> None:
        """Rows of units are written by the generic proxy."""
        self.may_write(by, units, "write")
        agents = self.agent_of_warp[by.warps][:, None]
        times, synced = self.clocks[by.warps, agents[:, 0]][:, None], self.synced[by.warps][:, None]
        self._written_by(units, agents, times, by.pc, lanes=by.lanes[:, None], synced=synced, strong=by.strong)
        if not by.strong and (clash := self.writer[units] != agents).any():
            raise self._error(by, clash, units, "race: two warps write {unit} without a barrier between")

    def may_write(self, by: Access, units: Array, what: str) -> None:
        """Whether all earlier accesses of these units are ordered before this one."""
        self._not_pending(by, units, what)
        self._ordered_writes(by, units, what)
        known = self.clocks[by.warps, : self.readers]
        late = self.reads[units] > known[:, None, :]
        if late.any():
            bad = np.asarray(late.any(2))
            who = self.machine.agent(int(np.argmax(late[np.unravel_index(int(np.argmax(bad)), bad.shape)])))
            raise self._error(by, bad, units, f"race: {what} of {{unit}} is not ordered after its read by {who}")

    def begin_async_write(self, units: Array, operation: int) -> None:
        """These units have no value until the operation completes."""
        self.pending[units] = operation
        self.pending_count += units.size

    def end_bulk_write(self, units: Array, agent: int, time: int, pc: int) -> None:
        """A bulk copy completed on an mbarrier: its bytes are that agent's, of this phase."""
        self._end_async_write(units)
        self._written_by(units, agent, time, pc)

    def end_copy(self, units: Array, warp: int, lanes: Array, pc: int) -> None:
        """A cp.async completed at its wait: as if these lanes had stored the bytes now."""
        self._end_async_write(units)
        agent = self.agent_of_warp[warp]
        time, synced = self.clocks[warp, agent], self.synced[warp]
        self._written_by(units, agent, time, pc, lanes=lanes[:, None], synced=synced)

    def _end_async_write(self, units: Array) -> None:
        self.pending[units] = 0
        self.pending_count -= units.size

    def _written_by(
        self,
        units: Array,
        agent: Array | int,
        time: Array | int,
        pc: int,
        *,
        lanes: Array | None = None,
        synced: Array | int = 0,
        strong: bool = False,
    ) -> None:
        """The values are an agent's: of lanes that use the generic proxy, or of a bulk copy."""
        self.written[units] = True
        self.writer[units], self.write_time[units], self.write_pc[units] = agent, time, pc
        self.write_lane[units] = ANY_LANE if lanes is None else lanes
        self.write_sync[units], self.write_strong[units] = synced, strong
        self.unfenced[units] = 0 if lanes is None else lanes + 1
        self.any_unfenced |= lanes is not None

    def fence_async(self, warp: int, lanes: Array, low: int, high: int) -> None:
        """fence.proxy.async by some lanes: covers what they wrote, and what they know others to have written."""
        if not self.any_unfenced:
            return
        units = low + np.flatnonzero(self.unfenced[low:high])
        agents, lane = self.writer[units], self.unfenced[units] - 1
        own = agents == self.agent_of_warp[warp]
        mine = own & ((lane >= ANY_LANE) | lanes[np.minimum(lane, 31)] | (self.write_sync[units] < self.synced[warp]))
        known = ~own & (self.clocks[warp, agents] >= self.write_time[units])
        self.unfenced[units[mine | known]] = 0

    # rules

    def _error(self, by: Access, bad: Array, units: Array, message: str) -> EmulatorError:
        """What is wrong with the first bad unit, in words that may name the {unit} and who has {written} it."""
        row, column = np.unravel_index(int(np.argmax(bad)), bad.shape)
        unit, who, say = int(units[row, column]), min(int(row), len(by.warps) - 1), self.machine
        lane = int(by.lanes[who])
        words: dict[str, object] = {
            "unit": say.unit(unit),
            "operation": say.operations[int(self.pending[unit])],
            "agent": say.agent(int(self.writer[unit])),
            "lane": int(self.write_lane[unit]),
            "written": say.instruction(int(self.write_pc[unit])),
        }
        return say.error(message.format(**words), by.pc, int(by.warps[who]), lane if lane < ANY_LANE else None)

    def _not_pending(self, by: Access, units: Array, what: str) -> None:
        if self.pending_count and (bad := self.pending[units] != 0).any():
            raise self._error(by, bad, units, f"{what} of {{unit}} while {{operation}} is still in flight")

    def _ordered_writes(self, by: Access, units: Array, what: str) -> None:
        warps = by.warps[:, None]
        late = self.clocks[warps, self.writer[units]] < self.write_time[units]
        if by.strong:
            late &= ~self.write_strong[units]
        if late.any():
            message = f"race: {what} of {{unit}} is not ordered after its write by {{agent}} ({{written}})"
            raise self._error(by, late, units, message)
        if what != "read" or by.strong:
            return
        lane = self.write_lane[units]
        unsynced = (lane != by.lanes[:, None]) & (lane < ANY_LANE) & (by.lanes[:, None] < ANY_LANE)
        unsynced &= (self.writer[units] == self.agent_of_warp[warps]) & (self.write_sync[units] == self.synced[warps])
        if unsynced.any():
            message = "race: read of {unit}, which lane {lane} of the same warp wrote ({written})"
            raise self._error(by, unsynced, units, f"{message}, with no bar.warp.sync between")
