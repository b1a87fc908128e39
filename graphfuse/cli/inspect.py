"""`graphfuse inspect`: signature, kernels, traffic and memory of an artifact; as text, JSON or a page."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from graphfuse.artifact import Executable
from graphfuse.cli.common import (
    check_written,
    echo,
    inputs_of,
    json_option,
    made_up_dims,
    nbytes_text,
    print_json,
    table,
)
from graphfuse.cli.html import COSTS, costs, is_cliff, page, spec_text, times_of
from graphfuse.cli.html_code import MOST_ASSEMBLED, assembly, edge_types
from graphfuse.cli.html_kernels import Made
from graphfuse.cli.model_options import ModelOptions, of_model
from graphfuse.cli.profile import ROUNDS, SECONDS, Profiled
from graphfuse.compiled_model import CompiledModel
from graphfuse.errors import DeviceError, GraphfuseError
from graphfuse.files import writing
from graphfuse.runtime import gfx
from graphfuse.runtime.report import edges, kernel_costs, kernel_operators, launched, report
from graphfuse.stages import kernel_texts


@click.command("inspect", help="Show what ARTIFACT (.gfx, or a model to compile) is made of.")
@of_model("dim_texts", "threads", "device", "kernel_folders", metavar="ARTIFACT")
@json_option
@click.option(
    "--profile/--no-profile",
    default=None,
    help="Run it on random inputs and show times (default: with --html, where it is no artifact).",
)
@click.option("--html", type=click.Path(path_type=Path), help="Write a page with the partitioned graph.")
def command(given: ModelOptions, as_json: bool, profile: bool | None, html: Path | None) -> None:
    """Gather the facts, then show them."""
    artifact, dims = given.model, given.values
    if html is not None:
        check_written({"--html": html}, artifact, kernels=given.kernel_folders)
    model = given.open()
    executable = model.executable
    facts = report(executable, dims)
    may_run = html is not None and not gfx.is_artifact(artifact) and not model.device.is_emulated
    profiled = None
    if profile or (profile is None and may_run):
        try:
            profiled = _profiled(model, dims, facts["steps"])
        except (GraphfuseError, MemoryError) as e:
            if profile:
                raise
            echo(f"no times: {e}", err=True)
    if html is not None:
        kernels = profiled.kernels if profiled is not None else kernel_costs(facts["steps"])
        slowest = [k.kernel for k in kernels[:MOST_ASSEMBLED]]
        made = _made(executable, slowest, dims, is_own=bool(profile) or not gfx.is_artifact(artifact))
        text = page(artifact.name, facts, made, profiled)
        with writing(html) as file:
            file.write(text.encode())
        echo(f"{html}: {nbytes_text(len(text.encode()))}", err=True)
    if as_json:
        times = {"profile": profiled.facts()} if profiled is not None else {}
        print_json({**facts, "ledger": list(executable.ledger), "edges": edges(executable), **times})
    elif html is None:
        _show(artifact, facts, made_up_dims(model, dims), profiled.summary() if profiled is not None else ())


def _made(executable: Executable, slowest: Sequence[str], dims: Mapping[str, int], *, is_own: bool) -> Made:
    """What the page shows of how the model was partitioned; assembly of the slowest kernels."""
    code = assembly(executable, slowest, is_own=is_own)
    texts = {name: (*both, code.get(name, "")) for name, both in kernel_texts(executable).items()}
    operators = [ops for _, ops in kernel_operators(executable)] if executable.host is None else ()
    return Made(operators, edge_types(executable, dims), texts)


def _profiled(model: CompiledModel, dims: Mapping[str, int], rows: Sequence[dict[str, Any]]) -> Profiled:
    """As `graphfuse profile` has it. Each row gets the percentiles of its launches, and the least they could take."""
    # compiles, which showing what was compiled need not pay for
    from graphfuse.profiling import PERCENTILES

    feed, given, _ = inputs_of(model, dims, 0, None)
    found = Profiled.of(model, feed, given, ROUNDS, SECONDS)
    if [s.kernel for s in found.runs.launches] != [r["kernel"] for r in rows]:
        raise DeviceError("this machine runs other code than is shown")
    each = np.percentile(found.runs.us, PERCENTILES, 0).T.tolist()
    for row, (median, p90, p99) in zip(rows, each, strict=True):
        bound = found.peaks.bound_us(row["bytes_read"] + row["bytes_written"], row["flops"])
        row.update(median_us=median, p90_us=p90, p99_us=p99, bound_us=bound)
    return found


def _show(artifact: Path, facts: dict[str, Any], made_up: Container[str], summary: Sequence[str]) -> None:
    built = f"{', '.join(facts['targets'])}, numerics {facts['meta'].get('numerics', 'eager')}"
    if (precision := facts["meta"].get("precision", "f32")) != "f32":
        built += f", precision {precision}"
    steps = launched(facts["steps"])
    echo(f"{artifact}: {built}, {facts['kernels']} kernels in {len(steps)} launches")
    for kind in ("inputs", "outputs"):
        for spec in facts[kind]:
            echo(f"  {kind[:-1]:6} {spec_text(spec)}")
    for name, (lo, hi) in facts["dims"].items():
        echo(f"  dim    {name} in {lo}..{hi}, here {facts['at'][name]}{' (not given)' * (name in made_up)}")
    for text in facts["constraints"]:
        echo(f"  needs  {text}")
    echo("")
    times = times_of(facts["steps"])
    rows: list[tuple[object, ...]] = []
    for r in steps:
        label = r["label"][:60]
        rows.append((r["step"], r["kernel"], *((label,) if times else (r["kind"], label, r["grid"])), *costs(r, times)))
    whence = ("kernel", "from") if times else ("kernel", "kind", "from", "programs")
    table("", ("#", *whence, *COSTS, *times.values()), rows, right=3 if times else 4)
    if len(steps) < len(facts["steps"]):
        echo(f"and {len(facts['steps']) - len(steps)} for other shapes, which nothing launches at these")
    cliffs: dict[str, float] = {}
    for r in steps:
        if times and is_cliff(r["median_us"], r["bound_us"]):
            cliffs[r["kernel"]] = max(cliffs.get(r["kernel"], 0.0), r["median_us"] / r["bound_us"])
    for kernel, far in cliffs.items():
        echo(f"{kernel}: {far:.0f} times as long as its bytes and operations take")
    for line in summary:
        echo(line)
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
