"""Attention and softmax of halves: the roundings of the standard's bodies, beside ONNX's own evaluation of them."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference.ops.op_attention import _compute_attention

import graphfuse
from graphfuse.fusion.precision.attention_in_f32 import attention_in_f32
from graphfuse.knobs import NUMERICS, Options
from graphfuse.llvm.host import parse_target
from graphfuse.onnx_backend import Backend
from graphfuse.pipelines import graph_passes
from tests.machine import HOST

CASES = {
    "scale is rounded": {},
    "causal": {"is_causal": 1},
    "capped": {"softcap": 2.0, "scale": 0.3},
    "softmax in f32": {"softmax_precision": TensorProto.FLOAT},
}


def drawn(*shapes, seed=3):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(s).astype(np.float16) for s in shapes]


def equal(a, b):
    """The share of elements that are the same half."""
    return float(np.mean(a.view(np.uint16) == b.view(np.uint16)))


@pytest.mark.parametrize("attributes", CASES.values(), ids=CASES)
def test_roundings(attributes):
    """Two query heads to a key head, a mask. Sums of f32 in another order move a rounding here and there."""
    q, k, v, mask = drawn((2, 4, 16, 8), (2, 2, 24, 8), (2, 2, 24, 16), (16, 24))
    node = helper.make_node("Attention", ["q", "k", "v", "mask"], ["y"], **attributes)
    (found,) = Backend.run_node(node, [q, k, v, mask])
    want = _compute_attention(q, k, v, mask, **attributes)[0]
    assert found.dtype == np.float16
    np.testing.assert_allclose(found.astype(np.float64), want.astype(np.float64), rtol=2**-8, atol=2**-10)
    assert equal(found, want) > 0.97


def test_softmax_rounds_every_step():
    (x,) = drawn((64, 100))
    (found,) = Backend.run_node(helper.make_node("Softmax", ["x"], ["y"]), [x])
    e = np.exp(x - x.max(-1, keepdims=True))
    assert equal(found, e / e.sum(-1, keepdims=True)) > 0.99


def test_softmax_of_more_elements_than_f16_counts():
    n = 1 << 17
    (found,) = Backend.run_node(helper.make_node("Softmax", ["x"], ["y"]), [np.ones((1, n), np.float16)])
    np.testing.assert_array_equal(found, np.full((1, n), 2**-17, np.float16))


def test_fast_attention_is_rounded_once():
    """Nearer to the exact result than `eager`, which rounds scores, exponentials and their sum."""
    q, k, v = drawn((1, 2, 32, 16), (1, 2, 64, 16), (1, 2, 64, 16))
    shapes = {"q": q.shape, "k": k.shape, "v": v.shape, "y": q.shape}
    infos = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT16, s) for name, s in shapes.items()}
    node = helper.make_node("Attention", ["q", "k", "v"], ["y"])
    graph = helper.make_graph([node], "g", [infos["q"], infos["k"], infos["v"]], [infos["y"]])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)])
    exact = _compute_attention(*(x.astype(np.float64) for x in (q, k, v)))[0]
    eager, fast = (
        np.linalg.norm(graphfuse.compile(model, numerics=n)({"q": q, "k": k, "v": v})["y"] - exact)
        for n in ("eager", "fast")
    )
    assert fast < eager / 1.5


def test_where_attention_is_in_f32():
    """On a GPU, whose one walk over the keys has no place for the roundings, and under `fast`."""
    cpu, gpu = (
        {n: attention_in_f32 in graph_passes(target, Options(numerics=n)) for n in NUMERICS}
        for target in (HOST, parse_target("cuda:sm_80"))
    )
    assert cpu == {"strict": False, "eager": False, "fast": True}
    assert gpu == {"strict": False, "eager": True, "fast": True}
