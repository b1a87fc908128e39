"""Chebyshev polynomials of all four kinds, of the order that another tensor holds.

Within 1 they are sines and cosines of the angle whose cosine is |x|. Beyond, (x + sqrt(d))^n = T_n + sqrt(d) U_(n-1)
with d = x^2 - 1, by squaring: no loop over the order. Polynomials of -x are those of x, or of the other kind, signed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from graphfuse.dialects import graph
from graphfuse.frontends.fx.lowering import Call, Formula, Operand, lowers
from graphfuse.frontends.terms import Term, absolute, acos, cos, equal, isinf, isnan, maximum, minimum, sin, where
from graphfuse.ir.core import Value
from graphfuse.ir.types import F64, I64

aten = torch.ops.aten


def chebyshev_polynomial(x: Term, n: Term, kind: str) -> Term:
    """Of order n, whole numbers; 0 for those below 0."""
    size, parity = absolute(x), n & 1
    odd = equal(parity, 1)
    below = x < 0.0
    out = _of_positive(size, n, kind)
    if kind in "vw":
        out = where(below, _of_positive(size, n, "w" if kind == "v" else "v"), out)
    out = where(below & odd, -out, out)
    out = where(equal(n, 0), 1.0, out)
    return where(n < 0, 0.0, out)


def _of_positive(x: Term, n: Term, kind: str) -> Term:
    order = n.cast(x.elem)
    out = where(x < 1.0, _WITHIN[kind](acos(x), order), _beyond(x, n, kind))
    at_one = {"t": None, "v": None, "u": order + 1.0, "w": order * 2.0 + 1.0}[kind]
    return where(equal(x, 1.0), 1.0 if at_one is None else at_one, out)


_WITHIN: Mapping[str, Formula] = {
    "t": lambda angle, n: cos(n * angle),
    "u": lambda angle, n: sin((n + 1.0) * angle) / sin(angle),
    "v": lambda angle, n: cos((n + 0.5) * angle) / cos(angle * 0.5),
    "w": lambda angle, n: sin((n + 0.5) * angle) / sin(angle * 0.5),
}
"""Polynomials at the cosine of an angle, by kind."""


def _beyond(x: Term, n: Term, kind: str) -> Term:
    """T_n and U_(n-1) at x > 1. Where order n - 2 is infinite, torch's recurrence has met NaN."""
    # any larger x is infinite at order 3, and any larger order infinite at any x
    bits, largest = (36, 1e103) if x.elem == F64 else (19, 1e13)
    y = minimum(x, largest)
    d = (y - 1.0) * (y + 1.0)
    before = minimum(maximum(n - 2, 0), (1 << bits) - 1)
    t, u = x.full(1.0), x.full(0.0)
    for bit in reversed(range(bits)):
        if bit < bits - 1:
            t, u = t * t + d * (u * u), t * u * 2.0
        is_set = (before & (1 << bit)).map(graph.ne, 0)
        t_next, u_next = _next(y, d, t, u)
        t, u = where(is_set, t_next, t), where(is_set, u_next, u)
    combined = _COMBINED[kind]
    lost = isinf(x) | isinf(combined(y, t, u))
    for _ in range(2):
        t, u = _next(y, d, t, u)
    out = where(lost, math.nan, combined(y, t, u))
    second = x * _first(x, kind) * 2.0 - 1.0
    out = where(equal(n, 2), second, where(equal(n, 1), _first(x, kind), out))
    return where(isnan(x), x, out)


def _next(x: Term, d: Term, t: Term, u: Term) -> tuple[Term, Term]:
    """Times x + sqrt(d)."""
    return x * t + d * u, t + x * u


_COMBINED: Mapping[str, Formula] = {
    "t": lambda _x, t, _u: t,
    "u": lambda x, t, u: t + x * u,
    "v": lambda x, t, u: t + (x - 1.0) * u,
    "w": lambda x, t, u: t + (x + 1.0) * u,
}
"""Polynomials of order n from T_n and U_(n-1), by kind."""


def _first(x: Term, kind: str) -> Term:
    """Of order 1."""
    twice = x + x
    return {"t": x, "u": twice, "v": twice - 1.0, "w": twice + 1.0}[kind]


def _lowering(c: Call, x: Operand, n: Operand, *, kind: str, shifted: bool) -> Value:
    at = c.term(x)
    order = Term(c.e, c.e.broadcast(c.value(n, c.elem, c.shape), c.shape)).cast(I64)
    return c.rounded(chebyshev_polynomial(at + at - 1.0 if shifted else at, order, kind).value)


for _kind in "tuvw":
    for _prefix in ("", "shifted_"):
        _overloads = getattr(aten, f"special_{_prefix}chebyshev_polynomial_{_kind}")
        _forms = (_overloads.default, _overloads.x_scalar, _overloads.n_scalar)
        lowers(*_forms, kind=_kind, shifted=bool(_prefix))(_lowering)
