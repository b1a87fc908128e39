"""Dims that fit are never refused, dims that do not never give numbers, and no access is out of bounds."""

from __future__ import annotations

import pytest

pytest.importorskip("onnxruntime")

from tests.onnx.fitting import differences, node_cases

SAMPLE = {
    "concat": "test_concat_2d_axis_0",
    "gemm": "test_gemm_default_matrix_bias",
    "matmul": "test_matmul_3d",
    "scatterelements": "test_scatter_elements_with_axis",
    "scatternd": "test_scatternd",
    "where": "test_where_example",
}
"""Modules of ONNX's node tests, and one test of each."""

EXPLAINED = {
    "Compress": {"refused"},  # it leaves out what a condition longer than its axis names, numpy and we do not
    "LpPool": {"refused"},  # it gives no elements for a dim shorter than the window
    "MaxUnpool": {"values", "refused"},  # it places by the unpooled shape, the standard by the output shape
    "NonMaxSuppression": {"refused"},  # it reads the first of several thresholds
    "PRelu": {"refused"},  # slopes broadcast in one direction
    "MeanVarianceNormalization": {"values"},  # it gives NaN for one number
    "Scan": {"numbers"},  # its body declares other dims than it is run with
}
"""By operator, differences that are ONNX Runtime's."""


def unexpected(cases, draws, seed=0):
    tried, found = 0, []
    for case in cases:
        for row in differences(case, draws, seed):
            if row["what"] == "tried":
                tried += row["feeds"]
            elif row["what"] != "not compiled" and row["what"] not in EXPLAINED.get(row["op"], ()):
                found.append(row)
    return tried, found


@pytest.mark.filterwarnings("ignore")
def test_sample():
    cases = [c for c in node_cases(list(SAMPLE)) if c.name in SAMPLE.values()]
    assert len(cases) == len(SAMPLE)
    tried, found = unexpected(cases, 6)
    assert tried > 30
    assert not found


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")
def test_every_operator():
    tried, found = unexpected(node_cases(), 8)
    assert tried > 4000
    assert not found
