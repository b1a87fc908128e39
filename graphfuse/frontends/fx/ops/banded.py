"""Linear maps along one axis whose matrix is known and has few numbers in a row, side by side.

Adaptive pooling over windows of different sizes, the gradient of padding with the edge, resizes (`resize`): each
element of the result is a sum of a few neighbours, each read where it lies. Where is a formula if there is one.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from graphfuse.dialects import graph
from graphfuse.frontends.emit import Emitter, elem_of, shape_of
from graphfuse.frontends.fx.lowering import Call, lowers, wide_elem
from graphfuse.frontends.host_values import Array
from graphfuse.frontends.stairs import moved, stairs
from graphfuse.ir.core import Value
from graphfuse.ir.dense import numpy_dtype
from graphfuse.symbolic import Dim

aten = torch.ops.aten
MOST_NEIGHBOURS = 32
"""Each is written out; of more, torch makes the sum."""
MOST_TOGETHER = 25
"""Terms of one sum over several axes: more of them are fewer axis by axis, and fit no kernel."""


@dataclass(frozen=True, slots=True)
class Taps:
    """What elements along an axis are sums of: the k-th term of element o is `weight[k, o]` times `at[k, o]`'s."""

    at: Array
    weight: Array
    skips: bool = False
    """Whether nothing is read where a weight is 0, not even infinity."""

    @staticmethod
    def of(matrix: Array) -> Taps:
        """Those of a matrix [m, n] that is applied to n elements."""
        used = matrix != 0
        first, last = used.argmax(axis=1), matrix.shape[1] - used[:, ::-1].argmax(axis=1)
        place = first + np.arange((last - first)[used.any(axis=1)].max(initial=0))[:, None]
        at = np.minimum(place, matrix.shape[1] - 1)
        return Taps(at, np.where(place < matrix.shape[1], matrix[np.arange(len(matrix)), at], 0), skips=True)

    @property
    def are_copies(self) -> bool:
        """Whether each element is one of those that there were."""
        return len(self.at) == 1 and bool((self.weight == 1).all())

    def moves(self, size: Dim) -> bool:
        """Whether it is not the map of `size` elements to themselves."""
        lines, count = self.at.shape
        return (lines, count) != (1, size) or bool((self.at != np.arange(count)).any() or (self.weight != 1).any())


def mapped(c: Call, x: Value, axes: Mapping[int, Taps]) -> Value:
    """Linear maps along some axes, in what torch computes in: one sum if it is short, else axis by axis."""
    axes = {axis: taps for axis, taps in axes.items() if taps.moves(shape_of(x)[axis])}
    for axis, taps in [*axes.items()]:
        if taps.are_copies and (view := moved(c.e, x, axis, taps.at[0])) is not None:
            x = view
            del axes[axis]
    terms = {axis: [*_terms(c, taps)] for axis, taps in axes.items()}
    together = math.prod(map(len, terms.values())) <= MOST_TOGETHER
    if len(axes) > 1 and not (together and all(t.is_formula for line in terms.values() for t in line)):
        for axis, taps in axes.items():
            x = mapped(c, x, {axis: taps})
        return x
    if not all(terms.values()):
        shape = (len(axes[i].at[0]) if i in axes else d for i, d in enumerate(shape_of(x)))
        return c.e.full(tuple(shape), wide_elem(elem_of(x)), 0.0)
    return _sum(c, x, terms, {})


@dataclass(frozen=True, slots=True)
class _Term:
    """One term of the sums along an axis: which elements, how many times, and whether some sums do without it."""

    place: Value
    is_formula: bool
    weight: Array
    skips: bool

    @property
    def multiplies(self) -> bool:
        """Whether any element is not taken as it is."""
        return bool((self.weight[self.weight != 0] != 1).any()) or not (self.skips or self.weight.all())


def _terms(c: Call, taps: Taps) -> Iterator[_Term]:
    c.want(len(taps.at) <= MOST_NEIGHBOURS, f"sums of {len(taps.at)} neighbours, one by one")
    for at, weight in zip(taps.at, taps.weight, strict=True):
        steps = stairs(at, weight != 0 if taps.skips else None)
        place = c.e.constant(at.astype(np.int64)) if steps is None else steps.value(c.e, len(at))
        yield _Term(place, steps is not None, weight, taps.skips and not weight.all())


def _sum(c: Call, x: Value, terms: Mapping[int, Sequence[_Term]], places: Mapping[int, Value]) -> Value:
    """The sum over all terms of some axes, those of others being at `places`."""
    e = c.e
    if len(places) == len(terms):
        return c.wide(_read(e, x, places) if places else x)
    axis, found = [*terms][len(places)], list[Value]()
    for t in terms[axis]:
        one = _sum(c, x, terms, {**places, axis: t.place})
        factor = e.constant(t.weight.astype(numpy_dtype(elem_of(one))))
        factor = e.reshape(factor, (len(t.weight), *(1,) * (len(shape_of(x)) - axis - 1)))
        one = e.map(graph.mul, one, factor) if t.multiplies else one
        found.append(e.select(e.map(graph.ne, factor, 0), one, 0) if t.skips else one)
    return e.fold(graph.add, found)


def _read(e: Emitter, x: Value, places: Mapping[int, Value]) -> Value:
    """Elements at places along some axes that are side by side."""
    (first, *_), rank = places, len(shape_of(x))
    if len(places) == 1:
        return e(graph.take, x, places[first], axis=first)
    shape = tuple(shape_of(p)[0] for p in places.values())
    lines = (e.unsqueeze(e.broadcast(e.along(p, i, len(shape)), shape), -1) for i, p in enumerate(places.values()))
    got = e(
        graph.gather_nd,
        e.permute(x, [*places, *(i for i in range(rank) if i not in places)]),
        e.concat([*lines], len(shape)),
    )
    order = [*range(len(shape), len(shape) + first), *range(len(shape)), *range(len(shape) + first, rank)]
    return e.permute(got, order)


def static(c: Call, sizes: Sequence[Dim]) -> tuple[int, ...]:
    """Sizes that are known."""
    c.want(all(isinstance(d, int) and d > 0 for d in sizes), "sizes that are not known")
    return tuple(d for d in sizes if isinstance(d, int))


# adaptive windows


def windows(size: int, count: int) -> Array:
    """Row o has a 1 where the o-th of `count` adaptive windows covers an element, as torch divides them."""
    at, window = np.arange(size), np.arange(count)[:, None]
    return ((at >= window * size // count) & (at < -(-(window + 1) * size // count))).astype(np.float64)


def mean_of_windows(c: Call, x: Value, result: Sequence[Dim]) -> Value:
    """Means over adaptive windows of the last dims."""
    lead = len(shape_of(x)) - len(result)
    sizes = zip(static(c, shape_of(x)[lead:]), static(c, result), strict=True)
    matrices = [windows(size, count) for size, count in sizes]
    total = mapped(c, x, {axis: Taps.of(m) for axis, m in enumerate(matrices, lead)})
    counts = functools.reduce(np.multiply.outer, [m.sum(axis=1) for m in matrices])
    return c.e.map(graph.div, total, c.e.constant(counts.astype(numpy_dtype(elem_of(total)))))


def mean_of_windows_backward(c: Call, grad: Value, rank: int) -> Value:
    """The gradient of that: each element adds what the windows that cover it were given."""
    lead = len(shape_of(grad)) - rank
    sizes = zip(static(c, c.shape[lead:]), static(c, shape_of(grad)[lead:]), strict=True)
    matrices = [windows(size, count) for size, count in sizes]
    return mapped(
        c, grad, {axis: Taps.of((m / m.sum(axis=1, keepdims=True)).T) for axis, m in enumerate(matrices, lead)}
    )


# padding with the edge


@lowers(
    aten.replication_pad1d_backward.default, aten.replication_pad2d_backward.default,
    aten.replication_pad3d_backward.default,
)  # fmt: skip
def replication_pad_backward(c: Call, grad_output: Value, self: Value, padding: Sequence[int]) -> Value:
    c.want(all(isinstance(p, int) for p in padding), "its padding is a size that may change")
    grad, lead = c.e.cast(grad_output, wide_elem(c.elem)), len(c.shape) - len(padding) // 2
    for i, size in enumerate(static(c, c.shape[lead:])):
        pair = len(padding) // 2 - 1 - i
        low, high = padding[2 * pair : 2 * pair + 2]
        if low >= 0 and high >= 0 and size > 1:
            grad = _folded(c, grad, lead + i, low, high)
        elif low or high:
            source = np.clip(np.arange(-low, size + high), 0, size - 1)
            grad = mapped(c, grad, {lead + i: Taps.of((np.arange(size)[:, None] == source).astype(np.float64))})
    return c.rounded(grad)


def _folded(c: Call, x: Value, axis: int, low: int, high: int) -> Value:
    """The ends of an axis, each summed into the element that they repeat."""
    e, size = c.e, shape_of(x)[axis] - low - high
    first, last = e.slice(x, axis, 0, low + 1), e.slice(x, axis, low + size - 1, high + 1)
    first = e.reduce(first, "sum", (axis,)) if low else first
    last = e.reduce(last, "sum", (axis,)) if high else last
    middle = [e.slice(x, axis, low + 1, size - 2)] if size != 2 else []
    return e.concat([first, *middle, last], axis) if low or high else x
