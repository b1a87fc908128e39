"""Tiles of attention by warpgroups: rows and keys of a program, and how its blocks are scheduled.

A warpgroup has 64 rows. Its registers hold scores, probabilities as halves and the result of those rows at once, which
bounds the keys of a block. In long walks two warpgroups share every copy of keys and values, and a multiprocessor has
one block, which goes on with the next program's copies while it ends the last one. Short walks are mostly beginnings
and ends: there two blocks of one warpgroup each fill each other's gaps, and the hardware deals out programs, the
longest first. Measured on an H200 with 512 and 4096 keys; what lies between is a guess.

Two warpgroups may also share 64 rows, and have half of up to 512 columns each. Scores are made once then, and keys are
read once; that needs no measuring beside two programs of half the columns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from graphfuse.targets.machine import Machine

WARPGROUP_ROWS = 64
"""Of queries: what one `wgmma` takes."""
MAX_VALUES, MAX_SHARED_VALUES = 256, 512
"""Elements of a result row of one program, and of one whose warpgroups share the columns."""
LEAST_ROWS, LEAST_OF_SHORT = 17, 32
"""Queries for which such a tile pays, in short walks more: `python -m benchmarks.gpu_constants --only cached`."""
MOST_REGISTERS = 192
"""Of a thread, 32 bits each, for scores, probabilities and result."""
KEYS = (128, 64, 32)
"""Blocks of keys, best first: the longer, the fewer barriers and rescalings."""
SHARED_KEYS = (64, 32)
"""The same where two warpgroups share the columns of a result."""
STORED = 32
"""Columns of a result, of 4 bytes, that are stored at a time at least."""
BARRIERS = 1 << 10
"""Bytes, at most."""
NARROW = 64
"""Depth of which a multiprocessor has shared memory and registers for two blocks."""


@dataclass(frozen=True, slots=True)
class AttentionTile:
    """`rows` queries and blocks of `keys`."""

    rows: int
    keys: int
    resident: int = 1
    """Blocks that run on a multiprocessor at a time."""
    persistent: int = 0
    """The same, if they go on with other programs; 0: they do not."""
    turns: bool = False
    """Two warpgroups begin their products by turns."""
    query_words: bool = False
    """Queries stay in registers."""

    def __str__(self) -> str:
        more = f" persistent={self.persistent}" if self.persistent else f" resident={self.resident}"
        return f"{self.rows}x{self.keys}{more}{' turns' * self.turns}{' words' * self.query_words}"


def least_rows(keys: int, machine: Machine) -> int:
    """Queries for which a tile of 64 rows pays in a walk over so many keys."""
    return LEAST_ROWS if keys > machine.gpu.short_walk else LEAST_OF_SHORT


def attention_tiles(depth: int, values: int, rows: int, keys: int, heads: int, machine: Machine) -> list[AttentionTile]:
    """For padded `depth` and `values`, and at most so many rows, keys and heads (of all batches); the best first.

    None where shared memory has no room for any.
    """
    every = _tiles(depth, values, rows, keys, heads, machine)
    shorter = [replace(t, keys=k) for k in KEYS for t in every if k < t.keys]

    def fitting(tiles: list[AttentionTile]) -> list[AttentionTile]:
        return [t for t in tiles if _shared_bytes(t, depth, values) <= machine.shared_bytes]

    return fitting(every) or fitting(shorter)


def _shared_bytes(tile: AttentionTile, depth: int, values: int) -> int:
    """For queries, two blocks of keys and values, what results are stored through, and barriers."""
    return 2 * (tile.rows * depth + 2 * tile.keys * (depth + values)) + 4 * tile.rows * STORED + BARRIERS


def tiles_of_sides(depth: int, apart: int, machine: Machine) -> list[AttentionTile]:
    """Where two warpgroups share the columns, for a padded `depth` and values of which so many are no part of the keys.

    None where shared memory has no room for any: for queries, two blocks of keys and values, and what one warpgroup
    sends the other. Results are not stored through it.
    """
    every = [AttentionTile(WARPGROUP_ROWS, n) for n in SHARED_KEYS]
    in_blocks = {t.keys: 2 * t.keys * (depth + apart) + t.rows * t.keys for t in every}
    return [t for t in every if 2 * (t.rows * depth + in_blocks[t.keys]) + 3 * BARRIERS <= machine.shared_bytes][:1]


def _tiles(depth: int, values: int, rows: int, keys: int, heads: int, machine: Machine) -> list[AttentionTile]:
    wanted = max(KEYS[-1], 1 << (max(keys, 1) - 1).bit_length())
    fitting = [k for k in KEYS if max(depth, values) <= 128 or k <= 64]
    fitting = [k for k in fitting if k // 2 + k // 4 + values // 2 <= MOST_REGISTERS]
    width = min(max(fitting, default=KEYS[-1]), wanted)
    narrow = max(depth, values) <= NARROW
    programs = heads * -(-rows // (2 * WARPGROUP_ROWS))
    one = AttentionTile(WARPGROUP_ROWS, width, resident=2 if narrow else 1)
    if rows <= WARPGROUP_ROWS:
        return [one]
    two = AttentionTile(2 * WARPGROUP_ROWS, width, persistent=1)
    few = 2 * programs <= machine.multiprocessors * one.resident or (narrow and keys <= machine.gpu.short_walk)
    words = [replace(t, query_words=True) for t in (one, two)]
    return [*((one, two) if few else (two, one)), replace(two, persistent=0), replace(two, turns=True), *words]
