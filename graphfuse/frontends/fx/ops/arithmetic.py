"""Arithmetic and mathematical functions, elementwise.

torch computes halves in f32 and rounds each operator's result once; numbers are never rounded to halves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from graphfuse.dialects import graph
from graphfuse.dialects.graph import ELEMENTWISE
from graphfuse.frontends import terms
from graphfuse.frontends.emit import elem_of
from graphfuse.frontends.fx.lowering import Call, Formula, Number, Operand, formula, lowers, wide_elem
from graphfuse.frontends.fx.ops.compare import is_negative
from graphfuse.frontends.terms import Term, equal, where
from graphfuse.ir.core import OpDef, Value
from graphfuse.ir.types import BOOL
from graphfuse.symbolic import Expr, bounds

aten, prims = torch.ops.aten, torch.ops.prims


def computed(c: Call, kind: OpDef, *operands: Operand) -> Value:
    """An elementwise function in the width torch computes the result in, rounded once."""
    if all(isinstance(o, Value) and elem_of(o) == c.elem for o in operands):
        return c.map(kind, *operands)
    return c.rounded(c.map(kind, *operands, elem=wide_elem(c.elem)))


@lowers(aten.add.Tensor, aten.add.Scalar, kind=graph.add)
@lowers(aten.sub.Tensor, aten.sub.Scalar, kind=graph.sub)
def add(c: Call, self: Operand, other: Operand, alpha: Number = 1, *, kind: OpDef) -> Value:
    if c.elem == BOOL:
        return c.map(graph.or_, self, other if alpha else False)
    if alpha == 1:
        return computed(c, kind, self, other)
    # torch rounds the factor to the result's element
    elem = wide_elem(c.elem)
    scaled = c.map(graph.mul, other, c.value(alpha, None, c.shape), elem=elem)
    return c.rounded(c.map(kind, self, scaled, elem=elem))


@lowers(aten.rsub.Tensor, aten.rsub.Scalar)
def rsub(c: Call, self: Operand, other: Operand, alpha: Number = 1) -> Value:
    return add(c, other, self, alpha, kind=graph.sub)


@lowers(aten.mul.Tensor, aten.mul.Scalar, kind=graph.mul)
@lowers(aten.div.Tensor, aten.div.Scalar, prims.div.default, kind=graph.div)
@lowers(aten.atan2.default, kind=graph.atan2)
def mul(c: Call, self: Operand, other: Operand, *, kind: OpDef) -> Value:
    return computed(c, graph.and_ if c.elem == BOOL else kind, self, other)


@lowers(aten.div.Tensor_mode, aten.div.Scalar_mode)
def div_mode(c: Call, self: Operand, other: Operand, rounding_mode: str | None = None) -> Value:
    if rounding_mode is None:
        return computed(c, graph.div, self, other)
    if rounding_mode == "floor":
        return floor_divide(c, self, other)
    if c.elem.is_integer:
        return c.map(graph.truncdiv, self, _divisor(c, other))
    # torch rounds the quotient before it is truncated
    return c.e(ELEMENTWISE["trunc"], c.rounded(c.map(graph.div, self, other, elem=wide_elem(c.elem))))


@lowers(aten.floor_divide.default, aten.floor_divide.Scalar)
def floor_divide(c: Call, self: Operand, other: Operand) -> Value:
    if c.elem.is_integer:
        return c.map(graph.floordiv_, self, _divisor(c, other))
    return c.compute(_floor_divide_floats, self, other)


def _divisor(c: Call, other: Operand) -> Operand:
    """A divisor; integers are not divided by 0: torch says so of the number, the part of a tensor that has one."""
    if not c.elem.is_integer:
        return other
    c.want(not (isinstance(other, int) and other == 0), "it divides integers by 0")
    if not isinstance(other, (Value, Expr)):
        return other
    by = c.value(other)
    # where there may be nothing to divide, only what something is divided by counts
    some = all(bounds(d, c.e.ranges)[0] > 0 for d in c.shape)
    c.watched.watch_divisor(by if some else c.e.broadcast(by, c.shape))
    return by


def _floor_divide_floats(x: Term, y: Term) -> Term:
    """As torch's `div_floor`: by way of the remainder, which is exact where the quotient's floor is not."""
    rest = x.map(graph.truncmod, y)
    quotient = (x - rest) / y
    adjust = rest.map(graph.ne, 0.0) & (y < 0.0).map(graph.ne, rest < 0.0)
    quotient = where(adjust, quotient - 1.0, quotient)
    floored = terms.floor(quotient)
    floored = where(quotient - floored > 0.5, floored + 1.0, floored)
    plain = x / y
    exact = where(equal(quotient, 0.0), plain * 0.0, floored)
    return where(equal(y, 0.0), plain, exact)


@lowers(aten.remainder.Tensor, aten.remainder.Scalar, aten.remainder.Scalar_Tensor, kind=graph.floormod)
@lowers(aten.fmod.Tensor, aten.fmod.Scalar, kind=graph.truncmod)
def remainder(c: Call, self: Operand, other: Operand, *, kind: OpDef) -> Value:
    """As torch computes what is not linear: of halves, numbers too."""
    return computed(c, kind, *(c.value(o, None, c.shape) for o in (self, _divisor(c, other))))


@lowers(aten.pow.Tensor_Tensor, aten.pow.Tensor_Scalar, aten.pow.Scalar, prims.pow.default)
def pow_(c: Call, self: Operand, **given: Operand) -> Value:
    (exponent,) = given.values()
    if isinstance(self, Value) and isinstance(exponent, (int, float)):
        if (product := _by_products(c, self, exponent)) is not None:
            return product
        c.want(not c.elem.is_integer or exponent >= 0, "integers to negative powers raise")
    c.want(c.elem != BOOL, "powers of bool")
    return computed(c, graph.pow_, self, exponent)


def _by_products(c: Call, x: Value, exponent: float) -> Value | None:
    """Powers that torch computes by multiplication, or roots."""
    if exponent == 1:
        return c.value(x)
    if not c.elem.is_float and exponent not in (2, 3):
        return None
    function = _POWERS.get(exponent)
    return None if function is None else c.compute(function, x)


_POWERS: Mapping[float, Formula] = {
    2: lambda x: x * x,
    3: lambda x: x * x * x,
    0.5: terms.sqrt,
    -0.5: lambda x: 1.0 / terms.sqrt(x),
    -1: lambda x: 1.0 / x,
    -2: lambda x: 1.0 / (x * x),
}
formula(aten.reciprocal.default)(_POWERS[-1])
formula(aten.rsqrt.default)(_POWERS[-0.5])


@lowers("prims.fma.default")
def fma(call: Call, /, a: Value, b: Value, c: Value) -> Value:
    elem = wide_elem(call.elem)
    return call.rounded(call.map(graph.add, call.map(graph.mul, a, b, elem=elem), c, elem=elem))


@lowers(aten.addcmul.default, kind=graph.mul)
@lowers(aten.addcdiv.default, kind=graph.div)
def addcmul(c: Call, self: Value, tensor1: Value, tensor2: Value, value: Number = 1, *, kind: OpDef) -> Value:
    elem = wide_elem(c.elem)
    if kind is graph.mul:
        term = c.map(graph.mul, c.map(graph.mul, tensor1, tensor2, elem=elem), value, elem=elem)
    else:
        term = c.map(graph.div, c.map(graph.mul, tensor1, value, elem=elem), tensor2, elem=elem)
    return c.rounded(c.map(graph.add, self, term, elem=elem))


@lowers(aten.lerp.Tensor, aten.lerp.Scalar)
def lerp(c: Call, self: Value, end: Value, weight: Operand) -> Value:
    return c.compute(_between, self, end, weight)


def _between(start: Term, end: Term, weight: Term) -> Term:
    """From the end that is nearer."""
    span = end - start
    return where(terms.absolute(weight) < 0.5, start + weight * span, end - span * (1.0 - weight))


# extremes


@lowers(aten.maximum.default, kind=graph.max_)
@lowers(aten.minimum.default, kind=graph.min_)
def maximum(c: Call, self: Value, other: Value, *, kind: OpDef) -> Value:
    if c.elem == BOOL:
        kind = graph.or_ if kind is graph.max_ else graph.and_
    return c.map(kind, self, other)


@lowers(aten.fmax.default, kind=graph.max_)
@lowers(aten.fmin.default, kind=graph.min_)
def fmax(c: Call, self: Value, other: Value, *, kind: OpDef) -> Value:
    """NaN is ignored."""
    e, out = c.e, maximum(c, self, other, kind=kind)
    if not c.elem.is_float:
        return out
    x, y = (e.broadcast(c.value(o), c.shape) for o in (self, other))
    return e(graph.select, e(graph.isnan, x), y, e(graph.select, e(graph.isnan, y), x, out))


@lowers(
    aten.clamp.default, aten.clamp.Tensor, aten.clamp_min.default, aten.clamp_min.Tensor, aten.clamp_max.default,
    aten.clamp_max.Tensor,
)  # fmt: skip
def clamp(c: Call, self: Value, min: Operand | None = None, max: Operand | None = None) -> Value:
    out = c.map(graph.max_, self, min) if min is not None else c.value(self)
    return c.map(graph.min_, out, max) if max is not None else c.e.broadcast(out, c.shape)


@lowers(aten.copysign.Tensor, aten.copysign.Scalar)
def copysign(c: Call, self: Value, other: Operand) -> Value:
    e = c.e
    size = e(graph.abs_, e.broadcast(c.value(self), c.shape))
    if not isinstance(other, Value):
        return e(graph.neg, size) if math.copysign(1.0, c.number(other)) < 0 else size
    return e(graph.select, e.broadcast(is_negative(c, other), c.shape), e(graph.neg, size), size)


@formula(aten.hypot.default)
def hypot(x: Term, y: Term) -> Term:
    """By the larger side, so that squares neither overflow nor vanish; infinite beside NaN."""
    x, y = terms.absolute(x), terms.absolute(y)
    long, short = terms.maximum(x, y), terms.minimum(x, y)
    ratio = where(equal(long, 0.0), 0.0, short / long)
    root = long * terms.sqrt(ratio * ratio + 1.0)
    return where(terms.isinf(x) | terms.isinf(y), math.inf, root)


# functions of one tensor


@lowers(aten.abs.default)
def abs_(c: Call, self: Value) -> Value:
    return c.e(graph.abs_, self) if elem_of(self).is_float or elem_of(self).is_signed else self


@lowers(aten.sign.default, aten.sgn.default)
def sign(c: Call, self: Value) -> Value:
    if elem_of(self) == BOOL:
        return self
    if not elem_of(self).is_float:
        return c.e(graph.sign, self)
    # torch's sign of NaN is 0, and of -0 too
    is_zero = c.e(graph.or_, c.e(graph.isnan, self), c.e.map(graph.eq, self, 0.0))
    return c.e.select(is_zero, 0.0, c.e(graph.sign, self))


@lowers(aten.floor.default, kind=ELEMENTWISE["floor"])
@lowers(aten.ceil.default, kind=ELEMENTWISE["ceil"])
@lowers(aten.trunc.default, kind=ELEMENTWISE["trunc"])
@lowers(aten.round.default, kind=ELEMENTWISE["round"])
def floor(c: Call, self: Value, *, kind: OpDef) -> Value:
    """Rounds floats, and leaves integers alone."""
    return c.e(kind, self) if elem_of(self).is_float else c.value(self)


@lowers(aten.round.decimals)
def round_decimals(c: Call, self: Value, decimals: int) -> Value:
    if not elem_of(self).is_float:
        c.want(decimals >= 0, "it rounds integers")
        return self
    # multiplied or divided as torch does, in what it computes
    x = c.wide(self)
    there, back = (graph.mul, graph.div) if decimals >= 0 else (graph.div, graph.mul)
    power = 10.0 ** abs(decimals)
    return c.rounded(c.e.map(back, c.e(ELEMENTWISE["round"], c.e.map(there, x, power)), power))


@lowers(aten.angle.default)
def angle(c: Call, self: Value) -> Value:
    e, x = c.e, c.e.cast(self, c.elem)
    return e.select(e(graph.isnan, x), x, e.select(e.map(graph.lt, x, 0.0), math.pi, c.zeros(x)))


@formula(aten.frac.default)
def frac(x: Term) -> Term:
    return x - x.map(ELEMENTWISE["trunc"])


@formula(aten.log10.default)
def log10(x: Term) -> Term:
    return terms.log(x) * (1 / math.log(10))


@formula(aten.logaddexp.default)
def logaddexp(x: Term, y: Term) -> Term:
    high = terms.maximum(x, y)
    total = high + terms.log1p(terms.exp(-terms.absolute(x - y)))
    return where(equal(x, y) & terms.isinf(x), x, total)


def _function(x: Term, *, kind: OpDef) -> Term:
    return x.map(kind)


for _name in (
    "exp", "exp2", "expm1", "log", "log2", "log1p", "sqrt", "tanh", "erf", "sigmoid", "sin", "cos", "tan", "asin",
    "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh",
):  # fmt: skip
    formula(getattr(aten, _name).default, kind=ELEMENTWISE[_name])(_function)
