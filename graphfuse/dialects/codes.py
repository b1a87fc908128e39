"""Codes of few bits in words of 32: where the one of each step is."""

from __future__ import annotations

WORD_BITS = 32
BITS = (2, 4, 8)
"""Of a code, whose words hold a whole number of them."""
BYTES, HALVES = 4, 2
"""Parts of a word that have codes which follow one another: one instruction widens the same bits of all parts."""
SIDE = 4
"""Lanes that share the steps of a column, and columns that a lane has words of: it reads these as a vector."""
LINE_WORDS, PANEL = 2 * SIDE, 32
"""Words of a column, and columns, that lie together in lines for lanes: 1024 bytes."""
LINE = LINE_WORDS * PANEL // SIDE**2
"""Of a line, groups of four words of four columns."""


def code_bit(step: int, bits: int, parts: int = BYTES) -> int:
    """The lowest bit of a code in its word: as many codes as there are parts, one after another, are in one each."""
    return WORD_BITS // parts * (step % parts) + bits * (step // parts)


def line_steps(bits: int) -> int:
    """Steps along K of a line for lanes."""
    return LINE_WORDS * WORD_BITS // bits
