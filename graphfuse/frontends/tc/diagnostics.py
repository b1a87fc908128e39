"""Diagnostics: what is wrong, where, and how to mend it; as text with the source line, or as JSON."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from graphfuse.errors import ParseError, printable
from graphfuse.frontends.tc.source import Span
from graphfuse.frontends.tc.switches import DEFAULT, Switches

Severity = Literal["error", "warning", "note"]
MAX_ERRORS = 50
"""After so many errors the rest is not looked at."""


class Located(Protocol):
    """What a diagnostic can point at: a span, a token, a node of a tree."""

    @property
    def span(self) -> Span:
        """Where in the user's file."""
        ...

    @property
    def backtrace(self) -> tuple[tuple[str, Span], ...]:
        """A note for each macro it came out of, innermost first."""
        ...


@dataclass(frozen=True, slots=True)
class Note:
    """A remark on a diagnostic, maybe elsewhere in the file."""

    message: str
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class FixIt:
    """Put `text` in the place of `span`, which is empty for an insertion."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding. `code` names the kind of finding, as in `[missing-semicolon]`."""

    severity: Severity
    code: str
    message: str
    span: Span | None = None
    notes: tuple[Note, ...] = ()
    fixits: tuple[FixIt, ...] = ()

    def __str__(self) -> str:
        """Location, message, source line with carets, fix-its, notes."""
        head = f"{_where(self.span)}{self.severity}: {self.message} [{self.code}]"
        lines = [head, *_excerpt(self.span, self.fixits)]
        for note in self.notes:
            lines += [f"{_where(note.span)}note: {note.message}", *_excerpt(note.span, ())]
        return printable("\n".join(lines), keep="\n\t")

    def to_json(self) -> dict[str, Any]:
        """The same as plain data; columns count from 1, `end_column` is one past the last character."""
        return {
            "severity": self.severity,
            "code": self.code,
            "message": self.message,
            **_json_span(self.span),
            "notes": [{"message": n.message, **_json_span(n.span)} for n in self.notes],
            "fixits": [{"text": f.text, **_json_span(f.span)} for f in self.fixits],
        }


_ODD = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What the caret would not stand below if it was escaped."""


def _where(span: Span | None) -> str:
    return f"{span.loc}: " if span else ""


def _excerpt(span: Span | None, fixits: Sequence[FixIt]) -> list[str]:
    if span is None:
        return []
    line, at = span.source.position(span.at)
    text = _ODD.sub("\N{REPLACEMENT CHARACTER}", span.source.line_text(line))
    first_line, first = span.source.position(span.start)
    last_line, last = span.source.position(span.end)
    first = first if first_line == line else 1
    last = last if last_line == line else len(text) + 1
    marks = [" "] * max(len(text) + 1, at, last)
    marks[first - 1 : last - 1] = "~" * (last - first)
    marks[at - 1] = "^"
    # a tab stays a tab, so that the caret stands below what it points at
    pad = "".join("\t" if c == "\t" else " " for c in text)
    under = "".join(p if m == " " else m for m, p in zip(marks, pad.ljust(len(marks)), strict=False)).rstrip()
    number = str(span.source.presumed(line)[1])
    gutter = " " * len(number)
    lines = [f" {number} | {text}".rstrip(), f" {gutter} | {under}"]
    for fix in fixits:
        fix_line, col = span.source.position(fix.span.start)
        if fix.span.source is span.source and fix_line == line:
            lines.append(f" {gutter} | {pad[: col - 1].ljust(col - 1)}{fix.text}")
    return lines


def _json_span(span: Span | None) -> dict[str, Any]:
    if span is None:
        return {}
    line, col = span.source.position(span.start)
    end_line, end = span.source.position(span.end)
    name, shown = span.source.presumed(line)
    return {
        "file": name,
        "line": shown,
        "column": col,
        "end_line": span.source.presumed(end_line)[1],
        "end_column": end,
    }


class SourceError(ParseError):
    """A `.tc` source that does not compile; `diagnostics` holds every finding, and `str` shows them."""

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        first = next(d for d in diagnostics if d.severity == "error")
        super().__init__(first.message, first.span.loc if first.span else None)
        self.diagnostics = tuple(diagnostics)

    def __str__(self) -> str:
        return "\n".join(map(str, self.diagnostics))


class StopError(Exception):
    """There is no point in going on; what was found is in the reporter."""


Where: TypeAlias = Located | Span | None
Notes: TypeAlias = Iterable[Note]
FixIts: TypeAlias = Iterable[FixIt]


class Reporter:
    """Collects diagnostics. A finding with the same message at the same place is kept once."""

    def __init__(self, *, pedantic: bool = True, switches: Switches = DEFAULT) -> None:
        self.found: list[Diagnostic] = []
        self.pedantic = pedantic
        self.switches = switches
        self.errors = 0
        self._seen: set[tuple[str, object]] = set()
        self._around: tuple[Note, ...] = ()

    def error(self, code: str, message: str, at: Where, notes: Notes = (), fixits: FixIts = ()) -> None:
        """Report an error; after MAX_ERRORS nothing more is looked at."""
        self._add("error", code, message, at, notes, fixits)

    def warning(self, code: str, message: str, at: Where, notes: Notes = (), fixits: FixIts = ()) -> None:
        """Report something legal that is probably not meant."""
        self._add("warning", code, message, at, notes, fixits)

    def note(self, code: str, message: str, at: Where) -> None:
        """Say something that asks for no change."""
        self._add("note", code, message, at, (), ())

    @contextmanager
    def within(self, note: Note) -> Generator[None, None, None]:
        """What is found inside has this note as well."""
        outer, self._around = self._around, (note, *self._around)
        try:
            yield
        finally:
            self._around = outer

    def _add(self, given: Severity, code: str, message: str, at: Where, notes: Notes, fixits: FixIts) -> None:
        severity = given if given == "error" else self.switches.severity(code, given)
        if severity is None:
            return
        span = at if isinstance(at, Span) or at is None else at.span
        trace = () if isinstance(at, Span) or at is None else tuple(Note(*n) for n in at.backtrace)
        key = (message, (id(span.source), span.at) if span else None)
        if key in self._seen:
            return
        self._seen.add(key)
        self.found.append(Diagnostic(severity, code, message, span, (*trace[:8], *notes, *self._around), tuple(fixits)))
        if severity == "error":
            self.errors += 1
            if self.errors >= MAX_ERRORS:
                self.found.append(Diagnostic("note", "too-many-errors", f"stopped after {MAX_ERRORS} errors"))
                raise StopError

    def add(self, found: Diagnostic) -> None:
        """Take over what somebody else has found, as the switches want it."""
        self._add(found.severity, found.code, found.message, found.span, found.notes, found.fixits)

    def check(self) -> None:
        """Raise what was found if any of it is an error."""
        if self.errors:
            raise SourceError(self.found)
