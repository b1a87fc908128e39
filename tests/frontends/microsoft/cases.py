"""Nodes that ONNX Runtime's CPU kernels execute: attribute forms, optional inputs given and left out."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from tests.frontends.microsoft.support import (
    F32,
    F64,
    I8,
    I32,
    I64,
    U8,
    case,
    f32,
    half,
    i8,
    integers,
    signed,
    u8,
    unsigned,
    weights,
)
from tests.frontends.support import Array, floats

X = floats(2, 3, 8)
GAMMA, BETA, BIAS = (floats(8, seed=i) for i in (1, 2, 3))
IMAGE, WEIGHT = floats(2, 4, 7, 6), floats(6, 4, 3, 3, seed=1)
WORDS = integers(0, 20, 2, 5)
TABLES = (floats(20, 8), floats(9, 8, seed=1), floats(2, 8, seed=2))
BYTES = (unsigned(20, 8), unsigned(9, 8, seed=1), unsigned(2, 8, seed=2), unsigned(8, seed=3), unsigned(8, seed=4))
SCALES = tuple(f32(s) for s in (0.02, 0.03, 0.01, 0.015, 0.04))
ZEROS = tuple(u8(z) for z in (120, 131, 9, 77, 200))

NORMS = [
    case("SkipLayerNormalization", X, floats(2, 3, 8, seed=4), GAMMA, BETA, BIAS, epsilon=1e-5),
    case("SkipLayerNormalization", X, floats(3, 8, seed=4), GAMMA),
    case("SkipLayerNormalization", X, floats(1, 3, 8, seed=4), GAMMA, None, BIAS),
    case("SkipLayerNormalization", *map(half, (X, X + 1, GAMMA, BETA, BIAS)), error=4e-3),
    case("SkipSimplifiedLayerNormalization", X, floats(2, 3, 8, seed=4), GAMMA, epsilon=1e-6),
    case("SkipSimplifiedLayerNormalization", floats(3, 8), floats(3, 8, seed=4), GAMMA, BIAS),
    case("SkipSimplifiedLayerNormalization", *map(half, (X, X + 1, GAMMA, BIAS)), error=4e-3),
    case("SimplifiedLayerNormalization", X, GAMMA, domain=""),
    case("SimplifiedLayerNormalization", X, floats(3, 8), axis=1, epsilon=1e-3, domain="", outputs=2),
    case("SimplifiedLayerNormalization", half(X), half(GAMMA), domain="", error=4e-3),
    case("EmbedLayerNormalization", WORDS, WORDS % 2, *TABLES, GAMMA, BETA, (WORDS > 5).astype(I32), outputs=2),
    case("EmbedLayerNormalization", WORDS, None, *TABLES[:2], None, GAMMA, BETA, None,
         integers(0, 9, 2, 5), outputs=3),
    case("EmbedLayerNormalization", WORDS, None, *TABLES[:2], None, GAMMA, BETA, None,
         integers(0, 9, 1, 5), outputs=2, epsilon=1e-3),
    case("EmbedLayerNormalization", WORDS, WORDS % 2, *TABLES, GAMMA, BETA, outputs=2),
    case("QEmbedLayerNormalization", WORDS, WORDS % 2, *BYTES, (WORDS > 5).astype(I32), *SCALES, *ZEROS, outputs=2),
    case("QEmbedLayerNormalization", WORDS, None, *BYTES[:2], None, *BYTES[3:], None, *SCALES[:2], None, *SCALES[3:],
         *ZEROS[:2], None, *ZEROS[3:], outputs=2, epsilon=1e-3),
]  # fmt: skip

ACTIVATIONS = [
    case("BiasGelu", X, BIAS),
    case("FastGelu", X, BIAS),
    case("FastGelu", X),
    case("Gelu", X),
    case("QuickGelu", X),
    case("QuickGelu", X, alpha=0.7),
]  # fmt: skip

PRODUCTS = [
    case("FusedMatMul", floats(2, 3, 4), floats(2, 5, 4, seed=1), transB=1, alpha=0.5),
    case("FusedMatMul", floats(2, 4, 3), floats(4, 5, seed=1), transA=1),
    case("FusedMatMul", floats(3, 2, 6, 4), floats(2, 6, 4, 5, seed=1), transBatchA=1),
    case("FusedMatMul", floats(4, 2, 6, 3), floats(2, 6, 4, 5, seed=1), transBatchA=1, transA=1),
    case("FusedMatMul", floats(2, 6, 3, 4), floats(4, 2, 6, 5, seed=1), transBatchB=1),
    case("FusedMatMul", floats(2, 6, 3, 4), floats(5, 2, 6, 4, seed=1), transBatchB=1, transB=1),
    case("FusedMatMul", floats(2, 3, 4).astype(F64), floats(4, 5, seed=1).astype(F64)),
    case("TransposeMatMul", floats(2, 4, 3), floats(2, 5, 4, seed=1), transA=1, transB=1),
    *(case("FusedGemm", floats(3, 4), floats(4, 5, seed=1), floats(5), activation=a)
      for a in ("Relu", "Sigmoid", "Tanh", "Softplus", "Softsign")),
    case("FusedGemm", floats(3, 4), floats(4, 5, seed=1), floats(5), activation="Elu", activation_alpha=0.7),
    case("FusedGemm", floats(4, 3), floats(5, 4, seed=1), None, transA=1, transB=1, alpha=2.0,
         activation="LeakyRelu", activation_alpha=0.3),
    case("FusedGemm", floats(3, 4), floats(4, 5, seed=1), floats(3, 1), beta=0.5,
         activation="HardSigmoid", activation_alpha=0.3, activation_beta=0.1),
    case("FusedConv", IMAGE, WEIGHT, floats(6), activation="Relu", pads=[1, 1, 1, 1]),
    case("FusedConv", IMAGE, WEIGHT, floats(6), floats(2, 6, 5, 4), activation="Relu"),
    case("FusedConv", IMAGE, floats(6, 2, 3, 3), None, group=2, strides=[2, 1], activation="LeakyRelu",
         activation_params=[0.2]),
    case("FusedConv", IMAGE, WEIGHT, activation="Clip", activation_params=[-1.0, 2.0], dilations=[2, 2]),
    case("FusedConv", IMAGE, WEIGHT, activation="HardSigmoid", activation_params=[0.3, 0.4], auto_pad="SAME_UPPER"),
    case("ConvTransposeWithDynamicPads", floats(1, 4, 5, 6), floats(4, 3, 3, 3), np.array([1, 0, 1, 2], I64),
         floats(3), known=(2,), strides=[2, 2], output_padding=[1, 0]),
    case("NhwcMaxPool", unsigned(2, 7, 6, 4), kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 0]),
    case("NhwcMaxPool", signed(2, 7, 6, 4), kernel_shape=[2, 2]),
    case("CDist", floats(5, 7), floats(4, 7, seed=1)),
    case("CDist", floats(5, 7), floats(4, 7, seed=1), metric="euclidean"),
    case("Inverse", floats(2, 3, 5, 5), error=1e-4),
    case("Inverse", floats(4, 4).astype(F64)),
    case("MatMulInteger16", integers(-999, 999, 3, 4, dtype=np.int16), integers(-999, 999, 4, 5, dtype=np.int16)),
]  # fmt: skip

MOVEMENT = [
    case("Trilu", floats(2, 5, 6), np.array(1, I64), known=(1,)),
    case("Trilu", floats(2, 5, 6), upper=0),
    case("ExpandDims", floats(2, 3), np.array(-2, I32), known=(1,)),
    case("ExpandDims", floats(2, 3), np.array(2, I32), known=(1,)),
    case("Pad", floats(2, 3), np.array([1, 0, 2, 1], I64), f32(1.5), known=(1, 2)),
    case("Pad", floats(3, 4), np.array([1, 2, 2, 1], I64), known=(1,), mode="reflect"),
    case("Range", *(np.array(v, I64) for v in (2, 9)), known=(0, 1)),
    case("Range", *(np.array(v, F32) for v in (2, 9.5, 1.5)), known=(0, 1, 2)),
    case("GridSample", floats(1, 2, 5, 6), floats(1, 3, 4, 2, seed=1)),
    case("GridSample", floats(1, 2, 5, 6), floats(1, 3, 4, 2, seed=1), mode="nearest", align_corners=1),
    case("GridSample", floats(1, 2, 5, 6), floats(1, 3, 4, 2, seed=1), mode="bicubic", padding_mode="reflection"),
    case("GatherND", floats(2, 3, 4), integers(0, 2, 5, 2)),
    case("UnfoldTensor", floats(2, 9), size=4, step=2),
    case("UnfoldTensor", floats(2, 9, 3), size=2, dim=1, step=3),
]  # fmt: skip
QUANTIZED = [
    *(case(op, unsigned(2, 3, 4), f32(0.1), u8(100), unsigned(3, 1, seed=1), f32(0.07), u8(9), f32(0.09), u8(30),
           error=1) for op in ("QLinearAdd", "QLinearMul")),
    case("QLinearAdd", signed(2, 3), f32(0.1), i8(2), signed(2, 3, seed=1), f32(0.07), i8(-9), f32(0.2), i8(1),
         error=1),
    case("QLinearSigmoid", unsigned(2, 9), f32(0.05), u8(128), f32(1 / 256), u8(0), error=1),
    case("QLinearSigmoid", signed(2, 9), f32(0.05), i8(3), f32(1 / 256), i8(-128), error=1,
         known=(1, 2, 3, 4)),
    case("QLinearLeakyRelu", unsigned(2, 9), f32(0.05), u8(120), f32(0.04), u8(10), alpha=0.2, error=1),
    case("QLinearConcat", f32(0.1), u8(7), unsigned(2, 3), f32(0.2), u8(9), unsigned(2, 2), f32(0.05), u8(90),
         axis=1, known=(0, 1), error=1),
    case("QLinearAveragePool", unsigned(2, 3, 7, 6), f32(0.1), u8(9), f32(0.08), u8(12), kernel_shape=[3, 2],
         strides=[2, 1], pads=[1, 0, 1, 1], error=1),
    case("QLinearAveragePool", unsigned(2, 7, 6, 4), f32(0.1), u8(9), f32(0.08), u8(12), kernel_shape=[2, 2],
         pads=[1, 0, 1, 1], count_include_pad=1, channels_last=1, error=1),
    case("QLinearAveragePool", signed(2, 3, 7, 6), f32(0.1), i8(0), f32(0.08), i8(3), kernel_shape=[3, 3],
         ceil_mode=1, strides=[2, 2], error=1),
    case("QLinearGlobalAveragePool", unsigned(2, 3, 7, 6), f32(0.1), u8(9), f32(0.02), u8(12), error=1),
    case("QLinearGlobalAveragePool", signed(2, 7, 6, 3), f32(0.1), i8(9), f32(0.02), i8(1),
         channels_last=1, error=1),
    case("QLinearSoftmax", unsigned(2, 3, 5), f32(0.02), u8(9), f32(1 / 256), u8(0), opset=13, axis=-1, error=1),
    case("QLinearSoftmax", unsigned(2, 3, 5), f32(0.02), u8(9), f32(1 / 256), u8(0), opset=12, axis=1, error=1),
    case("QLinearSoftmax", signed(2, 3, 5), f32(0.02), i8(1), f32(1 / 256), i8(-128),
         opset=13, axis=1, error=1),
    case("QLinearWhere", floats(2, 3) > 0, unsigned(2, 3), f32(0.1), u8(9), unsigned(2, 3, seed=1), f32(0.2), u8(99),
         f32(0.15), u8(60), error=1),
    case("QLinearConv", unsigned(2, 7, 6, 4), f32(0.05), u8(120), weights(6, 4, 3, 3), np.abs(floats(6)) / 99,
         np.zeros(6, I8), f32(0.5), u8(100), integers(-99, 99, 6), known=(3, 4, 5), channels_last=1, error=1),
    case("QLinearConv", unsigned(2, 4, 7, 6), f32(0.05), u8(120), unsigned(6, 2, 3, 3), f32(0.01), u8(128),
         f32(0.5), u8(100), group=2, strides=[2, 1], error=1),
    case("QGemm", unsigned(3, 4), f32(0.05), u8(120), weights(4, 5), f32(0.02), i8(3),
         integers(-99, 99, 5), f32(0.3), u8(100), error=1),
    case("QGemm", unsigned(4, 3), f32(0.05), u8(120), unsigned(5, 4), np.abs(floats(5)), unsigned(5), transA=1,
         transB=1, alpha=0.5),
    case("QGemm", signed(3, 4), f32(0.05), i8(2), weights(4, 5), np.abs(floats(5)), signed(5),
         integers(-99, 99, 1, 5)),
    case("MatMulIntegerToFloat", unsigned(2, 3, 4), unsigned(4, 5), f32(0.05), f32(0.02), u8(9), u8(99), floats(5)),
    case("MatMulIntegerToFloat", unsigned(3, 4), weights(4, 5), f32(0.05), np.abs(floats(5)), None, signed(5)),
    case("MatMulIntegerToFloat", signed(3, 4), weights(4, 5), f32(0.05), f32(0.02)),
    case("DynamicQuantizeMatMul", floats(2, 3, 8), unsigned(8, 5), f32(0.02), u8(99), floats(5)),
    case("DynamicQuantizeMatMul", floats(3, 8), weights(8, 5), np.abs(floats(5)), signed(5)),
    case("DynamicQuantizeMatMul", floats(3, 8), weights(8, 5), f32(0.1)),
    case("QuantizeLinear", floats(3, 4), f32(0.02), np.array(9, np.uint16)),
    case("QuantizeLinear", floats(3, 4), np.abs(floats(3)) / 9, signed(3), axis=0),
    case("DequantizeLinear", integers(-999, 999, 3, 4, dtype=np.int16), f32(0.02), np.array(9, np.int16)),
    case("DequantizeLinear", signed(3, 4), np.abs(floats(3)), signed(3), axis=0),
    case("DynamicQuantizeLSTM", floats(5, 2, 3), weights(1, 3, 16), weights(1, 4, 16), floats(1, 32), None,
         floats(1, 2, 4), floats(1, 2, 4, seed=1), None, np.full(1, 0.01, F32), np.full(1, 3, I8),
         np.full(1, 0.01, F32), np.full(1, -2, I8), known=(1, 2, 8, 9, 10, 11), hidden_size=4, outputs=3, error=2e-2),
    case("DynamicQuantizeLSTM", floats(5, 2, 3), unsigned(2, 3, 16), unsigned(2, 4, 16), None, np.array([5, 3], I32),
         None, None, None, np.abs(floats(2, 16)) / 99, np.full((2, 16), 128, U8), np.abs(floats(2, 16)) / 99,
         np.full((2, 16), 128, U8), known=(1, 2, 8, 9, 10, 11), hidden_size=4, direction="bidirectional", outputs=3,
         error=2e-2),
]  # fmt: skip

ROTARY = [floats(20, 4), floats(20, 4, seed=1)]
EMBEDDINGS = [
    case("RotaryEmbedding", floats(2, 3, 24), integers(0, 20, 2, 3, dtype=I64), *ROTARY),
    case("RotaryEmbedding", floats(2, 3, 24), np.array([4], I64), *ROTARY, interleaved=1),
    case("RotaryEmbedding", floats(2, 2, 3, 12), integers(0, 20, 2, 3, dtype=I64), *ROTARY, num_heads=2,
         rotary_embedding_dim=8),
    case("RotaryEmbedding", floats(2, 3, 24), integers(0, 20, 2, 3, dtype=I64), *ROTARY, num_heads=2,
         rotary_embedding_dim=8),
    case("RotaryEmbedding", floats(2, 2, 3, 8), np.array([1], I64), *ROTARY),
    *(case("MRotaryEmbedding", floats(2, 3, 24), integers(0, 20, 3, 2, 3, dtype=I64), *ROTARY, mrope_layout=layout,
           mrope_section=[2, 1, 1], num_heads=n, rotary_embedding_dim=8 * (3 - n))
      for layout in (0, 1) for n in (2, 3)),
    case("MRotaryEmbedding", floats(2, 2, 3, 32), integers(0, 20, 3, 2, 3, dtype=I64), floats(20, 16), floats(20, 16),
         mrope_section=[6, 5, 5], mrope_layout=1),
    case("RotaryEmbedding", half(floats(2, 3, 24)), integers(0, 20, 2, 3, dtype=I64), *map(half, ROTARY), error=3e-3),
    *(case("GatherBlockQuantized", unsigned(9, 64 * bits // 8), integers(-9, 9, 2, 3), np.abs(floats(9, 4)),
           unsigned(9, -(-4 * bits // 8)), known=(0, 2, 3), bits=bits, block_size=16) for bits in (2, 4, 8)),
    case("GatherBlockQuantized", unsigned(9, 24), integers(0, 9, 4, dtype=I64), half(np.abs(floats(9, 3))),
         known=(0, 2), block_size=16, error=3e-3),
    case("GatherBlockQuantized", unsigned(9, 20), np.array(3, I64), np.abs(floats(9, 3)), known=(0, 2), block_size=16),
]  # fmt: skip

EXPERTS = (floats(6, 8), floats(6, 4, seed=1))
FIRST, SECOND = (floats(4, 5, 8, seed=2), floats(4, 5, seed=3)), (floats(4, 8, 5, seed=4), floats(4, 8, seed=5))


def scales(*shape: int) -> Array:
    """Small ones, so that sums of codes are about 1."""
    return np.abs(floats(*shape)) / 64 + F32(0.01)


WIDE = floats(4, 10, 8, seed=2), floats(4, 10, seed=3)
FOUR_BITS = integers(0, 256, 48, dtype=U8), np.abs(floats(6))
PACKED = [
    *(case("MatMulBnb4", floats(3, 12), *FOUR_BITS, known=(1, 2), K=12, N=8, block_size=16, quant_type=kind)
      for kind in (0, 1)),
    *(case("GatherBlockQuantized", integers(low, low + 16, 9, 3, 32).astype(dtype), integers(-3, 3, 4), floats(9, 3, 2),
           integers(low, low + 16, 9, 3, 2).astype(dtype) if zero else None, known=(0, 2, 3) if zero else (0, 2),
           block_size=16, quantize_axis=2, gather_axis=axis)
      for low, dtype in ((0, ml_dtypes.uint4), (-8, ml_dtypes.int4)) for zero in (False, True) for axis in (0, 1)),
]  # fmt: skip

MIXTURES = [
    *(case("MoE", *EXPERTS, *FIRST, *SECOND, k=k, normalize_routing_weights=k - 1, activation_type=a, error=1e-4)
      for k in (1, 2) for a in ("relu", "gelu", "silu", "identity")),
    case("MoE", *EXPERTS, FIRST[0], None, SECOND[0], k=2, activation_type="silu", error=1e-4),
    case("MoE", *EXPERTS, *WIDE, *SECOND, k=2, activation_type="swiglu", swiglu_fusion=1, swiglu_limit=0.9,
         activation_alpha=1.7, activation_beta=1.0, error=1e-4),
    case("MoE", *EXPERTS, *WIDE, *SECOND, k=2, activation_type="swiglu", swiglu_fusion=1, error=1e-4),
    *(case("QMoE", floats(6, 32), EXPERTS[1], integers(0, 256, 4, 48, 32 * bits // 8, dtype=U8), scales(4, 48),
           floats(4, 48), integers(0, 256, 4, 32, 48 * bits // 8, dtype=U8, seed=1), scales(4, 32), None, known=(2, 5),
           k=2, expert_weight_bits=bits, activation_type="silu", normalize_routing_weights=1, error=1e-4)
      for bits in (4, 8)),  # which ONNX Runtime's kernel does always
    case("QMoE", floats(6, 32), EXPERTS[1], integers(0, 256, 4, 64, 16, dtype=U8), scales(4, 64, 2), None,
         integers(0, 256, 4, 32, 16, dtype=U8, seed=1), scales(4, 32, 2), floats(4, 32), None, None, None,
         integers(0, 256, 4, 64, 1, dtype=U8), integers(0, 256, 4, 32, 1, dtype=U8, seed=2), known=(2, 5, 11, 12),
         k=3, block_size=16, activation_type="swiglu", swiglu_fusion=1, normalize_routing_weights=1, error=1e-4),
    case("QMoE", floats(2, 3, 32), EXPERTS[1], integers(0, 256, 4, 48, 16, dtype=U8), scales(4, 48), None,
         integers(0, 256, 4, 32, 24, dtype=U8, seed=1), scales(4, 32), *[None] * 7, np.abs(floats(6, 4, seed=6)),
         known=(2, 5), k=2, activation_type="silu", error=1e-4),
]  # fmt: skip

CASES = [*NORMS, *ACTIVATIONS, *PRODUCTS, *MOVEMENT, *QUANTIZED, *EMBEDDINGS, *PACKED, *MIXTURES]
