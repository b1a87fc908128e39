"""Convolutions and windows as blockgen wants them: explicit padding, no input dilation, contractions where they are.

    %c = graph.conv(%x, %w) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], layout = "nhwc",
                             low = [0, 0], strides = [1, 1]} : tensor<(n)x7x7x16xf32>

with a 1x1 window becomes

    %v = graph.reshape(%w) {shape = [8, 16]} : tensor<8x16xf32>
    %c = graph.contract(%x, %v) {spec = "nhwc,co->nhwo"} : tensor<(n)x7x7x16xf32>

Requires: layout (convolutions are nhwc). Ensures: `conv` and `reduce_window` have no padding, `conv` has no input
dilation and two or three spatial dims, and a window that sees each position once or everything at once is a
`contract`. Rules apply in this order, each to the result of the one before:

1. One spatial dim: a second one of size 1.
2. Input dilation u: the outputs at positions equal mod u are a convolution with the taps that meet non-zero inputs.
   All u phases make one convolution with u times the channels, whose result is interleaved.
3. Padding: `pad` (or `slice`, where it is negative) in front.
4. A 1x1 window: (strided slice and) contract, with a label for groups. A window over the whole input: contract.

Cost: one sweep.
"""

from __future__ import annotations

import math

import numpy as np

from graphfuse.dialects import graph
from graphfuse.fusion.fold_constants import constant
from graphfuse.fusion.simplify_movement import permuted, reshaped, sliced
from graphfuse.ir.core import Func, Op, Value, attr_ints, remade, tensor_of
from graphfuse.ir.dense import numpy_dtype
from graphfuse.ir.rewrite import Rule, dead_code, rule, sweep
from graphfuse.ir.types import Scalar
from graphfuse.symbolic import Dim, ceildiv, product

_LETTERS = "hwdijk"


def _spatial(op: Op) -> int:
    return tensor_of(op.operands[0]).rank - 2


def _is_nhwc(op: Op) -> bool:
    return op.attrs.get("layout", "nchw") == "nhwc"


# one spatial dim


@rule(graph.conv)
def lift_to_two_dims(op: Op) -> Op | None:
    """A convolution of n l c is one of n 1 l c."""
    if not _is_nhwc(op) or _spatial(op) != 1:
        return None
    x, w = op.operands
    n, length, channels = tensor_of(x).shape
    ones = {"strides": 1, "low": 0, "high": 0, "dilation": 1, "input_dilation": 1}
    attrs = {name: (one, *attr_ints(op, name)) for name, one in ones.items()}
    wide = reshaped(w, (1, *tensor_of(w).shape))
    new = conv_parts(remade(op, reshaped(x, (n, 1, length, channels)), wide, **attrs))
    return graph.reshape(new, shape=tensor_of(op.result).shape, loc=op.loc)


# input dilation


@rule(graph.conv)
def phases(op: Op) -> Op | None:
    """A convolution over an input spread by u, as u interleaved convolutions over the input itself."""
    up = attr_ints(op, "input_dilation")
    if not _is_nhwc(op) or all(u == 1 for u in up):
        return None
    if any(s != 1 for s in attr_ints(op, "strides")):
        return _strided_after(op)
    x, w = op.operands
    dims = range(_spatial(op))
    kernel = tensor_of(w).shape[:-2]
    low, dilation = attr_ints(op, "low"), attr_ints(op, "dilation")
    out_size = tensor_of(op.result).shape[1:-1]
    in_size = tensor_of(x).shape[1:-1]
    new_low: list[int] = []
    new_high: list[int] = []
    counts: list[Dim] = []
    taps = _with_zero_taps(w, len(kernel))
    # after this, dims 2i and 2i + 1 of `taps` are the phase and the tap along spatial dim i
    for i in dims:
        k = kernel[i]
        assert isinstance(k, int)
        table, first = _phase_table(k, up[i], low[i], dilation[i])
        taps = graph.take(taps, constant(table), axis=2 * i).result
        count = ceildiv(out_size[i], up[i])
        high = count + table.shape[1] - 1 - in_size[i] + first
        if not isinstance(high, int):
            return None
        counts.append(count)
        new_low.append(-first)
        new_high.append(high)
    weights, order = _phase_weights(taps, up, op)
    ones = (1,) * len(up)
    inner = remade(op, x, weights, low=tuple(new_low), high=tuple(new_high), dilation=ones, input_dilation=ones)
    new = conv_parts(inner)
    return _interleaved(new.result, counts, up, order, op)


def _strided_after(op: Op) -> Op | None:
    """Every s-th output of the convolution with stride 1."""
    strides = attr_ints(op, "strides")
    dense = remade(op, *op.operands, strides=(1,) * len(strides))
    whole = phases[0].apply(dense)
    if not isinstance(whole, Op):
        return None
    shape = tensor_of(op.result).shape
    return graph.slice_(whole, starts=(0,) * len(shape), sizes=shape, steps=(1, *strides, 1), loc=op.loc)


def _phase_table(kernel: int, up: int, low: int, dilation: int) -> tuple[np.ndarray, int]:
    """table[r, t]: the tap that phase r applies to the input t places after the first one; `kernel` stands for none.

    Output u q + r reads the spread input at u q + r + k d - low, which is input q + (r + k d - low) / u
    when that is whole, and a zero otherwise. Also returns the least offset.
    """
    at = {
        (r, k): (r + k * dilation - low) // up
        for r in range(up)
        for k in range(kernel)
        if (r + k * dilation - low) % up == 0
    }
    first, last = min(at.values()), max(at.values())
    table = np.full((up, last - first + 1), kernel, np.int64)
    for (r, k), t in at.items():
        table[r, t - first] = k
    return table, first


def _with_zero_taps(w: Value, spatial: int) -> Value:
    high = tuple(1 if i < spatial else 0 for i in range(tensor_of(w).rank))
    zero = number_zero(tensor_of(w).elem)
    return graph.pad(w, low=(0,) * len(high), high=high, value=zero).result


def number_zero(elem: Scalar) -> float:
    """0 as attributes of `elem` spell it."""
    return 0.0 if elem.is_float else 0


def _phase_weights(taps: Value, up: tuple[int, ...], op: Op) -> tuple[Value, tuple[int, int]]:
    """[u, t, u, t, .., c, o] to [t, t, .., c, (g u u o/g)]: groups outermost, so that they stay groups."""
    shape = tensor_of(taps).shape
    spatial = len(up)
    groups = op.attrs.get("groups", 1)
    assert isinstance(groups, int)
    channels, out = shape[-2:]
    assert isinstance(out, int)
    split = reshaped(taps, (*shape[:-1], groups, out // groups))
    rank = 2 * spatial + 3
    tap_dims = tuple(range(1, 2 * spatial, 2))
    phase_dims = tuple(range(0, 2 * spatial, 2))
    moved = permuted(split, (*tap_dims, 2 * spatial, rank - 2, *phase_dims, rank - 1))
    kernel = tuple(shape[i] for i in tap_dims)
    return reshaped(moved, (*kernel, channels, out * math.prod(up))), (groups, out // groups)


def _interleaved(y: Value, counts: list[Dim], up: tuple[int, ...], order: tuple[int, int], op: Op) -> Op:
    """[n, q.., (g u.. o)] to [n, (q u).., (g o)], cut to the result's size."""
    n = tensor_of(y).shape[0]
    spatial = len(up)
    grouped = order[:1] if order[0] > 1 else ()
    split = reshaped(y, (n, *counts, *grouped, *up, order[1]))
    first = 1 + spatial + len(grouped)
    pairs = [d for i in range(spatial) for d in (1 + i, first + i)]
    moved = permuted(split, (0, *pairs, *range(1 + spatial, first), first + spatial))
    sizes = tuple(q * u for q, u in zip(counts, up, strict=True))
    whole = graph.reshape(moved, shape=(n, *sizes, order[0] * order[1])).result
    shape = tensor_of(op.result).shape
    if tensor_of(whole).shape == shape:
        assert whole.op is not None
        return whole.op
    return graph.slice_(whole, starts=(0,) * len(shape), sizes=shape, steps=(1,) * len(shape), loc=op.loc)


# padding


@rule(graph.conv)
def pad_conv(op: Op) -> Op | None:
    """conv(x) with padding = conv(pad x)."""
    if not _is_nhwc(op) or any(u != 1 for u in attr_ints(op, "input_dilation")):
        return None
    low, high = attr_ints(op, "low"), attr_ints(op, "high")
    if not any((*low, *high)):
        return None
    x, w = op.operands
    zero = number_zero(tensor_of(x).elem)
    x = padded(x, (0, *low, 0), (0, *high, 0), zero)
    none = (0,) * len(low)
    return conv_parts(remade(op, x, w, low=none, high=none))


@rule(graph.reduce_window)
def pad_window(op: Op) -> Op | None:
    """reduce_window(x) with padding = reduce_window(pad x), padded with what the reduction ignores."""
    low, high = attr_ints(op, "low"), attr_ints(op, "high")
    if not any((*low, *high)):
        return None
    (x,) = op.operands
    x = padded(x, low, high, neutral(str(op.attrs["kind"]), tensor_of(x).elem))
    none = (0,) * len(low)
    return remade(op, x, low=none, high=none)


def neutral(kind: str, elem: Scalar) -> float:
    """What `kind` ignores."""
    if kind == "sum":
        return number_zero(elem)
    if elem.is_float:
        return -math.inf if kind == "max" else math.inf
    info = np.iinfo(numpy_dtype(elem))
    return int(info.min if kind == "max" else info.max)


def padded(x: Value, low: tuple[int, ...], high: tuple[int, ...], value: float) -> Value:
    """`x` grown by positive and cut by negative padding."""
    shape = tensor_of(x).shape
    for i in range(len(shape)):
        cut_low, cut_high = max(-low[i], 0), max(-high[i], 0)
        if cut_low or cut_high:
            x = sliced(x, i, cut_low, shape[i] - cut_low - cut_high)
    grow_low, grow_high = (tuple(max(p, 0) for p in side) for side in (low, high))
    if not any((*grow_low, *grow_high)):
        return x
    return graph.pad(x, low=grow_low, high=grow_high, value=value).result


# contractions


@rule(graph.conv)
def one_by_one(op: Op) -> Op | None:
    """A window of one tap is a contraction over channels of every s-th position, one per group."""
    groups = op.attrs.get("groups", 1)
    assert isinstance(groups, int)
    x, w = op.operands
    *kernel, channels, out = tensor_of(w).shape
    if not _is_plain(op) or any(k != 1 for k in kernel) or not isinstance(out, int) or out == groups > 1:
        return None  # with one output a group there is nothing to share between columns
    strides = attr_ints(op, "strides")
    shape = tensor_of(op.result).shape
    if any(s != 1 for s in strides):
        sizes = (*shape[:-1], groups * channels)
        x = graph.slice_(x, starts=(0,) * len(sizes), sizes=sizes, steps=(1, *strides, 1)).result
    letters = _LETTERS[: len(kernel)]
    if groups == 1:
        return _product(op, x, reshaped(w, (channels, out)), f"n{letters}c,co->n{letters}o")
    split = reshaped(x, (*shape[:-1], groups, channels))
    weights = permuted(reshaped(w, (channels, groups, out // groups)), (1, 0, 2))
    new = _product(op, split, weights, f"n{letters}gc,gco->n{letters}go")
    return graph.reshape(new, shape=shape, loc=op.loc)


@rule(graph.conv)
def whole_window(op: Op) -> Op | None:
    """A window over the whole input is a contraction over everything but the batch."""
    if not _is_plain(op) or op.attrs.get("groups", 1) != 1:
        return None
    x, w = op.operands
    *kernel, channels, out = tensor_of(w).shape
    n, *size, _ = tensor_of(x).shape
    if size != kernel or any(d != 1 for d in attr_ints(op, "dilation")):
        return None
    inner: Dim = product((*kernel, channels))
    new = _product(op, reshaped(x, (n, inner)), reshaped(w, (inner, out)), "nc,co->no")
    return graph.reshape(new, shape=tensor_of(op.result).shape, loc=op.loc)


def _product(op: Op, x: Value, w: Value, spec: str) -> Op:
    """A contraction whose sums are made as those of the convolution `op`."""
    elem = op.attrs.get("elem")
    if elem is None:
        return graph.contract(x, w, spec=spec, loc=op.loc)
    assert isinstance(elem, Scalar)
    return graph.contract(x, w, spec=spec, elem=elem, loc=op.loc)


def _is_plain(op: Op) -> bool:
    """Channels last, unpadded, not spread."""
    return (
        _is_nhwc(op)
        and not any((*attr_ints(op, "low"), *attr_ints(op, "high")))
        and all(u == 1 for u in attr_ints(op, "input_dilation"))
    )


RULES: tuple[Rule, ...] = (*lift_to_two_dims, *phases, *pad_conv, *pad_window, *one_by_one, *whole_window)


def conv_parts(op: Op) -> Op:
    """Apply the rules to a convolution that a rule made."""
    for r in RULES:
        if r.root is graph.conv and (got := r.apply(op)) is not None:
            assert isinstance(got, Op)
            return got
    return op


def decompose_conv(func: Func) -> Func:
    """Make padding, phases and contractions of convolutions explicit."""
    return dead_code(sweep(func, RULES)[0])
