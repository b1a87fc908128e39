"""The formatter: line by line, so that comments, macros and the author's alignment stay where they are.

Indentation follows braces, two blanks each; lines that continue a statement keep their distance from its first line.
`...` has one blank on each side, a comma or semicolon one behind. Directives and spliced lines are left alone.
Formatting twice is formatting once, and no token changes.
"""

from __future__ import annotations

import re

from graphfuse.frontends.tc.source import Source

_PIECE = re.compile(
    r"""(?P<space>[ \t\v\f]+)
      | (?P<comment>//[^\n]*|/\*[\s\S]*?(?:\*/|\Z))
      | (?P<newline>\n)
      | (?P<string>"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?)
      | (?P<dots>\.\.\.)
      | (?P<number>\.?[0-9](?:[eEpP][-+]|[\w$]|\.(?!\.\.))*)
      | (?P<word>[\w$]+)
      | (?P<other>[\s\S])""",
    re.VERBOSE,
)
_INDENT = 2
"""Columns of a level."""
_TAB = 8
"""Columns to which a tab in a source leads."""
_BEFORE_BRACKET = frozenset(("if", "for", "while", "switch"))


def format_text(text: str) -> str:
    """Format a source. Any text is accepted; what is not understood is left as it is."""
    formatter = _Formatter()
    pieces = [(m.lastgroup or "", m.group()) for m in _PIECE.finditer(Source("", text).text)]
    line: list[tuple[str, str]] = []
    for kind, piece in pieces:
        if kind == "newline" and not (line and line[-1][1] == "\\"):
            formatter.line(line)
            line = []
        else:
            line.append((kind, piece))
    formatter.line(line)
    return formatter.text()


class _Formatter:
    def __init__(self) -> None:
        self._out: list[str] = []
        self._braces = 0
        self._brackets = 0
        self._continues = False
        self._shift = 0

    def text(self) -> str:
        while self._out and not self._out[-1]:
            self._out.pop()
        return "".join(f"{line}\n" for line in self._out)

    def line(self, pieces: list[tuple[str, str]]) -> None:
        """Format one line and remember what it opens."""
        raw = "".join(p for _, p in pieces).rstrip()
        code = [(k, p) for k, p in pieces if k not in ("space", "comment")]
        if not raw:
            if self._out and self._out[-1]:
                self._out.append("")
            return
        if code and code[0][1] == "#" and not self._brackets:
            self._out.append(raw)
            return
        if any(p == "\\" for _, p in code):
            self._out.append(raw)
        else:
            self._out.append(self._indented(pieces, code, raw))
        self._follow(code)

    def _indented(self, pieces: list[tuple[str, str]], code: list[tuple[str, str]], raw: str) -> str:
        lead = pieces[0][1] if pieces[0][0] == "space" else ""
        was = len(lead.expandtabs(_TAB))
        if self._continues:
            indent = max(was + self._shift, 0)
        else:
            closers = 0
            while closers < len(code) and code[closers][1] == "}":
                closers += 1
            indent = max(self._braces - closers, 0) * _INDENT
            self._shift = indent - was
        return " " * indent + _spaced([p for p in pieces if p[0] != "space" or p is not pieces[0]])

    def _follow(self, code: list[tuple[str, str]]) -> None:
        for kind, piece in code:
            if kind == "other":
                self._braces = max(self._braces + (piece == "{") - (piece == "}"), 0)
                self._brackets = max(self._brackets + (piece in "([") - (piece in ")]"), 0)
        if code:
            self._continues = self._brackets > 0 or code[-1][1] not in (";", "{", "}", ":")


def _spaced(pieces: list[tuple[str, str]]) -> str:
    """The tokens of a line with the blanks that belong between them."""
    out: list[str] = []
    before = ""
    space = ""
    for kind, piece in pieces:
        if kind == "space":
            space = piece.replace("\t", " ")
            continue
        if out:
            out.append(space if kind == "comment" and space else _gap(before, piece, space))
        out.append(piece)
        before, space = piece, ""
    return "".join(out).rstrip()


def _gap(before: str, piece: str, space: str) -> str:
    if piece in (",", ";") and before not in ("(", ","):
        return ""
    if "..." in (before, piece):
        return " "
    if before == "," or (before == ";" and piece not in (";", ")")):
        return space or " "
    if (before in _BEFORE_BRACKET and piece == "(") or (piece == "{" and before in (")", "else", "do")):
        return " "
    if before == "}" and piece in ("else", "while"):
        return " "
    return space
