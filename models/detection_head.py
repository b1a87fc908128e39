"""A detection head: convolutions, boxes decoded on a grid, the best of them, non-maximum suppression (opset 18).

How many boxes are left is a matter of the data. The grid is as large as the features.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from models import _cli
from models._builder import Builder, Value
from models._layers import conv

NAME = "detection_head"
HOST = True
DIMS: dict[str, tuple[int, int]] = {"batch": (1, 8), "height": (1, 64), "width": (1, 64)}
TEST_DIMS: list[dict[str, int]] = [
    {"batch": 1, "height": 8, "width": 8},
    {"batch": 2, "height": 7, "width": 12},
    {"batch": 3, "height": 3, "width": 2},
]


@dataclass(frozen=True)
class _Config:
    channels: int
    classes: int
    candidates: int
    """Boxes of an image that suppression looks at."""
    kept: int
    """Boxes of a class and image that it keeps."""
    best: int
    """Boxes of all images that are given back."""


_FULL = _Config(channels=256, classes=80, candidates=1000, kept=100, best=300)
_SMALL = _Config(channels=8, classes=3, candidates=40, kept=6, best=20)

STRIDE = 16.0
OVERLAP = 0.5
LEAST_SCORE = 0.3


def build(path: Path, *, small: bool = False, seed: int = 0) -> None:
    """Write the model to `path`."""
    config = _SMALL if small else _FULL
    g = Builder(NAME, opset=18, seed=seed)
    x = g.input("features", ["batch", config.channels, "height", "width"])
    x = g.Relu(conv(g, x, config.channels, config.channels, 3, bias=True, stem="tower"))
    offsets = _rows(g, conv(g, x, config.channels, 4, 1, bias=True, stem="boxes"), 4)
    scores = g.Sigmoid(
        _rows(g, conv(g, x, config.channels, config.classes, 1, bias=True, stem="scores"), config.classes)
    )
    boxes = _decoded(g, offsets, _centres(g, x))
    boxes, scores = _candidates(g, boxes, scores, config.candidates)
    chosen = g.NonMaxSuppression(
        boxes,
        g.Transpose(scores, perm=[0, 2, 1]),
        np.array([config.kept]),
        np.array([OVERLAP], np.float32),
        np.array([LEAST_SCORE], np.float32),
    )
    _best(g, boxes, scores, chosen, config.best)
    g.save(path)


def inputs(
    rng: np.random.Generator, *, small: bool = False, batch: int = 1, height: int = 16, width: int = 16
) -> dict[str, np.ndarray]:
    """Features such as a normalised backbone gives."""
    channels = (_SMALL if small else _FULL).channels
    return {"features": rng.standard_normal((batch, channels, height, width), dtype=np.float32)}


def _rows(g: Builder, x: Value, channels: int) -> Value:
    """[B, channels, H, W] -> [B, H * W, channels]."""
    return g.reshape(g.Transpose(x, perm=[0, 2, 3, 1]), g.dim(x, 0), -1, channels)


def _centres(g: Builder, x: Value) -> Value:
    """The centres of the grid's cells in pixels, row by row: [H * W, 2], y first."""
    height, width = g.dim(x, 2), g.dim(x, 3)
    ys, xs = ((g.Cast(g.Range(0, n, 1), to=1) + 0.5) * STRIDE for n in (height, width))
    grid = g.shape_vector(height, width)
    ys, xs = g.Expand(g.Unsqueeze(ys, [1]), grid), g.Expand(g.Unsqueeze(xs, [0]), grid)
    return g.Concat(*(g.Reshape(v, [-1, 1]) for v in (ys, xs)), axis=1)


def _decoded(g: Builder, offsets: Value, centres: Value) -> Value:
    """Offsets of the centre and logarithms of the size, to corners: [B, N, 4]."""
    moved, sizes = g.split(offsets, [2, 2], axis=2)
    middle = centres + moved * STRIDE
    half = g.Exp(sizes * 0.5) * STRIDE
    return g.Concat(middle - half, middle + half, axis=2)


def _candidates(g: Builder, boxes: Value, scores: Value, most: int) -> tuple[Value, Value]:
    """The boxes of each image whose best class has the highest scores."""
    count = g.Min(g.dim(boxes, 1), most)
    _, at = g.ops("TopK", g.ReduceMax(scores, [2], keepdims=0), g.Unsqueeze(count, [0]), outputs=2, axis=1)
    index = g.Unsqueeze(at, [2])
    return g.GatherND(boxes, index, batch_dims=1), g.GatherND(scores, index, batch_dims=1)


def _best(g: Builder, boxes: Value, scores: Value, chosen: Value, most: int) -> None:
    """Of the (image, class, box) that suppression left, those with the highest scores, as outputs."""
    image, label, box = (g.Gather(chosen, g.const([i]), axis=1) for i in range(3))
    score = g.GatherND(scores, g.Concat(image, box, label, axis=1))
    count = g.Min(g.dim(chosen, 0), most)
    top, at = g.ops("TopK", score, g.Unsqueeze(count, [0]), outputs=2, axis=0)
    corners = g.GatherND(boxes, g.Concat(image, box, axis=1))
    g.output(g.Gather(corners, at, axis=0), "boxes", ["found", 4])
    g.output(top, "scores", ["found"])
    g.output(g.Gather(g.Squeeze(label, [1]), at, axis=0), "labels", ["found"], np.int64)
    g.output(g.Gather(g.Squeeze(image, [1]), at, axis=0), "images", ["found"], np.int64)


def main() -> None:
    """Write the model from the command line."""
    _cli.run(build, __doc__)


if __name__ == "__main__":
    main()
