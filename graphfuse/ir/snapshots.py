"""Functions as text between passes: printed, written down, replaced by an edited file, left behind by a failure.

`GRAPHFUSE_DUMP=folder` writes `folder/graph/main/03-layout.gf` after the fourth pass of the graph `main`, and the data
of large constants to `folder/constants/`. `GRAPHFUSE_OVERRIDE=folder` takes what is found there in the place of what
the pass made. What was written is read by `graphfuse opt`, wherever the folder lies.
"""

from __future__ import annotations

import sys
import tempfile
from collections import ChainMap
from collections.abc import Generator, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np

from graphfuse.errors import FileError, GraphfuseError, Loc, VerifyError
from graphfuse.files import read_source, told
from graphfuse.ir.core import Func
from graphfuse.ir.dense import INLINE_ELEMENTS, Dense
from graphfuse.ir.limit import are_counted
from graphfuse.ir.parser import parse
from graphfuse.ir.printer import to_text
from graphfuse.ir.verifier import verify
from graphfuse.knobs import are_passes_watched, settings

CONSTANTS = "constants"
"""The folder of what texts name by digest."""

_part: ContextVar[str] = ContextVar("graphfuse_part", default="")


@contextmanager
def part(name: str) -> Generator[None]:
    """A folder for one of several graphs that are compiled for one model."""
    token = _part.set(str(Path(_part.get()) / name))
    try:
        yield
    finally:
        _part.reset(token)


@dataclass(frozen=True, slots=True)
class Place:
    """After which pass of which function."""

    stage: str
    func: str
    index: int
    pass_: str

    @property
    def path(self) -> Path:
        """Its file, in the folder of a dump."""
        return Path(_part.get()) / self.stage / self.func / f"{self.index:02}-{self.pass_}.gf"


def wanted() -> bool:
    """Whether anybody looks at what passes do: then it is done in this process."""
    return are_passes_watched() or are_counted()


def after(func: Func, place: Place) -> Func:
    """Show a function as settings say; what stands in its place where an edited file is found."""
    if (settings.print_after and place.pass_ in settings.print_after) or settings.debug >= 4:
        sys.stderr.write(f"// after {place.path.with_suffix('')}\n{to_text(func)}\n")
    if settings.override:
        func = _replaced(func, Path(settings.override), place.path)
    if settings.dump:
        write(func, Path(settings.dump), place.path)
    return func


_MOST_TEXT = 1 << 26
"""Bytes of an edited file: the largest models' dumps take a few MB, constants apart."""


def _replaced(func: Func, folder: Path, path: Path) -> Func:
    if not folder.is_dir():
        raise FileError("GRAPHFUSE_OVERRIDE: expected a folder", Loc(str(folder)))
    path = folder / path
    if not path.exists():
        return func
    text = read_source(path, most=_MOST_TEXT)
    beside = cast("MutableMapping[str, Dense]", Constants.beside(path))  # a ChainMap writes to its first one only
    made = parse(text, str(path), ChainMap(dict(_constants(func)), beside))
    verify(made)
    return made


def write(func: Func, folder: Path, path: Path, head: str = "") -> Path:
    """Write a function to a file of a folder, and its large constants to their own.

    Raises FileError where that cannot be done.
    """
    with told("write", folder / path):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(f"{head}{to_text(func)}\n")
        for digest, dense in _constants(func):
            _write_constant(dense, folder / CONSTANTS / digest)
    return folder / path


def _write_constant(dense: Dense, path: Path) -> None:
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        np.ascontiguousarray(dense.array).tofile(path)


def _constants(func: Func) -> Iterator[tuple[str, Dense]]:
    """Constants that print as a digest, by it."""
    for op in func.walk():
        for value in op.attrs.values():
            if isinstance(value, Dense) and value.array.size > INLINE_ELEMENTS:
                yield value.digest, value


class Constants(Mapping[str, Dense]):
    """The constants of a folder as bytes, read when they are asked for."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    @staticmethod
    def beside(path: Path) -> Constants:
        """Those of the dump that a file belongs to: of the nearest folder above it that has any."""
        return Constants(next((f / CONSTANTS for f in path.absolute().parents if (f / CONSTANTS).is_dir()), None))

    def __getitem__(self, digest: str) -> Dense:
        if self._folder is None or not (path := self._folder / digest).is_file():
            raise KeyError(digest)
        return Dense(np.fromfile(path, np.uint8))

    def __iter__(self) -> Iterator[str]:
        return iter(() if self._folder is None else sorted(p.name for p in self._folder.iterdir()))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def leave_repro(func: Func, pass_: object, place: Place, error: Exception) -> None:
    """What a pass failed on, as a file that `graphfuse opt` runs it on again; the error gets a note that says so.

    The pass is what its `str` says in a pipeline.

    What is refused because it is not supported is nobody's fault, and leaves nothing.
    """
    if isinstance(error, GraphfuseError) and not isinstance(error, VerifyError):
        return
    folder = Path(settings.dump or tempfile.mkdtemp(prefix="graphfuse-"))
    try:
        path = write(func, folder, Path(f"repro-{place.func}-{place.pass_}.gf"), f"// RUN: {pass_}\n")
    except FileError:
        return  # the error itself matters more
    error.add_note(f"in pass {place.pass_} of @{place.func}; replay: graphfuse opt {path}")
