"""The formatter: what it does to blanks and lines, and that it does no more."""

from __future__ import annotations

import dataclasses
import random
import re
import textwrap
import time
from pathlib import Path

import pytest

from graphfuse.frontends.tc.diagnostics import Reporter
from graphfuse.frontends.tc.format import WIDTH, format_edits, format_text
from graphfuse.frontends.tc.source import Source
from graphfuse.frontends.tc.tokens import cut, tokenize
from tests.frontends.tc.sources import PREFETCHED_DOT, SMALL, TRANSPOSABLE_DOT
from tests.frontends.tc.test_conformance import ALL, run
from tests.frontends.tc.test_fuzz import mutated

GALLERY = sorted((Path(__file__).parents[3] / "models" / "kernels").rglob("*.tc"))
SOURCES = [*(f.read_text() for f in GALLERY), PREFETCHED_DOT, SMALL, TRANSPOSABLE_DOT]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("int x[32] = 0...32;", "int x[32] = 0 ... 32;\n"),
        ("x = (T...64)+a   ...   b;", "x = (T ... 64) + a ... b;\n"),
        ("f(a,b ,c)  ;", "f(a, b, c);\n"),
        ("a = x[2:,:6]+x[1:n,*]*y[ ^ ]-z[:,newaxis][ - ,:];",
         "a = x[2:, :6] + x[1:n, *] * y[^] - z[:, newaxis][-, :];\n"),
        ("x=a[ c?1:2 , : ];", "x = a[c ? 1 : 2, :];\n"),
        ("x=a<b?c:d?:- - e;", "x = a < b ? c : d ?: - -e;\n"),
        ("x = a@b@^c ^ d&&! e||~f;", "x = a @ b @ ^c ^ d && !e || ~f;\n"),
        ("*? (m)p=*?( m )( q+1 )?*p:& x;", "*?(m) p = *?(m)(q + 1) ? *p : &x;\n"),
        ("x=(half)y+(float [4])- z*(TYPE *[TM])q-(TYPE)x;", "x = (half)y + (float[4])-z * (TYPE *[TM])q - (TYPE)x;\n"),
        ("x = (TYPE)-y + (a) - b + (a+b)-c;", "x = (TYPE)-y + (a) - b + (a + b) - c;\n"),
        ("x+=bitcast < half > ((int16) 0x7C00)+sizeof (int)*2;",
         "x += bitcast<half>((int16)0x7C00) + sizeof(int) * 2;\n"),
        ("x = _Generic (a,int:1,default:2);", "x = _Generic(a, int: 1, default: 2);\n"),
        ("i ++;-- j;x=i++ + ++j;", "i++;\n--j;\nx = i++ + ++j;\n"),
        ("TYPE*p[4]=a*b,* q;", "TYPE *p[4] = a * b, *q;\n"),
        ("x = a*b;T * y = a;y*z[3] = 2;", "x = a * b;\nT *y = a;\ny *z[3] = 2;\n"),
        ("const float*restrict p;", "const float *restrict p;\n"),
        ("constexpr int f(int a){ return a; }", "constexpr int f(int a) { return a; }\n"),
        ("constexpr int f(int a){ a; return a; }", "constexpr int f(int a) {\n  a;\n  return a;\n}\n"),
        ("float[] g(float x[],TYPE*y,int n __multipleof( 8 ));",
         "float[] g(float x[], TYPE *y, int n __multipleof(8));\n"),
        ("int a[16],   b [32,16];", "int a[16], b[32, 16];\n"),
        ("enum tag{A,B=3};enum{C};x={0};", "enum tag { A, B = 3 };\nenum { C };\nx = {0};\n"),
        ("for(int i=0;i<3;i++){x;}", "for (int i = 0; i < 3; i++) { x; }\n"),
        ("for(int i=0;i<3;i++){x;y;}", "for (int i = 0; i < 3; i++) {\n  x;\n  y;\n}\n"),
        ("for(;;) while(x){ } ", "for (;;) while (x) {}\n"),
        ("for(TYPE*p=a;;p+=a*b);", "for (TYPE *p = a;; p += a * b);\n"),
        ("if(a)\n{\nb;\n}\nelse\n{\nc;\n}", "if (a) {\n  b;\n} else {\n  c;\n}\n"),
        ("if(a)\n{\nb;\n} // c\nelse {\nd;\n}", "if (a) {\n  b;\n}  // c\nelse {\n  d;\n}\n"),
        ("do{ x; y; }\nwhile(y);", "do {\n  x;\n  y;\n} while (y);\n"),
        ("do\nx;\nwhile(y);\nz;", "do\n  x;\nwhile (y);\nz;\n"),
        ("if(a)\nif(b)\nc;\nelse\nd;\nelse if(e)\nf;\nelse g;\nh;",
         "if (a)\n  if (b)\n    c;\n  else\n    d;\nelse if (e)\n  f;\nelse g;\nh;\n"),
        ("for(;;)\nfor(;;){\na;\n}\nb;", "for (;;)\n  for (;;) {\n    a;\n  }\nb;\n"),
        ("for (;;)\nSTEP(*, ALL)\nfor (;;)\nSTEP(THERE, x)\n\n*?(m)(p) = 1;",
         "for (;;)\n  STEP(*, ALL)\nfor (;;)\n  STEP(THERE, x)\n\n*?(m)(p) = 1;\n"),
        ("switch (n) {\ncase 1:x;y;\ncase 2 : case 3: { y; }\n// no more\ndefault:\nz;\n}",
         "switch (n) {\n  case 1:\n    x;\n    y;\n  case 2:\n  case 3: { y; }\n  // no more\n  default:\n    z;\n}\n"),
        ("\n\nx;\n\n\n\ny;\n\n", "x;\n\ny;\n"),
        ("void f() {\n\nx;\n  {\n\ty;\n\n}}\n", "void f() {\n  x;\n  {\n    y;\n  }\n}\n"),
        ("  int x = a\n+ b;\n", "int x = a\n    + b;\n"),
        ("void k(int a,\nint b) {\n}", "void k(int a,\n       int b) {\n}\n"),
        ("x = f(\na,\ng(b,\nc)\n);", "x = f(\n    a,\n    g(b,\n      c)\n);\n"),
        ("enum {\nA,\nB\n};", "enum {\n  A,\n  B\n};\n"),
        ("{\n#define f(a,...)   g(a...b)\n  #if X  \nx;\n#endif\n}",
         "{\n#define f(a,...)   g(a...b)\n  #if X\n  x;\n#endif\n}\n"),
        ("#if A\nif (a) {\n#else\nif (b) {\n#endif\nx;\n}\ny;",
         "#if A\nif (a) {\n#else\nif (b) {\n#endif\n  x;\n}\ny;\n"),
        ("f(a,\n#ifdef B\nb,\n#endif\nc);", "f(a,\n#ifdef B\n  b,\n#endif\n  c);\n"),
        ("{\n// a,b...c\n/* x\n   y */  z;  // t  \n}", "{\n  // a,b...c\n  /* x\n     y */ z;  // t\n}\n"),
        ("f(/* a */x ,y/* b */);// c", "f(/* a */ x, y /* b */);  // c\n"),
        ('printf("a,b...c",x);', 'printf("a,b...c", x);\n'),
        ("x = 1 + \\\n   0...2;\ny=z ;", "x = 1 + \\\n   0...2;\ny = z;\n"),
        ("x = 3 // a \\ \n;\n", "x = 3  // a \\ \n    ;\n"),
        ("x <:3:> = a<%", "x<:3:> = a <%\n"),
        ("x = \\", "x = \\"),
        ("x = \\ \ny;", "x = \\ \n    y;\n"),
        ("#define A b\\\n\n#define C  d", "#define A b\\\n\n#define C  d\n"),
        ("x = y > (TYPE)-z;", "x = y > (TYPE)-z;\n"),
        ('x = \\ "a \ny=1;', 'x = \\ "a \n    y = 1;\n'),
        ("x=1; /* a\n\n", "x = 1;  /* a\n"),
        ("/*  \n  a \n \n", "/*  \n  a\n"),
        ("", ""),
        (" \n\n", ""),
    ],
)  # fmt: skip
def test_blanks_and_lines(before, after):
    assert format_text(before) == after
    assert format_text(after) == after


def test_long_lines():
    call = f"  float x[TM, TN] = first({', '.join(f'argument{i} * {i}' for i in range(12))});\n"
    whole = "void k() {\n" + call + "}\n"
    first, second = format_text(whole).splitlines()[1:-1]
    assert first.endswith("argument4 * 4, argument5 * 5,")
    assert second == " " * 26 + ", ".join(f"argument{i} * {i}" for i in range(6, 12)) + ");"
    long = " + ".join(["some_name[:, newaxis] * other"] * 9)
    lines = format_text(f"x = {long} && a < b;").splitlines()
    assert len(lines) > 2
    assert all(len(line) <= WIDTH for line in lines)
    assert all(line.startswith("    some_name") for line in lines[1:])
    name = "x" * (WIDTH + 1)
    assert format_text(f"{name} = {name} + {name};") == f"{name} =\n    {name} +\n    {name};\n"
    check(f"switch (n) {{ {'x = ' * 60}default: y; }}")
    body = "y = " + " + ".join(["z"] * 30) + ";"
    assert "{\n" in format_text(f"if (a) {{ {body} }}")


@pytest.mark.parametrize("case", [c for c in ALL if c.stage != "text"], ids=lambda c: " ".join(c.head.split()[:2]))
def test_a_formatted_source_means_the_same(case):
    """Its tree, types and findings, but for their places."""

    def said(case):
        lines = [line for line in run(case).split("\n") if not re.match(r" +\d* \|", line)]
        return [re.sub(r"^(\S*?):\d+:\d+:", r"\1:", line) for line in lines]

    assert said(dataclasses.replace(case, source=format_text(case.source))) == said(case)


def test_line_ends_stay():
    assert format_text("x=1;\r\ny=2;\r\n") == "x = 1;\r\ny = 2;\r\n"
    assert format_text("x=1;\ry=2;") == "x = 1;\ry = 2;\r"


def spelled(text):
    """The tokens of a text, and where directives begin; `0...32` and `0 ... 32` are the same ones."""
    return [(t.text, t.bol and t.text == "#") for t in tokenize(Source("", text), Reporter())]


def reblanked(text, blank, behind=lambda: ""):
    """A source with other blanks, and what `behind` gives behind its tokens, but for directives and comments."""
    out = []
    for line in text.split("\n"):
        if line.lstrip().startswith("#") or line.endswith("\\") or "//" in line or (out and out[-1].endswith("\\")):
            out.append(line)
        else:
            out.append("".join((line[a:b] if kind != "space" else blank()) + behind() for kind, a, b in cut(line)))
    return "\n".join(out)


def shaken(text, rng):
    """A source with other blanks and line ends between its tokens."""
    return reblanked(
        text,
        lambda: rng.choice((" ", "  ", "\t", " \n ", "\n\n\n")),
        lambda: rng.choice((" ", "\n", "  ", "\t")) if rng.random() < 0.3 else "",
    )


def check(text):
    once = format_text(text)
    assert spelled(once) == spelled(text)
    assert format_text(once) == once
    return once


@pytest.mark.parametrize("source", [*SOURCES, textwrap.indent(SMALL, "\t")])
def test_kernels(source):
    check(source)


@pytest.mark.parametrize("file", [f for f in GALLERY if f.parent.name != "seeds"], ids=lambda f: f.stem)
def test_well_formed_sources_stay(file):
    """But for what is too long."""
    text = file.read_text()
    if max(map(len, text.splitlines())) <= WIDTH:
        assert format_text(text) == text


@pytest.mark.parametrize("block", [0, *(pytest.param(n, marks=pytest.mark.full) for n in range(1, 12))])
def test_any_text(block):
    """Sources with errors, and with other blanks between their tokens."""
    for seed in range(90 * block, 90 * (block + 1)):
        rng = random.Random(seed)
        for text in (mutated(rng), shaken(rng.choice(SOURCES), rng)):
            try:
                check(text)
            except AssertionError as e:
                e.add_note(f"seed {seed}")
                raise


def test_blanks_that_are_no_line_ends_do_not_matter():
    for seed, source in enumerate(SOURCES):
        rng = random.Random(seed)
        other = reblanked(source, lambda: rng.choice((" ", "   ", "\t")))  # noqa: B023 - called at once
        assert format_text(other) == format_text(source), f"source {seed}"


def applied(text, edits):
    for edit in reversed(edits):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


def test_edits_are_what_formatting_changes():
    for seed in range(20):
        rng = random.Random(seed)
        for text in (mutated(rng), shaken(rng.choice(SOURCES), rng)):
            edits = format_edits(text)
            assert applied(text, edits) == format_text(text), f"seed {seed}"
            assert not any(text[e.start : e.end].strip() for e in edits if "/" not in text[e.start : e.end])


def test_edits_of_some_lines_leave_the_others():
    text = "void f( ) {\n x=1 ;\n  y=2 ;\n\n\n   z=3 ;\n}\n"
    assert applied(text, format_edits(text, 2, 2)) == "void f( ) {\n x=1 ;\n  y = 2;\n\n\n   z=3 ;\n}\n"
    assert applied(text, format_edits(text, 5, 5)) == "void f( ) {\n x=1 ;\n  y=2 ;\n\n\n  z = 3;\n}\n"
    assert applied(text, format_edits(text, 1, 1)) == "void f( ) {\n  x = 1;\n  y=2 ;\n\n\n   z=3 ;\n}\n"
    assert applied(text, format_edits(text, 0, 900)) == format_text(text)
    for seed in range(40):
        rng = random.Random(seed)
        text = shaken(rng.choice(SOURCES), rng)
        lines = text.split("\n")
        first = rng.randrange(len(lines))
        last = rng.randrange(first, len(lines))
        done = applied(text, format_edits(text, first, last))
        assert spelled(done) == spelled(text)
        behind = len(lines) - last - 1
        assert done.split("\n")[:first] == lines[:first]
        assert not behind or done.split("\n")[-behind:] == lines[-behind:]


def test_a_long_file_takes_less_than_a_second():
    text = "\n".join(SOURCES[:40]) * 2
    while text.count("\n") < 3000:
        text += text
    start = time.process_time()
    format_text(text[: 100 * 3000])
    assert time.process_time() - start < 1.5, "it takes 0.5 s on a quiet machine"
