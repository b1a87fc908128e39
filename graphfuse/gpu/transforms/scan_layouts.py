"""Layouts in which running sums are cheap: a thread's vector, the lanes of a warp, more vectors, and then warps.

So what a warp holds of a line is one piece, and only one total of each warp goes through shared memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphfuse.ir.layout import LANE, REGISTER, WARP, LinearLayout, log2, tile_outs

LANE_BITS = 5
"""A warp has 32 lanes."""


def scan_layout(shape: Sequence[int], axis: int, width: int, warps: int) -> LinearLayout:
    """For a scan along `axis` of a tile, `width` elements of it in a row in each thread; sizes are powers of two."""
    bits = [log2(n) for n in shape]
    below = [sum(bits[d + 1 :]) for d in range(len(shape))]
    along = [1 << below[axis] + i for i in range(bits[axis])]
    others = [1 << below[d] + i for d in reversed(range(len(shape))) if d != axis for i in range(bits[d])]
    warp_bits = log2(warps)
    register, along = along[: log2(width)], along[log2(width) :]
    lane, along = along[:LANE_BITS], along[LANE_BITS:]
    spare = LANE_BITS - len(lane)
    lane, others = [*lane, *others[:spare]], others[spare:]
    warp, others = others[:warp_bits], others[warp_bits:]
    rest = min(warp_bits - len(warp), len(along))
    along, top = along[: len(along) - rest], along[len(along) - rest :]
    warp = [*top, *warp]
    lane += [0] * (LANE_BITS - len(lane))
    warp += [0] * (warp_bits - len(warp))
    return LinearLayout.of({REGISTER: [*register, *along, *others], LANE: lane, WARP: warp}, tile_outs(shape))


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
