"""What several verbs need: options, inputs, output to files, tables, progress."""

from __future__ import annotations

import contextlib
import json
import math
import re
import sys
import zipfile
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from graphfuse.api import operators_of
from graphfuse.artifact import HELD, HOST_VALUES, TEXT, Array, Signature, elem_dtype
from graphfuse.compiled_model import CompiledModel
from graphfuse.errors import FileError, InputError, Loc, UsageError, printable
from graphfuse.files import check_outputs, exists, writing
from graphfuse.runtime.report import choose_dims, given_dims
from graphfuse.symbolic import evaluate, symbols
from graphfuse.targets.memory import physical_bytes

MOST_THREADS = 1024
threads_option = click.option("--threads", type=click.IntRange(1, MOST_THREADS), help="How many threads run the model.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
seed_option = click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the random inputs.")


inputs_option = click.option(
    "--inputs", "archive", type=click.Path(path_type=Path), help="Values of inputs (.npz), others made up."
)


# inputs


def inputs_of(
    model: CompiledModel, dims: Mapping[str, int], seed: int, archive: Path | None
) -> tuple[dict[str, Array], dict[str, int], dict[str, int]]:
    """What is run: inputs of a .npz and random ones, the dims that were given by either, and those made up."""
    fed = read_archive(archive) if archive is not None else {}
    if unknown := fed.keys() - (known := [s.name for s in model.signature.inputs]):
        raise InputError(f"unknown input {min(unknown)!r}: expected some of {', '.join(map(repr, known))}")
    dims = {**shape_values(model.signature, fed), **dims}
    return {**random_inputs(model, dims, seed, fed), **fed}, dims, made_up_dims(model, dims)


def random_inputs(
    model: CompiledModel, dims: Mapping[str, int], seed: int, given: Collection[str] = ()
) -> dict[str, Array]:
    """Inputs that any model can take, at these symbol values (others: 1 or the least allowed).

    Floats are normal; integers are 0 or 1, which are valid ids, lengths and masks everywhere; an input
    called `mask` is all ones, so that nothing is masked away. Texts have to be `given`; what is no tensor
    cannot be.
    """
    specs = [s for s in model.signature.inputs if s.elem not in HOST_VALUES]
    for s in model.signature.inputs:
        if s.elem in HELD:
            raise UsageError(f"input {s.name!r}: expected a tensor, found type {s.elem}: call it from Python")
        if s.elem == TEXT and s.name not in given:
            raise UsageError(f"input {s.name!r}: texts cannot be made up: expected --input {s.name}=FILE.npy of run")
    values = choose_dims(model.executable, dims)
    rng = np.random.default_rng(seed)
    shapes = {s.name: tuple(evaluate(d, values) for d in s.shape) for s in specs}
    nbytes = sum(math.prod(shapes[s.name]) * elem_dtype(s.elem).itemsize for s in specs)
    if nbytes > physical_bytes():
        at = ", ".join(f"{model.signature.shown(name)} = {value}" for name, value in values.items())
        raise InputError(f"inputs of {nbytes_text(nbytes)} ({at or 'fixed shapes'}) do not fit into memory")
    feed: dict[str, Array] = {}
    for spec in specs:
        feed[spec.name] = random_array(spec.name, elem_dtype(spec.elem), shapes[spec.name], rng)
    return feed


def random_array(name: str, dtype: np.dtype[Any], shape: Sequence[int], rng: np.random.Generator) -> Array:
    """What `random_inputs` makes up for an input of that name."""
    flat, is_integer = np.empty(math.prod(shape), dtype), np.issubdtype(dtype, np.integer) or dtype == np.bool_
    for i in range(0, flat.size, _AT_ONCE):
        part = flat[i : i + _AT_ONCE]
        if "mask" in name.lower():
            part[...] = 1
        elif is_integer:
            part[...] = rng.integers(0, 2, part.size)
        else:
            part[...] = rng.standard_normal(part.size)
    return flat.reshape(shape)


def made_up_dims(model: CompiledModel, given: Mapping[str, int]) -> dict[str, int]:
    """The symbolic dims of inputs that nobody gave, by the model's names, and what they are."""
    signature = model.signature
    known = given_dims(signature, given).keys() | {name for name, lo, hi in signature.dims if lo == hi}
    values = choose_dims(model.executable, given)
    free = {s for spec in signature.inputs for d in spec.shape for s in symbols(d)} - known
    return {signature.shown(name): value for name, value in values.items() if name in free}


def note_dims(made_up: Mapping[str, int]) -> None:
    """Say what dims were made up."""
    if made_up:
        values = ", ".join(f"{name} = {value}" for name, value in made_up.items())
        echo(f"dims that were not given: {values} (--dim NAME=N)")


_AT_ONCE = 1 << 20
"""Random numbers that are made in one go: they are as wide as f64, whatever the input is."""


def read_inputs(texts: Sequence[str]) -> dict[str, Array]:
    """`name=file.npy`, each read without pickle."""
    feed: dict[str, Array] = {}
    for text in texts:
        name, _, file = text.rpartition("=")
        if not name or not file:
            raise UsageError(f"--input: expected NAME=FILE.npy, got {text!r}")
        if name in feed:
            raise UsageError(f"--input: {name!r} is given twice")
        try:
            array: Any = np.load(file, allow_pickle=False)
        except OSError as e:
            raise FileError(f"cannot read: {(e.strerror or str(e)).lower()}", Loc(file)) from None
        except (ValueError, EOFError, MemoryError) as e:
            raise InputError(f"not a .npy file: {str(e).lower()}", Loc(file)) from None
        if not isinstance(array, np.ndarray):
            raise InputError("expected a .npy file with one array", Loc(file))
        feed[name] = array
    return feed


def read_archive(path: Path) -> dict[str, Array]:
    """The arrays of a .npz by name, read without pickle; texts are objects, as models take them."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays: dict[str, Any] = dict(archive)
    except OSError as e:
        raise FileError(f"cannot read: {(e.strerror or str(e)).lower()}", Loc(str(path))) from None
    except (ValueError, EOFError, MemoryError, TypeError, AttributeError, zipfile.BadZipFile) as e:
        raise InputError(f"not a .npz file: {str(e).lower()}", Loc(str(path))) from None
    return {n: a.astype(object) if a.dtype.kind == "U" else a for n, a in arrays.items()}


def write_archive(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write a .npz that `read_archive` reads: numpy's own takes no array that is called as one of its parameters."""
    with writing(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(
                    entry, array.astype(str) if array.dtype == object else array, allow_pickle=False
                )


def shape_values(signature: Signature, feed: Mapping[str, Array]) -> dict[str, int]:
    """Values of the symbols that are an axis of a given input, for filling in the others."""
    ranges = signature.ranges
    found: dict[str, int] = {}
    for spec in signature.inputs:
        if spec.name in feed and feed[spec.name].ndim == len(spec.shape):
            for dim, size in zip(spec.shape, feed[spec.name].shape, strict=True):
                if str(dim) in ranges and ranges[str(dim)][0] <= size <= ranges[str(dim)][1]:
                    found[str(dim)] = size
    return found


def check_has_times(model: CompiledModel) -> None:
    """Refuse to measure what says nothing of a machine: the emulator takes minutes for what a GPU does in one."""
    if model.device.is_emulated:
        raise UsageError(f"expected a device to measure, found {model.device}, which has no times of a GPU")


# output


def check_written(
    outputs: Mapping[str, Path], model: Path, inputs: Sequence[str] = (), kernels: Sequence[Path] = ()
) -> None:
    """See that what options say to write can be, and is nothing that is read: the model, its data, arrays, kernels."""
    if not any(map(exists, outputs.values())):
        check_outputs(outputs, ())
        return
    # what only this case needs takes 30 ms to import
    from graphfuse.frontends.tc.preprocess import texts_read
    from graphfuse.runtime.cache import data_files

    arrays = [Path(text.rpartition("=")[2]) for text in inputs]
    sources = [Path(f) for o in operators_of(kernels) for f in texts_read(o.source, o.file)]
    check_outputs(outputs, (model, *data_files(model), *arrays, *sources))


def file_name(name: str) -> str:
    """A tensor's name as a file name; `/` is common in tensor names."""
    return re.sub(r"[^\w.-]+", "_", name).strip("._") or "output"


def echo(text: str, *, err: bool = False) -> None:
    """Lines on stdout, or on stderr; names in them are shown as `printable` has them."""
    click.echo(printable(text, keep="\n\t"), err=err)


def echo_document(text: str) -> None:
    """A whole text on stdout: as it is, but for what a terminal would obey."""
    click.echo(printable(text, keep="\n\t\f\r") if sys.stdout.isatty() else text, nl=False)


def print_json(value: object) -> None:
    """One JSON document on stdout."""
    click.echo(json.dumps(value, indent=2, default=str))


_NUMBER = re.compile(r"(-?\d[\d.,]*(e[-+]?\d+)?( ?[A-Za-z%]{1,5})?|nan|-?inf|-)?")
_WORDS, _LEAST_TEXT, _PIPE = (24, 14, 0), 10, 10_000
"""Columns that a text keeps if it can, that it is broken to at least, and that there are where nobody looks."""


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], right: int = 1) -> None:
    """A table on stdout; all but the first `right` columns are aligned to the right.

    On a terminal it is as wide as that, and texts are broken where it is narrow, the longest first, numbers never; in
    a pipe a row is a line.
    """
    # rich takes 30 ms to import, which `--json` need not pay
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table

    cells = [[printable(str(c)) for c in row] for row in rows]
    numbers = [bool(cells) and all(_NUMBER.fullmatch(row[i]) for row in cells) for i in range(len(columns))]
    width = None if sys.stdout.isatty() else _PIPE
    console = Console(width=width, markup=False, highlight=False, file=sys.stdout)

    def lengths(heads: Sequence[str]) -> list[int]:
        return [max(map(cell_len, (*h.split("\n"), *(row[i] for row in cells)))) for i, h in enumerate(heads)]

    def least(heads: Sequence[str], words: int) -> int:
        """The width at which numbers, and texts of up to so many columns, are whole."""
        each = zip(lengths(heads), numbers, strict=True)
        kept = (n if is_number or n <= words else min(n, _LEAST_TEXT) for n, is_number in each)
        return sum(kept) + 2 * len(heads) - 2

    if least(columns, 0) > console.width:
        columns = [c.replace(" ", "\n") if n else c for c, n in zip(columns, numbers, strict=True)]
    words = next((w for w in _WORDS if least(columns, w) <= console.width), 0)
    console.width = max(console.width, least(columns, words))
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for i, (column, length) in enumerate(zip(columns, lengths(columns), strict=True)):
        whole = numbers[i] or length <= max(words, _LEAST_TEXT)
        drawn.add_column(column, justify="left" if i < right else "right", overflow="fold", no_wrap=whole)
    for row in cells:
        drawn.add_row(*row)
    if title:
        console.print(printable(title), style="italic", soft_wrap=True)
    console.print(drawn)


def nbytes_text(nbytes: float) -> str:
    """`1.5 MB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(nbytes) < 1000 or unit == "GB":
            break
        nbytes /= 1000
    return f"{nbytes:.0f} {unit}" if unit == "B" else f"{nbytes:.1f} {unit}"


NO_REASON = "nothing was noted of why they are apart"


def why_text(row: Mapping[str, str]) -> str:
    """A row of `not_fused` as a sentence."""
    return f"{row['operator']} is not in the {row['region']}: {row['reason']}"


@contextlib.contextmanager
def progress(title: str) -> Generator[Callable[[str], None]]:
    """A spinner on stderr that names the stage, on a terminal only."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console

    with Console(stderr=True).status(title) as status:
        yield lambda stage: status.update(f"{title}: {stage}" if stage != title else title)
