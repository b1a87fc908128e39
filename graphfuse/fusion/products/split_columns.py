"""Slices of a product's columns become products with slices of its matrix, where these are then one kernel.

    %p = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<16x6144xbf16>
    %a = graph.slice(%p) {sizes = [16, 3072], starts = [0, 0], ...} : tensor<16x3072xbf16>
    %b = graph.slice(%p) {sizes = [16, 3072], starts = [0, 3072], ...} : tensor<16x3072xbf16>
    %y = graph.mul(%a, %b) : tensor<16x3072xbf16>

becomes

    %v = graph.slice(%w) {sizes = [768, 3072], starts = [0, 0], ...} : tensor<768x3072xbf16>
    %u = graph.slice(%w) {sizes = [768, 3072], starts = [0, 3072], ...} : tensor<768x3072xbf16>
    %a = graph.contract(%x, %v) {spec = "mk,kn->mn"} : tensor<16x3072xbf16>
    %b = graph.contract(%x, %u) {spec = "mk,kn->mn"} : tensor<16x3072xbf16>
    %y = graph.mul(%a, %b) : tensor<16x3072xbf16>

Gate and up of a gated layer come so, packed by their model or by `merge_contractions`. A column then meets its partner
in registers. Elementwise ops between product and slices, with a number for each column (biases) or row, are done on
each part.

Requires: merge_contractions; a target with a schedule for the products that arise. Ensures: every element is the same
sum. Cost: one sweep.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphfuse.dialects import graph
from graphfuse.fusion.products.merge_contractions import Readers, epilogue_of
from graphfuse.fusion.regions.rules import SavedTogether, always_together
from graphfuse.fusion.simplify.patterns import is_op, operand_of
from graphfuse.fusion.simplify.simplify_movement import broadcasted, sliced
from graphfuse.ir.core import Func, Op, Trait, Value, attr_dims, attr_ints, remade, tensor_of
from graphfuse.ir.rewrite import Replacement, common_subexpressions, dead_code, readers, rebuild
from graphfuse.symbolic import Dim


@dataclass(frozen=True)
class _Cut:
    """A product whose result is only read in slices of equal size: `through` lie between it and them, in order."""

    product: Op
    through: tuple[Op, ...]
    slices: tuple[Op, ...]


def cut_columns(func: Func, saved_together: SavedTogether = always_together) -> Func:
    """Multiply by slices of a matrix, where these products save something as one kernel."""
    read_by = readers(func)
    found = [cut for op in func.walk() if op.kind is graph.contract and (cut := _find(op, read_by)) is not None]
    products = [[_product(c.product, s) for s in c.slices] for c in found]
    cuts = [c for c, made in zip(found, products, strict=True) if not isinstance(saved_together(made, meet=True), str)]
    cut_of = {s: c for c in cuts for s in c.slices}
    now: dict[Op, Op] = {}

    def visit(old: Op, new: Op) -> Replacement | None:
        now[old] = new
        if old not in cut_of:
            return None
        cut = cut_of[old]
        made = _product(now[cut.product], old)
        done = {cut.product.result: made.result}
        for op in cut.through:
            made = remade(op, *(_part(op, i, now[op], old, done) for i in range(len(op.operands))))
            done[op.result] = made.result
        return made

    return dead_code(common_subexpressions(rebuild(func, visit_pair=visit))) if cuts else func


def _find(op: Op, read_by: Readers) -> _Cut | None:
    lhs, rhs, out = graph.parse_spec(str(op.attrs["spec"]))
    if not out or out[-1] not in rhs or out[-1] in lhs:
        return None
    through: list[Op] = []
    value = op.result
    while True:
        after = list(dict.fromkeys(read_by.get(value, ())))
        if len(after) != 1 or not after[0].has(Trait.ELEMENTWISE) or not _can_be_cut(after[0], value):
            break
        through.append(after[0])
        value = after[0].result
    starts = {attr_dims(s, "starts")[-1] for s in after if s.kind is graph.slice_}
    if len(starts) < 2 or not all(_is_column_slice(s) for s in after):
        return None
    if len({s.result.type for s in after}) > 1 or not _meet([s.result for s in after], read_by):
        return None
    return _Cut(op, tuple(through), tuple(after))


def _can_be_cut(op: Op, value: Value) -> bool:
    """Whether the other operands are the same in every row or in every column."""
    return all(v == value or is_op(v, graph.full) or _repeated(v) is not None for v in op.operands)


def _repeated(v: Value) -> Value | None:
    """What is repeated along all dims but the last, or along the last."""
    if (x := operand_of(v, graph.broadcast)) is None:
        return None
    shape = tensor_of(x).shape
    is_row = bool(shape) and shape[-1] == tensor_of(v).shape[-1] and all(d == 1 for d in shape[:-1])
    return x if is_row or not shape or shape[-1] == 1 else None


def _is_column_slice(op: Op) -> bool:
    """Whether an op takes neighbouring columns of all rows."""
    if op.kind is not graph.slice_ or any(s != 1 for s in attr_ints(op, "steps")):
        return False
    return tensor_of(op.operands[0]).shape[:-1] == tensor_of(op.result).shape[:-1]


def _meet(values: Sequence[Value], read_by: Readers) -> bool:
    """Whether elementwise ops bring values together."""
    first, *others = (epilogue_of(v, read_by) for v in values)
    return bool(first.intersection(*others))


def _columns(cut: Op) -> tuple[Dim, Dim]:
    """Where a slice begins along the last dim, and its size."""
    return attr_dims(cut, "starts")[-1], tensor_of(cut.result).shape[-1]


def _product(product: Op, cut: Op) -> Op:
    """The product that makes one slice."""
    _, rhs, out = graph.parse_spec(str(product.attrs["spec"]))
    x, w = product.operands
    return remade(product, x, sliced(w, rhs.index(out[-1]), *_columns(cut)))


def _part(old: Op, i: int, new: Op, cut: Op, done: dict[Value, Value]) -> Value:
    """Operand i of an op between product and slices, for one slice."""
    operand = old.operands[i]
    if operand in done:
        return done[operand]
    shape = tensor_of(cut.result).shape
    x = _repeated(new.operands[i])
    if x is None:
        full = new.operands[i].op
        assert full is not None
        return remade(full, shape=shape).result
    varies = bool(tensor_of(x).rank) and tensor_of(x).shape[-1] != 1
    return broadcasted(sliced(x, tensor_of(x).rank - 1, *_columns(cut)) if varies else x, shape)
