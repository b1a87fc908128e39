"""Normalisations and their gradients. Statistics are f32 for halves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from graphfuse.dialects import graph
from graphfuse.frontends.compositions import inverse_deviation, standardise
from graphfuse.frontends.emit import elem_of, shape_of
from graphfuse.frontends.fx.lowering import Call, Results, lowers
from graphfuse.frontends.fx.ops.arithmetic import wide_elem
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


def _centred_gradient(c: Call, grad: Value, normal: Value, inverse: Value, axes: Sequence[int]) -> Value:
    """The gradient of the input of standardising along `axes`: what is left without its mean and its slope."""
    e = c.e
    slope = e.mean(e(graph.mul, grad, normal), axes)
    rest = e.map(graph.sub, e.map(graph.sub, grad, e.mean(grad, axes)), e.map(graph.mul, normal, slope))
    return e.map(graph.mul, rest, inverse)


# layer norm


@lowers(aten.native_layer_norm.default)
def native_layer_norm(
    c: Call, input: Value, normalized_shape: Sequence[Dim], weight: Value | None, bias: Value | None, eps: float
) -> Results:
    rank, inner = len(c.shape), len(normalized_shape)
    x = c.e.cast(input, wide_elem(c.elem))
    y, mean, inverse = standardise(c.e, x, range(rank - inner, rank), eps)
    y = _scaled(c, y, weight, bias, c.shape[rank - inner :])
    return c.rounded(y), _as(c, mean, c.outs[1]), _as(c, inverse, c.outs[2])


@lowers(aten.native_layer_norm_backward.default)
def native_layer_norm_backward(
    c: Call, grad_out: Value, input: Value, normalized_shape: Sequence[Dim], mean: Value, rstd: Value,
    weight: Value | None, bias: Value | None, output_mask: Sequence[bool],
) -> Results:  # fmt: skip
    e = c.e
    wide, shape = wide_elem(elem_of(input)), shape_of(input)
    rank, inner = len(shape), len(normalized_shape)
    lead, axes = tuple(range(rank - inner)), tuple(range(rank - inner, rank))
    grad, x, mean, inverse = (e.cast(v, wide) for v in (grad_out, input, mean, rstd))
    normal = e.map(graph.mul, e.map(graph.sub, x, mean), inverse)
    grads: list[Value | None] = [None, None, None]
    if output_mask[0]:
        scaled = _scaled(c, grad, weight, None, shape[rank - inner :])
        grads[0] = e.cast(_centred_gradient(c, scaled, normal, inverse, axes), elem_of(input))
    if output_mask[1]:
        grads[1] = _as(c, e.reduce(e(graph.mul, grad, normal), "sum", lead, keepdims=False), c.outs[1])
    if output_mask[2]:
        grads[2] = _as(c, e.reduce(grad, "sum", lead, keepdims=False), c.outs[2])
    return grads


# root mean square


@lowers(aten._fused_rms_norm.default)
def fused_rms_norm(
    c: Call, input: Value, normalized_shape: Sequence[int], weight: Value | None, eps: float | None
) -> Results:
    e, rank, inner = c.e, len(c.shape), len(normalized_shape)
    x = e.cast(input, wide_elem(c.elem))
    square = e.mean(e(graph.mul, x, x), range(rank - inner, rank))
    inverse = inverse_deviation(e, square, torch.finfo(c.args["input"].dtype).eps if eps is None else eps)
    y = _scaled(c, e.map(graph.mul, x, inverse), weight, None, c.shape[rank - inner :])
    return c.rounded(y), _as(c, inverse, c.outs[1])


@lowers(aten._fused_rms_norm_backward.default)
def fused_rms_norm_backward(
    c: Call, grad_out: Value, input: Value, normalized_shape: Sequence[int], rstd: Value, weight: Value | None,
    output_mask: Sequence[bool],
) -> Results:  # fmt: skip
    e = c.e
    wide, shape = wide_elem(elem_of(input)), shape_of(input)
    rank, inner = len(shape), len(normalized_shape)
    lead, axes = tuple(range(rank - inner)), tuple(range(rank - inner, rank))
    grad, x, inverse = (e.cast(v, wide) for v in (grad_out, input, rstd))
    normal = e.map(graph.mul, x, inverse)
    grads: list[Value | None] = [None, None]
    if output_mask[0]:
        scaled = _scaled(c, grad, weight, None, shape[rank - inner :])
        slope = e.mean(e(graph.mul, scaled, normal), axes)
        rest = e.map(graph.sub, scaled, e.map(graph.mul, normal, slope))
        grads[0] = e.cast(e.map(graph.mul, rest, inverse), elem_of(input))
    if output_mask[1]:
        grads[1] = _as(c, e.reduce(e(graph.mul, grad, normal), "sum", lead, keepdims=False), c.outs[1])
    return grads


# group norm


def _grouped(c: Call, x: Value, sizes: Sequence[Dim]) -> Value:
    return c.e.reshape(c.e.cast(x, wide_elem(elem_of(x))), sizes)


@lowers(aten.native_group_norm.default)
def native_group_norm(
    c: Call, input: Value, weight: Value | None, bias: Value | None, N: Dim, C: Dim, HxW: Dim, group: int, eps: float  # noqa: N803
) -> Results:  # fmt: skip
    per_group = floordiv(C, group)
    x = _grouped(c, input, (N, group, per_group, HxW))
    y, mean, inverse = standardise(c.e, x, (2, 3), eps)
    y = _scaled(c, y, weight, bias, (1, group, per_group, 1))
    return c.rounded(c.e.reshape(y, c.shape)), _as(c, mean, c.outs[1]), _as(c, inverse, c.outs[2])


@lowers(aten.native_group_norm_backward.default)
def native_group_norm_backward(
    c: Call, grad_out: Value, input: Value, mean: Value, rstd: Value, weight: Value | None, N: Dim, C: Dim,  # noqa: N803
    HxW: Dim, group: int, output_mask: Sequence[bool],  # noqa: N803
) -> Results:  # fmt: skip
    e, per_group = c.e, floordiv(C, group)
    sizes, wide = (N, group, per_group, HxW), wide_elem(elem_of(input))
    grad, x = _grouped(c, grad_out, sizes), _grouped(c, input, sizes)
    mean, inverse = (e.reshape(e.cast(v, wide), (N, group, 1, 1)) for v in (mean, rstd))
    normal = e.map(graph.mul, e.map(graph.sub, x, mean), inverse)
    # per sample and channel; everything else is a sum of these
    sums, slopes = e.reduce(grad, "sum", [3]), e.reduce(e(graph.mul, grad, normal), "sum", [3])
    grads: list[Value | None] = [None, None, None]
    if output_mask[0]:
        shape = (1, group, per_group, 1)
        means = [
            e.divide(e.reduce(_scaled(c, v, weight, None, shape), "sum", [2]), per_group * HxW) for v in (sums, slopes)
        ]
        rest = e.map(graph.sub, _scaled(c, grad, weight, None, shape), means[0])
        rest = e.map(graph.sub, rest, e.map(graph.mul, normal, means[1]))
        grads[0] = e.cast(e.reshape(e.map(graph.mul, rest, inverse), shape_of(input)), elem_of(input))
    if output_mask[1]:
        grads[1] = _as(c, e.reduce(slopes, "sum", [0]), c.outs[1])
    if output_mask[2]:
        grads[2] = _as(c, e.reduce(sums, "sum", [0]), c.outs[2])
    return grads


# batch norm


def _per_channel(x: Value) -> tuple[Dim, ...]:
    """The shape of a vector over dim 1 of x."""
    rank = len(shape_of(x))
    return (shape_of(x)[1], *(1,) * (rank - 2))


def _by_channel(c: Call, x: Value, like: Value) -> Value:
    return c.e.reshape(c.e.cast(x, wide_elem(elem_of(like))), _per_channel(like))


def _batch_axes(x: Value) -> tuple[int, ...]:
    return tuple(i for i in range(len(shape_of(x))) if i != 1)


def _batch_sum(c: Call, x: Value) -> Value:
    """The sum of each channel: first of each image, which lies in a row, then of the batch."""
    inner = tuple(range(2, len(shape_of(x))))
    return c.e.reduce(c.e.reduce(x, "sum", inner), "sum", [0])


def _batch_mean(c: Call, x: Value) -> Value:
    return c.e.divide(_batch_sum(c, x), count_of(x, _batch_axes(x)))


def _trained(
    c: Call, x: Value, weight: Value | None, bias: Value | None, eps: float
) -> tuple[Value, Value, Value, Value]:
    """The batch normalised by its own statistics, those (mean and inverse deviation), and the variance."""
    e = c.e
    wide = e.cast(x, wide_elem(elem_of(x)))
    mean = _batch_mean(c, wide)
    centred = e.map(graph.sub, wide, mean)
    variance = _batch_mean(c, e(graph.mul, centred, centred))
    inverse = inverse_deviation(e, variance, eps)
    y = _scaled(c, e.map(graph.mul, centred, inverse), weight, bias, _per_channel(x))
    return c.rounded(y), mean, inverse, variance


def _inferred(
    c: Call, x: Value, weight: Value | None, bias: Value | None, mean: Value, variance: Value, eps: float
) -> Value:
    """x * s + t with s = weight / sqrt(variance + eps), t = bias - mean * s."""
    e, wide = c.e, wide_elem(elem_of(x))
    scale = inverse_deviation(e, e.cast(variance, wide), eps)
    scale = scale if weight is None else e(graph.mul, e.cast(weight, wide), scale)
    shift = e(graph.mul, e.cast(mean, wide), scale)
    shift = e(graph.neg, shift) if bias is None else e(graph.sub, e.cast(bias, wide), shift)
    return c.rounded(_scaled(c, e.cast(x, wide), scale, shift, _per_channel(x)))


def _running(c: Call, old: Value, new: Value, momentum: float) -> Value:
    e = c.e
    new = e.reshape(new, shape_of(old))
    old_wide = e.cast(old, elem_of(new))
    mixed = e(graph.add, e.map(graph.mul, new, momentum), e.map(graph.mul, old_wide, 1 - momentum))
    return e.cast(mixed, elem_of(old))


def _updated(
    c: Call, x: Value, mean: Value, variance: Value, running: tuple[Value, Value], momentum: float
) -> list[Value]:
    """The running mean and variance after this batch; the variance is the unbiased one."""
    e, count = c.e, count_of(x, _batch_axes(x))
    wide = elem_of(variance)
    if isinstance(count, int):
        c.want(count > 1, "a batch of one element a channel")
        unbiased = e.map(graph.mul, variance, count / (count - 1))
    else:
        total = e.map(graph.mul, variance, e.full((), wide, count))
        unbiased = e.map(graph.div, total, e.full((), wide, count - 1))
    return [_running(c, running[0], mean, momentum), _running(c, running[1], unbiased, momentum)]


def _nothing(c: Call, want: Tensor | None) -> Value:
    """What stands for a statistic that is not kept."""
    assert want is not None
    c.want(0 in want.shape, "a statistic is kept that is not computed")
    return c.e.full(want.shape, want.elem, 0)


def _no_statistics(c: Call) -> list[Value | None]:
    """The mean and inverse deviation that inference keeps: nobody's on a GPU, where they have elements."""
    return [_nothing(c, c.outs[i]) if c.wanted[i] else None for i in (1, 2)]


@lowers(aten._native_batch_norm_legit_functional.default)
def batch_norm_functional(
    c: Call, input: Value, weight: Value | None, bias: Value | None, running_mean: Value, running_var: Value,
    training: bool, momentum: float, eps: float,
) -> Results:  # fmt: skip
    if not training:
        y = _inferred(c, input, weight, bias, running_mean, running_var, eps)
        kept = _all_as(c, (running_mean, running_var), c.outs[3:])
        return y, _nothing(c, c.outs[1]), _nothing(c, c.outs[2]), *kept
    y, mean, inverse, variance = _trained(c, input, weight, bias, eps)
    stats = _updated(c, input, mean, variance, (running_mean, running_var), momentum)
    return y, _as(c, mean, c.outs[1]), _as(c, inverse, c.outs[2]), *_all_as(c, stats, c.outs[3:])


@lowers(aten._batch_norm_with_update_functional.default)
def batch_norm_with_update(
    c: Call, input: Value, weight: Value | None, bias: Value | None, running_mean: Value, running_var: Value,
    momentum: float, eps: float,
) -> Results:  # fmt: skip
    y, mean, inverse, variance = _trained(c, input, weight, bias, eps)
    stats = _updated(c, input, mean, variance, (running_mean, running_var), momentum)
    last = _nothing(c, c.outs[3]), *_all_as(c, stats, c.outs[4:])
    return y, _as(c, mean, c.outs[1]), _as(c, inverse, c.outs[2]), *last


@lowers(aten._native_batch_norm_legit.no_stats)
def batch_norm_without_running(
    c: Call, input: Value, weight: Value | None, bias: Value | None, training: bool, momentum: float, eps: float
) -> Results:
    c.want(training, "inference without statistics")
    y, mean, inverse, _ = _trained(c, input, weight, bias, eps)
    return y, _as(c, mean, c.outs[1]), _as(c, inverse, c.outs[2])


@lowers(aten._native_batch_norm_legit_no_training.default)
def batch_norm_inference(
    c: Call, input: Value, weight: Value | None, bias: Value | None, running_mean: Value, running_var: Value,
    momentum: float, eps: float,
) -> Results:  # fmt: skip
    return _inferred(c, input, weight, bias, running_mean, running_var, eps), *_no_statistics(c)


@lowers(aten.native_batch_norm.default)
def native_batch_norm(
    c: Call, input: Value, weight: Value | None, bias: Value | None, running_mean: Value | None,
    running_var: Value | None, training: bool, momentum: float, eps: float,
) -> Results:  # fmt: skip
    """What inference on a GPU is traced as; in training it would change statistics, which its schema does not say."""
    c.want(not training, "it changes running statistics")
    c.want(running_mean is not None and running_var is not None, "inference without statistics")
    assert running_mean is not None
    assert running_var is not None
    return _inferred(c, input, weight, bias, running_mean, running_var, eps), *_no_statistics(c)


@lowers(aten.native_batch_norm_backward.default)
def native_batch_norm_backward(
    c: Call, grad_out: Value, input: Value, weight: Value | None, running_mean: Value | None,
    running_var: Value | None, save_mean: Value | None, save_invstd: Value | None, train: bool, eps: float,
    output_mask: Sequence[bool],
) -> Results:  # fmt: skip
    e, wide = c.e, wide_elem(elem_of(input))
    mean = save_mean if train else running_mean
    inverse = save_invstd if train else running_var
    assert mean is not None
    assert inverse is not None
    if not train:
        inverse = inverse_deviation(e, e.cast(inverse, wide), eps)
    mean, inverse = _by_channel(c, mean, input), _by_channel(c, inverse, input)
    grad, x = e.cast(grad_out, wide), e.cast(input, wide)
    normal = e.map(graph.mul, e.map(graph.sub, x, mean), inverse)
    sums, slopes = _batch_sum(c, grad), _batch_sum(c, e(graph.mul, grad, normal))
    grads: list[Value | None] = [None, None, None]
    if output_mask[0]:
        out = grad
        if train:
            count = count_of(input, _batch_axes(input))
            out = e.map(graph.sub, grad, e.divide(sums, count))
            out = e.map(graph.sub, out, e.map(graph.mul, normal, e.divide(slopes, count)))
        scale = inverse if weight is None else e.map(graph.mul, inverse, _by_channel(c, weight, input))
        grads[0] = e.cast(e.map(graph.mul, out, scale), elem_of(input))
    if output_mask[1]:
        grads[1] = _as(c, slopes, c.outs[1])
    if output_mask[2]:
        grads[2] = _as(c, sums, c.outs[2])
    return grads


@lowers(aten.batch_norm_backward.default)
def batch_norm_backward(
    c: Call, grad_out: Value, input: Value, weight: Value, running_mean: Value | None, running_var: Value | None,
    save_mean: Value | None, save_var: Value | None, update: bool, eps: float, output_mask: Sequence[bool],
    reserve: Any,
) -> Results:  # fmt: skip
    return native_batch_norm_backward(
        c, grad_out, input, weight, running_mean, running_var, save_mean, save_var, update, eps, output_mask
    )
