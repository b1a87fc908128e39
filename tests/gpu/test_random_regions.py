"""Random regions on the emulator: a few of each architecture in the quick tests, hundreds in all of them."""

from __future__ import annotations

import numpy as np
import pytest

from graphfuse.gpu.emulator.driver import EmulatedDriver
from graphfuse.ir.printer import to_text
from graphfuse.targets import Target
from tests.gpu.random_regions import KINDS, drawn, excess, outcomes
from tests.machine import HOST

WORK = 1 << 16
"""Multiplications of the largest: seconds on the emulator."""
FEW, MANY = 5, 120


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("seed", [pytest.param(s, marks=() if s < FEW else pytest.mark.full) for s in range(MANY)])
def test_regions(seed, arch):
    case = drawn(seed, WORK)
    found = list(outcomes(case, Target.parse(f"cuda:{arch}"), EmulatedDriver(arch)))
    assert found
    assert max(o.ratio for o in found) <= 1, (case.kind, case.text, found)


@pytest.mark.parametrize("seed", [pytest.param(s, marks=() if s < FEW else pytest.mark.full) for s in range(MANY)])
def test_chains_on_this_processor(seed):
    """Reshapes, transposes and slices behind products."""
    case = drawn(seed, 16 * WORK, "chain")
    found = list(outcomes(case, HOST))
    assert found
    assert max(o.ratio for o in found) <= 1, (case.text, found)


@pytest.mark.full
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("first", range(0, 1000, 50))
def test_chains_compile(first, arch):
    for seed in range(first, first + 50):
        assert not list(outcomes(drawn(seed, 64 * WORK, "chain"), Target.parse(f"cuda:{arch}")))


def test_a_number_is_always_the_same_case():
    for seed in range(20):
        first, again = drawn(seed, WORK), drawn(seed, WORK)
        assert to_text(first.func) == to_text(again.func)
        assert all(np.array_equal(a, b) for a, b in zip(first.inputs, again.inputs, strict=True))


def test_every_kind_is_drawn():
    cases = [drawn(seed, 1 << 12) for seed in range(150)]
    assert {c.kind for c in cases} == set(KINDS)
    ops = {op.kind.name.removeprefix("graph.") for c in cases for op in c.func.walk()}
    assert ops >= {"contract", "conv", "reduce", "permute", "slice", "pad", "flip", "concat", "cast", "select", "exp"}
    assert any(len(c.func.outputs) > 1 for c in cases)


@pytest.mark.parametrize("elem", ["float16", "float32"])
def test_what_is_left_out_is_seen(elem):
    """A vector that part of the columns lack; one term of a sum of 64; an element that nobody wrote."""
    rng = np.random.default_rng(0)
    x, w, t = (rng.standard_normal(s).astype(elem).astype(np.float64) for s in ((50, 64), (64, 96), (96,)))
    exact = x @ w / 8 + t
    plain = exact.astype(elem)
    assert excess(plain, plain, exact) == 0
    lacks = exact - np.where(np.arange(96) < 64, 0, t)
    short = x[:, 1:] @ w[1:] / 8 + t
    unwritten = np.where(exact == exact[3, 3], np.nan, exact)
    for wrong in (lacks, short, unwritten):
        assert excess(wrong.astype(elem), plain, exact) > 1
    assert excess(np.array([3]), np.array([2]), np.array([2])) == np.inf
