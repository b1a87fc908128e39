"""Resizes, and their gradients: along each axis an element is a sum of a few others, with weights that are known.

Positions and weights are computed as eager torch computes them, in f32 unless the image is of f64. A gradient is the
transposed map: each element adds what it was read for, and nothing is scattered. Sizes that may change are torch's
own decompositions (`torch.resizes`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from graphfuse.frontends.emit import shape_of
from graphfuse.frontends.fx.lowering import Arguments, Call, Lowering, lowers
from graphfuse.frontends.fx.ops.banded import Taps, mapped, static
from graphfuse.frontends.host_values import Array
from graphfuse.ir.core import Value
from graphfuse.ir.types import F64
from graphfuse.symbolic import Dim

aten = torch.ops.aten


@dataclass(frozen=True, slots=True)
class Resizing(Arguments):
    """How an image is resized; a scale may follow from the sizes."""

    align_corners: bool = False
    scales: float | None = None
    scales_d: float | None = None
    scales_h: float | None = None
    scales_w: float | None = None

    def axes(self, c: Call, filter_: Filter, before: Sequence[Dim], after: Sequence[Dim]) -> list[Axis]:
        """The axes of an image, the last ones of a tensor."""
        scales = (self.scales_d, self.scales_h, self.scales_w if self.scales is None else self.scales)[-len(before) :]
        real = np.float64 if c.elem == F64 else np.float32
        sizes = zip(static(c, before), static(c, after), scales, strict=True)
        return [Axis(n, m, self.align_corners, scale, filter_, real) for n, m, scale in sizes]


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis, from `size` elements to `count`."""

    size: int
    count: int
    align_corners: bool
    scale: float | None
    filter: Filter
    real: type[np.floating[Any]]
    """What positions are computed in."""

    @property
    def step(self) -> float:
        """From one element of the result to the next."""
        if self.align_corners:
            return (self.size - 1) / (self.count - 1) if self.count > 1 else 0.0
        return 1 / self.scale if self.scale is not None and self.scale > 0 else self.size / self.count

    def positions(self, shift: float) -> Array:
        """Of all elements of the result, their centers being `shift` from where they begin."""
        at = np.arange(self.count, dtype=self.real)
        return self.real(self.step) * (at + self.real(shift))

    @property
    def taps(self) -> Taps:
        """What the elements of the result are sums of."""
        taps = self.filter(self)
        used = taps.weight.any(axis=1)
        return replace(taps, at=taps.at[used], weight=taps.weight[used])

    @property
    def transposed(self) -> Taps:
        """What the elements of the gradient are sums of."""
        taps, matrix = self.taps, np.zeros((self.count, self.size))
        np.add.at(matrix, (np.arange(self.count), taps.at), taps.weight)
        return Taps.of(matrix.T)


Filter = Callable[[Axis], Taps]


def nearest(axis: Axis, shift: float = 0.0) -> Taps:
    """One element each."""
    at = np.minimum(np.floor(axis.positions(shift)).astype(np.int64), axis.size - 1)
    return Taps(at[None], np.ones((1, axis.count)))


def nearest_exact(axis: Axis) -> Taps:
    """The one that the center lies in."""
    return nearest(axis, 0.5)


def linear(axis: Axis) -> Taps:
    """The two that the center lies between."""
    at, fraction = _between(axis, lambda x: np.maximum(x, 0))
    return Taps(np.minimum([at, at + 1], axis.size - 1), np.stack([1 - fraction, fraction]))


def cubic(axis: Axis) -> Taps:
    """Two on either side, by Keys' kernel of parameter -0.75; the ends are repeated."""
    at, t = _between(axis, lambda x: x)
    weights = _far(t + 1), _near(t), _near(1 - t), _far(2 - t)
    return Taps(np.clip([at - 1, at, at + 1, at + 2], 0, axis.size - 1), np.stack(weights))


def _near(d: Array, a: float = -0.75) -> Array:
    return ((a + 2) * d - (a + 3)) * d * d + 1


def _far(d: Array, a: float = -0.75) -> Array:
    return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a


def _between(axis: Axis, clamped: Callable[[Array], Array]) -> tuple[Array, Array]:
    """The element in front of each center, and how far that is behind it."""
    half = 0.0 if axis.align_corners else 0.5
    x = clamped(axis.positions(half) - axis.real(half))
    at = np.minimum(np.floor(x).astype(np.int64), axis.size - 1)
    return at, np.clip(x - at, 0, 1).astype(np.float64)


def triangle(axis: Axis) -> Taps:
    """All within a step of the center, antialiased; weights fall off in a straight line."""
    step, reach = axis.step, max(axis.step, 1.0)
    out = np.zeros((axis.count, axis.size))
    for o in range(axis.count):
        center = step * (o + 0.5)
        low, high = max(int(center - reach + 0.5), 0), min(int(center + reach + 0.5), axis.size)
        at = np.arange(low, high)
        weight = np.maximum(1 - np.abs((at - center + 0.5) / reach), 0)
        out[o, low:high] = weight / weight.sum() if weight.sum() else 0
    return Taps.of(out)


OPERATORS: Mapping[Filter, Sequence[str]] = {
    nearest: ("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d"),
    nearest_exact: ("_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d"),
    linear: ("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d"),
    cubic: ("upsample_bicubic2d",),
    triangle: ("_upsample_bilinear2d_aa",),
}
"""By how they resize; each has one for its gradient."""


def _lowers_all(end: str = "") -> Callable[[Lowering], Lowering]:
    """A lowering of all these operators, or of those whose names have this end."""

    def register(fn: Lowering) -> Lowering:
        for filter_, names in OPERATORS.items():
            lowers(*(getattr(aten, name + end).default for name in names), filter_=filter_)(fn)
        return fn

    return register


@_lowers_all()
def resize(c: Call, self: Value, output_size: Sequence[Dim], how: Resizing, *, filter_: Filter) -> Value:
    is_moved = filter_ in (nearest, nearest_exact)
    c.want(is_moved or c.elem.is_float, "images of integers are resampled in integers")
    return _mapped(c, self, [a.taps for a in how.axes(c, filter_, shape_of(self)[2:], c.shape[2:])])


@_lowers_all("_backward")
def resize_backward(
    c: Call, grad_output: Value, output_size: Sequence[Dim], input_size: Sequence[Dim], how: Resizing, *,
    filter_: Filter,
) -> Value:  # fmt: skip
    axes = how.axes(c, filter_, c.shape[2:], shape_of(grad_output)[2:])
    return _mapped(c, grad_output, [a.transposed for a in axes])


def _mapped(c: Call, x: Value, taps: Sequence[Taps]) -> Value:
    c.want(math.prod(static(c, c.shape)) > 0, "it has no elements")
    return c.rounded(mapped(c, x, dict(enumerate(taps, 2))))
