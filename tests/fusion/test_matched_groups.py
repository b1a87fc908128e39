"""How a reshape regroups dims, exhaustively: all ways of cutting a few factors into dims, on both sides."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from graphfuse.fusion.simplify.simplify_movement import Group, matched_groups
from graphfuse.symbolic import Dim, product, sym

FACTORS = (2, 3, sym("n"), sym("m"))


def cuts(factors: Sequence[Dim]) -> Iterator[tuple[Dim, ...]]:
    for lengths in itertools.product((False, True), repeat=len(factors) - 1):
        out = [factors[0]]
        for factor, joins in zip(factors[1:], lengths, strict=True):
            out[-1:] = [out[-1] * factor] if joins else [out[-1], factor]
        yield tuple(out)


def finest(source: Sequence[Dim], target: Sequence[Dim]) -> list[Group]:
    """Cut wherever both sides have as many elements so far."""
    found: list[Group] = []
    i0 = j0 = 0
    for i, j in itertools.product(range(1, len(source) + 1), range(1, len(target) + 1)):
        if j > j0 and i > i0 and product(source[:i]) == product(target[:j]):
            found.append(Group(tuple(range(i0, i)), tuple(range(j0, j))))
            i0, j0 = i, j
    return found


def test_groups_are_the_finest() -> None:
    for count in (1, 2, 3, 4):
        for factors in itertools.product(FACTORS[: 7 - count], repeat=count):
            for source, target in itertools.product(cuts(factors), repeat=2):
                assert matched_groups(source, target) == finest(source, target), (source, target)


def test_ones_are_of_no_group_and_nothing_else_fits() -> None:
    n = sym("n")
    assert matched_groups((n, 6, 1), (1, n, 1, 2, 3)) == [Group((0,), (1,)), Group((1,), (3, 4))]
    assert matched_groups((4, n), (4, n, 2)) is None
    assert matched_groups((4, n, 2), (4, n)) is None
    assert matched_groups((0, 4), (2, 0)) is None
