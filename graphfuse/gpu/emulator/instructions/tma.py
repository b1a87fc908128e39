"""Bulk copies (PTX ISA 9.7.9.25.4, .5): linear and tensor, loads on an mbarrier, stores and reductions in groups.

Loads complete on their own, late or at random; their bytes have no value until then. Stores read their source when
they are waited for.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from graphfuse.gpu.emulator import access
from graphfuse.gpu.emulator.barriers import MBarrier
from graphfuse.gpu.emulator.decode import SHARED_WINDOW, Decoder, Source, full
from graphfuse.gpu.emulator.errors import EmulatorError
from graphfuse.gpu.emulator.floats import canonical
from graphfuse.gpu.emulator.gang import Gang, Step, no_step
from graphfuse.gpu.emulator.hazards import ANY_LANE, Access
from graphfuse.gpu.emulator.heap import BASE
from graphfuse.gpu.emulator.im2col import Im2colMap
from graphfuse.gpu.emulator.instructions import barrier as mbarriers
from graphfuse.gpu.emulator.machine import SHARED_BASE, Machine
from graphfuse.gpu.emulator.parse import Operand
from graphfuse.gpu.emulator.tensormap import TensorMap, swizzled
from graphfuse.gpu.emulator.types import UNSIGNED, Array, DType

_REDUCTIONS: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
_MODS = frozenset(
    {"async", "bulk", "reduce", "tensor", "1d", "2d", "3d", "4d", "5d", "global", "tile", "bulk_group", "noftz"}
    | {"shared::cluster", "shared::cta", "mbarrier::complete_tx::bytes", "multicast::cluster", "L2::cache_hint"}
    | {"im2col"}
)


@dataclass(frozen=True, eq=False, slots=True)
class Move:
    """One lane's copy: element positions in the heap (and which exist) and, in order, in shared memory."""

    heap: Array
    exists: Array
    shared: Array
    elem: int
    nbytes: int
    fill: int = 0


@dataclass(eq=False, slots=True)
class Store:
    """A bulk store in flight: `number` is its time as a reader of shared memory."""

    number: int
    pc: int
    what: str
    perform: Callable[[], None]


@dataclass(eq=False, slots=True)
class Stores:
    """Bulk stores of all warps: per warp and lane the open group and the committed ones."""

    open: dict[tuple[int, int], list[Store]] = field(default_factory=dict[tuple[int, int], list[Store]])
    groups: dict[tuple[int, int], list[list[Store]]] = field(default_factory=dict[tuple[int, int], list[list[Store]]])
    number: dict[int, int] = field(default_factory=dict[int, int])


def stores(machine: Machine) -> Stores:
    """The machine's bulk stores in flight."""
    found = machine.in_flight.get("bulk")
    if not isinstance(found, Stores):
        found = machine.in_flight["bulk"] = Stores()
    return found


def bulk(d: Decoder) -> Step:
    """cp.async.bulk and cp.reduce.async.bulk, by what follows."""
    if "commit_group" in d.mods:
        return commit(d)
    if "wait_group" in d.mods:
        return wait(d)
    if "prefetch" in d.mods:
        return no_step
    reduction = next((m for m in d.mods if m in _REDUCTIONS), None) if "reduce" in d.mods else None
    d.only({*_MODS, *([reduction] if reduction else [])})
    if "mbarrier::complete_tx::bytes" in d.mods:
        return load(d)
    if "bulk_group" not in d.mods:
        raise d.error("expected .bulk_group or .mbarrier::complete_tx::bytes")
    return store(d, reduction)


# what moves


Moves = Callable[[Gang], list[Move]]


def _tensor_moves(d: Decoder, mapped: Operand, shared: Operand, taps: Sequence[Operand] | None = None) -> Moves:
    """`taps`: the offsets of an instruction in im2col mode."""
    machine = d.machine
    rank = int(next(m for m in d.mods if re.fullmatch(r"[1-5]d", m))[0])
    if len(mapped.items) != 2 or len(mapped.items[1].items) != rank:
        raise d.error(f"expected [map, {{{rank} coordinates}}]")
    descriptor = d.address(Operand("mem", items=mapped.items[:1], number=mapped.number))
    coordinates = [d.source(c, "s32") for c in mapped.items[1].items]
    offsets = [d.source(t, "u16") for t in taps or ()]
    if taps is not None and len(offsets) != rank - 2:
        raise d.error(f"{len(offsets)} im2col offsets: expected {rank - 2}")
    place = d.address(shared)

    def moves(g: Gang) -> list[Move]:
        at = _shared_positions(machine, g, place(g), 128)
        where = np.stack([g.flat(full(g, c(g))) for c in coordinates], axis=1)
        ahead = [g.flat(full(g, o(g))) for o in offsets]
        result: list[Move] = []
        for lane, address in enumerate(g.flat(descriptor(g)).tolist()):
            tensor, base = _tensor_map(machine, g, address, lane)
            if len(tensor.dims) != rank:
                raise machine.error(f"the tensor map has {len(tensor.dims)} dims: expected {rank}", g.pc, *g.who(lane))
            access.check_waited(machine, g, np.array([base]), lane)
            if isinstance(tensor, Im2colMap) != (taps is not None):
                message = f"expected a tensor map {'of tiles' if taps is None else 'for im2col'}"
                raise machine.error(message, g.pc, *g.who(lane))
            start = where[lane].tolist()
            result.append(_box(machine, g, tensor, base, start, [int(a[lane]) for a in ahead], int(at[lane]), lane))
        return result

    return moves


def _tensor_map(machine: Machine, g: Gang, address: int, lane: int) -> tuple[TensorMap, int]:
    if address not in machine.tensor_maps:
        message = f"no tensor map at address {address:#x}: expected a kernel argument that is one"
        raise machine.error(message, g.pc, *g.who(lane))
    return machine.tensor_maps[address]


def _box(
    machine: Machine, g: Gang, tensor: TensorMap, base: int, start: list[int], offsets: list[int], at: int, lane: int
) -> Move:
    """The elements of a box, innermost dimension fastest."""
    elem = tensor.elem_bytes
    _check_start(machine, g, start, elem, lane)
    try:
        position, exists = tensor.elements(start, offsets)
    except EmulatorError as e:
        raise machine.error(e.message, g.pc, *g.who(lane)) from None
    heap = np.where(exists, position + base, 0).reshape(-1)
    exists = np.broadcast_to(exists, position.shape).reshape(-1)
    slot, offset = divmod(at, machine.layout.shared_stride)
    row, column = np.divmod(np.arange(len(heap)), tensor.box[0])
    address = swizzled(offset + SHARED_BASE + row * tensor.row_bytes + column * elem, tensor.swizzle) - SHARED_BASE
    if int(address.max()) + elem > machine.layout.shared_bytes:
        message = f"out of bounds: the box of {tensor.box_bytes} bytes at shared address {offset + SHARED_BASE:#x}"
        raise machine.error(message, g.pc, *g.who(lane))
    nan = int.from_bytes(b"\xf7\x7f" * (elem // 2), "little") if tensor.fill_nan else 0
    return Move(heap, exists, slot * machine.layout.shared_stride + address, elem, tensor.box_bytes, nan)


def _check_start(machine: Machine, g: Gang, start: list[int], elem: int, lane: int) -> None:
    """What an H200 answers with an illegal instruction, though the ISA does not say so."""
    who = g.who(lane)
    if start[0] * elem % 16:
        message = f"innermost coordinate {start[0]} is {start[0] * elem} bytes: expected a multiple of 16"
        raise machine.error(message, g.pc, *who)
    if "bulk_group" in machine.kernel.code[g.pc].mods and min(start) < 0:
        raise machine.error(f"store to coordinates {tuple(start)}: expected none below 0", g.pc, *who)


def _linear_moves(d: Decoder, heap: Operand, shared: Operand, size: Operand, *, write: bool) -> Moves:
    machine = d.machine
    far, near, count = d.address(heap), d.address(shared), d.source(size, "u32")

    def moves(g: Gang) -> list[Move]:
        sizes = g.flat(full(g, count(g))).astype(np.int64)
        addresses = g.flat(far(g))
        at = _shared_positions(machine, g, near(g), 16)
        result: list[Move] = []
        for lane, (address, nbytes) in enumerate(zip(addresses.tolist(), sizes.tolist(), strict=True)):
            who = g.who(lane)
            if nbytes % 16 or address % 16:
                raise machine.error(f"{nbytes} bytes at {address:#x}: expected multiples of 16", g.pc, *who)
            access.heap_offsets(machine, g, np.array([address]), nbytes, write=write, lane=lane)
            _in_shared(machine, g, int(at[lane]), nbytes, who)
            part = words(nbytes)
            result.append(Move(address - BASE + part, np.ones(len(part), np.bool_), int(at[lane]) + part, 4, nbytes))
        return result

    return moves


def _shared_positions(machine: Machine, g: Gang, address: Array, align: int) -> Array:
    if (g.flat(address) >= SHARED_WINDOW).any():
        _, address = access.space_of(machine, g, address)
    if (bad := g.flat(address) % align != 0).any():
        row = int(np.argmax(bad))
        message = f"misaligned shared address {int(g.flat(address)[row]):#x}: expected a multiple of {align}"
        raise machine.error(message, g.pc, *g.who(row))
    return access.shared_offsets(machine, g, address, 16)


def words(nbytes: int) -> Array:
    """Offsets of 4-byte words."""
    return np.arange(0, nbytes, 4, dtype=np.int64)


def _in_shared(machine: Machine, g: Gang, at: int, nbytes: int, who: tuple[int, int]) -> None:
    offset = at % machine.layout.shared_stride
    if offset + nbytes > machine.layout.shared_bytes:
        raise machine.error(f"out of bounds: {nbytes} bytes at shared address {offset + SHARED_BASE:#x}", g.pc, *who)


def _units(machine: Machine, move: Move, shift: int = 0) -> Array:
    return (
        np.unique((move.shared + shift) // machine.layout.unit)[None]
        if move.elem < machine.layout.unit
        else (access.units_of(machine, move.shared + shift, move.elem).reshape(1, -1))
    )


# loads


def load(d: Decoder) -> Step:
    """To shared memory, of this CTA or of several, completing on an mbarrier at the same offset in each."""
    ops = d.ops
    tensor, multicast = "tensor" in d.mods, "multicast::cluster" in d.mods
    hints = (1 if "L2::cache_hint" in d.mods else 0) + (1 if multicast else 0)
    im2col = tensor and "im2col" in d.mods
    expected = (3 if tensor else 4) + im2col + hints
    d.operands(expected)
    if "shared::cta" in d.mods and "shared::cluster" in d.mods:
        return _between_ctas(d)
    if tensor:
        moves = _tensor_moves(d, ops[1], ops[0], d.vector(ops[3]) if im2col else None)
    else:
        moves = _linear_moves(d, ops[1], ops[0], ops[2], write=False)
    barrier = d.address(ops[2 if tensor else 3])
    mask: Source | None = d.source(ops[(3 if tensor else 4) + im2col], "b16") if multicast else None
    machine = d.machine

    def step(g: Gang) -> None:
        where = mbarriers.positions(machine, g, barrier(g))
        masks = g.flat(full(g, mask(g))).tolist() if mask else [None] * len(where)
        for lane, move in enumerate(moves(g)):
            for slot_shift in _targets(machine, g, masks[lane], lane):
                _start_load(machine, g, move, int(where[lane]) + slot_shift, slot_shift, lane)
        machine.report.bulk_bytes += int(sum(m.exists.sum() * m.elem for m in moves(g)))

    return step


def _targets(machine: Machine, g: Gang, mask: int | None, lane: int) -> list[int]:
    """How far from this CTA's shared memory each target's lies."""
    if mask is None:
        return [0]
    size, stride = machine.layout.ctas_per_cluster, machine.layout.shared_stride
    if mask == 0 or mask >> size:
        raise machine.error(f"multicast mask {mask:#x} in a cluster of {size}", g.pc, *g.who(lane))
    own = machine.layout.slot_of(int(g.lane_warps[lane])) % size
    return [(rank - own) * stride for rank in range(size) if mask >> rank & 1]


def _start_load(machine: Machine, g: Gang, move: Move, where: int, shift: int, lane: int) -> None:
    barrier = mbarriers.at_position(machine, g, where, lane)
    warp, pc = int(g.lane_warps[lane]), g.pc
    if machine.checks and not barrier.fenced:
        which = f"the mbarrier at {barrier.address:#x}"
        message = f"{which} was initialised with no fence.mbarrier_init or fence.proxy.async since"
        raise machine.error(message, pc, warp, int(g.lanes[lane]))
    operation = machine.new_operation(pc)
    units: Array | None = None
    if machine.hazards:
        units = _units(machine, move, shift)
        by = Access(np.array([warp]), np.array([ANY_LANE]), pc)
        with access.located(machine, by):
            machine.hazards.may_write(by, units, "bulk write")
        machine.hazards.begin_async_write(units, operation)

    def fire() -> None:
        values = machine.heap.views[move.elem][move.heap // move.elem]
        filler = values.dtype.type(move.fill)
        machine.shared.view(UNSIGNED[8 * move.elem])[(move.shared + shift) // move.elem] = np.where(
            move.exists, values, filler
        )
        complete(machine, barrier, move.nbytes, units, pc)

    machine.events.start(barrier.slot, machine.operations[operation], fire)


def complete(machine: Machine, barrier: MBarrier, nbytes: int, units: Array | None, pc: int) -> None:
    """Bytes have arrived: they belong to the phase that the mbarrier is in."""
    if machine.hazards and units is not None:
        machine.hazards.end_bulk_write(units, barrier.agent, barrier.phase + 1, pc)
        row = np.zeros(barrier.agent + 1, np.int32)
        row[barrier.agent] = barrier.phase + 1
        barrier.carry(row)
    barrier.bytes -= nbytes
    mbarriers.flip(machine, barrier)


def _between_ctas(d: Decoder) -> Step:
    """From this CTA's shared memory to another's."""
    ops = d.operands(4)
    target, source, size, barrier = (
        d.address(ops[0]),
        d.address(ops[1]),
        d.source(ops[2], "u32"),
        d.address(ops[3]),
    )
    machine = d.machine

    def step(g: Gang) -> None:
        to = _shared_positions(machine, g, target(g), 16)
        of = _shared_positions(machine, g, source(g), 16)
        where = mbarriers.positions(machine, g, barrier(g))
        for lane, nbytes in enumerate(g.flat(full(g, size(g))).tolist()):
            who = g.who(lane)
            _in_shared(machine, g, int(to[lane]), nbytes, who)
            _in_shared(machine, g, int(of[lane]), nbytes, who)
            part = words(nbytes)
            if machine.hazards:
                by = Access(np.array([who[0]]), np.array([who[1]]), g.pc)
                with access.located(machine, by):
                    machine.hazards.read(by, access.units_of(machine, of[lane] + part[:1], nbytes), asynchronous=True)
            data = machine.shared[of[lane] : of[lane] + nbytes].copy()
            _copy_to(machine, g, data, int(to[lane]), int(where[lane]), lane)

    return step


def _copy_to(machine: Machine, g: Gang, data: Array, to: int, where: int, lane: int) -> None:
    """Bytes travel to shared memory, maybe of another CTA, and complete on an mbarrier there."""
    barrier = mbarriers.at_position(machine, g, where, lane)
    pc, warp = g.pc, int(g.lane_warps[lane])
    operation = machine.new_operation(pc)
    units: Array | None = None
    if machine.hazards:
        units = access.units_of(machine, np.array([to]), len(data))
        by = Access(np.array([warp]), np.array([ANY_LANE]), pc)
        with access.located(machine, by):
            machine.hazards.may_write(by, units, "remote write")
        machine.hazards.begin_async_write(units, operation)

    def fire() -> None:
        machine.shared[to : to + len(data)] = data
        complete(machine, barrier, len(data), units, pc)

    machine.events.start(barrier.slot, machine.operations[operation], fire)


def st_async(d: Decoder) -> Step:
    """st.async: registers to shared memory of the cluster, completing on an mbarrier."""
    d.only(("async", "weak", "shared::cluster", "mbarrier::complete_tx::bytes", "v2", "v4"))
    ops = d.operands(3)
    kind = d.type()
    target, barrier, machine = d.address(ops[0]), d.address(ops[2]), d.machine
    reads = [d.source(o, f"b{kind.bits}") for o in d.vector(ops[1])]

    def step(g: Gang) -> None:
        values = np.stack([g.flat(full(g, r(g))) for r in reads], axis=1)
        to = access.shared_offsets(machine, g, target(g), kind.bytes * len(reads))
        where = mbarriers.positions(machine, g, barrier(g))
        for lane in range(len(to)):
            _copy_to(machine, g, values[lane].view(np.uint8), int(to[lane]), int(where[lane]), lane)

    return step


# stores


def store(d: Decoder, reduction: str | None) -> Step:
    """From shared memory to global, in the lane's open group."""
    ops = d.ops
    tensor = "tensor" in d.mods
    d.operands((2 if tensor else 3) + (1 if "L2::cache_hint" in d.mods else 0))
    moves = _tensor_moves(d, ops[0], ops[1]) if tensor else _linear_moves(d, ops[0], ops[1], ops[2], write=True)
    kind = None if tensor or not reduction else d.type().dtype
    mapped = d.address(Operand("mem", items=ops[0].items[:1], number=ops[0].number)) if tensor else None
    machine = d.machine

    def step(g: Gang) -> None:
        maps = g.flat(mapped(g)).tolist() if mapped else [0] * len(g.lanes)
        for lane, move in enumerate(moves(g)):
            dtype = machine.tensor_maps[maps[lane]][0].array.dtype if reduction and tensor else kind
            _start_store(machine, g, move, lane, reduction, dtype)
            machine.report.bulk_bytes += int(move.exists.sum()) * move.elem

    return step


def _start_store(machine: Machine, g: Gang, move: Move, lane: int, reduction: str | None, dtype: DType | None) -> None:
    queue, warp, pc = stores(machine), int(g.lane_warps[lane]), g.pc
    number = queue.number[warp] = queue.number.get(warp, 0) + 1
    if machine.hazards:
        layout = machine.layout
        agent = layout.warps_per_cluster + layout.groups_per_cluster + int(machine.hazards.agent_of_warp[warp])
        by = Access(np.array([warp]), np.array([int(g.lanes[lane])]), pc)
        with access.located(machine, by):
            machine.hazards.read(by, _units(machine, move), agent=agent, time=number, asynchronous=True)

    def perform() -> None:
        view = UNSIGNED[8 * move.elem]
        values = machine.shared.view(view)[move.shared // move.elem][move.exists]
        index = (move.heap // move.elem)[move.exists]
        memory = machine.heap.views[move.elem]
        if reduction and dtype is not None:
            old = memory[index].view(dtype)
            values = canonical(_REDUCTIONS[reduction](old, values.view(dtype)).astype(dtype)).view(view)
        memory[index] = values
        machine.heap.mark_written(move.heap[move.exists], move.elem)

    what = machine.operations[machine.new_operation(pc)]
    queue.open.setdefault((warp, int(g.lanes[lane])), []).append(Store(number, pc, what, perform))


def commit(d: Decoder) -> Step:
    """cp.async.bulk.commit_group."""
    machine = d.machine

    def step(g: Gang) -> None:
        queue = stores(machine)
        for key in zip(g.lane_warps.tolist(), g.lanes.tolist(), strict=True):
            queue.groups.setdefault(key, []).append(queue.open.pop(key, []))

    return step


def wait(d: Decoder) -> Step:
    """cp.async.bulk.wait_group, with `.read` or without: all but the last n groups have read their source."""
    keep, machine = d.constant(d.operands(1)[0]), d.machine

    def step(g: Gang) -> None:
        queue = stores(machine)
        if not queue.groups:
            return
        for key in zip(g.lane_warps.tolist(), g.lanes.tolist(), strict=True):
            groups = queue.groups.get(key)
            if not groups:
                continue
            done = groups[: len(groups) - keep] if keep < len(groups) else []
            queue.groups[key] = groups[len(done) :]
            finish(machine, key[0], list(itertools.chain(*done)))

    return step


def finish(machine: Machine, warp: int, done: list[Store]) -> None:
    """Perform stores, in a random order; the warp knows that they have read."""
    for k in machine.rng.permutation(len(done)):
        done[k].perform()
    if machine.hazards and done:
        layout, clocks = machine.layout, machine.hazards.clocks
        agent = layout.warps_per_cluster + layout.groups_per_cluster + int(machine.hazards.agent_of_warp[warp])
        clocks[warp, agent] = max([clocks[warp, agent], *(s.number for s in done)])


def leave(machine: Machine, warp: int) -> None:
    """A warp ends: stores that nobody waited for may read what is no longer there."""
    queue = stores(machine)
    left: list[Store] = []
    for key in [k for k in (*queue.groups, *queue.open) if k[0] == warp]:
        left += [*itertools.chain(*queue.groups.pop(key, [])), *queue.open.pop(key, [])]
    if left and machine.checks:
        message = f"the warp ends while {left[0].what} still reads shared memory: expected cp.async.bulk.wait_group"
        raise machine.error(message, left[0].pc, warp)
    finish(machine, warp, left)
