"""Whole small functions, compiled: every region gives the float64 interpreter's numbers on this machine."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from graphfuse.checking import verify_regions
from graphfuse.targets import Target
from tests.blockgen.cases import ALL
from tests.blockgen.support import Case
from tests.machine import HOST, host_and

FUNCTIONS = {name: case for name, case in ALL.items() if not case.whole}
TARGETS = host_and("cpu:x86-64-v3")


def runs() -> list[object]:
    """By default the last size of every second case on the host, and of every sixth as AVX2 code."""
    out: list[object] = []
    for i, (name, case) in enumerate(FUNCTIONS.items()):
        for target in TARGETS:
            for size in range(len(case.sizes)):
                chosen = size == len(case.sizes) - 1 and i % (2 if target is HOST else 6) == 0
                marks = () if chosen else pytest.mark.full
                out.append(pytest.param(case, case.sizes[size], target, id=f"{name}-{size}-{target.cpu}", marks=marks))
    return out


@pytest.mark.parametrize(("case", "values", "target"), runs())
def test_native_equals_the_interpreter(case: Case, values: Mapping[str, int], target: Target) -> None:
    checks = verify_regions(case.func, target, case.arrays(values))
    assert checks
    for check in checks:
        assert not check.is_suspect, check
        assert check.maximum <= max(1e-5, 16 * check.reference), check
