"""A renaming that is not refused changes no meaning: each name is of the declaration that it was of before."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphfuse.errors import UsageError
from graphfuse.lsp.index import Declared, index
from graphfuse.lsp.rename import renamed
from graphfuse.lsp.texts import Lines, Place
from tests.frontends.tc.sources import SMALL
from tests.lsp.test_index import NAMES
from tests.lsp.test_server import MACROS

GALLERY = Path(__file__).parents[2] / "models" / "kernels"
SCOPES = """\
typedef int t;
int f(int a, int b) { return a + b; }
int g(int a) { int f = a; { int a = f; f = a; } for (int b = 0; b < a; b++) { int c = b; f += c; } return f; }
enum { A, B };
#define ADD(x) (x + a)
#ifdef ON
int h(int a) { return a; }
#endif
__global__ void k(int *p, t n) { int a = f(n, A); *p = ADD(g(a)); { t f = B; *p += f; } if (n) { int d = a; *p = d; } }
void late(int *p) { int q = 3; *p = q; { int p = q; q = p; } }
"""
SOURCES = {
    "scopes": SCOPES, "names": NAMES, "macros": MACROS, "small": SMALL,
    **{f.stem: f.read_text() for f in sorted(GALLERY.glob("*.tc"))[::4]},
}  # fmt: skip


def meaning(text: str) -> tuple[set[frozenset[int]], list[str]]:
    """Which tokens are of one declaration, by their numbers in the file; what is found, but for who hides whom."""
    found = index(text, "k.tc", {})
    order = {word.place: i for i, word in enumerate(found.words)}
    parts = {frozenset(order[use] for use in d.uses if use in order) for d in found.declared}
    return parts, [d.code for d in found.diagnostics if d.code != "shadow"]


def applied(text: str, places: tuple[Place, ...], to: str) -> str:
    lines = Lines(text)
    for place in sorted(places, key=lambda p: p.start, reverse=True):
        start, end = lines.offset(*place.start), lines.offset(*place.end)
        text = text[:start] + to + text[end:]
    return text


@pytest.mark.parametrize("name", [*[*SOURCES][:3], *(pytest.param(n, marks=pytest.mark.full) for n in [*SOURCES][3:])])
def test_no_name_is_taken_for_another(name: str) -> None:
    text = SOURCES[name]
    found = index(text, "k.tc", {})
    parts, codes = meaning(text)
    words = sorted({w.text for w in found.words})
    done = refused = 0
    for declared in found.declared:
        if declared.place.file != "k.tc":
            continue
        for to in [*words[:: 1 + len(words) // 15], "fresh", *(d.name for d in found.declared[:20])]:
            if to == declared.name:
                continue
            try:
                places = renamed(found, *declared.place.start, to)
            except UsageError:
                refused += 1
                continue
            done += 1
            after = applied(text, places, to)
            assert meaning(after) == (parts, codes), f"{declared.name!r} in line {declared.place.line + 1} to {to!r}"
    assert done
    assert refused


def test_what_is_renamed_is_what_is_declared() -> None:
    found = index(SCOPES, "k.tc", {})
    for declared in found.declared:
        mention = found.at(*declared.place.start)
        assert mention is not None
        assert isinstance(mention.of, Declared)
        assert mention.of is declared
