"""`-D` options: names, raw token text, lists of alternatives; and every combination of the lists."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from graphfuse.errors import UsageError
from graphfuse.frontends.tc.diagnostics import Diagnostic

_NAME = re.compile(r"[A-Za-z_$][\w$]*\Z")
_GLUED = re.compile(r"-D(?=[A-Za-z_$][\w$]*=)")


@dataclass(frozen=True, slots=True)
class Defines:
    """Macro name to its alternatives, in the order given; a value that is no list is a list of one."""

    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    warnings: tuple[Diagnostic, ...] = ()

    def points(self) -> Iterator[dict[str, str]]:
        """Every combination: the Cartesian product of the lists."""
        for values in itertools.product(*self.values.values()):
            yield dict(zip(self.values, values, strict=True))


def parse_defines(options: Sequence[str]) -> Defines:
    """Read `-DNAME`, `-DNAME=VALUE`, `-DNAME=[a, b]`, `-D NAME...`, as a shell hands them over.

    A list that the shell cut at its blanks is put together again. `-DA=1-DB=2` is split, with a warning.
    """
    values: dict[str, tuple[str, ...]] = {}
    warnings: list[Diagnostic] = []
    rest = list(options)[::-1]
    while rest:
        text = rest.pop()
        if not text.startswith("-D"):
            raise UsageError(f"expected -DNAME or -DNAME=VALUE, found {text!r}")
        text = text[2:]
        if not text:
            if not rest:
                raise UsageError("-D: expected a macro name, found the end of the options")
            text = rest.pop()
        while _open_list(text) and rest:
            text += f" {rest.pop()}"
        first, *glued = _GLUED.split(text)
        if glued:
            warnings.append(_glued_warning(first, glued))
            rest += [f"-D{part}" for part in reversed(glued)]
        name, has_value, value = first.partition("=")
        if not _NAME.match(name):
            raise UsageError(f"-D{first}: expected a macro name, found {name!r}")
        if name in values:
            warnings.append(Diagnostic("warning", "define-twice", f"-D{name} is given twice: the last one counts"))
        values[name] = split_list(value.strip()) if has_value else ("1",)
    return Defines(values, tuple(warnings))


def split_list(value: str) -> tuple[str, ...]:
    """`[a, b]` is the alternatives a and b; commas inside brackets do not separate; anything else is one value."""
    depths = list(itertools.accumulate((c in "([{") - (c in ")]}") for c in value))
    if not value.startswith("[") or depths[-1] or 0 in depths[:-1]:
        return (value,)
    return tuple(split_at_commas(value[1:-1]))


def split_at_commas(text: str) -> list[str]:
    """What is between the commas outside of brackets, without blanks around it."""
    parts, depth = [""], 0
    for c in text:
        depth += (c in "([{") - (c in ")]}")
        if c == "," and not depth:
            parts.append("")
        else:
            parts[-1] += c
    return [p.strip() for p in parts]


def alternatives(value: Any) -> tuple[str, ...]:
    """What a macro may be, as text, of a value of Python's: a list, or a text as in `-D`."""
    if isinstance(value, str):
        return split_list(value)
    several = cast("Sequence[Any]", value) if isinstance(value, Sequence) else [value]
    return tuple(str(int(v)) if isinstance(v, bool) else str(v) for v in several) or ("",)


def _open_list(text: str) -> bool:
    _, has_value, value = text.partition("=")
    return bool(has_value) and value.lstrip().startswith("[") and value.count("[") > value.count("]")


def _glued_warning(first: str, glued: Sequence[str]) -> Diagnostic:
    parts = " ".join(f"-D{part}" for part in (first, *glued))
    message = f"blank missing between -D options: read -D{'-D'.join((first, *glued))} as {parts}"
    return Diagnostic("warning", "glued-defines", message)
