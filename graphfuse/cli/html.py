"""The page of `graphfuse inspect --html`: kernels, the partitioned graph, launches. Needs neither script nor network.

Owns what the page consists of and how it looks; the facts come from `runtime/report.py`. A script that is in it adds a
search and a zoom.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from graphfuse.cli.common import nbytes_text
from graphfuse.cli.html_graph import DEFINITIONS, STYLE, drawn, layers, representatives
from graphfuse.cli.html_kernels import Edge, KernelRows, Made, Name
from graphfuse.cli.html_style import PAGE
from graphfuse.cli.html_text import Anchors, escape, table, unfolding, us_text, within
from graphfuse.runtime.report import kernel_costs

if TYPE_CHECKING:
    from graphfuse.cli.profile import Profiled

PAGE_BYTES = 490_000
"""Of a page. What does not fit is left out, the text of the fastest kernels first."""
_ROWS, _TEXTS = 0.6, 40_000
"""The part of that which rows of kernels may take, and the bytes that are kept for IR and assembly of the slowest."""
_TOO_LARGE = "<p>The graph is left out, as the page would be too large.</p>"
TIMES = {"median_us": "median", "p90_us": "p90", "p99_us": "p99", "bound_us": "bound"}
"""Where a launch has times, and what they are called."""
FAR, LONG_US = 4.0, 20.0
"""A kernel of so many microseconds that takes so many times its bound is a cliff."""


def page(title: str, facts: Mapping[str, Any], made: Made, profiled: Profiled | None = None) -> str:
    """The whole document. Kernels for other shapes, which nothing launches here, are what was launched for them."""
    facts, made = _launched(facts, made)
    kernels = kernel_costs(facts["steps"])
    if profiled is not None:
        place = {k.kernel: i for i, k in enumerate(profiled.kernels)}
        kernels.sort(key=lambda k: place[k.kernel])
    front = [
        f"<h1>{escape(title)}</h1>",
        _cards(facts, profiled),
        *(
            f"<p>{escape(line[0].upper() + line[1:])}.</p>"
            for line in (profiled.summary() if profiled is not None else ())
        ),
        unfolding("inputs and outputs", f"<p>{escape(_signature(facts))}</p>"),
    ]
    anchors = Anchors(k.kernel for k in kernels)
    rows = KernelRows(kernels, facts, made, anchors, profiled)
    frame = PAGE.replace("{title}", escape(title)).replace("/* kinds */", STYLE).replace("<!-- shapes -->", DEFINITIONS)
    room = PAGE_BYTES - len(frame.encode()) - _size(front)
    lines, bodies = rows.within(int(_ROWS * room))
    room -= rows.size(lines, bodies)
    graph = _graph(facts, made, anchors, room - _TEXTS)
    room -= _size(graph)
    reasons = _reasons(facts["not_fused"], (room - _TEXTS) // 3)
    room -= _size(reasons)
    launches = _launches(facts["steps"], anchors, (room - _TEXTS) // 2)
    body = [
        *front,
        "<h2>Kernels</h2>",
        *rows.markup(lines, bodies, room - _size(launches)),
        "<h2>Graph</h2>",
        *graph,
        "<h2>Launches</h2>",
        *launches,
        *reasons,
    ]
    return frame.replace("{body}", "\n".join(body))


def _launched(facts: Mapping[str, Any], made: Made) -> tuple[Mapping[str, Any], Made]:
    """The facts of launches that have programs, numbered anew, and what goes between these."""
    rows: list[dict[str, Any]] = []
    number: dict[Name, Name] = {}
    for _, alike in itertools.groupby(facts["steps"], lambda r: (r["kind"], r["label"])):
        before = len(rows)
        for r in (same := list(alike)):
            if r["grid"] != "0":
                number[r["step"]] = len(rows)
                rows.append({**r, "step": len(rows)})
        number |= {r["step"]: before for r in same if r["grid"] == "0" and len(rows) > before}
    types: dict[Edge, str] = {}
    gone = {r["step"] for r in facts["steps"]} - number.keys()
    for (a, b), text in made.types.items():
        edge = number.get(a, a), number.get(b, b)
        if edge[0] != edge[1] and not gone & {a, b}:
            types[edge] = types.get(edge) or text
    idle = {r["step"] for r in facts["steps"] if r["grid"] == "0"}
    operators = [ops for i, ops in enumerate(made.operators) if i not in idle]
    kinds = dict(Counter(r["kind"] for r in rows).most_common())
    kernels = facts["kernels"] if facts["host"] else len({r["kernel"] for r in rows})
    return {**facts, "steps": rows, "kinds": kinds, "kernels": kernels}, replace(made, operators=operators, types=types)


def _size(parts: Iterable[str]) -> int:
    return sum(len(part.encode()) + 1 for part in parts)


def _cards(facts: Mapping[str, Any], profiled: Profiled | None) -> str:
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
    cards += [("a run", us_text(profiled.wall[0]))] if profiled is not None else []
    shown = (f"<div><b>{escape(str(v))}</b><span>{escape(k)}</span></div>" for k, v in cards)
    return f'<div class="cards">{"".join(shown)}</div>'


def _graph(facts: Mapping[str, Any], made: Made, anchors: Anchors, room: int) -> list[str]:
    """The graph, equal layers folded; as a click shows it all launches, where there is room."""
    kernels = [r["kernel"] for r in facts["steps"]]
    found = layers(kernels)
    parts = [_legend(facts)]
    if found:
        told = (f"{count} x {length} launches from {first}" for first, length, count in found)
        parts.append(f"<p>Equal layers are drawn once: {', '.join(told)}.</p>")
    graph = f'<div class="graph">{drawn(facts, made.types, representatives(kernels), anchors)}</div>'
    room -= _size(parts)
    if _size([graph]) > room:
        return [*parts, _TOO_LARGE]
    parts.append(graph)
    if found:
        whole = f'<div class="graph">{drawn(facts, made.types, range(len(kernels)), anchors)}</div>'
        if _size([graph, whole]) <= room:
            parts.append(unfolding("the graph with every layer", whole))
    return parts


def _reasons(not_fused: Sequence[Mapping[str, str]], room: int) -> list[str]:
    if not not_fused:
        return []
    rows = ["<tr>" + "".join(f"<td>{escape(text)}</td>" for text in r.values()) + "</tr>" for r in not_fused]
    kept, left = within(rows, room)
    more = [f"<p>And {left} more.</p>"] if left else []
    shown = table(("operator", "region", "why"), ()).replace("<tbody>", f"<tbody>{''.join(kept)}")
    return ["<h2>Not fused</h2>", "<p>Operators that are not in the region before them, and why.</p>", shown, *more]


def spec_text(spec: Mapping[str, Any]) -> str:
    """`x: f32[batch, 8]`."""
    return f"{spec['name']}: {spec['elem']}[{', '.join(map(str, spec['shape']))}]"


def _signature(facts: Mapping[str, Any]) -> str:
    dims = ", ".join(f"{n} in {lo}..{hi} (here {facts['at'][n]})" for n, (lo, hi) in facts["dims"].items())
    arrow = f"{', '.join(map(spec_text, facts['inputs']))} → {', '.join(map(spec_text, facts['outputs']))}"
    return f"{arrow}; {dims}" if dims else arrow


def _legend(facts: Mapping[str, Any]) -> str:
    items = [
        f'<span class="box {escape(kind)}"><i></i><b>{escape(kind or "other")} ({count})</b></span>'
        for kind, count in facts["kinds"].items()
    ]
    return f'<div class="legend">{"".join(items)}</div>'


def _launches(rows: Sequence[Mapping[str, Any]], anchors: Anchors, room: int) -> list[str]:
    """Them in their order, behind a click; what launches of one kernel have in common is in its row."""
    times = times_of(rows)
    lines = [
        f"<tr><td>{r['step']}</td><td>{anchors.link(r['kernel'])}</td><td>{escape(r['label'])}</td>"
        f"{''.join(f'<td>{us_text(r[t])}</td>' for t in times)}</tr>"
        for r in rows
    ]
    kept, left = within(lines, room)
    more = f"<p>And {left} more.</p>" if left else ""
    shown = table(("#", "kernel", "from", *times.values()), (), "launches")
    return [
        unfolding(f"{len(rows)} launches, in their order", shown.replace("<tbody>", f"<tbody>{''.join(kept)}") + more)
    ]


COSTS = ("Mflop", "reads", "writes")


def costs(row: Mapping[str, Any], times: Iterable[str]) -> list[str]:
    """What a launch computes, reads and writes, as tables show it, and its times."""
    moved = (nbytes_text(row[key]) for key in ("bytes_read", "bytes_written"))
    return [f"{row['flops'] / 1e6:.2f}", *moved, *(us_text(row[t]) for t in times)]


def times_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Which times launches have, and what these are called."""
    return {key: name for key, name in TIMES.items() if any(key in r for r in rows)}


def is_cliff(us: float, bound_us: float) -> bool:
    """Whether a launch takes much longer than what it moves and computes has to, where that is known."""
    return us >= LONG_US and us > FAR * bound_us > 0
