"""Includes, diagnostics as data, and the errors that the public functions raise."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

import graphfuse.frontends.tc
from graphfuse.errors import GraphfuseError, UsageError
from graphfuse.frontends.tc import Options, Reporter, SourceError, check, parse, tokens
from graphfuse.frontends.tc.diagnostics import MAX_ERRORS
from graphfuse.frontends.tc.source import Source
from graphfuse.frontends.tc.switches import WARNINGS, parse_switches
from graphfuse.frontends.tc.tokens import detokenize


def test_include(tmp_path):
    (tmp_path / "a.tc").write_text("#define N 16\nint f(int x) { return x; }\n")
    (tmp_path / "b.tc").write_text('#include "a.tc"\n')
    source = '#include "b.tc"\n__global__ void k(int *p) { *p = f(N); }\n'
    unit = check(source, str(tmp_path / "k.tc"))
    assert [f.name for f in unit.functions] == ["f", "k"]


def test_include_reports_in_the_included_file(tmp_path):
    (tmp_path / "a.tc").write_text("\nint f(int x) { return y; }\n")
    with pytest.raises(SourceError) as e:
        check('#include "a.tc"\n', str(tmp_path / "k.tc"))
    assert str(e.value.loc) == f"{tmp_path / 'a.tc'}:2:23"


def test_include_of_itself_is_bounded():
    options = Options(include=lambda name, _of: Source(name, '#include "a.tc"\n' * 2))
    with pytest.raises(SourceError) as e:
        tokens('#include "a.tc"\n', options=options)
    assert e.value.message == "#include: too many files, 20 deep: does 'a.tc' include itself?"


def test_includes_that_are_no_files(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "bytes").write_bytes(b"\xff")
    for name, message in (
        ("pipe", f"#include: {tmp_path}/pipe: cannot read: expected a file, found a pipe"),
        ("folder", f"#include: {tmp_path}/folder: cannot read: expected a file, found a folder"),
        ("bytes", f"#include: {tmp_path}/bytes: expected text in UTF-8, found a byte 0xff at 0"),
        ("/dev/zero", "#include: /dev/zero: cannot read: expected a file, found a device"),
        ("x\\0y", "#include: there is no file 'x\\x00y'"),
        ("x" * 300, f"#include: {'x' * 300!r} is no path"),
    ):
        with pytest.raises(SourceError) as e:
            tokens(f'#include "{name}"\n', str(tmp_path / "k.tc"))
        assert e.value.message == message


def test_include_by_macro_and_brackets():
    options = Options(include=lambda name, _of: Source(name, f"{name.removesuffix('.h')}\n"))
    source = '#define X "x.h"\n#include X\n#include <y.h>\n'
    assert detokenize(tokens(source, options=options)[:-1]) == "xy"


def test_many_includes_are_bounded():
    options = Options(include=lambda name, _of: Source(name, ""))
    with pytest.raises(SourceError) as e:
        tokens('#include "a.tc"\n' * 600, options=options)
    assert e.value.message == "#include: too many files, 500 in all: does 'a.tc' include itself?"


def test_errors_are_all_kept():
    with pytest.raises(GraphfuseError) as e:
        check("__global__ void k(int n) {\n  n = a;\n  n = 3.5 % 2;\n}\n", "k.tc")
    assert isinstance(e.value, SourceError)
    assert (str(e.value.loc), e.value.message, e.value.exit_code) == ("k.tc:2:7", "'a' is not defined", 3)
    assert [d.message for d in e.value.diagnostics] == [
        "'a' is not defined",
        "operands of '%': expected integers, found float and int",
    ]
    assert str(e.value).startswith("k.tc:2:7: error: 'a' is not defined [undefined]\n 2 |   n = a;\n")


def test_errors_are_counted():
    with pytest.raises(SourceError) as e:
        parse("".join(f"{n};\n" for n in range(200)))
    assert len(e.value.diagnostics) == MAX_ERRORS + 1
    assert e.value.diagnostics[-1].message == f"stopped after {MAX_ERRORS} errors"


def test_json():
    report = Reporter()
    with pytest.raises(SourceError):
        check("void k(int *p) {\n  *p = N\n}\n", "k.tc", {"N": "1 +"}, report=report)
    assert report.found[0].to_json() == {
        "severity": "error",
        "code": "syntax",
        "message": "expected an expression, found '}'",
        "file": "k.tc",
        "line": 3,
        "column": 1,
        "end_line": 3,
        "end_column": 2,
        "notes": [],
        "fixits": [],
    }


def test_json_of_a_macro_and_a_fix():
    report = Reporter()
    with pytest.raises(SourceError):
        check("void k(int *p) {\n  *p = NN;\n  *p = 1\n}\n", "k.tc", {"NN": "q"}, report=report)
    missing, undefined, _kernel = (d.to_json() for d in report.found)
    assert undefined["notes"] == [
        {"message": "expanded from -DNN=q", "file": "-DNN", "line": 1, "column": 1, "end_line": 1, "end_column": 2}
    ]
    assert missing["fixits"] == [
        {"text": ";", "file": "k.tc", "line": 3, "column": 9, "end_line": 3, "end_column": 9},
    ]


def test_a_crlf_source_has_the_same_positions():
    with pytest.raises(SourceError) as e:
        check("void k(int *p) {\r\n  *p = q;\r\n}\r\n", "k.tc")
    assert str(e.value.loc) == "k.tc:2:8"


def test_every_warning_has_a_switch():
    folder = Path(graphfuse.frontends.tc.__file__).parent
    text = "".join(p.read_text() for p in folder.glob("*.py"))
    found = re.findall(r'(?:report\.(?:warning|note)\(|Diagnostic\("warning",)\s*"([a-z-]+)"', text)
    assert set(found) | {"division", "shift"} == WARNINGS


@pytest.mark.parametrize(
    ("switches", "severities"),
    [
        ((), ["warning"]),
        (("no-shadow",), []),
        (("no-shadow", "shadow"), ["warning"]),
        (("extra",), ["warning", "warning"]),
        (("error",), ["error"]),
        (("error=unused-parameter",), ["warning", "error"]),
        (("extra", "error", "no-error=shadow"), ["warning", "error"]),
        (("error", "no-error"), ["warning"]),
        (("error=shadow", "no-shadow"), []),
    ],
)
def test_switches(switches, severities):
    report = Options(warnings=switches).reporter()
    try:
        check("__global__ void k(int n, int *p) { { int p = 1; } *p = 1; }", report=report)
    except SourceError:
        assert "error" in severities
    assert [d.severity for d in report.found] == severities


def test_an_unknown_switch():
    with pytest.raises(UsageError, match="-Wno-shadw: there is no warning 'shadw'; did you mean 'shadow'"):
        parse_switches(["no-shadw"])
