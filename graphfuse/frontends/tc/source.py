"""Source files: text, positions, and backslash-newline splices. Knows nothing of tokens."""

from __future__ import annotations

import bisect
import re
from dataclasses import dataclass

from graphfuse.errors import Loc

_SPLICE = re.compile(r"\\\n")


def with_newlines(text: str) -> str:
    """A text whose lines end in newlines, whatever they ended in."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


class Source:
    """One file. Offsets count characters of `code`, which is the file without its backslash-newlines."""

    __slots__ = ("_line_starts", "_renumbered", "_splices", "code", "name", "text")

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = with_newlines(text)
        splices: list[int] = []
        self.code = self.text
        if "\\\n" in self.text:
            splices = [m.start() - 2 * i for i, m in enumerate(_SPLICE.finditer(self.text))]
            self.code = self.text.replace("\\\n", "")
        self._splices = splices
        self._line_starts: list[int] = []
        self._renumbered: list[tuple[int, int, str]] = []

    def raw(self, offset: int) -> int:
        """Where in `text` an offset of `code` is."""
        return offset + 2 * bisect.bisect_right(self._splices, offset)

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column in `text`, counted from 1."""
        if not self._line_starts:
            self._line_starts = [0, *(m.end() for m in re.finditer("\n", self.text))]
        raw = self.raw(offset) if self._splices else offset
        line = bisect.bisect_right(self._line_starts, raw)
        return line, raw - self._line_starts[line - 1] + 1

    def line_text(self, line: int) -> str:
        """A line of the file, without its newline."""
        start = self._line_starts[line - 1]
        end = self.text.find("\n", start)
        return self.text[start:] if end < 0 else self.text[start:end]

    def renumber_line(self, physical: int, line: int, name: str) -> None:
        """`#line`: from `physical` on, lines are reported as `line`, `line + 1`, ... of file `name`."""
        self._renumbered.append((physical, line, name))

    def presumed(self, line: int) -> tuple[str, int]:
        """The file name and line that a physical line is reported as."""
        for start, number, name in reversed(self._renumbered):
            if line >= start:
                return name, number + line - start
        return self.name, line

    def loc(self, offset: int) -> Loc:
        """The location that diagnostics and ops carry."""
        line, col = self.position(offset)
        name, line = self.presumed(line)
        return Loc(name, line, col)


@dataclass(frozen=True, slots=True)
class Span:
    """Characters `start..end` of a file; `at` is where the caret points."""

    source: Source
    start: int
    end: int
    at: int

    @property
    def loc(self) -> Loc:
        """Where the caret points."""
        return self.source.loc(self.at)
