"""The inverse of the normal distribution, as Cephes has it: quotients in the middle, to exp(-2), and on both sides."""

from __future__ import annotations

import math

from graphfuse.frontends.terms import Term, equal, log, polynomial, sqrt, where

EXP_OF_MINUS_2 = math.exp(-2)

# fmt: off
NDTRI_P0 = (
    -59.96335010141079, 98.00107541859997, -56.67628574690703, 13.931260938727968, -1.2391658386738125,
)
"""The middle: the numerator."""
NDTRI_Q0 = (
    1.0, 1.9544885833814176, 4.676279128988815, 86.36024213908905, -225.46268785411937, 200.26021238006066,
    -82.03722561683334, 15.90562251262117, -1.1833162112133,
)
"""The middle: the denominator."""
NDTRI_P1 = (
    4.0554489230596245, 31.525109459989388, 57.16281922464213, 44.08050738932008, 14.684956192885803,
    2.1866330685079025, -0.1402560791713545, -0.03504246268278482, -0.0008574567851546854,
)
"""Sides down to exp(-32): the numerator."""
NDTRI_Q1 = (
    1.0, 15.779988325646675, 45.39076351288792, 41.3172038254672, 15.04253856929075, 2.504649462083094,
    -0.14218292285478779, -0.03808064076915783, -0.0009332594808954574,
)
"""Sides down to exp(-32): the denominator."""
NDTRI_P2 = (
    3.2377489177694603, 6.915228890689842, 3.9388102529247444, 1.3330346081580755, 0.20148538954917908,
    0.012371663481782003, 0.00030158155350823543, 2.6580697468673755e-06, 6.239745391849833e-09,
)
"""Sides beyond: the numerator."""
NDTRI_Q2 = (
    1.0, 6.02427039364742, 3.6798356385616087, 1.3770209948908132, 0.21623699359449663, 0.013420400608854318,
    0.00032801446468212774, 2.8924786474538068e-06, 6.790194080099813e-09,
)
"""Sides beyond: the denominator."""
# fmt: on


def ndtri(y: Term) -> Term:
    """Where the normal distribution is y: quotients in the middle, and of sqrt(-2 log y) on both sides."""
    upper = y > 1 - EXP_OF_MINUS_2
    tail = where(upper, 1.0 - y, y)
    off = y - 0.5
    z = off * off
    middle = z * polynomial(z, NDTRI_P0) / polynomial(z, NDTRI_Q0)
    middle = (off + off * middle) * math.sqrt(2 * math.pi)
    x = sqrt(log(tail) * -2.0)
    first = x - log(x) / x
    z = 1.0 / x
    near = z * polynomial(z, NDTRI_P1) / polynomial(z, NDTRI_Q1)
    far = z * polynomial(z, NDTRI_P2) / polynomial(z, NDTRI_Q2)
    side = first - where(x < 8.0, near, far)
    side = where(upper, side, -side)
    out = where(tail > EXP_OF_MINUS_2, middle, side)
    out = where(equal(y, 0.0), -math.inf, where(equal(y, 1.0), math.inf, out))
    return where((y < 0.0) | (y > 1.0), math.nan, out)
