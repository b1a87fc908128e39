"""Tensor maps that kernels make in memory (PTX ISA: tensormap.replace, tensormap.cp_fenceproxy, fence.proxy.tensormap).

A map is 128 bytes, of which the ISA does not say where its fields are: here as in MAP. A kernel changes the fields of a
copy, in shared memory as a rule, copies it to global memory, and may use it there behind a fence of the proxy that
reads maps, by its own block.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from graphfuse.gpu.emulator import access
from graphfuse.gpu.emulator.decode import Decoder, full, instruction
from graphfuse.gpu.emulator.errors import EmulatorError
from graphfuse.gpu.emulator.gang import Gang, Step
from graphfuse.gpu.emulator.hazards import Access
from graphfuse.gpu.emulator.heap import BASE
from graphfuse.gpu.emulator.instructions.control import all_converged, no_step
from graphfuse.gpu.emulator.tensormap import SWIZZLES, TensorMap
from graphfuse.gpu.emulator.types import Array

BYTES, RANK = 128, 5
_NUMBERS = ("box_dim", "global_dim", "element_stride")
_KINDS = ("rank", "elemtype", "interleave_layout", "swizzle_mode", "fill_mode")
MAP = np.dtype([
    ("global_address", "u8"), ("global_stride", "u8", RANK - 1), *((name, "u4", RANK) for name in _NUMBERS),
    *((name, "u4") for name in _KINDS), ("", "u1", 8),
])  # fmt: skip
"""The fields that are replaced, by their names."""
assert MAP.itemsize == BYTES
_TYPES = ("u1", "u2", "u4", "i4", "u8", "i8", "f2", "f4", "f4", "f8", ml_dtypes.bfloat16, "f4", "f4")
"""By the number that stands for each."""


@instruction("tensormap.replace", mods=f"tile global shared::cta b1024 {' '.join(MAP.names or ())}")
def replace(d: Decoder) -> Step:
    """tensormap.replace: one field, of one dimension where there are several."""
    field = d.choice(MAP.names or ())
    ops = d.operands(3 if MAP[field].shape else 2)
    address, value = d.address(ops[0]), d.source(ops[-1], d.type())
    number = d.constant(ops[1]) if MAP[field].shape else 0
    if number >= (MAP[field].shape or (1,))[0]:
        raise d.error(f"dimension {number}: there are {MAP[field].shape[0]}")
    space = _space(d)

    def step(g: Gang) -> None:
        where, memory, index, at = access.locate(
            g, space, address(g), 8, BYTES // 8, write=True, strong=False, counted=False
        )
        for row, to in zip(index, g.flat(full(g, value(g))), strict=True):
            made = memory[row].view(MAP)
            np.atleast_1d(made[field][0] if MAP[field].shape else made[field])[number] = to
            memory[row] = made.view(memory.dtype)
        if where == "global":
            _written(g, at)

    return step


def _space(d: Decoder) -> str:
    return "shared" if "shared::cta" in d.mods else d.choice(("global",), "generic")


def _written(g: Gang, at: Array) -> None:
    """Maps in global memory have changed: nobody may use them yet."""
    g.machine.heap.mark_written(at, BYTES)
    access.touch_heap(g, at, BYTES, strong=False)
    for place in at.tolist():
        g.machine.made_maps[place] = set()


@instruction(
    "tensormap.cp_fenceproxy", mods="global shared::cta tensormap::generic release cta cluster gpu sys sync aligned"
)
def copy(d: Decoder) -> Step:
    """tensormap.cp_fenceproxy: a warp, which waits for all of its lanes, copies a map from shared memory to global."""
    ops = d.operands(3)
    target, source = d.address(ops[0]), d.address(ops[1])

    def step(g: Gang) -> None:
        all_converged(g, or_none=True)
        machine, saved = g.machine, g.state()
        if machine.hazards:
            for row, warp in enumerate(g.warps.tolist()):
                if g.mask[row].any():
                    machine.clocks.meet(warp, g.mask[row], machine.live_lanes[warp])
        first = g.mask & (np.cumsum(g.mask, axis=1) == 1)
        g.restrict(first)
        _, shared, read, _ = access.locate(
            g, "shared", source(g), 8, BYTES // 8, write=False, strong=False, counted=False
        )
        _, heap, write, at = access.locate(
            g, "global", target(g), 8, BYTES // 8, write=True, strong=False, counted=False
        )
        _written(g, at)
        heap[write] = shared[read]
        g.restore(saved)

    return step


@instruction("fence.proxy.tensormap::generic", mods="acquire release cta cluster gpu sys")
def fence(d: Decoder) -> Step:
    """fence.proxy.tensormap: a block may use a map from now on; what is released here was ordered before."""
    if "acquire" not in d.mods:
        return no_step
    address = d.address(d.operands(2)[0])

    def step(g: Gang) -> None:
        machine = g.machine
        for at, slot in zip(g.flat(address(g)).tolist(), g.slots.tolist(), strict=True):
            place = at - BASE
            if place in machine.made_maps:
                machine.made_maps[place].add(machine.ctas[int(slot)])

    return step


def made_map(g: Gang, lane: int, address: int) -> tuple[TensorMap, int]:
    """The map that a kernel made at an address of global memory, and where its first element is."""
    machine = g.machine
    at = access.heap_offsets(g, np.array([address]), BYTES, write=False, lane=lane)
    if hazards := machine.heap_hazards:
        hazards.read(Access.of_one(*g.who(lane), g.pc), hazards.units(at, BYTES))
    place = int(at[0])
    if machine.checks and machine.ctas[int(g.slots[lane])] not in machine.made_maps[place]:
        message = "the tensor map was written in this launch, with no fence.proxy.tensormap acquire of this block since"
        raise g.error(message, lane, "fence")
    fields = machine.heap.data[place : place + BYTES].view(MAP)[0]
    start = int(fields["global_address"]) - BASE
    region = machine.heap.region_at(start) if start >= 0 else None
    if region is None:
        raise g.error("the tensor map's global_address is near no buffer", lane, "out-of-bounds")
    try:
        tensor = _decoded(fields)
    except EmulatorError as e:
        raise g.error(e.message, lane) from None
    spans = zip(tensor.dims, (tensor.elem_bytes, *tensor.strides), strict=True)
    end = start + sum((n - 1) * stride for n, stride in spans) + tensor.elem_bytes
    if end > region.end:
        message = f"out of bounds: the tensor map ends {end - region.end} bytes behind {region.name}"
        raise g.error(message, lane, "out-of-bounds")
    return tensor, start


def _decoded(fields: np.void) -> TensorMap:
    """A TensorMap of no array. Raises EmulatorError."""
    rank, elem, swizzle = int(fields["rank"]) + 1, int(fields["elemtype"]), int(fields["swizzle_mode"])
    if elem >= len(_TYPES) or swizzle >= len(SWIZZLES) or fields["interleave_layout"]:
        raise EmulatorError(
            f"tensor map: elemtype {elem}, swizzle_mode {swizzle}, interleave_layout {fields['interleave_layout']}: "
            f"expected less than {len(_TYPES)}, less than {len(SWIZZLES)}, 0"
        )
    box, dims, steps = (tuple(fields[name][:rank].tolist()) for name in _NUMBERS)
    return TensorMap(
        np.empty(0, _TYPES[elem]), box, SWIZZLES[swizzle], dims, tuple(fields["global_stride"][: rank - 1].tolist()),
        steps, fill_nan=bool(fields["fill_mode"]),
    )  # fmt: skip
