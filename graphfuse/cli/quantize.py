"""`graphfuse quantize`: weights rounded to a few bits, and what that changes, layer by layer."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from graphfuse.api import quantize
from graphfuse.artifact import Array
from graphfuse.cli.common import (
    check_written,
    echo,
    inputs_of,
    inputs_option,
    json_option,
    nbytes_text,
    note_dims,
    print_json,
    progress,
    seed_option,
    table,
)
from graphfuse.cli.model_options import ModelOptions, of_model
from graphfuse.errors import GraphfuseError, UsageError
from graphfuse.knobs import scope

if TYPE_CHECKING:
    from graphfuse.quantization import QuantizedModel


@click.command("quantize", help="Round the weights of MODEL (.onnx) that products read to 4 or 8 bits.")
@of_model("dim_texts", "threads")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The model to write.")
@click.option("--weights", default="int4", show_default=True, metavar="int4|int8", help="What weights become.")
@click.option("--block", type=int, default=32, show_default=True, help="Weights along K with one scale: 16 to 256.")
@click.option("--asymmetric", is_flag=True, help="Give each block a code of its own that stands for zero.")
@click.option(
    "--accuracy-level", type=int, default=0, show_default=True, metavar="0|4",
    help="4: products may round what they multiply by the weights to 8 bits.",
)  # fmt: skip
@click.option("--exclude", multiple=True, metavar="NAME", help="A node to leave as it is, or a pattern as `*head*`.")
@click.option("--run/--no-run", default=True, show_default=True, help="Run both models, to compare what they give.")
@inputs_option
@seed_option
@json_option
def command(
    given: ModelOptions,
    output: Path,
    weights: str,
    block: int,
    asymmetric: bool,
    accuracy_level: int,
    exclude: tuple[str, ...],
    run: bool,
    archive: Path | None,
    seed: int,
    as_json: bool,
) -> None:
    """Round, run the model as it was, write, run what was written, show."""
    if archive and not run:
        raise UsageError("--no-run: expected no --inputs, which only a run reads")
    outputs = {"--output": output, "--output: its data": output.with_name(f"{output.name}.data")}
    check_written(outputs, given.model, [f"={archive}"] if archive else ())
    with progress("rounding") as note:
        made = quantize(
            given.model, weights=weights, block=block, symmetric=not asymmetric, accuracy_level=accuracy_level,
            exclude=exclude, progress=note,
        )  # fmt: skip
    before = Before(made, given, seed, archive) if run else None
    made.save(output)
    compared = before.compared(output) if before else []
    products = (before and before.products) or [None] * len(made.layers)
    pairs = zip(made.layers, products, strict=True)
    report: dict[str, Any] = {
        "model": str(output), "weights": weights, "block": block,
        "layers": [{**dataclasses.asdict(layer), "product_error": _plain(p)} for layer, p in pairs],
        "bytes_before": made.nbytes[0], "bytes_after": made.nbytes[1], "outputs": compared,
    }  # fmt: skip
    if as_json:
        print_json({**report, "dims": before.made_up if before else {}})
        return
    _show(report)
    note_dims(before.made_up if before else {})


class Before:
    """What a model gives, and what its layers multiply, before weights are rounded.

    Inputs that nobody gave are made up. Where that, or compiling the model, is not possible it is not run, and says so;
    with inputs or dims of the user's that is an error.
    """

    def __init__(self, made: QuantizedModel, given: ModelOptions, seed: int, archive: Path | None) -> None:
        self._given, self._is_asked = given, archive is not None or bool(given.dim_texts)
        self._feed: dict[str, Array] = {}
        self._outputs: Mapping[str, Any] = {}
        self.products: list[float | None] | None = None
        self.made_up: dict[str, int] = {}
        try:
            with scope(cache="0"):
                self._run(made, seed, archive)
        except GraphfuseError as e:
            self._failed(e)

    def _run(self, made: QuantizedModel, seed: int, archive: Path | None) -> None:
        multiplied = (layer.x for layer in made.layers if layer.x)
        fetched = tuple(dict.fromkeys([*made.outputs, *multiplied]))
        model = dataclasses.replace(self._given, fetched=fetched).open()
        self._feed, _, self.made_up = inputs_of(model, self._given.values, seed, archive)
        values = model(self._feed)
        self.products = made.product_errors(values)
        self._outputs = {name: values[name] for name in made.outputs}

    def compared(self, output: Path) -> list[dict[str, Any]]:
        """The relative errors of what the written model gives on the same inputs."""
        from graphfuse.quantization import relative_error

        rows: list[dict[str, Any]] = []
        try:
            if self._outputs:
                with scope(cache="0"):
                    found = dataclasses.replace(self._given, model=output).open()(self._feed)
                rows = [{"name": n, "error": _plain(relative_error(found[n], v))} for n, v in self._outputs.items()]
        except GraphfuseError as e:
            self._failed(e)
        return rows

    def _failed(self, error: GraphfuseError) -> None:
        if self._is_asked:
            raise error
        echo(f"note: the model was not run: {error}", err=True)


def _show(report: Mapping[str, Any]) -> None:
    columns = ("layer", "K x N", "before", "after", "weights' error", "product's error")
    rows = [
        (r["name"], f"{r['k']} x {r['n']}", nbytes_text(r["bytes_before"]), nbytes_text(r["bytes_after"]),
         _error(r["error"]), _error(r["product_error"]))
        for r in report["layers"]
    ]  # fmt: skip
    before, after = (nbytes_text(report[key]) for key in ("bytes_before", "bytes_after"))
    rows.append(("all constants of the model", "", before, after, "", ""))
    title = f"{report['weights']} in blocks of {report['block']} (errors: root mean squares, relative)"
    table(title, columns, rows, 2)
    if report["outputs"]:
        table("", ("output", "error"), [(r["name"], _error(r["error"])) for r in report["outputs"]])
    count = len(report["layers"])
    echo(f"{report['model']}: {count} layer{'s' * (count != 1)}, {before} to {after}")


def _plain(value: float | None) -> float | str | None:
    """What JSON can have, which has no NaN and no infinity."""
    return value if value is None or math.isfinite(value) else str(value)


def _error(value: float | str | None) -> str:
    return "-" if value is None else f"{float(value):.2e}"
