"""Bulk copies (PTX ISA 9.7.9.25.4, .5): linear and tensor, loads on an mbarrier, stores and reductions in groups.

Loads complete on their own, late or at random; their bytes have no value until then. Stores read their source when
they are waited for.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from graphfuse.gpu.emulator import access
from graphfuse.gpu.emulator.barriers import MBarrier
from graphfuse.gpu.emulator.decode import SHARED_WINDOW, Decoder, full, instruction
from graphfuse.gpu.emulator.errors import EmulatorError
from graphfuse.gpu.emulator.events import Groups
from graphfuse.gpu.emulator.floats import canonical
from graphfuse.gpu.emulator.gang import Gang, Step
from graphfuse.gpu.emulator.hazards import Access
from graphfuse.gpu.emulator.heap import BASE
from graphfuse.gpu.emulator.im2col import Im2colMap
from graphfuse.gpu.emulator.instructions import barrier as mbarriers
from graphfuse.gpu.emulator.instructions.made_maps import made_map
from graphfuse.gpu.emulator.machine import SHARED_BASE, Machine, Part
from graphfuse.gpu.emulator.parse import Operand
from graphfuse.gpu.emulator.tensormap import TensorMap, swizzled
from graphfuse.gpu.emulator.types import REDUCTIONS, UNSIGNED, Array, DType

_MODS = (
    "tensor [1-5]d global tile im2col bulk_group noftz shared::cluster shared::cta mbarrier::complete_tx::bytes "
    "multicast::cluster L2::cache_hint"
)


@dataclass(frozen=True, eq=False, slots=True)
class Move:
    """One lane's copy: element positions in the heap (and which exist) and, in order, in shared memory."""

    heap: Array
    exists: Array
    shared: Array
    elem: int
    nbytes: int
    dtype: DType
    """Of the numbers, where they are added."""
    fill: int = 0

    def units(self, unit: int) -> Array:
        """Those of the heap, of so many bytes each: [1, units]."""
        return np.unique(self.heap[self.exists] // unit)[None] if self.elem < unit else self._wide(unit)

    def _wide(self, unit: int) -> Array:
        return (self.heap[self.exists, None] // unit + np.arange(self.elem // unit)).reshape(1, -1)


@dataclass(eq=False, slots=True)
class Store:
    """A bulk store in flight: `number` is its time as a reader of shared memory."""

    number: int
    pc: int
    what: str
    perform: Callable[[], None]


class Stores(Part):
    """Bulk stores of all warps, in groups of each lane."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.groups = Groups[tuple[int, int], Store]()
        self.numbers = Counter[int]()

    def agent(self, warp: int) -> int:
        """A warp's bulk stores, as readers of shared memory."""
        layout = self.machine.layout
        return layout.warps_per_cluster + layout.groups_per_cluster + warp % layout.warps_per_cluster

    def finish(self, warp: int, done: list[Store]) -> None:
        """Perform stores, in a random order; the warp knows that they have read."""
        for k in self.machine.rng.permutation(len(done)):
            done[k].perform()
        if self.machine.hazards and done:
            self.machine.clocks.finished(warp, self.agent(warp), max(s.number for s in done))

    def leave(self, warp: int) -> None:
        """A warp ends: stores that nobody waited for may read what is no longer there."""
        left: list[Store] = []
        for key in [k for k in (*self.groups.committed, *self.groups.open) if k[0] == warp]:
            self.groups.commit(key)
            left += self.groups.due(key, 0)
            self.groups.drop(key, 0)
        if left and self.machine.checks:
            message = f"the warp ends while {left[0].what} still reads shared memory: expected cp.async.bulk.wait_group"
            raise self.machine.error(message, left[0].pc, warp, about="in-flight")
        self.finish(warp, left)


# what moves


Moves = Callable[[Gang], list[Move]]


def _moves(d: Decoder, heap: Operand, shared: Operand) -> Moves:
    """What a copy between the heap and shared memory moves for each active lane."""
    return _tensor_moves(d, heap, shared) if "tensor" in d.mods else _linear_moves(d, heap, shared)


def _tensor_moves(d: Decoder, mapped: Operand, shared: Operand) -> Moves:
    machine, im2col = d.machine, "im2col" in d.mods and "bulk_group" not in d.mods
    rank = int(next(m for m in d.mods if re.fullmatch(r"[1-5]d", m))[0])
    if len(mapped.items) != 2 or len(mapped.items[1].items) != rank:
        raise d.error(f"expected [map, {{{rank} coordinates}}]")
    descriptor = d.address(Operand("mem", items=mapped.items[:1], number=mapped.number))
    coordinates = d.sources(mapped.items[1], "s32")
    taps = d.vector(d.ops[3]) if im2col else ()
    offsets = [d.source(t, "u16") for t in taps]
    if im2col and len(offsets) != rank - 2:
        raise d.error(f"{len(offsets)} im2col offsets: expected {rank - 2}")
    place = d.address(shared)

    def moves(g: Gang) -> list[Move]:
        at = _shared_positions(g, place(g), 128)
        where = np.moveaxis(coordinates(g), 1, 2)[g.mask].tolist()
        ahead = [g.flat(full(g, o(g))) for o in offsets]
        result: list[Move] = []
        for lane, address in enumerate(g.flat(descriptor(g)).tolist()):
            if address in machine.tensor_maps:
                tensor, base = machine.tensor_maps[address]
            elif address - BASE in machine.made_maps:
                tensor, base = made_map(g, lane, address)
            else:
                message = f"no tensor map at address {address:#x}: expected a kernel argument that is one"
                raise g.error(message, lane)
            if len(tensor.dims) != rank:
                raise g.error(f"the tensor map has {len(tensor.dims)} dims: expected {rank}", lane)
            access.check_waited(g, np.array([base]), lane)
            if isinstance(tensor, Im2colMap) != im2col:
                raise g.error(f"expected a tensor map {'for im2col' if im2col else 'of tiles'}", lane)
            result.append(_box(g, tensor, base, where[lane], [int(a[lane]) for a in ahead], int(at[lane]), lane))
        return result

    return moves


def _box(g: Gang, tensor: TensorMap, base: int, start: list[int], offsets: list[int], at: int, lane: int) -> Move:
    """The elements of a box, innermost dimension fastest."""
    elem, layout = tensor.elem_bytes, g.machine.layout
    # what an H200 answers with an illegal instruction, though the ISA does not say so
    if start[0] * elem % 16:
        message = f"innermost coordinate {start[0]} is {start[0] * elem} bytes: expected a multiple of 16"
        raise g.error(message, lane)
    if "bulk_group" in g.machine.kernel.code[g.pc].mods and min(start) < 0:
        raise g.error(f"store to coordinates {tuple(start)}: expected none below 0", lane)
    try:
        position, exists = tensor.elements(start, offsets)
    except EmulatorError as e:
        raise g.error(e.message, lane) from None
    heap = np.where(exists, position + base, 0).reshape(-1)
    exists = np.broadcast_to(exists, position.shape).reshape(-1)
    slot, offset = divmod(at, layout.shared_stride)
    row, column = np.divmod(np.arange(len(heap)), tensor.box[0])
    address = swizzled(offset + SHARED_BASE + row * tensor.row_bytes + column * elem, tensor.swizzle) - SHARED_BASE
    if int(address.max()) + elem > layout.shared_bytes:
        message = f"out of bounds: the box of {tensor.box_bytes} bytes at shared address {offset + SHARED_BASE:#x}"
        raise g.error(message, lane, "out-of-bounds")
    nan = int.from_bytes(b"\xf7\x7f" * (elem // 2), "little") if tensor.fill_nan else 0
    shared = slot * layout.shared_stride + address
    return Move(heap, exists, shared, elem, tensor.box_bytes, tensor.array.dtype, nan)


def _linear_moves(d: Decoder, heap: Operand, shared: Operand) -> Moves:
    far, near, count, write = d.address(heap), d.address(shared), d.source(d.ops[2], "u32"), "bulk_group" in d.mods
    dtype = d.types[-1].dtype if d.types else UNSIGNED[32]

    def moves(g: Gang) -> list[Move]:
        sizes = g.flat(full(g, count(g))).tolist()
        at = _shared_positions(g, near(g), 16)
        result: list[Move] = []
        for lane, (address, nbytes) in enumerate(zip(g.flat(far(g)).tolist(), sizes, strict=True)):
            if nbytes % 16 or address % 16:
                raise g.error(f"{nbytes} bytes at {address:#x}: expected multiples of 16", lane, "misaligned")
            access.heap_offsets(g, np.array([address]), nbytes, write=write, lane=lane)
            _in_shared(g, int(at[lane]), nbytes, lane)
            words = np.arange(0, nbytes, 4, dtype=np.int64)
            exists = np.ones(len(words), np.bool_)
            result.append(Move(address - BASE + words, exists, int(at[lane]) + words, 4, nbytes, dtype))
        return result

    return moves


def _shared_positions(g: Gang, address: Array, align: int) -> Array:
    if (g.flat(address) >= SHARED_WINDOW).any():
        _, address = access.space_of(g, address)
    access.aligned(g, g.flat(address), align, "shared ")
    return access.shared_offsets(g, address, 16)


def _in_shared(g: Gang, at: int, nbytes: int, lane: int) -> None:
    offset = at % g.machine.layout.shared_stride
    if offset + nbytes > g.machine.layout.shared_bytes:
        raise g.error(
            f"out of bounds: {nbytes} bytes at shared address {offset + SHARED_BASE:#x}", lane, "out-of-bounds"
        )


def _units(machine: Machine, positions: Array, elem: int) -> Array:
    """The hazard units of elements of shared memory: [1, units]."""
    if elem < machine.layout.unit:
        return np.unique(positions // machine.layout.unit)[None]
    return access.units_of(machine, positions, elem).reshape(1, -1)


# to shared memory, completing on an mbarrier


@instruction("cp.async.bulk", mods=_MODS)
@instruction("cp.reduce.async.bulk", mods=f"{_MODS} {' '.join(REDUCTIONS)}")
def bulk(d: Decoder) -> Step:
    """cp.async.bulk and cp.reduce.async.bulk, by where to."""
    if "mbarrier::complete_tx::bytes" in d.mods:
        return load(d)
    if "bulk_group" not in d.mods:
        raise d.error("expected .bulk_group or .mbarrier::complete_tx::bytes")
    return store(d)


def load(d: Decoder) -> Step:
    """To shared memory, of this CTA or of several, completing on an mbarrier at the same offset in each."""
    tensor, multicast, machine = "tensor" in d.mods, "multicast::cluster" in d.mods, d.machine
    before_mask = (3 if tensor else 4) + (tensor and "im2col" in d.mods)
    ops = d.operands(before_mask + multicast + ("L2::cache_hint" in d.mods))
    if "shared::cta" in d.mods and "shared::cluster" in d.mods:
        return _between_ctas(d)
    moves, barrier = _moves(d, ops[1], ops[0]), d.address(ops[2 if tensor else 3])
    mask = d.source(ops[before_mask], "b16") if multicast else None

    def step(g: Gang) -> None:
        where = mbarriers.positions(g, barrier(g)).tolist()
        masks = g.flat(full(g, mask(g))).tolist() if mask else [None] * len(where)
        for lane, move in enumerate(moves(g)):
            if hazards := machine.heap_hazards:
                hazards.read(Access.of_one(*g.who(lane), g.pc), move.units(hazards.unit))
            for shift in _targets(g, masks[lane], lane):
                _start_load(g, move, where[lane] + shift, shift, lane)
            machine.report.bulk_bytes += int(move.exists.sum()) * move.elem

    return step


def _targets(g: Gang, mask: int | None, lane: int) -> list[int]:
    """How far from this CTA's shared memory each target's lies."""
    if mask is None:
        return [0]
    size, stride = g.machine.layout.ctas_per_cluster, g.machine.layout.shared_stride
    if mask == 0 or mask >> size:
        raise g.error(f"multicast mask {mask:#x} in a cluster of {size}", lane)
    own = int(g.slots[lane]) % size
    return [(rank - own) * stride for rank in range(size) if mask >> rank & 1]


def _start_load(g: Gang, move: Move, where: int, shift: int, lane: int) -> None:
    machine, barrier, shared = g.machine, mbarriers.at_position(g, where, lane), move.shared + shift
    if machine.checks and not barrier.fenced:
        which = f"the mbarrier at {barrier.address:#x}"
        raise g.error(f"{which} was initialised with no fence.mbarrier_init or fence.proxy.async since", lane, "fence")

    def perform() -> None:
        values = machine.heap.views[move.elem][move.heap // move.elem]
        memory = machine.shared.view(values.dtype)
        memory[shared // move.elem] = np.where(move.exists, values, values.dtype.type(move.fill))

    _deliver(g, lane, barrier, "bulk write", shared, move.elem, move.nbytes, perform)


def _deliver(
    g: Gang,
    lane: int,
    barrier: MBarrier,
    what: str,
    shared: Array,
    elem: int,
    nbytes: int,
    perform: Callable[[], None],
) -> None:
    """Elements have no value until the copy happens: then they belong to the phase that the mbarrier is in."""
    machine, pc, units = g.machine, g.pc, None
    operation = machine.new_operation(pc)
    if machine.hazards:
        units = _units(machine, shared, elem)
        machine.hazards.may_write(Access.of_one(*g.who(lane), pc), units, what)
        machine.hazards.begin_async_write(units, operation)

    def fire() -> None:
        perform()
        if machine.hazards and units is not None:
            warp, time = machine.layout.warps_of(barrier.slot).start, barrier.phase + 1
            machine.hazards.end_bulk_write(units, barrier.agent, time, pc)
            barrier.carry(machine.clocks.of_agent(warp, barrier.agent, time))
        barrier.bytes -= nbytes
        mbarriers.flip(machine, barrier)

    machine.events.start(barrier.slot, machine.operations[operation], fire)


def _between_ctas(d: Decoder) -> Step:
    """From this CTA's shared memory to another's."""
    ops, machine = d.operands(4), d.machine
    target, source, barrier = d.address(ops[0]), d.address(ops[1]), d.address(ops[3])
    size = d.source(ops[2], "u32")

    def step(g: Gang) -> None:
        to, of = _shared_positions(g, target(g), 16), _shared_positions(g, source(g), 16)
        where = mbarriers.positions(g, barrier(g))
        for lane, nbytes in enumerate(g.flat(full(g, size(g))).tolist()):
            _in_shared(g, int(to[lane]), nbytes, lane)
            _in_shared(g, int(of[lane]), nbytes, lane)
            if machine.hazards:
                by = Access.of_one(*g.who(lane), g.pc)
                machine.hazards.read(by, access.units_of(machine, of[lane : lane + 1], nbytes), asynchronous=True)
            data = machine.shared[of[lane] : of[lane] + nbytes].copy()
            _send(g, data, int(to[lane]), int(where[lane]), lane)

    return step


def _send(g: Gang, data: Array, to: int, where: int, lane: int) -> None:
    """Bytes travel to shared memory, maybe of another CTA, and complete on an mbarrier there."""
    barrier, machine = mbarriers.at_position(g, where, lane), g.machine

    def perform() -> None:
        machine.shared[to : to + len(data)] = data

    _deliver(g, lane, barrier, "remote write", np.array([to]), len(data), len(data), perform)


@instruction("st.async", mods="weak shared::cluster mbarrier::complete_tx::bytes v2 v4")
def st_async(d: Decoder) -> Step:
    """st.async: registers to shared memory of the cluster, completing on an mbarrier."""
    ops, kind = d.operands(3), d.type()
    target, barrier, read = d.address(ops[0]), d.address(ops[2]), d.sources(ops[1], f"b{kind.bits}")

    def step(g: Gang) -> None:
        values = np.moveaxis(read(g), 1, 2)[g.mask]
        to = access.shared_offsets(g, target(g), kind.bytes * values.shape[1])
        where = mbarriers.positions(g, barrier(g))
        for lane in range(len(to)):
            _send(g, values[lane].view(np.uint8), int(to[lane]), int(where[lane]), lane)

    return step


# from shared memory, in groups


def store(d: Decoder) -> Step:
    """From shared memory to global, in the lane's open group."""
    d.operands((2 if "tensor" in d.mods else 3) + ("L2::cache_hint" in d.mods))
    moves, reduction = _moves(d, d.ops[0], d.ops[1]), REDUCTIONS.get(d.choice(REDUCTIONS))

    def step(g: Gang) -> None:
        for lane, move in enumerate(moves(g)):
            _start_store(g, move, lane, reduction)
            g.machine.report.bulk_bytes += int(move.exists.sum()) * move.elem

    return step


def _start_store(g: Gang, move: Move, lane: int, reduction: np.ufunc | None) -> None:
    machine, key, pc = g.machine, g.who(lane), g.pc
    queue = machine.part(Stores)
    queue.numbers[key[0]] += 1
    number = queue.numbers[key[0]]
    if machine.hazards:
        units, agent = _units(machine, move.shared, move.elem), queue.agent(key[0])
        machine.hazards.read(Access.of_one(*key, g.pc), units, agent=agent, time=number, asynchronous=True)

    def perform() -> None:
        memory = machine.heap.views[move.elem]
        values = machine.shared.view(memory.dtype)[move.shared // move.elem][move.exists]
        index = (move.heap // move.elem)[move.exists]
        if reduction:
            total = reduction(memory[index].view(move.dtype), values.view(move.dtype))
            values = canonical(total.astype(move.dtype)).view(memory.dtype)
        if hazards := machine.heap_hazards:
            by = Access.of_one(*key, pc, strong=reduction is not None)
            hazards.write(by, move.units(hazards.unit), lambda _: np.array([[(memory[index] == values).all()]]))
        memory[index] = values
        machine.heap.mark_written(move.heap[move.exists], move.elem)

    what = machine.operations[machine.new_operation(g.pc)]
    queue.groups.open[key].append(Store(number, g.pc, what, perform))


@instruction("cp.async.bulk.commit_group")
def commit(d: Decoder) -> Step:
    """cp.async.bulk.commit_group."""

    def step(g: Gang) -> None:
        for key in zip(g.lane_warps.tolist(), g.lanes.tolist(), strict=True):
            g.machine.part(Stores).groups.commit(key)

    return step


@instruction("cp.async.bulk.wait_group", mods="read")
def wait(d: Decoder) -> Step:
    """cp.async.bulk.wait_group, with `.read` or without: all but the last n groups have read their source."""
    keep = d.constant(d.operands(1)[0])

    def step(g: Gang) -> None:
        queue = g.machine.part(Stores)
        for key in zip(g.lane_warps.tolist(), g.lanes.tolist(), strict=True) if queue.groups.committed else ():
            if done := queue.groups.due(key, keep):
                queue.finish(key[0], done)
            queue.groups.drop(key, keep)

    return step
