"""Shape arithmetic: what small integer nodes compute when their inputs are known as dims.

Owns one function per operator, from arrays to an array. A function returns None, or raises `UndecidedError`, to leave
the node to its ordinary handler. Emits no IR.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from graphfuse.frontends.host_values import (
    Array,
    Host,
    Ratio,
    UndecidedError,
    as_objects,
    elementwise,
    equal,
    greater,
    host,
    is_nonnegative,
    less,
    lesser,
    onnx_slice,
    to_ratio,
)
from graphfuse.frontends.onnx.limits import MOST_DIM_TEXT
from graphfuse.frontends.onnx.node import Node, elem_from_onnx
from graphfuse.ir.dense import numpy_dtype
from graphfuse.ir.types import BOOL, I64, Scalar
from graphfuse.symbolic import Dim, DimSizeError, Expr, Ranges, exact_div, floordiv, mod


@dataclass(frozen=True, slots=True)
class Call:
    """One node to evaluate: its given inputs' elements, and what is known of the symbols."""

    node: Node
    ranges: Ranges
    arrays: list[Array]

    @property
    def elem(self) -> Scalar:
        """The element of the first input."""
        return self.node.type(0).elem

    @property
    def symbolic(self) -> bool:
        """Whether some input depends on a symbol."""
        return any_symbolic(self.arrays)


HostFunction: TypeAlias = Callable[[Call], "Host | list[Host] | None"]
HOST: dict[str, HostFunction] = {}

FLOAT_ELEMENTS = 64
"""Float tensors above this size are data, not shape arithmetic."""


def evaluate(node: Node, ranges: Ranges) -> list[Host] | None:
    """The node's results if all its inputs are known and small and the operator is shape arithmetic."""
    if (fn := HOST.get(node.op)) is None or not node.inputs:
        return None
    for x in node.inputs:
        if x is None:
            continue
        if not isinstance(x, Host) or not x.tracked or (x.elem.is_float and x.array.size > FLOAT_ELEMENTS):
            return None
        if x.elem.bits < 8:
            return None
    try:
        out = fn(Call(node, ranges, [x.array for x in node.inputs if isinstance(x, Host)]))
    except (UndecidedError, DimSizeError):
        return None
    results = [out] if isinstance(out, Host) else out
    return None if results is None or any(map(_is_unwieldy, results)) else results


def _is_unwieldy(x: Host) -> bool:
    """Whether some element is made of more arithmetic than it is worth to reason about."""
    return x.symbolic and any(isinstance(v, Expr) and len(str(v)) > MOST_DIM_TEXT for v in x.array.reshape(-1))


def _host(*names: str) -> Callable[[HostFunction], HostFunction]:
    def declare(fn: HostFunction) -> HostFunction:
        for name in names:
            HOST[name] = fn
        return fn

    return declare


def any_symbolic(arrays: Sequence[Array]) -> bool:
    """Whether some array has dims for elements."""
    return any(a.dtype == object for a in arrays)


# arithmetic


def _binary(name: str, typed: Callable[..., Any], dims: Callable[..., Any], ratios: Callable[..., Any] | None) -> None:
    """An operator that is `typed` on numbers, `dims` on integers with symbols, `ratios` on floats with symbols."""

    @_host(name)
    def evaluate_binary(c: Call) -> Host | None:
        elem = c.elem
        if not c.symbolic:
            with np.errstate(all="ignore"):
                return host(functools.reduce(typed, c.arrays), elem)
        if not elem.is_float:
            exact = functools.partial(dims, ranges=c.ranges)
            return host(functools.reduce(functools.partial(elementwise, exact), c.arrays), elem)
        if ratios is None:
            return None
        return host(functools.reduce(functools.partial(elementwise, ratios), map(_ratios, c.arrays)), elem)


def _ratios(a: Array) -> Array:
    return elementwise(to_ratio, a)


def _plain(fn: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """`fn` with the ranges that other functions of dims take."""

    def ignoring_ranges(a: Any, b: Any, ranges: Ranges) -> Any:
        del ranges
        return fn(a, b)

    return ignoring_ranges


def _maximum(a: Array, b: Array) -> Array:
    return np.maximum(a, b)


def _minimum(a: Array, b: Array) -> Array:
    return np.minimum(a, b)


def _typed_div(a: Array, b: Array) -> Array:
    if np.issubdtype(a.dtype, np.integer):
        safe = np.where(b == 0, 1, b)
        quotient = np.where(b == 0, 0, np.abs(a.astype(object)) // np.abs(safe.astype(object)))
        return (quotient * np.sign(a.astype(object)) * np.sign(b.astype(object))).astype(a.dtype)
    return a / b


def _dim_div(a: Dim, b: Dim, ranges: Ranges) -> Dim:
    if (exact := exact_div(a, b)) is not None:
        return exact
    if not is_nonnegative(a, ranges) or not less(0, b, ranges):
        raise UndecidedError  # the quotient truncates toward zero
    return floordiv(a, b)


def _dim_mod(a: Dim, b: Dim, ranges: Ranges) -> Dim:
    if not less(0, b, ranges):
        raise UndecidedError
    return mod(a, b)


_binary("Add", operator.add, _plain(operator.add), operator.add)
_binary("Sum", operator.add, _plain(operator.add), operator.add)
_binary("Sub", operator.sub, _plain(operator.sub), operator.sub)
_binary("Mul", operator.mul, _plain(operator.mul), operator.mul)
_binary("Div", _typed_div, _dim_div, Ratio.__truediv__)
_binary("Max", _maximum, greater, None)
_binary("Min", _minimum, lesser, None)


@_host("Mod")
def _mod(c: Call) -> Host | None:
    a, b = c.arrays
    fmod = c.node.attr_int("fmod", 0)
    if not c.symbolic:
        if not fmod and (c.elem.is_float or not b.all()):
            return None
        with np.errstate(all="ignore"):
            return host(np.fmod(a, b) if fmod else np.mod(a, b), c.elem)
    if c.elem.is_float or fmod:
        return None
    return host(elementwise(functools.partial(_dim_mod, ranges=c.ranges), a, b), c.elem)


@_host("Pow")
def _pow(c: Call) -> Host | None:
    a, b = c.arrays
    if c.symbolic or (np.issubdtype(b.dtype, np.integer) and (b < 0).any()):
        return None
    with np.errstate(all="ignore"):
        return host(np.power(a, b).astype(a.dtype), c.elem)


def _unary(name: str, typed: Callable[[Array], Any], symbolic: Callable[..., Any] | None) -> None:
    @_host(name)
    def evaluate_unary(c: Call) -> Host | None:
        (a,) = c.arrays
        if a.dtype != object:
            with np.errstate(all="ignore"):
                return host(np.asarray(typed(a)).astype(a.dtype), c.elem)
        if symbolic is None:
            return None
        a = _ratios(a) if c.elem.is_float else a
        return host(elementwise(functools.partial(symbolic, ranges=c.ranges), a), c.elem)


def _ranged(fn: Callable[[Any], Any]) -> Callable[..., Any]:
    def ignoring_ranges(a: Any, ranges: Ranges) -> Any:
        del ranges
        return fn(a)

    return ignoring_ranges


def _same(a: Any) -> Any:
    return a


def _abs(a: Dim | Ratio, ranges: Ranges) -> Dim | Ratio:
    if not is_nonnegative(a.num if isinstance(a, Ratio) else a, ranges):
        raise UndecidedError
    return a


_unary("Neg", operator.neg, _ranged(operator.neg))
_unary("Abs", np.abs, _abs)
_unary("Identity", _same, _ranged(_same))
_unary("Floor", np.floor, _ranged(lambda a: Ratio(a.floor(), 1)))
_unary("Ceil", np.ceil, _ranged(lambda a: Ratio(a.ceil(), 1)))
_unary("Sqrt", np.sqrt, None)
_unary("Round", np.round, None)
_unary("Reciprocal", lambda a: 1 / a, None)
_unary("Not", np.logical_not, None)
_unary("Sign", np.sign, None)
_unary("Relu", lambda a: np.maximum(a, 0), None)


@_host("And", "Or", "Xor")
def _logic(c: Call) -> Host | None:
    fn = {"And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor}[c.node.op]
    return None if c.symbolic else host(fn(*c.arrays), BOOL)


@_host("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual")
def _compare(c: Call) -> Host | None:
    a, b = c.arrays
    if not c.symbolic:
        fn = {
            "Equal": operator.eq, "Less": operator.lt, "LessOrEqual": operator.le,
            "Greater": operator.gt, "GreaterOrEqual": operator.ge,
        }[c.node.op]  # fmt: skip
        return host(np.asarray(fn(a, b)), BOOL)
    if c.elem.is_float:
        return None
    decide: dict[str, Callable[[Dim, Dim], bool]] = {
        "Equal": lambda x, y: equal(x, y, c.ranges),
        "Less": lambda x, y: less(x, y, c.ranges),
        "LessOrEqual": lambda x, y: not less(y, x, c.ranges),
        "Greater": lambda x, y: less(y, x, c.ranges),
        "GreaterOrEqual": lambda x, y: not less(x, y, c.ranges),
    }
    return host(elementwise(decide[c.node.op], a, b).astype(bool), BOOL)


@_host("Where")
def _where(c: Call) -> Host | None:
    p, a, b = c.arrays
    if p.dtype == object:
        return None
    if not c.symbolic:
        return host(np.where(p, a, b), c.node.type(1).elem)
    return host(elementwise(_choose, p, a, b), c.node.type(1).elem)


def _choose(condition: Any, a: Any, b: Any) -> Any:
    return a if condition else b


@_host("Cast")
def _cast(c: Call) -> Host | None:
    (a,) = c.arrays
    source, to = c.elem, elem_from_onnx(c.node.attr_int("to"), c.node.loc)
    if to.bits < 16 and to != BOOL:
        return None
    if a.dtype != object:
        if to.is_integer and source.is_float and not np.isfinite(a.astype(np.float64)).all():
            return None
        with np.errstate(all="ignore"):
            return Host(a.astype(numpy_dtype(to)), to)
    if to == BOOL:
        return host(elementwise(functools.partial(_is_nonzero, ranges=c.ranges), a).astype(bool), BOOL)
    if source.is_float and to.is_integer:
        return host(elementwise(functools.partial(_dim, ranges=c.ranges), a), to)
    return Host(_ratios(a) if to.is_float else a, to)


def _is_nonzero(v: Any, ranges: Ranges) -> bool:
    return not equal(_dim(v, ranges), 0, ranges)


def _dim(v: Any, ranges: Ranges) -> Dim:
    """A number as an integer, truncated toward zero."""
    if not isinstance(v, Ratio):
        return v if isinstance(v, Expr) else math.trunc(v)
    if v.den == 1:
        return v.num
    if not is_nonnegative(v.num, ranges):
        raise UndecidedError
    return v.floor()


# movement


@_host("Gather")
def _gather(c: Call) -> Host | None:
    a, i = c.arrays
    if i.dtype == object or a.ndim == 0:
        return None
    axis = c.node.axis(c.node.attr_int("axis", 0), a.ndim)
    size = a.shape[axis]
    if ((i < -size) | (i >= size)).any():
        raise c.node.error(f"index {i.reshape(-1)[0]} is outside a dim of {size}")
    return host(np.asarray(np.take(a, i, axis=axis), dtype=a.dtype), c.elem)


@_host("Slice")
def _slice(c: Call) -> Host | None:
    a, starts, ends = c.arrays[:3]
    if any_symbolic(c.arrays[1:]):
        return None
    axes = [int(v) for v in c.arrays[3]] if c.node.has(3) else list(range(starts.size))
    steps = [int(v) for v in c.arrays[-1]] if c.node.has(4) else [1] * starts.size
    index: list[slice] = [slice(None)] * a.ndim
    for axis, start, end, step in zip(c.node.axes(axes, a.ndim), starts, ends, steps, strict=True):
        index[axis] = onnx_slice(int(start), int(end), step, a.shape[axis])
    return host(a[tuple(index)], c.elem)


@_host("Concat")
def _concat(c: Call) -> Host | None:
    arrays = [as_objects(a) for a in c.arrays] if c.symbolic else c.arrays
    return host(np.concatenate(arrays, axis=c.node.axis(c.node.attr_int("axis"), arrays[0].ndim)), c.elem)


@_host("Unsqueeze")
def _unsqueeze(c: Call) -> Host | None:
    if len(c.arrays) != 2 or any_symbolic(c.arrays[1:]):
        return None
    axes = c.node.axes([int(v) for v in c.arrays[1].reshape(-1)], c.arrays[0].ndim + c.arrays[1].size)
    return host(np.expand_dims(c.arrays[0], axes), c.elem)


@_host("Squeeze")
def _squeeze(c: Call) -> Host | None:
    a = c.arrays[0]
    if any_symbolic(c.arrays[1:]):
        return None
    axes = (
        [int(v) for v in c.arrays[1].reshape(-1)] if len(c.arrays) > 1 else [i for i, d in enumerate(a.shape) if d == 1]
    )
    return host(a.reshape([d for i, d in enumerate(a.shape) if i not in c.node.axes(axes, a.ndim)]), c.elem)


@_host("Reshape")
def _reshape(c: Call) -> Host | None:
    a, shape = c.arrays
    if shape.dtype == object or c.node.attr_int("allowzero", 0) or not shape[a.ndim :].all():
        return None
    return host(a.reshape([a.shape[i] if d == 0 else int(d) for i, d in enumerate(shape)]), c.elem)


@_host("Transpose")
def _transpose(c: Call) -> Host | None:
    (a,) = c.arrays
    perm = c.node.attr_ints("perm", range(a.ndim)[::-1])
    return host(a.transpose(perm), c.elem) if sorted(perm) == list(range(a.ndim)) else None


@_host("Expand")
def _expand(c: Call) -> Host | None:
    a, shape = c.arrays
    if shape.dtype == object or math.prod(shape.tolist()) > 4096:
        return None
    want = np.broadcast_shapes(a.shape, tuple(int(d) for d in shape))
    return host(np.broadcast_to(a, want), c.elem)


@_host("Split")
def _split(c: Call) -> list[Host] | None:
    a = c.arrays[0]
    axis = c.node.axis(c.node.attr_int("axis", 0), a.ndim)
    if len(c.arrays) > 1:
        if c.arrays[1].dtype == object:
            return None
        sizes = [int(v) for v in c.arrays[1]]
    else:
        n = len(c.node.outputs)
        chunk = -(-a.shape[axis] // n)
        sizes = [max(0, min(chunk, a.shape[axis] - i * chunk)) for i in range(n)]
    if sum(sizes) != a.shape[axis]:
        return None
    pieces: list[Array] = np.split(a, np.cumsum(sizes)[:-1], axis=axis)
    return [host(piece, c.elem) for piece in pieces]


@_host("Range")
def _range(c: Call) -> Host | None:
    if c.symbolic or any(a.size != 1 for a in c.arrays):
        return None
    start, limit, delta = (a.reshape(-1)[0] for a in c.arrays)
    if delta == 0 or not abs(float(limit) - float(start)) / abs(float(delta)) <= 4096:  # NaN, too, is refused later
        return None
    count = max(0, math.ceil((float(limit) - float(start)) / float(delta)))
    return host((start + np.arange(count) * delta).astype(c.arrays[0].dtype), c.elem)


@_host("ReduceProd", "ReduceSum", "ReduceMax", "ReduceMin")
def _reduce(c: Call) -> Host | None:
    a = c.arrays[0]
    if any_symbolic(c.arrays[1:]):
        return None
    given = [int(v) for v in c.arrays[1]] if len(c.arrays) > 1 else list(c.node.attributes.get("axes", ()))
    if not given and c.node.attr_int("noop_with_empty_axes", 0):
        return host(a, c.elem)
    axes = c.node.axes(given, a.ndim) or tuple(range(a.ndim))
    keep = bool(c.node.attr_int("keepdims", 1))
    if c.node.op in ("ReduceProd", "ReduceSum"):
        fn = np.multiply if c.node.op == "ReduceProd" else np.add
        if a.dtype == object and c.elem.is_float:
            return None
        out: Any = fn.reduce(a, axis=axes, keepdims=keep, dtype=a.dtype)  # numpy would widen small integers
        return host(np.asarray(out, dtype=a.dtype), c.elem)
    if a.dtype == object or a.size == 0:
        return None
    typed = np.maximum if c.node.op == "ReduceMax" else np.minimum
    return host(np.asarray(typed.reduce(a, axis=axes, keepdims=keep)), c.elem)


@_host("NonZero")
def _nonzero(c: Call) -> Host | None:
    (a,) = c.arrays
    if a.dtype == object:
        a = elementwise(functools.partial(_is_nonzero, ranges=c.ranges), a).astype(bool)
    return host(np.array(np.nonzero(np.atleast_1d(a)), dtype=np.int64), I64)


@_host("ScatterND", "ScatterElements")
def _scatter(c: Call) -> Host | None:
    a, i, u = c.arrays
    if i.dtype == object or a.ndim != 1 or c.node.attr_str("reduction", "none") != "none":
        return None
    out = as_objects(a).copy() if c.symbolic else a.copy()
    out[i.reshape(-1)] = u.reshape(-1)
    return host(out, c.elem)


@_host("Compress")
def _compress(c: Call) -> Host | None:
    a, keep = c.arrays
    if keep.dtype == object:
        return None
    axis = c.node.attributes.get("axis")
    return host(np.compress(keep, a, axis=None if axis is None else c.node.axis(int(axis), a.ndim)), c.elem)
