"""Whether a product of few tiles and a deep K is better made in parts, which another kernel sums.

The blocks of a cluster can share the sum of a tile, but a GPU has few clusters of many blocks, and neighbours that read
different parts of K have less of the cache in common. Parts that are products of a batch have neither, and cost a
launch and the way of the partial sums through the cache.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from graphfuse.blockgen.gpu_tiles import VECTOR_BYTES
from graphfuse.blockgen.gpu_wgmma_tile import GAIN, STEP_BYTES, Product, microseconds, wgmma_tile
from graphfuse.dialects.gpu import ACCUMULATED
from graphfuse.ir.types import Scalar
from graphfuse.targets.machine import Machine

MOST = 16
"""Parts: from there on adding them up costs what more programs save."""
LEAST_STEPS = 8
"""Of a part."""
_SUM_BYTES = 4
"""Of an element of a part: sums are f32."""


def sum_parts(machine: Machine) -> Callable[[int, int, int, int, Scalar], int | None]:
    """For a machine: into how many parts a product is split, 1 for none, None where it is not known.

    It is given rows, columns, batch, depth and element.
    """
    return partial(_parts, machine)


def _parts(machine: Machine, rows: int, columns: int, batch: int, depth: int, elem: Scalar) -> int | None:
    if not machine.has_wgmma or elem.name not in ACCUMULATED or min(rows, columns, batch, depth) < 1:
        return None
    costs = machine.gpu.memory

    def us(count: int) -> float:
        made = Product(rows, columns, depth // count * elem.bytes, batch * count)
        product = microseconds(wgmma_tile(machine, made), machine, made)
        product = max(product, batch * (rows + columns) * depth * elem.bytes / costs.cached_bytes_per_us)
        if count == 1:
            return product / GAIN
        moved = batch * rows * columns * (count * _SUM_BYTES + elem.bytes)
        return product + costs.beside_us + moved / costs.cached_bytes_per_us

    unit, least = VECTOR_BYTES // elem.bytes, LEAST_STEPS * STEP_BYTES // elem.bytes
    counts = [c for c in range(2, MOST + 1) if depth % (c * unit) == 0 and depth // c >= least]
    return min([1, *counts], key=us)
