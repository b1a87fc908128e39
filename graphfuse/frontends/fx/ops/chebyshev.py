"""Chebyshev polynomials of all four kinds, of the order that another tensor holds.

Within 1 they are sines and cosines of the angle whose cosine is |x|. Beyond, (x + sqrt(d))^n = T_n + sqrt(d) U_(n-1)
with d = x^2 - 1, by squaring: no loop over the order. Polynomials of -x are those of x, or of the other kind, signed.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from graphfuse.dialects import graph
from graphfuse.dialects.graph import ELEMENTWISE
from graphfuse.frontends.emit import Emitter, elem_of
from graphfuse.frontends.fx.lowering import Call, Operand, lowers
from graphfuse.frontends.fx.ops.arithmetic import wide_elem
from graphfuse.frontends.fx.ops.series import absolute, add, choose, cos, div, eq, lt, mul, number, sin, sub
from graphfuse.ir.core import Value
from graphfuse.ir.types import F64, I64

aten = torch.ops.aten
KINDS = "tuvw"


def chebyshev_polynomial(e: Emitter, x: Value, n: Value, kind: str) -> Value:
    """Of order n, whole numbers; 0 for those below 0."""
    size, parity = absolute(e, x), e.map(graph.and_, n, 1)
    odd = e.map(graph.eq, parity, 1)
    below = lt(e, x, 0.0)
    out = _of_positive(e, size, n, kind)
    if kind in "vw":
        out = choose(e, below, _of_positive(e, size, n, "w" if kind == "v" else "v"), out)
    out = choose(e, e(graph.and_, below, odd), e(graph.neg, out), out)
    out = choose(e, e.map(graph.eq, n, 0), 1.0, out)
    return choose(e, e.map(graph.lt, n, 0), 0.0, out)


def _of_positive(e: Emitter, x: Value, n: Value, kind: str) -> Value:
    order = e.cast(n, elem_of(x))
    out = choose(e, lt(e, x, 1.0), _within(e, x, order, kind), _beyond(e, x, n, kind))
    at_one = {"t": None, "v": None, "u": add(e, order, 1.0), "w": add(e, mul(e, order, 2.0), 1.0)}[kind]
    return choose(e, eq(e, x, 1.0), 1.0 if at_one is None else at_one, out)


def _within(e: Emitter, x: Value, n: Value, kind: str) -> Value:
    angle = e(ELEMENTWISE["acos"], x)
    half = mul(e, angle, 0.5)
    match kind:
        case "t":
            return cos(e, mul(e, n, angle))
        case "u":
            return div(e, sin(e, mul(e, add(e, n, 1.0), angle)), sin(e, angle))
        case "v":
            return div(e, cos(e, mul(e, add(e, n, 0.5), angle)), cos(e, half))
        case _:
            return div(e, sin(e, mul(e, add(e, n, 0.5), angle)), sin(e, half))


def _beyond(e: Emitter, x: Value, n: Value, kind: str) -> Value:
    """T_n and U_(n-1) at x > 1. Where order n - 2 is infinite, torch's recurrence has met NaN."""
    # any larger x is infinite at order 3, and any larger order infinite at any x
    bits, largest = (36, 1e103) if elem_of(x) == F64 else (19, 1e13)
    y = e.map(graph.min_, x, largest)
    d = mul(e, sub(e, y, 1.0), add(e, y, 1.0))
    before = e.map(graph.min_, e.map(graph.max_, e.map(graph.sub, n, 2), 0), (1 << bits) - 1)
    t, u = number(e, x, 1.0), number(e, x, 0.0)
    for bit in reversed(range(bits)):
        if bit < bits - 1:
            t, u = add(e, mul(e, t, t), mul(e, d, mul(e, u, u))), mul(e, mul(e, t, u), 2.0)
        is_set = e.map(graph.ne, e.map(graph.and_, before, 1 << bit), 0)
        t_next, u_next = _next(e, y, d, t, u)
        t, u = choose(e, is_set, t_next, t), choose(e, is_set, u_next, u)
    lost = e(graph.or_, e(graph.isinf, x), e(graph.isinf, _combined(e, y, t, u, kind)))
    for _ in range(2):
        t, u = _next(e, y, d, t, u)
    out = choose(e, lost, math.nan, _combined(e, y, t, u, kind))
    second = sub(e, mul(e, mul(e, x, _first(e, x, kind)), 2.0), 1.0)
    out = choose(e, e.map(graph.eq, n, 2), second, choose(e, e.map(graph.eq, n, 1), _first(e, x, kind), out))
    return choose(e, e(graph.isnan, x), x, out)


def _next(e: Emitter, x: Value, d: Value, t: Value, u: Value) -> tuple[Value, Value]:
    """Times x + sqrt(d)."""
    return add(e, mul(e, x, t), mul(e, d, u)), add(e, t, mul(e, x, u))


def _combined(e: Emitter, x: Value, t: Value, u: Value, kind: str) -> Value:
    """A polynomial of order n from T_n and U_(n-1)."""
    match kind:
        case "t":
            return t
        case "u":
            return add(e, t, mul(e, x, u))
        case "v":
            return add(e, t, mul(e, sub(e, x, 1.0), u))
        case _:
            return add(e, t, mul(e, add(e, x, 1.0), u))


def _first(e: Emitter, x: Value, kind: str) -> Value:
    """Of order 1."""
    twice = add(e, x, x)
    return {"t": x, "u": twice, "v": sub(e, twice, 1.0), "w": add(e, twice, 1.0)}[kind]


def _lowering(kind: str, *, shifted: bool) -> Any:
    def lowering(c: Call, x: Operand, n: Operand) -> Value:
        e, elem = c.e, wide_elem(c.elem)
        at = e.broadcast(c.value(x, elem, c.shape), c.shape)
        order = e.cast(e.broadcast(c.value(n, c.elem, c.shape), c.shape), I64)
        at = sub(e, add(e, at, at), 1.0) if shifted else at
        return c.rounded(chebyshev_polynomial(e, at, order, kind))

    return lowering


for _kind in KINDS:
    for _prefix in ("", "shifted_"):
        _overloads = getattr(aten, f"special_{_prefix}chebyshev_polynomial_{_kind}")
        lowers(_overloads.default, _overloads.x_scalar, _overloads.n_scalar)(_lowering(_kind, shifted=bool(_prefix)))
