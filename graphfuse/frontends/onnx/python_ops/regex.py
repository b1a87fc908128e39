r"""Regular expressions that take a time linear in the text, whatever the pattern: `RegexFullMatch` means RE2's.

A pattern becomes a program of a few kinds of steps (Thompson's construction). A text is read once, with all places of
the program that it may be at; what follows such a set on a character is remembered, which makes it a lazy automaton.
Classes are ASCII, `$` is the end of the text, and what RE2 refuses, because it cannot be linear, is refused:
references to groups, lookaround, atomic groups. Python's parser reads the pattern; of what only RE2 has, `[:alpha:]`
and `(?<name>` are understood.
"""

from __future__ import annotations

import importlib
import re
import warnings
from collections.abc import Callable
from typing import Any

# what Python's own engine is made from: it has no other name
_parser: Any = importlib.import_module("re._parser")
sre: Any = importlib.import_module("re._constants")

MOST_STEPS = 10_000
"""Of a program. Counted repetitions are written out."""
MOST_KNOWN = 10_000
"""Transitions that are remembered; then all are forgotten."""

Test = Callable[[str], bool]
State = frozenset[int]
START, NEWLINE, WORD, OTHER = range(4)
"""What is in front of a character, as far as `^` and `\b` want to know."""

_POSIX = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "ascii": r"\x00-\x7f", "blank": r"\t ", "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9", "graph": "!-~", "lower": "a-z", "print": " -~", "punct": r"!-/:-@\[-`{-~", "space": r"\t\n\v\f\r ",
    "upper": "A-Z", "word": "0-9A-Za-z_", "xdigit": "0-9A-Fa-f",
}  # fmt: skip


class PatternError(ValueError):
    """A pattern that is none, or cannot be matched in linear time."""


class Pattern:
    """A compiled pattern."""

    def __init__(self, text: str) -> None:
        self._chars: list[Test | None] = []
        """By step: what it takes, None if it takes no character."""
        self._next: list[list[int]] = []
        """By step: where it goes on."""
        self._asserts: dict[int, Any] = {}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = _parser.parse(_as_python(text), re.ASCII)
            self._begin = self._add()
            end = self._sequence(tree, self._begin, tree.state.flags)
        except (re.error, RecursionError, OverflowError) as e:
            raise PatternError("nested too deeply" if isinstance(e, RecursionError) else str(e)) from None
        self._end = end
        self._known: dict[tuple[State, int, str], State] = {}

    def fullmatch(self, text: str) -> bool:
        """Whether all of a text matches."""
        state, before = frozenset((self._begin,)), START
        for c in text:
            key = state, before, c
            if (after := self._known.get(key)) is None:
                if len(self._known) >= MOST_KNOWN:
                    self._known.clear()
                found = self._closure(state, before, c)
                after = frozenset(n for s in found if (t := self._chars[s]) is not None and t(c) for n in self._next[s])
                self._known[key] = after
            if not after:
                return False
            state = after
            before = _kind(c) if self._asserts else OTHER
        return self._end in self._closure(state, before, "")

    def _closure(self, state: State, before: int, after: str) -> set[int]:
        """All steps that can be reached without a character; `after` is the next one, empty at the end."""
        seen = set(state)
        work = list(state)
        while work:
            s = work.pop()
            if self._chars[s] is None and (s not in self._asserts or _holds(self._asserts[s], before, after)):
                new = [n for n in self._next[s] if n not in seen]
                seen.update(new)
                work += new
        return seen

    # the program

    def _add(self, test: Test | None = None) -> int:
        if len(self._next) >= MOST_STEPS:
            raise PatternError(f"expected a pattern of up to {MOST_STEPS} steps, found more")
        self._chars.append(test)
        self._next.append([])
        return len(self._next) - 1

    def _sequence(self, items: Any, at: int, flags: int) -> int:
        """Steps for items one after another, from a step on; where they end."""
        for op, value in items:
            at = self._item(op, value, at, flags)
        return at

    def _item(self, op: Any, value: Any, at: int, flags: int) -> int:
        match op:
            case sre.LITERAL | sre.NOT_LITERAL | sre.ANY | sre.IN:
                return self._taking(_test(op, value, flags), at)
            case sre.BRANCH:
                end = self._add()
                for branch in value[1]:
                    self._next[self._sequence(branch, self._after(at), flags)].append(end)
                return end
            case sre.SUBPATTERN:
                _, added, removed, items = value
                return self._sequence(items, at, (flags | added) & ~removed)
            case sre.MAX_REPEAT | sre.MIN_REPEAT:
                least, most, items = value
                return self._repeated(least, most, items, at, flags)
            case sre.AT:
                at = self._after(at)
                self._asserts[at] = value, bool(flags & re.MULTILINE)
                return self._after(at)
            case _:
                raise PatternError(f"{str(op).lower()} is none of RE2's")

    def _repeated(self, least: int, most: Any, items: Any, at: int, flags: int) -> int:
        for _ in range(least):
            at = self._sequence(items, self._after(at), flags)
        if most is sre.MAXREPEAT:
            loop = self._after(at)
            self._next[self._sequence(items, self._after(loop), flags)].append(loop)
            return self._after(loop)
        end = self._add()
        for _ in range(most - least):
            self._next[at].append(end)
            at = self._sequence(items, self._after(at), flags)
        self._next[at].append(end)
        return end

    def _after(self, at: int) -> int:
        new = self._add()
        self._next[at].append(new)
        return new

    def _taking(self, test: Test, at: int) -> int:
        step = self._add(test)
        self._next[at].append(step)
        return self._after(step)


def _test(op: Any, value: Any, flags: int) -> Test:
    """What one character has to be."""
    plain = _plain(op, value, flags)
    if not flags & re.IGNORECASE:
        return plain
    # any case of it, but for what must not be any of them
    negated = op is sre.NOT_LITERAL or (op is sre.IN and value[0][0] is sre.NEGATE)
    return lambda c: (all if negated else any)(map(plain, {c, c.lower(), c.upper()}))


def _plain(op: Any, value: Any, flags: int) -> Test:
    match op:
        case sre.LITERAL:
            return lambda c: c == chr(value)
        case sre.NOT_LITERAL:
            return lambda c: c != chr(value)
        case sre.ANY:
            return lambda c: c != "\n" or bool(flags & re.DOTALL)
        case sre.RANGE:
            return lambda c: value[0] <= ord(c[0]) <= value[1]
        case sre.CATEGORY:
            return _CATEGORIES[value]
        case _:
            assert op is sre.IN, "a set"
            negated = value[0][0] is sre.NEGATE
            tests: list[Test] = [_plain(op, inner, flags) for op, inner in value[negated:]]
            return lambda c: any(t(c) for t in tests) != negated


def _one_of(text: str, *, wanted: bool = True) -> Test:
    return lambda c: (c in text and c != "") is wanted


_DIGITS, _SPACE = "0123456789", "\t\n\f\r "
_WORDS = _DIGITS + "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_"
_CATEGORIES: dict[Any, Test] = {
    sre.CATEGORY_DIGIT: _one_of(_DIGITS), sre.CATEGORY_NOT_DIGIT: _one_of(_DIGITS, wanted=False),
    sre.CATEGORY_SPACE: _one_of(_SPACE), sre.CATEGORY_NOT_SPACE: _one_of(_SPACE, wanted=False),
    sre.CATEGORY_WORD: _one_of(_WORDS), sre.CATEGORY_NOT_WORD: _one_of(_WORDS, wanted=False),
}  # fmt: skip


def _kind(c: str) -> int:
    return NEWLINE if c == "\n" else WORD if c in _WORDS else OTHER


def _holds(assertion: tuple[Any, bool], before: int, after: str) -> bool:
    where, by_line = assertion
    if where is sre.AT_BEGINNING:
        return before == START or (by_line and before == NEWLINE)
    if where is sre.AT_BEGINNING_STRING:
        return before == START
    if where is sre.AT_END:
        return not after or (by_line and after == "\n")
    if where is sre.AT_END_STRING:
        return not after
    is_boundary = (before == WORD) != (after != "" and after in _WORDS)
    return is_boundary is (where is sre.AT_BOUNDARY)


def _as_python(text: str) -> str:
    """A pattern of RE2 as Python writes it."""
    out: list[str] = []
    at, opened = 0, -1
    """Where the set that we are in was opened."""
    while at < len(text):
        c = text[at]
        word = re.compile(r"\[:(\^?)([a-z]+):\]").match(text, at) if opened >= 0 else None
        if c == "\\":
            out.append(text[at : at + 2].replace(r"\z", r"\Z"))
            at += 2
        elif word is not None:
            if word[1] or word[2] not in _POSIX:
                raise PatternError(f"there is no class {word[0]}")
            out.append(_POSIX[word[2]])
            at = word.end()
        else:
            if opened < 0 and text.startswith("{,", at):
                c = r"\{"  # no repetition
            elif opened < 0 and c == "[":
                opened = at + 1 + text.startswith("^", at + 1)
            elif c == "]" and at > opened >= 0:
                opened = -1
            out.append("(?P<" if opened < 0 and re.compile(r"\(\?<[A-Za-z_]").match(text, at) else c)
            at += 3 if out[-1] == "(?P<" else 1
    return "".join(out)
