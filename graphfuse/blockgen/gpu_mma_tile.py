"""Tiles of matrix products by `mma.sync`: from shapes, by a model of the time in clocks; no trial runs.

Tensor cores and shared memory overlap in part only: a step of k takes a time for its products, and a time for what goes
through shared memory, where every warp reads its part of both operands and copies write them. So warps have large
tiles. Each scheduler has tensor cores of its own, so four warps at least are wanted; and what a tile takes before its
first step and behind its last is hidden where two blocks run side by side.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from graphfuse.targets.machine import SCHEDULERS, Machine
from graphfuse.targets.profiles.h200 import MmaCosts

STEPS = (128, 64)
"""Bytes of k in one step: a line of shared memory, or half of one."""
_REGISTERS = 65536
"""Of a multiprocessor, of 32 bits each, on every part."""
_MOST_REGISTERS = 255
"""Of a thread: the ISA has no numbers for more."""
_OTHER_REGISTERS = 48
"""For addresses, counters and what else a loop needs."""
_OWN_BYTES = 1024
"""Of shared memory: what a block takes besides its own, and a multiprocessor has more than a block may have."""
_WARPS = 48
"""Of a multiprocessor, on every part."""
_LINE_DEPTH = 16
"""Bytes of k that fragments of one row are read in at a time: two are held."""


@dataclass(frozen=True, slots=True)
class MmaTile:
    """A tile [m, n] by so many warps, in steps of so many bytes of k, `stages` of which are in memory."""

    m: int
    n: int
    warps: int
    step: int
    stages: int

    @property
    def read(self) -> int:
        """Rows and columns that all warps together read: those of each warp's part."""
        grids = ((down, self.warps // down) for down in (1 << i for i in range(self.warps.bit_length())))
        whole = [(d, a) for d, a in grids if d * 16 <= self.m and a * 8 <= self.n] or [(1, 1)]
        return self.warps * min(self.m // down + self.n // across for down, across in whole)

    def resident(self, shared_bytes: int) -> int:
        """Blocks that run side by side on a multiprocessor, as far as that is known before assembling."""
        fragments = 2 * self.read // self.warps * _LINE_DEPTH // 4 // 16
        threads = 32 * self.warps
        registers = self.m * self.n // threads + fragments + _OTHER_REGISTERS
        if registers > _MOST_REGISTERS:
            return 0
        by_shared = (shared_bytes + _OWN_BYTES) // ((self.m + self.n) * self.step * self.stages + _OWN_BYTES)
        return min(_REGISTERS // (threads * registers), by_shared, _WARPS // self.warps)


SHAPES = (
    (128, 256, 8), (256, 128, 8), (128, 128, 8), (128, 128, 4), (64, 256, 4), (256, 64, 4), (64, 128, 4), (128, 64, 4),
    (64, 128, 2), (128, 64, 2), (64, 64, 4), (64, 64, 2), (32, 128, 4), (32, 64, 4), (64, 32, 4), (32, 64, 2),
    (64, 32, 2), (16, 128, 4), (16, 64, 4), (128, 16, 4), (64, 16, 4), (32, 32, 4), (32, 32, 2), (16, 32, 2),
    (32, 16, 2), (16, 16, 1),
)  # fmt: skip
"""Rows, columns and warps."""


def mma_tiles(machine: Machine, m: int, n: int, k_bytes: int, batch: int = 1, largest: int = 1 << 15) -> list[MmaTile]:
    """Those of at most `largest` elements by the time they take; of equals the largest, with most stages, first."""
    tiles = [t for t in _candidates(k_bytes) if t.m * t.n <= largest and t.resident(machine.shared_bytes)]

    def rank(t: MmaTile) -> tuple[float, int, int]:
        return clocks(t, machine, m, n, k_bytes, batch), -t.m * t.n, -t.stages

    return sorted(tiles, key=rank)


def _candidates(k_bytes: int) -> Iterator[MmaTile]:
    for m, n, warps in SHAPES:
        for step in STEPS:
            for stages in (2, 3, 4):
                if stages == 2 or (stages - 1) * step < k_bytes:
                    yield MmaTile(m, n, warps, step, stages)


def clocks(tile: MmaTile, machine: Machine, m: int, n: int, k_bytes: int, batch: int = 1) -> float:
    """What the model says: the time of the multiprocessor with most tiles."""
    most = -(-(-(-m // tile.m) * -(-n // tile.n) * batch) // machine.multiprocessors)
    steps = -(-k_bytes // tile.step)
    resident, costs = tile.resident(machine.shared_bytes), machine.gpu.mma
    rounds, rest = divmod(most, resident)
    return rounds * _round(tile, steps, resident, costs) + (_round(tile, steps, rest, costs) if rest else 0)


def _round(tile: MmaTile, steps: int, blocks: int, costs: MmaCosts) -> float:
    """So many tiles side by side."""
    multiply = tile.m * tile.n / costs.multiplied
    move = (tile.read + tile.m + tile.n) / costs.moved
    idle = max(1.0, SCHEDULERS / (blocks * tile.warps))
    step = max(blocks * tile.step * (multiply + move) * idle + costs.wait, costs.arrival / (tile.stages - 1))
    return steps * step + costs.ends + blocks * tile.m * tile.n * costs.element
