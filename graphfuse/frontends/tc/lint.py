"""Configuration lint: a source checked at every point of its `-D` lists, and with every `#if` taken both ways.

A branch that is not taken is reached by other values of the macros its condition is about: not given, the numbers the
condition names and their neighbours, what the source itself would define. Every finding is so that of a configuration
that exists, and a branch is at fault only if no assignment that was tried and reaches it is without errors. One that
the source refuses (`#error`, a static assertion) is no fault.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from graphfuse.frontends.tc.constants import IntLiteral, parse_number
from graphfuse.frontends.tc.diagnostics import Diagnostic, Note, Reporter, StopError
from graphfuse.frontends.tc.driver import DEFAULTS, Options, checked
from graphfuse.frontends.tc.macros import Macro, command_line_macro
from graphfuse.frontends.tc.preprocess import Preprocessor, includes_within
from graphfuse.frontends.tc.source import Source
from graphfuse.frontends.tc.switches import QUIET
from graphfuse.frontends.tc.tokens import Token

MAX_RUNS = 200
"""Configurations that are checked."""
MAX_TRIALS = 64
"""Assignments that a condition is tried with."""
MAX_WAYS = 4
"""Assignments that a branch is checked with before it is at fault."""

Assignment = dict[str, str]
Branch = tuple[str, int, bool]
"""A condition by its file and position, and what it gives."""


@dataclass(slots=True)
class Lint:
    """What was found, and how much was looked at: `unreached` are branches for which no assignment was found."""

    found: list[Diagnostic] = field(default_factory=list[Diagnostic])
    points: int = 0
    configurations: int = 0
    branches: int = 0
    unreached: int = 0
    cut_off: bool = False

    @property
    def errors(self) -> int:
        """How many of the findings are errors."""
        return sum(d.severity == "error" for d in self.found)


@dataclass(slots=True)
class _Run:
    """A configuration: what was found, the branches it takes, and how to take others."""

    report: Reporter
    taken: set[Branch] = field(default_factory=set[Branch])
    ways: dict[Branch, list[Assignment]] = field(default_factory=dict[Branch, list[Assignment]])

    @property
    def errors(self) -> list[Diagnostic]:
        return [d for d in self.report.found if d.severity == "error"]

    @property
    def is_refused(self) -> bool:
        """Whether the source itself says that there is no such configuration."""
        return any(d.code == "static-assert" or d.message.startswith("#error") for d in self.errors)


def lint(source: str, filename: str, points: Iterable[Mapping[str, str]], options: Options = DEFAULTS) -> Lint:
    """Check `source` at each point, then the branches that no point takes."""
    return _Linter(source, filename, options).lint(points)


class _Linter:
    def __init__(self, source: str, filename: str, options: Options) -> None:
        self._text, self._name, self._options = source, filename, options
        self._out = Lint()
        self._known: set[tuple[str, object]] = set()
        self._taken: set[Branch] = set()
        self._ways: dict[Branch, list[Assignment]] = {}

    def lint(self, points: Iterable[Mapping[str, str]]) -> Lint:
        """Points first, then branches, those that other branches hold last."""
        base: Assignment | None = None
        with contextlib.suppress(StopError):
            for point in points:
                base = dict(point) if base is None else base
                run = self._run(dict(point), quiet=False)
                self._out.points += 1
                self._accept(run)
                self._report(run.report.found, _difference(base, point))
            while self._ways:
                branch = next(iter(self._ways))
                ways = self._ways.pop(branch)
                if branch not in self._taken:
                    self._branch(branch, ways, base or {})
        self._out.branches = len(self._taken)
        return self._out

    def _branch(self, branch: Branch, ways: list[Assignment], base: Assignment) -> None:
        """Reach a branch."""
        best: tuple[_Run, Assignment] | None = None
        for way in ways[:MAX_WAYS]:
            run = self._run(way, quiet=True)
            if branch not in run.taken:
                continue
            if run.is_refused or not any(_key(d) not in self._known for d in run.errors):
                self._accept(run)
                return
            if best is None or len(run.errors) < len(best[0].errors):
                best = run, way
        if best is None:
            self._taken.add(branch)
            self._out.unreached += 1
        else:
            self._accept(best[0])
            self._report(best[0].errors, _difference(base, best[1]))

    def _accept(self, run: _Run) -> None:
        self._taken |= run.taken
        for branch, ways in run.ways.items():
            self._ways.setdefault(branch, []).extend(ways)

    def _report(self, found: Iterable[Diagnostic], difference: str) -> None:
        for d in found:
            if _key(d) not in self._known:
                self._known.add(_key(d))
                notes = (*d.notes, Note(f"with {difference}")) if difference else d.notes
                self._out.found.append(replace(d, notes=notes))

    def _run(self, defines: Assignment, *, quiet: bool) -> _Run:
        """Check one configuration, noting its conditions; raises StopError once enough was done."""
        if self._out.configurations >= MAX_RUNS:
            self._out.cut_off = True
            raise StopError
        self._out.configurations += 1
        report = self._options.reporter()
        if quiet:
            report.switches = QUIET
        run = _Run(report)

        def watch(pre: Preprocessor, name: Token, rest: list[Token], end: Token, *, taken: bool) -> None:
            place = (name.source.name, name.pos)
            run.taken.add((*place, taken))
            other = (*place, not taken)
            if other not in self._taken and other not in run.ways:
                ways = list(itertools.islice(_flips(pre, name, rest, end, defines, taken=taken), MAX_WAYS))
                if ways:
                    run.ways[other] = ways

        with contextlib.suppress(StopError):
            checked(Source(self._name, self._text), defines, replace(self._options, watch=watch), report)
        return run


def _flips(
    pre: Preprocessor, name: Token, rest: list[Token], end: Token, defines: Assignment, *, taken: bool
) -> Iterator[Assignment]:
    """Assignments that turn a condition around where it stands, the smaller changes first."""
    free, numbers = _names(pre, rest)
    choices = [(n, v) for n in free for v in _values(pre, n, numbers, defines, bare=name.text in ("ifdef", "ifndef"))]
    pairs = (p for p in itertools.combinations(choices, 2) if p[0][0] != p[1][0])
    changes = itertools.chain(((c,) for c in choices), pairs)
    # where macros say one of several, the others must go when one comes
    others = [n for n, v in defines.items() if v in ("", "1") and n not in free]
    for change in itertools.islice(changes, MAX_TRIALS):
        macros = dict(pre.expander.macros)
        out = dict(defines)
        for n, value in change:
            macros.pop(n, None)
            out.pop(n, None)
            if value is not None:
                macros[n] = command_line_macro(n, value, Reporter())
                out[n] = value
        trial = Preprocessor(Reporter(), includes_within())
        trial.expander.macros = macros
        if trial.condition(name, rest, end) == taken or trial.report.errors:
            continue
        yield out
        if others and any(v is not None and n not in defines for n, v in change):
            yield {n: v for n, v in out.items() if n not in others}


def _names(pre: Preprocessor, tokens: Iterable[Token]) -> tuple[list[str], list[int]]:
    """The macros of a condition that a command line gives or may give, and the numbers it compares them with."""
    free: dict[str, None] = {}
    numbers: dict[int, None] = {}
    work = list(tokens)[::-1]
    seen: set[str] = set()
    while work:
        token = work.pop()
        if token.kind == "number":
            literal = parse_number(token.text)
            if isinstance(literal, IntLiteral):
                numbers[literal.value] = None
        if token.kind != "name" or token.text in seen or token.text == "defined":
            continue
        seen.add(token.text)
        macro = pre.expander.macros.get(token.text)
        if macro is None or token.text in pre.overridable or _is_given(macro):
            free[token.text] = None
        if macro is not None:
            work += reversed(macro.body)
    return list(free), list(numbers)


def _is_given(macro: Macro) -> bool:
    return macro.at is not None and macro.at.source.name == f"-D{macro.name}"


def _values(
    pre: Preprocessor, name: str, numbers: list[int], defines: Assignment, *, bare: bool
) -> Iterator[str | None]:
    """What a macro may be instead; None is not given."""
    given = name in pre.expander.macros
    if bare:
        yield None if given else pre.default_of(name) or "1"
        return
    near = dict.fromkeys(m for n in numbers for m in (n, n + 1, n - 1) if m > 0)
    texts = dict.fromkeys((*map(str, near), pre.default_of(name) or "1", "0"))
    yield from (t for t in texts if t != defines.get(name))
    if given:
        yield None


def _difference(base: Mapping[str, str], point: Mapping[str, str]) -> str:
    """The options that make one assignment of another."""
    changed = [f"-D{n}={v}" for n, v in point.items() if base.get(n) != v]
    return " ".join((*changed, *(f"no -D{n}" for n in base if n not in point)))


def _key(d: Diagnostic) -> tuple[str, object]:
    return d.message, (d.span.source.name, d.span.at) if d.span else None
