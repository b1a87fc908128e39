"""Whatever is in a file and wherever one asks, the server answers; what it would write changes no other token."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from graphfuse.frontends.tc.diagnostics import Reporter
from graphfuse.frontends.tc.source import Source
from graphfuse.frontends.tc.tokens import cut, tokenize
from tests.frontends.tc.sources import SMALL
from tests.frontends.tc.test_fuzz import mutated
from tests.lsp.client import Editor, RefusedError, applied, units
from tests.lsp.test_server import MACROS, SOURCE, ask_everything

pytest.importorskip("pygls")

GALLERY = Path(__file__).parents[2] / "models" / "kernels"
SOURCES = [SOURCE, MACROS, SMALL, *(f.read_text() for f in sorted(GALLERY.glob("*.tc")))]


def with_other_tokens(rng):
    """A source some of whose tokens are gone, doubled, or changed places."""
    text = rng.choice(SOURCES)
    pieces = [text[a:b] for _, a, b in cut(text)]
    for _ in range(rng.choice((1, 1, 2, 5, 20))):
        i, j = rng.randrange(len(pieces)), rng.randrange(len(pieces))
        match rng.randrange(4):
            case 0:
                pieces[i] = ""
            case 1:
                pieces[i] += f" {pieces[i]}"
            case 2:
                pieces[i], pieces[j] = pieces[j], pieces[i]
            case _:
                pieces[i] += rng.choice(
                    ("\U0001d54f", "(", "}", "{", ";", "/*", '"', "#", "\\\n", "\r\n", "\u2028", "\x0c")
                )
    return "".join(pieces)


@pytest.fixture(scope="module")
def editor(tmp_path_factory):
    editor = Editor(tmp_path_factory.mktemp("any"))
    yield editor
    assert editor.close() == 0
    editor.kill()


def spelled(text):
    return [t.text for t in tokenize(Source("", text), Reporter())]


@pytest.mark.parametrize("block", [0, *(pytest.param(n, marks=pytest.mark.full) for n in range(1, 40))])
def test_any_file(editor, tmp_path, block):
    path = tmp_path / "any.tc"
    editor.open(path, "")
    for seed in range(25 * block, 25 * (block + 1)):
        rng = random.Random(seed)
        text = rng.choice((with_other_tokens, with_other_tokens, mutated))(rng)
        text = text.encode(errors="replace").decode()
        try:
            editor.change(path, text)
            rows = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
            for _ in range(3):
                line = rng.randrange(len(rows))
                ask_everything(editor, path, line, rng.randrange(units(rows[line]) + 2))
            edits = editor.about("formatting", path, options={"tabSize": 2, "insertSpaces": True})
            assert spelled(applied(text, edits)) == spelled(text)
            editor.about("documentSymbol", path)
        except (AssertionError, RefusedError) as e:
            e.add_note(f"seed {seed}")
            raise


@pytest.mark.some(5)
@pytest.mark.parametrize("source", SOURCES[3:], ids=lambda s: s.split(maxsplit=8)[2])
def test_a_renamed_source_means_the_same(editor, tmp_path, source):
    """Every name of the gallery renamed to a new one: diagnostics stay what they are, but for the name."""
    path = tmp_path / "renamed.tc"
    before = editor.open(path, source)
    symbols = editor.about("documentSymbol", path)
    names = [s for top in symbols for s in (top, *top.get("children", []))]
    refused = 0
    for symbol in names:
        at = symbol["selectionRange"]["start"]
        answer = rename(editor, path, at, "fresh_name")
        if answer is None:
            refused += 1
            continue
        done = applied(source, answer["changes"][path.as_uri()])
        assert spelled(done) == [
            "fresh_name" if new == "fresh_name" else old
            for old, new in zip(spelled(source), spelled(done), strict=True)
        ]
        after = editor.open(path, done)
        assert [d["message"].replace("fresh_name", symbol["name"]) for d in after] == [d["message"] for d in before]
        editor.open(path, source)
    assert len(names) > refused


def rename(editor, path, at, to):
    try:
        return editor.at("rename", path, at["line"], at["character"], newName=to)
    except RefusedError as e:
        assert "macro" in str(e) or "#if" in str(e)
        return None
