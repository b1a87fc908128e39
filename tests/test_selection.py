"""Which cases of a function with `some(n)` run in `make test` (conftest.py)."""

from __future__ import annotations

import pytest

from tests.conftest import pytest_collection_modifyitems, spread


@pytest.mark.parametrize(
    ("n", "of", "kept"),
    [
        (1, 7, {0}),
        (2, 7, {0, 6}),
        (4, 10, {0, 3, 6, 9}),
        (4, 16, {0, 5, 10, 15}),  # of four times four parameters each of both
        (5, 5, {0, 1, 2, 3, 4}),
        (5, 3, {0, 1, 2}),
    ],
)
def test_so_many_are_kept_and_evenly_spaced(n: int, of: int, kept: set[int]) -> None:
    assert spread(n, of) == kept


def test_never_fewer_than_said_and_always_the_first() -> None:
    for of in range(1, 60):
        for n in range(1, of + 1):
            kept = spread(n, of)
            assert len(kept) == n and 0 in kept and max(kept) < of


class Case:
    """What a collected item shows to the hook."""

    def __init__(self, name: str, *marks: pytest.Mark) -> None:
        self.nodeid = f"tests/test_it.py::{name}"
        self.marks = {m.name: m for m in marks}

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return self.marks.get(name)

    def add_marker(self, mark: pytest.MarkDecorator) -> None:
        self.marks[mark.name] = mark.mark


def test_the_others_become_full_and_those_that_are_do_not_count() -> None:
    some, full = pytest.mark.some(2).mark, pytest.mark.full.mark
    items = [Case("a[0]", some), Case("a[1]", some), Case("b[0]"), Case("a[2]", some, full), Case("a[x[y]]", some)]
    pytest_collection_modifyitems(items)
    assert [c.nodeid.partition("::")[2] for c in items if "full" not in c.marks] == ["a[0]", "b[0]", "a[x[y]]"]
