"""Every model compiled once and run at all its shapes against ONNX Runtime; also in other types, and token by token."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import AttributeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import graphfuse
import models
from graphfuse import checking
from graphfuse.frontends.onnx import import_model
from graphfuse.generation import Decoder, Generator
from graphfuse.ir.parser import parse
from models import _compare, _health, tinygpt
from models._compare import BOUND
from tests.machine import HOST

pytest.importorskip("onnxruntime")

COMMITTED = {"digits", "tinygpt"}  # of one size
# exported by torch, or of one (full) size: minutes on first use, then cached
SLOW = {name for name in models.names() if models.requires(name) or name.startswith("light_")}
# of operators and patterns that distilbert, bilstm, mobilenet_v3, tinygpt and vit_tiny have as well
SLOW |= {"bert_base", "bigru_tagger", "efficientnet_b0", "gpt2", "vit_base"}
FULL_SIZE = [name for name in models.names() if name not in COMMITTED and not name.startswith("light_")]
ALLOWED_EPS = {np.float16: 16, ml_dtypes.bfloat16: 16, np.float64: 64}
"""Error allowed by type, in its epsilon. Halves round where a kernel ends and sum in f32; f64 rounds in every sum."""


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch):
    monkeypatch.setenv("GRAPHFUSE_CACHE", "0")


def _parameters(names):
    return [pytest.param(n, marks=[pytest.mark.full] if n in SLOW else []) for n in names]


def _built(name, *, small):
    if packages := models.lacking(name):
        pytest.skip(f"building {name} needs {packages}")
    return models.cached(name, small=small)


@pytest.mark.parametrize("name", _parameters(models.names()))
def test_one_artifact_matches_onnxruntime_at_every_shape(name, tmp_path):
    """And the comparison can fail: it does beside the same model with one weight off by one percent."""
    path, model = _built(name, small=True), models.get(name)
    broken, weight = _health.perturb(onnx.load(path))
    onnx.save(broken, tmp_path / "broken.onnx")
    compiled = graphfuse.compile(path, dims=model.DIMS)
    right, wrong = (_compare.onnxruntime_of(p) for p in (path, tmp_path / "broken.onnx"))
    distances = []
    for seed, dims in enumerate(_compare.shapes(model)):
        feeds = model.inputs(np.random.default_rng(seed), small=True, **dims)
        found = compiled(feeds)
        distance = _compare.distance(right(feeds), found)
        print(f"{name} {dims}: {distance:.1e}")  # noqa: T201  # shown by `-rP`
        assert distance <= BOUND, dims
        distances.append(_compare.distance(wrong(feeds), found))
    # not at every shape: over a sequence of one, queries and keys do not matter
    assert max(distances) > BOUND, f"scaling {weight} by 1.01 moves the outputs by {distances}"


@pytest.mark.full
@pytest.mark.parametrize("name", FULL_SIZE)
def test_full_size_matches_onnxruntime_at_every_shape(name):
    _built(name, small=False)
    for dims, distance in _compare.distances(name, small=False):
        print(f"{name} {dims}: {distance:.1e}")  # noqa: T201  # shown by `-rP`
        assert distance <= BOUND, dims


# each region against float64


@pytest.mark.some(2)
@pytest.mark.parametrize("name", ["bilstm", "gpt2", "unet"])
def test_every_region_agrees_with_the_interpreter(name):
    model = models.get(name)
    func = import_model(models.cached(name, small=True), dims=model.DIMS)
    feeds = model.inputs(np.random.default_rng(0), small=True, **model.TEST_DIMS[1])
    checks = checking.verify_regions(func, HOST, [feeds[n] for n in func.attrs["inputs"]])
    assert len(checks) > 10
    assert [c for c in checks if c.is_suspect] == []


def _check(text, *inputs):
    return checking.verify_regions(parse(text), HOST, list(inputs))


OVERFLOWS = """
func @main(%x: tensor<64xf32>) {
  %low = graph.full() {elem = f32, shape = [64], value = -3.0e38} : tensor<64xf32>
  %y = graph.add(%x, %low) : tensor<64xf32>
  return(%y)
}
"""

LOOP = """
func @main(%x: tensor<64xf32>, %rows: tensor<(n)x64xf32>) dims (n in 0..9) {
  %y = graph.loop(%x) {count = (n), symbol = "i"} do (%h: tensor<64xf32>) {
    %row = graph.slice(%rows) {sizes = [1, 64], starts = [(i), 0], steps = [1, 1]} : tensor<1x64xf32>
    %flat = graph.reshape(%row) {shape = [64]} : tensor<64xf32>
    %sum = graph.add(%h, %flat) : tensor<64xf32>
    yield(%sum)
  } : tensor<64xf32>
  return(%y)
}
"""


def _ramp(*shape):
    return np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)


@pytest.mark.parametrize("wrong", [False, True])
def test_a_wrong_kernel_is_found_where_f32_overflows_and_f64_does_not(monkeypatch, wrong):
    launch = checking._Checker._launch
    if wrong:
        monkeypatch.setattr(checking._Checker, "_launch", lambda *args: [a * 0.5 for a in launch(*args)])
    x = np.where(_ramp(64) < 0, np.float32(-3e38), _ramp(64))
    (check,) = _check(OVERFLOWS, x)
    assert check.is_suspect == wrong, check


@pytest.mark.parametrize("count", [0, 1, 5])
@pytest.mark.parametrize("wrong", [False, True])
def test_regions_in_a_loop_are_checked_at_its_first_turn(monkeypatch, wrong, count):
    launch = checking._Checker._launch
    if wrong:
        monkeypatch.setattr(checking._Checker, "_launch", lambda *args: [a * 1.01 for a in launch(*args)])
    checks = _check(LOOP, _ramp(64), _ramp(count, 64))
    assert len(checks) == (2 if count else 1), "one region copies the first value"
    assert all(c.is_suspect == wrong for c in checks), checks


# other types


def _converted(model, stored, rounded=None):
    """The model with its f32 tensors as `stored`, weights rounded to `rounded` on the way."""
    elem = helper.np_dtype_to_tensor_dtype(np.dtype(stored))
    out = onnx.ModelProto()
    out.CopyFrom(model)
    attributes = [a for n in out.graph.node for a in n.attribute]
    for t in [*out.graph.initializer, *(a.t for a in attributes if a.type == AttributeProto.TENSOR)]:
        if t.data_type == TensorProto.FLOAT:
            limit = float(ml_dtypes.finfo(rounded or stored).max)  # masks have f32's lowest number
            array = np.clip(numpy_helper.to_array(t).astype(np.float64), -limit, limit).astype(rounded or stored)
            t.CopyFrom(numpy_helper.from_array(array.astype(stored), t.name))
    for a in attributes:
        if a.name == "to" and a.i == TensorProto.FLOAT:
            a.i = elem
    for info in [*out.graph.input, *out.graph.output, *out.graph.value_info]:
        if info.type.tensor_type.elem_type == TensorProto.FLOAT:
            info.type.tensor_type.elem_type = elem
    return out


OTHERS = [(name, dtype) for name in ("llama", "resnet50") for dtype in ALLOWED_EPS]
FEW = [("llama", np.float64), ("llama", ml_dtypes.bfloat16), ("resnet50", np.float16)]


@pytest.mark.parametrize(
    ("name", "dtype"),
    [pytest.param(*of, marks=() if of in FEW else pytest.mark.full, id=f"{of[0]}-{of[1].__name__}") for of in OTHERS],
)
def test_other_types_stay_within_their_own_precision(name, dtype):
    model, source = models.get(name), onnx.load(models.cached(name, small=True))
    compiled = graphfuse.compile(_converted(source, dtype), dims=model.DIMS)
    # float64 on the same rounded weights
    reference = ReferenceEvaluator(_converted(source, np.float64, dtype))
    for seed, dims in enumerate(model.TEST_DIMS):
        feeds = model.inputs(np.random.default_rng(seed), small=True, **dims)
        feeds = {k: v.astype(dtype) if v.dtype == np.float32 else v for k, v in feeds.items()}
        wide = {k: v.astype(np.float64) if v.dtype == dtype else v for k, v in feeds.items()}
        want = dict(zip(reference.output_names, reference.run(None, wide), strict=True))
        got = compiled(feeds)
        assert {v.dtype for v in got.values()} == {np.dtype(dtype)}
        distance = _health.distance(want, {k: v.astype(np.float64) for k, v in got.items()})
        assert distance <= ALLOWED_EPS[dtype] * float(ml_dtypes.finfo(dtype).eps), dims


# generation with a cache


def test_greedy_tokens_from_a_loaded_artifact_are_onnxruntimes(tmp_path: Path):
    artifact = tmp_path / "tinygpt.gfx"
    graphfuse.compile(tinygpt.FILE, dims=tinygpt.DIMS).save(artifact)
    tokenizer = tinygpt.Tokenizer()
    (written,) = Generator(Decoder(graphfuse.load(artifact)), tokenizer).generate("The sea ", max_new_tokens=96)
    run, ids = _compare.onnxruntime_of(tinygpt.FILE), tokenizer.encode("The sea ")
    for token in written.tokens:  # which reads the whole text each time
        logits = run({"input_ids": np.array([ids]), **tinygpt.empty_cache()})["logits"]
        assert token == logits[0, -1].argmax()
        ids.append(token)
    assert len(set(written.text)) > 8
