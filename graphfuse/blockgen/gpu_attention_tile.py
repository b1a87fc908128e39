"""Tiles of attention by warpgroups: rows and keys of a program, and how its blocks are scheduled.

A warpgroup has 64 rows. Its registers hold scores, probabilities as halves and the result of those rows at once, which
bounds the keys of a block. Two warpgroups share every copy of keys and values and hide each other's softmax, so a
program has two unless that leaves multiprocessors idle. Where a mask gives programs different work, blocks are not
persistent: the hardware deals the next program out when a block ends, the longest first.
"""

from __future__ import annotations

from dataclasses import dataclass

WARPGROUP_ROWS = 64
MOST_REGISTERS = 192
"""Of a thread, 32 bits each, for scores, probabilities and result."""
KEYS = (128, 64, 32)
"""Blocks of keys, best first: the longer, the fewer barriers and rescalings."""


@dataclass(frozen=True, slots=True)
class AttentionTile:
    """`rows` queries and blocks of `keys`; two warpgroups may take turns; 0 blocks a multiprocessor: not persistent."""

    rows: int
    keys: int
    turns: bool = True
    persistent: int = 0
    resident: int = 1
    """Blocks that run on a multiprocessor at a time."""


def attention_tile(depth: int, values: int, rows: int, keys: int, heads: int, multiprocessors: int) -> AttentionTile:
    """For padded `depth` and `values`, and at most so many rows, keys and heads (of all batches)."""
    programs = heads * -(-rows // (2 * WARPGROUP_ROWS))
    pair = rows > WARPGROUP_ROWS and programs >= multiprocessors
    fitting = [k for k in KEYS if max(depth, values) <= 128 or k <= 64]
    fitting = [k for k in fitting if k // 2 + k // 4 + values // 2 <= MOST_REGISTERS]
    wanted = max(KEYS[-1], 1 << (max(keys, 1) - 1).bit_length())
    return AttentionTile(WARPGROUP_ROWS * (2 if pair else 1), min(max(fitting, default=KEYS[-1]), wanted))
