"""`graphfuse run`: one run, its outputs summarised, as JSON, or saved."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click
import numpy as np

from graphfuse.artifact import Array
from graphfuse.cli.common import (
    device_option,
    dim_option,
    file_name,
    json_option,
    kernels_option,
    model_argument,
    numerics_option,
    open_model,
    parse_dims,
    precision_option,
    print_json,
    random_inputs,
    read_inputs,
    seed_option,
    shape_values,
    table,
    threads_option,
    values_of,
    write_atomically,
)
from graphfuse.errors import FileError, Loc

MAX_VALUES = 64
"""Outputs up to this many elements are given whole in JSON."""


@click.command("run", help="Run MODEL (.onnx or .gfx) once.")
@model_argument
@click.option("--input", "input_texts", multiple=True, metavar="NAME=FILE.npy", help="An input's values.")
@click.option("--random", "fill", is_flag=True, help="Make up the inputs that are not given.")
@seed_option
@dim_option
@click.option("--output-dir", type=click.Path(path_type=Path), help="Save each output there as NAME.npy.")
@json_option
@threads_option
@numerics_option
@precision_option
@device_option
@kernels_option
def command(
    model: Path,
    input_texts: tuple[str, ...],
    fill: bool,
    seed: int,
    dim_texts: tuple[str, ...],
    output_dir: Path | None,
    as_json: bool,
    threads: int | None,
    numerics: str,
    precision: str,
    device: str,
    kernel_folders: tuple[Path, ...],
) -> None:
    """Gather inputs, run, show."""
    dims = parse_dims(dim_texts)
    feed = read_inputs(input_texts)
    compiled = open_model(
        model, dims, threads, numerics=numerics, precision=precision, device=device, kernels=kernel_folders
    )
    if fill:
        known = {**shape_values(compiled.signature, feed), **values_of(dims)}
        feed = {**random_inputs(compiled, known, seed), **feed}
    start = time.perf_counter()
    outputs = compiled(feed)
    seconds = time.perf_counter() - start
    files = _save(outputs, output_dir) if output_dir else {}
    rows = [_summary(name, array, files.get(name)) for name, array in outputs.items()]
    if as_json:
        print_json({"milliseconds": seconds * 1e3, "outputs": rows})
        return
    cells = [(r["name"], f"{r['dtype']}{r['shape']}", *(_number(r[k]) for k in _STATS)) for r in rows]
    table(f"{model}: {seconds * 1e3:.2f} ms", ("output", "type", *_STATS), cells, right=2)


_STATS = ("mean", "std", "min", "max", "nans")


def _save(outputs: dict[str, Array], folder: Path) -> dict[str, str]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise FileError(f"cannot write: {(e.strerror or str(e)).lower()}", Loc(str(folder))) from None
    files: dict[str, str] = {}
    for name, array in outputs.items():
        stem, n = file_name(name), 1
        while str(folder / f"{stem}.npy") in files.values():  # two names that differ in odd characters
            stem, n = f"{file_name(name)}_{n}", n + 1
        path = folder / f"{stem}.npy"

        def write(scratch: Path, array: Array = array) -> None:
            with scratch.open("wb") as file:
                np.save(file, array, allow_pickle=False)

        write_atomically(path, write)
        files[name] = str(path)
    return files


def _summary(name: str, array: Array, file: str | None) -> dict[str, Any]:
    wide = array.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    row: dict[str, Any] = {"name": name, "dtype": str(array.dtype), "shape": list(array.shape)}
    for key in ("mean", "std", "min", "max"):
        row[key] = float(getattr(np, key)(finite)) if finite.size else None
    row["nans"] = int(np.isnan(wide).sum())
    if file:
        row["file"] = file
    if array.size <= MAX_VALUES:
        # JSON has no NaN, so such a value becomes its name
        row["values"] = [v if np.isfinite(v) else str(v) for v in wide.reshape(-1).tolist()]
    return row


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.5g}"
