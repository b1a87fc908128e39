"""Tiles of matrix products on a GPU, from shapes and element: a table and a cost, no trial runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from graphfuse.blockgen.gpu_mma_tile import MmaTile, mma_tiles
from graphfuse.blockgen.gpu_tiles import power_of_two
from graphfuse.blockgen.gpu_wgmma_tile import STEP_BYTES, Product, WgmmaTile, step_bytes, wgmma_tiles
from graphfuse.ir.types import Scalar
from graphfuse.targets.machine import WARP, Machine
from graphfuse.targets.profiles.h200 import Rates

ROW_BYTES = 128
"""Bytes of k in one step: a line of shared memory."""
LARGEST = 256 * 128
"""Elements of all accumulators of a program."""
LARGEST_OF_SUMS = 64 * 128
"""Elements of a tile that is a sum of several products: two accumulators for each, and a step of every operand."""
STREAMED_COLUMNS, STREAMED_STEP = 64, 256
"""Columns and k of a step of a product whose matrix is of bytes."""
LEAST_SIDE = 16
"""Rows or columns of the smallest product that tensor cores take."""
LARGEST_BY_REGISTERS = 128 * 64
"""Elements of all accumulators of a program whose operands pass through registers: larger ones may spill."""

MOST_ADDRESSES = 40
"""Elements of both operands that a thread loads in a step where each has an address of its own: more of them spill."""


@dataclass(frozen=True, slots=True)
class ProductTile:
    """A tile [m, n] of the result, k in steps, by so many warps; `stages` steps are in memory at once."""

    m: int
    n: int
    k: int
    warps: int
    stages: int
    wgmma: WgmmaTile | None = None
    """Set where warpgroups make the product."""

    def __str__(self) -> str:
        if self.wgmma:
            return str(self.wgmma)
        return f"{self.m}x{self.n} k={self.k} warps={self.warps} stages={self.stages}"


def product_tiles(
    machine: Machine, elem: Scalar, p: Product, *, by_registers: bool = False, copied: bool = False, apart: bool = False
) -> list[ProductTile]:
    """Tiles, first those whose programs take least time: waves over the multiprocessors times the time of one tile.

    `by_registers`: an operand's rows begin at addresses from which nothing is copied to shared memory by itself.
    `copied`: both operands are copied as they are. `apart`: k is several dims, and the elements of a step each have
    an address of their own.
    """
    largest = LARGEST_OF_SUMS if p.terms else LARGEST_BY_REGISTERS if by_registers else LARGEST
    largest //= p.results
    if elem.bytes <= 2 and copied and not by_registers:
        return _copied(machine, elem, p, largest)
    candidates = (t for t in _candidates(machine, elem, p.k_bytes // elem.bytes) if t.m * t.n <= largest)
    found = sorted(candidates, key=lambda t: (_cost(machine, elem, t, p), -t.m * t.n))
    return [_with_short_steps(t) for t in found] if by_registers and apart else found


def _with_short_steps(tile: ProductTile) -> ProductTile:
    """With so many addresses that a thread has room for them."""
    most = MOST_ADDRESSES * WARP * tile.warps // (tile.m + tile.n)
    return replace(tile, k=max(LEAST_SIDE, min(tile.k, 1 << most.bit_length() - 1)))


def _copied(machine: Machine, elem: Scalar, p: Product, largest: int) -> list[ProductTile]:
    """Where tensor cores multiply what is copied to shared memory."""
    k_bytes = p.k_bytes * max(p.terms, 1)

    def step(tile: MmaTile) -> int:
        return max(LEAST_SIDE, min(tile.step // elem.bytes, power_of_two(k_bytes // elem.bytes)))

    tiles = mma_tiles(machine, p.m, p.n, k_bytes, p.batch, largest)
    return [ProductTile(t.m, t.n, step(t), t.warps, t.stages) for t in tiles]


def boxed_tiles(machine: Machine, elem: Scalar, p: Product, *, step: int = 0) -> list[ProductTile]:
    """The same where `wgmma` makes the product and boxes of whole steps of k are copied, filled up with zeros.

    `step` is what one has of k where an image is read in windows; else it is a line of shared memory.
    """

    def deep(tile: WgmmaTile) -> int:
        nbytes = STEP_BYTES if p.terms or p.results > 1 else step_bytes(machine, tile, p.k_bytes)
        return step or nbytes // elem.bytes

    return [ProductTile(t.m * t.rows, t.n * t.columns, deep(t), 8, 2, t) for t in wgmma_tiles(machine, p)]


def streamed_tiles(machine: Machine, elem: Scalar, p: Product, scaled: int = 0) -> list[ProductTile]:
    """Tiles where few rows meet a matrix of bytes, and loading that takes time: long steps, many on the way.

    Where `scaled` elements along k share a scale, they are a step.
    """
    k = p.k_bytes // elem.bytes
    rows = max(LEAST_SIDE, min(64, power_of_two(p.m)))
    wide = STREAMED_COLUMNS
    is_few = -(-p.m // rows) * -(-p.n // wide) * p.batch < machine.multiprocessors
    step = max(LEAST_SIDE, min(STREAMED_STEP, power_of_two(k), scaled or k))

    def tile(columns: int) -> ProductTile:
        stage = step * (rows * elem.bytes + columns)
        stages = max(2, min(4, (machine.shared_bytes - 8192) // stage, -(-k // step)))
        return ProductTile(rows, columns, step, columns // 16, stages)

    return [tile(c) for c in ((wide // 2, wide) if is_few else (wide, wide // 2))]


def _candidates(machine: Machine, elem: Scalar, k: int) -> Iterator[ProductTile]:
    step = max(LEAST_SIDE, min(ROW_BYTES // max(1, elem.bytes), power_of_two(k)))
    for m, n, warps, _ in _table(machine, elem):
        if elem.bytes > 4 and m * n > 64 * 64:  # an accumulator of 8 bytes an element
            continue
        stage = (m + n) * step * elem.bytes
        stages = max(1, min(4, (machine.shared_bytes - 8192) // stage, -(-k // step)))
        yield ProductTile(m, n, step, warps, stages)


def _table(machine: Machine, elem: Scalar) -> Rates:
    costs = machine.gpu.uncopied
    return costs.narrow if elem.bytes <= 2 else costs.wide


def _cost(machine: Machine, elem: Scalar, tile: ProductTile, p: Product) -> float:
    tiles = -(-p.m // tile.m) * -(-p.n // tile.n) * p.batch
    waves = -(-tiles // machine.multiprocessors)
    rate = next(r for tm, tn, _, r in _table(machine, elem) if (tm, tn) == (tile.m, tile.n))
    return waves * tile.m * tile.n / rate
