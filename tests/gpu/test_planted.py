"""Every mistake of `planted.py` is found, by the report that it should be found by; docs/emulator.md lists them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.gpu.planted import BUGS, FAMILIES, WRONG, Bug, table, victim

DOCS = Path(__file__).parents[2] / "docs" / "emulator.md"


def planted() -> list[object]:
    """Each mistake in each of its families: in the first one always, in the others in the full run."""
    first = {bug.mistake: bug.families[0] for bug in reversed(BUGS)}
    return [
        pytest.param(bug, f, id=f"{bug.mistake}, {f}", marks=() if f == first[bug.mistake] else pytest.mark.full)
        for bug in BUGS
        for f in bug.families
    ]


@pytest.mark.some(12)
@pytest.mark.parametrize(("bug", "family"), planted())
def test_it_is_found(bug: Bug, family: str) -> None:
    kernel = victim(family)
    for text in bug.changed(kernel.ptx):
        found = kernel.found(text)
        assert re.search(bug.report, found), f"{bug.mistake}: {found or 'not found'}"
        assert found == WRONG or "not an instruction" not in found


def test_every_family_has_a_mistake() -> None:
    assert set(FAMILIES) == {f for bug in BUGS for f in bug.families if not f.startswith("Inductor's ")}


def test_the_table_is_in_the_docs() -> None:
    """`python -m tests.gpu.planted` prints it."""
    assert table() in DOCS.read_text(encoding="utf-8")
