"""Tiles of tensors as boxes: what `block.load_box` says of one, and which of them TMA copies.

A box has the tensor's dims and strides, outermost first and the last of them contiguous; its rows and columns lie along
the last two, at one place of the others. In im2col mode rows are positions of a filter: `Windows` proves that what
is read at digits of a row's number, where conditions hold, is such a box:

    at = image * A + (p * sp + r) * B + (q * sq + s) * C + c         0 <= p * sp + r < H and 0 <= q * sq + s < W

What a condition bounds is a coordinate of the tensor; a digit without conditions is one too, in steps of its own; what
is left of the offset is where the columns begin.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from graphfuse.artifact import Im2col
from graphfuse.ir.core import Attr
from graphfuse.symbolic import (
    Atom,
    Dim,
    Expr,
    Ranges,
    bounds,
    exact_div,
    floordiv,
    minimum,
    mod,
    of_atom,
    product,
    symbols,
)

ALIGNMENT = 16
"""Bytes: of a map's address and strides, and of where a box begins along the contiguous dim."""
MAX_EXTENT = 1 << 31
"""Of a dim of a tensor map, whose coordinates are i32."""
MOST_OUTER = 3
"""Dims of a tensor map beside the tile's two."""
OFFSET_BITS = 16
"""That all corners, and all taps, of an im2col map have together."""
MOST_STEP = 8
"""Of an im2col map (elementStrides of cuTensorMapEncodeIm2col)."""


TOO_MANY = "its taps or strides are more than a map of windows takes"
NO_PADDING = "what it leaves out is no padding of an image"
NOWHERE = "it begins at no place that is known to be in the tensor"


class Unboxed(Exception):  # noqa: N818  # a reason, not a failure
    """Why an access is no box that TMA copies."""


class Scope(Protocol):
    """What is known of the variables in offsets."""

    @property
    def ranges(self) -> Ranges:
        """Of symbols and variables."""
        ...

    @property
    def trusts(self) -> bool:
        """Whether who wrote the access has seen to it that what it reads is there, however large it may be."""
        ...

    def varies(self, dim: Dim) -> bool:
        """Whether it differs between programs, or within one."""
        ...

    def divisor(self, dim: Dim) -> int:
        """A power of two that divides it."""
        ...

    def extent(self, start: Dim) -> Dim | None:
        """How many values it has, where that is known better than by ranges."""
        ...


@dataclass(frozen=True, slots=True)
class Box:
    """A tile of a tensor: `start` is where it begins, and `taps` what is added to all positions of a filter."""

    dims: tuple[Dim, ...]
    strides: tuple[Dim, ...]
    offset: Dim
    start: tuple[Dim, ...]
    taps: tuple[Dim, ...] = ()
    im2col: Im2col | None = None

    @property
    def rows(self) -> Dim:
        """Of the whole tensor, as the tile counts them."""
        if self.im2col is None:
            return self.dims[-2]
        corners = zip(self.im2col.lower, self.im2col.upper, self.im2col.steps, self.dims[-2:0:-1], strict=True)
        return product([self.dims[0], *(floordiv(n - 1 + b - a, step) + 1 for a, b, step, n in corners)])

    def is_alike(self, other: Box, columns: int) -> bool:
        """Whether tiles of so many columns have the same elements, if both boxes are of the same memory."""
        if replace(self, dims=()) != replace(other, dims=()) or self.dims[:-1] != other.dims[:-1]:
            return False
        left = [n - self.start[-1] - columns for n in (self.dims[-1], other.dims[-1])]
        return left[0] == left[1] or all(isinstance(n, int) and n >= 0 for n in left)

    def attrs(self) -> dict[str, Attr]:
        """What an op that copies it says of the tensor."""
        out: dict[str, Attr] = {"dims": self.dims, "strides": self.strides, "offset": self.offset}
        if how := self.im2col:
            out |= {"lower": how.lower, "upper": how.upper, "steps": how.steps}
        return out

    def copied(self, size: int, scope: Scope) -> Box:
        """The same; raises `Unboxed` where TMA does not take it, of elements of `size` bytes."""
        *strides, last = self.strides
        if last != 1:
            raise Unboxed("its lines are not contiguous")
        if not 2 <= len(self.dims) <= 2 + MOST_OUTER:
            raise Unboxed(f"it has {len(self.dims)} dims, beyond the 2 to {2 + MOST_OUTER} of a tensor map")
        if any(isinstance(d, int) and d >= MAX_EXTENT for d in self.dims):
            raise Unboxed(f"it has a dim of more than {MAX_EXTENT - 1} elements")
        for d in strides:
            low, high = bounds(d, scope.ranges)
            if low < 0 and high <= 0:  # as a tensor that was flipped has
                raise Unboxed("it runs backward")
        for d in strides:
            if scope.divisor(d) * size % ALIGNMENT:
                raise Unboxed(f"lines lie {d} elements apart, no multiple of {ALIGNMENT} bytes")
        for d in (self.offset, self.start[-1]):
            if scope.divisor(d) * size % ALIGNMENT:
                raise Unboxed(f"it begins {d} elements into memory, no multiple of {ALIGNMENT} bytes")
        return self


@dataclass(frozen=True, slots=True)
class Axis:
    """A dim of a tensor beside the two of the tile."""

    extent: Dim
    stride: Dim
    start: Dim


def outer_axes(dim: Dim, scope: Scope, strided: Sequence[Axis] = ()) -> tuple[list[Axis], Dim]:
    """The axes, besides those known, of an offset without rows and columns, and what is the same for the launch."""
    found, left = (list(strided), dim) if strided else strided_axes(dim, scope)
    offset, varying = split(left, scope)
    if varying != 0:  # multiples of one number known at launch
        axis = _axis(varying, _fixed_factor(terms_of(varying)[0], scope), scope)
        if axis is None:
            raise Unboxed("it begins at no multiples of one number")
        found.insert(0, axis)
    return found, offset


def strided_axes(dim: Dim, scope: Scope) -> tuple[list[Axis], Dim]:
    """Axes for the varying terms that are multiples of symbols, such as `head*stride`, and what else there is.

    No axes if they are more than a tensor map has, or one is none.
    """
    groups: dict[Dim, Dim] = {}
    rest: Dim = 0
    for term in terms_of(dim):
        fixed = _fixed_factor(term, scope)
        if fixed == 1 or not scope.varies(term):
            rest = rest + term
        else:
            groups[fixed] = groups.get(fixed, 0) + term
    axes = [_axis(sum_, fixed, scope) for fixed, sum_ in groups.items()]
    found = [a for a in axes if a is not None]
    return (found, rest) if len(found) == len(axes) <= MOST_OUTER else ([], dim)


def _fixed_factor(term: Dim, scope: Scope) -> Dim:
    """The symbols that a term has as factors."""
    if isinstance(term, int):
        return 1
    ((monomial, _),) = term.terms
    fixed = tuple((atom, power) for atom, power in monomial if not scope.varies(of_atom(atom)))
    return Expr(((fixed, 1),)) if fixed else 1


def _axis(dim: Dim, fixed: Dim, scope: Scope) -> Axis | None:
    """The axis that a sum of multiples of `fixed` runs along: as far apart as all terms allow."""
    stride = fixed * math.gcd(*(c for _, c in dim.terms)) if isinstance(dim, Expr) else fixed * dim
    start = exact_div(dim, stride)
    low, high = (-1, -1) if start is None else bounds(start, scope.ranges)
    if start is None or low < 0 or (high >= MAX_EXTENT and not scope.trusts):
        return None
    return Axis(scope.extent(start) or int(min(high, MAX_EXTENT - 2)) + 1, stride, start)


def atom_of(dim: Dim) -> Atom | None:
    """The symbol or call that a dim is, if it is one."""
    if isinstance(dim, Expr) and len(dim.terms) == 1:
        ((monomial, c),) = dim.terms
        if c == 1 and len(monomial) == 1 and monomial[0][1] == 1:
            return monomial[0][0]
    return None


def split(dim: Dim, scope: Scope) -> tuple[Dim, Dim]:
    """What of a sum is the same for the whole launch, and the rest."""
    fixed: Dim = 0
    varying: Dim = 0
    for term in terms_of(dim):
        if scope.varies(term):
            varying = varying + term
        else:
            fixed = fixed + term
    return fixed, varying


def terms_of(dim: Dim) -> list[Dim]:
    """The summands."""
    return [Expr(((m, c),)) if m else c for m, c in dim.terms] if isinstance(dim, Expr) else [dim]


# windows


@dataclass(frozen=True, slots=True)
class Digit:
    """A digit of the row number, `floordiv(row, divisor)` modulo the extent; innermost first in lists."""

    atom: Dim
    divisor: Dim
    extent: Dim


@dataclass(slots=True)
class _Coordinate:
    """A dim of the tensor: `at` is the coordinate of a row, `step * digit + tap`."""

    digit: Digit
    extent: Dim
    stride: Dim
    step: int = 1
    lower: int = 0
    tap: Dim = 0

    @property
    def upper(self) -> Dim:
        """The last position, from the last element on."""
        return (self.digit.extent - 1) * self.step + self.lower - (self.extent - 1)


@dataclass(frozen=True, slots=True)
class Windows:
    """A tile that is read at `at`, its columns from `column` on, where all `conditions` are at least 0."""

    scope: Scope
    at: Dim
    digits: Sequence[Digit]
    conditions: Sequence[Dim]
    first: Dim
    """The number of the tile's first row."""
    ranges: Ranges
    lanes: Collection[str]
    """What differs within a tile."""
    column: Dim = 0
    columns: Dim | None = None
    """How many there are from the tile's first one on, where some may be missing."""
    width: int = 1
    """How many the tile has, beyond those that a variable in `column` stands for."""
    lower: dict[Dim, Dim] = field(init=False, default_factory=dict[Dim, Dim])
    upper: dict[Dim, Dim] = field(init=False, default_factory=dict[Dim, Dim])

    def box(self) -> Box:
        """The box that it is; raises `Unboxed`."""
        for c in self.conditions:
            self._note(c)
        axes: list[_Coordinate] = []
        left = self.at
        for digit in self.digits:
            axis = self._axis(digit)
            axes.append(axis)
            left = left - (digit.atom * axis.step + axis.tap + axis.lower) * axis.stride
        if len(axes) == 1 or self.digits[-1].atom in self.lower | self.upper:  # it is one image
            axes.append(_Coordinate(Digit(0, 1, 1), 1, axes[-1].stride))
        return self._made(axes, left)

    def _note(self, condition: Dim) -> None:
        """What a condition is about."""
        if self._is_uniform(condition):
            if bounds(condition, self.ranges)[0] < 0:
                raise Unboxed("more dims are padded than windows move along")
            return
        for digit in self.digits:
            factor = coefficient_of(condition, digit.atom)
            if factor != 0 and self._is_uniform(condition - digit.atom * factor):
                side = self.lower if bounds(factor, {})[0] > 0 else self.upper
                if side.setdefault(digit.atom, condition) == condition:
                    return
        raise Unboxed(NO_PADDING)

    def _axis(self, digit: Digit) -> _Coordinate:
        """The dim that a digit runs along: what its conditions bound, or by itself."""
        lower, upper = self.lower.get(digit.atom), self.upper.get(digit.atom)
        stride = coefficient_of(self.at, digit.atom)
        if stride == 0:
            raise Unboxed("rows repeat their elements")
        if lower is None and upper is None:
            return _Coordinate(digit, digit.extent, stride)
        if lower is None:
            assert upper is not None
            lower = upper * -1 - bounds(upper * -1, self.ranges)[0]
        step = coefficient_of(lower, digit.atom)
        tap = lower - digit.atom * step
        pixel = exact_div(stride, step)
        if not isinstance(step, int) or not 1 <= step <= MOST_STEP or pixel is None or not self._is_uniform(tap):
            raise Unboxed(TOO_MANY)
        low = bounds(tap, self.ranges)[0]
        extent = bounds(lower, self.ranges)[1] + 1 if upper is None else upper + lower + 1
        if abs(low) >= MAX_EXTENT or not self._is_fixed(extent):
            raise Unboxed("the extent of an image is not known at launch")
        return _Coordinate(digit, extent, pixel, step, low, tap - low)

    def _made(self, axes: Sequence[_Coordinate], left: Dim) -> Box:
        """The box, if positions are such as TMA takes; `left` of the offset is the first column's."""
        inner, scope = axes[:-1], self.scope
        if not self._is_uniform(left):
            raise Unboxed("rows do not lie apart by multiples of one number")
        offset, start = split(left, scope)
        start = start + self.column
        low, high = bounds(start, self.ranges)
        extent = self.columns + start if self.columns is not None else high + self.width
        if bounds(offset, self.ranges)[0] < 0 or low < 0 or (high >= MAX_EXTENT and not scope.trusts):
            raise Unboxed(NOWHERE)
        if not self._is_fixed(extent):
            raise Unboxed("the number of its columns is not known at launch")
        half, last = 1 << OFFSET_BITS // len(inner) - 1, [a.upper for a in inner]
        upper = tuple(n for n in last if isinstance(n, int))
        fits = len(upper) == len(last) and all(-half <= c < half for c in (*(a.lower for a in inner), *upper))
        if not fits or any(bounds(a.tap, self.ranges)[1] >= 2 * half for a in inner):
            raise Unboxed(TOO_MANY)
        return Box(
            (*(a.extent for a in axes[::-1]), extent),
            (*(a.stride for a in axes[::-1]), 1),
            offset,
            (*(self._begin(a) for a in axes[::-1]), start),
            tuple(a.tap for a in inner[::-1]),
            Im2col(tuple(a.lower for a in inner), upper, tuple(a.step for a in inner)),
        )

    def _begin(self, axis: _Coordinate) -> Dim:
        """The coordinate of the first row, at tap 0."""
        if axis.digit.atom == 0:
            return 0
        first = minimum(self.first, MAX_EXTENT - 2) if self.scope.trusts else self.first  # a division of 32 bits
        digit = floordiv(first, axis.digit.divisor)
        if axis.digit != self.digits[-1]:
            digit = mod(digit, axis.digit.extent)
        return digit * axis.step + axis.lower

    def _is_uniform(self, dim: Dim) -> bool:
        """Whether it is the same for the whole tile."""
        return symbols(dim).isdisjoint(self.lanes)

    def _is_fixed(self, dim: Dim) -> bool:
        """Whether it is the same for the whole launch."""
        return self._is_uniform(dim) and not self.scope.varies(dim)


def coefficient_of(dim: Dim, atom: Dim) -> Dim:
    """What an atom is multiplied by, where it is by itself."""
    total: Dim = 0
    if isinstance(dim, Expr) and isinstance(atom, Expr):
        ((((wanted, _),), _),) = atom.terms
        for monomial, c in dim.terms:
            powers = dict(monomial)
            if powers.pop(wanted, 0) == 1:
                rest = tuple(powers.items())
                total = total + (Expr(((rest, c),)) if rest else c)
    return total
