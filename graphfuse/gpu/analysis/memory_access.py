"""What one warp's memory instruction costs: vector width, shared-memory wavefronts, global-memory sectors.

Everything follows from layouts; no op is looked at. Shared memory has 32 banks of 4 bytes. A request of 8 or 16
bytes per lane is served by half or quarter warps (CUDA programming guide, "Shared Memory").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphfuse.gpu.analysis.axis_facts import power_of_two
from graphfuse.ir.layout import BLOCK, LANE, REGISTER, WARP, Echelon, LinearLayout, log2

BANKS = 32
"""Of shared memory, each of which serves one word in a cycle."""
BANK_BYTES = 4
"""A word."""
SECTOR_BYTES = 32
"""Of global memory: the least that is moved."""
MAX_VECTOR_BYTES = 16
"""Of one thread's access."""


@dataclass(frozen=True, slots=True)
class SharedAccess:
    """One thread's elements in shared memory, as vector instructions.

    `offsets` maps register, lane and warp to element offsets. Each of `groups` is one instruction: its registers
    in memory order, at an offset that is a multiple of their number in every thread.
    """

    offsets: LinearLayout
    groups: tuple[tuple[int, ...], ...]
    wavefronts: int
    """Cycles of the shared-memory pipe one such instruction takes."""
    ideal_wavefronts: int
    """What it would take if its bytes were spread evenly over the banks."""

    @property
    def vector(self) -> int:
        """Elements per instruction and lane."""
        return len(self.groups[0])

    @property
    def conflicts(self) -> int:
        """Wavefronts lost to bank conflicts by one instruction."""
        return self.wavefronts - self.ideal_wavefronts

    @property
    def total_wavefronts(self) -> int:
        """Wavefronts of one warp's whole tile."""
        return self.wavefronts * len(self.groups)


def bank_conflicts(shared: LinearLayout, access: LinearLayout, elem_bytes: int) -> SharedAccess:
    """How the threads of `access` read or write a tile that lies in memory as `shared`.

    One instruction stands for all: another register or warp XORs all offsets with a constant, which permutes the
    banks, and so does another half or quarter of the warp.
    """
    assert shared.is_bijective, f"{shared} is not a memory layout"
    offsets = access.distinct_registers().through(shared)
    # the widest aligned run of offsets that every thread owns; other lanes would disagree on the order within
    bits = log2(vector_width(offsets, MAX_VECTOR_BYTES, MAX_VECTOR_BYTES, elem_bytes))
    groups: dict[int, list[tuple[int, int]]] = {}
    for r in range(offsets.size(REGISTER)):
        at = offsets.flat(register=r)
        groups.setdefault(at >> bits, []).append((at, r))
    ordered = tuple(tuple(r for _, r in sorted(group)) for group in groups.values())
    vector_bytes = elem_bytes << bits
    lanes = offsets.size(LANE)
    together = max(1, min(lanes, BANKS * BANK_BYTES // max(BANK_BYTES, vector_bytes)))
    words = {
        (offsets.flat(lane=lane) * elem_bytes + byte) // BANK_BYTES
        for lane in range(together)
        for byte in range(0, vector_bytes, min(BANK_BYTES, vector_bytes))
    }
    per_bank = [0] * BANKS
    for word in words:
        per_bank[word % BANKS] += 1
    phases = lanes // together
    return SharedAccess(offsets, ordered, phases * max(per_bank), phases * -(-len(words) // BANKS))


def vector_width(
    layout: LinearLayout, contiguity: int, divisibility: int, elem_bytes: int, axis: int | None = None
) -> int:
    """Elements per instruction for a tile whose addresses run by one along `axis` (default: the last dim).

    Runs of `contiguity` elements are consecutive in memory and begin at multiples of `divisibility` elements; the
    layout must give each thread such runs, aligned within the tile.
    """
    bits = layout.out_bits
    axis = len(layout.outs) - 1 if axis is None else axis
    shift = sum(b for _, b in layout.outs[axis + 1 :])
    length = layout.outs[axis][1]
    own = Echelon(layout.bases(REGISTER))
    others = [b for name in (LANE, WARP, BLOCK) for b in layout.bases(name)]
    limit = min(power_of_two(contiguity), power_of_two(divisibility), MAX_VECTOR_BYTES // elem_bytes, 1 << bits)
    width = 1
    for i in range(length):
        unit = 1 << shift + i
        if width * 2 > limit or unit not in own or any(b & unit for b in others):
            break
        width *= 2
    return width


def sectors(
    layout: LinearLayout, strides: Sequence[int], elem_bytes: int, vector: int = 1, axis: int | None = None
) -> int:
    """Sectors touched by loading a tile with these strides, `vector` elements along `axis` at a time.

    The tile is taken to begin at a sector; copies held by several lanes ask for the same bytes.
    """
    layout = layout.distinct_registers()
    axis = len(layout.outs) - 1 if axis is None else axis
    run = (vector - 1) << sum(b for _, b in layout.outs[axis + 1 :])
    lanes = [layout.flat(lane=lane) for lane in range(layout.size(LANE))]
    total = 0
    for warp in range(layout.size(WARP)):
        groups: dict[int, list[int]] = {}
        for register in range(layout.size(REGISTER)):
            at = layout.flat(register=register, warp=warp)
            groups.setdefault(at & ~run, []).append(at)
        for group in groups.values():
            assert len(group) == vector, f"{layout} has no vectors of {vector} along dim {axis}"
            coordinates = (layout.coordinates(at ^ lane) for at in group for lane in lanes)
            starts = {sum(c * s for c, s in zip(xs, strides, strict=True)) * elem_bytes for xs in coordinates}
            total += len({start // SECTOR_BYTES for start in starts})
    return total
