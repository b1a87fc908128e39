"""Layouts in which running sums are cheap: what a warp holds of a line is one piece, and one total of it is shared.

Along contiguous memory a thread has a vector, the lanes of a warp follow, then more vectors, then warps. Where the axis
lies across, lanes are neighbouring lines, and a thread has a piece of each of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphfuse.ir.layout import LANE, REGISTER, WARP, LinearLayout, log2, tile_outs

LANE_BITS = 5
"""A warp has 32 lanes."""


def scan_layout(shape: Sequence[int], axis: int, width: int, warps: int) -> LinearLayout:
    """For a scan along `axis` of a tile, `width` neighbours of it in memory in each thread; sizes are powers of two."""
    bits = [log2(n) for n in shape]
    below = [sum(bits[d + 1 :]) for d in range(len(shape))]
    along = [1 << below[axis] + i for i in range(bits[axis])]
    others = [1 << below[d] + i for d in reversed(range(len(shape))) if d != axis for i in range(bits[d])]
    if axis == len(shape) - 1:
        register, lane, warp = _lines(along, others, log2(width), log2(warps))
    else:
        register, lane, warp = _columns(along, others, log2(width), log2(warps))
    lane += [0] * (LANE_BITS - len(lane))
    warp += [0] * (log2(warps) - len(warp))
    return LinearLayout.of({REGISTER: register, LANE: lane, WARP: warp}, tile_outs(shape))


Bases = list[int]


def _lines(along: Bases, others: Bases, width: int, warps: int) -> tuple[Bases, Bases, Bases]:
    """What registers, lanes and warps move where the axis is contiguous."""
    register, along = along[:width], along[width:]
    lane, along = along[:LANE_BITS], along[LANE_BITS:]
    spare = LANE_BITS - len(lane)
    lane, others = [*lane, *others[:spare]], others[spare:]
    warp, others = others[:warps], others[warps:]
    rest = min(warps - len(warp), len(along))
    along, top = along[: len(along) - rest], along[len(along) - rest :]
    return [*register, *along, *others], lane, [*top, *warp]


def _columns(along: Bases, others: Bases, width: int, warps: int) -> tuple[Bases, Bases, Bases]:
    """The same where neighbours in memory are other lines: as many of the axis as can be are in registers.

    Where there is a line for each thread it has all of it, before vectors of neighbours.
    """
    if (spare := len(others) - LANE_BITS - warps) >= 0:
        width = min(width, spare)
        warps_of_lines = others[width + LANE_BITS : width + LANE_BITS + warps]
        lane = others[width : width + LANE_BITS]
        return [*others[:width], *along, *others[width + LANE_BITS + warps :]], lane, warps_of_lines
    register, others = others[:width], others[width:]
    lane, others = others[:LANE_BITS], others[LANE_BITS:]
    spare = LANE_BITS - len(lane)
    own = max(0, len(along) - spare - warps)
    register, along = [*register, *along[:own]], along[own:]
    lane, along = [*lane, *along[:spare]], along[spare:]
    rest = warps - len(along)
    return [*register, *others[rest:]], lane, [*along, *others[:rest]]


def owners(layout: LinearLayout, axis: int) -> list[tuple[str, int]] | None:
    """Which bit of which input moves each bit of the axis, the lowest first; None if a scan cannot work so.

    Warps must own one run of bits, what moves the axis must move nothing else, and registers must hold no copies.
    """
    if layout.free_masks().get(REGISTER, 0):
        return None
    shift = sum(b for _, b in layout.outs[axis + 1 :])
    size = layout.outs[axis][1]
    mask = (1 << size) - 1 << shift
    found: dict[int, tuple[str, int]] = {}
    for name in (REGISTER, LANE, WARP):
        for i, base in enumerate(layout.bases(name)):
            if not base & mask:
                continue
            bit = (base >> shift).bit_length() - 1
            if base != 1 << shift + bit or bit in found:
                return None
            found[bit] = (name, i)
    if len(found) != size:
        return None
    out = [found[i] for i in range(size)]
    by_warps = [i for i, (name, _) in enumerate(out) if name == WARP]
    return out if not by_warps or by_warps[-1] - by_warps[0] + 1 == len(by_warps) else None
