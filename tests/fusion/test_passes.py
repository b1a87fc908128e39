"""The whole pipeline on whole models: numbers, and how many permutes are left."""

import collections

import numpy as np
import pytest

import models
from graphfuse.dialects import graph
from graphfuse.frontends.onnx import import_model
from graphfuse.fusion.passes import GRAPH_PIPELINE
from graphfuse.interp.graph import run
from graphfuse.ir.parser import parse
from graphfuse.ir.passes import run as run_passes

PERMUTES = {
    "resnet50": 1, "densenet": 1, "mobilenet_v3": 1, "efficientnet_b0": 1, "convnext_tiny": 1, "vit_tiny": 1,
    "bert_base": 0, "gpt2": 0, "llama": 0, "llama_decode": 0, "t5_encoder": 0, "mamba": 1, "swin_tiny": 5,
    "unet": 2, "bilstm": 2, "distilbert": 0, "whisper_decoder": 0, "whisper_encoder": 1, "clip": 1, "shufflenet": 6,
}  # fmt: skip
"""At most this many permutes: one for an image input, and those that move elements between windows."""


def _params():
    for name in sorted(PERMUTES):  # exporting a model takes torch, and a while
        yield pytest.param(name, marks=pytest.mark.full if models.requires(name) else ())


@pytest.mark.parametrize("name", list(_params()))
def test_model(name):
    model = models.get(name)
    func = import_model(models.cached(name, small=True))
    new = run_passes(func, GRAPH_PIPELINE, "graph")
    assert collections.Counter(op.kind for op in new.walk())[graph.permute] <= PERMUTES[name]
    given = model.inputs(np.random.default_rng(0), small=True, **(model.TEST_DIMS[0] if model.TEST_DIMS else {}))
    inputs = [given[v.hint] for v in func.params]
    for want, got in zip(run(func, *inputs), run(new, *inputs), strict=True):
        if want.dtype.kind == "f":
            assert np.abs(want - got).max(initial=0) <= 1e-5 * np.abs(want).max(initial=1e-30)
        else:
            assert np.array_equal(want, got)


def test_a_product_that_several_read_in_one_order_is_made_in_it():
    """Queries' gradients: their own weight's and their input's read them by tokens, and layout gave each a permute."""
    func = parse("""
func @f(%s: tensor<2x4x8x8xf32>, %k: tensor<2x8x4x16xf32>, %w: tensor<64x64xf32>, %x: tensor<16x64xf32>) {
  %v0 = graph.contract(%s, %k) {spec = "bhqk,bkhd->bhqd"} : tensor<2x4x8x16xf32>
  %v1 = graph.permute(%v0) {perm = [0, 2, 1, 3]} : tensor<2x8x4x16xf32>
  %v2 = graph.reshape(%v1) {shape = [16, 64]} : tensor<16x64xf32>
  %v3 = graph.contract(%v2, %w) {spec = "mk,kn->mn"} : tensor<16x64xf32>
  %v4 = graph.contract(%v2, %x) {spec = "km,kn->mn"} : tensor<64x64xf32>
  %v5 = graph.reshape(%v1) {shape = [2, 8, 64]} : tensor<2x8x64xf32>
  %v6 = graph.reduce(%v5) {axes = [0, 1], keepdims = false, kind = "sum"} : tensor<64xf32>
  return(%v3, %v4, %v6)
}
""")
    new = run_passes(func, GRAPH_PIPELINE, "graph")
    assert collections.Counter(op.kind for op in new.walk())[graph.permute] == 0
