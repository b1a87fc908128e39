"""Resize: per axis, an index map (nearest) or a weighted sum of neighbours (linear, cubic, antialiased).

With numbers for sizes the indices and weights are constants, computed in f64; over symbolic dims they are graph
expressions of an iota.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from graphfuse.dialects import graph
from graphfuse.dialects.graph import ELEMENTWISE
from graphfuse.frontends.emit import Emitter, elem_of, shape_of, tensor
from graphfuse.frontends.host_values import Array, Ratio, to_ratio
from graphfuse.frontends.onnx.node import INWARDS, Node, onnx_op
from graphfuse.ir.core import Value
from graphfuse.ir.types import F32, F64, I64
from graphfuse.symbolic import Dim


@dataclass(frozen=True, slots=True)
class Axis:
    """How one axis is resized. `scale` is None when it follows from the two sizes."""

    index: int
    size: Dim
    out: Dim
    scale: float | Ratio | None
    roi: tuple[float, float]

    @property
    def is_static(self) -> bool:
        """Whether its sizes and scale are numbers."""
        return isinstance(self.size, int) and isinstance(self.out, int) and not isinstance(self.scale, Ratio)

    @property
    def numbers(self) -> tuple[int, int, float]:
        """Size, output size and scale of a static axis."""
        assert isinstance(self.size, int), "asked for static axes only"
        assert isinstance(self.out, int), "asked for static axes only"
        assert not isinstance(self.scale, Ratio), "asked for static axes only"
        return self.size, self.out, self.out / self.size if self.scale is None else self.scale


@onnx_op("Resize")
def resize(e: Emitter, node: Node) -> Value:
    """Sample a tensor on another grid."""
    x = node.value(e, 0)
    elem = elem_of(x)
    mode = node.attr_str("mode", "nearest")
    if mode not in ("nearest", "linear", "cubic"):
        raise node.error(f"mode must be nearest, linear or cubic, got {mode}")
    axes = _axes(node, x)
    if mode == "nearest":
        for axis in axes:
            x = _nearest(e, node, x, axis)
        return _fill_outside(e, node, x, axes)
    wide = x if elem in (F32, F64) else e.cast(x, F32)
    for axis in axes:
        wide = _interpolated(e, node, wide, axis, mode)
    out = _fill_outside(e, node, wide, axes)
    if elem.is_integer:  # as ONNX Runtime: truncation after clamping to the type's range
        return e.cast(out, elem, saturate=True)
    return e.cast(out, elem)


def _axes(node: Node, x: Value) -> list[Axis]:
    """The axes whose size or sampling changes."""
    rank, shape = tensor(x).rank, shape_of(x)
    given = node.axes(node.attr_ints("axes", range(rank)), rank)
    roi = [float(v) for v in node.constant(1, "the region")] if node.has(1) else []
    roi = roi if len(roi) == 2 * len(given) else [0.0] * len(given) + [1.0] * len(given)
    scales = list(node.numbers(2, "the scales")) if node.has(2) else []
    sizes = list(node.dims(3, "the sizes")) if node.has(3) else []
    if len(scales or sizes) != len(given):
        raise node.error(f"expected {len(given)} scales or sizes, got {len(scales or sizes)}")
    if sizes:
        outs, factors = _from_sizes(node, sizes, [shape[a] for a in given])
    else:
        factors = [v if isinstance(v, Ratio) else float(v) for v in scales]
        if any(isinstance(f, float) and not 0 < f < math.inf for f in factors):
            raise node.error(f"expected positive scales, found {factors}")
        crop = node.attr_str("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize"
        outs = [
            _scaled(shape[a], f, (roi[i + len(given)] - roi[i]) if crop else 1.0)
            for i, (a, f) in enumerate(zip(given, factors, strict=True))
        ]
    ends = zip(roi[: len(given)], roi[len(given) :], strict=True)
    out = [Axis(a, shape[a], o, f, r) for a, o, f, r in zip(given, outs, factors, ends, strict=True)]
    crop = node.attr_str("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize"
    return [a for a in out if a.size != a.out or (crop and a.roi != (0.0, 1.0)) or a.scale not in (None, 1.0)]


def _scaled(size: Dim, factor: float | Ratio, part: float) -> Dim:
    """floor(size * scale)."""
    if isinstance(size, int) and isinstance(factor, float):
        return math.floor(size * factor * part)
    return (to_ratio(size) * to_ratio(factor) * to_ratio(part)).floor()


def _from_sizes(node: Node, sizes: list[Dim], shape: list[Dim]) -> tuple[list[Dim], list[float | Ratio | None]]:
    """Output sizes, which a keep_aspect_ratio_policy bends to one common scale."""
    policy = node.attr_str("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return sizes, [None] * len(sizes)
    known = [(s, d) for s, d in zip(sizes, shape, strict=True) if isinstance(s, int) and isinstance(d, int)]
    if len(known) < len(sizes):
        raise node.unknown_dim(f"keep_aspect_ratio_policy {policy} needs static dims")
    scale = (min if policy == "not_larger" else max)(s / d for s, d in known)
    return [math.floor(scale * d + 0.5) for _, d in known], [scale] * len(sizes)


# coordinates: where output position i lies in the input


def _coordinates(node: Node, axis: Axis) -> Array:
    """Of every output position of a static axis, in f64."""
    size, out, scale = axis.numbers
    node.check_table("the positions", out)
    i = np.arange(out, dtype=np.float64)
    # scales given as f32 make the coordinates; the nominal output length is size * scale, before the floor
    match node.attr_str("coordinate_transformation_mode", "half_pixel"):
        case "half_pixel":
            return (i + 0.5) / scale - 0.5
        case "half_pixel_symmetric":
            adjust = out / (size * scale)
            return size / 2 * (1 - adjust) + (i + 0.5) / scale - 0.5
        case "pytorch_half_pixel":
            return (i + 0.5) / scale - 0.5 if out > 1 else np.zeros(out)
        case "align_corners":
            length = size * scale
            return i * (size - 1) / (length - 1) if length != 1 else np.zeros(out)
        case "asymmetric":
            return i / scale
        case "tf_crop_and_resize":
            start, end = axis.roi
            if out > 1:
                return start * (size - 1) + i * (end - start) * (size - 1) / (out - 1)
            return np.full(out, 0.5 * (start + end) * (size - 1))
        case other:
            raise node.error(f"unknown coordinate_transformation_mode {other}")


def _symbolic_coordinates(e: Emitter, node: Node, axis: Axis) -> Value:
    """The same as a graph expression, in f64."""
    i = e.iota((axis.out,), 0, F64)
    size, out = e.full((), F64, axis.size), e.full((), F64, axis.out)
    scale = e.map(graph.div, out, size) if axis.scale is None else e.full((), F64, axis.scale)
    shifted = e.map(graph.sub, e.map(graph.div, e.map(graph.add, i, 0.5), scale), 0.5)
    match node.attr_str("coordinate_transformation_mode", "half_pixel"):
        case "half_pixel":
            return shifted
        case "half_pixel_symmetric":
            adjust = e.map(graph.div, out, e.map(graph.mul, size, scale))
            offset = e.map(graph.mul, e.map(graph.sub, adjust, 1.0), e.map(graph.mul, size, 0.5))
            return e.map(graph.sub, shifted, offset)
        case "pytorch_half_pixel":
            return e.select(e.map(graph.gt, out, 1.0), shifted, 0.0)
        case "align_corners":
            length = e.map(graph.mul, size, scale)
            last = e.map(graph.max_, e.map(graph.sub, length, 1.0), 1e-300)
            grid = e.map(graph.div, e.map(graph.mul, i, e.map(graph.sub, size, 1.0)), last)
            return e.select(e.map(graph.eq, length, 1.0), 0.0, grid)
        case "asymmetric":
            return e.map(graph.div, i, scale)
        case other:
            raise node.unknown_dim(f"{other} over symbolic dims is not supported")


# nearest


def _nearest(e: Emitter, node: Node, x: Value, axis: Axis) -> Value:
    mode = _nearest_mode(node, axis)
    if not axis.is_static:
        at = _round_symbolic(e, node, _symbolic_coordinates(e, node, axis), mode)
        last = e.full((), I64, axis.size - 1)
        at = e.map(graph.min_, e.map(graph.max_, e.cast(at, I64), 0), last)
        return e(graph.take, x, at, axis=axis.index)
    size, _, _ = axis.numbers
    at = np.clip(_round(node, _coordinates(node, axis), mode), 0, size - 1).astype(np.int64)
    if len(at) and size and len(at) % size == 0:
        times = len(at) // size
        if (at == np.arange(len(at)) // times).all():  # every element `times` times: a movement
            shape = shape_of(x)
            thin = e.unsqueeze(x, axis.index + 1)
            wide = e.broadcast(thin, (*shape[: axis.index + 1], times, *shape[axis.index + 1 :]))
            return e.reshape(wide, (*shape[: axis.index], len(at), *shape[axis.index + 1 :]))
    return e(graph.take, x, e.constant(at), axis=axis.index)


def _nearest_mode(node: Node, axis: Axis) -> str:
    mode = node.attr_str("nearest_mode", "round_prefer_floor")
    if mode != INWARDS:
        return mode
    if isinstance(axis.scale, Ratio):
        raise node.unknown_dim("scales over symbolic dims need opset 11")
    assert axis.scale is not None, "before opset 11 there are no sizes"
    return "ceil" if axis.scale < 1 else "floor"


def _round(node: Node, at: Array, mode: str) -> Array:
    match mode:
        case "floor":
            return np.floor(at)
        case "ceil":
            return np.ceil(at)
        case "round_prefer_floor":
            return np.ceil(at - 0.5)
        case "round_prefer_ceil":
            return np.floor(at + 0.5)
        case _:
            raise node.error(f"unknown nearest_mode {mode}")


def _round_symbolic(e: Emitter, node: Node, at: Value, mode: str) -> Value:
    floor, ceil = ELEMENTWISE["floor"], ELEMENTWISE["ceil"]
    match mode:
        case "floor":
            return e.map(floor, at)
        case "ceil":
            return e.map(ceil, at)
        case "round_prefer_floor":
            return e.map(ceil, e.map(graph.sub, at, 0.5))
        case "round_prefer_ceil":
            return e.map(floor, e.map(graph.add, at, 0.5))
        case _:
            raise node.error(f"unknown nearest_mode {mode}")


# linear and cubic


def _interpolated(e: Emitter, node: Node, x: Value, axis: Axis, mode: str) -> Value:
    """A weighted sum of taps: for a static axis two or four takes, or one matrix product when antialiased."""
    if not axis.is_static:
        return _interpolated_symbolic(e, node, x, axis, mode)
    size, _, scale = axis.numbers
    at = _coordinates(node, axis)
    if node.attr_int("antialias", 0) and scale < 1:
        return _antialiased(e, node, x, axis, at, mode)
    base = np.floor(at)
    fraction = at - base
    taps = range(2) if mode == "linear" else range(-1, 3)
    weights = [_linear(fraction - t) if mode == "linear" else _cubic(fraction - t, _a(node)) for t in taps]
    if mode == "cubic" and node.attr_int("exclude_outside", 0):
        inside = [(base + t >= 0) & (base + t < size) for t in taps]
        weights = [np.where(ok, w, 0.0) for ok, w in zip(inside, weights, strict=True)]
        total = np.sum(weights, axis=0)
        weights = [w / total for w in weights]
    out: Value | None = None
    for t, w in zip(taps, weights, strict=True):
        index = np.clip(base + t, 0, size - 1).astype(np.int64)
        out = _add_tap(e, out, e(graph.take, x, e.constant(index), axis=axis.index), e.constant(w), axis)
    assert out is not None
    return out


def _add_tap(e: Emitter, total: Value | None, taken: Value, weight: Value, axis: Axis) -> Value:
    after = tensor(taken).rank - axis.index - 1
    weight = e.reshape(e.cast(weight, elem_of(taken)), (axis.out, *(1,) * after))
    term = e.map(graph.mul, taken, weight)
    return term if total is None else e.map(graph.add, total, term)


def _a(node: Node) -> float:
    return node.attr_float("cubic_coeff_a", -0.75)


def _linear(distance: Array) -> Array:
    return np.maximum(0.0, 1.0 - np.abs(distance))


def _cubic(distance: Array, a: float) -> Array:
    """Keys' kernel."""
    d = np.abs(distance)
    near = (a + 2) * d**3 - (a + 3) * d**2 + 1
    far = a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


def _antialiased(e: Emitter, node: Node, x: Value, axis: Axis, at: Array, mode: str) -> Value:
    """Downsampling with the kernel stretched over every input it covers: a matrix of weights."""
    size, out, scale = axis.numbers
    node.check_table("the weights", out, size)
    radius = (1 if mode == "linear" else 2) / scale
    matrix = np.zeros((out, size))
    # the kernel's support is cut off at whole taps from the base position, as the reference does it
    reach = math.floor(-radius) + 1
    for o, c in enumerate(at):
        taps = np.arange(reach, 2 - reach) + math.floor(c)
        distance = (c - taps) * scale
        w = _linear(distance) if mode == "linear" else _cubic(distance, _a(node))
        if node.attr_int("exclude_outside", 0):
            w = np.where((taps >= 0) & (taps < size), w, 0.0)
        np.add.at(matrix[o], np.clip(taps, 0, size - 1), w / w.sum())
    letters = "abcdefgh"[: tensor(x).rank]
    if len(letters) < tensor(x).rank:
        raise node.unsupported(f"antialiasing of {x.type} has too many dims")
    spec = f"{letters},z{letters[axis.index]}->{letters.replace(letters[axis.index], 'z')}"
    return e.contract(x, e.cast(e.constant(matrix), elem_of(x)), spec)


def _interpolated_symbolic(e: Emitter, node: Node, x: Value, axis: Axis, mode: str) -> Value:
    if node.attr_int("antialias", 0):
        raise node.unknown_dim("antialias needs static dims")
    at = _symbolic_coordinates(e, node, axis)
    base = e.map(ELEMENTWISE["floor"], at)
    fraction = e.map(graph.sub, at, base)
    last = e.full((), I64, axis.size - 1)
    taps: list[tuple[Value, Value]] = []
    for t in range(2) if mode == "linear" else range(-1, 3):
        at_tap = e.cast(e.map(graph.add, base, float(t)), I64)
        index = e.map(graph.min_, e.map(graph.max_, at_tap, 0), last)
        distance = e.map(graph.abs_, e.map(graph.sub, fraction, float(t)))
        weight = _linear_symbolic(e, distance) if mode == "linear" else _cubic_symbolic(e, distance, t, _a(node))
        if mode == "cubic" and node.attr_int("exclude_outside", 0):
            weight = e.select(e.map(graph.eq, at_tap, index), weight, 0.0)
        taps.append((index, weight))
    if mode == "cubic" and node.attr_int("exclude_outside", 0):
        total = functools.reduce(lambda a, b: e.map(graph.add, a, b), (w for _, w in taps))
        taps = [(index, e.map(graph.div, w, total)) for index, w in taps]
    out: Value | None = None
    for index, weight in taps:
        out = _add_tap(e, out, e(graph.take, x, index, axis=axis.index), weight, axis)
    assert out is not None
    return out


def _linear_symbolic(e: Emitter, distance: Value) -> Value:
    return e.map(graph.neg, e.map(graph.sub, distance, 1.0))


def _cubic_symbolic(e: Emitter, d: Value, tap: int, a: float) -> Value:
    """Keys' kernel by Horner's rule; taps 0 and 1 are near, the others far."""
    near = (a + 2, -(a + 3), 0.0, 1.0)
    far = (a, -5 * a, 8 * a, -4 * a)
    first, *rest = near if tap in (0, 1) else far
    out = e.map(graph.mul, d, first)
    for i, c in enumerate(rest):
        out = e.map(graph.add, out, c)
        out = e.map(graph.mul, out, d) if i < len(rest) - 1 else out
    return out


def _fill_outside(e: Emitter, node: Node, x: Value, axes: list[Axis]) -> Value:
    """tf_crop_and_resize puts the extrapolation value where a coordinate leaves the input."""
    if node.attr_str("coordinate_transformation_mode", "half_pixel") != "tf_crop_and_resize":
        return x
    fill = node.attr_float("extrapolation_value", 0.0)
    for axis in axes:
        if not axis.is_static:
            raise node.unknown_dim("tf_crop_and_resize over symbolic dims is not supported")
        at = _coordinates(node, axis)
        outside = (at < 0) | (at > axis.numbers[0] - 1)
        if outside.any():
            mask = e.constant(outside.reshape(-1, *(1,) * (tensor(x).rank - axis.index - 1)))
            x = e.select(mask, fill if elem_of(x).is_float else int(fill), x)
    return x
