"""A Triton-C source: its text, and of the kernels in it the one that is meant."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from graphfuse.errors import FileError, Loc, UsageError
from graphfuse.frontends.tc import Kernel as Compiled


def read_source(source: str | os.PathLike[str]) -> tuple[str, str]:
    """The text and a name for it."""
    if isinstance(source, str) and "\n" in source:
        return source, "<string>"
    path = Path(source)
    try:
        return path.read_text(encoding="utf-8"), str(path)
    except OSError as e:
        raise FileError(f"cannot read: {(e.strerror or str(e)).lower()}", Loc(str(path))) from None
    except UnicodeDecodeError as e:
        found = f"found a byte {e.object[e.start]:#x} at {e.start}"
        raise FileError(f"expected text in UTF-8, {found}", Loc(str(path))) from None


def choose(found: Sequence[Compiled], name: str | None, filename: str) -> Compiled:
    """The kernel of that name, or the first."""
    if not found:
        raise UsageError(f"{filename}: there is no kernel")
    if name is None:
        return found[0]
    for one in found:
        if one.name == name:
            return one
    raise UsageError(f"{filename}: there is no kernel {name!r}: expected one of {', '.join(k.name for k in found)}")
