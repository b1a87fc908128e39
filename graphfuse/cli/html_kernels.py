"""Of the page of `graphfuse inspect --html` what is about kernels: a row for each, the slowest first.

Launches of one kernel are one row, as equal layers of a model are. A click on it shows what the kernel comes from, what
it reads and what reads it with the reason why that is not in it, and its region, block IR and assembly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from graphfuse.cli.common import NO_REASON, nbytes_text
from graphfuse.cli.html_text import Anchors, ending, escape, folded, short, us_text, within
from graphfuse.runtime.report import PYTHON, Edge, KernelCosts

if TYPE_CHECKING:
    from graphfuse.cli.profile import Profiled
    from graphfuse.profiling import KernelTime

MOST_LABELS, MOST_NEIGHBOURS, MOST_GRIDS = 12, 8, 4
"""That a kernel's row has of what it comes from, is next to and is launched as."""
SLOWEST = 3
"""Kernels that have all of their texts before others have any."""
_NAME, _FROM = 20, {"untimed": 44, "timed": 36, "traced": 25}
"""Columns of the first line's name and label, by what stands behind them."""
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

    def __init__(
        self,
        kernels: Sequence[KernelCosts],
        facts: Mapping[str, Any],
        made: Made,
        anchors: Anchors,
        profiled: Profiled | None = None,
    ) -> None:
        self._kernels, self._made = kernels, made
        self._times = {k.kernel: k for k in profiled.kernels} if profiled is not None else {}
        names = ["kernel", "kind", "launches", "from", "Mflop", "reads", "writes"]
        self._kind, shown = "untimed", [_costs(k) for k in kernels]
        if profiled is not None:
            peaks, self._kind = profiled.peaks, "traced" if profiled.runs.records else "timed"
            unit, per_us = profiled.unit
            done, moved = f"{unit} of {peaks.flops_per_us / per_us:.0f}", f"GB/s of {peaks.bytes_per_us / 1e3:.0f}"
            names[4:] = ["median", "p90", "p99", "share", done, moved, "bound"]
            names += ["registers"] if profiled.runs.records else []
            shown = [_figures(self._times[k.kernel], profiled) for k in kernels]
        self._head = f'<div class="k head">{"".join(f"<i>{n}</i>" for n in names)}</div>'
        self._lines = [
            _first_line(k, s, _FROM[self._kind], anchors.place(k.kernel)) for k, s in zip(kernels, shown, strict=True)
        ]
        self._bodies = list(_bodies(kernels, facts, made, anchors, self._times))

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
        rows = [f'<div class="kernels {self._kind}">', self._head]
        for row, line in enumerate(lines):
            body = bodies[row] if row < len(bodies) else NO_BODY
            mine = texts[row] if row < len(texts) else []
            shown = (
                folded(what, text) for i, (what, text) in enumerate(zip(TEXTS, mine, strict=False)) if (row, i) in kept
            )
            rows.append(f"{line}{body}{''.join(shown)}{_END}")
        rows.append("</div>")
        if left := self._kernels[len(lines) :]:
            us = f", {us_text(sum(self._times[k.kernel].median_us for k in left))} in all" if self._times else ""
            rows.append(f"<p>And {len(left)} more{us}.</p>")
        if any((row, i) not in kept for row, mine in enumerate(texts) for i, text in enumerate(mine) if text):
            rows.append(f"<p>{LEFT_OUT}</p>")
        return rows


_END = "</div></details>"


def _costs(k: KernelCosts) -> list[str]:
    """What a row shows where nothing was timed."""
    return [f"{k.flops / 1e6:.2f}", nbytes_text(k.read), nbytes_text(k.written)]


def _figures(k: KernelTime, profiled: Profiled) -> list[str]:
    """What a row shows of a kernel's times; how much of the whole it takes is drawn as a bar."""
    share = 100 * k.median_us / profiled.whole if profiled.whole else 0.0
    rates = f"{1e3 * k.gflops / profiled.unit[1]:.1f}", f"{k.gbytes:.1f}"
    cells = [*map(us_text, (k.median_us, k.p90_us, k.p99_us)), f'<u style="--w:{share:.1f}%"></u>{share:.1f} %', *rates]
    return [
        *cells,
        us_text(k.bound_us),
        *([str(k.resources.registers) if k.resources else "-"] if profiled.runs.records else []),
    ]


def _first_line(k: KernelCosts, figures: Sequence[str], columns: int, place: str) -> str:
    """What a row shows without a click."""
    cells = [f"<b>{escape(short(k.kernel, _NAME))}</b>", escape(k.kind), str(len(k.steps))]
    cells.append(escape(ending(next(iter(k.labels)), columns)))
    line = "".join(f"<i>{c}</i>" for c in (*cells, *figures))
    return f'<details class="k"><summary>{line}</summary><div id="{place}">'


def _bodies(
    kernels: Sequence[KernelCosts],
    facts: Mapping[str, Any],
    made: Made,
    anchors: Anchors,
    times: Mapping[str, KernelTime],
) -> Iterator[str]:
    """What each kernel comes from, and is next to, with the reason why that is not in it; each reason once."""
    of_step: dict[Name, str] = {r["step"]: r["kernel"] for r in facts["steps"]}
    kinds: dict[Name, str] = {r["step"]: r["kind"] for r in facts["steps"]}
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
            why = ""
            if isinstance(a, int) and isinstance(b, int):
                python = next((of_step[s] for s in edge if kinds[s] == PYTHON), "")
                why = f"Python runs {python}" if python else reasons.between(operators[a], operators[b])
            shown = anchors.link(of_step[other]) if other in of_step else escape(str(other))
            told.setdefault(why, {})[f"{verb} {shown} {escape(made.types[edge])}".rstrip()] = None
        items = [
            f"<li>{_some(sorted(n, key=_is_reader), MOST_NEIGHBOURS)}{escape(f': {why}' * bool(why))}</li>"
            for why, n in told.items()
        ]
        listed = f"<ul>{''.join(items)}</ul>" if items else ""
        like = f", and alike {_some(others, MOST_LABELS)}" if (others := [o for o in k.labels if o != first]) else ""
        took = _took(k, times[k.kernel]) if times else ""
        name = f"{escape(k.kernel)}: " if short(k.kernel, _NAME) != k.kernel else ""
        yield f"<p>{name}From {escape(made_of + like)}. Programs: {escape(programs)}.{took}</p>{listed}"


def _took(k: KernelCosts, time: KernelTime) -> str:
    """What a row leaves out where it has times."""
    done, read, written = _costs(k)
    far = f", {time.median_us / k.bound_us:.1f} times its bound" if k.bound_us else ""
    text = f" It computes {done} Mflop, reads {read} and writes {written}{far}."
    if (r := time.resources) is None:
        return text
    shared = f"a block {r.shared_bytes / 1024:.1f} KiB of shared memory"
    return f"{text} A thread takes {r.registers} registers and {r.local_bytes} B of local memory, {shared}."


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
