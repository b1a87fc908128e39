"""`ldmatrix`: a warp's registers as 8x8 matrices of 16 bits, where layouts have that pattern."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from graphfuse.gpu.convert import swizzle
from graphfuse.gpu.kernel import Kernel, places
from graphfuse.gpu.shared_access import shared_offset
from graphfuse.gpu.words import scatter_words
from graphfuse.ir.layout import LANE, OFFSET, REGISTER, WARP, Echelon, LinearLayout
from graphfuse.llvm.module import Reg


@dataclass(frozen=True, slots=True)
class Matrices:
    """A warp's registers as 8x8 matrices of 16 bits: where lanes find rows, and how registers fill words."""

    rows: LinearLayout
    """To offsets: lane bits 0-2 are the row of a matrix, 3 and 4 which of `count`; register bits the instructions."""
    count: int
    """Matrices of one instruction."""
    packed: int
    """Register bits within a word; above them, those of the matrices of an instruction, then `rows`' own."""
    transposed: bool
    parts: int = 1
    """Loads that each take as many of the instructions."""


def matrix_pattern(offsets: LinearLayout, bits: int, own: int | None = None) -> Matrices | None:
    """How `ldmatrix` loads what lies at `offsets` (elements); None where it cannot.

    The register bits from `own` on, if it is given, tell parts apart that are loaded one by one.

    Lane l gets 32 bits of row l / 4 of a matrix whose rows are 16 contiguous bytes (PTX ISA, "ldmatrix"); transposed,
    16-bit elements only, two of column l / 4.
    """
    registers, lanes = offsets.bases(REGISTER), offsets.bases(LANE)
    own = len(registers) if own is None else own
    packed = (32 // bits).bit_length() - 1 if bits <= 32 else -1
    if packed < 0 or own < packed or len(lanes) != 5:
        return None
    unit = packed + 2
    inner, rest = [*registers[:packed], *lanes[:2]], [*lanes[2:]]
    transposed = False
    if inner != [1 << i for i in range(unit)]:
        inner, rest = [*lanes[2:]], [*registers[:packed], *lanes[:2]]
        transposed = True
        if bits != 16 or inner != [1, 2, 4]:
            return None
    others = [*rest, *registers[packed:], *offsets.bases(WARP)]
    if any(b & (1 << unit) - 1 for b in others):
        return None
    matrices = registers[packed : min(packed + 2, own)]
    ins = {
        LANE: [*rest, *matrices, *[0] * (2 - len(matrices))],
        WARP: offsets.bases(WARP),
        REGISTER: registers[packed + len(matrices) :],
    }
    rows = LinearLayout.of(ins, {OFFSET: offsets.out_bits})
    return Matrices(rows, 1 << len(matrices), packed, transposed, 1 << len(registers) - own)


def load_matrices(kernel: Kernel, base: Reg, pattern: Matrices, size: int, type_: str, part: int = 0) -> list[Reg]:
    """One instruction for up to four matrices of a part."""
    n = pattern.count
    trans = ".trans" if pattern.transposed else ""
    out: list[Reg] = []
    instructions = pattern.rows.size(REGISTER) // pattern.parts
    for r in range(part * instructions, (part + 1) * instructions):
        at, constant = shared_offset(kernel, pattern.rows, r, size)
        address = base if at is None else kernel.operate("add", base, at)
        load = f"ldmatrix.sync.aligned.m8n8.x{n}{trans}.shared.b16 {{{places(0, n)}}}, [${n}+{constant}];"
        for word in kernel.assembly(load, address, gives=["i32"] * n):
            out += scatter_words(kernel, [word], 1 << pattern.packed, type_)
    return out


def memory_for_matrices(source: LinearLayout, target: LinearLayout, bits: int) -> LinearLayout | None:
    """A memory layout that threads of `source` write in vectors of 16 bytes and `target` reads with `ldmatrix`.

    Neither has bank conflicts. Both are without copies within a thread; None where it cannot be.
    """
    held = Echelon(source.bases(REGISTER))
    for rows in _row_layouts(target, bits):
        if any(base not in held for base in rows.bases(REGISTER)):
            continue
        memory = swizzle(source, rows, bits)
        if matrix_pattern(target.through(memory), bits):
            return memory
    return None


def _row_layouts(target: LinearLayout, bits: int) -> Iterator[LinearLayout]:
    """What lanes name when matrices are loaded, as is and transposed: registers are a row, lanes the rows of four."""
    registers, lanes = target.bases(REGISTER), target.bases(LANE)
    packed = (32 // bits).bit_length() - 1 if bits <= 32 else -1
    if packed < 0 or len(registers) < packed or len(lanes) != 5:
        return
    near, far = [*registers[:packed], *lanes[:2]], [*lanes[2:]]
    for row, rows in ((near, far), (far, near)) if bits == 16 else ((near, far),):
        more = [*registers[packed : packed + 2], 0, 0][:2]
        ins = {REGISTER: row, LANE: [*rows, *more], WARP: target.bases(WARP)}
        yield LinearLayout.of(ins, dict(target.outs))
