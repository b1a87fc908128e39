"""Emission of graph ops by front ends."""

import pytest

from graphfuse.frontends.emit import Emitter
from graphfuse.ir.types import F32, I64, scalar


@pytest.mark.parametrize(("elem", "number"), [("bf16", 0.30078125), ("f16", 0.300048828125)])
def test_a_number_is_rounded_to_its_element_before_it_is_converted(elem, number):
    e = Emitter()
    assert e.cast(e.full((2,), scalar(elem), 0.3), F32).op.attrs["value"] == number


def test_whole_numbers_stay():
    e = Emitter()
    assert e.cast(e.full((2,), I64, 7), F32).op.attrs["value"] == 7.0
