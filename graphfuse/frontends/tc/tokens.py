"""Tokens: one compiled expression cuts a file into C11 preprocessing tokens plus `@` and `...` as an operator."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from graphfuse.frontends.tc.diagnostics import Reporter
from graphfuse.frontends.tc.source import Source, Span

if TYPE_CHECKING:
    from graphfuse.frontends.tc.macros import Macro

Kind = Literal["name", "number", "string", "char", "punct", "other", "end"]

_UCN = r"\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8}"
# a dot that begins an ellipsis is no part of a number, so `0...32` is three tokens
_MASTER = re.compile(
    rf"""(?P<space>[ \t\v\f]+)
      | (?P<name>(?:[A-Za-z_$\x80-\U0010ffff]|{_UCN})(?:[\w$\x80-\U0010ffff]|{_UCN})*)
      | (?P<number>\.?[0-9](?:[eEpP][-+]|[\w$]|\.(?!\.\.))*)
      | (?P<newline>\n)
      | (?P<comment>//[^\n]*|/\*[\s\S]*?\*/)
      | (?P<open_comment>/\*[\s\S]*)
      | (?P<punct>\.\.\.|<<=|>>=|%:%:|<<|>>|<=|>=|==|!=|&&|\|\||\+\+|--|->|\+=|-=|\*=|/=|%=|&=|\^=|\|=|\#\#
                 |<:|:>|<%|%>|%:|[-+*/%&|^~!<>=?:;,.()\[\]{{}}@\#])
      | (?P<string>"(?:[^"\\\n]|\\.)*")
      | (?P<char>'(?:[^'\\\n]|\\.)+')
      | (?P<open_string>"[^\n]*)
      | (?P<other>[\s\S])""",
    re.VERBOSE,
)
_UCN_TEXT = re.compile(_UCN)
_DIGRAPHS = {"<:": "[", ":>": "]", "<%": "{", "%>": "}", "%:": "#", "%:%:": "##"}
_KINDS: dict[str, Kind] = {
    "name": "name", "number": "number", "punct": "punct", "string": "string", "char": "char",
    "other": "other", "open_string": "other",
}  # fmt: skip


@dataclass(slots=True, eq=False)
class Token:
    """One token. `bol`: first of its line; `space`: blanks before it; `origin`: the macro it came out of."""

    kind: Kind
    text: str
    source: Source
    pos: int
    end: int
    bol: bool = False
    space: bool = False
    origin: Expansion | None = None
    hidden: frozenset[str] | None = None
    """Macros it must not be replaced by again."""

    @property
    def outermost(self) -> Token:
        """The token of the user's file it comes from: itself, or the macro name that was replaced."""
        token = self
        while token.origin is not None:
            token = token.origin.call
        return token

    @property
    def span(self) -> Span:
        """Where it is in the user's file."""
        token = self.outermost
        return Span(token.source, token.pos, token.end, token.pos)

    @property
    def backtrace(self) -> tuple[tuple[str, Span], ...]:
        """A note for each macro it came out of, innermost first."""
        notes: list[tuple[str, Span]] = []
        token = self
        while token.origin is not None:
            written = Span(token.source, token.pos, token.end, token.pos)
            notes.append((f"expanded from {token.origin.macro.described}", written))
            token = token.origin.call
        return tuple(notes)

    def copy(self, *, origin: Expansion | None, hidden: frozenset[str] | None, space: bool) -> Token:
        """The same text out of a macro."""
        return Token(self.kind, self.text, self.source, self.pos, self.end, space=space, origin=origin, hidden=hidden)


@dataclass(frozen=True, slots=True, eq=False)
class Expansion:
    """One replacement of a macro: which, and the name token that was replaced."""

    macro: Macro
    call: Token


def cut(code: str) -> Iterator[tuple[str, int, int]]:
    """Where the tokens, comments, blanks and line ends of a text without splices are: kind, start, end."""
    for m in _MASTER.finditer(code):
        assert m.lastgroup is not None
        yield m.lastgroup, m.start(), m.end()


def tokenize(source: Source, report: Reporter) -> list[Token]:
    """Cut a file into tokens; the last one is `end`."""
    out: list[Token] = []
    bol, space = True, False
    code = source.code
    for m in _MASTER.finditer(code):
        group = m.lastgroup
        assert group is not None
        if group == "space":
            space = True
            continue
        if group == "newline":
            bol, space = True, False
            continue
        text = m.group()
        if group in ("comment", "open_comment"):
            space = True
            if group == "open_comment":
                at = Span(source, m.start(), m.start() + 2, m.start())
                report.error("comment", "comment is never closed: expected '*/' before the end of the file", at)
            continue
        if group == "punct" and text in _DIGRAPHS:
            text = _DIGRAPHS[text]
        if group == "name" and "\\" in text:
            text = _UCN_TEXT.sub(_universal, text)
        out.append(Token(_KINDS[group], text, source, m.start(), m.end(), bol, space))
        bol = space = False
    out.append(Token("end", "end of file", source, len(code), len(code), bol=True))
    return out


def _universal(m: re.Match[str]) -> str:
    code = int(m[0][2:], 16)
    return chr(code) if 0x80 <= code < 0x110000 and not 0xD800 <= code < 0xE000 else m[0]


def detokenize(tokens: list[Token]) -> str:
    """Tokens as text: one blank where there were blanks."""
    return "".join((" " if t.space and i else "") + t.text for i, t in enumerate(tokens))
