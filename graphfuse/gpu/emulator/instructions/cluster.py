"""Addresses in a cluster: mapa, getctarank (PTX ISA 9.7.9). A shared address has its CTA's rank from bit 24."""

from __future__ import annotations

import numpy as np

from graphfuse.gpu.emulator.decode import SHARED_WINDOW, Decoder, full, instruction
from graphfuse.gpu.emulator.gang import Gang, Step


@instruction("mapa", mods="shared::cluster")
def mapa(d: Decoder) -> Step:
    """mapa: the same place in another CTA's shared memory."""
    ops, kind = d.operands(3), d.type()
    base = 0 if "shared::cluster" in d.mods else SHARED_WINDOW
    read, rank, put = d.source_or_address(ops[1], kind), d.source(ops[2], "u32"), d.sink(ops[0])
    size = d.machine.layout.ctas_per_cluster

    def step(g: Gang) -> None:
        to = full(g, rank(g)).astype(np.int64)
        ranks = g.flat(to)
        g.refuse(ranks >= size, lambda row: f"CTA rank {int(ranks[row])} in a cluster of {size}")
        address = full(g, read(g)).astype(np.int64)
        put(g, (base + ((address - base) & 0xFFFFFF) + (to << 24)).astype(kind.dtype))

    return step


@instruction("getctarank", mods="shared::cluster")
def getctarank(d: Decoder) -> Step:
    """getctarank: whose shared memory an address is in."""
    return d.compute(lambda x: (x.astype(np.int64) >> 24 & 0xFFFF).astype(np.uint32), d.type())
