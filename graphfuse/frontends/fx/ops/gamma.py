"""log gamma, its derivatives, and Hurwitz's zeta function.

Asymptotic series (Stirling, Euler and Maclaurin) where the argument is large, recurrences to get there, reflection
below 0. `digamma` and the first derivative of it shift by as much as torch's; the zeros of log gamma at 1 and 2 are
factors of its series, so that it is accurate beside them.
"""

from __future__ import annotations

import math

import torch

from graphfuse.dialects import graph
from graphfuse.frontends.fx.lowering import Call, formula, lowers
from graphfuse.frontends.fx.ops import special_tables as tables
from graphfuse.frontends.fx.ops.series import chebyshev, with_sign
from graphfuse.frontends.terms import Term, absolute, equal, floor, log, nearest, polynomial, sin, tan, where
from graphfuse.ir.core import Value
from graphfuse.ir.types import F64

aten = torch.ops.aten
BERNOULLI = (
    1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330,
    854513 / 138, -236364091 / 2730,
)  # fmt: skip
"""The Bernoulli numbers of order 2, 4, 6, ..."""
MOST_DERIVATIVES = 16
"""Higher ones of digamma leave the range of f32 near a pole."""


def _is_whole(x: Term) -> Term:
    return equal(x, floor(x))


def _from_whole(x: Term) -> Term:
    """How far x is from the nearest whole number: exactly, so that pi times it has a sine as accurate as itself."""
    return x - nearest(x)


def _cotangent(x: Term) -> Term:
    """cot(pi x), of the smaller of two angles, so that its zeros are accurate too."""
    off = _from_whole(x)
    size = absolute(off)
    near = size > 0.25
    tangent = tan(where(near, 0.5 - size, size) * math.pi)
    return with_sign(where(near, tangent, 1.0 / tangent), off)


# log gamma


@formula(aten.lgamma.default)
def lgamma(x: Term) -> Term:
    """log |gamma(x)|; infinite at 0 and the whole numbers below it."""
    size = absolute(x)
    positive = _lgamma_of_positive(size)
    # gamma(x) gamma(-x) = -pi / (x sin(pi x))
    sine = absolute(sin(_from_whole(x) * math.pi))
    reflected = math.log(math.pi) - log(sine) - log(size) - positive
    reflected = where(_is_whole(x), math.inf, reflected)
    return where(x <= 0.0, reflected, positive)


def _lgamma_of_positive(x: Term) -> Term:
    """Between 1.5 and 2.5 by a series; a factor or more away by the recurrence; by Stirling's series beyond 8.5."""
    far = _stirling(x)
    up = x.full(1.0)
    near = x
    for _ in range(6):  # gamma(x) = (x - 1) gamma(x - 1)
        high = near > 2.5
        lower = near - 1.0
        up, near = where(high, up * lower, up), where(high, lower, near)
    # gamma(x) = gamma(x + 1) / x, twice below 0.5; t is how far from 2 that ends
    least, low = x < 0.5, x < 1.5
    down = where(least, x * (x + 1.0), x)
    t = where(least, x, where(low, x - 1.0, near - 2.0))
    series = (t + 1.0) * t * chebyshev(t * 4.0, tables.LGAMMA)
    series = where(low, series - log(down), series + log(up))
    return where(x > 8.5, far, series)


def _stirling(x: Term) -> Term:
    terms = 10 if x.elem == F64 else 4
    inverse = 1.0 / x
    coefficients = [b / ((2 * k + 2) * (2 * k + 1)) for k, b in enumerate(BERNOULLI[:terms])]
    tail = inverse * polynomial(inverse * inverse, coefficients[::-1])
    main = (x - 0.5) * (log(x) - 1.0)
    return main + (tail + (0.5 * math.log(2 * math.pi) - 0.5))


# its derivatives


@formula(aten.digamma.default)
def digamma(x: Term) -> Term:
    """The derivative of log gamma; infinite at 0, NaN at the whole numbers below it."""
    below = x < 0.0
    y = where(below, 1.0 - x, x)
    out = _digamma_of_positive(y)
    out = where(below, out - _cotangent(x) * math.pi, out)
    out = where(below & _is_whole(x), math.nan, out)
    return where(equal(x, 0.0), -1.0 / x, out)


def _digamma_of_positive(x: Term) -> Term:
    shift = 10 if x.elem == F64 else 6
    small = x < float(shift)
    passed = 1.0 / x
    for k in range(1, shift):
        passed = passed + 1.0 / (x + float(k))
    far = where(small, x + float(shift), x)
    inverse = 1.0 / far
    z = inverse * inverse
    coefficients = [b / (2 * k + 2) for k, b in enumerate(BERNOULLI[:7])]
    tail = z * polynomial(z, coefficients[::-1])
    out = log(far) - inverse * 0.5 - tail
    return where(small, out - passed, out)


def trigamma(x: Term) -> Term:
    """The derivative of digamma."""
    low = x < 0.5
    y = where(low, 1.0 - x, x)
    total = x.full(0.0)
    for k in range(6):
        step = y + float(k)
        total = total + 1.0 / (step * step)
    inverse = 1.0 / (y + 6.0)
    z = inverse * inverse
    tail = z * polynomial(z, BERNOULLI[:6][::-1])
    total = total + inverse * (inverse * 0.5 + 1.0 + tail)
    # not reduced: at whole numbers torch's answer is what the rounding of pi leaves
    sine = sin(x * math.pi)
    return where(low, math.pi**2 / (sine * sine) - total, total)


def polygamma_of(x: Term, n: int) -> Term:
    """The n-th derivative of digamma, n > 1: -(-1)^n n! zeta(n + 1, x), reflected by derivatives of the cotangent."""
    below = x < 0.0
    sign = -((-1.0) ** n)
    out = _zeta_of_positive(float(n + 1), where(below, 1.0 - x, x)) * (sign * math.factorial(n))
    # psi_n(x) = (-1)^n psi_n(1 - x) - pi d^n/dx^n cot(pi x)
    slope = polynomial(_cotangent(x), _cotangent_derivative(n)) * math.pi ** (n + 1)
    out = where(below, out * (-1.0) ** n - slope, out)
    at_pole = (x <= 0.0) & _is_whole(x)
    return where(at_pole, sign * math.inf, out)


def _cotangent_derivative(n: int) -> list[float]:
    """d^n/dt^n cot(t) as a polynomial of cot(t), highest power first: its derivative is -(1 + cot^2)."""
    p = [0, 1]
    for _ in range(n):
        slope = [k * c for k, c in enumerate(p)][1:]
        p = [-a - b for a, b in zip([*slope, 0, 0], [0, 0, *slope], strict=True)]
    return [float(c) for c in p[::-1]]


@lowers(aten.polygamma.default)
def polygamma(c: Call, n: int, self: Value) -> Value:
    c.want(isinstance(n, int) and n <= MOST_DERIVATIVES, f"more than {MOST_DERIVATIVES} derivatives")
    return c.compute((digamma, trigamma)[n], self) if n < 2 else c.compute(polygamma_of, self, n=n)


# zeta


@formula(aten.special_zeta.default)
def hurwitz_zeta(s: Term, q: Term) -> Term:
    """The sum of (q + k)^-s over k from 0; infinite at s = 1 and q = 0, -1, ...; NaN for s < 1."""
    below = q <= 0.0
    whole = floor(q)
    # the terms below 0 are those of zeta(s, 1 - f) that zeta(s, 1 - q) lacks, f being what q is above a whole number
    fraction = q - whole
    missing = _zeta_of_positive(s, 1.0 - fraction) - _zeta_of_positive(s, 1.0 - q)
    odd = s * 0.5
    parity = where(equal(odd, floor(odd)), s.full(1.0), -1.0)
    above = _zeta_of_positive(s, where(below, fraction, q))
    out = where(below, above + parity * missing, above)
    out = where(below & s.map(graph.ne, floor(s)), math.nan, out)
    out = where(below & equal(q, whole), math.inf, out)
    out = where(s < 1.0, math.nan, out)
    return where(equal(s, 1.0), math.inf, out)


def _zeta_of_positive(s: Term | float, q: Term) -> Term:
    """By Euler and Maclaurin after nine terms. Each term of the series is made of the one before, so none overflows."""
    total, b = q.full(0.0), q
    for k in range(10):
        b = _power(q + float(k), s)
        total = total + b
    w = q + 9.0
    inverse = 1.0 / w
    total = total + b * w / (s + -1.0)
    total = total - b * 0.5
    term = b * inverse * (s * (0.5 * BERNOULLI[0]))
    tail = term
    for k in range(1, 12 if q.elem == F64 else 5):
        ratio = BERNOULLI[k] / BERNOULLI[k - 1] / ((2 * k + 1) * (2 * k + 2))
        grown = (s + (2.0 * k - 1)) * (s + 2.0 * k)
        term = term * (grown * ratio * (inverse * inverse))
        tail = tail + term
    return where(equal(b, 0.0), total, total + tail)


def _power(x: Term, s: Term | float) -> Term:
    """x^-s: by products where s is a number, which is whole."""
    if isinstance(s, Term):
        return x**-s
    out, square, left = None, x, int(s)
    while left:
        if left & 1:
            out = square if out is None else out * square
        square, left = square * square, left >> 1
    assert out is not None, "s is positive"
    return 1.0 / out
