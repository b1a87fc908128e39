"""The graph of the page of `graphfuse inspect --html`: equal layers folded, boxes placed in levels, drawn as SVG.

Boxes are launches, inputs and outputs. Below each stands the type of what it makes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from graphfuse.cli.html_text import Anchors, ending, escape, short, us_text
from graphfuse.errors import printable
from graphfuse.runtime.report import Edge

Name = int | str

_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _MARGIN = 190, 44, 24, 46, 20
_SWEEPS = 6
"""Over the levels, down and up in turns: the order of boxes hardly changes after that."""
_SWING = 70
"""How far an edge that skips levels may run beside the boxes."""
_HEAD, _TAIL, _TYPE = 24, 29, 32
"""Columns of the lines of a box, and of the type below it."""
_LONGEST, _LEAST_SAVED = 512, 4
"""Launches of a layer that is looked for, and those that folding it has to save."""
COLOURS = {
    "pointwise": "#4e79a7", "reduction": "#f28e2b", "contraction": "#59a14f", "convolution": "#e15759",
    "attention": "#b07aa1", "pooling": "#76b7b2", "gather": "#edc948", "movement": "#9c755f", "python": "#d37295",
    "together": "#ff9da7", "border": "#888888",
}  # fmt: skip
OTHER = "#bab0ac"


# layers


def layers(kernels: Sequence[str]) -> list[tuple[int, int, int]]:
    """Where launches of the same kernels follow each other again: (first, length of one, how many)."""
    found: list[tuple[int, int, int]] = []
    numbers = {name: i for i, name in enumerate(kernels)}
    codes = np.array([numbers[name] for name in kernels])
    left = [(0, len(kernels))]
    while left:
        begin, end = left.pop()
        best = _best_layer(codes[begin:end])
        if best is not None:
            first, length, count = begin + best[0], best[1], best[2]
            found.append((first, length, count))
            left += [(begin, first), (first + length * count, end)]
    return sorted(found)


def _best_layer(codes: Any) -> tuple[int, int, int] | None:
    """The layer whose folding saves most, the shortest of those that save as much."""
    saved, best = _LEAST_SAVED - 1, None
    for length in range(1, min(len(codes) // 2, _LONGEST) + 1):
        same = np.concatenate(([False], codes[:-length] == codes[length:], [False]))
        begins, ends = (np.flatnonzero(same[:-1] < same[1:]), np.flatnonzero(same[:-1] > same[1:]))
        if not len(begins):
            continue
        again = (ends - begins) // length
        at = int(again.argmax())
        if int(again[at]) * length > saved:
            saved = int(again[at]) * length
            best = int(begins[at]), length, int(again[at]) + 1
    return best


def representatives(kernels: Sequence[str]) -> list[int]:
    """For each launch the one of the first of equal layers that is drawn for it."""
    out = list(range(len(kernels)))
    for first, length, count in layers(kernels):
        out[first : first + length * count] = [first + i % length for i in range(length * count)]
    return out


# places


@dataclass(slots=True)
class Layout:
    """Where each box is: its level from the top, and its place in the level from the left."""

    levels: list[list[Name]] = field(default_factory=list[list[Name]])
    x: dict[Name, float] = field(default_factory=dict[Name, float])
    y: dict[Name, float] = field(default_factory=dict[Name, float])
    width: float = 0
    height: float = 0


def layered(nodes: Sequence[Name], edges: Sequence[Edge]) -> Layout:
    """Boxes by level: each below all it reads. Order inside a level follows the neighbours' middle.

    `nodes` are in an order in which every edge goes forward; the others (of a loop) are left out of it.
    """
    place = {n: i for i, n in enumerate(nodes)}
    forward = [(a, b) for a, b in edges if a in place and b in place and place[a] < place[b]]
    before: dict[Name, list[Name]] = {n: [] for n in nodes}
    after: dict[Name, list[Name]] = {n: [] for n in nodes}
    for a, b in forward:
        before[b].append(a)
        after[a].append(b)
    level: dict[Name, int] = {}
    for n in nodes:
        level[n] = max((level[p] + 1 for p in before[n]), default=0)
    for n in reversed(nodes):  # an input stands right above its first reader, not at the top
        if not before[n] and after[n]:
            level[n] = min(level[s] for s in after[n]) - 1
    layout = Layout(levels=[[] for _ in range(max(level.values(), default=-1) + 1)])
    for n in nodes:
        layout.levels[level[n]].append(n)
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        neighbours = before if down else after
        _place(layout)
        for row in layout.levels if down else reversed(layout.levels):
            row.sort(key=lambda n: _middle([layout.x[m] for m in neighbours[n]], layout.x[n]))
            _place(layout)
    return layout


def _middle(values: list[float], default: float) -> float:
    return sum(values) / len(values) if values else default


def _place(layout: Layout) -> None:
    widest = max((len(row) for row in layout.levels), default=0)
    layout.width = widest * (_WIDTH + _GAP_X) - _GAP_X + 2 * (_MARGIN + _SWING)
    layout.height = len(layout.levels) * (_HEIGHT + _GAP_Y) - _GAP_Y + 2 * _MARGIN
    for i, row in enumerate(layout.levels):
        start = (layout.width - len(row) * (_WIDTH + _GAP_X) + _GAP_X) / 2
        for j, n in enumerate(row):
            layout.x[n] = start + j * (_WIDTH + _GAP_X)
            layout.y[n] = _MARGIN + i * (_HEIGHT + _GAP_Y)


# drawing


def drawn(facts: Mapping[str, Any], types: Mapping[Edge, str], drawn_for: Sequence[int], anchors: Anchors) -> str:
    """The graph as SVG: edges first, so that boxes cover those that pass behind them.

    `drawn_for` is by launch the one whose box stands for it; such a box is as warm as all of them together.
    """
    rows: dict[int, list[Mapping[str, Any]]] = {}
    for row, box in zip(facts["steps"], drawn_for, strict=True):
        rows.setdefault(box, []).append(row)

    def box_of(end: Name) -> Name:
        return drawn_for[end] if isinstance(end, int) else end

    edges: dict[Edge, None] = {}
    made: dict[Name, dict[str, None]] = {}
    for (a, b), text in types.items():
        begin, end = box_of(a), box_of(b)
        if begin != end:
            edges[begin, end] = None
        if text:
            made.setdefault(begin, {})[text] = None
    nodes: list[Name] = [*(f"input {s['name']}" for s in facts["inputs"]), *rows]
    layout = layered([*nodes, *(f"output {s['name']}" for s in facts["outputs"])], list(edges))
    size = f'width="{layout.width:.0f}" height="{layout.height:.0f}"'
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {layout.width:.0f} {layout.height:.0f}">']
    out.extend(f'<path d="{_path(layout, a, b)}"/>' for a, b in edges if a in layout.x and b in layout.x)
    us = {n: sum(r.get("median_us", 0.0) for r in same) for n, same in rows.items()}
    longest = max(us.values(), default=0.0)
    for n in layout.x:
        same = rows.get(n, []) if isinstance(n, int) else []
        heat = us[n] / longest if same and longest and isinstance(n, int) else None
        place = f"translate({layout.x[n]:.0f},{layout.y[n]:.0f})"
        lines = _lines(n, same, heat, ", ".join(made.get(n, ())))
        if same:
            begin = f'a href="#{anchors.place(same[0]["kernel"])}" class="box {escape(same[0]["kind"])}"'
            warm = "" if heat is None else f' style="--h:{0.06 + 0.64 * heat:.2f}"'
            out.append(f'<{begin} transform="{place}"{warm}><use href="#launch"/>{lines}</a>')
        else:
            out.append(f'<g class="box border" transform="{place}"><use href="#end"/>{lines}</g>')
    out.append("</svg>")
    return "\n".join(out)


def _path(layout: Layout, a: Name, b: Name) -> str:
    """From the foot of `a` to the head of `b`; past other levels it swings out to the right of both.

    Back to a level above, as layers that are folded lead to the next of them, it swings out to the left.
    """
    x1, y1 = layout.x[a] + _WIDTH / 2, layout.y[a] + _HEIGHT
    x2, y2 = layout.x[b] + _WIDTH / 2, layout.y[b]
    if 0 <= y2 - y1 <= _GAP_Y:
        bend = (y2 - y1) / 2
        return f"M{x1:.0f} {y1:.0f}C{x1:.0f} {y1 + bend:.0f} {x2:.0f} {y2 - bend:.0f} {x2:.0f} {y2:.0f}"
    # leave from the side and arrive there, so that a skip stays visible beside its column
    swing = min(_SWING, 16 + 10 * abs(y2 - y1) / (_HEIGHT + _GAP_Y))
    out, turn = (1, 30) if y2 > y1 else (-1, -30)
    side = max(x1, x2) + _WIDTH / 2 + swing if out > 0 else min(x1, x2) - _WIDTH / 2 - swing
    x1, y1, x2, y2 = x1 + out * _WIDTH / 2, y1 - _HEIGHT / 3, x2 + out * _WIDTH / 2, y2 + _HEIGHT / 3
    if abs(y2 - y1) < 2 * abs(turn):
        turn = 0
    return (
        f"M{x1:.0f} {y1:.0f}Q{side:.0f} {y1:.0f} {side:.0f} {y1 + turn:.0f}"
        f"L{side:.0f} {y2 - turn:.0f}Q{side:.0f} {y2:.0f} {x2:.0f} {y2:.0f}"
    )


def _lines(n: Name, rows: Sequence[Mapping[str, Any]], heat: float | None, made: str) -> str:
    """The texts of a box: an input's, an output's, or those of launches."""
    if rows:
        head, tail = rows[0]["kernel"], rows[0]["label"] or rows[0]["kind"]
    else:
        tail, _, head = str(n).partition(" ")
    times = f" × {len(rows)}" if len(rows) > 1 else ""
    lines = [short(head, _HEAD - len(times)) + times, ending(tail, _TAIL), short(made, _TYPE)]
    whole = [head + times, tail, made]
    hint = [text for text, line in zip(whole, lines, strict=True) if printable(text) != line]
    hint += [us_text(sum(r["median_us"] for r in rows))] if heat is not None else []
    places = (
        f'x="{_WIDTH // 2}" y="19"',
        f'x="{_WIDTH // 2}" y="34" class="t"',
        f'x="{_WIDTH // 2 + 5}" y="59" class="s"',
    )
    shown = (f"<text {at}>{escape(line)}</text>" for at, line in zip(places, lines, strict=True) if line)
    return (f"<title>{escape(chr(10).join(hint))}</title>" if hint else "") + "".join(shown)


_BOX = f'width="{_WIDTH}" height="{_HEIGHT}"'
DEFINITIONS = (
    '<svg width="0" height="0" style="position:absolute"><defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" '
    'markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" class="tip"/></marker>'
    f'<g id="launch"><rect class="back" {_BOX} rx="5"/><rect class="heat" {_BOX} rx="5"/></g>'
    f'<g id="end"><rect class="back" {_BOX} rx="22"/><rect class="heat" {_BOX} rx="22"/></g></defs></svg>'
)
"""What all graphs of a page share."""
STYLE = "\n".join(f".{kind} {{ color: {colour}; }}" for kind, colour in {"box": OTHER, **COLOURS}.items())
"""Of boxes and legends: the colour of each kind."""
