"""Names and macros under the cursor, and settings of a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphfuse.errors import FileError
from graphfuse.lsp.index import index
from graphfuse.lsp.settings import NAME, defines_for

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
