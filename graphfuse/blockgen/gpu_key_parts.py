"""Into which parts the keys of attentions of few queries are split, so that no multiprocessor is idle."""

from __future__ import annotations

from collections.abc import Callable

from graphfuse.targets.machine import Machine

KEYS = 64
"""Of a step of the walk over keys: parts are whole numbers of them."""
_PARTIAL = 2
"""Bytes of a row of a part's result, for each of a key and its value: it is f32, written and read."""


def key_parts(machine: Machine) -> Callable[[int, int, int, int], int]:
    """For a machine: keys of a part, all of them where one program may read them.

    It is given heads, rows of queries of each, keys, and bytes of a key and its value.
    """
    costs = machine.gpu.memory
    rate = costs.bytes_per_us / machine.multiprocessors

    def chosen(heads: int, rows: int, keys: int, nbytes: int) -> int:
        if not nbytes or not keys:
            return keys
        in_flight = KEYS * nbytes
        full = -(-costs.in_flight_bytes // in_flight)  # programs of a multiprocessor that ask for enough at a time

        def us(part: int) -> float:
            parts = -(-keys // part)
            programs = -(-heads * parts // machine.multiprocessors)
            waves = -(-programs // full)
            read = programs * min(part, keys) * nbytes / rate / min(1, programs / full)
            combined = heads * parts * rows * nbytes * _PARTIAL / costs.cached_bytes_per_us
            return waves * machine.gpu.uncopied.start_us + read + (costs.beside_us + combined if parts > 1 else 0)

        steps = -(-keys // KEYS)
        counts = dict.fromkeys(-(-steps // n) for n in range(1, steps + 1))
        part = min((n * KEYS for n in counts), key=us)
        return min(part, keys)

    return chosen
