"""Which CTA knows what others wrote to global memory: what was released and acquired at the scope of the GPU.

CTAs have clocks, which tick when one of their warps releases. A flag carries what the releasing CTA knew. Within a CTA
everything counts as known. Only for kernels whose CTAs wait for one another (`Machine.ordered`).
"""

from __future__ import annotations

import numpy as np

from graphfuse.gpu.emulator.types import Array


class Published:
    """Of every byte of the heap, which CTA wrote it and when."""

    def __init__(self, nbytes: int, ctas: int) -> None:
        self.writer = np.full(nbytes, -1, np.int16)
        self.time = np.zeros(nbytes, np.int32)
        self.known = np.zeros((ctas, ctas), np.int32)
        self.known[np.arange(ctas), np.arange(ctas)] = 1
        self.carried: dict[int, Array] = {}

    def write(self, ctas: Array, at: Array, nbytes: int) -> None:
        """Ranges of bytes are written by weak stores."""
        where = at[:, None] + np.arange(nbytes)
        self.writer[where] = ctas[:, None]
        self.time[where] = self.known[ctas, ctas][:, None]

    def find_unknown(self, ctas: Array, at: Array, nbytes: int) -> tuple[int, int] | None:
        """The first weak read of what another CTA wrote and has not published to this one: its row, and who wrote."""
        where = at[:, None] + np.arange(nbytes)
        writer = self.writer[where]
        unknown = (writer >= 0) & (writer != ctas[:, None])
        unknown &= self.known[ctas[:, None], writer] < self.time[where]
        if not unknown.any():
            return None
        row, column = np.argwhere(unknown)[0].tolist()
        return row, int(writer[row, column])

    def acquire(self, ctas: Array, at: Array) -> None:
        """CTAs read flags."""
        for cta, flag in set(zip(ctas.tolist(), at.tolist(), strict=True)):
            if flag in self.carried:
                self.known[cta] = np.maximum(self.known[cta], self.carried[flag])

    def release(self, ctas: Array, at: Array, *, update: bool) -> None:
        """CTAs set flags; an `update` also carries on what the flag did."""
        for cta, flag in set(zip(ctas.tolist(), at.tolist(), strict=True)):
            row = self.known[cta].copy()
            self.carried[flag] = np.maximum(row, self.carried[flag]) if update and flag in self.carried else row
            self.known[cta, cta] += 1

    def forget(self, at: Array) -> None:
        """Flags are overwritten by what releases nothing."""
        for flag in at.tolist():
            self.carried.pop(flag, None)
