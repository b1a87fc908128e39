"""The language server for Triton-C, over standard input and output."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer

from graphfuse.errors import FileError, UsageError
from graphfuse.files import read_source
from graphfuse.frontends.tc.format import format_edits
from graphfuse.lsp.complete import call_around, choices
from graphfuse.lsp.documents import NOWHERE, Document, diagnostics, fixes, item, path_of, symbols
from graphfuse.lsp.index import Defined, Index, index
from graphfuse.lsp.rename import renamable, renamed
from graphfuse.lsp.settings import defines_for
from graphfuse.lsp.texts import Place
from graphfuse.lsp.words import FUNCTIONS, WORDS

_PAUSE = 0.1
"""Seconds without a change after which a source is read again, unless it is asked about before."""
_REFUSED = -32803
"""The protocol's code of a request that is understood and refused."""


class Server(LanguageServer):
    """Keeps every open source, and the names of the last reading that had any."""

    def __init__(self) -> None:
        # whole texts: what a line end is, editors and the library see differently
        super().__init__("graphfuse", "1", text_document_sync_kind=lsp.TextDocumentSyncKind.Full)
        self.documents: dict[str, Document] = {}
        self.changed: dict[str, int] = {}

    @property
    def unit(self) -> str:
        """How the editor counts columns."""
        return self.workspace.position_encoding or "utf-16"

    def document(self, uri: str) -> Document:
        """A source as it is now."""
        text = self.workspace.get_text_document(uri).source or ""
        document = self.documents.get(uri)
        if document is None or not document.read:
            document = self.read(uri, text)
        return document

    def forget(self, uri: str) -> None:
        """Note that a text has changed."""
        if uri in self.documents:
            self.documents[uri].read = False
        self.changed[uri] = self.changed.get(uri, 0) + 1

    def read(self, uri: str, text: str) -> Document:
        """Read a source again, and tell the editor what was found."""
        path = path_of(uri)
        trouble: list[lsp.Diagnostic] = []
        try:
            defines = defines_for(path)
        except FileError as e:
            defines = {}
            trouble.append(lsp.Diagnostic(NOWHERE, str(e), lsp.DiagnosticSeverity.Warning, source="graphfuse"))
        opened = [path_of(f.uri) for f in self.workspace.folders.values()]
        document = Document(path, text, self.unit)
        document.index = found = index(text, str(path), defines, opened)
        before = self.documents.get(uri)
        if not found.declared and before is not None:
            document.index = Index(
                found.file, found.diagnostics, before.index.declared, found.macros, found.words, before.index.mentions
            )
        document.read = True
        self.documents[uri] = document
        shown = [*trouble, *diagnostics(document, uri)]
        version = self.workspace.get_text_document(uri).version
        self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, shown, version))
        return document


def _opened(server: Server, params: lsp.DidOpenTextDocumentParams) -> None:
    server.forget(params.text_document.uri)
    server.document(params.text_document.uri)


async def _changed(server: Server, params: lsp.DidChangeTextDocumentParams) -> None:
    uri = params.text_document.uri
    server.forget(uri)
    count = server.changed[uri]
    await asyncio.sleep(_PAUSE)
    if server.changed.get(uri) == count:
        server.document(uri)


def _closed(server: Server, params: lsp.DidCloseTextDocumentParams) -> None:
    uri = params.text_document.uri
    server.documents.pop(uri, None)
    server.changed.pop(uri, None)
    server.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, []))


def _settings_changed(server: Server, params: lsp.DidChangeWatchedFilesParams) -> None:
    """The editor has seen `.tritonc.json` or a file that is included change."""
    for uri in [*server.documents]:
        server.forget(uri)
        server.document(uri)


def _hover(server: Server, params: lsp.HoverParams) -> lsp.Hover | None:
    document = server.document(params.text_document.uri)
    mention = document.mention(params.position)
    if mention is not None and not (isinstance(mention.of, Defined) and mention.of.name in WORDS):
        parts = [f"```c\n{text}\n```" for text in dict.fromkeys((mention.text, mention.note)) if text]
        return lsp.Hover(_markdown("\n".join(parts)), document.range(mention.place))
    at = document.position(params.position)
    found = next((w for w in document.index.words if w.place.touches(*at) and not w.directive), None)
    word = (FUNCTIONS.get(found.text) or WORDS.get(found.text)) if found is not None else None
    if found is None or word is None:
        return None
    return lsp.Hover(_markdown(f"```c\n{word.form}\n```\n{word.text}"), document.range(found.place))


def _definition(server: Server, params: lsp.DefinitionParams) -> lsp.Location | None:
    uri = params.text_document.uri
    document = server.document(uri)
    mention = document.mention(params.position)
    to = mention.declaration if mention is not None else document.included(params.position)
    return None if to is None else _location(server, to, uri)


def _references(server: Server, params: lsp.ReferenceParams) -> list[lsp.Location]:
    uri = params.text_document.uri
    document = server.document(uri)
    mention = document.mention(params.position)
    if mention is None:
        return []
    places = document.index.uses(mention.of)
    if not params.context.include_declaration:
        places = tuple(p for p in places if p != mention.declaration)
    return [_location(server, place, uri) for place in places]


def _highlight(server: Server, params: lsp.DocumentHighlightParams) -> list[lsp.DocumentHighlight]:
    document = server.document(params.text_document.uri)
    mention = document.mention(params.position)
    uses = document.index.uses(mention.of) if mention is not None else ()
    return [lsp.DocumentHighlight(document.range(p)) for p in uses if p.file == document.file]


def _symbols(server: Server, params: lsp.DocumentSymbolParams) -> list[lsp.DocumentSymbol]:
    return symbols(server.document(params.text_document.uri))


def _completion(server: Server, params: lsp.CompletionParams) -> list[lsp.CompletionItem]:
    document = server.document(params.text_document.uri)
    at = document.position(params.position)
    return [item(c) for c in choices(document.index, document.before(params.position), *at)]


def _signature(server: Server, params: lsp.SignatureHelpParams) -> lsp.SignatureHelp | None:
    document = server.document(params.text_document.uri)
    call = call_around(document.index, document.before(params.position), *document.position(params.position))
    if call is None:
        return None
    labels = [lsp.ParameterInformation(label) for label in call.params]
    found = lsp.SignatureInformation(call.form, call.text or None, labels, call.active)
    return lsp.SignatureHelp([found], 0, call.active)


def _actions(server: Server, params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
    uri, only = params.text_document.uri, params.context.only
    if only is not None and not any(lsp.CodeActionKind.QuickFix.startswith(kind) for kind in only):
        return []
    return fixes(server.document(uri), uri, params.range)


def _prepare(server: Server, params: lsp.PrepareRenameParams) -> lsp.Range:
    document = server.document(params.text_document.uri)
    try:
        _, place = renamable(document.index, *document.position(params.position))
        _of_this_file(server, document, place)
    except UsageError as e:
        raise JsonRpcException(e.message, _REFUSED) from None
    return document.range(place)


def _of_this_file(server: Server, document: Document, place: Place) -> None:
    """Refuse to rename what another open source has from this one."""
    for other in server.documents.values():
        uses = (u for d in other.index.declared for u in d.uses if other is not document and u.start == place.start)
        if any(Path(use.file).resolve() == Path(document.file).resolve() for use in uses):
            raise UsageError(f"rename: expected a name of this file alone, found one that {other.file} has, too")


def _rename(server: Server, params: lsp.RenameParams) -> lsp.WorkspaceEdit:
    uri = params.text_document.uri
    document = server.document(uri)
    try:
        places = renamed(document.index, *document.position(params.position), params.new_name)
        for place in places:
            _of_this_file(server, document, place)
    except UsageError as e:
        raise JsonRpcException(e.message, _REFUSED) from None
    edits = [lsp.TextEdit(document.range(place), params.new_name) for place in places]
    return lsp.WorkspaceEdit(changes={uri: edits})


def _formatting(server: Server, params: lsp.DocumentFormattingParams) -> list[lsp.TextEdit]:
    document = server.document(params.text_document.uri)
    return [document.edit(edit) for edit in format_edits(document.lines.text)]


def _range_formatting(server: Server, params: lsp.DocumentRangeFormattingParams) -> list[lsp.TextEdit]:
    document = server.document(params.text_document.uri)
    first, end = params.range.start.line, params.range.end
    last = end.line - (end.character == 0 and end.line > first)
    return [document.edit(edit) for edit in format_edits(document.lines.text, first, last)]


def _markdown(text: str) -> lsp.MarkupContent:
    return lsp.MarkupContent(lsp.MarkupKind.Markdown, text)


def _location(server: Server, place: Place, uri: str) -> lsp.Location:
    """A place in the document of that address, or in a file that it includes."""
    document = server.documents[uri]
    if place.file == document.file:
        return lsp.Location(uri, document.range(place))
    path = Path(place.file).resolve()
    try:
        text = read_source(path)
    except FileError:
        text = ""
    other = Document(path, text, server.unit)
    return lsp.Location(path.as_uri(), other.range(place))


_FEATURES: tuple[tuple[str, Callable[..., Any], Any], ...] = (
    (lsp.TEXT_DOCUMENT_DID_OPEN, _opened, None),
    (lsp.TEXT_DOCUMENT_DID_CHANGE, _changed, None),
    (lsp.TEXT_DOCUMENT_DID_CLOSE, _closed, None),
    (lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES, _settings_changed, None),
    (lsp.TEXT_DOCUMENT_HOVER, _hover, None),
    (lsp.TEXT_DOCUMENT_DEFINITION, _definition, None),
    (lsp.TEXT_DOCUMENT_REFERENCES, _references, None),
    (lsp.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT, _highlight, None),
    (lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL, _symbols, None),
    (lsp.TEXT_DOCUMENT_COMPLETION, _completion, lsp.CompletionOptions(trigger_characters=["#"])),
    (lsp.TEXT_DOCUMENT_SIGNATURE_HELP, _signature, lsp.SignatureHelpOptions(trigger_characters=["(", ","])),
    (lsp.TEXT_DOCUMENT_CODE_ACTION, _actions, lsp.CodeActionOptions([lsp.CodeActionKind.QuickFix])),
    (lsp.TEXT_DOCUMENT_PREPARE_RENAME, _prepare, None),
    (lsp.TEXT_DOCUMENT_RENAME, _rename, lsp.RenameOptions(prepare_provider=True)),
    (lsp.TEXT_DOCUMENT_FORMATTING, _formatting, None),
    (lsp.TEXT_DOCUMENT_RANGE_FORMATTING, _range_formatting, None),
)


def make_server() -> Server:
    """A server with its features."""
    server = Server()
    for method, answer, options in _FEATURES:
        server.feature(method, options)(answer)
    return server
