"""mma.sync, ldmatrix, stmatrix, movmatrix (PTX ISA 9.7.14): fragments as the ISA's tables have them.

Products are exact and summed in f32 in no particular order; the machine truncates more (fp8 sums keep 14 bits).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from graphfuse.gpu.emulator import access
from graphfuse.gpu.emulator.decode import Decoder, Source, full
from graphfuse.gpu.emulator.gang import LANES, Gang, Step
from graphfuse.gpu.emulator.instructions.control import converged
from graphfuse.gpu.emulator.machine import Machine
from graphfuse.gpu.emulator.types import Array, PtxType

_LANE = np.arange(LANES)


@dataclass(frozen=True, slots=True)
class Fragment:
    """Where each element of a warp's registers sits in a matrix: `row`, `column` are [registers, lanes, elements]."""

    row: Array
    column: Array
    shape: tuple[int, int]


def fragment_a(k: int, bits: int, registers: int) -> Fragment:
    """A, 16 x k: 32-bit registers alternate between rows g and g + 8, then go on along k."""
    per = 32 // bits
    r, lane, e = np.ogrid[0:registers, 0:LANES, 0:per]
    row = lane // 4 + 8 * (r & 1) + 0 * e
    column = lane % 4 * per + e + 4 * per * (r >> 1)
    return Fragment(row, column, (16, k))


def fragment_b(k: int, bits: int, registers: int) -> Fragment:
    """B, k x 8, as [n, k]: registers go on along k."""
    per = 32 // bits
    r, lane, e = np.ogrid[0:registers, 0:LANES, 0:per]
    return Fragment(lane // 4 + 0 * r + 0 * e, lane % 4 * per + e + 4 * per * r, (8, k))


def fragment_c(columns: int) -> Fragment:
    """C and D, 16 x columns, one number each: pairs along a row, rows g and g + 8, then the next 8 columns."""
    index, lane = np.ogrid[0 : columns // 2, 0:LANES]
    row = lane // 4 + 8 * (index >> 1 & 1)
    column = lane % 4 * 2 + (index & 1) + 8 * (index >> 2)
    return Fragment(row, column, (16, columns))


def numbers(bits: Array, kind: PtxType) -> Array:
    """Bits of an operand as what the multiplier sees: f32, or int32. tf32 ignores 13 bits."""
    if kind.name == "tf32":
        return (bits.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    values = bits.view(kind.dtype)
    return values.astype(np.float32) if kind.is_float else values.astype(np.int32)


def matrix(registers: Array, fragment: Fragment, kind: PtxType) -> Array:
    """Matrices [warps, rows, columns] from registers [warps, registers, lanes]."""
    values = numbers(np.ascontiguousarray(registers)[..., None], kind)
    out = np.zeros((len(registers), *fragment.shape), values.dtype)
    out[:, fragment.row, fragment.column] = values
    return out


def mma(d: Decoder) -> Step:
    """mma.sync.aligned.m16n8kK.row.col."""
    shape = next((re.fullmatch(r"m(\d+)n(\d+)k(\d+)", m) for m in d.mods if m.startswith(("m1", "m8"))), None)
    if not shape or shape[1] != "16" or shape[2] != "8":
        raise d.error("only m16n8k* is emulated")
    d.only(("sync", "aligned", "row", "col", "satfinite", shape[0]))
    k = int(shape[3])
    to, of_a, of_b, of_c = d.types
    if (k * of_a.bits) not in (128, 256) or of_a.bits != of_b.bits:
        raise d.error("not a shape of these types")
    ops = d.operands(4)
    a, b, c = ([d.source(o, "b32") for o in d.vector(op)] for op in ops[1:])
    puts = [d.sink(o) for o in d.vector(ops[0])]
    expected = (to.bits // 8, k * of_a.bits // 64, k * of_a.bits // 128, of_c.bits // 8)
    found = (len(puts), len(a), len(b), len(c))
    if found != expected:
        raise d.error(f"{', '.join(map(str, found))} registers: expected {', '.join(map(str, expected))}")
    shape_a, shape_b, shape_c = fragment_a(k, of_a.bits, len(a)), fragment_b(k, of_b.bits, len(b)), fragment_c(8)
    machine, saturate = d.machine, "satfinite" in d.mods

    def step(g: Gang) -> None:
        for row in range(len(g)):
            converged(machine, g, row, g.mask[row])
        left = matrix(_stack(g, a), shape_a, of_a)
        right = matrix(_stack(g, b), shape_b, of_b)
        total = multiply(left, right)[:, shape_c.row, shape_c.column]
        total = add_accumulator(total, unpack(_stack(g, c), of_c), saturate=saturate)
        registers = pack(total, to)
        for r, put in enumerate(puts):
            put(g, registers[:, r])
        count_flops(machine, of_a, len(g) * 2 * 16 * 8 * k)

    return step


def _stack(g: Gang, reads: list[Source]) -> Array:
    return np.stack([full(g, r(g)) for r in reads], axis=1)


def multiply(a: Array, b: Array) -> Array:
    """a @ b.T, in f32; integers exactly."""
    if a.dtype == np.float32:
        return np.matmul(a, b.swapaxes(-1, -2))
    return np.matmul(a.astype(np.float64), b.astype(np.float64).swapaxes(-1, -2)).astype(np.int64)


def add_accumulator(total: Array, accumulator: Array, *, saturate: bool) -> Array:
    """The sum with C; int32 wraps or saturates."""
    if total.dtype == np.float32:
        return total + accumulator
    result = total + accumulator
    limits = np.iinfo(np.int32)
    return np.clip(result, limits.min, limits.max) if saturate else result


def unpack(registers: Array, kind: PtxType) -> Array:
    """Accumulator registers [..., registers, lanes] as one number each; f16 come in pairs."""
    if kind.bits == 16:
        halves = np.ascontiguousarray(registers)[..., None].view(kind.dtype).astype(np.float32)
        moved = np.moveaxis(halves, -1, -2)
        return moved.reshape(*registers.shape[:-2], -1, LANES)
    return registers.view(np.float32) if kind.is_float else registers.view(np.int32).astype(np.int64)


def pack(values: Array, kind: PtxType) -> Array:
    """The inverse of `unpack`."""
    if kind.bits == 16:
        halves = values.astype(kind.dtype)
        pairs = halves.reshape(*values.shape[:-2], values.shape[-2] // 2, 2, LANES)
        return np.ascontiguousarray(np.moveaxis(pairs, -2, -1)).view(np.uint32)[..., 0]
    if kind.is_float:
        return values.astype(np.float32).view(np.uint32)
    return values.astype(np.int32).view(np.uint32)


def count_flops(machine: Machine, kind: PtxType, flops: int) -> None:
    """For the roofline, by operand type."""
    name = {"e5m2": "e4m3", "u8": "s8"}.get(kind.name, kind.name)
    machine.report.flops[name] = machine.report.flops.get(name, 0.0) + flops


# 8 x 8 matrices of 16-bit elements


def _count_of(d: Decoder) -> int:
    d.only(("sync", "aligned", "m8n8", "x1", "x2", "x4", "trans", "shared", "shared::cta"))
    if "m8n8" not in d.mods or d.type().name != "b16":
        raise d.error("only .m8n8 of .b16 is emulated")
    return next((n for n in (1, 2, 4) if f"x{n}" in d.mods), 1)


def ldmatrix(d: Decoder) -> Step:
    """ldmatrix: lane 8q + r gives the address of row r of matrix q.

    Lane l gets elements 2(l % 4) and the next of row l / 4.
    """
    count = _count_of(d)
    ops = d.operands(2)
    puts, address, machine = [d.sink(o) for o in d.vector(ops[0])], d.address(ops[1]), d.machine
    if len(puts) != count:
        raise d.error(f"{len(puts)} registers: expected {count}")
    transposed = "trans" in d.mods

    def step(g: Gang) -> None:
        rows = _rows(machine, g, address(g), count, None)
        cells = rows.view(np.uint16).reshape(len(g), count, 8, 8)
        if transposed:
            cells = cells.swapaxes(2, 3)
        words = np.ascontiguousarray(cells).view(np.uint32).reshape(len(g), count, LANES)
        for q, put in enumerate(puts):
            put(g, words[:, q])

    return step


def stmatrix(d: Decoder) -> Step:
    """stmatrix: the inverse of ldmatrix."""
    count = _count_of(d)
    ops = d.operands(2)
    reads, address, machine = [d.source(o, "b32") for o in d.vector(ops[1])], d.address(ops[0]), d.machine
    if len(reads) != count:
        raise d.error(f"{len(reads)} registers: expected {count}")
    transposed = "trans" in d.mods

    def step(g: Gang) -> None:
        cells = np.ascontiguousarray(_stack(g, reads)).view(np.uint16).reshape(len(g), count, 8, 8)
        if transposed:
            cells = np.ascontiguousarray(cells.swapaxes(2, 3))
        _rows(machine, g, address(g), count, cells.view(np.uint64).reshape(len(g) * count * 8, 2))

    return step


def _rows(machine: Machine, g: Gang, address: Array, count: int, values: Array | None) -> Array:
    """Load, or store, 16 bytes at the addresses of the first 8 * count lanes."""
    for row in range(len(g)):
        converged(machine, g, row, g.mask[row])
    saved = g.state()
    g.restrict(np.broadcast_to(8 * count > _LANE, g.mask.shape).copy())
    # shared addresses may come generic; both look alike below the windows
    if values is None:
        values = access.load(machine, g, "shared", address, 8, 2, strong=False)
    else:
        access.store(machine, g, "shared", address, values, strong=False)
    g.restore(saved)
    return np.ascontiguousarray(values)


def movmatrix(d: Decoder) -> Step:
    """movmatrix: an 8 x 8 matrix transposed across lanes."""
    d.only(("sync", "aligned", "m8n8", "trans"))
    to, of = d.operands(2)
    read, put, machine = d.source(of, "b32"), d.sink(to), d.machine

    def step(g: Gang) -> None:
        for row in range(len(g)):
            converged(machine, g, row, g.mask[row])
        cells = np.ascontiguousarray(full(g, read(g))).view(np.uint16).reshape(len(g), 8, 8)
        put(g, np.ascontiguousarray(cells.swapaxes(1, 2)).view(np.uint32).reshape(len(g), LANES))

    return step


TABLE = {"mma": mma, "ldmatrix": ldmatrix, "stmatrix": stmatrix, "movmatrix": movmatrix}
