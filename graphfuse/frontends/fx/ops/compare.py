"""Comparisons, logic and bits, selection and conversion."""

from __future__ import annotations

from typing import Any

import torch

from graphfuse.dialects import graph
from graphfuse.dialects.graph import ELEMENTWISE
from graphfuse.frontends.emit import elem_of
from graphfuse.frontends.fx.elements import element_of
from graphfuse.frontends.fx.lowering import Call, Operand, lowers
from graphfuse.frontends.fx.ops.arithmetic import is_negative
from graphfuse.ir.core import OpDef, Value
from graphfuse.ir.types import BOOL, I64

aten, prims = torch.ops.aten, torch.ops.prims


def _comparison(kind: OpDef) -> Any:
    def lowering(c: Call, self: Operand, other: Operand) -> Value:
        elem = c.common(self, other)
        if elem == BOOL and kind not in (graph.eq, graph.ne):
            elem = I64
        return c.map(kind, self, other, elem=elem)

    return lowering


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    _overloads = getattr(aten, _name)
    lowers(_overloads.Tensor, _overloads.Scalar)(_comparison(ELEMENTWISE[_name]))


@lowers(aten.logical_not.default)
def logical_not(c: Call, self: Value) -> Value:
    return c.e(graph.not_, c.truth(self))


def _logical(kind: OpDef) -> Any:
    def lowering(c: Call, self: Value, other: Value) -> Value:
        return c.e(kind, *(c.e.broadcast(c.truth(o), c.shape) for o in (self, other)))

    return lowering


for _name, _kind in (("logical_and", graph.and_), ("logical_or", graph.or_), ("logical_xor", graph.xor)):
    lowers(getattr(aten, _name).default)(_logical(_kind))


@lowers(aten.bitwise_not.default)
def bitwise_not(c: Call, self: Value) -> Value:
    return c.e(graph.not_, self)


def _bitwise(name: str) -> Any:
    def lowering(c: Call, self: Operand, other: Operand) -> Value:
        return c.map(ELEMENTWISE[name], self, other)

    return lowering


for _name in ("and", "or", "xor"):
    _overloads = getattr(aten, f"bitwise_{_name}")
    lowers(_overloads.Tensor, _overloads.Scalar, _overloads.Scalar_Tensor)(_bitwise(_name))


def _shift(name: str) -> Any:
    def lowering(c: Call, self: Operand, other: Operand) -> Value:
        e = c.e
        x, by = (e.broadcast(c.value(o, None, c.shape), c.shape) for o in (self, other))
        c.want(c.elem.is_integer, "shifts of floats")
        if not c.elem.is_signed:
            return e(ELEMENTWISE[name], x, by)
        # a negative shift is one that is too wide
        wide = e.full(c.shape, c.elem, min(c.elem.bits, 127))
        return e(ELEMENTWISE[name], x, e(graph.select, e.map(graph.lt, by, 0), wide, by))

    return lowering


for _name, _operator, _function in (
    ("bitwise_left_shift", "__lshift__", "shl"),
    ("bitwise_right_shift", "__rshift__", "shr"),
):
    _overloads, _of_python = getattr(aten, _name), getattr(aten, _operator)
    lowers(_overloads.Tensor, _overloads.Tensor_Scalar, _overloads.Scalar_Tensor, _of_python.Tensor, _of_python.Scalar)(
        _shift(_function)
    )


@lowers(aten.isnan.default)
def isnan(c: Call, self: Value) -> Value:
    return c.e(graph.isnan, self) if elem_of(self).is_float else c.e.full(c.shape, BOOL, False)


@lowers(aten.isinf.default)
def isinf(c: Call, self: Value) -> Value:
    return c.e(graph.isinf, self) if elem_of(self).is_float else c.e.full(c.shape, BOOL, False)


@lowers(aten.isposinf.default)
def isposinf(c: Call, self: Value) -> Value:
    return _infinity(c, self, graph.gt)


@lowers(aten.isneginf.default)
def isneginf(c: Call, self: Value) -> Value:
    return _infinity(c, self, graph.lt)


def _infinity(c: Call, x: Value, side: OpDef) -> Value:
    if not elem_of(x).is_float:
        return c.e.full(c.shape, BOOL, False)
    return c.e(graph.and_, c.e(graph.isinf, x), c.e.map(side, x, 0.0))


@lowers(aten.signbit.default)
def signbit(c: Call, self: Value) -> Value:
    return is_negative(c, self)


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


@lowers(aten.clone.default, aten.lift_fresh_copy.default, aten.lift_fresh.default, aten.detach.default)
def clone(c: Call, self: Value, **_: Any) -> Value:
    return self


@lowers(aten.copy.default)
def copy(c: Call, self: Value, src: Value, non_blocking: bool = False) -> Value:
    c.want(c.args["self"].device == c.args["src"].device, "it copies between devices")
    return c.e.broadcast(c.value(src), c.shape)


@lowers(aten.view.dtype)
def view_dtype(c: Call, self: Value, dtype: torch.dtype) -> Value:
    elem = element_of(dtype)
    c.want(elem is not None and elem.bits == elem_of(self).bits and BOOL not in (elem, elem_of(self)), "widths differ")
    return self if elem == elem_of(self) else c.e(graph.bitcast, self, to=c.elem)
