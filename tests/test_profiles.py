"""What is known of machines: costs are fitted by commands that there are, and a GPU with another's costs says so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from graphfuse.targets.machine import Machine
from graphfuse.targets.profiles.h200 import H200
from graphfuse.targets.profiles.nvidia import GPUS

BENCHMARKS = {path.stem for path in (Path(__file__).parents[1] / "benchmarks").glob("*.py")}
GROUPS = [Machine().core, H200.wgmma, H200.epilogue, H200.mma, H200.uncopied, H200.memory, H200.parts]


@pytest.mark.parametrize("group", GROUPS, ids=lambda g: type(g).__name__)
def test_costs_name_the_command_that_they_are_fitted_by(group: object) -> None:
    named = re.findall(r"`(?:python -m |python )?benchmarks[./](\w+)", type(group).__doc__ or "")
    assert named
    assert BENCHMARKS.issuperset(n for n in named if n != "results")


def test_a_gpu_with_the_costs_of_another_says_so() -> None:
    assert all(p.note for arch, p in GPUS.items() if p.machine.gpu is H200 and arch != "sm_90a")
