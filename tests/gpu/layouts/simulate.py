"""What a plan of a layout conversion does, on arrays: the specification that its lowering is held to."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphfuse.gpu.analysis.memory_access import SharedAccess
from graphfuse.gpu.convert import Barrier, Conversion, Exchange, Gather, Load, Rename, Store
from graphfuse.ir.layout import LANE, REGISTER, WARP, LinearLayout

Array = np.ndarray[Any, Any]


def flat_array(layout: LinearLayout, **inputs: Any) -> Any:
    """`layout.flat` for integer arrays that broadcast together."""
    total: Any = 0
    for name, bases in layout.ins:
        x = inputs.get(name, 0)
        for i, base in enumerate(bases):
            total = total ^ (x >> i & 1) * base
    return total


def simulate(conversion: Conversion, values: Array) -> Array:
    """Run a plan on an array [warp, lane, register]; reading scratch that nobody wrote is an error."""
    source, target = conversion.source, conversion.target
    assert values.shape == _hardware_shape(source), f"{values.shape} is not {_hardware_shape(source)}"
    memory = np.zeros(1 << target.out_bits, values.dtype)
    written = np.zeros(memory.shape, np.bool_)
    visible = written.copy()
    for step in conversion.steps:
        match step:
            case Rename(sources):
                values = values[:, :, list(sources)]
            case Exchange(register, lane):
                values = _exchange(values, register, lane)
            case Gather(where):
                values = _gather(values, where)
            case Store(access, free_lanes, free_warps):
                _store(memory, written, values, access, free_lanes, free_warps)
            case Barrier():
                visible = written.copy()
            case Load(access):
                at = _offsets(access, *_hardware_shape(target)[:2])
                assert visible[at].all(), "scratch is read before it is written"
                values = memory[at]
    return values


def _hardware_shape(layout: LinearLayout) -> tuple[int, int, int]:
    return layout.size(WARP), layout.size(LANE), layout.size(REGISTER)


def _exchange(values: Array, register_bit: int, lane_bit: int) -> Array:
    lanes, registers = np.arange(values.shape[1]), np.arange(values.shape[2])
    high = (lanes >> lane_bit & 1).astype(bool)
    out = values.copy()
    for r in registers[registers >> register_bit & 1 == 0]:
        v0, v1 = values[:, :, r], values[:, :, r | 1 << register_bit]
        got = np.where(high, v0, v1)[:, lanes ^ 1 << lane_bit]
        out[:, :, r], out[:, :, r | 1 << register_bit] = np.where(high, got, v0), np.where(high, v1, got)
    return out


def _gather(values: Array, where: LinearLayout) -> Array:
    warps = np.arange(values.shape[0])[:, None, None]
    lanes = np.arange(values.shape[1])[None, :, None]
    registers = np.arange(where.size(REGISTER))[None, None, :]
    at = flat_array(where, warp=warps, lane=lanes, register=registers) + 0 * (warps + lanes + registers)
    bits = dict(where.outs).get(REGISTER, 0)
    return values[warps, at >> bits, at & (1 << bits) - 1]


def _offsets(access: SharedAccess, warps: int, lanes: int) -> Array:
    w, lane = np.arange(warps)[:, None, None], np.arange(lanes)[None, :, None]
    r = np.arange(access.offsets.size(REGISTER))[None, None, :]
    for group in access.groups:
        start = flat_array(access.offsets, warp=w, lane=lane, register=group[0])
        assert np.all(start % len(group) == 0), "a vector is not aligned"
        for i, register in enumerate(group):
            got = flat_array(access.offsets, warp=w, lane=lane, register=register)
            assert np.array_equal(got, start + i), "a vector is not contiguous"
    return flat_array(access.offsets, warp=w, lane=lane, register=r) + 0 * (w + lane + r)


def _store(
    memory: Array, written: Array, values: Array, access: SharedAccess, free_lanes: int, free_warps: int
) -> None:
    warps, lanes, _ = values.shape
    stores = (np.arange(warps)[:, None] & free_warps == 0) & (np.arange(lanes)[None, :] & free_lanes == 0)
    at = _offsets(access, warps, lanes)[stores]
    assert np.unique(at).size == at.size, "an element is stored twice"
    memory[at] = values[stores]
    written[at] = True
