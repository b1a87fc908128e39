"""Layouts print as they parse."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphfuse.errors import GraphfuseError, ParseError, VerifyError
from graphfuse.ir.layout_families import FAMILIES, Linear, parse_layout, parse_linear
from tests.gpu.layouts.strategies import LAWS, any_map, families


@LAWS
@given(families)
def test_text_round_trips(layout):
    text = str(layout)
    assert parse_layout(text) == layout
    assert str(parse_layout(text)) == text


@LAWS
@given(any_map((16, 32)))
def test_any_map_has_text(m):
    """The general form says all there is to say, and the map prints as the form does."""
    assert Linear.from_layout(m).linear((16, 32)) == m
    assert parse_layout(str(m)) == Linear.from_layout(m)


def test_a_linear_layout_must_cover_its_tile():
    with pytest.raises(VerifyError, match=r"does not hold every element of \[4\]"):
        Linear(lane=((1,),)).linear((4,))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nma {warps = [1, 1]}", "unknown family 'nma'"),
        ("mma {}", "mma needs warps"),
        ("mma {warps = [1, 1]", "expected ',', got ''"),
        ("mma {warp = [1, 1]}", "no such field, or twice: 'warp'"),
        ("mma {warps = [1, 1], warps = [1, 1]}", "no such field, or twice"),
        ("mma {warps = 4}", "bad value of 'warps'"),
        ("slice {dim = [1], parent = mma {warps = [1, 1]}, size = 8}", "bad value of 'dim'"),
        ("linear {lane = [1]}", "bad value of 'lane'"),
        ("mma {warps = [1, 1]} x", "expected 'its end', got 'x'"),
        ("slice {parent = " * 30, "layout: nested deeper than"),
    ],
)
def test_bad_text_is_refused(text, message):
    with pytest.raises(ParseError, match=message):
        parse_layout(text)


def test_a_map_has_a_shape():
    with pytest.raises(ParseError, match=r"expected '8x4 linear \{...\}', got 'mma \{warps"):
        parse_linear("mma {warps = [1, 1]}")


@LAWS
@given(st.lists(st.sampled_from([*FAMILIES, "{", "}", "[", "]", "=", ",", "1", "-3", "warps", "parent", "dim"])))
def test_parsing_is_total(words):
    try:
        parse_layout(" ".join(words))
    except GraphfuseError:
        return
