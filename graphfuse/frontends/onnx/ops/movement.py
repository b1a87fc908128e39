"""Moving elements without looking at them: reshape, transpose, slice, pad, concat and their relatives."""

from __future__ import annotations

from collections.abc import Sequence

from graphfuse.dialects import graph
from graphfuse.frontends.emit import Emitter, Shape, elem_of, shape_of, tensor
from graphfuse.frontends.host_values import UndecidedError, greater, less, lesser
from graphfuse.frontends.onnx.limits import check_rank
from graphfuse.frontends.onnx.node import Node, onnx_op, scalar_constant
from graphfuse.ir.core import Value
from graphfuse.ir.types import BOOL
from graphfuse.symbolic import Dim, ceildiv, exact_div, floordiv, product


@onnx_op("Reshape")
def reshape(e: Emitter, node: Node, x: Value) -> Value:
    """The same elements under a shape with at most one -1; 0 copies a dim unless allowzero is set."""
    wanted = list[Dim](node.shape(1, "the shape") if node.has(1) else node.attr_ints("shape"))
    if not node.attr_int("allowzero", 0):
        if any(d == 0 and i >= tensor(x).rank for i, d in enumerate(wanted)):
            raise node.error(f"shape {_text(wanted)} copies a dim that {x.type} does not have")
        wanted = [shape_of(x)[i] if d == 0 else d for i, d in enumerate(wanted)]
    return e.reshape(x, _inferred(node, tensor(x).elements, wanted))


def _text(shape: Sequence[Dim]) -> str:
    return f"[{', '.join(map(str, shape))}]"


def _inferred(node: Node, elements: Dim, wanted: Sequence[Dim]) -> Shape:
    """Replace a -1 by what is left over."""
    unknown = [i for i, d in enumerate(wanted) if d == -1]
    if not unknown:
        return tuple(wanted)
    if len(unknown) > 1 or any(isinstance(d, int) and d < -1 for d in wanted):
        raise node.error(f"shape {_text(wanted)} must have at most one -1 and nothing below")
    rest = product(d for d in wanted if d != -1)
    if rest == 0:
        raise node.error(f"the -1 in {_text(wanted)} could be anything")
    found = exact_div(elements, rest)
    if found is None:
        if isinstance(elements, int) and isinstance(rest, int):
            raise node.error(f"{elements} elements do not divide by {rest} for shape {_text(wanted)}")
        found = floordiv(elements, rest)
    return tuple(found if d == -1 else d for d in wanted)


@onnx_op("Flatten")
def flatten(e: Emitter, node: Node, x: Value) -> Value:
    """Two dims: those before the axis, and the rest."""
    rank, axis = tensor(x).rank, node.attr_int("axis", 1)
    if not -rank <= axis <= rank:
        raise node.error(f"axis must be in {-rank}..{rank}, got {axis}")
    return e.as_matrix(x, axis + rank if axis < 0 else axis)


@onnx_op("Squeeze")
def squeeze(e: Emitter, node: Node, x: Value) -> Value:
    """Drop dims of 1: those given, or all."""
    shape = shape_of(x)
    given = node.ints(1, "the axes") if node.has(1) else node.attr_ints("axes", ())
    if given or node.has(1):
        axes = node.axes(given, len(shape))
    else:
        axes = tuple(i for i, d in enumerate(shape) if d == 1)
        for i, d in enumerate(shape):
            if d != 0 and i not in axes:  # the result would have another rank
                e.require("at_most", 2, d, f"dim {i}, which is kept")
    for a in axes:
        if not e.same(shape[a], 1, f"dim {a}, which is dropped"):
            raise node.error(f"dim {a} of {x.type} is not 1")
    return e.squeeze(x, *axes) if axes else x


@onnx_op("Unsqueeze")
def unsqueeze(e: Emitter, node: Node, x: Value) -> Value:
    """Insert dims of 1."""
    given = node.ints(1, "the axes") if node.has(1) else node.attr_ints("axes")
    check_rank(tensor(x).rank + len(given), node.too_large)
    return e.unsqueeze(x, *node.axes(given, tensor(x).rank + len(given)))


@onnx_op("Transpose")
def transpose(e: Emitter, node: Node, x: Value) -> Value:
    """Reorder dims; by default reverse them."""
    perm = node.attr_ints("perm", range(tensor(x).rank)[::-1])
    if len(perm) != tensor(x).rank:
        raise node.error(f"perm: expected {tensor(x).rank} dims, found {len(perm)}")
    return e.permute(x, perm)


@onnx_op("Concat")
def concat(e: Emitter, node: Node, *xs: Value) -> Value:
    """Join along an axis; parts of no elements are left out."""
    axis = node.axis(node.attr_int("axis"), tensor(xs[0]).rank)
    kept = [x for x in xs if tensor(x).rank != tensor(xs[0]).rank or shape_of(x)[axis] != 0]
    return e.concat(kept or xs[:1], axis)


@onnx_op("Split")
def split(e: Emitter, node: Node, x: Value) -> tuple[Value, ...]:
    """Consecutive pieces of the given sizes, or as many equal ones as there are outputs (the last may be smaller)."""
    axis = node.axis(node.attr_int("axis", 0), tensor(x).rank)
    size = shape_of(x)[axis]
    if node.has(1):
        sizes = list(node.dims(1, "the split"))
    elif "split" in node.attributes:
        sizes = list[Dim](node.attr_ints("split"))
    else:
        n = node.attr_int("num_outputs", len(node.outputs))
        chunk = ceildiv(size, n)
        if "num_outputs" not in node.attributes:
            e.require("divides", n, size, "equal pieces")
        e.require("at_most", chunk * (n - 1), size, "pieces before the last")
        sizes = [chunk] * (n - 1) + [size - chunk * (n - 1)]
    total = sum(sizes, 0)
    if not e.same(total, size, "sum of the sizes"):
        raise node.error(f"sizes {_text(sizes)} do not add up to dim {axis} of {x.type}")
    return e.split(x, sizes, axis)


# slicing

FARTHEST = 1 << 46
"""No dim is as long: a step beyond that leads out of any."""


@onnx_op("Slice")
def slice_(e: Emitter, node: Node, x: Value) -> Value:
    """A range of each given axis, with negative positions, clamping, and steps of either sign."""
    rank = tensor(x).rank
    if node.has(1):
        starts, ends = node.dims(1, "the starts"), node.dims(2, "the ends")
        given = node.ints(3, "the axes") if node.has(3) else tuple(range(len(starts)))
        steps = node.ints(4, "the steps") if node.has(4) else (1,) * len(starts)
    else:
        starts, ends = tuple[Dim, ...](node.attr_ints("starts")), tuple[Dim, ...](node.attr_ints("ends"))
        given, steps = node.attr_ints("axes", range(len(starts))), (1,) * len(starts)
    if not len(starts) == len(ends) == len(given) == len(steps):
        raise node.error("starts, ends, axes and steps must have the same length")
    for axis, start, end, step in zip(node.axes(given, rank), starts, ends, steps, strict=True):
        if step == 0:
            raise node.error("steps must not be 0")
        x = _sliced(e, x, axis, start, end, min(max(step, -FARTHEST), FARTHEST))
    return x


def _sliced(e: Emitter, x: Value, axis: int, start: Dim, end: Dim, step: int) -> Value:
    size = shape_of(x)[axis]
    if step > 0:
        low = clamp(e, from_end(e, start, size), 0, size)
        high = clamp(e, from_end(e, end, size), 0, size)
        count = greater(ceildiv(high - low, step), 0, e.ranges)
        return e.slice(x, axis, low, count, step)
    # downwards: positions first, first + step, ... above `last`; read upwards from the lowest, then flip
    # (a start before the first element is the first, if there is one)
    first = lesser(greater(from_end(e, start, size), 0, e.ranges), size - 1, e.ranges)
    last = clamp(e, from_end(e, end, size), -1, size - 1)
    count = greater(ceildiv(first - last, -step), 0, e.ranges)
    low = first + (count - 1) * step
    if count == 0:
        return e.slice(x, axis, 0, 0)
    return e(graph.flip, e.slice(x, axis, low, count, -step), axes=(axis,))


def from_end(e: Emitter, position: Dim, size: Dim) -> Dim:
    """A position that counts from the end when it is negative, counted from the start."""
    if isinstance(position, int):
        return position if position >= 0 else position + size
    try:
        return position + size if less(position, 0, e.ranges) else position
    except UndecidedError:  # the sign is open until it runs: the size is added once where the position is below 0
        return position + size * lesser(greater(-position, 0, e.ranges), 1, e.ranges)


def clamp(e: Emitter, position: Dim, low: Dim, high: Dim) -> Dim:
    """A position inside `low..high`, decided by the ranges where they can."""
    return greater(lesser(position, high, e.ranges), low, e.ranges)


# padding


@onnx_op("Pad")
def pad(e: Emitter, node: Node, x: Value) -> Value:
    """Grow (or, where negative, crop) both ends of dims; constant, reflect, edge or wrap."""
    rank = tensor(x).rank
    pads = node.dims(1, "the pads") if node.has(1) else tuple[Dim, ...](node.attr_ints("pads"))
    axes = node.axes(node.ints(3, "the axes"), rank) if node.has(3) else tuple(range(rank))
    if len(pads) != 2 * len(axes):
        raise node.error(f"expected {2 * len(axes)} pads, got {len(pads)}")
    ends: list[tuple[Dim, Dim]] = [(0, 0)] * rank
    for i, axis in enumerate(axes):
        ends[axis] = (pads[i], pads[i + len(axes)])
    mode = node.attr_choice("mode", "constant", "reflect", "edge", "wrap")
    for axis, (lo, hi) in enumerate(ends):
        cut_low, cut_high = (-p if isinstance(p, int) and p < 0 else 0 for p in (lo, hi))
        x = e.slice(x, axis, cut_low, shape_of(x)[axis] - cut_low - cut_high)
        ends[axis] = (lo + cut_low, hi + cut_high)
    if all(p == (0, 0) for p in ends):
        return x
    low_pads, high_pads = tuple(lo for lo, _ in ends), tuple(hi for _, hi in ends)
    if mode == "reflect":
        for d, p in zip(shape_of(x) * 2, low_pads + high_pads, strict=True):
            if p != 0:
                e.require("at_most", p, d - 1, "elements that are reflected")
    if mode != "constant":
        return e(graph.pad, x, low=low_pads, high=high_pads, mode=mode)
    return _pad_constant(e, node, x, low_pads, high_pads)


def _pad_constant(e: Emitter, node: Node, x: Value, low: Shape, high: Shape) -> Value:
    elem = elem_of(x)
    fill = node.known(2)
    if not node.has(2) or (fill is not None and fill.dtype != object):
        value = scalar_constant(node, 2, "the fill") if node.has(2) else node.attr_float("value", 0.0)
        number = bool(value) if elem.name == "bool" else float(value) if elem.is_float else int(value)
        return e(graph.pad, x, low=low, high=high, value=number)
    # a fill known at run time only: pad a mask as well and choose
    inside = e(graph.pad, e.full(shape_of(x), BOOL, value=True), low=low, high=high, value=False)
    padded = e(graph.pad, x, low=low, high=high, value=0.0 if elem.is_float else 0)
    return e.select(inside, padded, e.reshape(node.value(e, 2), ()))


# repetition


@onnx_op("CenterCropPad")
def center_crop_pad(e: Emitter, node: Node, x: Value) -> Value:
    """Axes cut to a size, or padded with zeros to it, around their middle."""
    axes = node.axes(node.attr_ints("axes", range(tensor(x).rank)), tensor(x).rank)
    wanted = node.shape(1, "the shape")
    if len(wanted) != len(axes):
        raise node.error(f"expected {len(axes)} sizes, found {len(wanted)}")
    low, high = (list[Dim]([0] * tensor(x).rank) for _ in range(2))
    for axis, target in zip(axes, wanted, strict=True):
        d = shape_of(x)[axis]
        surplus, lack = greater(d - target, 0, e.ranges), greater(target - d, 0, e.ranges)
        low[axis] = floordiv(lack, 2)
        high[axis] = lack - low[axis]
        x = e.slice(x, axis, floordiv(surplus, 2), d - surplus)
    if any(p != 0 for p in (*low, *high)):
        x = e(graph.pad, x, low=tuple(low), high=tuple(high), value=0.0 if elem_of(x).is_float else 0)
    return x


@onnx_op("Expand")
def expand(e: Emitter, node: Node, x: Value) -> Value:
    """Broadcast with a shape, in both directions."""
    return e.broadcast(x, e.broadcast_shape(shape_of(x), node.shape(1, "the shape")))


@onnx_op("Tile")
def tile(e: Emitter, node: Node, x: Value) -> Value:
    """Repeat whole dims: each dim becomes (repeats, dim), which is broadcast and merged."""
    repeats = node.dims(1, "the repeats")
    shape = shape_of(x)
    if len(repeats) != len(shape):
        raise node.error(f"expected {len(shape)} repeats, got {len(repeats)}")
    if all(r == 1 for r in repeats):
        return x
    split_shape = [d for r, s in zip(repeats, shape, strict=True) for d in ((1, s) if r != 1 else (s,))]
    spread = [d for r, s in zip(repeats, shape, strict=True) for d in ((r, s) if r != 1 else (s,))]
    out = tuple(r * s for r, s in zip(repeats, shape, strict=True))
    return e.reshape(e.broadcast(e.reshape(x, split_shape), spread), out)


# blocks


def _block_size(node: Node) -> int:
    if (size := node.attr_int("blocksize")) < 1:
        raise node.error(f"blocksize: expected at least 1, found {size}")
    return size


@onnx_op("DepthToSpace")
def depth_to_space(e: Emitter, node: Node, x: Value) -> Value:
    """Channels become blocks of pixels."""
    n, c, h, w = shape_of(x)
    b = _block_size(node)
    depth = floordiv(c, b * b)
    if node.attr_str("mode", "DCR") == "DCR":
        x = e.permute(e.reshape(x, (n, b, b, depth, h, w)), (0, 3, 4, 1, 5, 2))
    else:
        x = e.permute(e.reshape(x, (n, depth, b, b, h, w)), (0, 1, 4, 2, 5, 3))
    return e.reshape(x, (n, depth, h * b, w * b))


@onnx_op("SpaceToDepth")
def space_to_depth(e: Emitter, node: Node, x: Value) -> Value:
    """Blocks of pixels become channels."""
    n, c, h, w = shape_of(x)
    b = _block_size(node)
    rows, columns = floordiv(h, b), floordiv(w, b)
    x = e.reshape(x, (n, c, rows, b, columns, b))
    x = e.permute(x, (0, 3, 5, 1, 2, 4) if node.attr_str("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4))
    return e.reshape(x, (n, c * b * b, rows, columns))
