"""Who touched which shared byte when, and whether that was ordered before who touches it now (`clocks`).

Of each unit, the narrowest access of the kernel, there is who wrote it last: agent, time and lane; and of each agent
when it read it last, and which lane that was: two of one warp at one time are `SEVERAL`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from graphfuse.findings import About
from graphfuse.gpu.emulator.clocks import ANY_LANE, SEVERAL
from graphfuse.gpu.emulator.errors import EmulatorError
from graphfuse.gpu.emulator.types import Array

if TYPE_CHECKING:
    from graphfuse.gpu.emulator.machine import Machine

Same = Callable[[int], Array]
"""Which of so many units of each row stay as they are, if it is asked: [rows, units]."""
_LANES = 64
"""Numbers for lanes: a read is a time and a lane in one."""


@dataclass(frozen=True, slots=True)
class Access:
    """Who accesses: per row the warp, the lane (or ANY_LANE) and, for messages, the instruction."""

    warps: Array
    lanes: Array
    pc: int
    strong: bool = False

    def part(self, rows: Array) -> Access:
        """Some of the rows."""
        return Access(self.warps[rows], self.lanes[rows], self.pc, self.strong)

    @classmethod
    def of_one(cls, warp: int, lane: int, pc: int, *, strong: bool = False) -> Access:
        """One lane's, of one row."""
        return cls(np.array([warp]), np.array([lane]), pc, strong)


class Hazards:
    """The shadow of the shared memory of all resident CTAs."""

    def __init__(self, machine: Machine) -> None:
        self.machine, layout = machine, machine.layout
        self.clocks = machine.clocks
        units, self.readers = len(machine.shared) // layout.unit, layout.readers
        self.written = np.zeros(units, np.bool_)
        self.writer = np.zeros(units, np.int16)
        self.write_time = np.zeros(units, np.int32)
        self.write_lane = np.full(units, ANY_LANE, np.int8)
        self.write_pc = np.zeros(units, np.int32)
        self.write_strong = np.zeros(units, np.bool_)
        self.reads = np.zeros((units, self.readers), np.int32)
        self.pending = np.zeros(units, np.int32)
        self.pending_count = 0
        self.unfenced = np.zeros(units, np.int8)
        self.any_unfenced = False
        self.copies = np.array([i.name == "cp" for i in machine.kernel.code])
        """Of instructions, whether they copy on their own."""

    # accesses

    def read(
        self, by: Access, units: Array, *, agent: int | None = None, time: int = 0, asynchronous: bool = False
    ) -> None:
        """Rows of units are read. `agent` at `time` reads for the warp (an asynchronous operation)."""
        self._not_pending(by, units, "read")
        if not self.written[units].all():
            message = "read of uninitialised shared memory at {unit}"
            raise self._error(by, ~self.written[units], units, message, "uninitialised")
        self._ordered_writes(by, units, "read")
        if asynchronous and self.any_unfenced and (bad := np.asarray(self.unfenced[units] != 0)).any():
            self._not_fenced(by, bad, units)
        if by.strong:
            return  # strong accesses race with weak ones only, and those find the write
        if agent is None:
            self._read_by(by, units)
        else:
            self.reads[units, agent] = time * _LANES + ANY_LANE

    def _not_fenced(self, by: Access, bad: Array, units: Array) -> None:
        """The ISA asks for a fence behind a cp.async, too; Triton writes none, and GPUs take it."""
        message = "the async proxy reads {unit}, written by {what} ({written}) with no fence.proxy.async since"
        stored = bad & ~self.copies[self.write_pc[units]]
        if stored.any():
            raise self._error(by, stored, units, message.replace("{what}", "the generic proxy"), "fence")
        if (key := (by.pc, "copied")) not in self.machine.warned:
            self.machine.note(key, self._error(by, bad, units, message.replace("{what}", "cp.async"), "fence"))

    def _read_by(self, by: Access, units: Array) -> None:
        agents, now = self.clocks.agent[by.warps][:, None], (self.clocks.now[by.warps] * _LANES)[:, None]
        mine = now + by.lanes[:, None]
        before = self.reads[units, agents]
        several = (before >= now) & (before != mine)
        self.reads[units, agents] = np.where(several, now + SEVERAL, mine)
        shared = self.reads[units, agents] != mine  # also by lanes that read at once
        if shared.any():
            row, column = np.nonzero(shared)
            self.reads[units[row, column], agents[row, 0]] = now[row, 0] + SEVERAL

    def write(self, by: Access, units: Array, same: Same | None = None) -> None:
        """Rows of units are written by the generic proxy; units that stay the `same` as they were are worth a note."""
        self.may_write(by, units, "write", same)
        agents, times = self.clocks.agent[by.warps][:, None], self.clocks.now[by.warps][:, None]
        self._written_by(units, agents, times, by.pc, lanes=by.lanes[:, None], strong=by.strong)
        if not by.strong and (clash := self.writer[units] != agents).any():
            error = self._error(by, clash, units, "race: two warps write {unit} without a barrier between")
            if same is None:
                raise error
            self.machine.note_same(by.pc, error)  # what warps write at once is the same, or a race that the store finds

    def may_write(self, by: Access, units: Array, what: str, same: Same | None = None) -> None:
        """Whether all earlier accesses of these units are ordered before this one."""
        self._not_pending(by, units, what)
        self._ordered_writes(by, units, what, same)
        reads, home = self.reads[units], self.clocks.home[by.warps]
        late = reads >= ((self.clocks.all[by.warps, home, : self.readers] + 1) * _LANES)[:, None, :]
        if not late.any():
            return
        row, column, agent = np.nonzero(late)
        times, lanes = np.divmod(reads[row, column, agent], _LANES)
        row_of = np.minimum(row, len(by.warps) - 1)
        who = by.warps[row_of], by.lanes[row_of]
        found = self.clocks.unknown(who, home[row_of, None], agent[:, None], times[:, None], lanes[:, None])[:, 0]
        if found.any():
            first = int(np.argmax(found))
            bad = np.zeros(units.shape, np.bool_)
            bad[row[first], column[first]] = True
            reader = self.machine.agent(int(agent[first]))
            if agent[first] == self.clocks.agent[who[0][first]]:
                reader = "another lane of the same warp, with no bar.warp.sync between"
            raise self._error(by, bad, units, f"race: {what} of {{unit}} is not ordered after its read by {reader}")

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
        agent, time = self.clocks.agent[warp], self.clocks.now[warp]
        self._written_by(units, agent, time, pc, lanes=lanes[:, None])

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
        strong: bool = False,
    ) -> None:
        """The values are an agent's: of lanes that use the generic proxy, or of a bulk copy."""
        self.written[units] = True
        self.writer[units], self.write_time[units], self.write_pc[units] = agent, time, pc
        self.write_lane[units] = ANY_LANE if lanes is None else lanes
        self.write_strong[units] = strong
        self.unfenced[units] = 0 if lanes is None else lanes + 1
        self.any_unfenced |= lanes is not None

    def fence_async(self, warp: int, lanes: Array, low: int, high: int) -> None:
        """fence.proxy.async by some lanes: covers what they wrote, and what they know others to have written."""
        if not self.any_unfenced:
            return
        units = low + np.flatnonzero(self.unfenced[low:high])
        own = self.writer[units] == self.clocks.agent[warp]
        lane = self.unfenced[units] - 1
        mine = own & ((lane >= ANY_LANE) | lanes[np.minimum(lane, 31)])
        by = np.full(len(units), warp), np.full(len(units), int(np.argmax(lanes)))
        home = np.full((len(units), 1), self.clocks.home[warp])
        agents, times, of = self.writer[units, None], self.write_time[units, None], self.write_lane[units, None]
        self.unfenced[units[mine | ~self.clocks.unknown(by, home, agents, times, of)[:, 0]]] = 0

    # rules

    def _error(self, by: Access, bad: Array, units: Array, message: str, kind: str = "race") -> EmulatorError:
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
        source = say.kernel.code[int(self.write_pc[unit])].source if "{written}" in message else None
        about = About(kind, other_loc=source)
        return say.error(message.format(**words), by.pc, int(by.warps[who]), lane if lane < ANY_LANE else None, about)

    def _not_pending(self, by: Access, units: Array, what: str) -> None:
        if self.pending_count and (bad := self.pending[units] != 0).any():
            raise self._error(by, bad, units, f"{what} of {{unit}} while {{operation}} is still in flight", "in-flight")

    def _ordered_writes(self, by: Access, units: Array, what: str, same: Same | None = None) -> None:
        home, agents, lanes = self.clocks.home[by.warps][:, None], self.writer[units], self.write_lane[units]
        late = self.clocks.unknown((by.warps, by.lanes), home, agents, self.write_time[units], lanes)
        if by.strong:
            late &= ~self.write_strong[units]
        if not late.any():
            return
        differ = late if same is None else late & ~same(units.shape[1])
        bad = differ if differ.any() else late
        if (bad & (agents == self.clocks.agent[by.warps][:, None])).any():
            message = f"race: {what} of {{unit}}, which lane {{lane}} of the same warp wrote ({{written}})"
            error = self._error(by, bad, units, f"{message}, with no bar.warp.sync between")
        else:
            message = f"race: {what} of {{unit}} is not ordered after its write by {{agent}} ({{written}})"
            error = self._error(by, bad, units, message)
        if bad is differ:
            raise error
        self.machine.note_same(by.pc, error)
