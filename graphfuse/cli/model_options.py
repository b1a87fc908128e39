"""What the verbs that take a model say of it: its options on the line, and the model that they ask for."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from graphfuse.api import compile, load
from graphfuse.cli.common import progress, threads_option
from graphfuse.compiled_model import CompiledModel
from graphfuse.errors import UsageError
from graphfuse.knobs import NUMERICS, PRECISIONS, numerics_of, precision_of
from graphfuse.runtime import gfx
from graphfuse.stages import artifact_numerics, artifact_precision

DimOption = int | tuple[int, int]


@dataclass(frozen=True)
class ModelOptions:
    """A model as a line names it, with what is said of it; what a verb has no option for is as by default."""

    model: Path
    dim_texts: tuple[str, ...] = ()
    threads: int | None = None
    numerics: str = ""
    precision: str = ""
    unchecked: bool = False
    device: str = ""
    kernel_folders: tuple[Path, ...] = ()
    state_texts: tuple[str, ...] = ()
    fetched: tuple[str, ...] = ()

    @functools.cached_property
    def dims(self) -> dict[str, DimOption]:
        """What `--dim` says, as `compile` takes it."""
        return parse_dims(self.dim_texts)

    @property
    def ranges(self) -> dict[str, DimOption]:
        """The dims that compiling must know, as a run may have any of them."""
        return {name: d for name, d in self.dims.items() if isinstance(d, tuple)}

    @property
    def values(self) -> dict[str, int]:
        """The dims that were given as one number."""
        return {name: d for name, d in self.dims.items() if isinstance(d, int)}

    @property
    def states(self) -> dict[str, str]:
        """What `--state` says, as `compile` takes it."""
        return parse_states(self.state_texts)

    @property
    def choices(self) -> dict[str, Any]:
        """How the model is compiled and where it runs, by the names that functions of `api` have for it."""
        return {
            "numerics": self.numerics, "precision": self.precision, "device": self.device,
            "kernels": self.kernel_folders,
        }  # fmt: skip

    def open(self) -> CompiledModel:
        """An artifact as it is, or an ONNX model compiled."""
        wanted = numerics_of(self.numerics) if self.numerics else None
        stored = precision_of(self.precision) if self.precision else None
        if not gfx.is_artifact(self.model):
            with progress("compiling") as note:
                return compile(
                    self.model, dims=self.ranges, threads=self.threads, progress=note,
                    check_indices=not self.unchecked, outputs=self.fetched, **self.choices,
                )  # fmt: skip
        # an artifact was compiled already: what had to be said then is refused, or must agree
        for option, given in (("--kernels", self.kernel_folders), ("--no-check-indices", self.unchecked)):
            if given:
                raise UsageError(f"{option}: {self.model} is an artifact: expected a model to compile")
        model = load(self.model, self.threads, self.device)
        if wanted not in (None, had := artifact_numerics(model.executable)):
            raise UsageError(f"--numerics: {self.model} is an artifact, compiled with {had!r}")
        if stored not in (None, has := artifact_precision(model.executable)):
            raise UsageError(f"--precision: {self.model} is an artifact, compiled with {has!r}")
        if unknown := [n for n in self.fetched if n not in (known := [o.name for o in model.signature.outputs])]:
            wanted = f"an artifact's outputs, {', '.join(map(repr, known))}, or a model to compile"
            raise UsageError(f"--fetch: expected {wanted}, found {unknown[0]!r}")
        return model


def parse_dims(texts: Sequence[str]) -> dict[str, DimOption]:
    """`batch=1..8` and `seq=128` to what `compile` takes."""
    dims: dict[str, DimOption] = {}
    for text in texts:
        m = re.fullmatch(r"(?P<name>[^=]+)=(?P<lo>\d{1,18})(?:\.\.(?P<hi>\d{1,18}))?", text)
        if m is None:
            raise UsageError(f"--dim: expected NAME=N or NAME=LO..HI, got {text!r}")
        lo, hi = int(m["lo"]), m["hi"]
        if hi is not None and int(hi) < lo:
            raise UsageError(f"--dim: expected LO <= HI, got {text!r}")
        dims[m["name"]] = lo if hi is None else (lo, int(hi))
    return dims


def parse_states(texts: Sequence[str]) -> dict[str, str]:
    """`past.*=present.*` to what `compile` takes."""
    states: dict[str, str] = {}
    for text in texts:
        before, equals, after = text.partition("=")
        if not (before and equals and after):
            raise UsageError(f"--state: expected INPUT=OUTPUT, got {text!r}")
        states[before] = after
    return states


OPTIONS = {
    "dim_texts": click.option(
        "--dim", "dim_texts", multiple=True, metavar="NAME=N|LO..HI", help="A value or range of a symbolic dim."
    ),
    "threads": threads_option,
    "numerics": click.option(
        "--numerics", default="", metavar="|".join(NUMERICS), help="How far results may be from the model's own ops."
    ),
    "precision": click.option(
        "--precision", default="", metavar="|".join(PRECISIONS), help="What an f32 model multiplies and stores."
    ),
    "unchecked": click.option(
        "--no-check-indices", "unchecked", is_flag=True,
        help="Let indices out of range, and divisors of 0, go unnoticed.",
    ),
    "device": click.option(
        "--device", default="", metavar="DEVICE", help="Where it runs: `cpu`, `cuda`, `cuda:N` or `emulator`."
    ),
    "kernel_folders": click.option(
        "--kernels", "kernel_folders", multiple=True, type=click.Path(path_type=Path), metavar="DIR",
        help="A folder of .tc kernels that implement operators of the model.",
    ),
    "fetched": click.option(
        "--fetch", "fetched", multiple=True, metavar="NAME",
        help="A value of the graph to have as an output, also one between nodes; then there are no others.",
    ),
    "state_texts": click.option(
        "--state", "state_texts", multiple=True, metavar="INPUT=OUTPUT",
        help="An input that an output is written over, such as a cache: `past.*=present.*`.",
    ),
}  # fmt: skip
"""Options by the field of `ModelOptions` that they fill."""


def of_model(*fields: str, metavar: str = "MODEL") -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The argument MODEL and the options for some fields: a verb gets them first, as `ModelOptions`."""

    def decorate(verb: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(verb)
        def command(**given: Any) -> None:
            verb(ModelOptions(**{name: given.pop(name) for name in ("model", *fields)}), **given)

        # click lists options from the last decorator to the first
        for name in reversed(fields):
            command = OPTIONS[name](command)
        return click.argument("model", metavar=metavar, type=click.Path(path_type=Path))(command)

    return decorate
