"""How many warpgroups share a tile, how registers and shared memory are dealt out."""

from __future__ import annotations

import math
from dataclasses import dataclass

from graphfuse.gpu.transforms.hopper.epilogue import Declined
from graphfuse.gpu.transforms.hopper.match import Product
from graphfuse.ir.core import Func, attr_int

SHARED_BYTES = 227 << 10
"""Of one block; all of a multiprocessor's, but for 1 KB that it keeps for each block."""
RESERVED_BYTES = 1 << 10
"""Of shared memory, that the system keeps for each block."""
BARRIER_BYTES = 512
"""Room for all barriers of a kernel."""
ALIGNMENT = 1024
"""Of a tile with swizzled lines of 128 bytes: its pattern repeats after eight."""
MOST_STAGES = 12
"""More on the way hide no more of the way to memory."""
ENOUGH_STAGES = 4
"""For two staging buffers a warp: with one, it waits for each store to be read before the next."""
MOST_ACCUMULATORS = 192
"""32-bit registers of a thread for the tile; beyond, the epilogue has too few left."""
PANEL = 128
"""Bytes of the widest swizzle: what a staging buffer's row has, if the tile is wide enough."""
LINE = 512
"""Bytes of a row in the staging buffers that threads store, of all stores: each end is a sector written twice."""
REGISTERS = {1: (), 2: (232, 40), 3: (160, 32)}
"""By consumer warpgroups: registers of a consumer's thread and of a producer's."""


@dataclass(frozen=True, slots=True)
class Config:
    """`groups` groups of `warpgroups` warpgroups each make tiles; all of a group's warpgroups share one."""

    groups: int
    warpgroups: int
    stages: int
    persistent: int
    """Blocks for each multiprocessor, or 0: one for each program, dealt out by the hardware as others end."""
    store_buffers: int
    """Staging buffers of a warp."""
    registers: tuple[int, ...]
    """Of a consumer's thread and of a producer's; () where all have as many."""

    @property
    def consumers(self) -> int:
        """Warpgroups that make products."""
        return self.groups * self.warpgroups


def choose(
    func: Func, product: Product, store_bytes: int, chunks: int, room_bytes: int = 0, buffers: int = 2
) -> Config:
    """From the tile, and the attributes `schedule` (cooperative or pingpong), `ring`, `persistent`, `store_buffers`.

    A warp stages 16 rows of `chunks` chunks of columns one after another, `store_bytes` for each, in `buffers` if there
    is room. `room_bytes` of shared memory are for something else.
    """
    rows, columns = product.acc.shape
    if rows not in (64, 128, 256) or columns % 8 or not 8 <= columns <= 256:
        raise Declined(f"no wgmma for a tile of {rows}x{columns}")
    pingpong = func.attrs.get("schedule", "cooperative") == "pingpong" and product.trips is not None
    warpgroups = attr_int(func, "warpgroups", 1 if pingpong or rows == 64 else 2)
    groups = 2 if pingpong else 1
    accumulators = product.accumulated // (warpgroups * 128)
    if accumulators > MOST_ACCUMULATORS:
        raise Declined(f"{accumulators} accumulators in a thread")
    per_multiprocessor = attr_int(func, "persistent", 1)
    beside = max(per_multiprocessor, attr_int(func, "resident", 1))
    registers: tuple[int, ...] = REGISTERS.get(groups * warpgroups, ())
    if registers and accumulators > 128:
        registers = (240, 24)
    if beside > 1:
        registers = ()
    room = (SHARED_BYTES + RESERVED_BYTES) // beside - RESERVED_BYTES - BARRIER_BYTES
    room -= -(-room_bytes // ALIGNMENT) * ALIGNMENT
    boxes, staged = chunks * (rows // (64 * warpgroups)), 4 * groups * warpgroups * store_bytes

    def stages(buffers: int) -> int:
        left = room - -(-staged * buffers // ALIGNMENT) * ALIGNMENT
        return min(attr_int(func, "ring", MOST_STAGES), left // product.step_bytes)

    buffers = attr_int(func, "store_buffers", buffers if stages(buffers) >= ENOUGH_STAGES else 1)
    while boxes % buffers:  # every tile begins with the first buffer
        buffers -= 1
    if stages(buffers) < 2:
        raise Declined(f"shared memory has room for less than 2 stages of {product.step_bytes} bytes")
    return Config(groups, warpgroups, stages(buffers), per_multiprocessor, buffers, registers)


def chunk_width(columns: int, elem_bytes: int) -> int:
    """Columns that the epilogue takes at a time: a power of two that divides the tile's, a panel wide at most."""
    return min(PANEL // elem_bytes, columns & -columns)


def line_width(columns: int, elem_bytes: int, stores: int = 1) -> int:
    """The same where none is by TMA: what divides the tile's, in sixteens if it is; of all stores a line at most."""
    widths = (columns // n for n in range(1, columns + 1) if columns % n == 0)
    return next(w for w in widths if w * elem_bytes * stores <= LINE and w % math.gcd(16, columns) == 0)


def part_width(accumulators: int) -> int:
    """Columns that the epilogue computes at a time: few, where the product leaves few registers."""
    return 16 if accumulators > 96 else 32


def read_ahead(accumulators: int, *, rows_and_erf: bool = False, in_lines: bool = False) -> int:
    """Registers of a thread for what the epilogue reads: those that the product leaves, and some for arithmetic.

    With `rows_and_erf` it reads rows alone, such as a bias, and computes `erf`. That has two polynomials on the way at
    once, and takes so long that few parts need be read ahead; with all of them there the assembler spills. Threads that
    store lines themselves have 16 less.
    """
    room = 16 if accumulators > 128 else 48 if accumulators <= 96 else 8 if rows_and_erf else 32
    return max(0, room - 16) if in_lines else room
