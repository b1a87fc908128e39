"""What is where in a source: names with their types and declarations, macros with what they stand for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from graphfuse.frontends.tc import ast, typed
from graphfuse.frontends.tc.check import check_unit
from graphfuse.frontends.tc.diagnostics import Diagnostic, Reporter, StopError
from graphfuse.frontends.tc.macros import Macro
from graphfuse.frontends.tc.parser import parse_unit
from graphfuse.frontends.tc.preprocess import Preprocessor, includes_within
from graphfuse.frontends.tc.scope import Symbol, Typedef
from graphfuse.frontends.tc.source import Source, Span
from graphfuse.frontends.tc.tokens import Token, detokenize, tokenize
from graphfuse.lsp.names import Kind, Name, names_of
from graphfuse.lsp.texts import Place, place_of

_SHOWN = 42
"""Tokens of a macro that are shown."""


@dataclass(frozen=True, slots=True)
class Declared:
    """A name with its type as text. `place` is the name where it is declared, `extent` the declaration around it.

    `scope` is where it is known from there on, None for all of the file. `uses` are all places of the name, that of
    the declaration among them; `is_made`: a macro spells it or pastes it together, so that it stands nowhere.
    """

    name: str
    kind: Kind
    text: str
    place: Place
    extent: Place
    scope: Place | None
    inside: str
    uses: tuple[Place, ...]
    params: tuple[str, ...]
    """Of a function, as they are declared."""
    is_made: bool

    def is_known_at(self, line: int, column: int) -> bool:
        """Whether a position is in its scope and behind its declaration."""
        if self.scope is None:
            return True
        return self.scope.touches(line, column) and (self.place.start < (line, column) or self.kind == "parameter")


@dataclass(frozen=True, slots=True)
class Defined:
    """A macro: how it is defined, and where, unless that is outside of files."""

    name: str
    text: str
    params: tuple[str, ...] | None
    place: Place | None


@dataclass(frozen=True, slots=True)
class Mention:
    """A name in the text: what hovering over it says, and where it is declared."""

    place: Place
    text: str
    declaration: Place | None
    of: Declared | Defined
    note: str = ""


@dataclass(frozen=True, slots=True)
class Word:
    """A name in the file itself, be it read or left out by an `#if`; `directive` is the line's, if it is one."""

    text: str
    place: Place
    directive: str


@dataclass(frozen=True, slots=True)
class Index:
    """Everything found in one reading of a source."""

    file: str
    diagnostics: tuple[Diagnostic, ...] = ()
    declared: tuple[Declared, ...] = ()
    macros: Mapping[str, Defined] = field(default_factory=dict[str, Defined])
    words: tuple[Word, ...] = ()
    mentions: tuple[Mention, ...] = ()

    def at(self, line: int, column: int) -> Mention | None:
        """The name at a position, counted from 0, or in front of it."""
        found = [m for m in self.mentions if m.place.touches(line, column)]
        return next((m for m in found if m.place.holds(line, column)), found[0] if found else None)

    def uses(self, of: Declared | Defined) -> tuple[Place, ...]:
        """All places of a name; of a macro those in this file."""
        if isinstance(of, Declared):
            return of.uses
        return tuple(w.place for w in self.words if w.text == of.name)


def index(text: str, filename: str, defines: Mapping[str, str], folders: Sequence[Path] = ()) -> Index:
    """Read a source. With errors in it, what could be understood is indexed all the same.

    Its includes are read where they lie in its folder or in `folders`: to open a file in an editor is not to trust it.
    """
    report = Reporter()
    source = Source(filename, text)
    pre = Preprocessor(report, includes_within(Path(filename).parent, *folders))
    tokens: list[Token] = []
    unit: ast.Unit | None = None
    symbols: list[Symbol] = []
    with contextlib.suppress(StopError):
        tokens = pre.run(source, defines)
        unit = parse_unit(tokens, report)
        check_unit(unit, report, defines, symbols)
    types: dict[Token, list[Symbol]] = {}
    for symbol in symbols:
        types.setdefault(symbol.at, []).append(symbol)
    declared = tuple(_declared(name, types.get(name.at, [])) for name in (names_of(unit) if unit is not None else ()))
    words = tuple(_words(source))
    defined = {name: _defined(macro) for name, macro in pre.expander.macros.items()}
    mentions = [*_of_names(declared, filename), *_of_expansions(tokens, filename)]
    taken = {m.place for m in mentions}
    for word in words:
        if word.text in defined and word.place not in taken:
            macro = defined[word.text]
            mentions.append(Mention(word.place, macro.text, macro.place, macro))
    # the macros of a folder are for all of its files
    findings = tuple(d for d in report.found if d.code != "unused-define")
    return Index(filename, findings, declared, defined, words, tuple(mentions))


def _words(source: Source) -> Iterator[Word]:
    """The names in a file, and the words behind `#`."""
    directive: list[Token] = []
    for token in tokenize(source, Reporter()):
        if token.bol:
            directive = [token] if token.text == "#" else []
        elif directive:
            directive.append(token)
        if token.kind == "name":
            yield Word(token.text, place_of(token.span), directive[1].text if directive else "")


# names


def _declared(name: Name, symbols: list[Symbol]) -> Declared:
    texts = dict.fromkeys(_symbol_text(s, name.text) for s in symbols)
    own = _written(name.at)
    made = own is None or name.at.origin is not None
    uses = dict.fromkeys(place_of(span) for t in name.tokens if (span := _written(t)) is not None)
    return Declared(
        name.text, name.kind,
        "\n".join([*texts][:4]) or _as_written(name),
        place_of(own or name.at.span),
        place_of(name.node.span) if not made else place_of(name.at.span),
        None if name.scope is None else _extent(name.scope),
        name.inside.text if name.inside is not None else "",
        tuple(uses),
        _params(name, symbols),
        made,
    )  # fmt: skip


def _written(token: Token) -> Span | None:
    """Where a token stands, be it in the body of a macro; None for one that a macro has pasted together."""
    span = Span(token.source, token.pos, token.end, token.pos)
    return span if token.source.code[token.pos : token.end] == token.text else None


def _extent(node: ast.Node) -> Place:
    first, last = place_of(node.first.span), place_of(node.last.span)
    if first.file != last.file:
        return first
    return Place(first.file, first.line, first.column, last.end_line, last.end_column)


def _symbol_text(symbol: Symbol, name: str) -> str:
    match symbol:
        case typed.Variable():
            attributes = "".join(f" __{n}({v})" if v else f" __{n}" for n, v in symbol.attributes.items())
            known = f" = {symbol.known}" if symbol.known is not None else ""
            return f"{symbol.type} {name}{attributes}{known}"
        case typed.FunctionDecl():
            params = ", ".join(f"{p.type} {p.name}".rstrip() for p in symbol.params)
            return f"{'__global__ ' if symbol.is_kernel else ''}{symbol.result} {name}({params})"
        case Typedef():
            return f"typedef {symbol.type} {name}"
        case _:
            return f"{symbol.type} {name} = {symbol.value}"


def _as_written(name: Name) -> str:
    """The declaration of a name that has no type because of an error, up to what it is set to."""
    node = name.node
    if isinstance(node, ast.Failed | ast.Enumerator) or node.first.outermost.source is not name.at.source:
        return name.text
    if isinstance(node, ast.Function):
        params = ", ".join(_text(p) for p in node.params)
        return f"{_text(node.result.specifiers)} {name.text}({params})"
    specifiers = node.specifiers if isinstance(node, ast.Declaration | ast.Parameter) else None
    return f"{_text(specifiers)} {name.text}" if specifiers is not None else name.text


def _text(node: ast.Node) -> str:
    """A part of a source on one line."""
    first, last = node.first.outermost, node.last.outermost
    code = first.source.code[first.pos : last.end] if first.source is last.source else first.text
    return " ".join(code.split())


def _params(name: Name, symbols: list[Symbol]) -> tuple[str, ...]:
    for symbol in symbols:
        if isinstance(symbol, typed.FunctionDecl):
            return tuple(f"{p.type} {p.name}".rstrip() for p in symbol.params)
    return tuple(_text(p) for p in name.node.params) if isinstance(name.node, ast.Function) else ()


def _of_names(declared: Sequence[Declared], filename: str) -> Iterator[Mention]:
    for name in declared:
        for use in name.uses:
            if use.file == filename:
                yield Mention(use, name.text, name.place, name)


# macros


def _defined(macro: Macro) -> Defined:
    given = macro.at is None or macro.at.source.name == f"-D{macro.name}"
    params = macro.params
    if params is not None and macro.variadic:
        params = (*params[:-1], "..." if params[-1] == "__VA_ARGS__" else f"{params[-1]}...")
    head = f"{macro.name}({', '.join(params)})" if params is not None else macro.name
    body = detokenize([*macro.body[:_SHOWN]])
    text = f"-D{macro.name}={body}" if given and macro.at is not None else f"#define {head} {body}".rstrip()
    place = None if given or macro.at is None else place_of(macro.at.span)
    return Defined(macro.name, text, params, place)


def _of_expansions(tokens: Sequence[Token], filename: str) -> Iterator[Mention]:
    """Macro names that were replaced, with the text that they became."""
    calls: dict[Token, tuple[Macro, int, int]] = {}
    for i, token in enumerate(tokens):
        outer, macro = token, None
        while outer.origin is not None:
            outer, macro = outer.origin.call, outer.origin.macro
        if macro is not None and outer.source.name == filename:
            calls[outer] = macro, calls[outer][1] if outer in calls else i, i + 1
    for call, (macro, start, end) in calls.items():
        defined = _defined(macro)
        words = (t.text for t in tokens[start : min(end, start + _SHOWN - 2)])
        yield Mention(place_of(call.span), " ".join([macro.name, "=", *words]), defined.place, defined, defined.text)
