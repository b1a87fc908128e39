"""Rewrites 3x3 stride-1 convolutions as Winograd's F(2x2, 3x3): 16 products where the direct form needs 36.

    y = A' [(G g G') * (B' d B)] A        for each 4x4 input tile d and its 2x2 output tile y

    conv(x, w)  ->  v_ab = sums of x at stride 2;  m = contract(stack(v), u)  [16 batched];  y = sums of m, interleaved

Requires: channels-last, unpadded, constant weights, static channels, and no channel that leaves a tap out, as those of
a causal convolution do: what lies under it would take part in the sums that make the outputs. Ensures: f32 results that
differ by rounding (the transforms have coefficients 0, +-1 and 1/2; the error stays within a small multiple of the
direct form's). Applies only where there are enough tiles and channels to pay for the transforms. Source: A. Lavin,
S. Gray, "Fast Algorithms for Convolutional Neural Networks", 2015.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from graphfuse.dialects import graph
from graphfuse.ir.core import Func, Op, Value, dims_of
from graphfuse.ir.dense import Dense
from graphfuse.ir.passes import passing
from graphfuse.ir.rewrite import Replacement, dead_code, first_of, given, rebuild, rule_with
from graphfuse.ir.types import F32, Tensor
from graphfuse.symbolic import Dim, Ranges, bounds, ceildiv

MIN_CHANNELS = 32
"""Below, transforming tiles costs more than the products saved."""
MIN_TILES = 32
"""Below, the weights (16/9 as many) cost more to read than the products saved."""

_INPUT = ((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1))
_OUTPUT = ((1, 1, 1, 0), (0, 1, -1, -1))
_KERNEL = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]])


@rule_with(graph.conv)
def minimal_filtering(op: Op, ranges: Ranges) -> Replacement | None:
    """conv(x, w) = A' [(G w G') * (B' x B)] A, tile by tile."""
    if not _fits(op, ranges):
        return None
    x, w = op.operands
    weight = w.op
    assert weight is not None
    n, height, width, _ = _shape(op.result)
    rows, columns = ceildiv(height, 2), ceildiv(width, 2)
    x = _padded(x, 2 * rows + 2, 2 * columns + 2)
    tiles = _stack([_input_tile(x, rows, columns, a, b) for a in range(4) for b in range(4)])
    kernel = graph.constant(value=_transformed(weight), loc=op.loc)
    products = graph.contract(tiles, kernel, spec="anijc,aco->anijo").result
    phases = [_output_phase(products, r, s) for r in range(2) for s in range(2)]
    return _interleave(phases, n, height, width)


@passing("graph")
def winograd(func: Func) -> Func:
    """Rewrite every convolution that gains."""
    return dead_code(rebuild(func, first_of(given(minimal_filtering, func.ranges))))


def _fits(op: Op, ranges: Ranges) -> bool:
    w = op.operands[1]
    t = op.types[0]
    assert isinstance(t, Tensor)
    if t.elem != F32 or op.attrs.get("layout") != "nhwc" or op.attrs.get("groups", 1) != 1 or t.rank != 4:
        return False
    ones = (*dims_of(op.attrs["strides"]), *dims_of(op.attrs["dilation"]), *dims_of(op.attrs["input_dilation"]))
    zeros = (*dims_of(op.attrs["low"]), *dims_of(op.attrs["high"]))
    if any(i != 1 for i in ones) or any(zeros) or _shape(w)[:2] != (3, 3):
        return False
    if w.op is None or w.op.kind is not graph.constant:
        return False
    channels = _shape(w)[2:]
    if _is_masked(w.op):
        return False
    if not all(isinstance(c, int) and c >= MIN_CHANNELS for c in channels):
        return False
    return _has_tiles(t, ranges)


def _has_tiles(result: Tensor, ranges: Ranges) -> bool:
    """Whether there are enough for the transform to pay."""
    least = [bounds(d, ranges)[0] for d in result.shape[:3]]
    return least[0] * (least[1] // 2) * (least[2] // 2) >= MIN_TILES


def _is_masked(weight: Op) -> bool:
    """Whether some channel, of the input or of the output, has weights at some taps and none at others."""
    dense = weight.attrs["value"]
    assert isinstance(dense, Dense)
    used = dense.array != 0
    return any(bool((some.any((0, 1)) & ~some.all((0, 1))).any()) for some in (used.any(2), used.any(3)))


def _padded(x: Value, height: Dim, width: Dim) -> Value:
    """x grown with zeros at the end to cover whole tiles; grows a padding that is there already."""
    shape = _shape(x)
    more = (0, height - shape[1], width - shape[2], 0)
    if not any(m != 0 for m in more):
        return x
    inner = x.op
    if inner is not None and inner.kind is graph.pad and _pads_with_zeros(inner):
        high = tuple(h + m for h, m in zip(dims_of(inner.attrs["high"]), more, strict=True))
        return graph.pad(inner.operands[0], low=inner.attrs["low"], high=high, value=0.0, mode="constant").result
    return graph.pad(x, low=(0, 0, 0, 0), high=more, value=0.0, mode="constant").result


def _pads_with_zeros(pad: Op) -> bool:
    return pad.attrs.get("mode", "constant") == "constant" and pad.attrs.get("value", 0) == 0


def _input_tile(x: Value, rows: Dim, columns: Dim, a: int, b: int) -> Value:
    """Element (a, b) of every transformed input tile, [1, n, rows, columns, channels]."""
    n, _, _, channels = _shape(x)

    def at(i: int, j: int) -> Value:
        return graph.slice_(x, starts=(0, i, j, 0), sizes=(n, rows, columns, channels), steps=(1, 2, 2, 1)).result

    def row(i: int) -> Value:
        return _sum({j: c for j, c in enumerate(_INPUT[b]) if c}, lambda j: at(i, j))

    total = _sum({i: c for i, c in enumerate(_INPUT[a]) if c}, row)
    return graph.reshape(total, shape=(1, n, rows, columns, channels)).result


def _output_phase(products: Value, r: int, s: int) -> Value:
    """Output element (r, s) of every tile, [n, rows, columns, channels]."""
    _, *shape = _shape(products)

    @functools.cache
    def at(i: int, j: int) -> Value:
        zeros, ones = (0,) * len(shape), (1,) * (len(shape) + 1)
        part = graph.slice_(products, starts=(4 * i + j, *zeros), sizes=(1, *shape), steps=ones)
        return graph.reshape(part, shape=tuple(shape)).result

    def row(i: int) -> Value:
        return _sum({j: c for j, c in enumerate(_OUTPUT[s]) if c}, lambda j: at(i, j))

    return _sum({i: c for i, c in enumerate(_OUTPUT[r]) if c}, row)


def _sum(terms: Mapping[int, int], value: Callable[[int], Value]) -> Value:
    """The sum of `value(i)` with signs; at least one sign is positive."""
    order = sorted(terms, key=lambda i: -terms[i])
    total = value(order[0])
    for i in order[1:]:
        kind = graph.add if terms[i] > 0 else graph.sub
        total = kind(total, value(i)).result
    return total


def _stack(parts: Sequence[Value]) -> Value:
    return graph.concat(*parts, axis=0).result


def _interleave(phases: Sequence[Value], n: Dim, height: Dim, width: Dim) -> Value:
    """[n, rows, columns, c] for each (r, s) to [n, height, width, c]; the surplus of whole tiles is cut off."""
    _, rows, columns, channels = _shape(phases[0])
    cells = [graph.reshape(p, shape=(n, rows, 1, columns, 1, channels)).result for p in phases]
    lines = [graph.concat(cells[2 * r], cells[2 * r + 1], axis=4) for r in range(2)]
    image = graph.reshape(graph.concat(*lines, axis=2), shape=(n, 2 * rows, 2 * columns, channels))
    if 2 * rows == height and 2 * columns == width:
        return image.result
    return graph.slice_(image, starts=(0, 0, 0, 0), sizes=(n, height, width, channels), steps=(1, 1, 1, 1)).result


def _transformed(weight: Op) -> Dense:
    """G g G' for every pair of channels, as [16, in, out]; computed in f64, rounded once."""
    dense = weight.attrs["value"]
    assert isinstance(dense, Dense)
    g = dense.array.astype(np.float64)
    u = np.einsum("ai,ijco,bj->abco", _KERNEL, g, _KERNEL)
    return Dense(np.ascontiguousarray(u.reshape(16, *g.shape[2:]).astype(np.float32)))


def _shape(value: Value) -> tuple[Dim, ...]:
    assert isinstance(value.type, Tensor)
    return value.type.shape
