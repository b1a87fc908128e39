"""Products of some rows of a tensor whose number is a symbol, by tensor maps, on the emulator."""

import functools

import numpy as np
import pytest

import graphfuse
from graphfuse.compiled_model import CompiledModel
from models._builder import Builder

DEPTH, COLUMNS = 64, 48
WEIGHT = np.random.default_rng(0).standard_normal((DEPTH, COLUMNS)).astype(np.float16)


@functools.cache
def product(first: int, end: int) -> CompiledModel:
    """x[first:end] @ w."""
    g = Builder("sliced", opset=18, seed=1)
    x = g.input("x", ["n", DEPTH], np.float16)
    y = g.Slice(x, np.array([first]), np.array([end]), np.array([0])) @ WEIGHT
    g.output(y, "y", ["m", COLUMNS], np.float16)
    return graphfuse.compile(g.model(), device="emulator", target="cuda:sm_90a")


@pytest.mark.parametrize(("first", "end"), [(1, 1 << 40), (3, 1 << 40), (0, -1), (2, -2)])
@pytest.mark.parametrize("n", [6, 70, 193])
def test_rows_of_a_slice(first: int, end: int, n: int) -> None:
    """The result has fewer rows than there are, and begins where its memory does."""
    x = np.random.default_rng(n).standard_normal((n, DEPTH)).astype(np.float16)
    model = product(first, end)
    assert "cp.async.bulk.tensor" in model.executable.code["cuda:sm_90a"].ptx
    wanted = x[first:end].astype(np.float64) @ WEIGHT.astype(np.float64)
    np.testing.assert_allclose(model({"x": x})["y"], wanted, rtol=2e-3, atol=2e-2)
