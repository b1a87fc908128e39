"""Convolutions in groups are matrix products within each group; with one output a group they are elementwise."""

from __future__ import annotations

import pytest

from graphfuse.blockgen.lower import lower_region
from tests.blockgen.cases import ALL
from tests.blockgen.support import AVX2, lowered, region_ops


@pytest.mark.parametrize(
    ("name", "dots"),
    [("grouped", True), ("grouped_by_lanes", True), ("depthwise_multiplied", True), ("depthwise", False)],
)
def test_a_group_is_a_matrix_product(name: str, dots: bool) -> None:
    found = ALL[f"convolution-{name}"]
    func = lowered(found, AVX2)
    (region,) = (op for op in region_ops(func) if op.attrs["kind"] == "contraction")
    kinds = {op.kind.name for op in lower_region(region, name, func.ranges, AVX2).walk()}
    assert ("block.dot" in kinds) == dots
    assert "block.load" not in kinds or not dots  # no gathers: all channels of a tile read one group's inputs
