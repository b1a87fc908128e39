"""How many rewrites are made: `GRAPHFUSE_STOP_AFTER=n` lets n passes and rules change the IR, to find the one at fault.

Passes and the rules that fire in them are counted together, in the order in which one compilation makes them.
"""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from graphfuse.knobs import settings

log = logging.getLogger(__name__)


class Rewrites:
    """Those of one compilation, of which the last may be all that is left out."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.made: list[str] = []
        """What was let through, at most `most` of them."""

    def allows(self, what: str) -> bool:
        """Whether one more may be made; it is counted if so."""
        if len(self.made) >= self.most:
            return False
        self.made.append(what)
        log.debug("rewrite %d: %s", len(self.made), what)
        return True


_counted: ContextVar[Rewrites | None] = ContextVar("graphfuse_rewrites", default=None)


@contextmanager
def counted(most: int | None = None) -> Generator[Rewrites | None]:
    """Count rewrites until it is left: up to `most`, else up to what `GRAPHFUSE_STOP_AFTER` says, else not at all."""
    most = settings.stop_after if most is None else most
    outer = _counted.get()
    rewrites = outer if most is None or outer is not None else Rewrites(most)
    token = _counted.set(rewrites)
    try:
        yield rewrites
    finally:
        _counted.reset(token)


def allows(what: str) -> bool:
    """Whether a rewrite may be made; always, unless somebody counts."""
    rewrites = _counted.get()
    return rewrites is None or rewrites.allows(what)


def are_counted() -> bool:
    """Whether somebody counts: then all that is compiled is compiled in one order, by this process."""
    return _counted.get() is not None
