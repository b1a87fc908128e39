"""A cursor over tokens with the errors every part of the grammar reports; what is a type name here."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import NoReturn, TypeVar

from graphfuse.frontends.tc.cuda_words import CUDA_WORDS
from graphfuse.frontends.tc.diagnostics import FixIt, Note, Reporter
from graphfuse.frontends.tc.source import Span
from graphfuse.frontends.tc.tokens import Token

MAX_DEPTH = 200
"""Nesting of statements and expressions, brackets counting for BRACKET; a level is at most three Python frames."""
BRACKET = 3
"""Levels that a bracket takes: statement, chain of operators, operand."""

TYPE_WORDS = frozenset(
    ("void", "_Bool", "char", "short", "int", "long", "float", "double", "half", "signed", "unsigned", "_Complex")
)
QUALIFIERS = frozenset(("const", "volatile", "restrict", "__restrict__", "__restrict", "__constant__"))
STORAGE = frozenset(
    ("__global__", "static", "extern", "inline", "register", "auto", "typedef", "_Noreturn", "constexpr")
)
AGGREGATES = frozenset(("struct", "union", "enum"))
SPECIFIERS = TYPE_WORDS | QUALIFIERS | STORAGE | AGGREGATES
STATEMENTS = frozenset(
    ("if", "else", "for", "while", "do", "switch", "case", "default", "break", "continue", "return", "goto")
)
KEYWORDS = SPECIFIERS | STATEMENTS | {"sizeof", "_Alignof", "_Generic", "_Static_assert", "bitcast"}
TYPE_NAMES = frozenset(
    ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bf16", "fp8e4m3", "fp8e5m2")
)
"""Type names that a declaration may shadow, as a typedef's."""
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_AFTER_DECLARED = frozenset(("=", "[", ";", ",", ")", "("))

T = TypeVar("T")


class SyntaxFaultError(Exception):
    """A reported syntax error; whoever can go on catches it."""


class Reader:
    """The tokens from here on, and the scopes' type names."""

    def __init__(self, tokens: list[Token], report: Reporter) -> None:
        self.tokens = tokens
        self.index = 0
        self.next = tokens[0]
        self.report = report
        self.open_brackets = 0
        self.depth = 0
        self._types: ChainMap[str, bool] = ChainMap(dict.fromkeys(TYPE_NAMES, True))

    # tokens

    def take(self) -> Token:
        """The next token, which is left behind unless it is the end."""
        token = self.next
        if token.kind != "end":
            self.index += 1
            self.next = self.tokens[self.index]
        return token

    def at(self, text: str) -> bool:
        """Whether `text` is next."""
        return self.next.text == text

    def peek(self, ahead: int = 1) -> Token:
        """A token further on."""
        at = self.index + ahead
        return self.tokens[at] if at < len(self.tokens) else self.tokens[-1]

    def accept(self, text: str) -> Token | None:
        """Take the next token if it is `text`."""
        return self.take() if self.next.text == text and self.next.kind != "string" else None

    def expect(self, text: str, why: str = "") -> Token:
        """Take `text`, or report that it is missing."""
        if self.next.text == text:
            return self.take()
        return self.fail(f"expected {text!r}{why and f' {why}'}, found {shown(self.next)}")

    def bracketed(
        self, opening: str, parse: Callable[[], T], why: str = "", *, nested: bool = False
    ) -> tuple[T, Token]:
        """Take brackets and what `parse` finds in them; also gives the closing one. `nested` brackets have a limit."""
        opened = self.expect(opening, why)
        self.open_brackets += 1
        with self.deeper(BRACKET * nested):
            inner = parse()
        return inner, self.closing(_CLOSING[opening], opened)

    def items(
        self, opening: str, item: Callable[[], T], where: str, why: str = "", *, nested: bool = False
    ) -> tuple[tuple[T, ...], Token]:
        """Take brackets and the items in them; also gives the closing one."""
        closing = _CLOSING[opening]
        return self.bracketed(opening, lambda: self.listed(closing, item, where), why, nested=nested)

    def listed(self, closing: str, item: Callable[[], T], where: str) -> tuple[T, ...]:
        """Take what is in front of a closing bracket: items with commas between them, and maybe behind the last."""
        out: list[T] = []
        while self.next.text != closing:
            out.append(item())
            if self.next.text != closing and not self.accept(","):
                self.fail(f"expected ',' or {closing!r} {where}, found {shown(self.next)}")
        return tuple(out)

    def closing(self, text: str, opening: Token) -> Token:
        """Take the bracket that closes `opening`."""
        if self.next.text == text:
            self.open_brackets -= 1
            return self.take()
        note = Note(f"to match this {opening.text!r}", opening.span)
        return self.fail(f"expected {text!r}, found {shown(self.next)}", notes=[note])

    def fail(self, message: str, at: Token | None = None, notes: list[Note] | None = None) -> NoReturn:
        """Report a syntax error and leave the construct."""
        self.report.error("syntax", message, at or self.next, notes or ())
        raise SyntaxFaultError

    def semicolon(self, after: str) -> Token:
        """Take `;`. Where a line ends without one it is reported, and taken as read."""
        if self.next.text == ";":
            return self.take()
        before = self.tokens[self.index - 1]
        if self.next.bol or self.next.text == "}" or self.next.kind == "end":
            missing_semicolon(self.report, before, after, self.next)
            return before
        if before.text in CUDA_WORDS:
            self.fail(f"{before.text!r} is not defined: {CUDA_WORDS[before.text]}", before)
        return self.fail(f"expected ';' after {after}, found {shown(self.next)}")

    @contextmanager
    def deeper(self, levels: int = 1) -> Generator[None]:
        """Deeper into the grammar, and up again."""
        self.depth += levels
        try:
            if self.depth > MAX_DEPTH:
                self.fail("nested too deeply: expected at most 60 brackets or 200 operators and statements")
            yield
        finally:
            self.depth -= levels

    # type names

    def push_scope(self) -> None:
        """Open a scope."""
        self._types = self._types.new_child()

    def pop_scope(self) -> None:
        """Close a scope."""
        self._types = self._types.parents

    def declare(self, name: str, *, is_type: bool) -> None:
        """Remember whether a name is a type from here to the end of its scope."""
        self._types[name] = is_type

    def is_type_name(self, name: str) -> bool:
        """Whether a name is a typedef's here."""
        return self._types.get(name, False)

    def starts_type(self, token: Token) -> bool:
        """Whether a token begins a type."""
        return token.kind == "name" and (token.text in SPECIFIERS or self.is_type_name(token.text))

    def is_unknown(self, token: Token) -> bool:
        """Whether a token is a name that is not declared, in front of it at least."""
        return token.kind == "name" and token.text not in KEYWORDS and token.text not in self._types

    def starts_unknown_type(self) -> bool:
        """Whether an unknown name stands where a type must: in front of a name and what may follow a declared one."""
        if not self.is_unknown(self.next):
            return False
        ahead = 1
        while (self.peek(ahead).text == "*" or self.peek(ahead).text in SPECIFIERS) and not self.peek(ahead).bol:
            ahead += 1
        name, follower = self.peek(ahead), self.peek(ahead + 1)
        if name.kind != "name" or name.text in KEYWORDS or name.bol:
            return False
        return follows_declared(follower) and (follower.text != "(" or not self.depth)


def follows_declared(token: Token) -> bool:
    """Whether a token is what may stand behind a name that is declared."""
    return token.text in _AFTER_DECLARED or (token.kind == "name" and token.text.startswith("__"))


def shown(token: Token) -> str:
    """A token as messages name it."""
    return "the end of the file" if token.kind == "end" else repr(token.text)


def missing_semicolon(report: Reporter, before: Token, after: str, found: Token) -> None:
    """Report that a `;` is missing behind a token."""
    token = before.outermost
    at = Span(token.source, token.end, token.end, token.end)
    message = f"missing ';': expected one after {after}, found {'the end of the line' if found.bol else shown(found)}"
    if report.pedantic:
        report.error("missing-semicolon", message, at, (), [FixIt(at, ";")])
    else:
        report.warning("missing-semicolon", message, at, (), [FixIt(at, ";")])
