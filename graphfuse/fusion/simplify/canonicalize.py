"""One form for equal computations: algebra with constants, and movement ops merged or dropped.

    %two = graph.full() {elem = f32, shape = [(n)], value = 2.0} : tensor<(n)xf32>
    %p = graph.pow(%x, %two) : tensor<(n)xf32>

becomes `graph.mul(%x, %x)`. Every rule holds for NaN, infinities and -0.0, and rounds as its left side does: what
changes the last bits is in `recognise_functions`. Integers wrap.

Requires nothing. Ensures: a known operand of a commutative op stands right; constants whose elements are all
equal are fulls; no rule here applies again (so canonicalize is idempotent). Cost: a sweep per level of
simplification, usually two or three.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from graphfuse.dialects import graph
from graphfuse.dialects.elementwise import neutral
from graphfuse.fusion.simplify.fold_constants import aligned, array_of, fold_elementwise, full, splat_of, uniform
from graphfuse.fusion.simplify.patterns import is_op, made_by, operand_of, rule_of
from graphfuse.fusion.simplify.simplify_movement import MOVEMENT_RULES, contract_of_permute
from graphfuse.interp.elementwise import integer_range
from graphfuse.ir.core import Func, Op, Trait, Value, attr_dim, attr_int, attr_number, remade, tensor_of
from graphfuse.ir.dense import finfo, numpy_dtype
from graphfuse.ir.passes import passing
from graphfuse.ir.rewrite import Replacement, Rule, rewrite, rule
from graphfuse.ir.types import BOOL, F32, F64, I32, U32, Scalar
from graphfuse.symbolic import Dim, product

_FUNCTIONS = tuple(graph.ELEMENTWISE.values())
_BINARY = tuple(kind for kind in _FUNCTIONS if kind.takes.most == 2 and not kind.takes.attrs)
_COMMUTATIVE = tuple(kind for kind in _BINARY if Trait.COMMUTATIVE in kind.traits)
_ALL = (*_FUNCTIONS, graph.select, graph.cast)
_OF_ONE = (
    *_ALL, graph.iota, graph.reduce, graph.arg_reduce, graph.cumulate, graph.reduce_window, graph.contract,
    graph.conv, graph.reshape, graph.permute, graph.broadcast, graph.stretch, graph.slice_, graph.pad, graph.concat,
    graph.flip, graph.take, graph.take_along, graph.gather_nd, graph.scatter_along, graph.scatter_nd,
)  # fmt: skip
"""Ops that compute one tensor."""


def _is(value: Any, want: float) -> bool:
    """Whether a number is `want`, telling 0.0 from -0.0."""
    return value == want and (isinstance(value, int) or math.copysign(1.0, value) == math.copysign(1.0, want))


def _elem(op: Op) -> Scalar:
    return tensor_of(op.operands[0]).elem


def _like(op: Op, value: bool | float) -> Value:
    t = tensor_of(op.result)
    return full(t.shape, t.elem, value)


# sources


@rule(graph.constant)
def uniform_constant(op: Op) -> Replacement | None:
    """A constant whose elements are all equal is a full."""
    array = array_of(op.result)
    assert array is not None
    value = uniform(array)
    return None if value is None else _like(op, value)


@rule(*_ALL)
def elementwise_of_fulls(op: Op) -> Replacement | None:
    """f(full a, full b) = full f(a, b)."""
    return fold_elementwise(op) if all(splat_of(v) is not None for v in op.operands) else None


@rule(*_OF_ONE)
def without_elements(op: Op) -> Replacement | None:
    """What has no elements is a full."""
    return _like(op, value=0) if 0 in tensor_of(op.result).shape else None


@rule(graph.contract)
def sum_of_no_products(op: Op) -> Replacement | None:
    """A contraction over a dim of size 0 is 0."""
    return _like(op, value=0) if any(0 in tensor_of(x).shape for x in op.operands) else None


@rule(graph.arg_reduce)
def place_in_one(op: Op) -> Replacement | None:
    """The place of the extreme of one element is 0."""
    return _like(op, value=0) if tensor_of(op.operands[0]).shape[attr_int(op, "axis")] == 1 else None


@rule(*_COMMUTATIVE)
def known_to_the_right(op: Op) -> Replacement | None:
    """f(c, x) = f(x, c) for commutative f and known c: other rules look right only."""
    a, b = op.operands
    if _rank_of_known(a) > _rank_of_known(b):
        return op.kind(b, a, loc=op.loc)
    return None


def _rank_of_known(v: Value) -> int:
    """2 for numbers, 1 for other known values, 0 for the rest: the higher stands right."""
    if is_op(v, graph.full):
        return 2
    return 1 if aligned(v) is not None else 0


# arithmetic


@rule(graph.add)
def add_zero(op: Op) -> Replacement | None:
    """x + 0 = x for integers, x + -0.0 = x for floats (0.0 + -0.0 is 0.0, so x + 0.0 stays)."""
    x, c = op.operands
    return x if _is(splat_of(c), -0.0 if _elem(op).is_float else 0) else None


@rule(graph.sub)
def sub_to_add(op: Op) -> Replacement | None:
    """x - c = x + -c for numbers; x - -y = x + y; x - x = 0 for integers."""
    x, y = op.operands
    if (z := operand_of(y, graph.neg)) is not None:
        return graph.add(x, z, loc=op.loc)
    elem = _elem(op)
    if x == y and elem.is_integer:
        return _like(op, 0)
    value = splat_of(y)
    if value is None or not (elem.is_float or (elem.is_signed and elem.bits >= 8)):
        return None
    if elem.is_integer and value == -(1 << (elem.bits - 1)):
        return None
    return graph.add(x, full(tensor_of(y).shape, elem, -value), loc=op.loc)


@rule(graph.add)
def add_negation(op: Op) -> Replacement | None:
    """x + -y = x - y."""
    x, y = op.operands
    if (z := operand_of(y, graph.neg)) is not None:
        return graph.sub(x, z, loc=op.loc)
    if (z := operand_of(x, graph.neg)) is not None:
        return graph.sub(y, z, loc=op.loc)
    return None


@rule(graph.mul)
def mul_one(op: Op) -> Replacement | None:
    """x * 1 = x; x * -1 = -x; x * 0 = 0 for integers (0.0 * inf is NaN)."""
    x, c = op.operands
    value = splat_of(c)
    if _is(value, 1):
        return x
    if _is(value, -1):
        return graph.neg(x, loc=op.loc)
    return _like(op, 0) if _is(value, 0) and _elem(op).is_integer else None


@rule(graph.mul, graph.div)
def product_of_negations(op: Op) -> Replacement | None:
    """-x * -y = x * y, and so for quotients."""
    x, y = (operand_of(v, graph.neg) for v in op.operands)
    return None if x is None or y is None else op.kind(x, y, loc=op.loc)


@rule(graph.div)
def div_by_number(op: Op) -> Replacement | None:
    """x / 1 = x; x / 2^k = x * 2^-k, which is exact while 2^-k is a normal number."""
    x, c = op.operands
    value, elem = splat_of(c), _elem(op)
    if _is(value, 1):
        return x
    if value is None or not elem.is_float or not is_power_of_two(float(value)):
        return None
    inverse, info = 1.0 / float(value), finfo(elem)
    if not float(info.smallest_normal) <= abs(inverse) <= float(info.max):
        return None
    return graph.mul(x, full(tensor_of(c).shape, elem, inverse), loc=op.loc)


def is_power_of_two(x: float) -> bool:
    """Whether `x` is 2^k or -2^k."""
    return abs(math.frexp(x)[0]) == 0.5


@rule(graph.neg, graph.not_)
def involution(op: Op) -> Replacement | None:
    """--x = x; not not x = x."""
    return operand_of(op.operands[0], op.kind)


@rule(graph.abs_)
def abs_of_sign(op: Op) -> Replacement | None:
    """|-x| = |x|, but for unsigned integers; ||x|| = |x|."""
    if (x := operand_of(op.operands[0], graph.neg)) is not None and (_elem(op).is_float or _elem(op).is_signed):
        return graph.abs_(x, loc=op.loc)
    return op.operands[0] if is_op(op.operands[0], graph.abs_) else None


# powers


@rule(graph.pow_)
def power_by_multiplication(op: Op) -> Replacement | None:
    """x^0 = 1; x^1 = x; x^2 = x x; x^-1 = 1 / x for floats; x^3 = x x x and x^4 = (x x)^2 for integers."""
    x, c = op.operands
    value = splat_of(c)
    if _is(value, 1):
        return x
    if _is(value, 0) or _is(value, -0.0):
        return _like(op, 1)
    if _is(value, -1) and _elem(op).is_float:
        return graph.div(_like(op, 1.0), x, loc=op.loc)
    if value == 2:
        return graph.mul(x, x, loc=op.loc)
    return None if _elem(op).is_float else small_power(op)


def small_power(op: Op) -> Op | None:
    """x^3 as x x x and x^4 as (x x)^2."""
    x, c = op.operands
    value = splat_of(c)
    if value not in (3, 4):
        return None
    square = graph.mul(x, x, loc=op.loc)
    return graph.mul(square, x if value == 3 else square, loc=op.loc)


@rule(graph.pow_)
def power_by_root(op: Op) -> Replacement | None:
    """x^0.5 = sqrt x for x that is never negative nor -0.0."""
    x, c = op.operands
    return graph.sqrt(x, loc=op.loc) if splat_of(c) == 0.5 and never_negative(x) else None


def never_negative(v: Value, depth: int = 8) -> bool:
    """Whether no element of `v` is negative or -0.0 (NaN may be)."""
    op = v.op
    if op is None or not depth:
        return False
    if (value := splat_of(v)) is not None:
        return _is(value, 0.0) or value > 0
    operands = [u for u in op.operands if u.type == op.types[0] or op.kind is graph.reduce or op.has(Trait.MOVEMENT)]
    if op.kind in (graph.abs_, graph.exp, graph.sigmoid):
        return True
    if op.kind is graph.mul and op.operands[0] == op.operands[1]:
        return tensor_of(v).elem.is_float
    if op.kind is graph.max_:
        return any(never_negative(u, depth - 1) and not is_op(u, graph.full) for u in op.operands) or any(
            (least := splat_of(u)) is not None and least > 0 for u in op.operands
        )
    if op.kind in (graph.add, graph.mul, graph.div, graph.min_, graph.sqrt, graph.reduce) or op.has(Trait.MOVEMENT):
        zeros = bool(operands) and _is(float(attr_number(op, "value")), 0.0)  # what a pad puts around
        return zeros and all(never_negative(u, depth - 1) for u in op.operands)
    return False


# extremes, choices, logic


@rule(graph.max_, graph.min_)
def extreme_of_same(op: Op) -> Replacement | None:
    """max(x, x) = x; max(max(x, c), d) = max(x, max(c, d)); max(x, least) = x; and so for min."""
    x, c = op.operands
    if x == c:
        return x
    value, elem = splat_of(c), _elem(op)
    if value is None:
        return None
    if value == neutral("max" if op.kind is graph.max_ else "min", elem):
        return x
    if (inner := made_by(x, op.kind)) is not None:
        y, known = inner.operands
        other = splat_of(known)
        if other is None or any(isinstance(v, float) and math.isnan(v) for v in (value, other)):
            return None
        if value == other == 0:
            return None if str(value) != str(other) else x
        best = max(value, other) if op.kind is graph.max_ else min(value, other)
        return op.kind(y, full(tensor_of(c).shape, elem, best), loc=op.loc)
    return None


@rule(graph.select)
def select_known(op: Op) -> Replacement | None:
    """true ? a : b = a; c ? a : a = a; not c ? a : b = c ? b : a."""
    c, a, b = op.operands
    if a == b:
        return a
    if (value := splat_of(c)) is not None:
        return a if value else b
    if (inner := operand_of(c, graph.not_)) is not None:
        return graph.select(inner, b, a, loc=op.loc)
    return None


@rule(graph.select)
def select_of_equal_numbers(op: Op) -> Replacement | None:
    """c ? full v : full v = full v; c ? true : false = c; c ? false : true = not c."""
    c, a, b = op.operands
    x, y = splat_of(a), splat_of(b)
    if x is None or y is None:
        return None
    if tensor_of(a).elem == BOOL:
        if x != y:
            return c if x else graph.not_(c, loc=op.loc)
        return a
    return a if str(x) == str(y) else None


@rule(graph.and_, graph.or_)
def logic_with_known(op: Op) -> Replacement | None:
    """x and x = x; x and true = x; x and false = false; x or false = x; x or true = true (bits for integers)."""
    x, c = op.operands
    if x == c:
        return x
    value, elem = splat_of(c), _elem(op)
    ones: float = True if elem == BOOL else -1 if elem.is_signed else integer_range(elem)[1]
    keeps, forces = (ones, 0) if op.kind is graph.and_ else (0, ones)
    if value == keeps:
        return x
    return c if value == forces else None


@rule(graph.xor)
def xor_with_known(op: Op) -> Replacement | None:
    """x xor 0 = x; x xor x = 0; x xor true = not x."""
    x, c = op.operands
    if x == c:
        return _like(op, 0)
    value = splat_of(c)
    if value is None:
        return None
    if not value:
        return x
    return graph.not_(x, loc=op.loc) if _elem(op) == BOOL else None


_OPPOSITE = {graph.eq: graph.ne, graph.ne: graph.eq}
_ORDER_OPPOSITE = {graph.lt: graph.ge, graph.ge: graph.lt, graph.gt: graph.le, graph.le: graph.gt}


@rule(graph.not_)
def not_of_comparison(op: Op) -> Replacement | None:
    """not(a = b) is a != b; not(a < b) is a >= b where there is no NaN: integers."""
    (x,) = op.operands
    if x.op is None:
        return None
    if x.op.kind in _OPPOSITE:
        return _OPPOSITE[x.op.kind](*x.op.operands, loc=op.loc)
    if x.op.kind in _ORDER_OPPOSITE and _elem(x.op).is_integer:
        return _ORDER_OPPOSITE[x.op.kind](*x.op.operands, loc=op.loc)
    return None


@rule(graph.eq, graph.ne)
def compare_bool(op: Op) -> Replacement | None:
    """b = true is b; b = false is not b; and so for !=."""
    x, c = op.operands
    value = splat_of(c)
    if value is None or _elem(op) != BOOL:
        return None
    return x if bool(value) == (op.kind is graph.eq) else graph.not_(x, loc=op.loc)


# casts


@rule(graph.cast)
def cast_to_same(op: Op) -> Replacement | None:
    """A cast to the element that is there; `saturate` without a narrower target says nothing."""
    return op.operands[0] if _elem(op) == op.attrs["to"] else None


@rule_of(graph.cast, of=graph.cast)
def cast_of_cast(op: Op, inner: Op) -> Replacement | None:
    """cast(cast x) = cast x when the inner cast keeps every value."""
    (x,) = inner.operands
    return remade(op, x) if keeps_every_value(tensor_of(x).elem, tensor_of(inner.result).elem) else None


@functools.cache
def keeps_every_value(source: Scalar, target: Scalar) -> bool:
    """Whether every value of `source` is one of `target`; where they are few, by trying each."""
    if source.bits <= 16:
        each = np.arange(2 if source == BOOL else 1 << source.bits).astype(f"u{source.bytes}").view(numpy_dtype(source))
        with np.errstate(all="ignore"):  # reciprocals tell -0 from 0
            wide = each.astype(np.float64)
            was, now = (1 / a for a in (wide, wide.astype(numpy_dtype(target)).astype(np.float64)))
        return np.array_equal(was, now, equal_nan=True)
    if source == target or target.is_float:
        return source == target or (target == F64 and source.bits == 32)
    has_signs = target.is_signed or not source.is_signed
    return not source.is_float and has_signs and source.bits + (target.is_signed > source.is_signed) <= target.bits


@rule(*graph.SCATTERS)
def widen_scatter(op: Op) -> Replacement | None:
    """A scatter that combines numbers of less than 32 bits is one of wider numbers: it rounds once.

    Extremes are exact, and atomics have 16 bits: those of few updates stay narrow.
    """
    (x, indices, updates), elem = op.operands, _elem(op)
    kind = op.attrs.get("kind", "set")
    if elem.bits >= 32 or kind == "set" or (elem.bits == 16 and kind in ("max", "min") and _is_fewer(updates, x)):
        return None
    wide = F32 if elem.is_float else I32 if elem.is_signed else U32
    made = remade(op, graph.cast(x, to=wide, loc=op.loc), indices, graph.cast(updates, to=wide, loc=op.loc))
    return graph.cast(made, to=elem, loc=op.loc)


def _is_fewer(part: Value, whole: Value) -> bool:
    """Whether one value is known to have fewer elements than another."""
    few, many = (product(tensor_of(v).shape) for v in (part, whole))
    return isinstance(few, int) and isinstance(many, int) and few < many


@rule(graph.topk)
def topk_of_one(op: Op) -> Replacement | None:
    """topk(x, k = 1) = the largest of x, and its place. The smallest number is not that: a NaN counts as larger."""
    (x,), largest, elem = op.operands, op.attrs.get("largest", True), _elem(op)
    if op.attrs["k"] != 1 or elem == BOOL or (elem.is_float and not largest):
        return None
    axis, kind = attr_int(op, "axis"), "max" if largest else "min"
    found = graph.reduce(x, axes=(axis,), keepdims=True, kind=kind, loc=op.loc)
    return found.result, graph.arg_reduce(x, axis=axis, keepdims=True, kind=kind, loc=op.loc).result


@rule(graph.bitcast)
def bitcast_to_same(op: Op) -> Replacement | None:
    """bitcast(bitcast x) = bitcast x; to the element that is there = x."""
    (x,) = op.operands
    if _elem(op) == op.attrs["to"]:
        return x
    y = operand_of(x, graph.bitcast)
    return None if y is None else remade(op, y)


# dims as numbers


@rule(graph.add, graph.sub, graph.mul)
def arithmetic_of_dims(op: Op) -> Replacement | None:
    """full(m) + full(n) = full(m + n) for i64 numbers of which one is a dim."""
    a, b = (_dim_of(v) for v in op.operands)
    if a is None or b is None or (isinstance(a, int) and isinstance(b, int)):
        return None
    value = a + b if op.kind is graph.add else a - b if op.kind is graph.sub else a * b
    t = tensor_of(op.result)
    return graph.full(shape=t.shape, elem=t.elem, value=value, loc=op.loc)


def _dim_of(v: Value) -> Dim | None:
    """The dim or number that an i64 full repeats."""
    op = made_by(v, graph.full)
    return None if op is None or tensor_of(v).elem.name != "i64" else attr_dim(op, "value")


RULES: tuple[Rule, ...] = (
    *uniform_constant, *without_elements, *sum_of_no_products, *place_in_one, *elementwise_of_fulls,
    *known_to_the_right, *add_zero, *sub_to_add, *add_negation, *mul_one, *product_of_negations, *div_by_number,
    *involution, *abs_of_sign, *power_by_multiplication, *power_by_root,
    *extreme_of_same, *select_known, *select_of_equal_numbers, *logic_with_known, *xor_with_known,
    *not_of_comparison, *compare_bool, *cast_to_same, *cast_of_cast, *widen_scatter, *topk_of_one,
    *bitcast_to_same, *arithmetic_of_dims, *MOVEMENT_RULES, *contract_of_permute,
)  # fmt: skip


@passing("graph")
def canonicalize(func: Func) -> Func:
    """Bring equal computations to one form."""
    return rewrite(func, RULES)
