"""Convolutions, transposed ones, and their gradients.

The gradient of the input is the adjoint convolution. The gradient of the weight is one product for each tap, of the
gradient and the input as that tap sees it: slices of the padded input, which products read where they lie.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from graphfuse.dialects import graph
from graphfuse.frontends.emit import elem_of, shape_of
from graphfuse.frontends.fx.lowering import Arguments, Call, lowers, wide_elem
from graphfuse.frontends.fx.sizes import dim_of
from graphfuse.frontends.windows import Window
from graphfuse.ir.core import Value
from graphfuse.ir.types import BF16, F16, Scalar
from graphfuse.symbolic import Dim, static

aten = torch.ops.aten

JOINED = 64
"""Channels of groups that are one product of halves in a weight's gradient: tensor cores multiply no fewer rows."""
MOST_TAPS = 25
"""Windows of more taps leave the gradient of their weight to torch: that many products are slow to compile."""
FEW_CHANNELS, FEW_TAPS = 16, 9
"""Products of so few columns waste vectors: with more than `FEW_TAPS` of them torch is faster."""


@dataclass(frozen=True, slots=True)
class Convolution(Arguments):
    """How an operator says that a window moves."""

    stride: Sequence[Any]
    padding: Sequence[Any]
    dilation: Sequence[Any]
    transposed: bool
    output_padding: Sequence[Any]
    groups: Any

    def window(self, c: Call, weight: Value) -> Window:
        """The window that a weight is of."""
        out, per_group, *kernel = shape_of(weight)
        fields = [spread_over(x, len(kernel)) for x in (self.stride, self.padding, self.dilation)]
        c.want(len(kernel) > 0, "a convolution without spatial dims")
        for values in (kernel, *fields, (self.groups, out, per_group)):
            c.want(all(isinstance(v, int) for v in values), "a window, stride, padding or channel count is no number")
        size = tuple(k for k in kernel if isinstance(k, int))
        c.want(min(size) > 0, "an empty window")
        stride, padding, dilation = fields
        return Window(size, stride, dilation, padding, padding)


def torch_is_faster(c: Call, groups: int, *, gradient: bool) -> str:
    """Why a convolution is better left to torch; nothing if it is not.

    On a CPU ours are faster in inference, and where images lie with their channels last.
    """
    image = c.args["input"]
    if image.device.type != "cpu" or not (gradient or "weight" in c.returned):
        return ""
    if gradient and groups > 1:
        return "its groups are small: torch's gradient is faster"
    if dim_of(image.stride()[1]) != 1:
        return "its images lie with channels first: torch trains faster"
    return ""


def spread_over(values: Sequence[Any], rank: int) -> tuple[Any, ...]:
    """One number for all dims, or one for each."""
    return tuple(values) * rank if len(values) == 1 else tuple(values)


def with_ends(c: Call, x: Value, low: Sequence[Dim], high: Sequence[Dim], outside: float) -> Value:
    """The last dims with more in front and behind; nothing for none."""
    if not any((*low, *high)):
        return x
    lead = (0,) * (len(shape_of(x)) - len(low))
    return c.e(graph.pad, x, low=(*lead, *low), high=(*lead, *high), value=outside)


@lowers(aten.convolution.default)
def convolution(c: Call, input: Value, weight: Value, bias: Value | None, how: Convolution) -> Value:
    """Rounded once, with its bias."""
    e, w, groups = c.e, how.window(c, weight), how.groups
    c.want(not (reason := torch_is_faster(c, how.groups, gradient=False)), reason)
    wide = wide_elem(c.elem)
    elem = wide if bias is not None and wide != c.elem else None
    if how.transposed:
        extra = spread_over(how.output_padding, w.rank)
        c.want(all(isinstance(p, int) for p in extra), "the output padding is no number")
        out = w.spread(e, input, weight, groups, extra, elem)
    else:
        out = w.convolve(e, input, weight, groups, elem)
    if bias is None:
        return out
    per_channel = e.reshape(e.cast(bias, wide), (shape_of(bias)[0], *(1,) * w.rank))
    return c.rounded(e.map(graph.add, e.cast(out, wide), per_channel))


@lowers(aten.convolution_backward.default)
def convolution_backward(
    c: Call, grad_output: Value, input: Value, weight: Value, bias_sizes: Any, how: Convolution,
    output_mask: Sequence[bool],
) -> Sequence[Value | None]:  # fmt: skip
    e, w, groups = c.e, how.window(c, weight), how.groups
    c.want(not (reason := torch_is_faster(c, how.groups, gradient=True)), reason)
    grad_input = grad_weight = grad_bias = None
    if output_mask[0]:
        grad_input = (
            w.convolve(e, grad_output, weight, groups)
            if how.transposed
            else _input_gradient(c, grad_output, weight, w, groups, shape_of(input)[2:])
        )
    if output_mask[1]:
        seen, made = (grad_output, input) if how.transposed else (input, grad_output)
        grad_weight = _weight_gradient(c, seen, made, shape_of(weight), w, groups)
    if output_mask[2]:
        elem = elem_of(grad_output)
        total = e.reduce(e.cast(grad_output, wide_elem(elem)), "sum", (0, *range(2, 2 + w.rank)), keepdims=False)
        grad_bias = e.cast(total, elem)
    return grad_input, grad_weight, grad_bias


def _input_gradient(c: Call, grad: Value, weight: Value, w: Window, groups: int, size: Sequence[Dim]) -> Value:
    """The adjoint, cut to the input's size: strides leave open how much of the end no window saw."""
    e = c.e
    if all(k == 1 and p == 0 for k, p in zip(w.size, w.low, strict=True)) and any(s > 1 for s in w.strides):
        dense = replace(w, strides=(1,) * w.rank)
        return _spread(c, dense.spread(e, grad, weight, groups, (0,) * w.rank), w.strides, size)
    extra: list[int] = []
    for have, want, s, p, r in zip(shape_of(grad)[2:], size, w.strides, w.low, w.reach, strict=True):
        missing = want - ((have - 1) * s + 1 + r - 2 * p)
        extra.append(missing if isinstance(missing, int) else s - 1)
    out = w.spread(e, grad, weight, groups, tuple(extra))
    for axis, d in enumerate(size, 2):
        out = e.slice(out, axis, 0, d)
    return out


def _spread(c: Call, x: Value, strides: Sequence[int], size: Sequence[Dim]) -> Value:
    """Elements `strides` apart, with zeros between and behind them."""
    e = c.e
    for axis, (s, want) in enumerate(zip(strides, size, strict=True), 2):
        if s > 1:
            shape = shape_of(x)
            x = e.pad(e.unsqueeze(x, axis + 1), axis + 1, 0, s - 1)
            x = e.reshape(x, tuple(d * s if i == axis else d for i, d in enumerate(shape)))
        x = e.slice(x, axis, 0, want)
    return x


def _weight_gradient(c: Call, x: Value, y: Value, want: Sequence[Dim], w: Window, groups: int) -> Value:
    """The gradient of the weight of a convolution of x whose result has gradient y."""
    e, taps = c.e, math.prod(w.size)
    out, per_group = map(static, want[:2])
    c.want(taps <= MOST_TAPS, f"a window of {taps} taps: the gradient of its weight is faster in torch")
    c.want(
        taps <= FEW_TAPS or per_group >= FEW_CHANNELS or per_group == 1,
        f"{taps} taps of {per_group} channels: the gradient of the weight is faster in torch",
    )
    joined = _joined(groups, max(out // groups, per_group), elem_of(y))
    count, rows, columns = groups // joined, joined * (out // groups), joined * per_group
    x = with_ends(c, x, w.low, w.low, 0.0)
    spatial, size = "hwd"[: w.rank], shape_of(y)[2:]
    is_depthwise = count > 1 and rows == columns == 1
    lead, g = ((count,), "g") if count > 1 else ((), "")
    spec = f"ng{spatial},ng{spatial}->g" if is_depthwise else f"n{g}o{spatial},n{g}c{spatial}->{g}oc"

    def in_groups(v: Value, own: int) -> Value:
        batch, _, *dims = shape_of(v)
        return e.reshape(v, (batch, *lead, *(() if is_depthwise else (own,)), *dims))

    y, x = in_groups(y, rows), in_groups(x, columns)
    pieces: list[Value] = []
    for tap in itertools.product(*map(range, w.size)):
        seen, first = x, len(shape_of(x)) - w.rank
        for axis, (k, d, s, n) in enumerate(zip(tap, w.dilation, w.strides, size, strict=True), first):
            seen = e.slice(seen, axis, k * d, n, s)
        pieces.append(e.reshape(e.contract(y, seen, spec), (count, rows, columns, 1)))
    return e.reshape(_of_own_group(c, e.concat(pieces, 3), joined), want)


def _joined(groups: int, channels: int, elem: Scalar) -> int:
    """Groups of so many channels that one product is of: more of halves, whose tiles would be mostly empty."""
    if elem not in (F16, BF16) or channels == 1:
        return 1
    return max(n for n in range(1, groups + 1) if groups % n == 0 and (n == 1 or n * channels <= JOINED))


def _of_own_group(c: Call, products: Value, joined: int) -> Value:
    """Of [count, joined * O, joined * C, taps] what belongs to one group: [count * joined, O, C, taps]."""
    e, (count, rows, columns, taps) = c.e, shape_of(products)
    if joined == 1:
        return products
    shape = (count, joined, static(rows) // joined, joined, static(columns) // joined, taps)
    each = e.reshape(products, shape)
    own = e.map(graph.eq, e.iota(shape, 1), e.iota(shape, 3))
    # chosen, not multiplied: what groups that do not meet would make may be infinite
    return e.reduce(e.select(own, each, 0.0), "sum", (3,), keepdims=False)
