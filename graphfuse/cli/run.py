"""`graphfuse run`: one run, its outputs summarised, as JSON, or saved."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import click
import numpy as np

from graphfuse.artifact import Array
from graphfuse.cli.common import (
    check_written,
    file_name,
    json_option,
    made_up_dims,
    note_dims,
    print_json,
    random_inputs,
    read_archive,
    read_inputs,
    seed_option,
    shape_values,
    table,
)
from graphfuse.cli.model_options import ModelOptions, of_model
from graphfuse.errors import InputError, UsageError
from graphfuse.files import told, writing
from graphfuse.knobs import settings

WARM_RUNS, WARM_SECONDS, MOST_SECONDS = 5, 0.5, 10.0
"""Runs after the first, if that was not longer than the last of these: so many, or for so long."""
MAX_VALUES = 64
"""Outputs up to this many elements are given whole in JSON."""


@click.command("run", help="Run MODEL (.onnx or .gfx) once.")
@of_model("dim_texts", "threads", "numerics", "precision", "unchecked", "device", "kernel_folders", "fetched")
@click.option("--input", "input_texts", multiple=True, metavar="NAME=FILE.npy", help="An input's values.")
@click.option("--inputs", "archive", type=click.Path(path_type=Path), help="Values of several inputs (.npz).")
@click.option("--random", "fill", is_flag=True, help="Make up the inputs that are not given.")
@seed_option
@click.option("--output-dir", type=click.Path(path_type=Path), help="Save each output there as NAME.npy.")
@json_option
def command(
    given: ModelOptions,
    input_texts: tuple[str, ...],
    archive: Path | None,
    fill: bool,
    seed: int,
    output_dir: Path | None,
    as_json: bool,
) -> None:
    """Gather inputs, run, show."""
    known = given.values
    feed = {**(read_archive(archive) if archive else {}), **read_inputs(input_texts)}
    compiled = given.open()
    if output_dir:
        with told("write", output_dir):
            output_dir.mkdir(parents=True, exist_ok=True)
    names = given.fetched or [o.name for o in compiled.signature.outputs]
    files = _files(names, output_dir) if output_dir else {}
    read = (*input_texts, f"={archive}") if archive else input_texts
    check_written({f"--output-dir: {n}": f for n, f in files.items()}, given.model, read, given.kernel_folders)
    wanted = [s.name for s in compiled.signature.inputs]
    if not fill and (missing := [n for n in wanted if n not in feed]) and feed.keys() <= set(wanted):
        names = f"input{'s' * (len(missing) > 1)} {', '.join(map(repr, missing))}"
        raise InputError(f"missing {names}: expected --input NAME=FILE.npy, or --random to make up values")
    dims_made: dict[str, int] = {}
    if fill:
        known = {**shape_values(compiled.signature, feed), **known}
        feed = {**random_inputs(compiled, known, seed, feed), **feed}
        dims_made = made_up_dims(compiled, known)
    outputs, first = _timed(lambda: compiled(feed))
    warm = _warm_seconds(lambda: compiled.session.run(feed), first)
    if output_dir:
        _save(outputs, files)
    rows = [_summary(name, outputs[name], files.get(name)) for name in names]
    if as_json:
        shown = {"milliseconds": first * 1e3, "warm_milliseconds": None if warm is None else warm * 1e3}
        print_json({**shown, "dims": dims_made, "outputs": rows})
        return
    cells = [(r["name"], f"{r['dtype']}{r['shape']}", *(_number(r[k]) for k in _STATS)) for r in rows]
    then = "" if warm is None else f", then {warm * 1e3:.2f} ms"
    table(f"{given.model}: first run {first * 1e3:.2f} ms{then}", ("output", "type", *_STATS), cells, right=2)
    note_dims(dims_made)


Outputs = dict[str, Any]


def _timed(run: Callable[[], Outputs]) -> tuple[Outputs, float]:
    start = time.perf_counter()
    outputs = run()
    return outputs, time.perf_counter() - start


def _warm_seconds(run: Callable[[], Outputs], first: float) -> float | None:
    """The median of a few runs after the first, which loads code and weights; None where that would take long."""
    if first > MOST_SECONDS or settings.interpret:
        return None
    times: list[float] = []
    while len(times) < WARM_RUNS and sum(times) < WARM_SECONDS:
        times.append(_timed(run)[1])
    return statistics.median(times)


_STATS = ("mean", "std", "min", "max", "nans")


def _files(names: Iterable[str], folder: Path) -> dict[str, Path]:
    """Where each output goes."""
    files: dict[str, Path] = {}
    for name in names:
        stem, n = file_name(name), 1
        while folder / f"{stem}.npy" in files.values():  # two names that differ in odd characters
            stem, n = f"{file_name(name)}_{n}", n + 1
        files[name] = folder / f"{stem}.npy"
    return files


def _save(outputs: dict[str, Array], files: Mapping[str, Path]) -> None:
    for name, path in files.items():
        array: Any = outputs[name]
        if array is None or isinstance(array, list):
            found = "nothing" if array is None else "a sequence"
            raise UsageError(f"--output-dir: output {name!r}: expected an array, found {found}")
        with writing(path) as file:  # of texts, of fixed width: objects would be pickled
            np.save(file, array if _is_numeric(array) else array.astype(str), allow_pickle=False)


def _is_numeric(value: object) -> bool:
    """Whether an output is not what host code alone gives: texts, or a list."""
    return isinstance(value, np.ndarray) and cast("Array", value).dtype != object


def _summary(name: str, array: Any, file: Path | None) -> dict[str, Any]:
    if not _is_numeric(array):
        is_text = isinstance(array, np.ndarray)
        values = [_plain(v) for v in (cast("Array", array).reshape(-1) if is_text else array or ())]
        shape = list(cast("Array", array).shape) if is_text else [len(values)]
        kind = "text" if is_text else "nothing" if array is None else "sequence"
        return {"name": name, "dtype": kind, "shape": shape, **dict.fromkeys(_STATS), "values": values[:MAX_VALUES]}
    wide = array.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    row: dict[str, Any] = {"name": name, "dtype": str(array.dtype), "shape": list(array.shape)}
    for key in ("mean", "std", "min", "max"):
        row[key] = float(getattr(np, key)(finite)) if finite.size else None
    row["nans"] = int(np.isnan(wide).sum())
    if file:
        row["file"] = str(file)
    if array.size <= MAX_VALUES:
        # JSON has no NaN, so such a value becomes its name
        row["values"] = [v if np.isfinite(v) else str(v) for v in wide.reshape(-1).tolist()]
    return row


def _plain(value: Any) -> Any:
    """What JSON can have: a dict, a text, or the numbers of an array."""
    if isinstance(value, dict):
        return {str(k): v for k, v in cast("dict[Any, Any]", value).items()}
    return value if isinstance(value, str) else np.asarray(value).tolist()


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.5g}"
