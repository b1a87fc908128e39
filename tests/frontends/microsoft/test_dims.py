"""Run-time dims that do not fit ONNX Runtime's own operators are an error, as they are in ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

import graphfuse
from graphfuse.compiler import signature_of
from graphfuse.errors import InputError
from graphfuse.frontends.onnx import import_model
from graphfuse.runtime.binding import Binder
from tests.frontends.microsoft.attention_cases import (
    BEAMS,
    COS,
    K1,
    MASK,
    PAST,
    PAST_K,
    PAST_V,
    PROMPT,
    Q1,
    RAGGED,
    SIN,
    STEP_MASK,
    TOKENS,
    V1,
    K,
    Q,
    V,
    grouped,
    in_place,
    total,
)
from tests.frontends.microsoft.cases import BETA, BIAS, EXPERTS, FIRST, GAMMA, ROTARY, SECOND, X
from tests.frontends.microsoft.paged_cases import PAGED
from tests.frontends.microsoft.support import I8, I32, I64, case, f32, integers, signed, u8, unsigned, weights
from tests.frontends.support import floats

COLUMNS = np.abs(floats(5))

# a node, an input of it, its axis, a size that does not fit
MISFITS = [
    (case("SkipLayerNormalization", X, X, GAMMA, BETA, BIAS), 1, 1, 1),
    (case("SkipLayerNormalization", X, X, GAMMA, BETA, BIAS), 4, 0, 1),
    (case("SkipLayerNormalization", X, X[0], GAMMA), 1, 1, 1),
    (case("SkipSimplifiedLayerNormalization", X, X, GAMMA, BIAS), 0, 0, 1),
    (case("SimplifiedLayerNormalization", X, GAMMA, domain=""), 0, 2, 1),
    (case("SkipGroupNorm", floats(2, 5, 3, 8), GAMMA, BETA, floats(2, 8), BIAS, groups=2, activation=0), 4, 0, 1),
    (case("GatedRMSNorm", X, GAMMA, X), 2, 1, 1),
    (case("BiasGelu", X, BIAS), 1, 0, 1),
    (case("FastGelu", X, BIAS), 1, 0, 1),
    (case("BiasAdd", X, BIAS, X), 2, 1, 1),
    (case("GatedAdd", X, X, X), 1, 1, 1),
    (case("GatedAdd", X, X, X[..., :1]), 2, 1, 1),
    (case("BiasDropout", X, BIAS, X), 2, 1, 1),
    (case("BiasSoftmax", floats(2, 3, 4, 5), floats(3, 4, 5), axis=3, is_inner_broadcast=0), 0, 1, 1),
    (case("FusedConv", floats(1, 2, 4, 4), floats(3, 2, 3, 3), None, floats(1, 3, 2, 2)), 3, 2, 1),
    (case("UnfoldTensor", floats(2, 9), size=4, step=2), 0, 1, 3),
    (case("QGemm", unsigned(3, 4), f32(0.1), u8(9), weights(4, 5), COLUMNS, signed(5), integers(0, 9, 1, 5)), 3, 1, 1),
    (case("QGemm", unsigned(3, 4), f32(0.1), u8(9), weights(4, 5), COLUMNS, signed(5), integers(0, 9, 1, 5)), 4, 0, 1),
    (case("MatMulIntegerToFloat", unsigned(3, 4), weights(4, 5), f32(1), COLUMNS, None, signed(5), floats(5)), 6, 0, 1),
    (case("DynamicQuantizeMatMul", floats(3, 8), weights(8, 5), COLUMNS, np.zeros(5, I8), floats(5)), 1, 1, 1),
    (case("DynamicQuantizeMatMul", floats(3, 8), weights(8, 5), COLUMNS, signed(5)), 2, 0, 4),
    (case("DynamicQuantizeMatMul", floats(3, 8), weights(8, 5), COLUMNS, signed(5)), 3, 0, 4),
    (case("QuantizeLinear", floats(3, 4), COLUMNS[:3], signed(3), axis=0), 2, 0, 1),
    (case("DequantizeLinear", signed(3, 4), COLUMNS[:3], signed(3), axis=0), 1, 0, 1),
    (case("RotaryEmbedding", floats(2, 3, 24), integers(0, 20, 2, 3, dtype=I64), *ROTARY), 3, 0, 1),
    (case("RotaryEmbedding", floats(2, 3, 24), integers(0, 20, 2, 3, dtype=I64), *ROTARY), 1, 1, 1),
    (case("MRotaryEmbedding", floats(2, 3, 24), integers(0, 20, 3, 2, 3, dtype=I64), *ROTARY, mrope_section=[2, 1, 1]),
     1, 1, 1),
    (case("MoE", *EXPERTS, *FIRST, *SECOND, k=1), 3, 1, 1),
    (case("Attention", TOKENS, floats(16, 48), floats(48), num_heads=4), 2, 0, 1),
    (case("Attention", TOKENS, floats(16, 48), floats(48), MASK, num_heads=4), 3, 0, 1),
    (case("Attention", TOKENS, floats(16, 48), floats(48), None, None, floats(1, 4, 5, 5), num_heads=4), 5, 2, 1),
    (case("Attention", TOKENS, floats(16, 48), floats(48), np.array([3, 5, 0, 1], I32), num_heads=4), 3, 0, 3),
    (case("Attention", TOKENS, floats(16, 48), floats(48), integers(0, 2, 2, 5, 5), num_heads=4), 3, 1, 1),
    (case("MultiHeadAttention", TOKENS, *floats(2, 2, 4, 7, 4), num_heads=4), 2, 3, 1),
    (case("MultiHeadAttention", TOKENS, TOKENS, TOKENS, floats(48), num_heads=4), 3, 0, 49),
    (case("MultiHeadAttention", TOKENS, TOKENS, TOKENS, None, integers(0, 2, 2, 8), None, *PAST, num_heads=4), 4, 0, 1),
    (case("DecoderMaskedMultiHeadAttention", floats(2, 1, 16), *floats(2, 2, 4, 7, 4), num_heads=4), 0, 1, 2),
    (in_place(STEP_MASK, past=5), 3, 1, 10),
    (in_place(STEP_MASK, past=5), 6, 2, 8),
    (in_place(None, floats(1, 1, 1, 6), past=5), 4, 3, 10),
    (in_place(past=5, beams=BEAMS), 9, 1, 3),
    (in_place(past=5, beams=BEAMS), 9, 2, 8),
    (in_place(past=5, beams=BEAMS), 9, 2, 12),
    (in_place(None, floats(4, 3, 1, 6), past=5, beams=BEAMS), 4, 0, 5),
    (in_place(past=5), 1, 0, 1),
    (in_place(past=5), 2, 1, 2),
    *((PAGED["plain"], i, axis, size) for i, axis, size in ((1, 0, 7), (2, 1, 16), (4, 1, 2), (4, 3, 8), (5, 0, 4))),
    (PAGED["plain"], 6, 0, 1),
    (PAGED["slots"], 10, 0, 1),
    (PAGED["sink"], 11, 0, 1),
    (PAGED["norms"], 12, 0, 1),
    (PAGED["rotary"], 9, 0, 8),
    (PAGED["rotary"], 8, 1, 16),
    (grouped(Q1, K1, V1, PAST_K, PAST_V, RAGGED, total(7), local_window_size=4, sliding_window_cache=1), 3, 2, 3),
    (grouped(Q, K, V, None, None, PROMPT, total(5)), 0, 1, 8),
    (grouped(Q1, K1, V1, PAST_K, PAST_V, RAGGED, total(7)), 4, 2, 1),
    (grouped(Q1, K1, V1, PAST_K, PAST_V, RAGGED, total(7)), 3, 1, 1),
    (grouped(Q1, K1, V1, PAST_K, PAST_V, RAGGED, total(6)), 3, 2, 4),
    (grouped(Q, K, V, None, None, PROMPT, total(5), COS, SIN, do_rotary=1), 7, 1, 7),
    (grouped(Q, K, V, None, None, PROMPT, total(5), COS, SIN, np.tile(np.arange(5), (2, 1)), do_rotary=1), 9, 0, 1),
    (grouped(Q, K, V, None, None, PROMPT, total(5), None, None, None, floats(1, 4, 5, 5)), 10, 2, 1),
    (case("QLinearConv", unsigned(2, 4, 7, 6), f32(0.05), u8(120), unsigned(6, 4, 3, 3), f32(0.01), u8(128),
          f32(0.5), u8(100), integers(-99, 99, 6)), 8, 0, 1),
    (case("CausalConvWithState", floats(2, 6, 9), floats(6, 1, 4)), 0, 1, 1),
    (case("CausalConvWithState", floats(2, 6, 9), floats(6, 1, 4)), 1, 1, 6),
    (case("LinearAttentionGate", floats(2, 5, 4), floats(4), floats(4), floats(2, 5, 4)), 3, 1, 1),
    (case("CausalConvWithState", floats(2, 6, 9), floats(6, 1, 4), floats(6), floats(2, 6, 3)), 3, 2, 1),
]  # fmt: skip


@pytest.mark.parametrize(("c", "i", "axis", "size"), MISFITS, ids=lambda v: getattr(v, "op", str(v)))
def test_dims_that_do_not_fit(c, i, axis, size):
    model, fed = c.model()
    (info,) = (info for info in model.graph.input if info.name == f"x{i}")
    info.type.tensor_type.shape.dim[axis].dim_param = "n"
    binder = Binder(signature_of(import_model(model)))
    fits = [a.shape for a in fed.values()]
    binder.bind(fits)
    shape = list(fed[f"x{i}"].shape)
    shape[axis] = size
    with pytest.raises(InputError, match=rf"\({c.op}\): .*found"):
        binder.bind([tuple(shape) if n == f"x{i}" else a.shape for n, a in fed.items()])


def test_lengths_are_ends_or_ends_and_starts():
    """Which of both is known when the model runs."""
    model, fed = case("Attention", TOKENS, floats(16, 48), floats(48), np.array([3, 5], I32), num_heads=4).model()
    for i in (0, 3):
        model.graph.input[i].type.tensor_type.shape.dim[0].dim_param = f"n{i}"
    run = graphfuse.compile(model)
    starts = fed | {"x3": np.array([3, 5, 1, 0], I32)}
    for feed, masked in ((fed, [0, 3]), (starts, [1, 3])):
        mask = np.ones((2, 5), I32)
        mask[0] = 0
        mask[0, slice(*masked)] = 1
        want = graphfuse.compile(case("Attention", TOKENS, floats(16, 48), floats(48), mask, num_heads=4).model()[0])
        np.testing.assert_allclose(run(feed)["y0"], want(fed | {"x3": mask})["y0"], rtol=1e-4, atol=1e-5)
