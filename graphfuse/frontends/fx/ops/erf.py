"""Functions of the normal distribution: complements and inverses of the error function.

`erfcx` by a Chebyshev series of all positive numbers (M. M. Shepherd and J. G. Laframboise, 1981), `erfc` from it;
the inverses as torch has them (Pavlis' erfinv, Cephes' ndtri).
"""

from __future__ import annotations

import math

import torch

from graphfuse.dialects import graph
from graphfuse.frontends.emit import Emitter, elem_of
from graphfuse.frontends.fx.ops import special_tables as tables
from graphfuse.frontends.fx.ops.series import (
    absolute,
    add,
    chebyshev,
    choose,
    div,
    eq,
    exp,
    gt,
    le,
    log,
    lowers_function,
    lt,
    mul,
    polynomial,
    sqrt,
    sub,
    with_sign,
)
from graphfuse.ir.core import Value
from graphfuse.ir.types import F64, I32, I64

aten = torch.ops.aten
EXP_OF_MINUS_2 = math.exp(-2)


def _erfcx_of_positive(e: Emitter, x: Value) -> Value:
    t = sub(e, 1.0, div(e, 8.0, add(e, x, 4.0)))
    return div(e, chebyshev(e, mul(e, t, 2.0), tables.ERFCX), add(e, mul(e, x, 2.0), 1.0))


def _exp_of_square(e: Emitter, x: Value, sign: float) -> Value:
    """exp(sign x^2), x cut in two so that the rounding of its square is not multiplied by the exponential."""
    bits, mask = (I64, -1 << 27) if elem_of(x) == F64 else (I32, -1 << 12)
    cut = e(graph.bitcast, e.map(graph.and_, e(graph.bitcast, x, to=bits), mask), to=elem_of(x))
    rest = mul(e, sub(e, x, cut), add(e, x, cut))
    return mul(e, exp(e, mul(e, mul(e, cut, cut), sign)), exp(e, mul(e, rest, sign)))


def erfcx(e: Emitter, x: Value) -> Value:
    """exp(x^2) erfc(x)."""
    size = absolute(e, x)
    positive = _erfcx_of_positive(e, size)
    # beyond, the exponential is infinite; cutting infinity in two would give NaN
    grown = mul(e, _exp_of_square(e, e.map(graph.min_, size, 30.0), 1.0), 2.0)
    return choose(e, lt(e, x, 0.0), sub(e, grown, positive), positive)


def erfc(e: Emitter, x: Value) -> Value:
    """1 - erf(x), accurate where it is small."""
    size = e.map(graph.min_, absolute(e, x), 30.0)
    tail = mul(e, _exp_of_square(e, size, -1.0), _erfcx_of_positive(e, size))
    tail = choose(e, lt(e, x, 0.0), sub(e, 2.0, tail), tail)
    return choose(e, lt(e, absolute(e, x), 0.5), sub(e, 1.0, e(graph.erf, x)), tail)


def erfinv(e: Emitter, y: Value) -> Value:
    """A quotient, improved by two of Newton's steps: on erfc where y is beyond 0.7. NaN beyond 1."""
    size = absolute(e, y)
    z, rest = mul(e, size, size), sub(e, 1.0, size)
    middle = le(e, size, 0.7)
    num = polynomial(e, z, (-0.140543331, 0.914624893, -1.645349621, 0.886226899))
    den = polynomial(e, z, (0.012229801, -0.329097515, 1.442710462, -2.118377725, 1.0))
    x = div(e, mul(e, size, num), den)
    z = sqrt(e, e(graph.neg, log(e, mul(e, rest, 0.5))))
    num = polynomial(e, z, (1.641345311, 3.429567803, -1.624906493, -1.970840454))
    den = polynomial(e, z, (1.637067800, 3.543889200, 1.0))
    x = choose(e, middle, x, div(e, num, den))
    for _ in range(2):
        slope = mul(e, exp(e, e(graph.neg, mul(e, x, x))), 2 / math.sqrt(math.pi))
        error = choose(e, middle, sub(e, e(graph.erf, x), size), sub(e, rest, erfc(e, x)))
        x = sub(e, x, div(e, error, slope))
    x = choose(e, eq(e, size, 1.0), math.inf, x)
    x = with_sign(e, x, y)
    return choose(e, gt(e, size, 1.0), math.nan, x)


def ndtri(e: Emitter, y: Value) -> Value:
    """Where the normal distribution is y: quotients in the middle, and of sqrt(-2 log y) on both sides."""
    upper = gt(e, y, 1 - EXP_OF_MINUS_2)
    tail = choose(e, upper, sub(e, 1.0, y), y)
    off = sub(e, y, 0.5)
    z = mul(e, off, off)
    middle = div(e, mul(e, z, polynomial(e, z, tables.NDTRI_P0)), polynomial(e, z, tables.NDTRI_Q0))
    middle = mul(e, add(e, off, mul(e, off, middle)), math.sqrt(2 * math.pi))
    x = sqrt(e, mul(e, log(e, tail), -2.0))
    first = sub(e, x, div(e, log(e, x), x))
    z = div(e, 1.0, x)
    near = div(e, mul(e, z, polynomial(e, z, tables.NDTRI_P1)), polynomial(e, z, tables.NDTRI_Q1))
    far = div(e, mul(e, z, polynomial(e, z, tables.NDTRI_P2)), polynomial(e, z, tables.NDTRI_Q2))
    side = sub(e, first, choose(e, lt(e, x, 8.0), near, far))
    side = choose(e, upper, side, e(graph.neg, side))
    out = choose(e, gt(e, tail, EXP_OF_MINUS_2), middle, side)
    out = choose(e, eq(e, y, 0.0), -math.inf, choose(e, eq(e, y, 1.0), math.inf, out))
    return choose(e, e(graph.or_, lt(e, y, 0.0), gt(e, y, 1.0)), math.nan, out)


lowers_function(erfcx, aten.special_erfcx.default)
lowers_function(erfc, aten.erfc.default)
lowers_function(erfinv, aten.erfinv.default)
lowers_function(ndtri, aten.special_ndtri.default)
