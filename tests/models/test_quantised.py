"""Quantised models against ONNX Runtime, within what rounding changes in it; all their products are of bytes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import graphfuse
import models
from graphfuse.compiler import stages
from graphfuse.dialects import graph
from graphfuse.frontends.onnx import import_model
from graphfuse.fusion.quantised.multiply_bytes import is_byte
from graphfuse.ir.core import tensor_of
from graphfuse.knobs import Options
from models import _compare, _health
from tests.machine import HOST

pytest.importorskip("onnxruntime")

QUANTISED = {"Conv", "Gemm", "QLinearConv", "QGemm", "MatMulInteger"}


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHFUSE_CACHE", "0")


def check(name: str, *, small: bool) -> None:
    path, model = models.cached(name, small=small), models.get(name)
    compiled = graphfuse.compile(path, dims=model.DIMS)
    reference = _compare.onnxruntime_of(path)
    for seed, dims in enumerate(_compare.shapes(model)):
        feeds = model.inputs(np.random.default_rng(seed), small=small, **dims)
        expected = reference(feeds)
        assert _health.spread(expected) > 0.05, dims
        assert _compare.distance(expected, compiled(feeds)) <= getattr(model, "TOLERANCE", _compare.BOUND), dims


@pytest.mark.parametrize("name", models.quantised())
def test_one_artifact_is_as_onnxruntime_at_every_shape(name: str) -> None:
    check(name, small=True)


@pytest.mark.full
@pytest.mark.parametrize("name", models.quantised())
def test_full_size_is_as_onnxruntime_at_every_shape(name: str) -> None:
    check(name, small=False)


@pytest.mark.skipif(HOST.arch != "x86_64", reason="bytes are multiplied on x86")
@pytest.mark.parametrize("name", models.quantised())
def test_every_quantised_product_multiplies_bytes(name: str) -> None:
    path = models.cached(name, small=True)
    func = import_model(path, dims=models.get(name).DIMS)
    done = stages(func, HOST, Options())
    products = [op for op in done.regions.walk() if op.kind in (graph.contract, graph.conv)]
    by_bytes = [op for op in products if all(is_byte(tensor_of(v).elem) for v in op.operands)]
    assert len(by_bytes) == sum(node.op_type in QUANTISED for node in onnx.load(path).graph.node)
