"""What decides by its data how many elements its results have."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphfuse.frontends.host_values import Array
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
    values, first, inverse, counts = np.unique(x, True, True, True, axis)  # noqa: FBT003  (its parameters in order)
    inverse = inverse.reshape(-1)
    if not c.get("sorted", 1):
        order = np.argsort(first)
        values, first, counts = np.take(values, order, axis or 0), first[order], counts[order]
        inverse = np.argsort(order)[inverse]
    return values, first.astype(np.int64), inverse.astype(np.int64), counts.astype(np.int64)


@python_op("Unique", domain=MICROSOFT)
def unique_in_order(c: Call) -> tuple[Array, ...]:
    """Distinct elements in order of appearance, which of them each element is, and counts."""
    values, first, inverse, counts = np.unique(c.array(0), True, True, True)  # noqa: FBT003
    order = np.argsort(first)
    which = np.argsort(order)[inverse.reshape(-1)]
    return values[order], which.astype(np.int64), counts[order].astype(np.int64)


@python_op("NonMaxSuppression")
def non_max_suppression(c: Call) -> Any:
    """(batch, class, box) of boxes by falling score, less those that overlap one of the same class too much."""
    boxes, scores = c.array(0).astype(np.float32), c.array(1)
    most, overlap = int(c.number(2, 0)), np.float32(c.number(3, 0.0))
    least = c.number(4) if c.has(4) else None
    if boxes.ndim != 3 or boxes.shape[-1] != 4 or scores.ndim != 3 or scores.shape[::2] != boxes.shape[:2]:
        raise c.error(f"boxes and scores: expected (b, n, 4) and (b, c, n), found {boxes.shape} and {scores.shape}")
    if c.get("center_point_box", 0):
        half = boxes[..., 2:] / 2
        boxes = np.concatenate([boxes[..., :2] - half, boxes[..., :2] + half], -1)
    low, high = np.minimum(boxes[..., :2], boxes[..., 2:]), np.maximum(boxes[..., :2], boxes[..., 2:])
    out = [
        (b, k, box)
        for b in range(scores.shape[0])
        for k in range(scores.shape[1])
        for box in _kept(low[b], high[b], scores[b, k], most, overlap, least)
    ]
    return np.array(out, dtype=np.int64).reshape(-1, 3)


def _kept(low: Array, high: Array, scores: Array, most: int, overlap: Any, least: float | None) -> list[int]:
    order = np.argsort(-scores, kind="stable")
    order = order if least is None else order[scores[order] > least]
    area = np.prod(high - low, -1)
    kept: list[int] = []
    while order.size and len(kept) < most:
        box, order = order[0], order[1:]
        kept.append(int(box))
        common = np.prod(np.maximum(np.minimum(high[box], high[order]) - np.maximum(low[box], low[order]), 0), -1)
        union = area[box] + area[order] - common
        order = order[~(common > overlap * union)]
    return kept
