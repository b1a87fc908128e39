"""Dims that turn out to be 1 broadcast on a GPU, too: one compiled model, with strides of 0 and 1."""

from __future__ import annotations

import itertools

import numpy as np
from onnx.helper import make_node

import graphfuse
from graphfuse.compiled_model import on_host
from tests.frontends.support import floats, model_of


def test_dims_of_one_on_the_emulator():
    nodes = [make_node("Add", ["x", "w"], ["a"]), make_node("ReduceSum", ["a"], ["y"], keepdims=0)]
    model = model_of(nodes, {"x": (np.float32, ["n", 8]), "w": (np.float32, ["m", "k"])}, ["y"])
    compiled = graphfuse.compile(model, target="cuda:sm_90a", device="emulator")
    for n, m, k in itertools.product((1, 5), (1, 5), (1, 8)):
        x, w = floats(n, 8), floats(m, k, seed=1)
        np.testing.assert_allclose(on_host(compiled({"x": x, "w": w})["y"]), (x + w).sum(), rtol=1e-5)
