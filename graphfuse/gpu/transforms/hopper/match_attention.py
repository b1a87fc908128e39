"""Recognises a block function that is attention: loops over blocks of keys around two products, a softmax between.

    q = load_box
    m, l, acc = for block of keys carrying (-inf, 0, 0):
        s = dot(q, load_box, 0)                    (several, one on top of the other, where queries are deep)
        m, l, p = ...                              (elementwise work and reductions along rows, on s, m and l)
        acc = dot(p, load_box, acc * exp(...))

Several such loops may follow each other, each carrying on what the one before has. m and l have one dim, or a second
one of 1. The values may be a part of the keys: the same elements of the same memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from graphfuse.dialects import block, control
from graphfuse.dialects.boxes import Unboxed
from graphfuse.dialects.gpu import ACCUMULATED
from graphfuse.gpu.transforms.hopper.affine import Scalars
from graphfuse.gpu.transforms.hopper.epilogue import Declined
from graphfuse.gpu.transforms.hopper.match import Operand, find_operand, is_zero
from graphfuse.ir.core import Func, Op, Value, tile_of
from graphfuse.ir.types import F32, Scalar, Tile
from graphfuse.symbolic import Dim, bounds

MOST_COLUMNS = 256
"""Of one `wgmma`."""


@dataclass(frozen=True, slots=True)
class Phase:
    """One of the loops: its products, and its keys and values as they lie in memory."""

    loop: Op
    scores: Op
    """The product that makes them, the last one of several."""
    output: Op
    keys: tuple[Operand, ...]
    """Parts along the depth of a query."""
    values: Operand
    trips: Dim

    @property
    def counter(self) -> Value:
        """The loop's counter."""
        return self.loop.body.params.values[0]

    @property
    def carried(self) -> tuple[Value, ...]:
        """What an iteration receives."""
        return self.loop.body.params.values[1:]

    @property
    def yielded(self) -> tuple[Value, ...]:
        """What an iteration hands on."""
        return self.loop.body.terminator.operands

    @property
    def probabilities(self) -> Value:
        """The factor of the second product, before it is rounded to the other's element."""
        value = self.output.operands[0]
        op = value.op
        if op is not None and op.kind is block.cast and block.elem_of(op.operands[0].type) == F32:
            return op.operands[0]
        return value


@dataclass(frozen=True, slots=True)
class Attention:
    """What was recognised: `acc` is the number of the carried value that the second product sums."""

    query: tuple[Operand, ...]
    """Parts along its depth."""
    phases: tuple[Phase, ...]
    acc: int
    elem: Scalar
    first_runs: bool
    """The first loop surely runs."""
    any_runs: bool
    """One of the loops does."""

    @property
    def inits(self) -> tuple[Value, ...]:
        """What the first loop begins with."""
        return self.phases[0].loop.operands[2:]

    @property
    def results(self) -> tuple[Value, ...]:
        """What the last loop ends with."""
        return self.phases[-1].loop.results

    @property
    def score_type(self) -> Tile:
        """Of a block of scores."""
        return tile_of(self.phases[0].scores.result)

    @property
    def acc_type(self) -> Tile:
        """Of the result."""
        return tile_of(self.phases[0].output.result)

    def weights(self, phase: Phase) -> list[Value]:
        """The exponentials, of rows, that the sum so far is multiplied by."""
        return _weights(phase.output.operands[2], phase.carried[self.acc])

    @property
    def sides(self) -> int:
        """How many warpgroups share the columns of the result, each with as many as a `wgmma` has at most."""
        return -(-self.acc_type.shape[1] // MOST_COLUMNS)

    def values_of(self, phase: Phase, side: int) -> Operand:
        """Those of a phase that are multiplied for one of the sides, as they lie in memory."""
        values, own = phase.values, self.acc_type.shape[1] // self.sides
        along = 0 if values.transposed else 1
        shape, start = list(values.shape), list(values.box.start)
        shape[along], start[along - 2] = own, start[along - 2] + side * own
        return replace(values, shape=(shape[0], shape[1]), box=replace(values.box, start=tuple(start)))

    def part_of_keys(self, side: int) -> int | None:
        """Which part of the keys a side's values are, in every phase; None where they are no part of them."""
        for i in range(len(self.phases[0].keys)):
            if all(_is_same_memory(phase.keys[i], self.values_of(phase, side)) for phase in self.phases):
                return i
        return None


def _is_same_memory(keys: Operand, values: Operand) -> bool:
    """Whether both boxes, [keys, elements], have the same elements."""
    places = [(o.pointer, o.shape) for o in (keys, values)]
    alike = places[0] == places[1] and keys.transposed and not values.transposed
    return alike and keys.box.is_alike(values.box, keys.shape[1])


def match_attention(func: Func, scalars: Scalars) -> Attention | None:
    """The attention of a function, or None; `Declined` where only a view or a tile does not fit."""
    loops = [op for op in func.body.ops if op.bodies]
    if not loops or any(op.kind is block.dot for op in func.body.ops):
        return None
    found = [_products(loop) for loop in loops]
    pairs = [pair for pair in found if pair is not None]
    if len(pairs) < len(loops) or len({at for _, _, at in pairs}) > 1:
        return None
    for before, after in pairwise(loops):
        if after.operands[2:] != before.results:
            return None
    acc = pairs[0][2]
    if not is_zero(loops[0].operands[2 + acc]):
        return None
    queries = {tuple(dot.operands[0] for dot in _parts(scores)) for scores, _, _ in pairs}
    if len(queries) > 1 or not all(_is_outside(v, loops) for v in next(iter(queries))):
        return None
    query = tuple(_boxed(v, scalars, "queries") for v in queries.pop())
    phases = tuple(_phase(loop, pair, scalars) for loop, pair in zip(loops, pairs, strict=True))
    first = phases[0]
    trips: Dim = 0
    for phase in phases:  # if none ran, no number of trips were above 0
        trips = trips + phase.trips
    first_runs, any_runs = (bounds(t, scalars.ranges)[0] >= 1 for t in (first.trips, trips))
    if len({tuple(o.shape for o in (*p.keys, p.values)) for p in phases}) > 1:
        raise Declined("blocks of keys differ in shape")
    if len({o.transposed for o in query}) > 1 or len({o.transposed for o in first.keys}) > 1:
        raise Declined("parts of queries, or of keys, lie in different orders")
    elems = {block.pointed_to(o.pointer) for p in phases for o in (*query, *p.keys, p.values)}
    if len(elems) > 1 or (elem := elems.pop()).bits != 16 or elem.name not in ACCUMULATED:
        raise Declined("operands have no element of 16 bits in common")
    return Attention(query, phases, acc, elem, first_runs, first_runs or any_runs)


def _products(loop: Op) -> tuple[Op, Op, int] | None:
    """The two products of a loop, and which carried value the second is handed on as."""
    if loop.kind is not control.for_ or loop.attrs.get("step", 1) != 1:
        return None
    dots = [op for op in loop.body.ops if op.kind is block.dot]
    if len(dots) < 2 or any(op.bodies for op in loop.body.ops):
        return None
    *_, scores, output = dots
    yielded = loop.body.terminator.operands
    parts = _parts(scores)
    if output.result not in yielded or parts != dots[:-1] or not is_zero(parts[0].operands[2]):
        return None
    at = yielded.index(output.result)
    if not _is_weighted(output.operands[2], loop.body.params.values[1 + at]):
        raise Declined("the sum so far is weighed by something else than exponentials")
    return scores, output, at


def _parts(scores: Op) -> list[Op]:
    """The products that are summed to scores, the first one first."""
    before = scores.operands[2].op
    return [*_parts(before), scores] if before is not None and before.kind is block.dot else [scores]


def _is_weighted(value: Value, acc: Value) -> bool:
    """Whether a value is what is carried, times exponentials of rows: the first block's, of zeros, are not made."""
    op = value.op
    if op is None or op.kind is not block.mul:
        return value == acc
    return any(_is_weighted(a, acc) and _is_exponential(b) for a, b in (op.operands, op.operands[::-1]))


def _weights(value: Value, acc: Value) -> list[Value]:
    """Of a value that `_is_weighted`."""
    if value.op is None or value == acc:
        return []
    a, b = value.op.operands
    sum_, weight = (a, b) if _is_weighted(a, acc) and _is_exponential(b) else (b, a)
    return [*_weights(sum_, acc), _unspread(weight)]


def _is_exponential(value: Value) -> bool:
    op = _unspread(value).op
    return op is not None and op.kind in (block.ELEMENTWISE["exp"], block.ELEMENTWISE["exp2"])


def _unspread(value: Value) -> Value:
    """Before it was broadcast."""
    while value.op is not None and value.op.kind in (block.broadcast, block.reshape):
        value = value.op.operands[0]
    return value


def _is_outside(value: Value, loops: Sequence[Op]) -> bool:
    return all(value.op is not op for loop in loops for op in loop.body.ops)


def _phase(loop: Op, pair: tuple[Op, Op, int], scalars: Scalars) -> Phase:
    lower, upper = (scalars.dim(v) for v in loop.operands[:2])
    scores, output, _ = pair
    keys = tuple(_boxed(dot.operands[1], scalars, "keys") for dot in _parts(scores))
    return Phase(loop, scores, output, keys, _boxed(output.operands[1], scalars, "values"), upper - lower)


def _boxed(value: Value, scalars: Scalars, what: str) -> Operand:
    try:
        return find_operand(value, scalars)
    except Unboxed as why:
        raise Declined(f"the {what}: {why}") from None
