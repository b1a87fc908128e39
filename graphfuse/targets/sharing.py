"""Kernels that parts of one program have in common: each is made once, under a name that no other of them has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Hashable
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from graphfuse.knobs import are_passes_watched


@dataclass
class Sharing:
    """What was made for the parts so far."""

    names: dict[Hashable, str] = field(default_factory=dict[Hashable, str])
    """Of kernels, by all that they are made of."""
    lowered: dict[str, Any] = field(default_factory=dict[str, Any])
    """Block functions, by kernel."""
    made: dict[str, Any] = field(default_factory=dict[str, Any])
    """What the backend made of each, for itself."""
    _count: Counter[str] = field(default_factory=Counter[str])

    def name(self, kind: str, made_of: Hashable) -> str:
        """The name of a kernel."""
        if made_of not in self.names:
            self.names[made_of] = f"{kind}_{self._count[kind]}"
            self._count[kind] += 1
        return self.names[made_of]


sharing: ContextVar[Sharing | None] = ContextVar("graphfuse_sharing", default=None)
"""That of the program whose parts are compiled."""


@contextmanager
def shared_kernels() -> Generator[None]:
    """What is compiled meanwhile are parts of one program, or of the one around it; not where passes are watched."""
    token = sharing.set(None if are_passes_watched() else sharing.get() or Sharing())
    try:
        yield
    finally:
        sharing.reset(token)
