"""The formatter: a line a statement, two blanks a level, one blank around an infix operator, at most 120 columns.

Comments, directives and lines with a backslash at their end are the author's, and so is where a statement goes on on
another line: such a line begins below what stands behind its bracket, else four blanks in. A block of one statement
may stand on one line. No token changes, and formatting twice is formatting once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from graphfuse.frontends.tc.pieces import Line, Piece, lines_of
from graphfuse.frontends.tc.source import with_newlines
from graphfuse.frontends.tc.spacing import HEADS, Item, Spacer, branch

WIDTH = 120
"""Columns of a line; comments may go on."""
_BLANKS = " \t\v\f"
_INDENT = 2
_CONTINUED = 4
_TAB = 8
"""Columns to which a tab in a source leads."""


@dataclass(frozen=True, slots=True)
class Edit:
    """Put `text` in the place of what is between two offsets."""

    start: int
    end: int
    text: str


def format_text(text: str) -> str:
    """Format a source. Any text is accepted; all its lines end as the first one does."""
    end = re.search(r"\r?\n|\r", text)
    done = _Formatter().format(with_newlines(text))
    return done if end is None else done.replace("\n", end[0])


def format_edits(text: str, first: int = 0, last: int | None = None) -> list[Edit]:
    """What formatting changes, between tokens and in comments, in lines `first` to `last` (from 0, both included).

    Lines of the text end in newlines.
    """
    done = _Formatter().format(text)
    old, new = ([p for line in lines_of(t) for p in line.pieces] for t in (text, done))
    starts = [0, *(m.end() for m in re.finditer("\n", text)), len(text) + 1]
    begin = starts[min(first, len(starts) - 1)]
    end = len(text) if last is None else starts[min(last + 1, len(starts) - 1)] - 1
    at, new_at = 0, 0
    edits: list[Edit] = []
    ends = Piece("end", "", len(text), len(text), space=False), Piece("end", "", len(done), len(done), space=False)
    for a, b in zip([*old, ends[0]], [*new, ends[1]], strict=True):
        edits += _changed(text, at, a.start, done[new_at : b.start], begin, end)
        if a.is_comment:
            edits += _changed(text, a.start, a.end, done[b.start : b.end], begin, end)
        at, new_at = a.end, b.end
    return edits


def _changed(text: str, start: int, stop: int, new: str, begin: int, end: int) -> Iterator[Edit]:
    """The change of a part of a text; of blanks in front of the lines that count only the indent."""
    if start < begin <= stop and "\n" in new:
        start = max(start, text.rfind("\n", 0, stop) + 1)
        new = new[new.rfind("\n") + 1 :]
    if begin <= start <= stop <= end and text[start:stop] != new:
        yield Edit(start, stop, new)


@dataclass(frozen=True, slots=True)
class _Block:
    """A block: the level of its first line, and the heads that it is the body of."""

    level: int
    inner: int
    """The level of its statements."""
    heads: tuple[_Head, ...]


@dataclass(frozen=True, slots=True)
class _Head:
    """An `if`, `else` or loop that waits for its statement."""

    word: str
    level: int


@dataclass(frozen=True, slots=True)
class _Bracket:
    """An open bracket: the column behind it (of a block none), the indent of its line, whether it ends that line."""

    column: int | None
    indent: int
    hangs: bool
    step: int = _CONTINUED


@dataclass(slots=True)
class _State:
    """Where the formatter is; copied at each `#if`."""

    blocks: list[_Block] = field(default_factory=list[_Block])
    brackets: list[_Bracket] = field(default_factory=list[_Bracket])
    heads: tuple[_Head, ...] = ()
    closed: tuple[_Head, ...] = ()
    """The heads whose statement has just ended: an `else` may follow."""
    word: str = ""
    """The word whose brackets come next."""
    begun: bool = False
    """Whether a statement has begun and has no end yet."""
    level: int = 0

    def copy(self) -> _State:
        return replace(self, blocks=[*self.blocks], brackets=[*self.brackets])


class _Formatter:
    def __init__(self) -> None:
        self._out: list[str] = []
        self._blanks: list[bool] = []
        self._s = _State()
        self._branches: list[_State] = []
        self._line: list[Item] = []
        self._indent = 0
        self._last: Item | None = None
        """The last token."""
        self._begun = False
        """Whether it is on the line that is being made."""
        self._short = False
        """Whether a block on one line is open."""

    def format(self, text: str) -> str:
        """Format a text whose line ends are newlines."""
        lines = list(lines_of(text))
        spacer = Spacer(lines)
        entries: list[tuple[Line, list[Item]]] = []
        blank = False
        for line in lines:
            if not line.raw.strip(_BLANKS):
                blank = True
                continue
            if line.directive is not None:
                spacer.directive(line.directive)
            entries.append((line, spacer.line(line, blank=blank) if line.directive is None else []))
            self._blanks.append(blank)
            blank = False
        following = _following(entries)
        for (line, items), blank in zip(entries, self._blanks, strict=True):
            if line.fixed or not items:
                self._fixed(line, items, blank=blank)
                continue
            for i, item in enumerate(items):
                if item.piece.is_comment:
                    self._comment(item, following[id(item)], line)
                else:
                    self._token(item, items[i:])
        self._flush()
        out = "".join(f"{line}\n" for line in self._out)
        # a backslash at the end of the file must not come in front of a line end
        return out[:-1] if out.endswith("\\\n") else out

    # what a line is made of

    def _fixed(self, line: Line, items: list[Item], *, blank: bool) -> None:
        """A line that stays as it is."""
        self._flush()
        self._blank(blank)
        last = line.pieces[-1] if line.pieces else None
        token = last.end - line.start if last is not None and not last.is_comment else 0
        self._out.append(_stripped(line.raw, last, token))
        if line.directive is not None:
            self._s = branch(line.directive, self._branches, self._s, _State.copy)
        for item in items:
            if not item.piece.is_comment:
                if item.starts:
                    self._start(item, broken=item.newline)
                before = line.raw[: item.piece.end - line.start]
                self._bracket(item, len(before) - before.rfind("\n") - 1, len(line.raw) - len(line.raw.lstrip(_BLANKS)))
                self._after(item)

    def _comment(self, item: Item, following: Item | None, line: Line) -> None:
        if self._line and not item.newline:
            self._line.append(item)
            return
        self._flush()
        self._blank(item.blank)
        self._indent = self._indent_of_comment(following)
        lead = line.raw[: item.piece.start - line.start]
        item.piece = replace(item.piece, text=_moved(item.text, self._indent - len(lead.expandtabs(_TAB))))
        self._line.append(item)

    def _token(self, item: Item, rest: list[Item]) -> None:
        broken = not self._line or (not self._joins(item) if item.newline else self._breaks(item))
        if broken:
            self._flush()
            self._blank(item.blank and item.role != "block-close")
        if item.role == "block-close" and self._s.blocks:
            self._s.level = self._s.blocks[-1].level
        elif item.starts:
            self._start(item, broken=broken)
        if broken:
            self._indent = self._indent_of(item)
        item.level = self._s.level
        self._line.append(item)
        self._begun = True
        if item.role == "block":
            self._short = item.short and self._fits(rest)
        elif item.role == "block-close":
            self._short = False
        self._after(item)

    def _joins(self, item: Item) -> bool:
        """Whether what begins a line goes on the one before: a brace behind its head, `else` behind a brace."""
        last = self._line[-1]
        if last.piece.is_comment:
            return False
        if item.role == "block":
            return last.role in ("head-close", "params") or last.text in ("else", "do")
        return self._goes_on(item, last)

    def _goes_on(self, item: Item, last: Item) -> bool:
        if last.role != "block-close" or not self._s.closed:
            return False
        words = [head.word for head in self._s.closed]
        return (item.text == "else" and "if" in words) or (item.text == "while" and words[-1] == "do")

    def _breaks(self, item: Item) -> bool:
        """Whether a line ends in front of a token that did not begin one."""
        last = self._last
        if last is None or not self._begun:
            return False
        if last.role == "block" or item.role == "block-close":
            return not self._short
        if last.role == "block-close":
            return item.role not in (";", "comma", "close") and not self._goes_on(item, last)
        if last.role == "label:":
            return item.role != "block"
        return last.role == ";" and item.starts

    def _fits(self, rest: list[Item]) -> bool:
        """Whether a block that stands on one line may stay there."""
        close = next(i for i, item in enumerate(rest) if item.role == "block-close")
        width = self._indent + sum(len(i.gap) + len(i.text) for i in (*self._line, *rest[1 : close + 1]))
        return width - len(self._line[0].gap) <= WIDTH

    def _blank(self, wanted: bool) -> None:
        if wanted and self._out and self._out[-1] and not (self._last is not None and self._last.role == "block"):
            self._out.append("")

    # levels

    @property
    def _inside(self) -> int:
        """The level of statements."""
        return self._s.blocks[-1].inner if self._s.blocks else 0

    def _start(self, item: Item, *, broken: bool) -> None:
        """Find the level of a statement."""
        s = self._s
        if s.begun:
            s.closed, s.heads = s.heads, ()
        closed, s.closed, s.word, s.begun = s.closed, (), item.text if item.text in HEADS else "", True
        words = [head.word for head in closed]
        if item.text == "else" and "if" in words:
            k = len(words) - 1 - words[::-1].index("if")
            s.heads, s.level = closed[:k], closed[k].level
        elif item.text == "while" and words[-1:] == ["do"]:
            s.heads, s.level, s.word = closed[:-1], closed[-1].level, ""
        elif s.heads:
            s.level = s.heads[-1].level + (broken and item.role != "block")
        elif item.role != "block" or broken or self._last is None or self._last.role != "label:":
            s.level = self._inside
        if item.text in ("case", "default") and s.blocks:
            s.level = s.blocks[-1].level + 1

    def _after(self, item: Item) -> None:
        """What a token ends."""
        s = self._s
        self._last = item
        if item.role == "head-close" and s.word:
            s.heads, s.word, s.begun = (*s.heads, _Head(s.word, s.level)), "", False
        elif item.text in ("else", "do") and item.role == "keyword":
            s.heads, s.begun = (*s.heads, _Head(item.text, s.level)), False
        elif item.role == "block":
            level = s.heads[-1].level if s.heads else s.level
            deeper = 2 if s.heads and s.heads[-1].word == "switch" else 1
            s.blocks.append(_Block(level, level + deeper, s.heads))
            s.heads, s.closed, s.begun = (), (), False
        elif item.role == "block-close":
            s.closed, s.heads, s.begun = s.blocks.pop().heads if s.blocks else (), (), False
        elif item.role == ";" and not item.depth:
            s.closed, s.heads, s.begun = s.heads, (), False
        elif item.role == "label:":
            s.begun = False

    def _indent_of(self, item: Item) -> int:
        """The indent of a line that begins with a token."""
        s = self._s
        if item.starts or item.role == "block-close":
            return s.level * _INDENT
        return self._continued(s.level, closes=bool(item.pops))

    def _continued(self, level: int, *, closes: bool = False) -> int:
        """The indent of a line on which a statement of a level goes on."""
        brackets = self._s.brackets
        top = brackets[-1] if brackets else None
        if top is None or top.column is None:
            return level * _INDENT + _CONTINUED
        if top.hangs:
            return top.indent + (0 if closes else top.step)
        return top.column

    def _indent_of_comment(self, following: Item | None) -> int:
        s = self._s
        if s.begun and not (following is not None and following.starts):
            return self._continued(s.level)
        if following is not None and following.text in ("case", "default") and s.blocks:
            return (s.blocks[-1].level + 1) * _INDENT
        if following is not None and following.text == "else" and s.closed:
            return s.closed[-1].level * _INDENT
        level = s.heads[-1].level + 1 if s.heads and not s.begun else self._inside
        return level * _INDENT

    # output

    def _flush(self) -> None:
        """Write the line, as several ones where it is too long."""
        items, self._line, self._begun = self._line, [], False
        indent = self._indent
        while items:
            cut = _cut(items, indent)
            self._out.append(self._placed(items[:cut], indent))
            items = items[cut:]
            if items:
                indent = self._continued(items[0].level, closes=bool(items[0].pops))

    def _placed(self, items: list[Item], indent: int) -> str:
        tokens = [item for item in items if not item.piece.is_comment]
        out = " " * indent
        for i, item in enumerate(items):
            if i:
                ends = item.piece.is_comment and (item is items[-1] or item.text.startswith("//"))
                out += "  " if ends and tokens else item.gap
            out += item.text
            self._bracket(item, len(out) - out.rfind("\n") - 1, indent, hangs=item is tokens[-1] if tokens else False)
        return _stripped(out, items[-1].piece) if items[-1].piece.is_comment else out

    def _bracket(self, item: Item, column: int, indent: int, *, hangs: bool = False) -> None:
        brackets = self._s.brackets
        if item.pops:
            del brackets[-item.pops :]
        if item.pushes:
            is_block = item.role == "block"
            step = _INDENT if item.text in ("{", "<%") else _CONTINUED
            brackets.append(_Bracket(None if is_block else column, indent, hangs, step))


def _following(entries: list[tuple[Line, list[Item]]]) -> dict[int, Item | None]:
    """The token behind each comment."""
    out: dict[int, Item | None] = {}
    token: Item | None = None
    for _, items in reversed(entries):
        for item in reversed(items):
            if item.piece.is_comment:
                out[id(item)] = token
            else:
                token = item
    return out


def _cut(items: list[Item], indent: int) -> int:
    """How many of the items of a line fit on one: all, or those in front of the best place to go on elsewhere."""
    column, best, least = indent, 0, 0.0
    end, places = indent, list[tuple[int, int]]()
    for i, item in enumerate(items):
        column += len(item.gap) * (i > 0) + len(item.text)
        if "\n" in item.text:
            return len(items)
        if item.piece.is_comment:
            continue
        end = column
        behind = items[i + 1] if i + 1 < len(items) else None
        may = behind is not None and not behind.piece.is_comment and not behind.starts and item.role in _COST
        if may and behind is not None and behind.role not in ("close", "choice:", "comma"):
            places.append((i + 1, column))
        if end > WIDTH and places:
            break
    if end <= WIDTH or not places:
        return len(items)
    for k, at in places:
        last = items[k - 1]
        cost = 15 * last.depth + _COST[last.role] + _LOOSE.get(last.text, 0) + (WIDTH - at) / 3
        if at <= WIDTH and (not best or cost <= least):
            best, least = k, cost
    return best or places[0][0]


_COST = {";": 0, "comma": 1, "binary": 8, "?": 3, "choice:": 3}
"""How bad it is to end a line behind a token of a role."""
_LOOSE = {
    "=": 12, "&&": -6, "||": -6, "+": -4, "-": -4, "<": -2, ">": -2, "<=": -2, ">=": -2, "==": -2, "!=": -2, "...": 30,
}  # fmt: skip
"""What infix operators add to that: those that bind loosest are the best ends."""


def _stripped(line: str, last: Piece | None, start: int = 0) -> str:
    """Without blanks at the end, from `start` on, unless a backslash would then join lines; `last` stands there."""
    # a comment that is never closed has the line ends behind it
    is_open = last is not None and last.kind == "open_comment"
    out = line[:start] + line[start:].rstrip(f"{_BLANKS}\n" if is_open else _BLANKS)
    if not out.endswith("\\"):
        return out
    return line.rstrip("\n") if is_open else line


def _moved(comment: str, by: int) -> str:
    """The lines of a comment behind its first, moved as the first one is."""
    first, *rest = comment.split("\n")
    out = [first]
    for line in rest:
        text = line.lstrip(" \t")
        lead = len(line[: len(line) - len(text)].expandtabs(_TAB))
        out.append(" " * max(lead + by, 0) + text if by and text else line)
    return "\n".join(out)
