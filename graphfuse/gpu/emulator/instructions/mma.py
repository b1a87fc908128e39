"""mma.sync, ldmatrix, stmatrix, movmatrix (PTX ISA 9.7.14): fragments as the ISA's tables have them.

Products are exact and summed in f32 in no particular order; the machine truncates more (fp8 sums keep 14 bits).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from graphfuse.gpu.emulator import access
from graphfuse.gpu.emulator.decode import Decoder, instruction
from graphfuse.gpu.emulator.gang import LANES, Gang, Step
from graphfuse.gpu.emulator.instructions.control import all_converged
from graphfuse.gpu.emulator.types import Array, PtxType


@dataclass(frozen=True, slots=True)
class Fragment:
    """Where each element of a warp's registers sits in a matrix: `row`, `column` are [registers, lanes, elements]."""

    row: Array
    column: Array
    shape: tuple[int, int]


def fragment(rows: int, k: int, bits: int, registers: int) -> Fragment:
    """A, 16 x k, or B, k x 8, as [n, k]: 32-bit registers go on along k, those of A by turns in rows g and g + 8."""
    per, pairs = 32 // bits, int(rows == 16)
    r, lane, e = np.ogrid[0:registers, 0:LANES, 0:per]
    row = lane // 4 + 8 * (r & pairs) + 0 * e
    column = lane % 4 * per + e + 4 * per * (r >> pairs)
    return Fragment(row, column, (rows, k))


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


@instruction("mma", mods=r"m\d+n\d+k\d+ sync aligned row col satfinite")
def mma(d: Decoder) -> Step:
    """mma.sync.aligned.m16n8kK.row.col."""
    shape = next((found for m in d.mods if (found := re.fullmatch(r"m16n8k(\d+)", m))), None)
    if not shape:
        raise d.error("only m16n8k* is emulated")
    k = int(shape[1])
    to, of_a, of_b, of_c = d.types
    if (k * of_a.bits) not in (128, 256) or of_a.bits != of_b.bits:
        raise d.error("not a shape of these types")
    ops = d.operands(4)
    a, b, c = (d.sources(op, "b32") for op in ops[1:])
    puts = [d.sink(o) for o in d.vector(ops[0])]
    expected = (to.bits // 8, k * of_a.bits // 64, k * of_a.bits // 128, of_c.bits // 8)
    found = tuple(len(d.vector(op)) for op in ops)
    if found != expected:
        raise d.error(f"{', '.join(map(str, found))} registers: expected {', '.join(map(str, expected))}")
    shape_a, shape_b = fragment(16, k, of_a.bits, found[1]), fragment(8, k, of_b.bits, found[2])
    shape_c, saturate = fragment_c(8), "satfinite" in d.mods

    def step(g: Gang) -> None:
        all_converged(g)
        left, right = matrix(a(g), shape_a, of_a), matrix(b(g), shape_b, of_b)
        total = multiply(left, right)[:, shape_c.row, shape_c.column]
        registers = pack(add_accumulator(total, unpack(c(g), of_c), saturate=saturate), to)
        for r, put in enumerate(puts):
            put(g, registers[:, r])
        count_flops(g, of_a, 2 * 16 * 8 * k)

    return step


def multiply(a: Array, b: Array) -> Array:
    """a @ b.T, in f32; integers exactly."""
    if a.dtype == np.float32:
        return np.matmul(a, b.swapaxes(-1, -2))
    return np.matmul(a.astype(np.float64), b.astype(np.float64).swapaxes(-1, -2)).astype(np.int64)


def add_accumulator(total: Array, accumulator: Array, *, saturate: bool) -> Array:
    """The sum with C; int32 wraps or saturates."""
    result = total + accumulator
    limits = np.iinfo(np.int32)
    return np.clip(result, limits.min, limits.max) if saturate and total.dtype != np.float32 else result


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
    return values.astype(np.float32 if kind.is_float else np.int32).view(np.uint32)


def count_flops(g: Gang, kind: PtxType, per_warp: int) -> None:
    """For the roofline, by operand type."""
    g.machine.report.count_flops({"e5m2": "e4m3", "u8": "s8"}.get(kind.name, kind.name), len(g) * per_warp)


# 8 x 8 matrices of 16-bit elements: lane l has elements 2(l % 4) and the next of row l / 4


def _cells(g: Gang, words: Array, *, transposed: bool) -> Array:
    """Registers [warps, matrices, lanes] as matrices, or matrices as registers: the same bits."""
    cells = np.ascontiguousarray(words).view(np.uint16).reshape(len(g), -1, 8, 8)
    return np.ascontiguousarray(cells.swapaxes(2, 3)) if transposed else cells


@instruction("ldmatrix", "stmatrix", mods="sync aligned m8n8 x1 x2 x4 trans shared shared::cta")
def move_matrices(d: Decoder) -> Step:
    """ldmatrix, stmatrix: lane 8q + r gives the address of row r of matrix q."""
    if "m8n8" not in d.mods or d.type().name != "b16":
        raise d.error("only .m8n8 of .b16 is emulated")
    count, transposed = int(d.choice(("x1", "x2", "x4"), "x1")[1]), "trans" in d.mods
    ops, loads = d.operands(2), d.name == "ldmatrix"
    registers = ops[0 if loads else 1]
    if len(d.vector(registers)) != count:
        raise d.error(f"{len(d.vector(registers))} registers: expected {count}")
    address = d.address(ops[1 if loads else 0])
    puts = [d.sink(o) for o in d.vector(registers)] if loads else []
    read = None if loads else d.sources(registers, "b32")
    addressing = np.arange(LANES) < 8 * count

    def step(g: Gang) -> None:
        all_converged(g)
        saved = g.state()
        values = _cells(g, read(g), transposed=transposed).view(np.uint64).reshape(-1, 2) if read else None
        g.restrict(np.broadcast_to(addressing, g.mask.shape).copy())
        # shared addresses may come generic; both look alike below the windows
        if values is None:
            values = access.load(g, "shared", address(g), 8, 2, strong=False)
        else:
            access.store(g, "shared", address(g), values, strong=False)
        g.restore(saved)
        if not loads:
            return
        words = _cells(g, values, transposed=transposed).view(np.uint32).reshape(len(g), count, LANES)
        for q, put in enumerate(puts):
            put(g, words[:, q])

    return step


@instruction("movmatrix", mods="sync aligned m8n8 trans")
def movmatrix(d: Decoder) -> Step:
    """movmatrix: an 8 x 8 matrix transposed across lanes."""
    to, of = d.operands(2)
    read, put = d.sources(of, "b32"), d.sink(to)

    def step(g: Gang) -> None:
        all_converged(g)
        put(g, _cells(g, read(g), transposed=True).view(np.uint32).reshape(len(g), LANES))

    return step
