"""Into which parts the keys of attentions of few programs are split, so that no multiprocessor is idle."""

from __future__ import annotations

import math
from collections.abc import Callable

from graphfuse.blockgen.gpu_attention_tile import MAX_VALUES, least_rows
from graphfuse.targets.machine import Machine

KEYS = 64
"""Of a step of the walk over keys: parts are whole numbers of them."""
ROWS, ROWS_OF_WIDE = 128, 64
"""Of queries that a program has at most, and where its warpgroups share the columns of wide results."""
_PARTIAL, _ELEMENT = 2, 8
"""Bytes of a row of a part's result, for each of a key and its value, and at least for each element: it is f32, written
and read."""


def key_parts(machine: Machine) -> Callable[[int, int, int, int, int], int]:
    """For a machine: keys of a part, all of them where one program may read them.

    It is given heads, rows of queries of each, keys, bytes of a key and its value, and elements of a value. Where rows
    are many, there are parts for an idle machine only: their results are large.
    """
    costs = machine.gpu.memory
    rate = costs.bytes_per_us / machine.multiprocessors

    def chosen(heads: int, rows: int, keys: int, nbytes: int, values: int) -> int:
        blocks = -(-rows // (ROWS_OF_WIDE if machine.has_wgmma and values > MAX_VALUES else ROWS))
        if not nbytes or not keys or (blocks > 1 and heads * blocks >= machine.multiprocessors):
            return keys

        def us(part: int) -> float:
            parts = -(-keys // part)
            in_flight = (2 if rows >= least_rows(part, machine) else 1) * KEYS * nbytes
            full = -(-costs.in_flight_bytes // in_flight)  # programs of a multiprocessor that ask for enough at a time
            programs = -(-heads * blocks * parts // machine.multiprocessors)
            waves = -(-programs // full)
            alone = programs * part * nbytes / rate / costs.most_share / min(1, programs / full)
            together = heads * blocks * keys * nbytes / costs.bytes_per_us
            out = waves * machine.gpu.uncopied.start_us + math.hypot(alone**2, together**2) ** 0.5
            if parts > 1:
                written = heads * parts * rows * max(nbytes * _PARTIAL, values * _ELEMENT)
                out += costs.beside_us + written / costs.cached_bytes_per_us
            return out

        counts = range(1, -(-keys // KEYS) + 1)
        parts = dict.fromkeys(-(-keys // (n * KEYS)) * KEYS for n in counts)
        return min((min(n, keys) for n in parts), key=us)

    return chosen
