"""`graphfuse compile`: a model to an artifact, or to the text of a stage."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from graphfuse.api import compile, recompile
from graphfuse.cli.common import check_written, echo, echo_document, nbytes_text, progress
from graphfuse.cli.model_options import ModelOptions, of_model
from graphfuse.compiled_model import CompiledModel
from graphfuse.errors import UsageError
from graphfuse.files import exists
from graphfuse.knobs import Options
from graphfuse.llvm.host import host_target
from graphfuse.runtime import gfx
from graphfuse.runtime.report import code_warnings, fits_this_host_only, host_operators, kernel_count, target_notes
from graphfuse.stages import emit

STAGES = ("graph", "regions", "block", "llvm", "asm", "ptx")


@click.command("compile", help="Compile MODEL (.onnx) and write an artifact, or print one of its stages.")
@of_model("dim_texts", "numerics", "precision", "unchecked", "kernel_folders", "state_texts")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The artifact to write.")
@click.option(
    "--target", "targets", multiple=True, metavar="TARGET",
    help="`cpu` (this machine), `cpu:NAME`, `cuda:ARCH` or `portable` (most CPUs); several may be given.",
)  # fmt: skip
@click.option("--emit", "stage", type=click.Choice(STAGES), help="Print this stage.")
@click.option("--recompile", "from_artifact", is_flag=True, help="MODEL is an artifact: rebuild it from its IR.")
@click.option("--no-fuse", is_flag=True, help="One kernel per op.")
@click.option("--tune", is_flag=True, help="Try the ways to make each kernel on this machine, and take the fastest.")
def command(
    given: ModelOptions,
    output: Path | None,
    targets: tuple[str, ...],
    stage: str | None,
    from_artifact: bool,
    no_fuse: bool,
    tune: bool,
) -> None:
    """Check the options, then compile."""
    _check(given, output, targets, stage, from_artifact=from_artifact, tune=tune)
    model = given.model
    options = Options(fuse=not no_fuse, check_indices=not given.unchecked)
    with progress("compiling") as note:
        if from_artifact:
            numerics, precision = given.numerics, given.precision
            executable = recompile(model, target=targets, numerics=numerics, precision=precision, options=options)
            compiled = CompiledModel(executable)
        else:
            compiled = compile(
                model, target=targets, dims=given.dims, options=options, tune=tune, progress=note,
                state=given.states, **given.choices,
            )  # fmt: skip
        if output is not None:
            note("writing")
            compiled.save(output)
    if stage is not None:
        echo_document(emit(compiled.executable, stage))
    elif output is not None:
        _sum_up(compiled, output)


def _check(
    given: ModelOptions,
    output: Path | None,
    targets: Sequence[str],
    stage: str | None,
    *,
    from_artifact: bool,
    tune: bool,
) -> None:
    """See that options go together, and that what is to be written can be."""
    if output is None and stage is None:
        raise UsageError("nothing to do: expected -o OUT.gfx or --emit STAGE")
    if stage is not None and len(targets) > 1:
        raise UsageError("--emit: expected one --target")
    if from_artifact and given.dims:
        raise UsageError("--recompile: the dims of an artifact are fixed, so --dim cannot be given")
    if from_artifact and tune:
        raise UsageError("--recompile: an artifact is rebuilt as it is, so --tune cannot be given")
    if from_artifact and given.state_texts:
        raise UsageError("--recompile: an artifact has the states it was compiled with, so --state cannot be given")
    if from_artifact and given.kernel_folders:
        raise UsageError("--recompile: an artifact holds its kernels, so --kernels cannot be given")
    if not from_artifact and exists(given.model) and gfx.is_artifact(given.model):
        raise UsageError(f"{given.model} is an artifact: expected an ONNX model, or --recompile")
    # now, not after minutes of compiling
    if output is not None:
        check_written({"-o": output}, given.model, kernels=given.kernel_folders)


def _sum_up(compiled: CompiledModel, output: Path) -> None:
    """Say what was written, and what of it a user should know."""
    size = f", {nbytes_text(output.stat().st_size)}" if output.is_file() else ""
    echo(f"{output}: {kernel_count(compiled.executable)} kernels{size}", err=True)
    if by_python := host_operators(compiled.executable):
        names = ", ".join(f"{op} ({n})" for op, n in by_python.items())
        parts = len(compiled.executable.parts)
        echo(f"{output}: Python runs {parts} compiled parts and {names}", err=True)
    if fits_this_host_only(compiled.executable):
        mine = host_target().cpu
        echo(f"{output}: for {mine} and CPUs with all that this one has (--target portable: most)", err=True)
    for note in target_notes(compiled.executable):
        echo(note, err=True)
    for warning in code_warnings(compiled.executable):
        echo(f"warning: {warning}", err=True)
