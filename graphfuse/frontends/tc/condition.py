"""The condition of `#if`: an integer expression over preprocessing tokens, computed while it is read.

Numbers are 64-bit; names that are left are 0; `&&`, `||` and `?:` do not evaluate what they skip.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphfuse.frontends.tc.constants import (
    COMPARISONS,
    LEVELS,
    FloatLiteral,
    IntLiteral,
    int_binary,
    parse_char,
    parse_number,
    wrap,
)
from graphfuse.frontends.tc.tokens import Token

_PRECEDENCE = {op: level for level, ops in enumerate(LEVELS) for op in ops}
MAX_DEPTH = 50
"""Of brackets, signs and choices: a level is up to twelve Python frames, one for each precedence."""


class ConditionError(Exception):
    """The condition has no value; `at` is the token where that shows."""

    def __init__(self, message: str, at: Token) -> None:
        super().__init__(message)
        self.message, self.at = message, at


@dataclass(frozen=True, slots=True)
class _Value:
    value: int
    signed: bool = True


def evaluate_integer(tokens: list[Token]) -> int:
    """The value of expanded tokens, of which the last is an end."""
    reader = _Reader(tokens)
    value = reader.ternary(live=True)
    if reader.next.kind != "end":
        raise ConditionError(f"#if: expected an operator, found {reader.next.text!r}", reader.next)
    return value.value


class _Reader:
    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    @property
    def next(self) -> Token:
        return self._tokens[self._at]

    def _take(self) -> Token:
        token = self._tokens[self._at]
        self._at += token.kind != "end"
        return token

    def ternary(self, *, live: bool) -> _Value:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ConditionError(f"#if: expression is nested deeper than {MAX_DEPTH}", self.next)
        value = self._binary(0, live=live)
        if self.next.text == "?":
            self._take()
            a = self.ternary(live=live and value.value != 0)
            self._expect(":")
            b = self.ternary(live=live and value.value == 0)
            value = _Value((a if value.value else b).value, a.signed and b.signed)
        self._depth -= 1
        return value

    def _binary(self, level: int, *, live: bool) -> _Value:
        left = self._unary(live=live)
        while (mine := _PRECEDENCE.get(self.next.text, -1)) >= level and self.next.kind == "punct":
            op = self._take()
            is_logical = op.text in ("&&", "||")
            decided = is_logical and (left.value != 0) == (op.text == "||")
            right = self._binary(mine + 1, live=live and not decided)
            if is_logical:
                left = _Value(int((left if decided else right).value != 0))
            else:
                left = _combine(op, left, right, live=live)
        return left

    def _unary(self, *, live: bool) -> _Value:
        token = self._take()
        if token.text in ("+", "-", "~", "!"):
            self._depth += 1
            if self._depth > MAX_DEPTH:
                raise ConditionError(f"#if: expression is nested deeper than {MAX_DEPTH}", token)
            x = self._unary(live=live)
            self._depth -= 1
            if token.text == "!":
                return _Value(int(x.value == 0))
            value = {"+": x.value, "-": -x.value, "~": ~x.value}[token.text]
            return _Value(wrap(value, 64, signed=x.signed), x.signed)
        if token.text == "(":
            value = self.ternary(live=live)
            self._expect(")")
            return value
        return _literal(token)

    def _expect(self, text: str) -> None:
        token = self._take()
        if token.text != text:
            raise ConditionError(f"#if: expected {text!r}, found {_shown(token)}", token)


def _literal(token: Token) -> _Value:
    """What one token stands for; a name that is left is 0."""
    found: IntLiteral | FloatLiteral | int | str = 0
    if token.kind == "number":
        found = parse_number(token.text)
    elif token.kind == "char":
        found = parse_char(token.text)
    elif token.kind != "name":
        raise ConditionError(f"#if: expected an integer expression, found {_shown(token)}", token)
    if isinstance(found, str):
        raise ConditionError(f"#if: {found}", token)
    if isinstance(found, FloatLiteral):
        raise ConditionError(f"#if: expected an integer, found {token.text!r}", token)
    return _Value(found) if isinstance(found, int) else _Value(found.value, found.signed or found.bits == 32)


def _shown(token: Token) -> str:
    return "the end of the line" if token.kind == "end" else repr(token.text)


def _combine(op: Token, a: _Value, b: _Value, *, live: bool) -> _Value:
    signed = a.signed and b.signed
    left, right = (wrap(x.value, 64, signed=signed) for x in (a, b))
    value = int_binary(op.text, left, right, 64, signed=signed)
    if isinstance(value, str):
        if live:
            raise ConditionError(f"#if: {value}", op)
        value = 0
    return _Value(value, signed or op.text in COMPARISONS)
