"""`graphfuse compile`: a model to an artifact, or to the text of a stage."""

from __future__ import annotations

from pathlib import Path

import click

from graphfuse.api import compile, recompile
from graphfuse.cli.common import (
    check_written,
    dim_option,
    echo,
    echo_document,
    kernels_option,
    model_argument,
    nbytes_text,
    no_check_option,
    numerics_option,
    parse_dims,
    precision_option,
    progress,
    target_option,
)
from graphfuse.compiled_model import CompiledModel
from graphfuse.errors import UsageError
from graphfuse.files import exists
from graphfuse.knobs import Options
from graphfuse.llvm.host import host_target
from graphfuse.runtime import gfx
from graphfuse.runtime.report import code_warnings, fits_this_host_only, host_operators, kernel_count
from graphfuse.stages import emit

STAGES = ("graph", "regions", "block", "llvm", "asm", "ptx")


@click.command("compile", help="Compile MODEL (.onnx) and write an artifact, or print one of its stages.")
@model_argument
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The artifact to write.")
@target_option
@dim_option
@numerics_option
@precision_option
@no_check_option
@kernels_option
@click.option("--emit", "stage", type=click.Choice(STAGES), help="Print this stage.")
@click.option("--recompile", "from_artifact", is_flag=True, help="MODEL is an artifact: rebuild it from its IR.")
@click.option("--no-fuse", is_flag=True, help="One kernel per op.")
def command(
    model: Path,
    output: Path | None,
    targets: tuple[str, ...],
    dim_texts: tuple[str, ...],
    numerics: str,
    precision: str,
    unchecked: bool,
    kernel_folders: tuple[Path, ...],
    stage: str | None,
    from_artifact: bool,
    no_fuse: bool,
) -> None:
    """Check the options, then compile."""
    if output is None and stage is None:
        raise UsageError("nothing to do: expected -o OUT.gfx or --emit STAGE")
    dims = parse_dims(dim_texts)
    options = Options(fuse=not no_fuse, check_indices=not unchecked)
    if stage is not None and len(targets) > 1:
        raise UsageError("--emit: expected one --target")
    if from_artifact and dims:
        raise UsageError("--recompile: the dims of an artifact are fixed, so --dim cannot be given")
    if from_artifact and kernel_folders:
        raise UsageError("--recompile: an artifact holds its kernels, so --kernels cannot be given")
    if not from_artifact and exists(model) and gfx.is_artifact(model):
        raise UsageError(f"{model} is an artifact: expected an ONNX model, or --recompile")
    if output is not None:
        check_written({"-o": output}, model, kernels=kernel_folders)
    with progress("compiling") as note:
        if from_artifact:
            compiled = CompiledModel(
                recompile(model, target=targets, numerics=numerics, precision=precision, options=options)
            )
        else:
            compiled = compile(
                model,
                target=targets,
                dims=dims,
                numerics=numerics,
                precision=precision,
                options=options,
                kernels=kernel_folders,
                progress=note,
            )
        if output is not None:
            note("writing")
            compiled.save(output)
    if stage is not None:
        echo_document(emit(compiled.executable, stage))
    elif output is not None:
        size = f", {nbytes_text(output.stat().st_size)}" if output.is_file() else ""
        echo(f"{output}: {kernel_count(compiled.executable)} kernels{size}", err=True)
        if by_python := host_operators(compiled.executable):
            names = ", ".join(f"{op} ({n})" for op, n in by_python.items())
            parts = len(compiled.executable.parts)
            echo(f"{output}: Python runs {parts} compiled parts and {names}", err=True)
        if fits_this_host_only(compiled.executable):
            mine = host_target().cpu
            echo(f"{output}: for {mine} and CPUs with all that this one has (--target portable: most)", err=True)
        for warning in code_warnings(compiled.executable):
            echo(f"warning: {warning}", err=True)
