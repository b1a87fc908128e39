"""A region lowered to block programs computes what the interpreter says, on every machine."""

from __future__ import annotations

import pytest

from tests.blockgen.cases import ALL
from tests.blockgen.support import MACHINES, check_blocks, lowered, region_ops


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", ALL)
def test_blocks_equal_the_graph(name: str, machine: str) -> None:
    case = ALL[name]
    func = lowered(case, MACHINES[machine])
    assert tuple(op.attrs["kind"] for op in region_ops(func)) == case.kinds
    for values in case.sizes:
        check_blocks(func, case.arrays(values), MACHINES[machine])
