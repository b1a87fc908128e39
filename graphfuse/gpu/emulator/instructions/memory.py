"""ld, st and hints about caches (PTX ISA 9.7.9). Caches are not modelled."""

from __future__ import annotations

import re

import numpy as np

from graphfuse.gpu.emulator import access
from graphfuse.gpu.emulator.decode import Decoder, Sink, Source, full
from graphfuse.gpu.emulator.gang import Gang, Step, no_step
from graphfuse.gpu.emulator.heap import BASE
from graphfuse.gpu.emulator.parse import Instruction, Operand
from graphfuse.gpu.emulator.types import TYPES, UNSIGNED, Array

SPACES = ("global", "shared", "local", "const", "param")
SCOPES = ("cta", "cluster", "gpu", "sys")
STRONG = ("relaxed", "acquire", "release", "acq_rel", "volatile", "mmio")
_CACHE = ("ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "weak", "unified")


def space_of(i: Instruction) -> str:
    """The state space that an instruction names; constants and parameters are in the heap with global memory."""
    names = [m.split("::")[0] for m in i.mods]
    space = next((s for s in SPACES if s in names), "generic")
    return "global" if space in ("const", "param") else space


def check_modifiers(d: Decoder, more: tuple[str, ...] = ()) -> None:
    """Spaces, scopes, semantics, cache hints and vectors, and nothing else."""
    known = {
        *SPACES,
        "shared::cta",
        "shared::cluster",
        "param::entry",
        *SCOPES,
        *STRONG,
        *_CACHE,
        "v2",
        "v4",
        "v8",
        *more,
    }
    d.only(known | {m for m in d.mods if re.fullmatch(r"L[12]::\w+", m)})


def ld(d: Decoder) -> Step:
    """ld: scalars and vectors; narrow numbers extend to the register."""
    check_modifiers(d)
    ops = d.operands(2, 3)
    kind = d.type()
    parts = d.vector(ops[0])
    puts = [d.sink(p) for p in parts]
    if "param" in d.mods or "param::entry" in d.mods:
        base = ops[1].items[0]
        if base.kind == "sym":
            return _load_param(d, ops[1], parts)
        if not base.name.startswith("%"):
            return _move(d.source(base, kind), puts[0])
        return _load_param_at(d, ops[1], parts)
    address, space, machine = d.address(ops[1]), space_of(d.instruction), d.machine
    strong = any(m in STRONG for m in d.mods)
    acquires = space == "global" and "acquire" in d.mods and "gpu" in d.mods
    if kind.bits == 128:
        raise d.error("128-bit registers are not emulated: load .v2.b64")

    def step(g: Gang) -> None:
        loaded = access.load(machine, g, space, address(g), kind.bytes, len(puts), strong=strong)
        for k, put in enumerate(puts):
            value = np.ascontiguousarray(loaded[:, k])
            put(g, g.spread(value if value.dtype == kind.dtype else value.view(kind.dtype)))
        if acquires and machine.published:
            ctas = g.lane_warps // machine.layout.warps_per_cta
            machine.published.acquire(ctas, g.flat(address(g)) - BASE)

    return step


def _load_param(d: Decoder, operand: Operand, parts: tuple[Operand, ...]) -> Step:
    """A parameter that the instruction names."""
    kind, machine, base = d.type(), d.machine, operand.items[0]
    start = d.symbol(base) + operand.number - BASE
    puts = [d.sink(p) for p in parts]

    def step(g: Gang) -> None:
        raw = machine.heap.data[start : start + kind.bytes * len(puts)].view(kind.dtype)
        for k, put in enumerate(puts):
            put(g, raw[k : k + 1].reshape(1, 1))

    return step


def _load_param_at(d: Decoder, operand: Operand, parts: tuple[Operand, ...]) -> Step:
    """A parameter whose address is in a register: LLVM chooses between addresses rather than pointers."""
    kind, machine, address = d.type(), d.machine, d.address(operand)
    puts = [d.sink(p) for p in parts]

    def step(g: Gang) -> None:
        at = g.flat(address(g)) - machine.param_address
        size = max(machine.param_offsets.values(), default=0) + 8
        if ((at < 0) | (at + kind.bytes * len(puts) > size)).any():
            raise machine.error("ld.param of an address that is none of a parameter", g.pc, int(g.warps[0]))
        start = machine.param_address - BASE
        for k, put in enumerate(puts):
            values = np.stack([machine.heap.data[start + a + k * kind.bytes :][: kind.bytes] for a in at.tolist()])
            put(g, g.spread(np.ascontiguousarray(values).view(kind.dtype)[:, 0]))

    return step


def _move(read: Source, put: Sink) -> Step:
    """An argument or a result of a call, which is a register here."""

    def step(g: Gang) -> None:
        put(g, read(g))

    return step


def st(d: Decoder) -> Step:
    """st: scalars and vectors."""
    check_modifiers(d)
    ops = d.operands(2, 3)
    kind = d.type()
    if "param" in d.mods:
        return _move(d.source(ops[1], kind), d.sink(ops[0].items[0]))
    if kind.bits == 128:
        raise d.error("128-bit registers are not emulated: store .v2.b64")
    width = UNSIGNED[kind.bits]
    reads = [d.source(p, f"b{kind.bits}") for p in d.vector(ops[1])]
    address, space, machine = d.address(ops[0]), space_of(d.instruction), d.machine
    strong = any(m in STRONG for m in d.mods)
    releases = space == "global" and "release" in d.mods and "gpu" in d.mods

    def step(g: Gang) -> None:
        values = np.empty((int(g.mask.sum()), len(reads)), width)
        for k, read in enumerate(reads):
            values[:, k] = g.flat(full(g, read(g)))
        access.store(machine, g, space, address(g), values, strong=strong)
        if releases and machine.published:
            ctas = g.lane_warps // machine.layout.warps_per_cta
            machine.published.release(ctas, g.flat(address(g)) - BASE, update=False)

    return step


def hint(d: Decoder) -> Step:
    """prefetch and the like: nothing to see."""
    return no_step


def createpolicy(d: Decoder) -> Step:
    """createpolicy: some 64-bit number, which cache hints take."""
    put = d.sink(d.ops[0])
    policy: Array = np.array([[0x12F0000000000000]], np.uint64)

    def step(g: Gang) -> None:
        put(g, policy)

    return step


def narrowest(kernel_code: list[Instruction]) -> int:
    """Bytes of the kernel's narrowest access that may be to shared memory, at most 4: the unit of hazards."""
    widths = [4]
    for i in kernel_code:
        if i.name in ("ld", "st", "atom", "red") and space_of(i) in ("shared", "generic"):
            widths += [t.bytes for t in i.types if t.name in TYPES and t.bits >= 8]
    return min(widths)


TABLE = {
    "ld": ld,
    "st": st,
    "prefetch": hint,
    "prefetchu": hint,
    "applypriority": hint,
    "discard": hint,
    "createpolicy": createpolicy,
}
