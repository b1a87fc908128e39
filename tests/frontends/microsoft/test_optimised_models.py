"""Models as ONNX Runtime writes them after its own optimisations, and as language models are exported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper, parser

import graphfuse
from tests.frontends.microsoft.attention_cases import COS, SIN
from tests.frontends.support import Array, floats, rng

BLOCK = """
agraph (float[batch, steps, 16] x, float[batch, steps, 16] skip) => (float[batch, steps, 16] y) {
  two = Constant <value = float {2.0}> ()
  tiny = Constant <value = float {1e-5}> ()
  sum = Add (x, skip)
  mean = ReduceMean <axes = [-1]> (sum)
  centred = Sub (sum, mean)
  square = Pow (centred, two)
  variance = ReduceMean <axes = [-1]> (square)
  guarded = Add (variance, tiny)
  deviation = Sqrt (guarded)
  unit = Div (centred, deviation)
  scaled = Mul (unit, gamma)
  normed = Add (scaled, beta)
  wide = MatMul (normed, up)
  biased = Add (wide, bias)
  root = Constant <value = float {1.4142135381698608}> ()
  ratio = Div (biased, root)
  erf = Erf (ratio)
  one = Constant <value = float {1.0}> ()
  phi = Add (erf, one)
  weighted = Mul (biased, phi)
  half = Constant <value = float {0.5}> ()
  active = Mul (weighted, half)
  narrow = MatMul (active, down)
  across = Transpose <perm = [0, 2, 1]> (narrow)
  scores = MatMul (narrow, across)
  quarter = Constant <value = float {0.25}> ()
  small = Mul (scores, quarter)
  weights = Softmax <axis = -1> (small)
  y = MatMul (weights, narrow)
}
"""
CONVOLUTIONS = """
agraph (float[batch, 3, 9, 9] x) => (float[batch, 5] y) {
  a = Conv <pads = [1, 1, 1, 1]> (x, w1, b1)
  b = Relu (a)
  c = Conv <pads = [1, 1, 1, 1]> (b, w2, b1)
  d = LeakyRelu <alpha = 0.2> (c)
  e = GlobalAveragePool (d)
  f = Flatten (e)
  g = Gemm (f, w3, b3)
  y = Relu (g)
}
"""
QUANTISED = """
agraph (float[batch, 3, 9, 9] x) => (float[batch, 4] y) {
  qx = QuantizeLinear (x, sx, zero)
  dx = DequantizeLinear (qx, sx, zero)
  dw = DequantizeLinear (qw, sw, none)
  a = Conv <pads = [1, 1, 1, 1]> (dx, dw)
  qa = QuantizeLinear (a, sa, zero)
  da = DequantizeLinear (qa, sa, zero)
  dv = DequantizeLinear (qv, sw, none)
  b = Conv <pads = [1, 1, 1, 1]> (da, dv)
  qb = QuantizeLinear (b, sa, zero)
  db = DequantizeLinear (qb, sa, zero)
  c = Add (da, db)
  qc = QuantizeLinear (c, sa, zero)
  dc = DequantizeLinear (qc, sa, zero)
  d = GlobalAveragePool (dc)
  qd = QuantizeLinear (d, sx, zero)
  dd = DequantizeLinear (qd, sx, zero)
  y = Flatten (dd)
}
"""


def parsed(text: str, weights: dict[str, Array], opset: int) -> onnx.ModelProto:
    graph = parser.parse_graph(text)
    graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in weights.items())
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def optimised(model: onnx.ModelProto, folder: Path) -> Path:
    """What ONNX Runtime writes when it is asked for all that does not depend on the machine."""
    runtime = pytest.importorskip("onnxruntime")
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(folder / "optimised.onnx")
    runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return folder / "optimised.onnx"


def plain(model: onnx.ModelProto, fed: dict[str, Array]) -> Array:
    """The result of the model as it was."""
    runtime = pytest.importorskip("onnxruntime")
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return runtime.InferenceSession(model.SerializeToString(), options).run(None, fed)[0]


def operators(path: Path) -> set[str]:
    return {f"{n.domain}:{n.op_type}" for n in onnx.load(path).graph.node}


@pytest.mark.parametrize("device", ["cpu", pytest.param("emulator", marks=pytest.mark.full)])
def test_a_block_of_a_transformer(tmp_path, device):
    weights = {"gamma": floats(16), "beta": floats(16, seed=1), "bias": floats(32, seed=2)}
    weights |= {"up": floats(16, 32, seed=3) / 4, "down": floats(32, 16, seed=4) / 6}
    model = parsed(BLOCK, weights, 13)
    path = optimised(model, tmp_path)
    assert {f"com.microsoft:{n}" for n in ("SkipLayerNormalization", "BiasGelu", "FusedMatMul")} <= operators(path)
    compiled = graphfuse.compile(path, device=device, numerics="strict")
    for batch, steps in ((1, 1), (2, 7)):
        fed = {"x": floats(batch, steps, 16, seed=5), "skip": floats(batch, steps, 16, seed=6)}
        np.testing.assert_allclose(compiled(fed)["y"], plain(model, fed), rtol=1e-4, atol=1e-5)


def test_a_layer_norm_older_than_the_standards(tmp_path):
    """ONNX Runtime writes it into ONNX's domain at any opset."""
    text = BLOCK[: BLOCK.index("  wide =")].replace("normed =", "y =") + "}"
    model = parsed(
        text.replace("sum = Add (x, skip)", "sum = Mul (x, skip)"), {"gamma": floats(16), "beta": floats(16)}, 13
    )
    path = optimised(model, tmp_path)
    assert ":LayerNormalization" in operators(path)
    fed = {"x": floats(2, 3, 16), "skip": floats(2, 3, 16, seed=6)}
    np.testing.assert_allclose(graphfuse.compile(path)(fed)["y"], plain(model, fed), rtol=1e-4, atol=1e-5)


def test_convolutions_with_activations(tmp_path):
    weights = {"w1": floats(4, 3, 3, 3), "b1": floats(4), "w2": floats(4, 4, 3, 3), "w3": floats(4, 5), "b3": floats(5)}
    model = parsed(CONVOLUTIONS, weights, 13)
    path = optimised(model, tmp_path)
    assert {"com.microsoft:FusedConv", "com.microsoft:FusedGemm"} <= operators(path)
    fed = {"x": floats(2, 3, 9, 9)}
    np.testing.assert_allclose(graphfuse.compile(path)(fed)["y"], plain(model, fed), rtol=1e-4, atol=1e-4)


def test_a_quantised_network(tmp_path):
    weights: dict[str, Any] = {"sx": np.float32(0.02), "sw": np.float32(0.01), "sa": np.float32(0.1)}
    weights |= {"zero": np.uint8(120), "none": np.int8(0)}
    shapes = {"qw": (4, 3, 3, 3), "qv": (4, 4, 3, 3)}
    weights |= {n: rng(i).integers(-90, 90, s).astype(np.int8) for i, (n, s) in enumerate(shapes.items())}
    model = parsed(QUANTISED, {n: np.asarray(a) for n, a in weights.items()}, 13)
    path = optimised(model, tmp_path)
    assert {"com.microsoft:QLinearAdd", "com.microsoft:QLinearGlobalAveragePool"} <= operators(path)
    fed = {"x": floats(2, 3, 9, 9)}
    steps = np.abs(graphfuse.compile(path)(fed)["y"] - plain(model, fed)) / 0.02
    assert steps.max() < 1.5


def decoder() -> onnx.ModelProto:
    """Grouped queries as exporters write them: lengths come of the attention mask, whose last dim is all tokens."""
    text = """
    agraph (float[batch, steps, 128] qkv, int64[batch, total] attention_mask,
            float[batch, 2, past, 16] past_key, float[batch, 2, past, 16] past_value)
      => (float[batch, steps, 64] y, float[batch, 2, all, 16] key, float[batch, 2, all, 16] value) {
      one = Constant <value = int64[1] {1}> ()
      counts = ReduceSum <keepdims = 0> (attention_mask, one)
      less = Sub (counts, one)
      lengths = Cast <to = 6> (less)
      shape = Shape (attention_mask)
      last = Gather (shape, one)
      total_length = Cast <to = 6> (last)
      y, key, value = com.microsoft.GroupQueryAttention <num_heads = 4, kv_num_heads = 2, do_rotary = 1> (
        qkv, , , past_key, past_value, lengths, total_length, cos, sin)
    }
    """
    graph = parser.parse_graph(text)
    graph.initializer.extend([numpy_helper.from_array(COS, "cos"), numpy_helper.from_array(SIN, "sin")])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


@pytest.mark.parametrize("device", ["cpu", pytest.param("emulator", marks=pytest.mark.full)])
def test_one_artifact_makes_prompts_and_tokens(device):
    """One compilation for a prompt without a past, tokens after ragged prompts, a chunk, and a longer buffer."""
    model = decoder()
    runtime = pytest.importorskip("onnxruntime").InferenceSession(model.SerializeToString())
    compiled = graphfuse.compile(model, device=device, dims={"past": (0, 1024)}, numerics="strict")
    for batch, steps, past, lengths, total in (
        (2, 5, 0, [5, 5], 5),
        (2, 1, 6, [7, 4], 7),
        (1, 4, 6, [10], 10),
        (2, 1, 12, [7, 4], 7),
    ):
        mask = (np.arange(total) < np.array(lengths)[:, None]).astype(np.int64)
        fed = {"qkv": floats(batch, steps, 128), "attention_mask": mask}
        fed |= {"past_key": floats(batch, 2, past, 16, seed=1), "past_value": floats(batch, 2, past, 16, seed=2)}
        got = compiled(fed)
        for name, want in zip(("y", "key", "value"), runtime.run(None, fed), strict=True):
            np.testing.assert_allclose(got[name], want, rtol=1e-4, atol=1e-5, err_msg=f"{name} {steps} {past}")
