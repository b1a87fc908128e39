"""`-D` options as a shell hands them over."""

from __future__ import annotations

import pytest

from graphfuse.errors import UsageError
from graphfuse.frontends.tc import parse_defines


@pytest.mark.parametrize(
    ("options", "values"),
    [
        (["-DA"], {"A": ("1",)}),
        (["-D", "A", "-D", "B=2"], {"A": ("1",), "B": ("2",)}),
        (["-DA="], {"A": ("",)}),
        (["-DTM=[32, 64, 128]"], {"TM": ("32", "64", "128")}),
        (["-DTM=[32,", "64,", "128]", "-DTK=8"], {"TM": ("32", "64", "128"), "TK": ("8",)}),
        (["-DB=newaxis,:"], {"B": ("newaxis,:",)}),
        (["-DB=[newaxis,:]"], {"B": ("newaxis", ":")}),
        (["-DB=[f(a, b), (c, d), [e, f]]"], {"B": ("f(a, b)", "(c, d)", "[e, f]")}),
        (["-DB=[a][b]"], {"B": ("[a][b]",)}),
        (["-DB=[a", "b"], {"B": ("[a b",)}),
        (["-DB=x[1]"], {"B": ("x[1]",)}),
        (["-DB=a-Db"], {"B": ("a-Db",)}),
    ],
)
def test_values(options, values):
    assert parse_defines(options).values == values


def test_points():
    points = list(parse_defines(["-DA=[1, 2]", "-DB=x", "-DC=[y, z]"]).points())
    assert points == [{"A": a, "B": "x", "C": c} for a in "12" for c in "yz"]


def test_glued_options_are_split():
    defines = parse_defines(["-DA=1-DB=lda-DC=2", "-DD=3"])
    assert defines.values == {"A": ("1",), "B": ("lda",), "C": ("2",), "D": ("3",)}
    message = "blank missing between -D options: read -DA=1-DB=lda-DC=2 as -DA=1 -DB=lda -DC=2"
    assert [d.message for d in defines.warnings] == [message]


def test_the_last_of_two_counts():
    defines = parse_defines(["-DA=1", "-DA=2"])
    assert defines.values == {"A": ("2",)}
    assert [d.message for d in defines.warnings] == ["-DA is given twice: the last one counts"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["A=1"], "expected -DNAME or -DNAME=VALUE, found 'A=1'"),
        (["-D"], "-D: expected a macro name, found the end of the options"),
        (["-D1=2"], "-D1=2: expected a macro name, found '1'"),
    ],
)
def test_errors(options, message):
    with pytest.raises(UsageError) as e:
        parse_defines(options)
    assert e.value.message == message
