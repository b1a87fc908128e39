"""Pass pipelines: verify, time, dump and bisect between passes. A pass itself does none of it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from graphfuse.errors import UsageError
from graphfuse.ir.core import Func, Op
from graphfuse.ir.verifier import verify

log = logging.getLogger(__name__)

Pass = Callable[[Func], Func]
"""A function from IR to IR; its `__name__` with dashes is its name in text."""


def pass_name(pass_: Pass) -> str:
    """The name a pass has in pipelines and dumps: `fold_batch_norm` is `fold-batch-norm`."""
    name: str = getattr(pass_, "__name__", type(pass_).__name__)
    return name.replace("_", "-")


@dataclass
class Pipeline:
    """An ordered list of passes, run with checks between them.

    `after` is called with (index, name, func) after each pass: dumps and prints hang there.
    """

    passes: Sequence[Pass]
    check: bool = True
    after: Callable[[int, str, Func], None] | None = None
    seconds: dict[str, float] = field(default_factory=dict[str, float])

    def run(self, func: Func) -> Func:
        """Run every pass in order; the IR is verified after each unless `check` is off."""
        known = set[Op]()
        for i, pass_ in enumerate(self.passes):
            start = time.perf_counter()
            name = pass_name(pass_)
            func = pass_(func)
            if self.check:
                verify(func, known)
            elapsed = time.perf_counter() - start
            self.seconds[name] = self.seconds.get(name, 0.0) + elapsed
            log.debug("%s: %.1f ms", name, elapsed * 1e3)
            if self.after:
                self.after(i, name, func)
        return func


def parse_pipeline(text: str, known: Sequence[Pass]) -> tuple[Pass, ...]:
    """`canonicalize, fold-batch-norm` to passes; an unknown name is an error that lists the known ones."""
    by_name = {pass_name(p): p for p in known}
    out: list[Pass] = []
    for word in filter(None, (w.strip() for w in text.split(","))):
        if word not in by_name:
            raise UsageError(f"unknown pass {word!r}: expected one of {', '.join(sorted(by_name))}")
        out.append(by_name[word])
    return tuple(out)
