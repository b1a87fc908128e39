"""A Triton-C source: its text, and of the kernels in it the one that is meant."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

from graphfuse import files, usage
from graphfuse.errors import Loc, UsageError
from graphfuse.frontends.tc import Diagnostic, Options, compile_text
from graphfuse.frontends.tc import Kernel as Compiled

KEYWORD = "__global__"
"""What declares a kernel."""


class SourceWarning(UserWarning):
    """A finding in a Triton-C source that is no error; `diagnostic` says it in parts."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        self.diagnostic = diagnostic
        super().__init__(str(diagnostic))


def read_source(source: str | os.PathLike[str]) -> tuple[str, str]:
    """The text and a name for it.

    A string with a line break or `__global__` is text, and one with statements unless there is a file of that name.
    Anything else is a path.
    """
    if isinstance(source, str):
        if not source.strip():
            raise UsageError(f"source: expected a path or the text of a kernel, found {source!r}")
        has_statements = any(c in source for c in ";{}")
        if "\n" in source or KEYWORD in source or (has_statements and not files.exists(Path(source))):
            return source, "<string>"
    path = usage.path("source", source)
    return files.read_source(path, named=True), str(path)


def choose(found: Sequence[Compiled], name: str | None, filename: str) -> Compiled:
    """The kernel of that name, or the first."""
    if not found:
        raise UsageError(f"{filename}: there is no kernel: expected a function such as '{KEYWORD} void f(...)'")
    for one in found:
        if name in (None, one.name):
            return one
    raise UsageError(f"{filename}: there is no kernel {name!r}: expected one of {', '.join(k.name for k in found)}")


def compiled(
    text: str, filename: str, defines: Mapping[str, str], switches: Sequence[str] | None = None
) -> tuple[Compiled, ...]:
    """The kernels of a source. What its warnings are, by `-W` switches, become Python's; of None, nothing does."""
    report = Options(warnings=tuple(switches or ())).reporter()
    found = compile_text(text, filename, defines, report=report)
    for one in report.found if switches is not None else ():
        if one.severity == "warning":
            loc = one.span.loc if one.span else Loc(filename, 1)
            seen = _SEEN.setdefault(loc.file, {})
            warnings.warn_explicit(SourceWarning(one), None, loc.file, loc.line, registry=seen)
    return found


_SEEN: dict[str, dict[str | tuple[str, type[Warning], int], int]] = {}
"""By file, what Python's filters remember of the warnings that were shown."""
