"""What special functions are made of: polynomials, Chebyshev series, and choices between ranges.

These compute in the operand's element, f32 or f64, and leave out terms that it cannot tell from nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from graphfuse.frontends.terms import Term, where
from graphfuse.ir.types import F64


def epsilon(x: Term) -> float:
    """How far the number after 1 is from 1."""
    return torch.finfo(torch.float64 if x.elem == F64 else torch.float32).eps


def chebyshev(x: Term, coefficients: Sequence[float]) -> Term:
    """The sum of c_k T_k(x / 2) by Clenshaw's rule, with half of c_0; the highest order comes first."""
    limit = epsilon(x) / 64 * max(map(abs, coefficients))
    kept = list(coefficients)
    while len(kept) > 3 and sum(map(abs, coefficients[: len(coefficients) - len(kept) + 1])) < limit:
        kept = kept[1:]
    zero = x.full(0.0)
    before, last, out = zero, zero, x.full(kept[0])
    for c in kept[1:]:
        before, last = last, out
        out = x * last - before + c
    return (out - before) * 0.5


def with_sign(size: Term, sign: Term) -> Term:
    """`size`, or minus it where `sign` is negative."""
    return where(sign < 0.0, -size, size)
