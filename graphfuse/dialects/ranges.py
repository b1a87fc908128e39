"""The symbols of a graph function, those of its loops with them."""

from __future__ import annotations

from graphfuse.dialects import graph
from graphfuse.ir.core import Func


def ranges_of(func: Func) -> dict[str, tuple[int, int]]:
    """The inclusive ranges of a function's symbols, and of its loops' own."""
    out = dict(func.ranges)
    for op in func.walk():
        if op.kind is graph.loop:
            out[str(op.attrs["symbol"])] = (0, (1 << 31) - 1)
    return out
