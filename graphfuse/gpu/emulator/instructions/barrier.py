"""mbarrier (PTX ISA 9.7.13.15): arrivals, expected bytes, phases; `try_wait` sleeps until its phase ends."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from graphfuse.gpu.emulator import access
from graphfuse.gpu.emulator.barriers import MBarrier
from graphfuse.gpu.emulator.decode import SHARED_WINDOW, Decoder, full, instruction
from graphfuse.gpu.emulator.gang import STOP, Gang, Step, mask_of
from graphfuse.gpu.emulator.hazards import Access
from graphfuse.gpu.emulator.machine import SHARED_BASE, Machine
from graphfuse.gpu.emulator.types import Array

SPURIOUS = 0.5
"""How often try_wait times out although its phase goes on, as it may."""
MAX_COUNT = (1 << 20) - 1
"""Of arrivals, and of pending bytes (PTX ISA, mbarrier)."""
_MODS = "shared shared::cta shared::cluster release acquire relaxed cta cluster parity expect_tx noinc"


def positions(g: Gang, address: Array) -> Array:
    """Where in shared memory the mbarrier of each active lane is."""
    if (g.flat(address) >= SHARED_WINDOW).any():
        _, address = access.space_of(g, address)
    if (bad := g.flat(address) & 7).any():
        warp = int(g.lane_warps[int(np.argmax(bad != 0))])
        raise g.machine.error("misaligned mbarrier: expected a multiple of 8", g.pc, warp, about="misaligned")
    return access.shared_offsets(g, address, 8)


def at_position(g: Gang, position: int, row: int) -> MBarrier:
    """The initialised mbarrier there, whose initialisation is ordered before this access."""
    machine = g.machine
    barrier = machine.mbarriers.get(position)
    if barrier is None:
        raise g.error(f"no mbarrier was initialised at {machine.unit(position // machine.layout.unit)}", row)
    if machine.hazards:
        by = Access.of_one(*g.who(row), g.pc, strong=True)
        machine.hazards.read(by, access.units_of(machine, np.array([position]), 8))
    return barrier


@instruction("mbarrier.init", mods=_MODS)
def init(d: Decoder) -> Step:
    """mbarrier.init."""
    ops, machine = d.operands(2), d.machine
    address, count, per_cluster = d.address(ops[0]), d.source(ops[1], "u32"), d.machine.layout.ctas_per_cluster

    def step(g: Gang) -> None:
        at = positions(g, address(g))
        access.touch_shared(g, at, 8, write=True)
        for position, number in zip(at.tolist(), g.flat(full(g, count(g))).tolist(), strict=True):
            if not 1 <= number <= MAX_COUNT:
                raise machine.error(f"count {number}: expected 1 to {MAX_COUNT}", g.pc, int(g.lane_warps[0]))
            if position in machine.mbarriers:
                raise machine.error("initialised again without mbarrier.inval", g.pc, int(g.lane_warps[0]))
            slot, offset = divmod(position, machine.layout.shared_stride)
            taken = sum(1 for b in machine.mbarriers.values() if b.slot // per_cluster == slot // per_cluster)
            agent = machine.layout.readers + taken
            if taken >= machine.layout.mbarriers:
                raise machine.error(f"more than {taken} mbarriers in a cluster", g.pc, int(g.lane_warps[0]))
            machine.mbarriers[position] = MBarrier(slot, offset + SHARED_BASE, number, agent)

    return step


@instruction("mbarrier.inval", mods=_MODS)
def invalidate(d: Decoder) -> Step:
    """mbarrier.inval."""
    (op,) = d.operands(1)
    address, machine = d.address(op), d.machine

    def step(g: Gang) -> None:
        for row, position in enumerate(positions(g, address(g)).tolist()):
            at_position(g, position, row)
            del machine.mbarriers[position]

    return step


def groups(g: Gang, address: Array) -> Iterator[tuple[MBarrier, Array, int]]:
    """Each mbarrier that active lanes address, the rows of those lanes, and their warp; one warp at a time."""
    at = positions(g, address)
    keys = at * 4096 + g.lane_warps
    for key in dict.fromkeys(keys.tolist()):
        rows = np.flatnonzero(keys == key)
        yield at_position(g, int(at[rows[0]]), int(rows[0])), rows, int(g.lane_warps[rows[0]])


def count_down(machine: Machine, barrier: MBarrier, arrivals: int, pc: int, warp: int) -> None:
    """Some arrive, who know what their warp does; the phase may end."""
    barrier.pending -= arrivals
    if barrier.pending < 0:
        raise machine.error(f"too many arrivals on the mbarrier at {barrier.address:#x} ({barrier.state()})", pc, warp)
    flip(machine, barrier)


def flip(machine: Machine, barrier: MBarrier) -> None:
    """End the phase if it is complete, and wake who waits for it."""
    if barrier.flip():
        machine.wake(barrier.waiting, 0)


@instruction("mbarrier.arrive", "mbarrier.arrive_drop", mods=_MODS)
def arrive(d: Decoder) -> Step:
    """mbarrier.arrive, arrive_drop, with `.expect_tx` first expecting bytes."""
    returns = d.ops[0].kind != "mem"
    address, rest, put = d.address(d.ops[returns]), d.ops[1 + returns :], d.sink(d.ops[0]) if returns else None
    expects, drops, machine = "expect_tx" in d.mods, d.mods[0] == "arrive_drop", d.machine
    carries = "relaxed" not in d.mods
    number = d.source(rest[0], "u32") if rest else None
    if expects and number is None:
        raise d.error("expected a number of bytes")

    def step(g: Gang) -> None:
        numbers = g.flat(full(g, number(g))).astype(np.int64) if number else np.ones(len(g.lanes), np.int64)
        states = np.zeros(len(g.lanes), np.uint64)
        for barrier, rows, warp in groups(g, address(g)):
            states[rows] = barrier.phase
            if carries:
                machine.publish(barrier, warp, mask_of(g.lanes[rows]))
            arrivals = total = int(numbers[rows].sum())
            if expects:
                expect_bytes(machine, barrier, total, g.pc, warp)
                arrivals = len(rows)
            if drops:
                barrier.count -= arrivals
            count_down(machine, barrier, arrivals, g.pc, warp)
        if put:
            put(g, g.spread(states))

    return step


def expect_bytes(machine: Machine, barrier: MBarrier, nbytes: int, pc: int, warp: int) -> None:
    """The phase waits for this many more bytes."""
    barrier.bytes += nbytes
    if abs(barrier.bytes) > MAX_COUNT:
        raise machine.error(f"{barrier.bytes} bytes are pending: at most {MAX_COUNT}", pc, warp)


@instruction("mbarrier.expect_tx", "mbarrier.complete_tx", mods=_MODS)
def expect(d: Decoder) -> Step:
    """mbarrier.expect_tx, complete_tx."""
    ops, machine = d.operands(2), d.machine
    address, number, sign = d.address(ops[0]), d.source(ops[1], "u32"), 1 if d.mods[0] == "expect_tx" else -1

    def step(g: Gang) -> None:
        numbers = g.flat(full(g, number(g))).astype(np.int64)
        for barrier, rows, warp in groups(g, address(g)):
            expect_bytes(machine, barrier, sign * int(numbers[rows].sum()), g.pc, warp)
            if sign < 0:
                flip(machine, barrier)

    return step


@instruction("mbarrier.test_wait", "mbarrier.try_wait", mods=_MODS)
def wait(d: Decoder) -> Step:
    """mbarrier.test_wait and try_wait, by parity or by state: whether a phase has ended, and then knowing all of it."""
    ops, machine = d.operands(3, 4), d.machine
    put, address = d.sink(ops[0]), d.address(ops[1])
    parity, sleeps, carries = "parity" in d.mods, d.mods[0] == "try_wait", "relaxed" not in d.mods
    expected = d.source(ops[2], "u32" if parity else "b64")

    def step(g: Gang) -> int | None:
        values = g.flat(full(g, expected(g)))
        ended = np.zeros(len(values), np.bool_)
        blocked: dict[int, MBarrier] = {}
        for barrier, rows, warp in groups(g, address(g)):
            wanted = values[rows]
            ended[rows] = (wanted & 1) != (barrier.phase & 1) if parity else wanted < barrier.phase
            if ended[rows].all():
                if carries:
                    machine.learn(barrier, warp, mask_of(g.lanes[rows]))
            elif sleeps and machine.rng.random() >= SPURIOUS:
                blocked[warp] = barrier
        result = g.spread(ended)
        if blocked:
            _sleep(g, blocked)
        if g.mask.any():
            put(g, result)
        return STOP if blocked else None

    return step


def _sleep(g: Gang, blocked: dict[int, MBarrier]) -> None:
    """Splits of these warps wait, to execute the instruction again; the rest goes on."""
    machine, goes_on = g.machine, np.ones(len(g), np.bool_)
    for row, split in enumerate(g.splits):
        if barrier := blocked.get(split.warp):
            goes_on[row] = False
            machine.block(split, g.pc, barrier.waiting, lambda barrier=barrier: _missing(machine, barrier))
        else:
            machine.push(split, g.pc + 1)
    g.restrict(g.mask & goes_on[:, None])


def _missing(machine: Machine, barrier: MBarrier) -> str:
    """For messages: which mbarrier, and what it lacks."""
    position = barrier.slot * machine.layout.shared_stride + barrier.address - SHARED_BASE
    return f"the mbarrier at {machine.unit(position // machine.layout.unit)}, {barrier.state()}"


@instruction("mbarrier.pending_count", mods=_MODS)
def pending_count(d: Decoder) -> Step:
    """mbarrier.pending_count needs a state's counts, which a state here does not hold."""
    raise d.error("not emulated")
