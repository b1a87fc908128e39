"""A region lowered to block programs computes what the interpreter says, on every machine."""

from __future__ import annotations

import pytest

from tests.blockgen.cases import ALL
from tests.blockgen.support import MACHINES, check_blocks, lowered, region_ops


def every_case_on(machines: tuple[str, ...]) -> list[object]:
    """Each case on one of the machines in turn; the rest of the combinations run with `full`."""
    out: list[object] = []
    for i, name in enumerate(ALL):
        for machine in machines:
            chosen = machine == machines[i % len(machines)]
            out.append(pytest.param(name, machine, id=f"{name}-{machine}", marks=() if chosen else pytest.mark.full))
    return out


@pytest.mark.parametrize(("name", "machine"), every_case_on(tuple(MACHINES)))
def test_blocks_equal_the_graph(name: str, machine: str) -> None:
    case = ALL[name]
    func = lowered(case, MACHINES[machine])
    kinds = {str(op.attrs["kind"]) for op in region_ops(func)}
    assert set(case.kinds) - {"pointwise"} <= kinds
    assert "attention" in case.kinds or "attention" not in kinds
    for values in case.sizes:
        check_blocks(func, case.arrays(values), MACHINES[machine])


def test_every_machine_gets_every_case_in_full() -> None:
    assert len(every_case_on(tuple(MACHINES))) == len(ALL) * len(MACHINES)
