"""Markup that all parts of the page share."""

from __future__ import annotations

import html
from collections.abc import Sequence

from graphfuse.errors import printable


def escape(text: str) -> str:
    """Text as markup that shows it."""
    return html.escape(printable(text, keep="\n"))


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], kind: str = "texts") -> str:
    """A table; cells are markup."""
    head = "".join(f"<th>{escape(c)}</th>" for c in columns)
    lines = (f"<tr>{''.join(f'<td>{c}</td>' for c in row)}</tr>" for row in rows)
    return f'<table class="{kind}"><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table>'


def us_text(us: float) -> str:
    """`12.5 us`."""
    return f"{us:.1f} us" if us < 1e4 else f"{us / 1e3:.1f} ms"


def folded(what: str, text: str, kind: str = "pre") -> str:
    """A text that a click shows; nothing where there is none."""
    shown = f"<{kind}>{escape(text)}</{kind}>"
    return f"<details><summary>{escape(what)}</summary>{shown}</details>" if text else ""
