"""Resize: per axis, an index map (nearest) or a weighted sum of neighbours (linear, cubic, antialiased).

With numbers for sizes the indices and weights are constants, computed in f64; over symbolic dims they are graph
expressions of an iota, by the same formulas.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphfuse.dialects import graph
from graphfuse.frontends.emit import Emitter, elem_of, shape_of, tensor
from graphfuse.frontends.host_values import Array, Ratio, to_ratio
from graphfuse.frontends.onnx.node import INWARDS, Node, onnx_op
from graphfuse.frontends.stairs import moved
from graphfuse.frontends.terms import Term, absolute, ceil, equal, floor, maximum, minimum, where
from graphfuse.ir.core import Value
from graphfuse.ir.types import F32, F64, I64
from graphfuse.symbolic import Dim, static


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
        assert not isinstance(self.scale, Ratio), "asked for static axes only"
        size, out = static(self.size), static(self.out)
        return size, out, out / size if self.scale is None else self.scale


@onnx_op("Resize")
def resize(e: Emitter, node: Node, x: Value) -> Value:
    """Sample a tensor on another grid."""
    elem = elem_of(x)
    mode = node.attr_choice("mode", "nearest", "linear", "cubic")
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
    crop = node.attr_str("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize"
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
        outs = [
            _scaled(shape[a], f, (roi[i + len(given)] - roi[i]) if crop else 1.0)
            for i, (a, f) in enumerate(zip(given, factors, strict=True))
        ]
    ends = zip(roi[: len(given)], roi[len(given) :], strict=True)
    out = [Axis(a, shape[a], o, f, r) for a, o, f, r in zip(given, outs, factors, ends, strict=True)]
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


def _coordinates(e: Emitter, node: Node, axis: Axis) -> Any:
    """Of every output position, in f64: an array for a static axis, else a term."""
    size: Any
    if axis.is_static:
        size, out, scale = axis.numbers
        node.check_table("the positions", out)
        i: Any = np.arange(out, dtype=np.float64)
    else:
        i = Term(e, e.iota((axis.out,), 0, F64))
        size, out = (Term(e, e.full((), F64, d)) for d in (axis.size, axis.out))
        scale = out / size if axis.scale is None else Term(e, e.full((), F64, axis.scale))
    shifted = (i + 0.5) / scale - 0.5
    # scales given as f32 make the coordinates; the nominal output length is size * scale, before the floor
    match node.attr_str("coordinate_transformation_mode", "half_pixel"):
        case "half_pixel":
            return shifted
        case "half_pixel_symmetric":
            return shifted - (out / (size * scale) - 1.0) * (size * 0.5)
        case "pytorch_half_pixel":
            return where(out > 1.0, shifted, 0.0)
        case "align_corners":
            length = size * scale
            last = maximum(length - 1.0, 1e-300)
            return where(equal(length, 1.0), 0.0, i * (size - 1.0) / last)
        case "asymmetric":
            return i / scale
        case "tf_crop_and_resize" if axis.is_static:
            start, end = axis.roi
            size, out, _ = axis.numbers
            if out > 1:
                return start * (size - 1) + i * (end - start) * (size - 1) / (out - 1)
            return np.full(out, 0.5 * (start + end) * (size - 1))
        case "tf_crop_and_resize":
            raise node.unknown_dim("tf_crop_and_resize over symbolic dims is not supported")
        case other:
            raise node.error(f"unknown coordinate_transformation_mode {other}")


# nearest


def _nearest(e: Emitter, node: Node, x: Value, axis: Axis) -> Value:
    at = _coordinates(e, node, axis)
    if (mode := _nearest_mode(node, axis)) not in _ROUNDED:
        raise node.error(f"unknown nearest_mode {mode}")
    at = _ROUNDED[mode](at)
    if isinstance(at, Term):
        last = Term(e, e.full((), I64, axis.size - 1))
        return e(graph.take, x, minimum(maximum(at.cast(I64), 0), last).value, axis=axis.index)
    size, _, _ = axis.numbers
    at = np.clip(at, 0, size - 1).astype(np.int64)
    if (view := moved(e, x, axis.index, at)) is not None:
        return view
    return e(graph.take, x, e.constant(at), axis=axis.index)


def _nearest_mode(node: Node, axis: Axis) -> str:
    mode = node.attr_str("nearest_mode", "round_prefer_floor")
    if mode != INWARDS:
        return mode
    if isinstance(axis.scale, Ratio):
        raise node.unknown_dim("scales over symbolic dims need opset 11")
    assert axis.scale is not None, "before opset 11 there are no sizes"
    return "ceil" if axis.scale < 1 else "floor"


_ROUNDED: dict[str, Callable[[Any], Any]] = {
    "floor": floor,
    "ceil": ceil,
    "round_prefer_floor": lambda at: ceil(at - 0.5),
    "round_prefer_ceil": lambda at: floor(at + 0.5),
}


# linear and cubic


def weight_of(distance: Any, step: int, mode: str, a: float = -0.75) -> Any:
    """What a neighbour `step` after the one in front counts, `distance` away; cubic by Keys' kernel of parameter a."""
    if mode == "linear":
        return -(distance - 1.0)
    first, *rest = (a + 2, -(a + 3), 0.0, 1.0) if step in (0, 1) else (a, -5 * a, 8 * a, -4 * a)
    out = distance * first
    for i, c in enumerate(rest):
        out = out + c
        out = out * distance if i < len(rest) - 1 else out
    return out


def _interpolated(e: Emitter, node: Node, x: Value, axis: Axis, mode: str) -> Value:
    """A weighted sum of two or four neighbours, or one matrix product when antialiased."""
    antialias, a = node.attr_int("antialias", 0), node.attr_float("cubic_coeff_a", -0.75)
    if antialias and not axis.is_static:
        raise node.unknown_dim("antialias needs static dims")
    at = _coordinates(e, node, axis)
    if antialias and axis.numbers[2] < 1:
        return _antialiased(e, node, x, axis, at, mode)
    base = floor(at)
    fraction = at - base
    last = axis.size - 1 if axis.is_static else Term(e, e.full((), I64, axis.size - 1))
    taps: list[tuple[Any, Any]] = []
    for t in range(2) if mode == "linear" else range(-1, 3):
        place = base + float(t)
        place = place.cast(I64) if isinstance(place, Term) else place.astype(np.int64)
        index = minimum(maximum(place, 0), last)
        weight = weight_of(absolute(fraction - float(t)), t, mode, a)
        if mode == "cubic" and node.attr_int("exclude_outside", 0):
            weight = where(equal(place, index), weight, 0.0)
        taps.append((index, weight))
    if mode == "cubic" and node.attr_int("exclude_outside", 0):
        total = functools.reduce(operator.add, (w for _, w in taps))
        taps = [(index, w / total) for index, w in taps]
    line = (axis.out, *(1,) * (tensor(x).rank - axis.index - 1))

    def term(tap: tuple[Any, Any]) -> Value:
        index, weight = (v.value if isinstance(v, Term) else v for v in tap)
        taken = e(graph.take, x, index if isinstance(index, Value) else e.constant(index), axis=axis.index)
        weight = weight if isinstance(weight, Value) else e.constant(weight)
        return e.map(graph.mul, taken, e.reshape(e.cast(weight, elem_of(x)), line))

    return e.fold(graph.add, map(term, taps))


def _antialiased(e: Emitter, node: Node, x: Value, axis: Axis, at: Array, mode: str) -> Value:
    """Downsampling with the kernel stretched over every input it covers: a matrix of weights."""
    size, out, scale = axis.numbers
    node.check_table("the weights", out, size)
    radius, a = (1 if mode == "linear" else 2) / scale, node.attr_float("cubic_coeff_a", -0.75)
    matrix = np.zeros((out, size))
    # the kernel's support is cut off at whole taps from the base position, as the reference does it
    reach = math.floor(-radius) + 1
    for o, c in enumerate(at):
        taps = np.arange(reach, 2 - reach) + math.floor(c)
        d = np.abs((c - taps) * scale)
        far = weight_of(d, 2, mode, a) if mode == "cubic" else 0.0
        w = np.where(d <= 1, weight_of(d, 0, mode, a), np.where(d < 2, far, 0.0))
        if node.attr_int("exclude_outside", 0):
            w = np.where((taps >= 0) & (taps < size), w, 0.0)
        np.add.at(matrix[o], np.clip(taps, 0, size - 1), w / w.sum())
    letters = "abcdefgh"[: tensor(x).rank]
    if len(letters) < tensor(x).rank:
        raise node.unsupported(f"antialiasing of {x.type} has too many dims")
    spec = f"{letters},z{letters[axis.index]}->{letters.replace(letters[axis.index], 'z')}"
    return e.contract(x, e.cast(e.constant(matrix), elem_of(x)), spec)


def _fill_outside(e: Emitter, node: Node, x: Value, axes: list[Axis]) -> Value:
    """tf_crop_and_resize puts the extrapolation value where a coordinate leaves the input."""
    if node.attr_str("coordinate_transformation_mode", "half_pixel") != "tf_crop_and_resize":
        return x
    fill = node.attr_float("extrapolation_value", 0.0)
    for axis in axes:
        at = _coordinates(e, node, axis)
        outside = (at < 0) | (at > axis.numbers[0] - 1)
        if outside.any():
            mask = e.constant(outside.reshape(-1, *(1,) * (tensor(x).rank - axis.index - 1)))
            x = e.select(mask, fill if elem_of(x).is_float else int(fill), x)
    return x
