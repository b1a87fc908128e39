"""Products in half precision: the first part of `--precision f16|bf16`.

    %y = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<8x16xf32>

becomes, with the constant %w converted,

    %a = graph.cast(%x) {to = f16} : tensor<8x64xf16>
    %y = graph.contract(%a, %h) {elem = f32, spec = "mk,kn->mn"} : tensor<8x16xf32>

The cast stands at what computes %x, past any movement, so that the kernel which computes it stores halves; a number
that scales an operand scales the result instead. All else
stays in f32: `store_halves` decides, after partitioning, what memory holds.

Requires: nothing; last among the graph passes that know weights as f32. Ensures: products of f32 that remain are those
whose operands halves cannot hold (`value_ranges`). A convolution's result is rounded to half, a contraction's is not.
Cost: one sweep.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphfuse.dialects import graph
from graphfuse.errors import UsageError
from graphfuse.fusion.precision.value_ranges import classify, keeps_f32, number_fits
from graphfuse.fusion.simplify.fold_constants import Array, array_of, constant, full, splat_of
from graphfuse.ir.core import Func, Op, Value, attr_number, remade, tensor_of
from graphfuse.ir.dense import numpy_dtype
from graphfuse.ir.passes import passing
from graphfuse.ir.rewrite import Replacement, common_subexpressions, dead_code, rebuild
from graphfuse.ir.types import BF16, F16, F32, Scalar

LEAST_SCALE = 2.0**-8
"""Of what an operand is scaled with, so that the data itself is well inside the range of halves."""
VIEWS = frozenset({graph.reshape, graph.permute, graph.broadcast, graph.stretch, graph.slice_, graph.flip})


@passing("graph")
def lower_precision(func: Func, *, to: Scalar = F16) -> Func:
    """Multiply halves: every contraction and convolution of f32 that can."""
    if to not in (F16, BF16):
        raise UsageError(f"lower-precision: to: expected f16 or bf16, found {to}")
    classes = classify(func, to)
    halves = Halves(to)

    def visit(old: Op, new: Op) -> Replacement | None:
        if old.kind in (graph.contract_blocks, graph.contract_packed) and tensor_of(old.operands[0]).elem == F32:
            x, *stored = new.operands
            kept = keeps_f32([classes[old.operands[0]]]) if old.operands[0] in classes else False
            return None if kept else remade(new, halves.of(x), *stored)
        if old.kind not in (graph.contract, graph.conv):
            return None
        if any(tensor_of(v).elem != F32 and not _is_weight_of_bytes(old, v) for v in old.operands):
            return None
        if tensor_of(old.result).elem != F32 or keeps_f32(classes[v] for v in old.operands if v in classes):
            return None
        if old.kind is graph.contract:
            return _product(new, halves)
        operands = [halves.of(v) for v in new.operands]
        return graph.cast(remade(new, *operands), to=F32, loc=new.loc)

    return dead_code(common_subexpressions(rebuild(func, visit_pair=visit)))


def _is_weight_of_bytes(op: Op, v: Value) -> bool:
    """Whether a contraction converts an operand, which any half has room for."""
    elem = tensor_of(v).elem
    return op.kind is graph.contract and v == op.operands[1] and elem.is_integer and elem.bits <= 8


def _product(op: Op, halves: Halves) -> Op:
    """The contraction of halves, numbers that scale its operands applied to its result.

    There they cost nothing, while scaled operands would have to be written first: attention often scales queries and
    keys alike.
    """
    scale = 1.0
    operands: list[Value] = []
    for v in op.operands:
        if tensor_of(v).elem.is_integer:
            operands.append(v)
            continue
        x, factor = unscaled(v)
        operands.append(halves.of(x))
        scale *= factor
    return scaled_product(op, operands, scale)


def scaled_product(op: Op, operands: Sequence[Value], scale: float) -> Op:
    """The contraction of other operands in f32, scaled."""
    made = remade(op, *operands, elem=F32)
    return made if scale == 1.0 else graph.mul(made, full(tensor_of(made.result).shape, F32, scale), loc=op.loc)


def unscaled(value: Value) -> tuple[Value, float]:
    """(x, c) for a view of `x * c` with c neither very small nor very large; else the value itself and 1."""
    op = value.op
    if op is not None and op.kind in VIEWS:
        inner, factor = unscaled(op.operands[0])
        return (value, 1.0) if inner == op.operands[0] else (remade(op, inner).result, factor)
    number = splat_of(op.operands[1]) if op is not None and op.kind is graph.mul else None
    if op is None or number is None or not LEAST_SCALE <= abs(number) <= 1 / LEAST_SCALE:
        return value, 1.0
    return op.operands[0], float(number)


class Halves:
    """Values of f32 as halves."""

    def __init__(self, elem: Scalar) -> None:
        self.elem = elem
        self._arrays: dict[int, tuple[Array, Array]] = {}

    def of(self, value: Value) -> Value:
        """`value` in half precision: cast where it is computed, before it is moved."""
        op = value.op
        if op is None:
            return graph.cast(value, to=self.elem).result
        if (array := array_of(value)) is not None:
            return constant(self.array(array), op)
        if (number := splat_of(value)) is not None:
            return full(tensor_of(value).shape, self.elem, number)
        if op.kind is graph.take and array_of(op.operands[0]) is not None:
            return remade(op, self.of(op.operands[0]), op.operands[1]).result
        if op.kind in VIEWS or (op.kind is graph.pad and number_fits(attr_number(op, "value"), self.elem)):
            return remade(op, self.of(op.operands[0])).result
        if op.kind is graph.cast and tensor_of(op.operands[0]).elem == self.elem:
            return op.operands[0]
        return graph.cast(value, to=self.elem, loc=op.loc).result

    def array(self, array: Array) -> Array:
        """A constant in half precision, converted once."""
        found = self._arrays.get(id(array))
        if found is None:
            # the original is kept with it: its id must not be another array's meanwhile
            found = self._arrays[id(array)] = (array, array.astype(numpy_dtype(self.elem)))
        return found[1]
