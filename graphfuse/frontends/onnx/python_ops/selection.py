"""What decides by its data how many elements its results have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphfuse.frontends.host_values import Array, distinct
from graphfuse.frontends.onnx.node import MICROSOFT
from graphfuse.frontends.onnx.python_ops.call import Call, python_op


@python_op("NonZero")
def nonzero(c: Call) -> Any:
    """The indices of elements that are not 0, one row per dim."""
    return np.array(np.nonzero(np.atleast_1d(c.array(0))), dtype=np.int64)


@python_op("Compress")
def compress(c: Call) -> Any:
    """The slices that a condition keeps; of all elements, where there is no axis."""
    return np.compress(c.array(1), c.array(0), c.get("axis"))


@python_op("Unique")
def unique(c: Call) -> tuple[Array, ...]:
    """Distinct elements or slices, sorted or in order of appearance: first indices, which each is, and counts."""
    x, axis = c.array(0), c.get("axis")
    axis = None if axis is None else c.axis(int(axis), x.ndim)
    return distinct(x, axis, in_order=not c.get("sorted", 1))


@python_op("Unique", domain=MICROSOFT)
def unique_in_order(c: Call) -> tuple[Array, ...]:
    """Distinct elements in order of appearance, which of them each element is, and counts."""
    values, _, which, counts = distinct(c.array(0), None, in_order=True)
    return values, which, counts


@python_op("NonMaxSuppression")
def non_max_suppression(c: Call) -> Any:
    """(batch, class, box) of boxes by falling score, less those that overlap one of the same class too much.

    Candidates of all batches and classes stand in one row, those of each in turn; compiled code chooses among them.
    """
    boxes, scores = (c.array(i).astype(np.float32, copy=False) for i in range(2))
    if boxes.ndim != 3 or boxes.shape[-1] != 4 or scores.ndim != 3 or scores.shape[::2] != boxes.shape[:2]:
        raise c.error(f"boxes and scores: expected (b, n, 4) and (b, c, n), found {boxes.shape} and {scores.shape}")
    batch, classes, count = (int(d) for d in scores.shape)
    flat = scores.reshape(-1)
    which: Array = np.flatnonzero(flat > c.number(4)) if c.has(4) else np.arange(flat.size)
    which = which[np.argsort(_falling(which // count, flat[which]), kind="stable")]
    segment: Array = which // count
    chosen = boxes.reshape(-1, 4)[segment // classes * count + which % count].T
    if c.get("center_point_box", 0):
        half = chosen[2:] / 2
        corners = np.concatenate([chosen[:2] - half, chosen[:2] + half])
    else:
        corners = np.concatenate([np.minimum(chosen[:2], chosen[2:]), np.maximum(chosen[:2], chosen[2:])])
    bounds: Array = np.searchsorted(segment, np.arange(batch * classes + 1))
    most, overlap = np.array([c.number(2, 0)], np.int64), np.array([c.number(3, 0.0)], np.float32)
    kept, counts = (c.compiled or _suppressed)([corners, bounds[:-1], bounds[1:], most, overlap])
    kept = kept[np.arange(len(kept)) < (bounds[:-1] + counts)[segment]]
    return np.stack([segment[kept] // classes, segment[kept] % classes, which[kept] % count], 1)


def _falling(segment: Array, score: Array) -> Array:
    """Integers that are in order where segments rise, and scores fall within each."""
    bits = (score + np.float32(0)).view(np.int32)  # -0 is no less than 0
    falling = ~np.where(bits < 0, ~bits, bits | np.int32(-(1 << 31)))
    return segment.astype(np.int64) << 32 | falling.view(np.uint32)


def _suppressed(inputs: Sequence[Array]) -> tuple[Array, Array]:
    """What the kernel of `frontends/onnx/suppression.py` computes, where none is compiled."""
    (top, left, bottom, right), begins, ends, (most,), (overlap,) = inputs
    area = (bottom - top) * (right - left)
    kept, counts = np.zeros(len(area), np.int64), np.zeros(len(begins), np.int64)
    for i, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        rest: Array = np.arange(int(begin), int(end))
        while rest.size and counts[i] < most:
            best, rest = rest[0], rest[1:]
            kept[begin + counts[i]] = best
            counts[i] += 1
            height = np.minimum(bottom[best], bottom[rest]) - np.maximum(top[best], top[rest])
            width = np.minimum(right[best], right[rest]) - np.maximum(left[best], left[rest])
            common = height * width
            union = area[best] + area[rest] - common
            real = (height > 0) & (width > 0) & (area[best] > 0) & (area[rest] > 0) & (union > 0)
            rest = rest[~(real & (common / np.where(real, union, 1) > overlap))]
    return kept, counts
