"""Addresses in a cluster: mapa, getctarank (PTX ISA 9.7.9). A shared address has its CTA's rank from bit 24."""

from __future__ import annotations

import numpy as np

from graphfuse.gpu.emulator.decode import SHARED_WINDOW, Decoder, full
from graphfuse.gpu.emulator.gang import Gang, Step
from graphfuse.gpu.emulator.parse import Operand


def mapa(d: Decoder) -> Step:
    """mapa: the same place in another CTA's shared memory."""
    d.only(("shared::cluster",))
    ops = d.operands(3)
    kind = d.type()
    generic = "shared::cluster" not in d.mods
    if ops[1].kind == "sym":
        read = d.address(Operand("mem", items=(Operand("sym", ops[1].name),), number=ops[1].number))
    else:
        read = d.source(ops[1], kind)
    rank, put, machine = d.source(ops[2], "u32"), d.sink(ops[0]), d.machine

    def step(g: Gang) -> None:
        to = full(g, rank(g)).astype(np.int64)
        size = machine.layout.ctas_per_cluster
        if (bad := (to >= size) & g.mask).any():
            row, lane = np.argwhere(bad)[0].tolist()
            message = f"CTA rank {int(to[row, lane])} in a cluster of {size}"
            raise machine.error(message, g.pc, int(g.warps[row]), lane)
        address = full(g, read(g)).astype(np.int64)
        base = SHARED_WINDOW if generic else 0
        put(g, (base + ((address - base) & 0xFFFFFF) + (to << 24)).astype(kind.dtype))

    return step


def getctarank(d: Decoder) -> Step:
    """getctarank: whose shared memory an address is in."""
    d.only(("shared::cluster",))
    ops = d.operands(2)
    read, put = d.source(ops[1], d.type()), d.sink(ops[0])
    return lambda g: put(g, (read(g).astype(np.int64) >> 24 & 0xFFFF).astype(np.uint32))


TABLE = {"mapa": mapa, "getctarank": getctarank}
