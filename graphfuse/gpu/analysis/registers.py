"""How many registers of a thread a value takes."""

from __future__ import annotations

from graphfuse.gpu.kernel import layout_of
from graphfuse.ir.layout import REGISTER
from graphfuse.ir.types import Tile

REGISTER_BITS = 32
"""Wider elements take several."""


def registers_per_thread(tile: Tile) -> int:
    """32-bit registers that one thread needs for its part of a tile."""
    return -(-layout_of(tile).distinct_registers().size(REGISTER) * tile.elem.bits // REGISTER_BITS)
