"""What callers in Python pass: looked at at the door, so that a wrong type is a UsageError that names the argument."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from graphfuse.errors import UsageError


def wrong(name: str, expected: str, found: object) -> UsageError:
    """The error of an argument of another type."""
    shown = repr(found) if found is None or isinstance(found, (bool, int, float, str)) else type(found).__name__
    return UsageError(f"{name}: expected {expected}, found {shown[:80]}")


def text(name: str, value: Any) -> str:
    """A `str`."""
    if not isinstance(value, str):
        raise wrong(name, "a text", value)
    return value


def texts(name: str, value: Any) -> tuple[str, ...]:
    """One text, or several."""
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, Sequence) or isinstance(value, (bytes, bytearray)):
        raise wrong(name, "a text or several", value)
    return tuple(text(name, v) for v in cast("Sequence[Any]", value))


def integer(name: str, value: Any) -> int:
    """An `int`, numpy's too; neither bools nor texts are numbers."""
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise wrong(name, "an integer", value) from None


def path(name: str, value: Any) -> Path:
    """What `open` takes as a file's name."""
    try:
        return Path(os.fsdecode(value))
    except TypeError:
        raise wrong(name, "a path", value) from None


def mapping(name: str, value: Any) -> Mapping[str, Any]:
    """Values by name."""
    if not isinstance(value, Mapping):
        raise wrong(name, "a mapping by name", value)
    for key in cast("Mapping[Any, Any]", value):
        text(f"{name}: name", key)
    return cast("Mapping[str, Any]", value)


def names(what: str, value: Any) -> dict[str, str]:
    """Names by name."""
    for name, other in mapping(what, value).items():
        if not isinstance(other, str):
            raise wrong(f"{what}: {name!r}", "a name", other)
    return dict(value)


def dims(value: Any) -> dict[str, int | tuple[int, int]]:
    """Numbers, or inclusive bounds, by the name of a symbolic dim."""
    out: dict[str, int | tuple[int, int]] = {}
    for name, dim in mapping("dims", value).items():
        if isinstance(dim, Sequence) and not isinstance(dim, str) and len(cast("Sequence[Any]", dim)) == 2:
            low, high = (integer(f"dims: {name!r}", d) for d in cast("Sequence[Any]", dim))
            out[name] = low, high
        elif isinstance(dim, Sequence):
            raise wrong(f"dims: {name!r}", "a number or two bounds", cast("object", dim))
        else:
            out[name] = integer(f"dims: {name!r}", dim)
    return out
