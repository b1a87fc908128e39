"""Dims: arithmetic is a ring, means what numbers mean, prints as it parses, and bounds never lie."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.properties import laws
from tests.properties.settings import DIMS

NAMES = ["n", "m", "past"]
leaves = st.one_of(st.integers(-9, 9), st.sampled_from(NAMES))
divisors = st.one_of(st.integers(1, 9), st.sampled_from([*NAMES, ("+", "n", 2), ("*", 2, "m"), ("*", "n", "m")]))


def extend(inner):
    return st.one_of(
        st.tuples(st.sampled_from(["+", "-", "*", "min", "max"]), inner, inner),
        st.tuples(st.sampled_from(["floordiv", "mod", "ceildiv"]), inner, divisors),
    )


formulas = st.recursive(leaves, extend, max_leaves=7)
values = st.fixed_dictionaries({n: st.integers(1, 12) for n in NAMES})
positive = st.sampled_from(["n", 3, ("+", "m", 1), ("*", 2, "past"), ("*", "n", "m"), ("max", "n", 4)])


@st.composite
def ranges_and_values(draw):
    ranges, chosen = {}, {}
    for n in NAMES:
        low = draw(st.integers(1, 6))
        high = low + draw(st.integers(0, 9))
        chosen[n] = draw(st.integers(low, high))
        if draw(st.booleans()):
            ranges[n] = (low, high)
    return ranges, chosen


@given(formulas, values)
@DIMS
def test_dims_mean_numbers(formula, chosen):
    laws.dims_mean_numbers(formula, chosen)


@given(formulas)
@DIMS
def test_dim_text_round_trips(formula):
    laws.dim_text_round_trips(formula)


@given(formulas, formulas, formulas)
@DIMS
def test_ring_laws(x, y, z):
    laws.ring_laws(x, y, z)


@given(formulas, st.dictionaries(st.sampled_from(NAMES), positive), values)
@DIMS
def test_substitution_commutes(formula, replacements, chosen):
    laws.substitution_commutes(formula, replacements, chosen)


@given(formulas, ranges_and_values())
@DIMS
def test_bounds_hold(formula, case):
    laws.bounds_hold(formula, *case)


@given(formulas, formulas)
@DIMS
def test_exact_division_is_exact(x, y):
    laws.exact_division_is_exact(x, y)
