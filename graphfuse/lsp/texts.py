"""Positions of an editor and of a source: lines end alike, columns are counted in other units."""

from __future__ import annotations

import bisect
import itertools
import re
from dataclasses import dataclass

from graphfuse.frontends.tc.source import Span, with_newlines


@dataclass(frozen=True, slots=True)
class Place:
    """A range of a file, lines and columns counted from 0, columns in characters."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int

    def holds(self, line: int, column: int) -> bool:
        """Whether a position is in it."""
        return (self.line, self.column) <= (line, column) < (self.end_line, self.end_column)

    def touches(self, line: int, column: int) -> bool:
        """Whether a position is in it or behind its last character."""
        return (self.line, self.column) <= (line, column) <= (self.end_line, self.end_column)

    def contains(self, other: Place) -> bool:
        """Whether all of another one is in it."""
        return self.file == other.file and self.start <= other.start and other.end <= self.end

    @property
    def start(self) -> tuple[int, int]:
        """Line and column."""
        return self.line, self.column

    @property
    def end(self) -> tuple[int, int]:
        """Line and column."""
        return self.end_line, self.end_column


def place_of(span: Span) -> Place:
    """A span as lines and columns."""
    line, column = span.source.position(span.start)
    end_line, end_column = span.source.position(max(span.end - 1, span.start))
    return Place(span.source.name, line - 1, column - 1, end_line - 1, end_column - (span.end == span.start))


class Lines:
    """The text of a document with its lines ended by newlines. `unit` is how an editor counts columns."""

    def __init__(self, text: str, unit: str = "utf-16") -> None:
        self.text = with_newlines(text)
        self.rows = self.text.split("\n")
        self.ending = (re.search(r"\r?\n|\r", text) or ["\n"])[0]
        self._unit = unit
        self._starts = [0, *itertools.accumulate(len(row) + 1 for row in self.rows)]

    def column(self, line: int, units: int) -> int:
        """A column in characters; past the end of a line it is the end."""
        row = self.rows[line] if 0 <= line < len(self.rows) else ""
        if self._unit == "utf-32" or row.isascii():
            return min(units, len(row))
        count = 0
        for i, character in enumerate(row):
            if count >= units:
                return i
            count += self._size(character)
        return len(row)

    def units(self, line: int, column: int) -> int:
        """A column of characters as the editor counts."""
        row = self.rows[line] if 0 <= line < len(self.rows) else ""
        if self._unit == "utf-32" or row.isascii():
            return column
        return sum(map(self._size, row[:column])) + max(column - len(row), 0)

    def _size(self, character: str) -> int:
        return 1 + (character > "\uffff") if self._unit == "utf-16" else len(character.encode(errors="surrogatepass"))

    def offset(self, line: int, column: int) -> int:
        """The offset in `text` of a column of characters; past the last line it is the end."""
        return min(self._starts[line] + column if line < len(self.rows) else len(self.text), len(self.text))

    def position(self, offset: int) -> tuple[int, int]:
        """The line and the column of an offset in `text`."""
        line = bisect.bisect_right(self._starts, offset) - 1
        return line, offset - self._starts[line]
