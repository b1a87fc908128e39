"""Collects every `*.gf` file under tests/: golden text of passes, round trips, and diagnostics.

A file with `// RUN: pass, pass` (or `// RUN:` alone) is a text test. Its functions are parsed, verified and run
through the pipeline; the printed result must equal what follows `// -----`, or the input itself where nothing does.
Printed text must parse back to itself, and the interpreter must give the same numbers before and after.
With `// HALVES` numbers may differ by what f16 rounds.
With `// RULES` each function is an example of the rewrite rule it is named after (up to `__`), which must fire on it.
`pytest --update` writes the expected halves, also of files that have none yet.

A file without `RUN` is a diagnostics test: in each part between `// -----` lines, the first error must be the one
that a `// error: message` comment announces, on that comment's line. `// error at 3:` names another line.
"""

from __future__ import annotations

import copy
import gc
import importlib
import logging
import os
import re
import tempfile

import numpy as np
import pytest

import graphfuse.dialects.gpu
from graphfuse.errors import GraphfuseError
from graphfuse.ir.parser import parse_module
from graphfuse.ir.passes import parse_pipeline, run
from graphfuse.ir.printer import module_text, to_text
from graphfuse.ir.verifier import verify
from tests.interp.inputs import assert_same_numbers

assert graphfuse.dialects.__all__  # importing them is what registers the ops
SEPARATOR = "// -----\n"


class Fired(logging.Handler):
    """The names of the rules that fire while it is entered."""

    def __init__(self):
        super().__init__(logging.DEBUG)
        self.names = set()
        self.log = logging.getLogger("graphfuse.ir.rewrite")

    def emit(self, record):
        if record.msg.startswith("%s fired"):
            self.names.add(record.args[0])

    def __enter__(self):
        self.level_before = self.log.level
        self.log.setLevel(logging.DEBUG)
        self.log.addHandler(self)
        return self.names

    def __exit__(self, *_):
        self.log.removeHandler(self)
        self.log.setLevel(self.level_before)


_begun = {}
"""The generators that modules draw from, as they were before a test drew, by module."""


@pytest.fixture(autouse=True)
def drawn_alike(request, monkeypatch):
    """What a test draws from the generator of its module, `RNG`, does not depend on the tests before it."""
    if isinstance(generator := getattr(request.module, "RNG", None), np.random.Generator):
        begun = _begun.setdefault(request.module, copy.deepcopy(generator))
        monkeypatch.setattr(request.module, "RNG", copy.deepcopy(begun))


def pytest_addoption(parser):
    parser.addoption("--update", action="store_true", help="write the expected halves of .gf tests")
    parser.addoption(
        "--gpu", choices=("cuda", "emulator"), default="cuda", help="what tests/gpu/device/ runs kernels on"
    )


def pytest_configure(config):
    """What tests compile does not go to the user's cache: to one of the run's own, which its workers share."""
    if "GRAPHFUSE_CACHE" not in os.environ:
        folder = tempfile.TemporaryDirectory(prefix="graphfuse-")
        os.environ["GRAPHFUSE_CACHE"] = folder.name
        config.add_cleanup(folder.cleanup)
        config.add_cleanup(lambda: os.environ.pop("GRAPHFUSE_CACHE", None))


def spread(n: int, of: int) -> set[int]:
    """Which `n` of so many: evenly spaced, the first and the last among them, so that inner parameters differ, too."""
    if n >= of:
        return set(range(of))
    return {round(i * (of - 1) / (n - 1)) for i in range(n)} if n > 1 else {0}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Of the cases of a function with `some(n)`, all but n are marked `full`; those that already are do not count."""
    cases = {}
    for item in items:
        if item.get_closest_marker("some") and not any(map(item.get_closest_marker, ("full", "gpu"))):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for of in cases.values():
        (n,) = of[0].get_closest_marker("some").args
        kept = spread(n, len(of))
        for i, item in enumerate(of):
            if i not in kept:
                item.add_marker(pytest.mark.full)


def pytest_collection_finish(session):
    """What is there now stays: a collection of garbage, of which tests ask for hundreds, need not look at it."""
    gc.collect()
    gc.freeze()


def pytest_collect_file(parent, file_path):
    return GFFile.from_parent(parent, path=file_path) if file_path.suffix == ".gf" else None


class GFFile(pytest.File):
    def collect(self):
        text = self.path.read_text()
        if run := re.search(r"^// RUN:(.*)$", text, re.MULTILINE):
            yield PassItem.from_parent(self, name=run[1].strip() or "round-trip", pipeline=run[1].strip())
            return
        line = 1
        for chunk in text.split(SEPARATOR):
            yield DiagnosticItem.from_parent(self, name=f"line {line}", chunk=chunk)
            line += chunk.count("\n") + 1


class GFItem(pytest.Item):
    def repr_failure(self, excinfo, style=None):
        if isinstance(excinfo.value, MismatchError | GraphfuseError):
            return f"{self.path}: {excinfo.value}"
        return super().repr_failure(excinfo, style)

    def reportinfo(self):
        return self.path, 0, f"{self.path.name}: {self.name}"


class MismatchError(AssertionError):
    """A text test whose output is not the expected one."""


class PassItem(GFItem):
    """Golden text, round trip, and the same numbers before and after."""

    def __init__(self, *, pipeline, **kw):
        super().__init__(**kw)
        importlib.import_module("graphfuse.pipelines")  # registers them; not above, as most tests need none
        self.pipeline = parse_pipeline(pipeline)

    def runtest(self):
        head, separator, want = self.path.read_text().partition(SEPARATOR)
        before = parse_module(head, self.path.name)
        for func in before:
            verify(func)
        shows_rules = bool(re.search(r"^// RULES$", head, re.MULTILINE))
        after = tuple(self.transformed(func, shows_rules) for func in before)
        got = module_text(after)
        assert module_text(parse_module(got)) == got, f"printed text does not read back as itself:\n{got}"
        halves = bool(re.search(r"^// HALVES$", head, re.MULTILINE))
        for old, new in zip(before, after, strict=True):
            if not self.pipeline or to_text(new) != to_text(old):  # what a pass left as it was is itself
                assert_same_numbers(old, new, halves=halves)
        self.compare(head, separator, want, before, got)

    def transformed(self, func, shows_rule):
        if not shows_rule:
            return run(func, self.pipeline, "test")
        rule = func.name.partition("__")[0]
        with Fired() as fired:
            new = run(func, self.pipeline, "test")
        if rule not in fired or to_text(new) == to_text(func):
            raise MismatchError(f"@{func.name}: the rule {rule} must fire and change it; fired: {sorted(fired)}")
        return new

    def compare(self, head, separator, want, before, got):
        if not separator:
            want = "".join(s for s in head.splitlines(keepends=True) if not s.lstrip().startswith("//"))
        if got == want:
            return
        if not self.config.getoption("--update"):
            raise MismatchError(f"rerun with --update if this is intended; got\n{got}\nexpected\n{want}")
        if not separator and got == module_text(before):  # nothing but its form is another
            head = re.match(r"(//[^\n]*\n)*", head)[0]
        else:
            separator = SEPARATOR
        self.path.write_text(f"{head}{separator}{got}")


class DiagnosticItem(GFItem):
    """The error is the announced one, on the announced line."""

    def __init__(self, *, chunk, **kw):
        super().__init__(**kw)
        self.chunk = chunk.rstrip("\n")

    def runtest(self):
        want = [
            (int(m[1] or i), m[2])
            for i, s in enumerate(self.chunk.splitlines(), 1)
            if (m := re.search(r"// error(?: at (\d+))?: (.*)", s))
        ]
        assert len(want) == 1, f"expected one announced error, got {want}"
        try:
            for func in parse_module(self.chunk, self.path.name):
                verify(func)
        except GraphfuseError as e:
            got = (e.loc.line if e.loc else 0, e.message)
            if got != want[0]:
                raise MismatchError(
                    f"expected line {want[0][0]}: {want[0][1]}\n     got line {got[0]}: {got[1]}"
                ) from None
        else:
            raise MismatchError(f"no error, expected line {want[0][0]}: {want[0][1]}")
