"""What tokens are to each other where nobody has parsed them: statements, brackets, operators, and the blanks between.

A file is formatted while it has errors and with macros in it that nobody expands, so everything here is a guess that
is right for what compiles, and changes no token for what does not.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TypeVar

from graphfuse.frontends.tc.parse_expr import ASSIGNMENTS, PRECEDENCE, PREFIXES
from graphfuse.frontends.tc.pieces import Line, Piece
from graphfuse.frontends.tc.reader import KEYWORDS, SPECIFIERS, STATEMENTS, TYPE_NAMES
from graphfuse.frontends.tc.tokens import cut

HEADS = frozenset(("if", "for", "while", "switch"))
_LIKE_CALLS = frozenset(("sizeof", "_Alignof", "_Generic", "_Static_assert", "bitcast"))
_AHEAD = 200
"""Tokens of a line that are looked at for what one of them is."""
_BINARY = ASSIGNMENTS | PRECEDENCE.keys()
_TIGHT_BEFORE = frozenset(("comma", ";", "postfix", "mask?", "label:", "generic:"))
_TIGHT_BEHIND = frozenset(("unary", "mask?", "cast"))
_BEFORE_OPERANDS = frozenset(("binary", "?", "choice:", "generic:", "label:", "head-close", ";"))
_SPELLINGS = {"<:": "[", ":>": "]", "<%": "{", "%>": "}"}
_CLOSING = {")": "(", "]": "[", "}": "{"}

_T = TypeVar("_T")


@dataclass(slots=True, eq=False)
class Item:
    """A piece with what it is: `role`, the blank in front of it, brackets it opens (`pushes`) and closes (`pops`).

    `newline`, `blank`: it begins a line, with an empty line above. `starts`: it begins a statement. `depth`: brackets
    around it inside of its statement. `short`: a block that stands on one line with one statement.
    """

    piece: Piece
    newline: bool
    blank: bool
    gap: str = ""
    role: str = ""
    depth: int = 0
    pushes: bool = False
    pops: int = 0
    starts: bool = False
    short: bool = False
    level: int = 0
    """The level of its statement, which the formatter finds."""

    @property
    def text(self) -> str:
        """The piece as it is written."""
        return self.piece.text


@dataclass(slots=True)
class _Bracket:
    text: str
    role: str
    ternaries: int = 0
    words: int = 0
    """Tokens in it that are no types: none makes a cast of it, as a pointer does."""
    tokens: int = 0
    pointer: bool = False


@dataclass(slots=True)
class _State:
    """Where the reader is; copied at each `#if`, and taken up again at its `#else`."""

    brackets: list[_Bracket] = field(default_factory=list[_Bracket])
    before: Item | None = None
    """The token in front."""
    operand: bool = False
    """Whether it ends an operand, so that an infix operator may follow."""
    start: bool = True
    """Whether a statement begins."""
    leading: bool = True
    """Whether nothing but words stands in the statement so far: a `*` behind them makes a pointer."""
    head: str = ""
    """The word of an `if` or a loop whose brackets come next."""
    enum: bool = False
    ternaries: int = 0

    def copy(self) -> _State:
        return replace(self, brackets=[replace(b) for b in self.brackets])


class Spacer:
    """Reads lines in order and says what their pieces are."""

    def __init__(self, lines: list[Line]) -> None:
        self._s = _State()
        self._branches: list[_State] = []
        self._types = frozenset(_typedefs(lines)) | TYPE_NAMES

    def directive(self, word: str) -> None:
        """Branches of an `#if` begin alike."""
        self._s = branch(word, self._branches, self._s, _State.copy)

    def line(self, line: Line, *, blank: bool) -> list[Item]:
        """The pieces of a line that is no directive."""
        items = [Item(p, newline=i == 0, blank=blank and i == 0) for i, p in enumerate(line.pieces)]
        tokens = [item for item in items if not item.piece.is_comment]
        fresh = True
        for i, item in enumerate(tokens):
            following = [t.text for t in tokens[i + 1 : i + _AHEAD]] if item.text == "*" else []
            self._token(item, following, fresh=fresh)
            fresh = False
        before: Item | None = None
        for item in items:
            if item.piece.is_comment:
                item.gap = "" if before is not None and before.text in ("(", "[") else " "
            elif before is not None and before.piece.is_comment:
                item.gap = "" if item.text in (")", "]", ",", ";") else " "
            before = item
        _find_short_blocks(items)
        return items

    def _token(self, item: Item, following: list[str], *, fresh: bool) -> None:
        s = self._s
        text = _SPELLINGS.get(item.text, item.text)
        item.depth = len(_inner(s.brackets))
        if not s.start and fresh and self._begins_anew(item, text, following):
            self._begin()
        if not s.start and not _inner(s.brackets) and text in STATEMENTS:
            self._begin()
        item.starts = s.start
        s.start = False
        item.role = self._role(item, text, following)
        if s.before is not None:
            item.gap = self._gap(s.before, item)
            if not item.gap and not _stay_apart(s.before.text, item.text):
                item.gap = " "
        self._follow(item, text)

    def _begins_anew(self, item: Item, text: str, following: list[str]) -> bool:
        """Whether a line begins a statement though the one before has no end: a macro's, or one without its `;`."""
        s = self._s
        if _inner(s.brackets) or not s.operand or text in ("__multipleof", "__attribute__"):
            return False
        if text == "*":
            return following[:1] == ["?"] or _stores(following)
        return item.piece.kind in ("name", "number", "string", "char") or text == "{"

    def _begin(self) -> None:
        s = self._s
        s.start, s.leading, s.operand = True, True, False
        s.head, s.enum, s.ternaries = "", False, 0

    # roles

    def _role(self, item: Item, text: str, following: list[str]) -> str:
        s = self._s
        kind = item.piece.kind
        top = s.brackets[-1] if s.brackets else None
        if kind == "name":
            return "type" if text in SPECIFIERS or text in self._types else "keyword" if text in KEYWORDS else "name"
        if kind != "punct":
            return "operand" if kind in ("number", "string", "char") else "other"
        if text in ("++", "--"):
            return "postfix" if s.operand and not item.newline else "unary"
        if text == "?":
            return "mask?" if s.before is not None and s.before.role == "unary" and s.before.text == "*" else "?"
        if text == ":":
            return self._colon(top)
        if text == "<" and s.before is not None and s.before.text == "bitcast":
            return "open"
        if text == ">" and top is not None and top.text == "<":
            return "close"
        if text in PREFIXES and not s.operand:
            is_pointer = text == "*" and s.before is not None and s.before.role in ("type", "pointer")
            return "pointer" if is_pointer else "unary"
        if text == "*" and self._declares(item, following):
            return "pointer"
        if text in PREFIXES and self._follows_cast(item):
            return "unary"
        if text in _BINARY:
            return "binary"
        if text in "([{":
            return "open"
        return "close" if text in _CLOSING else {",": "comma", ";": ";"}.get(text, "other")

    def _colon(self, top: _Bracket | None) -> str:
        s = self._s
        open_choice = top.ternaries if top is not None and top.role != "block" else s.ternaries
        if open_choice:
            return "choice:"
        if top is not None and top.role != "block":
            return "slice:" if top.text == "[" else "generic:"
        return "label:"

    def _declares(self, item: Item, following: list[str]) -> bool:
        """Whether a `*` behind a name makes a pointer: the name is a type's that nobody has declared here."""
        s = self._s
        if s.before is None or s.before.role != "name":
            return False
        behind = next((t for t in following if t != "*"), "")
        if behind in (")", "[", ">", "<:", "restrict", "const", "__restrict__", "__constant__"):
            return True
        if not (behind[:1].isalpha() or behind[:1] in "_$"):
            return False
        top = s.brackets[-1] if s.brackets else None
        if top is not None and top.role != "block":
            return top.role in ("params", "for") and top.words <= 1
        return s.leading

    def _follows_cast(self, item: Item) -> bool:
        """Whether an operator behind `)` has one operand. `(TYPE) * x` is either: what is written decides."""
        before = self._s.before
        if before is None or before.role == "cast":
            return before is not None
        return before.role == "maybe-cast" and not (item.piece.space or item.newline)

    # blanks

    def _gap(self, before: Item, item: Item) -> str:
        role, text, behind = item.role, item.text, before.role
        if text in ("}", "%>") and before.text in ("{", "<%"):
            return ""
        if behind == "open" or role == "close":
            brace = before.text if behind == "open" else text
            return " " if brace in ("{", "}", "<%", "%>") and (self._s.enum or self._closes_block(text)) else ""
        if role in _TIGHT_BEFORE or behind in _TIGHT_BEHIND:
            return ""
        if behind == "comma":
            return " "
        if role == "slice:" or behind in ("slice:", "pointer") or text in (".", "->") or before.text in (".", "->"):
            return ""
        if role == "open":
            return self._gap_before_open(before, item)
        if behind == "maybe-cast" and role in ("name", "operand", "type", "unary"):
            return " " if item.piece.space else ""
        if "other" in (role, behind):
            return " " if item.piece.space else ""
        return "" if role == "choice:" and behind == "?" else " "

    def _closes_block(self, text: str) -> bool:
        brace = next((b for b in reversed(self._s.brackets) if b.text == "{"), None)
        return text in ("}", "%>") and (brace is None or brace.role == "block")

    def _gap_before_open(self, before: Item, item: Item) -> str:
        text, behind = item.text, before.role
        if text in ("{", "<%"):
            return " "
        if text in ("<", "[", "<:"):
            return " " if behind in _BEFORE_OPERANDS else ""
        if behind in ("name", "mask") or before.text in _LIKE_CALLS:
            return ""
        if behind in ("close", "maybe-cast"):
            return " " if item.piece.space and before.text != ">" else ""
        return " "

    # what comes next

    def _follow(self, item: Item, text: str) -> None:
        s = self._s
        before, s.before = s.before, item
        top = s.brackets[-1] if s.brackets else None
        if top is not None and item.role != "close":
            top.tokens += 1
            top.words += item.role not in ("type", "pointer") and not (item.role == "open" and text == "[")
            top.pointer |= item.role == "pointer"
            if item.role == "comma" and top.role == "params":
                top.words = 0
        match item.role:
            case "open":
                self._open(item, text, before)
            case "close":
                self._close(item, text)
            case ";" if not _inner(s.brackets):
                self._begin()
            case "label:":
                self._begin()
            case "keyword" if text in ("else", "do"):
                self._begin()
            case _:
                s.operand = item.role in ("name", "operand", "postfix")
                s.ternaries += (not top or top.role == "block") * _choice(item)
                if top is not None:
                    top.ternaries += _choice(item)
                if text in HEADS and item.starts:
                    s.head = text
                s.enum |= text == "enum"
                s.leading &= item.role in ("name", "type", "pointer")

    def _open(self, item: Item, text: str, before: Item | None) -> None:
        s = self._s
        inner = _inner(s.brackets)
        behind, word = (before.role, before.text) if before is not None and not item.starts else ("", "")
        if text == "{":
            role = "list" if inner or s.enum or word in ("=", ",", "return") else "block"
        elif text == "(" and s.head and not inner:
            role = "for" if s.head == "for" else "head"
        elif text == "(" and behind == "mask?":
            role = "mask"
        elif text == "(" and (behind == "name" or word in _LIKE_CALLS or (behind, word) == ("close", ">")):
            role = "call" if s.brackets else "params"
        else:
            role = "group"
        s.brackets.append(_Bracket(text, role))
        item.pushes = True
        s.operand = s.leading = False
        if role == "block":
            item.role = role
            self._begin()

    def _close(self, item: Item, text: str) -> None:
        s = self._s
        opening = _CLOSING.get(text, "<")
        depth = next((n for n, b in enumerate(reversed(s.brackets), 1) if b.text == opening), 0)
        if not depth or (opening != "{" and depth > 1):
            s.operand = True
            return
        item.pops = depth
        closed = s.brackets[-depth]
        del s.brackets[-depth:]
        item.depth = len(_inner(s.brackets))
        s.operand = closed.role != "mask" and text != ">"
        if closed.role == "block":
            item.role = "block-close"
            self._begin()
        elif closed.role in ("head", "for"):
            item.role = "head-close"
            self._begin()
        elif closed.role in ("mask", "params"):
            item.role = closed.role
        elif closed.role == "group" and text == ")" and (closed.pointer or (closed.tokens and not closed.words)):
            item.role = "cast"
            s.operand = False
        elif closed.role == "group" and text == ")" and closed.tokens == closed.words == 1:
            item.role = "maybe-cast"


def branch(word: str, branches: list[_T], state: _T, copy: Callable[[_T], _T]) -> _T:
    """The state behind a directive: that in front of an `#if` is the one at the beginning of each of its branches."""
    if word in ("if", "ifdef", "ifndef"):
        branches.append(copy(state))
    elif word in ("else", "elif") and branches:
        return copy(branches[-1])
    elif word == "endif" and branches:
        branches.pop()
    return state


def _inner(brackets: list[_Bracket]) -> list[_Bracket]:
    """The brackets inside of a statement."""
    inside = next((n for n, b in enumerate(reversed(brackets)) if b.role == "block"), len(brackets))
    return brackets[len(brackets) - inside :]


def _stores(tokens: list[str]) -> bool:
    """Whether an assignment stands outside of brackets."""
    depth = 0
    for text in tokens:
        depth += (text in ("(", "[")) - (text in (")", "]"))
        if text == ";" or depth < 0:
            return False
        if depth == 0 and text in ASSIGNMENTS:
            return True
    return False


def _choice(item: Item) -> int:
    return {"?": 1, "choice:": -1}.get(item.role, 0)


def _typedefs(lines: list[Line]) -> Iterator[str]:
    """The names that a source makes names of types, wherever."""
    name, inside = "", False
    for line in lines:
        for piece in line.pieces:
            if piece.text == "typedef":
                inside = True
            elif piece.text == ";" and inside:
                yield name
                inside = False
            elif piece.kind == "name":
                name = piece.text


def _find_short_blocks(items: list[Item]) -> None:
    """Mark the blocks that stand on one line and hold one statement."""
    opening: Item | None = None
    ends = 0
    for item in items:
        if item.role == "block":
            opening, ends = item, 0
        elif item.piece.is_comment or item.role == "label:":
            opening = None
        elif item.role == "block-close" and opening is not None:
            opening.short = ends <= 1
            opening = None
        elif opening is not None:
            # more than one statement if anything stands behind the end of the first
            ends += ends > 0 or (item.role == ";" and not item.depth)


@functools.lru_cache(4096)
def _stay_apart(a: str, b: str) -> bool:
    """Whether two tokens without a blank between them are still the same two."""
    if a.endswith(".") and b.startswith("."):
        return False
    ends = [end for _, _, end in cut(a + b)]
    return ends == [len(a), len(a) + len(b)] and not a.startswith("//")
