"""Of the page of `graphfuse inspect --html` what is about kernels: a row for each, the slowest first.

Launches of one kernel are one row, as equal layers of a model are. A click on it shows what the kernel comes from, what
it reads and what reads it with the reason why that is not in it, and its region, block IR and assembly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graphfuse.cli.common import NO_REASON, nbytes_text
from graphfuse.cli.html_text import Anchors, escape, folded, short, us_text, within
from graphfuse.runtime.report import Edge, KernelCosts

MOST_LABELS, MOST_NEIGHBOURS, MOST_GRIDS = 12, 8, 4
"""That a kernel's row has of what it comes from, is next to and is launched as."""
SLOWEST = 3
"""Kernels that have all of their texts before others have any."""
_FROM = 44
"""Columns of the first line's label."""
LEFT_OUT = "Some IR and assembly is left out, as the page would be too large: graphfuse compile --emit has all."
NO_BODY = "<p>Left out, as the page would be too large: graphfuse explain has it.</p>"
TEXTS = ("region", "block IR", "assembly")

Name = int | str


@dataclass(frozen=True)
class Made:
    """What is known of how a model was partitioned."""

    operators: Sequence[Sequence[str]] = ()
    """Of each launch: what became it. Nothing where Python runs launches."""
    types: Mapping[Edge, str] = field(default_factory=dict[Edge, str])
    """The edges, and what goes along them."""
    texts: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    """Of kernels by name: region, block function and assembly, empty where there is none."""


class KernelRows:
    """The rows of kernels, each made once; how much of them a page has is asked for in turn."""

    def __init__(self, kernels: Sequence[KernelCosts], facts: Mapping[str, Any], made: Made, anchors: Anchors) -> None:
        self._kernels, self._made = kernels, made
        self._whole = sum(k.us for k in kernels)
        names = ["kernel", "kind", "launches", "from", "Mflop", "reads", "writes"]
        names += ["time", "share", "its bound"] if self._whole else []
        self._head = f'<div class="k head">{"".join(f"<i>{n}</i>" for n in names)}</div>'
        self._lines = [_first_line(k, self._whole, anchors.place(k.kernel)) for k in kernels]
        self._bodies = list(_bodies(kernels, facts, made, anchors))

    def within(self, room: int) -> tuple[list[str], list[str]]:
        """The first lines of kernels and what a click shows of them, the slowest first, in so many bytes."""
        lines, _ = within([line + _END for line in self._lines], room)
        left = room - sum(len(line.encode()) + len(_END) for line in self._lines[: len(lines)])
        bodies, _ = within(self._bodies, left)
        return self._lines[: len(lines)], bodies[: len(lines)]

    def size(self, lines: Sequence[str], bodies: Sequence[str]) -> int:
        """Bytes of all that is there without the texts."""
        return len("\n".join(self.markup(lines, bodies, 0)).encode()) + len(LEFT_OUT)

    def markup(self, lines: Sequence[str], bodies: Sequence[str], room: int) -> list[str]:
        """Head and rows; the slowest have their texts, as far as there is `room` for so many bytes."""
        texts = [list(self._made.texts.get(k.kernel, ())) for k in self._kernels[: len(bodies)]]
        kept: set[tuple[int, int]] = set()
        # assembly is long, and says less
        for rows, which in ((slice(SLOWEST), (0, 1, 2)), (slice(SLOWEST, None), (0, 1)), (slice(SLOWEST, None), (2,))):
            for row, mine in list(enumerate(texts))[rows]:
                shown = [i for i in which if i < len(mine) and mine[i]]
                need = sum(len(folded(TEXTS[i], mine[i]).encode()) for i in shown)
                if need <= room:
                    room -= need
                    kept |= {(row, i) for i in shown}
        rows = [f'<div class="{"timed" if self._whole else "untimed"}">', self._head]
        for row, line in enumerate(lines):
            body = bodies[row] if row < len(bodies) else NO_BODY
            mine = texts[row] if row < len(texts) else []
            shown = (
                folded(what, text) for i, (what, text) in enumerate(zip(TEXTS, mine, strict=False)) if (row, i) in kept
            )
            rows.append(f"{line}{body}{''.join(shown)}{_END}")
        rows.append("</div>")
        if left := self._kernels[len(lines) :]:
            us = f", {us_text(sum(k.us for k in left))} in all" if self._whole else ""
            rows.append(f"<p>And {len(left)} more{us}.</p>")
        if any((row, i) not in kept for row, mine in enumerate(texts) for i, text in enumerate(mine) if text):
            rows.append(f"<p>{LEFT_OUT}</p>")
        return rows


_END = "</div></details>"


def _first_line(k: KernelCosts, whole: float, place: str) -> str:
    """What a row shows without a click; how much of the whole it takes is drawn as a bar."""
    labels = list(k.labels)
    more = f" and {len(labels) - 1} more" if len(labels) > 1 else ""
    cells = [f"<b>{escape(short(k.kernel, 25))}</b>", escape(k.kind), str(len(k.steps))]
    cells += [f"{escape(short(labels[0], _FROM))}{more}", f"{k.flops / 1e6:.2f}"]
    cells += [nbytes_text(k.read), nbytes_text(k.written)]
    if whole:
        share = 100 * k.us / whole
        cells += [us_text(k.us), f'<u style="--w:{share:.1f}%"></u>{share:.1f} %', us_text(k.bound_us)]
    line = "".join(f"<i>{c}</i>" for c in cells)
    return f'<details class="k"><summary>{line}</summary><div id="{place}">'


def _bodies(kernels: Sequence[KernelCosts], facts: Mapping[str, Any], made: Made, anchors: Anchors) -> Iterator[str]:
    """What each kernel comes from, and is next to, with the reason why that is not in it; each reason once."""
    of_step: dict[Name, str] = {r["step"]: r["kernel"] for r in facts["steps"]}
    grids: dict[str, dict[str, None]] = {}
    for r in facts["steps"]:
        grids.setdefault(r["kernel"], {})[str(r["grid"])] = None
    operators = made.operators or [[r["label"] or r["kind"]] for r in facts["steps"]]
    reasons = _Reasons(facts["not_fused"])
    ends: dict[Name, list[tuple[str, Name, Edge]]] = {}
    for edge in made.types:
        ends.setdefault(edge[1], []).append(("reads", edge[0], edge))
        ends.setdefault(edge[0], []).append((_READER, edge[1], edge))
    for k in kernels:
        first, made_of = next(iter(k.labels)), " + ".join(operators[k.steps[0]])
        programs = _some(list(grids[k.kernel]), MOST_GRIDS)
        told: dict[str, dict[str, None]] = {}
        for verb, other, edge in (e for s in k.steps for e in ends.get(s, ())):
            a, b = edge
            why = reasons.between(operators[a], operators[b]) if isinstance(a, int) and isinstance(b, int) else ""
            shown = anchors.link(of_step[other]) if other in of_step else escape(str(other))
            told.setdefault(why, {})[f"{verb} {shown} {escape(made.types[edge])}".rstrip()] = None
        items = [
            f"<li>{_some(sorted(n, key=_is_reader), MOST_NEIGHBOURS)}{escape(f': {why}' * bool(why))}</li>"
            for why, n in told.items()
        ]
        listed = f"<ul>{''.join(items)}</ul>" if items else ""
        like = f", and alike {_some(others, MOST_LABELS)}" if (others := [o for o in k.labels if o != first]) else ""
        yield f"<p>From {escape(made_of + like)}. Programs: {escape(programs)}.</p>{listed}"


_READER = "is read by"


def _is_reader(neighbour: str) -> bool:
    return neighbour.startswith(_READER)


class _Reasons:
    """Why operators are not in the region before them, by the operator."""

    def __init__(self, rows: Sequence[Mapping[str, str]]) -> None:
        self._rows: dict[str, list[Mapping[str, str]]] = {}
        for row in rows:
            self._rows.setdefault(row["operator"], []).append(row)

    def between(self, first: Sequence[str], second: Sequence[str]) -> str:
        """Why none of the second's operators is in the region of the first's."""
        mine = (r for o in second for r in self._rows.get(o, ()))
        return next((r["reason"] for r in mine if r["region"].partition(" of ")[2] in first), NO_REASON)


def _some(names: Sequence[str], most: int) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"
