"""The page of `graphfuse inspect --html`: the partitioned graph as SVG, and the tables. No script, no network.

Owns layout and markup only; the facts come from `runtime/report.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graphfuse.cli.common import nbytes_text
from graphfuse.cli.html_kernels import kernel_table, link, sections
from graphfuse.cli.html_text import escape, folded, table, us_text
from graphfuse.runtime.report import kernel_costs

Name = int | str
Edge = tuple[Name, Name]

_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _MARGIN = 190, 44, 24, 46, 20
_SWEEPS = 6
"""Over the levels, down and up in turns: the order of boxes hardly changes after that."""
_SWING = 70
"""How far an edge that skips levels may run beside the boxes."""

MOST_BOXES = 600
"""Of a graph that is drawn."""
_TOO_MANY = f"<p>The graph is left out: it has more than {MOST_BOXES} launches, inputs and outputs.</p>"
PAGE_BYTES = 480_000
"""Of a page; IR that does not fit is left out."""
_COLOURS = {
    "pointwise": "#4e79a7", "reduction": "#f28e2b", "contraction": "#59a14f", "convolution": "#e15759",
    "attention": "#b07aa1", "pooling": "#76b7b2", "gather": "#edc948", "movement": "#9c755f", "border": "#888888",
}  # fmt: skip
_OTHER = "#bab0ac"
TIMES = {"first_us": "first run", "warm_us": "then", "bound_us": "bound"}
FAR, LONG_US = 4.0, 20.0
"""A kernel of so many microseconds that takes so many times its bound is a cliff."""
"""Where a launch has times, and what they are called."""


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


def page(
    title: str, facts: Mapping[str, Any], edges: Sequence[Edge], texts: Mapping[str, tuple[str, str]] | None = None
) -> str:
    """The whole document; `texts` are the IR of kernels, as `sections` takes it."""
    inputs = [f"input {s['name']}" for s in facts["inputs"]]
    outputs = [f"output {s['name']}" for s in facts["outputs"]]
    nodes: list[Name] = [*inputs, *(r["step"] for r in facts["steps"]), *outputs]
    layout = layered(nodes, edges)
    kernels = kernel_costs(facts["steps"])
    memory, totals = facts["memory"], facts["totals"]
    over = memory["arena"] / memory["arena_bound"] if memory["arena_bound"] else 1.0
    cards = [
        ("target", facts["target"]),
        ("launches", len(facts["steps"])),
        ("kernels", facts["kernels"]),
        ("work", f"{totals['flops'] / 1e9:.3f} Gflop"),
        ("read", nbytes_text(totals["bytes_read"])),
        ("written", nbytes_text(totals["bytes_written"])),
        ("weights", nbytes_text(memory["weights"])),
        ("arena", f"{nbytes_text(memory['arena'])}, {over:.3f} x its bound"),
    ]
    if timed := [r for r in facts["steps"] if "warm_us" in r]:
        cards += [(name, us_text(sum(r[key] for r in timed))) for key, name in TIMES.items()]
    body = [
        f"<h1>{escape(title)}</h1>",
        '<div class="cards">',
        *(f"<div><b>{escape(str(v))}</b><span>{escape(k)}</span></div>" for k, v in cards),
        "</div>",
        folded("inputs and outputs", _signature(facts), "p"),
        "<h2>Kernels</h2>",
        kernel_table(kernels),
        "<h2>Graph</h2>",
        _legend(facts),
        f'<div class="graph">{svg(layout, facts, edges)}</div>' if len(nodes) <= MOST_BOXES else _TOO_MANY,
        "<h2>Launches</h2>",
        _launches(facts["steps"]),
        "<h2>Not fused</h2>",
        "<p>Operators that are not in the region before them, and why.</p>",
        table(("operator", "region", "why"), [[*map(escape, r.values())] for r in facts["not_fused"]]),
        "<h2>What kernels are made of</h2>",
    ]
    body.append(sections(kernels, facts, edges, texts or {}, PAGE_BYTES - len(_PAGE) - sum(map(len, body))))
    return _PAGE.replace("{title}", escape(title)).replace("{body}", "\n".join(body))


def spec_text(spec: Mapping[str, Any]) -> str:
    """`x: f32[batch, 8]`."""
    return f"{spec['name']}: {spec['elem']}[{', '.join(map(str, spec['shape']))}]"


def _signature(facts: Mapping[str, Any]) -> str:
    dims = ", ".join(f"{n} in {lo}..{hi} (here {facts['at'][n]})" for n, (lo, hi) in facts["dims"].items())
    arrow = f"{', '.join(map(spec_text, facts['inputs']))} → {', '.join(map(spec_text, facts['outputs']))}"
    return f"{arrow}; {dims}" if dims else arrow


def _legend(facts: Mapping[str, Any]) -> str:
    items = [
        f'<span><i style="background:{_COLOURS.get(kind, _OTHER)}"></i>{escape(kind or "other")} ({count})</span>'
        for kind, count in facts["kinds"].items()
    ]
    return f'<div class="legend">{"".join(items)}</div>'


def svg(layout: Layout, facts: Mapping[str, Any], edges: Sequence[Edge]) -> str:
    """The graph: edges first, so that boxes cover those that pass behind them."""
    size = f'width="{layout.width:.0f}" height="{layout.height:.0f}"'
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {layout.width:.0f} {layout.height:.0f}">']
    out.append('<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"')
    out.append(' orient="auto"><path d="M0 0L8 4L0 8z" class="tip"/></marker></defs>')
    out.extend(
        f'<path class="edge" d="{_path(layout, a, b)}" marker-end="url(#a)"/>'
        for a, b in edges
        if a in layout.x and b in layout.x and layout.y[a] < layout.y[b]
    )
    steps = {r["step"]: r for r in facts["steps"]}
    longest = max((r.get("warm_us", 0.0) for r in facts["steps"]), default=0.0)
    out.extend(_box(n, layout, steps, longest) for n in layout.x)
    out.append("</svg>")
    return "\n".join(out)


def _path(layout: Layout, a: Name, b: Name) -> str:
    """From the foot of `a` to the head of `b`; past other levels it swings out to the right of both."""
    x1, y1 = layout.x[a] + _WIDTH / 2, layout.y[a] + _HEIGHT
    x2, y2 = layout.x[b] + _WIDTH / 2, layout.y[b]
    if y2 - y1 <= _GAP_Y:
        bend = (y2 - y1) / 2
        return f"M{x1:.0f} {y1:.0f}C{x1:.0f} {y1 + bend:.0f} {x2:.0f} {y2 - bend:.0f} {x2:.0f} {y2:.0f}"
    # leave from the right side and arrive there, so that a skip stays visible beside its column
    levels = (y2 - y1) / (_HEIGHT + _GAP_Y)
    side = max(x1, x2) + _WIDTH / 2 + min(_SWING, 16 + 10 * levels)
    x1, y1, x2, y2 = x1 + _WIDTH / 2, y1 - _HEIGHT / 3, x2 + _WIDTH / 2, y2 + _HEIGHT / 3
    return (
        f"M{x1:.0f} {y1:.0f}C{side:.0f} {y1:.0f} {side:.0f} {y1:.0f} {side:.0f} {y1 + 30:.0f}"
        f"L{side:.0f} {y2 - 30:.0f}C{side:.0f} {y2:.0f} {side:.0f} {y2:.0f} {x2:.0f} {y2:.0f}"
    )


def _box(n: Name, layout: Layout, steps: Mapping[Name, Mapping[str, Any]], longest: float) -> str:
    """A launch, which leads to its kernel and is filled by its part of the `longest`, or an input or output."""
    row = steps.get(n)
    heat = 0.18 if row is None or not longest else 0.06 + 0.74 * row["warm_us"] / longest
    if row is None:
        kind, head, tail = "border", str(n).partition(" ")[2], str(n).partition(" ")[0]
        hint = str(n)
    else:
        kind, head = row["kind"], row["kernel"]
        tail = row["label"] or kind
        hint = (
            f"{row['kernel']} ({kind})\n{row['label']}\nprograms: {row['grid']}\n"
            f"{row['flops'] / 1e6:.2f} Mflop, reads {nbytes_text(row['bytes_read'])}, "
            f"writes {nbytes_text(row['bytes_written'])}"
            + "".join(f"\n{name}: {us_text(row[key])}" for key, name in TIMES.items() if key in row)
        )
    x, y, colour = layout.x[n], layout.y[n], _COLOURS.get(kind, _OTHER)
    radius = 22 if row is None else 5
    box = (
        f'<g class="box"><title>{escape(hint)}</title>'
        f'<rect class="back" x="{x:.0f}" y="{y:.0f}" width="{_WIDTH}" height="{_HEIGHT}" rx="{radius}" '
        f'stroke="{colour}"/>'
        f'<rect x="{x:.0f}" y="{y:.0f}" width="{_WIDTH}" height="{_HEIGHT}" rx="{radius}" fill="{colour}" '
        f'fill-opacity="{heat:.2f}"/>'
        f'<text x="{x + _WIDTH / 2:.0f}" y="{y + 19:.0f}" class="head">{escape(_short(head, 26))}</text>'
        f'<text x="{x + _WIDTH / 2:.0f}" y="{y + 34:.0f}" class="tail">{escape(_short(tail, 32))}</text></g>'
    )
    return box if row is None else f'<a href="#kernel-{escape(row["kernel"])}">{box}</a>'


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _launches(rows: Sequence[Mapping[str, Any]]) -> str:
    times = times_of(rows)
    texts = [[str(r["step"]), r["kind"], r["label"], str(r["grid"]), *costs(r, times)] for r in rows]
    cells = [[n, link(r["kernel"]), *map(escape, rest)] for r, (n, *rest) in zip(rows, texts, strict=True)]
    return table(("#", "kernel", "kind", "from", "programs", *COSTS, *times.values()), cells, "launches")


COSTS = ("Mflop", "reads", "writes")


def costs(row: Mapping[str, Any], times: Iterable[str]) -> list[str]:
    """What a launch computes, reads and writes, as tables show it, and its times."""
    moved = (nbytes_text(row[key]) for key in ("bytes_read", "bytes_written"))
    return [f"{row['flops'] / 1e6:.2f}", *moved, *(us_text(row[t]) for t in times)]


def times_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Which times launches have, and what these are called."""
    return {key: name for key, name in TIMES.items() if any(key in r for r in rows)}


def is_cliff(row: Mapping[str, Any]) -> bool:
    """Whether a launch takes much longer than what it moves and computes has to."""
    return row.get("warm_us", 0) >= LONG_US and row["warm_us"] > FAR * row["bound_us"]


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<title>{title}</title>
<style>
:root { --ink: #1c2126; --soft: #66707a; --paper: #fff; --card: #f3f5f7; --line: #c3cad1; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e7eaed; --soft: #98a2ac; --paper: #14181c; --card: #1f252b; --line: #48525c; }
}
body { font: 14px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 24px; }
h1 { font-size: 22px; margin: 0 0 12px; } h2 { font-size: 17px; margin: 24px 0 8px; }
p { color: var(--soft); overflow-wrap: anywhere; }
.cards { display: flex; flex-wrap: wrap; gap: 10px; }
.cards div { background: var(--card); border-radius: 8px; padding: 8px 14px; }
.cards b { display: block; font-size: 16px; } .cards span { color: var(--soft); }
.legend { display: flex; flex-wrap: wrap; gap: 14px; margin: 12px 0; }
.legend i { display: inline-block; width: 12px; height: 12px; border-radius: 3px; margin-right: 6px; }
.graph { overflow: auto; max-height: 85vh; border: 1px solid var(--line); border-radius: 8px; }
.edge { fill: none; stroke: var(--line); stroke-width: 1.3; } .tip { fill: var(--line); }
.back { fill: var(--paper); stroke-width: 1.5; }
.box:hover .back { stroke-width: 3; }
.head { font: 600 12px ui-monospace, monospace; text-anchor: middle; fill: var(--ink); }
.tail { font: 10.5px system-ui, sans-serif; text-anchor: middle; fill: var(--soft); }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: 3px 14px 3px 0; border-bottom: 1px solid var(--card); white-space: nowrap; }
.launches td:nth-child(4) { max-width: 420px; overflow: hidden; text-overflow: ellipsis; }
.launches th:nth-child(n+6), .launches td:nth-child(n+6) { text-align: right; }
.texts td { white-space: normal; overflow-wrap: anywhere; }
.kernels td:nth-child(4) { max-width: 360px; overflow: hidden; text-overflow: ellipsis; }
.kernels th:nth-child(n+5), .kernels td:nth-child(n+5) { text-align: right; }
.bar { display: inline-block; width: 80px; height: 9px; background: var(--card); }
.bar i { display: block; height: 9px; background: #e15759; }
a { color: inherit; }
section { border-top: 1px solid var(--line); } section:target { background: var(--card); }
h3 { font: 600 15px ui-monospace, monospace; margin: 12px 0 4px; }
pre { font: 12px/1.4 ui-monospace, monospace; overflow: auto; max-height: 70vh; padding: 10px; }
pre { background: var(--card); }
summary { cursor: pointer; color: var(--soft); }
</style>
</head>
<body>
{body}
</body>
</html>
"""
