"""Bessel functions, modified ones, and Airy's function.

By the methods of the Cephes Mathematical Library as torch has them. torch leaves out the leading 1 of the denominators
that Cephes calls monic, so its own f64 answers are about 4e-7 off; they are kept, since results are eager's.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from graphfuse.dialects import graph
from graphfuse.frontends.emit import Emitter
from graphfuse.frontends.fx.ops import special_tables as tables
from graphfuse.frontends.fx.ops.series import (
    Function,
    absolute,
    add,
    chebyshev,
    choose,
    cos,
    div,
    epsilon,
    eq,
    exp,
    gt,
    le,
    log,
    lowers_function,
    lt,
    mul,
    number,
    polynomial,
    sin,
    sqrt,
    sub,
    with_sign,
)
from graphfuse.frontends.fx.ops.special_tables import Table
from graphfuse.ir.core import Value

aten = torch.ops.aten
TWO_OVER_PI = 2 / math.pi


def _quotient(e: Emitter, x: Value, p: Table, q: Table) -> Value:
    return div(e, polynomial(e, x, p), polynomial(e, x, q))


# J and Y: quotients to 5, amplitude and phase beyond


def _phase(order: int) -> float:
    return (0.25 + 0.5 * order) * math.pi


def _wave(e: Emitter, x: Value, order: int, first: Function, second: Function, side: float) -> Value:
    """The amplitudes P and Q at x > 5 with the sine and cosine of the phase."""
    pp, pq, qp, qq = _AMPLITUDES[order]
    near = div(e, 5.0, x)
    z = mul(e, near, near)
    phase = sub(e, x, _phase(order))
    p = mul(e, _quotient(e, z, pp, pq), first(e, phase))
    q = mul(e, mul(e, near, _quotient(e, z, qp, qq)), mul(e, second(e, phase), side))
    return div(e, mul(e, add(e, p, q), math.sqrt(TWO_OVER_PI)), sqrt(e, x))


_AMPLITUDES = (
    (tables.BESSEL0_PP, tables.BESSEL0_PQ, tables.BESSEL0_QP, tables.BESSEL0_QQ),
    (tables.BESSEL1_PP, tables.BESSEL1_PQ, tables.BESSEL1_QP, tables.BESSEL1_QQ),
)


def _j0_near(e: Emitter, x: Value) -> Value:
    """To 5, with the first two zeros as factors."""
    z = mul(e, x, x)
    zeros = mul(e, sub(e, z, 5.78318596294678452118), sub(e, z, 30.4712623436620863991))
    out = mul(e, zeros, _quotient(e, z, tables.J0_P, tables.J0_Q))
    return choose(e, lt(e, x, 1e-5), sub(e, 1.0, mul(e, z, 0.25)), out)


def _j1_near(e: Emitter, x: Value) -> Value:
    z = mul(e, x, x)
    zeros = mul(e, sub(e, z, 14.6819706421238932572), sub(e, z, 49.2184563216946036703))
    return mul(e, mul(e, _quotient(e, z, tables.J1_P, tables.J1_Q), x), zeros)


def bessel_j0(e: Emitter, x: Value) -> Value:
    """J of order 0."""
    x = absolute(e, x)
    return choose(e, le(e, x, 5.0), _j0_near(e, x), _wave(e, x, 0, cos, sin, -1.0))


def bessel_j1(e: Emitter, x: Value) -> Value:
    """J of order 1."""
    size = absolute(e, x)
    out = choose(e, le(e, size, 5.0), _j1_near(e, size), _wave(e, size, 1, cos, sin, -1.0))
    return with_sign(e, out, x)


def bessel_y0(e: Emitter, x: Value) -> Value:
    """Y of order 0: NaN below 0."""
    z = mul(e, x, x)
    near = add(e, _quotient(e, z, tables.Y0_P, tables.Y0_Q), mul(e, mul(e, log(e, x), TWO_OVER_PI), _j0_near(e, x)))
    return _from_zero(e, x, -math.inf, choose(e, le(e, x, 5.0), near, _wave(e, x, 0, sin, cos, 1.0)))


def bessel_y1(e: Emitter, x: Value) -> Value:
    """Y of order 1: NaN below 0."""
    z = mul(e, x, x)
    pole = sub(e, mul(e, _j1_near(e, x), log(e, x)), div(e, 1.0, x))
    near = add(e, mul(e, x, _quotient(e, z, tables.Y1_P, tables.Y1_Q)), mul(e, pole, TWO_OVER_PI))
    return _from_zero(e, x, -math.inf, choose(e, le(e, x, 5.0), near, _wave(e, x, 1, sin, cos, 1.0)))


def _from_zero(e: Emitter, x: Value, at_zero: float, beyond: Value) -> Value:
    """A function of what is positive."""
    below = choose(e, lt(e, x, 0.0), math.nan, beyond)
    return choose(e, eq(e, x, 0.0), at_zero, below)


# modified ones: Chebyshev series times exponentials


def _i(e: Emitter, x: Value, near: Table, far: Table, *, odd: bool, scaled: bool) -> Value:
    size = absolute(e, x)
    growth = number(e, x, 1.0) if scaled else exp(e, size)
    low = chebyshev(e, sub(e, mul(e, size, 0.5), 2.0), near)
    low = mul(e, mul(e, growth, size), low) if odd else mul(e, growth, low)
    high = div(e, mul(e, growth, chebyshev(e, sub(e, div(e, 32.0, size), 2.0), far)), sqrt(e, size))
    out = choose(e, le(e, size, 8.0), low, high)
    return with_sign(e, out, x) if odd else out


def modified_bessel_i0(e: Emitter, x: Value, *, scaled: bool = False) -> Value:
    """I of order 0; `scaled` by exp(-|x|)."""
    return _i(e, x, tables.I0_NEAR, tables.I0_FAR, odd=False, scaled=scaled)


def modified_bessel_i1(e: Emitter, x: Value, *, scaled: bool = False) -> Value:
    """I of order 1; `scaled` by exp(-|x|)."""
    return _i(e, x, tables.I1_NEAR, tables.I1_FAR, odd=True, scaled=scaled)


def _k(e: Emitter, x: Value, low: Value, far: Table, *, scaled: bool) -> Value:
    """K from its values to 2, and `far` beyond; infinite at 0, NaN below."""
    series = chebyshev(e, sub(e, div(e, 8.0, x), 2.0), far)
    high = div(e, series if scaled else mul(e, exp(e, e(graph.neg, x)), series), sqrt(e, x))
    near = mul(e, low, exp(e, x)) if scaled else low
    return _from_zero(e, x, math.inf, choose(e, le(e, x, 2.0), near, high))


def modified_bessel_k0(e: Emitter, x: Value, *, scaled: bool = False) -> Value:
    """K of order 0; `scaled` by exp(x)."""
    series = chebyshev(e, sub(e, mul(e, x, x), 2.0), tables.K0_NEAR)
    low = sub(e, series, mul(e, log(e, mul(e, x, 0.5)), modified_bessel_i0(e, x)))
    return _k(e, x, low, tables.K0_FAR, scaled=scaled)


def modified_bessel_k1(e: Emitter, x: Value, *, scaled: bool = False) -> Value:
    """K of order 1; `scaled` by exp(x)."""
    series = chebyshev(e, sub(e, mul(e, x, x), 2.0), tables.K1_NEAR)
    low = add(e, mul(e, log(e, mul(e, x, 0.5)), modified_bessel_i1(e, x)), div(e, series, x))
    return _k(e, x, low, tables.K1_FAR, scaled=scaled)


# others


def spherical_bessel_j0(e: Emitter, x: Value) -> Value:
    """sin(x) / x, by its series near 0; 0 at infinity."""
    z = mul(e, x, x)
    terms = [(-1) ** k / math.factorial(2 * k + 1) for k in range(7)]
    out = choose(e, lt(e, absolute(e, x), 0.5), polynomial(e, z, terms[::-1]), div(e, sin(e, x), x))
    return choose(e, e(graph.isinf, x), 0.0, out)


def airy_ai(e: Emitter, x: Value) -> Value:
    """Airy's function Ai: an asymptotic quotient beyond 2.09, a wave below -2.09, the series of Maclaurin between."""
    size = absolute(e, x)
    zeta = div(e, mul(e, mul(e, size, 2.0), sqrt(e, size)), 3.0)
    root = sqrt(e, sqrt(e, size))
    decay = mul(e, mul(e, root, 2.0), exp(e, zeta))
    inverse = div(e, 1.0, zeta)
    right = div(e, mul(e, _quotient(e, inverse, tables.AIRY_N, tables.AIRY_D), 1 / math.sqrt(math.pi)), decay)
    out = choose(e, lt(e, x, -2.09), _airy_wave(e, zeta, inverse, root), _airy_series(e, x))
    out = choose(e, lt(e, x, 2.09), out, right)
    out = choose(e, gt(e, x, 103.892), 0.0, out)
    return choose(e, e(graph.isinf, x), math.nan, out)


def _airy_wave(e: Emitter, zeta: Value, inverse: Value, root: Value) -> Value:
    phase, z = add(e, zeta, 0.25 * math.pi), mul(e, inverse, inverse)
    even = add(e, mul(e, z, _quotient(e, z, tables.AIRY_FN, tables.AIRY_FD)), 1.0)
    odd = mul(e, inverse, _quotient(e, z, tables.AIRY_GN, tables.AIRY_GD))
    wave = sub(e, mul(e, sin(e, phase), even), mul(e, cos(e, phase), odd))
    return mul(e, div(e, 1 / math.sqrt(math.pi), root), wave)


def _airy_series(e: Emitter, x: Value) -> Value:
    """c f - d g, whose k-th terms divide the ones before by 3k (3k - 1) and 3k (3k + 1), for |x| < 2.1."""
    f, g = [0.355028053887817239260], [0.258819403792806798405]
    while f[-1] * 2.1 ** (3 * (len(f) - 1)) > epsilon(x) / 64:
        k = 3 * len(f)
        f.append(f[-1] / (k * (k - 1)))
        g.append(g[-1] / (k * (k + 1)))
    cube = mul(e, mul(e, x, x), x)
    return sub(e, polynomial(e, cube, f[::-1]), mul(e, x, polynomial(e, cube, g[::-1])))


def _scaled(function: Callable[..., Value]) -> Function:
    return lambda e, x: function(e, x, scaled=True)


lowers_function(bessel_j0, aten.special_bessel_j0.default)
lowers_function(bessel_j1, aten.special_bessel_j1.default)
lowers_function(bessel_y0, aten.special_bessel_y0.default)
lowers_function(bessel_y1, aten.special_bessel_y1.default)
lowers_function(modified_bessel_i0, aten.special_modified_bessel_i0.default, aten.i0.default)
lowers_function(modified_bessel_i1, aten.special_modified_bessel_i1.default, aten.special_i1.default)
lowers_function(_scaled(modified_bessel_i0), aten.special_i0e.default)
lowers_function(_scaled(modified_bessel_i1), aten.special_i1e.default)
lowers_function(modified_bessel_k0, aten.special_modified_bessel_k0.default)
lowers_function(modified_bessel_k1, aten.special_modified_bessel_k1.default)
lowers_function(_scaled(modified_bessel_k0), aten.special_scaled_modified_bessel_k0.default)
lowers_function(_scaled(modified_bessel_k1), aten.special_scaled_modified_bessel_k1.default)
lowers_function(spherical_bessel_j0, aten.special_spherical_bessel_j0.default)
lowers_function(airy_ai, aten.special_airy_ai.default)
