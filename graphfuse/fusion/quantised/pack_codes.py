"""Matrices of few bits are multiplied by as they are stored, in panels of words.

    %i = graph.sub(graph.cast(%q), 8) : tensor<4096x4096xi32>                // %q: constant, u8 below 16
    %w = graph.mul(graph.cast(%i), %scales) : tensor<4096x4096xf32>          // one for each row and 32 columns
    %y = graph.contract(%x, %w) {spec = "mk,nk->mn"} : tensor<(m)x4096xf32>

becomes, for panels of 32 columns,

    %y = graph.contract_packed(%x, %p, %s) {bits = 4, columns = 4096, zero = 8} : tensor<(m)x4096xf32>

with %p: 128x512x32xi32, eight codes a word, and %s: 128x128x32xf32. Few rows of x take as long as their weights take to
read, which are an eighth of the floats that constant folding would make of them. Codes are taken less the smallest one,
so that signed and unsigned ones are one thing.

Requires: casts of matrices of bytes are not folded yet. Ensures: each sum is rounded no more often; scales are applied
to sums of a block. Declines blocks along K that differ in length, or hold no whole number of words. Cost: one sweep.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from graphfuse.dialects import graph
from graphfuse.dialects.codes import BITS, BYTES, HALVES, LINE_WORDS, PANEL, SIDE, WORD_BITS, code_bit, line_steps
from graphfuse.fusion.quantised.dequantise_later import (
    LEAST_ELEMENTS,
    ByMatrix,
    Quantised,
    block_of,
    narrowest,
    quantised,
)
from graphfuse.fusion.simplify.fold_constants import Array, cast_to, constant, full
from graphfuse.fusion.simplify.simplify_movement import broadcasted, reshaped
from graphfuse.ir.core import Attr, Func, Op, Value, attr_int, tensor_of
from graphfuse.ir.passes import passing
from graphfuse.ir.rewrite import Replacement, dead_code, rebuild
from graphfuse.ir.types import BF16, F16, F32, I8, Scalar
from graphfuse.symbolic import Ranges, static

FEW_ROWS = 16
"""Rows up to which a GPU's multiprocessors keep up with memory
(`benchmarks.gpu_packed`)."""


@passing("graph")
def pack_codes(
    func: Func,
    *,
    width: int = 32,
    least: int = LEAST_ELEMENTS,
    lines: bool = False,
    warpgroups: bool = False,
    lowered: bool = False,
) -> Func:
    """Multiply by matrices of codes, of `least` elements and more, as they are, in panels of so many columns.

    `lines`: codes lie as lanes of a GPU have them, in panels of 32 columns, and x is not rounded; it has few rows, or
    any number of halves, or of floats that are `lowered` to them later, where there are `warpgroups`.
    """
    many = (F16, BF16, F32)[: 2 + lowered] if warpgroups else ()
    form = _Form(PANEL, in_lines=True, many=many) if lines else _Form(width)
    return dead_code(rebuild(func, partial(_visit, form=form, least=least, ranges=func.ranges)))


@dataclass(frozen=True, slots=True)
class _Form:
    """How codes are laid out: in panels of `width` columns, or in lines."""

    width: int
    in_lines: bool = False
    many: tuple[Scalar, ...] = ()
    """Of x that may have any number of rows."""

    @property
    def least_words(self) -> int:
        """Of a block: what one instruction takes of a column."""
        return SIDE if self.in_lines else 1

    def takes(self, x: Value, rows: int) -> bool:
        """Whether x may have so many rows, or more."""
        return not self.in_lines or rows <= FEW_ROWS or tensor_of(x).elem in self.many


def _visit(op: Op, form: _Form, least: int, ranges: Ranges) -> Replacement | None:
    by = ByMatrix.of(op)
    found = quantised(by.w) if by is not None and by.is_of_rows else None
    if by is None or found is None or found.bytes.size < max(1, least):
        return None
    if not form.takes(by.x, by.least_rows(ranges)):
        return None
    x, w, rounded = by.x, by.w, 0 if form.in_lines else attr_int(op, "rounded_block", 0)
    packed = _packed(found, form, rounded, tensor_of(by.x).elem, turned=by.rhs[1] == by.n)
    if packed is None:
        return None
    (words, scale, *points), attrs = packed
    x, *scales = _in_bytes(x, scale.shape[1]) if rounded else (x,)
    known, last = ([constant(a, w.op) for a in arrays] for arrays in ((words, scale), points))
    made = graph.contract_packed.build([x, *known, *scales, *last], attrs, loc=op.loc)
    elem = tensor_of(op.result).elem
    return made if elem == F32 else graph.cast(made, to=elem, loc=op.loc)


def _in_bytes(x: Value, blocks: int) -> tuple[Value, Value]:
    """Floats [.., K] as i8, and the scales of their blocks [.., blocks]: the largest of each is 127."""
    shape = tensor_of(x).shape
    parted = (*shape[:-1], blocks, static(shape[-1]) // blocks)
    rows = cast_to(reshaped(x, parted), F32)
    most = graph.reduce(graph.abs_(rows), axes=(len(shape),), kind="max", keepdims=True)
    least = full((*parted[:-1], 1), F32, float(np.finfo(np.float32).tiny))
    scale = graph.max_(graph.mul(most, full((*parted[:-1], 1), F32, 1 / 127)), least)
    codes = graph.ELEMENTWISE["round"](graph.div(rows, broadcasted(scale.result, parted)))
    return reshaped(graph.cast(codes, to=I8).result, shape), reshaped(scale.result, parted[:-1])


def _packed(
    found: Quantised, form: _Form, rounded: int, elem: Scalar, *, turned: bool
) -> tuple[list[Array], dict[str, Attr]] | None:
    """Words, scales (in the element, if that is enough) and zero points, and the attributes of the product.

    Blocks with equal scales are one, but for x that is `rounded` by itself in each of them.
    """
    codes = np.ascontiguousarray(found.bytes.T if turned else found.bytes)
    least, columns = int(codes.min()), codes.shape[0]
    codes = (codes.astype(np.int16) - np.int16(least)).astype(np.uint8)
    bits = next(b for b in BITS if int(codes.max()) < 1 << b)
    known = ((found.scale, np.float32(1)), (found.zero, np.int32(0)))
    both = [np.asarray(other if array is None else array) for array, other in known]
    scale, zero = (np.broadcast_to(a.T if turned else a, codes.shape) for a in both)
    block = math.gcd(block_of(scale), block_of(zero), rounded)
    if block % (form.least_words * WORD_BITS // bits):
        return None
    points = zero[:, ::block].astype(np.float32) - least
    attrs: dict[str, Attr] = {"bits": bits, "columns": columns}
    more = list[Array]()
    if (points == int(points[0, 0])).all():
        attrs["zero"] = int(points[0, 0])
    else:
        small = points.astype(np.uint8) if points.min() >= 0 and points.max() <= np.iinfo(np.uint8).max else points
        more.append(small if np.array_equal(small, points) else points)
    blocks = [narrowest(scale[:, ::block].astype(np.float32), (elem, F16, BF16)), *more]
    if not form.in_lines:
        return [_panels(a, form.width) for a in (_words(codes, bits, BYTES), *blocks)], attrs
    words, numbers = _lines(codes, bits), blocks
    if block < codes.shape[1]:
        line = line_steps(bits)
        unit = block if block % line == 0 else math.gcd(block, line)
        more = len(words) * line // unit - codes.shape[1] // unit
        numbers = [_filled(np.repeat(a, block // unit, 1), more) for a in blocks]
    return [words, *(_filled(a).T.copy() for a in numbers)], attrs


def _lines(codes: Array, bits: int) -> Array:
    """Codes [n, k] in bytes as [lines, panels, 16, 4, 4]: see `graph.contract_packed`."""
    codes = _filled(codes, -codes.shape[1] % line_steps(bits))
    n, pairs = len(codes), WORD_BITS // bits // HALVES
    words = _words(codes.reshape(n, -1, pairs, SIDE, HALVES).swapaxes(2, 3).reshape(n, -1), bits, HALVES)
    parts = words.reshape(n // PANEL, PANEL // SIDE, SIDE, -1, LINE_WORDS // SIDE, SIDE)
    lines = parts.transpose(3, 0, 4, 1, 5, 2)
    return np.ascontiguousarray(lines).reshape(*lines.shape[:2], -1, SIDE, SIDE)


def _filled(rows: Array, more: int = 0) -> Array:
    """[n, m] with zeros: rows up to a panel's, and more columns."""
    return np.pad(rows, ((0, -len(rows) % PANEL), (0, more)))


def _words(codes: Array, bits: int, parts: int) -> Array:
    """Codes [n, k] in bytes as words [n, k * bits / 32]: see `code_bit`."""
    per = WORD_BITS // bits
    steps = codes.reshape(codes.shape[0], -1, per).astype(f"u{WORD_BITS // 8 // parts}")
    out = np.zeros((*steps.shape[:2], parts), steps.dtype)
    for i in range(0, per, parts):
        out |= steps[:, :, i : i + parts] << steps.dtype.type(code_bit(i, bits, parts))
    return out.view(np.int32)[:, :, 0]


def _panels(rows: Array, width: int) -> Array:
    """[n, m] as [panels, m, width]; rows that are not there are 0."""
    short = -rows.shape[0] % width
    padded = np.pad(rows, ((0, short), (0, 0))) if short else rows
    return np.ascontiguousarray(padded.reshape(-1, width, rows.shape[1]).transpose(0, 2, 1))
