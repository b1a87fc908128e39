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
from graphfuse.frontends.onnx.python_ops import ON_STRINGS, PYTHON_OPS
from graphfuse.frontends.onnx.python_ops import Call as PythonCall
from graphfuse.frontends.onnx.python_ops.call import declares
from graphfuse.interp.elementwise import apply
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

    def each(self, fn: Callable[..., Any], *arrays: Array) -> Array:
        """A function of elements, and of what is known of the symbols, of all elements with broadcasting."""
        return elementwise(lambda *elements: fn(*elements, self.ranges), *arrays)


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


OfTwo: TypeAlias = Callable[[Any, Any, Ranges], Any]


def _binary(
    name: str,
    typed: Callable[..., Any],
    dims: OfTwo | None = None,
    ratios: OfTwo | None = None,
    to: Scalar | None = None,
) -> None:
    """An operator that is `typed` on numbers, `dims` on integers with symbols, `ratios` on floats with symbols."""

    @_host(name)
    def evaluate_binary(c: Call) -> Host | None:
        if not c.symbolic:
            with np.errstate(all="ignore"):
                return host(functools.reduce(typed, c.arrays), to or c.elem)
        exact = ratios if c.elem.is_float else dims
        if exact is None:
            return None
        arrays = map(_ratios, c.arrays) if c.elem.is_float else c.arrays
        return host(functools.reduce(functools.partial(c.each, exact), arrays), to or c.elem)


def _arithmetic(name: str, fn: Callable[[Any, Any], Any]) -> None:
    """An operator that is one function whatever it is of."""

    def exact(a: Any, b: Any, _: Ranges) -> Any:
        return fn(a, b)

    _binary(name, fn, exact, exact)


def _ratios(a: Array) -> Array:
    return elementwise(to_ratio, a)


def _typed_div(a: Array, b: Array) -> Array:
    return apply("truncdiv", a, b) if np.issubdtype(a.dtype, np.integer) else a / b


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


_arithmetic("Add", operator.add)
_arithmetic("Sum", operator.add)
_arithmetic("Sub", operator.sub)
_arithmetic("Mul", operator.mul)
_binary("Div", _typed_div, _dim_div, lambda a, b, _: a / b)
_binary("Max", np.maximum, greater)
_binary("Min", np.minimum, lesser)
_binary("And", np.logical_and, to=BOOL)
_binary("Or", np.logical_or, to=BOOL)
_binary("Xor", np.logical_xor, to=BOOL)
_binary("Equal", np.equal, equal, to=BOOL)
_binary("Less", np.less, less, to=BOOL)
_binary("LessOrEqual", np.less_equal, lambda a, b, ranges: not less(b, a, ranges), to=BOOL)
_binary("Greater", np.greater, lambda a, b, ranges: less(b, a, ranges), to=BOOL)
_binary("GreaterOrEqual", np.greater_equal, lambda a, b, ranges: not less(a, b, ranges), to=BOOL)


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
    return host(c.each(_dim_mod, a, b), c.elem)


@_host("Pow")
def _pow(c: Call) -> Host | None:
    a, b = c.arrays
    if c.symbolic or (np.issubdtype(b.dtype, np.integer) and (b < 0).any()):
        return None
    with np.errstate(all="ignore"):
        return host(np.power(a, b).astype(a.dtype), c.elem)


def _unary(name: str, typed: Callable[[Array], Any], symbolic: Callable[[Any, Ranges], Any] | None = None) -> None:
    @_host(name)
    def evaluate_unary(c: Call) -> Host | None:
        (a,) = c.arrays
        if a.dtype != object:
            with np.errstate(all="ignore"):
                return host(np.asarray(typed(a)).astype(a.dtype), c.elem)
        if symbolic is None:
            return None
        a = _ratios(a) if c.elem.is_float else a
        return host(c.each(symbolic, a), c.elem)


def _abs(a: Dim | Ratio, ranges: Ranges) -> Dim | Ratio:
    if not is_nonnegative(a.num if isinstance(a, Ratio) else a, ranges):
        raise UndecidedError
    return a


_unary("Neg", operator.neg, lambda a, _: -a)
_unary("Abs", np.abs, _abs)
_unary("Identity", lambda a: a, lambda a, _: a)
_unary("Floor", np.floor, lambda a, _: Ratio(a.floor(), 1))
_unary("Ceil", np.ceil, lambda a, _: Ratio(a.ceil(), 1))
_unary("Sqrt", np.sqrt)
_unary("Round", np.round)
_unary("Reciprocal", lambda a: 1 / a)
_unary("Not", np.logical_not)
_unary("Sign", np.sign)
_unary("Relu", lambda a: np.maximum(a, 0))


@_host("Where")
def _where(c: Call) -> Host | None:
    p, a, b = c.arrays
    return None if p.dtype == object else host(np.where(p, a, b), c.node.type(1).elem)


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
        return host(c.each(_is_nonzero, a).astype(bool), BOOL)
    if source.is_float and to.is_integer:
        return host(c.each(_dim, a), to)
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


@_host("Slice", "Concat", "Unsqueeze", "Squeeze", "Reshape", "Transpose", "Split", "Compress")
def _moved(c: Call) -> list[Host] | None:
    """What Python makes of elements whatever they are, dims as texts. What it refuses is left to the handler."""
    node = c.node
    if (any_symbolic(c.arrays[1:]) and node.op != "Concat") or node.attr_int("allowzero", 0):
        return None
    inputs = tuple(node.known(i) for i in range(len(node.inputs)))
    python = ON_STRINGS.get(("", node.op)) or PYTHON_OPS["", node.op]
    try:
        found = python(PythonCall(node.op, inputs, len(node.outputs), node.loc, node.attributes))
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


_REDUCED = {"ReduceProd": np.multiply, "ReduceSum": np.add, "ReduceMax": np.maximum, "ReduceMin": np.minimum}


@_host(*_REDUCED)
def _reduce(c: Call) -> Host | None:
    a = c.arrays[0]
    if any_symbolic(c.arrays[1:]):
        return None
    given = [int(v) for v in c.arrays[1]] if len(c.arrays) > 1 else list(c.node.attributes.get("axes", ()))
    if not given and c.node.attr_int("noop_with_empty_axes", 0):
        return host(a, c.elem)
    axes = c.node.axes(given, a.ndim) or tuple(range(a.ndim))
    is_extreme = c.node.op in ("ReduceMax", "ReduceMin")
    if (a.dtype == object and (is_extreme or c.elem.is_float)) or (is_extreme and a.size == 0):
        return None
    keep = bool(c.node.attr_int("keepdims", 1))
    out: Any = _REDUCED[c.node.op].reduce(a, axis=axes, keepdims=keep, dtype=a.dtype)  # numpy would widen integers
    return host(np.asarray(out, dtype=a.dtype), c.elem)


@_host("NonZero")
def _nonzero(c: Call) -> Host | None:
    (a,) = c.arrays
    if a.dtype == object:
        a = c.each(_is_nonzero, a).astype(bool)
    return host(np.array(np.nonzero(np.atleast_1d(a)), dtype=np.int64), I64)


@_host("ScatterND", "ScatterElements")
def _scatter(c: Call) -> Host | None:
    a, i, u = c.arrays
    if i.dtype == object or a.ndim != 1 or c.node.attr_str("reduction", "none") != "none":
        return None
    out = as_objects(a).copy() if c.symbolic else a.copy()
    out[i.reshape(-1)] = u.reshape(-1)
    return host(out, c.elem)
