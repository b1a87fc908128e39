"""The server as an editor sees it: each capability over standard input and output, in a process of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from graphfuse.frontends.tc.format import format_text
from tests.lsp.client import Editor, RefusedError, applied, units, where

pytest.importorskip("pygls")

SOURCE = """\
#define TWICE(x) ((x) + (x))
#include "sizes.h"
typedef float real;
enum { WIDE = 4, NARROW };
// half of it
real half_of(real x, int n) { return x / n; }
__global__ void k(TYPE *x __readonly, float *y, int n __multipleof(8)) {
  int o[SIZE] = get_program_id(0) * SIZE + 0 ... SIZE;
  for (int i = 0; i < n; i++) {
    float v[SIZE] = *?(o < n)(x + o);
    *?(o < n)(y + o) = half_of(TWICE(i), WIDE) * v;
  }
}
"""
LINES = SOURCE.splitlines()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kernels")
    (folder / ".tritonc.json").write_text('{"defines": {"TYPE": "half"}}')
    (folder / "sizes.h").write_text("// \U0001d54f\n#define SIZE 64\ntypedef int index;\n")
    return folder


@pytest.fixture(scope="module")
def editor(folder):
    editor = Editor(folder)
    yield editor
    assert editor.close() == 0
    editor.kill()


@pytest.fixture(params=["\n", "\r\n"], ids=["lf", "crlf"])
def shown(request, editor, folder):
    """The source with either line end, and with letters of two UTF-16 units in front of every line's end."""
    path = folder / f"k{len(request.param)}.tc"
    text = SOURCE.replace("\n", request.param)
    assert editor.open(path, text) == []
    yield path, text
    editor.tell("textDocument/didClose", {"textDocument": {"uri": path.as_uri()}})
    assert editor.diagnostics(path) == []


def span(text, word, nth=0):
    """A word's range."""
    line, column = where(text, word, nth)
    return {"start": {"line": line, "character": column}, "end": {"line": line, "character": column + units(word)}}


def starts(places):
    return [(p["range"]["start"]["line"], p["range"]["start"]["character"]) for p in places]


def test_what_it_can(editor):
    can = editor.capabilities
    for name in (
        "hover", "definition", "references", "documentHighlight", "documentSymbol", "documentFormatting",
        "documentRangeFormatting",
    ):  # fmt: skip
        assert can[f"{name}Provider"], name
    assert can["renameProvider"]["prepareProvider"]
    assert can["codeActionProvider"]["codeActionKinds"] == ["quickfix"]
    assert can["signatureHelpProvider"]["triggerCharacters"] == ["(", ","]
    assert "completionProvider" in can
    assert can["positionEncoding"] == "utf-16"


@pytest.mark.parametrize(
    ("word", "nth", "said"),
    [
        ("o < n", 0, "int[64] o"),
        ("v;", 0, "float[64] v"),
        ("x __readonly", 0, "half* x __readonly"),
        ("n __multipleof", 0, "int n __multipleof(8)"),
        ("i <", 0, "int i"),
        ("half_of(TW", 0, "float half_of(float x, int n)"),
        ("k(TYPE", 0, "__global__ void k(half* x, float* y, int n)"),
        ("real x", 0, "typedef float real"),
        ("WIDE)", 0, "int WIDE = 4"),
        ("SIZE] =", 0, "#define SIZE 64"),
        ("TYPE *x", 0, "-DTYPE=half"),
        ("TWICE(i", 0, "TWICE = ( ( i ) + ( i ) )"),
        ("TWICE(x", 0, "#define TWICE(x) ((x) + (x))"),
        ("get_program_id", 0, "The number of this program along axis 0, 1 or 2"),
        ("__readonly", 0, "nothing is stored through the pointer"),
        ("float *y", 0, "A floating-point number of 32 bits"),
        ("for (", 0, "for (init; condition; step)"),
    ],
)  # fmt: skip
def test_hover(editor, shown, word, nth, said):
    path, text = shown
    found = editor.at("hover", path, *where(text, word, nth))
    assert said in found["contents"]["value"]
    assert found["range"]["start"]["line"] == where(text, word, nth)[0]
    assert found["range"]["start"]["character"] == where(text, word, nth)[1]


@pytest.mark.parametrize(("word", "nth"), [("// half", 0), ("half of", 0), ("= 0; i", 0)])
def test_nothing_to_hover_over(editor, shown, word, nth):
    assert editor.at("hover", shown[0], *where(shown[1], word, nth)) is None


def test_definition(editor, shown, folder):
    path, text = shown
    to = editor.at("definition", path, *where(text, "o < n"))
    assert to["uri"] == path.as_uri()
    assert to["range"]["start"] == span(text, "o[SIZE")["start"]
    assert editor.at("definition", path, *where(text, "half_of(TW"))["range"] == span(text, "half_of")
    assert editor.at("definition", path, *where(text, "TWICE(i"))["range"] == span(text, "TWICE")
    size = editor.at("definition", path, *where(text, "SIZE]"))
    assert size["uri"] == (folder / "sizes.h").as_uri()
    assert size["range"] == {"start": {"line": 1, "character": 8}, "end": {"line": 1, "character": 12}}
    header = editor.at("definition", path, *where(text, "sizes.h"))
    assert header["uri"] == size["uri"]
    assert header["range"]["start"] == {"line": 0, "character": 0}
    assert editor.at("definition", path, *where(text, "TYPE *x")) is None
    assert editor.at("definition", path, *where(text, "get_program_id")) is None


def test_references_and_highlights(editor, shown):
    path, text = shown
    at = where(text, "o < n", 1)
    uses = [
        where(text, "o[SIZE"),
        where(text, "o < n"),
        where(text, "o)"),
        where(text, "o < n", 1),
        where(text, "o) ="),
    ]
    found = editor.at("references", path, *at, context={"includeDeclaration": True})
    assert sorted(starts(found)) == sorted(uses)
    assert {p["uri"] for p in found} == {path.as_uri()}
    found = editor.at("references", path, *at, context={"includeDeclaration": False})
    assert sorted(starts(found)) == sorted(uses[1:])
    assert sorted(starts(editor.at("documentHighlight", path, *at))) == sorted(uses)
    # the x of the kernel is neither that of half_of nor the macro's
    found = editor.at("documentHighlight", path, *where(text, "x + o"))
    assert starts(found) == [where(text, "x __readonly"), where(text, "x + o")]
    # a macro is at all of its places; one in an argument is counted where it stands
    assert starts(editor.at("documentHighlight", path, *where(text, "TWICE"))) == [
        where(text, "TWICE"), where(text, "TWICE", 1)
    ]  # fmt: skip
    assert starts(editor.at("documentHighlight", path, *where(text, "i <"))) == [
        where(text, "i = 0"), where(text, "i <"), where(text, "i++"), where(text, "i), WIDE")
    ]  # fmt: skip
    assert editor.at("references", path, 4, 0, context={"includeDeclaration": True}) == []


def test_rename(editor, shown):
    path, text = shown
    for word, new, count in (
        ("o < n", "offsets", 5),
        ("i <", "step", 4),
        ("half_of(TW", "halved", 2),
        ("real x", "num", 3),
    ):
        at = where(text, word)
        old = word.split("(")[0].split(" ")[0]
        assert editor.at("prepareRename", path, *at) == span(text, word) | {
            "end": {"line": at[0], "character": at[1] + len(old)}
        }
        (edits,) = editor.at("rename", path, *at, newName=new)["changes"].values()
        assert len(edits) == count, word
        done = applied(text, edits)
        assert len(done) == len(text) + count * (len(new) - len(old))
        assert done.count(new) == count + text.count(new)
    assert editor.at("rename", path, *where(text, "o < n"), newName="o") == {"changes": {path.as_uri(): []}}


@pytest.mark.parametrize(
    ("word", "new", "message"),
    [
        ("o < n", "float", "rename: expected a name that is free, found 'float', a word of the language"),
        ("o < n", "exp", "rename: expected a name that is free, found 'exp', a word of the language"),
        ("o < n", "newaxis", "rename: expected a name that is free, found 'newaxis', a word of the language"),
        ("o < n", "TWICE", "rename: expected a name that is free, found 'TWICE', a macro"),
        ("o < n", "SIZE", "rename: expected a name that is free, found 'SIZE', a macro"),
        ("o < n", "n", "rename: expected a name that is free, found 'n', declared in line 7"),
        ("o < n", "v", "rename: expected a name that is free, found 'v', declared in line 10"),
        ("o < n", "half_of", "rename: expected a name that is free, found 'half_of', declared in line 6"),
        ("v;", "o", "rename: expected a name that is free, found 'o', declared in line 8"),
        ("o < n", "3x", "rename: expected a name of letters, digits and underscores, found '3x'"),
        ("o < n", "a b", "rename: expected a name of letters, digits and underscores, found 'a b'"),
        ("o < n", "", "rename: expected a name of letters, digits and underscores, found ''"),
        ("TWICE(i", "THRICE", "rename: expected a variable, a function or a type, found the macro 'TWICE'"),
        ("SIZE]", "COUNT", "rename: expected a variable, a function or a type, found the macro 'SIZE'"),
        ("exp", "e", "rename: expected a name that this file declares, found 'get_program_id'"),
        ("+ 0", "e", "rename: expected a name, found none here"),
    ],
)
def test_rename_is_refused(editor, shown, word, new, message):
    path, text = shown
    at = where(text, "get_program_id" if word == "exp" else word)
    with pytest.raises(RefusedError) as refused:
        editor.at("rename", path, *at, newName=new)
    assert str(refused.value).startswith(message)
    assert refused.value.code == -32803


MACROS = """\
#include "sizes.h"
#define STEP(a) { acc = acc + a; }
#define MAKE int made = 3;
#define OTHER other
#define UNUSED late
#define PASTE(a, b) a ## b
__global__ void k(float *p, int n) {
  index i = 0;
  float acc = 0, other = 1, late = 2, ab = 3;
  MAKE
  for (; i < n; i++)
    STEP(OTHER + made + PASTE(a, b))
#ifdef NEVER
  acc += other;
  { int late = 1; late += n; }
#endif
  *p = acc + late;
}
void f(float *p) { float other = OTHER2; *p = other; }
"""


def test_renaming_what_macros_name(editor, folder):
    path = folder / "macros.tc"
    editor.open(path, MACROS.replace("OTHER2", "2"))
    text = MACROS.replace("OTHER2", "2")
    # in the body of a macro, in its argument, and in a branch that is not taken
    (edits,) = editor.at("rename", path, *where(text, "acc = 0"), newName="sum")["changes"].values()
    assert applied(text, edits) == text.replace("acc", "sum")
    (edits,) = editor.at("rename", path, *where(text, "n) {"), newName="count")["changes"].values()
    assert len(edits) == 3
    for word, message in (
        ("made + ", "expected a name that stands in this file, found 'made', which a macro makes"),
        ("late = 2", "'late' also stands in a macro, in line 5"),
        ("index i", "'index' is also named in"),
    ):
        with pytest.raises(RefusedError, match=message):
            editor.at("rename", path, *where(text, word), newName="fresh")
    (edits,) = editor.at("rename", path, *where(text, "other = 1"), newName="more")["changes"].values()
    assert starts(edits) == [where(text, "other = 1"), where(text, "other", 0), where(text, "other;")]
    for word, new, message in (
        ("acc = 0", "a", "found 'a' in the directive in line 2"),
        ("acc = 0", "NEVER", "found 'NEVER' in the directive in line 13"),
    ):
        with pytest.raises(RefusedError, match=message):
            editor.at("rename", path, *where(text, word), newName=new)
    # one macro that means two variables has no new name for one of them
    text = text.replace("= 2; *p = other", "= 2; *p = OTHER")
    editor.change(path, text)
    with pytest.raises(RefusedError, match="'other' in a macro is also another one, in line 4"):
        editor.at("rename", path, *where(text, "other = 1"), newName="more")


def test_what_an_open_source_has_from_a_header_keeps_its_name_there(editor, folder):
    header, user = folder / "shared.h", folder / "user.tc"
    text = "float twice(float x) { return 2 * x; }\nfloat thrice(float x) { return 3 * x; }\n"
    header.write_text(text)
    editor.open(user, '#include "shared.h"\n__global__ void k(float *p) { *p = twice(*p); }\n')
    editor.open(header, text)
    for method, more in (("prepareRename", {}), ("rename", {"newName": "double_of"})):
        with pytest.raises(RefusedError, match="expected a name of this file alone, found one that .*user.tc has, too"):
            editor.at(method, header, *where(text, "twice"), **more)
    editor.tell("textDocument/didClose", {"textDocument": {"uri": user.as_uri()}})
    (edits,) = editor.at("rename", header, *where(text, "twice"), newName="double_of")["changes"].values()
    assert applied(text, edits) == text.replace("twice", "double_of")


def test_what_is_wrong_in_a_header_is_shown_where_it_is_included(editor, folder):
    header, user = folder / "wrong.h", folder / "includes.tc"
    header.write_text("/* \U0001d54f */ flaot twice(float x) { return 2 * x; }\n")
    text = (
        '#define N 3\n#include "sizes.h"\n  #include "wrong.h"\n__global__ void k(float *p) { *p = twice(*p) + N; }\n'
    )
    (error,) = editor.open(user, text)
    assert error["message"] == "wrong.h:1: type 'flaot' is not defined; did you mean 'float'?"
    assert error["range"] == {"start": {"line": 2, "character": 0}, "end": {"line": 2, "character": 20}}
    (there,) = error["relatedInformation"]
    assert there["location"]["uri"] == header.as_uri()
    assert there["location"]["range"] == {"start": {"line": 0, "character": 9}, "end": {"line": 0, "character": 14}}
    everywhere = {"start": {"line": 0, "character": 0}, "end": {"line": 9, "character": 0}}
    assert editor.about("codeAction", user, range=everywhere, context={"diagnostics": []}) == []


def test_what_is_wrong_in_a_macro_of_the_settings(editor, tmp_path):
    (tmp_path / ".tritonc.json").write_text(json.dumps({"defines": {"N": "/* 3"}}))
    found = editor.open(tmp_path / "k.tc", "__global__ void k(float *p) { *p = 3 N; }\n")
    assert "-DN:1: comment is never closed: expected '*/' before the end of the file" in [d["message"] for d in found]


def test_symbols(editor, shown):
    path, text = shown
    found = editor.about("documentSymbol", path)
    assert [s["name"] for s in found] == ["TWICE", "real", "WIDE", "NARROW", "half_of", "k"]
    kernel = found[-1]
    assert [s["name"] for s in kernel["children"]] == ["x", "y", "n", "o", "i", "v"]
    assert kernel["detail"] == "__global__ void k(half* x, float* y, int n)"
    assert kernel["range"]["start"]["line"] == 6
    assert kernel["range"]["end"]["line"] == 12
    assert kernel["selectionRange"]["start"] == span(text, "k(TYPE")["start"]
    for symbol in (*found, *kernel["children"]):
        assert inside(symbol["selectionRange"], symbol["range"]), symbol["name"]


def inside(inner, outer):
    def key(position):
        return position["line"], position["character"]

    return key(outer["start"]) <= key(inner["start"]) and key(inner["end"]) <= key(outer["end"])


def test_completion(editor, shown):
    path, text = shown
    items = {i["label"]: i for i in editor.at("completion", path, *where(text, "v;"))}
    assert items["v"]["detail"] == "float[64] v"
    assert items["o"]["detail"] == "int[64] o"
    assert items["x"]["detail"] == "half* x __readonly"
    assert items["half_of"]["detail"] == "float half_of(float x, int n)"
    assert items["TWICE"]["detail"] == "#define TWICE(x) ((x) + (x))"
    assert items["WIDE"]["detail"] == "int WIDE = 4"
    assert items["cumsum"]["detail"] == "cumsum(x, [axis], [reverse])"
    assert "along an axis" in items["cumsum"]["documentation"]
    assert {
        "float",
        "uint16",
        "const",
        "__readonly",
        "for",
        "newaxis",
        "SIZE",
        "real",
        "bool",
        "INFINITY",
    } <= items.keys()
    assert items["v"]["sortText"] < items["cumsum"]["sortText"]
    # what is declared behind, in another scope, or in another function is not there
    early = {i["label"] for i in editor.at("completion", path, *where(text, "get_program_id"))}
    assert {"x", "n", "half_of"} <= early
    assert not {"v", "i"} & early
    other = {i["label"]: i for i in editor.at("completion", path, *where(text, "x / n"))}
    assert other["x"]["detail"] == "float x"
    assert "y" not in other
    assert editor.at("completion", path, *where(text, "half of")) == []


@pytest.mark.parametrize(
    ("typed", "labels"), [("#", True), ("#de", True), ("x = 1; // wh", False), ('printf("a', False)]
)
def test_completion_while_typing(editor, folder, typed, labels):
    path = folder / "typing.tc"
    text = f"void k(float *p) {{\n{typed}"
    editor.open(path, text)
    found = {i["label"] for i in editor.at("completion", path, 1, len(typed))}
    assert found == ({"define", "include", "ifdef", "endif"} | found if labels else set())
    assert "p" not in found


def test_completion_in_a_statement_that_is_being_typed(editor, folder):
    path = folder / "typing.tc"
    head = "float g(float a);\nvoid k(float *p, int n) {\n  float sum = 0;\n"
    text = f"{head}  for (int i = 0; i < n; i++) {{\n    if (i) {{\n      sum += g(p"
    editor.open(path, text)
    found = {i["label"]: i for i in editor.at("completion", path, 5, 15)}
    assert {"sum", "i", "p", "n", "g"} <= found.keys()
    assert found["sum"]["detail"] == "float sum"


@pytest.mark.parametrize(
    ("typed", "form", "params", "active"),
    [
        ("half_of(", "half_of(float x, int n)", ["float x", "int n"], 0),
        ("half_of(TWICE(1), ", "half_of(float x, int n)", ["float x", "int n"], 1),
        ("half_of((1, 2), x[:, 3], ", "half_of(float x, int n)", ["float x", "int n"], 2),
        ("half_of(TWICE(", "TWICE(x)", ["x"], 0),
        ("exp(half_of(1, 2) + ", "exp(x)", ["x"], 0),
        ("cumsum(x, 0, ", "cumsum(x, [axis], [reverse])", ["x", "axis", "reverse"], 2),
        ("half_of(x[0, ", "half_of(float x, int n)", ["float x", "int n"], 0),
        ('printf("%d, %d", 1, 2, ', "printf(format, ...)", ["format", "..."], 1),
    ],
)  # fmt: skip
def test_signature_help(editor, folder, typed, form, params, active):
    path = folder / "calls.tc"
    text = SOURCE.replace("    float v", f"    n = {typed}\n    float v")
    editor.open(path, text)
    found = editor.at("signatureHelp", path, 9, 8 + len(typed))
    (signature,) = found["signatures"]
    assert signature["label"] == form
    assert [p["label"] for p in signature["parameters"]] == params
    assert found["activeParameter"] == active


@pytest.mark.parametrize("typed", ["x = (1 + ", "if (", "n(", "half_of(1); ", "x["])
def test_no_signature(editor, folder, typed):
    path = folder / "calls.tc"
    editor.open(path, SOURCE.replace("    float v", f"    {typed}\n    float v"))
    assert editor.at("signatureHelp", path, 9, 4 + len(typed)) is None


@pytest.mark.parametrize(
    ("before", "after", "title"),
    [
        ("flaot x = 1; *p = x;", "float x = 1; *p = x;", "replace 'flaot' by 'float'"),
        ("float sum = 1; *p = smu;", "float sum = 1; *p = sum;", "replace 'smu' by 'sum'"),
        ("/* \U0001d54f */ float x = 1\n  *p = x;", "/* \U0001d54f */ float x = 1;\n  *p = x;", "insert ';'"),
        ("float t[2][4] = 0;", "float t[2, 4] = 0;", "replace '][' by ', '"),
        ("int r[32] = 0 ... 64 / 2;", "int r[32] = (0 ... 64) / 2;", "insert '(' and insert ')'"),
        ("*p = 1;\n#endfi\n", "*p = 1;\n#endif\n", "replace 'endfi' by 'endif'"),
    ],
)
def test_quick_fixes(editor, folder, before, after, title):
    path = folder / "fixes.tc"
    head = "#if 1\n__global__ void k(float *p) {\n  " if "#end" in before else "__global__ void k(float *p) {\n  "
    text = f"{head}{before}}}"
    found = editor.open(path, text)
    everywhere = {"start": {"line": 0, "character": 0}, "end": {"line": 9, "character": 0}}
    actions = editor.about("codeAction", path, range=everywhere, context={"diagnostics": found})
    action = next(a for a in actions if a["title"] == title)
    assert action["kind"] == "quickfix"
    assert action["diagnostics"][0] in found
    assert applied(text, action["edit"]["changes"][path.as_uri()]) == f"{head}{after}}}"
    other = {"diagnostics": [], "only": ["source.organizeImports"]}
    assert editor.about("codeAction", path, range=everywhere, context=other) == []
    assert editor.about("codeAction", path, range=everywhere, context={**other, "only": ["quickfix"]})
    nowhere = {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 0}}
    assert editor.about("codeAction", path, range=nowhere, context={"diagnostics": []}) == []


def test_formatting(editor, folder):
    path = folder / "format.tc"
    for end in ("\n", "\r\n"):
        text = f"/* \U0001d54f */void  k(  float*p ){{{end}  *p=1;/* \U0001d54f */*p=2 ;{end}}}{end}{end}{end}"
        editor.open(path, text)
        edits = editor.about("formatting", path, options={"tabSize": 2, "insertSpaces": True})
        assert applied(text, edits) == format_text(text)
        assert all(end in e["newText"] or "\n" not in e["newText"] for e in edits)
        only = {"start": {"line": 1, "character": 0}, "end": {"line": 2, "character": 0}}
        edits = editor.about("rangeFormatting", path, range=only, options={"tabSize": 2, "insertSpaces": True})
        done = applied(text, edits).splitlines()
        assert done[0] == text.splitlines()[0]
        assert done[1:4] == ["  *p = 1;  /* \U0001d54f */", "  *p = 2;", "}"]
        editor.change(path, format_text(text))
        assert editor.about("formatting", path, options={"tabSize": 2, "insertSpaces": True}) == []


def test_non_ascii_in_front_of_a_position(editor, folder):
    path = folder / "letters.tc"
    text = "void k(float *p) { /* \U0001d54f\u00e9 */ float \u00e9t\u00e9 = 1; /* \U0001d54f */ *p = \u00e9t\u00e9; }\n"
    assert [d["message"] for d in editor.open(path, text) if d["severity"] < 3] == []
    at = where(text, "\u00e9t\u00e9;")
    assert editor.at("definition", path, *at)["range"] == span(text, "\u00e9t\u00e9")
    (edits,) = editor.at("rename", path, *at, newName="\U0001d54f2")["changes"].values()
    assert applied(text, edits) == text.replace("\u00e9t\u00e9", "\U0001d54f2")
    text = text.replace("= \u00e9t\u00e9", "= \u00e9t\u00e8")
    (error,) = [d for d in editor.open(path, text) if d["severity"] == 1]
    assert error["range"] == span(text, "\u00e9t\u00e8")


@pytest.mark.parametrize("text", ["", "\n", "\r\n", "// only this", "\ufeff", "\\", "}", "#if", "void k(", '"', "/*"])
def test_next_to_nothing(editor, folder, text):
    path = folder / "nothing.tc"
    editor.open(path, text)
    ask_everything(editor, path, 0, 0)
    ask_everything(editor, path, 0, len(text))
    ask_everything(editor, path, 7, 99)


def ask_everything(editor, path, line, character):
    """Each capability answers, if only that there is nothing."""
    for method in ("hover", "definition", "documentHighlight", "completion", "signatureHelp"):
        editor.at(method, path, line, character)
    editor.at("references", path, line, character, context={"includeDeclaration": True})
    editor.about("documentSymbol", path)
    at = {"line": line, "character": character}
    editor.about("codeAction", path, range={"start": at, "end": at}, context={"diagnostics": []})
    options = {"tabSize": 2, "insertSpaces": True}
    editor.about("formatting", path, options=options)
    editor.about("rangeFormatting", path, range={"start": at, "end": at}, options=options)
    for method, more in (("prepareRename", {}), ("rename", {"newName": "fresh"})):
        try:
            editor.at(method, path, line, character, **more)
        except RefusedError as e:
            assert str(e).startswith("rename: "), e


def test_names_stay_known_while_a_file_cannot_be_read(editor, folder):
    path = folder / "broken.tc"
    editor.open(path, SOURCE)
    broken = SOURCE + "#define D(x) x x x x x x x x x x\nint a = D(D(D(D(D(D(1))))));\n"
    editor.change(path, broken)
    assert "int[64] o" in editor.at("hover", path, *where(broken, "o < n"))["contents"]["value"]


def test_settings_are_read_again(editor, folder, tmp_path):
    path = tmp_path / "k.tc"
    (first, *_) = editor.open(path, SOURCE.replace('#include "sizes.h"', "#define SIZE 8"))
    assert "TYPE" in first["message"]
    (tmp_path / ".tritonc.json").write_text(json.dumps({"defines": {"TYPE": "float"}}))
    editor.change(path, SOURCE.replace('#include "sizes.h"', "#define SIZE 8"))
    assert editor.diagnostics(path) == []
    (tmp_path / ".tritonc.json").write_text("{}")
    editor.tell("workspace/didChangeWatchedFiles", {"changes": []})
    assert "TYPE" in editor.diagnostics(path)[0]["message"]
    (tmp_path / ".tritonc.json").write_text("[]")
    editor.change(path, SOURCE.replace('#include "sizes.h"', "#define SIZE 8"))
    assert "expected settings as an object, found list" in editor.diagnostics(path)[0]["message"]


def test_changes_that_come_fast_are_read_once(editor, folder):
    path = folder / "fast.tc"
    editor.open(path, "")
    for n in range(30):
        editor.change(path, f"void k(float *p) {{ *p = {n}; }} // {'x' * n}\n#error {n}\n")
    (found, *_) = editor.diagnostics(path)
    assert found["message"] == "#error: 29"


def test_other_units_for_columns(folder):
    path = folder / "units.tc"
    text = "void k(float *p) { /* \U0001d54f\u00e9 */ *p = m; }\n"
    for unit, column in (("utf-8", len(text[: text.index("m;")].encode())), ("utf-32", text.index("m;"))):
        editor = Editor(general={"positionEncodings": [unit]})
        try:
            assert editor.capabilities["positionEncoding"] == unit
            (error,) = [d for d in editor.open(path, text) if d["severity"] == 1]
            assert error["range"]["start"] == {"line": 0, "character": column}
        finally:
            editor.kill()


def test_a_long_file_answers_within_a_second(editor, folder):
    kernel = (Path(__file__).parents[2] / "models" / "kernels" / "seeds" / "matmul.tc").read_text()
    text = "#define TYPE half\n#define TM 64\n#define TN 64\n#define TK 32\n#undef TYPE\n#define TYPE half\n"
    for n in range(3000 // kernel.count("\n") + 1):
        text += kernel.replace("void matmul(", f"void matmul{n}(")
    assert text.count("\n") > 3000
    path = folder / "long.tc"
    assert editor.open(path, text) == []
    line, column = where(text, "c += a @ b", 120)
    times = []
    for n in range(3):
        editor.change(path, text + "// " + "x" * n)
        start = editor.seconds()
        assert "float[64, 64] c" in editor.at("hover", path, line, column)["contents"]["value"]
        times.append(editor.seconds() - start)
    assert min(times) < 1.5, "it takes 0.65 s on a quiet machine"
    start = editor.seconds()
    assert len(editor.at("documentHighlight", path, line, column)) == 3
    assert editor.seconds() - start < 0.5, "it takes 0.01 s"
    start = editor.seconds()
    editor.about("formatting", path, options={"tabSize": 2, "insertSpaces": True})
    assert editor.seconds() - start < 1.5, "it takes 0.6 s on a quiet machine"
    ask_everything(editor, path, line, column)
