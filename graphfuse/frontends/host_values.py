"""What an importer knows at compile time: constants, and small tensors whose elements are dims.

Owns the representation and the exact arithmetic on it. Knows no nodes (`onnx/host.py` does).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from graphfuse.ir.core import Value
from graphfuse.ir.dense import numpy_dtype, scalar_of
from graphfuse.ir.types import Scalar, Tensor
from graphfuse.symbolic import Dim, Expr, Ranges, bounds, floordiv, maximum, minimum

Array: TypeAlias = NDArray[Any]

TRACKED_ELEMENTS = 4096
"""Larger constants are carried, not computed with: constant folding is a later pass's business."""

MAX_DENOMINATOR = 1 << 40
"""Of a ratio: no scale of a model comes near, and exact numbers would else grow with every step."""


def distinct(x: Array, axis: int | None, *, in_order: bool) -> tuple[Array, Array, Array, Array]:
    """Distinct elements or slices, sorted or in order of appearance; where each is first, which each is, how many."""
    values, first, inverse, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True, axis=axis)
    inverse = inverse.reshape(-1)
    if in_order:
        order = np.argsort(first)
        values, first, counts = np.take(values, order, axis or 0), first[order], counts[order]
        inverse = np.argsort(order)[inverse]
    return values, first.astype(np.int64), inverse.astype(np.int64), counts.astype(np.int64)


class UndecidedError(Exception):
    """A question about dims that their ranges do not answer; the caller falls back to run time."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """The exact number `num / den` that a float detour computes from dims; `den` is positive."""

    num: Dim
    den: int

    def __add__(self, other: Ratio) -> Ratio:
        return ratio(self.num * other.den + other.num * self.den, self.den * other.den)

    def __sub__(self, other: Ratio) -> Ratio:
        return ratio(self.num * other.den - other.num * self.den, self.den * other.den)

    def __mul__(self, other: Ratio) -> Ratio:
        return ratio(self.num * other.num, self.den * other.den)

    def __truediv__(self, other: Ratio) -> Ratio:
        if not isinstance(other.num, int) or other.num == 0:
            raise UndecidedError
        sign = 1 if other.num > 0 else -1
        return ratio(self.num * other.den * sign, self.den * abs(other.num))

    def __neg__(self) -> Ratio:
        return Ratio(-self.num, self.den)

    def floor(self) -> Dim:
        """The greatest integer not above."""
        return floordiv(self.num, self.den)

    def ceil(self) -> Dim:
        """The least integer not below."""
        return -floordiv(-self.num, self.den)


def ratio(num: Dim, den: int) -> Ratio:
    """`num / den` in lowest terms as far as the coefficients tell."""
    coefficients = [num] if isinstance(num, int) else [c for _, c in num.terms]
    common = int(np.gcd.reduce([den, *map(abs, coefficients)], dtype=object))
    if common > 1:
        num, den = floordiv(num, common), den // common
    if den > MAX_DENOMINATOR:
        raise UndecidedError
    return Ratio(num, den)


def to_ratio(value: Any) -> Ratio:
    """A number or dim as a ratio; raises UndecidedError for what is not finite or has a huge denominator."""
    if isinstance(value, Ratio):
        return value
    if isinstance(value, Expr):
        return Ratio(value, 1)
    number = float(value)  # array elements are numbers otherwise
    if not np.isfinite(number):
        raise UndecidedError
    exact = Fraction(number)
    return ratio(exact.numerator, exact.denominator)


@dataclass(frozen=True, slots=True, eq=False)
class Host:
    """A tensor known at compile time: a numpy array of `elem`, or an object array of dims and ratios."""

    array: Array
    elem: Scalar

    @property
    def symbolic(self) -> bool:
        """Whether some element depends on a symbol."""
        return self.array.dtype == object

    @property
    def type(self) -> Tensor:
        """The type it has as a value."""
        return Tensor(tuple(self.array.shape), self.elem)

    @property
    def tracked(self) -> bool:
        """Whether it is small enough to compute with."""
        return self.array.size <= TRACKED_ELEMENTS


Tracked: TypeAlias = Value | Host
"""What a name of the model stands for."""


def host(array: Any, elem: Scalar) -> Host:
    """Wrap elements as a `Host`, back in numpy's own dtype when no symbol is left."""
    a: Array = np.asarray(array) if hasattr(array, "dtype") else np.array(array, dtype=object)
    if a.dtype != object:
        return Host(a if scalar_of(a.dtype) == elem else a.astype(numpy_dtype(elem)), elem)
    plain = [_plain(v) for v in a.reshape(-1)]
    if any(isinstance(v, (Expr, Ratio)) for v in plain):
        out = np.empty(len(plain), dtype=object)
        out[:] = plain
        return Host(out.reshape(a.shape), elem)
    if elem.is_integer:  # through uint64 so that out-of-range values wrap instead of raising
        return Host(_wrap(plain).astype(numpy_dtype(elem)).reshape(a.shape), elem)
    return Host(np.array(plain).astype(numpy_dtype(elem)).reshape(a.shape), elem)


def _wrap(values: list[Any]) -> Array:
    return np.array([int(v) % (1 << 64) for v in values], dtype=np.uint64).view(np.int64)


def _plain(value: Any) -> Any:
    if isinstance(value, Ratio):
        return value.num / value.den if isinstance(value.num, int) else value
    return value.item() if hasattr(value, "dtype") else value


def as_objects(array: Array) -> Array:
    """The same elements as Python objects."""
    if array.dtype == object:
        return array
    out = np.empty(array.shape, dtype=object)
    out[...] = array.tolist() if array.ndim == 0 else array.astype(object)
    return out


def elementwise(fn: Callable[..., Any], *arrays: Array) -> Array:
    """Apply `fn` to each element with numpy broadcasting, on objects."""
    return np.asarray(np.frompyfunc(fn, len(arrays), 1)(*(as_objects(a) for a in arrays)), dtype=object)


# decisions about dims


def less(a: Dim, b: Dim, ranges: Ranges) -> bool:
    """Whether `a < b`; raises UndecidedError when it depends on the symbols' values."""
    low, high = bounds(b - a, ranges)
    return _answer(yes=low > 0, no=high <= 0)


def equal(a: Dim, b: Dim, ranges: Ranges) -> bool:
    """Whether `a == b`; raises UndecidedError when it depends on the symbols' values."""
    low, high = bounds(a - b, ranges)
    return _answer(yes=low == high == 0, no=low > 0 or high < 0)


def _answer(*, yes: bool, no: bool) -> bool:
    if not (yes or no):
        raise UndecidedError
    return yes


def lesser(a: Dim, b: Dim, ranges: Ranges) -> Dim:
    """The smaller dim, decided by the ranges where they can."""
    low, high = bounds(b - a, ranges)
    return a if low >= 0 else b if high <= 0 else minimum(a, b)


def greater(a: Dim, b: Dim, ranges: Ranges) -> Dim:
    """The larger dim, decided by the ranges where they can."""
    low, high = bounds(a - b, ranges)
    return a if low >= 0 else b if high <= 0 else maximum(a, b)


def is_nonnegative(a: Dim, ranges: Ranges) -> bool:
    """Whether `a >= 0` is proved."""
    return bounds(a, ranges)[0] >= 0


# numbers


def onnx_slice(start: int, end: int, step: int, size: int) -> slice:
    """ONNX's slice of `size` elements as Python's; a step of 0 is an error.

    Backwards, what lies before the first element is the first for a start, and before it for an end.
    """
    if step == 0:
        raise ValueError("a step must not be 0")
    return slice(start, end, step) if step > 0 else slice(max(start, -size), None if end < -size else end, step)
