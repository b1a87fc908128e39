"""Loads and stores of lanes: state spaces, alignment, bounds, hazards and traffic counts."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import numpy as np

from graphfuse.gpu.emulator import report
from graphfuse.gpu.emulator.decode import LOCAL_WINDOW, SHARED_WINDOW
from graphfuse.gpu.emulator.gang import LANES, Gang
from graphfuse.gpu.emulator.hazards import Access, Hazard
from graphfuse.gpu.emulator.heap import BASE
from graphfuse.gpu.emulator.machine import LOCAL_BASE, SHARED_BASE, Machine
from graphfuse.gpu.emulator.types import UNSIGNED, Array


def space_of(machine: Machine, g: Gang, address: Array) -> tuple[str, Array]:
    """The state space that generic addresses point into, and the addresses there; lanes must agree."""
    flat = g.flat(address)
    shared = (flat >= SHARED_WINDOW) & (flat < LOCAL_WINDOW)
    local = (flat >= LOCAL_WINDOW) & (flat < 2 * LOCAL_WINDOW)
    if shared.any():
        if not shared.all():
            raise machine.error("generic addresses of several state spaces in one instruction", g.pc, int(g.warps[0]))
        return "shared", address - SHARED_WINDOW
    if local.any():
        if not local.all():
            raise machine.error("generic addresses of several state spaces in one instruction", g.pc, int(g.warps[0]))
        return "local", address - LOCAL_WINDOW
    return "global", address


def load(machine: Machine, g: Gang, space: str, address: Array, width: int, count: int, *, strong: bool) -> Array:
    """`count` elements of `width` bytes at each active lane's address: [active lanes, count] unsigned."""
    if space == "generic":
        space, address = space_of(machine, g, address)
    flat = g.flat(address)
    _aligned(machine, g, flat, width * count)
    match space:
        case "global":
            at = heap_offsets(machine, g, flat, width * count, write=False)
            _count_global(machine, g, address, width * count)
            if not strong:
                _check_published(machine, g, at, width * count)
            memory = machine.heap.views[width]
        case "shared":
            at = shared_offsets(machine, g, address, width * count)
            _count_shared(machine, g, address, width * count)
            read_shared(machine, g, at, width * count, strong=strong)
            memory = machine.shared.view(UNSIGNED[8 * width])
        case _:
            return _load_local(machine, g, flat, width, count)
    return memory[(at // width)[:, None] + np.arange(count)]


def store(machine: Machine, g: Gang, space: str, address: Array, values: Array, *, strong: bool) -> None:
    """Store [active lanes, count] unsigned elements at each active lane's address."""
    if space == "generic":
        space, address = space_of(machine, g, address)
    flat = g.flat(address)
    count, width = values.shape[1], values.dtype.itemsize
    _aligned(machine, g, flat, width * count)
    match space:
        case "global":
            at = heap_offsets(machine, g, flat, width * count, write=True)
            _count_global(machine, g, address, width * count)
            machine.heap.mark_written(at, width * count)
            if machine.published and strong:
                machine.published.forget(at)
            elif machine.published:
                machine.published.write(g.lane_warps // machine.layout.warps_per_cta, at, width * count)
            memory = machine.heap.views[width]
        case "shared":
            at = shared_offsets(machine, g, address, width * count)
            _count_shared(machine, g, address, width * count)
            write_shared(machine, g, at, width * count, strong=strong)
            memory = machine.shared.view(UNSIGNED[8 * width])
        case _:
            _store_local(machine, g, flat, values)
            return
    index = (at // width)[:, None] + np.arange(count, dtype=np.int64)
    memory[index] = values
    if machine.checks and space == "shared" and not strong and (clash := memory[index] != values).any():
        row = int(np.argmax(clash.any(1)))
        message = (
            f"race: lanes of one warp write different values to {machine.unit(int(at[row]) // machine.layout.unit)}"
        )
        raise machine.error(message, g.pc, *g.who(row))


# shared memory


def shared_offsets(machine: Machine, g: Gang, address: Array, nbytes: int) -> Array:
    """Positions in `machine.shared` of each active lane's shared address (with a CTA rank from bit 24)."""
    flat = g.flat(address)
    layout = machine.layout
    slots = g.lane_warps // layout.warps_per_cta
    offset = (flat & 0xFFFFFF) - SHARED_BASE
    rank = flat >> 24
    if layout.ctas_per_cluster > 1:
        own = slots % layout.ctas_per_cluster
        slots = slots - own + rank
        bad = (rank < 0) | (rank >= layout.ctas_per_cluster)
    else:
        bad = rank != 0
    bad |= (offset < 0) | (offset + nbytes > layout.shared_bytes)
    if bad.any():
        row = int(np.argmax(bad))
        where = f"shared address {int(flat[row]):#x} + {nbytes} bytes"
        size = f"shared memory is {SHARED_BASE:#x} to {SHARED_BASE + layout.shared_bytes:#x}"
        raise machine.error(f"out of bounds: {where}: {size}", g.pc, *g.who(row))
    if layout.ctas_per_cluster > 1 and machine.checks:
        _alive(machine, g, slots)
    return slots * layout.shared_stride + offset


def _alive(machine: Machine, g: Gang, slots: Array) -> None:
    for slot in np.unique(slots).tolist():
        if not machine.live_lanes[machine.layout.warps_of(slot)].any():
            row = int(np.argmax(slots == slot))
            rank = slot % machine.layout.ctas_per_cluster
            raise machine.error(f"access to the shared memory of CTA rank {rank}, which has ended", g.pc, *g.who(row))


def units_of(machine: Machine, at: Array, nbytes: int) -> Array:
    """The hazard units of byte ranges that start at these positions: [ranges, units]."""
    unit = machine.layout.unit
    return (at // unit)[:, None] + np.arange(max(nbytes // unit, 1))


def read_shared(machine: Machine, g: Gang, at: Array, nbytes: int, *, strong: bool = False) -> None:
    """Check and record reads by the active lanes."""
    if machine.hazards:
        by = Access(g.lane_warps, g.lanes, g.pc, strong)
        with located(machine, by):
            machine.hazards.read(by, units_of(machine, at, nbytes))


def write_shared(machine: Machine, g: Gang, at: Array, nbytes: int, *, strong: bool = False) -> None:
    """Check and record writes by the active lanes."""
    if machine.hazards:
        by = Access(g.lane_warps, g.lanes, g.pc, strong)
        with located(machine, by):
            machine.hazards.write(by, units_of(machine, at, nbytes))


@contextmanager
def located(machine: Machine, by: Access) -> Generator[None]:
    """Say of a hazard which of these accesses ran into it."""
    try:
        yield
    except Hazard as hazard:
        row = min(hazard.row, len(by.warps) - 1)
        lane = int(by.lanes[row])
        raise machine.error(hazard.message, by.pc, int(by.warps[row]), lane if lane < LANES else None) from None


# global memory


def heap_offsets(machine: Machine, g: Gang, flat: Array, nbytes: int, *, write: bool, lane: int | None = None) -> Array:
    """Positions in the heap of these addresses, checked. One for each active lane, or that of active lane `lane`."""
    at = flat - BASE
    first = lane or 0
    if bad := machine.heap.find_bad(at, nbytes, write=write):
        row, message = bad[0] + first, bad[1]
        raise machine.error(f"{message}, {nbytes} bytes", g.pc, *g.who(row))
    check_waited(machine, g, at, lane)
    if not write and machine.checks and (found := machine.heap.find_unwritten(at, nbytes)) is not None:
        message = f"read of uninitialised global memory: {machine.heap.describe(int(at[found]))}"
        row = found + first
        raise machine.error(message, g.pc, *g.who(row))
    return at


def check_waited(machine: Machine, g: Gang, at: Array, lane: int | None = None) -> None:
    """Before a lane has waited for the launches before this one, it may access constants only."""
    if machine.waited is None or not machine.checks:
        return
    waited = machine.waited[g.lane_warps, g.lanes]
    early = np.flatnonzero(~waited if lane is None else ~waited[lane : lane + 1])
    if len(early) and (found := machine.heap.find_variable(at[early])) is not None:
        row = int(early[found])
        where = machine.heap.describe(int(at[row]))
        row += lane or 0
        message = f"global memory before griddepcontrol.wait: {where} may be in use by an earlier launch"
        raise machine.error(message, g.pc, *g.who(row))


def _check_published(machine: Machine, g: Gang, at: Array, nbytes: int) -> None:
    """A CTA reads what others have written only once it has acquired what they released."""
    if machine.published is None:
        return
    found = machine.published.find_unknown(g.lane_warps // machine.layout.warps_per_cta, at, nbytes)
    if found is not None:
        row, writer = found
        where, who = machine.heap.describe(int(at[row])), machine.ctas[writer]
        message = f"race: read of {where}, which CTA {who} wrote, with no release and acquire between"
        raise machine.error(message, g.pc, *g.who(row))


def _aligned(machine: Machine, g: Gang, flat: Array, nbytes: int) -> None:
    bad = flat & (nbytes - 1)
    if bad.any():
        row = int(np.argmax(bad != 0))
        message = f"misaligned address {int(flat[row]):#x}: expected a multiple of {nbytes}"
        raise machine.error(message, g.pc, *g.who(row))


# local memory


def _local_index(machine: Machine, g: Gang, flat: Array, nbytes: int) -> tuple[Array, Array]:
    size = machine.layout.local_bytes
    bad = (flat < LOCAL_BASE) | (flat + nbytes > LOCAL_BASE + size)
    if bad.any():
        row = int(np.argmax(bad))
        message = f"out of bounds: local address {int(flat[row]) - LOCAL_BASE} + {nbytes} bytes of {size}"
        raise machine.error(message, g.pc, *g.who(row))
    rows = g.lane_warps * LANES + g.lanes
    return rows[:, None], (flat - LOCAL_BASE)[:, None] + np.arange(nbytes)


def _load_local(machine: Machine, g: Gang, flat: Array, width: int, count: int) -> Array:
    index = _local_index(machine, g, flat, width * count)
    if machine.checks and not (ok := machine.local_written[index].all(1)).all():
        row = int(np.argmin(ok))
        raise machine.error("read of uninitialised local memory", g.pc, *g.who(row))
    return np.ascontiguousarray(machine.local[index]).view(UNSIGNED[8 * width])


def _store_local(machine: Machine, g: Gang, flat: Array, values: Array) -> None:
    index = _local_index(machine, g, flat, values.dtype.itemsize * values.shape[1])
    machine.local[index] = np.ascontiguousarray(values).view(np.uint8)
    machine.local_written[index] = True


# traffic


def traffic(machine: Machine, pc: int, space: str) -> report.Traffic:
    """The counters of an instruction."""
    if pc not in machine.traffic:
        code = machine.kernel.code[pc]
        machine.traffic[pc] = report.Traffic(code.line, code.text, space)
    return machine.traffic[pc]


def _count_global(machine: Machine, g: Gang, address: Array, nbytes: int) -> None:
    entry = traffic(machine, g.pc, "global")
    entry.requests += int(g.mask.any(1).sum())
    entry.bytes += int(g.mask.sum()) * nbytes
    if machine.checks:
        entry.cost += report.sectors(address, g.mask, nbytes)
        entry.ideal += report.ideal_sectors(g.mask, nbytes)
    else:
        entry.cost = entry.ideal = -(-entry.bytes // 32)


def _count_shared(machine: Machine, g: Gang, address: Array, nbytes: int) -> None:
    if not machine.checks:
        return
    entry = traffic(machine, g.pc, "shared")
    cost, ideal = report.wavefronts(address, g.mask, nbytes)
    entry.requests += int(g.mask.any(1).sum())
    entry.bytes += int(g.mask.sum()) * nbytes
    entry.cost += cost
    entry.ideal += ideal
