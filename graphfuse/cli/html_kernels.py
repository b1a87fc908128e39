"""Of the page of `graphfuse inspect --html` what is about kernels: a table, the slowest first, and a section for each.

Launches of one kernel are one row, as equal layers of a model are. A section has what the kernel comes from, its
neighbours, why they are not in it, and its IR.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphfuse.cli.common import nbytes_text, why_text
from graphfuse.cli.html_text import escape, folded, table, us_text
from graphfuse.runtime.report import KernelCosts, reasons_of

MOST_LABELS, MOST_REASONS = 12, 8
"""That a section has of a kernel."""
LEFT_OUT = "Left out, as the page would be too large: graphfuse compile --emit has it."

Name = int | str


def link(kernel: str) -> str:
    """Markup that leads to a kernel's section."""
    return f'<a href="#kernel-{escape(kernel)}">{escape(kernel)}</a>'


def kernel_table(kernels: Sequence[KernelCosts]) -> str:
    """One row each; how much of the whole it takes is drawn as a bar."""
    whole = sum(k.us for k in kernels)
    rows: list[list[str]] = []
    for k in kernels:
        more = f" and {len(k.labels) - 1} more" if len(k.labels) > 1 else ""
        cells = [link(k.kernel), escape(k.kind), str(len(k.steps)), escape(f"{next(iter(k.labels))}{more}")]
        moved = [f"{k.flops / 1e6:.2f}", nbytes_text(k.read), nbytes_text(k.written)]
        rows.append([*cells, *moved, *(_times(k, whole) if whole else [])])
    times = ("time", "share", "its bound") if whole else ()
    return table(("kernel", "kind", "launches", "from", "Mflop", "reads", "writes", *times), rows, "kernels")


def _times(k: KernelCosts, whole: float) -> list[str]:
    share = 100 * k.us / whole
    bar = f'<span class="bar"><i style="width:{share:.1f}%"></i></span> {share:.1f} %'
    return [us_text(k.us), bar, us_text(k.bound_us)]


def sections(
    kernels: Sequence[KernelCosts],
    facts: Mapping[str, Any],
    edges: Sequence[tuple[Name, Name]],
    texts: Mapping[str, tuple[str, str]],
    room: int,
) -> str:
    """What each kernel is made of and next to; `texts` have its region and its block function, by its name.

    The slowest have them, as far as there is `room` for so many bytes.
    """
    of_step: dict[Name, str] = {r["step"]: r["kernel"] for r in facts["steps"]}
    out: list[str] = []
    for k in kernels:
        steps, text = set(k.steps), texts.get(k.kernel, ("", ""))
        before = dict.fromkeys(of_step.get(a, str(a)) for a, b in edges if b in steps)
        behind = dict.fromkeys(of_step.get(b, str(b)) for a, b in edges if a in steps)
        room -= sum(len(escape(t)) for t in text)
        out += [
            f'<section id="kernel-{escape(k.kernel)}"><h3>{escape(k.kernel)}</h3>',
            f"<p>From {escape(_some(list(k.labels), MOST_LABELS))}.</p>",
            f"<p>Reads {_linked(before, of_step)}; read by {_linked(behind, of_step)}.</p>",
            _reasons(k, facts["not_fused"]),
            *(folded(what, t if room >= 0 else LEFT_OUT) for what, t in zip(("region", "block IR"), text, strict=True)),
            "</section>",
        ]
    return "\n".join(out)


def _some(names: Sequence[str], most: int) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def _linked(names: Mapping[str, None], of_step: Mapping[Name, str]) -> str:
    known = set(of_step.values())
    shown = [link(n) if n in known else escape(n) for n in names]
    return f"{', '.join(shown[:MOST_LABELS])}{' and more' if len(shown) > MOST_LABELS else ''}" or "nothing"


def _reasons(k: KernelCosts, not_fused: Sequence[Mapping[str, str]]) -> str:
    """Why its operators are not in a region before it, and why none behind is in it; each reason once."""
    told: dict[str, str] = {}
    for r in reasons_of(not_fused, k.kind, k.labels):
        told.setdefault(r["reason"], why_text(r))
    items = list(told.values())[:MOST_REASONS]
    return f"<ul>{''.join(f'<li>{escape(item)}</li>' for item in items)}</ul>" if items else ""
