"""The language server for Triton-C, over standard input and output: diagnostics, hover, definitions, formatting."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlparse

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer

from graphfuse.errors import FileError
from graphfuse.frontends.tc.diagnostics import Diagnostic
from graphfuse.frontends.tc.format import format_text
from graphfuse.lsp.index import Index, Mention, Place, index, place_of
from graphfuse.lsp.settings import defines_for

_SEVERITY = {
    "error": lsp.DiagnosticSeverity.Error,
    "warning": lsp.DiagnosticSeverity.Warning,
    "note": lsp.DiagnosticSeverity.Information,
}


class Server(LanguageServer):
    """Keeps what it knows of every open source, and the names of the last reading that had any."""

    def __init__(self) -> None:
        super().__init__("graphfuse", "1")
        self.known: dict[str, Index] = {}

    def read(self, uri: str) -> None:
        """Read a source again, and tell the editor what was found."""
        text = self.workspace.get_text_document(uri).source
        path = path_of(uri)
        trouble: list[lsp.Diagnostic] = []
        try:
            defines = defines_for(path)
        except FileError as e:
            defines = {}
            trouble.append(lsp.Diagnostic(_NOWHERE, str(e), lsp.DiagnosticSeverity.Warning, source="graphfuse"))
        opened = [path_of(f.uri) for f in self.workspace.folders.values()]
        found = index(text, str(path), defines, opened)
        before = self.known.get(uri)
        if not found.mentions and before is not None:
            found = Index(found.diagnostics, before.mentions)
        self.known[uri] = found
        here = [d for d in found.diagnostics if d.span is None or d.span.source.name == str(path)]
        shown = [*trouble, *(_diagnostic(d, uri, str(path)) for d in here)]
        self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, shown))

    def mention(self, params: lsp.HoverParams | lsp.DefinitionParams) -> Mention | None:
        """The name at a position."""
        known = self.known.get(params.text_document.uri)
        return known.at(params.position.line, params.position.character) if known else None


_NOWHERE = lsp.Range(lsp.Position(0, 0), lsp.Position(0, 1))


def path_of(uri: str) -> Path:
    """The file behind a `file:` address."""
    parsed = urlparse(uri)
    return Path(unquote(parsed.path)) if parsed.scheme == "file" else Path(uri)


def _range(place: Place) -> lsp.Range:
    return lsp.Range(lsp.Position(place.line, place.column), lsp.Position(place.end_line, place.end_column))


def _diagnostic(found: Diagnostic, uri: str, file: str) -> lsp.Diagnostic:
    notes = [
        lsp.DiagnosticRelatedInformation(lsp.Location(uri, _range(place_of(n.span))), n.message)
        for n in found.notes
        if n.span is not None and n.span.source.name == file
    ]
    return lsp.Diagnostic(
        range=_range(place_of(found.span)) if found.span else _NOWHERE,
        message=found.message,
        severity=_SEVERITY[found.severity],
        code=found.code,
        source="graphfuse",
        related_information=notes or None,
    )


def make_server() -> Server:
    """A server with its features."""
    server = Server()

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    def given(params: lsp.DidOpenTextDocumentParams | lsp.DidChangeTextDocumentParams) -> None:
        server.read(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def closed(params: lsp.DidCloseTextDocumentParams) -> None:
        server.known.pop(params.text_document.uri, None)

    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    def hover(params: lsp.HoverParams) -> lsp.Hover | None:
        mention = server.mention(params)
        if mention is None:
            return None
        text = lsp.MarkupContent(lsp.MarkupKind.Markdown, f"```c\n{mention.text}\n```")
        return lsp.Hover(text, _range(mention.place))

    @server.feature(lsp.TEXT_DOCUMENT_DEFINITION)
    def definition(params: lsp.DefinitionParams) -> lsp.Location | None:
        mention, uri = server.mention(params), params.text_document.uri
        if mention is None or mention.declaration is None:
            return None
        to = mention.declaration
        same = to.file == str(path_of(uri))
        return lsp.Location(uri if same else Path(to.file).resolve().as_uri(), _range(to))

    @server.feature(lsp.TEXT_DOCUMENT_FORMATTING)
    def formatting(params: lsp.DocumentFormattingParams) -> list[lsp.TextEdit]:
        text = server.workspace.get_text_document(params.text_document.uri).source
        done = format_text(text)
        lines = text.count("\n") + 1
        whole = lsp.Range(lsp.Position(0, 0), lsp.Position(lines, 0))
        return [lsp.TextEdit(whole, done)] if done != text else []

    # the functions are the server's by their decorators
    assert all(map(callable, (given, closed, hover, definition, formatting)))
    return server
