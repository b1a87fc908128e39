"""Names and macros under the cursor, and settings of a folder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from graphfuse.errors import FileError
from graphfuse.lsp.index import index
from graphfuse.lsp.settings import NAME, defines_for
from graphfuse.lsp.texts import Lines

SOURCE = """float twice(float x) { return 2 * x; }
__global__ void k(TYPE *x __readonly, float *y, int n) {
  int o[SIZE] = 0 ... SIZE;
  float v[SIZE] = *?(o < n) (x + o);
  *?(o < n) (y + o) = twice(n) * v;
}
"""
DEFINES = {"TYPE": "half", "SIZE": "64"}


def find(text: str, line: int, word: str, nth: int = 0) -> tuple[int, int]:
    row = text.splitlines()[line]
    at = -1
    for _ in range(nth + 1):
        at = row.index(word, at + 1)
    return line, at


@pytest.mark.parametrize(
    ("line", "word", "nth", "text", "declared"),
    [
        (1, "x", 0, "half* x __readonly", (1, 24)),
        (3, "x", 0, "half* x __readonly", (1, 24)),
        (3, "o <", 0, "int[64] o", (2, 6)),
        (4, "v", 0, "float[64] v", (3, 8)),
        (2, "o", 0, "int[64] o", (2, 6)),
        (4, "twice", 0, "float twice(float x)", (0, 6)),
        (1, "k", 0, "__global__ void k(half* x, float* y, int n)", (1, 16)),
        (2, "SIZE", 1, "SIZE = 64", None),
        (1, "TYPE", 0, "TYPE = half", None),
    ],
)
def test_what_is_under_the_cursor(line: int, word: str, nth: int, text: str, declared: tuple[int, int] | None) -> None:
    found = index(SOURCE, "k.tc", DEFINES)
    assert not [d for d in found.diagnostics if d.severity == "error"]
    mention = found.at(*find(SOURCE, line, word, nth))
    assert mention is not None
    assert mention.text == text
    place = mention.declaration
    assert (place and (place.line, place.column)) == declared


def test_nothing_is_under_the_cursor() -> None:
    assert index(SOURCE, "k.tc", DEFINES).at(5, 0) is None


def test_a_source_with_an_error_is_indexed_around_it() -> None:
    found = index(SOURCE.replace("twice(n) * v", "thrice(n) * v"), "k.tc", DEFINES)
    assert [d.message for d in found.diagnostics if d.severity == "error"]
    mention = found.at(*find(SOURCE, 3, "o <"))
    assert mention is not None
    assert mention.text == "int[64] o"


NAMES = """\
typedef float real; enum tag { A, B = A };
real f(real x);
real f(real x) { real y = x; { real y = y; x = y; } for (real y = 1; y < x; y++) { x += y; } return y + A + B; }
__global__ void k(real *p, int x[]) { int f = 3; *p = f + open; (real)x; sizeof(real); int open = reduce(x, 0, g); }
real g(real a, real b) { return a + b + nothing; }
"""


def test_which_declaration_a_name_is_of() -> None:
    """Whatever has types or not: `k` has a parameter that no kernel may have."""
    found = index(NAMES, "k.tc", {})
    rows = NAMES.splitlines()

    def places(word: str, *at: tuple[int, int]) -> set[tuple[int, int]]:
        """Line and column of a word by its line and number in that."""
        return {(line, [m.start() for m in re.finditer(rf"\b{word}\b", rows[line])][nth]) for line, nth in at}

    def uses(word: str, line: int, nth: int) -> set[tuple[int, int]]:
        (at,) = places(word, (line, nth))
        (of,) = [d for d in found.declared if d.place.start == at]
        return {u.start for u in of.uses}

    assert uses("y", 2, 0) == places("y", (2, 0), (2, 8))
    assert uses("y", 2, 1) == places("y", (2, 1), (2, 2), (2, 3))
    assert uses("y", 2, 4) == places("y", (2, 4), (2, 5), (2, 6), (2, 7))
    assert uses("f", 2, 0) == places("f", (1, 0), (2, 0))
    assert uses("f", 3, 0) == places("f", (3, 0), (3, 1))
    assert uses("A", 0, 0) == places("A", (0, 0), (0, 1), (2, 0))
    assert uses("open", 3, 1) == places("open", (3, 1))
    assert uses("g", 4, 0) == places("g", (3, 0), (4, 0))
    assert len(uses("real", 0, 0)) == NAMES.count("real")
    assert not [d for d in found.declared if d.name in ("nothing", "tag")]


def test_columns_in_the_units_of_an_editor() -> None:
    lines = Lines("ab\r\n\u00e9\U0001d54fx\rz", "utf-16")
    assert (lines.rows, lines.ending) == (["ab", "\u00e9\U0001d54fx", "z"], "\r\n")
    for unit, units in (("utf-8", [0, 2, 6, 7]), ("utf-16", [0, 1, 3, 4]), ("utf-32", [0, 1, 2, 3])):
        lines = Lines("ab\n\u00e9\U0001d54fx", unit)
        assert [lines.units(1, column) for column in range(4)] == units
        assert [lines.column(1, unit) for unit in units] == [0, 1, 2, 3]
        assert lines.column(1, 99) == 3
        assert lines.column(7, 5) == 0
    assert [lines.position(offset) for offset in (0, 2, 3, 6)] == [(0, 0), (0, 2), (1, 0), (1, 3)]
    assert [lines.offset(*at) for at in ((0, 2), (1, 0), (9, 0))] == [2, 3, 6]


@pytest.mark.parametrize("text", ["", "}", "#if", "void k(", "float f(float x) { return f(x); }", "\x00\\"])
def test_any_text_can_be_indexed(text: str) -> None:
    index(text, "k.tc", {})


def test_what_is_included_from_outside_of_the_folder_is_not_opened(tmp_path: Path) -> None:
    """To open a file in an editor is not to trust it; the folders that are open in the editor may be read."""
    inner = tmp_path / "kernels"
    inner.mkdir()
    (tmp_path / "out.h").write_text("#define SIZE 64\n")
    (inner / "in.h").write_text("#define TYPE half\n")
    (inner / "link.h").symlink_to("../out.h")
    file = str(inner / "k.tc")
    for name in ("../out.h", "link.h", str(tmp_path / "out.h"), "/dev/zero", "/etc/passwd"):
        text = f'#include "in.h"\n#include "{name}"\n{SOURCE}'
        errors = [d.message for d in index(text, file, {"SIZE": "64"}).diagnostics if d.severity == "error"]
        assert errors == [f"#include: {name!r} is outside of {inner}"]
    text = f'#include "in.h"\n#include "../out.h"\n{SOURCE}'
    assert not [d for d in index(text, file, {}, [tmp_path]).diagnostics if d.severity == "error"]


def test_settings(tmp_path: Path) -> None:
    files = '{"a.tc": {"N": [64, 128], "ON": true}}'
    (tmp_path / NAME).write_text(f'{{"defines": {{"T": "[half, float]", "N": 3}}, "files": {files}}}')
    inner = tmp_path / "kernels"
    inner.mkdir()
    assert defines_for(inner / "a.tc") == {"T": "half", "N": "64", "ON": "1"}
    assert defines_for(tmp_path / "b.tc") == {"T": "half", "N": "3"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "cannot read"),
        ("[]", "expected settings as an object, found list"),
        ('{"define": {}}', "expected 'defines' and 'files', found 'define'"),
        ('{"defines": 3}', "expected macros as an object, found int"),
        ('{"files": []}', "expected macros by file as an object, found list"),
    ],
)
def test_settings_of_another_form(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / NAME).write_text(text)
    with pytest.raises(FileError) as caught:
        defines_for(tmp_path / "a.tc")
    assert message in str(caught.value)
