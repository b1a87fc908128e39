"""The language, row by row: sources with the dump or the diagnostics that each stage gives.

A file of `cases/` holds cases: `== row[/name] stage [-D...] [-W...]`, a source, `--`, and what is expected. Stages:
`text` is the preprocessed source, `ast` the tree, `body` the typed tree of statements in a kernel, `check` that of a
whole file, `ir` the block functions; what is reported follows the dump. `pytest --update` rewrites what is expected.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from graphfuse.frontends.tc import ast, driver, typed
from graphfuse.frontends.tc.defines import parse_defines
from graphfuse.frontends.tc.diagnostics import Reporter, StopError
from graphfuse.frontends.tc.source import Source
from graphfuse.frontends.tc.switches import parse_switches
from graphfuse.frontends.tc.tokens import detokenize
from graphfuse.ir.printer import module_text
from tests.frontends.tc.rows import ROWS

CASES = Path(__file__).with_name("cases")
PARAMS = "int n, int m, float f, half h, bool flag, long l, unsigned u, float *X, half *H, int *I"


@dataclass(frozen=True)
class Case:
    file: Path
    head: str
    source: str
    expected: str

    @property
    def row(self):
        return self.head.split()[0].partition("/")[0]

    @property
    def stage(self):
        return self.head.split()[1]

    @property
    def text(self):
        return f"== {self.head}\n{self.source}--\n{self.expected}"


def read_cases(file):
    for part in re.split(r"^== ", file.read_text(), flags=re.MULTILINE)[1:]:
        head, _, rest = part.partition("\n")
        source, _, expected = rest.partition("--\n")
        yield Case(file, head, source, expected)


ALL = [case for file in sorted(CASES.glob("*.txt")) for case in read_cases(file)]


@pytest.mark.parametrize("case", ALL, ids=lambda c: " ".join(c.head.split()[:2]))
def test_case(case, request):
    got = run(case)
    if request.config.getoption("--update"):
        text = case.file.read_text()
        case.file.write_text(text.replace(case.text, f"== {case.head}\n{case.source}--\n{got}", 1))
    else:
        assert got == case.expected


def test_every_row_has_a_case():
    assert {c.row for c in ALL} == set(ROWS)
    heads = [c.head.split()[0] for c in ALL]
    assert len(heads) == len(set(heads)), "two cases of one name"


def run(case):
    """What a stage gives: its dump, then what was reported."""
    words = case.head.split()[2:]
    switches = parse_switches([w[2:] for w in words if w.startswith("-W")])
    report = Reporter(pedantic="--pedantic=off" not in words, switches=switches)
    defines = parse_defines([w for w in words if w.startswith("-D")])
    (point,) = defines.points()
    dump = ""
    try:
        dump = STAGES[case.stage](case.source, point, report)
    except StopError:
        dump = "stopped\n"
    found = [str(d) for d in (*defines.warnings, *report.found)]
    if report.errors:
        dump = dump if case.stage in ("text", "ast") else ""
    lines = [line.rstrip() for line in (dump + "\n".join(found)).strip("\n").split("\n")]
    return "\n".join(lines) + "\n\n"


def text(source, defines, report):
    lines = []
    for token in driver.preprocessed(Source("t.tc", source), defines, driver.DEFAULTS, report)[:-1]:
        if token.bol or not lines:
            lines.append([])
        lines[-1].append(token)
    return "".join(detokenize(line) + "\n" for line in lines)


def tree(source, defines, report):
    return ast.to_text(driver.parsed(Source("t.tc", source), defines, driver.DEFAULTS, report))


def check(source, defines, report):
    return typed.to_text(driver.checked(Source("t.tc", source), defines, driver.DEFAULTS, report))


def body(source, defines, report):
    dump = check(f"__global__ void k({PARAMS}) {{\n#line 1\n{source}}}\n", defines, report)
    return "".join(line[2:] + "\n" for line in dump.split("\n")[1:])


def ir(source, defines, report):
    return module_text(k.func for k in driver.lowered(Source("t.tc", source), defines, driver.DEFAULTS, report))


STAGES = {"text": text, "ast": tree, "body": body, "check": check, "ir": ir}
