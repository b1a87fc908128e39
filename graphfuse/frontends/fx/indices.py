"""Indices and divisors that are read when a part runs: those out of range, and zeros, must not go unnoticed.

A kernel keeps what it reads as an index within its tensor, so no other memory is touched, and an integer divided by 0
is 0; but the result would be wrong, and nobody told. So a part on a CPU has one more output: for each tensor of indices
one that is out of range, for each of divisors a 0, or `NONE`. Those whose bounds are known, such as positions and what
is clamped, are not looked at.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from graphfuse.dialects import graph
from graphfuse.frontends.emit import Emitter, elem_of, shape_of
from graphfuse.ir.core import Op, Trait, Value, attr_int
from graphfuse.ir.dense import Dense
from graphfuse.ir.types import I64, Scalar
from graphfuse.symbolic import Dim, Expr, Ranges, bounds

NONE = -(1 << 63)
"""What the output has where all indices are in range, and no divisor is 0."""
OUTPUT = "refused"
"""The name of the output."""


@dataclass(frozen=True)
class Indices:
    """A tensor of indices into `size` elements, and the node that reads it."""

    value: Value
    size: Dim
    from_end: bool
    """Whether -1 is the last element."""
    reader: str


@dataclass(frozen=True)
class Divisors:
    """A tensor that integers are divided by, and the node that does."""

    value: Value
    reader: str


@dataclass
class Watched:
    """What a part reads as indices, or divides integers by."""

    e: Emitter
    reader: str = ""
    """The node that is being lowered."""
    found: dict[tuple[object, ...], Indices | Divisors] = field(
        default_factory=dict[tuple[object, ...], "Indices | Divisors"]
    )

    def watch(self, value: Value, size: Dim, *, from_end: bool) -> None:
        """Note that `value` is read as indices into `size` elements."""
        low, ranges = -size if from_end else 0, self.e.ranges
        if proved(value, low, ranges, upper=False) and proved(value, size - 1, ranges, upper=True):
            return
        if 0 not in shape_of(value):
            self.found.setdefault((id(value), size, from_end), Indices(value, size, from_end, self.reader))

    def watch_divisor(self, value: Value) -> None:
        """Note that integers are divided by all elements of `value`."""
        ranges = self.e.ranges
        if proved(value, 1, ranges, upper=False) or proved(value, -1, ranges, upper=True):
            return
        if 0 not in shape_of(value):
            self.found.setdefault((id(value),), Divisors(value, self.reader))

    def output(self) -> Value:
        """One number for each tensor."""
        return self.e.concat(
            [self._zero(f) if isinstance(f, Divisors) else self._worst(f) for f in self.found.values()], 0
        )

    def _zero(self, divisors: Divisors) -> Value:
        e = self.e
        by = e.flatten(divisors.value)
        shape = shape_of(by)
        is_zero = e(graph.eq, by, e.full(shape, elem_of(by), 0))
        return e.reduce(e(graph.select, is_zero, e.full(shape, I64, 0), e.full(shape, I64, NONE)), "max", [0])

    def _worst(self, indices: Indices) -> Value:
        e = self.e
        at = e.flatten(e.cast(indices.value, I64))
        shape = shape_of(at)
        low = e.full(shape, I64, -indices.size if indices.from_end else 0)
        outside = e(graph.or_, e(graph.lt, at, low), e(graph.ge, at, e.full(shape, I64, indices.size)))
        shown = e(graph.max_, at, e.full(shape, I64, NONE + 1))
        return e.reduce(e(graph.select, outside, shown, e.full(shape, I64, NONE)), "max", [0])


# what is known of integers before anything runs


def proved(x: Value, end: Dim, ranges: Ranges, *, upper: bool) -> bool:
    """Whether no element of integers is above `end`, or, unless `upper`, below it."""

    def ends(d: Dim) -> bool:
        return bounds(d - end if upper else end - d, ranges)[1] <= 0

    def holds(v: Value, by: Dim = end) -> bool:
        return proved(v, by, ranges, upper=upper)

    op = x.op
    if op is None or not elem_of(x).is_integer:
        return False
    if (last := _end(x, op, upper=upper)) is not None:
        return ends(last)
    kind, operands = op.kind, op.operands
    if kind is graph.pad:
        value = op.attrs["value"]
        return isinstance(value, int) and ends(value) and holds(operands[0])
    if kind is graph.cast:
        return _widens(elem_of(operands[0]), elem_of(x)) and holds(operands[0])
    if kind is graph.take:
        return holds(operands[0])
    if kind is graph.select or Trait.MOVEMENT in kind.traits:
        return all(holds(v) for v in operands if elem_of(v) == elem_of(x))
    if kind in (graph.max_, graph.min_):
        return (any if (kind is graph.min_) == upper else all)(holds(v) for v in operands)
    if kind is graph.floormod:
        by = _extreme(operands[1], upper=False)
        return by is not None and bounds(by, ranges)[0] > 0 and (holds(operands[1], end + 1) if upper else ends(0))
    if kind is not graph.add and kind is not graph.sub:
        return False
    by = _extreme(operands[1], upper=upper == (kind is graph.add))
    return by is not None and holds(operands[0], end - by if kind is graph.add else end + by)


def _end(x: Value, op: Op, *, upper: bool) -> Dim | None:
    """The largest, or least, element of what depends on no elements; None for anything else."""
    if op.kind is graph.constant:
        value = op.attrs["value"]
        assert isinstance(value, Dense)
        return int(value.array.max() if upper else value.array.min()) if value.array.size else None
    if op.kind is graph.full:
        number = op.attrs["value"]
        return number if isinstance(number, (int, Expr)) else None
    if op.kind is graph.iota or op.kind is graph.arg_reduce or (op.kind is graph.topk and x is op.results[1]):
        source = x if op.kind is graph.iota else op.operands[0]
        return shape_of(source)[attr_int(op, "axis")] - 1 if upper else 0
    return None


def _widens(elem: Scalar, to: Scalar) -> bool:
    """Whether integers of one type are all of the other's."""
    return elem == to or (elem.is_integer and elem.bits < to.bits and (to.is_signed or not elem.is_signed))


def _extreme(x: Value, *, upper: bool) -> Dim | None:
    """The largest, or least, element of what is read from one source; None if it is not known."""
    while (op := x.op) is not None and len(op.operands) == 1:
        moves = (Trait.MOVEMENT in op.kind.traits and op.kind is not graph.pad) or op.kind is graph.cast
        if not moves or not _widens(elem_of(op.operands[0]), elem_of(x)):
            break
        (x,) = op.operands
    return _end(x, op, upper=upper) if op is not None else None
