"""An open source as an editor sees it: findings, fixes, symbols, completions in the protocol's terms."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlparse

from lsprotocol import types as lsp

from graphfuse.files import exists
from graphfuse.frontends.tc.diagnostics import Diagnostic
from graphfuse.frontends.tc.format import Edit
from graphfuse.frontends.tc.preprocess import INCLUDE
from graphfuse.lsp.complete import Choice
from graphfuse.lsp.index import Index, Mention
from graphfuse.lsp.texts import Lines, Place, place_of

_SEVERITY = {
    "error": lsp.DiagnosticSeverity.Error,
    "warning": lsp.DiagnosticSeverity.Warning,
    "note": lsp.DiagnosticSeverity.Information,
}
_ITEMS = {
    "function": lsp.CompletionItemKind.Function,
    "parameter": lsp.CompletionItemKind.Variable,
    "variable": lsp.CompletionItemKind.Variable,
    "constant": lsp.CompletionItemKind.EnumMember,
    "type": lsp.CompletionItemKind.Class,
    "qualifier": lsp.CompletionItemKind.Keyword,
    "keyword": lsp.CompletionItemKind.Keyword,
    "macro": lsp.CompletionItemKind.Constant,
}
_SYMBOLS = {
    "function": lsp.SymbolKind.Function,
    "parameter": lsp.SymbolKind.Variable,
    "variable": lsp.SymbolKind.Variable,
    "constant": lsp.SymbolKind.EnumMember,
    "type": lsp.SymbolKind.Class,
}
NOWHERE = lsp.Range(lsp.Position(0, 0), lsp.Position(0, 1))


class Document:
    """An open source: its text as lines, and what is known of it."""

    def __init__(self, path: Path, text: str, unit: str) -> None:
        self.file = str(path)
        self.unit = unit
        self.lines = Lines(text, unit)
        self.index = Index(self.file)
        self.read = False

    def position(self, at: lsp.Position) -> tuple[int, int]:
        """Line and column in characters."""
        return at.line, self.lines.column(at.line, at.character)

    def before(self, at: lsp.Position) -> str:
        """The text in front of a position."""
        return self.lines.text[: self.lines.offset(*self.position(at))]

    def mention(self, at: lsp.Position) -> Mention | None:
        """The name at a position."""
        return self.index.at(*self.position(at))

    def include_of(self, file: str) -> Place:
        """The line that includes a file, itself or by others; the first one where that cannot be told."""
        rows = [(i, m) for i, row in enumerate(self.lines.rows) if (m := INCLUDE.match(row)) is not None]
        named = [(i, m) for i, m in rows if Path(self.file).parent / m["name"] == Path(file)]
        line, match = (named or rows or [(0, None)])[0]
        return Place(self.file, line, 0, line, match.end() if match is not None else 0)

    def included(self, at: lsp.Position) -> Place | None:
        """The beginning of the file that the line at a position includes."""
        row = self.lines.rows[at.line] if at.line < len(self.lines.rows) else ""
        found = INCLUDE.match(row)
        path = Path(self.file).parent / found["name"] if found is not None else None
        return Place(str(path), 0, 0, 0, 0) if path is not None and exists(path) else None

    def range(self, place: Place) -> lsp.Range:
        """A place of this document as the editor counts."""
        start = lsp.Position(place.line, self.lines.units(place.line, place.column))
        return lsp.Range(start, lsp.Position(place.end_line, self.lines.units(place.end_line, place.end_column)))

    def edit(self, edit: Edit) -> lsp.TextEdit:
        """A change of blanks."""
        (line, column), (end_line, end_column) = map(self.lines.position, (edit.start, edit.end))
        place = Place(self.file, line, column, end_line, end_column)
        return lsp.TextEdit(self.range(place), edit.text.replace("\n", self.lines.ending))


def path_of(uri: str) -> Path:
    """The file behind a `file:` address."""
    parsed = urlparse(uri)
    return Path(unquote(parsed.path)) if parsed.scheme == "file" else Path(uri)


def own(document: Document) -> list[Diagnostic]:
    """The findings in the source itself."""
    return [d for d in document.index.diagnostics if d.span is None or d.span.source.name == document.file]


def diagnostics(document: Document, uri: str) -> list[lsp.Diagnostic]:
    """What was found, that in included files where they are included."""
    out = [diagnostic(d, uri, document) for d in own(document)]
    for found in document.index.diagnostics:
        if found.span is not None and found.span.source.name != document.file:
            source, place = found.span.source, place_of(found.span)
            shown = lsp.Diagnostic(
                range=_visible(document.range(document.include_of(source.name))),
                message=f"{Path(source.name).name}:{place.line + 1}: {found.message}",
                severity=_SEVERITY[found.severity],
                code=found.code,
                source="graphfuse",
            )
            if exists(Path(source.name)):  # not what a macro of the settings says
                there = Document(Path(source.name), source.text, document.unit)
                location = lsp.Location(Path(source.name).resolve().as_uri(), there.range(place))
                shown.related_information = [lsp.DiagnosticRelatedInformation(location, found.message)]
            out.append(shown)
    return out


def diagnostic(found: Diagnostic, uri: str, document: Document) -> lsp.Diagnostic:
    """A finding."""
    notes = [
        lsp.DiagnosticRelatedInformation(lsp.Location(uri, document.range(place_of(n.span))), n.message)
        for n in found.notes
        if n.span is not None and n.span.source.name == document.file
    ]
    return lsp.Diagnostic(
        range=_visible(document.range(place_of(found.span))) if found.span else NOWHERE,
        message=found.message,
        severity=_SEVERITY[found.severity],
        code=found.code,
        source="graphfuse",
        related_information=notes or None,
    )


def _visible(of: lsp.Range) -> lsp.Range:
    if of.start != of.end:
        return of
    return lsp.Range(of.start, lsp.Position(of.end.line, of.end.character + 1))


def fixes(document: Document, uri: str, asked: lsp.Range) -> list[lsp.CodeAction]:
    """What mends the findings in a range."""
    out: list[lsp.CodeAction] = []
    for found in own(document):
        shown = diagnostic(found, uri, document)
        if not found.fixits or shown.range.end < asked.start or asked.end < shown.range.start:
            continue
        if any(fix.span.source.name != document.file for fix in found.fixits):
            continue
        edits = [lsp.TextEdit(document.range(place_of(fix.span)), fix.text) for fix in found.fixits]
        written = [fix.span.source.code[fix.span.start : fix.span.end] for fix in found.fixits]
        title = " and ".join(
            f"replace {old!r} by {fix.text!r}" if old else f"insert {fix.text!r}"
            for old, fix in zip(written, found.fixits, strict=True)
        )
        change = lsp.WorkspaceEdit(changes={uri: edits})
        action = lsp.CodeAction(title, lsp.CodeActionKind.QuickFix, [shown], edit=change, is_preferred=True)
        out.append(action)
    return out


def symbols(document: Document) -> list[lsp.DocumentSymbol]:
    """What a source declares; what a function declares is in it."""
    tops: list[lsp.DocumentSymbol] = []
    functions: dict[str, list[lsp.DocumentSymbol]] = {}
    here = [d for d in document.index.declared if d.place.file == document.file]
    for name in sorted(here, key=lambda name: name.scope is not None):
        extent = name.extent if name.extent.contains(name.place) else name.place
        inner: list[lsp.DocumentSymbol] = []
        symbol = lsp.DocumentSymbol(
            name.name,
            _SYMBOLS[name.kind],
            document.range(extent),
            document.range(name.place),
            detail=name.text.partition("\n")[0],
            children=inner,
        )
        if name.kind == "function":
            functions[name.name] = inner
        (functions.get(name.inside, tops) if name.scope is not None else tops).append(symbol)
    for macro in document.index.macros.values():
        if macro.place is not None and macro.place.file == document.file:
            at = document.range(macro.place)
            tops.append(lsp.DocumentSymbol(macro.name, lsp.SymbolKind.Constant, at, at, detail=macro.text))
    return sorted(tops, key=lambda s: (s.range.start.line, s.range.start.character))


def item(choice: Choice) -> lsp.CompletionItem:
    """A completion: names of the source come before words of the language."""
    is_own = choice.kind in ("parameter", "variable", "constant") or not choice.text
    return lsp.CompletionItem(
        choice.label,
        kind=_ITEMS[choice.kind],
        detail=choice.detail,
        documentation=choice.text or None,
        sort_text=f"{'0' if is_own else '1'}{choice.label}",
    )
