"""What is wrong with one node of a model is said in one message, of every operator that says something of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from graphfuse.errors import GraphfuseError
from graphfuse.frontends.onnx import import_model
from tests.frontends.support import Array, model_of, one_op

F32, I64, U8 = np.float32, np.int64, np.uint8
ML, MICROSOFT, TRAINING = "ai.onnx.ml", "com.microsoft", "ai.onnx.preview.training"
VERSIONS = {ML: 3, MICROSOFT: 1, TRAINING: 1}


def z(*shape: int, dtype: Any = F32) -> Array:
    return np.zeros(shape, dtype)


def ints(*values: int) -> Array:
    return np.array(values, I64)


def one(value: Any, dtype: Any = I64) -> Array:
    return np.array(value, dtype)


Case = tuple[str, str, tuple[Array | None, ...], dict[str, Any], dict[str, Any]]
_OPTIONS = {"known", "outputs", "symbolic", "opset", "domain"}


def bad(op: str, message: str, *arrays: Array | None, **given: Any) -> Case:
    """An operator, its inputs and attributes, and what is wrong with them."""
    options = {k: v for k, v in given.items() if k in _OPTIONS}
    return f"{op}: {message}", op, arrays, options, {k: v for k, v in given.items() if k not in _OPTIONS}


def refuse(model: onnx.ModelProto, message: str) -> None:
    with pytest.raises(GraphfuseError) as e:
        import_model(model)
    assert e.value.message == message
    assert e.value.loc is not None


IMAGE, FILTER = z(1, 2, 6, 6), z(2, 2, 3, 3)
RESIZED = (IMAGE, None, np.array([1, 1, 2, 2], F32))
WINDOWS = [
    bad("Conv", "window attributes do not fit 2 spatial dims", IMAGE, FILTER, strides=[1]),
    bad("Conv", "window, strides and dilations must be positive", IMAGE, FILTER, strides=[0, 1]),
    bad("Conv", "auto_pad must be NOTSET, VALID, SAME_UPPER or SAME_LOWER, got SAME", IMAGE, FILTER, auto_pad="SAME"),
    bad("Conv", "the kernel must have a static size", IMAGE, FILTER, symbolic=True),
    bad("Conv", "kernel_shape is (2, 2), the weight has (3, 3)", IMAGE, FILTER, kernel_shape=[2, 2]),
    bad("Conv", "input and weight must have the same rank of at least 3, got tensor<1x2x6x6xf32> and tensor<2x2x3xf32>",
        IMAGE, z(2, 2, 3)),
    bad("ConvTranspose", "window attributes do not fit 2 spatial dims", IMAGE, FILTER, strides=[2]),
    bad("ConvTranspose", "window attributes do not fit 2 spatial dims", IMAGE, FILTER, pads=[1, 1, 1]),
    bad("MaxUnpool", "window attributes do not fit 2 spatial dims", IMAGE, z(*IMAGE.shape, dtype=np.int64),
        kernel_shape=[2, 2], strides=[2]),
    bad("ConvTranspose", "strides: expected 1 and more, a product of up to 4096, found (0, 1)", IMAGE, FILTER,
        strides=[0, 1]),
    bad("ConvTranspose", "output_shape needs static spatial dims", IMAGE, FILTER, known=(1,), symbolic=True,
        output_shape=[12, 12], strides=[2, 2]),
    bad("DeformConv", "window attributes do not fit 2 spatial dims of static weights", IMAGE, FILTER, z(1, 18, 4, 4),
        strides=[1]),
    bad("Col2Im", "window attributes do not fit 2 spatial dims", z(1, 4, 9), ints(6, 6), ints(2, 2), known=(1, 2),
        strides=[2]),
    bad("MaxPool", "indices of a maximum need a float input, got tensor<1x2x6x6xi8>", IMAGE.astype(np.int8),
        kernel_shape=[2, 2], outputs=2),
    bad("MaxPool", "indices of a maximum need a static input", IMAGE, kernel_shape=[2, 2], outputs=2, symbolic=True),
    bad("RoiAlign", "sampling_ratio 0 takes as many samples as the data says", IMAGE, z(3, 4), ints(0, 0, 0)),
    bad("RoiAlign", "expected images and regions of four numbers, got tensor<1x2x6x6xf32> and tensor<3x5xf32>", IMAGE,
        z(3, 5), ints(0, 0, 0), sampling_ratio=1),
    bad("MaxRoiPool", "expected images and regions of five numbers, got tensor<1x2x6x6xf32> and tensor<3x4xf32>", IMAGE,
        z(3, 4), pooled_shape=[2, 2]),
    bad("UnfoldTensor", "expected slices that fit a dim of 6, got 7, 1 apart", IMAGE, domain=MICROSOFT, size=7),
]  # fmt: skip
RESIZE = [
    bad("Resize", "mode must be nearest, linear or cubic, got area", *RESIZED, known=(2,), mode="area"),
    bad("Resize", "expected positive scales, found [1.0, 1.0, -2.0, 2.0]", IMAGE, None, np.array([1, 1, -2, 2], F32),
        known=(2,)),
    bad("Resize", "unknown coordinate_transformation_mode middle", *RESIZED, known=(2,),
        coordinate_transformation_mode="middle"),
    bad("Resize", "tf_crop_and_resize over symbolic dims is not supported", *RESIZED, known=(2,), symbolic=True,
        coordinate_transformation_mode="tf_crop_and_resize"),
    bad("Resize", "unknown nearest_mode away", *RESIZED, known=(2,), nearest_mode="away"),
    bad("Resize", "unknown nearest_mode away", *RESIZED, known=(2,), nearest_mode="away", symbolic=True),
    bad("Resize", "antialiasing of tensor<1x1x1x1x1x1x1x1x6xf32> has too many dims", z(*(1,) * 8, 6), None, None,
        ints(*(1,) * 8, 3), known=(3,), mode="linear", antialias=1),
    bad("Resize", "antialias needs static dims", *RESIZED, known=(2,), mode="linear", antialias=1, symbolic=True),
]  # fmt: skip
MOVEMENT = [
    bad("Reshape", "shape [-1, -1] must have at most one -1 and nothing below", z(2, 3), ints(-1, -1), known=(1,)),
    bad("Reshape", "the -1 in [0, -1] could be anything", z(0, 3), ints(0, -1), known=(1,), allowzero=1),
    bad("Squeeze", "dim 1 of tensor<2x3xf32> is not 1", z(2, 3), ints(1), known=(1,)),
    bad("Split", "sizes [1, 1] do not add up to dim 1 of tensor<2x3xf32>", z(2, 3), ints(1, 1), known=(1,), axis=1,
        outputs=2),
    bad("Slice", "starts, ends, axes and steps must have the same length", z(2, 3), ints(0, 0), ints(1), known=(1, 2)),
    bad("Slice", "steps must not be 0", z(2, 3), ints(0), ints(1), ints(0), ints(0), known=(1, 2, 3, 4)),
    bad("Pad", "mode must be constant, reflect, edge or wrap, got mirror", z(2, 3), ints(0, 1, 0, 1), known=(1,),
        mode="mirror"),
    bad("DepthToSpace", "blocksize: expected at least 1, found 0", IMAGE, blocksize=0),
    bad("ScatterElements", "reduction must be one of none, add, mul, max, min, got mean", z(2, 3), z(1, 3, dtype=I64),
        z(1, 3), reduction="mean"),
    bad("Compress", "the condition decides a shape, and is not known at compile time", z(6), z(6, dtype=np.bool_)),
    bad("TopK", "k must be in 0..3, got 5", z(2, 3), ints(5), known=(1,), outputs=2),
]  # fmt: skip
SOURCES = [
    bad("Range", "delta must be a number other than 0, got 0", one(0), one(9), one(0), known=(0, 1, 2)),
    bad("Range", "from -1.5e+308 to 1.5e+308 by 0.5 is too large a range", one(-1.5e308, np.float64), one(1.5e308,
        np.float64), one(0.5, np.float64), known=(0, 1, 2)),
    bad("Range", "limit: expected a finite number, found inf", one(0, F32), one(np.inf, F32), one(1, F32), known=(0, 1,
        2)),
    bad("EyeLike", "the input must be a matrix, got tensor<3xf32>", z(3)),
    bad("Trilu", "the input must have at least two dims, got tensor<3xf32>", z(3)),
    bad("OneHot", "the depth: expected at least 0, found -1", ints(0, 1), one(-1), z(2), known=(1,)),
    bad("STFT", "the step: expected at least 1, found 0", z(1, 16, 1), one(0), None, one(8), known=(1, 3)),
    bad("HannWindow", "the window: expected dims of at least 0, found -2", one(-2), known=(0,)),
]  # fmt: skip
ARITHMETIC = [
    bad("MatMul", "input 0 must have at least one dim", z(), z(2)),
    bad("Gemm", "operands must be matrices, got tensor<2xf32> and tensor<2x2xf32>", z(2), z(2, 2)),
    bad("Einsum", "term 'ij' does not fit an operand of 3 dims", z(2, 3, 4), equation="ij->i"),
    bad("BitShift", "direction must be LEFT or RIGHT, got UP", z(2, dtype=U8), z(2, dtype=U8), direction="UP"),
    bad("Cast", "round_mode must be up, down or nearest, got even", z(2), to=onnx.TensorProto.FLOAT8E8M0,
        round_mode="even"),
    bad("Dropout", "training mode is not supported", z(2), one(0.5, F32), one(1, np.bool_), known=(1, 2)),
    bad("Gelu", "approximate must be none or tanh, got erf", z(2), approximate="erf"),
    bad("Attention", "operands must have 3 or 4 dims, got tensor<2x4xf32>", z(2, 4), z(2, 4), z(2, 4), q_num_heads=1,
        kv_num_heads=1),
    bad("RotaryEmbedding", "the rotated width must be even, got 3", z(1, 1, 2, 3), z(1, 2, 1), z(1, 2, 1)),
    bad("LSTM", "the hidden size must be static", z(5, 1, 2), z(1, 12, 2), z(1, 12, 3), symbolic=True, hidden_size=3),
    bad("GRU", "direction must be forward, reverse or bidirectional, got back", z(5, 1, 2), z(1, 9, 2), z(1, 9, 3),
        hidden_size=3, direction="back"),
    bad("RNN", "unknown activation 'Swish'", z(5, 1, 2), z(1, 3, 2), z(1, 3, 3), hidden_size=3, activations=["Swish"]),
    bad("DFT", "the transformed axis must have a static size, got x0_dim1", z(1, 16, 1), symbolic=True),
    bad("Adam", "expected the rate, the count and 4 inputs for each parameter, got 5", one(0.1, F32), one(0), z(2),
        z(2), z(2), domain=TRAINING),
    bad("Momentum", "mode must be one of standard, nesterov, got heavy", one(0.1, F32), one(0), z(2), z(2), z(2),
        domain=TRAINING, alpha=0.9, beta=0.9, norm_coefficient=0.0, mode="heavy", outputs=2),
]  # fmt: skip
TREES = {
    "nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0, 0, 0],
    "nodes_values": [0.5, 0.0, 0.0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0],
    "target_treeids": [0, 0], "target_nodeids": [1, 2], "target_ids": [0, 0],
    "target_weights": [1.0, 2.0], "n_targets": 1,
}  # fmt: skip
CLASSES = {k.replace("target_", "class_"): v for k, v in TREES.items() if k != "n_targets"}


def tensor(values: Any, dtype: Any) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(values, dtype))


ENSEMBLE: dict[str, Any] = {
    "nodes_featureids": [0], "nodes_splits": tensor([0.5], F32), "nodes_modes": tensor([0], U8),
    "nodes_trueleafs": [1], "nodes_falseleafs": [1], "nodes_truenodeids": [0], "nodes_falsenodeids": [1],
    "leaf_targetids": [0, 0], "leaf_weights": tensor([1.0, 2.0], F32), "tree_roots": [0], "n_targets": 1,
}  # fmt: skip
REGRESSOR = "TreeEnsembleRegressor"
LINEAR = {"coefficients": [1.0, 2.0], "intercepts": [0.0], "classlabels_ints": [0, 1]}
MACHINES = {
    "coefficients": [1.0, 1.0], "support_vectors": [0.0, 0.0, 1.0, 1.0], "vectors_per_class": [1, 1],
    "classlabels_ints": [0, 1],
}  # fmt: skip
SUPPORT = {"coefficients": [1.0], "support_vectors": [1.0, 2.0], "n_supports": 1, "rho": [0.0]}
LEARNED = [
    bad("Normalizer", "norm must be MAX, L1 or L2, got L3", z(2, 2), norm="L3"),
    bad("LinearClassifier", "attribute classlabels_ints or classlabels_strings is missing", z(2, 2), outputs=2,
        coefficients=[1.0, 2.0]),
    bad("LinearClassifier", "expected a label for each of 2 classes, found 1", z(2, 2), outputs=2,
        **{**LINEAR, "classlabels_ints": [7]}),
    bad("LinearClassifier", "the number of features must be known at compile time", z(2, 2), outputs=2, symbolic=True,
        coefficients=[1.0, 2.0], classlabels_ints=[0, 1]),
    bad("LinearClassifier", "post_transform: expected one of NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO, PROBIT, found TANH",
        z(2, 2), outputs=2, **LINEAR, post_transform="TANH"),
    bad("LinearRegressor", "coefficients: expected 1 rows of 2, found 3 numbers", z(2, 2), coefficients=[1.0] * 3),
    bad("LinearRegressor", "intercepts: expected 1, found 2", z(2, 2), coefficients=[1.0, 2.0], intercepts=[0.0, 1.0]),
    bad("LinearRegressor", "input 0: expected one or two dims, found 3", z(1, 2, 2), coefficients=[1.0, 2.0]),
    bad("SVMRegressor", "kernel_type: expected LINEAR, POLY, RBF or SIGMOID, found COSINE", z(2, 2), **SUPPORT,
        kernel_type="COSINE"),
    bad("SVMRegressor", "coefficients: expected 1 rows of 1, found 2 numbers", z(2, 2), **{**SUPPORT,
        "coefficients": [1.0, 2.0]}),
    bad("SVMClassifier", "vectors_per_class: expected at least two counts, found [2]", z(2, 2), outputs=2,
        **{**MACHINES, "vectors_per_class": [2]}),
    bad("SVMClassifier", "rho: expected 1, found 2", z(2, 2), outputs=2, **MACHINES, rho=[0.0, 1.0]),
    bad("SVMClassifier", "prob_a and prob_b: expected 1, found 2 and 1", z(2, 2), outputs=2, **MACHINES, rho=[0.0],
        prob_a=[1.0, 1.0], prob_b=[0.0]),
    bad("SVMClassifier", "support_vectors: expected 2 rows of 3, found 4 numbers", z(2, 3), outputs=2, **MACHINES,
        rho=[0.0]),
    bad("OneHotEncoder", "texts, and the check that every element is a category, are not compiled", z(2),
        cats_int64s=[0, 1], zeros=0),
    bad("TreeEnsemble", "unknown aggregate_function 9 or post_transform 0", z(2, 2), **ENSEMBLE, aggregate_function=9),
    bad(REGRESSOR, "aggregate_function: expected one of AVERAGE, SUM, MIN, MAX, found MEDIAN", z(2, 2), **TREES,
        aggregate_function="MEDIAN"),
    bad("TreeEnsembleClassifier", "attribute classlabels_int64s or classlabels_strings is missing", z(2, 2), outputs=2,
        **CLASSES),
    bad(REGRESSOR, "base_values: expected 1, found 2", z(2, 2), **TREES, base_values=[0.0, 1.0]),
    bad(REGRESSOR, "input 0: expected one or two dims, found 3", z(1, 2, 2), **TREES),
    bad(REGRESSOR, "nodes_featureids: expected 0..1, found 5", z(2, 2), **{**TREES, "nodes_featureids": [5, 0, 0]}),
    bad("TreeEnsemble", "membership_values: expected 1 sets, found 0", z(2, 2), **{**ENSEMBLE,
        "nodes_modes": tensor([6], U8)}),
    bad(REGRESSOR, "nodes_modes: expected BRANCH_LEQ, ... or LEAF, found 'NEAR'", z(2, 2), **{**TREES,
        "nodes_modes": ["NEAR", "LEAF", "LEAF"]}),
    bad(REGRESSOR, "target_nodeids: entry 1 names no node", z(2, 2), **{**TREES, "target_nodeids": [1, 7]}),
    bad(REGRESSOR, "attributes of nodes, or of leaves, differ in length", z(2, 2), **{**TREES,
        "target_weights": [1.0]}),
    bad("TreeEnsemble", "expected at least one tree, found none", z(2, 2), **{**ENSEMBLE,
        "tree_roots": helper.make_attribute("tree_roots", [], attr_type=onnx.AttributeProto.INTS)}),
]  # fmt: skip
LEARNED = [(m, op, arrays, {**options, "domain": ML}, a) for m, op, arrays, options, a in LEARNED]

X, BHSD = z(1, 4, 8), z(1, 2, 4, 4)
KV = z(1, 2, 4, 4)
GROUPS = {"num_heads": 2, "kv_num_heads": 2}
GROUPED = (X, X, X, KV, KV, one([3], np.int32), one(4, np.int32))
BYTES = (X, X, X, KV.astype(np.int8), KV.astype(np.int8), *GROUPED[5:], *(None,) * 5)
QUANTISED = {**GROUPS, "outputs": 3, "k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR"}
LINEAR_HEADS = {"q_num_heads": 2, "kv_num_heads": 2, "update_rule": "linear"}
EXPERTS = (z(3, 4), z(3, 2), z(2, 6, 4), None, z(2, 4, 6))
CODED = (z(3, 16), z(3, 2), z(2, 6, 8, dtype=U8), z(2, 6), None, z(2, 16, 3, dtype=U8), z(2, 16), None)
CONV1D = (z(1, 4, 8), z(4, 1, 3), None)
RUNTIME = [
    bad("Attention", "input 6 (past_sequence_length) must be left out, got tensor<i32>", X, z(8, 24), z(24), None, None,
        None, one(0, np.int32), num_heads=2),
    bad("Attention", "expected widths of queries, keys and values that make up 24, got (8, 8)", X, z(8, 24), z(24),
        num_heads=2, qkv_hidden_sizes=[8, 8]),
    bad("Attention", "lengths: expected 2 to be at least 5", X, z(8, 24), z(24), z(5,
        dtype=np.int32), num_heads=2),
    bad("Attention", "past must be keys and values of 2 heads, got tensor<3x1x2x4x4xf32>", X, z(8, 24), z(24), None,
        z(3, 1, 2, 4, 4), num_heads=2),
    bad("MultiHeadAttention", "the mask must have 1, 2 or 3 dims, got tensor<1x1x1x1x4xi32>", X, X, X, None, z(1, 1, 1,
        1, 4, dtype=np.int32), num_heads=2),
    bad("MultiHeadAttention", "keys and values must be given unless they are packed, got a query tensor<1x4x8xf32>", X,
        num_heads=2),
    bad("MultiHeadAttention", "past keys and values must be given together", X, X, X, None, None, None, KV,
        num_heads=2),
    bad("DecoderMaskedMultiHeadAttention",
        "packed queries, keys and values must be of one width, got tensor<1x1x8xf32>", z(1, 1, 8), num_heads=2),
    bad("GroupQueryAttention", "q_norm_weight and k_norm_weight must be given together", *GROUPED, *(None,) * 7, z(4),
        known=(6,), **GROUPS, outputs=3),
    bad("GroupQueryAttention", "past_key and past_value must be given together", X, X, X, KV, None, *GROUPED[5:],
        known=(6,), **GROUPS, outputs=3),
    bad("GroupQueryAttention", "a cache must have the query's element, got tensor<1x2x4x4xf16>", X, X, X,
        KV.astype(np.float16), KV.astype(np.float16), *GROUPED[5:], known=(6,), **GROUPS, outputs=3),
    bad("GroupQueryAttention", "k_scale is for a cache of integers, got k_quant_type NONE", *GROUPED, *(None,) * 5,
        z(1), known=(6,), **GROUPS, outputs=3),
    bad("GroupQueryAttention", "k_quant_type must be NONE, PER_TENSOR or PER_CHANNEL, got PER_HEAD", *BYTES, z(1),
        z(1), known=(6,), **{**QUANTISED, "k_quant_type": "PER_HEAD"}),
    bad("GroupQueryAttention", "v_quant_type PER_TENSOR needs a past and v_scale", *BYTES, z(1), known=(6,),
        **QUANTISED),
    bad("GroupQueryAttention", "a cache of 4 bits cannot be of i8: expected i8 or f8e4m3 for 8, u8 for 4", *BYTES, z(1),
        z(1), known=(6,), **QUANTISED, kv_cache_bit_width=4),
    bad("GroupQueryAttention", "v_scale must be one number, got tensor<2xf32>", *BYTES, z(1), z(2), known=(6,),
        **QUANTISED),
    bad("GroupQueryAttention", "query_seqlens needs past_key and past_value", X, X, X, None, None, *GROUPED[5:],
        *(None,) * 9, one([3], np.int32), known=(6,), **GROUPS, outputs=3),
    bad("GroupQueryAttention", "query_seqlens needs a causal mask", *GROUPED, *(None,) * 9, one([3], np.int32),
        known=(6,), **GROUPS, outputs=3, causal=0),
    bad("GroupQueryAttention", "qk_output must be 0, 1 or 2, got 3", *GROUPED, known=(6,), **GROUPS, outputs=3,
        qk_output=3),
    bad("GroupQueryAttention", "without past keys, total_sequence_length must be 4, got 7", X, X, X, None, None,
        one([3], np.int32), one(7, np.int32), known=(6,), **GROUPS, outputs=3),
    bad("GroupQueryAttention", "local_window_size must be -1 without a causal mask, got 2", *GROUPED, known=(6,),
        **GROUPS, outputs=3, causal=0, local_window_size=2),
    bad("LinearAttention", "update_rule must be one of linear, gated, delta, gated_delta, got sum", X, X, X, outputs=2,
        **{**LINEAR_HEADS, "update_rule": "sum"}),
    bad("LinearAttention", "3 heads do not divide 8 features of input 0", X, X, X, outputs=2, **{**LINEAR_HEADS,
        "q_num_heads": 3}),
    bad("LinearAttention", "2 query heads and 3 key heads do not divide", X, z(1, 4, 12), z(1, 4, 12), outputs=2,
        **{**LINEAR_HEADS, "kv_num_heads": 3}),
    bad("CausalConvWithState", "ndim must be 1, got 2", *CONV1D, outputs=2, ndim=2),
    bad("CausalConvWithState", "activation must be none, silu or swish, got relu", *CONV1D, outputs=2,
        activation="relu"),
    bad("CausalConvWithState", "the weight must have a static shape, got tensor<(x1_dim0)x(x1_dim1)x(x1_dim2)xf32>",
        *CONV1D, outputs=2, symbolic=True),
    bad("EmbedLayerNormalization", "segment_ids and segment_embedding must be given together", z(1, 4, dtype=np.int32),
        None, z(9, 8), z(9, 8), z(2, 8), z(8), z(8), outputs=2),
    bad("MRotaryEmbedding", "mrope_section must be three widths that make up 2, got (1, 2, 1)", BHSD, z(3, 1, 4,
        dtype=I64), z(9, 2), z(9, 2), mrope_section=[1, 2, 1]),
    bad("RotaryEmbedding", "heads of 6 features do not divide 8", X, z(1, 4, dtype=I64), z(9, 3), z(9, 3)),
    bad("GatherBlockQuantized", "data must be integers, got f32", z(4, 32), ints(0), z(4, 2), block_size=16),
    bad("GatherBlockQuantized", "packed data must be quantised along the last dim 1, got 0", z(32, 4, dtype=U8),
        ints(0), z(2, 4), gather_axis=1, quantize_axis=0, block_size=16),
    bad("GatherBlockQuantized", "block_size must be at least 16, got 8", z(4, 32, dtype=U8), ints(0), z(4, 8),
        block_size=8),
    bad("CDist", "metric must be euclidean or sqeuclidean, got cosine", z(2, 3), z(4, 3), metric="cosine"),
    bad("ComplexMul", "the last dim must hold two parts, got tensor<2x3xf32>", z(2, 3), z(2, 3)),
    bad("Irfft", "the last dim must hold two parts, got tensor<2x3xf32>", z(2, 3), normalized=0, onesided=1,
        signal_ndim=1),
    bad("Rfft", "attributes must be {'onesided': 1, 'normalized': 0, 'signal_ndim': 1}, got {'onesided': 0, "
        "'normalized': 0, 'signal_ndim': 1}", z(2, 8), normalized=0, onesided=0, signal_ndim=1),
    bad("Inverse", "expected square matrices, got tensor<2x3xf32>", z(2, 3)),
    bad("MoE", "use_sparse_mixer must be 0, got 1", *EXPERTS, use_sparse_mixer=1, k=1),
    bad("MoE", "k must be at least 1, got 0", *EXPERTS, k=0),
    bad("MoE", "the experts that have weights: expected 2 = 5", EXPERTS[0], z(3, 5), *EXPERTS[2:], k=1),
    bad("MoE", "dim 0 of the scores: expected 4 = 3", EXPERTS[0], z(4, 2), *EXPERTS[2:], k=1),
    bad("MoE", "activation_type must be relu, gelu, silu, swiglu or identity, got tanh", *EXPERTS,
        activation_type="tanh", k=1),
    bad("MoE", "swiglu_fusion must be 0, 1 or 2 of an even width, got 3 of 6", *EXPERTS,
        activation_type="swiglu", swiglu_fusion=3, k=1),
    bad("QMoE", "quant_type must be int or fp8, got nvfp4", *CODED, quant_type="nvfp4", k=1),
    bad("QMoE", "expert_weight_bits must be 2, 4 or 8, got 3", *CODED, known=(2, 5), expert_weight_bits=3, k=1),
    bad("QMoE", "weights_prepacked must be 0 or -1, weights as they are quantised, got 1", *CODED, weights_prepacked=1,
        k=1),
    bad("QMoE", "expected a block_size that divides 16 elements, got 12", *CODED, known=(2, 5), block_size=12, k=1),
    bad("QMoE", "expected weights [experts, features, bytes] in u8, got tensor<2x6x8xf32>", *CODED[:2], z(2, 6, 8),
        *CODED[3:], known=(2, 5), k=1),
    bad("QMoE", "expected zero points [2, 6] of 4 bits, got tensor<2x2xu8>", *CODED, *[None] * 3,
        z(2, 2, dtype=U8), known=(2, 5, 11), k=1),
    bad("QMoE", "fp8 needs weights in f8e4m3 and a block_size, got tensor<2x6x8xu8> and 0", *CODED, quant_type="fp8",
        k=1),
    bad("GroupNorm", "activation must be 0 (none) or 1 (SiLU), got 2", z(1, 2, 2, 4), z(4), z(4), groups=2,
        activation=2),
    bad("GatedRMSNorm", "a norm of 3 features does not divide 8", X, z(3), X),
    bad("GatedRMSNorm", "activation must be silu, swish or sigmoid, got relu", X, z(8), X, activation="relu"),
    bad("RelativePositionBias", "expected several buckets, and a max_distance beyond the exact ones, got 1 and 8", z(1,
        2), one(4), one(4), known=(1, 2), max_distance=8),
    bad("RelativePositionBias", "lengths must be integers, got tensor<f32> and tensor<i64>", z(8, 2), one(4, F32),
        one(4), known=(1, 2), max_distance=8),
    bad("GatedRelativePositionBias", "the gates' weight must have an even width, got 3", X, z(8), z(1, 2, 4, 4), z(4,
        3), z(3), z(1, 2, 1, 1), num_heads=2),
    bad("MatMulNBits", "expected the group of each of 32 elements in int32, got int32[31]", z(2, 32), z(4, 1, 16,
        dtype=U8), z(4), None, z(31, dtype=np.int32), known=(1, 2, 4), K=32, N=4, bits=4, block_size=32),
    bad("MatMulNBits", "groups must be in 0..0, got 1..1", z(2, 32), z(4, 1, 16, dtype=U8), z(4), None, np.ones(32,
        np.int32), known=(1, 2, 4), K=32, N=4, bits=4, block_size=32),
    bad("MatMulNBits", "zero points must be bytes or floats, got int8", z(2, 32), z(4, 1, 16, dtype=U8), z(4), z(4,
        dtype=np.int8), known=(1, 2, 3), K=32, N=4, bits=4, block_size=32),
    bad("MatMulBnb4", "quant_type must be 0 (FP4) or 1 (NF4), got 2", z(2, 32), z(64, dtype=U8), z(4), known=(1, 2),
        K=32, N=4, block_size=32, quant_type=2),
    bad("BiasSplitGelu", "the last dim must be even, got tensor<1x4x7xf32>", z(1, 4, 7), z(7)),
    bad("BiasDropout", "dropout in training draws random numbers", X, z(8), None, one(0.5, F32), one(1, np.bool_),
        known=(3, 4), outputs=2),
]  # fmt: skip
RUNTIME = [(m, op, arrays, {**options, "domain": MICROSOFT}, a) for m, op, arrays, options, a in RUNTIME]

CASES = [*WINDOWS, *RESIZE, *MOVEMENT, *SOURCES, *ARITHMETIC, *LEARNED, *RUNTIME]


@pytest.mark.parametrize(("message", "op", "arrays", "options", "attributes"), CASES, ids=[c[0] for c in CASES])
def test_is_refused(
    message: str, op: str, arrays: tuple[Array | None, ...], options: dict[str, Any], attributes: dict[str, Any]
) -> None:
    protos = [v for v in attributes.values() if isinstance(v, onnx.AttributeProto)]
    model, _ = one_op(op, arrays, **options, **{k: v for k, v in attributes.items() if v not in protos})
    model.graph.node[0].attribute.extend(protos)
    if domain := options.get("domain"):
        version = 5 if op == "TreeEnsemble" else VERSIONS[domain]
        model.opset_import.add(domain=domain, version=version)
    refuse(model, message)


HEADS = {"q": (F32, [1, 2, 4, "d"]), "k": (F32, [1, 2, 4, "d"]), "v": (F32, [1, 2, 4, "d"])}


@pytest.mark.parametrize(
    ("message", "op", "domain", "inputs", "attributes"),
    [
        ("Attention: the head size must be static", "Attention", "", HEADS, {}),
        (
            "MultiHeadAttention: the head size must be static, got d",
            "MultiHeadAttention",
            MICROSOFT,
            HEADS,
            {"num_heads": 2},
        ),
        (
            "LinearAttention: the head size must be static, got d",
            "LinearAttention",
            MICROSOFT,
            {name: (F32, [1, 4, "d"]) for name in "qkv"},
            {**LINEAR_HEADS, "q_num_heads": 1, "kv_num_heads": 1},
        ),
    ],
)
def test_heads_have_a_size(
    message: str, op: str, domain: str, inputs: dict[str, Any], attributes: dict[str, Any]
) -> None:
    outputs = ["y", "s"] if op == "LinearAttention" else ["y"]
    model = model_of([helper.make_node(op, list(inputs), outputs, domain=domain, **attributes)], inputs, outputs)
    if domain:
        model.opset_import.add(domain=domain, version=1)
    refuse(model, message)
