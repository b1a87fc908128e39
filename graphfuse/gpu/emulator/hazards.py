"""Who touched which shared byte when, and whether that was ordered: happens-before by vector clocks.

Agents are what acts on its own: warps, warpgroups (for what wgmma reads until its wait), bulk stores of a warp (what
they read until their wait), and mbarriers (for what bulk copies write before completing on them). Each warp knows of
each agent up to some time, its row of `clocks`. An access by agent a at time t is ordered before warp w's next one iff
`clocks[w, a] >= t`. Barriers join rows; an mbarrier carries rows from those who arrive to those who wait.

Shared memory is tracked in units, the narrowest access of the kernel, so neighbours are never confused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from graphfuse.gpu.emulator.types import Array

ANY_LANE = 32
"""Lane of writes that are ordered for the whole warp."""


class Hazard(Exception):  # noqa: N818 - caught by the machine, which turns it into a located error
    """An access breaks a rule: message, and the row among those given."""

    def __init__(self, message: str, row: int) -> None:
        super().__init__(message)
        self.message, self.row = message, row


@dataclass(frozen=True, slots=True)
class Access:
    """Who accesses: per row the warp, the lane (or ANY_LANE) and, for messages, the instruction."""

    warps: Array
    lanes: Array
    pc: int
    strong: bool = False


class Describe(Protocol):
    """Words for units, agents, operations and instructions; the machine supplies them."""

    def unit(self, unit: int) -> str:
        """A shared-memory address."""
        ...

    def agent(self, agent: int) -> str:
        """A warp, a warpgroup, an mbarrier."""
        ...

    def operation(self, operation: int) -> str:
        """An asynchronous operation."""
        ...

    def instruction(self, pc: int) -> str:
        """A line of the PTX."""
        ...


class Hazards:
    """The shadow of the shared memory of all resident CTAs, and the clocks of their warps."""

    def __init__(self, units: int, warps: int, warps_per_cluster: int, readers: int, describe: Describe) -> None:
        self.readers, self.describe = readers, describe
        self.agent_of_warp = np.arange(warps) % warps_per_cluster
        self.clocks = np.zeros((warps, readers + 16), np.int32)
        self.clocks[np.arange(warps), self.agent_of_warp] = 1
        self.synced = np.zeros(warps, np.int32)
        self.written = np.zeros(units, np.bool_)
        self.writer = np.zeros(units, np.int16)
        self.write_time = np.zeros(units, np.int32)
        self.write_lane = np.full(units, ANY_LANE, np.int8)
        self.write_sync = np.zeros(units, np.int32)
        self.write_pc = np.zeros(units, np.int32)
        self.write_strong = np.zeros(units, np.bool_)
        self.reads = np.zeros((units, readers), np.int32)
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

    def join(self, warps: Array) -> None:
        """A barrier: all of them know what each knew."""
        self.clocks[warps] = self.clocks[warps].max(0)
        self.tick(warps)

    def tick(self, warps: Array) -> None:
        """What these warps do from now on is later than what they published."""
        self.clocks[warps, self.agent_of_warp[warps]] += 1
        self.synced[warps] += 1

    def published(self, warps: Array) -> Array:
        """What these warps know together, as one row; they go on to a later time."""
        row = self.clocks[warps].max(0)
        self.clocks[warps, self.agent_of_warp[warps]] += 1
        return row

    def learn(self, warp: int, row: Array) -> None:
        """A warp waited for something that carries this row; its lanes are in step behind it."""
        self.synced[warp] += 1
        n = len(row)
        np.maximum(self.clocks[warp, :n], row, out=self.clocks[warp, :n])

    # accesses

    def read(
        self,
        by: Access,
        units: Array,
        *,
        agent: int | None = None,
        time: int = 0,
        asynchronous: bool = False,
        initialised: bool = True,
    ) -> None:
        """Rows of units are read. `agent` at `time` reads for the warp (an asynchronous operation)."""
        self._not_pending(units, "read")
        if initialised and not self.written[units].all():
            row, unit = _first(~self.written[units], units)
            raise Hazard(f"read of uninitialised shared memory at {self.describe.unit(unit)}", row)
        self._ordered_writes(by, units, "read")
        if asynchronous and self.any_unfenced and (bad := np.asarray(self.unfenced[units] != 0)).any():
            row, unit = _first(bad, units)
            raise Hazard(
                f"the async proxy reads {self.describe.unit(unit)}, written by the generic proxy "
                f"({self._written_at(unit)}) with no fence.proxy.async since",
                row,
            )
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
        self.writer[units] = agents
        self.write_time[units] = self.clocks[by.warps, agents[:, 0]][:, None]
        self.write_lane[units] = by.lanes[:, None]
        self.write_sync[units] = self.synced[by.warps][:, None]
        self.write_pc[units] = by.pc
        self.write_strong[units] = by.strong
        self.written[units] = True
        self.unfenced[units] = by.lanes[:, None] + 1
        self.any_unfenced = True
        clash = self.writer[units] != agents
        if clash.any() and not by.strong:
            row, unit = _first(clash, units)
            raise Hazard(f"race: two warps write {self.describe.unit(unit)} without a barrier between", row)

    def may_write(self, by: Access, units: Array, what: str) -> None:
        """Whether all earlier accesses of these units are ordered before this one."""
        self._not_pending(units, what)
        self._ordered_writes(by, units, what)
        known = self.clocks[by.warps, : self.readers]
        late = self.reads[units] > known[:, None, :]
        if late.any():
            row, unit = _first(np.asarray(late.any(2)), units)
            agent = int(np.argmax(late[row][units[row] == unit][0]))
            raise Hazard(
                f"race: {what} of {self.describe.unit(unit)} is not ordered after its read by "
                f"{self.describe.agent(agent)}",
                row,
            )

    def begin_async_write(self, units: Array, operation: int) -> None:
        """These units have no value until the operation completes."""
        self.pending[units] = operation
        self.pending_count += units.size

    def end_bulk_write(self, units: Array, agent: int, time: int, pc: int) -> None:
        """A bulk copy completed on an mbarrier: its bytes are that agent's, of this phase."""
        self.pending[units] = 0
        self.pending_count -= units.size
        self.written[units] = True
        self.writer[units], self.write_time[units], self.write_pc[units] = agent, time, pc
        self.write_lane[units] = ANY_LANE
        self.write_strong[units] = False
        self.unfenced[units] = 0

    def end_copy(self, units: Array, warp: int, lanes: Array, pc: int) -> None:
        """A cp.async completed at its wait: as if these lanes had stored the bytes now."""
        self.pending[units] = 0
        self.pending_count -= units.size
        agent = self.agent_of_warp[warp]
        self.written[units] = True
        self.writer[units], self.write_time[units], self.write_pc[units] = agent, self.clocks[warp, agent], pc
        self.write_lane[units], self.write_sync[units] = lanes[:, None], self.synced[warp]
        self.write_strong[units] = False
        self.unfenced[units] = lanes[:, None] + 1
        self.any_unfenced = True

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

    def _written_at(self, unit: int) -> str:
        return self.describe.instruction(int(self.write_pc[unit]))

    def _not_pending(self, units: Array, what: str) -> None:
        if self.pending_count and (bad := self.pending[units] != 0).any():
            row, unit = _first(bad, units)
            operation = self.describe.operation(int(self.pending[unit]))
            raise Hazard(f"{what} of {self.describe.unit(unit)} while {operation} is still in flight", row)

    def _ordered_writes(self, by: Access, units: Array, what: str) -> None:
        warps = by.warps[:, None]
        late = self.clocks[warps, self.writer[units]] < self.write_time[units]
        if by.strong:
            late &= ~self.write_strong[units]
        if late.any():
            row, unit = _first(late, units)
            raise Hazard(
                f"race: {what} of {self.describe.unit(unit)} is not ordered after its write by "
                f"{self.describe.agent(int(self.writer[unit]))} ({self._written_at(unit)})",
                row,
            )
        lane = self.write_lane[units]
        unsynced = (lane != by.lanes[:, None]) & (lane < ANY_LANE) & (by.lanes[:, None] < ANY_LANE)
        unsynced &= (self.writer[units] == self.agent_of_warp[warps]) & (self.write_sync[units] == self.synced[warps])
        if what == "read" and not by.strong and unsynced.any():
            row, unit = _first(unsynced, units)
            raise Hazard(
                f"race: read of {self.describe.unit(unit)}, which lane {int(self.write_lane[unit])} of the same warp "
                f"wrote ({self._written_at(unit)}), with no bar.warp.sync between",
                row,
            )


def _first(bad: Array, units: Array) -> tuple[int, int]:
    row, column = np.unravel_index(int(np.argmax(bad)), bad.shape)
    return int(row), int(units[row, column])
