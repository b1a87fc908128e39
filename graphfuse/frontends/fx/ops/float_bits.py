"""Functions of how a float is stored: mantissa and exponent, the next number."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from graphfuse.dialects import graph
from graphfuse.dialects.graph import ELEMENTWISE
from graphfuse.frontends.emit import elem_of
from graphfuse.frontends.fx.lowering import Call, lowers
from graphfuse.ir.core import Value
from graphfuse.ir.types import BF16, F16, F32, F64, I16, I32, I64, Scalar

aten = torch.ops.aten
FRACTION_BITS = {F32: 23, F64: 52}
STORED: dict[Scalar, Scalar] = {F16: I16, BF16: I16, F32: I32, F64: I64}


@lowers(aten.frexp.Tensor)
def frexp(c: Call, self: Value) -> Sequence[Value]:
    """A number in [0.5, 1) and a power of two; 0, infinity and NaN are their own mantissa."""
    e, x = c.e, c.wide(self)
    elem, bits = elem_of(x), STORED[elem_of(x)]
    fraction = FRACTION_BITS[elem]
    most = (1 << (elem.bits - 1 - fraction)) - 1
    # a subnormal number has no exponent of its own until it is scaled
    lift = fraction + 1
    small = e.map(graph.lt, e(graph.abs_, x), 2.0 ** (2 - (most + 1) // 2))
    stored = e(graph.bitcast, e.select(small, e.map(graph.mul, x, 2.0**lift), x), to=bits)
    power = e.map(graph.and_, e.map(ELEMENTWISE["shr"], stored, fraction), most)
    power = e.map(graph.sub, e(graph.sub, power, e.select(small, lift, e.full(c.shape, bits, 0))), most // 2 - 1)
    kept = e.map(graph.and_, stored, ~(most << fraction))
    mantissa = e(graph.bitcast, e.map(graph.or_, kept, (most // 2 - 1) << fraction), to=elem)
    own = e(graph.or_, e.map(graph.eq, x, 0.0), e(graph.or_, e(graph.isinf, x), e(graph.isnan, x)))
    return c.rounded(e.select(own, x, mantissa)), e.cast(e.select(own, 0, power), I32)


@lowers(aten.nextafter.default)
def nextafter(c: Call, self: Value, other: Value) -> Value:
    """The number beside one on the way to another: the stored integers are in order on either side of 0."""
    e, bits = c.e, STORED[c.elem]
    x, y = (e.broadcast(c.value(o), c.shape) for o in (self, other))
    stored = e(graph.bitcast, x, to=bits)
    up = e(graph.eq, e(graph.lt, x, y), e.map(graph.gt, x, 0.0))
    moved = e(graph.add, stored, e.select(up, 1, e.full(c.shape, bits, -1)))
    sign = e.map(graph.and_, e(graph.bitcast, y, to=bits), -1 << (c.elem.bits - 1))
    moved = e(graph.bitcast, e.select(e.map(graph.eq, x, 0.0), e.map(graph.or_, sign, 1), moved), to=c.elem)
    out = e(graph.select, e(graph.eq, x, y), y, moved)
    return e(graph.select, e(graph.isnan, x), x, e(graph.select, e(graph.isnan, y), y, out))
