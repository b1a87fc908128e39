"""Warpgroups, rings, turns and registers of attention, from its tiles and the function's attributes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphfuse.gpu.transforms.hopper.config import ALIGNMENT, BARRIER_BYTES, PANEL, RESERVED_BYTES, SHARED_BYTES, Config
from graphfuse.gpu.transforms.hopper.epilogue import Declined
from graphfuse.gpu.transforms.hopper.match import Operand
from graphfuse.gpu.transforms.hopper.match_attention import MOST_COLUMNS, Attention
from graphfuse.ir.core import Func, attr_int

ROWS = 64
"""Of a warpgroup."""
LEAST_STAGES, MOST_STAGES = 2, 4
REGISTERS = {(1, 1): (), (1, 2): (216, 40), (2, 1): (240, 24), (3, 1): (160, 32)}
"""By consumer warpgroups and blocks of a multiprocessor: of a consumer's thread and of a producer's."""
NARROW = 64
"""Depth of which a multiprocessor has room for two blocks of one warpgroup."""
MOST_LIVE = 192
"""32-bit registers of a thread for scores, probabilities and result."""
SIDES = 2
"""Warpgroups that may share the columns of a result."""
SIDES_REGISTERS = (240, 240, 24)
"""Of the threads of two that do, and of the producer's."""
BARRIERS = 128
"""Bytes that a ring of barriers takes, one by one."""


@dataclass(frozen=True, slots=True)
class AttentionConfig(Config):
    """Of one group of warpgroups, of 64 rows each; `stages` blocks of keys, and of values, in shared memory."""

    takes_turns: bool
    """One warpgroup's products begin when the other's have, so that its softmax runs beside them."""
    query_words: bool
    """Queries are kept in registers, and read from shared memory once."""
    resident: int
    """Blocks that a multiprocessor has room for."""
    store_width: int
    """Columns of a staging buffer: of a warp there is one for all of them, or one for each panel."""
    read_ahead: int
    """Registers of a thread for what is read while scores are being made."""
    sides: int = 1
    """Roles of warps that multiply, each with its own columns of the result."""


def choose(func: Func, attention: Attention, store_bytes: int) -> AttentionConfig:
    """From the tiles, and the attributes `ring`, `turns`, `query_words`, `persistent` and `resident`.

    Where they say nothing: two warpgroups go on with other programs, and one leaves room for another where it can. A
    stored element has `store_bytes`.
    """
    (rows, keys), (_, columns) = attention.score_type.shape, attention.acc_type.shape
    depth = sum(part.shape[1] for part in attention.query)
    narrow = rows == ROWS and max(columns, depth) <= NARROW
    persistent = attr_int(func, "persistent", 1 if rows > ROWS else 0)
    resident = persistent or attr_int(func, "resident", 2 if narrow else 1)
    if rows % ROWS or (rows // ROWS, resident) not in REGISTERS:
        raise Declined(f"no warpgroups for {rows} queries, {resident} blocks at a time")
    if attention.sides > 1:
        return _of_sides(func, attention, resident)
    for n in (keys, columns):
        if n % 16 or not 16 <= n <= 256:
            raise Declined(f"no wgmma of {n} columns")
    live = keys // 2 + keys // 4 + columns // 2
    if live > MOST_LIVE:
        raise Declined(f"{live} registers of a thread for scores and result")
    warpgroups = rows // ROWS
    first = attention.phases[0]
    query, key, value = (_room(attention, side) for side in (attention.query, first.keys, (first.values,)))
    room = (SHARED_BYTES + RESERVED_BYTES) // resident - RESERVED_BYTES - BARRIER_BYTES
    room -= query
    width = min(PANEL // store_bytes, columns & -columns)
    buffers = columns // width
    while buffers > 1 and room < rows * width * store_bytes * buffers + LEAST_STAGES * (key + value):
        buffers //= 2
    room -= rows * width * store_bytes * buffers
    stages = min(attr_int(func, "ring", MOST_STAGES), room // (key + value))
    if stages < LEAST_STAGES:
        raise Declined(f"shared memory has room for {max(stages, 0)} blocks of keys and values")
    turns = warpgroups == 2 and bool(func.attrs.get("turns", False))
    words = bool(func.attrs.get("query_words")) and len(attention.query) == 1 and not attention.query[0].transposed
    words = words and live + depth // 4 <= MOST_LIVE and depth & depth - 1 == 0
    live += depth // 4 if words else 0
    return AttentionConfig(
        groups=1,
        warpgroups=warpgroups,
        stages=stages,
        persistent=persistent,
        store_buffers=buffers,
        registers=REGISTERS[warpgroups, resident],
        takes_turns=turns,
        query_words=words,
        resident=resident,
        store_width=width,
        read_ahead=MOST_LIVE - live,
    )


def _room(attention: Attention, operands: Sequence[Operand]) -> int:
    """Bytes of shared memory for one slot of operands."""
    size = attention.elem.bytes
    return sum(-(-a * b * size // ALIGNMENT) * ALIGNMENT for a, b in (o.shape for o in operands))


def _of_sides(func: Func, attention: Attention, resident: int) -> AttentionConfig:
    """The same where warpgroups share the columns; results are stored by their threads."""
    (rows, keys), (_, columns) = attention.score_type.shape, attention.acc_type.shape
    sides, first = attention.sides, attention.phases[0]
    if rows != ROWS or resident != 1 or columns != SIDES * MOST_COLUMNS or keys % 16 or keys > MOST_COLUMNS:
        raise Declined(f"no warpgroups for a result of {rows}x{columns}, {keys} keys and {resident} blocks at a time")
    live = keys // 2 + keys // 4 + MOST_COLUMNS // 2
    if live > MOST_LIVE:
        raise Declined(f"{live} registers of a thread for scores and result")
    values = [attention.values_of(first, i) for i in range(sides) if attention.part_of_keys(i) is None]
    rings = 2 * (1 + len(first.keys) + len(values)) + SIDES
    room = SHARED_BYTES - rings * BARRIERS - _room(attention, attention.query)
    sent = len(attention.weights(first)) + len(attention.inits) - 1
    room -= sum(-(-n // ALIGNMENT) * ALIGNMENT for n in (rows * keys * attention.elem.bytes, 4 * rows * sent))
    block = _room(attention, [*first.keys, *values])
    stages = min(attr_int(func, "ring", MOST_STAGES), room // block)
    if stages < LEAST_STAGES:
        raise Declined(f"shared memory has room for {max(stages, 0)} blocks of keys and values")
    return AttentionConfig(
        groups=1,
        warpgroups=1,
        stages=stages,
        persistent=attr_int(func, "persistent", 0),
        store_buffers=0,
        registers=SIDES_REGISTERS,
        takes_turns=False,
        query_words=False,
        resident=1,
        store_width=MOST_COLUMNS,
        read_ahead=MOST_LIVE - live,
        sides=sides,
    )
