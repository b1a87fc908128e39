"""cp.async (PTX ISA 9.7.9.25): copies to shared memory that happen at their wait."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from dataclasses import dataclass
from functools import partial

import numpy as np

from graphfuse.gpu.emulator import access
from graphfuse.gpu.emulator.barriers import MBarrier
from graphfuse.gpu.emulator.decode import Decoder, Source, full, instruction
from graphfuse.gpu.emulator.gang import LANES, Gang, Step, mask_of
from graphfuse.gpu.emulator.instructions import barrier as mbarriers
from graphfuse.gpu.emulator.machine import Machine, Part
from graphfuse.gpu.emulator.types import Array


@dataclass(frozen=True, eq=False, slots=True)
class Copies:
    """cp.async of one warp at one time: of each the lane, from where, to where, how much, of which group."""

    warp: int
    pc: int
    nbytes: int
    each: Array
    """[5, copies]"""


class Pending(Part):
    """Copies in flight of each warp, and how many groups each lane has committed."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.copies = defaultdict[int, list[Copies]](list)
        self.committed = np.zeros((machine.layout.resident_warps, LANES), np.int64)

    def complete(self, warp: int, lanes: Array, up_to: Array) -> None:
        """Perform what these lanes (a mask) copy in groups before `up_to` (per lane)."""
        for copies in self.copies.pop(warp, []):
            lane, group = copies.each[0], copies.each[4]
            done = lanes[lane] & (group < up_to[lane])
            if done.any():
                self.perform(copies, *copies.each[:4, done])
            if not done.all():
                self.copies[warp].append(dataclasses.replace(copies, each=copies.each[:, ~done]))

    def perform(self, copies: Copies, lanes: Array, source: Array, target: Array, take: Array) -> None:
        """Move the bytes; what lies beyond `take` becomes zero."""
        machine, part = self.machine, np.arange(copies.nbytes)
        valid = part < take[:, None]
        where = np.where(valid, source[:, None] + part, 0)
        machine.shared[target[:, None] + part] = np.where(valid, machine.heap.data[where], 0)
        if machine.hazards:
            units = access.units_of(machine, target, copies.nbytes)
            machine.hazards.end_copy(units, copies.warp, lanes, copies.pc)

    def leave(self, warp: int) -> None:
        """A warp ends: its copies must have been waited for."""
        for copies in self.copies.get(warp, []) if self.machine.checks else ():
            self.machine.warn("cp.async never waited for", copies.pc, warp)


@instruction("cp.async", mods=r"ca cg shared shared::cta global L2::cache_hint L2::(64|128|256)B")
def copy(d: Decoder) -> Step:
    """cp.async.ca, .cg: 4, 8 or 16 bytes; fewer are taken with a source size, the rest is zero."""
    ops = d.operands(3, 4, 5)
    nbytes = d.constant(ops[2])
    if nbytes not in ((16,) if "cg" in d.mods else (4, 8, 16)):
        raise d.error(f"{nbytes} bytes: expected {'16' if 'cg' in d.mods else '4, 8 or 16'}")
    target, source = d.address(ops[0]), d.address(ops[1])
    take: Source | None = None
    ignore: Source | None = None
    if len(ops) == (5 if "L2::cache_hint" in d.mods else 4):
        if ops[3].kind == "reg" and d.machine.registers[ops[3].name].dtype == np.bool_:
            ignore = d.source(ops[3], "pred")
        else:
            take = d.source(ops[3], "u32")

    def step(g: Gang) -> None:
        taken = g.flat(full(g, take(g))).astype(np.int64) if take else np.full(len(g.lanes), nbytes)
        if ignore:
            taken = np.where(g.flat(full(g, ignore(g))), 0, taken)
        _issue(g, target(g), source(g), taken, nbytes)

    return step


def _issue(g: Gang, target: Array, source: Array, take: Array, nbytes: int) -> None:
    machine, lines = g.machine, g.flat(source) >> 5
    access.aligned(g, g.flat(target), nbytes, "shared ")
    access.aligned(g, g.flat(source), nbytes, "global ")
    if (take > nbytes).any():
        raise machine.error(f"source size {int(take.max())} of {nbytes} bytes", g.pc, int(g.lane_warps[0]))
    to = access.shared_offsets(g, target, nbytes)
    of = _read_from(g, source, take)
    if machine.hazards:
        by = access.by(g)
        units = access.units_of(machine, to, nbytes)
        machine.hazards.may_write(by, units, "write")
        machine.hazards.begin_async_write(units, machine.new_operation(g.pc))
    total, entry = int(take.sum()), access.traffic(g, "global")
    entry.add(int(g.mask.any(1).sum()), total, len(np.unique(lines[take > 0])), -(-total // 32))
    queue = machine.part(Pending)
    each = np.stack([g.lanes, of, to, take, queue.committed[g.lane_warps, g.lanes]])
    for warp in dict.fromkeys(g.lane_warps.tolist()):
        queue.copies[warp].append(Copies(warp, g.pc, nbytes, each[:, g.lane_warps == warp]))


def _read_from(g: Gang, source: Array, take: Array) -> Array:
    """Positions in the heap; lanes that take nothing may have any address."""
    saved, result = g.state(), np.zeros(len(take), np.int64)
    for size in np.unique(take[take > 0]).tolist():
        g.restrict(g.mask & (g.spread(take) == size))
        result[take == size] = at = access.heap_offsets(g, g.flat(source), size, write=False)
        if hazards := g.machine.heap_hazards:
            hazards.read(access.by(g), hazards.units(at, size))
        g.restore(saved)
    return result


@instruction("cp.async.commit_group")
def commit(d: Decoder) -> Step:
    """cp.async.commit_group."""

    def step(g: Gang) -> None:
        g.machine.part(Pending).committed[g.rows] += g.mask

    return step


@instruction("cp.async.wait_group", "cp.async.wait_all")
def wait(d: Decoder) -> Step:
    """cp.async.wait_group: all but the last n groups have happened; wait_all: all of this lane's copies."""
    keep = d.constant(d.operands(1)[0]) if "wait_group" in d.mods else -1

    def step(g: Gang) -> None:
        queue = g.machine.part(Pending)
        for row, warp in enumerate(g.warps.tolist()):
            queue.complete(warp, g.mask[row], queue.committed[warp] - keep)

    return step


@instruction("cp.async.mbarrier.arrive", mods="noinc shared shared::cta")
def arrive(d: Decoder) -> Step:
    """cp.async.mbarrier.arrive: an arrival once this lane's copies so far have happened."""
    (op,) = d.operands(1)
    address, machine, counted = d.address(op), d.machine, "noinc" in d.mods

    def step(g: Gang) -> None:
        queue, pc = machine.part(Pending), g.pc

        def fire(barrier: MBarrier, warp: int, lanes: Array, up_to: Array) -> None:
            queue.complete(warp, lanes, up_to)
            machine.publish(barrier, warp, lanes)
            mbarriers.count_down(machine, barrier, int(lanes.sum()), pc, warp)

        for barrier, rows, warp in mbarriers.groups(g, address(g)):
            lanes = mask_of(g.lanes[rows])
            if not counted:
                barrier.pending += len(rows)
            operation = machine.operations[machine.new_operation(pc)]
            done = partial(fire, barrier, warp, lanes, queue.committed[warp] + 1)
            machine.events.start(machine.layout.slot_of(warp), operation, done)

    return step
