"""How many registers of a thread a value takes."""

from __future__ import annotations

from graphfuse.ir.layout import REGISTER, LinearLayout
from graphfuse.ir.types import Ptr, Tile, Type

REGISTER_BITS = 32
"""Wider values take several."""


def registers_per_thread(t: Type, threads: int, layout: LinearLayout | None = None) -> int:
    """32-bit registers that one thread needs for its part of a value."""
    if isinstance(t, Tile):
        elements = layout.distinct_registers().size(REGISTER) if layout else -(-t.elements // threads)
        return -(-elements * t.elem.bits // REGISTER_BITS)
    if isinstance(t, Ptr):
        return 64 // REGISTER_BITS
    return -(-getattr(t, "bits", 64) // REGISTER_BITS)
