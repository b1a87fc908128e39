"""Branches, ends, CTA and cluster barriers, fences (PTX ISA 9.7.12, 9.7.13)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from graphfuse.gpu.emulator import flow
from graphfuse.gpu.emulator.barriers import Barrier, maximum
from graphfuse.gpu.emulator.decode import Decoder, Source, full
from graphfuse.gpu.emulator.gang import STOP, Gang, Split, Step, no_step
from graphfuse.gpu.emulator.machine import Machine
from graphfuse.gpu.emulator.types import Array


def bra(d: Decoder) -> Step:
    """bra: uniform, or lanes part."""
    d.only(("uni",))
    (target,) = flow.targets(d.machine.kernel, d.instruction)
    guard, machine = d.guard(), d.machine
    if guard is None:

        def always(g: Gang) -> int:
            return target

        return always

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


def brx(d: Decoder) -> Step:
    """brx.idx: a branch through a list of labels."""
    d.only(("idx", "uni"))
    ops = d.operands(2)
    choices = flow.targets(d.machine.kernel, d.instruction)
    read, machine = d.source(ops[0], "u32"), d.machine
    table = np.array(choices)

    def step(g: Gang) -> int | None:
        index = full(g, read(g)).astype(np.int64)
        if (bad := (index >= len(choices)) & g.mask).any():
            row, lane = np.argwhere(bad)[0].tolist()
            message = f"index {int(index[row, lane])}: the list has {len(choices)} labels"
            raise machine.error(message, g.pc, int(g.warps[row]), lane)
        return machine.jump(g, table[np.minimum(index, len(choices) - 1)], sorted(set(choices)))

    return step


def ret(d: Decoder) -> Step:
    """ret, exit."""
    d.only(("uni",))
    guard, machine = d.guard(), d.machine

    def step(g: Gang) -> int | None:
        leaving = g.mask if guard is None else guard(g) & g.mask
        if not leaving.any():
            return None
        return machine.exit_lanes(g, leaving)

    return step


def trap(d: Decoder) -> Step:
    """trap: the kernel gives up."""
    guard, machine = d.guard(), d.machine

    def step(g: Gang) -> None:
        lanes = g.mask if guard is None else guard(g) & g.mask
        if lanes.any():
            row, lane = np.argwhere(lanes)[0].tolist()
            raise machine.error("the kernel trapped", g.pc, int(g.warps[row]), lane)

    return step


# CTA barriers


def converged(machine: Machine, g: Gang, row: int, lanes: Array) -> None:
    """An `.aligned` instruction needs every lane of its warp."""
    warp = g.splits[row].warp
    missing = machine.live_lanes[warp] & ~lanes
    if missing.any():
        who = ", ".join(map(str, np.flatnonzero(missing)[:4].tolist()))
        raise machine.error(f"in divergent code: lane {who} of the warp is elsewhere", g.pc, warp)


def bar(d: Decoder) -> Step:
    """bar.sync, bar.arrive, bar.red and barrier.*; `bar.warp.sync` and `barrier.cluster.*` go elsewhere."""
    if "warp" in d.mods:
        return warp_sync(d)
    if "cluster" in d.mods:
        return cluster_barrier(d)
    d.only(("cta", "sync", "arrive", "red", "aligned", "popc", "and", "or"))
    if "red" in d.mods:
        return _reduction(d)
    ops = d.operands(1, 2)
    number = d.source(ops[0], "u32")
    threads = d.source(ops[1], "u32") if len(ops) == 2 else None
    if "arrive" in d.mods and threads is None:
        raise d.error("bar.arrive needs a thread count")
    return _barrier_step(d, number, threads, waits="arrive" not in d.mods, vote=None)


def _reduction(d: Decoder) -> Step:
    ops = d.operands(3, 4)
    number, predicate = d.source(ops[1], "u32"), d.source(ops[-1], "pred")
    threads = d.source(ops[2], "u32") if len(ops) == 4 else None
    put = d.sink(ops[0])

    def finish(g: Gang, votes: Array) -> None:
        if "popc" in d.mods:
            put(g, np.array([[votes.sum()]], np.uint32))
        else:
            put(g, np.array([[votes.all() if "and" in d.mods else votes.any()]]))

    return _barrier_step(d, number, threads, waits=True, vote=(predicate, finish))


Vote = tuple[Source, Callable[[Gang, Array], None]]


def _barrier_step(d: Decoder, number: Source, threads: Source | None, *, waits: bool, vote: Vote | None) -> Step:
    machine, guard = d.machine, d.guard()

    def step(g: Gang) -> int:
        numbers = full(g, number(g))
        counts = full(g, threads(g)) if threads else None
        mask = g.mask if guard is None else guard(g) & g.mask
        votes = full(g, vote[0](g)) if vote else None
        for row, split in enumerate(g.splits):
            lanes = mask[row]
            if not lanes.any():
                split.pc = g.pc + 1
                machine.push(split)
                continue
            converged(machine, g, row, lanes)
            lane = int(np.argmax(lanes))
            count = int(counts[row, lane]) if counts is not None else 0
            barrier = _enter(machine, g, split, int(numbers[row, lane]), count)
            if votes is not None:
                barrier.votes.append(votes[row][lanes])
            if waits:
                barrier.waiting.append(split)
                split.pc = g.pc
                machine.block(split, _state(barrier, int(numbers[row, lane])))
            else:
                split.pc = g.pc + 1
                machine.push(split)
            _try_complete(machine, machine.layout.slot_of(split.warp), barrier, vote)
        return STOP

    return step


def _state(barrier: Barrier, number: int) -> Callable[[], str]:
    return lambda: f"barrier {number}, {barrier.arrived} of {barrier.threads or 'all'} threads came"


def _enter(machine: Machine, g: Gang, split: Split, number: int, threads: int) -> Barrier:
    if number > 15:
        raise machine.error(f"barrier {number}: expected 0 to 15", g.pc, split.warp)
    if threads % 32 or threads > machine.layout.warps_per_cta * 32:
        message = f"barrier of {threads} threads: expected a multiple of 32 up to {machine.layout.warps_per_cta * 32}"
        raise machine.error(message, g.pc, split.warp)
    key = (machine.layout.slot_of(split.warp), number)
    barrier = machine.barriers.setdefault(key, Barrier(threads))
    if barrier.arrived == 0:
        barrier.threads = threads
    elif barrier.threads != threads:
        message = f"barrier {number}: {threads or 'all'} threads here, {barrier.threads or 'all'} where others came"
        raise machine.error(message, g.pc, split.warp)
    barrier.arrived += 32
    barrier.warps.add(split.warp)
    if machine.hazards:
        barrier.incoming = maximum(barrier.incoming, machine.hazards.published(np.array([split.warp])))
    return barrier


def _try_complete(machine: Machine, slot: int, barrier: Barrier, vote: Vote | None = None) -> None:
    if barrier.threads:
        if barrier.arrived > barrier.threads:
            waiting = barrier.waiting[-1]
            message = f"{barrier.arrived} threads came to a barrier of {barrier.threads}"
            raise machine.error(message, waiting.pc, waiting.warp)
        if barrier.arrived < barrier.threads:
            return
    else:
        warps = machine.layout.warps_of(slot)
        live = warps.start + np.flatnonzero(machine.live_lanes[warps].any(1))
        if not barrier.arrived or not barrier.warps.issuperset(live.tolist()):
            return
    waiting = sorted(barrier.waiting, key=lambda s: s.warp)
    if vote and waiting:
        vote[1](Gang(list(waiting), waiting[0].pc), np.concatenate(barrier.votes))
    if machine.hazards:
        for split in waiting:
            machine.hazards.learn(split.warp, barrier.incoming)
    barrier.arrived, barrier.waiting, barrier.votes = 0, [], []
    barrier.warps.clear()
    barrier.incoming = barrier.incoming[:0]
    for split in waiting:
        machine.wake(split, split.pc + 1)


def recount(machine: Machine, slot: int) -> None:
    """A warp ended: barriers of the whole CTA, and the cluster's, may be complete."""
    for (owner, _), barrier in list(machine.barriers.items()):
        if owner == slot and barrier.arrived and not barrier.threads:
            _try_complete(machine, slot, barrier)
    cluster = slot // machine.layout.ctas_per_cluster
    if cluster in machine.cluster_barriers:
        _complete_cluster(machine, cluster, machine.cluster_barriers[cluster])


def warp_sync(d: Decoder) -> Step:
    """bar.warp.sync: lanes of the mask; orders their memory accesses."""
    d.only(("warp", "sync"))
    (op,) = d.operands(1)
    named, machine = d.source(op, "b32"), d.machine

    def step(g: Gang) -> None:
        check_members(machine, g, full(g, named(g)))
        if machine.hazards:
            machine.hazards.synced[g.warps[g.mask.any(1)]] += 1

    return step


def check_members(machine: Machine, g: Gang, masks: Array) -> None:
    """A `.sync` instruction's member mask must name itself, and only lanes that are here or have ended."""
    bits = (masks[..., None] >> np.arange(32, dtype=np.uint32)) & 1 != 0
    live = machine.live_lanes[g.warps]
    away = bits & (live & ~g.mask)[:, None, :] & g.mask[..., None]
    if away.any():
        row, _, lane = np.argwhere(away)[0].tolist()
        raise machine.error(f"the member mask names lane {lane}, which is elsewhere", g.pc, int(g.warps[row]), lane)
    itself = bits[:, np.arange(32), np.arange(32)] | ~g.mask
    if not itself.all():
        row, lane = np.argwhere(~itself)[0].tolist()
        raise machine.error("the member mask does not name the lane that executes", g.pc, int(g.warps[row]), lane)


# cluster barriers


def cluster_barrier(d: Decoder) -> Step:
    """barrier.cluster.arrive, barrier.cluster.wait."""
    d.only(("cluster", "arrive", "wait", "aligned", "release", "acquire", "relaxed"))
    machine = d.machine
    arrives, carries = "arrive" in d.mods, "relaxed" not in d.mods

    def step(g: Gang) -> int:
        for row, split in enumerate(g.splits):
            converged(machine, g, row, g.mask[row])
            cluster = machine.layout.slot_of(split.warp) // machine.layout.ctas_per_cluster
            barrier = machine.cluster_barriers.setdefault(cluster, Barrier(0))
            if arrives:
                _arrive_cluster(machine, g, split, barrier, carries=carries)
                split.pc = g.pc + 1
                machine.push(split)
                _complete_cluster(machine, cluster, barrier)
            elif split.warp in barrier.warps:
                split.pc = g.pc
                barrier.waiting.append(split)
                machine.block(split, _cluster_state(barrier))
            else:
                if machine.hazards:
                    machine.hazards.learn(split.warp, barrier.known)
                split.pc = g.pc + 1
                machine.push(split)
        return STOP

    return step


def _cluster_state(barrier: Barrier) -> Callable[[], str]:
    return lambda: f"the cluster's barrier, {len(barrier.warps)} warps came"


def _arrive_cluster(machine: Machine, g: Gang, split: Split, barrier: Barrier, *, carries: bool) -> None:
    if split.warp in barrier.warps:
        raise machine.error("arrives at the cluster's barrier twice without waiting", g.pc, split.warp)
    barrier.warps.add(split.warp)
    if machine.hazards and carries:
        barrier.incoming = maximum(barrier.incoming, machine.hazards.published(np.array([split.warp])))


def _complete_cluster(machine: Machine, cluster: int, barrier: Barrier) -> None:
    per = machine.layout.warps_per_cluster
    live = cluster * per + np.flatnonzero(machine.live_lanes[cluster * per : (cluster + 1) * per].any(1))
    if not barrier.warps or not barrier.warps.issuperset(live.tolist()):
        return
    barrier.known, barrier.incoming = maximum(barrier.known, barrier.incoming), barrier.incoming[:0]
    barrier.phase += 1
    waiting, barrier.waiting = barrier.waiting, []
    barrier.warps.clear()
    for split in waiting:
        if machine.hazards:
            machine.hazards.learn(split.warp, barrier.known)
        machine.wake(split, split.pc + 1)


# fences and what has no effect on values


def fence(d: Decoder) -> Step:
    """fence, membar: only proxy fences matter here, where global memory is sequentially consistent."""
    machine = d.machine
    if "mbarrier_init" in d.mods:

        def init(g: Gang) -> None:
            slots = {machine.layout.slot_of(w) for w in g.warps.tolist()}
            for barrier in machine.mbarriers.values():
                barrier.fenced |= barrier.slot in slots

        return init
    if "proxy" not in d.mods or not any(m.startswith("async") for m in d.mods):
        return no_step

    def proxy(g: Gang) -> None:
        layout = machine.layout
        for row, warp in enumerate(g.warps.tolist()):
            if g.mask[row].any():
                slot = layout.slot_of(warp)
                for barrier in machine.mbarriers.values():
                    barrier.fenced |= barrier.slot == slot
                if machine.hazards:
                    units = layout.shared_stride // layout.unit
                    machine.hazards.fence_async(warp, g.mask[row], slot * units, (slot + 1) * units)

    return proxy


def setmaxnreg(d: Decoder) -> Step:
    """setmaxnreg: every warp of the warpgroup, a legal count."""
    d.only(("inc", "dec", "sync", "aligned"))
    count = d.constant(d.operands(1)[0])
    if count % 8 or not 24 <= count <= 256:
        raise d.error(f"{count} registers: expected a multiple of 8 from 24 to 256")
    machine = d.machine

    def step(g: Gang) -> None:
        for row in range(len(g)):
            converged(machine, g, row, g.mask[row])

    return step


def nothing(d: Decoder) -> Step:
    """nanosleep, pmevent: no effect on values."""
    return no_step


def griddepcontrol(d: Decoder) -> Step:
    """griddepcontrol: launches do not overlap here, but who has waited may access more.

    The launch after this one begins when every CTA has let it, and waits for this one alone. So a CTA lets it begin
    only when its own wait is over: then all launches before are complete.
    """
    d.only(("wait", "launch_dependents"))
    machine = d.machine

    def wait(g: Gang) -> None:
        if machine.waited is not None:
            machine.waited[g.rows] |= g.mask

    def launch_dependents(g: Gang) -> None:
        if machine.waited is not None and machine.checks and not (ok := machine.waited[g.rows] | ~g.mask).all():
            row, lane = np.argwhere(~ok)[0].tolist()
            raise machine.error("launches the next grid before griddepcontrol.wait", g.pc, int(g.warps[row]), lane)

    return wait if "wait" in d.mods else launch_dependents


OWN_GUARD = frozenset({"bra", "brx", "ret", "exit", "trap", "bar", "barrier"})
"""These look at their guard themselves."""

TABLE = {
    "bra": bra,
    "brx": brx,
    "ret": ret,
    "exit": ret,
    "trap": trap,
    "bar": bar,
    "barrier": bar,
    "fence": fence,
    "membar": fence,
    "setmaxnreg": setmaxnreg,
    "nanosleep": nothing,
    "pmevent": nothing,
    "griddepcontrol": griddepcontrol,
}
