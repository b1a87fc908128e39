"""Bessel functions, modified ones, and Airy's function.

By the methods of the Cephes Mathematical Library as torch has them. torch leaves out the leading 1 of the denominators
that Cephes calls monic, so its own f64 answers are about 4e-7 off; they are kept, since results are eager's.
"""

from __future__ import annotations

import math

import torch

from graphfuse.frontends.fx.lowering import Formula, formula
from graphfuse.frontends.fx.ops import special_tables as tables
from graphfuse.frontends.fx.ops.series import chebyshev, epsilon, with_sign
from graphfuse.frontends.fx.ops.special_tables import Table
from graphfuse.frontends.terms import Term, absolute, cos, equal, exp, isinf, log, polynomial, sin, sqrt, where

aten = torch.ops.aten
TWO_OVER_PI = 2 / math.pi


def _quotient(x: Term, p: Table, q: Table) -> Term:
    return polynomial(x, p) / polynomial(x, q)


# J and Y: quotients to 5, amplitude and phase beyond


def _phase(order: int) -> float:
    return (0.25 + 0.5 * order) * math.pi


def _wave(x: Term, order: int, first: Formula, second: Formula, side: float) -> Term:
    """The amplitudes P and Q at x > 5 with the sine and cosine of the phase."""
    pp, pq, qp, qq = _AMPLITUDES[order]
    near = 5.0 / x
    z = near * near
    phase = x - _phase(order)
    p = _quotient(z, pp, pq) * first(phase)
    q = near * _quotient(z, qp, qq) * (second(phase) * side)
    return (p + q) * math.sqrt(TWO_OVER_PI) / sqrt(x)


_AMPLITUDES = (
    (tables.BESSEL0_PP, tables.BESSEL0_PQ, tables.BESSEL0_QP, tables.BESSEL0_QQ),
    (tables.BESSEL1_PP, tables.BESSEL1_PQ, tables.BESSEL1_QP, tables.BESSEL1_QQ),
)


def _j0_near(x: Term) -> Term:
    """To 5, with the first two zeros as factors."""
    z = x * x
    zeros = (z - 5.78318596294678452118) * (z - 30.4712623436620863991)
    out = zeros * _quotient(z, tables.J0_P, tables.J0_Q)
    return where(x < 1e-5, 1.0 - z * 0.25, out)


def _j1_near(x: Term) -> Term:
    z = x * x
    zeros = (z - 14.6819706421238932572) * (z - 49.2184563216946036703)
    return _quotient(z, tables.J1_P, tables.J1_Q) * x * zeros


@formula(aten.special_bessel_j0.default, order=0)
@formula(aten.special_bessel_j1.default, order=1)
def bessel_j(x: Term, *, order: int) -> Term:
    """J of order 0 or 1."""
    size = absolute(x)
    near = _j1_near(size) if order else _j0_near(size)
    out = where(size <= 5.0, near, _wave(size, order, cos, sin, -1.0))
    return with_sign(out, x) if order else out


@formula(aten.special_bessel_y0.default)
def bessel_y0(x: Term) -> Term:
    """Y of order 0: NaN below 0."""
    z = x * x
    near = _quotient(z, tables.Y0_P, tables.Y0_Q) + log(x) * TWO_OVER_PI * _j0_near(x)
    return _from_zero(x, -math.inf, where(x <= 5.0, near, _wave(x, 0, sin, cos, 1.0)))


@formula(aten.special_bessel_y1.default)
def bessel_y1(x: Term) -> Term:
    """Y of order 1: NaN below 0."""
    z = x * x
    pole = _j1_near(x) * log(x) - 1.0 / x
    near = x * _quotient(z, tables.Y1_P, tables.Y1_Q) + pole * TWO_OVER_PI
    return _from_zero(x, -math.inf, where(x <= 5.0, near, _wave(x, 1, sin, cos, 1.0)))


def _from_zero(x: Term, at_zero: float, beyond: Term) -> Term:
    """A function of what is positive."""
    below = where(x < 0.0, math.nan, beyond)
    return where(equal(x, 0.0), at_zero, below)


# modified ones: Chebyshev series times exponentials


@formula(aten.special_modified_bessel_i0.default, aten.i0.default, order=0)
@formula(aten.special_i0e.default, order=0, scaled=True)
@formula(aten.special_modified_bessel_i1.default, aten.special_i1.default, order=1)
@formula(aten.special_i1e.default, order=1, scaled=True)
def modified_bessel_i(x: Term, *, order: int, scaled: bool = False) -> Term:
    """I of order 0 or 1; `scaled` by exp(-|x|)."""
    near, far = ((tables.I0_NEAR, tables.I0_FAR), (tables.I1_NEAR, tables.I1_FAR))[order]
    size = absolute(x)
    growth = x.full(1.0) if scaled else exp(size)
    low = (growth * size if order else growth) * chebyshev(size * 0.5 - 2.0, near)
    high = growth * chebyshev(32.0 / size - 2.0, far) / sqrt(size)
    out = where(size <= 8.0, low, high)
    return with_sign(out, x) if order else out


@formula(aten.special_modified_bessel_k0.default, order=0)
@formula(aten.special_scaled_modified_bessel_k0.default, order=0, scaled=True)
@formula(aten.special_modified_bessel_k1.default, order=1)
@formula(aten.special_scaled_modified_bessel_k1.default, order=1, scaled=True)
def modified_bessel_k(x: Term, *, order: int, scaled: bool = False) -> Term:
    """K of order 0 or 1: a series to 2, another one beyond; infinite at 0, NaN below; `scaled` by exp(x)."""
    near, far = ((tables.K0_NEAR, tables.K0_FAR), (tables.K1_NEAR, tables.K1_FAR))[order]
    series, grown = chebyshev(x * x - 2.0, near), log(x * 0.5) * modified_bessel_i(x, order=order)
    low = grown + series / x if order else series - grown
    low = low * exp(x) if scaled else low
    series = chebyshev(8.0 / x - 2.0, far)
    high = (series if scaled else exp(-x) * series) / sqrt(x)
    return _from_zero(x, math.inf, where(x <= 2.0, low, high))


# others


@formula(aten.special_spherical_bessel_j0.default)
def spherical_bessel_j0(x: Term) -> Term:
    """sin(x) / x, by its series near 0; 0 at infinity."""
    z = x * x
    terms = [(-1) ** k / math.factorial(2 * k + 1) for k in range(7)]
    out = where(absolute(x) < 0.5, polynomial(z, terms[::-1]), sin(x) / x)
    return where(isinf(x), 0.0, out)


@formula(aten.special_airy_ai.default)
def airy_ai(x: Term) -> Term:
    """Airy's function Ai: an asymptotic quotient beyond 2.09, a wave below -2.09, the series of Maclaurin between."""
    size = absolute(x)
    zeta = size * 2.0 * sqrt(size) / 3.0
    root = sqrt(sqrt(size))
    decay = root * 2.0 * exp(zeta)
    inverse = 1.0 / zeta
    right = _quotient(inverse, tables.AIRY_N, tables.AIRY_D) * (1 / math.sqrt(math.pi)) / decay
    out = where(x < -2.09, _airy_wave(zeta, inverse, root), _airy_series(x))
    out = where(x < 2.09, out, right)
    out = where(x > 103.892, 0.0, out)
    return where(isinf(x), math.nan, out)


def _airy_wave(zeta: Term, inverse: Term, root: Term) -> Term:
    phase, z = zeta + 0.25 * math.pi, inverse * inverse
    even = z * _quotient(z, tables.AIRY_FN, tables.AIRY_FD) + 1.0
    odd = inverse * _quotient(z, tables.AIRY_GN, tables.AIRY_GD)
    wave = sin(phase) * even - cos(phase) * odd
    return 1 / math.sqrt(math.pi) / root * wave


def _airy_series(x: Term) -> Term:
    """c f - d g, whose k-th terms divide the ones before by 3k (3k - 1) and 3k (3k + 1), for |x| < 2.1."""
    f, g = [0.355028053887817239260], [0.258819403792806798405]
    while f[-1] * 2.1 ** (3 * (len(f) - 1)) > epsilon(x) / 64:
        k = 3 * len(f)
        f.append(f[-1] / (k * (k - 1)))
        g.append(g[-1] / (k * (k + 1)))
    cube = x * x * x
    return polynomial(cube, f[::-1]) - x * polynomial(cube, g[::-1])
