"""What is found wrong with a kernel, as data: the interpreter and the emulator raise errors that are about something.

An error's text says all of it; `finding_of` takes it apart, for tools and for JSON.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from graphfuse.errors import DeviceError, GraphfuseError, InputError, Loc, printable

KINDS = {
    "out-of-bounds": "an access outside of an argument, of shared or of local memory",
    "misaligned": "an address that the access has no right to",
    "read-only": "a write to what may only be read, or a read through the cache of what is written",
    "uninitialised": "a read of what nobody wrote",
    "race": "two accesses of one place in no order, of which one changes it",
    "in-flight": "what an asynchronous operation reads or writes is touched before it was waited for",
    "fence": "a fence or a wait for earlier launches is missing",
    "deadlock": "all wait for what nobody will do",
    "endless": "a loop went round more often than is allowed",
    "divergence": "lanes or warps that have to do the same do not",
    "assertion": "an `assert` does not hold, or the kernel trapped",
    "promise": "an argument or a value is not what the source promises",
    "result": "a result is not the reference's",
    "rule": "another rule of the machine is broken, or there is no such thing on it",
}
"""Of findings, and what each means."""


@dataclass(frozen=True, slots=True)
class Who:
    """Who did something: a program of the grid, or a block of threads on a GPU, and who in it.

    `at` is the element of the statement's tile, where the interpreter found it; `warp` and `lane` are the emulator's.
    """

    program: tuple[int, ...]
    warp: int | None = None
    lane: int | None = None
    at: tuple[int, ...] | None = None

    def to_json(self) -> dict[str, Any]:
        """What is known."""
        return {n: v for n in ("program", "warp", "lane", "at") if (v := getattr(self, n)) is not None}


@dataclass(frozen=True, slots=True)
class About:
    """What an error is about. `other` is who it meets, at `other_loc`; `element` is counted in the parameter's own."""

    kind: str = "rule"
    parameter: str = ""
    element: int | None = None
    by: Who | None = None
    other: Who | None = None
    other_loc: Loc | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong. `loc` is a line of the source where it is known, `code` one of the PTX."""

    message: str
    about: About
    loc: Loc | None = None
    code: Loc | None = None
    is_note: bool = False
    """Whether nothing is wrong with the results."""

    def __str__(self) -> str:
        how = "note" if self.is_note else "error"
        where = f"{self.loc or self.code}: " if self.loc or self.code else ""
        behind = f" ({self.code})" if self.loc and self.code else ""
        return f"{where}{how}: {self.message}{behind}"

    def to_json(self) -> dict[str, Any]:
        """All of it as dicts, texts and numbers, without what is not known."""
        about = self.about
        out: dict[str, Any] = {"kind": about.kind, "severity": "note" if self.is_note else "error"}
        out["message"] = self.message
        for name, loc in (("at", self.loc), ("code", self.code), ("other_at", about.other_loc)):
            if loc is not None:
                out[name] = _place(loc)
        if about.parameter:
            out["parameter"] = about.parameter
        if about.element is not None:
            out["element"] = about.element
        for name, who in (("by", about.by), ("other", about.other)):
            if who is not None:
                out[name] = who.to_json()
        return out


def _place(loc: Loc) -> dict[str, Any]:
    if loc.node:
        return {"file": loc.file, "node": loc.node}
    return {"file": loc.file, "line": loc.line, "column": loc.col}


class FoundError(GraphfuseError):
    """An error that is about something: at `loc` in a source where that is known, at `code` in what was made of it."""

    def __init__(
        self, message: str, loc: Loc | None = None, about: About | None = None, code: Loc | None = None
    ) -> None:
        super().__init__(f"{message} ({code})" if loc and code else message, loc or code)
        self.message, self.about, self.source, self.code = printable(message), about or About(), loc, code


class FaultError(FoundError, DeviceError):
    """What the emulator finds while a model runs on it."""


class CheckError(FoundError, InputError):
    """What the interpreter finds."""


def finding_of(error: GraphfuseError) -> Finding:
    """An error, taken apart: what is not known of it is empty."""
    if isinstance(error, FoundError):
        return Finding(error.message, error.about, error.source, error.code)
    return Finding(error.message, About(), error.loc)
