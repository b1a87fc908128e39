"""ONNX's own backend tests: a slice of the node tests, and the whole suite for `make test-full`."""

from __future__ import annotations

import importlib
import re
import warnings

import numpy as np
import pytest
from onnx import TensorProto, numpy_helper

from graphfuse.onnx_backend import Backend

SLICE = {
    "ai_onnx_ml.tree_ensemble": ["ai_onnx_ml_tree_ensemble_set_membership"],
    "attention": ["attention_4d_causal", "attention_4d_gqa_expanded"],
    "bitcast": ["bitcast_float32_to_int32"],
    "compress": ["compress_0"],
    "deformconv": ["deform_conv_with_multiple_offset_groups"],
    "dequantizelinear": ["dequantizelinear_blocked", "dequantizelinear_e4m3fn", "dequantizelinear_int2"],
    "dropout": ["training_dropout_mask"],
    "einsum": ["einsum_batch_diagonal"],
    "gridsample": ["gridsample_bicubic", "gridsample_reflection_padding"],
    "if_": ["if", "if_opt", "if_seq"],
    "loop": ["loop11", "loop13_seq"],
    "lstm": ["lstm_with_peepholes"],
    "maxpool": ["maxpool_2d_ceil", "maxpool_2d_dilations"],
    "negativeloglikelihoodloss": ["nllloss_NCd1_weight_ii"],
    "nonmaxsuppression": ["nonmaxsuppression_two_classes"],
    "quantizelinear": ["quantizelinear_axis", "quantizelinear_float4e2m1", "quantizelinear_uint4"],
    "reduce_log_sum_exp": ["reduce_log_sum_exp_keepdims_example_expanded"],
    "resize": ["resize_downsample_scales_cubic_A_n0p5_exclude_outside", "resize_tf_crop_and_resize"],
    "rotaryembedding": ["rotary_embedding_interleaved"],
    "scan": ["scan9_multi_state"],
    "sequence_map": ["sequence_map_add_2_sequences_expanded"],
    "string_split": ["string_split_maxsplit"],
    "tfidfvectorizer": ["tfidfvectorizer_tf_batch_uniandbigrams_skip5"],
    "topk": ["top_k_smallest"],
    "unique": ["unique_sorted_with_axis_3d"],
}
"""Modules of `onnx.backend.test.case.node`, and which of their tests; importing all of them takes ten seconds."""

NOT_PASSED = {
    r"test_bernoulli.*": "its output is the suite's own random draw",
    r"test_gradient_of_.*": "there is no automatic differentiation",
    r"test_loop16_seq_none": "the suite's comparison takes the length of a tensor without dims",
}
"""What the whole suite is known not to pass; `python -m benchmarks.onnx_suite` runs it like everything else."""


NOT_PASSED_BY_GPUS = NOT_PASSED | {
    r"test_attention_4d_(causal_)?fp16(_expanded)?": "attention is in f32 there, nearer to the exact value",
}


@pytest.fixture(scope="module")
def cases():
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # the suite's generators overflow on purpose
        for name in SLICE:
            importlib.import_module(f"onnx.backend.test.case.node.{name}")
    return {c.name: c for c in importlib.import_module("onnx.backend.test.case.node")._NodeTestCases}


def compare(want, got):
    if isinstance(want, (list, tuple)):
        assert isinstance(got, (list, tuple))
        assert len(want) == len(got)
        for w, g in zip(want, got, strict=True):
            compare(w, g)
        return
    want, got = np.asarray(want), np.asarray(got)
    assert (got.dtype.kind == "O") == (want.dtype.kind in "OU")
    assert got.shape == want.shape
    if want.dtype.kind in "OU":
        np.testing.assert_array_equal(got, want)
    else:
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=1e-3, atol=1e-7)


def normal(value):
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else value


@pytest.mark.parametrize("name", [n for names in SLICE.values() for n in names])
def test_slice(cases, name):
    from benchmarks.onnx_suite import saved_and_loaded

    case = cases[f"test_{name}"]
    prepared = Backend.prepare(case.model, made=saved_and_loaded)
    for inputs, outputs in case.data_sets:
        compare([normal(o) for o in outputs], list(prepared.run([normal(i) for i in inputs])))


def unexpected(results, known):
    return {
        r.name: r.what for r in results if r.outcome != "passed" and not any(re.fullmatch(p, r.name) for p in known)
    }


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")
def test_sample_of_every_family_on_the_emulator():
    from benchmarks.onnx_suite import KINDS, Suite, run, sample

    suite = Suite("EMULATOR")
    light = KINDS["RealModel"]  # nine networks that the emulator takes minutes for
    names = sample(suite, [n for n, (_, family, _) in suite.tests.items() if family != light], 8, 0)
    results = list(run(suite, names, 2))
    assert len({r.family for r in results}) == 21
    assert sum(r.outcome == "passed" for r in results) > 140
    assert not unexpected(results, NOT_PASSED_BY_GPUS)


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")
def test_whole_suite():
    from benchmarks.onnx_suite import Suite, run

    suite = Suite("CPU")
    results = list(run(suite, list(suite.tests), 2))
    assert len(results) == 2033
    assert not unexpected(results, NOT_PASSED)
    assert not [r.name for r in results if r.outcome == "crashed"]
    assert sum(r.how == "host" for r in results if r.outcome == "passed") <= 120
