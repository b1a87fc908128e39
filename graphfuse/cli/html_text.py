"""Markup that all parts of the page share."""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Iterable, Sequence

from graphfuse.errors import printable


def escape(text: str) -> str:
    """Text as markup that shows it."""
    return html.escape(printable(text, keep="\n"))


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "texts") -> str:
    """A table; cells are markup."""
    head = "".join(f"<th>{escape(c)}</th>" for c in columns)
    lines = (f"<tr>{''.join(f'<td>{c}</td>' for c in row)}</tr>" for row in rows)
    return f'<table class="{kind}"><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table>'


def us_text(us: float) -> str:
    """`12.5 us`."""
    if us < 1:
        return f"{us:.2f} us"
    return f"{us:.1f} us" if us < 1e4 else f"{us / 1e3:.1f} ms"


def folded(what: str, text: str, kind: str = "pre") -> str:
    """A text that a click shows; nothing where there is none."""
    return unfolding(what, f"<{kind}>{escape(text)}</{kind}>") if text else ""


def unfolding(what: str, markup: str) -> str:
    """Markup that a click shows."""
    return f"<details><summary>{escape(what)}</summary>{markup}</details>"


def short(text: str, most: int) -> str:
    """Text of up to so many columns of a font of one width, in which letters of the East take two."""
    text = printable(text)
    widths = [2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text]
    if sum(widths) <= most:
        return text
    kept, used = 0, 1
    while used + widths[kept] <= most:
        used += widths[kept]
        kept += 1
    return f"{text[:kept]}…"


def ending(text: str, most: int) -> str:
    """As `short`, but of the end: names of operators begin alike."""
    return short(printable(text)[::-1], most)[::-1]


class Anchors:
    """Where the rows of kernels are on the page."""

    def __init__(self, kernels: Iterable[str]) -> None:
        self._places = {name: f"k{i}" for i, name in enumerate(kernels)}

    def place(self, kernel: str) -> str:
        """What a kernel's row is called."""
        return self._places[kernel]

    def link(self, kernel: str) -> str:
        """Markup that leads there."""
        return f'<a href="#{self._places[kernel]}">{escape(kernel)}</a>'


def within(parts: Iterable[str], room: int) -> tuple[list[str], int]:
    """The first of some texts, as many as have together so many bytes, and how many are left out."""
    parts, kept = list(parts), list[str]()
    for part in parts:
        room -= len(part.encode())
        if room < 0:
            break
        kept.append(part)
    return kept, len(parts) - len(kept)
