"""Emission of graph ops by front ends."""

import numpy as np
import pytest

from graphfuse.dialects import control
from graphfuse.frontends.emit import Emitter
from graphfuse.frontends.stairs import Stairs, stairs
from graphfuse.interp.graph import run
from graphfuse.ir.core import Func, Params
from graphfuse.ir.types import F32, I64, scalar


@pytest.mark.parametrize(("elem", "number"), [("bf16", 0.30078125), ("f16", 0.300048828125)])
def test_a_number_is_rounded_to_its_element_before_it_is_converted(elem, number):
    e = Emitter()
    assert e.cast(e.full((2,), scalar(elem), 0.3), F32).op.attrs["value"] == number


def test_whole_numbers_stay():
    e = Emitter()
    assert e.cast(e.full((2,), I64, 7), F32).op.attrs["value"] == 7.0


@pytest.mark.parametrize("shift", [-3, 0, 5])
@pytest.mark.parametrize(("size", "count"), [(25, 7), (7, 25), (61, 200), (9, 3), (5, 5), (1, 4), (3, 1), (2, 2)])
def test_a_formula_of_steps(size, count, shift):
    numbers = np.clip((np.arange(count) * size + shift) // count, 0, size - 1)
    found = stairs(numbers)
    at = np.arange(count)
    assert found is not None
    assert np.array_equal(np.clip((at * found.rise + found.start) // found.run, found.low, found.high), numbers)
    e = Emitter()
    e.root.op(control.return_, found.value(e, count))
    assert np.array_equal(*run(Func("f", e.root.block(Params(())))), numbers)


def test_steps_that_are_not_even():
    assert stairs(np.array([0, 1, 1, 2, 3, 5, 6])) is None
    assert stairs(np.array([0, 7, 2, 0, 4]), np.array([1, 0, 1, 0, 1])) == Stairs(1, 1, 0, 0, 4)
