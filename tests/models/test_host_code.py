"""Models with parts that Python runs: one artifact of each, at all its shapes, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import graphfuse
import models
from graphfuse.runtime import gfx
from models import _compare
from models._compare import BOUND

pytest.importorskip("onnxruntime")

NAMES = models.with_host_code()


@pytest.fixture(scope="module", params=NAMES)
def case(request, tmp_path_factory):
    """The name, and the model loaded from the artifact."""
    path = tmp_path_factory.mktemp("host") / "m.gfx"
    graphfuse.compile(models.cached(request.param, small=True), dims=models.get(request.param).DIMS).save(path)
    return request.param, graphfuse.load(path)


def test_one_artifact_matches_onnxruntime_at_every_shape(case):
    name, loaded = case
    reference, model = _compare.onnxruntime_of(models.cached(name, small=True)), models.get(name)
    assert loaded.executable.host is not None
    seen = set()
    for seed, dims in enumerate(_compare.shapes(model)):
        feeds = model.inputs(np.random.default_rng(seed), small=True, **dims)
        want = reference(feeds)
        assert _compare.distance(want, loaded(feeds)) <= BOUND, dims
        seen.add(tuple(v.shape for v in want.values()))
    assert len(seen) > 2, "data decides no shape of these"


def test_one_weight_off_by_one_percent_fails_the_comparison(case):
    name, loaded = case
    model, definition = onnx.load(models.cached(name, small=True)), models.get(name)
    largest = max(model.graph.initializer, key=lambda t: np.prod(t.dims))
    largest.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(largest) * np.float32(1.01), largest.name))
    broken = graphfuse.compile(model, dims=definition.DIMS)
    feeds = definition.inputs(np.random.default_rng(1), small=True, **definition.TEST_DIMS[1])
    with pytest.raises(AssertionError):
        assert _compare.distance(loaded(feeds), broken(feeds)) <= BOUND


def test_the_decoder_stops_where_its_data_says():
    model = models.get("greedy_decoder")
    compiled = graphfuse.compile(models.cached("greedy_decoder", small=True), dims=model.DIMS)
    for seed, dims in enumerate(model.TEST_DIMS):
        tokens = compiled(model.inputs(np.random.default_rng(seed), small=True, **dims))["tokens"]
        assert len(tokens) < 2 * dims["source"], "the count ended it"
        assert tokens[-1] < model._SMALL.ends <= tokens[:-1].min()


@pytest.mark.parametrize("name", NAMES)
def test_builders(name, tmp_path):
    model = models.get(name)
    files = [tmp_path / f"{i}.onnx" for i in range(2)]
    for file in files:
        model.build(file, small=True)
    assert files[0].read_bytes() == files[1].read_bytes()
    onnx.checker.check_model(str(files[0]), full_check=True)
    symbols = {d.dim_param for i in onnx.load(files[0]).graph.input for d in i.type.tensor_type.shape.dim}
    assert symbols - {""} == set(model.DIMS)


@pytest.mark.full
@pytest.mark.parametrize("name", NAMES)
def test_full_size(name):
    for dims, distance in _compare.distances(name, small=False):
        assert distance <= BOUND, dims


@pytest.mark.full
def test_parts_run_on_a_gpu():
    """In the emulator: the boxes that Python chose go back to the kernels."""
    model, path = models.get("detection_head"), models.cached("detection_head", small=True)
    compiled = graphfuse.compile(path, dims=model.DIMS, device="emulator")
    reference = _compare.onnxruntime_of(path)
    for seed, dims in enumerate(model.TEST_DIMS):
        feeds = model.inputs(np.random.default_rng(seed), small=True, **dims)
        assert _compare.distance(reference(feeds), compiled(feeds)) <= BOUND, dims


@pytest.mark.full
def test_an_artifact_for_a_cpu_and_a_gpu_has_the_parts_of_both(tmp_path):
    model, path = models.get("detection_head"), models.cached("detection_head", small=True)
    both = graphfuse.compile(path, dims=model.DIMS, target=("cpu", "cuda:sm_90a"))
    both.save(tmp_path / "m.gfx")
    read = gfx.load(tmp_path / "m.gfx")
    assert [v.is_gpu for v in read.variants] == [False, True]
    assert [[p.target for p in v.parts] for v in read.variants] == [[v.target] * len(v.parts) for v in read.variants]
    feeds = model.inputs(np.random.default_rng(0), small=True, **model.TEST_DIMS[2])
    want, got = both(feeds), graphfuse.load(tmp_path / "m.gfx")(feeds)
    assert all(np.array_equal(want[k], got[k]) for k in want)
