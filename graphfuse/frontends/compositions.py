"""Operators that several frontends write out in the same graph ops."""

from __future__ import annotations

import math
from collections.abc import Sequence

from graphfuse.dialects import graph
from graphfuse.errors import VerifyError
from graphfuse.frontends.emit import Emitter, elem_of, shape_of, tensor
from graphfuse.ir.core import Value


def moments(e: Emitter, x: Value, axes: Sequence[int]) -> tuple[Value, Value, Value]:
    """The mean along `axes`, x less that, and the variance."""
    mean = e.mean(x, axes)
    centred = e.map(graph.sub, x, mean)
    return mean, centred, e.mean(e.map(graph.mul, centred, centred), axes)


def standardise(e: Emitter, x: Value, axes: Sequence[int], epsilon: float) -> tuple[Value, Value, Value]:
    """(x - mean) / sqrt(variance + epsilon) along `axes`, the mean, and 1 / sqrt(variance + epsilon)."""
    mean, centred, variance = moments(e, x, axes)
    inverse = inverse_deviation(e, variance, epsilon)
    return e.map(graph.mul, centred, inverse), mean, inverse


def inverse_deviation(e: Emitter, variance: Value, epsilon: float) -> Value:
    """1 / sqrt(variance + epsilon)."""
    deviation = e.map(graph.sqrt, e.map(graph.add, variance, epsilon))
    return e(graph.div, e.full(shape_of(deviation), elem_of(deviation), 1.0), deviation)


def root_mean_square(e: Emitter, x: Value, axes: Sequence[int], epsilon: float) -> tuple[Value, Value]:
    """x * r and r = 1 / sqrt(mean(x * x) + epsilon) along `axes`."""
    inverse = inverse_deviation(e, e.mean(e.map(graph.mul, x, x), axes), epsilon)
    return e.map(graph.mul, x, inverse), inverse


def softmax_of(e: Emitter, x: Value, axis: int) -> Value:
    """exp(x - max) / sum(exp(x - max))."""
    powers = e.map(graph.exp, e.map(graph.sub, x, e.reduce(x, "max", [axis])))
    return e.map(graph.div, powers, e.reduce(powers, "sum", [axis]))


def log_softmax_of(e: Emitter, x: Value, axis: int) -> Value:
    """x - max - log(sum(exp(x - max)))."""
    shifted = e.map(graph.sub, x, e.reduce(x, "max", [axis]))
    return e.map(graph.sub, shifted, e.map(graph.log, e.reduce(e.map(graph.exp, shifted), "sum", [axis])))


def gelu_of(e: Emitter, x: Value, *, by_tanh: bool = False) -> Value:
    """x * Phi(x), by the error function or its tanh approximation."""
    if by_tanh:
        cube = e.map(graph.mul, e.map(graph.mul, x, x), x)
        inner = e.map(graph.add, x, e.map(graph.mul, cube, 0.044715))
        phi = e.map(graph.tanh, e.map(graph.mul, inner, math.sqrt(2 / math.pi)))
    else:
        phi = e.map(graph.erf, e.map(graph.mul, x, 1 / math.sqrt(2)))
    return e.map(graph.mul, e.map(graph.mul, x, 0.5), e.map(graph.add, phi, 1.0))


def silu_of(e: Emitter, x: Value) -> Value:
    """x * sigmoid(x)."""
    return e.map(graph.mul, x, e.map(graph.sigmoid, x))


def biased(e: Emitter, x: Value, bias: Value | None = None, *, axis: int = -1) -> Value:
    """x plus a bias, if there is one, for each element of an axis."""
    if bias is None:
        return x
    axis %= tensor(x).rank
    bias = e.equalled(bias, shape_of(x)[axis : axis + 1], "the bias")
    return e.map(graph.add, x, e.reshape(bias, (*shape_of(bias), *(1,) * (tensor(x).rank - 1 - axis))))


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
