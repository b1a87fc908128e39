"""cp.async (PTX ISA 9.7.9.25): copies to shared memory that happen at their wait."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graphfuse.gpu.emulator import access
from graphfuse.gpu.emulator.decode import Decoder, Source, full
from graphfuse.gpu.emulator.gang import Gang, Step
from graphfuse.gpu.emulator.hazards import Access
from graphfuse.gpu.emulator.instructions import barrier as mbarriers
from graphfuse.gpu.emulator.instructions import tma
from graphfuse.gpu.emulator.machine import Machine
from graphfuse.gpu.emulator.types import Array


@dataclass(eq=False, slots=True)
class Copies:
    """cp.async of one warp at one time: per lane where from, where to, how much, and of which group."""

    warp: int
    pc: int
    lanes: Array
    source: Array
    target: Array
    take: Array
    nbytes: int
    group: Array


class Pending:
    """Copies in flight of each warp, and how many groups each lane has committed."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.copies: dict[int, list[Copies]] = {}
        self.committed = np.zeros((machine.layout.resident_warps, 32), np.int64)

    def complete(self, warp: int, lanes: Array, up_to: Array) -> None:
        """Perform what these lanes (a mask) copy in groups before `up_to` (per lane)."""
        rest: list[Copies] = []
        for copies in self.copies.get(warp, []):
            done = lanes[copies.lanes] & (copies.group < up_to[copies.lanes])
            if done.any():
                self.perform(copies, done)
            if not done.all():
                rest.append(_some(copies, ~done))
        if rest:
            self.copies[warp] = rest
        else:
            self.copies.pop(warp, None)

    def perform(self, copies: Copies, rows: Array) -> None:
        """Move the bytes of these rows; what lies beyond `take` becomes zero."""
        machine = self.machine
        part = np.arange(copies.nbytes)
        valid = part < copies.take[rows, None]
        source = np.where(valid, copies.source[rows, None] + part, 0)
        machine.shared[copies.target[rows, None] + part] = np.where(valid, machine.heap.data[source], 0)
        if machine.hazards:
            units = access.units_of(machine, copies.target[rows], copies.nbytes)
            machine.hazards.end_copy(units, copies.warp, copies.lanes[rows], copies.pc)


def _some(copies: Copies, rows: Array) -> Copies:
    return Copies(
        copies.warp,
        copies.pc,
        copies.lanes[rows],
        copies.source[rows],
        copies.target[rows],
        copies.take[rows],
        copies.nbytes,
        copies.group[rows],
    )


def pending(machine: Machine) -> Pending:
    """The machine's copies in flight; a new batch of CTAs starts with none."""
    found = machine.in_flight.get("cp.async")
    if not isinstance(found, Pending):
        found = machine.in_flight["cp.async"] = Pending(machine)
    return found


def cp(d: Decoder) -> Step:
    """cp.async, by what follows."""
    if d.mods[0] == "reduce":
        return tma.bulk(d)
    if d.mods[0] != "async":
        raise d.error("unknown instruction")
    if "bulk" in d.mods:
        return tma.bulk(d)
    if "mbarrier" in d.mods:
        return arrive(d)
    if "commit_group" in d.mods:
        return commit(d)
    if "wait_group" in d.mods or "wait_all" in d.mods:
        return wait(d)
    return copy(d)


def copy(d: Decoder) -> Step:
    """cp.async.ca, .cg: 4, 8 or 16 bytes; fewer are taken with a source size, the rest is zero."""
    known = (
        "async",
        "ca",
        "cg",
        "shared",
        "shared::cta",
        "global",
        "L2::cache_hint",
        "L2::64B",
        "L2::128B",
        "L2::256B",
    )
    d.only(known)
    ops = d.operands(3, 4, 5)
    nbytes = d.constant(ops[2])
    if nbytes not in ((16,) if "cg" in d.mods else (4, 8, 16)):
        raise d.error(f"{nbytes} bytes: expected {'16' if 'cg' in d.mods else '4, 8 or 16'}")
    hinted = "L2::cache_hint" in d.mods
    target, source = d.address(ops[0]), d.address(ops[1])
    sized = len(ops) == (5 if hinted else 4)
    take: Source | None = None
    ignore: Source | None = None
    if sized and ops[3].kind == "reg" and d.machine.registers[ops[3].name].dtype == np.bool_:
        ignore = d.source(ops[3], "pred")
    elif sized:
        take = d.source(ops[3], "u32")
    machine = d.machine

    def step(g: Gang) -> None:
        taken = g.flat(full(g, take(g))).astype(np.int64) if take else np.full(len(g.lanes), nbytes)
        if ignore:
            taken = np.where(g.flat(full(g, ignore(g))), 0, taken)
        _issue(machine, g, target(g), source(g), taken, nbytes)

    return step


def _issue(machine: Machine, g: Gang, target: Array, source: Array, take: Array, nbytes: int) -> None:
    for name, address in (("shared", target), ("global", source)):
        if (bad := (g.flat(address) & (nbytes - 1)) != 0).any():
            row = int(np.argmax(bad))
            message = f"misaligned {name} address {int(g.flat(address)[row]):#x}: expected a multiple of {nbytes}"
            raise machine.error(message, g.pc, *g.who(row))
    if (take > nbytes).any():
        raise machine.error(f"source size {int(take.max())} of {nbytes} bytes", g.pc, int(g.lane_warps[0]))
    to = access.shared_offsets(machine, g, target, nbytes)
    of = _read_from(machine, g, source, take, nbytes)
    if machine.hazards:
        by = Access(g.lane_warps, g.lanes, g.pc)
        units = access.units_of(machine, to, nbytes)
        with access.located(machine, by):
            machine.hazards.may_write(by, units, "write")
        machine.hazards.begin_async_write(units, machine.new_operation(g.pc))
    entry = access.traffic(machine, g.pc, "global")
    entry.requests += int(g.mask.any(1).sum())
    entry.bytes += int(take.sum())
    entry.ideal += -(-int(take.sum()) // 32)
    entry.cost += len(np.unique((source[g.mask] if not g.full else source.reshape(-1))[take > 0] >> 5))
    queue = pending(machine)
    for warp in dict.fromkeys(g.lane_warps.tolist()):
        rows = np.flatnonzero(g.lane_warps == warp)
        lanes = g.lanes[rows]
        group = queue.committed[warp, lanes]
        copies = Copies(warp, g.pc, lanes, of[rows], to[rows], take[rows], nbytes, group)
        queue.copies.setdefault(warp, []).append(copies)


def _read_from(machine: Machine, g: Gang, source: Array, take: Array, nbytes: int) -> Array:
    """Positions in the heap; lanes that take nothing may have any address."""
    saved = g.state()
    reads = g.spread(take) > 0
    result = np.zeros(len(take), np.int64)
    if reads.any():
        g.restrict(g.mask & reads)
        result[take > 0] = access.heap_offsets(machine, g, g.flat(source), int(take.max()), write=False)
    g.restore(saved)
    return result


def commit(d: Decoder) -> Step:
    """cp.async.commit_group."""
    machine = d.machine

    def step(g: Gang) -> None:
        pending(machine).committed[g.rows] += g.mask

    return step


def wait(d: Decoder) -> Step:
    """cp.async.wait_group: all but the last n groups have happened; wait_all: all of this lane's copies."""
    machine = d.machine
    keep = d.constant(d.operands(1)[0]) if "wait_group" in d.mods else None

    def step(g: Gang) -> None:
        queue = pending(machine)
        for row, warp in enumerate(g.warps.tolist()):
            committed = queue.committed[warp]
            up_to = committed - keep if keep is not None else committed + 1
            queue.complete(warp, g.mask[row], up_to)

    return step


def arrive(d: Decoder) -> Step:
    """cp.async.mbarrier.arrive: an arrival once this lane's copies so far have happened."""
    d.only(("async", "mbarrier", "arrive", "noinc", "shared", "shared::cta"))
    (op,) = d.operands(1)
    address, machine, counted = d.address(op), d.machine, "noinc" in d.mods

    def step(g: Gang) -> None:
        queue = pending(machine)
        pc = g.pc
        for barrier, rows in mbarriers.groups(machine, g, address(g)):
            warp, lanes = int(g.lane_warps[rows[0]]), np.zeros(32, np.bool_)
            lanes[g.lanes[rows]] = True
            up_to = queue.committed[warp] + 1
            if not counted:
                barrier.pending += len(rows)

            def fire(
                barrier: mbarriers.MBarrier = barrier, warp: int = warp, lanes: Array = lanes, up_to: Array = up_to
            ) -> None:
                queue.complete(warp, lanes, up_to)
                mbarriers.publish(machine, barrier, warp)
                mbarriers.count_down(machine, barrier, int(lanes.sum()), pc, warp)

            operation = machine.operations[machine.new_operation(pc)]
            machine.events.start(machine.layout.slot_of(warp), operation, fire)

    return step


def leave(machine: Machine, warp: int) -> None:
    """A warp ends: its bulk stores must have read their source, its copies must have been waited for."""
    tma.leave(machine, warp)
    for copies in pending(machine).copies.get(warp, []) if machine.checks else ():
        machine.warn("cp.async never waited for", copies.pc, warp)


TABLE = {"cp": cp}
