"""Convolutions, transposed ones, and their gradients.

The gradient of the input is the adjoint convolution. The gradient of the weight is one product for each tap, of the
gradient and the input as that tap sees it: slices of the padded input, which products read where they lie.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from graphfuse.dialects import graph
from graphfuse.frontends.compositions import adjoint_weight
from graphfuse.frontends.emit import elem_of, shape_of
from graphfuse.frontends.fx.lowering import Call, lowers
from graphfuse.frontends.fx.ops.arithmetic import wide_elem
from graphfuse.frontends.fx.sizes import dim_of
from graphfuse.ir.core import Value
from graphfuse.symbolic import Dim

aten = torch.ops.aten

MOST_TAPS = 25
"""Windows of more taps leave the gradient of their weight to torch: that many products are slow to compile."""
FEW_CHANNELS, FEW_TAPS = 16, 9
"""Products of so few columns waste vectors: with more than `FEW_TAPS` of them torch is faster."""


@dataclass(frozen=True, slots=True)
class Geometry:
    """How a window moves: one entry for each spatial dim."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    @property
    def rank(self) -> int:
        """How many spatial dims."""
        return len(self.kernel)

    @property
    def reach(self) -> tuple[int, ...]:
        """From the first tap to the last, for each dim."""
        return tuple((k - 1) * d for k, d in zip(self.kernel, self.dilation, strict=True))


def _geometry(
    c: Call, weight: Value, stride: Sequence[Any], padding: Sequence[Any], dilation: Sequence[Any], groups: Any
) -> Geometry:
    kernel = shape_of(weight)[2:]
    fields = [spread_over(x, len(kernel)) for x in (stride, padding, dilation)]
    c.want(len(kernel) > 0, "a convolution without spatial dims")
    for values in (kernel, *fields, (groups, *shape_of(weight)[:2])):
        c.want(all(isinstance(v, int) for v in values), "a window, stride, padding or channel count is no number")
    c.want(0 not in kernel, "an empty window")
    return Geometry(tuple(kernel), *fields, groups)  # type: ignore[arg-type]


def torch_is_faster(c: Call, g: Geometry, *, gradient: bool) -> str:
    """Why a convolution is better left to torch; nothing if it is not.

    On a CPU ours are faster in inference, and where images lie with their channels last. What is kept for a gradient
    lies as torch has it: with the channels first, each layer is turned around and back.
    """
    image = c.args["input"]
    if image.device.type != "cpu" or not (gradient or "weight" in c.returned):
        return ""
    if gradient and g.groups > 1:
        return "its groups are small: torch's gradient is faster"
    if dim_of(image.stride()[1]) != 1:
        return "its images lie with channels first: torch trains faster"
    return ""


def spread_over(values: Sequence[Any], rank: int) -> tuple[Any, ...]:
    """One number for all dims, or one for each."""
    return tuple(values) * rank if len(values) == 1 else tuple(values)


@lowers(aten.convolution.default)
def convolution(
    c: Call, input: Value, weight: Value, bias: Value | None, stride: Any, padding: Any, dilation: Any,
    transposed: bool, output_padding: Any, groups: int,
) -> Value:  # fmt: skip
    e, g = c.e, _geometry(c, weight, stride, padding, dilation, groups)
    c.want(not (reason := torch_is_faster(c, g, gradient=False)), reason)
    if transposed:
        extra = spread_over(output_padding, g.rank)
        c.want(all(isinstance(p, int) for p in extra), "the output padding is no number")
        out = _adjoint(c, input, weight, g, extra)
    else:
        out = _convolved(c, input, weight, g)
    if bias is None:
        return out
    wide = wide_elem(c.elem)
    per_channel = e.reshape(e.cast(bias, wide), (shape_of(bias)[0], *(1,) * g.rank))
    return c.rounded(e.map(graph.add, e.cast(out, wide), per_channel))


def _convolved(c: Call, x: Value, w: Value, g: Geometry) -> Value:
    return c.e(
        graph.conv, x, w, strides=g.strides, low=g.padding, high=g.padding, dilation=g.dilation,
        input_dilation=(1,) * g.rank, groups=g.groups,
    )  # fmt: skip


def _adjoint(c: Call, y: Value, w: Value, g: Geometry, extra: Sequence[int]) -> Value:
    """The adjoint of a convolution; `extra` elements are added at the end of each dim."""
    return c.e(
        graph.conv, y, adjoint_weight(c.e, w, g.groups), strides=(1,) * g.rank,
        low=tuple(r - p for r, p in zip(g.reach, g.padding, strict=True)),
        high=tuple(r - p + more for r, p, more in zip(g.reach, g.padding, extra, strict=True)),
        dilation=g.dilation, input_dilation=g.strides, groups=g.groups,
    )  # fmt: skip


@lowers(aten.convolution_backward.default)
def convolution_backward(
    c: Call, grad_output: Value, input: Value, weight: Value, bias_sizes: Any, stride: Any, padding: Any,
    dilation: Any, transposed: bool, output_padding: Any, groups: int, output_mask: Sequence[bool],
) -> Sequence[Value | None]:  # fmt: skip
    e, g = c.e, _geometry(c, weight, stride, padding, dilation, groups)
    c.want(not (reason := torch_is_faster(c, g, gradient=True)), reason)
    grad_input = grad_weight = grad_bias = None
    if output_mask[0]:
        grad_input = (
            _convolved(c, grad_output, weight, g)
            if transposed
            else _input_gradient(c, grad_output, weight, g, shape_of(input)[2:])
        )
    if output_mask[1]:
        seen, made = (grad_output, input) if transposed else (input, grad_output)
        grad_weight = _weight_gradient(c, seen, made, shape_of(weight), g)
    if output_mask[2]:
        elem = elem_of(grad_output)
        total = e.reduce(e.cast(grad_output, wide_elem(elem)), "sum", (0, *range(2, 2 + g.rank)), keepdims=False)
        grad_bias = e.cast(total, elem)
    return grad_input, grad_weight, grad_bias


def _input_gradient(c: Call, grad: Value, w: Value, g: Geometry, size: Sequence[Dim]) -> Value:
    """The adjoint, cut to the input's size: strides leave open how much of the end no window saw."""
    e = c.e
    if all(k == 1 and p == 0 for k, p in zip(g.kernel, g.padding, strict=True)) and any(s > 1 for s in g.strides):
        dense = Geometry(g.kernel, (1,) * g.rank, g.padding, g.dilation, g.groups)
        return _spread(c, _adjoint(c, grad, w, dense, (0,) * g.rank), g.strides, size)
    extra: list[int] = []
    for have, want, s, p, r in zip(shape_of(grad)[2:], size, g.strides, g.padding, g.reach, strict=True):
        missing = want - ((have - 1) * s + 1 + r - 2 * p)
        extra.append(missing if isinstance(missing, int) else s - 1)
    out = _adjoint(c, grad, w, g, extra)
    for axis, d in enumerate(size, 2):
        out = e.slice(out, axis, 0, d)
    return out


def _spread(c: Call, x: Value, strides: Sequence[int], size: Sequence[Dim]) -> Value:
    """Elements `strides` apart, with zeros between and behind them."""
    e = c.e
    for axis, (s, want) in enumerate(zip(strides, size, strict=True), 2):
        if s > 1:
            shape = shape_of(x)
            x = e.unsqueeze(x, axis + 1)
            high = tuple(s - 1 if i == axis + 1 else 0 for i in range(len(shape) + 1))
            x = e(graph.pad, x, low=(0,) * len(high), high=high, value=0.0)
            x = e.reshape(x, tuple(d * s if i == axis else d for i, d in enumerate(shape)))
        x = e.slice(x, axis, 0, want)
    return x


def _weight_gradient(c: Call, x: Value, y: Value, want: Sequence[Dim], g: Geometry) -> Value:
    """The gradient of the weight of a convolution of x whose result has gradient y."""
    e, taps = c.e, math.prod(g.kernel)
    out, per_group = want[0], want[1]
    assert isinstance(out, int)
    assert isinstance(per_group, int)
    c.want(taps <= MOST_TAPS, f"a window of {taps} taps: the gradient of its weight is faster in torch")
    c.want(
        taps <= FEW_TAPS or per_group >= FEW_CHANNELS or per_group == 1,
        f"{taps} taps of {per_group} channels: the gradient of the weight is faster in torch",
    )
    if any(g.padding):
        ends = (0, 0, *g.padding)
        x = e(graph.pad, x, low=ends, high=ends, value=0.0)
    spatial = "hwd"[: g.rank]
    size = shape_of(y)[2:]
    y = e.reshape(y, (shape_of(y)[0], g.groups, out // g.groups, *size))
    pieces: list[Value] = []
    for tap in itertools.product(*map(range, g.kernel)):
        seen = x
        for axis, (k, d, s, n) in enumerate(zip(tap, g.dilation, g.strides, size, strict=True), 2):
            seen = e.slice(seen, axis, k * d, n, s)
        pieces.append(e.reshape(_tap(c, y, seen, spatial, g.groups, per_group), (out, per_group, 1)))
    return e.reshape(e.concat(pieces, 2), want)


def _tap(c: Call, y: Value, seen: Value, spatial: str, groups: int, per_group: int) -> Value:
    """The product over batch and positions for one tap, as [groups, O / groups, C / groups]."""
    e = c.e
    batch, _, per_out, *size = shape_of(y)
    if groups == 1:
        y, seen = e.reshape(y, (batch, per_out, *size)), e.reshape(seen, (batch, per_group, *size))
        return e.contract(y, seen, f"no{spatial},nc{spatial}->oc")
    if per_group == 1 and per_out == 1:
        return e.contract(e.reshape(y, (batch, groups, *size)), seen, f"ng{spatial},ng{spatial}->g")
    seen = e.reshape(seen, (batch, groups, per_group, *size))
    return e.contract(y, seen, f"ngo{spatial},ngc{spatial}->goc")
