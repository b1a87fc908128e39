"""`graphfuse inspect`: signature, kernels, traffic and memory of an artifact; as text, JSON or a page."""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path
from typing import Any

import click

from graphfuse.cli.common import (
    check_written,
    dim_option,
    echo,
    json_option,
    kernels_option,
    made_up_dims,
    nbytes_text,
    open_model,
    parse_dims,
    print_json,
    table,
    values_of,
)
from graphfuse.cli.html import page
from graphfuse.files import writing
from graphfuse.runtime.report import edges, report


@click.command("inspect", help="Show what ARTIFACT (.gfx, or a model to compile) is made of.")
@click.argument("artifact", type=click.Path(path_type=Path))
@dim_option
@json_option
@kernels_option
@click.option("--html", type=click.Path(path_type=Path), help="Write a page with the partitioned graph.")
def command(
    artifact: Path, dim_texts: tuple[str, ...], as_json: bool, kernel_folders: tuple[Path, ...], html: Path | None
) -> None:
    """Gather the facts, then show them."""
    dims = parse_dims(dim_texts)
    if html is not None:
        check_written({"--html": html}, artifact, kernels=kernel_folders)
    model = open_model(artifact, dims, kernels=kernel_folders)
    executable = model.executable
    facts = report(executable, values_of(dims))
    if html is not None:
        text = page(artifact.name, facts, edges(executable))
        with writing(html) as file:
            file.write(text.encode())
        echo(f"{html}: {nbytes_text(len(text.encode()))}", err=True)
    if as_json:
        print_json({**facts, "ledger": list(executable.ledger), "edges": edges(executable)})
    elif html is None:
        _show(artifact, facts, made_up_dims(model, values_of(dims)))


def _show(artifact: Path, facts: dict[str, Any], made_up: Container[str]) -> None:
    built = f"{', '.join(facts['targets'])}, numerics {facts['meta'].get('numerics', 'eager')}"
    if (precision := facts["meta"].get("precision", "f32")) != "f32":
        built += f", precision {precision}"
    echo(f"{artifact}: {built}, {facts['kernels']} kernels in {len(facts['steps'])} launches")
    for kind in ("inputs", "outputs"):
        for spec in facts[kind]:
            shape = ", ".join(map(str, spec["shape"]))
            echo(f"  {kind[:-1]:6} {spec['name']}: {spec['elem']}[{shape}]")
    for name, (lo, hi) in facts["dims"].items():
        echo(f"  dim    {name} in {lo}..{hi}, here {facts['at'][name]}{' (not given)' * (name in made_up)}")
    for text in facts["constraints"]:
        echo(f"  needs  {text}")
    echo("")
    rows = [
        (
            r["step"],
            r["kernel"],
            r["kind"],
            r["label"][:60],
            r["grid"],
            f"{r['flops'] / 1e6:.2f}",
            nbytes_text(r["bytes_read"]),
            nbytes_text(r["bytes_written"]),
        )
        for r in facts["steps"]
    ]
    table("", ("#", "kernel", "kind", "from", "programs", "Mflop", "reads", "writes"), rows, right=4)
    for target, kernels in facts["gpu_kernels"].items():
        echo("")
        rows = [
            (k["kernel"], k["threads"], *(_known(k[key]) for key in ("registers", "spill_bytes", "shared_bytes")))
            for k in kernels
        ]
        table(target, ("kernel", "threads", "registers", "spilled", "shared"), rows)
    for warning in facts["warnings"]:
        echo(f"warning: {warning}")
    echo("")
    memory, totals = facts["memory"], facts["totals"]
    over = memory["arena"] / memory["arena_bound"] if memory["arena_bound"] else 1.0
    kinds = ", ".join(f"{n} {kind}" for kind, n in facts["kinds"].items())
    echo(f"regions   {kinds}")
    echo(
        f"traffic   {totals['flops'] / 1e9:.3f} Gflop, {nbytes_text(totals['bytes_read'])} read, "
        f"{nbytes_text(totals['bytes_written'])} written"
    )
    echo(
        f"memory    arena {nbytes_text(memory['arena'])} ({over:.3f} x its lower bound "
        f"{nbytes_text(memory['arena_bound'])}), weights {nbytes_text(memory['weights'])}, "
        f"scratch {nbytes_text(memory['scratch'])}"
    )


def _known(value: int) -> object:
    return "-" if value < 0 else value
