"""Comparisons, logic and bits, those of floats too, selection and conversion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from graphfuse.dialects import graph
from graphfuse.dialects.graph import ELEMENTWISE
from graphfuse.frontends.emit import elem_of, shape_of
from graphfuse.frontends.fx.elements import element_of
from graphfuse.frontends.fx.lowering import Call, Operand, lowers
from graphfuse.ir.core import OpDef, Value
from graphfuse.ir.types import BOOL, F64, I32, I64, Scalar, scalar

aten, prims = torch.ops.aten, torch.ops.prims


def _compared(c: Call, self: Operand, other: Operand, *, kind: OpDef) -> Value:
    elem = c.common(self, other)
    if elem == BOOL and kind not in (graph.eq, graph.ne):
        elem = I64
    return c.map(kind, self, other, elem=elem)


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    _overloads = getattr(aten, _name)
    lowers(_overloads.Tensor, _overloads.Scalar, kind=ELEMENTWISE[_name])(_compared)


@lowers(aten.logical_not.default)
def logical_not(c: Call, self: Value) -> Value:
    return c.e(graph.not_, c.truth(self))


@lowers(aten.logical_and.default, kind=graph.and_)
@lowers(aten.logical_or.default, kind=graph.or_)
@lowers(aten.logical_xor.default, kind=graph.xor)
def logical(c: Call, self: Value, other: Value, *, kind: OpDef) -> Value:
    return c.e(kind, *(c.e.broadcast(c.truth(o), c.shape) for o in (self, other)))


@lowers(aten.bitwise_not.default, kind=graph.not_)
@lowers(aten.neg.default, kind=graph.neg)
def plain(c: Call, self: Value, *, kind: OpDef) -> Value:
    return c.e(kind, self)


def _bitwise(c: Call, self: Operand, other: Operand, *, kind: OpDef) -> Value:
    return c.map(kind, self, other)


for _name in ("and", "or", "xor"):
    _overloads = getattr(aten, f"bitwise_{_name}")
    lowers(_overloads.Tensor, _overloads.Scalar, _overloads.Scalar_Tensor, kind=ELEMENTWISE[_name])(_bitwise)


def _shifted(c: Call, self: Operand, other: Operand, *, kind: OpDef) -> Value:
    e = c.e
    x, by = (e.broadcast(c.value(o, None, c.shape), c.shape) for o in (self, other))
    c.want(c.elem.is_integer, "shifts of floats")
    if not c.elem.is_signed:
        return e(kind, x, by)
    # a negative shift is one that is too wide
    wide = e.full(c.shape, c.elem, min(c.elem.bits, 127))
    return e(kind, x, e(graph.select, e.map(graph.lt, by, 0), wide, by))


for _overloads, _of_python, _name in (
    (aten.bitwise_left_shift, aten.__lshift__, "shl"),
    (aten.bitwise_right_shift, aten.__rshift__, "shr"),
):
    _forms = (_overloads.Tensor, _overloads.Tensor_Scalar, _overloads.Scalar_Tensor)
    lowers(*_forms, _of_python.Tensor, _of_python.Scalar, kind=ELEMENTWISE[_name])(_shifted)


@lowers(aten.isnan.default, kind=graph.isnan)
@lowers(aten.isinf.default, kind=graph.isinf)
def isnan(c: Call, self: Value, *, kind: OpDef) -> Value:
    return c.e(kind, self) if elem_of(self).is_float else c.e.full(c.shape, BOOL, False)


@lowers(aten.isposinf.default, side=graph.gt)
@lowers(aten.isneginf.default, side=graph.lt)
def isposinf(c: Call, self: Value, *, side: OpDef) -> Value:
    if not elem_of(self).is_float:
        return c.e.full(c.shape, BOOL, False)
    return c.e(graph.and_, c.e(graph.isinf, self), c.e.map(side, self, 0.0))


@lowers(aten.where.self)
def where(c: Call, condition: Value, self: Operand, other: Operand) -> Value:
    chosen = [c.e.broadcast(c.value(o, None, c.shape), c.shape) for o in (self, other)]
    return c.e(graph.select, c.e.broadcast(c.truth(condition), c.shape), *chosen)


@lowers(aten.masked_fill.Scalar, aten.masked_fill.Tensor)
def masked_fill(c: Call, self: Value, mask: Value, value: Operand) -> Value:
    return where(c, mask, value, self)


# conversion


@lowers(aten._to_copy.default, prims.convert_element_type.default)
def to_copy(c: Call, **given: Any) -> Value:
    x: Operand = given["self" if "self" in given else "a"]
    if not isinstance(x, Value):  # under vmap numbers are converted, too
        return c.value(x, None, c.shape)
    source = c.args["self" if "self" in given else "a"]
    c.want(source.device == c.result.device, "it copies between devices")
    c.want(not given.get("pin_memory"), "it pins memory")
    return c.e.cast(x, c.elem)


@lowers(aten.copy.default)
def copy(c: Call, self: Value, src: Value, non_blocking: bool = False) -> Value:
    c.want(c.args["self"].device == c.args["src"].device, "it copies between devices")
    return c.e.broadcast(c.value(src), c.shape)


@lowers(aten.view.dtype)
def view_dtype(c: Call, self: Value, dtype: torch.dtype) -> Value:
    elem = element_of(dtype)
    c.want(elem is not None and elem.bits == elem_of(self).bits and BOOL not in (elem, elem_of(self)), "widths differ")
    return self if elem == elem_of(self) else c.e(graph.bitcast, self, to=c.elem)


# how a float is stored: its sign, mantissa and exponent, the next number


def stored_as(elem: Scalar) -> Scalar:
    """The integer that has as many bits."""
    return scalar(f"i{elem.bits}")


@lowers(aten.signbit.default)
def is_negative(c: Call, self: Value) -> Value:
    """Whether the sign bit is set."""
    elem = elem_of(self)
    if not elem.is_float:
        return c.e.map(graph.lt, self, 0) if elem.is_signed else c.e.full(shape_of(self), BOOL, False)
    return c.e.map(graph.lt, c.e(graph.bitcast, self, to=stored_as(elem)), 0)


@lowers(aten.frexp.Tensor)
def frexp(c: Call, self: Value) -> Sequence[Value]:
    """A number in [0.5, 1) and a power of two; 0, infinity and NaN are their own mantissa."""
    e, x = c.e, c.wide(self)
    elem, bits = elem_of(x), stored_as(elem_of(x))
    fraction = 52 if elem == F64 else 23
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
    e, bits = c.e, stored_as(c.elem)
    x, y = (e.broadcast(c.value(o), c.shape) for o in (self, other))
    stored = e(graph.bitcast, x, to=bits)
    up = e(graph.eq, e(graph.lt, x, y), e.map(graph.gt, x, 0.0))
    moved = e(graph.add, stored, e.select(up, 1, e.full(c.shape, bits, -1)))
    sign = e.map(graph.and_, e(graph.bitcast, y, to=bits), -1 << (c.elem.bits - 1))
    moved = e(graph.bitcast, e.select(e.map(graph.eq, x, 0.0), e.map(graph.or_, sign, 1), moved), to=c.elem)
    out = e(graph.select, e(graph.eq, x, y), y, moved)
    return e(graph.select, e(graph.isnan, x), x, e(graph.select, e(graph.isnan, y), y, out))
