"""Every pass over kernels keeps what they leave in memory; drawn kernels too."""

from __future__ import annotations

import pytest

from graphfuse.blockopt.pipeline import PIPELINE
from graphfuse.dialects import block
from graphfuse.ir.core import Op
from graphfuse.ir.passes import Pass
from graphfuse.ir.rewrite import Rule, rewrite
from tests import mutants
from tests.properties import block_laws
from tests.properties.rule_laws import BrokenLawError, broken

SAMPLE, ALL = 60, 6000


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.full)], ids=["sample", "all"])
def test_passes_keep_memory(step: int) -> None:
    for given in block_laws.launches()[::step]:
        block_laws.keeps_memory(given)


@pytest.mark.parametrize(
    "seeds", [range(SAMPLE), pytest.param(range(SAMPLE, ALL), marks=pytest.mark.full)], ids=["sample", "all"]
)
def test_drawn_kernels(seeds: range) -> None:
    assert next(broken(seeds, block_laws.launches(), law=block_laws.law_of), None) is None


def test_launches_come_to_every_level() -> None:
    passes = {p.name for given in block_laws.launches() for p in given.passes}
    assert {p.name for p in PIPELINE} <= passes
    assert {"pipeline-loads", "assign-layouts", "remove-conversions", "hopper-matmul", "overlap-launches"} <= passes


def minuend_first(op: Op) -> Op:
    """a - b = a + b: wrong."""
    return block.add(*op.operands)


WRONG = Pass("wrong", lambda func: rewrite(func, [Rule("wrong", block.sub, minuend_first)]), "kernel")


def test_the_laws_find_a_wrong_pass() -> None:
    of = next(given for given in block_laws.launches() if any(op.kind is block.sub for op in given.func.walk()))
    with pytest.raises(BrokenLawError, match="Arrays are not equal|outside"):
        block_laws.keeps_memory(block_laws.Launch(of.name, of.func, (WRONG,), of.arrays, of.symbols))


def test_drawing_changes_kernels_that_still_run() -> None:
    found = [given for seed in range(30) if (given := block_laws.drawn(seed, block_laws.launches()))]
    assert len(found) >= 15


def test_mutants_of_passes() -> None:
    assert sum(m.kind == "guard" for m in mutants.mutants("passes")) >= 400
