"""Recognises a block function that is a matrix product: one loop over K around `dot`s, then elementwise work.

    %acc = for %k = lower to upper carrying zeros { a = load_box; b = load_box; yield dot(a, b, acc) }

Operands may be transposed between load and product, and have part in several products. A step may make several sums,
each of a chain of products `dot(c, d, dot(a, b, acc))`, or chains of their own that begin at 0 and are then added to
what is carried: `add(acc, dot(c, d, dot(a, b, 0)))`. Everything else in the loop is index arithmetic. A product after
the loop may go on where it ends, with boxes that are cut off: those are cut off by themselves. One product and no loop
is a loop too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from graphfuse.artifact import Im2col
from graphfuse.dialects import block, control
from graphfuse.dialects.boxes import Box, Unboxed
from graphfuse.dialects.gpu import ACCUMULATED
from graphfuse.gpu.transforms.hopper.affine import Scalars, copied
from graphfuse.ir.core import Func, Op, Trait, Value, attr_dim, attr_dims, attr_int, attr_ints, attr_number, tile_of
from graphfuse.ir.types import Scalar, Tile
from graphfuse.symbolic import Dim, Expr, bounds, ceildiv, substitute


@dataclass(frozen=True, slots=True)
class Operand:
    """A factor, as it lies in memory: `shape` and `box` have the contiguous dim last."""

    pointer: Value
    box: Box
    shape: tuple[int, int]
    transposed: bool
    """Memory has the dims of the factor, [M, K] or [K, N], the other way round."""

    @property
    def elem(self) -> Scalar:
        """What is in memory."""
        return block.pointed_to(self.pointer)

    @property
    def nbytes(self) -> int:
        """Of a box."""
        return self.shape[0] * self.shape[1] * self.elem.bytes


@dataclass(frozen=True, slots=True)
class Term:
    """A product of a step: the numbers of its operands, and of the result that it is summed into.

    Where the left factor is `coded`, what widens it has the operands numbered `codes`, the first of which is `a`.
    """

    a: int
    b: int
    result: int
    coded: Op | None = None
    codes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Product:
    """What was recognised: `lower`, `upper` and `step` of a loop that makes `results`."""

    operands: tuple[Operand, ...]
    terms: tuple[Term, ...]
    """Of every step, in their order."""
    acc: Tile
    """The type of each result."""
    elem: str
    results: tuple[Value, ...]
    is_added: bool
    """A step's products are summed from 0 and then added to the result, which rounds as additions do."""
    counter: Value | None
    """The old loop's counter."""
    lower: Dim
    upper: Dim
    step: int
    trips: Dim | None
    """Iterations, if the launch decides their number."""

    @property
    def step_bytes(self) -> int:
        """What is loaded for one step."""
        return sum(o.nbytes for o in self.operands)

    @property
    def codes(self) -> list[int]:
        """Which operands are codes and their numbers, that no `wgmma` reads."""
        return list(dict.fromkeys(i for t in self.terms for i in t.codes))

    @property
    def accumulated(self) -> int:
        """Elements of all accumulators."""
        rows, columns = self.acc.shape
        return rows * columns * len(self.results) * (2 if self.is_added else 1)

    def is_transposed(self, operand: int) -> bool:
        """Whether memory has an operand as [K, M] or [N, K]."""
        return self.operands[operand].transposed

    def runs_along_k(self, operand: int) -> bool:
        """Whether an operand is contiguous along K."""
        return self.is_transposed(operand) == any(t.b == operand for t in self.terms)


def match_product(func: Func, scalars: Scalars) -> Product | None:
    """The product of a function whose other ops come after it, or None; raises `Unboxed` if a factor is no box."""
    loops = [op for op in func.body.ops if op.bodies]
    dots = [op for op in func.body.ops if op.kind is block.dot]
    if not loops:
        return _match_single(dots, scalars) if dots else None
    if len(loops) > 1 or len(dots) > 1:
        return None
    found = _match_loop(loops[0], scalars)
    return _with_rest(found, dots[0], scalars) if found and dots else found


def _match_loop(loop: Op, scalars: Scalars) -> Product | None:
    if loop.kind is not control.for_ or not loop.results:
        return None
    lower, upper, *inits = loop.operands
    step = attr_int(loop, "step", 1)
    counter, *carried = loop.body.params.values
    found = [_chain(v, c) for v, c in zip(loop.body.terminator.operands, carried, strict=True)]
    chains = [c for c in found if c is not None]
    if len(chains) < len(found) or len({added for _, added in chains}) > 1 or not all(map(is_zero, inits)):
        return None
    first, end = scalars.dim(lower), scalars.dim(upper)
    if bounds(end - first, scalars.ranges)[0] < 1:
        return None  # it might not run at all, and nothing would set the accumulator
    if not _only_reads(loop, carried, [dot for dots, _ in chains for dot in dots]):
        return None
    dots = [(dot, i) for i, (dots, _) in enumerate(chains) for dot in dots]
    return _product(dots, tuple(loop.results), scalars, counter, (first, end, step), is_added=chains[0][1])


def _chain(last: Value, carried: Value) -> tuple[list[Op], bool] | None:
    """The products that make what is carried next, and whether they begin at 0 and are added to it."""
    op, base = last.op, None
    if op is not None and op.kind is block.add and carried in op.operands:
        (last, *_) = [v for v in op.operands if v != carried] or [carried]
    else:
        base = carried
    dots, begin = _summed(last, base)
    whole = is_zero(begin) if base is None else begin == base
    return (dots, base is None) if dots and whole else None


def _summed(last: Value, base: Value | None = None) -> tuple[list[Op], Value]:
    """The products that a sum is of, and what it begins with."""
    dots: list[Op] = []
    while last != base and last.op is not None and last.op.kind is block.dot:
        dots.insert(0, last.op)
        last = last.op.operands[2]
    return dots, last


def _match_single(dots: Sequence[Op], scalars: Scalars) -> Product | None:
    """One step is a loop of one iteration."""
    results = tuple(dot.result for dot in dots if all(dot.result != other.operands[2] for other in dots))
    chains = [_summed(v) for v in results]
    if not all(is_zero(begin) for _, begin in chains):
        return None
    return _product(
        [(dot, i) for i, (chain, _) in enumerate(chains) for dot in chain], results, scalars, None, (0, 1, 1)
    )


def _product(
    dots: Sequence[tuple[Op, int]],
    results: tuple[Value, ...],
    scalars: Scalars,
    counter: Value | None,
    loop: tuple[Dim, Dim, int],
    *,
    is_added: bool = False,
) -> Product | None:
    operands: dict[tuple[Value, int], Operand] = {}
    terms: list[Term] = []
    for dot, result in dots:
        a, b, _ = dot.operands
        coded = a.op if a.op and a.op.kind is block.widen_codes else None
        keys = [*((v, 0) for v in (coded.operands if coded else (a,))), (b, 1)]
        for value, side in keys:
            operands[value, side] = operands.get((value, side)) or find_operand(value, scalars)
        *left, right = (list(operands).index(key) for key in keys)
        terms.append(Term(left[0], right, result, coded, tuple(left) if coded else ()))
    if len({t.coded is None for t in terms}) > 1:
        return None
    codes = {i for t in terms for i in t.codes}
    acc, elems = results[0].type, {o.elem.name for i, o in enumerate(operands.values()) if i not in codes}
    if not isinstance(acc, Tile) or any(v.type != acc for v in results) or len(elems) > 1:
        return None
    elem = elems.pop()
    if ACCUMULATED.get(elem) != acc.elem.name:
        return None
    lower, upper, step = loop
    trips = ceildiv(upper - lower, step)
    known = None if scalars.varies(trips) else trips
    every = tuple(operands.values())
    return Product(every, tuple(terms), acc, elem, results, is_added, counter, lower, upper, step, known)


def _with_rest(product: Product, dot: Op, scalars: Scalars) -> Product | None:
    """The loop with one iteration more, for a product after it that goes on where the loop ends."""
    if len(product.terms) > 1 or product.is_added or dot.operands[2] != product.results[0]:
        return None
    if product.counter is None or product.trips is None:
        return None
    rest = _product([(dot, 0)], (dot.result,), scalars, None, (0, 1, 1))
    end = scalars.dim(product.counter)
    assert isinstance(end, Expr)
    at_end = {str(end): product.lower + product.trips * product.step}
    if rest is None:
        return None
    joined = [_joined(o, r, at_end) for o, r in zip(product.operands, rest.operands, strict=True)]
    operands = tuple(o for o in joined if o is not None)
    if len(operands) < len(joined):
        return None
    upper = product.lower + (product.trips + 1) * product.step
    return replace(product, operands=operands, results=rest.results, upper=upper, trips=product.trips + 1)


def _joined(whole: Operand, rest: Operand, at_end: dict[str, Dim]) -> Operand | None:
    """An operand whose boxes go on to where those of the rest end; None if the rest is elsewhere."""
    a, b = whole.box, rest.box
    places = [(o.pointer, o.box.strides, o.shape, o.transposed) for o in (whole, rest)]
    if places[0] != places[1]:
        return None
    left = b.offset - a.offset
    dims = list(b.dims)
    for d, (start, begun, stride) in enumerate(zip(a.start, b.start, a.strides, strict=True)):
        ahead = substitute(start, at_end) - begun
        dims[d] = dims[d] + ahead
        left = left - ahead * stride
    return replace(whole, box=replace(a, dims=tuple(dims))) if left == 0 else None


def is_zero(value: Value) -> bool:
    """Whether a tile is 0 everywhere."""
    op = value.op
    while op is not None and op.kind in (block.splat, block.broadcast):
        op = op.operands[0].op
    return op is not None and op.kind is block.const and attr_number(op, "value") == 0


def _only_reads(loop: Op, carried: Sequence[Value], dots: Sequence[Op]) -> bool:
    """Whether the body has nothing but loads, the products and arithmetic, and only they read the sums."""
    ends = loop.body.terminator.operands
    for op in loop.body.ops[:-1]:
        is_scalar = not isinstance(op.result.type, Tile) and (op.has(Trait.PURE) or op.kind is block.load)
        is_sum = op.kind is block.add and op.result in ends
        if not (is_scalar or is_sum) and op.kind not in (block.load_box, block.widen_codes, block.trans, block.dot):
            return False
        if op.kind is block.dot and op not in dots:
            return False
        if op.kind is not block.dot and op.result not in ends and not set(carried).isdisjoint(op.operands):
            return False
    return True


def find_operand(value: Value, scalars: Scalars) -> Operand:
    """A factor in a box, perhaps transposed; raises `Unboxed` if it is none that TMA copies."""
    op, perm = value.op, (0, 1)
    while op is not None and op.kind is block.trans:
        perm = perm if attr_ints(op, "perm") == (0, 1) else perm[::-1]
        op = op.operands[0].op
    if op is None or op.kind is not block.load_box:
        raise Unboxed("a factor is computed")
    pointer, *at = op.operands
    dims, steps = attr_dims(op, "dims"), attr_ints(op, "steps", ())
    start = tuple(scalars.dim(v) for v in at)
    how = Im2col(attr_ints(op, "lower"), attr_ints(op, "upper"), steps) if steps else None
    box = Box(dims, attr_dims(op, "strides"), attr_dim(op, "offset", 0), start[: len(dims)], start[len(dims) :], how)
    rows, columns = tile_of(op.result).shape
    return Operand(pointer, copied(box, pointer, scalars), (rows, columns), perm != (0, 1))
