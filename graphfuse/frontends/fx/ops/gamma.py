"""log gamma, its derivatives, and Hurwitz's zeta function.

Asymptotic series (Stirling, Euler and Maclaurin) where the argument is large, recurrences to get there, reflection
below 0. `digamma` and the first derivative of it shift by as much as torch's; the zeros of log gamma at 1 and 2 are
factors of its series, so that it is accurate beside them.
"""

from __future__ import annotations

import math

import torch

from graphfuse.dialects import graph
from graphfuse.dialects.graph import ELEMENTWISE
from graphfuse.frontends.emit import Emitter, elem_of
from graphfuse.frontends.fx.lowering import Call, lowers
from graphfuse.frontends.fx.ops import special_tables as tables
from graphfuse.frontends.fx.ops.arithmetic import wide_elem
from graphfuse.frontends.fx.ops.series import (
    absolute,
    add,
    chebyshev,
    choose,
    div,
    eq,
    floor,
    gt,
    le,
    log,
    lowers_function,
    lt,
    mul,
    number,
    polynomial,
    pow_,
    sin,
    sub,
    with_sign,
)
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


def _is_whole(e: Emitter, x: Value) -> Value:
    return e(graph.eq, x, floor(e, x))


def _from_whole(e: Emitter, x: Value) -> Value:
    """How far x is from the nearest whole number: exactly, so that pi times it has a sine as accurate as itself."""
    return sub(e, x, e(ELEMENTWISE["round"], x))


def _cotangent(e: Emitter, x: Value) -> Value:
    """cot(pi x), of the smaller of two angles, so that its zeros are accurate too."""
    off = _from_whole(e, x)
    size = absolute(e, off)
    near = gt(e, size, 0.25)
    tangent = e(ELEMENTWISE["tan"], mul(e, choose(e, near, sub(e, 0.5, size), size), math.pi))
    return with_sign(e, choose(e, near, tangent, div(e, 1.0, tangent)), off)


# log gamma


def lgamma(e: Emitter, x: Value) -> Value:
    """log |gamma(x)|; infinite at 0 and the whole numbers below it."""
    size = absolute(e, x)
    positive = _lgamma_of_positive(e, size)
    # gamma(x) gamma(-x) = -pi / (x sin(pi x))
    sine = absolute(e, sin(e, mul(e, _from_whole(e, x), math.pi)))
    reflected = sub(e, sub(e, sub(e, math.log(math.pi), log(e, sine)), log(e, size)), positive)
    reflected = choose(e, _is_whole(e, x), math.inf, reflected)
    return choose(e, le(e, x, 0.0), reflected, positive)


def _lgamma_of_positive(e: Emitter, x: Value) -> Value:
    """Between 1.5 and 2.5 by a series; a factor or more away by the recurrence; by Stirling's series beyond 8.5."""
    far = _stirling(e, x)
    up = number(e, x, 1.0)
    near = x
    for _ in range(6):  # gamma(x) = (x - 1) gamma(x - 1)
        high = gt(e, near, 2.5)
        lower = sub(e, near, 1.0)
        up, near = choose(e, high, mul(e, up, lower), up), choose(e, high, lower, near)
    # gamma(x) = gamma(x + 1) / x, twice below 0.5; t is how far from 2 that ends
    least, low = lt(e, x, 0.5), lt(e, x, 1.5)
    down = choose(e, least, mul(e, x, add(e, x, 1.0)), x)
    t = choose(e, least, x, choose(e, low, sub(e, x, 1.0), sub(e, near, 2.0)))
    series = mul(e, mul(e, add(e, t, 1.0), t), chebyshev(e, mul(e, t, 4.0), tables.LGAMMA))
    series = choose(e, low, sub(e, series, log(e, down)), add(e, series, log(e, up)))
    return choose(e, gt(e, x, 8.5), far, series)


def _stirling(e: Emitter, x: Value) -> Value:
    terms = 10 if elem_of(x) == F64 else 4
    inverse = div(e, 1.0, x)
    coefficients = [b / ((2 * k + 2) * (2 * k + 1)) for k, b in enumerate(BERNOULLI[:terms])]
    tail = mul(e, inverse, polynomial(e, mul(e, inverse, inverse), coefficients[::-1]))
    main = mul(e, sub(e, x, 0.5), sub(e, log(e, x), 1.0))
    return add(e, main, add(e, tail, 0.5 * math.log(2 * math.pi) - 0.5))


# its derivatives


def digamma(e: Emitter, x: Value) -> Value:
    """The derivative of log gamma; infinite at 0, NaN at the whole numbers below it."""
    below = lt(e, x, 0.0)
    y = choose(e, below, sub(e, 1.0, x), x)
    out = _digamma_of_positive(e, y)
    out = choose(e, below, sub(e, out, mul(e, _cotangent(e, x), math.pi)), out)
    out = choose(e, e(graph.and_, below, _is_whole(e, x)), math.nan, out)
    return choose(e, eq(e, x, 0.0), div(e, -1.0, x), out)


def _digamma_of_positive(e: Emitter, x: Value) -> Value:
    shift = 10 if elem_of(x) == F64 else 6
    small = lt(e, x, float(shift))
    passed = div(e, 1.0, x)
    for k in range(1, shift):
        passed = add(e, passed, div(e, 1.0, add(e, x, float(k))))
    far = choose(e, small, add(e, x, float(shift)), x)
    inverse = div(e, 1.0, far)
    z = mul(e, inverse, inverse)
    coefficients = [b / (2 * k + 2) for k, b in enumerate(BERNOULLI[:7])]
    tail = mul(e, z, polynomial(e, z, coefficients[::-1]))
    out = sub(e, sub(e, log(e, far), mul(e, inverse, 0.5)), tail)
    return choose(e, small, sub(e, out, passed), out)


def trigamma(e: Emitter, x: Value) -> Value:
    """The derivative of digamma."""
    low = lt(e, x, 0.5)
    y = choose(e, low, sub(e, 1.0, x), x)
    total = number(e, x, 0.0)
    for k in range(6):
        step = add(e, y, float(k))
        total = add(e, total, div(e, 1.0, mul(e, step, step)))
    inverse = div(e, 1.0, add(e, y, 6.0))
    z = mul(e, inverse, inverse)
    tail = mul(e, z, polynomial(e, z, BERNOULLI[:6][::-1]))
    total = add(e, total, mul(e, inverse, add(e, add(e, mul(e, inverse, 0.5), 1.0), tail)))
    # not reduced: at whole numbers torch's answer is what the rounding of pi leaves
    sine = sin(e, mul(e, x, math.pi))
    return choose(e, low, sub(e, div(e, math.pi**2, mul(e, sine, sine)), total), total)


def polygamma_of(e: Emitter, x: Value, n: int) -> Value:
    """The n-th derivative of digamma, n > 1: -(-1)^n n! zeta(n + 1, x), reflected by derivatives of the cotangent."""
    below = lt(e, x, 0.0)
    sign = -((-1.0) ** n)
    out = mul(e, _zeta_of_positive(e, float(n + 1), choose(e, below, sub(e, 1.0, x), x)), sign * math.factorial(n))
    # psi_n(x) = (-1)^n psi_n(1 - x) - pi d^n/dx^n cot(pi x)
    slope = mul(e, polynomial(e, _cotangent(e, x), _cotangent_derivative(n)), math.pi ** (n + 1))
    out = choose(e, below, sub(e, mul(e, out, (-1.0) ** n), slope), out)
    at_pole = e(graph.and_, le(e, x, 0.0), _is_whole(e, x))
    return choose(e, at_pole, sign * math.inf, out)


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
    x = c.floating(self)
    if n < 2:
        return c.rounded((digamma, trigamma)[n](c.e, x))
    return c.rounded(polygamma_of(c.e, x, n))


# zeta


@lowers(aten.special_zeta.default)
def zeta(c: Call, self: Value, other: Value) -> Value:
    elem = wide_elem(c.elem)
    s, q = (c.e.broadcast(c.value(o, elem), c.shape) for o in (self, other))
    return c.rounded(hurwitz_zeta(c.e, s, q))


def hurwitz_zeta(e: Emitter, s: Value, q: Value) -> Value:
    """The sum of (q + k)^-s over k from 0; infinite at s = 1 and q = 0, -1, ...; NaN for s < 1."""
    below = le(e, q, 0.0)
    whole = floor(e, q)
    # the terms below 0 are those of zeta(s, 1 - f) that zeta(s, 1 - q) lacks, f being what q is above a whole number
    fraction = sub(e, q, whole)
    missing = sub(e, _zeta_of_positive(e, s, sub(e, 1.0, fraction)), _zeta_of_positive(e, s, sub(e, 1.0, q)))
    odd = mul(e, s, 0.5)
    parity = choose(e, e(graph.eq, odd, floor(e, odd)), number(e, s, 1.0), -1.0)
    above = _zeta_of_positive(e, s, choose(e, below, fraction, q))
    out = choose(e, below, add(e, above, mul(e, parity, missing)), above)
    out = choose(e, e(graph.and_, below, e(graph.ne, s, floor(e, s))), math.nan, out)
    out = choose(e, e(graph.and_, below, e(graph.eq, q, whole)), math.inf, out)
    out = choose(e, lt(e, s, 1.0), math.nan, out)
    return choose(e, eq(e, s, 1.0), math.inf, out)


def _zeta_of_positive(e: Emitter, s: Value | float, q: Value) -> Value:
    """By Euler and Maclaurin after nine terms. Each term of the series is made of the one before, so none overflows."""
    total, b = number(e, q, 0.0), q
    for k in range(10):
        b = _power(e, add(e, q, float(k)), s)
        total = add(e, total, b)
    w = add(e, q, 9.0)
    inverse = div(e, 1.0, w)
    total = add(e, total, div(e, mul(e, b, w), _plus(e, s, -1.0)))
    total = sub(e, total, mul(e, b, 0.5))
    term = mul(e, mul(e, b, inverse), _scaled(e, s, 0.5 * BERNOULLI[0]))
    tail = term
    for k in range(1, 12 if elem_of(q) == F64 else 5):
        ratio = BERNOULLI[k] / BERNOULLI[k - 1] / ((2 * k + 1) * (2 * k + 2))
        grown = _times(e, _plus(e, s, 2.0 * k - 1), _plus(e, s, 2.0 * k))
        term = mul(e, term, mul(e, _scaled(e, grown, ratio), mul(e, inverse, inverse)))
        tail = add(e, tail, term)
    return choose(e, eq(e, b, 0.0), total, add(e, total, tail))


def _power(e: Emitter, x: Value, s: Value | float) -> Value:
    """x^-s: by products where s is a number, which is whole."""
    if isinstance(s, Value):
        return pow_(e, x, e(graph.neg, s))
    out, square, left = None, x, int(s)
    while left:
        if left & 1:
            out = square if out is None else mul(e, out, square)
        square, left = mul(e, square, square), left >> 1
    assert out is not None, "s is positive"
    return div(e, 1.0, out)


def _plus(e: Emitter, s: Value | float, by: float) -> Value | float:
    return add(e, s, by) if isinstance(s, Value) else s + by


def _scaled(e: Emitter, s: Value | float, by: float) -> Value | float:
    return mul(e, s, by) if isinstance(s, Value) else s * by


def _times(e: Emitter, a: Value | float, b: Value | float) -> Value | float:
    return mul(e, a, b) if isinstance(a, Value) or isinstance(b, Value) else a * b


lowers_function(lgamma, aten.lgamma.default)
lowers_function(digamma, aten.digamma.default)
