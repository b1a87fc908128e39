"""What special functions are made of: polynomials, Chebyshev series, and choices between ranges.

These compute in the operand's element, f32 or f64, and leave out terms that it cannot tell from nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from graphfuse.dialects import graph
from graphfuse.dialects.graph import ELEMENTWISE
from graphfuse.frontends.emit import Emitter, elem_of
from graphfuse.frontends.fx.lowering import Call, lowers
from graphfuse.ir.core import OpDef, Value
from graphfuse.ir.types import F64

Function = Callable[[Emitter, Value], Value]
Number = float | Value


def lowers_function(function: Function, *overloads: object) -> None:
    """Register a function of one tensor: integers are converted, halves computed in f32 and rounded once."""

    def lowering(c: Call, **given: Value) -> Value:
        (x,) = given.values()
        return c.rounded(function(c.e, c.floating(x)))

    lowering.__name__ = function.__name__
    lowers(*overloads)(lowering)


def epsilon(x: Value) -> float:
    """How far the number after 1 is from 1."""
    return torch.finfo(torch.float64 if elem_of(x) == F64 else torch.float32).eps


def number(e: Emitter, like: Value, x: float) -> Value:
    """One number, as a tensor like another."""
    shape = like.type.shape  # type: ignore[union-attr]
    return e.full(shape, elem_of(like), x)


def _kind(kind: OpDef) -> Callable[[Emitter, Number, Number], Value]:
    def apply(e: Emitter, a: Number, b: Number) -> Value:
        like = a if isinstance(a, Value) else b
        assert isinstance(like, Value), "one operand is a tensor"
        return e(kind, *(o if isinstance(o, Value) else number(e, like, o) for o in (a, b)))

    return apply


add, sub, mul, div = (_kind(k) for k in (graph.add, graph.sub, graph.mul, graph.div))
lt, le, gt, ge, eq = (_kind(k) for k in (graph.lt, graph.le, graph.gt, graph.ge, graph.eq))
pow_ = _kind(graph.pow_)


def _unary(name: str) -> Function:
    return lambda e, x: e(ELEMENTWISE[name], x)


absolute, exp, log, log1p, sqrt, sin, cos, floor = (
    _unary(n) for n in ("abs", "exp", "log", "log1p", "sqrt", "sin", "cos", "floor")
)


def polynomial(e: Emitter, x: Value, coefficients: Sequence[float]) -> Value:
    """By Horner's rule; the highest power comes first."""
    out = number(e, x, coefficients[0])
    for c in coefficients[1:]:
        out = add(e, mul(e, out, x), c)
    return out


def chebyshev(e: Emitter, x: Value, coefficients: Sequence[float]) -> Value:
    """The sum of c_k T_k(x / 2) by Clenshaw's rule, with half of c_0; the highest order comes first."""
    limit = epsilon(x) / 64 * max(map(abs, coefficients))
    kept = list(coefficients)
    while len(kept) > 3 and sum(map(abs, coefficients[: len(coefficients) - len(kept) + 1])) < limit:
        kept = kept[1:]
    zero = number(e, x, 0.0)
    before, last, out = zero, zero, number(e, x, kept[0])
    for c in kept[1:]:
        before, last = last, out
        out = add(e, sub(e, mul(e, x, last), before), c)
    return mul(e, sub(e, out, before), 0.5)


def choose(e: Emitter, condition: Value, a: Number, b: Number) -> Value:
    """`a` where the condition holds, else `b`."""
    return e.select(condition, a, b)


def with_sign(e: Emitter, size: Value, sign: Value) -> Value:
    """`size`, or minus it where `sign` is negative."""
    return e.select(lt(e, sign, 0.0), e(graph.neg, size), size)
