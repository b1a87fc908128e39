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
2. Input dilation u: the outputs at positions equal mod u are a convolution with the taps that meet inputs. Phases
   that meet the same inputs are one convolution with as many times the channels; their results are interleaved.
3. Padding: `pad` (or `slice`, where it is negative) in front.
4. A 1x1 window: (strided slice and) contract, with a label for groups. A window over the whole input: contract.

Cost: one sweep.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from graphfuse.dialects import graph
from graphfuse.dialects.elementwise import neutral
from graphfuse.fusion.simplify.fold_constants import constant, number
from graphfuse.fusion.simplify.simplify_movement import permuted, reshaped, sliced
from graphfuse.ir.core import Func, Op, Value, attr_int, attr_ints, remade, tensor_of
from graphfuse.ir.passes import passing
from graphfuse.ir.rewrite import Rule, dead_code, rule, sweep
from graphfuse.symbolic import Dim, ceildiv, product, static

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


@dataclass(frozen=True, slots=True)
class _Phases:
    """Phases along one dim whose outputs meet the same inputs: `table[r, t]` is the tap of phase r at the t-th of them.

    That is the input `step` t + `first` places after the one that the phases are counted from.
    """

    table: np.ndarray
    first: int
    step: int


@rule(graph.conv)
def phases(op: Op) -> Op | None:
    """A convolution over an input spread by u, as u interleaved convolutions over the input itself."""
    up = attr_ints(op, "input_dilation")
    if not _is_nhwc(op) or all(u == 1 for u in up) or not isinstance(tensor_of(op.operands[1]).shape[-1], int):
        return None
    if any(s != 1 for s in attr_ints(op, "strides")):
        return _strided_after(op)
    low, dilation = attr_ints(op, "low"), attr_ints(op, "dilation")
    kernel = tensor_of(op.operands[1]).shape[:-2]
    dims = [_phases_along(k, *at) for k, at in zip(kernel, zip(up, low, dilation, strict=True), strict=True)]
    counts = [ceildiv(d, u) for d, u in zip(tensor_of(op.result).shape[1:-1], up, strict=True)]
    parts = [_phases_of(op, along, counts) for along in itertools.product(*dims)]
    for i in reversed(range(len(up))):  # the phases of the last dim vary fastest
        n = len(dims[i])
        rows = [parts[j : j + n] for j in range(0, len(parts), n)]
        parts = [graph.concat(*row, axis=2 + 2 * i).result if n > 1 else row[0] for row in rows]
    return _cut(parts[0], op)


def _phases_along(kernel: Dim, up: int, low: int, dilation: int) -> list[_Phases]:
    """All phases along one dim, neighbours that meet the same inputs together.

    Output u q + r reads the spread input at u q + r + k d - low, which is input q + (r + k d - low) / u
    when that is whole, and a zero otherwise.
    """
    assert isinstance(kernel, int)
    common = math.gcd(up, dilation)
    rows: list[tuple[list[int], int]] = []
    for r in range(up):
        taps = {k: at // up for k in range(kernel) if (at := r + k * dilation - low) % up == 0}
        rows.append((list(taps), next(iter(taps.values()), 0)))
    out: list[_Phases] = []
    for (count, first), same in itertools.groupby(rows, lambda row: (len(row[0]), row[1])):
        tables = [taps for taps, _ in same]
        out.append(_Phases(np.array(tables, np.int64).reshape(len(tables), count), first, dilation // common))
    return out


def _phases_of(op: Op, along: Sequence[_Phases], counts: list[Dim]) -> Value:
    """The outputs of some phases of each dim, [n, q, u, q, u, .., o]."""
    x, w = op.operands
    n, *size, _ = tensor_of(x).shape
    groups = attr_int(op, "groups", 1)
    out = static(tensor_of(w).shape[-1])
    ups = tuple(len(p.table) for p in along)
    if any(p.table.size == 0 for p in along):  # they meet no input
        elem, pairs = tensor_of(op.result).elem, zip(counts, ups, strict=True)
        return graph.full(shape=(n, *itertools.chain(*pairs), out), elem=elem, value=number(0, elem)).result
    low = tuple(-p.first for p in along)
    high = tuple(
        count + (p.table.shape[1] - 1) * p.step - d + p.first for count, p, d in zip(counts, along, size, strict=True)
    )
    weights = _phase_weights(w, along, groups)
    ones, steps = (1,) * len(along), tuple(p.step for p in along)
    inner = remade(op, x, weights, low=low, high=high, dilation=steps, input_dilation=ones)
    split = reshaped(conv_parts(inner).result, (n, *counts, groups, *ups, out // groups))
    first = 2 + len(along)
    pairs = [d for i in range(len(along)) for d in (1 + i, first + i)]
    moved = permuted(split, (0, *pairs, first - 1, first + len(along)))
    return reshaped(moved, (*tensor_of(moved).shape[:-2], out))


def _strided_after(op: Op) -> Op:
    """Every s-th output of the convolution with stride 1."""
    strides = attr_ints(op, "strides")
    dense = remade(op, *op.operands, strides=(1,) * len(strides))
    whole = phases[0].apply(dense)
    assert isinstance(whole, Op)
    shape = tensor_of(op.result).shape
    return graph.slice_(whole, starts=(0,) * len(shape), sizes=shape, steps=(1, *strides, 1), loc=op.loc)


def _phase_weights(w: Value, along: Sequence[_Phases], groups: int) -> Value:
    """[k.., c, o] to [t.., c, (g u.. o/g)]: groups outermost, so that they stay groups."""
    spatial = len(along)
    taps = w
    for i, p in enumerate(along):  # [u, t, u, t, .., c, o]
        taps = graph.take(taps, constant(p.table), axis=2 * i).result
    *shape, channels, out = tensor_of(taps).shape
    split = reshaped(taps, (*shape, channels, groups, static(out) // groups))
    rank = 2 * spatial + 3
    tap_dims, phase_dims = tuple(range(1, 2 * spatial, 2)), tuple(range(0, 2 * spatial, 2))
    moved = permuted(split, (*tap_dims, 2 * spatial, rank - 2, *phase_dims, rank - 1))
    columns = static(out) * math.prod(len(p.table) for p in along)
    return reshaped(moved, (*(shape[i] for i in tap_dims), channels, columns))


def _cut(y: Value, op: Op) -> Op:
    """[n, q, u, .., o] to [n, (q u).., o], cut to the result's size."""
    shape = tensor_of(op.result).shape
    n, *sizes, out = tensor_of(y).shape
    whole = graph.reshape(y, shape=(n, *(q * u for q, u in zip(sizes[::2], sizes[1::2], strict=True)), out))
    if tensor_of(whole.result).shape == shape:
        return whole
    return graph.slice_(whole, starts=(0,) * len(shape), sizes=shape, steps=(1,) * len(shape), loc=op.loc)


# padding


@rule(graph.conv)
def pad_conv(op: Op) -> Op | None:
    """conv(x) with padding = conv(pad x)."""
    zero = number(0, tensor_of(op.operands[0]).elem)
    made = _on_padded(op, (0,), zero) if _is_plain(op) else None
    return None if made is None else conv_parts(made)


@rule(graph.reduce_window)
def pad_window(op: Op) -> Op | None:
    """reduce_window(x) with padding = reduce_window(pad x), padded with what the reduction ignores."""
    elem = tensor_of(op.operands[0]).elem
    return _on_padded(op, (), number(neutral(str(op.attrs["kind"]), elem), elem))


def _on_padded(op: Op, beside: tuple[int, ...], value: float) -> Op | None:
    """An op on what is padded before, and not `beside` the dims that it moves over; None without padding."""
    low, high = attr_ints(op, "low"), attr_ints(op, "high")
    if not any((*low, *high)):
        return None
    x, *others = op.operands
    x = padded(x, (*beside, *low, *beside), (*beside, *high, *beside), value)
    none = (0,) * len(low)
    return remade(op, x, *others, low=none, high=none)


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
    groups = attr_int(op, "groups", 1)
    x, w = op.operands
    *kernel, channels, out = tensor_of(w).shape
    if not _is_plain(op) or any(k != 1 for k in kernel) or out == groups > 1:
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
    if size != kernel:
        return None
    inner: Dim = product((*kernel, channels))
    new = _product(op, reshaped(x, (n, inner)), reshaped(w, (inner, out)), "nc,co->no")
    return graph.reshape(new, shape=tensor_of(op.result).shape, loc=op.loc)


def _product(op: Op, x: Value, w: Value, spec: str) -> Op:
    """A contraction whose sums are made as those of the convolution `op`."""
    elem = {"elem": op.attrs["elem"]} if "elem" in op.attrs else {}
    return graph.contract.build((x, w), {"spec": spec, **elem}, loc=op.loc)


def _is_plain(op: Op) -> bool:
    """Channels last, not spread: behind `pad_conv`, padding of such a one is gone."""
    return _is_nhwc(op) and all(u == 1 for u in attr_ints(op, "input_dilation"))


RULES: tuple[Rule, ...] = (*lift_to_two_dims, *phases, *pad_conv, *pad_window, *one_by_one, *whole_window)


def conv_parts(op: Op) -> Op:
    """Apply the rules to a convolution that a rule made."""
    for r in RULES:
        if r.root is graph.conv and (got := r.apply(op)) is not None:
            assert isinstance(got, Op)
            return got
    return op


@passing("graph")
def decompose_conv(func: Func) -> Func:
    """Make padding, phases and contractions of convolutions explicit."""
    return dead_code(sweep(func, RULES)[0])
