"""Configurations: every point, every branch; what is at fault, what is refused, what is too much."""

from __future__ import annotations

import pytest

from graphfuse.frontends.tc import lint as tc_lint
from graphfuse.frontends.tc import parse_defines
from graphfuse.frontends.tc.lint import lint

SPLIT = """
#ifndef TN
#define TN 16
#endif
__global__ void k(float *c, int n) {
#if (TZ==1)
  *c = 1;
#else
  for (; atomic_cas(locks, 0, 1) == 1;);
#if TN > 32
  *c = rid;
#endif
#endif
}
"""


def findings(source, *options):
    done = lint(source, "t.tc", parse_defines(options).points())
    notes = [(d.message, d.notes[-1].message if d.notes else "") for d in done.found if d.severity == "error"]
    return done, notes


def kernel(*lines):
    return "\n".join(("__global__ void k(float *c, int n) {", *lines, "}", ""))


def test_branches_of_split_k():
    done, found = findings(SPLIT, "-DTZ=1")
    assert found == [
        ("'locks' is not defined", "with -DTZ=2"),
        ("'rid' is not defined", "with -DTZ=2 -DTN=33"),
    ]
    assert (done.points, done.branches, done.unreached, done.cut_off) == (1, 6, 0, False)


def test_points_of_lists():
    source = kernel("int t[TM] = 0 ... 16;", "#if TM == 64", "*c = q;", "#endif")
    assert findings(source, "-DTM=[16,32,64]")[1] == [
        ("t of type int[32]: expected the shape [32], or as many elements, found [16]", "with -DTM=32"),
        ("t of type int[64]: expected the shape [64], or as many elements, found [16]", "with -DTM=64"),
        ("'q' is not defined", "with -DTM=64"),
    ]


@pytest.mark.parametrize(
    ("condition", "options", "note"),
    [
        ("#ifdef A", [], "with -DA=1"),
        ("#ifndef A", ["-DA"], "with no -DA"),
        ("#if defined(A) && !defined(B)", ["-DB=7"], "with -DA=7 no -DB"),
        ("#if A == B", ["-DA=3", "-DB=4"], "with -DA=4"),
        ("#if A % 8", ["-DA=16"], "with -DA=17"),
        ("#if A", ["-DA=0"], "with -DA=1"),
        ("#define TWICE (A * 2)\n#if TWICE > 64", ["-DA=8"], "with -DA=64"),
        ("#if 0\n#elif A > 4", ["-DA=4"], "with -DA=5"),
    ],
)
def test_the_assignment_that_reaches_a_branch(condition, options, note):
    source = kernel(condition, "*c = q;", "#endif")
    assert findings(source, *options)[1] == [("'q' is not defined", note)]


@pytest.mark.parametrize("condition", ["#if 0", "#define A 1\n#if A != 1", "#ifndef __GRAPHFUSE__"])
def test_constant_conditions(condition):
    assert findings(kernel(condition, "*c = q;", "#endif"))[1] == []


def test_one_of_several():
    # the branch of B is without errors where A is not given as well
    lines = ("#ifdef A", "int x = 1;", "#endif", "#ifdef B", "int x = 2;", "#endif", "*c = x;")
    assert findings(kernel(*lines), "-DA")[1] == [("'x' is not defined", "with no -DA")]


def test_configurations_that_the_source_refuses():
    lines = ("#if TM < 16", "#error too small", "#endif", "#ifdef A", '_Static_assert(TM > 99, "");', "#endif")
    done, found = findings(kernel(*lines), "-DTM=16")
    assert (done.branches, found) == (4, [])


def test_what_is_bounded(monkeypatch):
    lines = [line for i in range(20) for line in (f"#ifdef A{i}", "n = q;", "#endif")]
    assert not findings(kernel(*lines))[0].cut_off
    monkeypatch.setattr(tc_lint, "MAX_RUNS", 7)
    done, _ = findings(kernel(*lines))
    assert (done.configurations, done.cut_off) == (7, True)
    assert findings(kernel("*c = TM;"), "-DTM=[1,2,3,4,5,6,7,8]")[0].cut_off
