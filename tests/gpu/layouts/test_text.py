"""Layouts print as they parse."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphfuse.errors import GraphfuseError, ParseError, VerifyError
from graphfuse.ir.layout import OFFSET
from graphfuse.ir.layout_families import Linear, parse_linear
from tests.gpu.layouts.strategies import LAWS, any_map, families, linear_of, shape_for


@LAWS
@given(any_map((16, 32)))
def test_any_map_has_text(m):
    """The general form says all there is to say, and the map prints as the form does."""
    assert linear_of(m).linear((16, 32)) == m
    assert parse_linear(m.text) == m
    assert parse_linear(m.text).text == m.text


@LAWS
@given(families, st.data())
def test_the_map_of_a_family_round_trips(layout, data):
    m = layout.linear(shape_for(data.draw, layout))
    if OFFSET not in m.in_names:  # else it is memory, and in no type
        assert parse_linear(m.text) == m


def test_a_linear_layout_must_cover_its_tile():
    with pytest.raises(VerifyError, match=r"does not hold every element of \[4\]"):
        Linear(lane=((1,),)).linear((4,))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mma {warps = [1, 1]}", r"expected '8x4 linear \{...\}', got 'mma \{warps"),
        ("2x2 mma {warps = [1, 1]}", r"expected '8x4 linear \{...\}', got '2x2 mma"),
        ("2x2 linear {lane = [[1, 1]]", r"expected '8x4 linear \{...\}', got"),
        ("2x2 linear {lane = [[1, 1]]} x", r"expected '8x4 linear \{...\}', got"),
        ("2x2 linear {lane = [[1, 1]}", "Expecting ',' delimiter"),
        ("2x2 linear {lanes = [[1, 1]]}", "no such field, or twice: 'lanes'"),
        ("2x2 linear {lane = [[1, 1]], lane = [[1, 1]]}", "no such field, or twice: 'lane'"),
        ("2x2 linear {lane = [1]}", "bad value of 'lane'"),
        ("2x2 linear {lane = 4}", "bad value of 'lane'"),
        ("2x2 linear {lane = [[true, 1]]}", "bad value of 'lane'"),
        ("2x2 linear {lane = " + "[" * 5000 + "}", "layout"),
        ("2x2 linear {lane = [[1, 7]]}", "is outside the shape"),
    ],
)
def test_bad_text_is_refused(text, message):
    with pytest.raises((ParseError, VerifyError), match=message):
        parse_linear(text)


@LAWS
@given(st.lists(st.sampled_from(["2x2", "linear", "{", "}", "[", "]", "=", ",", "1", "-3", "lane", "warps", "dim"])))
def test_parsing_is_total(words):
    try:
        parse_linear(" ".join(words))
    except GraphfuseError:
        return
