"""Memory of large outputs, which the next call has again once nobody uses it.

The C library gives large blocks back to the system as they are freed, and the system clears each page of new ones. An
output's array refers to a `_Lent`; when the last view of it is gone, so is that, and its memory is kept here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphfuse.runtime.native import Array, address_of, aligned_bytes

LARGE = 16 << 20
"""Bytes from which on memory is lent: half of what glibc hands back at once, at most (`M_MMAP_THRESHOLD`)."""
MOST_BYTES = 1 << 28
"""Of all that is kept: what came back last."""

_kept: dict[int, Array] = {}
"""By address, oldest first. Each step on it is atomic, as garbage is collected in any thread at any time."""


class _Lent:
    """Owns a block for as long as an array of it is anywhere."""

    __slots__ = ("__array_interface__", "_block")

    def __init__(self, block: Array) -> None:
        self._block = block
        self.__array_interface__: dict[str, Any] = {
            "data": (address_of(block), False), "shape": block.shape, "typestr": "|u1", "version": 3,
        }  # fmt: skip

    def __del__(self) -> None:
        if self._block.nbytes > MOST_BYTES:
            return
        _kept[address_of(self._block)] = self._block
        left = sum(block.nbytes for block in list(_kept.values()))
        for address in list(_kept):
            if left <= MOST_BYTES:
                break
            gone = _kept.pop(address, None)
            left -= 0 if gone is None else gone.nbytes


def lent_bytes(nbytes: int) -> Array:
    """Memory of any contents, aligned as outputs are: that of an earlier one of this size, or new."""
    for address, block in list(_kept.items()):
        if block.nbytes == nbytes and _kept.pop(address, None) is not None:  # else another thread has it
            return np.asarray(_Lent(block))
    return np.asarray(_Lent(aligned_bytes(nbytes)))
