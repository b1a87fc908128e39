"""`graphfuse verify`: a model against ONNX Runtime, its regions against the interpreter, a file against its digests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np

from graphfuse.api import verify_regions
from graphfuse.artifact import Array
from graphfuse.cli.common import (
    echo,
    inputs_of,
    inputs_option,
    json_option,
    nbytes_text,
    note_dims,
    print_json,
    seed_option,
    table,
)
from graphfuse.cli.model_options import ModelOptions, of_model
from graphfuse.cli.reference import Reference, is_installed, require_onnxruntime
from graphfuse.errors import GraphfuseError, UsageError
from graphfuse.runtime import gfx

TOLERANCE = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2}
"""Largest error allowed, as a part of the reference's standard deviation. Other types must be equal."""
LOWERED = {"f16": 2e-2, "bf16": 1e-1}
"""The same by precision, for f32 outputs of a model compiled to that."""
_NOT_OF_ORT = "ONNX Runtime has no operators of --kernels"


@click.command("verify", help="Check MODEL (.onnx or .gfx): numbers against references, digests of an artifact.")
@of_model("dim_texts", "threads", "numerics", "precision", "device", "kernel_folders")
@click.option(
    "--regions/--no-regions",
    default=None,
    help="Compare each region in float64 (default: yes); with --regions, ONNX Runtime may be missing.",
)
@inputs_option
@seed_option
@json_option
def command(given: ModelOptions, regions: bool | None, archive: Path | None, seed: int, as_json: bool) -> None:
    """Run every check that applies, show all, then fail if one did."""
    model, kernel_folders = given.model, given.kernel_folders
    is_artifact = gfx.is_artifact(model)
    result: dict[str, Any] = {}
    if is_artifact:
        result["sections"] = gfx.verify(model)
    against_ort = not is_artifact and not kernel_folders  # which ONNX Runtime does not know
    if against_ort and not regions:
        require_onnxruntime("; --regions compares without it")
    compiled = given.open()
    feed, _, made_up = inputs_of(compiled, given.values, seed, archive)
    if against_ort and is_installed():
        wanted = Reference(model, compiled.session.threads)(feed)
        result["outputs"] = compare(compiled(feed), wanted, LOWERED.get(given.precision, 0.0))
    if regions is not False and compiled.executable.host is None:  # what reaches the regions of parts, only a run knows
        arrays = [feed[s.name] for s in compiled.signature.inputs]
        result["regions"] = verify_regions(model, arrays, dims=given.ranges, **given.choices)
    if not result:
        why = f"{_NOT_OF_ORT}, and " if kernel_folders else ""
        raise UsageError(f"{model}: nothing to compare with: {why}the model has no regions or they were left out")
    if as_json:
        print_json({"model": str(model), "dims": made_up, **result})
    else:
        if kernel_folders:
            echo(f"{_NOT_OF_ORT}, so the whole model was not compared", err=True)
        _show(result, against_ort=against_ort)
        note_dims(made_up)
    bad = [r for key in ("outputs", "regions") for r in result.get(key, ()) if not r["ok"]]
    if bad:
        names = ", ".join(str(r.get("name") or r.get("kernel")) for r in bad[:5])
        raise GraphfuseError(f"{len(bad)} comparisons failed: {names}")


def compare(found: Mapping[str, Array], wanted: Mapping[str, Array], lowered: float = 0.0) -> list[dict[str, Any]]:
    """The error of each output, in parts of the reference's standard deviation.

    What the model has in f32 may be off by `lowered` where that is more than f32 allows.
    """
    rows: list[dict[str, Any]] = []
    for name, reference in wanted.items():
        ours = found[name]
        row: dict[str, Any] = {"name": name, "shape": list(reference.shape), "dtype": str(reference.dtype)}
        if ours.shape != reference.shape or ours.dtype != reference.dtype:
            rows.append({**row, "error": None, "tolerance": 0.0, "ok": False})
            continue
        tolerance = TOLERANCE.get(str(reference.dtype), 0.0)
        if reference.dtype == np.float32:
            tolerance = max(tolerance, lowered)
        if reference.dtype == object:  # texts
            error = 0.0 if ours.tolist() == reference.tolist() else float("inf")
        else:
            error = relative_error(ours, reference)
        rows.append({**row, "error": error, "tolerance": tolerance, "ok": error <= tolerance})
    return rows


def relative_error(ours: Array, reference: Array) -> float:
    """max |ours - reference| / std(reference); infinite where one has a NaN or infinity the other lacks."""
    a, b = ours.astype(np.float64).reshape(-1), reference.astype(np.float64).reshape(-1)
    finite = np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True) or not np.isfinite(a[finite]).all():
        return float("inf")
    if not finite.any():
        return 0.0
    worst = float(np.abs(a[finite] - b[finite]).max())
    # a constant output has no deviation: its size is the scale then
    scale = float(b[finite].std()) or float(np.abs(b[finite]).max()) or 1.0
    return worst / scale


def _show(result: Mapping[str, Any], against_ort: bool) -> None:
    if "sections" in result:
        rows = [(name, nbytes_text(n), "ok") for name, n in result["sections"].items()]
        table("digests", ("section", "bytes", ""), rows)
    if "outputs" in result:
        rows = [
            (r["name"], f"{r['dtype']}{r['shape']}", _error(r["error"]), f"{r['tolerance']:.0e}", _ok(r))
            for r in result["outputs"]
        ]
        table("against onnxruntime (in standard deviations)", ("output", "type", "max error", "allowed", ""), rows, 2)
    elif against_ort:
        echo("onnxruntime is not installed, so the whole model was not compared", err=True)
    if "regions" in result:
        rows = [
            (r["kernel"], r["label"][:60], *(_error(r[k]) for k in ("maximum", "rms", "reference")), _ok(r))
            for r in result["regions"]
        ]
        columns = ("kernel", "from", "max error", "rms error", "op by op", "")
        table("regions against float64 (in standard deviations)", columns, rows, 2)


def _error(value: float | None) -> str:
    return "-" if value is None else f"{value:.2e}"


def _ok(row: Mapping[str, Any]) -> str:
    return "ok" if row["ok"] else "FAILED"
