"""Rows that are normalised before a product of halves are multiplied as they are, and their product is normalised.

    %z = x * broadcast(%r) * broadcast(%g)          // RMSNorm: %r one number a row, %g constant
    %y = graph.contract(%z, %w) {spec = "mk,kn->mn"} : tensor<16x64xbf16>

becomes, with the rows of the constant %w scaled by %g,

    %p = graph.contract(%x, %v) {elem = f32, spec = "mk,kn->mn"} : tensor<16x64xf32>
    %y = %p * broadcast(%r)

Then the kernel of the statistics writes a number a row, where it wrote rows as long as it read; and as the product
only needs those numbers in the end, the two kernels can overlap. A norm that subtracts the mean too (layer norm) is

    (x r + s) g + h  =>  r (x @ g w) + s (sum over k of g w) + (h @ w)

which cancels what the rows have in common in f32 and so loses as many digits of f32 as the mean is larger than the
deviation: with `centred` only. Without it no digit is lost: the rounding of z is saved, that of g w takes its place.
A known bias that is added to the product joins h @ w, as the epilogue of a product waits for each column it reads.

Requires: merge_contractions, lower_precision; x in halves, or about to be rounded to bf16, whose range is that of f32.
Declines where something else reads the normalised rows. Cost: one sweep.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from graphfuse.dialects import graph
from graphfuse.fusion.simplify.fold_constants import Array, aligned, array_of, cast_to, constant, full
from graphfuse.fusion.simplify.patterns import Uses, made_by, operand_of
from graphfuse.fusion.simplify.simplify_movement import broadcasted
from graphfuse.ir.core import Func, Op, Value, remade, tensor_of
from graphfuse.ir.passes import passing
from graphfuse.ir.rewrite import Replacement, dead_code, rebuild, use_counts
from graphfuse.ir.types import BF16, F16, F32

FLOATS = (F32, F16, BF16)


@dataclass(frozen=True)
class _Rows:
    """`(x r + s) g + h`: r and s have a number a row and are of f32, g and h are known, one number a column."""

    x: Value
    r: Value | None = None
    s: Value | None = None
    g: np.ndarray[Any, np.dtype[np.float64]] = field(default_factory=lambda: np.ones(1))
    h: np.ndarray[Any, np.dtype[np.float64]] = field(default_factory=lambda: np.zeros(1))

    @property
    def has_shift(self) -> bool:
        """Whether columns have summands."""
        return bool(np.any(self.h != 0))


@passing("graph")
def normalise_later(func: Func, *, centred: bool = False) -> Func:
    """Scale products instead of their rows; `centred`: also where a mean was subtracted."""
    uses = use_counts(func)

    def visit(op: Op) -> Replacement | None:
        if op.kind is graph.contract:
            return _later(op, uses, centred=centred)
        return _biased(op, uses) if centred and op.kind is graph.add else None

    return dead_code(rebuild(func, visit, uses=uses))


def _later(op: Op, uses: Uses, *, centred: bool) -> Value | None:
    """The product of the rows as they are, normalised; None where there is nothing to do or it may not be done."""
    z, w = op.operands
    weights, elem, made = array_of(w), tensor_of(z).elem, tensor_of(op.result).elem
    lhs, rhs, out = graph.parse_spec(str(op.attrs["spec"]))
    k, n = lhs[-1], [c for c in rhs if c not in lhs]
    if weights is None or elem not in (F16, BF16) or tensor_of(w).elem != elem or made not in FLOATS or len(n) != 1:
        return None
    if out != lhs[:-1] + n[0] or {*rhs} != {k, n[0]}:
        return None
    rows = _rows(z, uses)
    if rows is None or (rows.s is not None and not centred):
        return None
    have = tensor_of(rows.x).elem
    if have != elem and (have != F32 or elem != BF16 or rows.s is not None):
        return None
    wide = weights.astype(np.float64) if rhs == k + n[0] else weights.astype(np.float64).T
    scaled = (wide * rows.g.reshape(-1, 1)).astype(weights.dtype)
    if not np.isfinite(scaled.astype(np.float64)).all():
        return None
    x = rows.x if have == elem else graph.cast(rows.x, to=elem, loc=op.loc).result
    matrix = constant(scaled if rhs == k + n[0] else np.ascontiguousarray(scaled.T), w.op)
    shape = tensor_of(op.result).shape

    def along_rows(v: Value) -> Value:
        return broadcasted(v, shape)

    def along_columns(a: Array) -> Value:
        return broadcasted(constant(a.astype(np.float32), op), shape)

    assert rows.r is not None
    y = graph.mul(remade(op, x, matrix, elem=F32), along_rows(rows.r), loc=op.loc)
    if rows.s is not None:
        sums = along_columns(scaled.astype(np.float64).sum(0))
        y = graph.add(y, graph.mul(along_rows(rows.s), sums, loc=op.loc).result, loc=op.loc)
    if rows.has_shift:
        y = graph.add(y, along_columns(np.broadcast_to(rows.h, wide.shape[:1]) @ wide), loc=op.loc)
    return cast_to(y.result, made)


def _biased(op: Op, uses: Uses) -> Value | None:
    """(y + h) + c = y + (h + c), for columns h and c that are known and y of f32."""
    a, b = op.operands if _column(op.operands[1]) is not None else op.operands[::-1]
    y = _widened_from(a)
    if (bias := _column(b)) is None or (total := made_by(y, graph.add)) is None or tensor_of(y).elem != F32:
        return None
    product, known = total.operands
    if (shift := _column(known)) is None or any(uses.get(v, 1) != 1 for v in (a, y)):
        return None
    both = (shift.astype(np.float64) + bias.astype(np.float64)).reshape(-1).astype(np.float32)
    column = broadcasted(constant(both, op), tensor_of(y).shape)
    return cast_to(graph.add(product, column, loc=op.loc).result, tensor_of(op.result).elem)


def _widened_from(v: Value) -> Value:
    """What a value was in f32, before it was rounded."""
    x = operand_of(v, graph.cast)
    return x if x is not None and tensor_of(x).elem == F32 else v


def _rows(v: Value, uses: Uses) -> _Rows | None:
    """What a value is, its roundings aside; None if that is no normalised row, or something else reads it."""
    op = made_by(v, graph.cast, graph.mul, graph.div, graph.add, graph.sub)
    if op is None or uses.get(v, 1) != 1:
        return None
    if op.kind is graph.cast:
        return _rows(op.operands[0], uses) if tensor_of(op.operands[0]).elem in FLOATS else None
    a, b = _other_and_repeated(op)
    if (column := _column(b)) is not None:
        inner = _rows(a, uses)
        return None if inner is None else _with_column(inner, op, column)
    if (row := _row(b)) is None or op.kind not in (graph.mul, graph.div):
        return None
    return _scaled(_rows(a, uses) or _centred(a), op, row)


def _other_and_repeated(op: Op) -> tuple[Value, Value]:
    """The operands, the one that is repeated along rows or columns last."""
    a, b = op.operands
    commutes = op.kind in (graph.mul, graph.add) and _column(b) is None and _row(b) is None
    return (b, a) if commutes else (a, b)


def _centred(v: Value) -> _Rows:
    """Rows as they are, or with a number a row added."""
    x = _widened(v)
    if (shifted := made_by(x, graph.add, graph.sub)) is None:
        return _Rows(x)
    a, b = _other_and_repeated(shifted)
    if (row := _row(b)) is None:
        return _Rows(x)
    shift = cast_to(row, F32)
    return _Rows(_widened(a), s=shift if shifted.kind is graph.add else graph.neg(shift).result)


def _widened(v: Value) -> Value:
    """What a value was before it was cast to f32."""
    x = operand_of(v, graph.cast)
    return x if x is not None and tensor_of(x).elem in (F16, BF16) else v


def _scaled(rows: _Rows, op: Op, row: Value) -> _Rows | None:
    """Rows times, or divided by, a number each."""
    if rows.has_shift:
        return None
    factor = cast_to(row, F32)
    if op.kind is graph.div:
        factor = graph.div(full(tensor_of(factor).shape, F32, 1.0), factor, loc=op.loc).result
    r = factor if rows.r is None else graph.mul(rows.r, factor).result
    s = None if rows.s is None else graph.mul(rows.s, factor).result
    return replace(rows, r=r, s=s)


def _with_column(rows: _Rows, op: Op, column: Array) -> _Rows:
    """The op done to rows, with a number for each column."""
    c = column.reshape(-1).astype(np.float64)
    if op.kind is graph.mul:
        return replace(rows, g=rows.g * c, h=rows.h * c)
    if op.kind is graph.div:
        return replace(rows, g=rows.g / c, h=rows.h / c)
    return replace(rows, h=rows.h + (c if op.kind is graph.add else -c))


def _column(v: Value) -> Array | None:
    """A known operand that is the same in every row."""
    array = aligned(v)
    return array if array is not None and array.ndim and array.size == array.shape[-1] else None


def _row(v: Value) -> Value | None:
    """What is repeated along the last dim only: one number a row, computed."""
    if (x := operand_of(v, graph.broadcast)) is None or tensor_of(v).elem not in FLOATS:
        return None
    have, shape = tensor_of(x).shape, tensor_of(v).shape
    return x if len(have) == len(shape) and have == (*shape[:-1], 1) and array_of(x) is None else None
