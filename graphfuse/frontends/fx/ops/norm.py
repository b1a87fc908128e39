"""Normalisations and their gradients. Statistics are f32 for halves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from graphfuse.dialects import graph
from graphfuse.frontends.compositions import inverse_deviation, root_mean_square, standardise
from graphfuse.frontends.emit import elem_of, shape_of
from graphfuse.frontends.fx.lowering import Arguments, Call, Results, lowers, wide_elem
from graphfuse.frontends.fx.ops.reduce import count_of
from graphfuse.ir.core import Value
from graphfuse.ir.types import Tensor
from graphfuse.symbolic import Dim, floordiv

aten = torch.ops.aten


def _as(c: Call, x: Value, want: Tensor | None) -> Value:
    """A statistic in the shape and element that torch has it in."""
    assert want is not None
    return c.e.cast(c.e.reshape(x, want.shape), want.elem)


def _all_as(c: Call, xs: Sequence[Value], wants: Sequence[Tensor | None]) -> list[Value]:
    # torch promises f32 for the running statistics of halves, and rounds them afterwards
    return [_as(c, x, want) for x, want in zip(xs, wants, strict=True)]


def _scaled(c: Call, y: Value, weight: Value | None, bias: Value | None, shape: Sequence[Dim]) -> Value:
    """weight * y + bias in y's element, the two under `shape`."""
    e = c.e
    if weight is not None:
        y = e.map(graph.mul, y, e.reshape(e.cast(weight, elem_of(y)), shape))
    if bias is not None:
        y = e.map(graph.add, y, e.reshape(e.cast(bias, elem_of(y)), shape))
    return y


def _gradients(c: Call, mask: Sequence[bool], *makers: Callable[[], Value]) -> list[Value | None]:
    """The gradients that are wanted, of the input first."""
    wanted = zip(makers, mask, c.outs, strict=False)  # a root mean square has no bias
    return [_as(c, make(), out) if is_wanted else None for make, is_wanted, out in wanted]


@dataclass(frozen=True, slots=True)
class Gradient(Arguments):
    """What the gradient of a norm is made of."""

    grad_out: Value
    input: Value
    rstd: Value
    weight: Value | None
    output_mask: Sequence[bool]


# layer norm


def _split(x: Value, normalized_shape: Sequence[Dim]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The axes in front, and those that are normalised."""
    rank = len(shape_of(x))
    return tuple(range(rank))[: rank - len(normalized_shape)], tuple(range(rank))[rank - len(normalized_shape) :]


@lowers(aten.native_layer_norm.default)
def native_layer_norm(
    c: Call, input: Value, normalized_shape: Sequence[Dim], weight: Value | None, bias: Value | None, eps: float
) -> Results:
    lead, axes = _split(input, normalized_shape)
    y, mean, inverse = standardise(c.e, c.wide(input), axes, eps)
    y = _scaled(c, y, weight, bias, c.shape[len(lead) :])
    return c.rounded(y), _as(c, mean, c.outs[1]), _as(c, inverse, c.outs[2])


@lowers(aten.native_layer_norm_backward.default)
@lowers(aten._fused_rms_norm_backward.default)
def layer_norm_backward(
    c: Call, g: Gradient, normalized_shape: Sequence[Dim], mean: Value | None = None, bias: Value | None = None
) -> Results:
    """That of a root mean square has no mean, and no gradient of a bias."""
    e, (lead, axes), wide = c.e, _split(g.input, normalized_shape), wide_elem(elem_of(g.input))
    grad, x, inverse = (e.cast(v, wide) for v in (g.grad_out, g.input, g.rstd))
    centred = x if mean is None else e.map(graph.sub, x, e.cast(mean, wide))
    normal = e.map(graph.mul, centred, inverse)

    def of_input() -> Value:
        scaled = _scaled(c, grad, g.weight, None, shape_of(x)[len(lead) :])
        slope = e.mean(e(graph.mul, scaled, normal), axes)
        rest = scaled if mean is None else e.map(graph.sub, scaled, e.mean(scaled, axes))
        return e.map(graph.mul, e.map(graph.sub, rest, e.map(graph.mul, normal, slope)), inverse)

    return _gradients(
        c,
        g.output_mask,
        of_input,
        lambda: e.reduce(e(graph.mul, grad, normal), "sum", lead, keepdims=False),
        lambda: e.reduce(grad, "sum", lead, keepdims=False),
    )


# root mean square


@lowers(aten._fused_rms_norm.default)
def fused_rms_norm(
    c: Call, input: Value, normalized_shape: Sequence[int], weight: Value | None, eps: float | None
) -> Results:
    e, x, (lead, axes) = c.e, c.wide(input), _split(input, normalized_shape)
    wide = torch.float64 if c.args["input"].dtype == torch.float64 else torch.float32
    y, inverse = root_mean_square(e, x, axes, torch.finfo(wide).eps if eps is None else eps)
    y = _scaled(c, y, weight, None, c.shape[len(lead) :])
    return c.rounded(y), _as(c, inverse, c.outs[1])


# group norm


@dataclass(frozen=True, slots=True)
class Groups(Arguments):
    """Samples of channels, in groups, of so many elements each."""

    N: Dim
    C: Dim
    HxW: Dim
    group: int

    @property
    def per_group(self) -> Dim:
        """Channels of a group."""
        return floordiv(self.C, self.group)

    def split(self, c: Call, x: Value) -> Value:
        """A tensor, wide, as [samples, groups, channels of a group, elements]."""
        return c.e.reshape(c.wide(x), (self.N, self.group, self.per_group, self.HxW))


@lowers(aten.native_group_norm.default)
def native_group_norm(
    c: Call, input: Value, weight: Value | None, bias: Value | None, groups: Groups, eps: float
) -> Results:
    y, mean, inverse = standardise(c.e, groups.split(c, input), (2, 3), eps)
    y = _scaled(c, y, weight, bias, (1, groups.group, groups.per_group, 1))
    return c.rounded(c.e.reshape(y, c.shape)), _as(c, mean, c.outs[1]), _as(c, inverse, c.outs[2])


@lowers(aten.native_group_norm_backward.default)
def native_group_norm_backward(c: Call, g: Gradient, mean: Value, groups: Groups) -> Results:
    e, grad, x = c.e, groups.split(c, g.grad_out), groups.split(c, g.input)
    mean, inverse = (e.reshape(e.cast(v, elem_of(x)), (groups.N, groups.group, 1, 1)) for v in (mean, g.rstd))
    normal = e.map(graph.mul, e.map(graph.sub, x, mean), inverse)
    # per sample and channel; everything else is a sum of these
    sums, slopes = e.reduce(grad, "sum", [3]), e.reduce(e(graph.mul, grad, normal), "sum", [3])

    def of_input() -> Value:
        count, shape = groups.per_group * groups.HxW, (1, groups.group, groups.per_group, 1)
        means = [e.divide(e.reduce(_scaled(c, v, g.weight, None, shape), "sum", [2]), count) for v in (sums, slopes)]
        rest = e.map(graph.sub, _scaled(c, grad, g.weight, None, shape), means[0])
        rest = e.map(graph.sub, rest, e.map(graph.mul, normal, means[1]))
        return e.map(graph.mul, rest, inverse)

    return _gradients(
        c, g.output_mask, of_input, lambda: e.reduce(slopes, "sum", [0]), lambda: e.reduce(sums, "sum", [0])
    )


# batch norm


def _per_channel(x: Value) -> tuple[Dim, ...]:
    """The shape of a vector over dim 1 of x."""
    rank = len(shape_of(x))
    return (shape_of(x)[1], *(1,) * (rank - 2))


def _by_channel(c: Call, x: Value, like: Value) -> Value:
    return c.e.reshape(c.e.cast(x, elem_of(like)), _per_channel(like))


def _batch_axes(x: Value) -> tuple[int, ...]:
    return tuple(i for i in range(len(shape_of(x))) if i != 1)


def _batch_sum(c: Call, x: Value) -> Value:
    """The sum of each channel."""
    return c.e.reduce(x, "sum", _batch_axes(x))


def _batch_mean(c: Call, x: Value) -> Value:
    return c.e.divide(_batch_sum(c, x), count_of(x, _batch_axes(x)))


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchNorm(Arguments):
    """What normalises a batch; not every operator has all of it."""

    input: Value
    weight: Value | None
    bias: Value | None
    running_mean: Value | None = None
    running_var: Value | None = None
    training: bool
    momentum: float
    eps: float


def _trained(c: Call, norm: BatchNorm) -> tuple[Value, Value, Value, Value]:
    """The batch normalised by its own statistics, those (mean and inverse deviation), and the variance."""
    e = c.e
    wide = c.wide(norm.input)
    mean = _batch_mean(c, wide)
    centred = e.map(graph.sub, wide, mean)
    variance = _batch_mean(c, e(graph.mul, centred, centred))
    inverse = inverse_deviation(e, variance, norm.eps)
    y = _scaled(c, e.map(graph.mul, centred, inverse), norm.weight, norm.bias, _per_channel(wide))
    return c.rounded(y), mean, inverse, variance


def _inferred(c: Call, norm: BatchNorm, mean: Value, variance: Value) -> Value:
    """x * s + t with s = weight / sqrt(variance + eps), t = bias - mean * s."""
    e, x = c.e, c.wide(norm.input)
    wide = elem_of(x)
    scale = inverse_deviation(e, e.cast(variance, wide), norm.eps)
    scale = scale if norm.weight is None else e(graph.mul, e.cast(norm.weight, wide), scale)
    shift = e(graph.mul, e.cast(mean, wide), scale)
    shift = e(graph.neg, shift) if norm.bias is None else e(graph.sub, e.cast(norm.bias, wide), shift)
    return c.rounded(_scaled(c, x, scale, shift, _per_channel(x)))


def _running(c: Call, old: Value, new: Value, momentum: float) -> Value:
    e = c.e
    new = e.reshape(new, shape_of(old))
    old_wide = e.cast(old, elem_of(new))
    mixed = e(graph.add, e.map(graph.mul, new, momentum), e.map(graph.mul, old_wide, 1 - momentum))
    return e.cast(mixed, elem_of(old))


def _updated(c: Call, norm: BatchNorm, running: Sequence[Value], mean: Value, variance: Value) -> list[Value]:
    """The running mean and variance after this batch; the variance is the unbiased one."""
    e, count = c.e, count_of(norm.input, _batch_axes(norm.input))
    wide = elem_of(variance)
    if isinstance(count, int):
        c.want(count > 1, "a batch of one element a channel")
        unbiased = e.map(graph.mul, variance, count / (count - 1))
    else:
        total = e.map(graph.mul, variance, e.full((), wide, count))
        unbiased = e.map(graph.div, total, e.full((), wide, count - 1))
    pairs = zip(running, (mean, unbiased), strict=True)
    return [_running(c, old, new, norm.momentum) for old, new in pairs]


def _nothing(c: Call, want: Tensor | None) -> Value:
    """What stands for a statistic that is not kept."""
    assert want is not None
    c.want(0 in want.shape, "a statistic is kept that is not computed")
    return c.e.full(want.shape, want.elem, 0)


def _used(c: Call, norm: BatchNorm, mean: Value, variance: Value) -> list[Value | None]:
    """What a GPU keeps of running statistics for the gradient, mean and inverse deviation; a CPU keeps nothing."""
    wide = elem_of(c.wide(norm.input))

    def made(i: int, value: Callable[[], Value]) -> Value | None:
        want = c.outs[i]
        assert want is not None
        return None if not c.wanted[i] else _nothing(c, want) if 0 in want.shape else _as(c, value(), want)

    inverse = made(2, lambda: inverse_deviation(c.e, c.e.cast(variance, wide), norm.eps))
    return [made(1, lambda: c.e.cast(mean, wide)), inverse]


@lowers(aten._native_batch_norm_legit_functional.default)
@lowers(aten._batch_norm_with_update_functional.default, training=True)
@lowers(aten._native_batch_norm_legit.no_stats, aten.native_batch_norm.default)
@lowers(aten._native_batch_norm_legit_no_training.default, training=False)
def batch_norm(c: Call, norm: BatchNorm) -> Results:
    """Some return running statistics too, last, behind what they reserve.

    `native_batch_norm` is what inference is traced as; on a GPU training, too, whose schema does not say that it
    changes statistics.
    """
    running = [x for x in (norm.running_mean, norm.running_var) if x is not None]
    returns_running = len(c.outs) > 3
    reserved = [_nothing(c, t) for t in c.outs[3:-2]]
    if not norm.training:
        c.want(len(running) == 2, "inference without statistics")
        statistics = _used(c, norm, *running)
        kept = _all_as(c, running, c.outs[-2:]) if returns_running else []
        return _inferred(c, norm, *running), *statistics, *reserved, *kept
    c.want(returns_running or "running_mean" not in c.args, "it changes running statistics")
    y, mean, inverse, variance = _trained(c, norm)
    kept = _all_as(c, _updated(c, norm, running, mean, variance), c.outs[-2:]) if running else []
    return y, _as(c, mean, c.outs[1]), _as(c, inverse, c.outs[2]), *reserved, *kept


@dataclass(frozen=True, slots=True)
class BatchGradient(Arguments):
    """What the gradient of a batch norm is made of."""

    grad_out: Value
    input: Value
    weight: Value | None
    running_mean: Value | None
    running_var: Value | None
    save_mean: Value | None
    eps: float
    output_mask: Sequence[bool]


@lowers(aten.native_batch_norm_backward.default)
def native_batch_norm_backward(c: Call, g: BatchGradient, save_invstd: Value | None, train: bool) -> Results:
    e, x = c.e, c.wide(g.input)
    mean, inverse = (g.save_mean, save_invstd) if train else (g.running_mean, g.running_var)
    assert mean is not None
    assert inverse is not None
    if not train:
        inverse = inverse_deviation(e, e.cast(inverse, elem_of(x)), g.eps)
    mean, inverse = _by_channel(c, mean, x), _by_channel(c, inverse, x)
    grad = e.cast(g.grad_out, elem_of(x))
    normal = e.map(graph.mul, e.map(graph.sub, x, mean), inverse)
    sums, slopes = _batch_sum(c, grad), _batch_sum(c, e(graph.mul, grad, normal))

    def of_input() -> Value:
        out = grad
        if train:
            count = count_of(x, _batch_axes(x))
            out = e.map(graph.sub, grad, e.divide(sums, count))
            out = e.map(graph.sub, out, e.map(graph.mul, normal, e.divide(slopes, count)))
        scale = inverse if g.weight is None else e.map(graph.mul, inverse, _by_channel(c, g.weight, x))
        return e.map(graph.mul, out, scale)

    return _gradients(c, g.output_mask, of_input, lambda: slopes, lambda: sums)


@lowers(aten.batch_norm_backward.default)
def batch_norm_backward(c: Call, g: BatchGradient, save_var: Value | None, update: bool, reserve: Any) -> Results:
    return native_batch_norm_backward(c, g, save_var, update)
