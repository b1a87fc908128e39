"""Values that are read as indices, lengths or divisors when a part runs: those that do not fit must not go unnoticed.

What is watched is reduced to one number by ops of the graph (`value_checks.py` says which), an output of the function
besides its own. What lies inside a loop or under a condition is reduced there. Values whose bounds are known, such as
positions and what is clamped, are not looked at.
"""

from __future__ import annotations

from collections.abc import Generator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, field

from graphfuse.dialects import graph
from graphfuse.frontends.emit import Emitter, elem_of, shape_of
from graphfuse.ir.core import Attr, Op, Trait, Value, attr_int
from graphfuse.ir.dense import Dense
from graphfuse.ir.types import I64, Scalar
from graphfuse.symbolic import Dim, Expr, Ranges, bounds, symbols
from graphfuse.value_checks import ATTR, FINE, Check

Found = dict[tuple[object, ...], tuple[Check, Value, Value]]
"""By what is checked: the check, the tensor (which must live as long as its identity is a key), and one number."""


@dataclass
class Watched:
    """What a function reads as indices, lengths or divisors."""

    e: Emitter
    node: str = ""
    """The node that is being lowered."""
    operator: str = ""
    found: Found = field(default_factory=dict[tuple[object, ...], tuple[Check, Value, Value]])

    def watch(self, value: Value, size: Dim, *, from_end: bool, operand: str = "") -> None:
        """Note that `value` is read as indices into `size` elements, -1 being the last one if they count `from_end`."""
        self.watch_range(value, -size if from_end else 0, size - 1, "indices", operand)

    def watch_range(self, value: Value, low: Dim, high: Dim, what: str, operand: str = "") -> None:
        """Note that the integers of `value` have to be in `low..high`."""
        ranges = self.e.ranges
        if proved(value, low, ranges, upper=False) and proved(value, high, ranges, upper=True):
            return
        if 0 not in shape_of(value) and (key := (id(value), low, high)) not in self.found:
            # the message is made when the numbers of a loop are gone
            shown = (_outside(low, ranges, self.e.loop_symbols, 0), _outside(high, ranges, self.e.loop_symbols, 1))
            self.found[key] = self._check(what, operand, *shown), value, self._worst(value, low, high)

    def watch_divisor(self, value: Value, operand: str = "") -> None:
        """Note that integers are divided by all elements of `value`."""
        ranges = self.e.ranges
        if proved(value, 1, ranges, upper=False) or proved(value, -1, ranges, upper=True):
            return
        if 0 not in shape_of(value) and (key := (id(value),)) not in self.found:
            self.found[key] = self._check("integers", operand), value, self._zero(value)

    def output(self, results: list[Value]) -> dict[str, Attr]:
        """Add the output to a function's results, if anything was found; the attributes that say so."""
        if not self.found:
            return {}
        results.append(self.numbers(self.found))
        return {ATTR: tuple(check.attr for check, _, _ in self.found.values())}

    @contextmanager
    def apart(self) -> Generator[Found, None, None]:
        """Collect what is found elsewhere: in a body, or under a condition. `join` takes it back."""
        outer, self.found = self.found, {}
        try:
            yield self.found
        finally:
            self.found = outer

    def join(self, found: Found, numbers: Value) -> None:
        """Take what was found apart, of which `numbers` has one number each."""
        for i, (key, (check, value, _)) in enumerate(found.items()):
            self.found[numbers, *key] = check, value, self.e.slice(numbers, 0, i, 1)

    def numbers(self, found: Found) -> Value:
        """The numbers of what was found, which is something."""
        return self.e.concat([number for _, _, number in found.values()], 0)

    def _check(self, what: str, operand: str, low: Dim | None = None, high: Dim | None = None) -> Check:
        return Check(self.node, f"{self.operator}: {operand}" if operand else self.operator, what, low, high)

    def _zero(self, divisors: Value) -> Value:
        e = self.e
        by = e.flatten(divisors)
        shape = shape_of(by)
        is_zero = e(graph.eq, by, e.full(shape, elem_of(by), 0))
        return e.reduce(e(graph.select, is_zero, e.full(shape, I64, 0), e.full(shape, I64, FINE)), "max", [0])

    def _worst(self, value: Value, low: Dim, high: Dim) -> Value:
        e = self.e
        at = e.flatten(e.cast(value, I64))
        shape = shape_of(at)
        # one chain, so that it is one kernel
        shown = e(graph.max_, at, e.full(shape, I64, FINE + 1))
        below, above = e(graph.lt, shown, e.full(shape, I64, low)), e(graph.gt, shown, e.full(shape, I64, high))
        return e.reduce(e(graph.select, e(graph.or_, below, above), shown, e.full(shape, I64, FINE)), "max", [0])


def _outside(end: Dim, ranges: Ranges, inner: AbstractSet[str], side: int) -> Dim:
    """An end of a range in terms of the function's own symbols: of a loop's, what is the furthest it may be."""
    if isinstance(end, int) or inner.isdisjoint(symbols(end)):
        return end
    return int(bounds(end, ranges)[side])


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
