"""Recognises a block function that is a matrix product: one loop over K around one `dot`, then elementwise work.

    %acc = for %k = lower to upper carrying zeros { a = load_view; b = load_view; yield dot(a, b, acc) }

Operands may be transposed between load and product. Everything else in the loop is index arithmetic. A product after
the loop may go on where it ends, with views that are cut off: boxes are cut off by themselves. One product and no loop
is a loop too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from graphfuse.dialects import block, control
from graphfuse.gpu.transforms.hopper.affine import Box, Scalars, find_box
from graphfuse.ir.core import Func, Op, Value, attr_ints, attr_number
from graphfuse.ir.types import Ptr, Tile
from graphfuse.symbolic import Dim, Expr, bounds, ceildiv, substitute

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
    """What was recognised: `lower`, `upper` and `step` of a loop that makes `result`."""

    a: Operand
    b: Operand
    acc: Tile
    elem: str
    result: Value
    counter: Value | None
    """The old loop's counter."""
    lower: Dim
    upper: Dim
    step: int
    trips: Dim | None
    """Iterations, if the launch decides their number."""


def match_product(func: Func, scalars: Scalars) -> Product | None:
    """The product of a function whose other ops come after it, or None."""
    loops = [op for op in func.body.ops if op.bodies]
    dots = [op for op in func.body.ops if op.kind is block.dot]
    if len(loops) > 1 or len(dots) > 1:
        return None
    if not loops:
        return _match_single(dots[0], scalars) if dots else None
    found = _match_loop(loops[0], scalars)
    return _with_rest(found, dots[0], scalars) if found and dots else found


def _match_loop(loop: Op, scalars: Scalars) -> Product | None:
    if loop.kind is not control.for_ or len(loop.results) != 1:
        return None
    lower, upper, init = loop.operands
    step = loop.attrs.get("step", 1)
    counter, carried = loop.body.params.values
    (last,) = loop.body.terminator.operands
    dot = last.op
    if dot is None or dot.kind is not block.dot or dot.operands[2] != carried or not _is_zero(init):
        return None
    assert isinstance(step, int)
    first, end = scalars.dim(lower), scalars.dim(upper)
    if bounds(end - first, scalars.ranges)[0] < 1:
        return None  # it might not run at all, and nothing would set the accumulator
    low, high = bounds(first, scalars.ranges)[0], bounds(end, scalars.ranges)[1]
    scalars.leaf(counter, "k", low, high - 1, min(scalars.divisor(first), scalars.divisor(step)))
    if not _only_reads(loop, carried, last):
        return None
    return _product(dot, loop.result, scalars, counter, (first, end, step))


def _match_single(dot: Op, scalars: Scalars) -> Product | None:
    """One step is a loop of one iteration."""
    if not _is_zero(dot.operands[2]):
        return None
    return _product(dot, dot.result, scalars, None, (0, 1, 1))


def _product(
    dot: Op, result: Value, scalars: Scalars, counter: Value | None, loop: tuple[Dim, Dim, int]
) -> Product | None:
    a, b = (_operand(v, scalars) for v in dot.operands[:2])
    acc = dot.result.type
    if a is None or b is None or not isinstance(acc, Tile):
        return None
    elem = _elem(a)
    if elem != _elem(b) or ACCUMULATED.get(elem) != acc.elem.name:
        return None
    lower, upper, step = loop
    trips = ceildiv(upper - lower, step)
    return Product(a, b, acc, elem, result, counter, lower, upper, step, None if scalars.varies(trips) else trips)


def _with_rest(product: Product, dot: Op, scalars: Scalars) -> Product | None:
    """The loop with one iteration more, for a product after it that goes on where the loop ends."""
    if dot.operands[2] != product.result or product.counter is None or product.trips is None:
        return None
    rest = _product(dot, dot.result, scalars, None, (0, 1, 1))
    end = scalars.dim(product.counter)
    assert isinstance(end, Expr)
    at_end = {str(end): product.lower + product.trips * product.step}
    if rest is None:
        return None
    a, b = _joined(product.a, rest.a, at_end), _joined(product.b, rest.b, at_end)
    if a is None or b is None:
        return None
    upper = product.lower + (product.trips + 1) * product.step
    return replace(product, a=a, b=b, result=rest.result, upper=upper, trips=product.trips + 1)


def _joined(whole: Operand, rest: Operand, at_end: dict[str, Dim]) -> Operand | None:
    """An operand whose boxes go on to where those of the rest end; None if the rest is elsewhere."""
    a, b = whole.box, rest.box
    if (a.pointer, a.strides, whole.shape, whole.transposed) != (b.pointer, b.strides, rest.shape, rest.transposed):
        return None
    left = b.offset - a.offset
    dims = list(b.dims)
    for d, (start, begun, stride) in enumerate(zip(a.start, b.start, a.strides, strict=True)):
        ahead = substitute(start, at_end) - begun
        dims[d] = dims[d] + ahead
        left = left - ahead * stride
    return replace(whole, box=replace(a, dims=tuple(dims))) if left == 0 else None


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
