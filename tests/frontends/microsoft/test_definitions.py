"""Operators that ONNX Runtime's CPU kernels leave out, or refuse a form of, beside what their definitions say."""

from __future__ import annotations

import math
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from graphfuse.errors import GraphfuseError
from graphfuse.host.model import OnnxModel
from tests.frontends.microsoft.attention_cases import (
    BEAMS,
    BUFFERS,
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
    STEP,
    TOKENS,
    V1,
    K,
    Q,
    V,
    grouped,
    in_place,
    total,
)
from tests.frontends.microsoft.cases import FOUR_BITS
from tests.frontends.microsoft.support import (
    F32,
    I8,
    I32,
    I64,
    Case,
    case,
    compare,
    f32,
    half,
    i8,
    integers,
    interpreted,
    signed,
    u8,
    unsigned,
    weights,
)
from tests.frontends.support import Array, declare, floats, onnxruntime_reference

erf = np.vectorize(math.erf, otypes=[F32])


def expect(c: Case, *want: Array) -> None:
    compare(c, interpreted(c, want), want)


def same(c: Case, as_: Case) -> None:
    """Two ways to write the same."""
    want = interpreted(as_, onnxruntime_reference(*as_.model()))
    compare(c, interpreted(c, want), want)


def gelu(x: Array) -> Array:
    return (x / 2 * (1 + erf(x / np.sqrt(2)))).astype(F32)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def grouped_norm(x: Array, gamma: Array, beta: Array, groups: int, *, silu: bool = False) -> Array:
    """Of channels that come last."""
    parts = x.astype(np.float64).reshape(x.shape[0], -1, groups, x.shape[-1] // groups)
    mean, deviation = parts.mean((1, 3), keepdims=True), np.sqrt(parts.var((1, 3), keepdims=True) + 1e-5)
    y = ((parts - mean) / deviation).reshape(x.shape) * gamma + beta
    return (y * sigmoid(y) if silu else y).astype(x.dtype)


IMAGE, GAMMA, BETA, BIAS = floats(2, 5, 3, 8), floats(8, seed=1), floats(8, seed=2), floats(8, seed=3)


@pytest.mark.parametrize("silu", [0, 1])
def test_group_norm(silu):
    want = grouped_norm(IMAGE, GAMMA, BETA, 4, silu=bool(silu))
    expect(case("GroupNorm", IMAGE, GAMMA, BETA, groups=4, activation=silu), want)
    first = IMAGE.transpose(0, 3, 1, 2).copy()
    expect(
        case("GroupNorm", first, GAMMA, BETA, groups=4, activation=silu, channels_last=0), want.transpose(0, 3, 1, 2)
    )
    expect(case("GroupNorm", half(IMAGE), GAMMA, BETA, groups=4, activation=silu, error=1e-2), half(want))


@pytest.mark.parametrize("shape", [(2, 8), (2, 1, 1, 8), (2, 5, 3, 8)])
def test_skip_group_norm(shape):
    skip = floats(*shape, seed=4)
    at = skip.reshape(2, 1, 1, 8) if skip.ndim == 2 else skip
    s = IMAGE + at + BIAS
    c = case("SkipGroupNorm", IMAGE, GAMMA, BETA, skip, BIAS, groups=2, activation=0, outputs=2)
    expect(c, grouped_norm(s, GAMMA, BETA, 2), s)
    c = case("SkipGroupNorm", IMAGE, GAMMA, BETA, skip, groups=2, activation=1)
    expect(c, grouped_norm(IMAGE + at, GAMMA, BETA, 2, silu=True))


def test_norms_give_their_sums_and_statistics():
    x, skip = floats(2, 3, 8), floats(2, 3, 8, seed=4)
    s = x + skip + BIAS
    mean, inverse = s.mean(-1, keepdims=True), 1 / np.sqrt(s.var(-1, keepdims=True) + 1e-5)
    c = case("SkipLayerNormalization", x, skip, GAMMA, BETA, BIAS, epsilon=1e-5, outputs=4)
    expect(c, (s - mean) * inverse * GAMMA + BETA, mean, inverse, s)


def test_biases():
    x, other = floats(2, 3, 8), floats(2, 3, 8, seed=4)
    expect(case("BiasAdd", x, BIAS, other), x + BIAS + other)
    expect(case("BiasSplitGelu", x, BIAS), (x + BIAS)[..., :4] * gelu((x + BIAS)[..., 4:]))
    expect(case("BiasDropout", x, BIAS, other, f32(0.3), outputs=2), x + BIAS + other, np.ones(x.shape, bool))
    expect(case("BiasDropout", x, BIAS), x + BIAS)
    h = floats(4, 8)
    w, y = floats(8, 5, seed=5), h @ floats(8, 5, seed=5) + floats(5)
    want = y / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y**3)))
    expect(case("GemmFastGelu", h, w, floats(5)), want)


@pytest.mark.parametrize(("shape", "axis", "inner"), [((2, 1, 1, 5), 3, 1), ((3, 4, 5), 3, 0), ((1, 1, 4, 5), 2, 0)])
def test_bias_softmax(shape, axis, inner):
    x, bias = floats(2, 3, 4, 5), floats(*shape, seed=1)
    powers = np.exp(x + bias)
    want = powers / powers.sum(tuple(range(axis, 4)), keepdims=True)
    expect(case("BiasSoftmax", x, bias, axis=axis, is_inner_broadcast=inner), want)


def test_fused_products_name_their_activation():
    a, b = floats(2, 3, 4), floats(4, 5, seed=1)
    c = case("FusedMatMulActivation", a, b, alpha=0.5, activation="LeakyRelu", activation_alpha=0.3)
    y = a @ b * F32(0.5)
    expect(c, np.where(y < 0, y * F32(0.3), y))
    with pytest.raises(GraphfuseError, match="activation must be one of Relu, .*, got Erf"):
        interpreted(case("FusedMatMulActivation", a, b, activation="Erf"))


@pytest.mark.parametrize("form", [{"strides": [2, 1]}, {"pads": [1, 0, 1, 2], "group": 2}])
def test_convolutions_of_channels_that_come_last(form):
    x, w, bias = floats(2, 7, 6, 4), floats(6, 4 // form.get("group", 1), 3, 3, seed=1), floats(6)
    plain = case("FusedConv", x.transpose(0, 3, 1, 2).copy(), w, bias, **form)
    (y,) = onnxruntime_reference(*plain.model())
    y = y.transpose(0, 2, 3, 1)
    expect(case("NhwcConv", x, w, bias, **form), y)
    other = floats(*y.shape, seed=2)
    expect(case("NhwcFusedConv", x, w, bias, other, activation="Relu", **form), np.maximum(y + other, 0))


def test_complex_products():
    a, b = floats(2, 1, 4, 2), floats(3, 4, 2, seed=1)
    wide_a, wide_b = a[..., 0] + 1j * a[..., 1], b[..., 0] + 1j * b[..., 1]
    for op, product in (("ComplexMul", wide_a * wide_b), ("ComplexMulConj", wide_a * wide_b.conj())):
        expect(case(op, a, b), np.stack([product.real, product.imag], -1).astype(F32))


def test_real_transforms():
    x = floats(2, 3, 8)
    spectrum = np.fft.rfft(x)
    parts = np.stack([spectrum.real, spectrum.imag], -1).astype(F32)
    expect(case("Rfft", x, signal_ndim=1), parts)
    expect(case("Irfft", parts, signal_ndim=1), x)
    with pytest.raises(GraphfuseError, match="signal_ndim"):
        interpreted(case("Rfft", x, signal_ndim=2))


def test_mean_of_quantised_tensors():
    x = unsigned(2, 3, 4)
    real = (x.astype(F32) - 9) * F32(0.1)
    for keep in (0, 1):
        want = np.clip(np.round(real.mean((0, 2), keepdims=bool(keep)) / F32(0.05)) + 100, 0, 255).astype(np.uint8)
        c = case("QLinearReduceMean", x, f32(0.1), u8(9), f32(0.05), u8(100), axes=[0, -1], keepdims=keep, error=1)
        expect(c, want)


@pytest.mark.parametrize(
    ("c", "raised"),
    [
        (case("QLinearConv", unsigned(2, 7, 6, 4), f32(0.05), u8(120), signed(6, 4, 3, 3), np.abs(floats(6)) / 99,
              np.zeros(6, I8), f32(0.5), u8(100), integers(-99, 99, 6), known=(3, 4, 5), channels_last=1, error=1),
         (3, 5)),
        (case("QGemm", unsigned(3, 40), f32(0.05), u8(120), signed(40, 5), f32(0.02), i8(3), integers(-99, 99, 5),
              f32(0.9), u8(100), error=1), (3, 5)),
        (case("QGemm", unsigned(3, 40), f32(0.05), u8(120), signed(40, 5), np.abs(floats(5)), signed(5)), (3, 5)),
        (case("MatMulIntegerToFloat", unsigned(3, 40), signed(40, 5), f32(0.05), np.abs(floats(5)), None, signed(5)),
         (1, 5)),
        (case("DynamicQuantizeMatMul", floats(3, 40), signed(40, 5), np.abs(floats(5)), signed(5)), (1, 3)),
        (case("DynamicQuantizeLSTM", floats(5, 2, 3), signed(1, 3, 16), signed(1, 4, 16), floats(1, 32), None, None,
              None, None, np.full(1, 0.01, F32), np.full(1, 3, I8), np.full(1, 0.01, F32), np.full(1, -2, I8),
              known=(1, 2, 8, 9, 10, 11), hidden_size=4, outputs=3, error=2e-2), (1, 2, 9, 11)),
        (case("QAttention", unsigned(2, 5, 16), signed(16, 48), floats(48), f32(0.01), f32(0.01), MASK, u8(120),
              i8(2), num_heads=4, error=1e-4), (1, 7)),
    ],
    ids=lambda x: x.op if isinstance(x, Case) else "",
)  # fmt: skip
def test_signed_weights_are_unsigned_ones_less_128(c, raised):
    """Of all eight bits: ONNX Runtime's sums of products of unsigned bytes saturate on no processor."""
    twin = replace(c, arrays=tuple(raise_128(x) if i in raised else x for i, x in enumerate(c.arrays)))
    expect(c, *onnxruntime_reference(*twin.model()))


@pytest.mark.parametrize(("scales", "zeros"), [(1, 5), (5, 1)])
def test_one_scale_or_zero_point_is_of_every_column(scales, zeros):
    x, b, scale, zero = floats(3, 8), weights(8, 5), np.abs(floats(scales)), signed(zeros)
    whole = (np.broadcast_to(scale, 5).copy(), np.broadcast_to(zero, 5).copy())
    same(case("DynamicQuantizeMatMul", x, b, scale, zero), case("DynamicQuantizeMatMul", x, b, *whole))


def raise_128(x: Array) -> Array:
    assert x.dtype == np.int8
    return np.asarray(x.astype(I32) + 128, np.uint8)


def test_zero_points_left_out_are_zero():
    x = signed(2, 9)
    same(
        case("QLinearLeakyRelu", x, f32(0.1), None, f32(0.2), alpha=0.1, error=1),
        case("QLinearLeakyRelu", x, f32(0.1), i8(0), f32(0.2), i8(0), alpha=0.1, error=1),
    )
    same(
        case("QLinearAdd", x, f32(0.1), None, x, f32(0.2), None, f32(0.3), error=1),
        case("QLinearAdd", x, f32(0.1), i8(0), x, f32(0.2), i8(0), f32(0.3), i8(0), error=1),
    )


@pytest.mark.parametrize("activation", ["relu", "silu", "identity"])
@pytest.mark.parametrize(("k", "normalised"), [(1, 0), (2, 1)])
def test_experts(activation, k, normalised):
    tokens, router = floats(6, 8), floats(6, 4, seed=1)
    w1, b1, w2, b2 = floats(4, 5, 8, seed=2), floats(4, 5, seed=3), floats(4, 8, 5, seed=4), floats(4, 8, seed=5)
    weights = np.exp(router) / np.exp(router).sum(1, keepdims=True)
    act = {"relu": lambda x: np.maximum(x, 0), "silu": lambda x: x * sigmoid(x), "identity": lambda x: x}
    want = np.zeros_like(tokens)
    for i, token in enumerate(tokens):
        best = np.argsort(-router[i])[:k]
        scale = weights[i, best].sum() if normalised else 1
        for e in best:
            want[i] += weights[i, e] / scale * (w2[e] @ act[activation](w1[e] @ token + b1[e]) + b2[e])
    c = case(
        "MoE",
        tokens.reshape(2, 3, 8),
        router,
        w1,
        b1,
        w2,
        b2,
        k=k,
        normalize_routing_weights=normalised,
        activation_type=activation,
        error=1e-4,
    )
    expect(c, want.reshape(2, 3, 8))


def test_both_halves_of_experts_may_be_apart():
    tokens, router, w, b = floats(6, 8), floats(6, 4, seed=1), floats(4, 10, 8, seed=2), floats(4, 10, seed=3)
    out = floats(4, 8, 5, seed=4)
    form = {"k": 2, "activation_type": "swiglu", "activation_alpha": 1.5, "activation_beta": 1.0, "error": 1e-4}
    mixed = case("MoE", tokens, router, w, b, out, swiglu_fusion=1, **form)
    (gate, linear), (gate_bias, linear_bias) = ((x[:, ::2].copy(), x[:, 1::2].copy()) for x in (w, b))
    joined = [np.concatenate(pair, 1) for pair in ((gate, linear), (gate_bias, linear_bias))]
    same(case("MoE", tokens, router, *joined, out, swiglu_fusion=2, **form), mixed)
    same(case("MoE", tokens, router, gate, gate_bias, out, None, linear, linear_bias, **form), mixed)


def test_weights_of_four_bits_as_they_lie():
    """ONNX Runtime's CPU kernel takes them to be transposed whatever `transB` says."""
    form = {"known": (1, 2), "K": 12, "N": 8, "block_size": 16, "quant_type": 1}
    (w,) = interpreted(case("MatMulBnb4", np.eye(12, dtype=F32), *FOUR_BITS, **form), [floats(1)])
    expect(case("MatMulBnb4", floats(2, 3, 8), *FOUR_BITS, transB=0, **form), floats(2, 3, 8) @ w.T)


def test_distinct_elements_in_order_of_appearance():
    """Python executes it: how many there are is data."""
    c = case("Unique", np.array([2, 1, 1, 3, 4, 3], F32), outputs=3)
    model, fed = c.model()
    want = onnxruntime_reference(model, fed)
    declare(model, want)
    compare(c, list(OnnxModel(model)(fed).values()), want)


# attention


def test_attention_without_a_bias_and_with_a_square_mask():
    w, square = floats(16, 48), integers(0, 2, 2, 1, 9, 9)
    same(
        case("Attention", TOKENS, w, None, MASK, num_heads=4, error=1e-4),
        case("Attention", TOKENS, w, np.zeros(48, F32), MASK, num_heads=4, error=1e-4),
    )
    same(
        case("Attention", TOKENS, w, None, square, PAST, num_heads=4, error=1e-4, outputs=2),
        case(
            "Attention",
            TOKENS,
            w,
            np.zeros(48, F32),
            square[:, 0, 3:8, :8].copy(),
            PAST,
            num_heads=4,
            error=1e-4,
            outputs=2,
        ),
    )


def test_packed_queries_keys_and_values():
    packed = floats(2, 5, 4, 3, 4)
    q, k, v = (np.ascontiguousarray(packed[:, :, :, i]).reshape(2, 5, 16) for i in range(3))
    apart = case("MultiHeadAttention", q, k, v, num_heads=4, outputs=3)
    same(case("MultiHeadAttention", packed, num_heads=4, outputs=3), apart)
    same(case("MultiHeadAttention", q, np.ascontiguousarray(packed[:, :, :, 1:]), num_heads=4, outputs=3), apart)
    bias = floats(48)
    same(
        case("MultiHeadAttention", packed, None, None, bias, num_heads=4),
        case("MultiHeadAttention", q, k, v, bias, num_heads=4),
    )


def test_decoding_attention_is_attention_of_one_step():
    q, k, v = (floats(2, 1, 16, seed=i) for i in range(3))
    mask, bias, added = integers(0, 2, 2, 4), floats(48), floats(2, 4, 1, 4)
    want = case("MultiHeadAttention", q, k, v, bias, mask, added, *PAST, num_heads=4, outputs=3)
    rest = (mask, added, *PAST, None, None, None, bias)
    same(case("DecoderMaskedMultiHeadAttention", q, k, v, *rest, num_heads=4, outputs=3), want)
    packed = np.concatenate([q, k, v], 2)
    same(case("DecoderMaskedMultiHeadAttention", packed, None, None, *rest, num_heads=4, outputs=3), want)


@pytest.mark.parametrize("elem", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("known", [(), (7,)])
def test_a_step_of_beams_in_halves(elem, known):
    """Packed, and with scores where they can be had; ONNX Runtime's CPU kernel has f32 alone."""
    step, buffers = [x.astype(elem) for x in STEP], [x.astype(elem) for x in BUFFERS]
    rows = np.arange(4)[:, None] // 2 * 2 + BEAMS.reshape(4, 9)[:, :5]
    q, k, v = (x.astype(F32).reshape(4, 3, 1, 8) for x in step)
    old_k, old_v = ([x.astype(F32)[rows[b], :, range(5)].swapaxes(0, 1) for b in range(4)] for x in buffers)
    keys, values = (np.concatenate([np.stack(old), new], 2) for old, new in ((old_k, k), (old_v, v)))
    scores = q @ keys.swapaxes(2, 3) / math.sqrt(8)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    want = [(powers / powers.sum(-1, keepdims=True) @ values).reshape(4, 1, 24).astype(elem), *map(np.copy, buffers)]
    for buffer, new in zip(want[1:], (k, v), strict=True):
        buffer[:, :, 5] = new[:, :, 0]
    packed = np.concatenate(step, 2)
    given = (np.array([5], I32), np.array([2], I32), BEAMS)
    c = case("DecoderMaskedMultiHeadAttention", packed, None, None, None, None, *buffers, *given, num_heads=3,
             past_present_share_buffer=1, outputs=4 if known else 3, known=known, error=2e-2)  # fmt: skip
    expect(c, *want, *([scores] if known else []))


@pytest.mark.parametrize(("both", "queries", "keys"), [(1, 90, 90), (0, 70, 70), (1, 3, 5)])
def test_bias_of_distances(both, queries, keys):
    """Beside the formula of T5's own code; the table lies as ONNX Runtime's optimizer writes it, by heads."""
    torch = pytest.importorskip("torch")
    count, most, table = 16, 40, floats(16, 3)
    distance = torch.arange(keys)[None] - torch.arange(queries)[:, None]
    bucket, side = torch.zeros_like(distance), count // (1 + both)
    if both:
        bucket, distance = (distance > 0) * side, distance.abs()
    else:
        distance = -torch.minimum(distance, torch.zeros_like(distance))
    exact = side // 2
    far = exact + (torch.log(distance.float() / exact) / math.log(most / exact) * (side - exact)).long()
    bucket = bucket + torch.where(distance < exact, distance, far.clamp(max=side - 1))
    want = table[bucket.numpy()].transpose(2, 0, 1)[None]
    stored = np.ascontiguousarray(table.T).reshape(16, 3)
    lengths = [np.array([n], I64) for n in (queries, keys)]
    c = case("RelativePositionBias", stored, *lengths, known=(1, 2), max_distance=most, is_bidirectional=both)
    expect(c, np.ascontiguousarray(want))


def test_gated_bias_of_distances():
    query, bias, places = floats(2, 5, 12), floats(12, seed=1), floats(1, 3, 5, 5, seed=2)
    w, b, a = floats(4, 8, seed=3), floats(8, seed=4), floats(1, 3, 1, 1, seed=5)
    q = (query + bias).reshape(2, 5, 3, 4).transpose(0, 2, 1, 3)
    gates = sigmoid((q @ w + b).reshape(2, 3, 5, 2, 4).sum(-1))
    want = (gates[..., :1] * (gates[..., 1:] * a - 1) + 2) * places
    expect(case("GatedRelativePositionBias", query, bias, places, w, b, a, num_heads=3), want)


def test_padded_prompts_give_their_own_tokens_results():
    """What a padding token attends to is nobody's business; ONNX Runtime leaves it undefined."""
    c = grouped(Q, K, V, None, None, np.array([4, 2], I32), total(5), COS, SIN, do_rotary=1)
    want = onnxruntime_reference(*c.model())
    got = interpreted(c, want)
    compare(c, [got[0][0], got[0][1, :3], got[1], got[2]], [want[0][0], want[0][1, :3], want[1], want[2]])


@pytest.mark.parametrize(
    ("given", "of_queries", "of_keys"),
    [
        ({}, 1e-6, 1e-6),
        ({"qk_norm_epsilon": 0.5}, 0.5, 0.5),
        ({"qk_norm_epsilon": 0.5, "k_norm_epsilon": 2.0}, 0.5, 2.0),
    ],
)
def test_queries_and_keys_may_be_normalised(given, of_queries, of_keys):
    def norm(x: Array, weight: Array, epsilon: float) -> Array:
        parts = x.reshape(*x.shape[:2], -1, 16)
        root = np.sqrt((parts**2).mean(-1, keepdims=True) + F32(epsilon))
        return (parts / root * weight).reshape(x.shape)

    a, b = floats(16, seed=7), floats(16, seed=8)
    rest = (PAST_K, PAST_V, RAGGED, total(7), COS, SIN)
    same(
        grouped(Q1, K1, V1, *rest, None, None, None, None, None, a, b, do_rotary=1, **given),
        grouped(norm(Q1, a, of_queries), norm(K1, b, of_keys), V1, *rest, do_rotary=1),
    )


@pytest.mark.parametrize(
    ("c", "message"),
    [
        (grouped(Q, K, V, None, None, PROMPT, total(5), sliding_window_cache=1, local_window_size=3),
         "sliding_window_cache needs past_key, past_value and a local_window_size"),
        (grouped(Q1, K1, V1, PAST_K, PAST_V, RAGGED, total(7), sliding_window_cache=1),
         "sliding_window_cache needs past_key, past_value and a local_window_size"),
        (grouped(Q1, K1, V1, PAST_K, PAST_V, RAGGED, total(7), sliding_window_cache=1, local_window_size=3, qk_output=1,
                 outputs=4), "qk_output must be 0 with a sliding_window_cache"),
        (grouped(Q, K, V, None, None, PROMPT, total(5), k_quant_type="PER_TENSOR"),
         "k_quant_type PER_TENSOR needs a past and k_scale"),
        (grouped(Q, K, V, None, None, PROMPT, f32(5)), "total_sequence_length must be of integers, got tensor<f32>"),
        (grouped(Q, K, V, None, None, PROMPT, total(5), *(None,) * 4, floats(1)), "dim 0 of the sink: expected 1 = 4"),
        (grouped(Q, K, V, None, None, PROMPT, total(5), heads=3), "3 query and 2 key heads|3 query heads"),
        (case("Attention", TOKENS, floats(16, 48), num_heads=4, do_rotary=1), "attribute do_rotary must be 0, got 1"),
        (case("Attention", TOKENS, floats(16, 48), num_heads=5), "num_heads is 5, which does not divide 16"),
        (case("Attention", TOKENS, floats(16, 48), None, np.zeros(8, I32), num_heads=4),
         "lengths: expected 4 to be at least 8"),
        (case("MultiHeadAttention", TOKENS, num_heads=4), "keys and values must be given unless they are packed"),
        (case("MultiHeadAttention", TOKENS, TOKENS, TOKENS, None, np.ones((2, 4), I32), num_heads=4),
         "dim 1 of the mask: expected 4 = 5"),
        (case("DecoderMaskedMultiHeadAttention", *STEP, None, None, *BUFFERS, num_heads=3, past_present_share_buffer=1),
         "a shared buffer needs past_key, past_value and past_sequence_length"),
        (case("DecoderMaskedMultiHeadAttention", *STEP, None, None, *BUFFERS, np.array([5], I32), num_heads=3),
         r"input 7 \(past_sequence_length\) must be left out"),
        (in_place(past=5, outputs=4), "past_sequence_length must be known at compile time, scores have its length"),
        (case("RotaryEmbedding", TOKENS, np.zeros(1, I64), COS, SIN, is_packed_batching=1), "batching must be 0"),
        (case("GatherBlockQuantized", unsigned(9, 8), integers(0, 9, 3), floats(9, 1), known=(0, 2), quantize_axis=0),
         "must differ, got 0 for both"),
        (case("GroupNorm", IMAGE, GAMMA, BETA, groups=3, activation=0), "8 channels do not divide into 3 groups"),
        (case("GroupNorm", IMAGE, GAMMA, BETA, groups=4, activation=2), r"0 \(none\) or 1 \(SiLU\), got 2"),
        (case("CDist", floats(2, 3), floats(2, 3), metric="cosine"), "metric must be euclidean or sqeuclidean"),
        (case("BiasDropout", TOKENS, floats(16), None, f32(0.5), np.ones((), bool), known=(3, 4)), "random numbers"),
        (case("QLinearConcat", f32(1), u8(0), unsigned(2), f32(1), axis=0), "expected tensors with a scale"),
        (case("MoE", floats(2, 4), floats(2, 3), floats(3, 5, 4), None, floats(3, 4, 5), activation_type="mish"),
         "activation_type must be relu"),
    ],
    ids=lambda x: x.op if isinstance(x, Case) else "",
)  # fmt: skip
def test_what_is_not_built_is_an_error(c, message):
    with pytest.raises(GraphfuseError, match=message) as e:
        interpreted(c)
    assert e.value.loc is not None
    assert c.op in e.value.loc.node
