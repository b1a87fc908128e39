"""The shape of a launch: grid, CTAs, clusters, how many are resident, and what the special registers hold."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from graphfuse.gpu.emulator.gang import FULL, LANES
from graphfuse.gpu.emulator.types import Array

Triple = tuple[int, int, int]
MAX_RESIDENT_WARPS = 256
"""Beyond, arrays are long enough for numpy, and blocks run one after another."""
MAX_WAITING_WARPS = 2048
"""Of kernels whose blocks may wait for each other, all of which have to run then. What they know grows as a square."""
MAX_RESIDENT_SHARED = 8 << 20
"""Of all resident blocks: their shadow takes several times as much."""
MBARRIERS = 64
"""Of a block: each has a clock, which others know until some time."""
MAX_REGISTER_BYTES = 256 << 20
"""Of all resident blocks."""


@dataclass
class Layout:
    """Rows of all per-warp arrays are warps of resident CTAs: `slot * warps_per_cta + warp`."""

    grid: Triple
    block: Triple
    cluster: Triple
    shared_bytes: int
    dynamic_shared: int
    local_bytes: int
    unit: int
    """Of shared memory's shadow, in bytes."""
    heap_unit: int
    register_bytes: int
    has_wgmma: bool
    has_bulk_stores: bool
    has_mbarriers: bool
    ordered: bool
    """Whether blocks may wait for one another through global memory."""

    @cached_property
    def threads(self) -> int:
        """Threads of a CTA."""
        return int(np.prod(self.block))

    @cached_property
    def warps_per_cta(self) -> int:
        """Warps of a CTA, the last maybe partial."""
        return -(-self.threads // LANES)

    @cached_property
    def ctas_per_cluster(self) -> int:
        """CTAs of a cluster."""
        return int(np.prod(self.cluster))

    @cached_property
    def warps_per_cluster(self) -> int:
        """Warps of a cluster."""
        return self.warps_per_cta * self.ctas_per_cluster

    @cached_property
    def groups_per_cluster(self) -> int:
        """Warpgroups that can have wgmmas in flight."""
        return -(-self.warps_per_cta // 4) * self.ctas_per_cluster if self.has_wgmma else 0

    @cached_property
    def readers(self) -> int:
        """Agents that read shared memory: warps, warpgroups, bulk stores."""
        return self.warps_per_cluster * (2 if self.has_bulk_stores else 1) + self.groups_per_cluster

    @cached_property
    def mbarriers(self) -> int:
        """How many a cluster may have at once."""
        return MBARRIERS * self.ctas_per_cluster if self.has_mbarriers else 0

    @cached_property
    def clusters(self) -> int:
        """Clusters of the grid."""
        return int(np.prod(self.grid)) // self.ctas_per_cluster

    @cached_property
    def shared_stride(self) -> int:
        """Bytes from one slot's shared memory to the next."""
        return -(-max(self.shared_bytes, 16) // 1024) * 1024

    @cached_property
    def local_stride(self) -> int:
        """Bytes from one thread's local memory to the next."""
        return -(-self.local_bytes // 32) * 32

    @cached_property
    def resident_clusters(self) -> int:
        """How many clusters run at once."""
        by_warps = (MAX_WAITING_WARPS if self.ordered else MAX_RESIDENT_WARPS) // self.warps_per_cluster
        by_shared = MAX_RESIDENT_SHARED // (self.shared_stride * self.ctas_per_cluster)
        by_registers = MAX_REGISTER_BYTES // (self.register_bytes * LANES * self.warps_per_cluster + 1)
        return max(1, min(self.clusters, by_warps, by_shared, by_registers))

    @cached_property
    def resident_ctas(self) -> int:
        """How many CTAs run at once."""
        return self.resident_clusters * self.ctas_per_cluster

    @cached_property
    def resident_warps(self) -> int:
        """How many warps run at once."""
        return self.resident_ctas * self.warps_per_cta

    def slot_of(self, warp: int) -> int:
        """The slot of a warp's CTA."""
        return warp // self.warps_per_cta

    def warps_of(self, slot: int) -> slice:
        """The rows of a CTA's warps."""
        return slice(slot * self.warps_per_cta, (slot + 1) * self.warps_per_cta)

    def mask_of_warp(self, warp: int) -> Array:
        """The lanes that a warp starts with."""
        first = warp % self.warps_per_cta * LANES
        return FULL if first + LANES <= self.threads else np.arange(first, first + LANES) < self.threads

    def cta_of(self, first_cluster: int, slot: int) -> Triple:
        """The coordinates in the grid of the CTA in a slot."""
        cluster, rank = divmod(slot, self.ctas_per_cluster)
        counts = tuple(g // c for g, c in zip(self.grid, self.cluster, strict=True))
        at, inside = _unravel(first_cluster + cluster, counts), _unravel(rank, self.cluster)
        x, y, z = (a * c + i for a, c, i in zip(at, self.cluster, inside, strict=True))
        return x, y, z

    def set_special(self, special: dict[str, Array], ctas: list[Triple]) -> None:
        """Fill in the special registers for these CTAs."""
        warps, per_cta = self.resident_warps, self.warps_per_cta
        thread = (np.arange(warps) % per_cta)[:, None] * LANES + np.arange(LANES)
        slots = np.minimum(np.arange(warps) // per_cta, len(ctas) - 1)
        bx, by, _ = self.block
        values: dict[str, Array] = {
            "%tid.x": thread % bx,
            "%tid.y": thread // bx % by,
            "%tid.z": thread // (bx * by),
            "%laneid": np.arange(LANES)[None],
            "%warpid": (np.arange(warps) % per_cta)[:, None],
            "%nwarpid": np.array([[64]]),
            "%smid": (slots % 132)[:, None],
            "%nsmid": np.array([[132]]),
            "%gridid": np.array([[1]]),
            "%cluster_ctarank": (slots % self.ctas_per_cluster)[:, None],
            "%cluster_nctarank": np.array([[self.ctas_per_cluster]]),
            "%is_explicit_cluster": np.array([[int(self.ctas_per_cluster > 1)]]),
            "%dynamic_smem_size": np.array([[self.dynamic_shared]]),
            "%total_smem_size": np.array([[self.shared_bytes]]),
            "%aggr_smem_size": np.array([[self.shared_bytes + 1024]]),
        }
        at = np.array(ctas)[slots]
        for axis, name in enumerate("xyz"):
            block, grid, cluster = self.block[axis], self.grid[axis], self.cluster[axis]
            values[f"%ntid.{name}"] = np.array([[block]])
            values[f"%ctaid.{name}"] = at[:, axis, None]
            values[f"%nctaid.{name}"] = np.array([[grid]])
            values[f"%clusterid.{name}"] = (at[:, axis] // cluster)[:, None]
            values[f"%nclusterid.{name}"] = np.array([[grid // cluster]])
            values[f"%cluster_ctaid.{name}"] = (at[:, axis] % cluster)[:, None]
            values[f"%cluster_nctaid.{name}"] = np.array([[cluster]])
        lane = np.arange(LANES, dtype=np.uint64)[None]
        one = np.uint64(1)
        values["%lanemask_eq"] = one << lane
        values["%lanemask_lt"] = (one << lane) - one
        values["%lanemask_le"] = (one << (lane + one)) - one
        values["%lanemask_ge"] = 0xFFFFFFFF - values["%lanemask_lt"]
        values["%lanemask_gt"] = 0xFFFFFFFF - values["%lanemask_le"]
        for name, value in values.items():
            full = np.broadcast_to(value, (warps, LANES)).astype(np.uint32)
            special.setdefault(name, full)[...] = full


def _unravel(index: int, extents: tuple[int, ...]) -> tuple[int, int, int]:
    x, y, _ = extents
    return index % x, index // x % y, index // (x * y)
