"""Every error graphfuse raises on bad input; bugs in graphfuse itself are assertions."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass

_MAYBE_ODD = re.compile(r"[^ -~]")


def printable(text: str, keep: str = "") -> str:
    """A text as it may be shown: what moves a terminal's cursor, hides, turns lines or forges them is escaped.

    Names come from models, kernels and files that nobody has looked at. `keep` are characters that are meant.
    """
    return _MAYBE_ODD.sub(lambda m: m[0] if m[0].isprintable() or m[0] in keep else _escaped(m[0]), text)


def _escaped(c: str) -> str:
    return c.encode("unicode_escape").decode()


@dataclass(frozen=True, slots=True)
class Loc:
    """Where something came from: `file:line:col` (counted from 1) or `file:/node/name`."""

    file: str
    line: int = 0
    col: int = 0
    node: str = ""

    def __str__(self) -> str:
        file, node = printable(self.file), printable(self.node[:MOST_TEXT])
        if node:
            return f"{file}:{node}" if file else node
        return f"{file}:{self.line}:{self.col}" if self.line else file

    @property
    def short(self) -> str:
        """The node's name where there is one, else the whole location."""
        return printable(self.node) or str(self)


MOST_TEXT = 4000
"""Characters of a message: names and attributes in it may be of any length."""


def meant(text: str, known: Iterable[str], before: str = "; ") -> str:
    """A question, behind a mark, whether the closest of the known words was meant; nothing where none is close."""
    close = difflib.get_close_matches(text, list(known), n=1)
    return f"{before}did you mean {close[0]!r}?" if close else ""


class GraphfuseError(Exception):
    """Bad input. `str(e)` is `where: error: message`; `exit_code` is what the command line returns."""

    exit_code = 1

    def __init__(self, message: str, loc: Loc | None = None) -> None:
        if len(message) > MOST_TEXT:
            message = f"{message[: MOST_TEXT // 2]} ... {message[-MOST_TEXT // 2 :]}"
        message = printable(message)
        super().__init__(f"{loc}: error: {message}" if loc else f"error: {message}")
        self.message, self.loc = message, loc


class UsageError(GraphfuseError):
    """The command line or an API call is wrong (unknown option, contradictory arguments)."""

    exit_code = 2


class ParseError(GraphfuseError):
    """The text is not IR, or the file is not a model."""

    exit_code = 3


class VerifyError(GraphfuseError):
    """The program is well formed but breaks an invariant (types, scoping, cycles)."""

    exit_code = 4


class UnsupportedError(GraphfuseError):
    """The model uses operators or features graphfuse does not compile."""

    exit_code = 5


class TooLargeError(UnsupportedError):
    """The model asks for more memory or time than any way of running it could give."""


class InputError(GraphfuseError):
    """An input's name, dtype, rank or shape does not fit the model's signature."""

    exit_code = 6


class IndexRangeError(InputError, IndexError, RuntimeError):
    """An index is not within its tensor. Torch raises IndexError or RuntimeError, by operator: this is both."""


class DivisionByZeroError(InputError, ZeroDivisionError, RuntimeError):
    """Integers are divided by a tensor that has a 0. Torch raises a RuntimeError."""


class ArtifactError(GraphfuseError):
    """An artifact is corrupted, truncated, from another version, or for another machine."""

    exit_code = 7


class TargetError(GraphfuseError):
    """A target does not exist or cannot be compiled for."""

    exit_code = 8


class FileError(GraphfuseError):
    """A file cannot be read or written."""

    exit_code = 9


class DeviceError(GraphfuseError):
    """A GPU is not there, cannot run the code, has too little memory, or failed."""

    exit_code = 10
