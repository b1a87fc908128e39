"""Tiles of the innermost dim end where a concat or pad goes over to another operand: no masks, no gathers."""

from __future__ import annotations

from collections import Counter

import pytest

from graphfuse.blockgen import pointwise
from graphfuse.blockgen.lower import lower_region
from graphfuse.ir.core import Func
from tests.blockgen.support import MACHINES, Case, check_blocks, graph_func, lowered, region_ops

CHANNELS = "a: 3x5x64xf32, b: 3x5x40xf32, c: 3x5x7xf32, d: 3x5x1xf32"
CONCAT = Case(
    "concat", ("pointwise",), graph_func(CHANNELS, "y = concat(a, b, c, d) {axis = 2}; z = neg(y); return(z)")
)
INTERLEAVED = Case("interleaved", ("pointwise",), graph_func("a: 3x4x1x40xf32, b: 3x4x1x40xf32, c: 3x8x24xf32", """
    p = concat(a, b) {axis = 2}; r = reshape(p) {shape = [3, 8, 40]}; y = concat(c, r) {axis = 2}; return(y)
    """))  # fmt: skip
PADDED = Case("padded", ("pointwise",), graph_func("x: 4x50xf32", """
    y = pad(x) {low = [0, 3], high = [0, 11], value = 1.5}; return(y)"""))  # fmt: skip
LONG = Case(
    "long", ("pointwise",), graph_func("a: 2x3000xf32, b: 2x3001xf32", "y = concat(a, b) {axis = 1}; return(y)")
)
MANY = Case("many", ("pointwise",), graph_func(
    ", ".join(f"x{i}: 3x2xf32" for i in range(70)), f"""
    y = concat({", ".join(f"x{i}" for i in range(70))}) {{axis = 1}}; return(y)"""))  # fmt: skip
SEVERAL = [CONCAT, INTERLEAVED, PADDED, LONG, MANY]


def kernel(case: Case) -> Func:
    func = lowered(case, MACHINES["avx2"])
    (region,) = region_ops(func)
    return lower_region(region, case.name, func.ranges, MACHINES["avx2"])


def ops(case: Case) -> Counter[str]:
    return Counter(op.kind.name for op in kernel(case).walk())


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("case", SEVERAL, ids=lambda c: c.name)
def test_it_computes_the_same(case: Case, machine: str) -> None:
    check_blocks(lowered(case, MACHINES[machine]), case.arrays({}), MACHINES[machine])


def test_each_operand_is_read_by_itself() -> None:
    found = ops(CONCAT)
    assert found["block.select"] == found["block.lt"] == 0
    # 64 = 2 x 32 in a loop; 40 = 32 + 8; 7 and 1 in one tile each
    assert found["block.load_view"] == found["block.store_view"] == 5
    assert ops(PADDED)["block.select"] == 0


def test_an_inner_concat_is_a_branch_where_its_operand_is_read_and_nowhere_else() -> None:
    found = ops(INTERLEAVED)
    assert found["if"] == 4  # two operands, each in a tile of 32 lanes and one of 8
    assert found["block.select"] == 0


def test_too_many_parts_share_tiles() -> None:
    assert ops(MANY)["block.select"] > 0
    assert ops(LONG)["block.select"] > 0  # a program's chunk of a long row begins anywhere


def test_without_cuts_there_are_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pointwise, "_cuts", lambda found, name, extent: [0, extent])
    assert ops(CONCAT)["block.select"] > 0
