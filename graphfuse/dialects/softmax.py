"""Finds a softmax over rows of scores, as its two reductions and what divides by them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from graphfuse.dialects import graph
from graphfuse.ir.core import Op, Trait, Value, attr_number
from graphfuse.symbolic import Expr

LOG2_E = math.log2(math.e)
"""exp(x) = 2^(x LOG2_E)."""


@dataclass(frozen=True)
class Softmax:
    """The operands of `p = exp(z - base) / total`, base and total from the largest z and the sum of exponentials."""

    largest: Op
    base: Value
    sum: Op
    scale: Op
    """The division by the total, or the multiplication with its inverse."""
    total: Value
    guard: Literal["", "nan", "unseen"]
    """Which probabilities are 0 whatever the division gives: NaN, or those of rows whose scores are all -inf."""

    @property
    def shifted(self) -> Op:
        """`z - base`."""
        exponential = self.sum.operands[0].op
        shifted = None if exponential is None else exponential.operands[0].op
        assert shifted is not None, "what is summed are exponentials"
        return shifted

    @property
    def is_plain(self) -> bool:
        """Whether base and total are the largest and the sum themselves."""
        total = self.total
        if self.scale.kind is graph.mul:
            by = total.op
            if by is None or by.kind is not graph.div or number(by.operands[0]) != 1:
                return False
            total = by.operands[1]
        return self.base == self.largest.result and total == self.sum.result


def find_softmax(reduces: Sequence[Op], probabilities: Value) -> Softmax | None:
    """The softmax whose result, maybe cast, `probabilities` is."""
    spread = base_of(reduces)
    if spread is None:
        return None
    largest, total = reduces
    e = total.operands[0]
    guard, scale = _guarded(_uncast(probabilities), largest)
    if scale.op is None or scale.op.kind not in (graph.div, graph.mul):
        return None
    a, b = scale.op.operands
    if a != e and scale.op.kind is graph.mul:
        a, b = b, a
    base, inverse = _spread_from(spread), _spread_from(b)
    if a != e or base is None or inverse is None:
        return None
    return Softmax(largest, base, total, scale.op, inverse, guard)


def base_of(reduces: Sequence[Op]) -> Value | None:
    """The base, if these are the largest z and the sum of exp(z - base)."""
    if [op.attrs["kind"] for op in reduces] != ["max", "sum"]:
        return None
    (z,), (term,) = (op.operands for op in reduces)
    shifted = term.op.operands[0].op if term.op is not None and term.op.kind is graph.exp else None
    if shifted is None or shifted.kind is not graph.sub or shifted.operands[0] != z:
        return None
    return shifted.operands[1]


def number(v: Value) -> float | None:
    """The number that a tensor has everywhere."""
    op = v.op
    while op is not None and op.has(Trait.MOVEMENT) and op.kind in (graph.broadcast, graph.reshape):
        op = op.operands[0].op
    if op is None or op.kind is not graph.full or isinstance(op.attrs["value"], Expr):
        return None
    return float(attr_number(op, "value"))


def _uncast(value: Value) -> Value:
    while value.op is not None and value.op.kind is graph.cast:
        value = value.op.operands[0]
    return value


def _guarded(value: Value, largest: Op) -> tuple[Literal["", "nan", "unseen"], Value]:
    """What is guarded, and how: rows that attend to nothing are left 0.

    `select(isnan(x), 0, x)` or `select(largest == -inf, 0, x)`.
    """
    if value.op is None or value.op.kind is not graph.select:
        return "", value
    test, zero, x = value.op.operands
    while test.op is not None and test.op.kind is graph.broadcast:
        (test,) = test.op.operands
    if test.op is None or number(zero) != 0:
        return "", value
    if test.op.kind is graph.ELEMENTWISE["isnan"] and test.op.operands[0] == x:
        return "nan", x
    if test.op.kind is graph.ELEMENTWISE["eq"]:
        row, least = test.op.operands
        if (_spread_from(row) or row) == largest.result and number(least) == -math.inf:
            return "unseen", x
    return "", value


def _spread_from(value: Value) -> Value | None:
    """The row value that is spread over the keys."""
    return value.op.operands[0] if value.op is not None and value.op.kind is graph.broadcast else None
