"""Models in half precision on the emulator, and that their products take the way of tensor cores."""

from __future__ import annotations

import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import graphfuse
import models
from graphfuse.stages import emit
from models import _compare
from tests.models.test_precision import BOUNDS


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch):
    monkeypatch.setenv("GRAPHFUSE_CACHE", "0")


def entries(compiled):
    """The PTX of each kernel."""
    ptx = emit(compiled.executable, "ptx")
    return {m[1]: m[2] for m in re.finditer(r"\.entry (\w+)\((.*?)(?=\.entry |\Z)", ptx, re.DOTALL)}


@pytest.mark.parametrize(
    ("name", "precision"),
    [
        ("dlrm", "f16"),
        *(pytest.param(*c, marks=pytest.mark.full) for c in (("gpt2", "bf16"), ("dlrm", "bf16"), ("gpt2", "f16"))),
    ],
)
def test_models_on_the_emulator(name, precision):
    pytest.importorskip("onnxruntime")
    model, path = models.get(name), models.cached(name, small=True)
    compiled = graphfuse.compile(path, dims=model.DIMS, precision=precision, target="cuda:sm_90a", device="emulator")
    assert any("wgmma" in text for text in entries(compiled).values())
    feeds = model.inputs(np.random.default_rng(0), small=True, **model.TEST_DIMS[0])
    wanted = _compare.onnxruntime_of(path)(feeds)
    assert 1e-6 < _compare.distance(wanted, compiled(feeds)) <= BOUNDS[precision]


@pytest.mark.parametrize("precision", ["f32", *BOUNDS])
def test_a_linear_layer_is_one_kernel_of_wgmma(precision):
    w = np.random.default_rng(0).standard_normal((256, 256)).astype(np.float32)
    made = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [256, 256])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [256, 256])],
        [numpy_helper.from_array(w, "w")],
    )
    proto = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(proto)
    compiled = graphfuse.compile(proto, precision=precision, target="cuda:sm_90a", device="emulator")
    products = [text for name, text in entries(compiled).items() if name.startswith("contraction")]
    assert len(products) == 1
    elem = f".f32.{precision}.{precision}"
    assert (elem in products[0] and "wgmma.mma_async" in products[0]) == (precision != "f32")
