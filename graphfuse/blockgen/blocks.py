"""How much of a contraction one program makes: panels, rows, and places of dims for which a panel is the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphfuse.blockgen.evaluate import accumulator
from graphfuse.blockgen.kernel import element_of, positions
from graphfuse.blockgen.products import FOUR
from graphfuse.blockgen.tiling import Slabs
from graphfuse.blockgen.words import FASTER
from graphfuse.symbolic import Dim, bounds, ceildiv, product

if TYPE_CHECKING:
    from graphfuse.blockgen.contraction import ContractionKernel

# Constants were chosen by `python -m benchmarks.cpu_products`, with AVX-512 and without.

PACKED_ROWS = 256
"""A panel is packed for so many rows, if there are as many: that takes as long as some 14 of them."""
PACKED_PANELS = 4
"""Rows of lhs are packed for so many panels."""
TOGETHER = 8
"""Panels that a program multiplies a slab of its rows with, if there are as many."""
FEW_TILES = 4
"""Tiles of rows that a program has at least where there would be too few programs; twice that where it packs panels."""
PROGRAMS = 8
"""Programs that a product is cut into, so that threads share it."""
EVENLY = 4
"""Threads of which none has a program more than the others."""
PROGRAM_NS = 40_000
"""Of work for a program: below, what it packs and starts takes too much of it."""


def program_of(contraction: ContractionKernel, panels: Dim, depth: Dim) -> tuple[int, int | None]:
    """(panels per program, rows per program; None for all rows)."""
    work, height, machine = contraction.work, contraction.tile.rows, contraction.kernel.machine
    if contraction.slabs is not None:
        return _program_of_slabs(contraction, contraction.slabs, panels)
    if not contraction.contiguous:
        return 1, None
    bytes_per = element_of(work.rhs).bytes
    known_depth = depth if isinstance(depth, int) else 1024
    known_rows = contraction.rows if isinstance(contraction.rows, int) else 1 << 30
    # about 20 microseconds of work, in whole tiles
    tile_ns = max(1.0, height * known_depth * contraction.width / products_per_ns(contraction))
    fit = machine.l2_bytes // 2 // max(1, known_depth * contraction.width * bytes_per)
    if isinstance(panels, int) and fit > 1:
        together = -(-panels // -(-panels // fit))
        rows = max(1, round(20_000 / (tile_ns * together))) * height
        return together, (None if known_rows <= rows else rows)
    # one panel: as many rows as keep lhs in half the second-level cache
    cached = max(1, machine.l2_bytes // 2 // (known_depth * bytes_per * height)) * height
    cached = max(cached, height * 4)
    return 1, (None if known_rows <= cached else cached)


def _program_of_slabs(contraction: ContractionKernel, slabs: Slabs, panels: Dim) -> tuple[int, int | None]:
    """The same where a slab of the rows and the sums of a program stay in the second-level cache together."""
    assert isinstance(panels, int)
    assert isinstance(contraction.rows, int)
    work, height = contraction.work, contraction.tile.rows
    together = min(panels, TOGETHER)
    sums = together * contraction.width * accumulator(element_of(work.result)).bytes
    line = slabs.total * element_of(work.lhs).bytes + sums
    tiles = -(-contraction.rows // height)
    blocks = -(-tiles // max(1, contraction.kernel.machine.l2_bytes // (line * height)))
    groups = -(-panels // together)
    blocks = _cut(contraction, groups, blocks, tiles // (2 * FEW_TILES if contraction.packs else FEW_TILES))
    groups = _cut(contraction, blocks, groups, panels // (PACKED_PANELS if contraction.packs_rows else 2))
    return -(-panels // groups), (None if blocks == 1 else -(-tiles // blocks) * height)


def _cut(contraction: ContractionKernel, others: int, least: int, most: int) -> int:
    """Into how many parts a dim is cut, where `others` are: at most so many more than it must be for threads."""
    work = positions(contraction.domain) * product(contraction.extents)
    outer = product([contraction.dims[i].extent for i in contraction.outer])
    if not isinstance(work, int) or not isinstance(outer, int):
        return least
    count = outer * others
    wanted = min(PROGRAMS, work // (products_per_ns(contraction) * PROGRAM_NS))
    cut = max(least, min(most, -(-wanted // max(1, count))))
    whole = (n for n in range(cut, min(most + 1, cut + EVENLY)) if n * count % EVENLY == 0)
    return next(whole, cut) if wanted == PROGRAMS else cut


def places_of(contraction: ContractionKernel) -> int:
    """How many places of the shared dims one program takes: a panel that is packed serves them all."""
    places = positions([contraction.dims[i].extent for i in contraction.shared])
    rows = bounds(contraction.rows, contraction.kernel.space.ranges)[0]
    most = ceildiv(PACKED_ROWS, max(1, rows))
    assert isinstance(most, int)
    if not isinstance(places, int):
        return most
    return -(-places // -(-places // most)) if places else 1


def products_per_ns(contraction: ContractionKernel) -> int:
    """Roughly, at three vectors a nanosecond."""
    faster = FOUR if contraction.in_fours else 1 if contraction.words is None else FASTER
    return contraction.kernel.machine.lanes(element_of(contraction.work.result)) * 3 * faster
