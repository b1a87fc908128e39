"""Layouts of products: which instruction computes one, how warps share it, what its operands must look like.

Tensor cores (`mma.sync` m16n8) take f16, bf16, fp8 (as f16, which holds every fp8 number), 8-bit integers, and f32
where `precision` allows tf32. Everything else is fused multiply-adds on boxes of the accumulator.

Dims in front of the matrices belong to warps as far as tensor cores leave any over, then to registers: every thread
holds whole matrices' parts, one after another, and the products are made one by one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from graphfuse.dialects import block, gpu
from graphfuse.ir.core import Op, Trait, Value, attr_int, tile_of
from graphfuse.ir.layout import LANE, REGISTER, WARP, LinearLayout, log2, tile_outs
from graphfuse.ir.layout_families import Blocked, Mma, Operand
from graphfuse.ir.types import BF16, F16, F32, I32, Scalar

_MMA: dict[str, Scalar] = {
    "f16": F16, "bf16": BF16, "f8e4m3": F16, "f8e5m2": F16, "i8": Scalar("i8"), "u8": Scalar("u8"), "f32": F32,
}  # fmt: skip
"""Operand elements of tensor-core products, and what they are multiplied as."""


def instruction_elem(op: Op) -> Scalar | None:
    """What tensor cores multiply this product's operands as; None where they do not."""
    a, b, acc = (tile_of(v) for v in (*op.operands[:2], op.result))
    multiplied = _MMA.get(a.elem.name)
    if multiplied is None or (a.elem != b.elem and {a.elem.name, b.elem.name} - {"i8", "u8", "f8e4m3", "f8e5m2"}):
        return None
    if multiplied.is_integer != (acc.elem == I32) or (multiplied.is_float and acc.elem not in (F32, F16, BF16)):
        return None
    if multiplied.is_integer != (_MMA.get(b.elem.name, F16).is_integer):
        return None
    if multiplied == F32 and (op.attrs.get("precision", "ieee") == "ieee" or acc.elem != F32):
        return None
    (m, n), k = acc.padded_shape[-2:], a.padded_shape[-1]
    return multiplied if m >= 16 and n >= 8 and k >= depth(multiplied) else None


def depth(elem: Scalar) -> int:
    """How far along k one instruction goes."""
    return 256 // elem.bits


def accumulator_layout(op: Op, warps: int, users: Sequence[Op]) -> LinearLayout:
    """The layout that a product wants of its accumulator; `users` are the ops that its result flows into."""
    *batch, m, n = tile_of(op.result).padded_shape
    if instruction_elem(op) is None:
        return batched(_boxes((m, n), warps, 1 if _lies_along_k(op.operands[1]) else 4), batch, 1)
    inside = warps_inside(batch, warps)
    grid = warp_grid((m, n), inside, whole_rows=_reads_rows(users, len(batch) + 1))
    return batched(Mma(grid).linear((m, n)), batch, warps // inside)


def warps_inside(batch: Sequence[int], warps: int) -> int:
    """How many warps share a matrix; the others have matrices of their own."""
    return max(1, warps // math.prod(batch))


def batched(matrix: LinearLayout, batch: Sequence[int], groups: int) -> LinearLayout:
    """The layout of matrices side by side, each as `matrix`: further warps have other ones, registers the rest."""
    first, bits = matrix.out_bits, log2(math.prod(batch))
    apart = [1 << first + i for i in range(bits)]
    own = log2(groups)
    ins = {name: list(matrix.bases(name)) for name in (REGISTER, LANE, WARP)}
    ins[WARP] += apart[:own]
    ins[REGISTER] += apart[own:]
    return LinearLayout.of(ins, tile_outs((*batch, *matrix.shape)))


def matrix_of(layout: LinearLayout) -> tuple[LinearLayout, int, int] | None:
    """The inverse of `batched`: a matrix' layout, how many groups of warps, how many matrices a thread has in turn.

    The layout is as all warps see it: groups hold copies of it.
    """
    if len(layout.outs) == 2:
        return layout, 1, 1
    size = sum(b for _, b in layout.outs[-2:])
    ins = {name: list(layout.bases(name)) for name in (REGISTER, LANE, WARP)}
    top = [base for base in ins[REGISTER] if base >> size]
    own = [base for base in ins[WARP] if base >> size]
    ins[REGISTER] = ins[REGISTER][: len(ins[REGISTER]) - len(top)]
    if any(b >> size for b in (*ins[REGISTER], *ins[LANE])):
        return None
    if [*own, *top] != [1 << size + i for i in range(layout.out_bits - size)]:
        return None
    ins[WARP] = [0 if base >> size else base for base in ins[WARP]]
    return LinearLayout.of(ins, tile_outs(layout.shape[-2:])), 1 << len(own), 1 << len(top)


def usable(op: Op, acc: LinearLayout) -> LinearLayout:
    """The accumulator's layout, or where a product cannot be made in it the one that the product would choose."""
    if len(acc.shape) == 2 or (instruction_elem(op) and mma_warps(acc)):
        return acc
    found = matrix_of(acc)
    return acc if found and found[1] == 1 else accumulator_layout(op, acc.size(WARP), ())


def _reads_rows(users: Sequence[Op], row: int) -> bool:
    """Whether rows are reduced or multiplied on: then a warp had better hold whole rows."""
    return any(u.kind is block.dot or (u.kind is block.reduce and attr_int(u, "axis") == row) for u in users)


def warp_grid(shape: tuple[int, ...], warps: int, *, whole_rows: bool) -> tuple[int, int]:
    """Warps along rows and columns: as few operand bytes for each warp as can be, and no warp without work."""
    m, n = shape

    def cost(grid: tuple[int, int]) -> float:
        down, across = grid
        idle = max(1, down * 16 // m) * max(1, across * 8 // n)
        return idle * 1e6 + (across * 1e3 if whole_rows else 0) + (m / down + n / across)

    return min(_grids(warps), key=cost)


def _grids(warps: int) -> list[tuple[int, int]]:
    """All arrangements of warps, by how many there are along rows."""
    return [(1 << i, warps >> i) for i in range(log2(warps) + 1)]


def _lies_along_k(right: Value) -> bool:
    """Whether columns of a right operand are rows in shared memory: then neighbours must read neighbouring ones."""
    op = right.owner
    return isinstance(op, Op) and op.kind is gpu.load_shared and bool(op.attrs.get("transposed"))


def _boxes(shape: tuple[int, ...], warps: int, widest: int) -> LinearLayout:
    """Boxes of 4 rows a thread, 4x8 threads a warp, repeated: each operand element serves many products."""
    m, n = shape
    room = max(1, m * n // (32 * warps))
    wide = min(widest, n, room)
    tall = min(4, m, room // wide or 1)
    lanes_n = min(8, n // wide)
    lanes_m = min(32 // lanes_n, m // tall)
    lanes_n = min(32 // lanes_m, n // wide)
    warps_n = min(warps, max(1, n // (wide * lanes_n)), max(1, _root(warps)))
    warps_m = warps // warps_n
    return Blocked((tall, wide), (32 // lanes_n, lanes_n), (warps_m, warps_n), (1, 0)).linear(shape)


def _root(n: int) -> int:
    return 1 << (n.bit_length() - 1) // 2


def operand_layout(op: Op, i: int, acc: LinearLayout, *, shared: bool = False) -> LinearLayout | None:
    """What a product needs of operand i, given its accumulator's layout; None: any.

    `shared`: the operand is in shared memory, from where any layout can be read.
    """
    if i == 2:
        return acc
    elem = instruction_elem(op)
    *batch, rows, columns = tile_of(op.operands[i]).padded_shape
    warps = acc.size(WARP)
    if elem and (grid := mma_warps(acc)):
        groups = warps // warps_inside(batch, warps)
        return batched(Operand(elem.bits, i, grid).linear((rows, columns)), batch, groups)
    if batch:
        return batched(Blocked((1, 1), (1, 32), (warps, 1), (1, 0)).linear((rows, columns)), batch, 1)
    return operand_of_boxes(acc, i, tile_of(op.operands[0]).padded_shape[1]) if shared else None


def mma_warps(acc: LinearLayout) -> tuple[int, int] | None:
    """How warps share each matrix of an `mma` accumulator; None for other layouts."""
    *batch, m, n = acc.shape
    if m < 16 or n < 8 or acc.size(LANE) != 32:
        return None
    warps = acc.size(WARP)
    inside = warps_inside(batch, warps)
    return next((g for g in _grids(inside) if batched(Mma(g).linear((m, n)), batch, warps // inside) == acc), None)


def operand_of_boxes(acc: LinearLayout, i: int, k: int) -> LinearLayout:
    """Operand i as a thread needs it that holds boxes of the accumulator: its rows or columns, and all of k."""
    m, n = acc.shape
    bits = k.bit_length() - 1
    shape = (m, k) if i == 0 else (k, n)
    kept = acc.reduce(1) if i == 0 else acc.reduce(0)
    shift = bits if i == 0 else 0
    ins = {name: [b << shift for b in kept.bases(name)] for name in (REGISTER, LANE, WARP)}
    step = 0 if i == 0 else n.bit_length() - 1
    ins[REGISTER] = [1 << j + step for j in range(bits)] + ins[REGISTER]
    return LinearLayout.of(ins, tile_outs(shape)).distinct_registers()


def comes_from_shared_memory(value: Value) -> bool:
    """Whether a value is a tile in shared memory, by way of elementwise ops and transpositions."""
    op = value.owner
    if not isinstance(op, Op):
        return False
    if op.kind is gpu.load_shared:
        return True
    passes = op.kind is block.trans or (op.has(Trait.ELEMENTWISE) and len(op.operands) == 1)
    return passes and comes_from_shared_memory(op.operands[0])


def reached(value: Value, users: dict[Value, list[Op]]) -> list[Op]:
    """The ops that a value flows into, through elementwise ops and changes of shape."""
    out: dict[Op, None] = {}
    stack = [value]
    while stack:
        for op in users.get(stack.pop(), ()):
            if op in out:
                continue
            out[op] = None
            if op.has(Trait.ELEMENTWISE) or op.kind is block.broadcast:
                stack += op.results
    return list(out)
