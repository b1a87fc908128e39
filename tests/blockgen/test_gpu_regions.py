"""A region lowered to block programs for a GPU computes what the interpreter says, in tiles that a GPU can hold."""

from __future__ import annotations

import pytest

from graphfuse.blockgen.kernel import GpuMachine
from graphfuse.fusion.outline import outline
from graphfuse.ir.core import Func
from graphfuse.ir.types import Tile
from graphfuse.ir.verifier import verify
from tests.blockgen.cases import ALL
from tests.blockgen.gpu_cases import GPU_CASES
from tests.blockgen.support import Case, check_blocks

GPU = GpuMachine()


def regions(case: Case) -> Func:
    """The function in regions; weights stay as they are."""
    if case.whole:
        return case.func
    func, _ = outline(case.func)
    verify(func)
    return func


def check(case: Case) -> list[Func]:
    """Compare all regions at all sizes."""
    func = regions(case)
    return [k for values in case.sizes for k in check_blocks(func, case.arrays(values), GPU)]


@pytest.mark.parametrize("name", ALL)
def test_blocks_equal_the_graph(name: str) -> None:
    check(ALL[name])


@pytest.mark.parametrize("name", GPU_CASES)
def test_large_blocks_equal_the_graph(name: str) -> None:
    for kernel in check(GPU_CASES[name]):
        assert kernel.attrs["warps"] in (1, 2, 4, 8, 16, 32)
        for op in kernel.walk():
            for type_ in op.types:
                if isinstance(type_, Tile):
                    assert type_.shape == type_.padded_shape, type_
