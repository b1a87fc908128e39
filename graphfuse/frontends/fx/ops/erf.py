"""Functions of the normal distribution: complements and inverses of the error function.

`erfcx` by a Chebyshev series of all positive numbers (M. M. Shepherd and J. G. Laframboise, 1981), `erfc` from it;
`erfinv` as torch has it (Pavlis').
"""

from __future__ import annotations

import math

import torch

from graphfuse.frontends.fx.lowering import formula
from graphfuse.frontends.fx.ops import special_tables as tables
from graphfuse.frontends.fx.ops.series import chebyshev, with_sign
from graphfuse.frontends.normal import ndtri
from graphfuse.frontends.terms import Term, absolute, equal, erf, exp, log, minimum, polynomial, sqrt, where
from graphfuse.ir.types import F64, I32, I64

aten = torch.ops.aten
formula(aten.special_ndtri.default)(ndtri)


def _erfcx_of_positive(x: Term) -> Term:
    t = 1.0 - 8.0 / (x + 4.0)
    return chebyshev(t * 2.0, tables.ERFCX) / (x * 2.0 + 1.0)


def _exp_of_square(x: Term, sign: float) -> Term:
    """exp(sign x^2), x cut in two so that the rounding of its square is not multiplied by the exponential."""
    bits, mask = (I64, -1 << 27) if x.elem == F64 else (I32, -1 << 12)
    cut = (x.bits(bits) & mask).bits(x.elem)
    rest = (x - cut) * (x + cut)
    return exp(cut * cut * sign) * exp(rest * sign)


@formula(aten.special_erfcx.default)
def erfcx(x: Term) -> Term:
    """exp(x^2) erfc(x)."""
    size = absolute(x)
    positive = _erfcx_of_positive(size)
    # beyond, the exponential is infinite; cutting infinity in two would give NaN
    grown = _exp_of_square(minimum(size, 30.0), 1.0) * 2.0
    return where(x < 0.0, grown - positive, positive)


@formula(aten.erfc.default)
def erfc(x: Term) -> Term:
    """1 - erf(x), accurate where it is small."""
    size = minimum(absolute(x), 30.0)
    tail = _exp_of_square(size, -1.0) * _erfcx_of_positive(size)
    tail = where(x < 0.0, 2.0 - tail, tail)
    return where(absolute(x) < 0.5, 1.0 - erf(x), tail)


@formula(aten.erfinv.default)
def erfinv(y: Term) -> Term:
    """A quotient, improved by two of Newton's steps: on erfc where y is beyond 0.7. NaN beyond 1."""
    size = absolute(y)
    z, rest = size * size, 1.0 - size
    middle = size <= 0.7
    num = polynomial(z, (-0.140543331, 0.914624893, -1.645349621, 0.886226899))
    den = polynomial(z, (0.012229801, -0.329097515, 1.442710462, -2.118377725, 1.0))
    x = size * num / den
    z = sqrt(-log(rest * 0.5))
    num = polynomial(z, (1.641345311, 3.429567803, -1.624906493, -1.970840454))
    den = polynomial(z, (1.637067800, 3.543889200, 1.0))
    x = where(middle, x, num / den)
    for _ in range(2):
        slope = exp(-(x * x)) * (2 / math.sqrt(math.pi))
        error = where(middle, erf(x) - size, rest - erfc(x))
        x = x - error / slope
    x = where(equal(size, 1.0), math.inf, x)
    x = with_sign(x, y)
    return where(size > 1.0, math.nan, x)
