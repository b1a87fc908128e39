"""Models and single kernels on the GPU against ONNX Runtime, and each region against float64."""

from __future__ import annotations

import dataclasses
import importlib.util

import numpy as np
import pytest

import graphfuse
import models
from graphfuse.api import verify_regions
from graphfuse.compiled_model import CompiledModel
from graphfuse.runtime import gfx
from models import _health
from tests.gpu.device.graphs import GRAPHS, feed_of, matmul, softmax
from tests.models.test_precision import BOUNDS, OWN_BOUNDS

onnxruntime = pytest.importorskip("onnxruntime")
pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("default")]

BOUND = 1e-4
"""Largest difference, in standard deviations of the output."""


def reference(model):
    """From inputs to outputs, both by name; `model` is a path or the model's bytes."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    return lambda feed: dict(zip(names, session.run(names, dict(feed)), strict=True))


def compare(want, got):
    assert list(got) == list(want)
    for name, array in want.items():
        assert (got[name].dtype, got[name].shape) == (array.dtype, array.shape), name
        assert array.dtype.kind == "f" or np.array_equal(got[name], array), name
    floats = {name: array for name, array in want.items() if array.dtype.kind == "f"}
    return _health.distance(floats, {name: got[name] for name in floats}) if floats else 0.0


@pytest.mark.parametrize("name", GRAPHS)
def test_kernels(name, target):
    model = GRAPHS[name]()
    compiled = graphfuse.compile(model, target=target, device="cuda")
    run = reference(model.SerializeToString())
    for seed in range(3):  # the third run is a graph's
        feed = feed_of(model, seed)
        assert compare(run(feed), compiled(feed)) <= BOUND


@pytest.mark.parametrize("name", models.names())
def test_models(name, target):
    for package in models.requires(name):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"building {name} needs {package}")
    path, model = models.cached(name, small=True), models.get(name)
    compiled = graphfuse.compile(path, dims=model.DIMS, target=target, device="cuda")
    run = reference(str(path))
    for seed, dims in enumerate(model.TEST_DIMS or [{}]):
        feed = model.inputs(np.random.default_rng(seed), small=True, **dims)
        want = run(feed)
        for _ in range(3):
            assert compare(want, compiled(feed)) <= BOUND, dims


@pytest.mark.parametrize("precision", BOUNDS)
@pytest.mark.parametrize("name", models.names())
def test_models_in_halves(name, precision, target):
    for package in models.requires(name):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"building {name} needs {package}")
    path, model = models.cached(name, small=True), models.get(name)
    compiled = graphfuse.compile(path, dims=model.DIMS, target=target, device="cuda", precision=precision)
    run = reference(str(path))
    for seed, dims in enumerate(model.TEST_DIMS or [{}]):
        feed = model.inputs(np.random.default_rng(seed), small=True, **dims)
        want = run(feed)
        for _ in range(3):
            distance = compare(want, compiled(feed))
            assert distance <= OWN_BOUNDS.get((name, precision), BOUNDS[precision]), dims
        print(f"{name} {precision} {dims}: {distance:.1e}")  # noqa: T201  # shown by `-rP`


@pytest.mark.parametrize("name", ["digits", "tinygpt"])
def test_regions(name, target):
    model = models.get(name)
    feed = model.inputs(np.random.default_rng(0), small=True, **(model.TEST_DIMS[0] if model.TEST_DIMS else {}))
    path = models.cached(name, small=True)
    names = [s.name for s in graphfuse.compile(path, dims=model.DIMS).signature.inputs]
    rows = verify_regions(path, [feed[n] for n in names], dims=model.DIMS, target=target, device="cuda")
    assert rows
    assert all(r["ok"] for r in rows), [r for r in rows if not r["ok"]]


@pytest.mark.parametrize("model", [softmax(20, 500), matmul(70, 64, 96)], ids=["softmax", "matmul"])
def test_the_emulator_agrees(model, target):
    """The same code in the emulator, which rounds the hardware's approximate functions better."""
    compiled = graphfuse.compile(model, target=target, device="cuda")
    feed = feed_of(model)
    emulated = CompiledModel(compiled.executable, device="emulator")(feed)["z"]
    np.testing.assert_allclose(compiled(feed)["z"], emulated, rtol=1e-5, atol=1e-6)


def test_one_artifact_for_cpu_and_gpu(target, tmp_path):
    model = GRAPHS["layer_norm"]()
    graphfuse.compile(model, target=["cpu", target]).save(tmp_path / "m.gfx")
    feed, run = feed_of(model), reference(model.SerializeToString())
    for device in ("cpu", "cuda"):
        assert compare(run(feed), graphfuse.load(tmp_path / "m.gfx", device=device)(feed)) <= BOUND


def test_ptx_where_there_is_no_cubin(target, tmp_path):
    """The driver assembles, as it does for an artifact from a machine without an assembler."""
    model = GRAPHS["pointwise"]()
    executable = graphfuse.compile(model, target=target).executable
    code = {k: dataclasses.replace(c, object=b"") for k, c in executable.code.items()}
    gfx.save(dataclasses.replace(executable, code=code), tmp_path / "m.gfx")
    feed, run = feed_of(model), reference(model.SerializeToString())
    assert compare(run(feed), graphfuse.load(tmp_path / "m.gfx", device="cuda")(feed)) <= BOUND
