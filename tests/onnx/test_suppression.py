"""`NonMaxSuppression` beside onnxruntime: the kernel that models get, and the same in numpy."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

import graphfuse
from graphfuse.frontends.onnx.python_ops import selection
from graphfuse.frontends.onnx.python_ops.call import call_of

F = np.float32
NAMES = ("boxes", "scores", "most", "overlap", "least")


def model_of(feeds, **attributes):
    given = [n if n in feeds else "" for n in NAMES]
    while not given[-1]:
        given.pop()
    node = helper.make_node("NonMaxSuppression", given, ["y"], name="/it", **attributes)
    dims = {"boxes": ["b", "n", 4], "scores": ["b", "c", "n"]}
    kinds = {n: helper.np_dtype_to_tensor_dtype(v.dtype) for n, v in feeds.items()}
    infos = [helper.make_tensor_value_info(n, kinds[n], dims.get(n, [1])) for n in given if n]
    graph = helper.make_graph([node], "g", infos, [helper.make_tensor_value_info("y", 7, ["k", 3])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def feeds_of(boxes, scores, most=None, overlap=None, least=None):
    rest = {"most": (most, np.int64), "overlap": (overlap, F), "least": (least, F)}
    return {
        "boxes": np.asarray(boxes, F),
        "scores": np.asarray(scores, F),
        **{n: np.array([v], t) for n, (v, t) in rest.items() if v is not None},
    }


def compare(ours, feeds, **attributes):
    ort = pytest.importorskip("onnxruntime")
    data = model_of(feeds, **attributes).SerializeToString()
    session = ort.InferenceSession(data, providers=["CPUExecutionProvider"])
    (want,) = session.run(None, feeds)
    np.testing.assert_array_equal(ours(feeds)["y"], want)
    node = model_of(feeds, **attributes).graph.node[0]
    np.testing.assert_array_equal(
        selection.non_max_suppression(call_of(node, tuple(map(feeds.get, NAMES)), None)), want
    )
    return want


def on_a_grid(rng, batch, classes, count, size=6):
    """Boxes with many equal ones, of no area, with corners in any order; scores with many ties."""
    boxes = rng.integers(0, size, (batch, count, 4))
    return boxes, rng.integers(-2, 6, (batch, classes, count)) / 4


CASES = {
    "one box": feeds_of([[[0, 0, 1, 1]]], [[[0.5]]], 3, 0.5, 0.1),
    "none is good": feeds_of([[[0, 0, 1, 1]]], [[[0.5]]], 3, 0.5, 0.5),
    "none is asked for": feeds_of([[[0, 0, 1, 1]]], [[[0.5]]], 0, 0.5),
    "as many as none": feeds_of([[[0, 0, 1, 1]]], [[[0.5]]]),
    "fewer than none": feeds_of([[[0, 0, 1, 1]]], [[[0.5]]], -1),
    "any overlap is too much": feeds_of([[[0, 0, 2, 2], [1, 1, 3, 3], [2, 2, 4, 4]]], [[[1, 2, 3]]], 9, 0.0),
    "no overlap is too much": feeds_of([[[0, 0, 2, 2]] * 20], [[np.arange(20) % 7]], 18, 1.0),
    "as much as is allowed": feeds_of([[[0, 0, 2, 2], [0, 0, 2, 1], [0, 0, 1, 1]]], [[[3, 2, 1]]], 9, 0.5),
    "zeros of either sign": feeds_of([[[0, 0, 1, 1], [2, 2, 3, 3], [4, 4, 5, 5]]], [[[0.0, -0.0, 0.0]]], 9, 0.5),
    "scores below 0": feeds_of([[[0, 0, 1, 1], [2, 2, 3, 3], [4, 4, 5, 5]]], [[[-2, -1, -3]]], 2, 0.5, -2.5),
    "infinities": feeds_of([[[0, 0, 1, 1], [2, 2, 3, 3], [4, 4, 5, 5]]], [[[1, np.inf, -np.inf]]], 3, 0.5),
}


@pytest.fixture(scope="module")
def models():
    """A model compiled for all shapes, by the inputs that it has and whether boxes are given by their centres."""
    made = {}

    def get(feeds, centre):
        key = (*feeds, centre)
        if key not in made:
            made[key] = graphfuse.compile(model_of(feeds, center_point_box=centre))
            (node,) = made[key].executable.host.steps
            assert len(node.bodies) == 1, "its kernel"
        return made[key]

    return get


@pytest.mark.parametrize("name", CASES)
def test_boxes_that_are_left(models, name):
    feeds = CASES[name]
    compare(models(feeds, 0), feeds)


@pytest.mark.parametrize("centre", [0, 1])
@pytest.mark.parametrize(("batch", "classes", "count"), [(1, 1, 40), (2, 3, 33), (3, 1, 1), (1, 5, 100)])
def test_boxes_with_ties(models, centre, batch, classes, count):
    rng = np.random.default_rng(count)
    kept = 0
    for most, overlap, least in ((100, 0.5, 0.0), (7, 1 / 3, -1.0), (100, 0.25, 0.75)):
        feeds = feeds_of(*on_a_grid(rng, batch, classes, count), most, overlap, least)
        kept += len(compare(models(feeds, centre), feeds, center_point_box=centre))
    assert kept


@pytest.mark.parametrize("centre", [0, 1])
def test_boxes_of_a_detector(models, centre):
    rng = np.random.default_rng(centre)
    boxes = np.concatenate([rng.uniform(0, 100, (2, 500, 2)), rng.uniform(5, 130, (2, 500, 2))], 2)
    scores = rng.uniform(0, 1, (2, 4, 500))
    few, many = (feeds_of(boxes, scores, most, 0.3, 0.3) for most in (10, 500))
    assert len(compare(models(few, centre), few, center_point_box=centre)) == 2 * 4 * 10
    assert 2 * 4 * 10 < len(compare(models(many, centre), many, center_point_box=centre)) < 2 * 4 * 200
