"""Dims that fit are never refused, dims that do not never give numbers, and no access is out of bounds."""

from __future__ import annotations

import pytest

pytest.importorskip("onnxruntime")

from tests.onnx.fitting import drawn, sweep
from tests.onnx.fitting_explained import EXPLAINED, explained
from tests.onnx.fitting_samples import NO_SAMPLE, registered, samples

pytestmark = pytest.mark.filterwarnings("ignore")

SAMPLE = (
    "test_concat_2d_axis_0",
    "test_gemm_default_matrix_bias",
    "test_matmul_3d",
    "test_scatter_elements_with_axis",
    "test_scatternd",
    "test_where_example",
    "test_deform_conv_with_mask_bias",
)
"""Of these memory was read or written out of bounds."""


@pytest.fixture(scope="module")
def few():
    return samples(long=False)


def test_every_registered_operator_has_a_sample(few):
    sampled = {s.op for s in few}
    known = {op for op in registered() if not op.startswith("graphfuse.")}  # those are tests'
    assert known - sampled - NO_SAMPLE.keys() == set()
    assert NO_SAMPLE.keys() <= known - sampled


def test_sample(few):
    tried, found = sweep([s for s in few if s.name in SAMPLE], 6)
    assert tried["samples"] == len(SAMPLE)
    assert tried["feeds"] > 30
    assert not found


def test_a_sample_as_it_is_has_no_excuse(few):
    """What is explained is about dims that were drawn."""
    ops = {op for some, *_ in EXPLAINED for op in some}
    fits = [s for s in few if s.op in ops]
    assert fits
    assert not [s.name for s in fits if explained(s, s.feed, "refused")]


@pytest.mark.full
def test_every_operator():
    tried, found = sweep(drawn((), 5, 0))
    assert tried["operators"] > 260
    assert tried["feeds"] > 9000
    assert not found
