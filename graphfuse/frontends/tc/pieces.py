"""A source cut into lines of tokens and comments, for what rewrites it: nothing is lost, and any text is accepted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from graphfuse.frontends.tc.source import Source
from graphfuse.frontends.tc.tokens import cut

_HASHES = frozenset(("#", "##", "%:", "%:%:"))


@dataclass(slots=True, eq=False)
class Piece:
    """A token or a comment as it is written. `start` and `end` are offsets in the text; `space`: blanks before it."""

    kind: str
    text: str
    start: int
    end: int
    space: bool

    @property
    def is_comment(self) -> bool:
        """Whether it is no token."""
        return self.kind in ("comment", "open_comment")


@dataclass(slots=True, eq=False)
class Line:
    """What stands between two line ends outside of comments and splices. `raw` is its text.

    `directive` is the word behind `#`. `fixed`: blanks in it are not to be touched, since a directive, a splice, or a
    `#` or a backslash that must stay where it is are in it.
    """

    raw: str
    start: int
    pieces: list[Piece]
    directive: str | None
    fixed: bool


def lines_of(text: str) -> Iterator[Line]:
    """The lines of a text whose line ends are newlines."""
    source = Source("", text)
    pieces: list[Piece] = []
    space, start = False, 0
    for kind, at, end in cut(source.code):
        if kind == "space":
            space = True
        elif kind == "newline":
            stop = source.raw(at)
            yield _line(text[start:stop], start, pieces)
            pieces, space, start = [], False, stop + 1
        else:
            pieces.append(Piece(kind, source.code[at:end], source.raw(at), source.raw(end - 1) + 1, space))
            space = False
    yield _line(text[start:], start, pieces)


def _line(raw: str, start: int, pieces: list[Piece]) -> Line:
    tokens = [p.text for p in pieces if not p.is_comment]
    directive = None
    if tokens and tokens[0] in ("#", "%:"):
        directive = tokens[1] if len(tokens) > 1 else ""
    spliced = sum(p.end - p.start != len(p.text) for p in pieces) or "\\\n" in raw
    fixed = directive is not None or bool(spliced) or any(t in _HASHES or t == "\\" for t in tokens)
    return Line(raw, start, pieces, directive, fixed)
