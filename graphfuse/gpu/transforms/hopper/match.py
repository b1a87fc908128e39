"""Recognises a block function that is a matrix product: one loop over K around one `dot`, then elementwise work.

    %acc = for %k = lower to upper carrying zeros { a = load_view; b = load_view; yield dot(a, b, acc) }

Operands may be transposed between load and product. Everything else in the loop is index arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphfuse.dialects import block, control
from graphfuse.gpu.transforms.hopper.affine import Box, Scalars, find_box
from graphfuse.ir.core import Func, Op, Value, attr_ints, attr_number
from graphfuse.ir.types import Ptr, Tile
from graphfuse.symbolic import Dim, bounds, ceildiv

ACCUMULATED = {"f16": "f32", "bf16": "f32", "i8": "i32", "f8e4m3": "f32", "f8e5m2": "f32"}
"""Operand elements that `wgmma` takes, and the element it sums them in."""
INDEX_OPS = (block.index, block.const, block.add, block.sub, block.mul)


@dataclass(frozen=True, slots=True)
class Operand:
    """A factor, as it lies in memory: `shape` and `box` have the contiguous dim last."""

    box: Box
    shape: tuple[int, int]
    transposed: bool
    """Memory has the dims of the factor, [M, K] or [K, N], the other way round."""


@dataclass(frozen=True, slots=True)
class Product:
    """What was recognised. `trips` is the number of iterations, if the launch decides it."""

    loop: Op
    a: Operand
    b: Operand
    acc: Tile
    elem: str
    counter: Value
    trips: Dim | None


def match_product(func: Func, scalars: Scalars) -> Product | None:
    """The product of a function whose other ops come after it, or None."""
    loops = [op for op in func.body.ops if op.bodies]
    if len(loops) != 1 or loops[0].kind is not control.for_ or len(loops[0].results) != 1:
        return None
    loop = loops[0]
    lower, upper, init = loop.operands
    step = loop.attrs.get("step", 1)
    counter, carried = loop.body.params.values
    (dot,) = loop.body.terminator.operands
    if dot.op is None or dot.op.kind is not block.dot or dot.op.operands[2] != carried or not _is_zero(init):
        return None
    assert isinstance(step, int)
    first, last = scalars.dim(lower), scalars.dim(upper)
    low, high = bounds(first, scalars.ranges)[0], bounds(last, scalars.ranges)[1]
    if bounds(last - first, scalars.ranges)[0] < 1:
        return None  # it might not run at all, and nothing would set the accumulator
    scalars.leaf(counter, "k", low, high - 1, min(scalars.divisor(first), scalars.divisor(step)))
    if not _only_reads(loop, carried, dot):
        return None
    a, b = (_operand(v, scalars) for v in dot.op.operands[:2])
    acc = loop.result.type
    if a is None or b is None or not isinstance(acc, Tile):
        return None
    elem = _elem(a)
    if elem != _elem(b) or ACCUMULATED.get(elem) != acc.elem.name:
        return None
    trips = ceildiv(last - first, step)
    return Product(loop, a, b, acc, elem, counter, None if scalars.varies(trips) else trips)


def _is_zero(value: Value) -> bool:
    op = value.op
    while op is not None and op.kind in (block.splat, block.broadcast):
        op = op.operands[0].op
    return op is not None and op.kind is block.const and attr_number(op, "value") == 0


def _only_reads(loop: Op, carried: Value, dot: Value) -> bool:
    """Whether the body has nothing but loads, the product and arithmetic, and only the product reads the sum."""
    for op in loop.body.ops[:-1]:
        if op.kind not in (*INDEX_OPS, block.load_view, block.trans, block.dot):
            return False
        if op.kind is block.dot and op.result != dot:
            return False
        if carried in op.operands and op.kind is not block.dot:
            return False
    return True


def _operand(value: Value, scalars: Scalars) -> Operand | None:
    """A factor: a view, perhaps transposed, whose rows or columns are contiguous."""
    op, perm = value.op, (0, 1)
    while op is not None and op.kind is block.trans:
        perm = perm if attr_ints(op, "perm") == (0, 1) else perm[::-1]
        op = op.operands[0].op
    if op is None or op.kind is not block.load_view:
        return None
    type_ = op.result.type
    assert isinstance(type_, Tile)
    strides = op.attrs["strides"]
    assert isinstance(strides, tuple)
    memory = (0, 1) if strides[1] == 1 else (1, 0)
    box = find_box(op, scalars, memory)
    if box is None:
        return None
    rows, columns = (type_.shape[d] for d in memory)
    return Operand(box, (rows, columns), perm.index(memory[1]) != 1)


def _elem(operand: Operand) -> str:
    type_ = operand.box.pointer.type
    assert isinstance(type_, Ptr)
    return type_.elem.name
