"""Random regions on the GPU; `python -m tests.gpu.random_regions` runs thousands."""

from __future__ import annotations

import pytest

from graphfuse.targets import Target
from tests.gpu.random_regions import drawn, outcomes

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("default")]

WORK = 1 << 28
"""Multiplications of the largest: tiles as large as there are."""


@pytest.mark.parametrize("seed", range(60))
def test_regions(seed, driver, target):
    case = drawn(seed, WORK)
    found = list(outcomes(case, Target.parse(target), driver))
    assert max(o.ratio for o in found) <= 1, (case.kind, case.text, found)
