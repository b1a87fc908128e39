"""The formatter: what it does to blanks, and that it does no more."""

from __future__ import annotations

import random
import textwrap

import pytest

from graphfuse.frontends.tc.diagnostics import Reporter
from graphfuse.frontends.tc.format import format_text
from graphfuse.frontends.tc.source import Source
from graphfuse.frontends.tc.tokens import tokenize
from tests.frontends.tc.sources import PREFETCHED_DOT, SMALL
from tests.frontends.tc.test_fuzz import mutated


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("int x[32] = 0...32;", "int x[32] = 0 ... 32;\n"),
        ("x = (T...64)+a   ...   b;", "x = (T ... 64)+a ... b;\n"),
        ("f(a,b ,c)  ;", "f(a, b, c);\n"),
        ("a = x[2:,:6] + x[1:n,*]*y[ ^ ];", "a = x[2:, :6] + x[1:n, *]*y[ ^ ];\n"),
        ("constexpr int f(int a){ return a; }", "constexpr int f(int a) { return a; }\n"),
        ("float[] g(float x[],float y);", "float[] g(float x[], float y);\n"),
        ("int a[16],   b [32,16];", "int a[16],   b [32, 16];\n"),
        ("for(int i=0;i<3;i++){x;}", "for (int i=0; i<3; i++) {x; }\n"),
        ("for(;;) while(x){ } ", "for (;;) while (x) { }\n"),
        ("if(a){\n}else{\n}", "if (a) {\n} else {\n}\n"),
        ("do{ x; }while(y);", "do { x; } while (y);\n"),
        ("\n\nx;\n\n\n\ny;\n\n", "x;\n\ny;\n"),
        ("void f() {\nx;\n  {\n\ty;\n}}\n", "void f() {\n  x;\n  {\n    y;\n}}\n"),
        ("  int x = a\n        + b;\n", "int x = a\n      + b;\n"),
        ("{\nif (a)\n  b;\nc;\n}", "{\n  if (a)\n    b;\n  c;\n}\n"),
        ("void k(int a,\n       int b) {\n}", "void k(int a,\n       int b) {\n}\n"),
        ("{\n#define f(a,...)   g(a...b)\n  #if X  \nx;\n#endif\n}",
         "{\n#define f(a,...)   g(a...b)\n  #if X\n  x;\n#endif\n}\n"),
        ("{\n// a,b...c\n/* x\n   y */  z;  // t\n}", "{\n  // a,b...c\n  /* x\n   y */  z;  // t\n}\n"),
        ('printf("a,b...c",x);', 'printf("a,b...c", x);\n'),
        ("x = 1 + \\\n   0...2;\ny;", "x = 1 + \\\n   0...2;\ny;\n"),
        ("switch (n) {\ncase 1:\nx;\n}", "switch (n) {\n  case 1:\n  x;\n}\n"),
        ("", ""),
    ],
)  # fmt: skip
def test_blanks(before, after):
    assert format_text(before) == after


def spelled(text):
    """The tokens of a text; `0...32` and `0 ... 32` are the same ones."""
    return [t.text for t in tokenize(Source("", text), Reporter())]


@pytest.mark.parametrize("source", [PREFETCHED_DOT, SMALL, textwrap.indent(SMALL, "\t")])
def test_kernels(source):
    once = format_text(source)
    assert spelled(once) == spelled(source)
    assert format_text(once) == once


def test_a_well_formed_source_stays():
    assert format_text(SMALL) == SMALL


def test_any_text():
    for seed in range(300):
        text = mutated(random.Random(seed))
        once = format_text(text)
        assert format_text(once) == once, f"seed {seed}"
        assert spelled(once) == spelled(text), f"seed {seed}"
