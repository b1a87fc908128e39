"""Loads and stores of lanes: state spaces, alignment, bounds, hazards and traffic counts."""

from __future__ import annotations

from functools import partial

import numpy as np

from graphfuse.findings import About
from graphfuse.gpu.emulator import report
from graphfuse.gpu.emulator.decode import LOCAL_WINDOW, SHARED_WINDOW
from graphfuse.gpu.emulator.gang import LANES, Gang
from graphfuse.gpu.emulator.hazards import Access, Same
from graphfuse.gpu.emulator.heap import BASE, Region
from graphfuse.gpu.emulator.machine import LOCAL_BASE, SHARED_BASE, Machine
from graphfuse.gpu.emulator.types import UNSIGNED, Array


def space_of(g: Gang, address: Array) -> tuple[str, Array]:
    """The state space that generic addresses point into, and the addresses there; lanes must agree."""
    flat = g.flat(address)
    for space, window, end in (("shared", SHARED_WINDOW, LOCAL_WINDOW), ("local", LOCAL_WINDOW, 2 * LOCAL_WINDOW)):
        inside = (flat >= window) & (flat < end)
        if inside.all():
            return space, address - window
        if inside.any():
            message = "generic addresses of several state spaces in one instruction"
            raise g.machine.error(message, g.pc, int(g.warps[0]))
    return "global", address


def aligned(g: Gang, flat: Array, to: int, which: str = "") -> None:
    """Each active lane's address is a multiple of a power of two."""

    def message(row: int) -> str:
        return f"misaligned {which}address {int(flat[row]):#x}: expected a multiple of {to}"

    g.refuse(flat & (to - 1), message, kind="misaligned")


def locate(
    g: Gang,
    space: str,
    address: Array,
    width: int,
    count: int,
    *,
    write: bool,
    strong: bool,
    counted: bool = True,
    stored: Array | None = None,
) -> tuple[str, Array, Array, Array]:
    """Check an access of `count` elements of `width` bytes at each active lane's address, and count it.

    `stored` is what will be there, where that is known.

    The state space, its memory as such elements, which of them are accessed [active lanes, count], and at which bytes
    they begin.
    """
    if space == "generic":
        space, address = space_of(g, address)
    machine, nbytes, flat = g.machine, width * count, g.flat(address)
    aligned(g, flat, nbytes)
    match space:
        case "global":
            at, memory = heap_offsets(g, flat, nbytes, write=write), machine.heap.views[width]
        case "shared":
            at, memory = shared_offsets(g, address, nbytes), machine.shared.view(UNSIGNED[8 * width])
            touch_shared(g, at, nbytes, write=write, strong=strong, stored=stored)
        case _:
            at, memory = _local_offsets(g, flat, nbytes), machine.local.view(UNSIGNED[8 * width])
    if counted and space != "local":
        _count(g, space, address, nbytes)
    return space, memory, (at // width)[:, None] + np.arange(count), at


def by(g: Gang, *, strong: bool = False) -> Access:
    """The active lanes, as who accesses."""
    return Access(g.lane_warps, g.lanes, g.pc, strong)


def place(g: Gang, space: str, address: Array) -> tuple[str, Array]:
    """The state space of active lanes' addresses, and where in its memory they are."""
    if space == "generic":
        space, address = space_of(g, address)
    return space, shared_offsets(g, address, 1) if space == "shared" else g.flat(address) - BASE


def load(g: Gang, space: str, address: Array, width: int, count: int, *, strong: bool, updates: bool = False) -> Array:
    """`count` elements of `width` bytes at each active lane's address: [active lanes, count] unsigned."""
    space, memory, index, at = locate(g, space, address, width, count, write=False, strong=strong)
    nbytes = width * count
    if space == "global" and (hazards := g.machine.heap_hazards):
        hazards.read(by(g, strong=strong), hazards.units(at, nbytes), cached="nc" in g.machine.kernel.code[g.pc].mods)
    elif space == "local" and g.machine.checks:
        unwritten = ~g.machine.local_written[at[:, None] + np.arange(nbytes)]
        g.refuse(np.asarray(unwritten.any(1)), lambda _: "read of uninitialised local memory", kind="uninitialised")
    values, stale = memory[index], g.machine.stale
    return stale.read(g, at, values) if stale and space == "global" and strong and not updates else values


def store(g: Gang, space: str, address: Array, values: Array, *, strong: bool) -> None:
    """Store [active lanes, count] unsigned elements at each active lane's address."""
    machine, count, width = g.machine, values.shape[1], values.dtype.itemsize
    space, memory, index, at = locate(g, space, address, width, count, write=True, strong=strong, stored=values)
    if space == "local":
        machine.local_written[at[:, None] + np.arange(width * count)] = True
    elif space == "global":
        machine.heap.mark_written(at, width * count)
        if machine.heap_hazards:
            touch_heap(g, at, width * count, partial(_same, machine.heap.data, at, values), strong=strong)
            if strong and machine.stale:
                machine.stale.stored(g, at, memory[index])
    memory[index] = values
    if machine.checks and space != "local" and not strong:
        _refuse_clash(g, space, at, np.asarray((memory[index] != values).any(1)))


def _refuse_clash(g: Gang, space: str, at: Array, bad: Array) -> None:
    """Lanes that store at once store the same, where it is to one place."""
    machine = g.machine

    def message(row: int) -> str:
        place = int(at[row])
        where = machine.unit(place // machine.layout.unit) if space == "shared" else machine.heap.describe(place)
        return f"race: lanes that store at once write different values to {where}"

    if bad.any():
        row = int(np.argmax(bad))
        name, element = machine.heap.element_at(int(at[row])) if space == "global" else ("", None)
        raise g.error(message(row), row, About("race", name, element))


# shared memory


def shared_offsets(g: Gang, address: Array, nbytes: int) -> Array:
    """Positions in `machine.shared` of each active lane's shared address (with a CTA rank from bit 24)."""
    flat, layout, slots = g.flat(address), g.machine.layout, g.slots
    offset = (flat & 0xFFFFFF) - SHARED_BASE
    rank = flat >> 24
    bad = rank != 0 if layout.ctas_per_cluster == 1 else (rank < 0) | (rank >= layout.ctas_per_cluster)
    bad |= (offset < 0) | (offset + nbytes > layout.shared_bytes)
    g.refuse(
        bad,
        lambda row: (
            f"out of bounds: shared address {int(flat[row]):#x} + {nbytes} bytes: "
            f"shared memory is {SHARED_BASE:#x} to {SHARED_BASE + layout.shared_bytes:#x}"
        ),
        kind="out-of-bounds",
    )
    if layout.ctas_per_cluster > 1:
        slots = slots - slots % layout.ctas_per_cluster + rank
        if g.machine.checks:
            _alive(g, slots)
    return slots * layout.shared_stride + offset


def _alive(g: Gang, slots: Array) -> None:
    layout = g.machine.layout
    for slot in np.unique(slots).tolist():
        if not g.machine.live_lanes[layout.warps_of(slot)].any():
            message = f"access to the shared memory of CTA rank {slot % layout.ctas_per_cluster}, which has ended"
            raise g.error(message, int(np.argmax(slots == slot)), "race")


def units_of(machine: Machine, at: Array, nbytes: int) -> Array:
    """The hazard units of byte ranges that start at these positions: [ranges, units]."""
    unit = machine.layout.unit
    return (at // unit)[:, None] + np.arange(max(nbytes // unit, 1))


def touch_shared(
    g: Gang, at: Array, nbytes: int, *, write: bool, strong: bool = False, stored: Array | None = None
) -> None:
    """Check and record reads or writes by the active lanes."""
    if (hazards := g.machine.hazards) is None:
        return
    units = units_of(g.machine, at, nbytes)
    if write:
        same = None if stored is None else partial(_same, g.machine.shared, at, stored)
        hazards.write(by(g, strong=strong), units, same)
    else:
        hazards.read(by(g, strong=strong), units)


def _same(memory: Array, at: Array, stored: Array, units: int) -> Array:
    """Which of so many units hold already what each lane stores there: [lanes, units]."""
    new = np.ascontiguousarray(stored).view(np.uint8)
    old = memory[at[:, None] + np.arange(new.shape[1])]
    return np.asarray((old == new).reshape(len(new), units, -1).all(2))


# global memory


def heap_offsets(g: Gang, flat: Array, nbytes: int, *, write: bool, lane: int | None = None) -> Array:
    """Positions in the heap of these addresses, checked. One for each active lane, or that of active lane `lane`."""
    at, heap, first = flat - BASE, g.machine.heap, lane or 0

    def wrong(region: Region) -> str:
        return f"write to read-only memory ({region.name})" if write and not region.buffer.writable else ""

    if bad := heap.find_bad(at, nbytes, wrong):
        kind = "out-of-bounds" if bad[1].startswith("out of bounds") else "read-only"
        about = About(kind, *heap.element_at(int(at[bad[0]])))
        raise g.error(f"{bad[1]}, {nbytes} bytes", bad[0] + first, about)
    check_waited(g, at, lane)
    if not write and g.machine.checks and (found := heap.find_unwritten(at, nbytes)) is not None:
        where = int(at[found])
        about = About("uninitialised", *heap.element_at(where))
        raise g.error(f"read of uninitialised global memory: {heap.describe(where)}", found + first, about)
    return at


def check_waited(g: Gang, at: Array, lane: int | None = None) -> None:
    """Before a lane has waited for the launches before this one, it may access constants only."""
    machine = g.machine
    if machine.waited is None or not machine.checks:
        return
    waited = machine.waited[g.lane_warps, g.lanes]
    early = np.flatnonzero(~waited if lane is None else ~waited[lane : lane + 1])
    if len(early) and (found := machine.heap.find_bad(at[early], 1, lambda r: "" if r.buffer.constant else "variable")):
        row = int(early[found[0]])
        where = machine.heap.describe(int(at[row]))
        message = f"global memory before griddepcontrol.wait: {where} may be in use by an earlier launch"
        raise g.error(message, row + (lane or 0), About("fence", *machine.heap.element_at(int(at[row]))))


def touch_heap(g: Gang, at: Array, nbytes: int, same: Same | None = None, *, strong: bool) -> None:
    """Check and record writes by the active lanes, units of which may be the `same` as what is there."""
    if hazards := g.machine.heap_hazards:
        hazards.write(by(g, strong=strong), hazards.units(at, nbytes), same)


# local memory


def _local_offsets(g: Gang, flat: Array, nbytes: int) -> Array:
    """Positions in `machine.local` of each active lane's local address."""
    layout, offset = g.machine.layout, flat - LOCAL_BASE
    g.refuse(
        (offset < 0) | (offset + nbytes > layout.local_bytes),
        lambda row: f"out of bounds: local address {int(offset[row])} + {nbytes} bytes of {layout.local_bytes}",
        kind="out-of-bounds",
    )
    return (g.lane_warps * LANES + g.lanes) * layout.local_stride + offset


# traffic


def traffic(g: Gang, space: str) -> report.Traffic:
    """The counters of the instruction."""
    counters = g.machine.traffic
    if g.pc not in counters:
        code = g.machine.kernel.code[g.pc]
        counters[g.pc] = report.Traffic(code.line, code.text, space)
    return counters[g.pc]


def _count(g: Gang, space: str, address: Array, nbytes: int) -> None:
    if space == "shared" and not g.machine.checks:
        return
    entry, requests, total = traffic(g, space), int(g.mask.any(1).sum()), int(g.mask.sum()) * nbytes
    if g.machine.checks:
        measure = report.wavefronts if space == "shared" else report.sectors
        entry.add(requests, total, *measure(address, g.mask, nbytes))
    else:
        entry.add(requests, total, 0, 0)
        entry.cost = entry.ideal = -(-entry.bytes // 32)
