"""Formulas: values with Python's operators, so that arithmetic is written as it is meant.

    x = Term(e, value)
    where(x < 0.5, x * x - 1.0, sqrt(x))

Operands broadcast, numbers take the element of the value that they meet. Functions are of arrays, too: what a formula
says of sizes it says of those that are known, and of those that are not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np

from graphfuse.dialects import graph
from graphfuse.dialects.graph import ELEMENTWISE
from graphfuse.frontends.emit import Emitter, elem_of, shape_of
from graphfuse.ir.core import OpDef, Value
from graphfuse.ir.types import Scalar

Operand: TypeAlias = "Term | float"


def _infix(kind: OpDef) -> Callable[[Term, Operand], Term]:
    return lambda a, b: a.map(kind, b)


def _reversed(kind: OpDef) -> Callable[[Term, float], Term]:
    return lambda a, b: Term(a.e, a.e.map(kind, b, a.value))


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """A value, and where to emit what is made of it."""

    e: Emitter
    value: Value

    @property
    def elem(self) -> Scalar:
        """Its element."""
        return elem_of(self.value)

    def map(self, kind: OpDef, *others: Operand) -> Term:
        """An elementwise function of this and others."""
        return Term(self.e, self.e.map(kind, self.value, *(_plain(x) for x in others)))

    def full(self, number: float) -> Term:
        """One number, as a tensor like this."""
        return Term(self.e, self.e.full(shape_of(self.value), self.elem, number))

    def cast(self, to: Scalar) -> Term:
        """Its elements converted."""
        return Term(self.e, self.e.cast(self.value, to))

    def bits(self, to: Scalar) -> Term:
        """The bits of its elements as others."""
        return Term(self.e, self.e(graph.bitcast, self.value, to=to))

    def __neg__(self) -> Term:
        return self.map(graph.neg)

    __add__, __radd__ = _infix(graph.add), _reversed(graph.add)
    __sub__, __rsub__ = _infix(graph.sub), _reversed(graph.sub)
    __mul__, __rmul__ = _infix(graph.mul), _reversed(graph.mul)
    __truediv__, __rtruediv__ = _infix(graph.div), _reversed(graph.div)
    __pow__ = _infix(graph.pow_)
    __and__, __or__ = _infix(graph.and_), _infix(graph.or_)
    __lt__, __le__, __gt__, __ge__ = (_infix(k) for k in (graph.lt, graph.le, graph.gt, graph.ge))


def _plain(x: Operand) -> Value | float:
    return x.value if isinstance(x, Term) else x


def where(condition: Any, a: Any, b: Any) -> Any:
    """`a` where a condition holds, else `b`."""
    if not isinstance(condition, Term):
        return cast("Any", np.where(condition, a, b))
    return Term(condition.e, condition.e.select(condition.value, _plain(a), _plain(b)))


def _function(kind: OpDef, of_arrays: Callable[..., Any] | None = None) -> Callable[..., Any]:
    def apply(x: Any, *others: Any) -> Any:
        if isinstance(x, Term):
            return x.map(kind, *others)
        assert of_arrays is not None, "of terms alone"
        return of_arrays(x, *others)

    return apply


absolute, floor, ceil = (
    _function(ELEMENTWISE[n], f) for n, f in (("abs", np.abs), ("floor", np.floor), ("ceil", np.ceil))
)
minimum, maximum, equal = (
    _function(k, f) for k, f in ((graph.min_, np.minimum), (graph.max_, np.maximum), (graph.eq, np.equal))
)
exp, log, log1p, sqrt, sin, cos, tan, acos, erf, isinf, isnan, nearest = (
    _function(ELEMENTWISE[n])
    for n in ("exp", "log", "log1p", "sqrt", "sin", "cos", "tan", "acos", "erf", "isinf", "isnan", "round")
)


def polynomial(x: Term, coefficients: Sequence[float]) -> Term:
    """By Horner's rule; the highest power comes first."""
    out = x.full(coefficients[0])
    for c in coefficients[1:]:
        out = out * x + c
    return out
