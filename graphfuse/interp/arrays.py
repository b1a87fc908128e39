"""Arrays reduced, scanned, padded, multiplied: what the graph and block dialects have in common.

Owns how sums are rounded: in f32 at least, and once. It knows no op.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# numpy's stubs leave most results partly unknown

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from graphfuse.dialects.codes import HALVES, PANEL, SIDE, WORD_BITS, code_bit
from graphfuse.dialects.graph import parse_spec
from graphfuse.errors import InputError
from graphfuse.interp import elementwise as ew
from graphfuse.interp.elementwise import Array


def reduce_array(x: Array, axes: tuple[int, ...], kind: str, *, keepdims: bool = False) -> Array:
    """Combine along axes; sums and products accumulate in f32 at least, and round once."""
    if kind in ("any", "all"):
        return np.asarray(COMBINE[kind].reduce(x, axis=axes, keepdims=keepdims))
    wide = widened(x)
    if kind == "sum" and wide.dtype == np.float64:
        out = _sum_by_pairs(wide, axes)
        return np.expand_dims(out, axes) if keepdims else out
    # an extreme of nothing is what it begins with
    begin: Any = {"initial": identity(kind, x.dtype).astype(wide.dtype)} if kind in ("max", "min", "logaddexp") else {}
    out = COMBINE[kind].reduce(wide, axis=axes, dtype=wide.dtype, keepdims=keepdims, **begin)
    return narrowed(out, x.dtype)


def _sum_by_pairs(x: Array, axes: tuple[int, ...]) -> Array:
    """The sum that others are measured by: numpy adds by pairs only along rows, which elsewhere loses digits."""
    kept = [i for i in range(x.ndim) if i not in axes]
    rows = x.transpose(*kept, *axes).reshape(*(x.shape[i] for i in kept), math.prod(x.shape[i] for i in axes))
    return np.asarray(rows.sum(-1))


def widened(x: Array) -> Array:
    """In the type that sums are made in: f32 at least, i64 for integers of less than a byte."""
    elem = ew.elem_of(x.dtype)
    if elem.is_integer and elem.bits < 8:
        return x.astype(np.int64)
    return x.astype(ew.compute_dtype(x.dtype), copy=False)


def narrowed(x: Array, dtype: np.dtype[Any]) -> Array:
    """The inverse, rounded once."""
    elem = ew.elem_of(dtype)
    return ew.wrap(np.asarray(x), elem) if elem.is_integer else np.asarray(x).astype(dtype, copy=False)


def identity(kind: str, dtype: np.dtype[Any]) -> Array:
    """What a reduction begins with."""
    elem = ew.elem_of(dtype)
    match kind:
        case "max" | "logaddexp":
            return ew.extreme(elem, -1)
        case "min":
            return ew.extreme(elem, 1)
        case _:
            return ew.literal(1 if kind == "prod" else 0, elem)


def scan_array(x: Array, axis: int, kind: str, *, exclusive: bool) -> Array:
    """Each element combined with those before it; halves in f32, rounded at the end."""
    wide = widened(x)
    if exclusive and x.shape[axis]:
        first = np.full_like(wide[along(axis, slice(0, 1))], identity(kind, x.dtype).astype(wide.dtype))
        wide = np.concatenate([first, wide[along(axis, slice(0, -1))]], axis)
    return narrowed(COMBINE[kind].accumulate(wide, axis=axis, dtype=wide.dtype) if x.size else wide, x.dtype)


def along(axis: int, index: slice) -> tuple[slice, ...]:
    """The index that takes a slice of one axis."""
    return (*(slice(None),) * axis, index)


COMBINE: dict[str, np.ufunc] = {
    "sum": np.add, "add": np.add, "prod": np.multiply, "mul": np.multiply, "max": np.maximum, "min": np.minimum,
    "any": np.logical_or, "all": np.logical_and, "maxnum": np.fmax, "minnum": np.fmin,
    "logaddexp": np.logaddexp,
}  # fmt: skip
"""The function that a reduction, or a scatter, repeats."""


def pad_axis(x: Array, axis: int, low: int, high: int, fill: Array) -> Array:
    """Pad (or, when negative, crop) one dim."""
    x = x[along(axis, slice(max(-low, 0), max(x.shape[axis] - max(-high, 0), 0)))]
    low, high = max(low, 0), max(high, 0)
    if not low and not high:
        return x
    shape = list(x.shape)
    shape[axis] += low + high
    out = np.full(shape, fill, x.dtype)
    out[along(axis, slice(low, low + x.shape[axis]))] = x
    return out


def unpacked(words: Array, bits: int, parts: int, axis: int) -> Array:
    """The codes of words, which follow one another along an axis, as integers."""
    steps = [words >> code_bit(i, bits, parts) & ((1 << bits) - 1) for i in range(WORD_BITS // bits)]
    shape = (*words.shape[:axis], -1, *words.shape[axis + 1 :])
    return np.stack(steps, axis=axis + 1).reshape(shape)


def unpacked_lanes(words: Array, bits: int, axis: int) -> Array:
    """The same of words in the order of `block.dot_codes`."""
    codes, before, after = unpacked(words, bits, HALVES, axis), words.shape[:axis], words.shape[axis + 1 :]
    pairs = codes.reshape(*before, -1, SIDE, WORD_BITS // bits // HALVES, HALVES, *after)
    return pairs.swapaxes(axis + 1, axis + 2).reshape(codes.shape)


def lanes_in_rows(lines: Array) -> Array:
    """Words [.., 8 * m, 4, 4] of lines as [.., 4 * m, 32]."""
    *outer, many, lanes, columns = lines.shape
    groups = PANEL // columns
    parts = lines.reshape(*outer, many // groups, groups, lanes, columns)
    return parts.swapaxes(-3, -2).reshape(*outer, many // groups * lanes, PANEL)


def contract_arrays(a: Array, b: Array, spec: str) -> Array:
    """The batched dot product of two arrays of one element, by one matmul."""
    dtype = a.dtype
    lhs, rhs, out = parse_spec(spec)
    a, b = widened(a), widened(b)
    a, lhs = _sum_lonely(a, lhs, set(rhs) | set(out))
    b, rhs = _sum_lonely(b, rhs, set(lhs) | set(out))
    sizes = dict(zip(lhs + rhs, a.shape + b.shape, strict=True))
    if any(sizes[c] != n for c, n in zip(lhs, a.shape, strict=True)):
        raise InputError(f"dims differ: {a.shape} and {b.shape} for {spec}")
    batch = [c for c in lhs if c in rhs and c in out]
    inner = [c for c in lhs if c in rhs and c not in out]
    rows = [c for c in lhs if c not in rhs]
    cols = [c for c in rhs if c not in lhs]

    def matrix(x: Array, labels: str, first: list[str], second: list[str]) -> Array:
        order = [labels.index(c) for c in (*batch, *first, *second)]
        shape = [math.prod(sizes[c] for c in group) for group in (batch, first, second)]
        return x.transpose(order).reshape(shape)

    product = _matmul(matrix(a, lhs, rows, inner), matrix(b, rhs, inner, cols))
    labels = [*batch, *rows, *cols]
    product = product.reshape([sizes[c] for c in labels])
    return narrowed(product.transpose([labels.index(c) for c in out]).copy(), dtype)


def _sum_lonely(x: Array, labels: str, needed: set[str]) -> tuple[Array, str]:
    axes = tuple(i for i, c in enumerate(labels) if c not in needed)
    return (x.sum(axis=axes, dtype=x.dtype) if axes else x), "".join(c for c in labels if c in needed)


def _matmul(a: Array, b: Array) -> Array:
    """Batched matrix product; integers go through exact f64 products where they fit, which BLAS makes fast."""
    if a.dtype.kind in "iu" and a.size and b.size:
        bound = a.shape[-1] * float(np.max(np.abs(a.astype(np.float64)))) * float(np.max(np.abs(b.astype(np.float64))))
        if bound < 2.0**53:
            product = np.matmul(a.astype(np.float64), b.astype(np.float64))
            return product.astype(np.int64).astype(a.dtype)
    if a.dtype == np.bool_:
        return np.matmul(a.astype(np.float32), b.astype(np.float32)) > 0
    return np.matmul(a, b)


def correlate(x: Array, w: Array, strides: tuple[int, ...], dilation: tuple[int, ...], groups: int) -> Array:
    """[N, C, S...] with [O, C/groups, K...], already padded."""
    n, channels, *size = x.shape
    out_channels, per_group, *kernel = w.shape
    if channels != per_group * groups:
        raise InputError(f"input has {channels} channels, the weight expects {per_group} x {groups} groups")
    reach = [dl * (k - 1) + 1 for k, dl in zip(kernel, dilation, strict=True)]
    result = [(d - r) // s + 1 for d, r, s in zip(size, reach, strides, strict=True)]
    if any(r <= 0 for r in result):
        raise InputError(f"a window of {reach} does not fit an input of {size}")
    if per_group == 1 and out_channels == groups:
        return _depthwise(x, w, strides, dilation, result)
    out = np.empty((n, out_channels, *result), x.dtype)
    weights = w.reshape(groups, out_channels // groups, per_group * math.prod(kernel))
    axes = tuple(range(1, x.ndim - 1))
    steps = (slice(None), *(slice(None, None, step) for step in (*strides, *dilation)))
    for i in range(n):
        windows = sliding_window_view(x[i], reach, axis=axes)[steps]
        order = (0, *range(1 + len(kernel), 1 + 2 * len(kernel)), *range(1, 1 + len(kernel)))
        columns = windows.transpose(order).reshape(groups, per_group * math.prod(kernel), math.prod(result))
        out[i] = _matmul(weights, columns).reshape(out_channels, *result)
    return out


def _depthwise(x: Array, w: Array, strides: tuple[int, ...], dilation: tuple[int, ...], result: list[int]) -> Array:
    out = np.zeros((*x.shape[:2], *result), x.dtype)
    taps = w.reshape(w.shape[0], *w.shape[2:])
    for tap in np.ndindex(*taps.shape[1:]):
        dims = zip(tap, dilation, result, strides, strict=True)
        window = tuple(slice(t * dl, t * dl + (r - 1) * s + 1, s) for t, dl, r, s in dims)
        factors = taps[(slice(None), *tap)].reshape(w.shape[0], *[1] * len(result))
        out += x[(slice(None), slice(None), *window)] * factors
    return out
