"""What a launch did: instruction mix, memory traffic, bank conflicts, a roofline."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from graphfuse.findings import Finding
from graphfuse.gpu.emulator.types import Array

H200_BYTES_PER_SECOND = 4.3e12
"""Copy bandwidth as measured (docs/benchmarks-gpu.md), not the data sheet's 4.8e12."""
H200_FLOPS = {"f16": 790e12, "bf16": 790e12, "tf32": 395e12, "e4m3": 1580e12, "s8": 1580e12, "f32": 60e12, "f64": 60e12}
"""What matrix and plain units sustain, by operand type."""


@dataclass(slots=True)
class Traffic:
    """Accesses of one instruction: warp-wide requests, what they cost, and what they would cost at best.

    Costs are 32-byte sectors in global memory, 128-byte wavefronts in shared memory.
    """

    line: int
    text: str
    space: str
    requests: int = 0
    cost: int = 0
    ideal: int = 0
    bytes: int = 0

    def add(self, requests: int, nbytes: int, cost: int, ideal: int) -> None:
        """More accesses."""
        self.requests, self.bytes = self.requests + requests, self.bytes + nbytes
        self.cost, self.ideal = self.cost + cost, self.ideal + ideal

    @property
    def per_request(self) -> float:
        """Sectors or wavefronts of one request, on average."""
        return self.cost / max(self.requests, 1)


@dataclass(slots=True)
class Report:
    """Counts of one launch. Instructions count once per warp; flops and bytes count what lanes did."""

    kernel: str
    warps: int = 0
    instructions: dict[str, int] = field(default_factory=dict[str, int])
    traffic: list[Traffic] = field(default_factory=list[Traffic])
    flops: dict[str, float] = field(default_factory=dict[str, float])
    bulk_bytes: int = 0
    notes: list[Finding] = field(default_factory=list[Finding])
    """What is odd, and not wrong."""
    printed: str = ""
    """What `vprintf` printed."""
    seconds: float = 0.0

    def count_flops(self, kind: str, flops: float) -> None:
        """More work of this operand type."""
        self.flops[kind] = self.flops.get(kind, 0.0) + flops

    @property
    def total_instructions(self) -> int:
        """Warp instructions executed."""
        return sum(self.instructions.values())

    @property
    def conflicts(self) -> list[Traffic]:
        """Shared-memory instructions that need more wavefronts than their bytes do."""
        return [t for t in self.traffic if t.space == "shared" and t.cost > t.ideal]

    @property
    def uncoalesced(self) -> list[Traffic]:
        """Global-memory instructions that touch more sectors than their bytes fill."""
        return [t for t in self.traffic if t.space == "global" and t.cost > t.ideal]

    @property
    def global_bytes(self) -> int:
        """Sectors moved by loads and stores, in bytes, and what bulk copies moved: caches are not modelled."""
        return 32 * sum(t.cost for t in self.traffic if t.space == "global") + self.bulk_bytes

    @property
    def roofline_seconds(self) -> float:
        """A lower bound on an H200: bytes at copy bandwidth or flops at the rate of their type, the larger."""
        compute = sum(n / H200_FLOPS.get(kind, H200_FLOPS["f32"]) for kind, n in self.flops.items())
        return max(compute, self.global_bytes / H200_BYTES_PER_SECOND)

    def __str__(self) -> str:
        mix = ", ".join(f"{n} {name}" for name, n in sorted(self.instructions.items(), key=lambda kv: -kv[1])[:8])
        flops = ", ".join(f"{n:.3g} {kind}" for kind, n in self.flops.items()) or "none"
        lines = [
            f"{self.kernel}: {self.warps} warps, {self.total_instructions} warp instructions ({mix})",
            f"flops {flops}; {self.global_bytes} bytes of global memory; at least {self.roofline_seconds * 1e6:.3g} us",
        ]
        lines += [
            f"line {t.line}: {t.per_request:.2f} {'wavefronts' if t.space == 'shared' else 'sectors'} per request, "
            f"{t.ideal / max(t.requests, 1):.2f} at best: {t.text}"
            for t in (*self.conflicts, *self.uncoalesced)
        ]
        return "\n".join(lines + [str(note) for note in self.notes])


def sectors(addresses: Array, mask: Array, nbytes: int) -> tuple[int, int]:
    """32-byte sectors that warps touch, and would if lanes were contiguous.

    Addresses are [warps, lanes], aligned to `nbytes` (at most 32).
    """
    return _distinct(addresses >> 5, mask), int((-(-mask.sum(1) * nbytes // 32)).sum())


def _distinct(keys: Array, mask: Array) -> int:
    return int(_first_of_each(keys, mask)[1].sum())


def _first_of_each(keys: Array, mask: Array) -> tuple[Array, Array]:
    """The keys of each row in order, and which of them are others than those before."""
    none = np.iinfo(np.int64).max
    ordered = np.sort(np.where(mask, keys, none), axis=1)
    first = ordered != none
    first[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    return ordered, first


def wavefronts(addresses: Array, mask: Array, nbytes: int) -> tuple[int, int]:
    """What a shared access costs and the least it could: [groups, lanes], one word per bank and wavefront.

    64-bit accesses are served by half warps and 128-bit ones by quarter warps, each without conflict if its words
    are in different banks.
    """
    words = max(nbytes // 4, 1)
    group = 32 // words
    a = (addresses >> 2).reshape(-1, group)[..., None] + np.arange(words)
    active = np.repeat(mask.reshape(-1, group)[..., None], words, axis=2)
    a, active = a.reshape(len(a), -1), active.reshape(len(a), -1)
    keys, first = _first_of_each(a, active)
    banks = (keys & 31) + 32 * np.arange(len(keys))[:, None]
    per_bank = np.bincount(banks[first], minlength=32 * len(keys)).reshape(-1, 32)
    cost = per_bank.max(1)
    distinct = first.sum(1)
    return int(cost.sum()), int((-(-distinct // 32)).sum())
