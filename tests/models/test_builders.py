"""Every model file, small: a valid graph that runs at all its shapes and can expose a bug."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest

import graphfuse
import models
from graphfuse.generation import Decoder, Generator
from models import _health, digits, tinygpt
from models._builder import run_model

pytest.importorskip("onnxruntime")

# committed as files, so nothing is built
_COMMITTED = {"digits", "tinygpt"}
# exported by torch, or of one (full) size: seconds to a minute each on first use, then cached
_SLOW = {name for name in models.names() if models.requires(name) or name.startswith("light_")}


def _parameters() -> list[object]:
    return [pytest.param(name, marks=[pytest.mark.full] if name in _SLOW else []) for name in models.names()]


@pytest.fixture(params=_parameters())
def name(request: pytest.FixtureRequest) -> str:
    """The model under test; skipped where what builds it is not installed."""
    chosen = str(request.param)
    if packages := models.lacking(chosen):
        pytest.skip(f"building {chosen} needs {packages}")
    return chosen


def test_small_model_is_valid_runs_and_is_sensitive(name: str) -> None:
    path, definition = models.cached(name, small=True), models.get(name)
    onnx.checker.check_model(str(path), full_check=True)
    model = onnx.load(path)
    broken, weight = _health.perturb(model)
    changes: list[float] = []
    spreads: list[float] = []
    for dims in definition.TEST_DIMS:
        feeds = definition.inputs(np.random.default_rng(1), small=True, **dims)
        outputs = run_model(model, feeds)
        assert all(np.isfinite(value).all() for value in outputs.values()), dims
        changes.append(_health.distance(outputs, run_model(broken, feeds)))
        spreads.append(_health.spread(outputs))
    # not at every shape: over a sequence of one, queries and keys do not matter
    assert max(changes) > 1e-4, f"scaling {weight} by 1.01 moves the outputs by {changes}"
    assert max(spreads) > 1e-3


def test_small_model_is_reproducible_and_small(name: str, tmp_path: Path) -> None:
    if name in _SLOW | _COMMITTED:
        pytest.skip("not written by a builder")
    first, second = tmp_path / "first.onnx", tmp_path / "second.onnx"
    models.get(name).build(first, small=True)
    models.get(name).build(second, small=True)
    assert first.read_bytes() == second.read_bytes()
    assert first.stat().st_size < 5e6


def test_declared_dims_are_the_graph_inputs_symbols(name: str) -> None:
    model = onnx.load(models.cached(name, small=True))
    symbols = {
        dim.dim_param
        for info in model.graph.input
        for dim in info.type.tensor_type.shape.dim
        if dim.dim_param.isidentifier()
    }
    assert symbols == set(models.get(name).DIMS)
    for dims in models.get(name).TEST_DIMS:
        assert dims.keys() == models.get(name).DIMS.keys()


@pytest.mark.parametrize("name", ["resnet50", "unet"])
def test_calibration_leaves_normalised_activations(name: str) -> None:
    model = onnx.load(models.cached(name, small=True))
    norms = [node for node in model.graph.node if node.op_type == "BatchNormalization"]
    model.graph.output.extend(onnx.ValueInfoProto(name=node.input[0]) for node in norms)
    feeds = models.get(name).inputs(np.random.default_rng(1), small=True, batch=2)
    measured = run_model(model, feeds)
    stored = {init.name: onnx.numpy_helper.to_array(init) for init in model.graph.initializer}
    for node in norms:
        variance = measured[node.input[0]].var(axis=(0, 2, 3))
        assert 0.4 < np.median(variance / stored[node.input[4]]) < 2.5, node.name


def test_digits_reads_the_held_out_digits() -> None:
    pytest.importorskip("sklearn")
    held = digits.held_out()
    logits = run_model(onnx.load(digits.FILE), {"image": held.images})["logits"]
    assert np.mean(logits.argmax(axis=1) == held.labels) >= 0.97
    trained = {image.tobytes() for image in digits.training().images}
    assert not any(image.tobytes() in trained for image in held.images)


def test_tinygpt_writes_words_of_its_corpus() -> None:
    generator = Generator(Decoder(graphfuse.compile(tinygpt.FILE, dims=tinygpt.DIMS)), tinygpt.Tokenizer())
    (written,) = generator.generate("The sea ", max_new_tokens=200, temperature=0.5)
    known = set(re.findall(r"[a-z]+", tinygpt.CORPUS.read_text(encoding="utf-8").lower()))
    words = re.findall(r"[a-z]+", written.text.lower())[:-1]  # the last may be cut off
    assert np.mean([word in known for word in words]) > 0.7


def test_unknown_model_names_the_known_ones() -> None:
    with pytest.raises(KeyError, match="unknown model 'resnet51'; known: bert_base"):
        models.get("resnet51")
