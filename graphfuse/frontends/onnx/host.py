"""Shape arithmetic: what small integer nodes compute when their inputs are known as dims.

Owns one function per operator, from arrays to an array. A function returns None, or raises `UndecidedError`, to leave
the node to its ordinary handler. Emits no IR.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np

from graphfuse.errors import GraphfuseError
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
    to_ratio,
)
from graphfuse.frontends.onnx.limits import MOST_DIM_TEXT
from graphfuse.frontends.onnx.node import Node, elem_from_onnx
from graphfuse.frontends.onnx.python_ops import Call as PythonCall
from graphfuse.frontends.onnx.python_ops import selection, sizes, strings
from graphfuse.frontends.onnx.python_ops.call import PythonOp, declares
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
HOST: dict[tuple[str, str], HostFunction] = {}
_host = declares(HOST)

FLOAT_ELEMENTS = 64
"""Float tensors above this size are data, not shape arithmetic."""


def evaluate(node: Node, ranges: Ranges) -> list[Host] | None:
    """The node's results if all its inputs are known and small and the operator is shape arithmetic."""
    if (fn := HOST.get(("", node.op))) is None or not node.inputs:
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


def any_symbolic(arrays: Sequence[Array]) -> bool:
    """Whether some array has dims for elements."""
    return any(a.dtype == object for a in arrays)


# arithmetic


def _binary(
    name: str,
    typed: Callable[..., Any],
    dims: Callable[..., Any] | None = None,
    ratios: Callable[..., Any] | None = None,
    to: Scalar | None = None,
) -> None:
    """An operator that is `typed` on numbers, `dims` on integers with symbols, `ratios` on floats with symbols."""

    @_host(name)
    def evaluate_binary(c: Call) -> Host | None:
        if not c.symbolic:
            with np.errstate(all="ignore"):
                return host(functools.reduce(typed, c.arrays), to or c.elem)
        exact = ratios if c.elem.is_float else dims and functools.partial(dims, ranges=c.ranges)
        if exact is None:
            return None
        arrays = map(_ratios, c.arrays) if c.elem.is_float else c.arrays
        return host(functools.reduce(functools.partial(elementwise, exact), arrays), to or c.elem)


def _ratios(a: Array) -> Array:
    return elementwise(to_ratio, a)


def _ranged(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` with the ranges that other functions of dims take."""

    def ignoring_ranges(*operands: Any, ranges: Ranges) -> Any:
        del ranges
        return fn(*operands)

    return ignoring_ranges


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


def _above(a: Dim, b: Dim, ranges: Ranges) -> bool:
    return less(b, a, ranges)


def _at_most(a: Dim, b: Dim, ranges: Ranges) -> bool:
    return not less(b, a, ranges)


def _at_least(a: Dim, b: Dim, ranges: Ranges) -> bool:
    return not less(a, b, ranges)


_binary("Add", operator.add, _ranged(operator.add), operator.add)
_binary("Sum", operator.add, _ranged(operator.add), operator.add)
_binary("Sub", operator.sub, _ranged(operator.sub), operator.sub)
_binary("Mul", operator.mul, _ranged(operator.mul), operator.mul)
_binary("Div", _typed_div, _dim_div, Ratio.__truediv__)
_binary("Max", np.maximum, greater, None)
_binary("Min", np.minimum, lesser, None)
_binary("And", np.logical_and, to=BOOL)
_binary("Or", np.logical_or, to=BOOL)
_binary("Xor", np.logical_xor, to=BOOL)
_binary("Equal", np.equal, equal, to=BOOL)
_binary("Less", np.less, less, to=BOOL)
_binary("LessOrEqual", np.less_equal, _at_most, to=BOOL)
_binary("Greater", np.greater, _above, to=BOOL)
_binary("GreaterOrEqual", np.greater_equal, _at_least, to=BOOL)


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


def _same(a: Any) -> Any:
    return a


def _abs(a: Dim | Ratio, ranges: Ranges) -> Dim | Ratio:
    if not is_nonnegative(a.num if isinstance(a, Ratio) else a, ranges):
        raise UndecidedError
    return a


def _floor(a: Ratio) -> Ratio:
    return Ratio(a.floor(), 1)


def _ceil(a: Ratio) -> Ratio:
    return Ratio(a.ceil(), 1)


_unary("Neg", operator.neg, _ranged(operator.neg))
_unary("Abs", np.abs, _abs)
_unary("Identity", _same, _ranged(_same))
_unary("Floor", np.floor, _ranged(_floor))
_unary("Ceil", np.ceil, _ranged(_ceil))
_unary("Sqrt", np.sqrt, None)
_unary("Round", np.round, None)
_unary("Reciprocal", lambda a: 1 / a, None)
_unary("Not", np.logical_not, None)
_unary("Sign", np.sign, None)
_unary("Relu", lambda a: np.maximum(a, 0), None)


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


_MOVED: Mapping[str, PythonOp] = {
    "Slice": sizes.slice_, "Concat": strings.concat, "Unsqueeze": strings.unsqueeze, "Squeeze": strings.squeeze,
    "Reshape": strings.reshape, "Transpose": strings.transpose, "Split": sizes.split, "Compress": selection.compress,
}  # fmt: skip


@_host(*_MOVED)
def _moved(c: Call) -> list[Host] | None:
    """What Python makes of elements whatever they are, dims as texts. What it refuses is left to the handler."""
    node = c.node
    if (any_symbolic(c.arrays[1:]) and node.op != "Concat") or node.attr_int("allowzero", 0):
        return None
    inputs = tuple(node.known(i) for i in range(len(node.inputs)))
    try:
        found = _MOVED[node.op](PythonCall(node.op, inputs, len(node.outputs), node.loc, node.attributes))
    except (GraphfuseError, ValueError, IndexError, TypeError):
        return None
    results = cast("tuple[Any, ...]", found) if isinstance(found, tuple) else (found,)
    return [host(x, c.elem) for x in results]


@_host("Expand")
def _expand(c: Call) -> Host | None:
    a, shape = c.arrays
    if shape.dtype == object or math.prod(shape.tolist()) > 4096:
        return None
    want = np.broadcast_shapes(a.shape, tuple(int(d) for d in shape))
    return host(np.broadcast_to(a, want), c.elem)


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
