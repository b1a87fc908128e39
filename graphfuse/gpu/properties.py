"""What GPU passes require of a function."""

from __future__ import annotations

from graphfuse.ir.core import Func
from graphfuse.ir.types import Tile


def laid_out(func: Func) -> str | None:
    """Every tile has a layout."""
    for op in func.walk():
        for v in op.results:
            if isinstance(v.type, Tile) and v.type.layout is None:
                return f"expected tiles with layouts, found {op.kind} of {v.type}: run assign-layouts first"
    return None
