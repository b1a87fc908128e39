"""`graphfuse explain`: which operators of a model are one kernel, and why others are not."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from graphfuse.cli.common import NO_REASON, echo, json_option, print_json, table, why_text
from graphfuse.cli.model_options import ModelOptions, of_model
from graphfuse.errors import UsageError
from graphfuse.runtime import gfx
from graphfuse.runtime.report import PYTHON, Edge, edges, kernel_operators, not_fused

Row = Mapping[str, str]
APART = "neither reads what the other makes: there is nothing to save"


@click.command("explain", help="Show which operators of MODEL (.onnx or .gfx) are one kernel, and why others are not.")
@of_model("dim_texts", "numerics", "precision", "unchecked", "device", "kernel_folders")
@click.option("--why-not", nargs=2, metavar="A B", help="Why operators A and B are not one kernel.")
@json_option
def command(given: ModelOptions, why_not: tuple[str, str] | None, as_json: bool) -> None:
    """Compile if need be, then tell of all kernels, or of two operators."""
    executable = given.open().executable
    kernels, reasons = kernel_operators(executable), not_fused(executable)
    if why_not is not None:
        nodes = [] if gfx.is_artifact(given.model) else _nodes(given.model)
        a, b = (_known(name, kernels, reasons, nodes) for name in why_not)
        readers = edges(executable) if executable.host is None else None
        lines = _between(a, b, kernels, reasons, readers)
        if as_json:
            print_json({"operators": [a, b], "why": lines})
        else:
            echo("\n".join(lines))
        return
    if as_json:
        print_json({"kernels": [{"kernel": k, "operators": ops} for k, ops in kernels], "not_fused": reasons})
        return
    table(str(given.model), ("kernel", "operators"), [(k, " + ".join(ops)) for k, ops in kernels], right=2)
    echo("")
    for r in reasons:
        echo(why_text(r))


def _nodes(model: Path) -> list[str]:
    # it imports onnx, which the cache may have made needless
    from graphfuse.frontends.onnx.part import node_names

    return node_names(model)


def _known(name: str, kernels: Sequence[tuple[str, list[str]]], reasons: Sequence[Row], nodes: Sequence[str]) -> str:
    """An operator of that name, or a node that became none; one may leave out what comes behind the node's."""
    names = dict.fromkeys([*(o for _, ops in kernels for o in ops), *(r["operator"] for r in reasons)])
    found = [n for n in names if n == name] or [n for n in names if n.rpartition(".")[0] == name]
    if found or name in nodes:
        return found[0] if found else name
    names |= dict.fromkeys(nodes)
    near = difflib.get_close_matches(name, names, 3, 0.4)
    raise UsageError(f"no operator {name!r}: expected one of the model's, such as {', '.join(near or list(names)[:3])}")


def _between(
    a: str,
    b: str,
    kernels: Sequence[tuple[str, list[str]]],
    reasons: Sequence[Row],
    readers: Sequence[Edge] | None,
) -> list[str]:
    """Why two operators are in the same kernel, or in two."""
    places = [[i for i, (_, ops) in enumerate(kernels) if o in ops] for o in (a, b)]
    if both := [kernels[i][0] for i in places[0] if i in places[1]]:
        return [f"{a} and {b} are one kernel, {both[0]}"]
    lines: list[str] = []
    for o, at in zip((a, b), places, strict=True):
        names = dict.fromkeys(kernels[i][0] for i in at)
        by_python = "no kernel: Python runs it" if PYTHON in names else ""
        lines.append(f"{o} is {by_python or ', '.join(names) or 'no kernel: it is a view, or was folded'}")
    groups = [{o, *(op for i in at for op in kernels[i][1])} for o, at in zip((a, b), places, strict=True)]
    for r in reasons:
        before = r["region"].partition(" of ")[2]
        if any(before in first and r["operator"] in second for first, second in (groups, groups[::-1])):
            lines.append(why_text(r))
    if len(lines) > 2:
        return lines
    if readers is None or not all(places):
        return lines if any("no kernel" in line for line in lines) else [*lines, NO_REASON]
    met = any(x in first and y in second for x, y in readers for first, second in (places, places[::-1]))
    return [*lines, f"one reads what the other makes, and {NO_REASON}" if met else APART]
