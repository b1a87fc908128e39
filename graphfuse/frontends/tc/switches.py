"""`-W` switches: which findings are reported, and which of them as errors."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from graphfuse.errors import UsageError

WARNINGS = frozenset((
    "attribute", "define-twice", "directive", "division", "empty-declaration", "glued-defines", "implicit-kernel",
    "macro-redefined", "missing-semicolon", "no-return", "offset-overflow", "range-operand", "readonly", "shadow",
    "shift", "unconditional-call", "uninitialised", "unmasked", "unreachable", "unused-define", "unused-function",
    "unused-parameter",
))  # fmt: skip
"""The codes of findings that are no errors."""
ON_REQUEST = frozenset(("offset-overflow", "unused-parameter"))
EXTRA = frozenset(("unused-parameter",))
"""What `extra` turns on."""


@dataclass(frozen=True, slots=True)
class Switches:
    """The codes that are reported, and those reported as errors."""

    on: frozenset[str] = WARNINGS - ON_REQUEST
    fatal: frozenset[str] = frozenset()

    def severity(self, code: str, severity: Literal["warning", "note"]) -> Literal["error", "warning", "note"] | None:
        """How a finding is reported, if at all; a note is never an error."""
        if code not in self.on:
            return None
        return "error" if code in self.fatal and severity == "warning" else severity


DEFAULT = Switches()
QUIET = Switches(frozenset())


def parse_switches(names: Sequence[str]) -> Switches:
    """Read what stands behind `-W`: CODE, no-CODE, extra, error, error=CODE, no-error=CODE; later ones count.

    `error=CODE` also turns CODE on.
    """
    on, fatal = set(DEFAULT.on), set[str]()
    for name in names:
        word = name.removeprefix("no-")
        yes = word == name
        if word == "error" or word.startswith("error="):
            codes = _codes(word.partition("=")[2], name) if "=" in word else WARNINGS
            fatal = fatal | codes if yes else fatal - codes
            on |= codes if yes and "=" in word else frozenset()
        else:
            codes = _codes(word, name)
            on = on | codes if yes else on - codes
    return Switches(frozenset(on), frozenset(fatal))


def _codes(word: str, name: str) -> frozenset[str]:
    if word == "extra":
        return EXTRA
    if word in WARNINGS:
        return frozenset((word,))
    near = difflib.get_close_matches(word, sorted(WARNINGS), 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise UsageError(f"-W{name}: there is no warning {word!r}{hint}")
