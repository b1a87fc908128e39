"""What is where in a source: names with their types and declarations, macros with what they stand for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from graphfuse.frontends.tc import typed
from graphfuse.frontends.tc.diagnostics import Diagnostic, Reporter, SourceError, StopError
from graphfuse.frontends.tc.driver import DEFAULTS, Options, checked, tokens
from graphfuse.frontends.tc.preprocess import includes_within
from graphfuse.frontends.tc.source import Source, Span
from graphfuse.frontends.tc.tokens import Token


@dataclass(frozen=True, slots=True)
class Place:
    """A range of a file, lines and columns counted from 0."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int

    def holds(self, line: int, column: int) -> bool:
        """Whether a position is in it."""
        return (self.line, self.column) <= (line, column) < (self.end_line, self.end_column)


@dataclass(frozen=True, slots=True)
class Mention:
    """A name in the text: what hovering over it says, and where it is declared."""

    place: Place
    text: str
    declaration: Place | None


@dataclass(frozen=True, slots=True)
class Index:
    """Everything found in one reading of a source."""

    diagnostics: tuple[Diagnostic, ...]
    mentions: tuple[Mention, ...]

    def at(self, line: int, column: int) -> Mention | None:
        """The name at a position, counted from 0."""
        return next((m for m in self.mentions if m.place.holds(line, column)), None)


def index(text: str, filename: str, defines: Mapping[str, str], folders: Sequence[Path] = ()) -> Index:
    """Read a source. With errors in it, what could be understood is indexed all the same.

    Its includes are read where they lie in its folder or in `folders`: to open a file in an editor is not to trust it.
    """
    options = replace(DEFAULTS, include=includes_within(Path(filename).parent, *folders))
    report = Reporter()
    unit: typed.Unit | None = None
    with contextlib.suppress(StopError):
        unit = checked(Source(filename, text), defines, options, report)
    mentions = list(_names(unit, filename)) if unit is not None else []
    taken = {m.place for m in mentions}
    mentions += [m for m in _macros(text, filename, defines, options) if m.place not in taken]
    return Index(tuple(report.found), tuple(mentions))


def place_of(span: Span) -> Place:
    """A span as lines and columns."""
    line, column = span.source.position(span.start)
    end_line, end_column = span.source.position(max(span.end, span.start + 1))
    return Place(span.source.name, line - 1, column - 1, end_line - 1, end_column - 1)


def _names(unit: typed.Unit, filename: str) -> Iterator[Mention]:
    """Variables where they are declared, read and set; functions where they are declared and called."""
    for function in unit.functions:
        yield _function(function, function.at.span)
        seen: set[tuple[int, Place]] = set()
        nodes = list(typed.walk(function.body))
        uses = [(n.variable, n.at) for n in nodes if isinstance(n, typed.Read | typed.Assign)]
        for variable, token in [*((p, p.at) for p in function.params), *uses]:
            for at in (variable.at, token):
                mention = _variable(variable, at)
                key = (id(variable), mention.place)
                if mention.place.file == filename and key not in seen and variable.name:
                    seen.add(key)
                    yield mention
        for call in nodes:
            if isinstance(call, typed.Call) and (name := _name_before(call.at.span, call.function.name)) is not None:
                yield _function(call.function, name)


def _variable(variable: typed.Variable, token: Token) -> Mention:
    attributes = "".join(f" __{n}({v})" if v else f" __{n}" for n, v in variable.attributes.items())
    return Mention(place_of(token.span), f"{variable.type} {variable.name}{attributes}", place_of(variable.at.span))


def _name_before(span: Span, name: str) -> Span | None:
    """A call points at its parenthesis: where the name in front of it is."""
    before = span.source.code[: span.start].rstrip()
    start = len(before) - len(name)
    return Span(span.source, start, len(before), start) if before.endswith(name) else None


def _function(function: typed.FunctionDecl, span: Span) -> Mention:
    params = ", ".join(f"{p.type} {p.name}" for p in function.params)
    kind = "__global__ " if function.is_kernel else ""
    text = f"{kind}{function.result} {function.name}({params})"
    return Mention(place_of(span), text, place_of(function.at.span))


def _macros(text: str, filename: str, defines: Mapping[str, str], options: Options) -> Iterator[Mention]:
    """Macro names that were replaced, with the text that they became."""
    try:
        found = tokens(text, filename, defines, options=options)
    except SourceError:
        return
    became: dict[Place, list[str]] = {}
    for token in found:
        top = token.outermost
        if token.origin is not None and top.source.name == filename:
            became.setdefault(place_of(top.span), [top.text, "="]).append(token.text)
    for place, words in became.items():
        yield Mention(place, " ".join(words[:42]), None)
