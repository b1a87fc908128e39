"""One mistake is one error: what was to be declared with it is known, and its uses say nothing."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import pytest

from graphfuse.frontends.tc import Reporter, SourceError, ast, check, parse
from graphfuse.frontends.tc.cuda_words import OTHER_TYPES
from tests.frontends.tc.sources import POINT, PREFETCHED_DOT

GALLERY = Path(__file__).parents[3] / "models" / "kernels"


def sources():
    """Kernels with macros that they check with: those that the comment on top of a file names."""
    yield pytest.param(PREFETCHED_DOT % 0, POINT, id="dot")
    for file in sorted(GALLERY.rglob("*.tc")):
        text = file.read_text()
        macros = re.search(r"// Macros: (.*(?:\n//   .*)*)", text)
        defines = dict(re.findall(r"\b([A-Z]\w*)=(\w+)", macros[1])) if macros else {}
        if not errors(text, defines):
            yield pytest.param(text, defines, id=file.stem)


def found(text, defines):
    """What is found, warnings too."""
    report = Reporter()
    with contextlib.suppress(SourceError):
        check(text, "k.tc", defines, report=report)
    return report.found


def errors(text, defines):
    return [d for d in found(text, defines) if d.severity == "error"]


def declared(text, defines):
    """The declarations of a source that are written in it: the first token of their type, name, end of the name."""
    work = [parse(text, "k.tc", defines)]
    while work:
        node = work.pop()
        match node:
            case ast.Declaration() if node.specifiers.type not in ("", "void"):
                yield from ((node.specifiers.at, d) for d in node.declarators)
            case ast.Parameter():
                yield node.specifiers.at, node.declarator
        work += _children(node)


def _children(node):
    values = list(vars(node).values())
    while values:
        value = values.pop()
        if isinstance(value, tuple):
            values += value
        elif isinstance(value, ast.Node):
            yield value


CASES = [*sources()]


def test_there_are_sources():
    assert len(CASES) > 20


@pytest.mark.some(12)
@pytest.mark.parametrize(("text", "defines"), CASES)
def test_a_declaration_with_an_error_is_one_error(text, defines):
    places = {d.at: at for at, d in declared(text, defines) if d.at.origin is None and at.origin is None}
    assert places
    quiet = {d.message for d in found(text, defines)}
    for name, at in places.items():
        raw = at.source.raw
        start, end, behind = raw(at.pos), raw(at.end - 1) + 1, raw(name.end - 1) + 1
        shaped = text.startswith("[", behind)
        broken = {
            "another word": f"{text[:behind]} 3{text[behind:]}",
            "no such type": f"{text[:start]}qqqq{text[end:]}",
            "a misspelt type": f"{text[:start]}{at.text[0]}x{at.text[1:]}{text[end:]}",
            "a dim": f"{text[:behind]}[qqqq{', ' if shaped else ']'}{text[behind + shaped :]}",
        }
        for what, mutant in broken.items():
            said = found(mutant, defines)
            count = sum(d.severity == "error" for d in said)
            assert count == 1, f"{what}: " + "\n".join(map(str, said))
            assert {d.message for d in said if d.severity != "error"} <= quiet, "\n".join(map(str, said))


@pytest.mark.parametrize(
    ("body", "messages"),
    [
        ("flaot x = 1; *p = x;", ["type 'flaot' is not defined; did you mean 'float'?"]),
        ("doubel x[4] = 1; *p = x[+];", ["type 'doubel' is not defined; did you mean 'double'?"]),
        ("itn i = 1; *p = i;", ["type 'itn' is not defined; did you mean 'int'?"]),
        ("cosnt float x = 1; *p = x;", ["type 'cosnt' is not defined; did you mean 'const'?"]),
        ("unsigend int x = 1; *p = x;", ["type 'unsigend' is not defined; did you mean 'unsigned'?"]),
        ("typedef float real; rael x = 1; *p = x;", ["type 'rael' is not defined; did you mean 'real'?"]),
        ("*p = (flaot)n + *(flaot *)p;", ["type 'flaot' is not defined; did you mean 'float'?"] * 2),
        ("*p = bitcast<flaot>(n);", ["type 'flaot' is not defined; did you mean 'float'?"]),
        ("TYPE x = 1; TYPE *q = p; *p = x + *q;", ["'TYPE' is not defined: expected -DTYPE=... or #define TYPE"]),
        (
            "int = 3; *p = whole; *p += whole * whole;",
            ["expected a name to declare, found '='", "'whole' is not defined"],
        ),
        ("{ *p = whole; } { *p = whole; int whole = 2; *p = whole; }", ["'whole' is not defined"]),
        ("r[4] = 0 ... 4; *p = r[+];", ["'r' is not defined"]),
        ("int a = 3 float b[4] = 0, c; *p = a + b[+] + c;", ["expected ';' after the declaration, found 'float'"]),
        ("typedef something real; real x = 1; *p = x;", ["type 'something' is not defined"]),
        ("int a = , b = 3, c[2] = b; *p = a + b + c[+];", ["expected an expression, found ','"]),
        ("for (int i = 0; i < ; i++) { if (i) break; *p = i; }", ["expected an expression, found ';'"]),
        ("for (itn i = 0; i < n; i++) *p = i;", ["type 'itn' is not defined; did you mean 'int'?"]),
        ("if (n > ) *p = 1; else *p = 2;", ["expected an expression, found ')'"]),
        ("switch (n +) { case 1: break; default: *p = 1; }", ["expected an expression, found ')'"]),
        ("const int s = m; int x[s] = 0; *p = x[+];", ["'m' is not defined"]),
        ("enum { A = m, B, C = 3 }; *p = A + B + C;", ["'m' is not defined"]),
        ("enum tag { A = m, B }; enum tag x = B; *p = x;", ["'m' is not defined"]),
        ("typedef m real; { real x = 3; *p = x; } *p = sizeof(real);", ["type 'm' is not defined"]),
        ("if (n) { int x = n; *p = x;", ["expected '}', found the end of the file"]),
    ],
)
def test_one_mistake(body, messages):
    closing = "}" if body.count("{") == body.count("}") else ""
    said = found(f"__global__ void k(float *p, int n) {{\n{body}\n{closing}", {})
    assert [d.message for d in said] == messages


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("mm one(int a) { return a; }", "type 'mm' is not defined"),
        ("int one(mm a) { return a; }", "type 'mm' is not defined"),
        ("int one(int a, int) { return a; }", "a parameter of a definition needs a name"),
        ("int one(int a + 1, int b) { return a; }", "expected ',' or ')' between parameters, found '+'"),
        ("int one(a, int b) { return a + b; }", "expected the type of a parameter, found 'a'"),
        ("int one(int a {return a; }", "expected ',' or ')' between parameters, found '{'"),
        ("int[n] one(int a) { int b = a; return b; }", "'n' is not defined"),
    ],
)
@pytest.mark.parametrize("use", ["*p = one(3) + one(n);", "*p = reduce(0 ... 4, 0, one);"])
def test_a_function_with_an_error(use, function, message):
    said = found(f"__global__ void k(float *p, int n) {{ {use} }}\n{function}", {})
    assert [d.message for d in said] == [message]


@pytest.mark.parametrize("behind", ["", "void g(float *p) { *p = 2; }"])
def test_a_body_without_its_brace(behind):
    text = f"__global__ void k(float *p)\n  int i = 3;\n  if (i) {{ *p = i; }}\n}}\n{behind}"
    (error,) = errors(text, {})
    assert error.message == "expected '{' before the body of a function, found 'int'"
    assert error.span.loc.line == 2


def test_a_prototype_without_its_semicolon():
    (error,) = errors(
        "float f(float x)\n__global__ void k(float *p) { *p = f(*p); }\nfloat f(float x) { return x; }", {}
    )
    assert error.message.startswith("missing ';': expected one after the prototype")


def test_a_misspelt_type_has_a_fix():
    (error,) = errors("__global__ void k(flaot *p) { *p = 1; }", {})
    (fix,) = error.fixits
    assert (fix.text, fix.span.start, fix.span.end) == ("float", 18, 23)


def test_what_a_macro_made_is_not_mended_where_its_name_stands():
    (error,) = errors("#define T flaot\n__global__ void k(T *p) { *p = 1; }", {})
    assert "did you mean 'float'?" in error.message
    assert not error.fixits


@pytest.mark.parametrize("name", sorted(OTHER_TYPES))
def test_types_of_other_languages_are_answered_with_ours(name):
    """What follows is checked with the type that was meant."""
    reported = errors(f"__global__ void k({name} *x) {{ *x = *x; }}\n", {})
    assert [d.message for d in reported] == [f"type {name!r} is not defined; did you mean {OTHER_TYPES[name]!r}?"]
    assert errors(f"__global__ void k({OTHER_TYPES[name]} *x) {{ *x = *x; }}\n", {}) == []
