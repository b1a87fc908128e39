"""mbarrier (PTX ISA 9.7.13.15): arrivals, expected bytes, phases; `try_wait` sleeps until its phase ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from graphfuse.gpu.emulator import access
from graphfuse.gpu.emulator.barriers import MBarrier
from graphfuse.gpu.emulator.decode import SHARED_WINDOW, Decoder, Source, full
from graphfuse.gpu.emulator.gang import STOP, Gang, Step
from graphfuse.gpu.emulator.hazards import Access
from graphfuse.gpu.emulator.machine import Machine
from graphfuse.gpu.emulator.types import Array

SPURIOUS = 0.5
"""How often try_wait times out although its phase goes on, as it may."""
MAX_COUNT = (1 << 20) - 1
"""Of arrivals, and of pending bytes (PTX ISA, mbarrier)."""
_MODS = (
    "shared",
    "shared::cta",
    "shared::cluster",
    "release",
    "acquire",
    "relaxed",
    "cta",
    "cluster",
    "parity",
    "expect_tx",
    "noinc",
)


def mbarrier(d: Decoder) -> Step:
    """mbarrier.*, by its first modifier."""
    builders = {
        "init": init,
        "inval": invalidate,
        "arrive": arrive,
        "arrive_drop": arrive,
        "expect_tx": expect,
        "complete_tx": expect,
        "test_wait": wait,
        "try_wait": wait,
        "pending_count": pending_count,
    }
    what = d.mods[0]
    if what not in builders:
        raise d.error(f"unknown modifier '.{what}'")
    d.only((*_MODS, what))
    return builders[what](d)


def positions(machine: Machine, g: Gang, address: Array) -> Array:
    """Where in shared memory the mbarrier of each active lane is."""
    flat = g.flat(address)
    if (flat >= SHARED_WINDOW).any():
        _, address = access.space_of(machine, g, address)
    if (bad := g.flat(address) & 7).any():
        row = int(np.argmax(bad != 0))
        raise machine.error("misaligned mbarrier: expected a multiple of 8", g.pc, int(g.lane_warps[row]))
    return access.shared_offsets(machine, g, address, 8)


def at_position(machine: Machine, g: Gang, position: int, row: int) -> MBarrier:
    """The initialised mbarrier there, whose initialisation is ordered before this access."""
    barrier = machine.mbarriers.get(position)
    warp = int(g.lane_warps[row])
    if barrier is None:
        where = machine.unit(position // machine.layout.unit)
        raise machine.error(f"no mbarrier was initialised at {where}", g.pc, warp, int(g.lanes[row]))
    if machine.hazards:
        by = Access(np.array([warp]), np.array([int(g.lanes[row])]), g.pc, strong=True)
        with access.located(machine, by):
            machine.hazards.read(by, access.units_of(machine, np.array([position]), 8))
    return barrier


def init(d: Decoder) -> Step:
    """mbarrier.init."""
    ops = d.operands(2)
    address, count, machine = d.address(ops[0]), d.source(ops[1], "u32"), d.machine

    def step(g: Gang) -> None:
        at = positions(machine, g, address(g))
        access.write_shared(machine, g, at, 8)
        for position, number in zip(at.tolist(), g.flat(full(g, count(g))).tolist(), strict=True):
            if not 1 <= number <= MAX_COUNT:
                raise machine.error(f"count {number}: expected 1 to {MAX_COUNT}", g.pc, int(g.lane_warps[0]))
            if position in machine.mbarriers:
                raise machine.error("initialised again without mbarrier.inval", g.pc, int(g.lane_warps[0]))
            slot, offset = divmod(position, machine.layout.shared_stride)
            cluster = slot // machine.layout.ctas_per_cluster
            taken = sum(1 for b in machine.mbarriers.values() if b.slot // machine.layout.ctas_per_cluster == cluster)
            agent = machine.layout.readers + taken
            if machine.hazards:
                machine.hazards.agent(agent)
            machine.mbarriers[position] = MBarrier(slot, offset + 1024, number, agent)

    return step


def invalidate(d: Decoder) -> Step:
    """mbarrier.inval."""
    (op,) = d.operands(1)
    address, machine = d.address(op), d.machine

    def step(g: Gang) -> None:
        for row, position in enumerate(positions(machine, g, address(g)).tolist()):
            at_position(machine, g, position, row)
            del machine.mbarriers[position]

    return step


def groups(machine: Machine, g: Gang, address: Array) -> Iterator[tuple[MBarrier, Array]]:
    """Each mbarrier that active lanes address, with the rows of those lanes; lanes of one warp at a time."""
    at = positions(machine, g, address)
    keys = at * 4096 + g.lane_warps
    for key in dict.fromkeys(keys.tolist()):
        rows = np.flatnonzero(keys == key)
        yield at_position(machine, g, int(at[rows[0]]), int(rows[0])), rows


def count_down(machine: Machine, barrier: MBarrier, arrivals: int, pc: int, warp: int) -> None:
    """Some arrive; the phase may end."""
    barrier.pending -= arrivals
    if barrier.pending < 0:
        raise machine.error(f"too many arrivals on the mbarrier at {barrier.address:#x} ({barrier.state()})", pc, warp)
    flip(machine, barrier)


def flip(machine: Machine, barrier: MBarrier) -> None:
    """End the phase if it is complete, and wake who waits for it."""
    if not barrier.flip():
        return
    waiting, barrier.waiting = barrier.waiting, []
    for split in waiting:
        if split in machine.blocked:
            machine.wake(split, split.pc)


def publish(machine: Machine, barrier: MBarrier, warp: int) -> None:
    """An arrival carries what its warp knows."""
    if machine.hazards:
        barrier.carry(machine.hazards.published(np.array([warp])))


def arrive(d: Decoder) -> Step:
    """mbarrier.arrive, arrive_drop, with `.expect_tx` first expecting bytes."""
    ops = d.ops
    put = d.sink(ops[0]) if ops[0].kind == "reg" else None
    address = d.address(ops[0] if ops[0].kind == "mem" else ops[1])
    rest = ops[1:] if ops[0].kind == "mem" else ops[2:]
    expects, drops = "expect_tx" in d.mods, d.mods[0] == "arrive_drop"
    number: Source | None = d.source(rest[0], "u32") if rest else None
    if expects and number is None:
        raise d.error("expected a number of bytes")
    machine = d.machine

    def step(g: Gang) -> None:
        numbers = g.flat(full(g, number(g))).astype(np.int64) if number else np.ones(len(g.lanes), np.int64)
        states = np.zeros(len(g.lanes), np.uint64)
        for barrier, rows in groups(machine, g, address(g)):
            warp = int(g.lane_warps[rows[0]])
            states[rows] = barrier.phase
            publish(machine, barrier, warp)
            total = int(numbers[rows].sum())
            if expects:
                expect_bytes(machine, barrier, total, g.pc, warp)
            arrivals = len(rows) if expects else total
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


def expect(d: Decoder) -> Step:
    """mbarrier.expect_tx, complete_tx."""
    ops = d.operands(2)
    address, number, machine = d.address(ops[0]), d.source(ops[1], "u32"), d.machine
    sign = 1 if d.mods[0] == "expect_tx" else -1

    def step(g: Gang) -> None:
        numbers = g.flat(full(g, number(g))).astype(np.int64)
        for barrier, rows in groups(machine, g, address(g)):
            expect_bytes(machine, barrier, sign * int(numbers[rows].sum()), g.pc, int(g.lane_warps[rows[0]]))
            if sign < 0:
                flip(machine, barrier)

    return step


def wait(d: Decoder) -> Step:
    """mbarrier.test_wait and try_wait, by parity or by state: whether a phase has ended, and then knowing all of it."""
    ops = d.operands(3, 4)
    put, address, machine = d.sink(ops[0]), d.address(ops[1]), d.machine
    parity, sleeps = "parity" in d.mods, d.mods[0] == "try_wait"
    expected = d.source(ops[2], "u32" if parity else "b64")
    carries = "relaxed" not in d.mods
    guard = d.guard()

    def step(g: Gang) -> int | None:
        saved = g.state()
        if guard is not None:
            mask = guard(g) & g.mask
            if not mask.any():
                return None
            g.restrict(mask)
        values = g.flat(full(g, expected(g)))
        ended = np.zeros(len(values), np.bool_)
        blocked: dict[int, MBarrier] = {}
        for barrier, rows in groups(machine, g, address(g)):
            warp = int(g.lane_warps[rows[0]])
            done = _ended(barrier, values[rows], parity=parity)
            ended[rows] = done
            if done.all():
                if machine.hazards and carries:
                    machine.hazards.learn(warp, barrier.known)
            elif sleeps and machine.rng.random() >= SPURIOUS:
                blocked[warp] = barrier
        if not blocked:
            put(g, g.spread(ended))
            g.restore(saved)
            return None
        _sleep(machine, g, blocked)
        if g.mask.any():
            put(g, _spread_into(g, saved[0], ended))
        return STOP

    def _spread_into(g: Gang, mask: Array, ended: Array) -> Array:
        out = np.zeros(mask.shape, np.bool_)
        out[mask if guard is None else mask & guard(g)] = ended
        return out

    return step


def _ended(barrier: MBarrier, values: Array, *, parity: bool) -> Array:
    return np.asarray((values & 1) != (barrier.phase & 1) if parity else values < barrier.phase)


def _sleep(machine: Machine, g: Gang, blocked: dict[int, MBarrier]) -> None:
    """Splits of these warps wait, to execute the instruction again; the rest goes on."""
    goes_on = np.ones(len(g), np.bool_)
    for row, split in enumerate(g.splits):
        barrier = blocked.get(split.warp)
        if barrier is None:
            split.pc = g.pc + 1
            machine.push(split)
            continue
        goes_on[row] = False
        split.pc = g.pc
        barrier.waiting.append(split)
        machine.block(split, waiting_for(machine, barrier))
    g.restrict(g.mask & goes_on[:, None])


def waiting_for(machine: Machine, barrier: MBarrier) -> Callable[[], str]:
    """For messages: which mbarrier, and what it lacks."""
    where = machine.unit((barrier.slot * machine.layout.shared_stride + barrier.address - 1024) // machine.layout.unit)
    return lambda: f"the mbarrier at {where}, {barrier.state()}"


def pending_count(d: Decoder) -> Step:
    """mbarrier.pending_count needs a state's counts, which a state here does not hold."""
    raise d.error("not emulated")


TABLE = {"mbarrier": mbarrier}
