"""Branches, ends, CTA and cluster barriers, fences (PTX ISA 9.7.12, 9.7.13)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from graphfuse.gpu.emulator import flow
from graphfuse.gpu.emulator.barriers import Barrier
from graphfuse.gpu.emulator.decode import Decoder, full, instruction
from graphfuse.gpu.emulator.gang import LANES, STOP, Gang, Split, Step, no_step
from graphfuse.gpu.emulator.heap_hazards import reach_of
from graphfuse.gpu.emulator.machine import Machine, Part, is_fence
from graphfuse.gpu.emulator.types import Array


@instruction("bra", mods="uni", own_guard=True)
def bra(d: Decoder) -> Step:
    """bra: uniform, or lanes part."""
    (target,) = flow.targets(d.machine.kernel, d.instruction)
    guard, machine = d.guard(), d.machine
    if guard is None:
        return lambda _: target

    def step(g: Gang) -> int | None:
        taken = guard(g)
        following = g.pc + 1
        if target == following:
            return None
        active = taken if g.full else taken & g.mask
        if not active.any():
            return None
        return machine.jump(g, np.where(taken, target, following), [target, following])

    return step


@instruction("brx", mods="idx uni", own_guard=True)
def brx(d: Decoder) -> Step:
    """brx.idx: a branch through a list of labels."""
    choices = flow.targets(d.machine.kernel, d.instruction)
    read, machine = d.source(d.operands(2)[0], "u32"), d.machine
    table = np.array(choices)

    def step(g: Gang) -> int | None:
        index = full(g, read(g)).astype(np.int64)
        flat = g.flat(index)
        g.refuse(flat >= len(choices), lambda row: f"index {int(flat[row])}: the list has {len(choices)} labels")
        return machine.jump(g, table[np.minimum(index, len(choices) - 1)], sorted(set(choices)))

    return step


@instruction("ret", "exit", mods="uni")
def ret(d: Decoder) -> Step:
    """ret, exit."""
    return lambda g: g.machine.exit_lanes(g, g.mask)


@instruction("trap", mods=".*")
def trap(d: Decoder) -> Step:
    """trap: the kernel gives up."""

    def step(g: Gang) -> None:
        raise g.error("the kernel trapped", about="assertion")

    return step


# barriers

Finish = Callable[[Gang, Array], None]
"""Gives those who wait the result of a reduction, from all votes."""


class Barriers(Part):
    """Those of CTAs, by slot and number, and of clusters, by number."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.barriers: dict[object, Barrier] = {}

    def leave(self, warp: int) -> None:
        """A warp ended: barriers of the whole CTA, and the cluster's, may be complete."""
        for barrier in self.barriers.values():
            if barrier.rows.start <= warp < barrier.rows.stop and barrier.warps and not barrier.threads:
                self.complete(barrier)

    def enter(self, g: Gang, split: Split, number: int, threads: int) -> Barrier:
        """A warp comes to a barrier of its CTA, of so many threads, 0 for all."""
        machine, layout = self.machine, self.machine.layout
        if number > 15:
            raise machine.error(f"barrier {number}: expected 0 to 15", g.pc, split.warp)
        most = layout.warps_per_cta * LANES
        if threads % LANES or threads > most:
            message = f"barrier of {threads} threads: expected a multiple of {LANES} up to {most}"
            raise machine.error(message, g.pc, split.warp)
        slot = layout.slot_of(split.warp)
        barrier = self.barriers.setdefault((slot, number), Barrier(layout.warps_of(slot)))
        if barrier.arrived == 0:
            barrier.threads = threads
        elif barrier.threads != threads:
            message = f"barrier {number}: {threads or 'all'} threads here, {barrier.threads or 'all'} where others came"
            raise machine.error(message, g.pc, split.warp, about="divergence")
        barrier.arrived += LANES
        barrier.warps.add(split.warp)
        machine.publish(barrier, split.warp, split.mask)
        return barrier

    def of_cluster(self, warp: int) -> Barrier:
        """That of the cluster that a warp is in."""
        per = self.machine.layout.warps_per_cluster
        cluster = warp // per
        return self.barriers.setdefault(cluster, Barrier(slice(cluster * per, (cluster + 1) * per)))

    def complete(self, barrier: Barrier, finish: Finish | None = None) -> None:
        """If all have come, those who wait go on."""
        machine, waiting = self.machine, barrier.waiting
        if barrier.threads and barrier.arrived > barrier.threads:
            message = f"{barrier.arrived} threads came to a barrier of {barrier.threads}"
            raise machine.error(message, waiting[-1].pc, waiting[-1].warp)
        live = barrier.rows.start + np.flatnonzero(machine.live_lanes[barrier.rows].any(1))
        missing = barrier.arrived < barrier.threads if barrier.threads else not barrier.warps.issuperset(live.tolist())
        if missing:
            return
        waiting.sort(key=lambda s: s.warp)
        if finish and waiting:
            finish(Gang(machine, list(waiting), waiting[0].pc), np.concatenate(barrier.votes))
        barrier.known, barrier.incoming = barrier.incoming, None
        for split in waiting:
            machine.learn(barrier, split.warp, split.mask, meets=True)
        barrier.arrived, barrier.votes = 0, []
        barrier.warps.clear()
        machine.wake(waiting, 1)


def all_converged(g: Gang, *, or_none: bool = False) -> None:
    """An `.aligned` instruction needs every lane of its warp (or none, for which a guard holds)."""
    missing = g.machine.live_lanes[g.rows] & ~g.mask
    if or_none:
        missing &= g.mask.any(1, keepdims=True)
    if missing.any():
        row = int(np.argmax(missing.any(1)))
        who = ", ".join(map(str, np.flatnonzero(missing[row])[:4].tolist()))
        message = f"in divergent code: lane {who} of the warp is elsewhere"
        raise g.machine.error(message, g.pc, int(g.warps[row]), about="divergence")


@instruction("bar", "barrier", mods="cta sync arrive red aligned popc and or")
def bar(d: Decoder) -> Step:
    """bar.sync, bar.arrive, bar.red and barrier.*."""
    reduces, arrives, machine = "red" in d.mods, "arrive" in d.mods, d.machine
    ops = d.operands(3, 4) if reduces else d.operands(1, 2)
    numbered = ops[1:-1] if reduces else ops
    number, threads = d.source(numbered[0], "u32"), d.source(numbered[1], "u32") if len(numbered) == 2 else None
    if arrives and threads is None:
        raise d.error("bar.arrive needs a thread count")
    predicate, finish = (d.source(ops[-1], "pred"), _reduction(d)) if reduces else (None, None)

    def step(g: Gang) -> int:
        all_converged(g, or_none=True)
        barriers = machine.part(Barriers)
        numbers = full(g, number(g))
        counts = full(g, threads(g)) if threads else None
        votes = full(g, predicate(g)) if predicate else None
        for row, split in enumerate(g.splits):
            lanes, lane = g.mask[row], int(np.argmax(g.mask[row]))
            if not lanes.any():
                machine.push(split, g.pc + 1)
                continue
            which = int(numbers[row, lane])
            barrier = barriers.enter(g, split, which, int(counts[row, lane]) if counts is not None else 0)
            if votes is not None:
                barrier.votes.append(votes[row][lanes])
            if arrives:
                machine.push(split, g.pc + 1)
            else:
                machine.block(split, g.pc, barrier.waiting, _state(barrier, which))
            barriers.complete(barrier, finish)
        return STOP

    return step


def _state(barrier: Barrier, number: int) -> Callable[[], str]:
    return lambda: f"barrier {number}, {barrier.arrived} of {barrier.threads or 'all'} threads came"


def _reduction(d: Decoder) -> Finish:
    put = d.sink(d.ops[0])

    def finish(g: Gang, votes: Array) -> None:
        if "popc" in d.mods:
            put(g, np.array([[votes.sum()]], np.uint32))
        else:
            put(g, np.array([[votes.all() if "and" in d.mods else votes.any()]]))

    return finish


@instruction("bar.warp.sync")
def warp_sync(d: Decoder) -> Step:
    """bar.warp.sync: lanes of the mask; orders their memory accesses."""
    (op,) = d.operands(1)
    named = d.source(op, "b32")

    def step(g: Gang) -> None:
        masks, machine = full(g, named(g)), g.machine
        check_members(g, masks)
        if not machine.hazards:
            return
        for row, warp in enumerate(g.warps.tolist()):
            for members in np.unique(masks[row][g.mask[row]]).tolist():
                lanes = g.mask[row] & (masks[row] == members)
                machine.clocks.meet(warp, lanes, machine.live_lanes[warp])

    return step


def check_members(g: Gang, masks: Array) -> None:
    """A `.sync` instruction's member mask must name itself, and only lanes that are here or have ended."""
    bits = (masks[..., None] >> np.arange(32, dtype=np.uint32)) & 1 != 0
    live = g.machine.live_lanes[g.warps]
    away = bits & (live & ~g.mask)[:, None, :] & g.mask[..., None]
    if away.any():
        row, _, lane = np.argwhere(away)[0].tolist()
        message = f"the member mask names lane {lane}, which is elsewhere"
        raise g.machine.error(message, g.pc, int(g.warps[row]), lane, "divergence")
    itself = g.flat(bits[:, np.arange(32), np.arange(32)])
    g.refuse(~itself, lambda _: "the member mask does not name the lane that executes")


@instruction("barrier.cluster", mods="arrive wait aligned release acquire relaxed")
def cluster_barrier(d: Decoder) -> Step:
    """barrier.cluster.arrive, barrier.cluster.wait."""
    machine, arrives, carries = d.machine, "arrive" in d.mods, "relaxed" not in d.mods

    def step(g: Gang) -> int:
        all_converged(g)
        barriers = machine.part(Barriers)
        for split in g.splits:
            barrier = barriers.of_cluster(split.warp)
            here = split.warp in barrier.warps
            if not arrives and here:
                machine.block(split, g.pc, barrier.waiting, _state_of_cluster(barrier))
                continue
            machine.push(split, g.pc + 1)
            if not arrives:
                machine.learn(barrier, split.warp, split.mask, meets=True)
                continue
            if here:
                raise machine.error("arrives at the cluster's barrier twice without waiting", g.pc, split.warp)
            barrier.warps.add(split.warp)
            if carries:
                machine.publish(barrier, split.warp, split.mask)
            barriers.complete(barrier)
        return STOP

    return step


def _state_of_cluster(barrier: Barrier) -> Callable[[], str]:
    return lambda: f"the cluster's barrier, {len(barrier.warps)} warps came"


# fences and what has no effect on values


@instruction("fence", "membar", mods=".*")
def fence(d: Decoder) -> Step:
    """fence, membar: of what a lane did and read, or of the proxy that copies asynchronously."""
    init, reach = "mbarrier_init" in d.mods, reach_of(d.instruction)
    if is_fence(d.instruction):

        def order(g: Gang) -> None:
            if g.machine.flags:
                g.machine.flags.fence(g, reach)

        return order
    if not init and ("proxy" not in d.mods or not any(m.startswith("async") for m in d.mods)):
        return no_step

    def step(g: Gang) -> None:
        machine, layout = g.machine, g.machine.layout
        units = layout.shared_stride // layout.unit
        for row, warp in enumerate(g.warps.tolist()):
            if init or g.mask[row].any():
                slot = layout.slot_of(warp)
                for barrier in machine.mbarriers.values():
                    barrier.fenced |= barrier.slot == slot
                if machine.hazards and not init:
                    machine.hazards.fence_async(warp, g.mask[row], slot * units, (slot + 1) * units)

    return step


@instruction("setmaxnreg", mods="inc dec sync aligned")
def setmaxnreg(d: Decoder) -> Step:
    """setmaxnreg: every warp of the warpgroup, a legal count."""
    count = d.constant(d.operands(1)[0])
    if count % 8 or not 24 <= count <= 256:
        raise d.error(f"{count} registers: expected a multiple of 8 from 24 to 256")
    return all_converged


@instruction("griddepcontrol", mods="wait launch_dependents")
def griddepcontrol(d: Decoder) -> Step:
    """griddepcontrol: launches do not overlap here, but who has waited may access more.

    The launch after this one begins when every CTA has let it, and waits for this one alone. So a CTA lets it begin
    only when its own wait is over: then all launches before are complete.
    """
    waits, machine = "wait" in d.mods, d.machine

    def step(g: Gang) -> None:
        if machine.waited is not None and waits:
            machine.waited[g.rows] |= g.mask
        elif machine.waited is not None and machine.checks:
            early = ~g.flat(machine.waited[g.rows])
            g.refuse(early, lambda _: "launches the next grid before griddepcontrol.wait")

    return step
