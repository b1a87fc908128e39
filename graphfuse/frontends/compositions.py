"""Operators that several frontends write out in the same graph ops."""

from __future__ import annotations

from collections.abc import Sequence

from graphfuse.dialects import graph
from graphfuse.errors import VerifyError
from graphfuse.frontends.emit import Emitter, elem_of, shape_of
from graphfuse.ir.core import Value


def standardise(e: Emitter, x: Value, axes: Sequence[int], epsilon: float) -> tuple[Value, Value, Value]:
    """(x - mean) / sqrt(variance + epsilon) along `axes`, the mean, and 1 / sqrt(variance + epsilon)."""
    mean = e.mean(x, axes)
    centred = e.map(graph.sub, x, mean)
    variance = e.mean(e.map(graph.mul, centred, centred), axes)
    inverse = inverse_deviation(e, variance, epsilon)
    return e.map(graph.mul, centred, inverse), mean, inverse


def inverse_deviation(e: Emitter, variance: Value, epsilon: float) -> Value:
    """1 / sqrt(variance + epsilon)."""
    deviation = e.map(graph.sqrt, e.map(graph.add, variance, epsilon))
    return e(graph.div, e.full(shape_of(deviation), elem_of(deviation), 1.0), deviation)


def adjoint_weight(e: Emitter, w: Value, groups: int) -> Value:
    """The weight of the convolution that is the adjoint of the one with weight w: [C, O / groups, K...].

    w is [O, C / groups, K...]: its channels are exchanged within each group, its window mirrored.
    """
    channels, per_group, *kernel = shape_of(w)
    if not isinstance(channels, int) or not isinstance(per_group, int) or channels % groups:
        raise VerifyError(f"{channels} channels do not divide into {groups} groups", e.loc)
    w = e.reshape(w, (groups, channels // groups, per_group, *kernel))
    w = e.permute(w, (0, 2, 1, *range(3, 3 + len(kernel))))
    w = e.reshape(w, (groups * per_group, channels // groups, *kernel))
    longer = tuple(i + 2 for i, k in enumerate(kernel) if k != 1)
    return e(graph.flip, w, axes=longer) if longer else w
