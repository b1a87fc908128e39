"""`.tritonc.json`: the macros that files of a folder are read with in an editor.

    {"defines": {"TYPE": "half"}, "files": {"matmul.tc": {"TM": 128, "TN": 128, "TK": 64}}}

The nearest file in the folder of a source or above it counts.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from graphfuse.errors import FileError, Loc
from graphfuse.files import read_source
from graphfuse.frontends.tc.defines import alternatives

NAME = ".tritonc.json"


def defines_for(source: Path) -> dict[str, str]:
    """The macros for a source; of alternatives the first. Raises FileError for a file that has another form."""
    for folder in source.resolve().parents:
        path = folder / NAME
        if path.is_file():
            return _read(path, source.name)
    return {}


def _read(path: Path, name: str) -> dict[str, str]:
    where = Loc(str(path))
    try:
        found: Any = json.loads(read_source(path))
    except (ValueError, RecursionError) as e:
        raise FileError(f"cannot read: {str(e).lower()}", where) from None
    content = _object(found, "settings", where)
    if unknown := sorted(set(content) - {"defines", "files"}):
        raise FileError(f"expected 'defines' and 'files', found {unknown[0]!r}", where)
    files = _object(content.get("files", {}), "macros by file", where)
    out: dict[str, str] = {}
    for part in (content.get("defines", {}), files.get(name, {})):
        out |= {key: alternatives(value)[0] for key, value in _object(part, "macros", where).items()}
    return out


def _object(value: Any, what: str, where: Loc) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise FileError(f"expected {what} as an object, found {type(value).__name__}", where)
    return cast("dict[str, Any]", value)
