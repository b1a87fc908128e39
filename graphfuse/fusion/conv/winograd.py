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
from collections.abc import Callable, Sequence

import numpy as np

from graphfuse.dialects import graph
from graphfuse.fusion.simplify.fold_constants import Array, array_of
from graphfuse.fusion.simplify.simplify_movement import grown
from graphfuse.ir.core import Func, Op, Value, attr_dims, tensor_of
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
    n, height, width, _ = tensor_of(op.result).shape
    rows, columns = ceildiv(height, 2), ceildiv(width, 2)
    x = _padded(x, 2 * rows + 2, 2 * columns + 2)
    tiles = graph.concat(*(_input_tile(x, rows, columns, a, b) for a in range(4) for b in range(4)), axis=0)
    kernel = graph.constant(value=_transformed(w), loc=op.loc)
    products = graph.contract(tiles, kernel, spec="anijc,aco->anijo").result
    phases = [_output_phase(products, r, s) for r in range(2) for s in range(2)]
    return _interleave(phases, n, height, width)


@passing("graph")
def winograd(func: Func) -> Func:
    """Rewrite every convolution that gains."""
    return dead_code(rebuild(func, first_of(given(minimal_filtering, func.ranges))))


def _fits(op: Op, ranges: Ranges) -> bool:
    t, w = tensor_of(op.result), tensor_of(op.operands[1])
    if t.elem != F32 or op.attrs.get("layout") != "nhwc" or op.attrs.get("groups", 1) != 1 or t.rank != 4:
        return False
    ones = (*attr_dims(op, "strides"), *attr_dims(op, "dilation"), *attr_dims(op, "input_dilation"))
    zeros = (*attr_dims(op, "low"), *attr_dims(op, "high"))
    if any(i != 1 for i in ones) or any(zeros) or w.shape[:2] != (3, 3):
        return False
    if (weights := array_of(op.operands[1])) is None or _is_masked(weights):
        return False
    return all(isinstance(c, int) and c >= MIN_CHANNELS for c in w.shape[2:]) and _has_tiles(t, ranges)


def _has_tiles(result: Tensor, ranges: Ranges) -> bool:
    """Whether there are enough for the transform to pay."""
    least = [bounds(d, ranges)[0] for d in result.shape[:3]]
    return least[0] * (least[1] // 2) * (least[2] // 2) >= MIN_TILES


def _is_masked(weights: Array) -> bool:
    """Whether some channel, of the input or of the output, has weights at some taps and none at others."""
    used = weights != 0
    return any(bool((some.any((0, 1)) & ~some.all((0, 1))).any()) for some in (used.any(2), used.any(3)))


def _padded(x: Value, height: Dim, width: Dim) -> Value:
    """x grown with zeros at the end to cover whole tiles; grows a padding that is there already."""
    shape = tensor_of(x).shape
    more = (0, height - shape[1], width - shape[2], 0)
    return grown(x, more) if any(m != 0 for m in more) else x


def _input_tile(x: Value, rows: Dim, columns: Dim, a: int, b: int) -> Value:
    """Element (a, b) of every transformed input tile, [1, n, rows, columns, channels]."""
    n, _, _, channels = tensor_of(x).shape

    def at(i: int, j: int) -> Value:
        return graph.slice_(x, starts=(0, i, j, 0), sizes=(n, rows, columns, channels), steps=(1, 2, 2, 1)).result

    return graph.reshape(_mixed(_INPUT[a], _INPUT[b], at), shape=(1, n, rows, columns, channels)).result


def _output_phase(products: Value, r: int, s: int) -> Value:
    """Output element (r, s) of every tile, [n, rows, columns, channels]."""
    _, *shape = tensor_of(products).shape

    @functools.cache
    def at(i: int, j: int) -> Value:
        zeros, ones = (0,) * len(shape), (1,) * (len(shape) + 1)
        part = graph.slice_(products, starts=(4 * i + j, *zeros), sizes=(1, *shape), steps=ones)
        return graph.reshape(part, shape=tuple(shape)).result

    return _mixed(_OUTPUT[r], _OUTPUT[s], at)


def _mixed(rows: Sequence[int], columns: Sequence[int], at: Callable[[int, int], Value]) -> Value:
    """The sum of `at(i, j)` with the product of the signs of row i and column j."""
    return _sum(rows, lambda i: _sum(columns, lambda j: at(i, j)))


def _sum(signs: Sequence[int], value: Callable[[int], Value]) -> Value:
    """The sum of `value(i)` with signs, 0 leaving it out; at least one sign is positive."""
    first, *order = sorted((i for i, sign in enumerate(signs) if sign), key=lambda i: -signs[i])
    total = value(first)
    for i in order:
        kind = graph.add if signs[i] > 0 else graph.sub
        total = kind(total, value(i)).result
    return total


def _interleave(phases: Sequence[Value], n: Dim, height: Dim, width: Dim) -> Value:
    """[n, rows, columns, c] for each (r, s) to [n, height, width, c]; the surplus of whole tiles is cut off."""
    _, rows, columns, channels = tensor_of(phases[0]).shape
    cells = [graph.reshape(p, shape=(n, rows, 1, columns, 1, channels)).result for p in phases]
    lines = [graph.concat(cells[2 * r], cells[2 * r + 1], axis=4) for r in range(2)]
    image = graph.reshape(graph.concat(*lines, axis=2), shape=(n, 2 * rows, 2 * columns, channels))
    if 2 * rows == height and 2 * columns == width:
        return image.result
    return graph.slice_(image, starts=(0, 0, 0, 0), sizes=(n, height, width, channels), steps=(1, 1, 1, 1)).result


def _transformed(weight: Value) -> Dense:
    """G g G' for every pair of channels, as [16, in, out]; computed in f64, rounded once."""
    array = array_of(weight)
    assert array is not None, "_fits asks first"
    g = array.astype(np.float64)
    u = np.einsum("ai,ijco,bj->abco", _KERNEL, g, _KERNEL)
    return Dense(np.ascontiguousarray(u.reshape(16, *g.shape[2:]).astype(np.float32)))
