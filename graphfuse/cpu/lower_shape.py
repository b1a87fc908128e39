"""Ops that move elements between registers, and reductions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence

from graphfuse.codegen.arith import compute_elem, elementwise
from graphfuse.codegen.convert import float_to_float
from graphfuse.codegen.kernel import constant, literal, register_type, vector_type, width_of
from graphfuse.cpu.kernel import Kernel, TileValue, lowers
from graphfuse.dialects import block
from graphfuse.dialects.elementwise import COMBINE, neutral
from graphfuse.ir.core import Op, attr_int, attr_ints, tile_of
from graphfuse.ir.types import Scalar
from graphfuse.llvm.module import Reg


@lowers(block.splat)
def lower_splat(kernel: Kernel, op: Op) -> None:
    """One splat for each width."""
    x = kernel.scalar(op.operands[0])
    kernel.set(op, [kernel.splat(x, w) for _, w in kernel.type_parts(op.types[0])])
    kernel.bound_alike(op)


@lowers(block.arange)
def lower_arange(kernel: Kernel, op: Op) -> None:
    """Constant vectors."""
    start, end, tile = attr_int(op, "start"), attr_int(op, "end"), tile_of(op.result)
    element = register_type(tile.elem)
    out: list[Reg] = []
    for span in kernel.spans(tile.shape):
        numbers = [literal(start + span.start + i, tile.elem) for i in range(span.width)]
        text = numbers[0] if span.width == 1 else "<" + ", ".join(f"{element} {n}" for n in numbers) + ">"
        out.append(Reg(text, vector_type(element, span.width)))
    kernel.set(op, out)
    kernel.bounds[op.result] = (start, end - 1)


@lowers(block.broadcast)
def lower_broadcast(kernel: Kernel, op: Op) -> None:
    """Whole vectors are shared; a last dim of 1 is splatted, once for each row."""
    tile = kernel.tile(op.operands[0])
    shape = tile_of(op.result).shape
    kernel.bound_alike(op)
    spans = kernel.spans(shape)
    rows: dict[int, Sequence[Reg]] = {}
    out: list[Reg] = []
    for index in itertools.product(*(range(d) for d in shape[:-1])):
        row = _flat([0 if d == 1 else i for i, d in zip(index, tile.shape, strict=False)], tile.shape[:-1])
        if row not in rows:
            same = tile.columns == (shape[-1] if shape else 1)
            rows[row] = tile.row(row) if same else [kernel.element_splat(tile, row, s.width) for s in spans]
        out += rows[row]
    kernel.set(op, out)


def _flat(index: Sequence[int], shape: Sequence[int]) -> int:
    at = 0
    for i, d in zip(index, shape, strict=True):
        at = at * d + i
    return at


@lowers(block.reshape)
def lower_reshape(kernel: Kernel, op: Op) -> None:
    """Free while the last dim stays; otherwise lanes are picked anew."""
    tile = kernel.tile(op.operands[0])
    kernel.bound_alike(op)
    shape = tile_of(op.result).shape
    if (shape[-1] if shape else 1) == tile.columns:
        kernel.set(op, tile.vectors, tile.scalars)
        return
    pick(kernel, op, tile, range(math.prod(shape)))


def pick(kernel: Kernel, op: Op, tile: TileValue, positions: Sequence[int]) -> None:
    """The result from the operand's row-major position of each element."""
    scalars = {i: tile.scalars[p] for i, p in enumerate(positions) if p in tile.scalars}
    sources = [(tile.scalars[p], 0) if p in tile.scalars else tile.locate(p) for p in positions]
    kernel.set(op, kernel.regroup(tile_of(op.result), sources), scalars)


@lowers(block.trans)
def lower_trans(kernel: Kernel, op: Op) -> None:
    """Square blocks by rounds of two-input shuffles, anything else lane by lane."""
    tile = kernel.tile(op.operands[0])
    order = list(attr_ints(op, "perm"))
    kernel.bound_alike(op)
    rank = len(order)
    if order == list(range(rank)):
        kernel.set(op, tile.vectors, tile.scalars)
        return
    shape = tile_of(op.result).shape
    if order[-1] == rank - 1:
        kernel.set(op, [v for row in _source_rows(tile, order, shape) for v in row])
        return
    if order == [*range(rank - 2), rank - 1, rank - 2] and min(tile.shape[-2:]) > 1 and not tile.scalars:
        kernel.set(op, transpose_matrices(kernel, tile.vectors, tile.shape))
        return
    strides = [math.prod(tile.shape[i + 1 :]) for i in order]
    pick(
        kernel, op, tile,
        [sum(i * s for i, s in zip(index, strides, strict=True)) for index in itertools.product(*map(range, shape))],
    )  # fmt: skip


def _source_rows(tile: TileValue, order: list[int], shape: tuple[int, ...]) -> Iterator[tuple[Reg, ...]]:
    lead = tile.shape[:-1]
    for index in itertools.product(*(range(d) for d in shape[:-1])):
        source = [0] * len(lead)
        for i, p in zip(index, order[:-1], strict=True):
            source[p] = i
        yield tile.row(_flat(source, lead))


def transpose_matrices(kernel: Kernel, vectors: Sequence[Reg], shape: Sequence[int]) -> list[Reg]:
    """The vectors of a tile with its last two dims swapped, block by block."""
    height, width = shape[-2:]
    spans = kernel.spans((width,))
    n = len(spans)
    out: list[Reg] = []
    for matrix in range(math.prod(shape[:-2])):
        base = matrix * height * n
        columns: dict[tuple[int, int], Reg] = {}
        for block_row in kernel.spans((height,)):
            for j, span in enumerate(spans):
                rows = [vectors[base + (block_row.start + r) * n + j] for r in range(block_row.valid)]
                for c, reg in enumerate(transpose_block(kernel, rows, span.valid, block_row.width)):
                    columns[span.start + c, block_row.start] = reg
        out += [columns[c, s.start] for c in range(width) for s in kernel.spans((height,))]
    return out


def transpose_block(kernel: Kernel, rows: Sequence[Reg], columns: int, width: int) -> list[Reg]:
    """`columns` vectors of `width` lanes from `len(rows) <= width` vectors: rounds of pairwise interleaving."""
    lanes = max(width, width_of(rows[0].type))
    if lanes == 1:
        return [rows[0]]
    regs: list[Reg | None] = [kernel.widen(r, lanes) for r in rows]
    regs += [None] * (lanes - len(regs))
    step = 1
    while step < lanes:
        fresh: list[Reg | None] = [None] * lanes
        for i in range(lanes):
            if i & step:
                continue
            a, b = regs[i], regs[i | step]
            if a is None and b is None:
                continue
            low = [k if not k & step else lanes + (k ^ step) for k in range(lanes)]
            high = [k ^ step if not k & step else lanes + k for k in range(lanes)]
            fresh[i] = _pair(kernel, a, b, low, lanes)
            fresh[i | step] = _pair(kernel, a, b, high, lanes)
        regs = fresh
        step *= 2
    out: list[Reg] = []
    for reg in regs[:columns]:
        assert reg is not None, "every column has an element"
        out.append(reg if lanes == width else kernel.shuffle(reg, None, list(range(width))))
    return out


def _pair(kernel: Kernel, a: Reg | None, b: Reg | None, picks: list[int], lanes: int) -> Reg:
    kept = [p if (a if p < lanes else b) is not None else None for p in picks]
    if a is None:
        assert b is not None, "one of the two is there"
        return kernel.shuffle(b, None, [None if p is None else p - lanes for p in kept])
    return kernel.shuffle(a, b, kept)


# reductions


@lowers(block.reduce)
def lower_reduce(kernel: Kernel, op: Op) -> None:
    """Narrow floats are reduced in f32. The order is a tree over the vectors, then halves of the last one."""
    tile = kernel.tile(op.operands[0])
    axis, kind = attr_int(op, "axis"), str(op.attrs["kind"])
    wide, elem = compute_elem(tile.elem), tile.elem
    tile = TileValue(tile.shape, wide, [float_to_float(kernel, v, elem, wide) for v in tile.vectors], tile.spans)

    def combine(a: Reg, b: Reg) -> Reg:
        return elementwise(kernel, COMBINE[kind], wide, [a, b])

    if axis < len(tile.shape) - 1:
        kernel.set(op, [float_to_float(kernel, v, wide, elem) for v in _reduce_rows(tile, axis, combine)])
        return
    if (vectors := _reduce_together(kernel, tile, combine)) is not None:
        kernel.set(op, [float_to_float(kernel, v, wide, elem) for v in vectors])
        return
    rows = [_reduce_row(kernel, tile, tile.row(r), kind, combine) for r in range(tile.rows)]
    kernel.set_elements(op, [float_to_float(kernel, v, wide, elem) for v in rows])


def tree(xs: list[Reg], combine: Callable[[Reg, Reg], Reg]) -> Reg:
    """Neighbours first."""
    while len(xs) > 1:
        xs = [combine(*xs[i : i + 2]) if i + 1 < len(xs) else xs[i] for i in range(0, len(xs), 2)]
    return xs[0]


def _reduce_rows(tile: TileValue, axis: int, combine: Callable[[Reg, Reg], Reg]) -> list[Reg]:
    n = len(tile.spans)
    inner = math.prod(tile.shape[axis + 1 : -1]) * n
    size = tile.shape[axis]
    return [
        tree([tile.vectors[(outer * size + i) * inner + j] for i in range(size)], combine)
        for outer in range(math.prod(tile.shape[:axis]))
        for j in range(inner)
    ]


def _reduce_row(
    kernel: Kernel, tile: TileValue, vectors: Sequence[Reg], kind: str, combine: Callable[[Reg, Reg], Reg]
) -> Reg:
    first = tile.spans[0].width
    full = [v for v, s in zip(vectors, tile.spans, strict=True) if s.valid == s.width == first]
    rest = list(vectors[len(full) :])
    total = halve(kernel, tree(full, combine), combine) if full else None
    for v, s in zip(rest, tile.spans[len(full) :], strict=True):
        part = halve(kernel, _fill(kernel, v, s.valid, kind, tile.elem), combine)
        total = part if total is None else combine(total, part)
    assert total is not None, "a row is not empty"
    return total


def _reduce_together(kernel: Kernel, tile: TileValue, combine: Callable[[Reg, Reg], Reg]) -> list[Reg] | None:
    """The vectors of the results of several rows, by halves of two rows at once; None where a row has padding.

    Each element is what `_reduce_row` makes: the halves are the same, and two rows' lie in one register.
    """
    full = {s.valid for s in tile.spans} | {s.width for s in tile.spans}
    spans = kernel.spans(tile.shape[:-1])
    if len(full) > 1 or spans[0].valid == 1 or max(s.width for s in spans) > tile.spans[0].width:
        return None
    totals = [tree(list(tile.row(r)), combine) for r in range(tile.rows)]
    return [
        _halve_together(kernel, totals[first + s.start : first + s.start + s.valid], combine)
        for first in range(0, tile.rows, tile.shape[-2])
        for s in spans
    ]


def _halve_together(kernel: Kernel, rows: list[Reg], combine: Callable[[Reg, Reg], Reg]) -> Reg:
    """`halve` of each of at most as many rows as one has lanes, side by side; the last fills lanes that are left."""
    size = width_of(rows[0].type)
    while size > 1:
        size //= 2
        if len(rows) % 2 and len(rows) > 1:
            rows = [*rows, rows[-1]]
        rows = [_halves(kernel, rows[i : i + 2], size, combine) for i in range(0, len(rows), 2)]
    return rows[0]


def _halves(kernel: Kernel, vectors: Sequence[Reg], size: int, combine: Callable[[Reg, Reg], Reg]) -> Reg:
    """The upper `size` lanes of every two times as many onto the lower, of one vector or two as one."""
    a, b = vectors[0], vectors[1] if len(vectors) > 1 else None
    low = [i for i in range(len(vectors) * width_of(a.type)) if not i & size]
    return combine(kernel.shuffle(a, b, low), kernel.shuffle(a, b, [i + size for i in low]))


def _fill(kernel: Kernel, v: Reg, valid: int, kind: str, elem: Scalar) -> Reg:
    """Padding lanes made neutral."""
    width = width_of(v.type)
    if valid == width:
        return v
    fill = constant(literal(neutral(kind, elem), elem), register_type(elem), width)
    return kernel.shuffle(v, fill, [i if i < valid else width + i for i in range(width)])


def halve(kernel: Kernel, v: Reg, combine: Callable[[Reg, Reg], Reg]) -> Reg:
    """The upper half onto the lower, down to one lane."""
    width = width_of(v.type)
    while width > 1:
        width //= 2
        low = kernel.shuffle(v, None, list(range(width)))
        high = kernel.shuffle(v, None, list(range(width, 2 * width)))
        v = combine(low, high)
    return v
