"""What every launch has, of a plan's kernel or of one written by hand; its tensor maps in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from graphfuse.artifact import KernelMeta, Launch, TensorMap, elem_dtype
from graphfuse.runtime.native import address_of, aligned_bytes
from graphfuse.symbolic import evaluate

Encode = Callable[[TensorMap, int, tuple[int, ...], tuple[int, ...]], bytes]
"""A driver's `encode_tensor_map`."""
MAX_GRID = (1 << 31) - 1
"""Of the grid's first dim, the only one that is used."""
MAP_BYTES = 128
"""At a multiple of 64."""


class MapSizes(NamedTuple):
    """A tensor map's numbers: dims in elements, the rest in bytes, `offset` from what the argument points to."""

    dims: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    @staticmethod
    def of(spec: TensorMap, symbols: Mapping[str, int]) -> MapSizes:
        """With these values of symbols."""
        size = elem_dtype(spec.elem).itemsize
        dims = tuple(max(evaluate(d, symbols), 1) for d in spec.dims)  # of what is empty nothing is read
        return MapSizes(
            dims, tuple(evaluate(s, symbols) * size for s in spec.strides), evaluate(spec.offset, symbols) * size
        )


class EncodedMap:
    """A tensor map at one set of sizes: 128 bytes at `address`, which `encode` fills in."""

    __slots__ = ("_encoded_for", "_room", "_sizes", "address", "spec")

    def __init__(self, spec: TensorMap, sizes: MapSizes) -> None:
        self.spec, self._sizes = spec, sizes
        self._room = aligned_bytes(MAP_BYTES)
        self.address = address_of(self._room)
        self._encoded_for = -1

    def __bytes__(self) -> bytes:
        return self._room.tobytes()

    def encode(self, encoded: Encode, pointer: int) -> None:
        """For the argument that the map goes with."""
        if self._encoded_for != pointer:
            dims, strides, offset = self._sizes
            self._room[:] = np.frombuffer(encoded(self.spec, pointer + offset, dims, strides), np.uint8)
            self._encoded_for = pointer


class KernelCall:
    """The part of a `targets.driver.LaunchCall` that does not depend on where arguments are kept."""

    __slots__ = ("cluster", "function", "grid", "maps", "name", "overlaps", "params", "shared_bytes", "threads")

    def __init__(self, meta: KernelMeta, launch: Launch, function: int, grid: int) -> None:
        self.name, self.function, self.grid = meta.name, function, grid
        self.threads, self.shared_bytes, self.cluster = launch.threads, launch.shared_bytes, launch.cluster
        self.overlaps = False
        """It may begin before what is before it on the stream has ended."""
        self.params = 0
        self.maps: list[EncodedMap] = []

    def tensor_maps(self) -> list[bytes]:
        """As they are encoded now."""
        return [bytes(m) for m in self.maps]
